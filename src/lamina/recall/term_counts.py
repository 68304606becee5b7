"""Counts the terms of many documents in one pass of numpy: which term stands how often in which
field of which document, in the order of first use. Runs of letters, and the terms that they stand
for, go by numbers from one table that the whole process shares, threads included. Touches no files.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lamina.text.terms import LONGEST_WORD, terms_of

Numbers: TypeAlias = NDArray[np.uint32]
Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]

_MOST_RUNS = 200_000
_MOST_TERMS = 4_000_000  # of all runs together: one without spaces may be a whole text

Runs: TypeAlias = Sequence[str]  # those of one text, in order


class Lexicon(dict[str, int]):
    """Runs by their number, given out as they are met. A run that begins with `@`, which no text
    yields, stands for itself."""

    def __init__(self) -> None:
        super().__init__()
        self.terms: list[str] = []  # by their number
        self._numbers: dict[str, int] = {}  # of terms
        self._of_runs = array("I")  # numbers of terms, run after run …
        self._ends = array("I")  # … and where each run's end
        self._lock = threading.Lock()

    @property
    def full(self) -> bool:
        return len(self._ends) >= _MOST_RUNS or len(self._of_runs) >= _MOST_TERMS

    def __missing__(self, run: str) -> int:
        found = (run,) if run.startswith("@") else terms_of(run)
        with self._lock:
            known = self.get(run)
            if known is not None:  # another thread was first
                return known
            number = len(self._ends)
            for term in found:
                known = self._numbers.setdefault(term, len(self.terms))
                if known == len(self.terms):
                    self.terms.append(term)
                self._of_runs.append(known)
            self._ends.append(len(self._of_runs))
            if len(run) <= LONGEST_WORD:
                self[run] = number
            return number

    def terms_in(self, runs: Numbers) -> tuple[Numbers, Places]:
        """The numbers of all terms of these runs in order, and which of the runs each is from."""
        with self._lock:
            of_runs = np.array(self._of_runs, dtype=np.uint32)
            ends = np.array(self._ends, dtype=np.int64)
        sizes = np.diff(ends, prepend=0)
        many = sizes[runs]
        source = np.repeat(np.arange(len(runs)), many)
        # How far each run's terms stand from where they are put.
        shift = (ends - sizes)[runs] - (np.cumsum(many) - many)
        return of_runs[np.arange(len(source)) + shift[source]], source


class _Shared:
    lexicon = Lexicon()


def lexicon() -> Lexicon:
    """The table to number runs with now; begun anew before it grows without bound, so whoever holds
    numbers holds on to the table that gave them."""
    if _Shared.lexicon.full:
        _Shared.lexicon = Lexicon()
    return _Shared.lexicon


class Backlog:
    """Documents that came in and are not counted yet, as numbers of their runs."""

    def __init__(self, lexicon: Lexicon, fields: int) -> None:
        self.lexicon = lexicon
        self.documents = 0
        self.runs = array("I")
        self._fields = fields
        self._sizes = array("I")  # of each field

    def add(self, texts: Sequence[Runs]) -> None:
        number = self.lexicon.__getitem__
        for text in texts:
            self.runs.extend(map(number, text))
            self._sizes.append(len(text))
        self.documents += 1

    def count(self) -> tuple[Places, Numbers, Numbers, Floats]:
        """How many terms each document has; document by document and field by field its terms in
        the order of first use, by the lexicon's numbers, with the field and the amount of each."""
        terms, source = self.lexicon.terms_in(np.frombuffer(self.runs, dtype=np.uint32))
        numbers = np.arange(len(self._sizes), dtype=np.uint32)
        parts = np.repeat(numbers, self._sizes)[source]
        # What is counted together: a term in a field of a document. Places rise with documents, so
        # sorting by term, field and place brings together what belongs together.
        fields = (numbers % self._fields)[parts]
        documents = (numbers // self._fields)[parts]
        what = terms.astype(np.uint64) * np.uint64(self._fields) + fields
        what, places = sorted_by(what)
        starts = np.flatnonzero(changes(what) | changes(documents[places]))
        amounts = np.diff(starts, append=len(places)).astype(np.float32)
        _, order = sorted_by(places[starts])
        chosen = places[starts][order]
        sizes = np.bincount(documents[chosen], minlength=self.documents)
        return sizes, terms[chosen], fields[chosen], amounts[order]


def sorted_by(values: NDArray[np.integer]) -> tuple[NDArray[np.uint64], Places]:
    """Values below 2**32 in order, equal ones as they stood, and where each stood. One plain sort
    of both together is several times faster than a stable one by index."""
    packed = _packed(values)
    return packed >> np.uint64(32), _places(packed)


def order_of(values: NDArray[np.integer]) -> Places:
    """Where each of the sorted values stood."""
    return _places(_packed(values))


def _packed(values: NDArray[np.integer]) -> NDArray[np.uint64]:
    packed = values.astype(np.uint64)  # changed in place from here on: there may be millions
    packed <<= np.uint64(32)
    packed |= np.arange(len(values), dtype=np.uint32)
    packed.sort()
    return packed


def _places(packed: NDArray[np.uint64]) -> Places:
    packed &= np.uint64(0xFFFFFFFF)
    return packed.view(np.intp)


def changes(values: NDArray[np.integer]) -> NDArray[np.bool_]:
    """True at the first value and at each that differs from the one before."""
    differs = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs
