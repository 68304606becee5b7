"""The derived index under the ranker: which document holds which term, how often, in which field.

Documents come and go one by one, and every score is the same as if the index had been built anew.
What comes in waits and is worked out all at once when somebody asks. Lives in memory; touches no
files.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lamina.recall.counting import Runs, Waiting
from lamina.recall.lexicon import lexicon
from lamina.recall.rows import Rows, Sorted

if TYPE_CHECKING:
    from lamina.recall.rows import Floats, Slots

# Dead places are swept out when they are a quarter of all, but not for a handful.
_SWEEP_SHARE = 0.25
_SWEEP_FROM = 64
_MOST_WAITING = 100_000  # runs; more are counted at once, so that no crowd of numbers piles up
# New rows are sorted apart from the rest until they are this many and this share of it.
_APART = 64
_APART_SHARE = 1 / 16


class _Words(dict[str, int]):
    """The numbers of words, given out in order."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


class Postings:
    """Terms of many documents in several fields. A document is a place (slot), numbered from 0; a
    word in a field has a key: the word's number times the number of fields, plus the field."""

    def __init__(self, fields: int) -> None:
        self.fields = fields
        self._words = _Words()
        self._rows = Rows()
        self._waiting = Waiting(lexicon(), fields)
        self._dead: set[int] = set()  # places
        self._missing: Counter[int] = Counter()  # by key: dead places that hold it
        self._lengths = [array("f") for _ in range(fields)]
        self._totals = [0.0] * fields
        self._filled = [0] * fields
        self._sorted: list[Sorted] = []  # the most of the rows, and those that came since
        self._most = 0  # rows in the first of them
        self._unsorted = False  # did any come since?

    def __len__(self) -> int:
        return self.slots - len(self._dead)

    @property
    def slots(self) -> int:
        """Places in use or dead: the length of every array of scores."""
        return len(self._rows) + self._waiting.documents

    @property
    def words(self) -> Collection[str]:
        """All words, by their number."""
        self._count_in()
        return self._words.keys()

    def add(self, texts: Sequence[Runs]) -> int:
        """Takes a document's runs, field by field, and returns its place."""
        numbers = lexicon()
        if numbers is not self._waiting.lexicon or self._waiting.runs > _MOST_WAITING:
            self._count_in()
            self._waiting = Waiting(numbers, self.fields)
        self._waiting.add(texts)
        self._unsorted = True
        return self.slots - 1

    def rows(self) -> Rows:
        """What each document holds."""
        self._count_in()
        return self._rows

    def _count_in(self) -> None:
        """Makes rows of what was added since the last time, all at once."""
        import numpy as np

        waiting = self._waiting
        if not waiting.documents:
            return
        self._waiting = Waiting(waiting.lexicon, self.fields)
        found = waiting.count()
        number = self._words.__getitem__
        known = waiting.lexicon.terms
        met = np.flatnonzero(np.bincount(found.terms))
        words = np.zeros(len(known), dtype=np.uint32)
        words[met] = [number(known[term]) for term in met.tolist()]
        keys = words[found.terms] * np.uint32(self.fields) + found.fields
        self._rows.extend(found.sizes, keys, found.amounts)
        places = np.repeat(np.arange(waiting.documents, dtype=np.uint32), found.sizes)
        self._measure(places, found.fields, found.amounts, waiting.documents)

    def _measure(self, places: Slots, fields: Slots, counts: Floats, documents: int) -> None:
        """Counts the lengths of so many new documents."""
        import numpy as np

        for field, lengths in enumerate(self._lengths):
            here = fields == field
            fresh = np.bincount(places[here], counts[here], documents)
            lengths.frombytes(fresh.astype(np.float32).tobytes())
            self._totals[field] += float(fresh.sum())
            self._filled[field] += int(np.count_nonzero(fresh))

    def _sort_in(self) -> None:
        """Brings what was added since the last search into the postings."""
        self._count_in()
        rows = len(self._rows)
        self._unsorted = False
        if rows - self._most > max(_APART, self._most * _APART_SHARE):
            self._sorted, self._most = [Sorted(self._rows, 0, rows)], rows
        else:
            most = self._sorted[:1] if self._most else []
            self._sorted = [*most, Sorted(self._rows, self._most, rows)]

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
        if not self._dead:
            return stay
        words = list(self._words)
        fresh = Postings.from_rows(self.fields, words, self._rows.without(self._dead))
        self.__dict__.update(fresh.__dict__)
        return stay

    @classmethod
    def from_rows(cls, fields: int, words: Sequence[str], rows: Rows) -> Postings:
        """An index of these rows, whose keys go by these words; those that none uses are dropped."""
        import numpy as np

        places, keys, counts = rows.between(0, len(rows))
        used = np.unique(keys // np.uint32(fields))
        if len(used) and used[-1] >= len(words):
            raise ValueError("a row names a word that does not exist")
        if len(used) < len(words):
            numbers = np.zeros(len(words), dtype=np.uint32)
            numbers[used] = np.arange(len(used), dtype=np.uint32)
            rows = rows.renamed(numbers[keys // fields] * np.uint32(fields) + keys % fields)
        index = cls(fields)
        old: list[int] = used.tolist()
        index._words.update({words[number]: place for place, number in enumerate(old)})
        if len(index._words) != len(used):
            raise ValueError("a word stands twice")
        index._rows, index._unsorted = rows, True
        index._measure(places, keys % fields, counts, len(rows))
        return index

    def keys_of(self, terms: Collection[str]) -> dict[int, str]:
        """The keys of these terms in all fields, for `holds`."""
        self._count_in()
        return {
            self._words[term] * self.fields + field: term
            for field in range(self.fields)
            for term in terms
            if term in self._words
        }

    def holds(self, slot: int, keys: Mapping[int, str]) -> set[str]:
        """Which of the terms with these keys a document holds, in any field."""
        return {keys[key] for key in keys.keys() & self._rows.keys(slot)}

    def holders(self, term: str) -> int:
        """How many documents hold the term, in any field."""
        found = ((field, self.find(term, field)) for field in range(self.fields))
        held = {field: places[0] for field, places in found if places is not None}
        if len(held) > 1:
            return self._different(held.values())
        for field, places in held.items():
            return len(places) - self._missing[self._words[term] * self.fields + field]
        return 0

    def _different(self, held: Iterable[Slots]) -> int:
        """How many living places these are together."""
        import numpy as np

        holds = np.zeros(self.slots, dtype=bool)
        for places in held:
            holds[places] = True
        holds[list(self._dead)] = False
        return int(np.count_nonzero(holds))

    def find(self, term: str, field: int) -> tuple[Slots, Floats] | None:
        """Places and counts of a term in a field; dead places may be among them, but not alone."""
        if self._unsorted:  # asked for dozens of times in a search: the common way must be short
            self._sort_in()
        word = self._words.get(term)
        if word is None:
            return None
        key = word * self.fields + field
        found = self._sorted[0].find(key)
        if len(self._sorted) > 1:
            found = _joined(found, self._sorted[1].find(key))
        if self._missing and found is not None and len(found[0]) == self._missing.get(key):
            return None
        return found

    def lengths(self, field: int) -> tuple[Floats, float]:
        """Each document's length in a field, and the mean over those that have the field at all."""
        import numpy as np

        self._count_in()
        mean = self._totals[field] / self._filled[field] if self._filled[field] else 1.0
        return np.array(self._lengths[field], dtype=np.float32), mean

    def to_state(self) -> dict[str, Any]:
        """Enough to build the index again, as plain values. Call `sweep` before: no gaps here."""
        self._count_in()
        return {"words": list(self._words), "rows": self._rows.to_state()}

    @classmethod
    def from_state(cls, fields: int, state: Mapping[str, Any]) -> Postings:
        """What `to_state` described; ValueError when it contradicts itself."""
        return cls.from_rows(fields, list(state["words"]), Rows.from_state(state["rows"]))


def _joined(
    one: tuple[Slots, Floats] | None, other: tuple[Slots, Floats] | None
) -> tuple[Slots, Floats] | None:
    import numpy as np

    if one is None or other is None:
        return one or other
    return np.concatenate((one[0], other[0])), np.concatenate((one[1], other[1]))
