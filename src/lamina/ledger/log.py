"""The session's file: append-only JSON lines, fsynced at acknowledgement, repaired on open.

Touches one `.jsonl` file and its directory entry. It knows nothing of views: an entry is a JSON
object with `kind` and `uuid`. Nothing in the file is ever rewritten: a torn or corrupt line stays
where it is, a `repair` entry names it, and readers pass over it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import mmap
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import msgspec

from lamina.errors import LedgerError, SessionBusy
from lamina.machine import failing_as, open_to_append
from lamina.messages import Json

CARD = "agent"  # state entry: what is known of the agent whose ledger this is
PARENT = "conversation.agents"  # state entry: the conversation whose model leads this one
MAX_LINE = 256 * 1024 * 1024  # a longer line is passed over unread: it would fill the memory

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that can't be served, and why."""

    line: int
    offset: int
    length: int
    reason: str
    known: bool = False  # a later `repair` entry names it

    def __str__(self) -> str:
        return f"line {self.line} (byte {self.offset}, {self.length} bytes): {self.reason}"


@dataclass(frozen=True, slots=True)
class Reading:
    """All that a file holds."""

    entries: list[Json]
    problems: list[Problem]
    size: int
    ends_whole: bool  # the last line has its newline


def encode(entry: Json) -> bytes:
    """One line without its newline; lone surrogates become U+FFFD."""
    try:
        return _encode(entry)
    except UnicodeEncodeError:
        return _encode(without_surrogates(entry))
    except (TypeError, RecursionError) as error:
        raise LedgerError(f"This entry can't be written as JSON: {error}.") from error


def decode(line: bytes) -> Any:
    """One line's value; what msgspec is too strict for (lone surrogates, 1e400) goes through json."""
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return without_surrogates(json.loads(line))


def without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        items = cast("Json", value).items()
        return {without_surrogates(key): without_surrogates(item) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [without_surrogates(item) for item in cast("list[Any]", value)]
    return value


def read(path: Path) -> Reading:
    """Read without a lock. Raises LedgerError if the file can't be opened at all."""
    telling = failing_as(LedgerError, f"Can't read the session file {path}")
    with telling, path.open("rb") as file:
        return _read(file.fileno())


def _read(fd: int) -> Reading:
    size = os.fstat(fd).st_size
    if size == 0:
        return Reading([], [], 0, ends_whole=True)
    entries: list[Json] = []
    problems: list[Problem] = []
    with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as data:
        ends_whole = data[size - 1] == 0x0A
        for number, (start, end) in enumerate(_lines(data, size), 1):
            entry, reason = _entry(data, start, end)
            if entry is not None:
                entries.append(entry)
            elif reason:
                problems.append(Problem(number, start, end - start, reason))
    _give_to_parents(entries)
    return Reading(entries, _mark_known(problems, entries), size, ends_whole)


def _give_to_parents(entries: list[Json]) -> None:
    """Where another model leads a conversation, which may be known only later, nobody typed."""
    if any(entry.get("name") == PARENT for entry in entries if entry["kind"] == "state"):
        for entry in (one for one in entries if "origins" in one):
            entry["origins"] = ["agent" if o == "typed" else o for o in entry["origins"]]


def _lines(data: mmap.mmap, size: int) -> Iterator[tuple[int, int]]:
    start = 0
    while start < size:
        found = data.find(b"\n", start)
        end = size if found < 0 else found
        yield start, end
        start = end + 1


def _entry(data: mmap.mmap, start: int, end: int) -> tuple[Json | None, str]:
    """The entry on a line, or why there is none; an empty line is neither."""
    if end - start > MAX_LINE:
        return None, f"the line is longer than {MAX_LINE // 1024 // 1024} MB"
    line = data[start:end]
    if not line.strip():
        return None, ""
    try:
        value = decode(line)
    except (ValueError, RecursionError) as error:
        return None, f"not JSON ({str(error)[:100]})"
    if not isinstance(value, dict):
        return None, "not a JSON object"
    entry = cast("Json", value)
    if not isinstance(entry.get("kind"), str) or not isinstance(entry.get("uuid"), str):
        return None, "no entry: kind or uuid is missing"
    wrong = _misshapen(entry)
    return (None, f"not what an entry holds: {wrong}") if wrong else (entry, "")


def _objects(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict) for one in cast("list[Any]", value)
    )


def _blocks(value: object) -> bool:
    """Blocks, of which a tool's result holds text or blocks itself."""
    return _objects(value) and all(
        isinstance(block.get("content", ""), str | None) or _objects(block["content"])
        for block in cast("list[Json]", value)
        if block.get("type") == "tool_result"
    )


def _strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in cast("list[Any]", value))


