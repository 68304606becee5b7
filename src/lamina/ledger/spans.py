"""Spans of a ledger that can be folded: borders at which no tool call is parted from its result.

Pure functions over a projection. Positions are those of entries.
"""

from __future__ import annotations

from dataclasses import dataclass

from lamina.ledger.view import Projection, Row


@dataclass(frozen=True, slots=True)
class Span:
    """Entries from first to last, both included."""

    first: int
    last: int
    tokens: int


def borders(projection: Projection) -> list[int]:
    """Positions of visible entries before which the view can be cut, oldest first."""
    found: list[int] = []
    waiting: set[str] = set()
    # A call whose result never came (a foreign or damaged record) keeps nothing waiting.
    answered = {
        str(row.block.get("tool_use_id"))
        for row in projection.rows
        if row.block.get("type") == "tool_result"
    } | set(projection.open)
    last = -1
    for row in projection.rows:
        if row.entry != last and not waiting:
            found.append(row.entry)
        last = row.entry
        kind = row.block.get("type")
        if kind == "tool_use" and str(row.block.get("id")) in answered:
            waiting.add(str(row.block.get("id")))
        elif kind == "tool_result":
            waiting.discard(str(row.block.get("tool_use_id")))
    return found


def whole(projection: Projection) -> Span | None:
    """All that is in the view."""
    rows = projection.rows
    if not rows:
        return None
    return Span(rows[0].entry, _end(projection, rows[-1].entry), projection.tokens)


def before(projection: Projection, border: int) -> Span | None:
    """All that is in the view before a border."""
    rows = [row for row in projection.rows if row.entry < border]
    if not rows:
        return None
    return Span(rows[0].entry, _end(projection, rows[-1].entry), sum(r.tokens for r in rows))


def after(projection: Projection, border: int) -> Span | None:
    """All that is in the view from a border on."""
    rows = [row for row in projection.rows if row.entry >= border]
    if not rows:
        return None
    return Span(rows[0].entry, _end(projection, rows[-1].entry), sum(r.tokens for r in rows))


def _end(projection: Projection, position: int) -> int:
    """A fold's literal stands at its first entry; its span ends later."""
    for low, high in projection.folds:
        if low == position:
            return high
    return position


def tail_border(
    projection: Projection, *, least: int, most: int, texts: int = 0, not_after: int | None = None
) -> int | None:
    """Where to cut so that the tail has at least so many tokens and messages with text, at most
    `most` tokens, and begins no later than `not_after`. None: nothing can be kept within that."""
    allowed = set(borders(projection))
    total = words = 0
    chosen: int | None = None
    for group in _entries_from_end(projection):
        position = group[0].entry
        total += sum(row.tokens for row in group)
        words += any(row.block.get("type") == "text" for row in group)
        if total > most:
            break
        if position in allowed:
            chosen = position
            early = not_after is None or position <= not_after
            if total >= least and words >= texts and early:
                break
    return chosen


def _entries_from_end(projection: Projection) -> list[list[Row]]:
    groups: list[list[Row]] = []
    for row in projection.rows:
        if groups and groups[-1][0].entry == row.entry:
            groups[-1].append(row)
        else:
            groups.append([row])
    groups.reverse()
    return groups
