"""Writing for people and for programs: colours only on a terminal, tables, JSON, and control
characters of recorded text made harmless. Touches stdout and stderr only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import Any, TextIO

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
# Everything that could steer a terminal: C0 but tab and newline, DEL, C1.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal that shows them and the user wants them."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def style(text: str, name: str, stream: TextIO | None = None) -> str:
    """The text in a colour, where the stream (stdout by default) shows colours."""
    if not colours(stream or sys.stdout):
        return text
    return f"\x1b[{_STYLES[name]}m{text}\x1b[0m"


def harmless(text: str) -> str:
    """Recorded text for a terminal: control characters become visible instead of taking effect."""
    return _CONTROL.sub(lambda match: _visible(match.group()), text)


def columns(text: str) -> int:
    """How many columns of a terminal it takes: two for a wide character, none for an accent."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    import unicodedata

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def one_line(text: str, width: int) -> str:
    """The text on one line of at most `width` columns."""
    whole = harmless(" ".join(text.split()))
    line = whole[: 4 * max(0, width) + 1]  # accents take no column, but nobody has more of them
    if line == whole and columns(line) <= width:
        return line
    while columns(line) > max(0, width - 1):
        line = line[:-1]
    return line + "…"


def width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def out(text: str = "") -> None:
    """A line of result. Recorded text in it went through `harmless` or `one_line`."""
    sys.stdout.write(_safe(text, sys.stdout) + "\n")


def stream(text: str) -> None:
    """A piece of an answer, as it comes."""
    sys.stdout.write(_safe(harmless(text), sys.stdout))
    sys.stdout.flush()


def note(text: str) -> None:
    """A remark beside the result, on stderr."""
    sys.stderr.write(_safe(text, sys.stderr) + "\n")


def out_json(value: Any, *, pretty: bool | None = None) -> None:
    """One JSON value: on many lines for a person, on one for a pipe."""
    pretty = sys.stdout.isatty() if pretty is None else pretty
    plain = (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8"
    text = json.dumps(value, ensure_ascii=plain, indent=2 if pretty else None, default=str)
    # A lone surrogate (a file name that is not UTF-8) has no bytes of its own.
    sys.stdout.write(text.encode("utf-8", "replace").decode() + "\n")


def table(rows: Sequence[Sequence[str]], heading: Sequence[str] = ()) -> str:
    """Columns as wide as their longest cell."""
    lines = [list(heading), *map(list, rows)] if heading else [list(row) for row in rows]
    if not lines:
        return ""
    widths = [max(columns(_bare(line[at])) for line in lines) for at in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell + " " * (wide - columns(_bare(cell)))
            for cell, wide in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


_OURS = re.compile(r"\x1b\[\d+m")


def _bare(text: str) -> str:
    return _OURS.sub("", text)


def _safe(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def _visible(character: str) -> str:
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"
