"""Conversations of other programs: recognised, kept, changed once and for good (I1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.cli.main import main
from lamina.config import load
from lamina.conversation import lineage
from lamina.conversation.kept import Asked, Changes, Conversations
from lamina.conversation.lineage import digest_of, linked
from lamina.ledger.places import project_folder
from lamina.messages import Message, Usage, text, tool_result, tool_use

pytestmark = pytest.mark.spec("I1")
MODEL = "claude-sonnet-4-6"


def chain(messages: Sequence[Message]) -> list[str]:
    return linked(map(digest_of, messages))


class Program:
    """One that keeps its whole list and sends it each time, at times that the test sets."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.now = folder, 1_000_000.0
        self.told: list[str] = []
        self.restart()

    def restart(self) -> None:
        config = load(self.folder, home=self.folder / "home")
        self.kept = Conversations(
            self.folder / "kept", config, tell=self.told.append, now=lambda: self.now
        )

    def ask(self, messages: Sequence[Message], seconds: float = 10) -> Changes:
        changes = self.kept.changes(Asked(messages, chain(messages), MODEL, reads_files=True))
        self.now += seconds
        self.kept.answered(changes.conversation, Usage(1_000, 10), MODEL)
        return changes

    def files(self) -> int:
        return len(list((self.folder / "kept").glob("*.jsonl")))


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path / "work")


def work(rounds: int, start: int = 0) -> list[Message]:
    messages: list[Message] = [] if start else [{"role": "user", "content": [text("Go on.")]}]
    for n in range(start, start + rounds):
        call = tool_use(f"call{n}", "query", {"step": n})
        words = "\n".join(f"{n}.{line} is {n * line}" for line in range(200))
        messages.append({"role": "assistant", "content": [call]})
        messages.append({"role": "user", "content": [tool_result(f"call{n}", words)]})
    return messages


def test_after_a_pause_old_results_are_in_files_and_stay_there(program: Program) -> None:
    messages = work(8)
    assert program.ask(messages).replaced == {}
    program.now += 3_600
    messages += work(1, start=8)
    cleared = program.ask(messages).replaced
    assert [*cleared] == [2, 4, 6, 8], "all but the last five"
    marker = str(cleared[2][0]["content"])
    path = marker.removeprefix("[Old tool result content cleared; all of it is in ")[:-1]
    assert Path(path).read_text("utf-8") == messages[2]["content"][0]["content"]
    program.restart()
    messages += work(1, start=9)
    assert program.ask(messages).replaced == cleared
    assert program.files() == 1
    assert program.told == []


def test_a_branch_of_what_is_warm_breaks_nothing(program: Program) -> None:
    messages = work(8)
    program.ask(messages)
    for start in range(8, 12):  # ten minutes in all, never five without a request
        program.now += 150
        messages += work(1, start=start)
        program.ask(messages)
    assert program.ask([*messages[:17], *work(1, start=20)]).replaced == {}
    assert program.files() == 2


def test_a_branch_inherits_what_was_changed_in_what_both_share(program: Program) -> None:
    messages = work(8)
    program.ask(messages)
    program.now += 3_600
    messages += work(3, start=8)
    cleared = program.ask(messages).replaced
    other = program.ask([*messages[:9], *work(1, start=20)]).replaced
    assert other == {number: blocks for number, blocks in cleared.items() if number < 9}
    assert len(other) == 4
    assert program.ask([*messages, *work(1, start=11)]).replaced == cleared


def test_two_processes_take_turns_in_one_conversation(program: Program, tmp_path: Path) -> None:
    other = Program(tmp_path / "work")
    messages = work(8)
    for at, one in enumerate((program, other) * 3):
        one.now = program.now = other.now = program.now + (3_600 if at == 2 else 10)
        messages += work(1, start=8 + at)
        changes = one.ask(messages)
        if at == 2:
            cleared = changes.replaced
        elif at > 2:
            assert changes.replaced == cleared
    assert program.files() == 1
    assert program.told == other.told == []


def test_what_is_asked_twice_is_one_conversation(program: Program) -> None:
    messages = work(3)
    first = program.ask(messages)
    assert program.ask(messages) == first
    assert program.files() == 1


