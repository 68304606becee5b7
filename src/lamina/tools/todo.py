"""Todo: the session's open tasks, kept in its record, so that compaction can copy them.

It reads and replaces the list through the context and touches nothing else.
"""

from __future__ import annotations

from lamina.errors import ToolError
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec

MOST_TASKS = 200
LONGEST_TASK = 1_000
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}

_SPEC = ToolSpec(
    name="Todo",
    description=(
        "Keeps the list of tasks of this session. Give the whole list to replace it, nothing to "
        "read it. Use it for work of several steps: one task in progress at a time, each marked "
        "completed as soon as it is done."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "maxItems": MOST_TASKS,
                "items": {
                    "type": "object",
                    "properties": {
                        "content": {"type": "string", "minLength": 1, "maxLength": LONGEST_TASK},
                        "status": {"type": "string", "enum": list(_MARKS)},
                    },
                    "required": ["content", "status"],
                    "additionalProperties": False,
                },
            }
        },
        "additionalProperties": False,
    },
    parallel=False,
)


class Todo:
    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        if context.todos is None:
            raise ToolError("This session keeps no list of tasks.")
        tasks = context.todos(input.get("todos"))
        counts = {name: sum(t.get("status") == name for t in tasks) for name in _MARKS}
        lines = [f"{_MARKS.get(str(t.get('status')), '[ ]')} {t.get('content')}" for t in tasks]
        return ToolOutcome("\n".join(lines) or "There are no tasks.", meta=counts)
