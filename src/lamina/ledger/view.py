"""The view: one pure projection of the ledger's entries into what a model is sent (F4, F5).

`Projection` takes entries in order and keeps *rows* up to date: a block each, with edits applied.
It touches nothing else. Its state depends on the entries alone, so that one grown entry by entry
equals one made at once; the work of an entry is bounded by what follows the earliest block that it
changes (an undo projects anew).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from lamina.ledger import tokens
from lamina.ledger.edits import Places, Shared
from lamina.ledger.joining import THINKING, Joiner
from lamina.messages import Block, Json, Message, as_list, dicts

_PAIRED = ("tool_use", "tool_result")
_MEDIA = ("image", "document")


class Row:
    """One block of the view and the entry that it comes from."""

    __slots__ = ("block", "edit", "entry", "number", "result", "role", "tokens")

    def __init__(self, role: str, block: Block, entry: int, number: int, edit: str = "") -> None:
        self.role = role
        self.block = block
        self.entry = entry  # position of the entry in the ledger
        self.number = number  # position of the block in the entry; -1: a fold put it here
        self.edit = edit  # the edit that put it here, if any
        self.tokens = tokens.of_block(block)
        self.result = number >= 0 and block.get("type") == "tool_result"


class Projection:
    def __init__(self) -> None:
        self.entries: Shared[Json] = Shared()
        self.position: Places[str] = Places()  # uuid → position in entries
        self.head: str | None = None  # the last uuid
        self.frame: Json | None = None
        self.inert: dict[str, str] = {}  # edits without effect, and why
        self.rows: Shared[Row] = Shared()
        self.tokens = 0  # estimate of all rows
        self._keys = array("q")  # row.entry of each row, for bisection
        self.folds: list[tuple[int, int]] = []  # spans (first and last entry) of those in force
        self.folding: set[str] = set()  # layers that ever folded anything
        # Blocks (entry, number) that others lean on: by which edit these were put where.
        self._leant_on: dict[tuple[int, int], tuple[tuple[int, int, str], ...]] = {}
        self._lent = False  # a branch has the same of these
        self._joiner = Joiner()
        self._snapshot: Shared[Message] | None = None  # of its messages, while they are the same
        self._changed: int | None = None  # first row that the joiner has not seen as it is
        # Of every change but an addition, the first row that it changed.
        self.edited: list[int] = []

    # ---- taking entries

    def add(self, entry: Json) -> None:
        """Take the next entry. Never fails: what makes no sense has no effect (see `inert`)."""
        at, self.head = len(self.entries), entry["uuid"]
        self.entries.append(entry)
        self.position.add(entry["uuid"], at)
        kind = entry["kind"]
        if kind == "message":
            self._touch(len(self.rows))
            self._append(entry, at)
        elif kind == "frame":
            self.frame = entry
        elif kind == "edit":
            if entry.get("op") == "revoke":
                self._rebuild()
            else:
                if entry.get("op") == "fold":
                    self.folding.add(str(entry.get("layer")))
                self.edited.append(self._apply(entry))
                self._touch(self.edited[-1])

    def entry(self, uuid: str) -> Json | None:
        at = self.position.get(uuid)
        return None if at is None else self.entries[at]

    def why_not(self, edit: Json) -> str:
        """Why this edit would have no effect, or "" if it would."""
        op = edit.get("op")
        if op == "revoke":
            target = self.entry(str(edit.get("edit")))
            return "" if target and target["kind"] == "edit" else "there is no such edit"
        if op == "fold":
            return self._fold_problem(edit)[0]
        if op != "replace":
            return f"unknown edit {op!r}"
        problems = [self._item_problem(item)[0] for item in dicts(edit.get("items"))]
        return next((p for p in problems if p), "") if problems else "it names no block"

    def earliest(self, edit: Json) -> int:
        """Position of the first entry whose blocks the edit changes."""
        op = edit.get("op")
        if op == "fold":
            return self.position.get(str(edit.get("first")), 0)
        if op == "revoke":
            target = self.entry(str(edit.get("edit")))
            return 0 if target is None else self.earliest(target)
        places = [self.position.get(str(i.get("entry")), 0) for i in dicts(edit.get("items"))]
        return min(places, default=0)

    # ---- what comes out

    @property
    def messages(self) -> Shared[Message]:
        """A snapshot; later entries don't change it. The same one until something has changed."""
        joined = self._joined()
        if self._snapshot is None:
            self._snapshot = joined.snapshot()
        return self._snapshot

    @property
    def open(self) -> list[str]:
        """Ids of tool calls that wait for their results."""
        return self._joined().open

    def chain(self) -> tuple[int, bytes]:
        """Number of blocks in the view, and the hash over (role, bytes) of each."""
        return self._joined().chain()

    def rows_of(self, first: int, last: int | None = None) -> list[Row]:
        """Rows of the entries from position first to last; None: to the end."""
        keys = self._keys
        end = None if last is None or not keys or last >= keys[-1] else bisect_right(keys, last)
        return self.rows[bisect_left(self._keys, first) : end]

    def active_edits(self) -> Iterator[Json]:
        """Edits that were not revoked, in ledger order."""
        dead: set[str] = set()
        alive: list[Json] = []
        made = [entry for entry in self.entries if entry["kind"] == "edit"]
        for entry in reversed(made):
            if entry["uuid"] in dead:
                continue
            if entry.get("op") == "revoke":
                dead.add(str(entry.get("edit")))
            alive.append(entry)
        return reversed(alive)

    def branch(self, end: int) -> Projection:
        """A projection of the entries before `end` that goes on alone; those from there on must be no
        edits and no frames. What both have is shared, so that its length costs nothing."""
        other, row = Projection(), bisect_left(self._keys, end)
        other.entries, other.position = self.entries.copy(end), self.position.branch(end)
        other.head = str(other.entries[-1]["uuid"]) if other.entries else None
        other.frame, other.inert, other.folds = self.frame, dict(self.inert), list(self.folds)
        other.folding = set(self.folding)
        other.rows, other._keys = self.rows.copy(row), self._keys[:row]
        other.tokens = self.tokens - sum(gone.tokens for gone in self.rows[row:])
        other._joiner = self._joined().copy()
        other._leant_on = self._leant_on
        self._lent = other._lent = True
        other.edited = list(self.edited)
        if row < len(self.rows):
            other.edited.append(row)
            other._touch(row)
        return other

    # ---- rows

    def _touch(self, row: int) -> None:
        self._changed = row if self._changed is None else min(row, self._changed)

    def _joined(self) -> Joiner:
        """The joiner, brought up to date: many entries at once cost one pass."""
        if self._changed is not None:
            self._joiner.update(self.rows, self._changed)
            self._changed = self._snapshot = None
        return self._joiner

    def _append(self, entry: Json, at: int) -> None:
        role = "assistant" if entry.get("role") == "assistant" else "user"
        for number, block in enumerate(dicts(entry.get("content"))):
            row = Row(role, block, at, number)
            self.rows.append(row)
            self._keys.append(at)
            self.tokens += row.tokens

    def _apply(self, edit: Json) -> int:
        """Apply an edit; return the first row that changed."""
        if edit.get("op") == "fold":
            return self._fold(edit)
        if edit.get("op") == "replace":
            return self._replace(edit)
        self.inert[edit["uuid"]] = f"unknown edit {edit.get('op')!r}"
        return len(self.rows)

    def _replace(self, edit: Json) -> int:
        earliest = len(self.rows)
        for item in dicts(edit.get("items")):
            problem, index = self._item_problem(item)
            if problem:
                self.inert[edit["uuid"]] = problem
                continue
            old = self.rows[index]
            new = Row(old.role, item["with"], old.entry, old.number, edit["uuid"])
            self._put(index, new)
            earliest = min(earliest, index, self._restore([(old.entry, old.number)]))
            for other, number in _pairs(item.get("needs")):
                key = (self.position.get(other, -1), number)
                leaning = (old.entry, old.number, str(edit["uuid"]))
                leant_on = self._leanings()
                leant_on[key] = (*leant_on.get(key, ()), leaning)
        return earliest

    def _leanings(self) -> dict[tuple[int, int], tuple[tuple[int, int, str], ...]]:
        """To be changed."""
        if self._lent:
            self._leant_on, self._lent = dict(self._leant_on), False
        return self._leant_on

    def _put(self, index: int, new: Row) -> None:
        self.tokens += new.tokens - self.rows[index].tokens
        self.rows[index] = new

    def _restore(self, gone: Iterable[tuple[int, int]]) -> int:
        """Blocks that leant on these are whole again; returns the first row that changed."""
        earliest, gone = len(self.rows), list(gone)
        while gone:
            key = gone.pop()
            leaning = self._leanings().pop(key) if key in self._leant_on else ()
            for entry, number, edit in leaning:
                index = self._index(entry, number)
                if index >= 0 and self.rows[index].edit == edit:
                    row = self.rows[index]
                    whole = dicts(self.entries[entry].get("content"))[number]
                    self._put(index, Row(row.role, whole, entry, number))
                    earliest = min(earliest, index)
        return earliest

    def comes_back(self, gone: Sequence[Row]) -> int:
        """Tokens by which blocks that lean on these would grow if these were changed."""
        keys = {(row.entry, row.number) for row in gone}
        leaning = {one for key in keys for one in self._leant_on.get(key, ())}
        more = 0
        for entry, number, edit in leaning:
            row = None if (entry, number) in keys else self.row(entry, number)
            if row is not None and row.edit == edit:
                whole = dicts(self.entries[entry].get("content"))[number]
                more += tokens.of_block(whole) - row.tokens
        return more

    def _index(self, entry: int, number: int) -> int:
        """The row of an entry's block; -1: it is not in the view."""
        for index in range(bisect_left(self._keys, entry), bisect_right(self._keys, entry)):
            if self.rows[index].number == number >= 0:
                return index
        return -1

    def row(self, entry: int, number: int) -> Row | None:
        index = self._index(entry, number)
        return self.rows[index] if index >= 0 else None

    def _item_problem(self, item: Json) -> tuple[str, int]:
        at, new = self.position.get(str(item.get("entry"))), item.get("with")
        if at is None or not isinstance(new, dict):
            return "there is no such entry", -1
        number = item.get("block")
        index = self._index(at, number) if isinstance(number, int) else -1
        if index < 0:
            return "the block is not in the view", -1
        return _replacement_problem(self.rows[index].block, cast("Block", new)), index

    def _fold(self, edit: Json) -> int:
        problem, first, last = self._fold_problem(edit)
        if problem:
            self.inert[edit["uuid"]] = problem
            return len(self.rows)
        low, high = bisect_left(self._keys, first), bisect_right(self._keys, last)
        new = [Row(role, block, first, -1, edit["uuid"]) for role, block in literals(edit)]
        self.tokens += sum(r.tokens for r in new) - sum(r.tokens for r in self.rows[low:high])
        self.rows.splice(low, high, new)
        self._keys[low:high] = array("q", [first] * len(new))
        self.folds = [f for f in self.folds if not (first <= f[0] and f[1] <= last)]
        self.folds.append((first, last))
        return min(low, self._restore([k for k in self._leant_on if first <= k[0] <= last]))

    def _fold_problem(self, edit: Json) -> tuple[str, int, int]:
        first = self.position.get(str(edit.get("first")))
        last = self.position.get(str(edit.get("last")))
        if first is None or last is None or first > last:
            return "the span's first or last entry is not there", 0, 0
        for low, high in self.folds:
            apart = last < low or high < first
            if not apart and not (first <= low and high <= last):
                return "it overlaps another fold", 0, 0
        inside = self.rows_of(first, last)
        if not inside:
            return "the span holds nothing", 0, 0
        if any(block.get("type") in (*_PAIRED, *THINKING) for _, block in literals(edit)):
            return "a fold puts in only text and media", 0, 0
        if self._parts_a_pair(inside, first, last):
            return "it would part a tool call from its result", 0, 0
        return "", first, last

    def _parts_a_pair(self, inside: list[Row], first: int, last: int) -> bool:
        uses, results = _ids(inside)
        if uses == results:
            return False
        if uses & set(self.open):
            return True
        low, high = bisect_left(self._keys, first), bisect_right(self._keys, last)
        uses_out, results_out = _ids([*self.rows[:low], *self.rows[high:]])
        return bool((uses - results) & results_out or (results - uses) & uses_out)

    def _rebuild(self) -> None:
        """Project everything again: the edit that an undo takes away may have hidden others."""
        self.edited.append(0)
        active = {edit["uuid"] for edit in self.active_edits()}
        self.rows, self._keys, self.folds = Shared[Row](), array("q"), []
        self._leant_on, self._lent = {}, False
        self.inert, self.tokens, self._joiner, self._changed = {}, 0, Joiner(), 0
        for at, entry in enumerate(self.entries):
            if entry["kind"] == "message":
                self._touch(len(self.rows))
                self._append(entry, at)
            elif entry["uuid"] in active and entry.get("op") != "revoke":
                self._touch(self._apply(entry))


