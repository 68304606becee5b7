"""The derived index of headers: a small SQLite database that may vanish or break at any moment.

For each directory it keeps one stamp (names and keys of all files in one blob, compared in one
step) and for each file its header. Whatever goes wrong with the database, the scan goes on without.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from array import array
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lamina.machine import open_private

_SCHEMA = """
create table folders (path blob primary key, keys blob, names blob, skipped blob);
create table files (folder blob, file blob, head text, primary key (folder, file)) without rowid;
create table recorded (path blob primary key, mtime int, size int, inode int, blob text) without rowid;
create table wordings (path blob primary key, mtime int, size int, inode int, words int) without rowid;
create table stems (path blob primary key, stems text);
"""
# Also to be raised when `wording` takes words apart in another way: the wordings are kept here.
_VERSION = 6


_NAMES = "utf-8", "surrogateescape"
_MOST_ASKED = 1000  # rows by their names; above that all are read


class Row(NamedTuple):
    """What the index knows of a file. `skipped` says why it holds no memory."""

    folder: str
    file: str
    name: str
    description: str
    type: str
    skipped: str
    quoted: str = ""


class Stamp(NamedTuple):
    """All files of a directory: mtime, size, inode of each, and the names joined by NUL."""

    keys: bytes
    names: str

    def entries(self) -> dict[str, tuple[int, int, int]]:
        numbers = iter(array("q", self.keys))
        names = self.names.split("\x00") if self.names else []
        return dict(zip(names, zip(numbers, numbers, numbers, strict=True), strict=True))


class IndexBroken(Exception):
    """The database failed and was put aside; what was asked of it must be asked again."""


class HeaderIndex:
    """Headers by directory and name; kept in memory alone where no database can be."""

    def __init__(self, database: Path | None) -> None:
        self._path = database
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.RLock()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def rebuild(self) -> None:
        """Throw everything away."""
        with self._lock:
            self.close()
            for ending in ("", "-wal", "-shm"):
                if self._path is not None:
                    with contextlib.suppress(OSError):
                        Path(f"{self._path}{ending}").unlink()

    def stamp(self, folder: str) -> Stamp | None:
        """What a directory held when it was last looked at, by anyone."""
        found = self._ask("select keys, names from folders where path = ?", (os.fsencode(folder),))
        if not found:
            return None
        stamp = Stamp(found[0][0], os.fsdecode(found[0][1]))
        files = stamp.names.count("\x00") + 1 if stamp.names else 0
        return stamp if len(stamp.keys) == 24 * files else None

    def store(self, folder: str, stamp: Stamp, rows: Sequence[Row], gone: Iterable[str]) -> None:
        """Remember what a directory holds now: stamp and headers in one transaction."""
        where = os.fsencode(folder)
        gone = list(gone)
        skipped = self._skipped_in(where).difference(gone, (row.file for row in rows))
        skipped |= {row.file for row in rows if row.skipped}
        with self._change() as connection:
            connection.executemany(
                "insert or replace into files values (?,?,?)",
                [
                    # Nearly every name is ASCII, and this runs for every file of a cold scan.
                    (where, file.encode() if file.isascii() else os.fsencode(file), "\0".join(head))
                    for _, file, *head in sorted(rows)  # in the order of the key: pages fill once
                ],
            )
            connection.executemany(
                "delete from files where folder = ? and file = ?",
                [(where, os.fsencode(name)) for name in gone],
            )
            connection.execute(
                "insert or replace into folders values (?,?,?,?)",
                (where, stamp.keys, os.fsencode(stamp.names), _joined(skipped)),
            )

    def keep_only(self, folders: Sequence[str]) -> None:
        """Drop what is known of directories that are no more."""
        known = {os.fsdecode(row[0]) for row in self._ask("select path from folders", ())}
        for folder in known - set(folders):
            with self._change() as connection:
                where = (os.fsencode(folder),)
                connection.execute("delete from files where folder = ?", where)
                connection.execute("delete from folders where path = ?", where)

    def rows(self, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Row]:
        """Headers of these files; all are fetched at once where many are wanted."""
        by_folder: dict[str, list[bytes]] = {}
        for folder, file in wanted:
            by_folder.setdefault(folder, []).append(os.fsencode(file))
        rows: dict[tuple[str, str], Row] = {}
        for folder, files in by_folder.items():
            query = "select file, head from files where folder = ?"
            some = len(files) <= _MOST_ASKED
            if some:
                query += f" and file in ({','.join('?' * len(files))})"
            for file, head in self._ask(query, (os.fsencode(folder), *(files if some else ()))):
                row = Row(folder, os.fsdecode(file), *head.split("\0"))
                rows[folder, row.file] = row
        return rows

    def skipped(self) -> list[str]:
        found: list[str] = []
        for folder, names in self._ask("select path, skipped from folders", ()):
            prefix = f"{os.fsdecode(folder)}/" if folder else ""
            found += [prefix + name for name in _split(names)]
        return found

    def _skipped_in(self, folder: bytes) -> set[str]:
        found = self._ask("select skipped from folders where path = ?", (folder,))
        return set(_split(found[0][0])) if found else set()

    def recorded(self) -> dict[str, tuple[int, int, int, str]]:
        """Key and blob id of each file as it was when it was last compared with the history."""
        found = self._ask("select path, mtime, size, inode, blob from recorded", ())
        return {os.fsdecode(row[0]): tuple(row[1:]) for row in found}

    def record(self, rows: Iterable[tuple[str, int, int, int, str]], gone: Iterable[str]) -> None:
        with self._change() as connection:
            connection.executemany(
                "insert or replace into recorded values (?,?,?,?,?)",
                [(os.fsencode(row[0]), *row[1:]) for row in rows],
            )
            connection.executemany(
                "delete from recorded where path = ?", [(os.fsencode(path),) for path in gone]
            )

    def wordings(self) -> tuple[dict[str, tuple[int, int, int]], list[int]]:
        """Key of each memory as it was when last read, and how many stems each has."""
        found = self._ask("select path, mtime, size, inode, words from wordings", ())
        keys = {path.decode(*_NAMES): (mtime, size, of) for path, mtime, size, of, _ in found}
        return keys, [row[4] for row in found]

    def stems(self, paths: Sequence[str]) -> dict[str, str]:
        """The stems of these memories, as `joined` gives them; all are fetched where many are wanted."""
        some = [os.fsencode(path) for path in paths] if len(paths) <= _MOST_ASKED else []
        query = "select path, stems from stems"
        if some:
            query += f" where path in ({','.join('?' * len(some))})"
        found = self._ask(query, tuple(some)) if paths else ()
        return {os.fsdecode(path): stems for path, stems in found}

    def keep_wordings(
        self, rows: Iterable[tuple[str, int, int, int, int, str]], gone: Iterable[str]
    ) -> None:
        named = [(os.fsencode(row[0]), *row[1:]) for row in rows]
        lost = [(os.fsencode(path),) for path in gone]
        with self._change() as connection:
            connection.executemany(
                "insert or replace into wordings values (?,?,?,?,?)", [row[:5] for row in named]
            )
            connection.executemany(
                "insert or replace into stems values (?,?)", [(row[0], row[5]) for row in named]
            )
            connection.executemany("delete from wordings where path = ?", lost)
            connection.executemany("delete from stems where path = ?", lost)

    # ---- the database

    def _ask(self, query: str, values: tuple[bytes, ...]) -> list[Any]:
        with self._lock:
            try:
                return self._open().execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise self._put_aside(error) from error

    @contextlib.contextmanager
    def _change(self) -> Generator[sqlite3.Connection]:
        with self._lock:
            try:
                with self._open() as connection:
                    yield connection
            except sqlite3.Error as error:
                raise self._put_aside(error) from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._path is not None:
                with contextlib.suppress(
                    OSError
                ):  # SQLite says it better; its -wal takes this mode
                    os.close(open_private(self._path, os.O_RDWR | os.O_CREAT))
            where: Path | str = self._path or ":memory:"
            connection = sqlite3.connect(where, timeout=1.0, check_same_thread=False)
            self._connection = connection
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = off")  # losing it costs one slower scan
            connection.execute("pragma secure_delete = on")  # what is forgotten is not kept here
            if connection.execute("pragma user_version").fetchone()[0] != _VERSION:
                connection.executescript(
                    f"drop table if exists folders; drop table if exists files; "
                    f"drop table if exists recorded; drop table if exists wordings; "
                    f"drop table if exists stems; {_SCHEMA}"
                    f"pragma user_version = {_VERSION}"
                )
        return self._connection

    def _put_aside(self, error: sqlite3.Error) -> IndexBroken:
        """A damaged database is deleted; one that can't be used at all is replaced by memory."""
        damaged = not isinstance(error, sqlite3.OperationalError)
        with contextlib.suppress(sqlite3.Error):
            self.close()
        self._connection = None
        if damaged:
            self.rebuild()
        else:
            self._path = None
        return IndexBroken(str(error))


def _joined(names: Iterable[str]) -> bytes:
    return os.fsencode("\0".join(sorted(names)))


def _split(names: bytes) -> list[str]:
    return os.fsdecode(names).split("\0") if names else []
