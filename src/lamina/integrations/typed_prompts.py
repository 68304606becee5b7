"""What was typed in another agent's session, prompt by prompt, as our hooks saw it: the only proof of
the person's word that a tool called over MCP can have. One file a session, in the ledger's own form,
under the project's folder in Lamina's home.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from lamina.config import Config
from lamina.ledger import places
from lamina.ledger.edits import message
from lamina.ledger.log import LogFile, encode, read
from lamina.machine import private_folder, write_private
from lamina.memory import canonical_root
from lamina.messages import Json

_RECENT = 4  # sessions of a project that may be under way at once …
_UNDER_WAY = 86_400.0  # … if somebody typed into them so many seconds ago at most


def folder_of(config: Config) -> Path:
    """Where the memory is: agents change their directory within a repository, the session stays. What
    a user of a program typed stands with that user's memory and is nobody else's word."""
    memory = Path(config.str("memory.directory"))
    if memory.is_relative_to(config.home / "users"):
        return memory.parent / "hooks"
    return places.find_project_folder(config.own_home, canonical_root(config.project)) / "hooks"


def file_of(config: Config, client: str, session: str) -> Path:
    name = places.slug(f"{client}-{session or 'unnamed'}")[:120]
    return folder_of(config) / f"{name}.jsonl"


def record(config: Config, client: str, session: str, said: str, now: float) -> None:
    """Keep what the person typed."""
    places.project_folder(config.own_home, canonical_root(config.project))
    private_folder(folder_of(config))
    when = datetime.fromtimestamp(now, UTC).isoformat()
    entry = message("user", said, "typed", uuid=str(uuid4()), ts=when)
    log, _ = LogFile.open(file_of(config, client, session))
    try:
        log.write(encode(entry) + b"\n")
    finally:
        log.close()


def recent(config: Config) -> list[tuple[str, Sequence[Json]]]:
    """The sessions that were typed into last, newest first, with what was said. Yesterday's are over:
    their words prove nothing of a call now, and their silence nothing against it."""
    files: list[tuple[float, Path]] = []
    for file in folder_of(config).glob("*.jsonl"):
        with suppress(OSError):
            files.append((file.stat().st_mtime, file))
    files = [one for one in files if one[0] > time.time() - _UNDER_WAY]
    newest = [file for _, file in sorted(files, reverse=True)[:_RECENT]]
    return [(file.stem, _entries(file)) for file in newest]


def last(config: Config, client: str, session: str) -> str:
    """What was typed last in a session, "" if nothing."""
    entries = _entries(file_of(config, client, session))
    typed = [one["content"][0]["text"] for one in entries if one["origins"] == ["typed"]]
    return typed[-1] if typed else ""


def since_last_look(config: Config, client: str, session: str) -> tuple[str, Sequence[Json]]:
    """The session's name, and what was said since memories were last looked for in it."""
    file, looked = file_of(config, client, session), 0
    with suppress(OSError, ValueError):
        looked = int(file.with_suffix(".looked").read_text("ascii"))
    return file.stem, _entries(file)[looked:]


def mark_looked(config: Config, client: str, session: str) -> None:
    file = file_of(config, client, session)
    write_private(file.with_suffix(".looked"), str(len(_entries(file))).encode())


def _entries(file: Path) -> Sequence[Json]:
    return read(file).entries if file.is_file() else ()
