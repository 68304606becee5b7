"""Layer 1, what is done to content before it is first sent: what the view says already is folded into
a line that says where (`ledger/folding.py`), and a large tool result goes to disk, a preview with
its path stays in the view.

Touches `<session>/tool-results/` and appends edits. Only what the model has not seen is changed: what
was shown whole stays whole, and a replacement keeps its bytes. The record has every result whole;
what a command does to the files is undone from it.
"""

from __future__ import annotations

import hashlib
import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from lamina.errors import StorageError
from lamina.events import LayerActed, Warned
from lamina.ledger import edits
from lamina.ledger.folding import Folding, foldable_text, label_of, said_in, with_text
from lamina.ledger.places import RESULTS
from lamina.ledger.view import Row
from lamina.machine import write_private
from lamina.messages import Block, Json, as_list, as_object, dicts, text_of, tool_result
from lamina.state import FoldedView, MovedResult, State

LAYER = "tool_results"
FOLDS = "folds"
_EXPAND = "expand"  # our tool, here or over MCP: whoever asks for an original wants it whole
_TOLD = re.compile(
    r"<persisted-output>\nThis result has [^\n]*? KB\. All of it is in ([^\n]+); read that"
)
# A file that was changed so shortly before may be changed again without a new time.
_CLOCK_STEP_NS = 50_000_000
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,120}")


@dataclass(slots=True)
class _Result:
    row: Row
    tool: str
    text: str
    limit: int  # 0: never by itself
    place: int  # of its call among those of the message, from 1
    moved: str = ""  # the preview that takes its place


# ---- folds


def fold(state: State) -> None:
    """Fold what is new into what the view says already."""
    entries, projection = state.ledger.entries, state.ledger.projection
    view, fresh, least = state.folding, state.ledger.seen + 1, state.flags.value("folds.least")
    if view is None and not _worth_reading(projection.rows_of(fresh, len(entries)), least):
        return
    if view is None or view.entries is not entries:  # a new process, or the recorder went back
        view = state.folding = FoldedView(entries, Folding(least))
    items: list[tuple[str, int, Block]] = []
    needs: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for row in projection.rows_of(view.until, len(entries)):
        if row.number < 0:
            continue
        key, block, entry = (row.entry, row.number), row.block, entries[row.entry]
        if row.block.get("type") == "tool_use":
            view.calls[str(row.block.get("id"))] = row.block
        elif row.entry >= fresh and _may_fold(state, view, row, entry):
            words = foldable_text(block)
            name = edits.block_id(entry, row.number) if state.expands else ""
            found = view.folding.fold(words, name, lambda key: _stands(state, view, key))
            if found is not None:
                block = with_text(block, found.text)
                items.append((str(entry["uuid"]), row.number, block))
                needs[str(entry["uuid"]), row.number] = [
                    (str(entries[at]["uuid"]), number) for at, number in found.needs
                ]
        _note_shown(view, key, block, entry)
    view.until = len(entries)
    if not items:
        return
    before = projection.tokens
    # All of it stands in the view: nothing leaves that extraction would have to see first.
    [edit] = state.ledger.append(edits.replace(items, FOLDS, needs=needs))
    for item in edit["items"]:
        at = projection.position[item["entry"]]
        view.blocks[at, item["block"]] = item["with"]
    view.until = len(entries)
    what = f"{len(items)} block{'s' * (len(items) > 1)} folded into what the view says already"
    state.emit(LayerActed(FOLDS, what, before - projection.tokens, len(items)))


def _worth_reading(fresh: Iterable[Row], least: int) -> bool:
    """Could any of these be folded? In a talk without tools nothing need be known of the lines."""
    return any(
        row.block.get("type") == "tool_result" or len(row.block.get("text") or "") >= least
        for row in fresh
        if row.role == "user"
    )


def _may_fold(state: State, view: FoldedView, row: Row, entry: Json) -> bool:
    """Results, and what the program adds by itself; never the user's words, nor what was moved, nor
    what was asked for again."""
    if row.edit or row.role != "user":
        return False
    if row.block.get("type") == "text":
        origins = as_list(entry.get("origins"))
        return row.number < len(origins) and origins[row.number] in ("system", "hook")
    tool = str(entry.get("tool") or "")
    call = view.calls.get(str(row.block.get("tool_use_id")), {})
    if tool.lower().endswith(_EXPAND) or f"/{RESULTS}/" in str(as_object(call.get("input"))):
        return False
    limit = _limit(state, tool) if state.flags.on("tool_results") else 0
    return not limit or len(foldable_text(row.block)) <= limit  # else it goes to disk


def _stands(state: State, view: FoldedView, key: tuple[int, int]) -> bool:
    """Whether a block is in the view as it was when its lines were noted."""
    row = state.ledger.projection.row(*key)
    return row is not None and (row.entry > state.ledger.seen or row.block is view.blocks[key])


