"""The derived index under the ranker: which document holds which term, how often, in which field.

Documents come and go one by one, and every score is the same as if the index had been built anew.
Lives in memory; touches no files.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
    Slots: TypeAlias = NDArray[np.uint32]

# Dead places are swept out when they are a quarter of all, but not for a handful.
_SWEEP_SHARE = 0.25
_SWEEP_FROM = 64

Held: TypeAlias = "tuple[array[int], array[float]]"  # keys of a document's terms, their counts


class _Posting:
    """Where one term stands in one field: the places of documents, and how often in each."""

    __slots__ = ("alive", "counts", "slots")

    def __init__(self, slots: Slots, counts: Floats) -> None:
        self.slots = slots
        self.counts = counts
        self.alive = len(slots)  # documents that still exist; `slots` may name dead ones

    def extend(self, slots: Slots, counts: Floats) -> None:
        import numpy as np

        self.slots = np.concatenate((self.slots, slots))
        self.counts = np.concatenate((self.counts, counts))
        self.alive += len(slots)


class _Keys(dict[str, int]):
    """The keys of one field's terms. Keys are given out in order, over all fields together."""

    def __init__(self, field: int, fields: bytearray) -> None:
        self._field = field
        self._fields = fields  # by key; shared

    def __missing__(self, term: str) -> int:
        return self.take(term)

    def take(self, term: str) -> int:
        """The next key, for a new term."""
        key = self[term] = len(self._fields)
        self._fields.append(self._field)
        return key


