"""The derived index under every search: which document holds which term, how often, in which field;
and how an index is kept in a file. Documents come and go one by one, and every score is the same as
if it had been built anew. What comes in waits and is worked out all at once when somebody asks.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import msgspec
import numpy as np

from lamina.errors import StorageError
from lamina.ledger.places import make_private, open_private
from lamina.local.embedder import Meanings, has_sentence_model, sentence_model
from lamina.recall.term_counts import Backlog, Floats, Numbers, Places, Runs, lexicon, order_of

Found: TypeAlias = tuple[Numbers, Floats]  # places, and how often each holds it

# Dead places are swept out when they are a quarter of all, but not for a handful.
_SWEEP_SHARE = 0.25
_SWEEP_FROM = 64
_MOST_WAITING = 100_000  # runs; more are counted at once, so that no crowd of numbers piles up
# New rows are sorted apart from the rest until they are this many and this share of it.
_APART = 64
_APART_SHARE = 1 / 16


class Rows:
    """What each document holds, one after the other in flat arrays: keys of its terms in the order
    of first use, and how often each stands there. Only ever added to; who drops some builds them
    anew."""

    def __init__(self) -> None:
        self._keys = array("I")
        self._counts = array("f")
        self._ends = array("Q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def extend(self, sizes: Places, keys: Numbers, counts: Floats) -> None:
        self._keys.frombytes(keys.tobytes())
        self._counts.frombytes(counts.tobytes())
        ends = np.cumsum(sizes, dtype=np.uint64) + np.uint64(self._ends[-1])
        self._ends.frombytes(ends.tobytes())

    def keys(self, place: int) -> array[int]:
        return self._keys[self._ends[place] : self._ends[place + 1]]

    @property
    def highest(self) -> int:
        """The largest key; -1 if there is none."""
        return int(np.frombuffer(self._keys, dtype=np.uint32).max()) if self._keys else -1

    def reach(self, first: int, entries: int) -> int:
        """The place behind as many rows from `first` on as hold so many entries; at least one."""
        return max(first + 1, bisect_right(self._ends, self._ends[first] + entries) - 1)

    def between(self, first: int, last: int) -> tuple[Numbers, Numbers, Floats]:
        """Places, keys and counts of all entries from one place to before another."""
        ends = np.array(self._ends[first : last + 1], dtype=np.int64)
        start, end = int(ends[0]), int(ends[-1])
        places = np.repeat(np.arange(first, last, dtype=np.uint32), np.diff(ends))
        keys = np.array(memoryview(self._keys)[start:end], dtype=np.uint32)
        return places, keys, np.array(memoryview(self._counts)[start:end], dtype=np.float32)

    def without(self, gone: Collection[int]) -> Rows:
        """All but the rows at these places."""
        places, keys, counts = self.between(0, len(self))
        stays = np.ones(len(self), dtype=bool)
        stays[list(gone)] = False
        sizes = np.diff(np.array(self._ends, dtype=np.int64))[stays]
        here = stays[places]
        left = Rows()
        left.extend(sizes, keys[here], counts[here])
        return left

    def renamed(self, keys: Numbers) -> Rows:
        """The same rows with other keys, given one after the other."""
        other = Rows()
        other._ends, other._counts = self._ends, self._counts
        other._keys.frombytes(keys.tobytes())
        return other

    def to_state(self) -> dict[str, memoryview]:
        arrays = {"ends": self._ends, "keys": self._keys, "counts": self._counts}
        return {name: memoryview(values).cast("B") for name, values in arrays.items()}

    @classmethod
    def from_state(cls, state: dict[str, bytes]) -> Rows:
        """What `to_state` described; ValueError when it contradicts itself."""
        rows = cls()
        rows._ends = array("Q")
        rows._ends.frombytes(state["ends"])
        rows._keys.frombytes(state["keys"])
        rows._counts.frombytes(state["counts"])
        ends = np.array(rows._ends, dtype=np.int64)
        if not len(ends) or ends[0] != 0 or (np.diff(ends) < 0).any():
            raise ValueError("the rows are out of order")
        if not ends[-1] == len(rows._keys) == len(rows._counts):
            raise ValueError("the rows don't add up")
        return rows


class PlacesByKey:
    """Where each key stands, for the rows from one place to before another."""

    def __init__(self, places: Numbers, counts: Floats, ends: array[int]) -> None:
        self._places, self._counts = places, counts
        self._ends = ends  # by key: where its places end

    @classmethod
    def of(cls, rows: Rows, first: int, last: int) -> PlacesByKey:
        places, keys, counts = rows.between(first, last)
        ends = array("Q")
        ends.frombytes(np.cumsum(np.bincount(keys), dtype=np.uint64).tobytes())
        order = order_of(keys)
        return cls(places[order], counts[order], ends)

    def to_state(self) -> dict[str, memoryview]:
        arrays = {"places": self._places.data, "counts": self._counts.data, "ends": self._ends}
        return {name: memoryview(values).cast("B") for name, values in arrays.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, bytes]) -> PlacesByKey:
        """What `to_state` described; ValueError when it contradicts itself."""
        ends = array("Q")
        ends.frombytes(state["ends"])
        places = np.frombuffer(state["places"], dtype=np.uint32)
        counts = np.frombuffer(state["counts"], dtype=np.float32)
        if not len(places) == len(counts) == (ends[-1] if ends else 0):
            raise ValueError("the places don't add up")
        return cls(places, counts, ends)

    def find(self, key: int) -> Found | None:
        if key >= len(self._ends):
            return None
        start, end = self._ends[key - 1] if key else 0, self._ends[key]
        return (self._places[start:end], self._counts[start:end]) if end > start else None


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
        self._waiting = Backlog(lexicon(), fields)
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
    def words(self) -> Collection[str]:
        """All words, by their number."""
        self._count_in()
        return self._words.keys()

    def rows(self) -> Rows:
        """What each document holds."""
        self._count_in()
        return self._rows

    def add(self, texts: Sequence[Runs]) -> int:
        """Takes a document's runs, field by field, and returns its place."""
        numbers = lexicon()
        if numbers is not self._waiting.lexicon or len(self._waiting.runs) > _MOST_WAITING:
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
        number, known = self._words.__getitem__, waiting.lexicon.terms
        met = np.flatnonzero(np.bincount(terms))
        words = np.zeros(len(known), dtype=np.uint32)
        words[met] = [number(known[term]) for term in met.tolist()]
        self._rows.extend(sizes, words[terms] * np.uint32(self.fields) + fields, amounts)
        places = np.repeat(np.arange(waiting.documents, dtype=np.uint32), sizes)
        self._measure(places, fields, amounts, waiting.documents)

    def _measure(self, places: Numbers, fields: Numbers, counts: Floats, documents: int) -> None:
        """Counts the lengths of so many new documents."""
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
            self._take(list(self._words), rows)
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
        self._words = _Words({words[old]: new for new, old in enumerate(kept)})
        if len(self._words) != len(used):
            raise ValueError("a word stands twice")
        self._rows = rows
        self._sorted, self._most, self._unsorted = [], 0, True
        self._lengths = [array("f") for _ in range(fields)]
        self._totals, self._filled = [0.0] * fields, [0] * fields
        self._measure(places, keys % fields, counts, len(rows))

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
            holds = np.zeros(self.slots, dtype=bool)
            for places in held.values():
                holds[places] = True
            holds[list(self._dead)] = False
            return int(np.count_nonzero(holds))
        for field, places in held.items():
            return len(places) - self._missing[self._words[term] * self.fields + field]
        return 0

    def find(self, term: str, field: int) -> Found | None:
        """Places and counts of a term in a field; dead places may be among them, but not alone."""
        if self._unsorted:  # asked for dozens of times in a search: the common way must be short
            self._sort_in()
        word = self._words.get(term)
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
            "words": list(self._words),
            "rows": self._rows.to_state(),
            "sorted": [part.to_state() for part in self._sorted[: bool(self._most)]],
            "lengths": [lengths.tobytes() for lengths in self._lengths],
        }

    @classmethod
    def from_state(cls, fields: int, state: Mapping[str, Any]) -> Postings:
        """What `to_state` described; ValueError when it contradicts itself."""
        index = cls(fields)
        index._rows = rows = Rows.from_state(state["rows"])
        index._words = _Words(zip(state["words"], count(), strict=False))
        index._lengths = [array("f", lengths) for lengths in state["lengths"]]
        index._sorted = [PlacesByKey.from_state(part) for part in state["sorted"]]
        index._most = len(rows)
        if len(index._words) < len(state["words"]):
            raise ValueError("a word stands twice")
        fit = len(index._sorted) == bool(len(rows)) and len(index._lengths) == fields
        if not fit or any(len(lengths) != len(rows) for lengths in index._lengths):
            raise ValueError("rows and lengths don't fit")
        if rows.highest >= len(index._words) * fields:
            raise ValueError("a row names a word that does not exist")
        for field, lengths in enumerate(index._lengths):
            here = np.frombuffer(lengths, dtype=np.float32)
            index._totals[field] = float(here.sum(dtype=np.float64))
            index._filled[field] = int(np.count_nonzero(here))
        return index


