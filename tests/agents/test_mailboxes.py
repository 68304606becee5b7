"""What every road between processes promises: the same checks on files and on PostgreSQL."""

from __future__ import annotations

import itertools
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lamina.agents.bridge import Bridge
from lamina.agents.mailboxes import Maildirs, new_id
from lamina.errors import LaminaError, PostAway, StorageError, UsageError
from lamina.ports import LARGEST_LETTER, Letter, Post, Presence

Make = Callable[[], Post]
_names = itertools.count()


@pytest.fixture(params=["files", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Another opening of the same post, as another process would have it."""
    opened: list[Post] = []
    address = request.getfixturevalue("postgresql") if request.param == "postgresql" else ""

    def build() -> Post:
        opened.append(Bridge(address) if address else Maildirs(tmp_path / "mail"))
        return opened[-1]

    yield build
    for one in opened:
        one.close()


@pytest.fixture
def name() -> str:
    """One that no other test has, of this run or of one before: a database is shared, and stays."""
    return f"anna{new_id().replace('-', '')[:16]}"


def letter(words: Any = "hello", **more: Any) -> Letter:
    return Letter(more.pop("id", new_id()), "ben", "ben", words, **more)


def never(problem: str) -> None:
    raise AssertionError(problem)


def rings(bell: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(bell, selectors.EVENT_READ)
        return bool(selector.select(5))


@pytest.mark.spec("L7.4")
def test_letters_arrive_once_whole_and_in_order(make: Make, name: str) -> None:
    reader = make().read(Presence(name), never)
    other = make()
    writer = other.read(Presence("ben"), never)
    sent = [letter(f"nö {n} \x00…", summary="s", to="x") for n in range(30)]
    sent.append(letter({"type": "task", "deep": [1, {"a": None}]}))
    for one in sent:
        other.send(name, one)
    got: list[Letter] = []
    assert reader.take(got.append) == len(sent)
    assert got == sent
    writer.close()
    assert reader.take(got.append) == 0
    reader.close()


@pytest.mark.spec("L7.4")
def test_the_same_id_again_is_the_same_letter_read_or_not(make: Make, name: str) -> None:
    reader, other, one, got = make().read(Presence(name), never), make(), letter(), list[Letter]()
    other.send(name, one)
    other.send(name, one)
    assert reader.take(got.append) == 1
    other.send(name, one)
    assert reader.take(got.append) == 0
    reader.close()


@pytest.mark.spec("L7.4")
def test_a_letter_whose_reader_fails_comes_again_and_none_is_lost(make: Make, name: str) -> None:
    reader, other, got = make().read(Presence(name), never), make(), list[str]()
    first, second = letter("1"), letter("2")
    other.send(name, first)
    other.send(name, second)

    def dies(one: Letter) -> None:
        got.append(one.id)
        if one.id == second.id and len(got) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reader.take(dies)
    reader.close()
    again = make().read(Presence(name), never)
    again.take(dies)
    assert set(got) == {first.id, second.id}
    assert got[-1] == second.id
    again.close()


@pytest.mark.spec("L7.4")
def test_a_bell_wakes_the_reader(make: Make, name: str) -> None:
    reader, other, got = make().read(Presence(name), never), make(), list[Letter]()
    for _ in range(2):
        other.send(name, letter())
        assert rings(reader.bell)
        reader.hush()
        assert reader.take(got.append) == 1
    reader.close()


@pytest.mark.spec("L7.4")
def test_a_mailbox_has_one_living_reader_and_others_see_who(make: Make, name: str) -> None:
    post, other = make(), make()
    reader = post.read(Presence(name, type="general", status="idle"), never)
    with pytest.raises(UsageError, match=name):
        other.read(Presence(name), never)
    reader.show(Presence(name, type="general", status="running", line="Reading a.py", tokens=7))
    [seen] = [one for one in other.present() if one.name == name]
    assert (seen.alive, seen.status, seen.line, seen.tokens) == (True, "running", "Reading a.py", 7)
    reader.close()
    [seen] = [one for one in other.present() if one.name == name]
    assert not seen.alive
    other.send(name, letter())  # it waits
    late = other.read(Presence(name), never)
    assert late.take(lambda _: None) == 1
    late.close(keep=False)
    assert name not in [one.name for one in other.present()]


@pytest.mark.spec("L7.4")
def test_what_is_too_large_or_goes_nowhere_is_refused(make: Make, name: str) -> None:
    post = make()
    with pytest.raises(UsageError, match="no mailbox"):
        post.send(name, letter())
    reader = post.read(Presence(name), never)
    with pytest.raises(UsageError, match="too large"):
        post.send(name, letter("x" * 100_000_000))
    post.send(name, letter("x" * (LARGEST_LETTER - 1_000)))
    assert reader.take(lambda _: None) == 1
    with pytest.raises(LaminaError):
        post.send("../" + name, letter())
    reader.close()


KILLED = """
import os, sys
from pathlib import Path
from lamina.agents.bridge import Bridge
from lamina.agents.mailboxes import Maildirs
from lamina.ports import Letter, Presence

where, name, verb, id_ = sys.argv[1:]
post = Bridge(where) if where.startswith("postgresql:") else Maildirs(Path(where))
if verb == "read":
    reader = post.read(Presence(name), print)
    reader.take(lambda one: (print(one.id, flush=True), os.kill(os.getpid(), 9)))
post.send(name, Letter(id_, "ben", "ben", "hello"))
os.kill(os.getpid(), 9)
"""


@pytest.mark.spec("L7.4")
def test_killed_senders_and_readers_lose_and_double_nothing(
    make: Make, name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    files = "files" in request.node.name
    where = str(tmp_path / "mail") if files else request.getfixturevalue("postgresql")
    first, id_ = make().read(Presence(name), never), new_id()
    first.close()

    def run(verb: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", KILLED, where, name, verb, id_],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        return done.stdout.strip()

    run("send")  # it died before it heard that its letter was taken, and sends it again
    run("send")
    assert run("read") == id_  # it died with the letter in its hands
    reader, got = make().read(Presence(name), never), list[Letter]()
    assert reader.take(got.append) == 1
    assert [one.id for one in got] == [id_]
    reader.close()


# ---- files alone


@pytest.fixture
def box(tmp_path: Path) -> Path:
    Maildirs(tmp_path / "mail").read(Presence("anna"), never).close()
    return tmp_path / "mail" / "anna"


@pytest.mark.spec("L7.4")
@pytest.mark.parametrize("part", ["", "new", "tmp", "cur"])
def test_a_mailbox_that_is_a_link_is_not_used(box: Path, part: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (box / part).rename(tmp_path / "moved")
    (box / part).symlink_to(tmp_path / "elsewhere")
    post = Maildirs(tmp_path / "mail")
    with pytest.raises(StorageError, match="is a link"):
        post.send("anna", letter())
    with pytest.raises(StorageError, match="is a link"):
        post.read(Presence("anna"), never)
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.spec("L7.4")
def test_a_mailbox_that_becomes_a_link_between_two_letters_is_not_used(
    box: Path, tmp_path: Path
) -> None:
    post = Maildirs(tmp_path / "mail")
    post.send("anna", letter())
    box.rename(tmp_path / "moved")
    (tmp_path / "elsewhere").mkdir()
    box.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="is a link"):
        post.send("anna", letter())


@pytest.mark.spec("L7.4")
@pytest.mark.parametrize("part", ["", "new", "cur"])
def test_a_mailbox_that_becomes_a_link_under_its_reader_moves_nobodys_files(
    box: Path, part: str, tmp_path: Path
) -> None:
    reader = Maildirs(tmp_path / "mail").read(Presence("anna"), never)
    notes = tmp_path / "elsewhere" / "notes.txt" if part else tmp_path / "elsewhere/new/notes.txt"
    notes.parent.mkdir(parents=True)
    notes.write_text("no letter")
    (box / part).rename(tmp_path / "moved")
    (box / part).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="is a link"):
        reader.take(list[Letter]().append)
    reader.close(keep=False)
    assert notes.read_text() == "no letter"


@pytest.mark.spec("L7.4")
def test_who_lost_its_mailbox_takes_nothing_from_the_next_reader_there(
    box: Path, tmp_path: Path
) -> None:
    post = Maildirs(tmp_path / "mail")
    first = post.read(Presence("anna"), never)
    box.rename(tmp_path / "moved")
    second, got = post.read(Presence("anna"), never), list[Letter]()
    post.send("anna", one := letter())
    with pytest.raises(PostAway, match="Somebody replaced"):
        first.take(got.append)
    assert second.take(got.append) == 1
    first.close(keep=False)
    assert box.is_dir()
    assert got == [one]
    second.close()


@pytest.mark.spec("L7.4")
def test_half_a_letter_a_huge_one_and_a_link_are_set_aside_by_name(
    box: Path, tmp_path: Path
) -> None:
    whole = letter()
    Maildirs(tmp_path / "mail").send("anna", whole)
    data = (box / "new" / whole.id).read_bytes()
    (box / "new" / "half").write_bytes(data[: len(data) // 2])
    (box / "new" / "renamed").write_bytes(data)
    with open(box / "new" / "huge", "wb") as file:
        file.truncate(100_000_000)
    (box / "new" / "link").symlink_to("/etc/passwd")
    os.mkfifo(box / "new" / "pipe")
    said: list[str] = []
    reader, got = Maildirs(tmp_path / "mail").read(Presence("anna"), said.append), list[Letter]()
    assert reader.take(got.append) == 1
    assert got == [whole]
    assert sorted(os.listdir(box / "bad")) == ["half", "huge", "link", "pipe", "renamed"]
    for word, reason in (
        ("half", "half a letter"),
        ("huge", "larger than the 1,000,000 bytes"),
        ("link", "link"),
    ):
        assert any(f"/new/{word} " in one and reason in one for one in said), said
    reader.close()


@pytest.mark.spec("L7.4")
def test_an_id_can_not_name_another_file(box: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="id"):
        letter(id="../../cur/x")
    data = letter(id="PLACE").packed().replace(b"PLACE", b"../../cur/x")
    with pytest.raises(UsageError, match="id"):
        Letter.unpacked(data, "The letter")


# ---- PostgreSQL alone


@pytest.mark.spec("L7.4")
def test_a_bridge_that_is_not_there_is_a_named_error() -> None:
    bridge = Bridge("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(PostAway, match=r"agents\.bridge"):
        bridge.present()


@pytest.fixture
def roles(postgresql: str, name: str) -> Iterator[tuple[Bridge, Bridge]]:
    """The bridge as two database roles have it, neither of which may do everything."""
    owner = Bridge(postgresql)
    with owner.connection() as made:
        for role in (f"{name}_a", f"{name}_b"):
            made.execute(f"CREATE ROLE {role} LOGIN")
            made.execute(
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON lamina_presence, lamina_letters TO {role}"
            )
    one, two = (Bridge(postgresql.replace("lamina@", f"{name}_{n}@")) for n in "ab")
    yield one, two
    for bridge in (one, two, owner):
        bridge.close()


@pytest.mark.spec("L7.3", "L7.4")
def test_a_name_on_the_bridge_is_its_database_role_s_and_another_s_word_is_called_unproven(
    roles: tuple[Bridge, Bridge], name: str
) -> None:
    one, two = roles
    anna, ben = f"{name}@x", f"{name}ben@x"
    mine, theirs = one.read(Presence(anna), never), two.read(Presence(ben), never)
    got: list[Letter] = []
    mine.close()
    with pytest.raises(UsageError, match="belongs to another database role"):
        two.read(Presence(anna), never)
    mine = one.read(Presence(anna), never)
    for claimed in (ben, anna):
        address = f"bridge:{claimed}#helper"
        two.send(anna, Letter(new_id(), address, address, "hello"))
    two.send(anna, Letter(new_id(), f"bridge:{anna}", f"bridge:{ben}", "hello"))
    assert mine.take(got.append) == 3
    assert [one.proven for one in got] == [True, False, False]
    assert got[0].sender == f"bridge:{ben}#helper"
    assert got[1].sender == f"bridge:{anna}#helper (unproven: database role {name}_b)"
    two.send(ben, letter())
    with two.connection() as made, pytest.raises(Exception, match="row-level security"):
        made.execute(
            "INSERT INTO lamina_letters (id, mailbox, body, sender) VALUES ('x', %s, '', %s)",
            (anna, anna),
        )
    with one.connection() as made:  # nothing of the other's letters can be read, or taken away
        others = "SELECT FROM lamina_letters WHERE mailbox = %s AND role <> current_user"
        assert made.execute(others, (ben,)).rowcount == 0
        assert made.execute("UPDATE lamina_letters SET taken = now()").rowcount == 3
        assert made.execute("DELETE FROM lamina_presence WHERE name = %s", (ben,)).rowcount == 0
    assert theirs.take(got.append) == 1
    mine.close()
    theirs.close()


_AN_EARLIER_BUILD_S = (
    """CREATE TABLE lamina_letters (
        number BIGSERIAL PRIMARY KEY, id TEXT NOT NULL UNIQUE, mailbox TEXT NOT NULL,
        body TEXT NOT NULL CHECK (octet_length(body) <= 1000000),
        sent TIMESTAMPTZ NOT NULL DEFAULT now(), taken TIMESTAMPTZ, wrong TEXT)""",
    """CREATE INDEX lamina_letters_waiting ON lamina_letters (mailbox, number)
        WHERE taken IS NULL""",
    "CREATE TABLE lamina_presence (name TEXT PRIMARY KEY, card TEXT NOT NULL)",
)


@pytest.fixture
def database(postgresql: str, name: str) -> str:
    """A database of its own: its tables are of another version."""
    with Bridge(postgresql).connect() as made:
        made.execute(f"CREATE DATABASE {name}")
    return postgresql.replace("/postgres?", f"/{name}?")


@pytest.mark.spec("L7.4")
def test_tables_of_an_earlier_build_are_brought_up_to_date_with_what_waits_in_them(
    database: str, name: str
) -> None:
    bridge, waiting = Bridge(database), [letter("one"), letter("two")]
    with bridge.connect() as made:
        for statement in _AN_EARLIER_BUILD_S:
            made.execute(statement)
        made.execute(f"CREATE ROLE {name}_c LOGIN")
        other = Bridge(database.replace("lamina@", f"{name}_c@"))
        # Who did not make them can't change them, and is told who can.
        with pytest.raises(PostAway, match=r"Run `lamina agents list` once .* role lamina, which"):
            other.present()
        card = Presence("anna", session="s1").packed().decode()
        made.execute("INSERT INTO lamina_presence VALUES ('anna', %s)", (card,))
        for one in waiting:
            made.execute(
                "INSERT INTO lamina_letters (id, mailbox, body) VALUES (%s, 'anna', %s)",
                (one.id, one.packed().decode()),
            )
    assert [(one.name, one.session) for one in bridge.present()] == [("anna", "s1")]
    with pytest.raises(PostAway, match=f"Run as lamina, .* lamina_letters TO {name}_c;"):
        other.present()
    with bridge.connection() as made:
        made.execute(f"GRANT ALL ON lamina_presence, lamina_letters TO {name}_c")
    other.send("anna", letter("three"))
    bridge.close()
    again, got = Bridge(database), list[Letter]()
    reader = again.read(Presence("anna"), never)
    assert reader.take(got.append) == 3
    assert [one.message for one in got] == ["one", "two", "three"]
    assert not any(one.proven for one in got)
    reader.close()
    with pytest.raises(UsageError, match="another database role"):
        other.read(Presence("anna"), never)
    for one in (again, other):
        one.close()


@pytest.mark.spec("L7.4")
def test_tables_of_a_newer_build_are_left_alone_and_named(database: str) -> None:
    bridge = Bridge(database)
    assert bridge.present() == []
    with bridge.connection() as made:
        made.execute("COMMENT ON TABLE lamina_letters IS 'Ours since 2026'")
    bridge.close()
    assert bridge.present() == [], "somebody's own comment is no version"
    with bridge.connection() as made:
        made.execute("COMMENT ON TABLE lamina_letters IS 'lamina bridge 9'")
    bridge.close()
    with pytest.raises(UsageError, match=r"version 9, of a newer Lamina.*Update Lamina here"):
        Bridge(database).present()


@pytest.mark.spec("L7.4")
def test_a_row_that_is_no_letter_is_set_aside_by_name(postgresql: str, name: str) -> None:
    bridge, said = Bridge(postgresql), list[str]()
    reader = bridge.read(Presence(name), said.append)
    with bridge.connection() as made:
        made.execute(
            'INSERT INTO lamina_letters (id, mailbox, body) VALUES (%s, %s, \'{"id": "1\')',
            (name, name),
        )
    assert reader.take(lambda _: None) == 0
    assert reader.take(lambda _: None) == 0
    assert len(said) == 1
    assert "half a letter" in said[0]
    reader.close()
    bridge.close()
