"""Recall in a session (M7, M11): memories that fit what the user typed, shown once, with the reason.

Starts with the user's message, runs beside the turn and never holds a call up; what is ready goes to
the end of the view before a call. Touches the ledger (the recalled message, and why), the small model
through the spend ledger, and the derived files of the memory.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import cast
from uuid import uuid4

import anyio
import anyio.to_thread

from lamina.errors import LaminaError
from lamina.events import MemoryRecalled
from lamina.ledger import edits
from lamina.ledger.record import blocks_of_entry
from lamina.memories import Memory
from lamina.messages import Json
from lamina.ports import MemoryStore
from lamina.recall import why
from lamina.recall.memory_index import MemoryIndex
from lamina.recall.prefetch import (
    Prefetch,
    RecallRequest,
    Recalls,
    Selection,
    Selector,
    ShownMemories,
    attachments,
    question_in,
)
from lamina.state import State

LAYER = "recall"
_ENGINE_WAITS = 10.0  # seconds; see `act`
_FILE_TOOLS = ("Read", "Write", "Edit")
_OPEN_WAITS = 3.0


def act(state: State) -> Awaitable[None] | None:
    """Before every call: look for memories if the user typed something new, attach what is ready."""
    recalls = state.recalls
    if recalls is None or state.purpose != "main" or state.forked:
        return None
    known = len(recalls.underway)
    _begin(state, recalls)
    # The engine without a model only quotes memories: it has no first token to wait for.
    bare = state.deps.model.name == "none"
    picks = any(one.selector and not one.ended.is_set() for one in recalls.underway[known:])
    waits = _ENGINE_WAITS if bare else state.config.float("recall.wait") * picks
    if waits and recalls.underway:
        return _attach_all(state, recalls, waits)
    _attach(state, recalls)
    return None


async def warm_up(state: State) -> None:
    """When a session opens: read the index, so that the first question need not wait for it."""
    recalls = state.recalls
    if recalls is None:
        return

    async def refresh() -> None:
        await anyio.to_thread.run_sync(recalls.index.refresh, abandon_on_cancel=True)

    try:
        if _is_empty(recalls.index.store) or recalls.index.quick:
            return
        if state.deps.interactive:  # the user is still to type
            state.background.start(f"{LAYER} index", refresh)
            return
        with anyio.move_on_after(_OPEN_WAITS):
            await refresh()
    except LaminaError as error:
        state.layer_failed(LAYER, error)


def end(state: State) -> None:
    """The turn is over, however it ended: what is not there yet comes too late."""
    recalls = state.recalls
    if recalls is None or state.forked:
        return
    # The next message may ask for what was picked too late for this one; then it goes at once.
    recalls.vouched = frozenset(
        path for one in recalls.underway if one.selection for path in one.selection.paths
    )
    for prefetch in recalls.underway:
        prefetch.cancel()
        if prefetch.candidates:
            left = "the turn ended before they were picked"
            if prefetch.selection:
                left = "they were picked after the turn's last call"
            reason = why.recall_entry(
                prefetch.request.entry, prefetch.candidates, prefetch.selection, left=left
            )
            with suppress(LaminaError):  # what ended the turn is said, not this
                state.ledger.append(reason)
    recalls.underway.clear()


async def after_turn(state: State) -> None:
    """Whether the answer used what it was shown; the counts feed the ranker and ageing."""
    recalls = state.recalls
    if recalls is None or state.forked:
        return
    given, recalls.given = recalls.given, []
    for one in given:
        answer = why.answer_after(state.ledger.entries, one.attached)
        uses = {
            m.path: why.used(f"{m.name}\n{m.description}\n{m.body}", one.question, answer)
            for m in one.memories
        }
        state.ledger.append(why.use_entry(one.recall, uses))
        counted = {path: use.used for path, use in uses.items()}
        await anyio.to_thread.run_sync(recalls.index.count, counted, state.deps.clock.now())


# ---- looking


def _begin(state: State, recalls: Recalls) -> None:
    for entry in reversed(state.ledger.entries):
        if entry["kind"] == "message" and entry.get("role") == "assistant":
            return
        if entry["kind"] != "message" or "typed" not in (entry.get("origins") or ()):
            continue
        if entry["uuid"] not in recalls.asked:
            recalls.asked.add(entry["uuid"])
            if not _is_empty(recalls.index.store):
                _look(state, recalls, entry)


def _is_empty(store: MemoryStore) -> bool:
    """Is there surely nothing to find? One look at the directory, whatever its size."""
    if not store.in_files:
        return not store.stamps()
    try:
        with os.scandir(store.directory) as entries:
            return all(one.name in ("MEMORY.md", "logs") for one in entries)
    except FileNotFoundError:
        return True
    except OSError:
        return False  # the search says what is wrong


def _look(state: State, recalls: Recalls, entry: Json) -> None:
    typed = "\n".join(words for origin, words in blocks_of_entry(entry) if origin == "typed")
    question = question_in(typed)
    seen, spent = in_view(state, recalls.index)
    if not question or spent >= recalls.limits.session_bytes:
        return
    request = RecallRequest(
        str(entry["uuid"]),
        question,
        state.deps.clock.now(),
        tools=_tools_in_use(state),
        exclude=seen,
        vouched=recalls.vouched,
    )
    prefetch = Prefetch(recalls.index, request, recalls.limits, _selector(state))
    recalls.underway.append(prefetch)
    if prefetch.begin():
        return
    names = [LAYER, *(f"{LAYER} {number}" for number in range(2, 10))]
    if not any(state.background.start(name, prefetch.work) for name in names):
        recalls.underway.remove(prefetch)


def in_view(state: State, index: MemoryIndex) -> tuple[set[str], int]:
    """Memories that the view shows already, recalled or read, and the bytes of the recalled ones.
    A compaction takes them out of the view, and so resets both."""
    directory = os.path.realpath(index.store.directory)
    entries = state.ledger.entries
    seen: set[str] = set()
    spent = 0
    counted: set[int] = set()
    for row in state.ledger.projection.rows:
        entry = entries[row.entry]
        if row.number < 0 or row.edit or row.entry in counted:
            continue
        counted.add(row.entry)
        for one in cast("list[Json]", entry.get("recalled") or []):
            seen.add(str(one.get("path")))
            spent += int(one.get("bytes") or 0)
        meta = cast("Json", entry.get("meta") or {})
        seen.update(cast("list[str]", meta.get("memories") or []))
        path = str(meta.get("path") or "")
        if entry.get("tool") in _FILE_TOOLS and path.startswith(directory + "/"):
            seen.add(path[len(directory) + 1 :])
    return seen, spent


def _tools_in_use(state: State) -> tuple[str, ...]:
    rows = state.ledger.projection.rows[-200:]
    used = (row.block.get("name") for row in rows if row.block.get("type") == "tool_use")
    return tuple(dict.fromkeys(map(str, used)))


def _selector(state: State) -> Selector | None:
    config = state.config
    name = config.str("small_model")
    if state.deps.small is None or name == "none":
        return None
    timeout = config.float("recall.timeout")
    return Selector(state.ask_small, name, config.int("recall.max_tokens"), timeout)


# ---- attaching


async def _attach_all(state: State, recalls: Recalls, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        for prefetch in list(recalls.underway):
            await prefetch.ended.wait()
    _attach(state, recalls)


def _attach(state: State, recalls: Recalls) -> None:
    """What is ready goes to the end of the view, once."""
    for prefetch in list(recalls.underway):
        if prefetch.take():
            recalls.underway.remove(prefetch)
            _show(state, recalls, prefetch, prefetch.selection, prefetch.memories)
        elif early := prefetch.take_early():
            _show(state, recalls, prefetch, early, prefetch.early_memories)


def _show(
    state: State,
    recalls: Recalls,
    prefetch: Prefetch,
    selection: Selection | None,
    memories: Sequence[tuple[Memory, str]],
) -> None:
    seen, spent = in_view(state, recalls.index)
    fresh = [pair for pair in memories if pair[0].path not in seen]
    fresh = fresh[: recalls.limits.files - prefetch.shown]
    shown = attachments(
        fresh,
        directory=str(recalls.index.store.directory),
        now=prefetch.request.now,
        limits=recalls.limits,
        room=recalls.limits.session_bytes - spent,
    )
    if not prefetch.candidates and not prefetch.in_view:
        return
    rows = [one.to_json() for one in shown]
    left = ""
    if not shown and memories:
        left = "they were shown already, or the session's limit is reached"
    elif not memories and selection and selection.paths:
        left = "they were gone when they were to be read"
    recall, message = str(uuid4()), str(uuid4())
    reason = why.recall_entry(
        prefetch.request.entry,
        prefetch.candidates,
        selection,
        attached=message if shown else "",
        shown=rows,
        left=left,
        in_view=prefetch.in_view,
    )
    if not shown:
        state.ledger.append({**reason, "uuid": recall})
        return
    blocks = [one.block for one in shown]
    said = edits.message("user", blocks, "recalled", recalled=rows, uuid=message)
    state.ledger.append(said, {**reason, "uuid": recall})
    prefetch.shown += len(shown)
    names = [one.path for one in shown]
    given = [memory for memory, _ in fresh if memory.path in names]
    recalls.given.append(ShownMemories(recall, message, prefetch.request.question, given))
    state.emit(MemoryRecalled(tuple(names), sum(one.bytes for one in shown)))
