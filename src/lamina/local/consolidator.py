"""The dream without a model: from all memories and the index, a plan that tidies them and loses nothing.

It merges what says the same, drops what a later memory replaced or declared over, writes out dates,
ages out what is past, and repairs the index. What it is not sure of it reports and leaves alone.
A plan of a carried-out plan is empty. Pure: values in, values out; no files, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from lamina.local.desk import Desk, Doubt, Drop, Merge, Overrules, Rewrite
from lamina.local.index_order import TidyIndex, repaired
from lamina.local.replacing import drop_replaced
from lamina.local.tidying import age_out, merge_alike, move_long_hooks, write_out_dates
from lamina.memories import Memory

__all__ = ["Doubt", "Drop", "Merge", "Plan", "Rewrite", "consolidate"]

_MOST_ROUNDS = 1_000  # each round but the last takes something away; this only guards the loop


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with the memory directory: everything at once, or nothing."""

    merges: tuple[Merge, ...]
    drops: tuple[Drop, ...]
    rewrites: tuple[Rewrite, ...]
    index: str  # MEMORY.md as it should be
    index_changed: bool
    doubtful: tuple[Doubt, ...]  # for the audit; nothing is done about these
    memories: tuple[Memory, ...]  # all memories as they will be

    @property
    def empty(self) -> bool:
        return not (self.merges or self.drops or self.rewrites or self.index_changed)


def consolidate(
    memories: Sequence[Memory],
    *,
    index: str,
    now: datetime,
    uses: Mapping[str, int] | None = None,
    pinned: Collection[str] = (),
    labels: Mapping[str, str] | None = None,
    last_used: Mapping[str, date] | None = None,
    in_vain: Collection[str] = (),
    said: Mapping[str, date | None] | None = None,
    overrules: Overrules | None = None,
    by_hand: Callable[[str], bool] = lambda _: False,
) -> Plan:
    """The plan for these memories. Team memories and pinned ones are read and never changed.

    By path, `uses` counts answers that used a memory and `last_used` says when the last one did;
    `in_vain` were shown again and again and never of use; `said` knows better than the file's time
    from which day relative dates count (None: nobody knows). `labels` holds, for memories that are
    not the user's own word, what their index line ends with; such a memory never takes in one that
    is, nor replaces it, unless `overrules` knows better by the history. `by_hand` says which ones
    somebody wrote past the store: those never age out.
    """
    desk = Desk(
        memories,
        uses or {},
        frozenset(pinned),
        labels or {},
        now,
        last_used=last_used,
        in_vain=in_vain,
        said=said,
        overrules=overrules,
        by_hand=by_hand,
    )
    move_long_hooks(desk, index)
    _until_nothing_changes(desk)
    tidy = repaired(
        index,
        desk.all(),
        uses=desk.uses,
        labels=desk.labels,
        in_vain=desk.in_vain,
        said=desk.said_on,
    )
    _doubt_what_the_index_lost(desk, tidy)
    return Plan(
        desk.merges(), desk.drops(), desk.rewrites(), tidy.text, tidy.text != index,
        desk.doubts(), tuple(desk.all()),
    )  # fmt: skip


def _until_nothing_changes(desk: Desk) -> None:
    for _ in range(_MOST_ROUNDS):
        changed = write_out_dates(desk)
        changed |= drop_replaced(desk)
        changed |= merge_alike(desk)
        changed |= age_out(desk)
        if not changed:
            return


def _doubt_what_the_index_lost(desk: Desk, tidy: TidyIndex) -> None:
    for pointer in tidy.gone:
        if pointer.file not in desk.gone:
            hook = f": “{pointer.hook[:80]}”" if pointer.hook else ""
            desk.doubt((pointer.file,), f"the index pointed at a file that is not there{hook}")
    if tidy.left_out:
        desk.doubt(tidy.left_out, "no room in the index: they are found by recall only")
