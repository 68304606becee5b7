"""Mailboxes on PostgreSQL, for agents on several hosts: `ports.Post` on two tables.

A letter is a row that its reader marks in the transaction in which it takes it (SKIP LOCKED: one that is
dying holds nobody up). A reader's second connection hears of new rows (LISTEN) and holds an advisory
lock, by which others know that it lives. A name belongs to the database role that registered it: no
other role can read its letters, or send any in its name. Touches the database of `agents.bridge`.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from lamina.agents.mailboxes import name_in
from lamina.errors import PostAway, UsageError, installing
from lamina.ports import LARGEST_LETTER, Letter, Presence

_LOCKS = 715_113  # the first half of our advisory locks
_AT_ONCE = 20  # letters of one transaction
_MINE = "SELECT name FROM lamina_presence WHERE role = current_user"
# What each version of the tables added; a new one is added here, and takes nothing away from builds
# that know only those before it. The version stands in the comment of a table: anybody can read it there.
_STEPS = (
    (
        f"""CREATE TABLE lamina_letters (
            number BIGSERIAL PRIMARY KEY, id TEXT NOT NULL UNIQUE, mailbox TEXT NOT NULL,
            body TEXT NOT NULL CHECK (octet_length(body) <= {LARGEST_LETTER}),
            sent TIMESTAMPTZ NOT NULL DEFAULT now(), taken TIMESTAMPTZ, wrong TEXT)""",
        """CREATE INDEX lamina_letters_waiting ON lamina_letters (mailbox, number)
            WHERE taken IS NULL""",
        "CREATE TABLE lamina_presence (name TEXT PRIMARY KEY, card TEXT NOT NULL)",
    ),
    # Who may connect but is another role sees no letters but its own, and speaks for nobody else.
    (
        # An identity needs no right of its own, as a sequence does.
        "ALTER TABLE lamina_letters ALTER number DROP DEFAULT",
        "DROP SEQUENCE lamina_letters_number_seq",
        "ALTER TABLE lamina_letters ALTER number ADD GENERATED ALWAYS AS IDENTITY",
        """SELECT setval(pg_get_serial_sequence('lamina_letters', 'number'), max(number))
            FROM lamina_letters""",
        "ALTER TABLE lamina_letters ADD sender TEXT",
        *(
            f"ALTER TABLE {table} {change}"
            for table in ("lamina_presence", "lamina_letters")
            for change in (
                "ADD role TEXT NOT NULL DEFAULT current_user",
                "ENABLE ROW LEVEL SECURITY",
                "FORCE ROW LEVEL SECURITY",
            )
        ),
        "CREATE POLICY mine ON lamina_presence USING (role = current_user)",
        "CREATE POLICY seen ON lamina_presence FOR SELECT USING (true)",
        f"CREATE POLICY read ON lamina_letters USING (mailbox IN ({_MINE})) WITH CHECK (true)",
        "CREATE POLICY sent ON lamina_letters FOR SELECT USING (role = current_user)",
        f"""CREATE POLICY written ON lamina_letters AS RESTRICTIVE FOR INSERT WITH CHECK
            (role = current_user AND (sender IS NULL OR sender IN ({_MINE})))""",
    ),
)
_VERSION = """SELECT CASE WHEN there IS NULL THEN 0 ELSE coalesce(
    substring(obj_description(there, 'pg_class') FROM '^lamina bridge ([0-9]+)')::int,
    1 + count(attname)::int) END FROM to_regclass('lamina_letters') there
    LEFT JOIN pg_attribute ON attrelid = there AND attname = 'role' GROUP BY there"""
_RIGHTS = """SELECT pg_get_userbyid(relowner), pg_has_role(relowner, 'USAGE'), current_user,
    has_table_privilege(oid, 'INSERT') FROM pg_class WHERE oid = to_regclass('lamina_letters')"""
_OLD = "The tables of agents.bridge are of an earlier Lamina. Run `lamina agents list` once"
_GRANT = "GRANT SELECT, INSERT, UPDATE, DELETE ON lamina_presence, lamina_letters"
_TAKEN = "UPDATE lamina_letters SET taken = now(), wrong = %s WHERE number = %s"
_LEAVE = """DELETE FROM lamina_presence WHERE name = %s AND NOT EXISTS (SELECT FROM lamina_letters
    WHERE mailbox = %s AND taken IS NULL)"""
_PRESENT = f"""SELECT card, EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = {_LOCKS} AND objid::bigint = (hashtext(name)::bigint & 4294967295))
    FROM lamina_presence"""  # noqa: S608 - the number is ours
_WAITING = """SELECT number, body, sender, role FROM lamina_letters WHERE mailbox = %s AND taken IS NULL
    ORDER BY number LIMIT %s FOR UPDATE SKIP LOCKED"""
_SEND = f"""INSERT INTO lamina_letters (id, mailbox, body, sender)
    VALUES (%s, %s, %s, ({_MINE} AND name = %s)) ON CONFLICT (id) DO NOTHING"""  # noqa: S608


class Bridge:
    def __init__(self, address: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise UsageError(
                f"agents.bridge needs one more package. Install it: {installing('postgresql')}."
            ) from error
        self._psycopg: Any = psycopg
        self._address = address
        self._kept: Any = None
        self._using = threading.RLock()

    def send(self, name: str, letter: Letter) -> None:
        body = letter.packed().decode()
        with self.connection() as made, made.transaction():
            known = made.execute("SELECT FROM lamina_presence WHERE name = %s", (name,)).fetchone()
            if known is None:
                raise UsageError(f"There is no mailbox {name!r} on the bridge.")
            made.execute(_SEND, (letter.id, name, body, name_in(letter.reply)))
            made.execute("SELECT pg_notify(%s, '')", (_channel(name),))

    def read(self, presence: Presence, complain: Callable[[str], None]) -> _Reader:
        with self.connection():  # makes the tables
            return _Reader(self, presence, complain)

    def present(self) -> list[Presence]:
        with self.connection() as made:
            rows = made.execute(_PRESENT).fetchall()
        found = [one for card, alive in rows if (one := Presence.unpacked(card, alive))]
        return sorted(found, key=lambda one: (not one.alive, one.name))

    @contextmanager
    def connection(self) -> Generator[Any]:
        """The one that is kept, for one thread at a time; one that broke is not used again."""
        with self._using, self.told():
            if self._kept is None or self._kept.closed:
                self._kept = self.connect()
                try:
                    self._bring_up_to_date(self._kept)
                except BaseException:
                    self._kept.close()
                    raise
            yield self._kept

    def _bring_up_to_date(self, made: Any) -> None:
        with made.transaction():
            made.execute(f"SELECT pg_advisory_xact_lock({_LOCKS}, 0)")
            (version,) = made.execute(_VERSION).fetchone()
            if version > len(_STEPS):
                words = f"The tables of agents.bridge have version {version}, of a newer Lamina"
                raise UsageError(f"{words}; this one knows {len(_STEPS)}. Update Lamina here.")
            if version:
                owner, owns, role, lets = made.execute(_RIGHTS).fetchone()
                if version < len(_STEPS) and not owns:
                    raise PostAway(
                        f"{_OLD} where it connects as the role {owner}, which made them."
                    )
                if not lets:
                    who = f"The role {role} may not use the tables of agents.bridge. Run as {owner}"
                    raise PostAway(f"{who}, which made them: {_GRANT} TO {role};")
            for statement in (one for step in _STEPS[version:] for one in step):
                made.execute(statement)
            if version < len(_STEPS):
                made.execute(f"COMMENT ON TABLE lamina_letters IS 'lamina bridge {len(_STEPS)}'")

    def connect(self) -> Any:
        return self._psycopg.connect(self._address, autocommit=True, connect_timeout=5)

    @contextmanager
    def told(self) -> Generator[None]:
        try:
            yield
        except self._psycopg.Error as error:
            why = " ".join(str(error).split())
            raise PostAway(f"The bridge (agents.bridge) can't be used now: {why}") from error

    def close(self) -> None:
        with self._using:
            if self._kept is not None:
                self._kept.close()


class _Reader:
    def __init__(self, bridge: Bridge, presence: Presence, complain: Callable[[str], None]) -> None:
        self._bridge, self._name, self._complain = bridge, presence.name, complain
        self._ear = bridge.connect()  # used for nothing else: a query would swallow what it hears
        lock = f"SELECT pg_try_advisory_lock({_LOCKS}, hashtext(%s))"
        whose = "SELECT role = current_user FROM lamina_presence WHERE name = %s"
        problem = ""
        if not self._ear.execute(lock, (self._name,)).fetchone()[0]:
            problem = "is on the bridge already. Stop it first, or take another name."
        elif self._ear.execute(whose, (self._name,)).fetchone() == (False,):
            problem = "belongs to another database role. Take another name."
        if problem:
            self._ear.close()
            raise UsageError(f"{self._name} {problem}")
        self._ear.execute(f"LISTEN {_channel(presence.name)}")
        self.bell: int = self._ear.fileno()
        self.show(presence)

    def hush(self) -> None:
        with self._bridge.told():
            for _ in self._ear.notifies(timeout=0):
                pass

    def take(self, hand_over: Callable[[Letter], None]) -> int:
        taken, some = 0, True
        while some:
            with self._bridge.connection() as made, made.transaction():
                rows = made.execute(_WAITING, (self._name, _AT_ONCE)).fetchall()
                for number, body, *writer in rows:
                    wrong = self._hand(number, body, writer, hand_over)
                    taken += not wrong
                    made.execute(_TAKEN, (wrong, number))
            some = bool(rows)
        return taken

    def _hand(
        self, number: int, body: str, writer: list[str], hand_over: Callable[[Letter], None]
    ) -> str | None:
        """A name is believed where the database says that it is the role's that sent the letter."""
        try:
            letter = Letter.unpacked(body.encode(), f"Letter {number} on the bridge")
        except UsageError as error:
            self._complain(f"{error} It was set aside there.")
            return str(error)
        sender, role = writer
        proven = bool(sender) and sender == name_in(letter.reply) == name_in(letter.sender)
        who = letter.sender if proven else f"{letter.sender} (unproven: database role {role})"
        hand_over(replace(letter, sender=who, proven=proven))
        return None

    def show(self, presence: Presence) -> None:
        with self._bridge.connection() as made:
            made.execute(
                "INSERT INTO lamina_presence (name, card) VALUES (%s, %s) "
                "ON CONFLICT (name) DO UPDATE SET card = EXCLUDED.card",
                (self._name, presence.packed().decode()),
            )

    def close(self, *, keep: bool = True) -> None:
        with suppress(PostAway), self._bridge.told():  # else others see it alive a little longer
            self._ear.execute("SELECT pg_advisory_unlock_all()")
        self._ear.close()
        if not keep:
            with self._bridge.connection() as made:
                made.execute(_LEAVE, (self._name, self._name))


def _channel(name: str) -> str:
    return "lamina_" + hashlib.sha256(name.encode()).hexdigest()[:20]
