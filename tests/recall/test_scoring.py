"""Scores: which words pull a vector, and that no sum depends on the order of a set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.documents import rows_of, texts

from lamina.recall import scoring
from lamina.recall.postings import Postings
from lamina.recall.scoring import DocumentVectors, QuestionTerms, VectorWords, fitting_part
from lamina.text.terms import spaced


@given(st.lists(st.tuples(texts, texts, texts), max_size=6), st.integers(0, 4))
def test_headings_pull_more_and_only_the_opening_of_a_body_pulls(
    many: list[tuple[str, str, str]], first: int
) -> None:
    index = Postings(3)
    for three in many:
        index.add([spaced(text) for text in three])
    expected: list[dict[str, float]] = []
    for row in rows_of(index):
        body = [(term, count) for field, term, count in row if field == 2]
        pull = dict(body[: first or None])
        for field, term, _ in row:
            if field != 2:
                pull[term] = pull.get(term, 0.0) + 9
        expected.append(pull)
    words, place, found = list(index.words), 0, list[dict[str, float]]()
    pull = VectorWords(3, body=2, first=first, headings=(0, 1), heading=9.0)
    sizes, numbers, amounts = pull.of(index.rows(), 0, index.slots)
    pairs = list(zip(numbers.tolist(), amounts.tolist(), strict=True))
    for size in sizes.tolist():
        found.append({words[word]: amount for word, amount in pairs[place : place + size]})
        place += size
    assert found == expected
    assert [list(row) for row in found] == [list(row) for row in expected]


def test_vectors_worked_out_in_small_pieces_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Postings(1)
    for number in range(7):
        index.add([spaced(f"tent by the lake {number} " + "boat " * number)])
    words = VectorWords(1, body=0)
    whole = DocumentVectors(index, words).rows()
    monkeypatch.setattr(scoring, "_PIECE", 5)
    assert whole.any()
    assert (DocumentVectors(index, words).rows() == whole).all()


@pytest.mark.spec("M7")
def test_saved_vectors_are_those_of_all_places_and_a_sweep_keeps_what_is_known() -> None:
    index = Postings(1)
    for number in range(7):
        index.add([spaced(f"tent by the lake {number} " + "boat " * number)])
    words = VectorWords(1, body=0)
    whole, some = DocumentVectors(index, words).rows(), DocumentVectors(index, words)
    saved = DocumentVectors(index, words)
    saved.from_state(some.to_state())
    assert len(saved) == 7
    assert (saved.rows() == whole).all()
    more = index.add([spaced("a pike in the lake")])
    index.remove(0)
    some.keep(index.sweep())
    assert len(some) == more - 1
    assert (some.rows()[:-1] == whole[1:]).all()
    assert (some.rows() == DocumentVectors(index, words).rows()).all()


@pytest.mark.spec("M7")
@given(st.permutations(list("abcdefgh")))
def test_confidence_does_not_depend_on_the_order_of_a_set(held: list[str]) -> None:
    """Which differs from process to process, and with it the last bit of a sum."""
    weights = {term: 0.1 * number for number, term in enumerate("abcdefghij", 1)}
    question = QuestionTerms(weights, {}, 0.0)
    assert question.coverage(held) == question.coverage(sorted(held))


def test_of_a_long_text_the_stretch_that_fits_is_shown() -> None:
    dull = "The weather was fine all day long. " * 30
    said = f"{dull}\n\nWe met the walrus in Oslo. {dull}"
    for question, held in (
        ("where did we meet the walrus?", "walrus in Oslo"),
        ("xyzzy", "weather"),
    ):
        part = fitting_part(said, question, 200)
        assert held in part
        assert len(part) in (201, 202)
    assert fitting_part(f"{dull} It ends with a walrus.", "walrus", 200).endswith("walrus.")
    assert fitting_part(said, "xyzzy", 200).startswith("The weather")
    assert fitting_part(" short\n text ", "walrus", 200) == "short text"
