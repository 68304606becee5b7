"""Memory at one moment, and who wrote it: what a dream starts from. Reads the store and its history."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from lamina.errors import MemoryStoreError
from lamina.local.desk import dated
from lamina.memories import Memory
from lamina.memory.blame import blame, rests_on_user, users_word, written_at
from lamina.memory.claims import same_words, statements
from lamina.memory.commits import Commit, earlier_name
from lamina.memory.file_store import FileStore
from lamina.memory.history import History, HistoryDamaged
from lamina.memory.index import INDEX
from lamina.memory.outside import LARGEST
from lamina.memory.topics import is_binary, read_topic


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All topic files and the index at one moment."""

    files: Mapping[str, bytes]
    index: bytes | None
    times: Mapping[str, float] = field(default_factory=dict[str, float])

    @classmethod
    def of(cls, store: FileStore) -> Snapshot:
        files: dict[str, bytes] = {}
        times: dict[str, float] = {}
        for found in store.scan().found:
            if found.size > LARGEST:
                continue
            with contextlib.suppress(MemoryStoreError):
                content = store.files.read(found.path)
                if content is not None and not is_binary(content):
                    files[found.path] = content
                    times[found.path] = found.mtime_ns / 1e9
        return cls(files, store.files.read(INDEX), times)

    def memories(self, files: Mapping[str, bytes] | None = None) -> list[Memory]:
        chosen = self.files if files is None else files
        return [
            read_topic(path, content, mtime=self.times.get(path, 0.0))
            for path, content in sorted(chosen.items())
        ]

    @property
    def digest(self) -> str:
        total = hashlib.sha256(self.index or b"")
        for path in sorted(self.files):
            total.update(f"\0{path}\0".encode("utf-8", "surrogateescape"))
            total.update(hashlib.sha256(self.files[path]).digest())
        return total.hexdigest()

    def differs_from(self, other: Snapshot) -> str:
        """A file that is not the same in both; "" if there is none."""
        if self.index != other.index:
            return INDEX
        paths = sorted({*self.files, *other.files})
        return next((p for p in paths if self.files.get(p) != other.files.get(p)), "")


@dataclass(frozen=True, slots=True)
class Word:
    """Whose word a statement is, and since when."""

    when: float
    typed: bool
    by_hand: bool = False  # nobody vouches for it and no tool of ours made it: an editor did


class Authors:
    """Who wrote which memory, from one walk through the history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._words: dict[str, dict[str, Word]] = {}
        self._commits: dict[str, list[Commit]] = {}
        with contextlib.suppress(HistoryDamaged):
            for commit in history.log():
                paths = commit.paths or [change.path for change in history.changes(commit.id)]
                for path in paths:
                    self._commits.setdefault(path, []).append(commit)

    def origin(self, path: str) -> str:
        """Whose word the memory is; "" where nobody recorded it."""
        for commit in self._commits.get(path, ()):
            if commit.writer not in ("dream", "outside") and commit.origin:
                return commit.origin
        return ""

    def words(self, path: str, mtime: float) -> dict[str, Word]:
        """Each statement of a memory, by `same_words`; nothing where the history is damaged."""
        if path not in self._words:
            found: dict[str, Word] = {}
            with contextlib.suppress(HistoryDamaged):
                for line in blame(self._versions(path)):
                    commit = line.commit
                    typed = rests_on_user(commit, path)
                    outside = commit.writer == "outside"
                    when = min(commit.when, mtime) if outside else commit.when
                    word = Word(when, typed, not typed and (outside or not commit.origin))
                    found.update((same_words(part.text), word) for part in statements(line.text))
            self._words[path] = found
        return self._words[path]

    def said_on(self, path: str, mtime: float) -> set[date]:
        """The days on which lines with relative dates came into a memory, by its history."""
        days: set[date] = set()
        with contextlib.suppress(HistoryDamaged):
            for line in blame(self._versions(path)):
                day = (
                    datetime.fromtimestamp(written_at(line.commit, mtime), UTC).astimezone().date()
                )
                if dated(line.text, day) != line.text:
                    days.add(day)
        return days

    def _versions(self, path: str) -> list[tuple[Commit, bytes | None]]:
        """All versions of a memory, oldest first, under its earlier names too."""
        found: list[tuple[Commit, bytes | None]] = []
        commits = self._commits.get(path, [])
        while commits:
            found += [(one, self._history.content(path, one.id)) for one in commits]
            renamed, before = commits[-1], earlier_name(commits[-1], path)
            known = self._commits.get(before, [])
            at = known.index(renamed) + 1 if before != path and renamed in known else len(known)
            path, commits = before, known[at:]
        return found[::-1]

    def vouched(self, path: str) -> str:
        with contextlib.suppress(HistoryDamaged):
            commits = reversed(self._commits.get(path, ()))
            versions = [(one, self._history.content(path, one.id)) for one in commits]
            return users_word(blame(versions), path)
        return ""