# ---- an index in a file

_VERSION = 6  # raised whenever terms, fields or vectors change their meaning
_ABANDONED = 3_600.0  # seconds after which nobody is writing any more
_MAGIC = b"lamina-recall-index\n"


class Savable(Protocol):
    def to_state(self) -> dict[str, Any]: ...
    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self: ...


_Index = TypeVar("_Index", bound=Savable)


def save(index: Savable, path: Path) -> None:
    """Writes the index beside its old self and swaps them; the old one stays whole till then. What
    killed processes left half written of it is removed first."""
    body = msgspec.msgpack.encode({"version": _VERSION, "state": index.to_state()})
    fresh = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident():x}.tmp")
    try:
        make_private(path.parent)
        for left in path.parent.glob(f"{path.name}.*.tmp"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > _ABANDONED:
                    left.unlink()
        # What was said and remembered can be read from it: it is the owner's alone.
        with open(fresh, "wb", opener=open_private) as file:
            file.write(_MAGIC + zlib.crc32(body).to_bytes(4, "big"))
            file.write(body)
        fresh.replace(path)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise StorageError(
            f"The search index {path} could not be written ({error.strerror}); "
            "free space or make the folder writable, or delete the index."
        ) from error


def load(kind: type[_Index], path: Path) -> _Index | None:
    """The index in the file; None when there is none, or one that is torn, foreign or of another
    version: then it is built again from what it was derived from."""
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + 4
    body = memoryview(whole)[start:]  # an index of many sessions is large: no second copy of it
    if whole[:start] != _MAGIC + zlib.crc32(body).to_bytes(4, "big"):
        return None
    try:
        saved = msgspec.msgpack.decode(body)
        del whole, body
        return kind.from_state(saved["state"]) if saved["version"] == _VERSION else None
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, IndexError):
        return None


