"""The memory section of the system prompt, in all its variants. Reads the package's prompts only.

It is rendered once a session. Today's date is never in it, so midnight breaks no cache.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lamina import prompts
from lamina.memory.instructions import Instructions, as_reminder, load, places_for, touched
from lamina.memory.paths import team_is_on

if TYPE_CHECKING:
    from lamina.config import Config, Flags
    from lamina.ports import MemoryStore


_END = "</system-reminder>"


def memory_section(store: MemoryStore, config: Config, flags: Flags, sessions: Path) -> str:
    """The section on memory for the system prompt, as the directory is now."""
    team = flags.on("team") and store.in_files and team_is_on(config, store.state)
    return render(
        MemorySection(
            directory=str(store.directory),
            in_files=store.in_files,
            index=_section_index(store),
            team_directory=str(store.directory / "team") if team else "",
            team_index=_section_index(store, "team") if team else Index(),
            daily_log=flags.on("daily_log"),
            with_index=config.bool("memory.index"),
            past_context=flags.on("past_context"),
            sessions=str(sessions),
            guidelines=config.str("memory.guidelines"),
        )
    )


def known_lines(store: MemoryStore, config: Config) -> str:
    """Both indexes, for a prompt that says little else of memory; "" if nothing is known."""
    loaded = {"": store.index()}
    if store.in_files and team_is_on(config, store.state):
        loaded["From `team/`, known to everyone who works on this repository:\n\n"] = store.index(
            "team"
        )
    return "\n\n".join(
        f"{whose}{one.text.strip()}" + (f"\n\n> {one.warning}" if one.warning else "")
        for whose, one in loaded.items()
        if one.text.strip()
    )


def _section_index(store: MemoryStore, folder: str = "") -> Index:
    loaded = store.index(folder)
    return Index(loaded.text, loaded.warning)


def first_reminder(config: Config, today: str) -> tuple[str, Instructions]:
    """The instruction files and today's date, as one reminder; and what was loaded."""
    found = load(places_for(config))
    instructions = as_reminder(found.loaded).removesuffix(_END).rstrip("\n")
    head = f"{instructions}\n" if instructions else "<system-reminder>"
    return f"{head}\nToday is {today}.\n{_END}", found


def reminder_for(config: Config, path: str, known: Collection[str]) -> tuple[str, list[str]]:
    """What a file that is now read or written brings in: its folders' files, and rules for it."""
    found = touched(places_for(config), path, known)
    return as_reminder(found.loaded), [item.path for item in found.loaded]


def date_reminder(today: str) -> str:
    """For the day after: the first reminder stays as it was."""
    return f"<system-reminder>\nIt is a new day: today is {today}.\n{_END}"


Variant = Literal["daily_log", "team", "personal", "off"]

_EMPTY = "MEMORY.md is currently empty. What you save will be listed here."


@dataclass(frozen=True, slots=True)
class Index:
    """A MEMORY.md as it was loaded: its text, cut to the limits, and the warning about what was cut."""

    text: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class MemorySection:
    """What the section depends on, read once when a session opens."""

    directory: str
    index: Index = Index()
    team_directory: str = ""  # "": no team memory
    team_index: Index = Index()
    enabled: bool = True
    in_files: bool = True  # False: only the tools Remember, Forget and Recall reach it
    daily_log: bool = False
    with_index: bool = True  # False: memories are saved in one step, MEMORY.md is not kept
    past_context: bool = True
    sessions: str = ""  # the folder of recorded sessions, for searching the past
    guidelines: str = ""

    @property
    def variant(self) -> Variant:
        """Off wins; then daily log, then team, then personal."""
        if not self.enabled:
            return "off"
        if self.daily_log:
            return "daily_log"
        return "team" if self.team_directory else "personal"


def render(section: MemorySection) -> str:
    """The section as Markdown; "" when memory is off."""
    if section.variant == "off":
        return ""
    return "\n\n".join(part.strip() for part in _parts(section) if part.strip())


def _parts(section: MemorySection) -> Iterator[str]:
    variant = section.variant
    team = "_team" if variant == "team" else ""
    where = "memory_where_daily" if variant == "daily_log" else f"memory_where{team}"
    if section.in_files:
        directories = {"directory": section.directory, "team_directory": section.team_directory}
        yield prompts.load(where, **directories)
    else:
        yield prompts.load("memory_where_tools")
    yield prompts.load(f"memory_types{team}")
    yield prompts.load(f"memory_not{team}")
    if variant != "daily_log" and section.in_files:
        yield prompts.load(
            f"memory_save{team}" if section.with_index else "memory_save_without_index"
        )
    yield prompts.load("memory_read")
    yield prompts.load("memory_check")
    yield prompts.load("memory_plans")
    if section.past_context and section.sessions and section.in_files:
        yield prompts.load("memory_search", directory=section.directory, sessions=section.sessions)
    if section.guidelines.strip():
        yield f"## More about memory here\n\n{section.guidelines.strip()}"
    if section.with_index or variant == "daily_log":
        yield _index("MEMORY.md", section.directory, section.index)
        if variant == "team":
            yield _index("Team MEMORY.md", section.team_directory, section.team_index)


def _index(title: str, directory: str, index: Index) -> str:
    text = index.text.strip("\r\n") if index.text.strip() else _EMPTY
    warning = f"\n\n> {index.warning}" if index.warning else ""
    return f"## {title}\n\nFrom `{directory}/MEMORY.md`:\n\n{text}{warning}"
