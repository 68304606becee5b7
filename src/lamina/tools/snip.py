"""Snip: the agent takes finished rounds out of its view; one line says what they were (L2.5).

The work is the session's, through the context; here the input is read and the answer worded.
"""

from __future__ import annotations

from lamina.errors import ToolError
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec

_SPEC = ToolSpec(
    name="Snip",
    description=(
        "Takes rounds of this conversation that are finished and no longer needed out of your "
        "view, to make room; one line with what they were stays, and Expand shows them again. A "
        "round begins with a message of the user. Rounds are counted from 1, the oldest in view; "
        "the present one can't be snipped. Without first, the rounds in view are listed."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "first": {"type": "integer", "minimum": 1, "description": "First round to snip."},
            "last": {"type": "integer", "minimum": 1, "description": "Last one; as first if left."},
            "what": {"type": "string", "maxLength": 300, "description": "What was done in them."},
        },
        "additionalProperties": False,
    },
    read_only=False,
    parallel=False,
)


class Snip:
    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        if context.snip is None:
            raise ToolError("Nothing can be snipped here.")
        first = int(input.get("first") or 0)
        last = int(input.get("last") or first)
        return ToolOutcome(context.snip(first, last, str(input.get("what") or "")))
