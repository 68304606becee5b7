"""Layer 2: old tool results leave the view, or the provider's cached prefix, in one step.

Three ways, by what the provider can do: clearing after a pause that made the cache cold anyway
(L2.1), deletion from the cached prefix (L2.2, main thread only), the provider's own context
management (L2.3). Beside them, a result that costs more to carry than to drop is dropped while the
cache is warm, with a line that names where it is. Appends edits and state entries; registers every
break with the guard.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, cast

from lamina.config import Flags
from lamina.events import LayerActed
from lamina.ledger import edits
from lamina.ledger.places import RESULTS
from lamina.ledger.record import Ledger
from lamina.ledger.spans import whole_text
from lamina.ledger.tokens import Window
from lamina.ledger.view import Row
from lamina.machine import write_private
from lamina.messages import Block, Json, as_list, as_object, dicts
from lamina.ports import Capabilities, ToolSpec
from lamina.state import OldResults, State

LAYER = "microcompact"
REPORTED = "provider_cleared"  # state entry: what the server said last that it has cleared
# Share of the view that clearing after a pause must free; less costs more than it saves. Set by hand
# on the recorded sessions.
WORTH_IT = 0.02
CLEARED = "[Old tool result content cleared"
MARKER = CLEARED + "; Expand {} brings it back]"  # one form for all that was cleared (L2.1)
IN_FILE = CLEARED + "; all of it is in {}]"  # the form for a model that has no Expand
CLEARABLE = frozenset({"Read", "Bash", "Grep", "Glob", "WebSearch", "WebFetch", "Edit", "Write"})


def act(state: State) -> None:
    """Clear by time first; if that acted, nothing else does in this round."""
    if state.shared_blocks and state.turn == 1 and not state.calls:
        return  # the first request of a fork begins with what its parent sent, to the byte
    if state.flags.on("time_clearing") and (gap := _cold_for(state)):
        keep: int = state.flags.value("microcompact.keep")
        why = f"layer 2 cleared old results after a pause of {gap / 60:.0f} min"
        if _clear(state, keep, why, least=WORTH_IT):
            return
    edits_cache = state.flags.on("cache_edits") and state.capabilities.cache_edits
    if edits_cache and state.purpose == "main":
        _delete_from_cache(state)
    elif state.flags.on("worn_clearing"):
        _drop_worn(state)


def clear_now(state: State) -> str:
    """The prompt was too long: clear what can be cleared; say what was done."""
    keep: int = state.flags.value("microcompact.keep")
    for kept in (keep, 1):
        count = _clear(state, kept, "layer 2 cleared old results: the prompt was too long")
        if count:
            return f"cleared {count} old tool results"
    return ""


# ---- L2.1


def _cold_for(state: State) -> float:
    """Seconds since the last answer, if that is longer than the cache lives."""
    minutes: float = state.flags.value("microcompact.gap_minutes")
    lifetime = minutes * 60 or state.capabilities.cache_ttl
    account = state.balance()
    if account is not None and account.kept and state.deps.clock.now() <= account.warm_until:
        return 0.0  # it was kept through the pause
    for entry in reversed(state.ledger.entries):
        if entry["kind"] == "message" and entry.get("role") == "assistant":
            gap = state.deps.clock.now() - edits.written_at(entry, float("inf"))
            return gap if gap > lifetime else 0.0
    return 0.0


def _clear(state: State, keep: int, why: str, least: float = 0.0) -> int:
    old = _with_a_way_back(state, keep)
    if not old or _freed(state, old) < least * state.ledger.tokens():
        return 0
    return _replace(state, old, why)


def _with_a_way_back(state: State, keep: int) -> list[Row]:
    """Old results of words only: neither Expand nor a file would bring a picture back."""
    old = old_results(state.ledger, lambda tool: clearable(state, tool), keep, state.results)
    return [row for row in old if _of_words(row)]


def _worth_clearing(row: Row) -> bool:
    """Not hardly longer than the marker."""
    return row.tokens > 2 * len(MARKER) // 4 or bool(row.edit)


def _of_words(row: Row) -> bool:
    return all(as_object(part).get("type") == "text" for part in as_list(row.block.get("content")))


def _freed(state: State, old: list[Row]) -> int:
    """Tokens that clearing these frees: what leans on them is whole again then."""
    return sum(row.tokens for row in old) - state.ledger.projection.comes_back(old)


def _replace(state: State, old: list[Row], why: str) -> int:
    """Put a marker in the place of results, with the id that Expand takes."""
    items: list[tuple[str, int, Block]] = []
    for row in old:
        entry = state.ledger.entries[row.entry]
        marked = {**row.block, "content": _marker(state, entry, row.number)}
        items.append((str(entry["uuid"]), row.number, marked))
    before = state.ledger.projection.tokens
    state.guard.register(why)
    state.leave(edits.replace(items, LAYER, changes_prefix=True, cause=why))
    saved = before - state.ledger.projection.tokens
    state.emit(LayerActed(LAYER, why, saved, len(old)))
    return len(old)


def _marker(state: State, entry: Json, number: int) -> str:
    name = edits.block_id(entry, number)
    if state.expands:
        return MARKER.format(name)
    path = state.deps.folder / RESULTS / f"{name}.txt"
    write_private(path, whole_text(dicts(entry["content"])[number]).encode("utf-8", "replace"))
    return IN_FILE.format(path)


def old_results(
    ledger: Ledger, allowed: Callable[[str], bool], keep: int, known: OldResults | None = None
) -> list[Row]:
    """Results that clearing would take: of tools that allow it, all but the last few, oldest first;
    what is hardly longer than the marker stays. `known`: what was found last time."""
    rows = _results(ledger, allowed, OldResults() if known is None else known)
    return [row for row in rows[: -max(1, keep)] if _worth_clearing(row)]


def _results(ledger: Ledger, allowed: Callable[[str], bool], known: OldResults) -> list[Row]:
    """All results behind the last that was cleared: what came before it was cleared with it. Only
    rows that are new or were changed since the last time are looked at."""
    projection = ledger.projection
    new = projection.edited[known.edits :] if known.projection is projection else [0]
    first = min([known.until, *new])
    if first <= known.cleared:  # what was cleared may be so no longer
        first, known.cleared = 0, -1
    keep = bisect_left(known.places, first)
    del known.places[keep:], known.rows[keep:], known.sums[keep:]
    for place, row in enumerate(projection.rows[first:], first):
        if not row.result:
            continue
        if row.edit and _cleared(row):
            known.cleared, known.places, known.rows, known.sums = place, [], [], []
        elif allowed(str(ledger.entries[row.entry].get("tool") or "")):
            known.places.append(place)
            known.rows.append(row)
            known.sums.append(row.tokens + (known.sums[-1] if known.sums else 0))
    known.projection, known.edits = projection, len(projection.edited)
    known.until = len(projection.rows)
    return known.rows


def _cleared(row: Row) -> bool:
    content = row.block.get("content")
    return isinstance(content, str) and content.startswith(CLEARED)


def clearable(state: State, tool: str) -> bool:
    spec = state.spec_of(tool)
    return spec.clearable if spec is not None else tool in CLEARABLE


# ---- what costs more to carry than to drop

# How long a session goes on is best told by how long it has: after n requests, n/(n + p) of all
# sessions see p more. A bet with what was saved wants four in five, one without wants nine in ten:
# of 34 recorded bills none is then higher than with nothing done (docs/decisions/cache-account.md).
WITH_SAVINGS = 1 / 4
WITHOUT = 1 / 9


def _drop_worn(state: State) -> None:
    """Drop old results where that will pay, and only with what the layers have saved already: if all
    of it had to be fetched back, the session would still cost no more than without them."""
    least: int = state.flags.value("microcompact.worn_tokens")
    if state.ledger.projection.tokens < 2 * least:
        return
    keep: int = state.flags.value("microcompact.worn_keep")
    _results(state.ledger, lambda tool: clearable(state, tool), state.results)
    sums, last = state.results.sums, len(state.results.sums) - max(1, keep) - 1
    if last < 0 or sums[last] < least:
        return  # as nearly always
    rows, account = islice(state.results.rows, last + 1), state.balance()
    first = next((row for row in rows if _worth_clearing(row) and _of_words(row)), None)
    if account is None or first is None:
        return
    price, ahead = account.rates, account.warm_run
    sent, calls = account.written_again(first.entry), price.read * state.ledger.tokens()

    def costs(gone: int) -> float:
        return price.again * (sent - gone) + calls  # the rest anew, and a call to fetch it back

    def likely_pays(gone: int) -> bool:
        likely = costs(gone) + price.write * account.comes_back * gone
        return likely <= WITH_SAVINGS * ahead * (price.read * gone)

    def covered(gone: int) -> bool:
        open_ = costs(gone) + price.write * gone - account.saved  # what savings would not cover
        return open_ <= WITHOUT * ahead * (price.read * gone)

    most = sums[last]
    if not likely_pays(most) or (costs(0) > account.saved and not covered(most)):
        return  # nor would fewer: so they are seldom looked at one by one
    old = _with_a_way_back(state, keep)
    gone = _freed(state, old)
    if gone >= least and likely_pays(gone) and covered(gone):
        why = f"layer 2 dropped worn results: {gone:,} tokens that no answer needed"
        _replace(state, old, why)


# ---- L2.2


def _delete_from_cache(state: State) -> None:
    deleted: dict[str, None] = dict.fromkeys(state.ledger.state("cache_edits", []))
    weight = {  # of the results in the view whose tool allows clearing, oldest first
        str(row.block.get("tool_use_id")): row.tokens
        for row in state.ledger.projection.rows
        if row.number >= 0
        and row.block.get("type") == "tool_result"
        and clearable(state, str(state.ledger.entries[row.entry].get("tool") or ""))
    }
    active = [name for name in weight if name not in deleted]
    trigger: int = state.flags.value("microcompact.edits_trigger")
    keep: int = state.flags.value("microcompact.edits_keep")
    if len(active) < trigger or len(active) <= keep:
        return
    gone = active[:-keep]
    still = [name for name in deleted if name in weight]
    state.guard.register("layer 2 deleted old results from the provider's cache")
    state.ledger.append(edits.state("cache_edits", [*still, *gone]))
    saved = sum(weight[name] for name in gone)
    what = f"{len(gone)} old results deleted from the provider's cache"
    state.emit(LayerActed(LAYER, what, saved, len(gone)))


def deletions(state: State) -> tuple[str, ...]:
    """What a request deletes from the cached prefix. A result that a compaction took out of the view
    is no longer there to be deleted."""
    deleted: list[str] = state.ledger.state("cache_edits", []) if state.purpose == "main" else []
    there = {row.block.get("tool_use_id") for row in state.ledger.projection.rows if deleted}
    return tuple(name for name in deleted if name in there)


# ---- L2.3


def api_management(
    flags: Flags,
    window: Window,
    capabilities: Capabilities,
    params: Json,
    specs: Sequence[ToolSpec] = (),
) -> Json:
    """The provider's own context management for the frame, or {}. It clears what `specs` allow."""
    if not flags.on("api_management") or not capabilities.context_management:
        return {}
    trigger: int = flags.value("microcompact.api_trigger")
    least: int = flags.value("microcompact.api_clear_at_least")
    scale = min(1.0, 0.9 * window.autocompact / trigger)
    rules: list[Json] = []
    turns: int = flags.value("microcompact.thinking_turns")
    if turns and params.get("thinking"):
        keep = {"type": "thinking_turns", "value": turns}
        rules.append({"type": "clear_thinking_20251015", "keep": keep})
    rules.append(
        {
            "type": "clear_tool_uses_20250919",
            "trigger": {"type": "input_tokens", "value": int(trigger * scale)},
            "clear_at_least": {"type": "input_tokens", "value": int(least * scale)},
        }
    )
    if protected := [spec.name for spec in specs if not spec.clearable]:
        rules[-1]["exclude_tools"] = protected
    return {"context_management": {"edits": rules}}


def book_cleared(state: State, report: Any) -> None:
    """What the server says it cleared: a registered break and an event, never an edit. It gets the
    whole history each time and may tell of the same clearing with each answer: only what it
    cleared beyond its last report is new."""
    if not isinstance(report, dict):
        return
    told: dict[str, list[int]] = state.ledger.state(REPORTED, {})
    now: dict[str, list[int]] = {}
    for edit in dicts(cast("Json", report).get("applied_edits")):
        tokens = int(edit.get("cleared_input_tokens") or 0)
        count = int(edit.get("cleared_tool_uses") or edit.get("cleared_thinking_turns") or 0)
        kind = str(edit.get("type"))
        before = told.get(kind, [0, 0])
        now[kind] = [tokens, count]
        if tokens > before[0] or count > before[1]:
            state.guard.register("the provider cleared old content from the prompt")
            more, many = max(0, tokens - before[0]), max(0, count - before[1])
            state.emit(LayerActed(LAYER, "the provider cleared old content", more, many))
    if now != told:
        state.ledger.append(edits.state(REPORTED, now))
