"""The derived index under every search: which document holds which term, how often, in which field.
Documents come and go one by one, and every score is the same as
if it had been built anew. What comes in waits and is worked out all at once when somebody asks.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, KeysView, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from lamina.recall.kept import Apart, Column, Names, apart
from lamina.recall.term_counts import (
    Backlog,
    Counts,
    Floats,
    Lexicon,
    Numbered,
    Numbers,
    Places,
    lexicon,
    order_of,
)

_Array = TypeVar("_Array", "array[int]", "array[float]")
Found: TypeAlias = tuple[Numbers, Counts]  # places, and how often each holds it

# Dead places are swept out when they are a quarter of all, but not for a handful.
_SWEEP_SHARE = 0.25
_SWEEP_FROM = 64
_MOST_WAITING = 800_000  # bytes; more are counted at once, so that no crowd of numbers piles up
# New rows are sorted apart from the rest until they are this many and this share of it.
_APART = 64
_APART_SHARE = 1 / 16
_COUNT_BITS = 16


class Rows:
    """What each document holds, one after the other in flat arrays: keys of its terms in the order
    of first use, and how often each stands there. Only ever added to; who drops some builds them
    anew."""

    def __init__(self) -> None:
        # In the file that they were written to until something is added.
        self._keys: array[int] | Column = array("I")
        self._counts: array[int] | Column = array("H")
        self._ends: array[int] = array("Q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def extend(self, sizes: Places, keys: Numbers, counts: Counts) -> None:
        ends = np.cumsum(sizes, dtype=np.uint64) + np.uint64(self._ends[-1])
        self._keys = _grown(array("I"), self._keys, keys)
        self._counts = _grown(array("H"), self._counts, counts)
        self._ends = _grown(array("Q"), self._ends, ends)

    def keys(self, place: int) -> Sequence[int]:
        return self._keys[self._ends[place] : self._ends[place + 1]].tolist()

    def reach(self, first: int, entries: int) -> int:
        """The place behind as many rows from `first` on as hold so many entries; at least one."""
        return max(first + 1, bisect_right(self._ends, self._ends[first] + entries) - 1)

    def between(self, first: int, last: int) -> tuple[Numbers, Numbers, Counts]:
        """Places, keys and counts of all entries from one place to before another, to be let go of
        before anything is added."""
        ends = np.array(self._ends[first : last + 1], dtype=np.int64)
        start, end = int(ends[0]), int(ends[-1])
        places = np.repeat(np.arange(first, last, dtype=np.uint32), np.diff(ends))
        keys: Numbers = _between(self._keys, start, end, np.uint32)
        return places, keys, _between(self._counts, start, end, np.uint16)

    def at(self, places: Places) -> Rows:
        """The rows at these places alone."""
        ends = np.frombuffer(self._ends, dtype=np.uint64).astype(np.intp)
        sizes = ends[places + 1] - ends[places]
        last = np.cumsum(sizes)
        where = np.repeat(ends[places + 1] - last, sizes) + np.arange(last[-1] if len(last) else 0)
        some = Rows()
        keys = _between(self._keys, 0, len(self._keys), np.uint32)[where]
        counts = _between(self._counts, 0, len(self._counts), np.uint16)[where]
        some.extend(sizes, keys, counts)
        return some

    def without(self, gone: Collection[int]) -> Rows:
        """All but the rows at these places."""
        stays = np.ones(len(self), dtype=bool)
        stays[list(gone)] = False
        return self.at(np.flatnonzero(stays))

    def renamed(self, keys: Numbers) -> Rows:
        """The same rows with other keys, given one after the other."""
        other = Rows()
        other._ends, other._counts = self._ends, self._counts
        other._keys = _grown(array("I"), other._keys, keys)
        return other

    def to_state(self) -> dict[str, Apart]:
        arrays = {"ends": self._ends, "keys": self._keys, "counts": self._counts}
        return {name: apart(values) for name, values in arrays.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Apart]) -> Rows:
        """What `to_state` described; ValueError when it contradicts itself."""
        rows = cls()
        ends = Column(state["ends"], "u8")[:]
        rows._ends = array("Q", ends.tobytes())
        rows._keys, rows._counts = Column(state["keys"], "u4"), Column(state["counts"], "u2")
        if not len(ends) or ends[0] != 0 or (ends[1:] < ends[:-1]).any():
            raise ValueError("the rows are out of order")
        if not ends[-1] == len(rows._keys) == len(rows._counts):
            raise ValueError("the rows don't add up")
        return rows


def _grown(empty: _Array, values: object, more: Any) -> _Array:
    """An array of these numbers and more; one that lies in a file becomes an array of its own."""
    if isinstance(values, array):
        empty = cast("_Array", values)
    else:
        empty.frombytes(cast("Column", values)[:].tobytes())
    empty.frombytes(more.tobytes())
    return empty


def _between(values: array[int] | Column, first: int, last: int, kind: Any) -> Any:
    """Some of the numbers, none of them copied."""
    if isinstance(values, Column):
        return values[first:last]
    return np.frombuffer(memoryview(values)[first:last], dtype=kind)


class PlacesByKey:
    """Where each key stands, for the rows from one place to before another."""

    def __init__(
        self, places: Numbers | Column, counts: Counts | Column, ends: array[int] | Column
    ) -> None:
        self._places, self._counts = places, counts
        self._ends = ends  # by key: where its places end

    @classmethod
    def of(cls, rows: Rows, first: int, last: int) -> PlacesByKey:
        places, keys, counts = rows.between(first, last)
        ends = array("Q")
        ends.frombytes(np.cumsum(np.bincount(keys), dtype=np.uint64).tobytes())
        bits = max(last - 1, 1).bit_length()
        if len(ends).bit_length() + bits > 64 - _COUNT_BITS:
            order = order_of(keys)
            return cls(places[order], counts[order], ends)
        # All three in one number: what is sorted need not be gathered from where it stood.
        packed = keys.astype(np.uint64)
        packed <<= np.uint64(bits)
        packed |= places
        packed <<= np.uint64(_COUNT_BITS)
        packed |= counts
        packed.sort()
        counts = packed.astype(np.uint16)  # the lowest bits
        packed >>= np.uint64(_COUNT_BITS)
        packed &= np.uint64((1 << bits) - 1)
        return cls(packed.astype(np.uint32), counts, ends)

    def to_state(self) -> dict[str, Apart]:
        arrays = {"places": self._places, "counts": self._counts, "ends": self._ends}
        return {name: apart(values) for name, values in arrays.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Apart]) -> PlacesByKey:
        """What `to_state` described; ValueError when it contradicts itself."""
        ends = Column(state["ends"], "u8")
        places, counts = Column(state["places"], "u4"), Column(state["counts"], "u2")
        if not len(places) == len(counts) == (ends[len(ends) - 1] if len(ends) else 0):
            raise ValueError("the places don't add up")
        return cls(places, counts, ends)

    @property
    def keys(self) -> int:
        """How many keys there may be."""
        return len(self._ends)

    def find(self, key: int) -> Found | None:
        if key >= len(self._ends):
            return None
        start, end = self._ends[key - 1] if key else 0, self._ends[key]
        return (self._places[start:end], self._counts[start:end]) if end > start else None


class Postings:
    """Terms of many documents in several fields. A document is a place (slot), numbered from 0; a
    word in a field has a key: the word's number times the number of fields, plus the field."""

    def __init__(self, fields: int) -> None:
        self.fields = fields
        self._kept: Names | None = None  # the words, in a file until all of them are asked for
        self._words = Numbered()
        self._rows = Rows()
        self._waiting = Backlog(lexicon(), fields)
        # By a lexicon's number of a term: ours and 1, or 0 where none was met yet.
        self._met: tuple[Lexicon | None, Numbers] = None, np.zeros(0, dtype=np.uint32)
        self._dead: set[int] = set()  # places
        self._missing: Counter[int] = Counter()  # by key: dead places that hold it
        self._lengths = [array("f") for _ in range(fields)]
        self._totals = [0.0] * fields
        self._filled = [0] * fields
        self._sorted: list[PlacesByKey] = []  # the most of the rows, and those that came since
        self._most = 0  # rows in the first of them
        self._unsorted = False  # did any come since?

    def __len__(self) -> int:
        return self.slots - len(self._dead)

    @property
    def slots(self) -> int:
        """Places in use or dead: the length of every array of scores."""
        return len(self._rows) + self._waiting.documents

    @property
    def dead(self) -> Collection[int]:
        """Places whose document went."""
        return self._dead

    @property
    def words(self) -> KeysView[str]:
        """All words, by their number."""
        self._count_in()
        return self._numbered().keys()

    def _numbered(self) -> Numbered:
        if self._kept is not None:
            self._words, self._kept = Numbered(zip(self._kept, count())), None
        return self._words

    def _number(self, word: str) -> int | None:
        return self._words.get(word) if self._kept is None else self._kept.place(word)

    def rows(self) -> Rows:
        """What each document holds."""
        self._count_in()
        return self._rows

    def add(self, texts: Sequence[bytes]) -> int:
        """Takes a document's texts, field by field and `spaced`, and returns its place."""
        numbers = lexicon()
        if numbers is not self._waiting.lexicon or self._waiting.size > _MOST_WAITING:
            self._count_in()
            self._waiting = Backlog(numbers, self.fields)
        self._waiting.add(texts)
        self._unsorted = True
        return self.slots - 1

    def _count_in(self) -> None:
        """Makes rows of what was added since the last time, all at once."""
        waiting = self._waiting
        if not waiting.documents:
            return
        self._waiting = Backlog(waiting.lexicon, self.fields)
        sizes, terms, fields, amounts = waiting.count()
        words = self._numbers_of(waiting.lexicon, terms)
        self._rows.extend(sizes, words * np.uint32(self.fields) + fields, amounts)
        places = np.repeat(np.arange(waiting.documents, dtype=np.uint32), sizes)
        self._measure(places, fields, amounts, waiting.documents)

    def _numbers_of(self, known: Lexicon, terms: Numbers) -> Numbers:
        """Our own numbers of a lexicon's terms; those that it had before are not looked up again."""
        if self._met[0] is not known or len(self._met[1]) < known.many:
            old = self._met[1] if self._met[0] is known else self._met[1][:0]
            more = np.zeros(known.many - len(old), dtype=np.uint32)
            self._met = known, np.concatenate((old, more))
        numbers = self._met[1]
        new = np.unique(terms[numbers[terms] == 0])
        if len(new):
            met: list[int] = new.tolist()
            names = known.terms_from(met[0])
            words = self._numbered()
            numbers[new] = [words[names[term - met[0]]] + 1 for term in met]
        return numbers[terms] - np.uint32(1)

    def _measure(self, places: Numbers, fields: Numbers, counts: Counts, documents: int) -> None:
        """Counts the lengths of so many new documents."""
        where = places.astype(np.intp) * self.fields + fields
        fresh = np.bincount(where, counts, documents * self.fields).reshape(documents, self.fields)
        for field, lengths in enumerate(self._lengths):
            lengths.frombytes(fresh[:, field].astype(np.float32).tobytes())
            self._totals[field] += float(fresh[:, field].sum())
            self._filled[field] += int(np.count_nonzero(fresh[:, field]))

    def _sort_in(self) -> None:
        """Brings what was added since the last search into the postings."""
        self._count_in()
        rows = len(self._rows)
        self._unsorted = False
        if rows - self._most > max(_APART, self._most * _APART_SHARE):
            self._sorted, self._most = [PlacesByKey.of(self._rows, 0, rows)], rows
        else:
            most = self._sorted[:1] if self._most else []
            self._sorted = [*most, PlacesByKey.of(self._rows, self._most, rows)]

    def remove(self, slot: int) -> None:
        self._count_in()
        if slot in self._dead:
            return
        self._dead.add(slot)
        for field, lengths in enumerate(self._lengths):
            self._totals[field] -= lengths[slot]
            self._filled[field] -= lengths[slot] > 0
            lengths[slot] = 0
        self._missing.update(self._rows.keys(slot))

    @property
    def wants_sweep(self) -> bool:
        return len(self._dead) >= _SWEEP_FROM and len(self._dead) > _SWEEP_SHARE * self.slots

    def sweep(self) -> list[int]:
        """Drops dead places and words. Returns the old places of those that stay, in order."""
        self._count_in()
        stay = [slot for slot in range(self.slots) if slot not in self._dead]
        if self._dead:
            self._dead, rows = set(), self._rows.without(self._dead)
            self._missing.clear()
            self._take(list(self._numbered()), rows)
        return stay

    def _take(self, words: Sequence[str], rows: Rows) -> None:
        """These rows instead of what is held. Their keys go by these words, of which those that no
        row uses are dropped; ValueError when rows and words contradict each other."""
        fields = self.fields
        places, keys, counts = rows.between(0, len(rows))
        used = np.unique(keys // np.uint32(fields))
        if len(used) and used[-1] >= len(words):
            raise ValueError("a row names a word that does not exist")
        if len(used) < len(words):
            numbers = np.zeros(len(words), dtype=np.uint32)
            numbers[used] = np.arange(len(used), dtype=np.uint32)
            rows = rows.renamed(numbers[keys // fields] * np.uint32(fields) + keys % fields)
        kept: list[int] = used.tolist()
        self._words = Numbered({words[old]: new for new, old in enumerate(kept)})
        if len(self._words) != len(used):
            raise ValueError("a word stands twice")
        self._rows, self._met = rows, (None, self._met[1][:0])
        self._sorted, self._most, self._unsorted = [], 0, True
        self._lengths = [array("f") for _ in range(fields)]
        self._totals, self._filled = [0.0] * fields, [0] * fields
        self._measure(places, keys % fields, counts, len(rows))

    def keys_of(self, terms: Collection[str]) -> dict[int, str]:
        """The keys of these terms in all fields, for `holds`."""
        self._count_in()
        return {
            number * self.fields + field: term
            for field in range(self.fields)
            for term in terms
            if (number := self._number(term)) is not None
        }

    def holds(self, slot: int, keys: Mapping[int, str]) -> set[str]:
        """Which of the terms with these keys a document holds, in any field."""
        return {keys[key] for key in keys.keys() & self._rows.keys(slot)}

    def holders(self, term: str) -> int:
        """How many documents hold the term, in any field."""
        found = ((field, self.find(term, field)) for field in range(self.fields))
        held = {field: places[0] for field, places in found if places is not None}
        if len(held) > 1:
            holds = np.zeros(self.slots, dtype=bool)
            for places in held.values():
                holds[places] = True
            holds[list(self._dead)] = False
            return int(np.count_nonzero(holds))
        for field, places in held.items():
            number = self._number(term) or 0
            return len(places) - self._missing[number * self.fields + field]
        return 0

    def find(self, term: str, field: int) -> Found | None:
        """Places and counts of a term in a field; dead places may be among them, but not alone."""
        if self._unsorted:  # asked for dozens of times in a search: the common way must be short
            self._sort_in()
        word = self._number(term)
        if word is None:
            return None
        key = word * self.fields + field
        found = [held for part in self._sorted if (held := part.find(key)) is not None]
        if not found or (
            self._missing and sum(len(places) for places, _ in found) == self._missing.get(key)
        ):
            return None
        if len(found) == 1:
            return found[0]
        places, counts = zip(*found, strict=True)
        return np.concatenate(places), np.concatenate(counts)

    def lengths(self, field: int) -> tuple[Floats, float]:
        """Each document's length in a field, and the mean over those that have the field at all."""
        self._count_in()
        mean = self._totals[field] / self._filled[field] if self._filled[field] else 1.0
        return np.array(self._lengths[field], dtype=np.float32), mean

    def to_state(self) -> dict[str, Any]:
        """The index as plain values, so that a process that only asks has nothing to work out. Call
        `sweep` before: no gaps here."""
        self._sort_in()
        if self._most < len(self._rows):
            self._most = len(self._rows)
            self._sorted = [PlacesByKey.of(self._rows, 0, self._most)]
        return {
            "words": Names.state_of([*self._numbered()], sought=True),
            "rows": self._rows.to_state(),
            "sorted": [part.to_state() for part in self._sorted[: bool(self._most)]],
            "lengths": [lengths.tobytes() for lengths in self._lengths],
        }

    @classmethod
    def from_state(cls, fields: int, state: Mapping[str, Any]) -> Postings:
        """What `to_state` described; ValueError when it contradicts itself."""
        index = cls(fields)
        index._rows = rows = Rows.from_state(state["rows"])
        index._kept = words = Names(state["words"])
        index._lengths = [array("f", bytes(lengths)) for lengths in state["lengths"]]
        index._sorted = [PlacesByKey.from_state(part) for part in state["sorted"]]
        index._most = len(rows)
        fit = len(index._sorted) == bool(len(rows)) and len(index._lengths) == fields
        if not fit or any(len(lengths) != len(rows) for lengths in index._lengths):
            raise ValueError("rows and lengths don't fit")
        if any(part.keys > len(words) * fields for part in index._sorted):
            raise ValueError("a row names a word that does not exist")
        for field, lengths in enumerate(index._lengths):
            here = np.frombuffer(lengths, dtype=np.float32)
            index._totals[field] = float(here.sum(dtype=np.float64))
            index._filled[field] = int(np.count_nonzero(here))
        return index
