"""Numbers for the runs of letters that texts are made of, and for the terms that they stand for, so
that many documents are counted in one step. One table for the whole process, begun anew before it
grows without bound; threads may share it. Touches nothing else.
"""

from __future__ import annotations

import threading
from array import array
from typing import TYPE_CHECKING, TypeAlias

from lamina.recall.words import LONGEST_WORD, terms_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.uint32]

_MOST_RUNS = 200_000
_MOST_TERMS = 4_000_000  # of all runs together: one without spaces may be a whole text


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
            self._of_runs.extend(map(self._number, found))
            self._ends.append(len(self._of_runs))
            if len(run) <= LONGEST_WORD:
                self[run] = number
            return number

    def _number(self, term: str) -> int:
        number = self._numbers.setdefault(term, len(self.terms))
        if number == len(self.terms):
            self.terms.append(term)
        return number

    def terms_in(self, runs: Numbers) -> tuple[Numbers, NDArray[np.intp]]:
        """The numbers of all terms of these runs in order, and which of the runs each is from."""
        import numpy as np

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
    """The table that is in use."""

    lexicon = Lexicon()


def lexicon() -> Lexicon:
    """The table to number runs with now. Who holds numbers holds on to the table that gave them."""
    if _Shared.lexicon.full:
        _Shared.lexicon = Lexicon()
    return _Shared.lexicon
