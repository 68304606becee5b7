"""What a team's server keeps: tokens, repositories, and every version of every shared memory. One
transaction a call, in SQL that SQLite and PostgreSQL speak; statements have `?` for their values.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lamina.errors import LaminaError, UsageError, installing
from lamina.team.entries import EMPTY, MOST_KEYS, Entry, sha256

# Never changed once released: a database remembers how many of them it has had.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE tokens (
            id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, name TEXT NOT NULL,
            repo TEXT NOT NULL, writes INTEGER NOT NULL, created DOUBLE PRECISION NOT NULL,
            revoked DOUBLE PRECISION)""",
        """CREATE TABLE repositories (
            id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL,
            version INTEGER NOT NULL, etag TEXT NOT NULL, UNIQUE (tenant, name))""",
        """CREATE TABLE states (
            repository TEXT NOT NULL, etag TEXT NOT NULL, version INTEGER NOT NULL,
            PRIMARY KEY (repository, etag))""",
        """CREATE TABLE versions (
            repository TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, content TEXT,
            sha256 TEXT NOT NULL, author TEXT NOT NULL, at DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (repository, key, version))""",
        """CREATE TABLE current (
            repository TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL,
            removed INTEGER NOT NULL, PRIMARY KEY (repository, key))""",
        "CREATE INDEX current_by_version ON current (repository, version)",
        "CREATE INDEX versions_by_time ON versions (repository, version)",
        "CREATE UNIQUE INDEX states_by_version ON states (repository, version)",
    ),
    # What is in force stands in an index of its own: a pull reads as many rows as it gives, however
    # many repositories and earlier versions lie around them.
    (
        "ALTER TABLE versions ADD COLUMN latest INTEGER NOT NULL DEFAULT 0",
        """UPDATE versions SET latest = 1 WHERE EXISTS (
            SELECT 1 FROM current c WHERE c.repository = versions.repository
            AND c.key = versions.key AND c.version = versions.version)""",
        "DROP TABLE current",
        "CREATE INDEX latest_by_version ON versions (repository, version, key) WHERE latest = 1",
        "CREATE UNIQUE INDEX latest_by_key ON versions (repository, key) WHERE latest = 1",
        "ALTER TABLE repositories ADD COLUMN files INTEGER NOT NULL DEFAULT 0",
        """UPDATE repositories SET files = (SELECT COUNT(*) FROM versions v
            WHERE v.repository = repositories.id AND v.latest = 1 AND v.content IS NOT NULL)""",
    ),
)
PAGE_BYTES = 2_000_000
_TOKENS = "SELECT id, tenant, name, repo, writes, created, revoked FROM tokens"
_ENTRIES = "SELECT key, content, sha256, author, at, version FROM versions WHERE repository = ?"


class Stale(LaminaError):
    """The repository has moved on since the caller looked."""


class TooMany(LaminaError):
    pass


@dataclass(frozen=True, slots=True)
class Token:
    """What a token allows. Nobody but its holder knows the token itself."""

    id: str
    tenant: str
    name: str
    repo: str  # owner/name, owner/* or *
    writes: bool
    created: float = 0.0
    revoked: float | None = None

    def reaches(self, repo: str) -> bool:
        return self.repo in ("*", repo) or (
            self.repo.endswith("/*") and repo.startswith(self.repo[:-1])
        )


@dataclass(frozen=True, slots=True)
class State:
    """Where a repository stands."""

    version: int = 0
    etag: str = EMPTY


@dataclass(frozen=True, slots=True)
class Page:
    """Memories that changed, and the state that one has after taking them. `whole`: all there are,
    for whoever asked from a state that nobody knows. `more`: ask again from that state."""

    state: State
    entries: Sequence[Entry]
    whole: bool
    more: bool


