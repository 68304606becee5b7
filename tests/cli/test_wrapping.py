"""Lines broken between words, whatever the pieces in which they come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.cli.terminal import WordWrap, columns, wrapped

PROSE = st.text(st.sampled_from("abc de-*1.`|\n\t 界é"), max_size=120)


@pytest.mark.spec("I2")
def test_a_line_breaks_between_words() -> None:
    assert wrapped("these words are too long", 12) == "these words\nare too long"
    assert wrapped("one supercalifragilistic two", 10) == "one\nsupercalifragilistic\ntwo"
    assert wrapped("short", 12) == "short"


def test_a_continued_item_stands_under_its_text() -> None:
    assert wrapped("- one two three", 10) == "- one two\n  three"
    assert wrapped("12. one two three", 12) == "12. one two\n    three"
    assert wrapped("  notes: updated twice", 16) == "  notes: updated\n  twice"
    assert wrapped("  /name  what it does", 16, 9) == "  /name  what it\n         does"
    assert wrapped("  /name\n      what it does", 15, 6) == "  /name\n      what it\n      does"


def test_code_and_tables_stay_as_they_are() -> None:
    for line in ("    one two three four", "\tone two three four", "| one | two | three |"):
        assert wrapped(line, 12) == line
    fenced = "```sh\nrm -rf build dist out\n```\nthese words are too long"
    assert wrapped(fenced, 12) == "```sh\nrm -rf build dist out\n```\nthese words\nare too long"


def test_scripts_without_spaces_break_at_any_character() -> None:
    assert wrapped("世界世界世界世界", 10) == "世界世界世\n界世界"


def test_a_word_is_held_back_until_it_is_whole() -> None:
    wrap = WordWrap(12)
    assert wrap.feed("these wo") == "these"
    assert wrap.feed("rds ar") == " words"
    assert wrap.feed("e") == ""
    assert not wrap.at_start
    assert wrap.end() == "\nare"
    assert wrap.at_start


@given(PROSE, st.integers(1, 40), st.integers(1, 7))
def test_pieces_give_what_the_whole_gives_and_only_white_space_changes(
    text: str, width: int, size: int
) -> None:
    wrap = WordWrap(width)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    whole = wrapped(text, width)
    assert "".join(map(wrap.feed, pieces)) + wrap.end() == whole
    assert "".join(whole.split()) == "".join(text.split())


@given(st.lists(st.text("abc", min_size=1, max_size=9), max_size=20), st.integers(10, 40))
def test_no_line_of_short_words_is_wider_than_the_terminal(words: list[str], width: int) -> None:
    assert all(columns(line) <= width for line in wrapped(" ".join(words), width).split("\n"))
