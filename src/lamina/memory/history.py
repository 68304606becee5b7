"""The history of a memory: a bare git repository beside the directory, written without git.

Every change is a commit whose author is the writer and whose trailers name session and messages.
Objects and refs are written directly; the user's own repository is never touched. If the history is
damaged it is put aside and a new one begins: memory itself does not depend on it. To purge a memory
every commit is written anew without it; the new repository replaces the old one whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import threading
import time
import zlib
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from lamina.errors import MemoryStoreError, UsageError
from lamina.machine import private_folder
from lamina.memories import Change, Commit, Note
from lamina.memory.beneath import TEMPORARY_PREFIX
from lamina.memory.commits import commit_of, earlier_name, git_commit_of, whole_packs
from lamina.memory.index import INDEX, without_pointer

if TYPE_CHECKING:
    from dulwich.objects import Commit as GitCommit
    from dulwich.objects import ObjectID, Tree
    from dulwich.repo import Repo


_BRANCH: Any = b"refs/heads/main"
_DAMAGED = "damaged"  # a file in the repository
_TREES, _COMMITS = 8, 64  # that are kept in memory
_MANY = 256  # files of one commit that are packed at once: each alone waits for the disk
_SPARE = 64 * 1024  # bytes on the disk that a commit needs besides its contents, at most
_TELLING = 12  # bytes of a line by which a nameless copy of a memory is known
_FILE_MODE = 0o100644
_TREE_MODE = 0o040000


class HistoryDamaged(MemoryStoreError):
    """Objects or refs are missing or broken."""


class History:
    """Commits of one memory directory, newest at `main`."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._now = now
        self._repo: Repo | None = None
        self._trees: dict[ObjectID, Tree] = {}
        self._git_commit = lru_cache(_COMMITS)(self._read_commit)
        self._lock = threading.RLock()  # the writer in the background and a reader share it

    def close(self) -> None:
        if self._repo is not None:
            self._repo.close()
            self._repo = None
            self._trees.clear()
            self._git_commit.cache_clear()

    @property
    def in_use(self) -> bool:
        """Did this process open it?"""
        return self._repo is not None

    def begin(self) -> None:
        """Make the repository if there is none."""
        with self._reporting():
            self._open()

    @property
    def exists(self) -> bool:
        return (self.folder / "HEAD").exists()

    @property
    def empty(self) -> bool:
        return next(self.log(), None) is None

    # ---- writing (the caller holds the history's lock)

    def commit(self, changes: Mapping[str, bytes | None], note: Note) -> str:
        """Record these contents (None: removed). Returns the commit's id, "" if nothing changed."""
        from dulwich.file import FileLocked

        note = note if note.when else replace(note, when=self._now())
        try:
            return self._commit(changes, note)
        except FileLocked:
            # Nobody else writes here while we hold our lock: a killed process left these.
            for lock in self.folder.rglob("*.lock"):
                lock.unlink(missing_ok=True)
            return self._commit(changes, note)

    def _commit(self, changes: Mapping[str, bytes | None], note: Note) -> str:
        from dulwich.objects import Blob

        with self._reporting():
            self._demand_room(sum(len(content or b"") for content in changes.values()))
            repo = self._open()
            store = repo.object_store
            head = self._head()
            old_tree = self._git_commit(head).tree if head else None
            new: dict[ObjectID, tuple[Blob, None]] = {}
            blobs: dict[tuple[bytes, ...], ObjectID | None] = {}
            for path, content in changes.items():
                blob = None if content is None else Blob.from_string(content)
                blobs[tuple(os.fsencode(path).split(b"/"))] = blob.id if blob is not None else None
                if blob is not None:
                    new[blob.id] = (blob, None)
            if len(new) > _MANY:
                with whole_packs(self.folder):
                    store.add_objects([*new.values()])
            else:
                for blob, _ in new.values():
                    store.add_object(blob)
            tree = self._changed_tree(old_tree, blobs) or self._empty_tree()
            if tree == old_tree:
                return ""
            made = git_commit_of(tree, head, note, sorted(changes))
            store.add_object(made)
            if not repo.refs.set_if_equals(_BRANCH, head, made.id):
                raise MemoryStoreError(f"{self.folder} was changed by another program. Try again.")
            with contextlib.suppress(OSError):
                (self.folder / os.fsdecode(_BRANCH)).chmod(0o600)
            return made.id.decode()

    def holds(self, content: bytes) -> bool:
        """Was this ever the content of a file here?"""
        from dulwich.objects import Blob

        return self.exists and Blob.from_string(content).id in self._open().object_store

    def demand_whole(self) -> None:
        """HistoryDamaged if anybody came across damage before, and it is still there."""
        mark = self.folder / _DAMAGED
        if mark.exists():
            self.close()
            for commit in self.log():
                self.changes(commit.id)
            with contextlib.suppress(OSError):
                mark.unlink()  # a reader had met a purge, say

    def put_aside(self) -> Path | None:
        """Move a damaged history away, so that a new one can begin. None if there was none."""
        self.close()
        if not self.folder.exists():
            return None
        aside = self.folder.with_name(f"{self.folder.name}.damaged-{time.time_ns():x}")
        self.folder.rename(aside)
        return aside

    def tidy(self, limit: int = 3000) -> None:
        """Pack single objects into one file when there are many."""
        with self._reporting():
            store = cast("Any", self._open().object_store)
            if sum(1 for _ in store._iter_loose_objects()) > limit:  # noqa: SLF001 - no public count
                with whole_packs(self.folder):
                    store.pack_loose_objects()

    # ---- reading

    def files(self) -> dict[str, str]:
        """Path and blob id of every file in the newest commit."""
        with self._reporting():
            head = self._head() if self.exists else None
            if head is None:
                return {}
            entries = self._open().object_store.iter_tree_contents(self._git_commit(head).tree)
            return {os.fsdecode(one.path or b""): (one.sha or b"").decode() for one in entries}

    def content(self, path: str, commit: str = "") -> bytes | None:
        """A file as it was after a commit (the newest if none is named)."""
        with self._reporting():
            full = commit if len(commit) == 40 or not commit else self.find(commit)
            head = full.encode() or self._head()
            return self._blob(head, path) if head else None

    def unlike(self, contents: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
        """Those of these contents that are not what the newest commit has at their path."""
        from dulwich.objects import Blob

        with self._reporting():
            tree = self._git_commit(head).tree if (head := self._head()) else None
            return {
                path: content
                for path, content in contents.items()
                if (self._beneath(tree, path) if tree else None)
                != (None if content is None else Blob.from_string(content).id)
            }

    def find(self, prefix: str) -> str:
        """The full id of the one commit that begins so; UsageError if none or several do."""
        if not re.fullmatch(r"[0-9a-f]{4,40}", prefix):
            raise UsageError(f"{prefix[:60]!r} is no commit. `lamina memory log` lists them.")
        found = [commit.id for commit in self.log() if commit.id.startswith(prefix)]
        if len(found) != 1:
            many = "Several commits begin" if found else "No commit begins"
            raise UsageError(f"{many} with {prefix}. `lamina memory log` lists them.")
        return found[0]

    def log(self, path: str = "") -> Iterator[Commit]:
        """Newest first; with a path only the commits that changed it, renames followed."""
        with self._reporting():
            head = self._head() if self.exists else None
        while head:
            with self._reporting():
                git = self._git_commit(head)
                parent = git.parents[0] if git.parents else None
                commit = commit_of(head, git)
                touches = not path or self._touches(commit, head, parent, path)
            if touches:
                yield commit
                if path:
                    path = earlier_name(commit, path)
            head = parent

    def is_first(self, commit: str) -> bool:
        with self._reporting():
            return not self._git_commit(commit.encode()).parents

    def changes(self, commit: str) -> list[Change]:
        """Every file that the commit changed, before and after."""
        with self._reporting():
            full = (commit if len(commit) == 40 else self.find(commit)).encode()
            git = self._git_commit(full)
            store = self._open().object_store
            before = self._git_commit(git.parents[0]).tree if git.parents else None
            found = [
                Change(os.fsdecode(new or old or b""), self._text(old_id), self._text(new_id))
                for (old, new), _, (old_id, new_id) in store.tree_changes(before, git.tree)
            ]
            return sorted(found, key=lambda change: change.path)

    def versions(self, path: str) -> list[tuple[Commit, bytes | None]]:
        """Each commit that changed the file and its content after it, oldest first."""
        found: list[tuple[Commit, bytes | None]] = []
        name = path
        for commit in self.log(path):
            with self._reporting():
                found.append((commit, self._blob(commit.id.encode(), name)))
            name = earlier_name(commit, name)
        return found[::-1]

    # ---- objects

    def _touches(self, commit: Commit, head: bytes, parent: bytes | None, path: str) -> bool:
        if commit.paths:
            return path in commit.paths
        return self._blob_id(head, path) != (self._blob_id(parent, path) if parent else None)

    def _blob(self, commit: bytes, path: str) -> bytes | None:
        return self._text(self._blob_id(commit, path))

    def _blob_id(self, commit: bytes, path: str) -> ObjectID | None:
        return self._beneath(self._git_commit(commit).tree, path)

    def _beneath(self, current: ObjectID, path: str) -> ObjectID | None:
        for part in os.fsencode(path).split(b"/"):
            tree = self._tree(current)
            if part not in tree:
                return None
            current = tree[part][1]
        return current

    def _tree(self, tree_id: ObjectID) -> Tree:
        """Kept for a while: of a large directory many files are asked for, one after the other."""
        tree = self._trees.pop(tree_id, None)
        if tree is None:
            tree = cast("Tree", self._open().object_store[tree_id])
        self._trees[tree_id] = tree
        if len(self._trees) > _TREES:
            del self._trees[next(iter(self._trees))]
        return tree

    def _text(self, blob: ObjectID | None) -> bytes | None:
        store = cast("Any", self._open().object_store)
        return None if blob is None else store[blob].as_raw_string()

    def _changed_tree(
        self, tree_id: ObjectID | None, blobs: Mapping[tuple[bytes, ...], ObjectID | None]
    ) -> ObjectID | None:
        """The tree with these blobs in it (None takes one out); None if nothing is left."""
        from dulwich.objects import Tree

        # No longer kept, so it may be changed itself: a copy is slow where files are many.
        tree = Tree() if tree_id is None else self._tree(tree_id)
        self._trees.pop(cast("ObjectID", tree_id), None)
        below: dict[bytes, dict[tuple[bytes, ...], ObjectID | None]] = {}
        for (first, *rest), blob in blobs.items():
            if rest:
                below.setdefault(first, {})[tuple(rest)] = blob
            elif blob is not None:
                tree[first] = (_FILE_MODE, blob)
            elif first in tree:
                del tree[first]
        for name, inside in below.items():
            old = tree[name][1] if name in tree and tree[name][0] == _TREE_MODE else None
            new = self._changed_tree(old, inside)
            if new is not None:
                tree[name] = (_TREE_MODE, new)
            elif name in tree:
                del tree[name]
        if not len(tree):
            return None
        self._open().object_store.add_object(tree)
        return tree.id

    def _empty_tree(self) -> ObjectID:
        from dulwich.objects import Tree

        tree = Tree()
        self._open().object_store.add_object(tree)
        return tree.id

    def _head(self) -> ObjectID | None:
        refs = self._open().refs
        found = refs.read_loose_ref(_BRANCH) or refs.get_packed_refs().get(_BRANCH)
        if found is not None and not re.fullmatch(rb"[0-9a-f]{40}", found):
            raise HistoryDamaged(f"The history {self.folder} is damaged: main names no commit.")
        return cast("ObjectID | None", found)

    def _read_commit(self, commit: bytes) -> GitCommit:
        found = self._open().object_store[cast("ObjectID", commit)]
        if found.type_name != b"commit":
            raise HistoryDamaged(f"The history {self.folder} is damaged: {commit!r} is no commit.")
        return cast("GitCommit", found)

    def _demand_room(self, needed: int) -> None:
        """The library leaves half-written files and a traceback behind where a disk is full."""
        disk = os.statvfs(self.folder.parent)
        if disk.f_bavail * disk.f_frsize < needed + _SPARE:
            raise OSError(errno.ENOSPC, "the disk is full")

    def _open(self) -> Repo:
        if self._repo is None:
            from dulwich.repo import Repo

            if not self.exists:
                self._make()
            self._repo = Repo(str(self.folder), bare=True)
            store = cast("Any", self._repo.object_store)
            store.fsync_object_files = True
            store.loose_compression_level = 1
        return self._repo

    def _make(self) -> None:
        """A new repository, made elsewhere and renamed, so that a crash leaves none half made."""
        from dulwich.repo import Repo

        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise HistoryDamaged(f"The history {self.folder} is damaged: it is no repository.")
        fresh = self.folder.with_name(f"{self.folder.name}.begin-{os.getpid()}")
        shutil.rmtree(fresh, ignore_errors=True)
        private_folder(fresh)
        Repo.init_bare(fresh, default_branch=b"main", shared_repository="0600").close()
        for file in (path for path in fresh.rglob("*") if path.is_file()):
            file.chmod(0o600)  # the library asks the umask for these, not its own setting
        fresh.rename(self.folder)

    @contextlib.contextmanager
    def _reporting(self) -> Generator[None]:
        """Whatever a broken repository makes the library raise becomes one sentence."""
        from dulwich.errors import ChecksumMismatch, FileFormatException, NotGitRepository

        broken = (KeyError, ValueError, AssertionError, zlib.error, EOFError)
        try:
            with self._lock:
                yield
        except (*broken, ChecksumMismatch, FileFormatException, NotGitRepository) as error:
            with contextlib.suppress(OSError):
                # The next writer may not come across it itself.
                (self.folder / _DAMAGED).touch(mode=0o600)
            raise HistoryDamaged(
                f"The history {self.folder} is damaged ({type(error).__name__}: {error}). "
                "Memory works on; the next write begins a new history and keeps this one aside."
            ) from error
        except OSError as error:
            said = f"Can't use the history {self.folder}: {error.strerror or error}."
            raise MemoryStoreError(said) from error


def names_of(history: History, path: str) -> set[str]:
    """The path and every name that the file had before or after."""
    names = {path}
    renames = [
        commit.marks["Renamed"].split(" -> ", 1)
        for commit in history.log()
        if " -> " in commit.marks.get("Renamed", "")
    ]
    while found := {
        name for pair in renames if names & set(pair) for name in pair if name not in names
    }:
        names |= found
    return names


def purge(history: History, paths: Collection[str]) -> int:
    """Rewrite the history without these files and the index lines that point at them.

    Returns the number of commits that are no more. The caller holds the history's lock.
    """
    fresh_folder = history.folder.with_name(f"{history.folder.name}.new")
    shutil.rmtree(fresh_folder, ignore_errors=True)
    fresh = History(fresh_folder)
    fresh.begin()
    old_commits = list(history.log())[::-1]
    new_ids: dict[str, str] = {}
    for commit in old_commits:
        contents: dict[str, bytes | None] = {}
        for change in history.changes(commit.id):
            if change.path not in paths:
                contents[change.path] = _cleaned(change.path, change.after, paths)
        if contents and (new := fresh.commit(contents, _note(commit, paths, new_ids))):
            new_ids[commit.id] = new
    history.close()
    fresh.close()
    _swap(history.folder, fresh_folder)
    return len(old_commits) - len(new_ids)


def purge_copies(state: Path, paths: Collection[str], said: Collection[bytes]) -> None:
    """Remove what accidents left beside the history: damaged histories, which can't be rewritten, and
    what was rescued after a crash, by its name or because a line of it is one of `said`."""
    for aside in state.glob("history.git.damaged-*"):
        if aside.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink(missing_ok=True)
    names = tuple(path.replace("/", "-") for path in paths)
    lines = {line for content in said for line in content.splitlines() if len(line) >= _TELLING}
    for rescued in state.glob("rescued/*"):
        nameless = rescued.name.startswith(TEMPORARY_PREFIX.removeprefix("."))
        told = nameless and not lines.isdisjoint(rescued.read_bytes().splitlines())
        if told or rescued.name.endswith(names):
            rescued.unlink(missing_ok=True)
    for intent in state.glob("intents/*.damaged"):
        content = intent.read_bytes()
        if any(path.encode("utf-8", "surrogateescape") in content for path in paths):
            intent.unlink(missing_ok=True)


def _cleaned(path: str, content: bytes | None, paths: Collection[str]) -> bytes | None:
    if content is None or path.rsplit("/", 1)[-1] != INDEX:
        return content
    for purged in paths:
        content = without_pointer(content, purged.removeprefix(path.removesuffix(INDEX)))
    return content


def _note(commit: Commit, paths: Collection[str], new_ids: Mapping[str, str]) -> Note:
    """The commit's note without any word on what was purged."""
    undone = commit.marks.get("Undoes", "")
    now = new_ids.get(undone, undone)
    undoes = {"Undoes": now} if undone else {}
    touched = any(name in text for name in paths for text in (commit.subject, str(commit.marks)))
    note = Note(
        writer=commit.writer,  # type: ignore[arg-type]
        subject=commit.subject.replace(f"undo {undone[:8]}:", f"undo {now[:8]}:", 1),
        session=commit.session,
        entries=commit.entries,
        origin=commit.origin,
        reason=commit.reason,
        marks={**commit.marks, **undoes},
        when=commit.when,
    )
    if touched or any(path in commit.paths for path in paths):
        return Note(
            writer=note.writer, subject="change, purged in part", marks=undoes, when=note.when
        )
    return note


def _swap(folder: Path, fresh: Path) -> None:
    """Put the new repository in the old one's place and delete the old one."""
    old = folder.with_name(f"{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def finish_interrupted(folder: Path) -> None:
    """After a crash: between the two renames the new repository is whole, before them the old one."""
    fresh, old = folder.with_name(f"{folder.name}.new"), folder.with_name(f"{folder.name}.old")
    if old.exists() and fresh.exists() and not folder.exists():
        fresh.rename(folder)
    shutil.rmtree(fresh, ignore_errors=True)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
