"""Globs over paths: `*` and `?` inside one part, `**` over any number of parts, `{a,b}` and `[a-z]`.

Matching walks the parts, so its cost never explodes, whatever the pattern. It touches nothing.
"""

from __future__ import annotations

import fnmatch
import re
from functools import cache

MOST_BRANCHES = 64
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MAGIC = re.compile(r"[*?\[{]")


def matches(pattern: str, path: str) -> bool:
    """Whether the whole path fits; both are taken as written, with `/` between parts."""
    parts = path.split("/")
    return any(_fits(branch, parts) for branch in _branches(pattern))


def literal_prefix(pattern: str) -> tuple[str, str]:
    """The directory before the first part with magic in it, and the rest of the pattern."""
    parts = pattern.split("/")
    for index, part in enumerate(parts):
        if _MAGIC.search(part) or index == len(parts) - 1:
            prefix = "/".join(parts[:index])
            return (prefix or ("/" if index and not parts[0] else "")), "/".join(parts[index:])
    return "", pattern


def left_below(pattern: str, folder: str) -> set[str]:
    """What the pattern still asks of paths, counted from a folder; none if it can't fit there."""
    left: set[str] = set()
    parts = [part for part in folder.split("/") if part]
    for text in _alternatives(pattern):
        wanted = text.removeprefix("/").split("/")
        reached = _reached(_steps(wanted), parts)
        for at in range(len(wanted)):
            # What follows a `**` that is still open is part of what that asks.
            implied = at > 0 and wanted[at - 1] == "**" and reached >> (at - 1) & 1
            if reached >> at & 1 and not implied:
                left.add("/".join(wanted[at:]))
    return left


# For each part of a pattern its matcher, None for `**`, and the places (a bit each) that can be
# reached once this part is: `**` also stands for nothing.
_Steps = tuple[tuple[re.Pattern[str] | None, int], ...]


@cache
def _branches(pattern: str) -> tuple[_Steps, ...]:
    """The alternatives of the braces."""
    return tuple(_steps(text.split("/")) for text in _alternatives(pattern))


def _steps(parts: list[str]) -> _Steps:
    steps: list[tuple[re.Pattern[str] | None, int]] = []
    reachable = 1 << len(parts)
    for at in reversed(range(len(parts))):
        matcher = part_matcher(parts[at])
        reachable = 1 << at | (reachable if matcher is None else 0)
        steps.append((matcher, reachable))
    return (*reversed(steps), (None, 1 << len(parts)))


def _alternatives(pattern: str) -> list[str]:
    written = [pattern]
    finished: list[str] = []
    while written:
        text = written.pop()
        braces = _BRACES.search(text)
        if braces is None or len(written) + len(finished) >= MOST_BRANCHES:
            finished.append(text)
            continue
        before, after = text[: braces.start()], text[braces.end() :]
        written.extend(before + choice + after for choice in braces[1].split(","))
    return finished


@cache
def part_matcher(part: str) -> re.Pattern[str] | None:
    """One part of a path; `fnmatch` makes expressions that don't backtrack."""
    return None if part == "**" else re.compile(fnmatch.translate(part))


def _fits(steps: _Steps, parts: list[str]) -> bool:
    return bool(_reached(steps, parts) >> (len(steps) - 1))


def _reached(steps: _Steps, parts: list[str]) -> int:
    """The places in the pattern that can have been reached, a bit each, part by part."""
    reached = steps[0][1]
    for part in parts:
        following = 0
        for at in range(len(steps) - 1):
            if reached >> at & 1:
                matcher, places = steps[at]
                if matcher is None:
                    following |= places
                elif matcher.match(part):
                    following |= steps[at + 1][1]
        if not following:
            return 0
        reached = following
    return reached
