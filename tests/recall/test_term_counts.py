"""Counting many documents at once gives what counting them one by one would give."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.documents import documents, rows_of

from lamina.recall import postings as postings_module
from lamina.recall import term_counts
from lamina.recall.postings import Postings
from lamina.recall.term_counts import Lexicon, lexicon
from lamina.text.terms import spaced, terms


def plain_rows(both: tuple[str, str]) -> list[tuple[int, str, float]]:
    """The same by plain counting."""
    return [
        (field, term, count)
        for field, text in enumerate(both)
        for term, count in Counter(terms(text)).items()
    ]


@given(documents, st.integers(1, 40))
def test_many_documents_are_counted_as_each_by_itself_would_be(
    many: list[tuple[str, str]], waiting: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings_module, "_MOST_WAITING", waiting)
        index = Postings(2)
        for both in many:
            index.add([spaced(text) for text in both])
        assert rows_of(index) == [plain_rows(both) for both in many]


def test_a_word_counts_the_same_in_a_question_and_in_a_statement() -> None:
    index = Postings(1)
    index.add([spaced("Do you like hiking? I bought a tent. Which tent is best?")])
    index.add([spaced("你喜欢登山吗？我买了帐篷。")])
    counts = [{term: count for _, term, count in row} for row in rows_of(index)]
    assert (counts[0]["tent"], counts[0]["hike"], counts[0]["buy"]) == (2, 1, 1)
    assert (counts[1]["登山"], counts[1]["帐篷"]) == (1, 1)


def test_a_full_lexicon_is_begun_anew_and_what_waits_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(term_counts, "_MOST_RUNS", 3)
    monkeypatch.setattr("lamina.recall.term_counts._Shared.lexicon", Lexicon())
    index = Postings(1)
    lines = ["red tent by the lake", "blue tent", "green boat on the lake", "red boat"]
    for line in lines:
        index.add([spaced(line)])
    assert rows_of(index) == [[(0, term, 1.0) for term in terms(line)] for line in lines]
    assert not lexicon().full


def test_threads_that_meet_new_words_at_once_agree_on_their_numbers() -> None:
    table = Lexicon()
    met = [f"word{number}" for number in range(400)]

    def numbers_of(_: int) -> list[int]:
        return table.runs_in(f" {' '.join(met)} ".encode())[0].tolist()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(numbers_of, range(8)))
    assert all(numbers == found[0] for numbers in found)
    numbers, ends = table.terms_in(np.array(found[0], dtype=np.uint32))
    assert [table.terms_from(0)[number] for number in numbers.tolist()] == [
        terms(run)[0] for run in met
    ]
    assert ends.tolist() == list(range(1, 401))


def test_runs_of_any_length_that_differ_in_their_last_letter_are_told_apart() -> None:
    met = [letter * size + end for letter in "aé" for size in range(80) for end in "xyz"]
    numbers, starts = Lexicon().runs_in(f" {' '.join(met * 2)} ".encode())
    unlike = dict(zip(met, numbers.tolist(), strict=False))
    assert len({*unlike.values()}) == len(unlike)
    assert numbers.tolist() == [unlike[run] for run in met * 2]
    assert len(starts) == len(met) * 2


def test_runs_with_the_same_place_in_the_table_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(term_counts, "_TABLE_BITS", 7)
    table = Lexicon()
    met = [f"word{number}" for number in range(100)]
    numbers, starts = table.runs_in(f" {' '.join(met * 2)} ".encode())
    assert numbers.tolist() == [*range(100), *range(100)]
    assert starts[:3].tolist() == [1, 7, 13]
