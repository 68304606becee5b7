"""The diary without a model: which entries there are, and what the rules make of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.local.dream_finds import distil, entries

DAY = "logs/2026/11/2026-11-10.md"  # a Tuesday


def test_entries_lose_bullet_and_time_and_take_in_their_indented_lines() -> None:
    log = "# Tuesday\n\n- 09:05 one\n* [10:00] two\n  and more\n10:30 – three\nplain prose\n"
    assert list(entries(log)) == ["one", "two and more", "three"]


@pytest.mark.spec("L6.7")
def test_relative_dates_count_from_the_day_of_the_log() -> None:
    [(_, [found])] = distil({DAY: "- 10:12 The tender closes next Monday.\n"})
    assert found.type == "project"
    assert "2026-11-16" in found.body


@pytest.mark.spec("L6.7")
def test_what_was_worked_in_before_is_left_out_and_what_says_nothing_gives_nothing() -> None:
    log = "- 10:12 remember: invoices go to Ledgerly\n- 11:00 looked at a test\n"
    first = dict(distil({DAY: log}))
    assert [len(found) for found in first.values()] == [1, 0]
    assert list(distil({DAY: log}, first)) == []


def test_a_file_without_a_day_is_no_diary() -> None:
    assert list(distil({"logs/2026/11/notes.md": "- 10:12 remember: x\n"})) == []
    assert list(distil({"logs/2026/13/2026-13-40.md": "- 10:12 remember: x\n"})) == []


@given(st.text(max_size=300))
def test_any_text_is_read_without_a_fault(log: str) -> None:
    marks = [mark for mark, _ in distil({DAY: log})]
    assert len(marks) == len(list(entries(log)))


@pytest.mark.spec("L6.7", "L5.6")
def test_the_diary_is_the_agents_word_and_proves_nothing() -> None:
    log = "- 10:12 The user said: I am a nurse.\n- 11:00 [feedback] Never mock the database.\n"
    found = [one for _, proposals in distil({DAY: log}) for one in proposals]
    assert [one.type for one in found] == ["user", "feedback"]
    assert [one.evidence for one in found] == [(), ()]
