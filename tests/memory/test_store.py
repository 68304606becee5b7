"""The store: pointers, exact writes, merging with editors, pins, tombstones, real directories."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from lamina.errors import Conflict, GateRefused, MemoryStoreError
from lamina.events import Event, MemoryUpdated, Warned
from lamina.memories import Change, Note, Writer
from lamina.memory import admission as module
from lamina.memory.file_store import FileStore
from lamina.memory.gate import GateContext
from lamina.testing import a_memory


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    with FileStore(tmp_path / "memory") as opened:
        yield opened


def index_of(store: FileStore) -> str:
    return (store.directory / "MEMORY.md").read_text()


@pytest.mark.spec("M4")
def test_remember_writes_topic_file_and_pointer_in_one_call(store: FileStore) -> None:
    outcome = store.remember(a_memory("deploys.md", name="Deploys", description="On Fridays never"))
    assert outcome.sentence == "Memory updated: deploys.md"
    assert index_of(store) == "- [Deploys](deploys.md) — On Fridays never\n"
    assert (store.directory / "deploys.md").read_text().startswith("---\nname: Deploys\n")
    assert stat.S_IMODE((store.directory / "deploys.md").stat().st_mode) == 0o600


@pytest.mark.spec("M5")
def test_a_team_memory_points_from_the_teams_index(store: FileStore) -> None:
    store.remember(a_memory("team/style.md"))
    assert "](style.md)" in (store.directory / "team" / "MEMORY.md").read_text()
    assert not (store.directory / "MEMORY.md").exists()
    store.rename("team/style.md", "style.md")
    assert "style.md" not in (store.directory / "team" / "MEMORY.md").read_text()
    assert "](style.md)" in index_of(store)


@pytest.mark.spec("L5.6")
def test_whose_word_it_is_shows_in_the_index_line(store: FileStore) -> None:
    store.remember(a_memory("facts.md", writer="agent", body="The build takes nine minutes."))
    assert "(source: " in index_of(store)


def test_an_update_keeps_what_people_wrote_into_the_index_line(store: FileStore) -> None:
    store.remember(a_memory("deploys.md"))
    custom = "# Mine\n- [My words](deploys.md) - by hand\n"
    (store.directory / "MEMORY.md").write_text(custom)
    base = store.read("deploys.md")
    store.remember(a_memory("deploys.md", body="New text."), base=base)
    assert index_of(store) == custom


@pytest.mark.spec("M3")
def test_an_update_keeps_unknown_keys_comments_and_line_ends(store: FileStore) -> None:
    store.directory.mkdir()
    old = b"---\r\n# mine\r\nname: N\r\nx: 1\r\ndescription: d\r\ntype: project\r\n---\r\n\r\nText.\r\n"
    (store.directory / "a.md").write_bytes(old)
    base = store.read("a.md")
    store.write(a_memory("a.md", name="N", description="new", body="Text."), base=base)
    assert (store.directory / "a.md").read_bytes() == old.replace(
        b"description: d\r", b"description: new\r"
    )


@pytest.mark.spec("L5.6")
def test_a_plain_write_is_kept_byte_for_byte_and_passes_the_gate(store: FileStore) -> None:
    odd = b"---\nname: 'A'   # odd\ndescription: d\ntype: project\n---\n\n\n  Body\t\n\n\n"
    store.write_file("odd.md", odd, writer="user", base=None)
    assert store.read_bytes("odd.md") == odd
    with pytest.raises(GateRefused):
        store.write_file("odd.md", odd + "\u202e".encode(), writer="agent", base=odd)
    assert store.read_bytes("odd.md") == odd


@pytest.mark.spec("L5.6")
def test_direct_edits_of_the_index_are_gated(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    old = store.read_bytes("MEMORY.md")
    outcome = store.write_file(
        "MEMORY.md", old + b"- [Evil](nowhere.md)\n", writer="agent", base=old
    )
    assert outcome.decision == "inbox"
    assert store.read_bytes("MEMORY.md") == old
    store.write_file("MEMORY.md", b"# Title\n" + old, writer="agent", base=old)
    assert index_of(store).startswith("# Title\n")


@pytest.mark.spec("M9")
def test_an_editor_that_is_faster_than_us_loses_nothing(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our look and our write a person adds a line to the memory and one to the index."""
    store.remember(a_memory("a.md", body="one\ntwo\nthree"))
    base = store.read("a.md")
    real = module.decide
    edited: list[str] = []

    def slow_gate(*arguments: object) -> object:
        verdict = real(*arguments)  # type: ignore[arg-type]
        if not edited:
            for name, line in (("a.md", "by hand\n"), ("MEMORY.md", "- [Hand](hand.md)\n")):
                edited.append(name)
                with (store.directory / name).open("a") as file:
                    file.write(line)
        return verdict

    monkeypatch.setattr(module, "decide", slow_gate)
    changed = a_memory("a.md", description="a new one", body="ONE\ntwo\nthree")
    store.write(changed, base=base)
    assert store.read("a.md").body == "ONE\ntwo\nthree\nby hand"
    assert "[Hand](hand.md)" in index_of(store)
    assert "a new one" in index_of(store)


