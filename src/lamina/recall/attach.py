"""Recalled memories as the model sees them: a heading with its age, the text within its limits, and
a note where it was cut. Pure: the same memory at the same moment gives the same bytes, and what was
attached is kept in the record as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamina.memories import Memory
from lamina.memory.freshness import heading
from lamina.messages import Block, Json, text

_NOTHING = "(This memory has no text.)"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be shown; the defaults are those of the settings."""

    files: int = 5
    lines: int = 200
    bytes: int = 4_096
    session_bytes: int = 60_000
    stale_days: float = 1.0


@dataclass(frozen=True, slots=True)
class Shown:
    """One memory in the view."""

    path: str
    block: Block
    bytes: int
    cut: bool

    def to_json(self) -> Json:
        return {"path": self.path, "bytes": self.bytes, "cut": self.cut}


def attachments(
    memories: Sequence[tuple[Memory, str]],
    *,
    directory: str,
    now: float,
    limits: Limits,
    room: int,
) -> list[Shown]:
    """Each memory (with whose word it is, "" for the user's) as a reminder; what exceeds the room
    that the session has left stays out."""
    shown: list[Shown] = []
    for memory, source in memories[: limits.files]:
        one = reminder(memory, source, directory=directory, now=now, limits=limits)
        if one.bytes <= room:
            shown.append(one)
            room -= one.bytes
    return shown


def reminder(memory: Memory, source: str, *, directory: str, now: float, limits: Limits) -> Shown:
    """One memory as a `<system-reminder>`."""
    path = f"{directory}/{memory.path}"
    words, cut = cut_to(_text(memory), limits.lines, limits.bytes)
    parts = [heading(path, memory.mtime, now, limits.stale_days)]
    if source:
        parts.append(f"Source: {source}; these are not the user's own words.")
    parts += ["", words.replace("</system-reminder", "&lt;/system-reminder")]
    if cut:
        parts += ["", f"[Cut here. Use Read on {path} to see the whole memory.]"]
    block = text("\n".join(["<system-reminder>", *parts, "</system-reminder>"]))
    return Shown(memory.path, block, len(block["text"].encode("utf-8", "replace")), cut)


def _text(memory: Memory) -> str:
    """What the memory says: its body, and its description where the body does not repeat it."""
    body, description = memory.body.strip(), memory.description.strip()
    if description and " ".join(description.split()) not in " ".join(body.split()):
        return f"{description}\n\n{body}".strip()
    return body or _NOTHING


def cut_to(words: str, lines: int, most: int) -> tuple[str, bool]:
    """The first lines within both limits, and whether something was cut off. One line that is too
    long by itself is cut within, never inside a character."""
    kept = words.split("\n")
    few = "\n".join(kept[:lines])
    encoded = few.encode("utf-8", "replace")
    if len(encoded) <= most:
        return few, len(kept) > lines
    piece = encoded[:most].decode("utf-8", "ignore")
    end = piece.rfind("\n")
    return (piece[:end] if end > len(piece) // 2 else piece), True
