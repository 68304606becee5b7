"""Searches what was said in past sessions of a project, by an index that grows with them.

The index is one derived file that may be deleted; files are taken newest first and from where the
last search stopped, and what can't be read within the time allowed waits for the next search. Reads
session files, writes the index alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from stat import S_ISREG
from typing import Any

from lamina.errors import StorageError
from lamina.recall import saved
from lamina.recall.recorded import line_at, lines, message_on, value_of
from lamina.recall.sessions import SessionSearch, Turn

INDEX = "sessions.index"
SECONDS = 2.0
_LONGEST_TURN = 4_000
# What is new is saved once it is this share of all turns: a little is read again sooner.
_SAVED_SHARE = 0.02

_LOOK_UP = 64  # lines between two looks at the clock
# How many bytes are read, of how many; called now and then.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that was said."""

    session: str
    entry: str
    who: str
    text: str
    when: float
    score: float
    confidence: float


class PastSessions:
    """The sessions in some folder. Their index lies there too, if no other place is given."""

    def __init__(self, folder: Path, *, without: str = "", index: Path | None = None) -> None:
        self._folder = folder
        self._index = index or folder / INDEX
        self._without = without  # the running session knows what was said in it
        self._held: _Held | None = None
        self._lock = threading.Lock()
        self.complete = True  # did the last search know every session?
        self.unreadable: list[Path] = []  # those that it could not read

    def search(
        self,
        query: str,
        limit: int,
        *,
        now: float,
        seconds: float = SECONDS,
        since: float = -inf,
        until: float = inf,
        progress: Progress | None = None,
    ) -> list[Said]:
        """The turns that answer best, best first, of those said within a time."""
        with self._lock:
            held = self._held = self._held or saved.load(_Held, self._index) or _Held()
            self._catch_up(held, time.monotonic() + seconds, progress)
            hits = held.turns.search(
                query, limit, now=now, without=self._without, since=since, until=until
            )
        found: list[Said] = []
        for hit in hits:
            session, _, place = hit.id.partition("/")
            value = value_of(line_at(self._folder / f"{session}.jsonl", int(place)))
            if value is not None and (said := message_on(value)) is not None:
                text = said.text[:_LONGEST_TURN]
                found.append(
                    Said(session, said.uuid, said.who, text, said.when, hit.score, hit.confidence)
                )
        return found

    def _catch_up(self, held: _Held, until: float, progress: Progress | None) -> None:
        files = _files(self._folder)
        lost = held.lost(files)
        held.forget(lost)
        known = len(held.turns)
        waiting = [file for file in files if file.size > held.place(file.session)]
        total = sum(file.size - held.place(file.session) for file in waiting)
        done = 0

        def late(read: int) -> bool:
            """Told every few lines; at least a few are read, however little time there is."""
            if progress is not None:
                progress(done + read, total)
            return done + read > 0 and time.monotonic() > until

        self.complete, self.unreadable = True, []
        for file in waiting:
            start = held.place(file.session)
            try:
                if not _read_on(held, file, late):
                    self.complete = False
                    break
            except FileNotFoundError:
                pass  # it went meanwhile
            except OSError:
                self.unreadable.append(file.path)
            done += held.place(file.session) - start
        if lost or len(held.turns) - known > known * _SAVED_SHARE:
            with suppress(StorageError):  # the next process builds it again
                saved.save(held, self._index)


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    session: str
    size: int
    inode: int


def _files(folder: Path) -> list[_File]:
    """Session files, newest first. A pipe would never end, and a name that is no text (no session of
    ours has one) can't be kept in the index."""
    found: list[tuple[int, _File]] = []
    with suppress(OSError):
        for path in folder.glob("*.jsonl"):
            with suppress(OSError, UnicodeEncodeError):
                path.name.encode()
                stat = path.stat()
                if not S_ISREG(stat.st_mode):
                    continue
                file = _File(path, path.stem, stat.st_size, stat.st_ino)
                found.append((stat.st_mtime_ns, file))
    return [file for _, file in sorted(found, key=lambda one: (-one[0], one[1].session))]


def _read_on(held: _Held, file: _File, late: Callable[[int], bool]) -> bool:
    """Takes the lines of a file that are new; False if it got too late for all of them."""
    start = held.place(file.session)
    for number, (place, line) in enumerate(lines(file.path, start)):
        if not line.endswith(b"\n"):
            break  # still being written
        if number % _LOOK_UP == 0 and late(place - start):
            return False
        value = value_of(line)
        said = None if value is None else message_on(value)
        if said is not None:
            name = f"{file.session}/{place:012d}"
            text = said.text[:_LONGEST_TURN]
            held.turns.add(Turn(name, file.session, text, said.who, said.when))
        held.read[file.session] = (file.inode, place + len(line))
    return True


class _Held:
    """The index and, by session, how far its file is read (inode, place)."""

    def __init__(
        self,
        turns: SessionSearch | None = None,
        read: dict[str, tuple[int, int]] | None = None,
    ) -> None:
        self.turns = turns or SessionSearch()
        self.read = read or {}

    def place(self, session: str) -> int:
        return self.read.get(session, (0, 0))[1]

    def lost(self, files: Iterable[_File]) -> list[str]:
        """Sessions whose file went, or is not the one that was read."""
        there = {file.session: file for file in files}
        return [
            session
            for session, (inode, place) in self.read.items()
            if (file := there.get(session)) is None or file.inode != inode or file.size < place
        ]

    def forget(self, sessions: Iterable[str]) -> None:
        for session in (gone := list(sessions)):
            del self.read[session]
        self.turns.remove_sessions(gone)

    def to_state(self) -> dict[str, Any]:
        return {"turns": self.turns.to_state(), "read": self.read}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> _Held:
        read = {str(name): (int(a), int(b)) for name, (a, b) in state["read"].items()}
        return cls(SessionSearch.from_state(state["turns"]), read)
