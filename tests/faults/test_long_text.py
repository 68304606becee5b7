"""Text of any shape, however long, costs those who read it little: no rule takes time by the square
of its length. Every shape here once did.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, date, datetime

import pytest

from lamina.layers.extraction.fork import take_evidence
from lamina.local.extractor import extract
from lamina.text.asks import asks_to_forget, find_order, told, wishes_in
from lamina.text.claims import statements
from lamina.text.own_words import speaks_of
from lamina.text.wishes import wish_in
from lamina.text.written_dates import with_absolute_dates

LENGTH = 30_000
_MOST = 3.0  # seconds; by the square each of them takes longer, else a tenth of that at most
NOW = datetime(2026, 11, 16, tzinfo=UTC)

READERS: dict[str, Callable[[str], object]] = {
    "extractor": lambda text: extract(
        [{"role": "user", "content": text, "origin": "typed"}], now=NOW
    ),
    "gate: what is told": lambda text: told(text[:300], [text]),
    "gate: whom it is about": lambda text: speaks_of("the user is a data scientist", [text]),
    "gate: orders": find_order,
    "gate: wishes": lambda text: [wish_in(text), asks_to_forget(text, about_it=True)],
    "forgetting": lambda text: wishes_in(f"forget {text}"),
    "evidence": take_evidence,
    "dates": lambda text: with_absolute_dates(text, date(2026, 11, 16)),
    "dream": statements,
}
SHAPES = ("a\n", "};\n", "\t", "\n\n", "1月", "essay", "1月1、", "~~~\n", "january 1 to ", "a, ")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.spec("L5.6", "L5.8")
def test_no_shape_of_text_takes_time_by_the_square_of_its_length(reader: str) -> None:
    for shape in SHAPES:
        text = f"if {shape * (LENGTH // len(shape))}!"
        started = time.process_time()
        READERS[reader](text)
        assert time.process_time() - started < _MOST, repr(shape)


def test_what_is_said_over_and_over_is_told_as_it_is_told_once() -> None:
    once = told("I use tabs", ["I use tabs."])
    often = told("I use tabs", ["I use tabs.\n" * 2_000])
    assert once is not None
    assert often is not None
    assert often.stated == once.stated
    assert once.sentences == often.sentences
