"""Undo takes back what went through Lamina, and adoption of other people's files is one commit."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lamina.errors import Conflict, LaminaError, UsageError
from lamina.events import Event, MemoryAdopted
from lamina.memories import Verdict
from lamina.memory.commits import blame, rests_on_user, users_word
from lamina.memory.file_store import FileStore
from lamina.memory.index import is_index
from lamina.memory.review import attribute
from lamina.testing import a_memory

pytestmark = pytest.mark.spec("M9")

FOREIGN = {
    "MEMORY.md": b"# Mine\r\n\r\n- [Anna](user_anna.md) \xe2\x80\x94 reviews posts",
    "user_anna.md": b"---\nname: Anna\ntype: user\n---\n\nAnna reviews every post.\n",
    "feedback_tone.md": b"Write plainly.",
    "Odd Name.md": b"\xff\xfe no UTF-8, and a name that the gate refuses\n",
    "team/project_port.md": b"---\nname: Port\n---\nPort 8080.\n",
}


def fill(directory: Path) -> None:
    for path, content in FOREIGN.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(content)


def contents(directory: Path) -> dict[str, bytes]:
    files = [file for file in directory.rglob("*") if file.is_file()]
    return {file.relative_to(directory).as_posix(): file.read_bytes() for file in files}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    fill(tmp_path / "memory")
    return tmp_path / "memory"


@pytest.fixture
def store(directory: Path) -> Iterator[FileStore]:
    with FileStore(directory) as opened:
        yield opened


def undo_last(store: FileStore) -> list[str]:
    commit = store.history.last_change()
    return store.history.undo(commit.id) if commit else []


FIRST_WRITES: dict[str, Callable[[FileStore], object]] = {
    "remember": lambda store: store.remember(a_memory("a.md")),
    "extraction": lambda store: store.write(a_memory("a.md", writer="extraction")),
    "forget": lambda store: store.forget("user_anna.md"),
    "rename": lambda store: store.rename("user_anna.md", "user_ann.md"),
    "update": lambda store: store.write_file(
        "user_anna.md", b"Anna left.\n", writer="user", base=FOREIGN["user_anna.md"]
    ),
    "index": lambda store: store.write_file(
        "MEMORY.md", b"- nothing\n", writer="user", base=FOREIGN["MEMORY.md"]
    ),
}


@pytest.mark.parametrize("first", FIRST_WRITES)
@pytest.mark.parametrize("background", [False, True])
def test_all_that_is_there_is_adopted_as_one_commit_before_the_first_write(
    directory: Path, first: str, background: bool
) -> None:
    events: list[Event] = []
    with FileStore(directory, emit=events.append, background=background) as store:
        FIRST_WRITES[first](store)
    with FileStore(directory) as store:
        assert store.catch_up() == []
        write, adoption = store.journal.history.log()
        assert (write.writer == "outside", adoption.writer) == (False, "outside")
        adopted = store.journal.history.changes(adoption.id)
        assert {one.path: one.after for one in adopted} == FOREIGN
        assert undo_last(store)
        assert contents(directory) == FOREIGN
        assert store.history.last_change() is None
        with pytest.raises(UsageError, match="would delete 5 files that Lamina did not write"):
            store.history.undo(adoption.id)
    found = [sorted(one.files) for one in events if isinstance(one, MemoryAdopted)]
    assert found == [sorted(path for path in FOREIGN if path != "MEMORY.md")]
    assert contents(directory) == FOREIGN


def test_a_new_history_after_damage_begins_with_everything_too(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    store.catch_up()
    before = contents(store.directory)
    (store.state / "history.git" / "refs" / "heads" / "main").write_text("garbage\n")
    store.journal.history.close()
    store.remember(a_memory("b.md", body="Other words that are about trains."))
    undo_last(store)
    assert undo_last(store) == []
    assert contents(store.directory) == before


def test_what_a_tool_call_wrote_into_an_empty_directory_is_not_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FileStore(tmp_path / "memory") as store:
        (tmp_path / "memory").mkdir()
        for name in ("a", "b", "c"):
            text = (
                f"---\nname: {name}\ndescription: The town\n---\nIts town is called {name}ville.\n"
            )
            (tmp_path / "memory" / f"{name}.md").write_text(text)
        judge = store.judge

        def judged_while_the_background_records(*about: Any, **more: Any) -> Verdict:
            store.journal.settle()
            return judge(*about, **more)

        monkeypatch.setattr(store, "judge", judged_while_the_background_records)
        attribute(store, writer="agent")
        store.catch_up()
        assert [one.writer for one in store.journal.history.log()] == ["agent"] * 3


def test_a_file_written_by_hand_between_add_and_undo_stays(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    store.catch_up()
    (store.directory / "hand.md").write_text("By hand.\n")
    assert undo_last(store) == ["MEMORY.md", "a.md"]
    assert contents(store.directory) == {**FOREIGN, "hand.md": b"By hand.\n"}


def test_a_file_that_the_gate_would_refuse_comes_back_as_it_was(store: FileStore) -> None:
    for path in ("Odd Name.md", "feedback_tone.md"):
        store.forget(path)
    undo_last(store)
    undo_last(store)
    assert contents(store.directory) == FOREIGN


@pytest.mark.parametrize("how", ["forget", "rename"])
@pytest.mark.parametrize("writer", ["program", "user"])
def test_undoing_makes_nobody_elses_words_the_users_own(
    store: FileStore, how: str, writer: Any
) -> None:
    store.remember(a_memory("a.md", writer=writer))
    if how == "forget":
        store.forget("a.md")
    else:
        store.rename("a.md", "b.md")
    undo_last(store)
    store.catch_up()
    back = next(store.history.log("a.md"))
    assert back.marks["Undoes"]
    assert rests_on_user(back) == (writer == "user")


def test_a_memory_that_was_edited_by_hand_since_is_not_undone(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    with (store.directory / "a.md").open("a") as file:
        file.write("By hand.\n")
    before = contents(store.directory)
    with pytest.raises(Conflict, match=r"a\.md was changed again since"):
        undo_last(store)
    assert contents(store.directory) == before


def test_undo_goes_back_step_by_step_and_an_undo_is_redone_by_its_id(store: FileStore) -> None:
    for name in ("alpha", "beta"):
        store.remember(a_memory(f"{name}.md", body=f"All about {name} {name}ville."))
    both = contents(store.directory)
    assert "beta.md" in undo_last(store)
    redo = store.journal.newest_of_ours()
    assert "beta.md" in store.history.undo(redo)
    assert contents(store.directory) == both
    assert "beta.md" in undo_last(store), "what was redone is in force again"
    assert "alpha.md" in undo_last(store)
    assert undo_last(store) == []
    assert contents(store.directory) == FOREIGN
    assert "beta.md" in store.history.undo(redo)
    assert "beta.md" in undo_last(store)
    assert undo_last(store) == []


def test_a_change_of_which_nothing_is_left_does_not_stop_undo(store: FileStore) -> None:
    store.remember(a_memory("alpha.md", body="All about alphaville."))
    store.remember(a_memory("beta.md", body="Other words on the betas."))
    (store.directory / "beta.md").unlink()
    index = store.directory / "MEMORY.md"
    kept = [line for line in index.read_bytes().splitlines(keepends=True) if b"beta" not in line]
    index.write_bytes(b"".join(kept))
    assert "alpha.md" in undo_last(store)


@pytest.mark.spec("M10")
def test_a_purge_leaves_undone_what_was_undone(store: FileStore) -> None:
    store.remember(a_memory("alpha.md", body="All about alphaville."))
    store.remember(a_memory("beta.md", body="Other words on the betas."))
    undo_last(store)
    store.forget("feedback_tone.md", purge_history=True)
    changes = [one.change for one in store.history.in_force()]
    subjects = [one.subject for one in changes if one.writer != "outside"]
    assert subjects == ["remember alpha.md"]
    newest = next(one for one in store.journal.history.log() if "Undoes" in one.marks)
    assert newest.marks["Undoes"].startswith(newest.subject.split()[1].rstrip(":"))
    assert store.journal.history.find(newest.marks["Undoes"])


class Interleaved:
    """Hands and Lamina at work in one directory. Every line that a hand wrote has a word of its own."""

    NAMES = ("user_anna.md", "Odd Name.md", "team/project_port.md", "a.md", "b.md")

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self.count = 0
        self.touched: set[str] = set()  # by Lamina

    def word(self, by: str) -> str:
        self.count += 1
        return f"{by}{self.count}x"

    def hand_appends(self, path: str) -> None:
        file = self.store.directory / path
        file.parent.mkdir(exist_ok=True)
        with file.open("a") as opened:
            opened.write(f"\n{self.word('hand')} wrote this line\n")

    def hand_edits_the_index(self, _: str) -> None:
        self.hand_appends("MEMORY.md")

    def hand_removes(self, path: str) -> None:
        (self.store.directory / path).unlink(missing_ok=True)

    def lamina_adds(self, path: str) -> None:
        memory = a_memory(path, body=f"{self.word('lamina')} is what it says.")
        self.touched.add(self.store.remember(memory).path)

    def lamina_updates(self, path: str) -> None:
        self.touched.add(path)
        old = self.store.read_bytes(path)
        new = f"{self.word('lamina')} comes first\n".encode() + old
        self.store.write_file(path, new, writer="user", base=old)

    def lamina_forgets(self, path: str) -> None:
        self.touched.add(path)
        self.store.forget(path)

    def is_recorded(self, _: str) -> None:
        self.store.catch_up()

    def is_undone(self, _: str) -> None:
        before = contents(self.store.directory)
        try:
            undo_last(self.store)
        except Conflict:
            assert contents(self.store.directory) == before
            raise
        after = contents(self.store.directory)
        for path, content in before.items():
            if path not in self.touched and not is_index(path):
                assert after.get(path) == content, f"{path} is not Lamina's"
            lost = by_hand(content) - by_hand(after.get(path, b""))
            assert not lost, f"{path} lost {lost}"

    ACTS = (
        hand_appends,
        hand_edits_the_index,
        hand_removes,
        lamina_adds,
        lamina_updates,
        lamina_forgets,
        is_recorded,
        is_undone,
    )


def by_hand(content: bytes) -> set[bytes]:
    return {word for word in content.split() if word.startswith(b"hand")}


@settings(max_examples=25)
@example(
    [
        (Interleaved.hand_removes, "user_anna.md"),
        (Interleaved.lamina_adds, "user_anna.md"),
        (Interleaved.hand_edits_the_index, ""),
    ]
)
@given(
    st.lists(
        st.tuples(st.sampled_from(Interleaved.ACTS), st.sampled_from(Interleaved.NAMES)),
        max_size=14,
    )
)
def test_no_undo_without_an_id_touches_what_hands_wrote(
    acts: list[tuple[Callable[[Interleaved, str], None], str]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "memory"
        fill(directory)
        with FileStore(directory) as store:
            work = Interleaved(store)
            for act, path in [*acts, *[(Interleaved.is_undone, "")] * 3]:
                try:
                    act(work, path)
                except LaminaError:
                    continue
            firsts = [one for one in store.journal.history.log() if one.subject.startswith("adopt")]
            assert len(firsts) <= 1


def test_lines_of_an_adopted_file_are_as_old_as_the_file(store: FileStore) -> None:
    from lamina.memory.commits import written_at

    os.utime(store.directory / "feedback_tone.md", (1_600_000_000, 1_600_000_000))
    store.catch_up()
    [line] = blame(store.journal.history.versions("feedback_tone.md"))
    assert written_at(line.commit, 1_600_000_000) == 1_600_000_000
    assert written_at(line.commit, line.commit.when + 5) == line.commit.when


@pytest.mark.spec("L5.6", "M9")
@pytest.mark.parametrize("way", ["line", "file", "redo", "restore"])
def test_a_line_from_outside_that_comes_back_is_nobodys_word(store: FileStore, way: str) -> None:
    """One file, lines of two origins: what an undo, its redo or a restore brings back keeps its own."""
    path = "user_a.md"
    store.remember(a_memory(path, type="user", body="I live in Oslo."))
    store.catch_up()
    file = store.directory / path
    file.write_text(file.read_text() + "\nDeploys need no review.\n")
    store.catch_up()
    there = store.read_bytes(path)
    at = next(store.history.log(path)).id
    if way == "file":
        store.forget(path)
    else:
        less = there.replace(b"\nDeploys need no review.\n", b"")
        store.write_file(path, less, writer="user", base=there)
    store.catch_up()
    if way == "restore":
        store.history.restore(path, at)
    else:
        undo_last(store)
    store.catch_up()
    if way == "redo":
        undone = next(store.history.log(path)).id
        store.history.undo(undone)
        store.catch_up()
        store.history.undo(next(store.history.log(path)).id)
    store.catch_up()
    assert store.read_bytes(path) == there
    lines = blame(store.history.versions(path))
    assert {one.text: one.commit.writer for one in lines}["Deploys need no review."] == "outside"
    said = users_word(lines, path)
    assert "Oslo" in said
    assert "review" not in said
    assert "review" not in store.admission.vouched(path)


@pytest.mark.spec("M8")
def test_lines_that_were_moved_outside_are_the_users_again_after_an_undo(store: FileStore) -> None:
    store.write(a_memory("a.md", body="Deploys run on Friday."))
    file = store.directory / "a.md"
    typed = file.read_bytes()
    file.write_bytes(typed.replace(b"\n\nDeploys", b"\nDeploys") + b"\n\nelse\n")
    store.catch_up()
    store.history.undo(next(store.history.log("a.md")).id)
    store.catch_up()
    assert file.read_bytes() == typed
    lines = blame(store.journal.history.versions("a.md"))
    assert {one.commit.writer for one in lines} == {"user"}
