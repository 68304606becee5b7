"""Entries of the ledger: one constructor a kind, and the sequence and the places that hold them, which
cost as much to branch off at 10,000 entries as at 100. Values only; `record.py` stamps and writes them.

`session`  whose record this is, and of which version
`message`  what somebody said: role, content, origins (one a block), and for answers usage and id
`frame`    system, tools, model and parameters from here on
`request`  a call: head (last entry that it showed), hash, purpose
`edit`     a change of the view: `replace` blocks, `fold` a span, `revoke` an earlier edit
`state`    a named value that outlives the process (open tasks, cursors); the last one counts
`job`      background work: its state and cursor
`event`    something worth keeping that is no message
`repair`   a line that readers pass over
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from operator import is_
from pathlib import Path
from typing import Any, Generic, TypeVar, cast, overload

from lamina._version import __version__
from lamina.messages import Block, Json, Message, Origin, Purpose, Role, Usage, blocks_of, dicts

_SIZE = 128  # entries of a part that is shared whole
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def written_at(entry: Mapping[str, Any], unknown: float = 0.0) -> float:
    """When an entry was written, in seconds; `unknown` if it does not say."""
    try:
        return datetime.fromisoformat(str(entry.get("ts"))).timestamp()
    except ValueError:
        return unknown


def block_id(entry: Json, number: int) -> str:
    """The id by which `expand` gives this block of an entry back."""
    name, blocks = str(entry["uuid"])[:8], dicts(entry.get("content"))
    alone = len(blocks) == 1 and blocks[0].get("type") == "tool_result"
    return name if alone else f"{name}.{number + 1}"


def session(name: str, project: Path) -> Json:
    """The first entry of a record."""
    return {"kind": "session", "session": name, "version": __version__, "project": str(project)}


def message(
    role: Role,
    content: str | Sequence[Block],
    origin: Origin | Sequence[Origin],
    **more: Any,
) -> Json:
    blocks = blocks_of(content)
    origins = [origin] * len(blocks) if isinstance(origin, str) else list(origin)
    if len(origins) != len(blocks):
        raise ValueError("one origin a block")
    return {"kind": "message", "role": role, "content": blocks, "origins": origins, **more}


def answer(content: Sequence[Block], usage: Usage, **more: Any) -> Json:
    return message("assistant", content, "assistant", usage=usage.to_json(), **more)


def frame(
    system: Sequence[Block],
    tools: Sequence[Json],
    model: str,
    params: Mapping[str, Any],
    **more: Any,
) -> Json:
    """`more`: `tokens` as the model's own tokeniser counts them, `short` for the short form."""
    said = {"system": list(system), "tools": list(tools)}
    return {"kind": "frame", **more, **said, "model": model, "params": dict(params)}


def request(
    head: str | None, hash_: str, purpose: Purpose, blocks: int, tokens: int, **more: Any
) -> Json:
    sizes = {"blocks": blocks, "tokens": tokens}
    return {"kind": "request", "head": head, "hash": hash_, "purpose": purpose, **sizes, **more}


def _edit(op: str, layer: str, what: Json, more: Json, *, changes_prefix: bool) -> Json:
    head = {"kind": "edit", "op": op, "layer": layer}
    return {**head, **what, "changesPrefix": changes_prefix, **more}


def replace(
    items: Iterable[tuple[str, int, Block]],
    layer: str,
    *,
    changes_prefix: bool = False,
    needs: Mapping[tuple[str, int], Sequence[tuple[str, int]]] | None = None,
    **more: Any,
) -> Json:
    """Put other blocks in the place of (entry uuid, block number). `needs`: a block that is put in
    holds only while these others stand in the view as they do now; then the original is back."""
    put: list[Json] = []
    for entry, number, new in items:
        leans = [list(other) for other in (needs or {}).get((entry, number), ())]
        more_of_it = {"needs": leans} if leans else {}
        put.append({"entry": entry, "block": number, "with": new, **more_of_it})
    return _edit("replace", layer, {"items": put}, more, changes_prefix=changes_prefix)


def fold(
    first: str,
    last: str,
    messages: Sequence[Message],
    layer: str,
    *,
    changes_prefix: bool = True,
    **more: Any,
) -> Json:
    """Put messages in the place of all entries from first to last."""
    said = [{"role": m["role"], "content": blocks_of(m["content"])} for m in messages]
    what = {"first": first, "last": last, "messages": said}
    return _edit("fold", layer, what, more, changes_prefix=changes_prefix)


def revoke(edit: str, layer: str, *, changes_prefix: bool = True, **more: Any) -> Json:
    """Undo an edit (or an undo)."""
    return _edit("revoke", layer, {"edit": edit}, more, changes_prefix=changes_prefix)


def state(name: str, value: Any) -> Json:
    return {"kind": "state", "name": name, "value": value}


def job(name: str, status: str, cursor: str | None = None, **more: Any) -> Json:
    return {"kind": "job", "name": name, "status": status, "cursor": cursor, **more}


