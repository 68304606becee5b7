"""What dreams leave behind to be looked at: progress, all that ended, requests to end; and undo.

Files of its own beside the memory directory: `dream/status.json`, `dream/log.jsonl`, `dream/kill`,
`dream/undone.json`, `dream/diary.json`. They are for people and other processes; a dream that can't
write them goes on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from lamina.errors import UsageError
from lamina.machine import open_private, private_folder, read_json, write_private
from lamina.memories import Commit, InForce
from lamina.memory import diff_text, is_index
from lamina.messages import Json
from lamina.ports import MemoryStore

_TURNS = 30
_SHOWN = 200  # ended dreams that the log shows
_NO_TIME = 1e11  # seconds


@dataclass(slots=True)
class Progress:
    """A dream as others see it while it runs."""

    id: str
    process: int
    started: float
    status: str = "running"  # running | completed | failed | killed
    phase: str = "starting"  # updating from the first write on
    step: str = "orient"  # gather, consolidate, prune
    text: str = ""
    tools: int = 0
    files: list[str] = field(default_factory=list[str])
    turns: list[str] = field(default_factory=list[str])  # the last 30

    def to_json(self) -> Json:
        return {name: getattr(self, name) for name in self.__slots__}

    def turn(self, words: str) -> None:
        self.turns = [*self.turns, words][-_TURNS:]


class DreamRecord:
    """The folder of one memory's dreams."""

    def __init__(self, state: Path) -> None:
        self.folder = state / "dream"

    @contextlib.contextmanager
    def as_it_was(self) -> Generator[None]:
        """Inside, a dream that only looks: it can be watched and ended like any other, and leaves no
        trace here. The caller holds the lock."""
        there = self.folder.is_dir()
        known = {path: _kept(path) for path in self.folder.glob("*")}
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                for path in self.folder.glob("*"):
                    _put_back(path, known.get(path))
                if not there and self.folder.is_dir():
                    self.folder.rmdir()

    # ---- progress and kill

    def show(self, progress: Progress) -> None:
        self._put("status.json", msgspec.json.encode(progress.to_json()))

    def status(self) -> Json:
        """Whole, or empty: what somebody else wrote there is no progress."""
        found = read_json(self.folder / "status.json", Progress)
        return found.to_json() if found else {}

    def ask_to_end(self, dream: str) -> None:
        self._put("kill", dream.encode())

    def asked_to_end(self, dream: str) -> bool:
        return self._said("kill") == dream

    def forget_wish(self) -> None:
        with contextlib.suppress(OSError):
            (self.folder / "kill").unlink()

    # ---- what ended

    def ended(self, line: Mapping[str, Any]) -> None:
        """One line a dream, in one write, so that several processes may share the file."""
        with contextlib.suppress(OSError):
            private_folder(self.folder)
            with open(self.folder / "log.jsonl", "ab", 0, opener=open_private) as file:
                file.write(msgspec.json.encode(line) + b"\n")

    def book_left(self) -> None:
        """Whoever holds the lock knows that a dream which still says it runs was killed."""
        left = self.status()
        if left.get("status") == "running":
            known = {key: left.get(key) for key in ("id", "started", "files")}
            text = "Its process ended in the middle."
            told = {"status": "killed", "text": text, "by": "?", "applied": True}
            self.ended({**known, "when": left.get("started"), **told})

    def log(self) -> list[Json]:
        """The last dreams that ended, newest first."""
        try:
            lines = (self.folder / "log.jsonl").read_bytes().splitlines()[-_SHOWN:]
        except OSError:
            return []
        found: list[Json] = []
        for line in reversed(lines):
            with contextlib.suppress(msgspec.MsgspecError):
                one = msgspec.json.decode(line, type=dict[str, Any])
                found += [one] if _sound(one) else []
        return found

    def left_behind(self) -> str:
        """What memory was after the last dream that succeeded; "" if nobody knows."""
        return next((str(line["digest"]) for line in self.log() if line.get("digest")), "")

    # ---- the diary

    def diary_since(self, last: float) -> float:
        """Up to when a model has worked the diary in; days written to later are new to it."""
        known = (line["diary"] for line in self.log() if "diary" in line)
        return float(next(known, last))

    def distilled(self) -> set[str]:
        """Entries of the diary that the rules have looked at."""
        return set(self._table("diary.json"))

    def note_distilled(self, marks: Mapping[str, str]) -> None:
        self._put("diary.json", msgspec.json.encode({**self._table("diary.json"), **marks}))

    def offered(self, day: str) -> bool:
        """Was the diary offered on this day already? From now on it was."""
        known = self._said("offered") == day
        if not known:
            self._put("offered", day.encode())
        return known

    # ---- what the user took back

    def take_back(self, contents: Mapping[str, bytes]) -> None:
        """These stay as they are until somebody changes them."""
        digests = {path: digest(content) for path, content in contents.items()}
        self._put("undone.json", msgspec.json.encode({**self._table("undone.json"), **digests}))

    def taken_back(self, contents: Mapping[str, bytes]) -> set[str]:
        known = self._table("undone.json")
        return {path for path in known if known[path] == digest(contents.get(path, b""))}

    # ---- files

    def _put(self, name: str, content: bytes) -> None:
        with contextlib.suppress(OSError):
            write_private(self.folder / name, content)

    def _said(self, name: str) -> str:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return (self.folder / name).read_text("utf-8")
        return ""

    def _table(self, name: str) -> Json:
        return read_json(self.folder / name, dict[str, Any]) or {}


