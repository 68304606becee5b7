"""Write: creates a file or replaces it whole, atomically, and only what the agent has seen.

It writes the named file and makes its missing parent directories; nothing else.
"""

from __future__ import annotations

import anyio.to_thread

from lamina.errors import ToolError
from lamina.held import Held
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec
from lamina.tools import files
from lamina.tools.text import is_whole_unicode

_SPEC = ToolSpec(
    name="Write",
    description=(
        "Creates a file, or replaces all of its content. A file that exists must have been read "
        "whole before. To change a part of a file, use Edit instead. Missing directories are made."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "The file; absolute is best."},
            "content": {"type": "string", "description": "The whole new content."},
        },
        "required": ["file_path", "content"],
        "additionalProperties": False,
    },
    clearable=True,
    parallel=False,
)


class Write:
    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    def prepare(self, input: Json, context: ToolContext) -> Json:  # noqa: A002
        return files.with_real_path(input, "file_path", context)

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        content: str = input["content"]
        if not is_whole_unicode(content):
            raise ToolError("The content has lone surrogates, which can't be stored. Remove them.")
        with files.held(input["file_path"], context) as place:
            return await anyio.to_thread.run_sync(_write, place, content, context)


def _write(place: Held, content: str, context: ToolContext) -> ToolOutcome:
    path = place.path
    old = before = None
    if place.status is not None:
        old, before = files.load(place)
        known = files.require_unchanged(path, old, context, "overwrite") if old else None
        if known is not None and not known.whole:
            raise ToolError(
                f"Only a part of {path} was read. Read all of it before you overwrite it, or use Edit."
            )
    data = content.encode("utf-8")
    status = files.put(place, data, old, before, context)
    context.files[str(path)] = files.seen(data, status, whole=True)
    lines = len(content.splitlines())
    meta = {"path": str(path), "lines": lines, "created": before is None}
    verb = "Created" if before is None else "Replaced"
    return ToolOutcome(f"{verb} {path} ({lines:,} lines).", meta=meta)
