"""Two changes become one, or are told apart."""

from __future__ import annotations

import time
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.memories import Memory
from lamina.memory.merging import (
    as_they_stood,
    laid_out,
    matching,
    merge_memory,
    merge_text,
    opcodes,
)
from lamina.memory.topics import edit_topic, read_topic

pytestmark = pytest.mark.spec("M9")

BASE = "a\nb\nc\nd\ne\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        (BASE, "x\n", "x\n"),
        ("x\n", BASE, "x\n"),
        ("A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n", "A\nb\nc\nd\nE\n"),
        ("b\nc\nd\ne\n", "a\nb\nc\nd\ne\nf\n", "b\nc\nd\ne\nf\n"),
        ("A\nb\nc\nd\ne\n", "A\nb\nc\nd\ne\n", "A\nb\nc\nd\ne\n"),
        ("A\nb\nc\nd\ne\n", "X\nb\nc\nd\ne\n", None),
        (BASE + "mine\n", BASE + "yours\n", None),
        ("a\ne\n", "a\nb\nC\nd\ne\n", None),
    ],
)
def test_changes_merge_unless_they_touch_the_same_lines(
    ours: str, theirs: str, merged: str | None
) -> None:
    assert merge_text(BASE, ours, theirs) == merged


def test_lines_put_in_at_one_place_are_both_kept_in_a_list() -> None:
    assert merge_text(BASE, BASE + "mine\n", BASE + "yours\n", both_insert=True) == (
        BASE + "mine\nyours\n"
    )


LINES = st.lists(st.sampled_from("abcdef"), max_size=8).map("\n".join)


@given(LINES, LINES, LINES, st.booleans())
def test_a_merge_never_invents_or_loses_a_line_that_one_side_added(
    base: str, ours: str, theirs: str, both_insert: bool
) -> None:
    merged = merge_text(base, ours, theirs, both_insert=both_insert)
    if merged is None:
        return
    known = set(base.split()) | set(ours.split()) | set(theirs.split())
    assert set(merged.split()) <= known
    for side in (ours, theirs):
        assert set(side.split()) - set(base.split()) <= set(merged.split())


@given(LINES, LINES)
def test_an_unchanged_side_gives_way(base: str, changed: str) -> None:
    assert merge_text(base, base, changed) == changed
    assert merge_text(base, changed, base) == changed


def test_memories_merge_field_by_field() -> None:
    base = Memory("a.md", "Name", "old", "user", "one\ntwo", {"k": "1"})
    ours = Memory("a.md", "Name", "new", "user", "ONE\ntwo", {"k": "1", "ours": "x"})
    theirs = Memory("a.md", "Other", "old", "project", "one\ntwo\nthree", {})
    merged = merge_memory(base, ours, theirs)
    assert merged == Memory("a.md", "Other", "new", "project", "ONE\ntwo\nthree", {"ours": "x"})
    clash = Memory("a.md", "Name", "newer", "user", "one\ntwo", {"k": "1"})
    assert merge_memory(base, ours, clash) is None


@pytest.mark.spec("L5.9")
@pytest.mark.parametrize(
    ("before", "after", "laid"),
    [
        ("a\n\nb", "a\nb\nc", "a\n\nb\n\nc"),
        ("a\nb", "a\nb\nc", "a\nb\nc"),
        ("a\n\n- b", "a\n- b\n- c", "a\n\n- b\n- c"),
        ("  a  \n\n\nb", "a\nx\nb", "  a  \n\nx\n\n\nb"),
        ("a\nb", "a\n\nx\n\nb", "a\n\nx\n\nb"),
        ("a\n\nb\n\nc", "a\nc", "a\n\nc"),
        ("a\n\nb\n\nc", "a\nB\nc", "a\n\nB\n\nc"),
        ("|a|\n|-|", "|a|\n|-|\nc", "|a|\n|-|\n\nc"),
        ("", "a", "a"),
        ("- a\n- b", "- a\n  - b", "- a\n  - b"),
        ("- a\n  - b", "- a\n- b", "- a\n- b"),
        ("- a\n- b", "- top\n  - a\n  - b", "- top\n  - a\n  - b"),
        ("- x\n- a  \n- b", "- x\n  - a\n- b\n- c", "- x\n  - a  \n- b\n- c"),
        ("- a\n   - b\n   - c", "- a\n  - b\n  - c\n  - d", "- a\n   - b\n   - c\n  - d"),
        ("a", "", ""),
    ],
)
def test_lines_that_stay_keep_their_form(before: str, after: str, laid: str) -> None:
    assert laid_out(before, after) == laid


