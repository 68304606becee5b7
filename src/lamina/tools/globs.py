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
        matchers = tuple(part_matcher(part) for part in wanted)
        left |= {"/".join(wanted[at:]) for at in _reached(matchers, parts) if at < len(wanted)}
    return left


@cache
def _branches(pattern: str) -> tuple[tuple[re.Pattern[str] | None, ...], ...]:
    """The alternatives of the braces, each as a matcher a part; None stands for `**`."""
    return tuple(
        tuple(part_matcher(part) for part in text.split("/")) for text in _alternatives(pattern)
    )


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


def _fits(pattern: tuple[re.Pattern[str] | None, ...], parts: list[str]) -> bool:
    return len(pattern) in _reached(pattern, parts)


def _reached(pattern: tuple[re.Pattern[str] | None, ...], parts: list[str]) -> set[int]:
    """The set of places in the pattern that can have been reached, part by part."""
    reached = _skip_stars(pattern, {0})
    for part in parts:
        following: set[int] = set()
        for at in reached:
            if at == len(pattern):
                continue
            matcher = pattern[at]
            if matcher is None:
                following.add(at)
            elif matcher.match(part):
                following.add(at + 1)
        reached = _skip_stars(pattern, following)
    return reached


def _skip_stars(pattern: tuple[re.Pattern[str] | None, ...], reached: set[int]) -> set[int]:
    """`**` also stands for nothing."""
    for at in sorted(reached):
        after = at
        while after < len(pattern) and pattern[after] is None:
            after += 1
            reached.add(after)
    return reached
