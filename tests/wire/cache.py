"""A prompt cache by Anthropic's rules, on the server's side: entries at breakpoints, a look back of 20
blocks, a life that each use renews, and deletions of tool results that stay with an entry (L2.2).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

Json = dict[str, Any]

LOOK_BACK = 20
LIVES = {"5m": 300.0, "1h": 3600.0}


@dataclass(slots=True)
class Entry:
    """A cached prefix: when it ends, how long it lives, and which results were cut out of it."""

    ends: float
    life: float
    deleted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Part:
    """One tool, system block or message block, with the key of the prefix that it ends."""

    value: Json
    key: str
    tokens: int
    ttl: str | None  # of the breakpoint on it

    @property
    def result_of(self) -> str | None:
        return self.value.get("tool_use_id") if self.value.get("type") == "tool_result" else None


@dataclass(slots=True)
class PromptCache:
    """All entries of one server. `now` moves only by `advance`."""

    min_tokens: int = 0
    now: float = 0.0
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    seen: list[Json] = field(default_factory=list[Json])  # what the model was shown last

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def serve(self, body: Json) -> tuple[Json, Json]:
        """Usage of this request, and what became of its deletions."""
        parts = parts_of(body)
        marks = [index for index, part in enumerate(parts) if part.ttl]
        if len(marks) > 4:
            raise ValueError(
                f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
            )
        hit = self._longest_hit(parts, marks)
        old = self._use(parts, hit)
        wanted = {edit["tool_use_id"] for edit in body.get("cache_edits") or []}
        # Only what lies in the cached prefix can be cut out of it.
        cached = {part.result_of for part in parts[: hit + 1]}
        fresh = {name for name in wanted if name in cached} - old
        deleted = old | fresh
        self.seen = [_shown(part, deleted) for part in parts]
        sizes = [0 if part.result_of in deleted else part.tokens for part in parts]
        last = marks[-1] if marks else -1
        if sum(part.tokens for part in parts[: last + 1]) < self.min_tokens:
            last = -1
        self._write(parts, [mark for mark in marks if mark <= last], deleted)
        read, written = sum(sizes[: hit + 1]), sum(sizes[hit + 1 : last + 1])
        usage = {
            "input_tokens": sum(sizes) - read - written,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "cache_creation": _by_life(parts, sizes, hit, last),
            "output_tokens": 5,
        }
        cut = sum(part.tokens for part in parts if part.result_of in fresh)
        return usage, {"deleted": sorted(n for n in fresh if n), "deleted_tokens": cut}

    def _longest_hit(self, parts: list[Part], marks: list[int]) -> int:
        for mark in reversed(marks):
            for index in range(mark, max(-1, mark - LOOK_BACK - 1), -1):
                entry = self.entries.get(parts[index].key)
                if entry and entry.ends > self.now:
                    return index
        return -1

    def _use(self, parts: list[Part], hit: int) -> frozenset[str]:
        if hit < 0:
            return frozenset()
        entry = self.entries[parts[hit].key]
        entry.ends = self.now + entry.life
        return entry.deleted

    def _write(
        self, parts: list[Part], marks: list[int], deleted: frozenset[str] | set[str]
    ) -> None:
        for mark in marks:
            inside = {part.result_of for part in parts[: mark + 1]}
            life = LIVES[parts[mark].ttl or "5m"]
            kept = frozenset(name for name in deleted if name in inside)
            self.entries[parts[mark].key] = Entry(self.now + life, life, kept)


def parts_of(body: Json) -> list[Part]:
    """The prompt in its order: model, tools, system, messages."""
    parts: list[Part] = []
    key = sha256(str(body.get("model")).encode()).hexdigest()
    for role, value in _flat(body):
        bare = {name: item for name, item in value.items() if name != "cache_control"}
        data = json.dumps([role, bare], sort_keys=True).encode()
        key = sha256(key.encode() + data).hexdigest()
        mark = value.get("cache_control")
        ttl = mark.get("ttl", "5m") if mark else None
        parts.append(Part(bare, key, max(1, len(data) // 4), ttl))
    return parts


def _flat(body: Json) -> list[tuple[str, Json]]:
    flat = [("tool", tool) for tool in body.get("tools") or []]
    flat += [("system", block) for block in body.get("system") or []]
    for message in body["messages"]:
        said = message["content"]
        blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
        flat += [(message["role"], block) for block in blocks]
    return flat


def _shown(part: Part, deleted: frozenset[str] | set[str]) -> Json:
    return {**part.value, "content": "[deleted]"} if part.result_of in deleted else part.value


def _by_life(parts: list[Part], sizes: list[int], hit: int, last: int) -> Json:
    written = {"5m": 0, "1h": 0}
    start = hit + 1
    for index in range(hit + 1, last + 1):
        if ttl := parts[index].ttl:
            written[ttl] += sum(sizes[start : index + 1])
            start = index + 1
    return {
        "ephemeral_5m_input_tokens": written["5m"],
        "ephemeral_1h_input_tokens": written["1h"],
    }