def _is(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind)


# What readers rely on, where a field is there at all; the rest they look at before they use it.
_SHAPES: dict[str, dict[str, Callable[[object], bool]]] = {
    "frame": {"system": _objects, "tools": _objects, "model": _is(str), "params": _is(dict)},
    "message": {
        "role": _is(str),
        "content": _blocks,
        "origins": _strings,
        "recalled": _objects,
        "meta": _is(dict),
    },
    "request": {"blocks": _is(int), "tokens": _is(int)},
}


def _misshapen(entry: Json) -> str:
    """The field that has a shape which no reader could use, "" if there is none."""
    for name, fits in _SHAPES.get(entry["kind"], {}).items():
        if entry.get(name) is not None and not fits(entry[name]):
            return f"`{name}` of a {entry['kind']} is of another kind"
    return ""


def _mark_known(problems: list[Problem], entries: list[Json]) -> list[Problem]:
    known = [entry.get("offset") for entry in entries if problems and entry["kind"] == "repair"]
    return [replace(problem, known=problem.offset in known) for problem in problems]


def was_used(path: Path) -> bool:
    """Whether somebody said something in a session. Its file may be large: no line is parsed."""
    try:
        with path.open("rb") as lines:
            return any(b'"typed"' in line or b'"pasted"' in line for line in lines)
    except OSError:
        return True  # opening it says what is wrong


def latest(folder: Path) -> str | None:
    """The session written last in which somebody said something."""
    try:
        files = sorted(folder.glob("*.jsonl"), key=lambda f: f.stat().st_mtime_ns, reverse=True)
    except OSError:
        return None
    used = next((file for file in files if was_used(file)), None)
    return used.stem if used else None


def drop_empty(path: Path) -> None:
    """A session that could not begin leaves nothing to go on with."""
    with contextlib.suppress(OSError):
        if path.is_file() and path.stat().st_size == 0:
            path.unlink()


class LogFile:
    """A session's file, open for its one writer."""

    def __init__(self, path: Path, fd: int, end: int) -> None:
        self.path = path
        self._fd = fd
        self.size = end

    @classmethod
    def open(cls, path: Path, known: int = -1) -> tuple[LogFile, Reading]:
        """Lock, read, and end a torn last line; a file that is as long as the caller knows it is not
        read again. Raises SessionBusy or LedgerError."""
        fd, size = _open_locked(path)
        try:
            if size == known:
                return cls(path, fd, known), Reading([], [], known, ends_whole=True)
            reading = _read(fd)
            log = cls(path, fd, reading.size)
            if not reading.ends_whole:
                log.write(b"\n")
            return log, reading
        except BaseException:
            os.close(fd)
            raise

    def write(self, data: bytes, *, lasting: bool = True) -> None:
        """Append whole lines and return when they are on disk, `lasting` even if the power fails right
        afterwards; on failure nothing is added."""
        if self._fd < 0:
            raise LedgerError(f"The session file {self.path} is closed.")
        try:
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, data[written:])
            if lasting:
                sync(self._fd)
        except OSError as error:
            self._take_back()
            why = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
            raise LedgerError(
                f"Can't write to the session file {self.path}: {why}. Nothing was added."
            ) from error
        self.size += len(data)

    def _take_back(self) -> None:
        """Drop the unacknowledged tail, so that the next line starts clean."""
        try:
            os.ftruncate(self._fd, self.size)
        except OSError:
            self.close()  # the next open repairs the tail

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _is_ours(fd: int) -> bool:
    """Whether another descriptor of this very process has the file open."""
    mine = os.fstat(fd)
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # the listing's own is gone already
            if int(name) != fd and os.path.samestat(os.fstat(int(name)), mine):
                return True
    return False


def sync(fd: int) -> None:
    """Data and length on the disk itself."""
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)


def _open_locked(path: Path) -> tuple[int, int]:
    """A descriptor, and how long the file is."""
    try:
        fd, new = open_to_append(path)
    except OSError as error:
        raise LedgerError(
            f"Can't open the session file {path} for writing: {error.strerror}. "
            "Check the folder's permissions, or choose another with --home."
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if new:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except BlockingIOError as error:
        where = "already in this program" if _is_ours(fd) else "in another process"
        os.close(fd)
        raise SessionBusy(
            f"The session {path.stem} is open {where}; close it there, or fork it."
        ) from error
    except OSError as error:
        os.close(fd)
        raise LedgerError(f"Can't lock the session file {path}: {error.strerror}.") from error
    found = os.fstat(fd)
    if found.st_nlink == 0:  # whoever had it took the empty file away before letting go
        os.close(fd)
        return _open_locked(path)
    return fd, found.st_size