# ---- meanings in a file

_ENCODED_AT_ONCE = 32  # documents; a search that waits sees that many more
_SAVED_EVERY = 10.0  # seconds of encoding that a killed process may lose


class MeaningFile:
    """Keeps what documents mean in a file of their own, which may be deleted, and encodes what is
    new in a thread. `read` gives a document's text, or None where it is no more."""

    def __init__(self, path: Path, read: Callable[[str], str | None]) -> None:
        self._path = path
        self._read = read
        self._meanings: Meanings | None = None
        self._worker: threading.Thread | None = None
        self._asked = False
        self._changed: set[str] = set()  # since the thread began, which may have read them before

    @property
    def loaded(self) -> bool:
        """Would `of` take no time, but for what it waits for?"""
        return not has_sentence_model() or self._asked

    def of(
        self,
        ids: Sequence[str],
        *,
        seconds: float,
        progress: Callable[[int, int], None] | None = None,
    ) -> Meanings | None:
        """What is known of these documents, the only ones, after at most so long for what is new;
        None without a model of sentences. `progress` is told how many are encoded, of how many."""
        model, self._asked = sentence_model(), True
        if model is None:
            return None
        meanings = self._known()
        if meanings is None:
            meanings = self._meanings = Meanings()
        meanings.model = model
        until = time.monotonic() + seconds
        waiting = [id_ for id_ in ids if id_ not in meanings]
        if waiting and (self._worker is None or not self._worker.is_alive()):
            self._changed.clear()
            given = meanings, waiting, frozenset(ids)
            self._worker = threading.Thread(target=self._encode, args=given, daemon=True)
            self._worker.start()
        while waiting:
            left = until - time.monotonic()
            if self._worker is not None and left > 0:
                self._worker.join(min(left, 0.1))
            if progress is not None:
                progress(sum(id_ in meanings for id_ in waiting), len(waiting))
            if left <= 0 or self._worker is None or not self._worker.is_alive():
                break
        return meanings

    def forget(self, ids: Collection[str]) -> None:
        """Documents that are gone, or have another text now."""
        self._changed.update(ids)
        meanings = self._known()
        if meanings is not None and meanings.forget(ids):
            with suppress(StorageError):
                save(meanings, self._path)

    def keep(self, ids: Collection[str]) -> None:
        """Leaves nothing of other documents, in the file either."""
        meanings = self._known()
        if meanings is not None and meanings.keep(ids):
            save(meanings, self._path)

    def _known(self) -> Meanings | None:
        if self._meanings is None:
            self._meanings = load(Meanings, self._path)
        return self._meanings

    def _encode(self, meanings: Meanings, waiting: list[str], ids: Collection[str]) -> None:
        saved = time.monotonic()
        with suppress(StorageError):  # the next process encodes it again
            for first in range(0, len(waiting), _ENCODED_AT_ONCE):
                some = waiting[first : first + _ENCODED_AT_ONCE]
                meanings.add({id_: self._read(id_) or "" for id_ in some})
                meanings.forget([id_ for id_ in some if id_ in self._changed])
                if time.monotonic() - saved > _SAVED_EVERY:
                    save(meanings, self._path)
                    saved = time.monotonic()
            meanings.keep(ids)
            save(meanings, self._path)
