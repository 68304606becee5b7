"""Grep: searches the content of the project's files by regular expression.

ripgrep does it where its wheel (or a system's own) is installed; else a search in Python with the
same rules, syntax and output. Files that `.gitignore` leaves out are left out. It only reads.
"""

from __future__ import annotations

import math
import os
import shutil
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, cast

import anyio.to_thread

from lamina.errors import ToolError
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec
from lamina.tools import files
from lamina.tools.process import Command, run_command
from lamina.tools.walk import VERSION_CONTROL

SECONDS = 30
HEAD_LIMIT = 250
LONGEST_LINE = 500
MOST_OUTPUT = 16_000_000  # bytes taken from one search

Mode = Literal["content", "files", "count"]
_LINES = {"type": "integer", "minimum": 0, "maximum": 100}

_SPEC = ToolSpec(
    name="Grep",
    description=(
        "Searches file contents by a regular expression (RE2 and ripgrep syntax, line by line). "
        "output_mode: files (paths, the default), content (matching lines with path and line "
        "number; -A, -B, -C add lines around them), count (matching lines a file). Hidden files "
        "are searched, ignored and binary ones are not."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "minLength": 1, "maxLength": 10_000},
            "path": {"type": "string", "description": "File or directory; the cwd if not given."},
            "output_mode": {"type": "string", "enum": ["content", "files", "count"]},
            "glob": {"type": "string", "description": "Only such files, for instance *.{ts,tsx}."},
            "type": {"type": "string", "description": "Only this kind: py, js, ts, rust, go …"},
            "-i": {"type": "boolean", "description": "Upper and lower case are the same."},
            "-A": {**_LINES, "description": "Lines to show after each match."},
            "-B": {**_LINES, "description": "Lines to show before each match."},
            "-C": {**_LINES, "description": "Lines to show before and after each match."},
            "head_limit": {
                "type": "integer",
                "minimum": 1,
                "description": f"Lines or paths to show at most; {HEAD_LIMIT} if not given.",
            },
            "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 300},
        },
        "required": ["pattern"],
        "additionalProperties": False,
    },
    clearable=True,
    read_only=True,
    threshold=20_000,
)


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for and how to show it."""

    pattern: str
    root: Path
    mode: Mode = "files"
    glob: str = ""
    type: str = ""
    any_case: bool = False
    before: int = 0
    after: int = 0
    timeout: float = SECONDS

    @classmethod
    def of(cls, input: Json, root: Path) -> Query:  # noqa: A002
        around = int(input.get("-C") or 0)
        return cls(
            pattern=input["pattern"],
            root=root,
            mode=cast("Mode", input.get("output_mode") or "files"),
            glob=input.get("glob") or "",
            type=input.get("type") or "",
            any_case=bool(input.get("-i")),
            before=int(input.get("-B") or around),
            after=int(input.get("-A") or around),
            timeout=float(input.get("timeout") or SECONDS),
        )


@dataclass(slots=True)
class Found:
    """The lines of the answer, before they are cut to the limit."""

    lines: list[str]
    complete: bool = True


class Grep:
    def __init__(self, ripgrep: str | None = "find") -> None:
        """`ripgrep`: the binary; "find" looks for it, None searches in Python."""
        self._ripgrep = find_ripgrep() if ripgrep == "find" else ripgrep

    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    def prepare(self, input: Json, context: ToolContext) -> Json:  # noqa: A002
        return files.with_real_path({"path": str(context.cwd), **input}, "path", context)

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        root = files.resolve(input.get("path") or str(context.cwd), context)
        if not await anyio.to_thread.run_sync(root.exists):
            raise ToolError(f"{root} does not exist.")
        query = Query.of(input, root)
        if self._ripgrep is None:
            from lamina.tools.grep_fallback import search

            found = await anyio.to_thread.run_sync(search, query, context.project)
        else:
            found = await _search(self._ripgrep, query, context.project)
        return _outcome(found, query, int(input.get("head_limit") or HEAD_LIMIT))


@cache
def find_ripgrep() -> str | None:
    """The binary of the wheel beside this Python, else one on the system's path."""
    return shutil.which("rg", path=sysconfig.get_path("scripts")) or shutil.which("rg")


def shown_path(path: str, project: Path) -> str:
    """A path in the answer: relative inside the project, else absolute."""
    inside = path.startswith(f"{project}/")
    return os.fsencode(path[len(str(project)) + 1 :] if inside else path).decode("utf-8", "replace")