@pytest.mark.spec("M9")
def test_two_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    program = """
import sys, pathlib
from dataclasses import replace
from lamina.errors import Conflict
from lamina.memory.file_store import FileStore
from lamina.testing import a_memory
who = sys.argv[2]
with FileStore(pathlib.Path(sys.argv[1])) as store:
    print("ready", flush=True); sys.stdin.readline()
    for number in range(12):
        store.remember(a_memory(f"{who}_{number}.md", body=f"Unique words {who} {number} " * 3))
        while True:
            base = store.read("shared.md")
            line = f"line {who} {number}"
            top = base.body.split("middle")
            body = (f"{line}\\n" + base.body) if who == "a" else (base.body + f"\\n{line}")
            try:
                store.write(a_memory("shared.md", body=body), base=base); break
            except Conflict:
                continue
"""
    with FileStore(tmp_path / "memory") as store:
        store.remember(a_memory("shared.md", body="middle"))
    children = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "memory"), who],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for who in "ab"
    ]
    for child in children:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.communicate("\n")
    assert [child.returncode for child in children] == [0, 0]
    with FileStore(tmp_path / "memory") as store:
        body = store.read("shared.md").body.splitlines()
        assert sorted(body) == sorted(
            ["middle", *(f"line {who} {number}" for who in "ab" for number in range(12))]
        )
        index = index_of(store)
        assert all(f"({who}_{number}.md)" in index for who in "ab" for number in range(12))
        assert store.catch_up() == []
        written = [commit for commit in store.journal.history.log() if commit.writer == "user"]
        assert len(written) == 1 + 48