Kept = tuple[bytes, os.stat_result]


def _kept(path: Path) -> Kept | None:
    with contextlib.suppress(OSError):
        return path.read_bytes(), path.stat()
    return None


def _put_back(path: Path, kept: Kept | None) -> None:
    if kept is None:
        path.unlink(missing_ok=True)
    elif _kept(path) not in (None, kept):
        path.write_bytes(kept[0])
        os.utime(path, ns=(kept[1].st_atime_ns, kept[1].st_mtime_ns))


def _sound(line: Mapping[str, Any]) -> bool:
    """Are its times times? A line that is not ours must not stop every dream from now on."""
    times = [line.get(key) or 0 for key in ("when", "started", "diary")]
    return all(isinstance(one, int | float) and 0 <= one < _NO_TIME for one in times)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def new_logs(directory: Path, since: float) -> list[Path]:
    """Days of the diary that were written to since then, oldest first."""
    found = sorted((directory / "logs").glob("[0-9]*/[0-9]*/[0-9]*.md"))
    plain = [path for path in found if path.is_file() and not path.is_symlink()]
    return [path for path in plain if path.stat().st_mtime > since]


# ---- taking a dream back


def last_dream(store: MemoryStore, commit_id: str = "") -> InForce | None:
    """The newest dream that changed something and was not taken back, or the one with this id."""
    if store.history is None:
        return None
    store.history.settle()
    for one in store.history.in_force():
        named = one.change.id.startswith(commit_id) or one.by.id.startswith(commit_id)
        if one.change.writer == "dream" and named:
            return one
    return None


def take_back(store: MemoryStore, commit_id: str = "") -> tuple[Commit, list[str]]:
    """Undo the last dream, or this one; the files that changed. What was edited since stays."""
    dream = last_dream(store, commit_id)
    if dream is None or store.history is None:
        which = f"dream {commit_id}" if commit_id else "dream"
        raise UsageError(f"There is no {which} to undo. `lamina dream log` shows what there was.")
    paths = store.history.undo(dream.by.id)
    back = {path: store.content(path) for path in paths if not is_index(path)}
    DreamRecord(store.state).take_back(
        {path: content for path, content in back.items() if content is not None}
    )
    return dream.change, paths


def last_change(store: MemoryStore) -> tuple[Commit, str] | None:
    """What the last dream changed that was not undone, as a diff."""
    dream = last_dream(store)
    if dream is None or store.history is None:
        return None
    changes = store.history.changes(dream.change.id)
    return dream.change, "\n".join(diff_text(one.path, one.before, one.after) for one in changes)
