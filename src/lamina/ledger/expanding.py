"""What a folded span stood for, as text for a person or the model. Pure: nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from lamina.errors import UsageError
from lamina.ledger.view import Projection, dicts
from lamina.messages import Json, text_of

SHORTEST_ID = 4


def expand(projection: Projection, name: str) -> str:
    """The text behind an id as the view shows it: an entry, or all entries of a fold."""
    entry = find(projection, name)
    if entry["kind"] == "edit" and entry.get("op") == "fold":
        first = projection.position[str(entry["first"])]
        last = projection.position[str(entry["last"])]
        return "\n\n".join(shown(projection.entries[first : last + 1]))
    if entry["kind"] == "edit" and entry.get("op") == "replace":
        names = [str(item.get("entry")) for item in dicts(entry.get("items"))]
        originals = [e for n in names if (e := projection.entry(n))]
        return "\n\n".join(shown(originals))
    return "\n\n".join(shown([entry])) or "(this entry has no text)"


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
        lines = [_block(block) for block in dicts(entry.get("content"))]
        words = "\n".join(line for line in lines if line)
        if words:
            stamp = str(entry.get("ts") or "")[:19].replace("T", " ")
            parts.append(f"{entry.get('role')} {stamp} [#{str(entry['uuid'])[:8]}]\n{words}")
    return parts


def _block(block: Json) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text") or "")
    if kind == "tool_use":
        given = msgspec.json.encode(block.get("input")).decode()
        return f"→ {block.get('name')} {given}"
    if kind == "tool_result":
        content: Any = block.get("content") or ""
        text = text_of(content if isinstance(content, str) else cast("list[Json]", dicts(content)))
        return f"← {text}"
    if kind in ("image", "document"):
        return f"[{kind}]"
    return ""
