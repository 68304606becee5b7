"""The index of one memory directory, kept up to date: what changed is read, what went is dropped.

Saved in one derived file beside the memories, which may be deleted at any time. Everything here may
run in a thread; a lock keeps the threads apart. Reads memories, writes the index alone.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import MemoryStoreError, StorageError
from lamina.memory.scan import TICK_NS
from lamina.memory.topics import is_binary, read_topic
from lamina.recall import saved, uses
from lamina.recall.rank import Document, Hit, Ranker

if TYPE_CHECKING:
    from lamina.memory.file_store import FileStore

INDEX = "recall.index"
MOST_AT_ONCE = 500  # memories that are looked over within the turn; more go to a thread
_LARGEST = 1_000_000  # bytes of one memory that are indexed
_ROOM = 4_096  # for what was added since the directory was listed
_Stamp = tuple[int, int, int]


class Shelf:
    """Finds memories of one store."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self._index = store.state / INDEX
        self._uses = store.state / uses.NAME
        self._lock = threading.Lock()
        self._held: _Held | None = None

    def __len__(self) -> int:
        return len(self._held.ranker) if self._held else 0

    @property
    def uses_file(self) -> Path:
        return self._uses

    @property
    def quick(self) -> bool:
        """May it be asked within a turn? Built already, small, and nobody is at it; or empty."""
        if self._lock.locked():
            return False
        if self._held is None:
            return _empty(self.store.directory)
        return len(self._held.stamps) <= MOST_AT_ONCE

    def refresh(self) -> int:
        """Bring the index up to date and save it; says how many memories came, changed or went."""
        with self._lock:
            return self._refresh()

    def search(
        self,
        query: str,
        k: int,
        *,
        now: float,
        tools: Collection[str] = (),
        exclude: Collection[str] = (),
    ) -> list[Hit]:
        """The best memories for a question, of the directory as it is now."""
        with self._lock:
            self._refresh()
            if not self._held or not len(self._held.ranker):
                return []
            return self._held.ranker.search(query, k, now=now, tools_in_use=tools, exclude=exclude)

    def count(self, used: Mapping[str, bool], now: float) -> None:
        """Count what an answer made of the memories that it was shown. Where nothing can be written,
        nothing is counted."""
        try:
            known = uses.count(self._uses, used, now)
        except OSError:
            return
        with self._lock:
            for path in used if self._held else ():
                self._held.ranker.used(path, known[path].count)  # pyright: ignore[reportOptionalMemberAccess]

    def drop_the_gone(self) -> None:
        """Leave no word and no name of memories that are no more in the derived files, now rather than
        at the next search: for when they are purged."""
        with self._lock, suppress(OSError):
            self._refresh()
            uses.keep_only(self._uses, dict(self.store.scanner.present()))
            if self._held is None:
                self._index.unlink(missing_ok=True)

    def _refresh(self) -> int:
        present = dict(self.store.scanner.present())
        if self._held is None:
            if not present:
                return 0  # nothing to find, nothing to build
            self._held = saved.load(_Held, self._index) or _Held(Ranker(), {})
            for path, use in uses.load(self._uses).items():
                self._held.ranker.used(path, use.count)
        held = self._held
        changed = [path for path, stamp in present.items() if held.stamps.get(path) != stamp]
        gone = held.stamps.keys() - present.keys()
        if not changed and not gone:
            return 0
        known = uses.load(self._uses) if changed else {}
        for path in gone:
            held.ranker.remove(path)
            del held.stamps[path]
        taken = [
            self._take(held, path, present[path], known.get(path, uses.Use()).count)
            for path in changed
        ]
        if gone or any(taken):
            with suppress(StorageError):  # the next process builds it again
                saved.save(held, self._index)
        return len(gone) + sum(taken)

    def _take(self, held: _Held, path: str, stamp: _Stamp, used: int) -> bool:
        """Read one memory; says whether the index knows something new."""
        seen = time.time_ns()
        try:
            # Asking for far more than there is costs more than reading it.
            content = self.store.files.read(path, min(_LARGEST, 2 * stamp[1] + _ROOM))
        except MemoryStoreError:
            held.stamps.pop(path, None)  # looked at again: nothing but its mode may have to change
            return held.ranker.remove(path)
        if content is None or is_binary(content):
            held.ranker.remove(path)
        else:
            memory = read_topic(path, content, mtime=stamp[0] / 1e9)
            held.ranker.add(Document.of(memory, used))
        # A file written within this tick may change again without another stamp: look again then.
        held.stamps[path] = stamp if abs(seen - stamp[0]) > TICK_NS else (0, 0, 0)
        return True


def _empty(directory: Path) -> bool:
    """No file and no folder that could hold a memory; looks no further than the first."""
    try:
        with os.scandir(directory) as entries:
            return all(one.name in ("MEMORY.md", "logs") for one in entries)
    except OSError:
        return True


class _Held:
    """The index and, by path, which state of the file it knows."""

    def __init__(self, ranker: Ranker, stamps: dict[str, _Stamp]) -> None:
        self.ranker = ranker
        self.stamps = stamps

    def to_state(self) -> dict[str, Any]:
        return {"ranker": self.ranker.to_state(), "stamps": self.stamps}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> _Held:
        stamps = {
            str(path): (int(a), int(b), int(c)) for path, (a, b, c) in state["stamps"].items()
        }
        return cls(Ranker.from_state(state["ranker"]), stamps)
