"""Glob: finds files by the shape of their path, the newest first; and the walk behind it, over the
files that belong to a project: not what `.gitignore` and its kin leave out, nor what version control
keeps for itself. It reads directories and ignore files only, and follows no link, so it always ends.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from lamina.errors import ToolError
from lamina.held import Held
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec
from lamina.text.globs import literal_prefix, matches
from lamina.tools import files, takes

MOST_FILES = 200
SECONDS = 20
VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".jj", ".bzr"})
IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")  # a later one is stronger
LARGEST_IGNORE_FILE = 1 << 20  # bytes; the rest is not read
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Glob:
    spec = ToolSpec(
        name="Glob",
        description=(
            "Finds files by a glob such as src/**/*.py or *.{md,txt}, the newest first, at most "
            f"{MOST_FILES}. * stays inside one directory, ** crosses them; a pattern without a slash "
            "is looked for at any depth. Files that .gitignore leaves out are shown only if "
            "include_ignored is set."
        ),
        input_schema=takes(
            "pattern",
            pattern={"type": "string", "minLength": 1, "maxLength": 1_000},
            path={"type": "string", "description": "Where to look; the cwd if not given."},
            include_ignored={"type": "boolean"},
        ),
        clearable=True,
        read_only=True,
    )

    def prepare(self, input: Json, context: ToolContext) -> Json:  # noqa: A002
        """The directories that the pattern names go into the path, which rules are about."""
        prefix, rest = literal_prefix(str(input["pattern"]))
        anchored = {"pattern": rest if "/" in rest or not prefix else f"./{rest}"}
        root = os.path.join(input.get("path") or str(context.cwd), os.path.expanduser(prefix))
        return files.with_real_path({**input, **anchored, "path": root}, "path", context)

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        ignored = bool(input.get("include_ignored"))
        with files.held(input.get("path") or str(context.cwd), context) as root:
            files.require_stored(root.path)
            return await anyio.to_thread.run_sync(
                _find, root, str(input["pattern"]), ignored, context
            )


def _find(root: Held, pattern: str, ignored: bool, context: ToolContext) -> ToolOutcome:
    with files.complaints(root.path, "search"):
        root.check()
    if root.status is None or not stat.S_ISDIR(root.status.st_mode):
        raise ToolError(f"{root.path} is not a directory.")
    whole = pattern.removeprefix("./")
    by_name = "/" not in pattern
    withheld = context.withheld
    found: list[tuple[int, str]] = []
    complete = True
    walk = Walk(root.path, ignored, time.monotonic() + SECONDS)
    try:
        for below, entry in walk.files(root.pin):
            path = os.path.join(root.path, below)
            if not matches(whole, entry.name if by_name else below):
                continue
            if withheld is None or not withheld.hides(path):
                with contextlib.suppress(OSError):  # removed meanwhile
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, path))
    except OutOfTime:
        complete = False
    found.sort(key=lambda item: (-item[0], item[1]))
    shown = [files.shown_path(path, context.project) for _, path in found[:MOST_FILES]]
    lines = shown or ["No files found."]
    if len(found) > MOST_FILES:
        lines.append(f"[{MOST_FILES} of {len(found):,} shown, the newest. Narrow the pattern.]")
    if withheld is not None and withheld.note:
        lines.append(f"[{withheld.note}]")
    if not complete:
        lines.append(f"[Stopped after {SECONDS} s. Look in a directory further down.]")
    return ToolOutcome("\n".join(lines), meta={"files": len(found), "complete": complete})


class OutOfTime(Exception):
    """The walk took longer than its caller can wait."""


@dataclass(frozen=True, slots=True)
class _IgnoreRule:
    """One line of an ignore file."""

    pattern: str
    include: bool  # began with `!`
    directories: bool  # ended with `/`
    anchored: bool  # has a `/` elsewhere: counts from the file's own directory


@dataclass(frozen=True, slots=True)
class _IgnoreRules:
    """The ignore files of one directory, and those of the directories above it."""

    directory: str
    rules: tuple[_IgnoreRule, ...]
    above: _IgnoreRules | None

    def leaves_out(self, path: str, name: str, is_directory: bool) -> bool:
        level: _IgnoreRules | None = self
        while level is not None:
            below = path[len(level.directory.rstrip("/")) + 1 :]
            for rule in reversed(level.rules):
                meant = is_directory or not rule.directories
                if meant and matches(rule.pattern, below if rule.anchored else name, braces=False):
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

        Raises OutOfTime."""
        above: _IgnoreRules | None = None
        if not self.ignored:
            for parent in reversed(self.root.parents):
                above = _rules_of(str(parent), None, above)
        yield from self._below(descriptor, ".", "", above)

    def _below(
        self, parent: int, name: str, below: str, above: _IgnoreRules | None
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


def _rules_of(
    directory: str, descriptor: int | None, above: _IgnoreRules | None
) -> _IgnoreRules | None:
    rules: list[_IgnoreRule] = []
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
    return _IgnoreRules(directory.rstrip("/") or "/", tuple(rules), above) if rules else above


def _parse(line: str) -> _IgnoreRule | None:
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
    # In an ignore file `name/**` means what is in the directory, never the directory itself.
    pattern = pattern + "/*" if pattern.endswith("/**") else pattern
    return _IgnoreRule(pattern, include, directories, anchored)
