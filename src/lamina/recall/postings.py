"""The derived index under the ranker: which document holds which term, how often, in which field.

Documents come and go one by one, and every score is the same as if the index had been built anew.
Lives in memory; touches no files.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
    Slots: TypeAlias = NDArray[np.uint32]

# Dead places are swept out when they are a quarter of all, but not for a handful.
_SWEEP_SHARE = 0.25
_SWEEP_FROM = 64
_MOST = 65_535  # a count is kept in two bytes

Held: TypeAlias = "tuple[array[int], array[int]]"  # keys of a document's terms, and their counts


class _Posting:
    """Where one term stands in one field: the places of documents, and how often in each."""

    __slots__ = ("alive", "counts", "slots")

    def __init__(self) -> None:
        self.slots = array("I")
        self.counts = array("H")
        self.alive = 0  # documents that still exist; `slots` may name dead ones


class Postings:
    """Terms of many documents in several fields. A document is a place (slot), numbered from 0.

    A term in a field has a key: the term's number times the number of fields, plus the field's.
    """

    def __init__(self, fields: int) -> None:
        self.fields = fields
        self._numbers: dict[str, int] = {}
        self._holders = array("I")  # by term number: documents that hold it in any field
        self._postings: list[_Posting | None] = []
        self._forward: list[Held | None] = []
        self._lengths = [array("I") for _ in range(fields)]
        self._totals = [0] * fields
        self._filled = [0] * fields
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def slots(self) -> int:
        """Places in use or dead: the length of every array of scores."""
        return len(self._forward)

    def add(self, texts: Sequence[Iterable[str]]) -> int:
        """Takes a document's terms, field by field, and returns its place."""
        keys, counts = array("I"), array("H")
        for field, text in enumerate(texts):
            for term, count in Counter(text).items():
                keys.append(self._number(term) * self.fields + field)
                counts.append(min(count, _MOST))
        return self._place((keys, counts))

    def _number(self, term: str) -> int:
        number = self._numbers.get(term)
        if number is None:
            number = self._numbers[term] = len(self._numbers)
            self._holders.append(0)
            self._postings.extend([None] * self.fields)
        return number

    def _place(self, held: Held) -> int:
        slot = len(self._forward)
        self._forward.append(held)
        for lengths in self._lengths:
            lengths.append(0)
        for key, count in zip(*held, strict=True):
            posting = self._postings[key]
            if posting is None:
                posting = self._postings[key] = _Posting()
            posting.slots.append(slot)
            posting.counts.append(count)
            posting.alive += 1
            self._lengths[key % self.fields][slot] += count
        self._count(slot, held, 1)
        return slot

    def _count(self, slot: int, held: Held, step: int) -> None:
        for number in {key // self.fields for key in held[0]}:
            self._holders[number] += step
        for field, lengths in enumerate(self._lengths):
            self._totals[field] += step * lengths[slot]
            self._filled[field] += step * (lengths[slot] > 0)
        self._size += step

    def remove(self, slot: int) -> None:
        held = self._forward[slot]
        if held is None:
            return
        self._count(slot, held, -1)
        self._forward[slot] = None
        for lengths in self._lengths:
            lengths[slot] = 0
        for key in held[0]:
            posting = self._postings[key]
            if posting is not None:
                posting.alive -= 1
                if not posting.alive:
                    self._postings[key] = None

    @property
    def wants_sweep(self) -> bool:
        dead = self.slots - self._size
        return dead >= _SWEEP_FROM and dead > _SWEEP_SHARE * self.slots

    def sweep(self) -> list[int]:
        """Drops dead places and terms. Returns the old places of those that stay, in order."""
        stay = [slot for slot, held in enumerate(self._forward) if held is not None]
        fresh = Postings(self.fields)
        terms = list(self._numbers)
        for slot in stay:
            keys, counts = self._forward[slot] or (array("I"), array("H"))
            renamed = array("I")
            for key in keys:
                number, field = divmod(key, self.fields)
                renamed.append(fresh._number(terms[number]) * self.fields + field)
            fresh._place((renamed, counts))
        self.__dict__.update(fresh.__dict__)
        return stay

    def holds(self, slot: int, terms: Iterable[str]) -> list[str]:
        """Which of these terms a document holds, in any field."""
        keys = set((self._forward[slot] or ((), ()))[0])
        return [
            term
            for term in terms
            if (number := self._numbers.get(term)) is not None
            and any(number * self.fields + field in keys for field in range(self.fields))
        ]

    def holders(self, term: str) -> int:
        """How many documents hold the term, in any field."""
        number = self._numbers.get(term)
        return 0 if number is None else self._holders[number]

    def find(self, term: str, field: int) -> tuple[Slots, Floats] | None:
        """Places and counts of a term in a field; dead places may be among them."""
        import numpy as np

        number = self._numbers.get(term)
        posting = None if number is None else self._postings[number * self.fields + field]
        if posting is None:
            return None
        # Copies: a view would lock the arrays against the next `add`.
        return (
            np.array(posting.slots, dtype=np.uint32),
            np.array(posting.counts, dtype=np.float32),
        )

    def lengths(self, field: int) -> tuple[Floats, float]:
        """Each document's length in a field, and the mean over those that have the field at all."""
        import numpy as np

        mean = self._totals[field] / self._filled[field] if self._filled[field] else 1.0
        return np.array(self._lengths[field], dtype=np.float32), mean

    def to_rows(self) -> tuple[list[str], list[Held]]:
        """All terms by number, and what each place holds: enough to build the index again."""
        return list(self._numbers), [held or (array("I"), array("H")) for held in self._forward]

    @classmethod
    def from_rows(cls, fields: int, terms: Sequence[str], rows: Iterable[Held]) -> Postings:
        """The index that `to_rows` described; a key that names no term raises ValueError."""
        index = cls(fields)
        for term in terms:
            index._number(term)
        for keys, counts in rows:
            if len(keys) != len(counts) or (keys and max(keys) >= len(index._postings)):
                raise ValueError("a row names a term that does not exist")
            index._place((keys, counts))
        return index
