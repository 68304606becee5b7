"""Reads the bodies of requests, each message of a conversation once: what came before has the same bytes
in the next request, so only what is new is decoded and hashed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from lamina.conversation.bodies import Form, Known
from lamina.conversation.lineage import digest_of, linked
from lamina.conversation.splice import elements, members
from lamina.messages import Json, Message, dicts

_HELD = 2 * 2**20  # bytes of messages that are remembered, at least; at most twice as many
_MOST_LINKED = 64  # conversations whose hashes are remembered
_decode = msgspec.json.Decoder().decode
# What another Lamina before this one leaves in a request.
_MADE_BEFORE = (b"[Old tool result content cleared; ", b"<persisted-output>\\nThis result has ")


@dataclass(slots=True)
class Said:
    """A message."""

    value: Any
    digest: bytes  # of what it says, see `lineage.digest_of`
    made_before: bool
    marked: bool  # for the cache
    read: tuple[str, Message] | None = None  # by which form, and what it is in ours


@dataclass(frozen=True, slots=True)
class Body:
    """A request as it is written."""

    given: Json
    said: list[Said]  # none where the messages are no list
    hashes: list[str]  # of all up to each of them, see `lineage.linked`
    made_before: bool  # another Lamina was at work
    parts: tuple[dict[str, msgspec.Raw], list[msgspec.Raw]]  # its members, and the messages

    def known(self, form: Form) -> Known:
        """The messages in our form, and their hashes. Raises ValueError, KeyError."""
        found: list[Message] = []
        for one in self.said:
            if one.read is None or one.read[0] != form.path:
                one.read = form.path, form.read(one.value)
            found.append(one.read[1])
        return found, self.hashes


class Reader:
    def __init__(self) -> None:
        self._young: dict[bytes, Said] = {}
        self._old: dict[bytes, Said] = {}
        self._bytes = 0  # of the young ones
        self._linked: dict[object, tuple[list[bytes], list[str]]] = {}  # last of a kind

    def read(self, body: bytes, form: Form) -> Body:
        """Raises msgspec.MsgspecError, ValueError."""
        given: Json = {}
        said, raws = list[Said](), list[msgspec.Raw]()
        own = members(body)
        for name, raw in own.items():
            if name == form.said_in and bytes(memoryview(raw)[:1]) == b"[":
                raws = elements(raw)
                said = [self._young.get(part) or self._one(part) for part in map(bytes, raws)]
                given[name] = [one.value for one in said]
            else:
                given[name] = _decode(raw)
        made = any(one.made_before for one in said)
        return Body(given, said, self._hashes(said, form), made, (own, raws))

    def _hashes(self, said: list[Said], form: Form) -> list[str]:
        """Most of a request was in the one before it, and so were its hashes."""
        digests = [one.digest for one in said]
        key = (form.path, *digests[:1])
        before, hashes = self._linked.pop(key, ([], []))
        if before != digests[: len(before)]:
            before, hashes = [], []
        more = linked(digests[len(before) :], f"{form.path} ", hashes[-1] if hashes else "")
        self._linked[key] = digests, hashes + more
        if len(self._linked) > _MOST_LINKED:
            del self._linked[next(iter(self._linked))]
        return hashes + more

    def _one(self, raw: bytes) -> Said:
        found = self._old.get(raw)
        if found is None:
            value = _decode(raw)
            made = any(mark in raw for mark in _MADE_BEFORE)
            marked = any("cache_control" in block for block in dicts(value.get("content")))
            found = Said(value, digest_of(value), made, marked)
        self._young[raw] = found
        self._bytes += len(raw)
        if self._bytes > _HELD:
            self._old, self._young, self._bytes = self._young, {}, 0
        return found