def event(value: Json) -> Json:
    return {"kind": "event", "event": value}


# ---- what a branch shares with the ledger that it left


class Shared(Sequence[T]):
    """A list in parts. A copy has the same full parts, which nobody changes: whoever would puts
    another part in their place."""

    __slots__ = ("_full", "_last")

    def __init__(self, values: Iterable[T] = ()) -> None:
        self._full: list[list[T]] = []
        self._last: list[T] = []
        self.extend(values)

    def copy(self, end: int | None = None) -> Shared[T]:
        """The same up to `end`, for somebody who goes on alone."""
        other = Shared[T]()
        full, rest = divmod(len(self) if end is None else min(end, len(self)), _SIZE)
        other._full = self._full[:full]
        other._last = (self._full[full] if full < len(self._full) else self._last)[:rest]
        return other

    # ---- reading

    def _parts(self) -> tuple[list[T], ...]:
        return (*self._full, self._last)

    def __len__(self) -> int:
        return len(self._full) * _SIZE + len(self._last)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return self._slice(index)
        last, low = self._last, _SIZE * len(self._full)
        if index < 0:
            if index >= -len(last):
                return last[index]
            if (index := index + low + len(last)) < 0:
                raise IndexError(index)
        return last[index - low] if index >= low else self._full[index // _SIZE][index % _SIZE]

    def _slice(self, index: slice) -> list[T]:
        last, low = self._last, _SIZE * len(self._full)
        if index.stop is index.step is None and (index.start or 0) >= low:
            return last[index.start - low :] if low else last[index]  # the end, as most are
        start, stop, step = index.indices(low + len(last))
        if step != 1:
            return list(self)[index]
        first = min(start // _SIZE, len(self._full))
        start, stop = start - first * _SIZE, max(0, stop - first * _SIZE)
        parts = (*self._full[first : first + stop // _SIZE + 1], self._last)
        return list(chain.from_iterable(parts))[start:stop]

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._parts())

    def __reversed__(self) -> Iterator[T]:
        return chain.from_iterable(map(reversed, reversed(self._parts())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(cast("Sequence[Any]", other))

    __hash__ = None  # type: ignore[assignment] # pyright: ignore[reportAssignmentType, reportUnannotatedClassAttribute]

    def __repr__(self) -> str:
        return repr(list(self))

    def shared(self, other: Sequence[T]) -> int:
        """How many leading values are the same objects."""
        if not isinstance(other, Shared):
            return 0
        same = list(map(is_, self._full, other._full))  # noqa: SLF001
        alike = same.index(False) if False in same else len(same)
        values = list(map(is_, self[alike * _SIZE :], other[alike * _SIZE :]))
        return alike * _SIZE + (values.index(False) if False in values else len(values))

    # ---- changing

    def append(self, value: T) -> None:
        last = self._last
        last.append(value)
        if len(last) == _SIZE:
            self._full.append(last)
            self._last = []

    def extend(self, values: Iterable[T]) -> None:
        for value in values:
            self.append(value)

    def __setitem__(self, index: int, value: T) -> None:
        part, place = divmod(index + len(self) * (index < 0), _SIZE)
        if part < len(self._full):
            changed = self._full[part] = self._full[part].copy()
            changed[place] = value
        else:
            self._last[place] = value

    def cut(self, end: int) -> None:
        """Drop what stands from `end` on."""
        if end >= (low := _SIZE * len(self._full)):
            del self._last[end - low :]
        else:
            [*self._full, self._last] = self.copy(end)._parts()  # noqa: SLF001

    def splice(self, low: int, high: int, values: Iterable[T]) -> None:
        """Put these in the place of what stands from `low` to `high`."""
        rest = self[high:]
        self.cut(low)
        self.extend(values)
        self.extend(rest)


class Places(Generic[K]):
    """Where in a ledger something stands, by its name. A branch sees those of the ledger that it left,
    up to where it left it."""

    __slots__ = ("_before", "_end", "_own")

    def __init__(self, before: Places[K] | None = None, end: int = 0) -> None:
        self._before, self._end = before, end
        self._own: dict[K, int] = {}

    def branch(self, end: int) -> Places[K]:
        return Places(self, end)

    def __bool__(self) -> bool:
        """For a branch, whether the ledger that it left has any."""
        return bool(self._own or self._before)

    def add(self, name: K, place: int) -> None:
        """The first of a name counts."""
        if self._before is None:
            self._own.setdefault(name, place)
        elif name not in self:
            self._own[name] = place

    @overload
    def get(self, name: K) -> int | None: ...
    @overload
    def get(self, name: K, default: int) -> int: ...
    def get(self, name: K, default: int | None = None) -> int | None:
        found = self._own.get(name)
        if found is None and self._before is not None:
            found = self._before.get(name)
            found = found if found is not None and found < self._end else None
        return default if found is None else found

    def __getitem__(self, name: K) -> int:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._own or (
            self._before is not None and self.get(cast("K", name)) is not None
        )
