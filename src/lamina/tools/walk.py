"""The files below a directory that belong to a project: what `.gitignore` and its kin leave out is
left out, and so is what version control keeps for itself.

Reads directories and ignore files only. Links are never followed, so a walk always ends.
"""

from __future__ import annotations

import fnmatch
import math
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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


VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".jj", ".bzr"})
IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")  # a later one is stronger
LARGEST_IGNORE_FILE = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OutOfTime(Exception):
    """The walk took longer than its caller can wait."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """One line of an ignore file."""

    pattern: str
    include: bool  # began with `!`
    directories: bool  # ended with `/`
    anchored: bool  # has a `/` elsewhere: counts from the file's own directory

    def decides(self, below: str, name: str, is_directory: bool) -> bool:
        if self.directories and not is_directory:
            return False
        return matches(self.pattern, below if self.anchored else name)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The ignore files of one directory, and those of the directories above it."""

    directory: str
    rules: tuple[_Rule, ...]
    above: _Rules | None

    def leaves_out(self, path: str, name: str, is_directory: bool) -> bool:
        level: _Rules | None = self
        while level is not None:
            below = path[len(level.directory.rstrip("/")) + 1 :]
            for rule in reversed(level.rules):
                if rule.decides(below, name, is_directory):
                    return not rule.include
            level = level.above
        return False


@dataclass(frozen=True, slots=True)
class Walk:
    """How to go through a directory. `ignored` shows what ignore files leave out, too."""

    root: Path
    ignored: bool = False
    deadline: float = math.inf

    def files(self, descriptor: int) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """The regular files, sorted, by their path below the root, which the descriptor is of.

        Raises OutOfTime.
        """
        above: _Rules | None = None
        if not self.ignored:
            for parent in reversed(self.root.parents):
                above = _rules_of(str(parent), None, above)
        yield from self._below(descriptor, ".", "", above)

    def _below(
        self, parent: int, name: str, below: str, above: _Rules | None
    ) -> Iterator[tuple[str, os.DirEntry[str]]]:
        if time.monotonic() > self.deadline:
            raise OutOfTime
        try:
            descriptor = os.open(name, _FOLDER, dir_fd=parent)
        except OSError:
            return  # vanished, swapped for a link, or not ours to list
        try:
            with os.scandir(descriptor) as scan:
                entries = sorted(scan, key=lambda entry: os.fsencode(entry.name))
            directory = os.path.join(self.root, below)
            rules = above if self.ignored else _rules_of(directory, descriptor, above)
            for entry in entries:
                if entry.is_symlink() or entry.name in VERSION_CONTROL:
                    continue
                path = os.path.join(directory, entry.name)
                is_directory = entry.is_dir(follow_symlinks=False)
                if rules is not None and rules.leaves_out(path, entry.name, is_directory):
                    continue
                further = os.path.join(below, entry.name)
                if is_directory:
                    yield from self._below(descriptor, entry.name, further, rules)
                elif entry.is_file(follow_symlinks=False):
                    yield further, entry
        finally:
            os.close(descriptor)


def _rules_of(directory: str, descriptor: int | None, above: _Rules | None) -> _Rules | None:
    rules: list[_Rule] = []
    for name in IGNORE_FILES:
        place = name if descriptor is not None else os.path.join(directory, name)
        try:
            # A pipe of that name must not hold us up.
            opened = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
            with open(opened, "rb") as file:
                text = (file.read(LARGEST_IGNORE_FILE) or b"").decode("utf-8", "replace")
        except OSError:
            continue
        rules += [rule for line in text.split("\n") if (rule := _parse(line)) is not None]
    return _Rules(directory.rstrip("/") or "/", tuple(rules), above) if rules else above


def _parse(line: str) -> _Rule | None:
    line = line.removesuffix("\r")
    if not line.endswith("\\ "):
        line = line.rstrip(" ")
    if not line or line.startswith("#"):
        return None
    include = line.startswith("!")
    pattern = line[1:] if include else line
    directories = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    anchored = "/" in pattern
    pattern = pattern.removeprefix("/").replace("\\#", "#").replace("\\!", "!").replace("\\ ", " ")
    if not pattern:
        return None
    # `name/**` means what is inside of the directory, never the directory itself.
    pattern = pattern + "/*" if pattern.endswith("/**") else pattern
    pattern = pattern.replace("{", "[{]")
    return _Rule(pattern, include, directories, anchored)
