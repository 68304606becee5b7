"""What a session's prompt says of memory and instructions: the section of the system prompt, and the
reminder before the first message. Reads the memory's index and instruction files, writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lamina.memory.instruction_places import places_for
from lamina.memory.instructions import Instructions, as_reminder, load, touched
from lamina.memory.prompt import Index, MemorySection, render

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.flags import Flags
    from lamina.memory.file_store import FileStore

_END = "</system-reminder>"


def memory_section(store: FileStore, config: Config, flags: Flags, sessions: Path) -> str:
    """The section on memory for the system prompt, as the directory is now."""
    return render(
        MemorySection(
            directory=str(store.directory),
            index=_index(store),
            daily_log=flags.on("daily_log"),
            with_index=config.bool("memory.index"),
            past_context=flags.on("past_context"),
            sessions=str(sessions),
            guidelines=config.str("memory.guidelines"),
        )
    )


def _index(store: FileStore) -> Index:
    loaded = store.index("")
    return Index(loaded.text, loaded.warning)


def first_reminder(config: Config, now: float) -> tuple[str, Instructions]:
    """The instruction files and today's date, as one reminder; and what was loaded."""
    found = load(places_for(config))
    instructions = as_reminder(found.loaded).removesuffix(_END).rstrip("\n")
    head = f"{instructions}\n" if instructions else "<system-reminder>"
    return f"{head}\nToday is {day(now)}.\n{_END}", found


def reminder_for(config: Config, path: str, known: Collection[str]) -> tuple[str, list[str]]:
    """What a file that is now read or written brings in: its folders' files, and rules for it."""
    found = touched(places_for(config), path, known)
    return as_reminder(found.loaded), [item.path for item in found.loaded]


def date_reminder(now: float) -> str:
    """For the day after: the first reminder stays as it was."""
    return f"<system-reminder>\nIt is a new day: today is {day(now)}.\n{_END}"


def day(now: float) -> str:
    """The user's own date."""
    return f"{datetime.fromtimestamp(now, UTC).astimezone():%A, %Y-%m-%d}"
