"""One row of word vectors for each place of the index, grown as documents come. Lives in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lamina.local.embedder import DIMENSIONS, likeness, word_vectors

if TYPE_CHECKING:
    from lamina.recall.postings import Floats, Slots


class Vectors:
    """Directions of documents; a document without a known word has none, and is near nothing."""

    def __init__(self) -> None:
        self._rows: Floats | None = None
        self._used = 0
        self._waiting: list[Mapping[str, float]] = []  # worked out at the next search

    def append(self, weights: Mapping[str, float]) -> None:
        """The next place's terms and how much each counts; their roots are what pulls."""
        self._waiting.append(weights)

    def rows(self) -> Floats:
        """All directions, by place."""
        import numpy as np

        if self._rows is None:
            self._rows = np.zeros((256, DIMENSIONS), dtype=np.float32)
        if self._waiting:
            used = self._used + len(self._waiting)
            if used > len(self._rows):
                larger = np.zeros((max(used, 2 * len(self._rows)), DIMENSIONS), dtype=np.float32)
                larger[: self._used] = self._rows[: self._used]
                self._rows = larger
            self._rows[self._used : used] = word_vectors().embed_all(self._waiting)
            self._used, self._waiting = used, []
        return self._rows[: self._used]

    def keep(self, slots: Sequence[int]) -> None:
        """Only these places stay, in this order."""
        self.replace(self.rows()[list(slots)])

    def replace(self, rows: Floats) -> None:
        self._rows, self._used, self._waiting = rows.copy(), len(rows), []

    def near(self, weighed: Mapping[str, float], places: Slots | None = None) -> Floats:
        """The cosine to the question of each document, or of those at `places`; 0 when no word of
        the question is known."""
        import numpy as np

        rows = self.rows() if places is None else self.rows()[places]
        vector = word_vectors().embed(weighed)
        if vector is None:
            return np.zeros(len(rows), dtype=np.float32)
        return likeness(rows, vector)

    def to_bytes(self) -> bytes:
        import numpy as np

        return self.rows().astype(np.int16).tobytes()

    def from_bytes(self, saved: bytes) -> None:
        import numpy as np

        self.replace(
            np.frombuffer(saved, dtype=np.int16).reshape(-1, DIMENSIONS).astype(np.float32)
        )

    def __len__(self) -> int:
        return self._used + len(self._waiting)
