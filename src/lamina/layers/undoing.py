"""Undo of what left the view by a fold: a compaction, a snip, a collapsed round.

Appends one revoke and, for a compaction, one edit that takes away again what it had put after the
kept messages, so that the view has the bytes that it would have had without it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamina.errors import UsageError
from lamina.ledger import edits
from lamina.ledger.record import Ledger
from lamina.ledger.spans import find
from lamina.messages import Json
from lamina.state import State

COMPACTION = "compaction"
FOLDING = (COMPACTION, "snip", "collapse")


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
        what = "compaction" if tuple(layers) == (COMPACTION,) else "fold"
        which = f" {name}" if name else ""
        raise UsageError(f"There is no {what}{which} to undo in this session.")
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