def literals(edit: Json) -> Iterator[tuple[str, Block]]:
    """(role, block) that a fold puts in."""
    for message in dicts(edit.get("messages")):
        role = "assistant" if message.get("role") == "assistant" else "user"
        for block in dicts(message.get("content")):
            yield role, block


def _pairs(value: object) -> Iterator[tuple[str, int]]:
    """(entry, block) of each block that an item leans on."""
    for pair in as_list(value):
        match as_list(pair):
            case [str(entry), int(number)]:
                yield entry, number
            case _:
                continue


def _ids(rows: list[Row]) -> tuple[set[str], set[str]]:
    """Ids of the calls and of the results among the rows."""
    uses = {str(r.block.get("id")) for r in rows if r.block.get("type") == "tool_use"}
    results = {
        str(r.block.get("tool_use_id")) for r in rows if r.block.get("type") == "tool_result"
    }
    return uses, results


def _replacement_problem(old: Block, new: Block) -> str:
    kind, other = old.get("type"), new.get("type")
    if kind == "tool_result":
        same = other == kind and new.get("tool_use_id") == old.get("tool_use_id")
        return "" if same else "a result is replaced by a result of the same call only"
    if kind in ("text", *_MEDIA):
        return "" if other in ("text", *_MEDIA) else "text is replaced by text only"
    return f"a {kind} block is never replaced"
