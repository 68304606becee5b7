"""Expand: shows what a folded, snipped or summarised span of the conversation stood for.

The text comes from the session's record through the context; nothing is changed by looking.
"""

from __future__ import annotations

import anyio.to_thread

from lamina.errors import ToolError
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec
from lamina.tools.text import shown

LINES = 500
MOST_CHARACTERS = 40_000

_SPEC = ToolSpec(
    name="Expand",
    description=(
        "Shows the original text of a part of this conversation that was folded, snipped or "
        f"summarised, by the id shown in its place: {LINES} lines at a time, from offset on, or "
        "only the lines that contain the text given as search."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "id": {"type": "string", "minLength": 1, "maxLength": 200},
            "offset": {"type": "integer", "minimum": 1, "description": "First line to show."},
            "limit": {"type": "integer", "minimum": 1, "description": "How many lines."},
            "search": {"type": "string", "description": "Show only lines with this text."},
        },
        "required": ["id"],
        "additionalProperties": False,
    },
    read_only=True,
)


class Expand:
    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        if context.expand is None:
            raise ToolError("Nothing is folded in this session.")
        span = await anyio.to_thread.run_sync(context.expand, str(input["id"]))
        offset, limit = int(input.get("offset") or 1), int(input.get("limit") or LINES)
        return _show(shown(span), offset, limit, str(input.get("search") or ""))


def _show(span: str, offset: int, limit: int, search: str) -> ToolOutcome:
    lines = span.splitlines()
    wanted = [
        (number, line)
        for number, line in enumerate(lines, 1)
        if number >= offset and search.casefold() in line.casefold()
    ]
    part: list[str] = []
    size = 0
    last = 0
    for number, line in wanted[:limit]:
        room = MOST_CHARACTERS - size
        if room <= 0:
            break
        part.append(line[:room])
        size += len(line) + 1
        last = number
    meta = {"lines": len(lines), "shown": len(part)}
    if not part:
        what = f"with {search!r} " if search else ""
        return ToolOutcome(f"No line {what}from line {offset} on; it has {len(lines)}.", meta=meta)
    if len(part) < len(wanted):
        part.append(f"[Up to line {last} of {len(lines)}; go on with offset {last + 1}.]")
    return ToolOutcome("\n".join(part), meta=meta)
