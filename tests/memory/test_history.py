"""The history: commits that real git reads, blame, undo, restore, outside edits, damage, purge."""

from __future__ import annotations

import dataclasses
import errno
import io
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from dulwich.object_store import DiskObjectStore

from lamina.errors import Conflict, GateRefused, MemoryStoreError, UsageError
from lamina.events import Event, Warned
from lamina.memories import Evidence, Note
from lamina.memory.commits import blame, diff_text, users_word
from lamina.memory.file_store import FileStore
from lamina.memory.history import History
from lamina.memory.scan import nothing_new
from lamina.testing import a_memory

pytestmark = pytest.mark.spec("M9")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    with FileStore(tmp_path / "memory") as opened:
        yield opened


def git(store: FileStore, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "--git-dir", str(store.state / "history.git"), *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null"},
    )
    return done.stdout


def subjects(store: FileStore, path: str = "") -> list[str]:
    return [commit.subject for commit in store.journal.history.log(path)]


def test_real_git_reads_what_we_write_and_finds_no_fault(store: FileStore) -> None:
    store.remember(
        a_memory(
            "a.md",
            session="s-1",
            evidence=[Evidence("the file", "s-1", "e-1"), Evidence("it", "s-1", "e-2")],
            reason="asked to\nLamina-Origin: forged",
        )
    )
    store.remember(a_memory("team/b.md", body="Other words in the team's memory."))
    store.forget("a.md")
    store.catch_up()
    git(store, "fsck", "--strict")
    assert git(store, "log", "--format=%an %s").splitlines() == [
        "user forget a.md",
        "user remember team/b.md",
        "user remember a.md",
    ]
    assert git(store, "ls-tree", "-r", "--name-only", "main").split() == [
        "MEMORY.md",
        "team/MEMORY.md",
        "team/b.md",
    ]
    first = list(store.journal.history.log())[-1]
    assert (first.writer, first.session, first.entries) == ("user", "s-1", ("e-1", "e-2"))
    assert (first.origin, first.reason) == ("typed", "asked to Lamina-Origin: forged")


def test_nothing_is_written_into_the_users_own_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    before = sorted(str(file) for file in (tmp_path / ".git").rglob("*"))
    with FileStore(tmp_path / "memory") as store:
        store.remember(a_memory("a.md"))
    assert sorted(str(file) for file in (tmp_path / ".git").rglob("*")) == before


def test_outside_edits_are_found_and_are_nobodys_word(store: FileStore) -> None:
    store.remember(a_memory("a.md", body="typed line"))
    store.catch_up()
    with (store.directory / "a.md").open("a") as file:
        file.write("added by an editor\n")
    (store.directory / "new.md").write_text("made by hand\n")
    assert store.catch_up() == ["a.md", "new.md"]
    assert store.catch_up() == []
    newest = next(store.journal.history.log())
    assert (newest.writer, newest.paths) == ("outside", ("a.md", "new.md"))
    vouched = users_word(blame(store.journal.history.versions("a.md")))
    assert "typed line" in vouched
    assert "editor" not in vouched
    (store.directory / "new.md").unlink()
    assert store.catch_up() == ["new.md"]


def test_an_outside_edit_before_our_write_is_recorded_apart(store: FileStore) -> None:
    store.remember(a_memory("a.md", body="one"))
    store.catch_up()
    with (store.directory / "a.md").open("a") as file:
        file.write("by hand\n")
    base = store.read("a.md")
    store.write(a_memory("a.md", body=base.body + "\nours", writer="user"), base=base)
    store.catch_up()
    lines = {
        line.text: line.commit.writer for line in blame(store.journal.history.versions("a.md"))
    }
    assert (lines["one"], lines["by hand"], lines["ours"]) == ("user", "outside", "user")


def test_blame_follows_a_rename(store: FileStore) -> None:
    store.remember(a_memory("a.md", body="first line"))
    store.rename("a.md", "b.md")
    base = store.read("b.md")
    store.write(a_memory("b.md", body="first line\nsecond line"), base=base)
    store.catch_up()
    lines = {
        line.text: line.commit.subject for line in blame(store.journal.history.versions("b.md"))
    }
    assert lines["first line"] == "remember a.md"
    assert lines["second line"] == "update b.md"
    assert subjects(store, "b.md") == ["update b.md", "rename a.md to b.md", "remember a.md"]


