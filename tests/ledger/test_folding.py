"""Folds: what the view says already is said in one line, and nothing becomes unreachable by that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.ledger.strategies import play, steps

from lamina.ledger import edits
from lamina.ledger.edits import block_id
from lamina.ledger.folding import Folded, Folding, foldable_text, label_of, with_text
from lamina.ledger.record import Ledger
from lamina.ledger.spans import expand, whole_text
from lamina.ledger.view import Projection
from lamina.messages import Json, tool_use

pytestmark = pytest.mark.spec("L1.6")


def numbered(first: int, *lines: str) -> str:
    return "\n".join(f"{first + n:6}→{line}" for n, line in enumerate(lines))


CODE = [f"    value_{n} = compute(the_argument_{n})  # step {n}" for n in range(40)]


def folded(text: str, *before: tuple[str, str], least: int = 120) -> Folded | None:
    folding = Folding(least)
    for number, (label, words) in enumerate(before):
        folding.add((number, 0), label, words)
    return folding.fold(text, "1a2b3c4d", lambda key: True)


def test_lines_that_an_earlier_result_shows_are_named_by_their_numbers_and_its_call() -> None:
    again = numbered(5, "# before", *CODE[10:30], "# after")
    found = folded(again, ("Read of src/x.py", numbered(1, *CODE)))
    assert found == Folded(
        "[Folded; Expand 1a2b3c4d brings it back]\n"
        "     5→# before\n"
        "[lines 6-25 as lines 11-30 of Read of src/x.py above]\n"
        "    26→# after",
        ((0, 0),),
    )


def test_the_same_lines_under_the_same_numbers_are_named_once() -> None:
    found = folded(numbered(1, *CODE), ("Read of src/x.py", numbered(1, *CODE)))
    assert found is not None
    assert found.text.endswith("\n[lines 1-40 as in Read of src/x.py above]")


def test_lines_without_numbers_are_found_by_their_first_words() -> None:
    found = folded("\n".join(CODE), ("your Write of src/x.py", "x = 1\n" + "\n".join(CODE)))
    assert found is not None
    assert "[40 lines as in your Write of src/x.py above, from 'value_0 = " in found.text


def test_a_repeated_reminder_and_what_the_text_itself_said_are_folded() -> None:
    reminder = (
        "<system-reminder>\n"
        + "Consider whether this file does harm. " * 9
        + "\n</system-reminder>"
    )
    found = folded("short\n" + reminder, ("a reminder", "other\n" + reminder))
    assert found is not None
    assert "[3 lines as in a reminder above, from '<system-reminder>' on]" in found.text
    twice = folded("\n".join([*CODE, "-- and once more:", *CODE]))
    assert twice is not None
    assert "[40 lines as in this text above, from 'value_0 = " in twice.text
    assert twice.needs == ()


def test_a_line_many_times_in_a_row_is_counted() -> None:
    found = folded("begin\n" + "waiting for the server\n" * 50 + "end")
    assert found is not None
    assert found.text.split("\n")[1:] == [
        "begin",
        "waiting for the server",
        "[the line above 49 times more]",
        "end",
    ]


def test_a_search_names_each_file_once() -> None:
    lines = [f"src/a/long/path/of/module.py:{n}:    call_{n}()" for n in range(5)]
    other = [f"src/b/other/path/of/module.py:{n}:    call_{n}()" for n in range(5)]
    found = folded("\n".join([*lines, *other, "and no more"]))
    assert found is not None
    assert found.text.split("\n")[1:4] == [
        "src/a/long/path/of/module.py:",
        "  0:    call_0()",
        "  1:    call_1()",
    ]
    assert found.text.endswith("\n  4:    call_4()\nand no more")


@pytest.mark.parametrize(
    "text",
    ["", "a\nb\nc", numbered(1, *CODE[:2]), "x" * 5_000],
    ids=["empty", "short", "two", "long"],
)
def test_where_little_would_be_saved_the_text_stays(text: str) -> None:
    assert folded(text, ("Read of x", numbered(1, *CODE))) is None


def test_a_block_that_left_the_view_is_not_pointed_at() -> None:
    folding = Folding(120)
    folding.add((0, 0), "Read of src/x.py", "\n".join(CODE))
    assert folding.fold("\n".join(CODE), "1a2b3c4d", lambda key: False) is None


def test_a_branch_points_at_what_it_shares_and_not_at_what_came_after_it_left() -> None:
    folding, stands = Folding(120), lambda key: True
    folding.add((0, 0), "Read of src/x.py", "\n".join(CODE[:20]))
    branch = folding.branch(1)
    folding.add((1, 0), "Read of src/y.py", "\n".join(CODE[20:]))
    shared = branch.fold("\n".join(CODE[:20]), "1a2b3c4d", stands)
    assert shared is not None
    assert shared.needs == ((0, 0),)
    assert branch.fold("\n".join(CODE[20:]), "1a2b3c4d", stands) is None
    branch.add((1, 0), "Read of src/z.py", "\n".join(CODE[20:]))
    own = branch.fold("\n".join(CODE[20:]), "1a2b3c4d", stands)
    assert own is not None
    assert "src/z.py" in own.text
    theirs = folding.fold("\n".join(CODE[20:]), "1a2b3c4d", stands)
    assert theirs is not None
    assert "src/y.py" in theirs.text


lines_of_text = st.lists(
    st.one_of(
        st.sampled_from([*CODE[:6], "", "}", "src/a/b.py:12:words", "src/a/b.py:14:more words"]),
        st.sampled_from([f"{n:6}→{line}" for n, line in enumerate(CODE[:6], 1)]),
        st.text(max_size=40),
    ),
    max_size=25,
).map("\n".join)


@examples(400)
@given(st.lists(lines_of_text, max_size=3), lines_of_text)
def test_every_line_still_stands_in_the_fold_or_in_what_it_points_at(
    before: list[str], text: str
) -> None:
    found = folded(text, *[(f"Read of {n}", words) for n, words in enumerate(before)], least=50)
    if found is None:
        return
    assert len(found.text) <= len(text) - 50
    there = "\n".join([found.text, *(before[key[0]] for key in found.needs)])
    for line in text.split("\n"):
        said = line.partition("→")[2] if "→" in line[:8] else line
        if line.startswith("src/a/b.py:"):
            assert "src/a/b.py:" in there
            said = line.removeprefix("src/a/b.py:")
        assert said in there


# ---- in the view


def text_of_row(projection: Projection, entry: int, number: int) -> str:
    row = projection.row(entry, number)
    return "" if row is None else whole_text(row.block)


@examples(300)
@given(steps(), st.data())
def test_whatever_happens_to_the_view_a_fold_has_what_it_leans_on_or_is_whole_again(
    script: list[Any], data: st.DataObject
) -> None:
    """Clearing, folding of spans, undo: by any of them what was pointed at may go."""
    ledger = Ledger.of()
    leaning: list[tuple[int, int, str, int, int, Json]] = []
    for _ in play(ledger, script):
        rows = [r for r in ledger.projection.rows if r.number >= 0 and r.role == "user"]
        fresh = [r for r in rows if r.entry > ledger.seen and not r.edit and foldable_text(r.block)]
        if len(rows) > 1 and fresh and data.draw(st.booleans()):
            new = fresh[-1]
            old = data.draw(st.sampled_from(rows))
            if (old.entry, old.number) == (new.entry, new.number):
                continue
            entries = ledger.entries
            here = (str(entries[new.entry]["uuid"]), new.number)
            there = (str(entries[old.entry]["uuid"]), old.number)
            words = f"[as above; Expand {block_id(entries[new.entry], new.number)} brings it back]"
            [edit] = ledger.append(
                edits.replace(
                    [(*here, with_text(new.block, words))], "folds", needs={here: [there]}
                )
            )
            leaning.append((new.entry, new.number, edit["uuid"], old.entry, old.number, old.block))
    for projection in (ledger.projection, Ledger.of(ledger.entries).projection):
        for entry, number, edit, other, its_number, block in leaning:
            row, held = projection.row(entry, number), projection.row(other, its_number)
            if row is None or row.edit != edit:
                continue
            assert held is not None
            assert held.block == block
            original = projection.entries[entry]["content"][number]
            assert expand(projection, block_id(projection.entries[entry], number)) == whole_text(
                original
            )
        assert projection.tokens == sum(row.tokens for row in projection.rows)
    assert list(ledger.view().messages) == list(Ledger.of(ledger.entries).view().messages)


def test_a_label_says_what_the_model_asked_for() -> None:
    assert (
        label_of(tool_use("t", "Read", {"file_path": "/home/me/p/src/x.py"})) == "Read of src/x.py"
    )
    assert label_of(tool_use("t", "Bash", {"command": "git  status"})) == "Bash of git status"
    assert label_of(tool_use("t", "Probe", {"n": 1})) == "the result of Probe"
    assert label_of(tool_use("t", "Probe", {"n": 1}), "call") == "call of Probe"