def _note_shown(view: FoldedView, key: tuple[int, int], block: Block, entry: Json) -> None:
    if block.get("type") == "tool_use":
        words = "\n".join(said_in(block))
        label = f"your {label_of(block, 'call')}" if words else ""
    elif block.get("type") == "tool_result":
        call = view.calls.get(str(block.get("tool_use_id")), {"name": entry.get("tool")})
        words, label = foldable_text(block), label_of(call)
    else:
        words = foldable_text(block) if entry.get("role") == "user" else ""
        label = "a reminder" if words.startswith("<system-reminder>") else "a message"
    if words:
        view.folding.add(key, label, words)
        view.blocks[key] = block


# ---- moving


def act(state: State) -> None:
    """Move what is over its tool's threshold, then the largest until each message fits."""
    while _moved_some(state):
        pass  # what leant on a moved result is whole again, and may be too long now


def _moved_some(state: State) -> bool:
    fresh = state.ledger.projection.rows_of(state.ledger.seen + 1, len(state.ledger.entries))
    calls = [row.block.get("id") for row in fresh if row.block.get("type") == "tool_use"]
    places = {call: place for place, call in enumerate(calls, 1)}  # results come as they are done
    changed: list[_Result] = []
    for group in _messages(fresh):
        found = [_movable(state, row, places) for row in group]
        results = [result for result in found if result is not None]
        changed += _move(state, results, sum(_length(row.block) for row in group))
    if not changed:
        return False
    entries = state.ledger.entries
    items = [(entries[r.row.entry]["uuid"], r.row.number, _preview_block(r)) for r in changed]
    before = state.ledger.projection.tokens
    state.leave(edits.replace(items, LAYER))
    saved = before - state.ledger.projection.tokens
    what = f"{len(changed)} large result{'s' * (len(changed) > 1)} moved to disk"
    state.emit(LayerActed(LAYER, what, saved, len(changed)))
    return True


def _messages(rows: list[Row]) -> Iterator[list[Row]]:
    """Tool results that will stand in one message."""
    for role, run in groupby(rows, key=lambda row: row.role):
        group = [row for row in run if row.block.get("type") == "tool_result"]
        if group and role != "assistant":
            yield group


def _movable(state: State, row: Row, places: dict[Any, int]) -> _Result | None:
    """A result of text alone that nobody replaced yet."""
    entry = state.ledger.entries[row.entry]
    block = row.block
    if row.edit:
        edit = state.ledger.projection.entry(row.edit) or {}
        if edit.get("layer") != FOLDS:
            return None
        block = dicts(entry["content"])[row.number]  # the file gets all of it
    content: Any = block.get("content")
    if not isinstance(content, (str, list)):
        return None
    if any(as_object(part).get("type") != "text" for part in as_list(block["content"])):
        return None  # images are never moved
    tool = str(entry.get("tool") or "")
    place = places.get(row.block.get("tool_use_id"), 1)
    words = text_of(cast("str | list[Block]", content))
    return _Result(row, tool, words, _limit(state, tool), place)


def _limit(state: State, tool: str) -> int:
    by_tool: dict[str, int] = state.flags.value("tool_results.thresholds")
    default: int = state.flags.value("tool_results.threshold")
    if tool in by_tool:
        return min(by_tool[tool], 50_000)
    spec = state.spec_of(tool)
    if spec is not None and spec.threshold is not None:
        return min(spec.threshold, default)
    return default


def _length(block: Block) -> int:
    content: Any = block.get("content")
    return len(content if isinstance(content, str) else text_of(dicts(content)))


def _move(state: State, results: list[_Result], total: int) -> list[_Result]:
    moved = [r for r in results if r.limit and len(r.text) > r.limit]
    for result in moved:
        total += _store(state, result)
    most: int = state.flags.value("tool_results.message_limit")
    for result in sorted((r for r in results if not r.moved), key=_gives_way):
        if total <= most:
            break
        total += _store(state, result)
        moved.append(result)
    return [r for r in moved if r.moved]


def _gives_way(result: _Result) -> tuple[bool, int]:
    """Order in which results leave a message that is too long: the largest first; those of tools that
    never move by themselves last. These are files that the agent asked for, and it takes them up in
    the order in which it asked (docs/decisions/message-limit.md), so that a later one stays out of the
    prompt for longer."""
    if result.limit:
        return False, -len(result.text)
    return True, -len(result.text) * result.place


def _store(state: State, result: _Result) -> int:
    """Write the whole result to disk; return by how much the message changed."""
    call = str(result.row.block.get("tool_use_id"))
    file = call if _PLAIN_ID.fullmatch(call) else hashlib.sha256(call.encode()).hexdigest()[:32]
    name = edits.block_id(state.ledger.entries[result.row.entry], result.row.number)
    failed = bool(result.row.block.get("is_error"))
    words = kept(state, file, result.text, failed=failed, name=name if state.expands else "")
    if words == result.text:
        return 0
    result.moved = words
    return len(words) - len(result.text)


