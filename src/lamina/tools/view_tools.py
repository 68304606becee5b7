"""The tools by which an agent works on its own view: Expand shows what was folded, snipped or
summarised, Snip takes finished rounds out, Todo keeps the list of tasks.

They touch nothing but the session (`ports.ToolSession`), which keeps all of it in its record.
"""

from __future__ import annotations

import anyio.to_thread

from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec
from lamina.tools import counted, takes
from lamina.tools.files import shown

LINES = 500
MOST_CHARACTERS = 40_000  # of one answer: below the 50,000 at which layer 1 would move it to disk
MOST_TASKS = 200
LONGEST_TASK = 1_000  # characters
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
_TASK = takes(
    "content status",
    content={"type": "string", "minLength": 1, "maxLength": LONGEST_TASK},
    status={"type": "string", "enum": list(_MARKS)},
)


class Expand:
    spec = ToolSpec(
        name="Expand",
        description=(
            "Shows the original text of a part of this conversation that was folded, cleared, moved, "
            "snipped or summarised, by the id shown in its place or the id of the tool call: "
            f"{LINES} lines at a time, from offset on, or only the lines that contain the text "
            "given as search."
        ),
        input_schema=takes(
            "id",
            id={"type": "string", "minLength": 1, "maxLength": 200},
            offset=counted("First line to show."),
            column=counted("First character of that line, where it is very long."),
            limit=counted("How many lines."),
            search={"type": "string", "description": "Show only lines with this text."},
        ),
        read_only=True,
    )

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        span = await anyio.to_thread.run_sync(context.session.expand, str(input["id"]))
        offset, limit = int(input.get("offset") or 1), int(input.get("limit") or LINES)
        column = int(input.get("column") or 1)
        return lines_shown(shown(span), offset, column, limit, str(input.get("search") or ""))


def lines_shown(span: str, offset: int, column: int, limit: int, search: str) -> ToolOutcome:
    """Lines from a place on; whoever puts the parts together has every byte but a last newline."""
    lines = span.removesuffix("\n").split("\n")
    wanted = [
        (number, line)
        for number, line in enumerate(lines, 1)
        if number >= offset and search.casefold() in line.casefold()
    ]
    part: list[str] = []
    room, goes_on = MOST_CHARACTERS, ""
    for number, line in wanted[:limit]:
        start = column - 1 if number == offset else 0
        piece = line[start : start + MOST_CHARACTERS]
        if len(piece) > room:
            break
        part.append(piece)
        room -= len(piece) + 1
        if start + len(piece) < len(line):
            goes_on = f"offset {number} and column {start + len(piece) + 1}"
            break
    meta = {"lines": len(lines), "shown": len(part)}
    if not part:
        what = f"with {search!r} " if search else ""
        return ToolOutcome(f"No line {what}from line {offset} on; it has {len(lines)}.", meta=meta)
    last = wanted[len(part) - 1][0]
    if goes_on or len(part) < len(wanted):
        goes_on = goes_on or f"offset {last + 1}"
        part.append(f"[Up to line {last} of {len(lines)}; continue with {goes_on}.]")
    return ToolOutcome("\n".join(part), meta=meta)


class Snip:
    spec = ToolSpec(
        name="Snip",
        description=(
            "Takes rounds of this conversation that are finished and no longer needed out of your "
            "view, to make room; one line that says what they were stays, and Expand shows them "
            "again. A round begins with a message of the user. Rounds are counted from 1, the "
            "oldest in view; the present one can't be snipped. Without first, the rounds in view "
            "are listed."
        ),
        input_schema=takes(
            first=counted("First round to snip."),
            last=counted("Last round to snip; left out, only the first."),
            what={"type": "string", "maxLength": 300, "description": "What was done in them."},
        ),
        parallel=False,
    )

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        first = int(input.get("first") or 0)
        last = int(input.get("last") or first)
        return ToolOutcome(context.session.snip(first, last, str(input.get("what") or "")))


class Todo:
    spec = ToolSpec(
        name="Todo",
        description=(
            "Keeps the list of tasks of this session. Give the whole list to replace it, nothing "
            "to read it. Use it for work of several steps: one task in progress at a time, each "
            "marked completed as soon as it is done."
        ),
        input_schema=takes(todos={"type": "array", "maxItems": MOST_TASKS, "items": _TASK}),
        parallel=False,
    )

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        tasks = context.session.todos(input.get("todos"))
        counts = {name: sum(t.get("status") == name for t in tasks) for name in _MARKS}
        lines = [f"{_MARKS.get(str(t.get('status')), '[ ]')} {t.get('content')}" for t in tasks]
        return ToolOutcome("\n".join(lines) or "There are no tasks.", meta=counts)