def test_any_commit_can_be_undone_and_later_changes_stay(store: FileStore) -> None:
    body = "\n".join(f"line {number}" for number in range(12))
    store.remember(a_memory("a.md", body=body))
    base = store.read("a.md")
    store.write(a_memory("a.md", body=body.replace("line 2", "LINE 2")), base=base)
    base = store.read("a.md")
    store.write(a_memory("a.md", body=base.body.replace("line 9", "LINE 9")), base=base)
    store.catch_up()
    middle = [commit.id for commit in store.journal.history.log("a.md")][1]
    assert store.history.undo(middle[:10]) == ["a.md"]
    assert store.read("a.md").body == body.replace("line 9", "LINE 9")
    store.catch_up()
    newest = next(store.journal.history.log())
    assert newest.marks["Undoes"] == middle
    store.history.undo(newest.id)
    assert "LINE 2" in store.read("a.md").body


def test_undoing_what_was_changed_again_is_a_conflict_and_changes_nothing(store: FileStore) -> None:
    store.remember(a_memory("a.md", body="one"))
    for text in ("two", "three"):
        store.write(a_memory("a.md", body=text), base=store.read("a.md"))
    store.catch_up()
    middle = list(store.journal.history.log("a.md"))[1].id
    with pytest.raises(Conflict, match="changed again"):
        store.history.undo(middle)
    assert store.read("a.md").body == "three"


