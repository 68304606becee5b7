"""Glob: finds files by the shape of their path, the newest first. It reads directories only."""

from __future__ import annotations

import os
import time
from pathlib import Path

import anyio.to_thread

from lamina.errors import ToolError
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec
from lamina.tools import files
from lamina.tools.globs import literal_prefix, matches
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
        root = files.resolve(input.get("path") or str(context.cwd), context)
        ignored = bool(input.get("include_ignored"))
        return await anyio.to_thread.run_sync(
            _find, root, str(input["pattern"]), ignored, context.project
        )


def _find(root: Path, pattern: str, ignored: bool, project: Path) -> ToolOutcome:
    if not root.is_dir():
        raise ToolError(f"{root} is not a directory.")
    whole = pattern.removeprefix("./")
    by_name = "/" not in pattern
    found: list[tuple[int, str]] = []
    complete = True
    try:
        for entry in Walk(root, ignored, time.monotonic() + SECONDS).files():
            below = entry.name if by_name else os.path.relpath(entry.path, root)
            if matches(whole, below):
                found.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.path))
    except OutOfTime:
        complete = False
    found.sort(key=lambda item: (-item[0], item[1]))
    lines = [shown_path(path, project) for _, path in found[:MOST_FILES]] or ["No files found."]
    if len(found) > MOST_FILES:
        lines.append(f"[{MOST_FILES} of {len(found):,} shown, the newest. Narrow the pattern.]")
    if not complete:
        lines.append(f"[Stopped after {SECONDS} s. Look in a directory further down.]")
    return ToolOutcome("\n".join(lines), meta={"files": len(found), "complete": complete})
