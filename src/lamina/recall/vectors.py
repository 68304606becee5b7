"""One row of word vectors for each place of the index, grown as documents come. Lives in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lamina.local.embedder import DIMENSIONS, likeness, word_vectors

if TYPE_CHECKING:
    from lamina.recall.postings import Floats


class Vectors:
    """Directions of documents; a document without a known word has none, and is near nothing."""

    def __init__(self) -> None:
        self._rows: Floats | None = None
        self._used = 0

    def append(self, weights: Mapping[str, float]) -> None:
        """The next place's terms and how much each counts."""
        import numpy as np

        if self._rows is None or self._used == len(self._rows):
            larger = np.zeros((max(256, 2 * self._used), DIMENSIONS), dtype=np.float32)
            if self._rows is not None:
                larger[: self._used] = self._rows
            self._rows = larger
        vector = word_vectors().embed(weights)
        if vector is not None:
            self._rows[self._used] = vector
        self._used += 1

    def keep(self, slots: Sequence[int]) -> None:
        """Only these places stay, in this order."""
        if self._rows is not None:
            self._rows = self._rows[list(slots)].copy()
        self._used = len(slots)

    def near(self, weighed: Mapping[str, float]) -> Floats | None:
        """The cosine of each document to the question; None when no word of it is known."""
        vector = word_vectors().embed(weighed)
        if vector is None or self._rows is None:
            return None
        return likeness(self._rows[: self._used], vector)

    def rows(self) -> Floats:
        import numpy as np

        if self._rows is None:
            return np.zeros((0, DIMENSIONS), dtype=np.float32)
        return self._rows[: self._used]

    def replace(self, rows: Floats) -> None:
        self._rows, self._used = rows.copy(), len(rows)