def test_undoing_a_creation_removes_and_undoing_a_forgetting_restores(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    content = store.read_bytes("a.md")
    store.forget("a.md")
    store.catch_up()
    forget, create = (commit.id for commit in store.journal.history.log())
    assert store.history.undo(forget) == ["MEMORY.md", "a.md"]
    assert store.read_bytes("a.md") == content
    assert "(a.md)" in store.index().text
    assert store.tombstones.all() == []
    store.history.undo(create)
    assert list(store.list()) == []
    assert store.index().text == ""


def test_an_earlier_version_can_be_restored(store: FileStore) -> None:
    store.remember(a_memory("a.md", body="first version"))
    store.write(a_memory("a.md", body="second version"), base=store.read("a.md"))
    store.catch_up()
    first = list(store.journal.history.log("a.md"))[-1].id
    store.history.restore("a.md", first)
    assert store.read("a.md").body == "first version"
    with pytest.raises(UsageError, match="did not exist"):
        store.history.restore("b.md", first)


def test_a_commit_that_is_not_there_is_named(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    for wrong in ("zz", "ffffffff", ""):
        with pytest.raises(UsageError, match="commit"):
            store.history.undo(wrong)


@pytest.mark.parametrize("damage", ["head", "objects", "truncated", "deleted", "a file", "config"])
def test_a_damaged_history_is_told_and_memory_works_on(tmp_path: Path, damage: str) -> None:
    with FileStore(tmp_path / "memory") as store:
        store.remember(a_memory("a.md"))
    repository = tmp_path / "memory.lamina" / "history.git"
    objects = [file for file in (repository / "objects").rglob("*") if file.is_file()]
    if damage == "head":
        (repository / "refs" / "heads" / "main").write_text("garbage\n")
    elif damage == "objects":
        for file in objects:
            file.chmod(0o600)
            file.write_bytes(b"garbage")
    elif damage == "truncated":
        for file in objects:
            file.chmod(0o600)
            file.write_bytes(b"")
    elif damage == "deleted":
        for file in objects:
            file.unlink()
    elif damage == "a file":
        import shutil

        shutil.rmtree(repository)
        repository.write_text("no repository")
    else:
        (repository / "config").write_bytes(b"[core\x00")
    events: list[Event] = []
    with FileStore(tmp_path / "memory", emit=events.append) as store:
        assert [memory.path for memory in store.list()] == ["a.md"]
        store.remember(a_memory("b.md", body="Written while the history was broken."))
        store.journal.settle()
        assert any(isinstance(event, Warned) and "damaged" in event.message for event in events)
        assert store.catch_up() == []
        assert subjects(store) == ["remember b.md", "adopt 2 files found here"]
    aside = [file.name for file in (tmp_path / "memory.lamina").iterdir()]
    assert any(name.startswith("history.git.damaged-") for name in aside)


@pytest.mark.spec("M10")
def test_purging_takes_every_trace_out_of_the_store(store: FileStore, tmp_path: Path) -> None:
    store.remember(a_memory("keep.md", body="This stays in the memory."))
    store.remember(
        a_memory("secret.md", name="Zanzibar", description="zanzibar plan", body="zanzibar " * 30)
    )
    store.rename("secret.md", "other.md")
    store.remember(
        a_memory("more.md", description="also stays", body="Many further words that stay here.")
    )
    store.forget("other.md", purge_history=True)
    store.close()
    with FileStore(tmp_path / "memory") as again:
        assert again.catch_up() == []
        assert {memory.path for memory in again.list()} == {"keep.md", "more.md"}
        git(again, "fsck", "--strict")
        everything = git(again, "log", "-p", "--all").lower()
        assert "stays" in everything
        for word in ("zanzibar", "secret.md", "other.md"):
            assert word not in everything
        blobs = git(again, "cat-file", "--batch-all-objects", "--batch").lower()
        assert "zanzibar" not in blobs
    left = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"zanzibar" not in left.lower()


def test_many_single_objects_are_packed(store: FileStore) -> None:
    for number in range(4):
        store.remember(a_memory(f"m{number}.md", body=f"Words of their own: {number} {number}."))
    store.journal.settle()
    store.journal.history.tidy(limit=5)
    assert list((store.state / "history.git" / "objects" / "pack").glob("*.pack"))
    assert len(subjects(store)) == 4
    git(store, "fsck", "--strict")


class _FullDisk(io.FileIO):
    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("failure", [MemoryError, OSError, "killed"])
def test_a_pack_that_fails_half_way_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[Exception] | str
) -> None:
    def starved(_: object, pack: io.IOBase, *__: object) -> None:
        pack.close()
        raise MemoryError

    def full(descriptor: int, _: str) -> io.BufferedRandom:
        return io.BufferedRandom(_FullDisk(descriptor, "r+"))

    history, note = History(tmp_path / "history.git"), Note(writer="outside", subject="adopt")
    files: dict[str, bytes | None] = {
        f"{n}.md": f"Room {n} has a lamp.".encode() for n in range(300)
    }
    packs = tmp_path / "history.git" / "objects" / "pack"
    history.begin()
    with monkeypatch.context() as patched:
        if failure == "killed":
            (packs / "tmpabc.pack").write_bytes(b"PACK")
        else:
            patched.setattr(DiskObjectStore, "_complete_pack", starved)
            if failure is OSError:
                patched.setattr(os, "fdopen", full)
            with pytest.raises((MemoryError, MemoryStoreError)):
                history.commit(files, note)
            assert list(packs.iterdir()) == []
    theirs = packs / "pack-0123.pack"  # as `git gc` has it before it writes the index
    theirs.write_bytes(b"PACK")
    assert history.commit(files, note)
    assert theirs.exists()
    theirs.unlink()
    assert sorted(one.suffix for one in packs.iterdir()) == [".idx", ".pack"]
    history.close()


def test_many_files_at_once_are_recorded_in_one_file_that_real_git_reads(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    (folder / "team").mkdir(parents=True)
    for number in range(300):  # two of them say the same
        (folder / "team" / f"n{number}.md").write_text(f"Room {number or 1} has a lamp.\n")
    with FileStore(folder) as store:
        store.remember(a_memory("a.md"))
        store.catch_up()
        git(store, "fsck", "--strict")
        assert git(store, "show", "HEAD~1:team/n299.md") == "Room 299 has a lamp.\n"
        counted = dict(one.split(": ") for one in git(store, "count-objects", "-v").splitlines())
        assert counted["in-pack"] == "299"
        assert int(counted["count"]) < 10
        store.forget("team/n7.md", purge_history=True)
        assert "n7.md" not in git(store, "log", "--name-only")


def test_a_diff_names_files_that_come_and_go() -> None:
    assert diff_text("a.md", None, b"x\n").splitlines()[:2] == ["--- /dev/null", "+++ b/a.md"]
    assert "-x" in diff_text("a.md", b"x\n", None)


def test_background_recording_follows_and_loses_nothing(tmp_path: Path) -> None:
    with FileStore(tmp_path / "memory", background=True) as store:
        for number in range(5):
            store.remember(a_memory(f"m{number}.md", body=f"Own words here: {number} {number}."))
    with FileStore(tmp_path / "memory") as store:
        assert store.catch_up() == []
        assert sorted(subjects(store)) == [f"remember m{number}.md" for number in range(5)]


def test_where_nothing_is_nothing_is_made_by_looking(tmp_path: Path) -> None:
    """The derived index was given up for the session when its folder was not there yet."""
    (tmp_path / "memory").mkdir()
    with FileStore(tmp_path / "memory", background=True) as store:
        store.note_outside()
        assert not store.changed_outside()
        assert not store.state.exists()
        (tmp_path / "memory" / "MEMORY.md").write_text("- by hand\n")
        assert store.changed_outside()


def test_edits_by_hand_are_recorded_when_a_session_opens(tmp_path: Path) -> None:
    with FileStore(tmp_path / "memory") as store:
        store.remember(a_memory("a.md"))
        store.catch_up()
    (tmp_path / "memory" / "hand.md").write_text("by hand\n")
    for file in (tmp_path / "memory").glob("*.md"):  # a file changed just now is looked at again
        os.utime(file, (1_000_000, 1_000_000))
    with FileStore(tmp_path / "memory", background=True):
        pass  # closing waits for what was begun
    with FileStore(tmp_path / "memory") as store:
        assert next(store.journal.history.log("hand.md")).writer == "outside"
        assert nothing_new(store.files, store.scanner)


def test_any_commit_can_be_undone_though_the_index_went_on(store: FileStore) -> None:
    """The first memory made the index; later ones changed the lines next to its own."""
    for name in ("alpha", "beta", "gamma"):
        store.remember(a_memory(f"{name}.md", name=name, body=f"All about {name} {name}ville."))
    store.catch_up()
    first = list(store.journal.history.log())[-1].id
    store.history.undo(first)
    assert [memory.path for memory in store.list()].count("alpha.md") == 0
    index = (store.directory / "MEMORY.md").read_text()
    assert [line.partition("(")[2].partition(")")[0] for line in index.splitlines()] == [
        "beta.md",
        "gamma.md",
    ]
    store.catch_up()
    store.history.undo(next(store.journal.history.log()).id)
    assert (store.directory / "alpha.md").exists()
    assert "(alpha.md)" in (store.directory / "MEMORY.md").read_text()


@pytest.mark.spec("M10")
def test_undoing_the_undo_of_a_forgetting_forgets_for_good_again(store: FileStore) -> None:
    memory = a_memory(
        "port.md", description="The port", body="The staging port is 8080 on pelican."
    )
    store.remember(memory)
    store.forget("port.md")
    for _ in range(2):  # the memory is back, then it is gone again
        store.catch_up()
        store.history.undo(next(store.journal.history.log()).id)
    assert not (store.directory / "port.md").exists()
    with pytest.raises(GateRefused, match="had this forgotten"):
        store.remember(dataclasses.replace(memory, writer="extraction"))


@pytest.mark.spec("M10")
def test_saying_again_what_was_forgotten_and_undoing_that_leaves_it_forgotten(
    store: FileStore,
) -> None:
    memory = a_memory(
        "port.md", description="The port", body="The staging port is 8080 on pelican."
    )
    store.remember(memory)
    store.forget("port.md")
    store.remember(memory)
    store.catch_up()
    store.history.undo(next(store.journal.history.log()).id)
    with pytest.raises(GateRefused, match="had this forgotten"):
        store.remember(dataclasses.replace(memory, writer="extraction"))


def test_a_pin_goes_with_the_name_when_a_rename_is_undone(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    store.pin("a.md")
    store.rename("a.md", "b.md")
    assert store.pinned() == {"b.md"}
    store.catch_up()
    store.history.undo(next(store.journal.history.log()).id)
    assert store.pinned() == {"a.md"}
    store.catch_up()
    store.history.undo(next(store.journal.history.log()).id)
    assert store.pinned() == {"b.md"}
    assert [commit.subject for commit in store.journal.history.log("b.md")][-1] == "remember a.md"


def test_the_id_of_something_else_than_a_commit_is_named_as_such(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    store.catch_up()
    blob = git(store, "rev-parse", "HEAD:a.md").strip()
    with pytest.raises(UsageError, match="No commit begins with"):
        store.history.undo(blob)


def test_damage_that_only_a_reader_met_ends_with_the_next_write(tmp_path: Path) -> None:
    """The newest commit is whole, an older one is not: a write alone would never notice."""
    with FileStore(tmp_path / "memory") as store:
        store.remember(a_memory("a.md", body="The first words about herons."))
        store.catch_up()
        first = next(store.journal.history.log()).id
        store.remember(a_memory("b.md", body="Other words that are about trains."))
    broken = tmp_path / "memory.lamina" / "history.git" / "objects" / first[:2] / first[2:]
    broken.chmod(0o600)
    broken.write_bytes(b"garbage")
    events: list[Event] = []
    with FileStore(tmp_path / "memory", emit=events.append) as store:
        with pytest.raises(MemoryStoreError, match="the next write begins a new history"):
            list(store.journal.history.log())
        store.remember(a_memory("c.md", body="Words of a third kind, for the new history."))
        store.catch_up()
        assert any(isinstance(event, Warned) and "damaged" in event.message for event in events)
        assert subjects(store, "c.md") == ["remember c.md"]
        assert subjects(store, "a.md") == ["adopt 3 files found here"]


def test_an_alarm_about_a_whole_history_costs_nothing(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    store.catch_up()
    (store.state / "history.git" / "damaged").touch()
    store.remember(a_memory("b.md", body="Other words that are about trains."))
    store.catch_up()
    assert subjects(store) == ["remember b.md", "remember a.md"]
    assert not (store.state / "history.git" / "damaged").exists()


@pytest.mark.spec("M10")
def test_purging_reaches_copies_that_accidents_left(store: FileStore) -> None:
    store.remember(a_memory("team/a.md", body="The codeword is xylophone."))
    store.catch_up()
    aside = store.journal.history.put_aside()
    assert aside is not None
    (store.state / "rescued").mkdir()
    (store.state / "rescued" / "00000000000000000001-ab-team-a.md").write_text("xylophone")
    (store.state / "rescued" / "00000000000000000001-ab-b.md").write_text("pelican")
    (store.state / "intents" / "1.json.damaged").write_text('{"path": "team/a.md", "xylophone')
    store.forget("team/a.md", purge_history=True)
    assert not aside.exists()
    left = [file for file in store.state.rglob("*") if file.is_file()]
    assert [file.name for file in left if file.suffix in (".md", ".damaged")] == [
        "00000000000000000001-ab-b.md"
    ]
    assert not any(b"xylophone" in file.read_bytes() for file in left)


def test_the_memories_that_were_there_before_the_history_are_not_undone_away(
    tmp_path: Path,
) -> None:
    """`undo` on a directory that was just opened for the first time must not empty it."""
    directory = tmp_path / "memory"
    directory.mkdir()
    for name in ("MEMORY.md", "a.md", "b.md"):
        (directory / name).write_text(f"- old words in {name}\n")
    with FileStore(directory) as store:
        store.catch_up()
        first = next(store.journal.history.log())
        with pytest.raises(UsageError, match="when the history began"):
            store.history.undo(first.id)
        (directory / "a.md").write_text("- newer words\n")
        store.catch_up()
        store.history.undo(next(store.journal.history.log()).id)
    assert (directory / "a.md").read_text() == "- old words in a.md\n"
    assert len(list(directory.iterdir())) == 3


def test_a_file_made_read_only_is_neither_changed_nor_removed(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    file = store.directory / "a.md"
    file.chmod(0o444)
    before = file.read_bytes()
    with pytest.raises(MemoryStoreError, match=r"remove .*a\.md: it is read-only"):
        store.forget("a.md")
    with pytest.raises(MemoryStoreError, match=r"write .*a\.md: it is read-only"):
        store.write(a_memory("a.md", body="Other words."), replace=True)
    assert file.read_bytes() == before
    assert "(a.md)" in (store.directory / "MEMORY.md").read_text()
    assert store.tombstones.all() == []
