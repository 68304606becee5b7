"""What fills the view, in estimated tokens by part, what each layer has taken out of it, and what broke the
prompt cache. Pure: looks at a ledger.
"""

from __future__ import annotations

import re
from typing import Any, cast

from lamina.ledger import tokens
from lamina.ledger.record import Ledger
from lamina.ledger.view import Projection, Row, dicts
from lamina.messages import Block, Json, Usage

# In the order of the prompt.
PARTS: tuple[str, ...] = (
    "system",
    "tools",
    "instructions",
    "memory",
    "summaries",
    "messages",
    "results",
    "attachments",
)
_MEMORY_HEADING = "# Memory"
_INSTRUCTIONS = "These instruction files hold"


def parts_of(ledger: Ledger) -> dict[str, int]:
    """Part → its tokens, in the order of the prompt; they add up to the ledger's own count."""
    sizes: dict[str, int] = dict.fromkeys(PARTS, 0)
    frame: Json = ledger.projection.frame or {}
    for block in dicts(frame.get("system")):
        words = str(block.get("text", ""))
        name = "memory" if words.lstrip().startswith(_MEMORY_HEADING) else "system"
        sizes[name] += tokens.of_block(block)
    sizes["tools"] = sum(tokens.of_json(tool) for tool in dicts(frame.get("tools")))
    for row in ledger.projection.rows:
        sizes[_part(row, ledger.entries[row.entry])] += row.tokens
    return _scaled(sizes, ledger.tokens())


def _part(row: Row, entry: Json) -> str:
    kind = row.block.get("type")
    if row.number < 0:
        return "summaries"
    if kind == "tool_result":
        return "results"
    if row.role == "assistant":
        return "messages"
    origins: list[Any] = entry.get("origins") or []
    origin = origins[row.number] if row.number < len(origins) else "typed"
    if origin in ("typed", "pasted"):
        return "attachments" if kind in ("image", "document") else "messages"
    if origin == "recalled":
        return "memory"
    return "instructions" if _is_instructions(row.block) else "attachments"


def _is_instructions(block: Block) -> bool:
    return _INSTRUCTIONS in str(block.get("text", ""))[:200]


def _scaled(sizes: dict[str, int], total: int) -> dict[str, int]:
    """Estimates stretched to the provider's own count; the largest part takes the rounding."""
    estimate = sum(sizes.values())
    if not estimate or total == estimate:
        return sizes
    scaled = {name: round(size * total / estimate) for name, size in sizes.items()}
    largest = max(scaled, key=lambda name: scaled[name])
    scaled[largest] += total - sum(scaled.values())
    return scaled


def savings_of(entries: list[Json]) -> dict[str, tuple[int, int]]:
    """Layer → how often its edits changed the view, and by how many tokens it shrank."""
    projection = Projection()
    sums: dict[str, tuple[int, int]] = {}
    for entry in entries:
        before = projection.tokens
        projection.add(entry)
        if entry["kind"] != "edit":
            continue
        layer, times = str(entry.get("layer") or "?"), 1
        if entry.get("op") == "revoke":
            undone = projection.entry(str(entry.get("edit"))) or {}
            layer, times = str(undone.get("layer") or "?"), -1
        count, saved = sums.get(layer, (0, 0))
        sums[layer] = (count + times, saved + before - projection.tokens)
    return sums


def cache_of(entries: list[Json]) -> Json:
    """How much of all input came from the provider's cache, and every cause that broke it: how often,
    and how many tokens were not read that should have been."""
    used = Usage()
    breaks: dict[tuple[str, bool], tuple[int, int]] = {}
    for entry in entries:
        if entry["kind"] == "message" and entry.get("role") == "assistant":
            used += Usage.from_json(entry.get("usage"))
        told: Any = entry.get("event") if entry["kind"] == "event" else None
        if not isinstance(told, dict) or cast("Json", told).get("kind") != "cache_broke":
            continue
        event = cast("Json", told)
        cause = _SIZES.sub("", str(event.get("cause") or "?"))
        name = (cause, bool(event.get("registered")))
        count, lost = breaks.get(name, (0, 0))
        gone = _number(event.get("expected")) - _number(event.get("read"))
        breaks[name] = (count + 1, lost + max(0, gone))
    return {
        "input": used.prompt,
        "read": used.cache_read,
        "breaks": [
            {"cause": cause, "expected": registered, "count": count, "tokens": lost}
            for (cause, registered), (count, lost) in breaks.items()
        ],
    }


# How long a pause was and how much a layer took: such breaks are one kind, however large.
_SIZES = re.compile(r" \(\d+ min\)| of \d+ min$|: [\d,]+ tokens[^;]*")


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
