"""Counts the terms of many documents at once: which term stands how often in which field of which
document, in the order of first use. Numbers in, numbers out; touches no files.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lamina.recall.lexicon import Lexicon

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lamina.recall.lexicon import Numbers

    Floats: TypeAlias = NDArray[np.float32]

ASKED = 0.5  # what a term counts in a question; in a statement it counts 1
_LOW = 0xFFFFFFFF

# One text: its runs in order, and once more those that stand in questions.
Runs: TypeAlias = tuple[Sequence[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Counted:
    """Documents one after the other, each as its terms in the order of first use, field by field."""

    sizes: NDArray[np.intp]  # how many each document has
    terms: Numbers  # by the lexicon's numbers
    fields: Numbers
    amounts: Floats


class Waiting:
    """Documents that came in and are not counted yet, as numbers of their runs."""

    def __init__(self, lexicon: Lexicon, fields: int) -> None:
        self.lexicon = lexicon
        self.documents = 0
        self._fields = fields
        self._runs = array("I")
        self._sizes = array("I")  # of each field, its statements and its questions in turn

    @property
    def runs(self) -> int:
        return len(self._runs)

    def add(self, texts: Sequence[Runs]) -> None:
        number = self.lexicon.__getitem__
        for text in texts:
            for runs in text:
                self._runs.extend(map(number, runs))
                self._sizes.append(len(runs))
        self.documents += 1

    def count(self) -> Counted:
        """All of them, counted."""
        import numpy as np

        runs = np.frombuffer(self._runs, dtype=np.uint32)
        terms, source = self.lexicon.terms_in(runs)
        parts = np.repeat(np.arange(len(self._sizes), dtype=np.uint32), self._sizes)[source]
        # What is counted together: a term in a field of a document. Places rise with documents, so
        # sorting by term, field and place brings together what belongs together.
        fields = (np.arange(len(self._sizes), dtype=np.uint32) // 2 % self._fields)[parts]
        documents = (np.arange(len(self._sizes), dtype=np.uint32) // (2 * self._fields))[parts]
        what = terms.astype(np.uint64) * np.uint64(self._fields) + fields
        what, places = sorted_by(what)
        of = documents[places]
        starts = np.flatnonzero(changes(what) | changes(of))
        weights = np.where(parts & 1, np.float32(ASKED - 1), np.float32(1))
        amounts = np.add.reduceat(weights[places], starts) if len(starts) else weights[:0]
        _, order = sorted_by(places[starts])
        chosen = places[starts][order]
        return Counted(
            np.bincount(documents[chosen], minlength=self.documents),
            terms[chosen],
            fields[chosen],
            amounts[order].astype(np.float32, copy=False),
        )


def sorted_by(values: NDArray[np.integer]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Values below 2**32 in order, equal ones as they stood, and where each stood. One plain sort of
    both together is several times faster than a stable one by index."""
    import numpy as np

    packed = (values.astype(np.uint64) << np.uint64(32)) | np.arange(len(values), dtype=np.uint64)
    packed.sort()
    return packed >> np.uint64(32), (packed & np.uint64(_LOW)).astype(np.intp)


def changes(values: NDArray[np.integer]) -> NDArray[np.bool_]:
    """True at the first value and at each that differs from the one before."""
    import numpy as np

    differs = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs
