"""What each document of the index holds, one row after the other in flat arrays: keys of its terms in
the order of first use, and how often each stands there. Lives in memory; touches no files.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection
from typing import TYPE_CHECKING, TypeAlias

from lamina.recall.counting import sorted_by

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
    Slots: TypeAlias = NDArray[np.uint32]


class Rows:
    """Rows by place, only ever added to; who drops some builds them anew."""

    def __init__(self) -> None:
        self._keys = array("I")
        self._counts = array("f")
        self._ends = array("Q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def extend(self, sizes: NDArray[np.intp], keys: Slots, counts: Floats) -> None:
        import numpy as np

        self._keys.frombytes(keys.tobytes())
        self._counts.frombytes(counts.tobytes())
        ends = np.cumsum(sizes, dtype=np.uint64) + np.uint64(self._ends[-1])
        self._ends.frombytes(ends.tobytes())

    def keys(self, place: int) -> array[int]:
        return self._keys[self._ends[place] : self._ends[place + 1]]

    def reach(self, first: int, entries: int) -> int:
        """The place behind as many rows from `first` on as hold so many entries; at least one."""
        return max(first + 1, bisect_right(self._ends, self._ends[first] + entries) - 1)

    def between(self, first: int, last: int) -> tuple[Slots, Slots, Floats]:
        """Places, keys and counts of all entries from one place to before another."""
        import numpy as np

        ends = np.array(self._ends[first : last + 1], dtype=np.int64)
        start, end = int(ends[0]), int(ends[-1])
        places = np.repeat(np.arange(first, last, dtype=np.uint32), np.diff(ends))
        keys = np.array(memoryview(self._keys)[start:end], dtype=np.uint32)
        return places, keys, np.array(memoryview(self._counts)[start:end], dtype=np.float32)

    def without(self, gone: Collection[int]) -> Rows:
        """All but the rows at these places."""
        import numpy as np

        places, keys, counts = self.between(0, len(self))
        stays = np.ones(len(self), dtype=bool)
        stays[list(gone)] = False
        sizes = np.diff(np.array(self._ends, dtype=np.int64))[stays]
        here = stays[places]
        left = Rows()
        left.extend(sizes, keys[here], counts[here])
        return left

    def renamed(self, keys: Slots) -> Rows:
        """The same rows with other keys, given one after the other."""
        other = Rows()
        other._ends, other._counts = self._ends, self._counts
        other._keys.frombytes(keys.tobytes())
        return other

    def to_state(self) -> dict[str, bytes]:
        return {
            "ends": self._ends.tobytes(),
            "keys": self._keys.tobytes(),
            "counts": self._counts.tobytes(),
        }

    @classmethod
    def from_state(cls, state: dict[str, bytes]) -> Rows:
        """What `to_state` described; ValueError when it contradicts itself."""
        import numpy as np

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


class Sorted:
    """Where each key stands, for the rows from one place to before another."""

    def __init__(self, rows: Rows, first: int, last: int) -> None:
        import numpy as np

        places, keys, counts = rows.between(first, last)
        _, order = sorted_by(keys)
        self._places, self._counts = places[order], counts[order]
        self._ends = array("Q")  # by key: where its places end
        self._ends.frombytes(np.cumsum(np.bincount(keys), dtype=np.uint64).tobytes())

    def find(self, key: int) -> tuple[Slots, Floats] | None:
        """Places and counts of a key."""
        if key >= len(self._ends):
            return None
        start, end = self._ends[key - 1] if key else 0, self._ends[key]
        return (self._places[start:end], self._counts[start:end]) if end > start else None