class Postings:
    """Terms of many documents in several fields. A document is a place (slot), numbered from 0; a
    term in a field has a key, numbered from 0 too."""

    def __init__(self, fields: int) -> None:
        self.fields = fields
        self._field_of = bytearray()
        self._keys: list[_Keys] = [_Keys(field, self._field_of) for field in range(fields)]
        self._postings: list[_Posting | None] = []
        self._forward: list[Held | None] = []
        self._lengths = [array("f") for _ in range(fields)]
        self._totals = [0.0] * fields
        self._filled = [0] * fields
        self._size = 0
        self._living: NDArray[np.bool_] | None = None
        self._sorted = 0  # places below this are in the postings; the rest waits for a search

    def __len__(self) -> int:
        return self._size

    @property
    def slots(self) -> int:
        """Places in use or dead: the length of every array of scores."""
        return len(self._forward)

    def add(self, texts: Sequence[Mapping[str, float]]) -> int:
        """Takes the counts of a document's terms, field by field, and returns its place."""
        keys, counts = array("I"), array("f")
        for known, text in zip(self._keys, texts, strict=True):
            keys.extend(map(known.__getitem__, text))
            counts.extend(text.values())
        return self._place((keys, counts))

    def _place(self, held: Held) -> int:
        self._forward.append(held)
        self._size += 1
        return len(self._forward) - 1

    def _sort_in(self) -> None:
        """Brings what was added since the last search into the postings, all at once."""
        import numpy as np

        first, slots = self._sorted, len(self._forward)
        if first == slots:
            return
        self._sorted = slots
        new = len(self._field_of) - len(self._postings)
        self._postings.extend([None] * new)
        held = [row or (array("I"), array("f")) for row in self._forward[first:]]
        keys = np.frombuffer(b"".join(row[0].tobytes() for row in held), dtype=np.uint32)
        counts = np.frombuffer(b"".join(row[1].tobytes() for row in held), dtype=np.float32)
        places = np.repeat(np.arange(first, slots, dtype=np.uint32), [len(row[0]) for row in held])
        self._measure(keys, counts, places, first)
        if not len(keys):
            return
        order = np.argsort(keys, kind="stable")
        keys, places = keys[order], places[order]
        amounts = counts[order]
        starts = np.flatnonzero(np.diff(keys, prepend=np.uint32(0xFFFFFFFF)))
        edges: list[int] = [*starts.tolist(), len(keys)]
        found: list[int] = keys[starts].tolist()
        for key, start, end in zip(found, edges, edges[1:], strict=False):
            posting = self._postings[key]
            # Copies: a view would keep the whole batch alive.
            slots, times = places[start:end].copy(), amounts[start:end].copy()
            if posting is None:
                self._postings[key] = _Posting(slots, times)
            else:
                posting.extend(slots, times)

    def _measure(self, keys: Slots, counts: Floats, places: Slots, first: int) -> None:
        """Counts the lengths of documents for places from `first` on."""
        import numpy as np

        new = len(self._forward) - first
        fields = np.frombuffer(bytes(self._field_of), dtype=np.uint8)[keys]
        for field, lengths in enumerate(self._lengths):
            here = fields == field
            fresh = np.bincount(places[here] - first, weights=counts[here], minlength=new)
            lengths.frombytes(fresh.astype(np.float32).tobytes())
            self._totals[field] += float(fresh.sum())
            self._filled[field] += int(np.count_nonzero(fresh))

    def remove(self, slot: int) -> None:
        self._sort_in()
        held = self._forward[slot]
        if held is None:
            return
        self._forward[slot] = None
        self._living = None
        self._size -= 1
        for field, lengths in enumerate(self._lengths):
            self._totals[field] -= lengths[slot]
            self._filled[field] -= lengths[slot] > 0
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
        terms = self._terms()
        for slot in stay:
            keys, counts = self._forward[slot] or (array("I"), array("f"))
            renamed = [fresh._keys[self._field_of[key]][terms[key]] for key in keys]
            fresh._place((array("I", renamed), counts))
        self.__dict__.update(fresh.__dict__)
        return stay

    def _terms(self) -> list[str]:
        """All terms, by key."""
        found = [""] * len(self._field_of)
        for known in self._keys:
            for term, key in known.items():
                found[key] = term
        return found

    def keys_of(self, terms: Collection[str]) -> dict[int, str]:
        """The keys of these terms in all fields, for `holds`."""
        return {known[term]: term for known in self._keys for term in terms if term in known}

    def holds(self, slot: int, keys: Mapping[int, str]) -> set[str]:
        """Which of the terms with these keys a document holds, in any field."""
        held = self._forward[slot]
        return {keys[key] for key in keys.keys() & held[0]} if held else set()

    def holders(self, term: str) -> int:
        """How many documents hold the term, in any field."""
        import numpy as np

        self._sort_in()
        found = [self._postings[known[term]] for known in self._keys if term in known]
        postings = [posting for posting in found if posting is not None]
        if len(postings) < 2:
            return postings[0].alive if postings else 0
        holds = np.zeros(len(self._forward), dtype=bool)
        for posting in postings:
            holds[posting.slots] = True
        return int(np.count_nonzero(holds & self._alive()))

    def _alive(self) -> NDArray[np.bool_]:
        import numpy as np

        if self._living is None or len(self._living) != len(self._forward):
            self._living = np.array([held is not None for held in self._forward], dtype=bool)
        return self._living

    def find(self, term: str, field: int) -> tuple[Slots, Floats] | None:
        """Places and counts of a term in a field; dead places may be among them."""
        self._sort_in()
        key = self._keys[field].get(term)
        posting = None if key is None else self._postings[key]
        return None if posting is None else (posting.slots, posting.counts)

    def lengths(self, field: int) -> tuple[Floats, float]:
        """Each document's length in a field, and the mean over those that have the field at all."""
        import numpy as np

        self._sort_in()
        mean = self._totals[field] / self._filled[field] if self._filled[field] else 1.0
        return np.array(self._lengths[field], dtype=np.float32), mean

    def to_state(self) -> dict[str, Any]:
        """Enough to build the index again, as plain values. Call `sweep` before: no gaps here."""
        rows = [held or (array("I"), array("f")) for held in self._forward]
        return {
            "terms": self._terms(),
            "fields": bytes(self._field_of),
            "sizes": array("I", [len(keys) for keys, _ in rows]).tobytes(),
            "keys": b"".join(keys.tobytes() for keys, _ in rows),
            "counts": b"".join(counts.tobytes() for _, counts in rows),
        }

    @classmethod
    def from_state(cls, fields: int, state: Mapping[str, Any]) -> Postings:
        """What `to_state` described; ValueError when it contradicts itself."""
        index = cls(fields)
        rows: list[tuple[str, int]] = list(zip(state["terms"], state["fields"], strict=True))
        for term, field in rows:
            if field >= fields or term in index._keys[field]:
                raise ValueError("a term stands where it can't")
            index._keys[field].take(term)
        sizes, keys, counts = array("I"), array("I"), array("f")
        sizes.frombytes(state["sizes"])
        keys.frombytes(state["keys"])
        counts.frombytes(state["counts"])
        if not sum(sizes) == len(keys) == len(counts):
            raise ValueError("the rows don't add up")
        if keys and max(keys) >= len(index._field_of):
            raise ValueError("a row names a term that does not exist")
        first = 0
        for size in sizes:
            index._place((keys[first : first + size], counts[first : first + size]))
            first += size
        return index
