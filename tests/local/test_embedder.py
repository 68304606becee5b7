"""The table of word vectors: related words are near, and every comparison is exact."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.local.embedder import DIMENSIONS, WordVectors, likeness, word_vectors
from lamina.text.terms import stem


def cosine(one: str, other: str) -> float:
    first, second = (word_vectors().embed({stem(word): 1.0}) for word in (one, other))
    assert first is not None
    assert second is not None
    return float(likeness(first[None, :], second)[0])


@pytest.mark.parametrize(
    ("word", "near", "far"),
    [
        ("doctor", "hospital", "guitar"),
        ("puppy", "dog", "invoice"),
        ("database", "table", "swimming"),
        ("cook", "recipe", "lawsuit"),
    ],
)
def test_a_related_word_is_nearer_than_any_other(word: str, near: str, far: str) -> None:
    assert cosine(word, near) > cosine(word, far) + 0.1
    assert cosine(word, word) == pytest.approx(1.0, abs=1e-3)


def test_unknown_words_have_no_direction_and_are_the_rarest() -> None:
    assert word_vectors().embed({"xqzvb": 1.0}) is None
    assert word_vectors().embed({}) is None
    assert word_vectors().rarity("xqzvb") == 1.0
    assert word_vectors().rarity(stem("time")) < word_vectors().rarity(stem("accordion"))


words = st.sampled_from([stem(w) for w in ("doctor", "dog", "table", "lake", "paint", "xqzvb")])
texts = st.dictionaries(words, st.floats(0.1, 9.0), min_size=1)


@given(st.lists(texts, min_size=1, max_size=9), texts)
def test_a_likeness_does_not_depend_on_where_a_row_stands(
    documents: list[dict[str, float]], question: dict[str, float]
) -> None:
    embed = word_vectors().embed
    asked = embed(question)
    if asked is None:
        return
    rows = [embed(text) for text in documents]
    table = np.array([np.zeros(DIMENSIONS) if row is None else row for row in rows], np.float32)
    together = likeness(table, asked).tolist()
    apart = [float(likeness(table[n : n + 1], asked)[0]) for n in range(len(table))]
    assert together == apart
    assert likeness(table[::-1].copy(), asked).tolist() == together[::-1]
    assert all(-1.01 <= value <= 1.01 for value in together)


@pytest.mark.parametrize("many", [0, 1, 127, 128, 129, 1_000])
def test_a_likeness_is_exact_however_many_rows_there_are(many: int) -> None:
    whole = np.arange(many * DIMENSIONS).reshape(many, DIMENSIONS) % 997 - 498
    asked = np.arange(DIMENSIONS) % 7 - 3
    found = likeness(whole.astype(np.float32), asked.astype(np.float32))
    assert (
        found.tolist() == ((whole @ asked).astype(np.float32) * np.float32(1 / 4_000**2)).tolist()
    )


_ALONE = """
import time, numpy as np
from lamina.local.embedder import DIMENSIONS, likeness
rows, asked = np.ones((10_000, DIMENSIONS), np.float32), np.ones(DIMENSIONS, np.float32)
before = time.process_time() - time.thread_time()
for _ in range(300):
    likeness(rows, asked)
print((time.process_time() - time.thread_time() - before) / time.thread_time())
"""


def test_a_likeness_keeps_no_other_thread_busy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ALONE], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 0.6  # of its own time; a second thread takes about as much


def test_a_table_of_one_s_own_can_be_used() -> None:
    vectors = np.zeros((2, DIMENSIONS), np.int8)
    vectors[0, 0], vectors[1, 1] = 1, 2
    bytes_ = np.array([127, 255], np.uint8)
    names = np.frombuffer(b"a\nb", np.uint8)
    scales = np.ones(2, np.float16)
    words = {"terms": names, "vectors": vectors, "scales": scales, "rarity": bytes_}
    table = WordVectors({**words, "related": bytes_[:0], "related_counts": bytes_[:0]})
    assert len(table) == 2
    assert "a" in table
    direction = table.embed({"a": 3.0, "c": 9.0})
    assert direction is not None
    assert np.count_nonzero(direction) == 1
    assert table.related("a") == []


@pytest.mark.parametrize(("word", "other"), [("buy", "purchase"), ("movie", "film")])
def test_words_of_like_meaning_are_listed_and_a_topic_is_not_a_meaning(
    word: str, other: str
) -> None:
    related = word_vectors().related(stem(word))
    assert stem(other) in related
    assert stem(word) not in related
    assert len(related) <= 8
    assert stem("hospital") not in word_vectors().related(stem("doctor"))
    assert word_vectors().related("xqzvb") == []


@given(st.lists(texts | st.just({}), min_size=1, max_size=9))
def test_a_text_s_direction_does_not_depend_on_the_texts_beside_it(
    documents: list[dict[str, float]],
) -> None:
    table = word_vectors()
    together = directions(table, documents)
    for row, text in zip(together, documents, strict=True):
        assert row.tolist() == directions(table, [text])[0].tolist()
        alone = table.embed({term: count**0.5 for term, count in text.items()})
        assert np.abs(row - (0 if alone is None else alone)).max() <= 1


def directions(table: WordVectors, documents: list[dict[str, float]]) -> Any:
    rows = table.rows_of(term for text in documents for term in text)
    counts = [count for text in documents for count in text.values()]
    return table.embed_rows(
        map(len, documents), np.array(rows, dtype=np.intp), np.array(counts, dtype=np.float32)
    )
