"""The two databases that a team's server can stand on: how each connects, and how each keeps a reader's
view whole and writers apart. Statements have `?` for their values.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from lamina.errors import LaminaError, UsageError


class DatabaseAway(LaminaError):
    """It can't be reached now, and may come back."""


class Connection(Protocol):
    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any: ...


class SQLite:
    begin_reading, begin_writing, lock_row = "BEGIN", "BEGIN IMMEDIATE", ""
    lock_schema = "SELECT 1"  # whoever writes is alone here

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
        except OSError as error:
            raise UsageError(
                f"Can't make {path}: {error.strerror}. Choose another place."
            ) from error
        with self.connected() as connection:
            connection.execute("PRAGMA journal_mode=WAL")

    @contextmanager
    def connected(self) -> Generator[Connection]:
        try:
            address = f"{self._path.as_uri()}?mode=rw"  # one that went away is not made anew, empty
            connection = sqlite3.connect(address, timeout=5, isolation_level=None, uri=True)
            try:
                connection.execute("PRAGMA synchronous=FULL")
                yield connection
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise DatabaseAway("The database can't be reached now. Try again later.") from error

    def close(self) -> None:
        """Nothing is kept open."""


class PostgreSQL:
    """Connections are kept, and one that broke is not used again."""

    begin_reading = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    begin_writing, lock_row = "BEGIN", " FOR UPDATE"
    lock_schema = "SELECT pg_advisory_xact_lock(715112)"

    def __init__(self, address: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise UsageError(
                "PostgreSQL needs one more package. Install it: pip install 'lamina[postgresql]'."
            ) from error
        self._psycopg: Any = psycopg
        self._address = address
        self._idle: list[Any] = []

    @contextmanager
    def connected(self) -> Generator[Connection]:
        try:
            made: Any = None
            with suppress(IndexError):  # another thread may take the last one
                made = self._idle.pop()
            made = made or self._connect()
            try:
                yield _WithMarks(made)
            finally:
                self._idle.append(made)
        except (self._psycopg.OperationalError, self._psycopg.InterfaceError) as error:
            self.close()
            raise DatabaseAway("The database can't be reached now. Try again later.") from error

    def _connect(self) -> Any:
        return self._psycopg.connect(self._address, autocommit=True, connect_timeout=5)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


class _WithMarks:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any:
        return self._connection.execute(statement.replace("?", "%s"), values)


def engine_at(address: str) -> SQLite | PostgreSQL:
    scheme, _, path = address.partition("://")
    if scheme in ("postgresql", "postgres"):
        return PostgreSQL(address)
    if scheme != "sqlite" or not path.strip("/") or not path.startswith("/"):
        raise UsageError(
            f"{address} is no database that this server knows: "
            "give sqlite:///PATH or postgresql://USER@HOST/NAME."
        )
    return SQLite(Path("/" + path.lstrip("/")))
