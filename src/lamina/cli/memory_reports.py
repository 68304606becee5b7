"""`lamina memory search`: finds memories as recall does, by the local ranker. Reads memories; keeps the
derived index up to date.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lamina.cli.terminal import note, one_line, out, out_json, table, width
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.memories import Memory
    from lamina.ports import MemoryStore
    from lamina.recall import Match

_LEAST_TEXT = 20  # columns for what a memory says


def run(args: argparse.Namespace, store: MemoryStore) -> int:
    from lamina.recall.memory_index import MemoryIndex, fitting

    words = " ".join(args.words)
    if not words.strip():
        raise UsageError("Give a word to search for: lamina memory search deploy")
    found = fitting(MemoryIndex(store), words, args.number, time.time())
    if args.json:
        out_json([_as_json(match, memory) for match, memory in found])
    elif found:
        out(table(_rows(found)))
    else:
        note("Nothing found.")
    return 0


def _rows(found: Sequence[tuple[Match, Memory]]) -> list[list[str]]:
    """Names as whole as they can be: they are what other commands ask for."""
    longest = max(len(memory.path) for _, memory in found)
    name = max(20, min(longest, width() - 16 - _LEAST_TEXT))
    room = max(_LEAST_TEXT, width() - 16 - min(name, longest))
    return [
        [
            f"{match.confidence:.0%}",
            memory.type or "-",
            one_line(memory.path, name),
            one_line(memory.description or memory.body, room),
        ]
        for match, memory in found
    ]


def _as_json(match: Match, memory: Memory) -> dict[str, Any]:
    from lamina.cli.memory import as_json

    parts = {name: round(value, 3) for name, value in match.parts.items() if value}
    return {
        "score": round(match.score, 3),
        "confidence": round(match.confidence, 3),
        "parts": parts,
        **as_json(memory),
    }
