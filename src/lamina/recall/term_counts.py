"""Counts the terms of many documents in one pass of numpy: which term stands how often in which
field of which document, in the order of first use. Runs of letters, and the terms that they stand
for, go by numbers from one table that the whole process shares, threads included. Touches no files.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lamina.text.terms import terms_of

if TYPE_CHECKING:  # it costs a search that somebody waits for milliseconds
    from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[np.uint32]"
Counts: TypeAlias = "NDArray[np.uint16]"
Floats: TypeAlias = "NDArray[np.float32]"
Doubles: TypeAlias = "NDArray[np.float64]"
Places: TypeAlias = "NDArray[np.intp]"

_MOST_RUNS = 200_000
_MOST_TERMS = 4_000_000  # of all runs together: one without spaces may be a whole text
_TABLE_BITS = 19  # the table stays less than half full
_MOST_TIMES = 65_535  # a term in a text
_SPACE = 32
_WINDOW = 8  # bytes of a run that are hashed at once
_LONGEST_HASHED = 64  # bytes; of the few longer ones Python makes the hash
_MIXER = np.uint64(0x9E3779B97F4A7C15)


class Numbered(dict[str, int]):
    """The numbers of words, given out in order."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


class Lexicon:
    """Runs by their number, given out as they are met, and the terms that each stands for. A run
    that begins with `@`, which no text yields, stands for itself."""

    def __init__(self) -> None:
        self._numbers = Numbered()  # terms
        self._of_runs = array("I")  # numbers of terms, run after run …
        self._ends = array("I")  # … and where each run's end
        # By hash, in the next free place: 0 where there is none, or the run's number and 1.
        self._hashes = np.zeros(1 << _TABLE_BITS, dtype=np.uint64)
        self._at = np.zeros(1 << _TABLE_BITS, dtype=np.uint32)
        self._lock = threading.Lock()

    @property
    def many(self) -> int:
        """How many terms there are."""
        return len(self._numbers)

    def terms_from(self, first: int) -> Sequence[str]:
        """The terms of this number and above."""
        return [*islice(reversed(self._numbers), len(self._numbers) - first)][::-1]

    @property
    def full(self) -> bool:
        return len(self._ends) >= _MOST_RUNS or len(self._of_runs) >= _MOST_TERMS

    def runs_in(self, text: bytes) -> tuple[Numbers, Places]:
        """The number of each run of a text with a space at both ends, and where it begins."""
        spaces = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == _SPACE)
        sizes = np.diff(spaces) - 1
        runs = np.flatnonzero(sizes)
        starts, sizes = spaces[runs] + 1, sizes[runs]
        hashes = _hashes(text, starts, sizes)
        with self._lock:
            numbers = self._known(hashes)
            new = np.flatnonzero(numbers == 0)
            if len(new):
                first = new[np.sort(np.unique(hashes[new], return_index=True)[1])]
                ends = starts[first] + sizes[first]
                edges = zip(starts[first].tolist(), ends.tolist(), strict=True)
                self._meet([text[start:end].decode() for start, end in edges])
                self._keep(hashes[first])
                numbers[new] = self._known(hashes[new])
        return numbers - np.uint32(1), starts

    def _known(self, hashes: NDArray[np.uint64]) -> Numbers:
        """The number of each run and 1; 0 where it is new."""
        places = _places_of(hashes)
        numbers = self._at[places]
        left = np.flatnonzero((self._hashes[places] != hashes) & (numbers != 0))
        while len(left):  # another's place: it may stand in the next
            places[left] = (places[left] + 1) % len(self._at)
            numbers[left] = self._at[places[left]]
            other = (self._hashes[places[left]] != hashes[left]) & (numbers[left] != 0)
            left = left[other]
        return numbers

    def _keep(self, hashes: NDArray[np.uint64]) -> None:
        """The newest runs have these."""
        last = len(self._ends) + 1
        numbers, places = np.arange(last - len(hashes), last, dtype=np.uint32), _places_of(hashes)
        while len(numbers):
            free = self._at[places] == 0
            self._at[places[free]] = numbers[free]  # of several, one gets the place
            got = self._at[places] == numbers
            self._hashes[places[got]] = hashes[got]
            numbers, hashes = numbers[~got], hashes[~got]
            places = (places[~got] + 1) % len(self._at)

    def _meet(self, runs: Sequence[str]) -> None:
        met = [(run,) if run[0] == "@" else terms_of(run) for run in runs]
        self._ends.extend(islice(accumulate(map(len, met), initial=len(self._of_runs)), 1, None))
        self._of_runs.extend(map(self._numbers.__getitem__, chain.from_iterable(met)))

    def terms_in(self, runs: Numbers) -> tuple[Numbers, Places]:
        """The numbers of all terms of these runs in order, and where each run's end."""
        with self._lock:
            of_runs = np.array(self._of_runs, dtype=np.uint32)
            ends = np.array(self._ends, dtype=np.int64)
        sizes = np.diff(ends, prepend=0)
        many = sizes[runs]
        last = np.cumsum(many)
        # How far each run's terms stand from where they are put.
        places = np.repeat(ends[runs] - last, many)
        places += np.arange(len(places))
        return of_runs[places], last