@pytest.mark.spec("M9")
@given(st.lists(st.sampled_from(["", "a", "b ", "  c", "- d"])), st.data())
def test_an_addition_anywhere_changes_nothing_that_stood_there(
    lines: list[str], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(lines)))
    before = "\n".join(lines)
    spare = [one for one in [*lines[:at], "new", *lines[at:]] if one.strip()]
    laid = laid_out(before, "\n".join(spare)).split("\n")
    kept = [one for one in laid if one != "new"]
    assert [one for one in kept if one.strip()] == [one for one in lines if one.strip()]


@pytest.mark.spec("M9")
def test_bytes_that_are_no_text_and_line_ends_stay(tmp_path: Path) -> None:
    old = b"---\nname: x\n---\n\ncaf\xe9 one\r\ntwo\nthree\n"
    body = read_topic("x.md", old).body
    assert edit_topic(old, body=f"{body}\nfour") == old + b"four\n"
    assert as_they_stood("a\r\nb", "a\nb\nc", "\n", str) == "a\r\nb\nc"


def test_a_line_that_stands_ten_thousand_times_is_held_against_nothing() -> None:
    body = "\n".join(["so it goes"] * 10_000)
    assert laid_out(body, f"{body}\nnew") == f"{body}\nnew"


@given(st.lists(st.sampled_from("ab")), st.lists(st.sampled_from("abc")))
def test_what_is_the_same_is_the_same(old: list[str], new: list[str]) -> None:
    at = by = 0
    for tag, start, end, first, last in opcodes(old, new):
        assert (start, first) == (at, by)
        assert (old[start:end] == new[first:last]) == (tag == "equal")
        at, by = end, last
    assert (at, by) == (len(old), len(new))


# A block of lines moved, some put in, some taken out: what hands do to a file.
edits = st.lists(
    st.tuples(
        st.integers(0, 40), st.integers(0, 5), st.integers(0, 40), st.text("abcd", max_size=3)
    ),
    max_size=6,
)


@examples(300)
@given(st.lists(st.text("abcdefgh", min_size=1, max_size=2), max_size=40), edits)
@example(list("ab" * 4), [(0, 1, 4, "ba")])
def test_what_two_texts_share_is_what_difflib_finds(
    old: list[str], changes: list[tuple[int, int, int, str]]
) -> None:
    new = [*old]
    for at, size, to, more in changes:
        moved = new[at : at + size]
        del new[at : at + size]
        new[to:to] = [*moved, *more]
    wanted = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    assert matching(old, new) == wanted


@pytest.mark.parametrize(
    ("base", "ours"),
    [
        ([f"{n}\n" for n in range(40_000)], [f"{n}{n % 2 or ''}\n" for n in range(40_000)]),
        (["so it goes\n"] * 40_000, ["new\n"] + ["so it goes\n"] * 40_000),
        (["a\n", "\n"] * 20_000, ["a\n", "\n"] * 9_000 + ["b\n"] + ["a\n", "\n"] * 11_000),
    ],
    ids=["every other line", "one line", "two lines"],
)
def test_a_long_text_is_merged_in_one_look(base: list[str], ours: list[str]) -> None:
    theirs = [*base, "theirs\n"]
    spent = time.process_time()
    assert merge_text("".join(base), "".join(ours), "".join(theirs)) == "".join([*ours, "theirs\n"])
    assert time.process_time() - spent < 3.0  # line by line against each other it takes minutes
