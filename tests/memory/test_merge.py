"""Two changes become one, or are told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.memories import Memory
from lamina.memory.drafts import merge_memory, merge_text

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
