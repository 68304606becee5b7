"""What comes back after a compaction (L4.3): files read last and invoked skills, read again from disk.

Touches those files, reading only, and only where the user's rules still allow it. A file that
vanished, became something else or grew too large is left out or cut, never an error.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from lamina.ledger import tokens
from lamina.messages import Json
from lamina.state import State

FILE_TOOLS = frozenset({"Read", "Write", "Edit"})
SKILL_TOOL = "Skill"
LEAST_ROOM = 100  # tokens; less shows nothing worth reading


@dataclass(frozen=True, slots=True)
class _Shown:
    what: str  # how it is announced
    path: str


async def restore_files(state: State, room: int) -> list[str]:
    """Reminders with the content of the last files, newest first, within all limits."""
    config = state.config
    total = min(config.int("compact.restore_files_tokens"), room)
    each = config.int("compact.restore_file_tokens")
    most = config.int("compact.restore_files")
    if not most or total <= LEAST_ROOM:
        return []
    wanted: list[_Shown] = []
    for path in _last_paths(state, FILE_TOOLS):
        if len(wanted) < most and await _allowed(state, path):
            wanted.append(_Shown(f"The file {path}", path))
    return await anyio.to_thread.run_sync(_read_all, wanted, each, total)


async def restore_skills(state: State, room: int) -> list[str]:
    """Reminders with the skills that were invoked, newest first, within their limits."""
    total = min(state.config.int("compact.restore_skills_tokens"), room)
    each = state.config.int("compact.restore_skill_tokens")
    wanted = [
        _Shown(f"The skill {Path(path).parent.name}", path)
        for path in _last_paths(state, frozenset({SKILL_TOOL}))
    ]
    return await anyio.to_thread.run_sync(_read_all, wanted, each, total) if wanted else []


def _last_paths(state: State, tools: frozenset[str]) -> list[str]:
    """Paths that these tools opened with success, newest first; the session's own files left out.

    They come from the record, so that a session that was resumed knows them too.
    """
    own = str(state.deps.folder)
    found: dict[str, None] = {}
    for entry in reversed(state.ledger.entries):
        if entry["kind"] != "message" or entry.get("tool") not in tools:
            continue
        meta: Json = entry.get("meta") or {}
        path = str(meta.get("path") or "")
        failed = any(block.get("is_error") for block in entry["content"])
        if path and not failed and not path.startswith(own):
            found.setdefault(path)
    return list(found)


async def _allowed(state: State, path: str) -> bool:
    """May this be read now, by rules that may have changed since? Nobody is asked."""
    permit, spec = state.deps.unattended, state.spec_of("Read")
    if permit is None or spec is None:
        return True
    return (await permit(spec, {"file_path": path}, state.tools)).allow


def _read_all(wanted: list[_Shown], each: int, total: int) -> list[str]:
    shown: list[str] = []
    for one in wanted:
        if total <= LEAST_ROOM:
            break
        if words := _read(one, min(each, total)):
            shown.append(words)
            total -= tokens.of_text(words)
    return shown


def _read(one: _Shown, room: int) -> str:
    most = max(0, room * 4 - 300 - 2 * len(os.fsencode(one.path)))
    try:
        # A pipe that nobody writes to must not hang us; a device must not be read at all.
        fd = os.open(one.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode) or most <= 0:
            return ""
        data = b""
        while len(data) <= most and (piece := os.read(fd, most + 1 - len(data))):
            data += piece
    except OSError:
        return ""
    finally:
        os.close(fd)
    if b"\0" in data:
        return ""
    words = data[:most].decode("utf-8", "ignore")
    cut = f"\n… (cut; Read {Path(one.path).name} for the rest)" if len(data) > most else ""
    return (
        f"<system-reminder>\n{one.what}, read again after the compaction:\n\n"
        f"{words}{cut}\n</system-reminder>"
    )
