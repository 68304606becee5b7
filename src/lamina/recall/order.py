"""Puts scores in order: best first, equal scores by id, no more sorted than somebody takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lamina.recall.postings import Floats

_FIRST_TAKE = 64


def best_first(scores: Floats, id_of: Callable[[int], str]) -> Iterator[int]:
    """Places with a score above 0. The order depends on scores and ids alone, never on places, so
    an index that grew in another order answers the same."""
    import numpy as np

    left = np.flatnonzero(scores > 0)
    take = _FIRST_TAKE
    while len(left):
        values = scores[left]
        if len(left) > take:
            line = np.partition(values, len(values) - take)[len(values) - take]
            chosen = values >= line
        else:
            chosen = np.ones(len(left), dtype=bool)
        ranked = zip((-values[chosen]).tolist(), left[chosen].tolist(), strict=True)
        for _, slot in sorted(ranked, key=lambda pair: (pair[0], id_of(pair[1]))):
            yield slot
        left = left[~chosen]
        take *= 8
