"""Lets a search by expression pass over the parts of session files that can't hold a hit.

A sketch is a small derived file for one session file: for each block of whole lines a bitmap of the
runs of four bytes in it, letters in lower case. It may be deleted at will; one that is damaged or no
longer true is made anew. Reads session files, writes only into the folders that it is given.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, BinaryIO

from lamina.errors import StorageError
from lamina.recall import saved
from lamina.recall.expressions import Plain, has_other_cases
from lamina.recall.recorded import blocks_in

FOLDER = "grep.index"
_ENDING = ".sketch"
_BLOCK = 1 << 17
_SMALL = 1 << 16  # so much is read as fast as its sketch
WORTH = 32 << 20  # so much is read as fast as numpy is loaded
_SETTLED = 2.0  # seconds after which the next change surely gets another time
_RUN = 4  # bytes
_CHUNK = 1 << 16
_FACTOR = 0x9E3779B1  # spreads runs over the bitmap: 2**32 by the golden ratio


class Wanted:
    """What to look for in a bitmap: the runs of each way that a hit can go; None: it may be anywhere."""

    def __init__(self, plain: Plain) -> None:
        ways = [[_hash(run) for part in way.parts for run in _runs(part)] for way in plain.ways]
        self.ways = ways if ways and all(ways) else None
        self.ignores_case = plain.ignores_case


@dataclass(frozen=True, slots=True)
class Row:
    """One block: where it is, what it was, and which runs of bytes are in it."""

    start: int
    end: int
    checksum: int
    other_cases: bool
    runs: bytes

    def may_hold(self, wanted: Wanted) -> bool:
        if wanted.ways is None or (wanted.ignores_case and self.other_cases):
            return True
        shift = _shift(len(self.runs))
        return any(
            all(self.runs[(place := run >> shift) >> 3] >> (place & 7) & 1 for run in way)
            for way in wanted.ways
        )


class Sketch:
    """Rows from the beginning of a file on, and its stamp when they were true; "" where a change may
    have come too soon after to be seen in it."""

    def __init__(self, stamp: str = "", rows: Sequence[Row] = ()) -> None:
        self.stamp = stamp
        self.rows = list(rows)

    def to_state(self) -> dict[str, Any]:
        rows = [(r.start, r.end, r.checksum, r.other_cases, r.runs) for r in self.rows]
        return {"stamp": self.stamp, "rows": rows}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Sketch:
        rows = [Row(int(a), int(b), int(c), bool(d), bytes(e)) for a, b, c, d, e in state["rows"]]
        here = 0
        for row in rows:
            if not here <= row.start < row.end or len(row.runs).bit_count() != 1:
                raise ValueError("a row is where it can't be")
            here = row.end
        return cls(str(state["stamp"]), rows)


class Sketches:
    """The sketches of session files: for each folder of sessions the folder that mirrors it."""

    def __init__(
        self, places: Mapping[Path, Path], *, now: Callable[[], float] = time.time
    ) -> None:
        self._places = places
        self._now = now
        self._mirrors: dict[Path, Path] = {}
        self._until = -inf  # till then what has no sketch gets one

    def begin(self, files: Sequence[Path], until: float = inf) -> None:
        """Before a search: drops the sketches of files that went, and finds out whether new ones are
        worth their time. They are made until then (`time.monotonic`)."""
        for sessions, place in self._places.items():
            with suppress(OSError):
                _drop_the_lost(sessions, place)
        lacking = sum(size for size in map(self._lacks, files) if size >= _SMALL)
        self._until = until if lacking >= WORTH else -inf

    def blocks(self, file: Path, wanted: Wanted) -> Iterator[tuple[int, bytes]]:
        """A file in blocks of whole lines, each with its end; nothing in place of one that can't hold
        a hit."""
        kept = saved.load(Sketch, self._path(file)) or Sketch()
        with file.open("rb") as opened:
            size, stamp, changed = _state(opened)
            fresh = Sketch(stamp if self._now() - changed > _SETTLED else "")
            if kept.stamp == stamp:
                fresh = Sketch(stamp, kept.rows)
                yield from _known(opened, kept.rows, wanted)
            else:
                yield from _proven(opened, kept.rows, size, fresh.rows)
            try:
                yield from self._new(opened, size, fresh.rows)
            finally:
                if len(fresh.rows) != len(kept.rows) or fresh.stamp != kept.stamp:
                    self._keep(fresh, self._path(file), size)

    def _new(self, opened: BinaryIO, size: int, rows: list[Row]) -> Iterator[tuple[int, bytes]]:
        """What no row stands for yet, with rows for it if there is time."""
        start = rows[-1].end if rows else 0
        going_on = size - start >= _SMALL
        for place, block in blocks_in(opened, start, _BLOCK):
            # A line that lacks its end may get one later; and rows leave nothing out between them.
            going_on = going_on and block.endswith(b"\n") and time.monotonic() < self._until
            if going_on:
                rows.append(_row(place, block))
            yield place + len(block), block

    def _keep(self, sketch: Sketch, path: Path, size: int) -> None:
        try:
            if not sketch.rows:
                path.unlink(missing_ok=True)
                return
            saved.save(sketch, path, tidy=False)
            if size - sketch.rows[-1].end >= _SMALL:
                os.utime(path, (0, 0))  # looks older than the file: it lacks the rest
        except (StorageError, OSError):
            self._until = -inf  # the search goes on without

    def _path(self, file: Path) -> Path:
        folder = file.parent
        if folder not in self._mirrors:
            sessions = next(one for one in (folder, *folder.parents) if one in self._places)
            self._mirrors[folder] = self._places[sessions] / folder.relative_to(sessions)
        return self._mirrors[folder] / f"{file.stem}{_ENDING}"

    def _lacks(self, file: Path) -> int:
        """The size of a file that changed since its sketch was made."""
        try:
            stat = os.stat(file)
        except OSError:
            return 0
        made = 0
        if stat.st_size >= _SMALL:
            with suppress(OSError):
                made = os.stat(self._path(file)).st_mtime_ns
        return stat.st_size if stat.st_mtime_ns >= made else 0


def _drop_the_lost(sessions: Path, place: Path) -> None:
    for folder, _, names in os.walk(place):
        mirrored = sessions / Path(folder).relative_to(place)
        there = {*os.listdir(mirrored)} if mirrored.is_dir() else set[str]()
        for name in names:
            if name.endswith(_ENDING) and f"{name.removesuffix(_ENDING)}.jsonl" not in there:
                os.unlink(os.path.join(folder, name))
        saved.clear_away(Path(folder))


def _state(opened: BinaryIO) -> tuple[int, str, float]:
    """Size, stamp, and time of the last change. The time of change can't be set by hand."""
    stat = os.fstat(opened.fileno())
    parts = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return stat.st_size, "-".join(map(str, parts)), max(stat.st_mtime, stat.st_ctime)