def test_half_a_line_in_the_index_and_a_lost_ledger_cost_only_themselves(program: Program) -> None:
    messages = work(3)
    name = program.ask(messages).conversation
    with (program.folder / "kept" / "index").open("ab") as index:
        index.write(b"0123 half a li\n\xff\xfe")
    (program.folder / "kept" / f"{name}.jsonl").unlink()
    program.restart()
    messages += work(1, start=3)
    assert program.ask(messages).replaced == {}
    program.restart()
    assert program.ask([*messages, *work(1, start=4)]).replaced == {}
    assert program.told == []


def test_of_many_conversations_the_oldest_are_found_in_the_file(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage, "_MOST", 8)
    many = [[*work(2)[:1], {"role": "user", "content": [text(str(n))]}] for n in range(9)]
    names = [program.ask([*one, *work(2, start=5)]).conversation for one in many]
    for _ in "as it is", "restarted":
        again = [program.ask([*one, *work(3, start=5)]) for one in many]
        assert [one.conversation for one in again] == names
        assert [program.ask(one).left[0] for one in many] == [2] * 9, "which left after two"
        program.restart()
    (program.folder / "kept" / "index").unlink()
    assert program.ask(many[0]).conversation not in names


def test_what_a_sub_agent_was_told_is_nobodys_word_though_its_parent_is_known_later(
    program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--project", str(program.folder), "--home", str(program.folder / "home")]
    folder = project_folder(program.folder / "home", program.folder) / "conversations"
    kept = Conversations(folder, load(program.folder, home=program.folder / "home"))
    words = "Please remember that all builds run on the host WOLFSBANE."
    said: list[Message] = [{"role": "user", "content": [text(words)]}]
    name = kept.changes(Asked(said, chain(said), MODEL)).conversation
    assert main(["extract", "--all", "--dry-run", "--json", *where]) == 0
    assert "WOLFSBANE" in capsys.readouterr().out
    kept.adopt(name, "another")
    assert main(["extract", "--all", "--json", *where]) == 0
    assert "wolfsbane" not in capsys.readouterr().out
    assert main(["sessions", "list", *where]) == 0
    assert words[:30] in capsys.readouterr().out


def test_an_index_that_is_replaced_meanwhile_is_read_anew(program: Program) -> None:
    long = program.ask(work(9)).conversation
    index = program.folder / "kept" / "index"
    name = program.ask(other := [{"role": "user", "content": [text("Hello.")]}]).conversation
    line = next(one for one in index.read_text().splitlines() if name in one)
    index.write_text(f"{line}\n")
    assert program.ask(other).conversation == name, "which stands there"
    assert program.ask(work(9)).conversation != long, "which does not"


def test_results_without_their_calls_and_open_calls_pass(program: Program) -> None:
    odd: list[Message] = [
        {"role": "user", "content": [tool_result("nobody", "lost")]},
        {"role": "assistant", "content": [tool_use("a", "query", {}), tool_use("a", "query", {})]},
        {"role": "user", "content": [tool_result("a", ""), text("and?")]},
        {"role": "assistant", "content": []},
    ]
    for end in range(1, len(odd) + 1):
        assert program.ask(odd[:end]).replaced == {}
    assert program.told == []


@examples(200)
@given(st.lists(st.text(max_size=9), min_size=1, max_size=5), st.data())
def test_a_chain_knows_marks_and_nulls_from_words(words: list[str], data: st.DataObject) -> None:
    messages = [{"role": "user", "content": word} for word in words]
    mark: Any = {"cache_control": {"type": "ephemeral"}, "citations": None}
    same = [
        {"role": "user", "content": [{**text(word), **mark}]} if data.draw(st.booleans()) else one
        for word, one in zip(words, messages, strict=True)
    ]
    at = data.draw(st.integers(0, len(words) - 1))
    other = [*messages]
    other[at] = {"role": "user", "content": words[at] + "!"}
    assert chain(same) == chain(messages)
    changed = [one != two for one, two in zip(chain(messages), chain(other), strict=True)]
    assert changed == [n >= at for n in range(len(words))]
