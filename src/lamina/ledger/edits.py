"""Entries of the ledger: one constructor a kind. Values only; `record.py` stamps and writes them.

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

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from lamina._version import __version__
from lamina.messages import Block, Json, Message, Origin, Purpose, Role, Usage, blocks_of, dicts


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