class Database:
    def __init__(
        self, address: str, *, new: bool = True, now: Callable[[], float] = time.time
    ) -> None:
        self._now = now
        try:
            self._engine = engine_at(address, new=new)
            try:
                self._migrate()
            except BaseException:
                self.close()
                raise
        except DatabaseAway as away:
            why = str(away.__cause__).rstrip(".?")
            raise DatabaseAway(f"The database can't be opened: {why}.") from away

    @contextmanager
    def _transaction(self, begin: str) -> Generator[Connection]:
        with self._engine.connected() as connection:
            connection.execute(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except DatabaseAway:
                raise
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def _reading(self) -> AbstractContextManager[Connection]:
        """Everything as it was at one moment."""
        return self._transaction(self._engine.begin_reading)

    def _writing(self) -> AbstractContextManager[Connection]:
        """All or nothing."""
        return self._transaction(self._engine.begin_writing)

    def _migrate(self) -> None:
        with self._writing() as connection:
            connection.execute(self._engine.lock_schema)
            connection.execute("CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY)")
            (done,) = connection.execute("SELECT COUNT(*) FROM migrations").fetchone()
            if done > len(MIGRATIONS):
                raise UsageError(
                    "A newer Lamina made this database. Upgrade: pip install -U lamina."
                )
            for number, statements in enumerate(MIGRATIONS[done:], done + 1):
                for statement in statements:
                    connection.execute(statement)
                connection.execute("INSERT INTO migrations VALUES (?)", (number,))

    def close(self) -> None:
        self._engine.close()

    def answers(self) -> bool:
        try:
            with self._reading() as connection:
                connection.execute("SELECT number FROM migrations LIMIT 1").fetchone()
        except DatabaseAway:
            return False
        return True

    # ---- tokens

    def create_token(self, tenant: str, name: str, repo: str, *, writes: bool) -> tuple[Token, str]:
        """The token's record, and the token itself: it is never seen again."""
        secret = f"lamina_team_{secrets.token_urlsafe(32)}"
        token = Token(secrets.token_hex(4), tenant, name, repo, writes, self._now())
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
                (token.id, _hash(secret), tenant, name, repo, int(writes), token.created),
            )
        return token, secret

    def tokens(self, tenant: str = "") -> list[Token]:
        asked = f"{_TOKENS} WHERE ? IN ('', tenant) ORDER BY created, id"
        with self._reading() as connection:
            return [_token(row) for row in connection.execute(asked, (tenant,)).fetchall()]

    def token(self, secret: str) -> Token | None:
        """None for an unknown and for a revoked one alike."""
        asked = f"{_TOKENS} WHERE hash = ? AND revoked IS NULL"
        with self._engine.connected() as connection:
            row = connection.execute(asked, (_hash(secret),)).fetchone()
        return _token(row) if row else None

    def revoke(self, token_id: str) -> bool:
        with self._writing() as connection:
            revoking = "UPDATE tokens SET revoked = ? WHERE id = ? AND revoked IS NULL"
            return connection.execute(revoking, (self._now(), token_id)).rowcount == 1

    # ---- reading

    def state(self, tenant: str, repo: str) -> State:
        with self._engine.connected() as connection:
            return _state(connection, tenant, repo)[1]

    def hashes(self, tenant: str, repo: str) -> tuple[State, dict[str, str]]:
        with self._reading() as connection:
            number, state = _state(connection, tenant, repo)
            rows = connection.execute(
                "SELECT key, sha256 FROM versions "
                "WHERE repository = ? AND latest = 1 AND content IS NOT NULL ORDER BY key",
                (number,),
            ).fetchall()
        return state, dict(rows)

    def changes(self, tenant: str, repo: str, since: str = "") -> Page:
        """What changed after the state that this etag names; from an unknown one, everything."""
        with self._reading() as connection:
            number, state = _state(connection, tenant, repo)
            found = connection.execute(
                "SELECT version FROM states WHERE repository = ? AND etag = ?", (number, since)
            ).fetchone()
            after = found[0] if found else 0
            new = "latest = 1 AND version > ? AND (content IS NOT NULL OR ? > 0)"
            asked = f"{_ENTRIES} AND {new} ORDER BY version, key"
            rows = connection.execute(asked, (number, after, after))
            entries: list[Entry] = []
            size = 0
            for row in rows:
                # What was written at once stays together: a state lies only between two writes.
                if size > PAGE_BYTES and row[5] != entries[-1].version:
                    (etag,) = connection.execute(
                        "SELECT etag FROM states WHERE repository = ? AND version = ?",
                        (number, entries[-1].version),
                    ).fetchone()
                    reached = State(entries[-1].version, etag)
                    return Page(reached, entries, whole=not found, more=True)
                entries.append(Entry(*row))
                size += len(row[1] or "")
        return Page(state, entries, whole=not found, more=False)

    def history(self, tenant: str, repo: str, key: str = "", most: int = 200) -> list[Entry]:
        """Versions without their content, newest first."""
        with self._reading() as connection:
            number, _ = _state(connection, tenant, repo)
            rows = connection.execute(
                "SELECT key, CASE WHEN content IS NULL THEN NULL ELSE '' END, sha256, author, at, "
                "version FROM versions WHERE repository = ? AND ? IN ('', key) "
                "ORDER BY version DESC, key LIMIT ?",
                (number, key, most),
            ).fetchall()
        return [Entry(*row) for row in rows]

    def version(self, tenant: str, repo: str, key: str, version: int) -> Entry | None:
        with self._reading() as connection:
            number, _ = _state(connection, tenant, repo)
            asked = f"{_ENTRIES} AND key = ? AND version = ?"
            row = connection.execute(asked, (number, key, version)).fetchone()
        return Entry(*row) if row else None

    # ---- writing

    def write(
        self, token: Token, repo: str, contents: Mapping[str, str | None], expected: str
    ) -> State:
        """Write these memories (None removes one) if the repository still is at `expected`."""
        with self._writing() as connection:
            while not (found := _state(connection, token.tenant, repo, self._engine.lock_row))[0]:
                connection.execute(
                    "INSERT INTO repositories (id, tenant, name, version, etag) "
                    "VALUES (?, ?, ?, 0, ?) ON CONFLICT (tenant, name) DO NOTHING",
                    (secrets.token_hex(8), token.tenant, repo, EMPTY),
                )
            number, state = found
            if state.etag != expected:
                raise Stale("The team's memory has changed since you looked.")
            gone = {key: _retired(connection, number, key, text) for key, text in contents.items()}
            changed = {key: contents[key] for key, more in gone.items() if more is not None}
            if not changed:
                return state
            new = State(state.version + 1, _next_etag(state.etag, token.name, changed))
            for key, text in changed.items():
                connection.execute(
                    "INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, 1)",
                    (number, key, new.version, text, _digest(text), token.name, self._now()),
                )
            more = sum(filter(None, gone.values()))
            (files,) = connection.execute(
                "UPDATE repositories SET version = ?, etag = ?, files = files + ? WHERE id = ? "
                "RETURNING files",
                (new.version, new.etag, more, number),
            ).fetchone()
            if more > 0 and files > MOST_KEYS:
                raise TooMany(
                    f"A team's memory holds at most {MOST_KEYS:,} files: merge some by topic."
                )
            kept = (number, new.etag, new.version)
            connection.execute("INSERT INTO states VALUES (?, ?, ?)", kept)
            return new


