"""The memory section of the system prompt, in all its variants. Reads the package's prompts only.

It is rendered once a session. Today's date is never in it, so midnight breaks no cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lamina import prompts

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
    yield prompts.load(where, directory=section.directory, team_directory=section.team_directory)
    yield prompts.load(f"memory_types{team}")
    yield prompts.load(f"memory_not{team}")
    if variant != "daily_log":
        yield prompts.load(
            f"memory_save{team}" if section.with_index else "memory_save_without_index"
        )
    yield prompts.load("memory_read")
    yield prompts.load("memory_check")
    yield prompts.load("memory_plans")
    if section.past_context and section.sessions:
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
