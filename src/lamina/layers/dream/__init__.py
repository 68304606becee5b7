"""Layer 6: the dream, which tidies memory between sessions and loses nothing. This is when it runs.

Its gates cost one `stat` on most turns. A dream holds a kernel lock, works out everything apart
from the files, by rules and, where there is one, by a model on a copy, and brings it in with one
journalled step that one command undoes. Whatever ends it before that leaves memory as it was.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lamina.events import LayerActed
from lamina.layers.dream import lock as dream_lock
from lamina.layers.dream.record import DreamRecord, days_waiting
from lamina.ledger import edits
from lamina.state import State

if TYPE_CHECKING:
    from lamina.layers.dream.runner import DreamResult
    from lamina.ports import MemoryStore

LAYER = "dream"
_REST = 3600.0  # seconds after a dream that did not get to its end
_SKEW = 3600.0  # a last dream this far ahead of the clock counts as just now


def after_turn(state: State) -> None:
    """Start a dream if every gate is open, the cheapest asked first."""
    store, now = state.deps.memory, state.deps.clock.now()
    if store is None or not due(state):
        return
    last = dream_lock.last_dream(store.directory / dream_lock.NAME)
    looked = state.looked.get(LAYER)
    if looked is not None and 0 <= now - looked < state.config.float("dream.scan_minutes") * 60:
        return
    state.looked[LAYER] = now
    if _sessions_since(state, store, last) < state.flags.value("dream.sessions"):
        return
    if not _failed_lately(store, now):
        state.background.start(LAYER, lambda: _work(state))


def due(state: State) -> bool:
    """Whether the last dream is long enough ago, where dreams are wanted at all."""
    store = state.deps.memory
    if store is None or not store.in_files or not wanted(state):
        return False
    ago = state.deps.clock.now() - dream_lock.last_dream(store.directory / dream_lock.NAME)
    return not -_SKEW < ago < state.flags.value("dream.hours") * 3600


def at_open(state: State) -> None:
    """Put the lock's mtime back if a dreamer was killed; the store finishes a half-done step itself."""
    store = state.deps.memory
    if store is not None and store.in_files and state.purpose == "main":
        dream_lock.repair(store.directory / dream_lock.NAME)
        if state.flags.on("daily_log") and state.deps.interactive:
            _offer(state, store)


def _offer(state: State, store: MemoryStore) -> None:
    """Once a day, in a conversation: nothing but a dream makes memories of a diary."""
    now = state.deps.clock.now()
    days = days_waiting(store.directory, now)
    today = f"{datetime.fromtimestamp(now, UTC).astimezone():%Y-%m-%d}"
    if days and not DreamRecord(store.state).offered(today):
        what = days[0] if len(days) == 1 else f"{days[0]} and {len(days) - 1} more"
        state.emit(LayerActed(LAYER, f"the log of {what} waits: /dream makes memories of it"))


def wanted(state: State) -> bool:
    """On, not in daily-log mode (the night does it there), not remote, main agent only; a program that
    opens a session does not wait and pay for one unless it asks for that."""
    return (
        state.flags.on("dream")
        and not state.flags.on("daily_log")
        and state.purpose == "main"
        and (state.deps.interactive or state.config.bool("dream.non_interactive"))
        and not state.forked
        and not state.config.bool("remote")
    )


def _sessions_since(state: State, store: MemoryStore, last: float) -> int:
    """Sessions written to since the last dream, the present one not counted."""
    here = state.deps.transcript.parent
    folders = {here, store.directory.parent, *here.glob("other-agents/*")}
    touched: set[Path] = set()
    for path in (path for folder in folders for path in folder.glob("*.jsonl")):
        with suppress(OSError):  # it went away meanwhile
            touched |= {path} if path.stat().st_mtime > last else set()
    return len(touched - {state.deps.transcript})


def _failed_lately(store: MemoryStore, now: float) -> bool:
    """A dream that failed or was cut short is not begun again and again: each try may cost money."""
    status = DreamRecord(store.state).status()
    return (
        status.get("status") != "completed" and 0 <= now - float(status.get("started", 0)) < _REST
    )


async def _work(state: State) -> None:
    try:
        dreamt = await run(state)
    except Exception as error:  # noqa: BLE001 - the edge of a background task; it is booked
        state.layer_failed(LAYER, error)
        return
    state.ledger.append(edits.job(LAYER, dreamt.status, reason=dreamt.text, commit=dreamt.commit))


async def run(
    state: State, *, apply: bool = True, prepared: DreamResult | None = None
) -> DreamResult:
    """Dream now, whatever the gates say; without `apply`, only find out what it would change.
    `prepared` is what such a dry run found: then just that is done, or nothing."""
    from lamina.layers.dream.runner import DreamResult, DreamRun

    store = state.deps.memory
    if store is None:
        return DreamResult("refused", "Memory is off.")
    if not store.in_files:
        return DreamResult("refused", "This memory is not in files, and a dream works on files.")
    path = store.directory / dream_lock.NAME
    before = None if apply else dream_lock.left_at(path)
    try:
        lock = dream_lock.acquire(path, now=state.deps.clock.now(), claude=state.config.claude)
    except dream_lock.LockHeld as held:
        return DreamResult("refused", f"No dream now: {held}.")
    try:
        if apply:
            return await DreamRun(state, store, lock, apply=True, prepared=prepared).dream()
        with DreamRecord(store.state).as_it_was():
            return await DreamRun(state, store, lock, apply=False, prepared=prepared).dream()
    finally:
        if not apply:
            lock.put_back(before)
        lock.release()
