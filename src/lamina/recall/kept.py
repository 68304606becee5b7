"""Long rows of an index that lie in a file: numbers and texts that are read where somebody asks for
them, and checked as they are read, so that a process that asks once reads a small part of what is
there. Touches no file but the one that it is given, which it never writes.
"""

from __future__ import annotations

import os
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, cast, overload
from weakref import finalize

import numpy as np

from lamina.recall import IndexTorn

BLOCK = 1 << 14  # bytes that have a sum of their own
_MOST_SOUGHT = 4_096  # texts whose place is remembered
_TEXTS = "utf-8", "surrogatepass"


class Apart:
    """A long row of bytes: it is written behind the rest and used where it lies, and no copy of a
    large index is made for either."""

    def __init__(self, rows: Any) -> None:
        whole = memoryview(rows)
        self._rows = whole.cast("B") if whole.nbytes else memoryview(b"")

    @property
    def size(self) -> int:
        return len(self._rows)

    def read(self, first: int = 0, last: int | None = None) -> memoryview:
        return self._rows[first : self.size if last is None else last]

    def part(self, first: int, last: int) -> Apart:
        """A row within this one; ValueError if it is cut off."""
        if last > self.size:
            raise ValueError("a row is cut off")
        return self._part(first, last)

    def _part(self, first: int, last: int) -> Apart:
        return Apart(self._rows[first:last])


class Blocks:
    """A file from one place on, with the sum of each block. It stays open: when it is replaced, this
    one still reads what it began with."""

    def __init__(self, descriptor: int, start: int, sums: Sequence[int]) -> None:
        self._descriptor = descriptor
        self._start = start
        self._sums = sums
        self._known: dict[int, bytes] = {}
        finalize(self, os.close, descriptor)

    def read(self, first: int, last: int) -> memoryview:
        """These bytes; IndexTorn if their blocks are not as they were written."""
        if first >= last:
            return memoryview(b"")
        block, end = first // BLOCK, (last - 1) // BLOCK + 1
        found = self._known.get(block) if end == block + 1 else None
        if found is None:
            found = self._checked(block, end)
            if end == block + 1:
                self._known[block] = found
        start = block * BLOCK
        if len(found) < last - start:
            raise IndexTorn
        return memoryview(found)[first - start : last - start]

    def _checked(self, block: int, end: int) -> bytes:
        try:
            where = self._start + block * BLOCK
            found = os.pread(self._descriptor, (end - block) * BLOCK, where)
        except OSError as error:
            raise IndexTorn from error
        if sums_of([found]) != array("I", self._sums[block:end]):
            raise IndexTorn
        return found


def sums_of(parts: Sequence[bytes | memoryview]) -> array[int]:
    """The sum of each block of these parts, one behind the other."""
    sums, sum_, room = array("I"), 0, BLOCK
    for part in parts:
        rows, at = memoryview(part), 0
        while at < len(rows):
            piece = rows[at : at + room]
            sum_, room, at = zlib.crc32(piece, sum_), room - len(piece), at + len(piece)
            if not room:
                sums.append(sum_)
                sum_, room = 0, BLOCK
    if room < BLOCK:
        sums.append(sum_)
    return sums


class InFile(Apart):
    """The same, in a file."""

    def __init__(self, blocks: Blocks, first: int, size: int) -> None:
        self._blocks = blocks
        self._first = first
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    def read(self, first: int = 0, last: int | None = None) -> memoryview:
        end = self._size if last is None else min(last, self._size)
        return self._blocks.read(self._first + first, self._first + end)

    def _part(self, first: int, last: int) -> Apart:
        return InFile(self._blocks, self._first + first, last - first)


class Column:
    """Numbers of one kind, by their place."""

    def __init__(self, rows: Apart | bytes, kind: str) -> None:
        self.rows = rows if isinstance(rows, Apart) else Apart(rows)
        self._type = np.dtype(kind)
        if self.rows.size % self._type.itemsize:
            raise ValueError("the numbers don't fit")

    def __len__(self) -> int:
        return self.rows.size // self._type.itemsize

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Any: ...
    def __getitem__(self, at: int | slice) -> Any:
        if not isinstance(at, slice):
            return int(self[at : at + 1][0])
        first, last, _ = at.indices(len(self))
        size = self._type.itemsize
        return np.frombuffer(self.rows.read(first * size, last * size), dtype=self._type)


def apart(values: Any) -> Apart:
    """Numbers as they are written, wherever they lie."""
    return values.rows if isinstance(values, Column) else Apart(values)


class Names(Sequence[str]):
    """Texts by their place, and the place of a text, without a look at the others."""

    def __init__(self, state: Mapping[str, Apart]) -> None:
        self._text = state["text"]
        self._ends = Column(state["ends"], "u4")
        self._sums = Column(state.get("sums", b""), "u4")
        self._order = Column(state.get("order", b""), "u4")
        self._sought: dict[str, int] = {}
        if (self._ends[len(self) - 1] if len(self) else 0) != self._text.size:
            raise ValueError("the texts don't add up")

    @staticmethod
    def state_of(names: Sequence[str], *, sought: bool = False) -> dict[str, Apart]:
        """As they are written; with `sought`, so that the place of one can be found."""
        texts = [name.encode(*_TEXTS) for name in names]
        ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.uint32, count=len(texts)))
        state = {"text": Apart(b"".join(texts)), "ends": Apart(ends.astype(np.uint32))}
        if sought:
            sums = np.fromiter(map(zlib.crc32, texts), dtype=np.uint32, count=len(texts))
            order = np.argsort(sums, kind="stable").astype(np.uint32)
            state |= {"sums": Apart(sums[order]), "order": Apart(order)}
        return state

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [*self][index]
        start = self._ends[index - 1] if index else 0
        return str(self._text.read(start, self._ends[index]), *_TEXTS)

    def __iter__(self) -> Iterator[str]:
        rows = self._text.read()
        whole, ends = str(rows, *_TEXTS), [0, *self._ends[:].tolist()]
        if len(whole) == len(rows):
            return (whole[start:end] for start, end in pairwise(ends))
        return (str(rows[start:end], *_TEXTS) for start, end in pairwise(ends))

    def place(self, name: str) -> int | None:
        """Where the text stands; None if it is not among them."""
        found = self._sought.get(name)
        if found is None:
            if len(self._sought) >= _MOST_SOUGHT:
                self._sought.clear()
            found = self._sought[name] = self._seek(name)
        return None if found < 0 else found

    def _seek(self, name: str) -> int:
        sum_ = zlib.crc32(name.encode(*_TEXTS))
        at = bisect_left(self._sorted, sum_)
        while at < len(self._sorted) and self._sorted[at] == sum_:
            if self[place := self._order[at]] == name:
                return place
            at += 1
        return -1

    @cached_property
    def _sorted(self) -> memoryview[int]:
        return cast("memoryview[int]", self._sums[:].data)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and self.place(value) is not None
