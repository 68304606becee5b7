"""What a person typed into another agent, as a hook of ours saw it: the only proof of their word
that a tool called over MCP can have. One file a session, in the ledger's own form, under the
project's folder in Lamina's home.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.messages import Json

FOLDER = "hooks"
_RECENT = 4  # sessions of a project that may be under way at once


def record(config: Config, client: str, session: str, prompt: str, now: float) -> None:
    """Keep a prompt that the person typed."""
    from datetime import UTC, datetime

    from lamina.ledger.log import LogFile, encode
    from lamina.ledger.places import private_folder, project_folder, slug

    folder = project_folder(config.own_home, config.project) / FOLDER
    private_folder(folder)
    name = slug(f"{client}-{session or 'unnamed'}")[:120]
    entry: dict[str, Any] = {
        "kind": "message",
        "role": "user",
        "uuid": str(uuid4()),
        "ts": datetime.fromtimestamp(now, UTC).isoformat(),
        "content": [{"type": "text", "text": prompt}],
        "origins": ["typed"],
    }
    log, _ = LogFile.open(folder / f"{name}.jsonl")
    try:
        log.write(encode(entry) + b"\n")
    finally:
        log.close()


def folder_of(config: Config) -> Path:
    from lamina.ledger.places import find_project_folder

    return find_project_folder(config.own_home, config.project) / FOLDER


def recent(config: Config) -> list[tuple[str, Sequence[Json]]]:
    """The sessions that were typed into last, newest first, with what was typed."""
    from lamina.ledger.log import read

    try:
        files = sorted(folder_of(config).glob("*.jsonl"), key=_changed, reverse=True)
    except OSError:
        return []
    return [(file.stem, read(file).entries) for file in files[:_RECENT]]


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
