"""Puts scores in order: best first, equal scores by id, no more sorted than somebody takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lamina.recall.rows import Floats, Slots

_FIRST_TAKE = 16
_SMALL = 4_000
_FEW = 50
_CLOSER = 1_000


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


def promising(scores: Floats) -> Slots | None:
    """The places worth a closer look in a large index, in order; None means all of them.

    A small index is looked at whole, and so is a large one that shares hardly a word with the
    question: there only related words can help.
    """
    import numpy as np

    if len(scores) <= _SMALL:
        return None
    found = np.flatnonzero(scores > 0)
    if len(found) < _FEW:
        return None
    if len(found) > _CLOSER:
        values = scores[found]
        line = np.partition(values, len(values) - _CLOSER)[len(values) - _CLOSER]
        found = found[values >= line]
    return found.astype(np.uint32)
