"""Counting many documents at once gives what counting them one by one would give."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.recall import lexicon as lexicon_module
from lamina.recall import postings as postings_module
from lamina.recall.lexicon import Lexicon, lexicon
from lamina.recall.postings import Postings
from lamina.recall.pull import Pull, pieces, pulled
from lamina.recall.words import asked_runs, runs, term_counts, terms

WORDS = (
    "tent",
    "tents",
    "the",
    "hiking",
    "userName",
    "a_b",
    "登山帐篷",
    "café",
    "?",
    ".",
    "？",
    "\n",
)
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
documents = st.lists(st.tuples(texts, texts), max_size=8)


def said(text: str) -> tuple[list[str], list[str]]:
    return runs(text), asked_runs(text)


Row = list[tuple[int, str, float]]


def rows_of(index: Postings) -> list[Row]:
    """Each document as (field, term, count), in the order of the index."""
    words = list(index.words)
    places, keys, counts = index.rows().between(0, index.slots)
    rows: list[Row] = [[] for _ in range(index.slots)]
    for place, key, count in zip(places.tolist(), keys.tolist(), counts.tolist(), strict=True):
        rows[place].append((key % index.fields, words[key // index.fields], count))
    return rows


def plain_rows(both: tuple[str, str]) -> list[tuple[int, str, float]]:
    """The same by plain counting: what stands in a question is taken off again by half."""
    found: list[tuple[int, str, float]] = []
    for field, text in enumerate(both):
        counts: Counter[str] = Counter(terms(text))
        asked = Counter(terms(" ".join(asked_runs(text))))
        found += [(field, term, count - 0.5 * asked[term]) for term, count in counts.items()]
    return found


@given(documents, st.integers(1, 40))
def test_many_documents_are_counted_as_each_by_itself_would_be(
    many: list[tuple[str, str]], waiting: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings_module, "_MOST_WAITING", waiting)
        index = Postings(2)
        for both in many:
            index.add([said(text) for text in both])
        assert rows_of(index) == [plain_rows(both) for both in many]


@given(documents, st.sets(st.integers(0, 7)))
def test_an_index_that_lost_documents_equals_one_that_never_had_them(
    many: list[tuple[str, str]], gone: set[int]
) -> None:
    index, other = Postings(2), Postings(2)
    for number, both in enumerate(many):
        index.add([said(text) for text in both])
        if number not in gone:
            other.add([said(text) for text in both])
    for place in gone:
        if place < len(many):
            index.remove(place)
    for term in {term for both in many for text in both for term in terms(text)}:
        assert index.holders(term) == other.holders(term)
        for field in range(2):
            assert (index.find(term, field) is None) == (other.find(term, field) is None)
    assert index.lengths(0)[1] == other.lengths(0)[1]
    index.sweep()
    assert rows_of(index) == rows_of(other)
    assert set(index.words) == set(other.words)
    again = Postings.from_state(2, index.to_state())
    assert rows_of(again) == rows_of(other)


def test_what_comes_later_is_found_beside_what_was_there() -> None:
    index = Postings(1)
    for number in range(200):
        index.add([said(f"tent number{number}")])
        assert index.holders("tent") == number + 1
    found = index.find("tent", 0)
    assert found is not None
    assert found[0].tolist() == list(range(200))
    assert found[1].tolist() == [1.0] * 200


def test_a_word_counts_half_in_a_question_and_whole_in_a_statement() -> None:
    index = Postings(1)
    index.add([said("Do you like hiking? I bought a tent. Which tent is best?")])
    index.add([said("你喜欢登山吗？我买了帐篷。")])
    counts = [{term: count for _, term, count in row} for row in rows_of(index)]
    assert (counts[0]["tent"], counts[0]["hike"], counts[0]["buy"]) == (1.5, 0.5, 1)
    assert (counts[1]["登山"], counts[1]["帐篷"]) == (0.5, 1)


def test_a_question_mark_inside_an_address_asks_nothing() -> None:
    assert asked_runs("the board is at https://example.org/view?board=7") == []


@given(st.text(alphabet="ab .?!？\n", max_size=60))
def test_nothing_is_asked_more_often_than_it_stands_there(text: str) -> None:
    stands, asked = term_counts(text), Counter(terms(" ".join(asked_runs(text))))
    assert all(asked[term] <= stands[term] for term in asked)


def test_a_full_lexicon_is_begun_anew_and_what_waits_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lexicon_module, "_MOST_RUNS", 3)
    monkeypatch.setattr("lamina.recall.lexicon._Shared.lexicon", Lexicon())
    index = Postings(1)
    lines = ["red tent by the lake", "blue tent", "green boat on the lake", "red boat"]
    for line in lines:
        index.add([said(line)])
    assert rows_of(index) == [[(0, term, 1.0) for term in terms(line)] for line in lines]
    assert not lexicon().full


def test_threads_that_meet_new_words_at_once_agree_on_their_numbers() -> None:
    import numpy as np

    table = Lexicon()
    met = [f"word{number}" for number in range(400)]

    def numbers_of(_: int) -> list[int]:
        return [table[run] for run in met]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(numbers_of, range(8)))
    assert all(numbers == found[0] for numbers in found)
    numbers, source = table.terms_in(np.array(found[0], dtype=np.uint32))
    assert [table.terms[number] for number in numbers.tolist()] == [terms(run)[0] for run in met]
    assert source.tolist() == list(range(400))


@given(st.lists(st.tuples(texts, texts, texts), max_size=6), st.integers(0, 4))
def test_headings_pull_more_and_only_the_opening_of_a_body_pulls(
    many: list[tuple[str, str, str]], first: int
) -> None:
    index = Postings(3)
    for three in many:
        index.add([said(text) for text in three])
    expected: list[dict[str, float]] = []
    for row in rows_of(index):
        body = [(term, count) for field, term, count in row if field == 2]
        pull = dict(body[: first or None])
        for field, term, _ in row:
            if field != 2:
                pull[term] = pull.get(term, 0.0) + 9
        expected.append(pull)
    words, place, found = list(index.words), 0, list[dict[str, float]]()
    pull = Pull(3, body=2, first=first, headings=(0, 1), heading=9.0)
    for start, end in pieces(index.rows(), 0):
        part = pulled(index.rows(), start, end, pull)
        for size in part.sizes.tolist():
            pairs = zip(part.words.tolist(), part.amounts.tolist(), strict=True)
            found.append(
                {words[word]: amount for word, amount in list(pairs)[place : place + size]}
            )
            place += size
    assert found == expected
    assert [list(row) for row in found] == [list(row) for row in expected]


def test_a_saved_index_that_contradicts_itself_is_refused() -> None:
    index = Postings(1)
    index.add([said("red tent")])
    state = index.to_state()
    with pytest.raises(ValueError, match="does not exist"):
        Postings.from_state(1, {**state, "words": state["words"][:1]})
    with pytest.raises(ValueError, match="twice"):
        Postings.from_state(1, {**state, "words": ["red", "red"]})
    with pytest.raises(ValueError, match="add up"):
        Postings.from_state(1, {**state, "rows": {**state["rows"], "keys": b""}})
    with pytest.raises(ValueError, match="out of order"):
        Postings.from_state(1, {**state, "rows": {**state["rows"], "ends": b""}})