def _hash(secret: str) -> str:
    # A token is 256 random bits: a slow hash would guard nothing that this one does not.
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _token(row: Sequence[Any]) -> Token:
    return Token(row[0], row[1], row[2], row[3], bool(row[4]), row[5], row[6])


def _state(connection: Connection, tenant: str, repo: str, lock_row: str = "") -> tuple[str, State]:
    row = connection.execute(
        f"SELECT id, version, etag FROM repositories WHERE tenant = ? AND name = ?{lock_row}",  # noqa: S608
        (tenant, repo),
    ).fetchone()
    return (row[0], State(row[1], row[2])) if row else ("", State())


def _digest(text: str | None) -> str:
    return sha256((text or "").encode())


def _retired(connection: Connection, number: str, key: str, text: str | None) -> int | None:
    """What is in force makes room for this; how many files more that makes. None: it says the same."""
    # The content itself: in SQLite 3.40 `RETURNING content IS NOT NULL` is true of a NULL.
    row = connection.execute(
        "UPDATE versions SET latest = 0 WHERE repository = ? AND key = ? AND latest = 1 "
        "AND sha256 <> ? RETURNING content",
        (number, key, _digest(text)),
    ).fetchone()
    if row is None:
        there = connection.execute(
            "SELECT 1 FROM versions WHERE repository = ? AND key = ? AND latest = 1", (number, key)
        ).fetchone()
        if there or text is None:
            return None
    return (text is not None) - bool(row and row[0] is not None)


def _next_etag(etag: str, author: str, changed: Mapping[str, str | None]) -> str:
    """Follows from the whole history, so that a database restored from a backup is never mistaken for
    the one that was lost."""
    digest = hashlib.sha256(f"{etag}\n{author}\n{secrets.token_hex(8)}".encode())
    for key, content in sorted(changed.items()):
        digest.update(f"\n{key}\n{'-' if content is None else _digest(content)}".encode())
    return digest.hexdigest()[:32]


# ---- the two databases that it can stand on


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


def engine_at(address: str, *, new: bool = True) -> SQLite | PostgreSQL:
    scheme, _, path = address.partition("://")
    if scheme in ("postgresql", "postgres"):
        return PostgreSQL(address)
    if scheme != "sqlite" or not path.strip("/") or not path.startswith("/"):
        raise UsageError(
            f"{address} is not a database address this server supports: "
            "give sqlite:///WHOLE/PATH or postgresql://USER@HOST/NAME."
        )
    file = Path("/" + path.lstrip("/"))
    if not new and not file.exists():
        raise UsageError(f"There is no database {file}. `lamina team token create` makes one.")
    return SQLite(file)
