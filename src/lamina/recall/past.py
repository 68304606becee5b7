"""Searches what was said in past sessions of a project, by an index that grows with them.

The index is one derived file that may be deleted; files are taken newest first, and what can't be
read within the time allowed waits for the next search. Reads session files, writes the index alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lamina.errors import LedgerError, StorageError
from lamina.ledger import log
from lamina.ledger.edits import written_at
from lamina.ledger.quotes import blocks_of_entry
from lamina.messages import Json
from lamina.recall import saved
from lamina.recall.sessions import SessionSearch, Turn

INDEX = "sessions.index"
SECONDS = 2.0
_LONGEST_TURN = 4_000
_SPEAKERS = {"typed": "user", "assistant": "assistant"}


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
    """The sessions in one folder."""

    def __init__(self, folder: Path, *, without: str = "") -> None:
        self._folder = folder
        self._index = folder / INDEX
        self._without = without  # the running session knows what was said in it
        self._held: _Held | None = None
        self._lock = threading.Lock()
        self.complete = True  # did the last search know every session?

    def search(self, query: str, limit: int, *, now: float, seconds: float = SECONDS) -> list[Said]:
        """The turns that answer best, best first."""
        with self._lock:
            held = self._held = self._held or saved.load(_Held, self._index) or _Held()
            self._catch_up(held, seconds)
            most = limit if not self._without else limit * 4
            hits = held.turns.search(query, most, now=now)
        found: list[Said] = []
        read: dict[str, dict[str, Json]] = {}
        for hit in hits:
            session, _, entry = hit.id.partition("/")
            if session == self._without or len(found) == limit:
                continue
            if session not in read:
                read[session] = self._entries(session)
            if entry in read[session]:
                turn = _turn(session, read[session][entry])
                if turn is not None:
                    found.append(
                        Said(
                            session,
                            entry,
                            turn.speaker,
                            turn.text,
                            turn.said,
                            hit.score,
                            hit.confidence,
                        )
                    )
        return found

    def _catch_up(self, held: _Held, seconds: float) -> None:
        until = time.monotonic() + seconds
        files = _files(self._folder)
        changed = [(path, stamp) for path, stamp in files if held.stamps.get(path.stem) != stamp]
        gone = held.stamps.keys() - {path.stem for path, _ in files}
        for session in gone:
            held.turns.remove_session(session)
            del held.stamps[session]
        self.complete = True
        for number, (path, stamp) in enumerate(changed):
            if number and time.monotonic() > until:
                self.complete = False
                break
            for entry in self._entries(path.stem).values():
                if (turn := _turn(path.stem, entry)) is not None:
                    held.turns.add(turn)
            held.stamps[path.stem] = stamp
        if changed or gone:
            with suppress(StorageError):  # the next process builds it again
                saved.save(held, self._index)

    def _entries(self, session: str) -> dict[str, Json]:
        try:
            entries = log.read(self._folder / f"{session}.jsonl").entries
        except (LedgerError, OSError):
            return {}
        return {str(one.get("uuid")): one for one in entries if one.get("kind") == "message"}


def _files(folder: Path) -> list[tuple[Path, tuple[int, int]]]:
    """Session files with their stamps, newest first."""
    found: list[tuple[Path, tuple[int, int]]] = []
    with suppress(OSError):
        for path in folder.glob("*.jsonl"):
            with suppress(OSError):
                stat = path.stat()
                found.append((path, (stat.st_mtime_ns, stat.st_size)))
    return sorted(found, key=lambda one: one[1], reverse=True)


def _turn(session: str, entry: Json) -> Turn | None:
    """What user or assistant said in a message; tool results, reminders and hooks are left out."""
    said: Sequence[tuple[str, str]] = blocks_of_entry(entry)
    who = next((_SPEAKERS[origin] for origin, _ in said if origin in _SPEAKERS), "")
    text = "\n".join(words for origin, words in said if _SPEAKERS.get(origin) == who)
    if not who or not text.strip():
        return None
    uuid = str(entry.get("uuid"))
    return Turn(f"{session}/{uuid}", session, text[:_LONGEST_TURN], who, written_at(entry))


class _Held:
    """The index and, by session, which state of its file it knows."""

    def __init__(
        self,
        turns: SessionSearch | None = None,
        stamps: dict[str, tuple[int, int]] | None = None,
    ) -> None:
        self.turns = turns or SessionSearch()
        self.stamps = stamps or {}

    def to_state(self) -> dict[str, Any]:
        return {"turns": self.turns.to_state(), "stamps": self.stamps}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> _Held:
        stamps = {str(name): (int(a), int(b)) for name, (a, b) in state["stamps"].items()}
        return cls(SessionSearch.from_state(state["turns"]), stamps)
