"""Spans of a ledger that can be folded, cut where no tool call loses its result, and what a folded
span stood for, as text for a person or the model.

Pure functions over a projection. Positions are those of entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import msgspec

from lamina.errors import UsageError
from lamina.ledger.view import Projection, Row
from lamina.messages import Json, dicts, text_of

SHORTEST_ID = 4


@dataclass(frozen=True, slots=True)
class Span:
    """Entries from first to last, both included."""

    first: int
    last: int
    tokens: int


def borders(projection: Projection, *, answers: bool = False) -> list[int]:
    """Positions of visible entries before which the view can be cut, oldest first; `answers`: of
    answers only, so that rounds stay whole and what is put before them is a user's."""
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
        if row.entry != last and not waiting and (not answers or row.role == "assistant"):
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
    return _spanned(projection, projection.rows)


def before(projection: Projection, border: int) -> Span | None:
    """All that is in the view before a border."""
    return _spanned(projection, projection.rows_of(0, border - 1))


def after(projection: Projection, border: int) -> Span | None:
    """All that is in the view from a border on."""
    return _spanned(projection, projection.rows_of(border))


def _spanned(projection: Projection, rows: Sequence[Row]) -> Span | None:
    if not rows:
        return None
    # A fold's literal stands at its first entry; its span ends later.
    last = dict(projection.folds).get(rows[-1].entry, rows[-1].entry)
    return Span(rows[0].entry, last, sum(row.tokens for row in rows))


def tail_border(
    projection: Projection,
    *,
    least: int,
    most: int,
    texts: int = 0,
    not_after: int | None = None,
    answers: bool = False,
) -> int | None:
    """Where to cut so that the tail has at least so many tokens and messages with text, at most
    `most` tokens, and begins no later than `not_after`. None: nothing can be kept within that."""
    allowed = set(borders(projection, answers=answers))
    total = words = 0
    chosen: int | None = None
    for position, rows in groupby(reversed(projection.rows), key=lambda row: row.entry):
        group = list(rows)
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


# ---- what a span says


def expand(projection: Projection, name: str) -> str:
    """The text behind an id as the view shows it: a result or another block byte for byte, an entry,
    or all entries of a fold. The id of a tool call stands for its result."""
    wanted = name.strip().strip("[]#").strip()
    head, dot, number = wanted.partition(".")
    if dot and number.isascii() and number.isdigit() and len(number) < 9:
        blocks = dicts(find(projection, head).get("content"))
        if 1 <= int(number) <= len(blocks):
            return whole_text(blocks[int(number) - 1])
    if (result := _result_of(projection, wanted)) is not None:
        return whole_text(result)
    entry = find(projection, wanted)
    if entry["kind"] == "edit" and entry.get("op") == "fold":
        first = projection.position[str(entry["first"])]
        last = projection.position[str(entry["last"])]
        return "\n\n".join(shown(projection.entries[first : last + 1]))
    if entry["kind"] == "edit" and entry.get("op") == "replace":
        names = [str(item.get("entry")) for item in dicts(entry.get("items"))]
        originals = [e for n in names if (e := projection.entry(n))]
        return "\n\n".join(shown(originals))
    blocks = dicts(entry.get("content"))
    if len(blocks) == 1 and blocks[0].get("type") == "tool_result":
        return whole_text(blocks[0])
    return "\n\n".join(shown([entry])) or "(this entry has no text)"


def _result_of(projection: Projection, call: str) -> Json | None:
    """The result of the tool call with this id, as it was recorded."""
    for entry in reversed(projection.entries):
        if entry["kind"] == "message":
            for block in dicts(entry.get("content")):
                if block.get("type") == "tool_result" and block.get("tool_use_id") == call:
                    return block
    return None


def whole_text(block: Json) -> str:
    """All text of a result or of a text block."""
    if block.get("type") != "tool_result":
        return shown_block(block)
    content: Any = block.get("content") or ""
    return text_of(content if isinstance(content, str) else dicts(content))


def find(projection: Projection, name: str) -> Json:
    """An entry by its id or the beginning of it."""
    wanted = name.strip().strip("[]#").strip()
    if exact := projection.entry(wanted):
        return exact
    if len(wanted) < SHORTEST_ID:
        raise UsageError(
            f"{name!r} is too short for an id; give at least {SHORTEST_ID} characters."
        )
    fitting = [e for e in projection.entries if str(e["uuid"]).startswith(wanted)]
    if not fitting:
        raise UsageError(f"This session has no entry {name!r}.")
    if len(fitting) > 1:
        raise UsageError(f"{len(fitting)} entries begin with {wanted!r}; give more of the id.")
    return fitting[0]


def shown(entries: Iterable[Json]) -> list[str]:
    """Messages as text, oldest first: who, when, id, words, calls and results."""
    parts: list[str] = []
    for entry in entries:
        if entry["kind"] != "message":
            continue
        lines = [shown_block(block) for block in dicts(entry.get("content"))]
        words = "\n".join(line for line in lines if line)
        if words:
            stamp = str(entry.get("ts") or "")[:19].replace("T", " ")
            parts.append(f"{entry.get('role')} {stamp} [#{str(entry['uuid'])[:8]}]\n{words}")
    return parts


def shown_block(block: Json) -> str:
    """One block as text."""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text") or "")
    if kind == "tool_use":
        given = msgspec.json.encode(block.get("input")).decode()
        return f"→ {block.get('name')} {given}"
    if kind == "tool_result":
        return f"← {whole_text(block)}"
    if kind in ("image", "document"):
        return f"[{kind}]"
    return ""
