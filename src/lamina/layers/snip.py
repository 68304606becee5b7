"""History snip (L2.5): finished rounds that the user or the agent marks leave the view; one line says
what they were and how to see them again. Appends one fold; undo and Expand bring them back.
"""

from __future__ import annotations

from uuid import uuid4

from lamina.errors import UsageError
from lamina.events import LayerActed
from lamina.ledger import edits
from lamina.messages import Json, text_of
from lamina.state import State

LAYER = "snip"


def rounds(state: State) -> list[tuple[int, int]]:
    """(first, last) entry of each round in the view: from a typed message to the next one."""
    entries = state.ledger.entries
    starts: list[int] = []
    visible = sorted({row.entry for row in state.ledger.projection.rows if row.number >= 0})
    for position in visible:
        origins: list[str] = entries[position].get("origins") or []
        if entries[position].get("role") == "user" and "typed" in origins:
            starts.append(position)
    ends = [start - 1 for start in starts[1:]] + [visible[-1]] if starts else []
    return list(zip(starts, ends, strict=True))


def by_agent(state: State, first: int, last: int, what: str) -> str:
    """For the agent's tool: snip, or list what there is with 0."""
    if first:
        edit = snip(state, first, last, what)
        return f"Rounds {first} to {last} left the view; Expand shows them: #{edit['uuid'][:8]}"
    return "\n".join(["Rounds in view, the last one present:", *listed(state)])


def listed(state: State) -> list[str]:
    """One line a round, numbered as `snip` counts them."""
    return [f"{number}. {_begins(state, at)}" for number, (at, _) in enumerate(rounds(state), 1)]


def _begins(state: State, position: int) -> str:
    words = " ".join(text_of(state.ledger.entries[position]["content"]).split())
    return words if len(words) <= 100 else words[:99] + "…"


def snip(state: State, first: int, last: int, what: str) -> Json:
    """Take rounds `first` to `last` (counted from 1) out of the view. The present one stays."""
    if not state.flags.on("snip"):
        raise UsageError("Snipping is switched off (snip.enabled).")
    known = rounds(state)
    finished = len(known) - 1
    if not 1 <= first <= last <= finished:
        raise UsageError(
            f"Rounds {first} to {last} can't be snipped: this session has {max(0, finished)} "
            "finished rounds in view."
        )
    entries = state.ledger.entries
    start, end = entries[known[first - 1][0]]["uuid"], entries[known[last - 1][1]]["uuid"]
    name = str(uuid4())
    count = last - first + 1
    said = " ".join(what.split())[:300] or _begins(state, known[first - 1][0])
    line = (
        f"[{count} finished round{'s' * (count > 1)} snipped: {said} (Expand shows: #{name[:8]})]"
    )
    before = state.ledger.projection.tokens
    state.guard.register("a span was snipped")
    [edit] = state.leave(
        edits.fold(start, end, [{"role": "user", "content": line}], LAYER, uuid=name)
    )
    saved = before - state.ledger.projection.tokens
    state.emit(LayerActed(LAYER, f"{count} rounds snipped", saved, count))
    return edit
