"""Recall: searches memories and, when asked to, past sessions.

What does the searching comes in as two functions; nothing is changed by looking.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio.to_thread

from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec

SHOWN_CHARACTERS = 1_500  # of one memory or turn
_MOST = 20

_SPEC = ToolSpec(
    name="Recall",
    description=(
        "Searches what you remember: the memories that fit the query best, with their files. With "
        "where `sessions`, searches what was said in past sessions of this project instead, for "
        "when the memories don't say it. Use plain words, narrow ones first."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "maxLength": 2_000},
            "where": {"type": "string", "enum": ["memories", "sessions"]},
            "limit": {"type": "integer", "minimum": 1, "maximum": _MOST},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    read_only=True,
)


@dataclass(frozen=True, slots=True)
class Remembered:
    """One thing that a search found."""

    heading: str  # what it is, where it stands and how old it is
    text: str
    path: str = ""  # of a memory, relative


Search = Callable[[str, int], Sequence[Remembered]]


class Recall:
    def __init__(self, memories: Search, sessions: Search) -> None:
        self._memories = memories
        self._sessions = sessions

    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002, ARG002
        query, limit = str(input["query"]), int(input.get("limit") or 5)
        past = input.get("where") == "sessions"
        search = self._sessions if past else self._memories
        # A search changes nothing: a turn that is cancelled need not wait for it.
        found = await anyio.to_thread.run_sync(search, query, limit, abandon_on_cancel=True)
        if not found:
            where = "past session" if past else "memory"
            more = "" if past else " Past sessions may: where `sessions` looks there."
            return ToolOutcome(f"No {where} says anything about that.{more}", meta={"found": 0})
        whole = [one.path for one in found if one.path and len(one.text) <= SHOWN_CHARACTERS]
        meta = {"found": len(found), "memories": whole}
        return ToolOutcome("\n\n".join(map(_shown, found)), meta=meta)


def _shown(one: Remembered) -> str:
    text = one.text.strip()
    if len(text) > SHOWN_CHARACTERS:
        text = f"{text[:SHOWN_CHARACTERS].rstrip()} …\n[Cut here.]"
    return f"{one.heading}\n{text}"
