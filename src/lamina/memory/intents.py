"""Intents: what is about to be written, on disk before it is, and the locks that keep writers apart.

An intent holds every byte before and after, and who wrote it and why. It is removed when the change
is in the history. It touches only the store's own folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from lamina.errors import MemoryStoreError
from lamina.ledger.places import open_private, private_folder
from lamina.memories import Change, Note
from lamina.memory.beneath import TEMPORARY_PREFIX, Beneath

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
