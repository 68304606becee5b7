"""Searching on request, for the Recall tool and the command line: memories by the shelf, and what was
said in past sessions. Each search is a function of a query and a limit. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lamina.errors import MemoryStoreError
from lamina.memories import Memory
from lamina.memory.freshness import age_words, heading
from lamina.recall.past import PastSessions, Said
from lamina.recall.rank import Hit
from lamina.recall.shelf import Shelf

# (heading, text, path of a memory or "")
Found = tuple[str, str, str]
Search = Callable[[str, int], Sequence[Found]]
LEAST = 0.15  # somebody asked: show what is only likely, but no noise


def fitting(shelf: Shelf, query: str, limit: int, now: float) -> list[tuple[Hit, Memory]]:
    """Memories that fit, best first, with what speaks for them; a limit of 0 means all. One that went
    since it was found is left out."""
    found: list[tuple[Hit, Memory]] = []
    wanted = limit or len(shelf.store.list())
    if not any(map(str.isalnum, query)):
        return _literally(shelf, query, wanted)
    for hit in shelf.search(query, wanted, now=now):
        if hit.confidence >= LEAST:
            with suppress(MemoryStoreError):
                found.append((hit, shelf.store.read(hit.id)))
    return found


def _literally(shelf: Shelf, query: str, limit: int) -> list[tuple[Hit, Memory]]:
    """What holds the query as it is: signs (🦩) are no words that could be ranked."""
    found: list[tuple[Hit, Memory]] = []
    wanted = query.strip().casefold()
    for listed in shelf.store.list() if wanted else ():
        if len(found) == limit:
            break
        with suppress(MemoryStoreError):
            memory = shelf.store.read(listed.path)
            whole = f"{memory.name}\n{memory.description}\n{memory.body}"
            if wanted in whole.casefold():
                found.append((Hit(memory.path, 1.0, {"text": 1.0}, 1.0), memory))
    return found


def memory_search(shelf: Shelf, now: Callable[[], float]) -> Search:
    """Memories that fit, whole, with their age and file."""

    def search(query: str, limit: int) -> list[Found]:
        found: list[Found] = []
        for _, memory in fitting(shelf, query, limit, now()):
            path = str(shelf.store.directory / memory.path)
            about = f"{memory.description}\n\n" if memory.description else ""
            head = heading(path, memory.mtime, now())
            found.append((head, f"{about}{memory.body}".strip(), memory.path))
        return found

    return search


def past_sessions(
    own: Path, claude: Sequence[Path] = (), *, without: str = ""
) -> list[PastSessions]:
    """A project's sessions and, from these folders, Claude Code's transcripts, whose indexes lie with
    ours: nothing is written beside them."""
    return [
        PastSessions(own, without=without),
        *(
            PastSessions(folder, index=own / f"claude-sessions-{number}.index")
            for number, folder in enumerate(claude, 1)
        ),
    ]


def said_in(
    everywhere: Sequence[PastSessions], query: str, limit: int, *, now: float, **how: Any
) -> list[Said]:
    """What was said in all of these, best first, without noise; `how` is what `PastSessions.search`
    takes."""
    hits = [said for past in everywhere for said in past.search(query, limit, now=now, **how)]
    likely = [said for said in hits if said.confidence >= LEAST]
    return sorted(likely, key=lambda said: -said.score)[:limit]


def session_search(
    folder: Path, now: Callable[[], float], *, without: str, claude: Sequence[Path] = ()
) -> Search:
    """What was said in the other sessions of a project."""
    everywhere = past_sessions(folder, claude, without=without)

    def search(query: str, limit: int) -> list[Found]:
        found: list[Found] = []
        for said in said_in(everywhere, query, limit, now=now()):
            day = f"{datetime.fromtimestamp(said.when, UTC).astimezone():%Y-%m-%d}"
            head = f"Session {said.session}, {day} ({age_words(said.when, now())}), {said.who}:"
            found.append((head, said.text, ""))
        return found

    return search
