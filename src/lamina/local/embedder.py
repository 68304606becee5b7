"""Gives words a place in a space where related words are near: a table of vectors that the package
carries, no model and no network. Reads its one data file when first asked; without numpy or the
file there are simply no vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]

DIMENSIONS = 64
_TABLE = "word_vectors.npz"
_STEPS = 4_000.0  # a direction's length in whole steps; its square is below 2**24


class _Rows(dict[str, int]):
    """Where each word's vector is; an unknown word has row 0, which is all zeros."""

    def __missing__(self, _: str) -> int:
        return 0


class WordVectors:
    """Vectors of stemmed words. Common words are short vectors, so that they hardly pull."""

    def __init__(
        self,
        terms: Sequence[str],
        vectors: Floats,
        rarities: Floats,
        related: tuple[Sequence[int], Sequence[int]] | None = None,
    ) -> None:
        import numpy as np

        self._terms = terms
        # Places of words of like meaning, one word's after the other's, and where each one's end.
        self._related, self._ends = related or ((), ())
        self._rows = _Rows({term: row for row, term in enumerate(terms, 1)})
        self._vectors = np.concatenate((np.zeros((1, DIMENSIONS), dtype=np.float32), vectors))
        self._rarities: list[float] = [1.0, *rarities.tolist()]

    def __contains__(self, term: str) -> bool:
        return term in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def rarity(self, term: str) -> float:
        """How rare the word is in English at large, from 0 to 1; a word unknown here is rarest."""
        return self._rarities[self._rows[term]]

    def related(self, term: str) -> list[str]:
        """Words of like meaning (`purchase` for `buy`), the nearest first; often none."""
        row = self._rows[term]
        if not 0 < row <= len(self._ends):
            return []
        first = self._ends[row - 2] if row > 1 else 0
        return [self._terms[other] for other in self._related[first : self._ends[row - 1]]]

    def embed(self, weights: Mapping[str, float]) -> Floats | None:
        """The direction of a text, given its terms and how much each counts; None when all of them
        are unknown. `likeness` compares directions."""
        import numpy as np

        rows = [*map(self._rows.__getitem__, weights)]
        amounts = np.fromiter(weights.values(), dtype=np.float32, count=len(rows))
        vector = amounts @ self._vectors.take(rows, axis=0)
        length = float(vector @ vector) ** 0.5
        return np.rint(vector * np.float32(_STEPS / length)) if length > 1e-9 else None

    def rows_of(self, terms: Iterable[str]) -> list[int]:
        """Where each term's vector is, for `embed_rows`."""
        return [*map(self._rows.__getitem__, terms)]

    def embed_rows(self, sizes: Iterable[int], rows: NDArray[np.intp], counts: Floats) -> Floats:
        """The directions of many texts, one a row, where the roots of the counts pull; zeros where
        no word is known. Texts come one after the other, each with so many words. A row is the same
        to the last bit whatever stands beside it."""
        import numpy as np

        ends = [0, *accumulate(sizes)]
        pulls, vectors = np.sqrt(counts), self._vectors
        found = np.zeros((len(ends) - 1, DIMENSIONS), dtype=np.float32)
        for place, (start, end) in enumerate(pairwise(ends)):
            np.dot(pulls[start:end], vectors.take(rows[start:end], axis=0), out=found[place])
        lengths = np.sqrt(np.add.reduce(found * found, axis=1, keepdims=True))
        found *= np.float32(_STEPS) / np.maximum(lengths, np.float32(1e-9))
        return np.rint(found, out=found)


def likeness(rows: Floats, vector: Floats) -> Floats:
    """The cosine of each row to the vector, the same to the last bit wherever a row stands: the
    entries are whole numbers whose sums stay exact."""
    import numpy as np

    return (rows @ vector) * np.float32(1 / _STEPS**2)


@cache
def word_vectors() -> WordVectors:
    """The table that came with the package, read once."""
    import numpy as np

    source = files("lamina.local").joinpath(_TABLE)
    with source.open("rb") as file, np.load(file, allow_pickle=False) as table:
        terms = bytes(table["terms"]).decode().split("\n")
        vectors = table["vectors"].astype(np.float32) * table["scales"].astype(np.float32)[:, None]
        rarities = table["rarity"].astype(np.float32) / np.float32(255)
        ends: list[int] = np.cumsum(table["related_counts"], dtype=np.int64).tolist()
        related: list[int] = table["related"].tolist()
    return WordVectors(terms, vectors, rarities, (related, ends))
