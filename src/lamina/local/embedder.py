"""Gives words a place in a space where related words are near: a table of vectors that the package
carries, no model and no network. Reads its one data file when first asked; without numpy or the
file there are simply no vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]

DIMENSIONS = 64
_TABLE = "word_vectors.npz"
_BATCH = 1_000
_STEPS = 4_000.0  # a direction's length in whole steps; its square is below 2**24


class WordVectors:
    """Vectors of stemmed words. Common words are short vectors, so that they hardly pull."""

    def __init__(self, terms: list[str], vectors: Floats, rarities: Floats) -> None:
        self._rows = {term: row for row, term in enumerate(terms)}
        self._vectors = vectors
        self._rarities = rarities

    def __contains__(self, term: str) -> bool:
        return term in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def rarity(self, term: str) -> float:
        """How rare the word is in English at large, from 0 to 1; a word unknown here is rarest."""
        row = self._rows.get(term)
        return 1.0 if row is None else float(self._rarities[row])

    def embed(self, texts: Sequence[Mapping[str, float]]) -> Floats:
        """The direction of each text, given its terms and how much each counts; a text of unknown
        words alone has none, and is all zeros. `likeness` compares directions."""
        import numpy as np

        directions = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for first in range(0, len(texts), _BATCH):
            self._embed(texts[first : first + _BATCH], directions[first : first + _BATCH])
        return directions

    def _embed(self, texts: Sequence[Mapping[str, float]], into: Floats) -> None:
        import numpy as np

        of, rows = self._rows.get, list[int]()
        weights, starts, filled = list[float](), list[int](), list[int]()
        for number, text in enumerate(texts):
            before = len(rows)
            for term, weight in text.items():
                if (row := of(term)) is not None:
                    rows.append(row)
                    weights.append(weight)
            if len(rows) > before:
                starts.append(before)
                filled.append(number)
        if not rows:
            return
        pulls = self._vectors[rows] * np.asarray(weights, dtype=np.float32)[:, None]
        sums = np.add.reduceat(pulls, starts, axis=0)
        lengths = np.sqrt((sums * sums).sum(axis=1, keepdims=True))
        into[filled] = np.rint(sums * (np.float32(_STEPS) / np.maximum(lengths, np.float32(1e-9))))


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
    return WordVectors(terms, vectors, rarities)
