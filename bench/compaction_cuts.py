"""Recorded sessions as the compaction benchmarks read them: messages, texts of one size, and the way
into a real session's ledger."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from bench.figures import ROOT

from lamina.conversation.entries import entries_of
from lamina.ledger import edits, tokens
from lamina.messages import text_of
from lamina.session import Session
from lamina.steps import close_calls

DATA = Path(os.environ.get("LAMINA_DATA") or ROOT.parent / "shared" / "data")
WINDOW = 200_000
SHORTEST = 20_000  # tokens; a session with less has nothing to compact

Entry = dict[str, Any]


def read(path: Path) -> list[Entry]:
    """The main conversation's messages, with what the user typed marked."""
    entries: list[Entry] = []
    for line in path.read_text("utf-8", "replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row.get("isSidechain") or row.get("type") not in ("user", "assistant"):
            continue
        content = row["message"]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        summary = bool(row.get("isCompactSummary"))
        entries.append(
            {
                "kind": "message",
                "uuid": row["uuid"],
                "role": row["type"],
                "content": blocks,
                "typed": not row.get("isMeta") and not summary,
                "origins": ["hook" if row.get("isMeta") or summary else "typed"] * len(blocks),
                "summary": summary,
            }
        )
    return entries


def words_of(entry: Entry) -> str:
    parts: list[str] = []
    for block in entry["content"]:
        if block.get("type") == "text":
            parts.append(str(block["text"]))
        elif block.get("type") == "tool_use":
            parts.append(json.dumps(block.get("input"), ensure_ascii=False))
        elif block.get("type") == "tool_result":
            content = block.get("content")
            parts.append(content if isinstance(content, str) else text_of(content or []))
    return "\n".join(parts)


def last_n(texts: list[str], room: int) -> list[int]:
    kept: list[int] = []
    for n in range(len(texts) - 1, -1, -1):
        room -= tokens.of_text(texts[n])
        if room < 0:
            break
        kept.append(n)
    return kept[::-1]


def head_and_tail(texts: list[str], room: int) -> str:
    """The first message, cut to a tenth of the room, and the last ones."""
    head = texts[0].encode()[: room * 4 // 10].decode("utf-8", "ignore")
    rest = [n for n in last_n(texts, room - tokens.of_text(head)) if n]
    return "\n".join([head, *(texts[n] for n in rest)])


def feed(session: Session, entries: list[Entry]) -> None:
    """Into the session's ledger, as its own tools and user would have written it."""
    ledger = session.ledger
    run: list[Entry] = []

    def flush() -> None:
        if run:
            if run[0]["role"] == "assistant" and ledger.open_calls:
                close_calls(session.state, "[no result was recorded]")
            for entry, _ in entries_of(run, ledger):
                ledger.append(entry)
            run.clear()

    for entry in entries:
        if run and run[-1]["role"] != entry["role"]:
            flush()
        if entry["origins"] and entry["origins"][0] == "hook" and not ledger.open_calls:
            flush()
            ledger.append(edits.message("user", entry["content"], "hook"))
        else:
            run.append(entry)
    flush()
    if ledger.open_calls:
        close_calls(session.state, "[cut here]")
