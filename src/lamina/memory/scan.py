"""Which memories there are: one pass over the directory, with headers remembered in a derived index.

The index (SQLite, keyed by path, times, size and inode) only saves reading files that have not
changed; it can be deleted at any time, and without it everything works, slower. It reads the memory
directory and writes nothing but its own database.

What did not come through the store (an editor, another tool, a shell command of ours) is found by
comparing the files with the newest commit. Nobody vouches for it: it is recorded as `outside`, or,
where it follows a tool call of ours, handed to the store to be gated.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import os
import stat
import time
from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lamina.errors import MemoryStoreError
from lamina.memories import QUOTED, Change, Memory, Stamps
from lamina.memory.beneath import Beneath
from lamina.memory.header_index import HeaderIndex, IndexBroken, Row, Stamp
from lamina.memory.history import History
from lamina.memory.index import INDEX
from lamina.memory.journal import outside_note
from lamina.memory.own_files import IntentLog
from lamina.memory.topics import HEAD_BYTES, is_binary, memory_type, read_header, read_topic

_LEFT_OUT = ("logs",)  # daily logs are dream's material, not memories
_DEEPEST = 16
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
BINARY = "binary"  # why a file holds no memory; anything else is an error, and is never kept
_MARKDOWN = frozenset((".md", ".MD", ".Md", ".mD"))
# A file changed this recently may change again within one tick of the file system's clock.
TICK_NS = 20_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """One Markdown file as the directory shows it."""

    path: str
    mtime_ns: int
    size: int
    inode: int


@dataclass(slots=True)
class _Folder:
    """What one directory held: names, and mtime, size, inode of each, in the order listed."""

    path: str
    names: list[str] = field(default_factory=list[str])
    keys: array[int] = field(default_factory=lambda: array("q"))
    below: list[str] = field(default_factory=list[str])
    listed_ns: int = field(default_factory=time.time_ns)
    unreadable: list[str] = field(default_factory=list[str])  # links, devices, names not in UTF-8 …

    def path_of(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name


class Scan:
    """The memories at one moment, newest first. Headers are fetched when they are asked for."""

    def __init__(
        self, folders: list[_Folder], index: HeaderIndex, files: Beneath, unreadable: list[str]
    ) -> None:
        self._folders = folders
        self._index = index
        self._files = files
        self._skipped = frozenset(index.skipped())
        self.unreadable = sorted([*unreadable, *self._skipped])  # links, binary, no permission …

    @property
    def found(self) -> list[Found]:
        """Every Markdown file, in no order, those that can't be read among them."""
        return [
            Found(folder.path_of(name), *folder.keys[3 * at : 3 * at + 3])
            for folder in self._folders
            for at, name in enumerate(folder.names)
        ]

    def __len__(self) -> int:
        """How many memories could be read."""
        return sum(len(folder.names) for folder in self._folders) - len(self._skipped)

    def newest(self, count: int = 200) -> list[Memory]:
        """The headers (no bodies) of the newest memories."""
        return self._memories(count)

    def all(self) -> list[Memory]:
        return self._memories(None)

    def _memories(self, count: int | None) -> list[Memory]:
        wanted = None if count is None else count + len(self._skipped)
        files = [
            (mtime, folder.path, name, size)
            for folder in self._folders
            for mtime, size, name in _newest_of(folder, wanted)
            if not self._skipped or folder.path_of(name) not in self._skipped
        ]
        files.sort(key=lambda file: (-file[0], file[1], file[2]))
        files = files if count is None else files[:count]
        try:
            rows = self._index.rows((folder, name) for _, folder, name, _ in files)
        except IndexBroken:
            rows = {}
        return [
            self._memory(
                f"{folder}/{name}" if folder else name, rows.get((folder, name)), mtime, size
            )
            for mtime, folder, name, size in files
        ]

    def _memory(self, path: str, row: Row | None, mtime: int, size: int) -> Memory:
        if row is None:  # the index lost it meanwhile
            head = self._files.read(path, HEAD_BYTES) or b""
            return replace(read_topic(path, head), body="", mtime=mtime / 1e9, size=size)
        return Memory(
            path=path,
            name=row.name,
            description=row.description,
            type=memory_type(row.type),
            body="",
            extra={QUOTED: row.quoted} if row.quoted else {},
            mtime=mtime / 1e9,
            size=size,
        )


