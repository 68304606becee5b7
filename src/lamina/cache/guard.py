"""The cache guard (F12): knows before a call where the prompt parts from the last one and why, and
after it whether the provider's cache read what it should have.

Pure values in, values out; it keeps the last request and its usage. Layers register their breaks
beforehand. Comparing costs what is new: unchanged messages are the same objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamina.events import CacheBroke
from lamina.ledger import render
from lamina.ledger.joining import Snapshot
from lamina.messages import Block, Json, Message, Request, Response, Usage
from lamina.ports import Capabilities

DROP_SHARE = 0.05
DROP_TOKENS = 2_000


@dataclass(frozen=True, slots=True)
class Parting:
    """Where two requests part: system, tools, or block `block` of message `message`; and why."""

    where: str
    message: int
    block: int
    cause: str


class Guard:
    def __init__(self) -> None:
        self._last: Request | None = None
        self._usage = Usage()
        self._at = 0.0
        self._registered: list[str] = []
        self._parting: Parting | None = None
        self._expired = ""

    def register(self, cause: str) -> None:
        """A layer says that its edit will break the prefix, and why."""
        self._registered.append(cause)

    def before(self, request: Request, now: float, capabilities: Capabilities) -> Parting | None:
        """Compare with the last request; remember the reason for `after`."""
        last, self._parting, self._expired = self._last, None, ""
        if last is not None:
            self._parting = part(last, request)
            if now - self._at > capabilities.cache_ttl:
                minutes = capabilities.cache_ttl // 60
                self._expired = f"TTL of {minutes} min passed ({(now - self._at) / 60:.0f} min)"
            if not capabilities.keeps_thinking and _drops_thinking(last, request):
                self.register("the model drops the thinking of earlier turns")
        return self._parting

    def after(
        self, request: Request, response: Response, now: float, capabilities: Capabilities
    ) -> CacheBroke | None:
        """Compare the provider's reads with what was there to be read."""
        expected = _readable(self._usage, capabilities) if self._last is not None else 0
        read = response.usage.cache_read
        causes, parting = self._registered, self._parting
        self._last, self._usage, self._at = request, response.usage, now
        self._registered, self._parting = [], None
        lost = expected - read
        if expected < capabilities.min_cacheable or capabilities.cache == "none":
            return None
        if lost <= DROP_TOKENS or lost <= expected * DROP_SHARE:
            return None
        if causes:
            return CacheBroke("; ".join(dict.fromkeys(causes)), expected, read, registered=True)
        said = response.extra.get("cache_miss_reason")
        cause = (
            (parting.cause if parting else "")
            or self._expired
            or (f"the provider says: {said}" if said else "")
            or "the provider lost its cache: the prompt only grew"
        )
        return CacheBroke(cause, expected, read, registered=False)


def _readable(usage: Usage, capabilities: Capabilities) -> int:
    """Tokens of the last prompt that the cache holds now."""
    if capabilities.cache == "openai":
        return usage.prompt // 128 * 128
    return usage.cache_read + usage.cache_write


def part(old: Request, new: Request) -> Parting | None:
    """Where the new request stops being a continuation of the old one."""
    if old.model != new.model:
        return Parting("model", 0, 0, f"model changed: {old.model} to {new.model}")
    if old.tools is not new.tools and (cause := _tools_cause(old.tools, new.tools)):
        return Parting("tools", 0, 0, cause)
    if old.system is not new.system:
        for n, (a, b) in enumerate(zip(old.system, new.system, strict=False)):
            if render.canonical(a) != render.canonical(b):
                return Parting("system", 0, n, f"system prompt changed: block {n}")
        if len(old.system) != len(new.system):
            n = min(len(old.system), len(new.system))
            return Parting("system", 0, n, f"system prompt changed: {len(new.system)} blocks now")
    return _part_messages(old.messages, new.messages)


def _part_messages(old: Sequence[Message], new: Sequence[Message]) -> Parting | None:
    start = old.shared(new) if isinstance(old, Snapshot) else 0
    for n in range(start, len(old)):
        message = old[n]
        if n >= len(new):
            return Parting("message", n, 0, f"messages {n} to {len(old) - 1} were removed")
        other = new[n]
        if message is other:
            continue
        if message["role"] != other["role"]:
            return Parting("message", n, 0, f"message {n} is another one")
        a, b = message["content"], other["content"]
        for m, block in enumerate(a):
            if m >= len(b):
                return Parting("message", n, m, f"message {n} lost its blocks from {m} on")
            if block is not b[m] and render.canonical(block) != render.canonical(b[m]):
                return Parting("message", n, m, _block_cause(n, m, a, b))
        if len(b) > len(a) and n < len(old) - 1:
            return Parting("message", n, len(a), _inserted(b[len(a)], n + 1))
    return None


def _block_cause(n: int, m: int, old: Sequence[Block], new: Sequence[Block]) -> str:
    if m + 1 < len(new) and render.canonical(new[m + 1]) == render.canonical(old[m]):
        return _inserted(new[m], n)
    kind = str(old[m].get("type", "block")).replace("_", " ")
    return f"message {n}, block {m} changed: {kind}"


def _inserted(block: Block, n: int) -> str:
    text = str(block.get("text") or "")
    what = "memory attachment" if "Memory (saved" in text else "a block was"
    if what == "a block was" and "<system-reminder>" in text:
        what = "reminder"
    return f"{what} inserted before message {n}"


def _tools_cause(old: Sequence[Json], new: Sequence[Json]) -> str:
    before = {str(tool.get("name")): tool for tool in old}
    after = {str(tool.get("name")): tool for tool in new}
    if gone := [name for name in before if name not in after]:
        return f"tool list changed: {', '.join(gone)} removed"
    if came := [name for name in after if name not in before]:
        return f"tool list changed: {', '.join(came)} added"
    for name, tool in before.items():
        for key in {*tool, *after[name]} - {"cache_control"}:
            if render.canonical(tool.get(key)) != render.canonical(after[name].get(key)):
                return f"tool list changed: {name} {key.replace('_', ' ')}"
    return "" if list(before) == list(after) else "tool list changed: other order"


def _drops_thinking(old: Request, new: Request) -> bool:
    """A new question makes such a model forget the thinking of the answers before it."""
    if len(new.messages) <= len(old.messages):
        return False
    fresh = new.messages[-1]["content"]
    if any(block.get("type") == "tool_result" for block in fresh):
        return False
    earlier: list[Block] = new.messages[-2]["content"] if len(new.messages) > 1 else []
    return any(block.get("type") == "thinking" for block in earlier)