@pytest.mark.spec("L5.6")
def test_a_pinned_memory_changes_by_the_users_hand_only(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    store.pin("a.md")
    base = store.read("a.md")
    update = a_memory("a.md", body="Changed by the agent.", writer="agent")
    for attempt in (
        lambda: store.write(update, base=base),
        lambda: store.forget("a.md", writer="dream"),
        lambda: store.rename("a.md", "b.md", writer="agent"),
    ):
        with pytest.raises(GateRefused, match="pinned"):
            attempt()
    store.write(replace(update, writer="user"), base=base)
    store.rename("a.md", "b.md")
    assert store.pinned() == {"b.md"}
    store.pin("b.md", on=False)
    store.forget("b.md", writer="dream")
    with pytest.raises(MemoryStoreError, match="no memory"):
        store.pin("b.md")


@pytest.mark.spec("M10")
def test_a_tombstone_knows_the_words_again_but_does_not_hold_them(store: FileStore) -> None:
    said = a_memory(
        "pet.md",
        name="Pet",
        description="The user has a hamster called Zorro",
        body="Zorro the hamster lives in the kitchen.\nHe is three years old.",
    )
    store.remember(said)
    store.forget("pet.md")
    kept = b"".join(file.read_bytes() for file in store.state.iterdir() if file.is_file())
    assert b"zorro" not in kept.lower()
    assert b"hamster" not in kept.lower()
    for body in ("A hamster named Zorro lives in the kitchen.", said.body):
        again = a_memory(
            "animals.md",
            name="Animals",
            description="Pets of the user",
            body=body,
            writer="extraction",
        )
        with pytest.raises(GateRefused, match="forgotten"):
            store.write(again)
    other = a_memory(
        "plants.md",
        name="Plants",
        description="The office",
        body="The ficus stands in the hall.",
        writer="extraction",
    )
    assert store.write(other).decision == "accept"


@pytest.mark.spec("M10")
def test_the_user_may_say_again_what_was_forgotten(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    store.forget("a.md")
    assert store.tombstones.all()
    outcome = store.remember(a_memory("a.md"))
    assert any("comes back" in warning for warning in outcome.warnings)
    assert store.tombstones.all() == []


@pytest.mark.spec("M10")
def test_a_dream_that_merges_puts_up_no_tombstone(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    store.forget("a.md", writer="dream", tombstone=False)
    assert store.tombstones.all() == []


@pytest.mark.spec("L5.5")
def test_writes_are_told_and_the_index_is_not_named(tmp_path: Path) -> None:
    events: list[Event] = []
    with FileStore(tmp_path / "memory", emit=events.append) as store:
        store.remember(a_memory("a.md"))
        store.rename("a.md", "b.md")
        store.forget("b.md")
    assert events == [
        MemoryUpdated(["a.md"], "user"),
        MemoryUpdated(["b.md"], "user", ("a.md",)),
        MemoryUpdated([], "user", ("b.md",)),
    ]


@pytest.mark.spec("L5.6")
def test_a_setting_sends_everything_but_the_users_own_to_the_inbox(tmp_path: Path) -> None:
    with FileStore(tmp_path / "memory", gate=GateContext(inbox_all=True)) as store:
        assert store.write(a_memory("a.md", writer="agent")).decision == "inbox"
        assert store.write(a_memory("a.md", writer="agent")).inbox_id
        assert len(store.inbox.items()) == 1
        assert store.write(a_memory("b.md")).decision == "accept"


@pytest.mark.spec("M4")
def test_a_huge_index_is_cut_when_read_and_refused_when_written(store: FileStore) -> None:
    store.directory.mkdir()
    with (store.directory / "MEMORY.md").open("wb") as file:
        file.truncate(100_000_000)
        file.write(b"- [a](a.md)\n" * 1000)
    loaded = store.index()
    assert "100,000,000 bytes" in loaded.warning
    assert len(loaded.text) <= 25_000
    with pytest.raises(MemoryStoreError, match="Shorten it"):
        store.remember(a_memory("a.md"))
    assert not (store.directory / "a.md").exists()
    assert store.catch_up() == []


def test_reading_creates_nothing(tmp_path: Path) -> None:
    with FileStore(tmp_path / "memory") as store:
        assert store.list() == []
        assert store.index().text == ""
        assert store.search("x y") == []
        assert store.catch_up() == []
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("precious")
    with FileStore(tmp_path / "memory") as store:
        for attempt in (store.list, lambda: store.remember(a_memory("a.md"))):
            with pytest.raises(MemoryStoreError, match="memory"):
                attempt()
    assert (tmp_path / "memory").read_text() == "precious"


def digests(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(file.relative_to(folder)): (
            hashlib.sha256(file.read_bytes()).hexdigest(),
            file.stat().st_mtime_ns,
        )
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.mark.spec("M13")
def test_real_directories_open_in_place_without_a_byte_changed(
    memory_dirs: Path, tmp_path: Path
) -> None:
    found = sorted(memory_dirs.glob("*/.claude/memory"))
    assert len(found) >= 4
    for source in found:
        copy = tmp_path / source.parts[-3]
        shutil.copytree(source, copy / "memory")
        for file in copy.rglob("*"):
            file.chmod(0o700 if file.is_dir() else 0o644)
        before = digests(copy / "memory")
        with FileStore(copy / "memory", tmp_path / "lamina" / copy.name) as store:
            paths = {memory.path for memory in store.list()}
            assert paths == {path for path in before if path != "MEMORY.md"}
            for path in paths:
                assert store.read(path).body
            assert store.index().text.encode() == (copy / "memory" / "MEMORY.md").read_bytes()
            assert sorted(store.catch_up()) == sorted(before)
            store.search("project conventions")
        assert digests(copy / "memory") == before
        assert os.listdir(copy) == ["memory"]
        with FileStore(copy / "memory", tmp_path / "lamina" / copy.name) as store:
            store.remember(a_memory("zz_new.md"))
            store.forget("zz_new.md")
        after = digests(copy / "memory")
        assert {path: both[0] for path, both in after.items()} == {
            path: both[0] for path, both in before.items()
        }


def test_a_memory_that_is_gone_meanwhile_is_a_clear_conflict(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    base = store.read("a.md")
    (store.directory / "a.md").unlink()
    with pytest.raises(Conflict, match="removed"):
        store.write(a_memory("a.md", body="x y z"), base=base)


@pytest.mark.spec("L5.6")
def test_a_memory_made_by_hand_a_moment_ago_counts_as_a_double(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    body = "The staging database is copied every night at two."
    by_hand = a_memory("b.md", description="Nightly copy", body=body)
    (store.directory / "b.md").write_text(f"---\ndescription: Nightly copy\n---\n\n{body}\n")
    with pytest.raises(GateRefused, match=r"b\.md says the same"):
        store.write(replace(by_hand, path="c.md", writer="agent"))
    (store.directory / "b.md").unlink()
    assert store.write(replace(by_hand, path="c.md", writer="agent")).decision == "accept"
    with pytest.raises(GateRefused, match=r"c\.md says the same"):
        store.write(replace(by_hand, path="d.md", writer="agent"))


def test_a_damaged_list_of_pins_opens_nothing(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    store.pin("a.md")
    (store.state / "pins.json").write_text("{")
    with pytest.raises(MemoryStoreError, match=r"pins\.json is damaged"):
        store.forget("a.md", writer="agent")
    assert store.read("a.md")


@pytest.mark.spec("M9")
def test_a_damaged_intent_is_put_aside_and_told(tmp_path: Path) -> None:
    with FileStore(tmp_path / "memory") as store:
        store.remember(a_memory("a.md"))
    intents = tmp_path / "memory.lamina" / "intents"
    (intents / "00000000000000000001-x.json").write_text("{half")
    events: list[Event] = []
    with FileStore(tmp_path / "memory", emit=events.append) as store:
        store.remember(a_memory("b.md", body="Quite other words than before."))
        assert len(store.list()) == 2
    assert any(isinstance(event, Warned) and "damaged" in event.message for event in events)
    assert os.listdir(intents) == ["00000000000000000001-x.json.damaged"]


@pytest.mark.spec("M9")
def test_what_a_crash_left_is_finished_when_the_memory_opens(tmp_path: Path) -> None:
    """The moment between the intent and the first rename, and an edit by hand after the crash."""
    with FileStore(tmp_path / "memory") as store:
        store.remember(a_memory("a.md", body="one\ntwo\nthree\nfour"))
        store.remember(a_memory("b.md", body="Quite other words than before."))
        old = {name: store.read_bytes(name) for name in ("a.md", "b.md")}
        note = Note(writer="user", subject="update a.md")
        after = old["a.md"].replace(b"four", b"FOUR")
        clash = old["b.md"].replace(b"other", b"OTHER")
        with store.journal.writing():
            store.journal.intents.write(
                [Change("new.md", None, b"new\n"), Change("a.md", old["a.md"], after)], note
            )
            store.journal.intents.write([Change("b.md", old["b.md"], clash)], note)
    (tmp_path / "memory" / "a.md").write_bytes(old["a.md"].replace(b"one", b"ONE"))
    (tmp_path / "memory" / "b.md").write_bytes(old["b.md"].replace(b"other", b"AnOther"))
    events: list[Event] = []
    with FileStore(tmp_path / "memory", emit=events.append) as store:
        assert store.read_bytes("new.md") == b"new\n"
        assert store.read("a.md").body == "ONE\ntwo\nthree\nFOUR"
        assert "AnOther" in store.read("b.md").body
        kept = list((store.state / "rescued").iterdir())
        assert [file.read_bytes() for file in kept] == [clash]
        assert store.catch_up() == ["b.md"]
        writers = [commit.writer for commit in store.journal.history.log("a.md")]
        assert writers == ["user", "outside", "user"]
    assert any(isinstance(event, Warned) and "rescued" in event.message for event in events)


@pytest.mark.spec("M9")
def test_an_intent_holds_a_content_once_and_one_of_an_older_version_is_finished(
    tmp_path: Path,
) -> None:
    with FileStore(tmp_path / "memory") as store:
        store.remember(a_memory("a.md", body="one"))
        text = store.read_bytes("a.md")
        changes = [Change(f"{name}.md", text, None) for name in range(50)]
        with store.journal.writing():
            intent = store.journal.intents.write(changes, Note(writer="dream", subject="merge"))
            assert store.journal.intents.unapplied() == [intent]
            written = store.state / "intents" / f"{intent.id}.json"
            assert written.stat().st_size < 50 * len(text)
            store.journal.intents.drop(intent)
        after = text.replace(b"one", b"one\ntwo\nthree")
        older = msgspec.structs.replace(intent, changes=(Change("a.md", text, after),))
        written.write_bytes(msgspec.json.encode(older))  # each content where it is changed
        wrong = written.with_name(f"{int(intent.id[:20]) + 1:020d}-00000000.json")
        numbers = b'"changes":[["a.md",0,-1]],"contents":["eA==",""]'
        empty = msgspec.json.encode(msgspec.structs.replace(intent, changes=()))
        wrong.write_bytes(empty.replace(b'"changes":[]', numbers))
    file = tmp_path / "memory" / "a.md"
    file.write_bytes(file.read_bytes().replace(b"---\n", b"---\nkey: by hand\n", 1))
    with FileStore(tmp_path / "memory") as store:
        assert store.read("a.md").body == "one\ntwo\nthree"
        assert store.read("a.md").extra == {"key": "by hand"}
        assert f"{wrong.name}.damaged" in os.listdir(store.state / "intents")


@pytest.mark.spec("L5.6", "M4")
def test_a_label_is_not_lost_in_two_steps(store: FileStore) -> None:
    fact = a_memory(
        "gate.md", name="Gate", description="The gate is blue", body="The gate is blue."
    )
    assert store.write(dataclasses.replace(fact, writer="program")).origin == "program"
    line = store.read_bytes("MEMORY.md")
    assert line.endswith(b"(source: program)\n")
    store.write_file("MEMORY.md", b"", writer="agent", base=line)
    bare = "- [Gate](gate.md) — The gate is blue\n".encode()
    assert store.write_file("MEMORY.md", bare, writer="agent", base=b"").decision == "inbox"
    assert store.write_file("MEMORY.md", line, writer="agent", base=b"").decision == "accept"
    assert store.write_file("MEMORY.md", bare, writer="user", base=line).decision == "accept"


@pytest.mark.spec("L5.9", "M9")
@pytest.mark.parametrize("writer", ["user", "agent", "extraction"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("form", ["ours", "own"])
def test_a_namesake_that_says_more_leaves_a_hand_written_file_as_it_stands(
    store: FileStore, writer: Writer, known: bool, form: str
) -> None:
    """It says all that the file says: the file keeps title, description and form all the same."""
    said = "Crates leave from dock 4. Pallets leave from dock 5."
    old = f"---\nname: Docks\ndescription: Where what leaves\ntype: project\n---\n\n{said}\n"
    if form == "own":
        old = old.replace(" Pallets", "   \r\n\r\nPallets").replace("type: p", "type:  p")
    store.directory.mkdir(parents=True, exist_ok=True)
    file = store.directory / "project_docks.md"
    file.write_bytes(old.encode())
    if known:
        store.catch_up()
    more = a_memory(
        "project_docks.md", writer=writer, type="project", body=f"{said} Barrels stay inside."
    )
    outcome = store.remember(more)
    new = file.read_bytes()
    assert new.startswith(old.rstrip().encode())
    if writer == "user":
        assert new.endswith(b"\n\nBarrels stay inside.\n") or form == "ours"
        assert b"Barrels stay inside." in new
    else:
        assert new == old.encode()
        assert outcome.path != "project_docks.md" or outcome.decision == "inbox"
        store.remember(replace(more, body=said))
        assert file.read_bytes() == new
