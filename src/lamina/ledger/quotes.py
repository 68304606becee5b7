"""Who said what, by session and entry: the blocks that a memory's evidence is looked up in.

The running session is asked through its ledger, others through their files in the same folder,
which are only read. An entry that nobody has gives nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import cast

from lamina.ledger import log
from lamina.ledger.record import Ledger
from lamina.messages import Block, Json, Origin, text_of

Said = tuple[tuple[Origin, str], ...]
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class Quotes:
    """Looks entries up; `origin_text` and `before` are what the gate asks for."""

    def __init__(self, folder: Path, session: str = "", live: Ledger | None = None) -> None:
        self._folder = folder
        self._session = session
        self._live = live
        self._read: Callable[[str], Sequence[Json]] = lru_cache(maxsize=4)(self._recorded)

    def origin_text(self, session: str, entry: str) -> Said:
        entries, at = self._find(session, entry)
        return blocks_of_entry(entries[at]) if at >= 0 else ()

    def before(self, session: str, entry: str) -> Said:
        entries, at = self._find(session, entry)
        return tuple(block for one in entries[: max(at, 0)] for block in blocks_of_entry(one))

    def when(self, session: str, entry: str) -> str:
        """The time of an entry as it was recorded; "" for one that nobody has."""
        entries, at = self._find(session, entry)
        return str(entries[at].get("ts") or "") if at >= 0 else ""

    def _find(self, session: str, entry: str) -> tuple[Sequence[Json], int]:
        if self._live is not None and session == self._session:
            return self._live.entries, self._live.projection.position.get(entry, -1)
        entries = self._read(session)
        return entries, next((n for n, one in enumerate(entries) if one.get("uuid") == entry), -1)

    def _recorded(self, session: str) -> Sequence[Json]:
        path = self._folder / f"{session}.jsonl"
        if not _SESSION_ID.fullmatch(session) or not path.is_file():
            return ()
        return log.read(path).entries


def blocks_of_entry(entry: Json) -> Said:
    """Origin and text of each block of a message that says something."""
    if entry.get("kind") != "message":
        return ()
    content = cast("list[Block]", entry.get("content") or [])
    origins = cast("list[Origin]", entry.get("origins") or [])
    said: list[tuple[Origin, str]] = []
    for block, origin in zip(content, origins, strict=False):
        words = _text(block)
        if words.strip():
            said.append(("tool" if block.get("type") == "tool_result" else origin, words))
    return tuple(said)


def _text(block: Block) -> str:
    if block.get("type") == "text":
        return str(block.get("text") or "")
    if block.get("type") == "tool_result":
        return text_of(block.get("content") or "")
    return ""
