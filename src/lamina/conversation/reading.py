"""Reads the bodies of requests, each message of a conversation once: what came before has the same bytes
in the next request, so only what is new is decoded and hashed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from lamina.conversation.bodies import Form
from lamina.conversation.lineage import digest_of
from lamina.conversation.splice import elements, members
from lamina.messages import Json

_HELD = 4 * 2**20  # bytes of messages that are remembered, at least; at most twice as many
_decode = msgspec.json.Decoder().decode
# What another Lamina before this one leaves in a request.
_MADE_BEFORE = (b"[Old tool result content cleared; ", b"<persisted-output>\\nThis result has ")


@dataclass(frozen=True, slots=True)
class Said:
    """A message."""

    value: Any
    digest: bytes  # of what it says, see `lineage.digest_of`
    made_before: bool


@dataclass(frozen=True, slots=True)
class Body:
    """A request as it is written."""

    given: Json
    digests: list[bytes]  # of the messages; none where they are no list
    made_before: bool  # another Lamina was at work
    parts: tuple[dict[str, msgspec.Raw], list[msgspec.Raw]]  # its members, and the messages


class Reader:
    def __init__(self) -> None:
        self._young: dict[bytes, Said] = {}
        self._old: dict[bytes, Said] = {}
        self._bytes = 0  # of the young ones

    def read(self, body: bytes, form: Form) -> Body:
        """Raises msgspec.MsgspecError, ValueError."""
        given: Json = {}
        said, raws = list[Said](), list[msgspec.Raw]()
        own = members(body)
        for name, raw in own.items():
            if name == form.said_in and bytes(memoryview(raw)[:1]) == b"[":
                raws = elements(raw)
                said = [self._one(bytes(part)) for part in raws]
                given[name] = [one.value for one in said]
            else:
                given[name] = _decode(raw)
        made_before = any(one.made_before for one in said)
        return Body(given, [one.digest for one in said], made_before, (own, raws))

    def _one(self, raw: bytes) -> Said:
        if found := self._young.get(raw):
            return found
        found = self._old.get(raw)
        if found is None:
            value = _decode(raw)
            found = Said(value, digest_of(value), any(mark in raw for mark in _MADE_BEFORE))
        self._young[raw] = found
        self._bytes += len(raw)
        if self._bytes > _HELD:
            self._old, self._young, self._bytes = self._young, {}, 0
        return found
