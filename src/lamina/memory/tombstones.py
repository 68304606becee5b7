"""What the user decided of memories: pins, and tombstones, by which what was forgotten does not come
back, though nobody keeps what it said.

A tombstone holds fingerprints: for every statement the set of its word stems, each reduced to 16
bits under a random key of this memory. Enough to know the words again, too little to read them. It
touches only three files in the store's folder.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from lamina.errors import MemoryStoreError
from lamina.memories import Memory, Proposal
from lamina.memory.beneath import Beneath
from lamina.text import wording

_FILE = "tombstones.jsonl"
_KEY = "tombstones.key"
_PINS = "pins.json"
_HOW = {"rejected": " (rejected in the inbox)", "removed": " (removed by the agent)"}
_FEWEST = 3  # stems that a statement needs to be recognised by


class Pins:
    """Memories that only the user may change. Whoever changes them holds the store's lock."""

    def __init__(self, files: Beneath) -> None:
        self._files = files

    def all(self) -> set[str]:
        content = self._files.read(_PINS)
        try:
            return set(msgspec.json.decode(content, type=list[str])) if content else set()
        except msgspec.MsgspecError as error:
            # Taking it for empty would open every pinned memory to anybody.
            raise MemoryStoreError(
                f"{self._files.root / _PINS} is damaged: {error}. "
                "Correct it (a list of paths), or delete it and pin again."
            ) from error

    def set(self, paths: set[str]) -> None:
        old = self._files.read(_PINS)
        new = msgspec.json.encode(sorted(paths))
        if new != old:
            self._files.write(_PINS, new, expected=old)


class Tombstone(msgspec.Struct, frozen=True):
    id: str
    when: float
    whole: tuple[int, ...]  # fingerprint of all that was said
    statements: tuple[tuple[int, ...], ...]  # of each sentence and the description
    # Or "rejected" from the inbox, or "removed" by the agent, who alone decides on its own removals.
    kind: str = "forgotten"
    entry: str = ""  # the message that asked for it; what it asks to remember instead is no relapse


class _Prints(NamedTuple):
    whole: frozenset[int]
    statements: list[frozenset[int]]


class Tombstones:
    """All tombstones of one memory. Whoever changes them holds the store's lock."""

    def __init__(self, files: Beneath, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._files = files
        self._key = b""
        self._known: tuple[bytes, list[Tombstone]] = (b"", [])

    def new(
        self,
        memory: Memory | Proposal,
        *,
        kind: str = "forgotten",
        when: float = 0.0,
        entry: str = "",
    ) -> str:
        """The line of a tombstone for this memory; `put_up` makes it count."""
        prints = self._prints(memory)
        stone = Tombstone(
            id=secrets.token_hex(8),
            when=when or self._now(),
            whole=tuple(sorted(prints.whole)),
            statements=tuple(tuple(sorted(one)) for one in prints.statements),
            kind=kind,
            entry=entry,
        )
        return msgspec.json.encode(stone).decode()

    def put_up(self, line: str) -> None:
        """Add it, once, however often this is called."""
        stone = msgspec.json.decode(line, type=Tombstone)
        if all(known.id != stone.id for known in self.all()):
            old = self._files.read(_FILE)
            self._files.write(_FILE, (old or b"") + line.encode() + b"\n", expected=old)

    def lift(self, ids: Iterable[str]) -> None:
        """Take these away: the user said it again, or undid the forgetting."""
        gone = set(ids)
        old = self._files.read(_FILE) if gone else None
        if old is not None:
            kept = [stone for stone in self.all() if stone.id not in gone]
            new = b"".join(msgspec.json.encode(stone) + b"\n" for stone in kept)
            if new != old:
                self._files.write(_FILE, new, expected=old)

    def all(self) -> list[Tombstone]:
        content = self._files.read(_FILE) or b""
        if self._known[0] != content:
            stones: list[Tombstone] = []
            for line in content.splitlines():
                try:
                    stones.append(msgspec.json.decode(line, type=Tombstone))
                except msgspec.MsgspecError:
                    continue  # a line that nobody can read protects nothing
            self._known = (content, stones)
        return self._known[1]

    def matching(self, memory: Memory | Proposal) -> list[Tombstone]:
        """The tombstones of what this says."""
        stones = self.all()
        if not stones:
            return []
        prints = self._prints(memory)
        return [stone for stone in stones if _says_again(stone, prints)]

    def lifted_by(self, proposal: Proposal, *, asked: bool = False) -> list[str]:
        """The ids of tombstones that yield to this write: all to the user (`asked`: by their wish, whoever
        writes), to the agent its own."""
        writer = "user" if asked else proposal.writer
        if writer not in ("user", "agent"):
            return []
        return [one.id for one in self.matching(proposal) if _yields(one, writer)]

    def says_again(self, forgotten: Memory | Proposal, other: Memory) -> bool:
        """Would a tombstone of the one be in the way of the other?"""
        stone = msgspec.json.decode(self.new(forgotten), type=Tombstone)
        return _says_again(stone, self._prints(other))

    def why(self, proposal: Proposal) -> str:
        """A few words for the gate, "" if nothing of this was forgotten."""
        last = self._last(proposal)
        if last is None:
            return ""
        day = time.strftime("%Y-%m-%d", time.gmtime(last.when))
        return f"on {day}{_HOW.get(last.kind, '')}"

    def when(self, proposal: Proposal) -> tuple[float, str]:
        """When this was forgotten, the last time, and by which message ("": nobody knows)."""
        last = self._last(proposal)
        return (last.when, last.entry) if last else (0.0, "")

    def _last(self, proposal: Proposal) -> Tombstone | None:
        agent = proposal.writer == "agent"
        found = [one for one in self.matching(proposal) if not (agent and _yields(one, "agent"))]
        return max(found, key=lambda stone: stone.when, default=None)

    # ---- fingerprints

    def _prints(self, memory: Memory | Proposal) -> _Prints:
        whole = self._print(f"{memory.name}\n{memory.description}\n{memory.body}")
        pieces = [memory.description, *wording.sentences(memory.body)]
        statements = [self._print(piece) for piece in pieces]
        return _Prints(whole, [one for one in statements if len(one) >= _FEWEST])

    def _print(self, text: str) -> frozenset[int]:
        key = self._secret()
        return frozenset(
            int.from_bytes(hashlib.blake2b(stem.encode(), key=key, digest_size=2).digest(), "big")
            for stem in wording.content_stems(text)
        )

    def _secret(self) -> bytes:
        if not self._key:
            found = self._files.read(_KEY)
            if not found:
                self._files.write(_KEY, secrets.token_bytes(32), expected=found)
                found = self._files.read(_KEY) or b""
            self._key = found
        return self._key


def _yields(stone: Tombstone, writer: str) -> bool:
    return writer == "user" or stone.kind == "removed"


def _says_again(stone: Tombstone, prints: _Prints) -> bool:
    forgotten = frozenset(stone.whole)
    shared = len(forgotten & prints.whole)
    if not shared:
        return False
    larger = len(forgotten | prints.whole)
    if shared / larger >= 0.5:
        return True
    if len(forgotten) >= _FEWEST and shared / len(forgotten) >= 0.8:
        return True
    if len(prints.whole) > _FEWEST and shared / len(prints.whole) >= 0.8:
        return True
    return any(
        _alike(frozenset(one), other) for one in stone.statements for other in prints.statements
    )


def _alike(one: frozenset[int], other: frozenset[int]) -> bool:
    return len(one & other) >= 0.7 * len(one | other)
