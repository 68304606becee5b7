"""The store's own files, beside the memories: intents, pins, tombstones, and the locks that keep
writers apart. It touches nothing but the store's own folder.

An intent is what is about to be written, on disk before it is: every byte before and after, who
wrote it and why. It is removed when the change is in the history.

A tombstone keeps what was forgotten from coming back, though nobody keeps what it said. It holds
fingerprints: for every statement the set of its word stems, each reduced to 16 bits under a random
key of this memory. Enough to know the words again, too little to read them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from lamina.errors import MemoryStoreError
from lamina.machine import open_private, private_folder
from lamina.memories import Change, Memory, Note, Proposal
from lamina.memory.beneath import TEMPORARY_PREFIX, Beneath
from lamina.text import wording

# ---- intents and locks

_NAME = re.compile(r"([0-9]{20})-[0-9a-f]{8}\.(?:json|done)")


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    changes: tuple[Change, ...]
    note: Note
    tombstone: str = ""  # the tombstone's line, to be put up with the change
    lifted: tuple[str, ...] = ()  # tombstones that the change takes away
    process: int = 0


_Held = bytes | Annotated[int, msgspec.Meta(ge=0)] | None


class _Written(msgspec.Struct, frozen=True, kw_only=True):
    """An intent as its file holds it: each content once, however many files have it. A dream takes
    away thousands of copies."""

    id: str
    # By number where a content repeats, else the content itself, as versions before this one have it.
    changes: tuple[tuple[str, _Held, _Held], ...]
    contents: tuple[bytes, ...] = ()
    note: Note
    tombstone: str = ""
    lifted: tuple[str, ...] = ()
    process: int = 0


class IntentLog:
    """Intents in the order in which they were made, one file each: `.json` until the change is in the
    files, then `.done` until it is in the history."""

    def __init__(self, folder: Path, warn: Callable[[str], None]) -> None:
        self._files = Beneath(folder)
        self._warn = warn

    def close(self) -> None:
        self._files.close()

    def write(
        self,
        changes: Sequence[Change],
        note: Note,
        *,
        tombstone: str = "",
        lifted: Sequence[str] = (),
        replaces: Intent | None = None,
    ) -> Intent:
        """Put it on disk for good. The caller holds the store's lock."""
        intent = Intent(
            id=replaces.id if replaces else self._next_id(),
            changes=tuple(changes),
            note=note,
            tombstone=tombstone,
            lifted=tuple(lifted),
            process=os.getpid(),
        )
        name = f"{intent.id}.json"
        before = self._files.read(name) if replaces else None  # perhaps an older version's
        try:
            self._files.write(name, _encoded(intent), expected=before)
        except MemoryStoreError:
            # It may have its name already: what the caller is told failed must not be finished later.
            if replaces is None:
                with contextlib.suppress(MemoryStoreError):
                    self._files.remove(name)
            raise
        return intent

    def strays(self) -> list[str]:
        """What writers left that were killed before their intent had its name."""
        return [name for name in self._files.names() if name.startswith(TEMPORARY_PREFIX)]

    def sweep(self) -> None:
        """Remove them. The caller holds the store's lock."""
        for name in self.strays():
            self._files.remove(name)

    def unapplied(self) -> list[Intent]:
        """What a writer that died may have left half done. Only meaningful under the store's lock."""
        return self._named(".json")

    def applied(self) -> list[Intent]:
        """What is in the files and not yet in the history, oldest first."""
        return self._named(".done")

    def any_applied(self) -> bool:
        return any(name.endswith(".done") for name in self._files.names())

    def mark_applied(self, intent: Intent) -> None:
        self._files.rename(f"{intent.id}.json", f"{intent.id}.done")

    def drop(self, intent: Intent) -> None:
        """Nothing of it was done."""
        self._files.remove(f"{intent.id}.json")

    def settle(self, intent: Intent) -> None:
        """It is in the history."""
        self._files.remove(f"{intent.id}.done")

    def _named(self, ending: str) -> list[Intent]:
        found: list[Intent] = []
        for name in sorted(name for name in self._files.names() if name.endswith(ending)):
            content = self._files.read(name)
            if content is None:
                continue  # settled by another process
            try:
                found.append(_decoded(content))
            except (msgspec.MsgspecError, IndexError) as error:
                # The disk's doing: our own writes are whole or absent. Memory goes on without it.
                aside = f"{name}.damaged"
                self._files.rename(name, aside)
                self._warn(
                    f"A memory that was being written is damaged ({error}); "
                    f"what is left of it is {self._files.root / aside}."
                )
        return found

    def _next_id(self) -> str:
        """Later than all that wait, though the clock may have been set back."""
        waiting = [found[1] for name in self._files.names() if (found := _NAME.fullmatch(name))]
        after = int(max(waiting)) + 1 if waiting else 0
        return f"{max(time.time_ns(), after):020d}-{secrets.token_hex(4)}"


def _encoded(intent: Intent) -> bytes:
    numbers: dict[bytes | None, int | None] = {None: None}
    for change in intent.changes:
        for content in (change.before, change.after):
            numbers.setdefault(content, len(numbers) - 1)
    contents = [content for content in numbers if content is not None]
    if len(contents) == sum(one is not None for change in intent.changes for one in change[1:]):
        return msgspec.json.encode(intent)
    changes = [(one.path, numbers[one.before], numbers[one.after]) for one in intent.changes]
    numbered = {"changes": changes, "contents": contents}
    return msgspec.json.encode({**msgspec.structs.asdict(intent), **numbered})


def _decoded(content: bytes) -> Intent:
    written = msgspec.json.decode(content, type=_Written)

    def said(held: bytes | int | None) -> bytes | None:
        return written.contents[held] if isinstance(held, int) else held

    return Intent(
        id=written.id,
        changes=tuple(Change(path, said(one), said(other)) for path, one, other in written.changes),
        note=written.note,
        tombstone=written.tombstone,
        lifted=written.lifted,
        process=written.process,
    )


class Busy(MemoryStoreError):
    """Somebody else holds the lock at this moment."""


@contextlib.contextmanager
def exclusive(lock: Path, *, wait: bool = True) -> Generator[None]:
    """Hold a kernel lock on the file: one holder at a time, released even by `kill -9`."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    try:
        try:
            descriptor = open_private(lock, flags)
        except FileNotFoundError:
            private_folder(lock.parent)
            descriptor = open_private(lock, flags)
    except OSError as error:
        raise MemoryStoreError(f"Can't lock the memory by {lock}: {error.strerror}.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise Busy(f"{lock} is held by another process.") from error
        except OSError as error:
            raise MemoryStoreError(
                f"This file system can't lock {lock} ({error.strerror}), so memory there is only "
                "read. Put it on a local disk."
            ) from error
        yield
    finally:
        os.close(descriptor)


# ---- pins and tombstones

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