def _known(opened: BinaryIO, rows: Sequence[Row], wanted: Wanted) -> Iterator[tuple[int, bytes]]:
    """Blocks of a file that is as it was, read only where a hit can be."""
    for row in rows:
        if row.may_hold(wanted):
            opened.seek(row.start)
            yield row.end, opened.read(row.end - row.start)
        else:
            yield row.end, b""


def _proven(
    opened: BinaryIO, rows: Sequence[Row], size: int, true: list[Row]
) -> Iterator[tuple[int, bytes]]:
    """Blocks of a file that changed, as long as they are what they were. A short one at the end is
    left to be made anew with what came after it."""
    here = 0
    for row in rows:
        if row.start != here or (row is rows[-1] and row.end - here < _BLOCK and size > row.end):
            return
        opened.seek(here)
        block = opened.read(row.end - here)
        if len(block) != row.end - here or zlib.crc32(block) != row.checksum:
            return
        yield row.end, block
        true.append(row)
        here = row.end


def _row(start: int, block: bytes) -> Row:
    import numpy as np

    runs = np.zeros(8 << max(6, (len(block) // 12).bit_length() - 1), dtype=np.bool_)
    factor, shift = np.uint32(_FACTOR), np.uint32(_shift(len(runs) // 8))
    lowered = block.lower()
    room = _CHUNK // _RUN + 1  # arrays made anew for each chunk took most of the time
    hashes, places = np.empty(room, dtype=np.uint32), np.empty(room, dtype=np.intp)
    for place in range(0, len(lowered), _CHUNK):
        piece = lowered[place : place + _CHUNK + _RUN - 1]
        for offset in range(min(_RUN, len(piece) - _RUN + 1)):
            found = np.frombuffer(piece, "<u4", (len(piece) - offset) // _RUN, offset)
            hashed = np.multiply(found, factor, out=hashes[: len(found)])
            runs[np.right_shift(hashed, shift, out=places[: len(found)])] = True
    packed = np.packbits(runs, bitorder="little").tobytes()
    return Row(start, start + len(block), zlib.crc32(block), has_other_cases(lowered), packed)


def _runs(part: bytes) -> list[bytes]:
    lowered = part.lower()
    return [lowered[place : place + _RUN] for place in range(len(lowered) - _RUN + 1)]


def _hash(run: bytes) -> int:
    return int.from_bytes(run, "little") * _FACTOR & 0xFFFFFFFF


def _shift(length: int) -> int:
    """Leaves of a hash the bits that name a place in a bitmap of so many bytes."""
    return 32 - length.bit_length() - 2
