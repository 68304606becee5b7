"""Reads files that nobody vouches for: line by line or whole, within limits, and says in words what
could not be read. Touches only the file that it is given.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from lamina.errors import TranscriptError
from lamina.messages import as_list, as_object

LINE_LIMIT = 32 * 1024 * 1024  # a longer line is skipped, unread
DEEPEST = 200  # levels of a value: what is deeper is skipped
FILE_LIMIT = 256 * 1024 * 1024  # a longer file is read only line by line

CUT_OFF = "cut off: the JSON has no end"

_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a piece of text gave no value."""

    reason: str


Lines: TypeAlias = Iterable[tuple[int, Any | Unreadable]]  # with their numbers, from 1


def decode(raw: bytes) -> Any | Unreadable:
    """A JSON value, or the reason why there is none."""
    import msgspec

    raw = raw.removeprefix(b"\xef\xbb\xbf")  # some editors begin a file with it
    try:
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # The standard parser is slower, but takes lone surrogates and NaN.
            value = json.loads(raw.decode("utf-8", "replace"))
    except RecursionError:
        return Unreadable("nested too deeply")
    except ValueError as error:
        return Unreadable(_reason(raw, error))
    return Unreadable("nested too deeply") if _too_deep(value, raw) else value


def _too_deep(value: Any, raw: bytes) -> bool:
    """Whether something would be too deep for whoever takes it apart later."""
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return False
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        inside = (part for one in level for part in (*as_object(one).values(), *as_list(one)))
        level = [part for part in inside if isinstance(part, (dict, list))]
        if not level:
            return False
    return True


_MARKS = (
    (b"\x1f\x8b", "compressed with gzip: unpack it first"),
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first"),
    (b"BZh", "compressed with bzip2: unpack it first"),
    (b"\xfd7zXZ", "compressed with xz: unpack it first"),
    (b"\xff\xfe", "UTF-16 text: write it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text: write it as UTF-8"),
)


def _reason(raw: bytes, error: ValueError) -> str:
    if not raw.strip(b"\x00 \t\r\n"):
        return "holds nothing"
    for mark, reason in _MARKS:
        if raw.startswith(mark):
            return reason
    if b"\x00" in raw[:1024]:
        return "binary data, not JSON"
    if isinstance(error, json.JSONDecodeError) and error.pos >= len(error.doc.rstrip()) - 1:
        return CUT_OFF
    if "Unterminated string" in str(error):
        return CUT_OFF
    return "not JSON"


def read_lines(path: Path) -> Iterator[tuple[int, Any | Unreadable]]:
    """Each line that isn't empty, as (line number from 1, value or why there is none)."""
    with open_file(path) as file:
        number = 0
        while raw := file.readline(LINE_LIMIT + 1):
            number += 1
            if len(raw) > LINE_LIMIT and not raw.endswith(b"\n"):
                size = len(raw)
                while not raw.endswith(b"\n") and (raw := file.readline(_CHUNK)):
                    size += len(raw)
                yield number, Unreadable(f"a line of {size // 1_000_000} MB is too long to be read")
            elif raw.strip():
                yield number, decode(raw)


def read_whole(path: Path) -> Any | Unreadable:
    """The file as one JSON value."""
    with open_file(path) as file:
        raw = file.read(FILE_LIMIT + 1)
    if len(raw) > FILE_LIMIT:
        return Unreadable(f"longer than {FILE_LIMIT // 1_000_000} MB")
    return decode(raw)


def open_file(path: Path) -> Any:
    try:
        return path.open("rb")
    except OSError as error:
        raise TranscriptError(
            f"{path} can't be read ({error.strerror}); give the path of a transcript file."
        ) from error
