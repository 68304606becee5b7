"""Messages that alone would fill the window: their beginning and end stay, Expand shows the rest.

Only what the model has not seen is cut, the largest first, so that a compaction of what came before
leaves a prompt that can be sent. Appends one edit; the whole text stays in the ledger.
"""

from __future__ import annotations

from typing import Any, cast

from lamina.events import Warned
from lamina.ledger import edits, tokens
from lamina.ledger.view import Row
from lamina.messages import Block, text, text_of
from lamina.state import State

LAYER = "oversized"
SHARE = 0.5  # of the autocompact threshold that unseen messages may take
KEPT = 0.05  # of the window that stays of one that is cut


def shrink(state: State) -> int:
    """Cut what can't fit; returns how many blocks were cut."""
    projection = state.ledger.projection
    unseen = [row for row in projection.rows if row.entry > state.ledger.seen]
    over = sum(row.tokens for row in unseen) - int(state.window.autocompact * SHARE)
    keep = int(state.window.size * KEPT)
    chosen: list[Row] = []
    for row in sorted(unseen, key=lambda row: -row.tokens):
        if over <= 0 or row.tokens <= 2 * keep:
            break
        if row.role == "user" and row.number >= 0 and _words(row.block):
            chosen.append(row)
            over -= row.tokens - keep
    if not chosen:
        return 0
    names = [str(state.ledger.entries[row.entry]["uuid"]) for row in chosen]
    items = [
        (name, row.number, _cut(row.block, keep, name))
        for name, row in zip(names, chosen, strict=True)
    ]
    state.leave(edits.replace(items, LAYER))
    size = sum(row.tokens for row in chosen)
    state.emit(
        Warned(
            f"A message of about {size:,} tokens is too large for this model's window of "
            f"{state.window.size:,}: its beginning and end are shown, the record has all of it."
        )
    )
    return len(chosen)


def _words(block: Block) -> str:
    if block.get("type") == "text":
        return str(block.get("text") or "")
    content: Any = block.get("content") if block.get("type") == "tool_result" else ""
    if isinstance(content, str):
        return content
    parts = cast("list[Block]", content) if isinstance(content, list) else []
    return text_of(parts)


def _cut(block: Block, keep: int, entry: str) -> Block:
    words = _words(block).encode("utf-8", "replace")
    head, tail = keep * 8 // 3, keep * 4 // 3  # bytes: two thirds and one third of the room
    left_out = tokens.of_text(_words(block)) - keep
    shown = (
        words[:head].decode("utf-8", "ignore")
        + f"\n[… about {left_out:,} tokens left out; Expand shows them: #{entry[:8]} …]\n"
        + words[-tail:].decode("utf-8", "ignore")
    )
    return text(shown) if block.get("type") == "text" else {**block, "content": shown}
