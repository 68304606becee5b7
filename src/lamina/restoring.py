"""Files that come back after a compaction (L4.3): the ones read last, read again from disk.

Touches those files, reading only. A file that vanished, became something else or grew too large is
left out or cut, never an error.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import anyio.to_thread

from lamina.ledger import tokens
from lamina.state import State


async def restore_files(state: State, room: int) -> list[str]:
    """Reminders with the content of the last files, newest first, within all limits."""
    config = state.config
    total = min(config.int("compact.restore_files_tokens"), room)
    each = config.int("compact.restore_file_tokens")
    paths = _last_paths(state)[: config.int("compact.restore_files")]
    if not paths or total <= 0:
        return []
    return await anyio.to_thread.run_sync(_read_all, paths, each, total)


def _last_paths(state: State) -> list[str]:
    """Files that the agent read or wrote, newest first, memory and moved results left out."""
    own = str(state.deps.folder)
    return [path for path in reversed(list(state.tools.files)) if not path.startswith(own)]


def _read_all(paths: list[str], each: int, total: int) -> list[str]:
    shown: list[str] = []
    for path in paths:
        words = _read(path, min(each, total))
        if words:
            shown.append(words)
            total -= tokens.of_text(words)
        if total <= 100:
            break
    return shown


def _read(path: str, room: int) -> str:
    most = max(0, room * 4 - 200)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        data = file.read(most + 1)
    if b"\0" in data or most <= 0:
        return ""
    text = data[:most].decode("utf-8", "ignore")
    cut = f"\n… (cut; Read {Path(path).name} for the rest)" if len(data) > most else ""
    return (
        f"<system-reminder>\nThe file {path}, read again after the compaction:\n\n"
        f"{text}{cut}\n</system-reminder>"
    )
