"""The rules for names of memory files: what may be a path beneath the memory directory. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PART = re.compile(r"[a-z0-9_-]{1,80}")
_MOST_PARTS = 5
# Names that some file systems give to devices, whatever their ending.
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$", "clock$"]
    + [f"{port}{number}" for port in ("com", "lpt") for number in range(10)]
)


def why_bad_name(path: str, existing: Iterable[str] = ()) -> str:
    """ "" or why no memory may be written at this path. A file that is there already may be updated."""
    existing = list(existing)
    if path in existing:
        return ""
    *folders, file = path.split("/")
    stem = file.removesuffix(".md")
    if stem == file:
        return f"{printable(path)} does not end in .md"
    if len(folders) >= _MOST_PARTS:
        return f"{printable(path)} lies more than {_MOST_PARTS} folders deep"
    for part in (*folders, stem):
        if part.casefold() in _DEVICES:
            return f"{printable(path)} has the name of a device"
        if not _PART.fullmatch(part):
            return (
                f"{printable(path)} is not a memory name: "
                "use 1 to 80 of a-z, 0-9, _ and - before .md"
            )
    if stem == "memory":
        return f"{printable(path)} would collide with the index MEMORY.md"
    folded = path.casefold()
    for other in existing:
        if other.casefold() == folded:
            return f"{printable(path)} differs from {printable(other)} only in upper and lower case"
    return ""


def printable(path: str) -> str:
    """A path as it may be shown: what is not plain is escaped, and length is bounded."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in path[:120])
    return shown + ("…" if len(path) > 120 else "")
