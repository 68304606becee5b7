"""Lines of recorded sessions, Lamina's own and Claude Code's: where each stands in its file, who said
what in it, and when. Only reads; what can't be understood is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast

from lamina.ledger import log
from lamina.ledger.edits import written_at
from lamina.ledger.places import slug
from lamina.ledger.quotes import blocks_of_entry
from lamina.memory.origins import typed_parts
from lamina.messages import Json, text_of

_BLOCK = 1 << 20
_SPEAKERS = {"typed": "user", "assistant": "assistant"}


def blocks_in(file: BinaryIO, start: int = 0, step: int = 0) -> Iterator[tuple[int, bytes]]:
    """A file from a place on, in blocks of whole lines with their places; only the very last line
    may lack its end. A line that is too long for anybody to read is left out."""
    held: list[bytes] = []  # the beginning of a line whose end is not read yet
    size = 0
    file.seek(start)
    while piece := file.read(step or _BLOCK):
        first, end = piece.find(b"\n") + 1, piece.rfind(b"\n") + 1
        if not end:
            size += len(piece)
            held = [*held, piece] if size <= log.MAX_LINE else []
            continue
        if size + first <= log.MAX_LINE:
            yield start, b"".join([*held, piece[:end]])
        elif first < end:
            yield start + size + first, piece[first:end]
        start += size + end
        held, size = [piece[end:]], len(piece) - end
    if size <= log.MAX_LINE and any(held):
        yield start, b"".join(held)


def lines(path: Path, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Each line with its place."""
    with path.open("rb") as file:
        for place, block in blocks_in(file, start):
            here = place
            for line in BytesIO(block):
                yield here, line
                here += len(line)


def line_at(path: Path, start: int) -> bytes:
    """The one line at a place; nothing where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.readline(log.MAX_LINE)
    except OSError:
        return b""


def value_of(line: bytes) -> Json | None:
    """The object on a line."""
    try:
        value: Any = log.decode(line)
    except (ValueError, RecursionError):
        return None
    return cast("Json", value) if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody told somebody: who and when, in their own words."""

    uuid: str
    who: str  # user or assistant
    text: str
    when: float


def message_on(value: Json) -> Message | None:
    """What user or assistant said on a line; tool results, reminders and hooks are left out."""
    if value.get("kind") == "message":
        said = blocks_of_entry(value) if _is_whole(value) else ()
        who = next((_SPEAKERS[origin] for origin, _ in said if origin in _SPEAKERS), "")
        words = [text for origin, text in said if _SPEAKERS.get(origin) == who]
        when = written_at(value)
    elif value.get("type") in ("user", "assistant"):
        aside = any(value.get(mark) for mark in ("isMeta", "isSidechain", "isCompactSummary"))
        who = "" if aside else str(value["type"])
        words = [text for kind, text in claude_texts(value) if kind == who]
        words = typed_parts([("typed", text) for text in words]) if who == "user" else words
        when = claude_time(value)
    else:
        return None
    text = "\n".join(words)
    if not who or not text.strip():
        return None
    return Message(str(value.get("uuid") or ""), who, text, when)


def _is_whole(entry: Json) -> bool:
    """Whether a message is built as one: files are edited by hand, and torn by crashes."""
    content, origins = entry.get("content"), entry.get("origins")
    return (
        isinstance(content, list)
        and all(isinstance(block, dict) for block in cast("list[Any]", content))
        and isinstance(origins, list)
        and all(isinstance(origin, str) for origin in cast("list[Any]", origins))
    )


# ---- Claude Code's own


def claude_folders(home: Path, project: Path) -> list[Path]:
    """Where Claude Code keeps a project's transcripts: by the path as given and by the real one. A
    long name ends in a hash of its own kind there."""
    folders: dict[Path, None] = {}
    for path in (project, project.resolve()):
        name = slug(path)
        plain = home / "projects" / name
        long = sorted(plain.parent.glob(f"{name[:200]}-*")) if len(name) > 200 else []
        folders.update(dict.fromkeys(folder for folder in (plain, *long) if folder.is_dir()))
    return list(folders)


def claude_time(value: Json) -> float:
    try:
        return datetime.fromisoformat(str(value.get("timestamp"))).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def claude_texts(value: Json) -> Iterator[tuple[str, str]]:
    """(who, text) of everything on a line of theirs: what was said, calls and results."""
    message: Any = value.get("message")
    if value.get("type") not in ("user", "assistant") or not isinstance(message, dict):
        return
    who, content = str(value["type"]), cast("Json", message).get("content")
    if isinstance(content, str):
        yield who, content
        return
    for block in cast("list[Any]", content) if isinstance(content, list) else ():
        if isinstance(block, dict):
            for kind, text in _claude_block(who, cast("Json", block)):
                moved = kind == "result" and text.startswith("<persisted-output>")
                yield kind, _whole_result(value, text) if moved else text


def _whole_result(value: Json, preview: str) -> str:
    """A result of which the model was shown a preview; the line often holds all of it as well."""
    told: Any = value.get("toolUseResult")
    parts = cast("Json", told).values() if isinstance(told, dict) else [told]
    return max((preview, *(part for part in parts if isinstance(part, str))), key=len)


def _claude_block(who: str, block: Json) -> Iterator[tuple[str, str]]:
    match block.get("type"):
        case "text":
            yield who, str(block.get("text") or "")
        case "tool_use":
            yield "call", json.dumps(block.get("input"), ensure_ascii=False)
        case "tool_result":
            content: Any = block.get("content")
            parts = cast("list[Any]", content) if isinstance(content, list) else []
            whole = [cast("Json", part) for part in parts if isinstance(part, dict)]
            yield "result", content if isinstance(content, str) else text_of(whole)
        case _:
            pass
