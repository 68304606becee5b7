"""The two databases that a team's server can stand on: how each connects, and how each keeps a reader's
view whole and writers apart. Statements have `?` for their values.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from lamina.errors import LaminaError, UsageError, installing


class DatabaseAway(LaminaError):
    """It can't be reached now, and may come back."""


class Connection(Protocol):
    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any: ...


class _Kept:
    """Connections are kept for the next who asks; after an error none of them is used again."""

    def __init__(self, connect: Callable[[], Any], *errors: type[Exception]) -> None:
        self._connect, self._errors = connect, errors
        self._idle: list[tuple[object, Any]] = []

    @contextmanager
    def connected(self) -> Generator[Connection]:
        try:
            where = self._where()
            made = self._taken(where) or self._connect()
            try:
                yield made
            finally:
                self._idle.append((where, made))
        except self._errors as error:
            self.close()
            raise DatabaseAway("The database can't be reached now. Try again later.") from error

    def _taken(self, where: object) -> Any:
        with suppress(IndexError):  # another thread may take the last one
            while True:
                kept, made = self._idle.pop()
                if kept == where:
                    return made
                made.close()

    def _where(self) -> object:
        """What a connection leads to: one to anything else is of no use."""
        return None

    def close(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop()[1].close()


class SQLite(_Kept):
    begin_reading, begin_writing, lock_row = "BEGIN", "BEGIN IMMEDIATE", ""
    lock_schema = "SELECT 1"  # whoever writes is alone here

    def __init__(self, path: Path) -> None:
        super().__init__(self._opened, sqlite3.Error, OSError)
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
        except OSError as error:
            raise UsageError(f"Can't make {path}: {error.strerror}. Try elsewhere.") from error
        with self.connected() as connection:
            connection.execute("PRAGMA journal_mode=WAL")

    def _where(self) -> object:
        found = self._path.stat()
        return found.st_dev, found.st_ino

    def _opened(self) -> Any:
        address = f"{self._path.as_uri()}?mode=rw"  # one that went away is not made anew, empty
        made = sqlite3.connect(address, 5, isolation_level=None, uri=True, check_same_thread=False)
        made.execute("PRAGMA synchronous=FULL")
        return made


class PostgreSQL(_Kept):
    begin_reading = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    begin_writing, lock_row = "BEGIN", " FOR UPDATE"
    lock_schema = "SELECT pg_advisory_xact_lock(715112)"

    def __init__(self, address: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise UsageError(
                f"PostgreSQL needs one more package. Install it: {installing('postgresql')}."
            ) from error
        known: Any = psycopg

        def opened() -> _WithMarks:
            return _WithMarks(known.connect(address, autocommit=True, connect_timeout=5))

        super().__init__(opened, known.OperationalError, known.InterfaceError)


class _WithMarks:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.close = connection.close

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
