"""Small documents for the tests of the index, and what the index holds of them."""

from __future__ import annotations

from hypothesis import strategies as st

from lamina.recall.postings import Postings

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


Row = list[tuple[int, str, float]]


def rows_of(index: Postings) -> list[Row]:
    """Each document as (field, term, count), in the order of the index."""
    words = list(index.words)
    places, keys, counts = index.rows().between(0, index.slots)
    rows: list[Row] = [[] for _ in range(index.slots)]
    for place, key, count in zip(places.tolist(), keys.tolist(), counts.tolist(), strict=True):
        rows[place].append((key % index.fields, words[key // index.fields], count))
    return rows
