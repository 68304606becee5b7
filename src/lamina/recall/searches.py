"""Searching on request, for the Recall tool and the command line: memories by the shelf, and what was
said in past sessions. Each search is a function of a query and a limit. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from lamina.errors import MemoryStoreError
from lamina.memory.freshness import age_words, heading
from lamina.recall.past import PastSessions
from lamina.recall.shelf import Shelf

# (heading, text, path of a memory or "")
Found = tuple[str, str, str]
Search = Callable[[str, int], Sequence[Found]]
LEAST = 0.15  # somebody asked: show what is only likely, but no noise


def memory_search(shelf: Shelf, now: Callable[[], float]) -> Search:
    """Memories that fit, whole, with their age and file."""

    def search(query: str, limit: int) -> list[Found]:
        found: list[Found] = []
        for hit in shelf.search(query, limit, now=now()):
            if hit.confidence < LEAST:
                continue
            with suppress(MemoryStoreError):
                memory = shelf.store.read(hit.id)
                path = str(shelf.store.directory / memory.path)
                about = f"{memory.description}\n\n" if memory.description else ""
                head = heading(path, memory.mtime, now())
                found.append((head, f"{about}{memory.body}".strip(), memory.path))
        return found

    return search


def session_search(folder: Path, now: Callable[[], float], *, without: str) -> Search:
    """What was said in the other sessions of a project."""
    past = PastSessions(folder, without=without)

    def search(query: str, limit: int) -> list[Found]:
        found: list[Found] = []
        for said in past.search(query, limit, now=now()):
            if said.confidence >= LEAST:
                day = f"{datetime.fromtimestamp(said.when, UTC).astimezone():%Y-%m-%d}"
                head = f"Session {said.session}, {day} ({age_words(said.when, now())}), {said.who}:"
                found.append((head, said.text, ""))
        return found

    return search
