"""Reads Lamina's own sessions as if no layer had been at work: every policy faces what was said, not what
an earlier run left of it. Touches only the lines that it is handed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lamina.messages import Json, Usage
from lamina.replay.builder import Builder, as_blocks, moment_of
from lamina.replay.entry_words import tools_of
from lamina.replay.files import Unreadable, as_object
from lamina.replay.recording import RecordedRequest

NAME = "lamina"

# Kinds that hold nothing which the model is sent.
SILENT_KINDS = frozenset(
    {"session", "state", "job", "event", "repair", "recall", "recall_use", "staged"}
)


def is_own(values: Sequence[Json]) -> bool:
    return any(all(key in value for key in ("kind", "uuid", "ts")) for value in values)


class OwnReader:
    """Turns the entries of one ledger into the tree of a recording."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._frame, self._model = 0, ""
        self._last = -1
        self._asked_at = 0.0  # when the request was sent whose answer comes next
        self._edited = False  # what the provider reported from now on tells of shorter prompts
        self._ttl = 0.0

    def read(self, lines: Iterable[tuple[int, Any | Unreadable]]) -> None:
        for number, value in lines:
            where, entry = f"line {number}", as_object(value)
            kind = str(entry.get("kind"))
            if isinstance(value, Unreadable):
                self._builder.skip(where, value.reason)
            elif kind == "message":
                self._message(where, entry)
            elif kind == "frame":
                system = as_blocks(entry.get("system")) or []
                self._frame = self._builder.frame(system, tools_of(entry.get("tools")))
                self._model = str(entry.get("model") or "")
            elif kind == "request" and entry.get("purpose") == "main":
                self._asked_at = moment_of(entry.get("ts"))
            elif kind == "edit":
                self._edited = True
            elif kind != "request" and kind not in SILENT_KINDS:
                self._builder.unknown_kind(where, kind)

    def _message(self, where: str, entry: Json) -> None:
        role, blocks = entry.get("role"), as_blocks(entry.get("content"))
        if role not in ("user", "assistant") or blocks is None:
            self._builder.skip(where, "a message without role or content")
            return
        if entry.get("compaction"):
            return  # a compaction said it once more; without one it stands further up
        time = moment_of(entry.get("ts"))
        parent, self._last = self._last, self._builder.add(role, list(blocks), self._last, time)
        if role == "assistant":
            self._request(where, entry, parent, self._asked_at or time)

    def _request(self, where: str, entry: Json, parent: int, sent: float) -> None:
        usage = Usage.from_json(as_object(entry.get("usage")))
        if usage.prompt:
            self._builder.reported = (self._builder.reported or Usage()) + usage
        if usage.cache_write:
            self._ttl = 3600.0 if usage.cache_write_1h else 300.0
        model = entry.get("model")
        self._builder.request(
            where,
            RecordedRequest(
                sent,
                parent,
                self._last,
                usage if usage.prompt and not self._edited else None,
                model if isinstance(model, str) and model else self._model,
                "",
                self._frame,
                self._ttl,
            ),
        )
        self._asked_at = 0.0
