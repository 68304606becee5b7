"""Globs over paths, matched in linear time. Pure.

`*` and `?` stay inside one part of a path, `[a-z]`, `[!a]` and `[^a]` are one character, and `{a,b}`
is either. `**` as a whole part stands for any number of parts, none included: `a/**` matches `a`
too, because a rule about a folder is also about the folder. Inside a part `**` is a plain `*`, as
in .gitignore; braces without a comma are themselves, as in bash (think of `{{cookiecutter}}`).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from functools import lru_cache

MOST_BRANCHES = 64  # alternatives that braces may make; further braces are taken literally
LONGEST = 1_000  # characters of a pattern that a stranger may have written
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MAGIC = re.compile(r"[*?\[{]")

# For each part of a pattern its matcher, None for `**`, and the places (a bit each) that can be
# reached once this part is: `**` also stands for nothing.
_Steps = tuple[tuple[re.Pattern[str] | None, int], ...]


def matches(pattern: str, path: str, *, braces: bool = True) -> bool:
    """Whether the whole path fits; both are taken as written, with `/` between parts."""
    parts = path.split("/")
    return any(
        _reached(steps, parts) >> (len(steps) - 1) for steps in _branches(pattern, braces=braces)
    )


def matches_any(patterns: Iterable[str], path: str) -> bool:
    """Whether a pattern fits, as instruction files write them: one without a slash is looked for at
    any depth, one that ends with a slash means everything below."""
    for pattern in patterns:
        bare = pattern.strip().removeprefix("./")
        if not bare or len(bare) > LONGEST:
            continue
        whole = f"{bare}**" if bare.endswith("/") else bare
        if matches(whole if "/" in whole else f"**/{whole}", path):
            return True
    return False


def literal_prefix(pattern: str) -> tuple[str, str]:
    """The directory before the first part with magic in it, and the rest of the pattern."""
    parts = pattern.split("/")
    for index, part in enumerate(parts):
        if _MAGIC.search(part) or index == len(parts) - 1:
            prefix = "/".join(parts[:index])
            return (prefix or ("/" if index and not parts[0] else "")), "/".join(parts[index:])
    return "", pattern


def left_below(pattern: str, folder: str) -> set[str]:
    """What is left of the pattern for paths that count from a folder; empty if none can fit."""
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


@lru_cache(maxsize=4_096)
def _branches(pattern: str, *, braces: bool) -> tuple[_Steps, ...]:
    written = _alternatives(pattern) if braces else [pattern]
    return tuple(_steps(text.split("/")) for text in written)


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


def _steps(parts: list[str]) -> _Steps:
    steps: list[tuple[re.Pattern[str] | None, int]] = []
    reachable = 1 << len(parts)
    for at in reversed(range(len(parts))):
        matcher = None if parts[at] == "**" else _part(parts[at])
        reachable = 1 << at | (reachable if matcher is None else 0)
        steps.append((matcher, reachable))
    return (*reversed(steps), (None, 1 << len(parts)))


@lru_cache(maxsize=4_096)
def _part(part: str) -> re.Pattern[str]:
    """`fnmatch` makes expressions that don't backtrack."""
    return re.compile(fnmatch.translate(part.replace("[^", "[!")))


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
