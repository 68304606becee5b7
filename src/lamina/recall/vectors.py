"""One row of word vectors for each place of the index, grown as documents come. Lives in memory."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from lamina.local.embedder import DIMENSIONS, likeness, word_vectors
from lamina.recall.postings import Postings
from lamina.recall.pull import Pull, pieces, pulled

if TYPE_CHECKING:
    from lamina.recall.rows import Floats, Slots


class Vectors:
    """Directions of the documents in some postings; a document without a known word has none, and is
    near nothing."""

    def __init__(self, postings: Postings, pull: Pull) -> None:
        self._postings = postings
        self._pull = pull
        self._rows: Floats | None = None
        self._used = 0  # documents whose direction is worked out; the rest waits for a search
        self._of_words = array("I")  # by the number of a word: where its vector is

    def rows(self) -> Floats:
        """All directions, by place."""
        import numpy as np

        if self._rows is None:
            self._rows = np.zeros((256, DIMENSIONS), dtype=np.float32)
        wanted = self._postings.slots
        if wanted > len(self._rows):
            larger = np.zeros((max(wanted, 2 * len(self._rows)), DIMENSIONS), dtype=np.float32)
            larger[: self._used] = self._rows[: self._used]
            self._rows = larger
        if wanted > self._used:
            self._work_out(self._rows)
        return self._rows[: self._used]

    def _work_out(self, directions: Floats) -> None:
        import numpy as np

        documents, table = self._postings.rows(), word_vectors()
        fresh = islice(self._postings.words, len(self._of_words), None)
        self._of_words.extend(table.rows_of(fresh))
        of_words = np.array(self._of_words, dtype=np.intp)
        for first, last in pieces(documents, self._used):
            found = pulled(documents, first, last, self._pull)
            directions[first:last] = table.embed_rows(
                found.sizes.tolist(), of_words[found.words], found.amounts
            )
        self._used = len(documents)

    def keep(self, slots: Sequence[int]) -> None:
        """Only these places stay, in this order. Call `rows` before the postings are swept."""
        import numpy as np

        rows = self._rows if self._rows is not None else np.zeros((0, DIMENSIONS), np.float32)
        self._replace(rows[list(slots)])

    def _replace(self, rows: Floats) -> None:
        self._rows, self._used = rows, len(rows)
        self._of_words = array("I")  # a sweep gives words other numbers

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

        self._replace(
            np.frombuffer(saved, dtype=np.int16).reshape(-1, DIMENSIONS).astype(np.float32)
        )

    def __len__(self) -> int:
        return self._used