def _newest_of(folder: _Folder, count: int | None) -> Iterable[tuple[int, int, str]]:
    everything = zip(folder.keys[0::3], folder.keys[1::3], folder.names, strict=True)
    return everything if count is None else heapq.nlargest(count, everything)


class Scanner:
    """Looks at one memory directory again and again, remembering what did not change."""

    def __init__(self, files: Beneath, database: Path | None = None) -> None:
        self._files = files
        self._database = database
        self._index = HeaderIndex(database)

    @property
    def index(self) -> HeaderIndex:
        return self._index

    @property
    def has_index(self) -> bool:
        """Did anybody write the derived index yet?"""
        return self._database is not None and self._database.exists()

    def close(self) -> None:
        self._index.close()

    def scan(self) -> Scan:
        """Look at everything once. A broken index is put aside, and the look begins again."""
        for _ in range(3):
            try:
                return self._scan()
            except IndexBroken:
                continue
        raise MemoryStoreError(
            f"The derived index of {self._files.root} breaks again and again. Check the disk."
        )

    def _scan(self) -> Scan:
        folders, unreadable = self._walk(refresh=True)
        self._index.keep_only([folder.path for folder in folders])
        return Scan(folders, self._index, self._files, unreadable)

    def stamps(self) -> Stamps:
        """Path and (mtime, size, inode) of every Markdown file, without a look at the index."""
        folders, _ = self._walk(refresh=False)
        names, numbers = list[str](), array("q")
        for folder in folders:
            names += map(folder.path_of, folder.names) if folder.path else folder.names
            numbers += folder.keys
        return Stamps(names, numbers)

    def aside(self) -> list[str]:
        """Paths of what is there and can be no memory, without a look at the index."""
        return self._walk(refresh=False)[1]

    def _walk(self, *, refresh: bool) -> tuple[list[_Folder], list[str]]:
        folders: list[_Folder] = []
        unreadable: list[str] = []
        waiting = [""]
        while waiting:
            path = waiting.pop()
            try:
                descriptor = self._files.directory(path)
            except MemoryStoreError:
                if not path:
                    raise
                unreadable.append(path)
                continue
            if descriptor is None:
                continue
            try:
                folder = _listed(path, descriptor)
                if refresh:
                    self._refresh(folder, descriptor)
            except PermissionError:
                unreadable.append(path or ".")
                continue
            finally:
                os.close(descriptor)
            folders.append(folder)
            unreadable += folder.unreadable
            if path.count("/") < _DEEPEST:
                waiting += folder.below
        return folders, unreadable

    def forget_index(self) -> None:
        """Delete the derived index; the next scan builds it anew."""
        self._index.rebuild()

    def _refresh(self, folder: _Folder, descriptor: int) -> None:
        stamp = Stamp(folder.keys.tobytes(), "\x00".join(folder.names))
        old = self._index.stamp(folder.path)
        if old == stamp:
            return
        known = old.entries() if old else {}
        changed = folder.names
        if known:
            changed = [
                name
                for at, name in enumerate(folder.names)
                if known.get(name) != tuple(folder.keys[3 * at : 3 * at + 3])
            ]
        rows = [_head(folder, name, descriptor) for name in changed]
        gone = known.keys() - set(folder.names)
        failed = {row.file for row in rows if row.skipped not in ("", BINARY)}
        self._index.store(folder.path, _settled(folder, failed), rows, gone)