class _Shared:
    lexicon = Lexicon()


def lexicon() -> Lexicon:
    """The table to number runs with now; begun anew before it grows without bound, so whoever holds
    numbers holds on to the table that gave them."""
    if _Shared.lexicon.full:
        _Shared.lexicon = Lexicon()
    return _Shared.lexicon


class Backlog:
    """Documents that came in and are not counted yet: texts of `text/terms.py:spaced`."""

    def __init__(self, lexicon: Lexicon, fields: int) -> None:
        self.lexicon = lexicon
        self.documents = 0
        self.size = 0  # in bytes
        self._fields = fields
        self._texts: list[bytes] = []

    def add(self, texts: Sequence[bytes]) -> None:
        self._texts += texts
        self.size += sum(map(len, texts))
        self.documents += 1

    def count(self) -> tuple[Places, Numbers, Numbers, Counts]:
        """How many terms each document has; document by document and field by field its terms in
        the order of first use, by the lexicon's numbers, with the field and the amount of each."""
        runs, starts = self.lexicon.runs_in(b" ".join((b"", *self._texts, b"")))
        terms, last = self.lexicon.terms_in(runs)
        behind = np.searchsorted(
            starts, np.cumsum([len(text) + 1 for text in self._texts]), "right"
        )
        sizes = np.diff(np.append(0, last)[behind], prepend=0)  # of each text, in terms
        numbers = np.arange(len(self._texts), dtype=np.uint32)
        fields = np.repeat(numbers % self._fields, sizes)
        documents = np.repeat(numbers // self._fields, sizes)
        # What is counted together: a term in a field of a document. Places rise with documents, so
        # sorting by term, field and place brings together what belongs together.
        what = terms.astype(np.uint64) * np.uint64(self._fields) + fields
        what, places = sorted_by(what)
        starts = np.flatnonzero(changes(what) | changes(documents[places]))
        amounts = np.zeros(len(terms), dtype=np.uint16)  # where each term is first used
        amounts[places[starts]] = np.minimum(np.diff(starts, append=len(places)), _MOST_TIMES)
        chosen = np.flatnonzero(amounts)
        sizes = np.bincount(documents[chosen], minlength=self.documents)
        return sizes, terms[chosen], fields[chosen], amounts[chosen]


def _places_of(hashes: NDArray[np.uint64]) -> Places:
    return (hashes >> np.uint64(64 - _TABLE_BITS)).astype(np.intp)


def _hashes(text: bytes, starts: Places, sizes: Places) -> NDArray[np.uint64]:
    """A number for each run, from eight of its bytes at a time."""
    windows = np.ndarray(len(text), "<u8", text + bytes(_WINDOW), strides=(1,))
    hashes = _mixed(sizes.view(np.uint64), windows[starts], _WINDOW - sizes)
    longer, first = np.flatnonzero(sizes > _WINDOW), _WINDOW
    while len(longer) and first < _LONGEST_HASHED:
        left = sizes[longer] - first
        hashes[longer] = _mixed(hashes[longer], windows[starts[longer] + first], _WINDOW - left)
        longer, first = longer[left > _WINDOW], first + _WINDOW
    for run in longer.tolist():
        hashes[run] = hash(text[starts[run] : starts[run] + sizes[run]]) % 2**64
    return hashes


def _mixed(
    before: NDArray[np.uint64], window: NDArray[np.uint64], beyond: Places
) -> NDArray[np.uint64]:
    """With eight more bytes, of which so many (0 if fewer) stand behind the run."""
    np.maximum(beyond, 0, out=beyond)
    mixed = window << (beyond.view(np.uint64) << np.uint64(3))
    mixed ^= before
    mixed *= _MIXER
    mixed ^= mixed >> np.uint64(32)
    mixed *= _MIXER
    return mixed


def sorted_by(values: NDArray[np.integer]) -> tuple[NDArray[np.uint64], Places]:
    """Values below 2**32 in order, equal ones as they stood, and where each stood. One plain sort
    of both together is several times faster than a stable one by index."""
    packed = _packed(values)
    return packed >> np.uint64(32), _places(packed)


def order_of(values: NDArray[np.integer]) -> Numbers:
    """Where each of the sorted values stood."""
    return _packed(values).astype(np.uint32)  # the lower half


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
