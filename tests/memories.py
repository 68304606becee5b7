"""How tests put memories where a session of theirs finds them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.local.embedder import word_vectors
from lamina.memory.paths import memory_place
from lamina.memory.topics import new_topic

if TYPE_CHECKING:
    from tests.sessions import Place


def directory(place: Place) -> Path:
    """The memory directory of a test's project."""
    return memory_place(place.home, place.project).directory


def put(
    place: Place,
    path: str,
    description: str,
    body: str = "",
    *,
    type: Any = "project",
    days: float = 0.0,
) -> Path:
    """A memory as a file, so many days old by the test's clock."""
    word_vectors()  # read once a process: a busy machine takes its time over it
    file = directory(place) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    name = Path(path).stem.replace("_", " ")
    file.write_bytes(
        new_topic(name=name, description=description, type=type, body=body or f"{description}\n")
    )
    saved = place.clock.at - days * 86_400
    os.utime(file, (saved, saved))
    return file


def kinds(session: Any, kind: str) -> list[dict[str, Any]]:
    return [entry for entry in session.ledger.entries if entry["kind"] == kind]


def said(session: Any) -> str:
    """All text of the view's messages."""
    return "\n".join(
        str(block.get("text", ""))
        for message in session.view().messages
        for block in message["content"]
    )