def _listed(path: str, descriptor: int) -> _Folder:
    """One pass over a directory; the loop is bare because it runs for every file there is."""
    folder = _Folder(path)
    keys: list[int] = []
    names = folder.names
    with os.scandir(descriptor) as entries:
        for entry in entries:
            name = entry.name
            if name[-3:] in _MARKDOWN and name[0] != ".":
                if name == INDEX:
                    continue
                try:
                    known = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # removed since the listing
                if stat.S_ISREG(known.st_mode) and (name.isascii() or _is_utf8(name)):
                    names.append(name)
                    keys += (known.st_mtime_ns, known.st_size, known.st_ino ^ known.st_ctime_ns)
                    continue
                folder.unreadable.append(folder.path_of(name))
            elif name[0] != "." and entry.is_dir(follow_symlinks=False) and _wanted(path, name):
                known_name = name.isascii() or _is_utf8(name)
                (folder.below if known_name else folder.unreadable).append(folder.path_of(name))
    # An inode may use all 64 bits; the index keeps them signed.
    folder.keys = _signed(keys)
    return folder


def key_of(status: os.stat_result) -> tuple[int, int, int]:
    """By which a file is known to be unchanged. Its time can be set back by hand, so its inode goes
    together with the time that can't."""
    return status.st_mtime_ns, status.st_size, status.st_ino ^ status.st_ctime_ns


def _is_utf8(name: str) -> bool:
    """Other names can't be recorded, sent or printed: such files are counted, not read."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _signed(keys: list[int]) -> array[int]:
    try:
        return array("q", keys)
    except OverflowError:
        return array("q", [(key + 2**63) % 2**64 - 2**63 for key in keys])


def is_memory_path(path: str) -> bool:
    """Is a file at this path beneath the directory a memory or an index? Hidden files and daily logs
    are not."""
    *folders, name = path.split("/")
    hidden = any(part[:1] in (".", "") for part in (*folders, name))
    left_out = bool(folders) and folders[0] in _LEFT_OUT
    return name[-3:] in _MARKDOWN and not hidden and not left_out and len(folders) <= _DEEPEST


def _wanted(path: str, name: str) -> bool:
    return bool(path) or name not in _LEFT_OUT


def _settled(folder: _Folder, failed: Collection[str]) -> Stamp:
    """The stamp to remember. A file changed in the tick before the listing is left without its key,
    and so is one that could not be read: the disk may have hiccuped, and the next look tries again."""
    keys = folder.keys
    limit = folder.listed_ns - TICK_NS
    if failed or max(keys[0::3], default=0) > limit:
        keys = array("q", keys)
        for at, name in enumerate(folder.names):
            if keys[3 * at] > limit or name in failed:
                keys[3 * at] = 0
    return Stamp(keys.tobytes(), "\x00".join(folder.names))


def _head(folder: _Folder, name: str, descriptor: int) -> Row:
    """The header of one file, read from its first 4 KB."""
    try:
        file = os.open(name, _OPEN, dir_fd=descriptor)
        try:
            content = os.read(file, HEAD_BYTES)
        finally:
            os.close(file)
    except OSError as error:
        return Row(folder.path, name, "", "", "", error.strerror or "unreadable")
    if is_binary(content):
        return Row(folder.path, name, "", "", "", BINARY)
    title, description, kind = read_header(name, content)
    quoted = read_topic(name, content).quoted if QUOTED.encode() in content else ""
    return Row(folder.path, name, title, description, kind or "", "", quoted)


def manifest(memories: Sequence[Memory], limit: int = 200) -> str:
    """`- [type] file.md (ISO time): description`, one line a memory, for prompts."""
    lines: list[str] = []
    for memory in memories[:limit]:
        label = f"[{memory.type}] " if memory.type else ""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(memory.mtime))
        said = (
            "a quotation" if memory.quoted else memory.description
        )  # whose words no prompt repeats
        lines.append(f"- {label}{memory.path} ({when}): {said}")
    return "\n".join(lines)


LARGEST = 4 * 1024 * 1024  # larger files are no memories and stay out of the history


def blob_id(content: bytes) -> str:
    """The name that git gives to this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def differences(
    files: Beneath, scanner: Scanner, history: History, *, busy: IntentLog
) -> list[Change]:
    """Every file that is not as the newest commit has it. The caller holds the history's lock.

    Files that a writer is changing at this moment are left out: their intent is on disk before they
    change, so looking at the intents last is enough.
    """
    # Daily logs are in the history by what the store appended, and compared by nobody.
    known = {path: blob for path, blob in history.files().items() if is_memory_path(path)}
    present = {found.path: found for found in [*scanner.scan().found, *indexes(files)]}
    ids = _blob_ids(files, scanner, present)
    changed: list[Change] = []
    for path in sorted(known.keys() | present.keys()):
        if known.get(path) == ids.get(path):
            continue
        after = files.read(path) if path in ids else None
        if path in present and path not in ids:
            continue  # unreadable or too large: neither changed nor gone
        changed.append(Change(path, history.content(path) if path in known else None, after))
    writing = {
        change.path for intent in [*busy.unapplied(), *busy.applied()] for change in intent.changes
    }
    return [
        change for change in changed if change.path not in writing and change.before != change.after
    ]


