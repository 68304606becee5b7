"""Conversations for the tests of layers 3 and 4: long enough to be compacted, with facts to look for."""

from __future__ import annotations

from typing import Any

from lamina.models.scripted import ScriptedModel
from lamina.ports import Capabilities

SMALL = Capabilities(window=60_000, max_output=8_000, cache="anthropic", min_cacheable=0)
NO_NOTES = {"notes.enabled": False}


def filler(n: int, tokens: int) -> str:
    """Words that stand nowhere else."""
    return " ".join(f"w{n}q{i}" for i in range(tokens * 4 // 7))


def question(n: int) -> str:
    return f"Question {n}: never change port {7000 + n} in the parser, measure by the table."


def answer(n: int, tokens: int = 3_000) -> str:
    return f"The parser for port {7000 + n} took {1000 + n} ms. " + filler(n, tokens)


def answers(count: int, tokens: int = 3_000) -> list[Any]:
    return [answer(n, tokens) for n in range(count)]


def summary(
    concepts: str = "The parser knows every port by a table.",
    solving: str = "The parser for each port was measured in ms.",
    current: str = "The port of the last question was being looked at.",
    following: str = "Go on with the parser and the next port.",
) -> str:
    """What a good model answers."""
    return (
        "<analysis>SECRET DRAFT</analysis>\n<summary>\n"
        f"## Concepts\n{concepts}\n\n## Problem solving\n{solving}\n\n"
        f"## Current work\n{current}\n\n## Next step\n{following}\n</summary>"
    )


def model(steps: list[Any], *, can: Capabilities = SMALL, **otherwise: Any) -> ScriptedModel:
    otherwise.setdefault("notes", "Nothing to note.")
    otherwise.setdefault("extraction", "Nothing to remember.")
    return ScriptedModel(steps, capabilities=can, otherwise=otherwise)


async def talk(session: Any, count: int, first: int = 0) -> list[Any]:
    """Ask so many questions; the replies."""
    return [await session.ask(question(n)) for n in range(first, first + count)]


def view_text(session: Any) -> str:
    parts: list[str] = []
    for message in session.view().messages:
        for block in message["content"]:
            parts.append(str(block.get("text") or block.get("content") or block.get("input") or ""))
    return "\n".join(parts)


def boundaries(session: Any) -> list[Any]:
    return [
        entry["boundary"]
        for entry in session.ledger.entries
        if entry["kind"] == "edit" and "boundary" in entry
    ]


def warnings(events: Any) -> list[str]:
    return [event.message for event in events if event.kind == "warned"]
