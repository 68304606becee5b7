"""Which words pull a document's vector, and how hard: the body's first words as often as they stand
there, those of headings more. Worked out for many documents at once; numbers in, numbers out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lamina.recall.counting import changes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lamina.recall.rows import Floats, Rows, Slots

_PIECE = 1_000_000  # entries that are worked out together
_INDEX_BITS, _DOCUMENT_BITS = 22, 16  # of a packed entry; the rest is the word's
_MOST_DOCUMENTS = 1 << _DOCUMENT_BITS


@dataclass(frozen=True, slots=True)
class Pull:
    """Which fields of the rows make a vector."""

    fields: int  # how many the rows have
    body: int
    first: int = 0  # different words of a body that count, from its beginning; 0 for all
    headings: Sequence[int] = ()
    heading: float = 0.0  # a word of a heading counts as often as this, in each


@dataclass(frozen=True, slots=True)
class Pulled:
    """Documents one after the other, each as its words and how often each counts."""

    sizes: NDArray[np.intp]
    words: Slots
    amounts: Floats


def pieces(rows: Rows, first: int) -> list[tuple[int, int]]:
    """The places from `first` on in pieces that may be worked out together."""
    found: list[tuple[int, int]] = []
    while first < len(rows):
        last = min(rows.reach(first, _PIECE), first + _MOST_DOCUMENTS)
        found.append((first, last))
        first = last
    return found


def pulled(rows: Rows, first: int, last: int, pull: Pull) -> Pulled:
    """The words of the documents from one place to before another."""
    import numpy as np

    places, keys, counts = rows.between(first, last)
    places -= np.uint32(first)
    fields = keys % np.uint32(pull.fields)
    body = np.flatnonzero(fields == pull.body)
    if pull.first:
        opens = np.searchsorted(places[body], np.arange(last - first))  # where each one's begins
        body = body[np.arange(len(body)) - opens[places[body]] < pull.first]
    headings = np.flatnonzero(np.isin(fields, pull.headings))
    taken = np.concatenate((body, headings))
    of, words = places[taken], keys[taken] // np.uint32(pull.fields)
    amounts = np.full(len(taken), pull.heading, dtype=np.float32)
    amounts[: len(body)] = counts[body]
    if len(headings):
        of, words, amounts = _joined(of, words, amounts)
    return Pulled(np.bincount(of, minlength=last - first), words, amounts)


def _joined(of: Slots, words: Slots, amounts: Floats) -> tuple[Slots, Slots, Floats]:
    """Document by document, each word once with all its amounts, in the order of first use."""
    import numpy as np

    bits, low = np.uint64(_INDEX_BITS), np.uint64((1 << _INDEX_BITS) - 1)
    index = np.arange(len(of), dtype=np.uint64)
    document = of.astype(np.uint64) << np.uint64(64 - _DOCUMENT_BITS)
    packed = document | words.astype(np.uint64) << bits | index
    packed.sort()
    by = (packed & low).astype(np.intp)
    starts = np.flatnonzero(changes(packed >> bits))
    total = np.add.reduceat(amounts[by], starts)
    firsts = by[starts]
    order = np.argsort(of[firsts].astype(np.uint64) << bits | firsts.astype(np.uint64))
    chosen = firsts[order]
    return of[chosen], words[chosen], total[order]
