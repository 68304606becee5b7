"""`lamina memory search`: finds memories as recall does, by the local ranker. Reads memories; keeps the
derived index up to date.
"""

from __future__ import annotations

import argparse
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lamina.cli.terminal import note, one_line, out, out_json, table, width
from lamina.errors import MemoryStoreError

if TYPE_CHECKING:
    from lamina.memories import Memory
    from lamina.memory.file_store import FileStore
    from lamina.recall.rank import Hit


def run(args: argparse.Namespace, store: FileStore) -> int:
    from lamina.recall.shelf import Shelf

    hits = Shelf(store).search(" ".join(args.words), args.number, now=time.time())
    found: list[tuple[Hit, Memory]] = []
    for hit in hits:
        with suppress(MemoryStoreError):  # it went meanwhile
            found.append((hit, store.read(hit.id)))
    if args.json:
        out_json([_as_json(hit, memory) for hit, memory in found])
        return 0
    room = max(20, width() - 56)
    rows = [
        [
            f"{hit.confidence:.0%}",
            memory.type or "-",
            one_line(memory.path, 40),
            one_line(memory.description or memory.body, room),
        ]
        for hit, memory in found
    ]
    out(table(rows)) if rows else note("Nothing found.")
    return 0


def _as_json(hit: Hit, memory: Memory) -> dict[str, Any]:
    from lamina.cli.memory import as_json

    parts = {name: round(value, 3) for name, value in hit.parts.items() if value}
    return {
        "score": round(hit.score, 3),
        "confidence": round(hit.confidence, 3),
        "parts": parts,
        **as_json(memory),
    }