def shown_line(path: str, number: int, text: str, *, is_match: bool) -> str:
    mark = ":" if is_match else "-"
    text = text.removesuffix("\r")
    cut = text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE] + "…"
    return f"{path}{mark}{number}{mark}{cut}"


async def _search(ripgrep: str, query: Query, project: Path) -> Found:
    # From the place itself, so that a glob with a slash counts from there. (ripgrep 14 overlooks
    # some anchored lines of ignore files further up; the search in Python does not.)
    is_directory = await anyio.to_thread.run_sync(query.root.is_dir)
    base = query.root if is_directory else query.root.parent
    command = Command(
        argv=[ripgrep, *_arguments(query), "--", "." if is_directory else f"./{query.root.name}"],
        cwd=base,
        env={},
        timeout=query.timeout,
        cap=2 * MOST_OUTPUT + (1 << 20),
        join_streams=False,
        stop_at=MOST_OUTPUT,
    )
    try:
        finished = await run_command(command)
    except OSError as error:
        raise ToolError(f"ripgrep could not be started: {error.strerror}.") from error
    complete = not (finished.timed_out or finished.enough)
    if finished.code == 2 and not finished.out.total and complete:
        raise ToolError(_why(finished.err.whole().decode("utf-8", "replace"), query))
    output = finished.out.whole()[:MOST_OUTPUT]
    return Found(_lines(output, query.mode, base, project), complete)


def _arguments(query: Query) -> list[str]:
    arguments = ["--no-config", "--color=never", "--no-messages", "--crlf", "--sort=path", "--null"]
    arguments += ["--hidden", "--no-require-git", "--no-ignore-global", "--no-ignore-exclude"]
    arguments += ["--no-heading", "--with-filename", "--line-number"]
    if query.mode == "files":
        arguments.append("--files-with-matches")
    elif query.mode == "count":
        arguments.append("--count")
    else:
        arguments += [f"--before-context={query.before}", f"--after-context={query.after}"]
    if query.any_case:
        arguments.append("--ignore-case")
    if query.type:
        arguments.append(f"--type={query.type}")
    if query.glob:
        arguments.append(f"--glob={query.glob}")
    arguments += [f"--glob=!{name}" for name in sorted(VERSION_CONTROL)]
    return [*arguments, f"--regexp={query.pattern}"]


def _why(complaint: str, query: Query) -> str:
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    last = lines[-1].removeprefix("rg: ").removeprefix("error: ") if lines else "unknown trouble"
    if "unrecognized file type" in complaint:
        return f"ripgrep knows no file type {query.type!r}. Use glob instead."
    if "error parsing glob" in complaint:
        return f"{query.glob!r} is not a valid glob: {last}."
    return f"{query.pattern!r} is not a regular expression that can be searched for: {last}."


def _lines(output: bytes, mode: Mode, base: Path, project: Path) -> list[str]:
    def shown(path: bytes) -> str:
        return shown_path(os.path.normpath(base / os.fsdecode(path)), project)

    if mode == "files":
        return [shown(path) for path in output.split(b"\0")[:-1]]
    lines: list[str] = []
    for line in output.split(b"\n")[:-1]:
        path, separator, rest = line.partition(b"\0")
        if not separator:
            lines.append("--")
            continue
        name = shown(path)
        if mode == "count":
            lines.append(f"{name}:{rest.decode()}")
            continue
        digits = rest[: len(rest) - len(rest.lstrip(b"0123456789"))]
        text = rest[len(digits) + 1 :].decode("utf-8", "replace")
        is_match = rest[len(digits) : len(digits) + 1] == b":"
        lines.append(shown_line(name, int(digits or 0), text, is_match=is_match))
    return lines


def _outcome(found: Found, query: Query, limit: int) -> ToolOutcome:
    total = len(found.lines)
    meta = {"matches": total, "mode": query.mode, "complete": found.complete}
    notes: list[str] = []
    if total > limit:
        notes.append(f"{limit:,} of {total:,} shown. Narrow the search, or raise head_limit.")
    if not found.complete:
        notes.append(f"Stopped after {math.ceil(query.timeout)} s or {MOST_OUTPUT:,} bytes.")
    shown = found.lines[:limit] or ["No matches."]
    if notes:
        shown.append(f"[{' '.join(notes)}]")
    return ToolOutcome("\n".join(shown), meta=meta)