def told(state: State, file: str, text: str) -> str:
    """What a message that is no tool result says of a text that may be too large for it."""
    large = len(text) > state.flags.value("tool_results.threshold")
    return kept(state, file, text, failed=False) if large and state.flags.on(LAYER) else text


def kept(state: State, file: str, text: str, *, failed: bool, name: str = "") -> str:
    """Write the text to disk, and return the preview that takes its place: itself if it is shorter.
    `name`: by which Expand brings it back."""
    data = text.encode("utf-8", "replace")
    path = state.deps.folder / RESULTS / f"{file}.txt"
    where = f"All of it is in {path}; read that file for the rest"
    if name and state.names_files:
        where += f", or Expand {name} brings it back"
    elif name:
        where = f"Expand {name} shows all of it"
    preview = _preview(state, data, failed=failed)
    size = f"{len(data) / 1024:,.1f} KB"
    words = (
        f"<persisted-output>\nThis result has {size}. {where}.\n\n{preview}\n</persisted-output>"
    )
    if len(words) >= len(text):
        return text
    try:
        write_private(path, data, lasting=True)
    except OSError as error:
        raise StorageError(f"Can't keep a tool result at {path}: {error.strerror}.") from error
    return words


def _preview(state: State, data: bytes, *, failed: bool) -> str:
    size = state.config.int("tool_results.preview_bytes")
    if not failed:
        return f"It begins:\n{head(data, size)}\n…"
    half = size // 2  # what went wrong stands at the end
    return f"It begins:\n{head(data, half)}\n…\nIt ends:\n{tail(data, half)}"


def head(data: bytes, size: int) -> str:
    """About the first `size` bytes, cut at a line end unless that falls before half."""
    part = data[:size]
    if len(data) > size and (end := part.rfind(b"\n")) >= size // 2:
        part = part[:end]
    return part.decode("utf-8", "ignore")


def tail(data: bytes, size: int) -> str:
    part = data[-size:]
    if len(data) > size and 0 <= (start := part.find(b"\n")) <= size // 2:
        part = part[start + 1 :]
    return part.decode("utf-8", "ignore")


# ---- keeping the files as they were


def mend(state: State) -> None:
    """Put back what a command changed of the files, so that reading one gives the result's bytes."""
    _note_moved(state)
    try:
        mended = [path for path, one in state.moved.items() if _mended(state, path, one)]
    except OSError as error:
        state.emit(Warned(f"Can't put {error.filename} back as it was: {error.strerror}."))
        return
    if mended:
        what = "a tool result" if len(mended) == 1 else f"{len(mended)} tool results"
        state.emit(Warned(f"Something changed {what} in {mended[0].parent}; put back as it was."))


def _note_moved(state: State) -> None:
    entries = state.ledger.entries
    for entry in entries[state.moved_until :]:
        if entry["kind"] == "edit" and entry.get("layer") == LAYER and entry.get("op") == "replace":
            for item in entry.get("items", ()):
                _note_one(state, item)
    state.moved_until = len(entries)


def _note_one(state: State, item: Json) -> None:
    position = state.ledger.projection.position.get(item["entry"])
    found = _TOLD.match(str(item["with"].get("content")))
    if found is None or position is None:
        return
    path = Path(found[1])
    # In a copy of a session the previews name the first one's files.
    if path.parent.name == RESULTS and path.parents[2] == state.deps.folder.parent:
        block = state.ledger.entries[position]["content"][item["block"]]
        state.moved[path] = MovedResult(block)


def _mended(state: State, path: Path, moved: MovedResult) -> bool:
    stamp = _stamp(path)
    if stamp is not None and stamp == moved.stamp:
        return False
    ours = path.parent.parent == state.deps.folder
    if not ours and not path.parent.is_dir():
        return False  # that session was deleted
    data = text_of(moved.block["content"]).encode("utf-8", "replace")
    intact = stamp is not None and _content(path) == data
    if not intact:
        if path.parent.is_symlink():
            path.parent.unlink()  # else the result would be written wherever it leads
        write_private(path, data, lasting=True)
    moved.stamp = _stamp(path, settled=True)
    return not intact


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # a command may have taken the right to read it away
        return b""


def _stamp(path: Path, *, settled: bool = False) -> tuple[int, ...] | None:
    """What tells an unchanged file: nobody can set the time of its last change. None if it is no plain
    file, or, for `settled`, if the clock may not have moved on since."""
    try:
        found = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode) or path.parent.is_symlink():
        return None
    if settled and time.time_ns() - found.st_ctime_ns < _CLOCK_STEP_NS:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns


def _preview_block(result: _Result) -> Block:
    old = result.row.block
    new = tool_result(str(old.get("tool_use_id")), result.moved, is_error=bool(old.get("is_error")))
    return {**{k: v for k, v in old.items() if k not in new}, **new}
