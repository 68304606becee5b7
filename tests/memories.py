"""How tests put memories where a session of theirs finds them."""

from __future__ import annotations

import os
import tempfile
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
    name = Path(path).stem.replace("_", " ")
    content = new_topic(
        name=name, description=description, type=type, body=body or f"{description}\n"
    )
    return by_hand(directory(place) / path, content, at=place.clock.at - days * 86_400)


def by_hand(file: Path, content: str | bytes, *, at: float | None = None) -> Path:
    """Save a file as a good editor does, whole and with its time in one step: what looks at the
    directory meanwhile, behind an open session, never sees the half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parents[2], delete=False) as draft:
        draft.write(content.encode() if isinstance(content, str) else content)
    if at is not None:
        os.utime(draft.name, (at, at))
    Path(draft.name).chmod(0o644)
    os.replace(draft.name, file)
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
