"""Glob: finds files by the shape of their path, the newest first. It reads directories only."""

from __future__ import annotations

import os
import stat
import time

import anyio.to_thread

from lamina.errors import ToolError
from lamina.held import Held
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec
from lamina.text.globs import literal_prefix, matches
from lamina.tools import files
from lamina.tools.grep import shown_path
from lamina.tools.walk import OutOfTime, Walk

MOST_FILES = 200
SECONDS = 20

_SPEC = ToolSpec(
    name="Glob",
    description=(
        "Finds files by a glob such as src/**/*.py or *.{md,txt}, the newest first, at most "
        f"{MOST_FILES}. * stays inside one directory, ** crosses them; a pattern without a slash "
        "is looked for at any depth. Files that .gitignore leaves out are shown only if "
        "include_ignored is set."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "minLength": 1, "maxLength": 1_000},
            "path": {"type": "string", "description": "Where to look; the cwd if not given."},
            "include_ignored": {"type": "boolean"},
        },
        "required": ["pattern"],
        "additionalProperties": False,
    },
    clearable=True,
    read_only=True,
)


class Glob:
    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    def prepare(self, input: Json, context: ToolContext) -> Json:  # noqa: A002
        """The directories that the pattern names go into the path, which rules are about."""
        prefix, rest = literal_prefix(str(input["pattern"]))
        anchored = {"pattern": rest if "/" in rest or not prefix else f"./{rest}"}
        root = os.path.join(input.get("path") or str(context.cwd), os.path.expanduser(prefix))
        return files.with_real_path({**input, **anchored, "path": root}, "path", context)

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        ignored = bool(input.get("include_ignored"))
        with files.held(input.get("path") or str(context.cwd), context) as root:
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
                found.append((entry.stat(follow_symlinks=False).st_mtime_ns, path))
    except OutOfTime:
        complete = False
    found.sort(key=lambda item: (-item[0], item[1]))
    shown = [shown_path(path, context.project) for _, path in found[:MOST_FILES]]
    lines = shown or ["No files found."]
    if len(found) > MOST_FILES:
        lines.append(f"[{MOST_FILES} of {len(found):,} shown, the newest. Narrow the pattern.]")
    if withheld is not None and withheld.note:
        lines.append(f"[{withheld.note}]")
    if not complete:
        lines.append(f"[Stopped after {SECONDS} s. Look in a directory further down.]")
    return ToolOutcome("\n".join(lines), meta={"files": len(found), "complete": complete})
