"""History snip (L2.5): finished rounds that the user or the agent marks leave the view; one line says
what they were and how to see them again. Appends one fold; undo and Expand bring them back. The
same undo serves the other layers that fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from lamina.errors import UsageError
from lamina.events import LayerActed
from lamina.ledger import edits
from lamina.ledger.record import Ledger
from lamina.ledger.spans import find
from lamina.messages import Json, text_of
from lamina.state import State

LAYER = "snip"
COMPACTION = "compaction"
FOLDING = (COMPACTION, "snip", "collapse")


def rounds(state: State) -> list[tuple[int, int]]:
    """(first, last) entry of each round in the view: from a typed message to the next one."""
    entries = state.ledger.entries
    visible = sorted({row.entry for row in state.ledger.projection.rows if row.number >= 0})
    asked = [at for at in visible if entries[at].get("role") == "user"]
    starts = [at for at in asked if "typed" in (entries[at].get("origins") or ())]
    ends = [start - 1 for start in starts[1:]] + [visible[-1]] if starts else []
    return list(zip(starts, ends, strict=True))


def by_agent(state: State, first: int, last: int, what: str) -> str:
    """For the agent's tool: snip, or list what there is with 0."""
    if first:
        edit = snip(state, first, last, what)
        return f"Rounds {first} to {last} left the view; Expand {edit['uuid'][:8]} brings them back"
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
    many, them = ("s", "them") if count > 1 else ("", "it")
    line = f"[{count} finished round{many} snipped: {said}; Expand {name[:8]} brings {them} back]"
    before = state.ledger.projection.tokens
    state.guard.register("a span was snipped")
    [edit] = state.leave(
        edits.fold(start, end, [{"role": "user", "content": line}], LAYER, uuid=name)
    )
    saved = before - state.ledger.projection.tokens
    state.emit(LayerActed(LAYER, f"{count} rounds snipped", saved, count))
    return edit


# ---- undo, for every layer that folds


def undo(state: State, name: str = "", layers: Sequence[str] = FOLDING) -> Json:
    """Take back the fold with this id, else the last one in force; returns the undone edit."""
    edit, entries = undoing(state.ledger, name, layers)
    state.guard.register(f"{edit['layer']} was undone")
    state.leave(*entries)
    return edit


def undoing(
    ledger: Ledger, name: str = "", layers: Sequence[str] = FOLDING
) -> tuple[Json, list[Json]]:
    """The fold that an undo means, and the entries that undo it."""
    folds = in_force(ledger, layers)
    if name:
        wanted = str(find(ledger.projection, name)["uuid"])
        folds = [edit for edit in folds if edit["uuid"] == wanted]
    if not folds:
        which = f" {name}" if name else ""
        if tuple(layers) == (COMPACTION,):
            raise UsageError(f"There is no compaction{which} to undo in this session.")
        raise UsageError(
            f"There is no compaction or snip{which} to undo in this session. "
            "`lamina memory undo` undoes a change of memory."
        )
    edit = folds[-1]
    added = [entry for entry in ledger.entries if entry.get("compaction") == edit["uuid"]]
    gone = [edits.fold(added[0]["uuid"], added[-1]["uuid"], [], "undo")] if added else []
    return edit, [edits.revoke(edit["uuid"], "user"), *gone]


def in_force(ledger: Ledger, layers: Sequence[str] = FOLDING) -> list[Json]:
    """Folds of these layers that have an effect and are not inside another one, oldest first."""
    projection = ledger.projection
    spans = set(projection.folds)
    return [
        edit
        for edit in projection.active_edits()
        if edit.get("op") == "fold"
        and edit.get("layer") in layers
        and edit["uuid"] not in projection.inert
        and (projection.position[str(edit["first"])], projection.position[str(edit["last"])])
        in spans
    ]


def fidelity(ledger: Ledger) -> float | None:
    """The score of the last compaction in force; None if there is none."""
    folds = in_force(ledger, (COMPACTION,))
    boundary: Json = folds[-1].get("boundary") or {} if folds else {}
    found: Json = boundary.get("fidelity") or {}
    return float(found["score"]) if "score" in found else None