def first_sight(
    files: Beneath, scanner: Scanner, history: History, *, busy: IntentLog
) -> dict[str, bytes]:
    """Every file as it was before anything was written through Lamina. The history is empty."""
    changed = differences(files, scanner, history, busy=busy)
    found: dict[str, bytes | None] = {change.path: change.after for change in changed}
    for intent in sorted([*busy.unapplied(), *busy.applied()], key=lambda one: one.id):
        for change in intent.changes:
            found.setdefault(change.path, change.before)
    return {path: content for path, content in found.items() if content is not None}


def record_outside(
    files: Beneath, scanner: Scanner, history: History, *, busy: IntentLog
) -> list[str]:
    """Commit what was changed outside; the paths. The caller holds the history's lock."""
    changed = differences(files, scanner, history, busy=busy)
    if changed:
        contents = {change.path: change.after for change in changed}
        history.commit(contents, outside_note(len(contents)))
    return [change.path for change in changed]


def nothing_new(files: Beneath, scanner: Scanner) -> bool:
    """Is every file as it was at the last comparison? Cheap: no content, no history is looked at."""
    keys = {path: key for path, key in scanner.stamps().items() if key[1] <= LARGEST}
    keys |= {
        one.path: (one.mtime_ns, one.size, one.inode)
        for one in indexes(files)
        if one.size <= LARGEST
    }
    try:
        return {path: row[:3] for path, row in scanner.index.recorded().items()} == keys
    except IndexBroken:
        return False


def indexes(files: Beneath) -> list[Found]:
    """The index of the directory and the team's, as files."""
    found: list[Found] = []
    for path in (INDEX, f"team/{INDEX}"):
        with contextlib.suppress(MemoryStoreError):
            if stat := files.stat(path):
                found.append(Found(path, *key_of(stat)))
    return found


def _blob_ids(files: Beneath, scanner: Scanner, present: dict[str, Found]) -> dict[str, str]:
    """The blob id of every readable file; those that did not change are not read again."""
    now = time.time_ns()
    try:
        recorded = scanner.index.recorded()
    except IndexBroken:
        recorded = {}
    ids: dict[str, str] = {}
    fresh: list[tuple[str, int, int, int, str]] = []
    for path, found in present.items():
        key = (found.mtime_ns, found.size, found.inode)
        old = recorded.get(path)
        if old is not None and old[:3] == key:
            ids[path] = old[3]
            continue
        if found.size > LARGEST:
            continue
        with contextlib.suppress(MemoryStoreError):
            content = files.read(path)
            if content is not None:
                ids[path] = blob_id(content)
                # Of one that was written just now the time may stay as it is when it changes again: it is
                # compared once more, but known, so that it is missed if it goes.
                settled = found.mtime_ns < now - TICK_NS
                fresh.append((path, key[0] if settled else 0, *key[1:], ids[path]))
    gone = recorded.keys() - {path for path, found in present.items() if found.size <= LARGEST}
    if fresh or gone:
        with contextlib.suppress(IndexBroken):
            scanner.index.record(fresh, gone)
    return ids
