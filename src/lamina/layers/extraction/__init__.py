"""Layer 5: what the user said that is worth keeping, taken into memory after the answer.

Runs beside the conversation: by a fork that shares the parent's cached prefix and writes through
the store and its gate, or, with no model or no money left, by the local extractor. A cursor in the
ledger says how far it came; it moves only when a run succeeded or had nothing to do. Touches the
memory directory through the store, and its own entries in the ledger.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from lamina.cache.account import keep_warm_after
from lamina.errors import GateRefused, InboxFull, SaidAlready
from lamina.events import LayerActed, MemoryUpdated, Warned
from lamina.layers import fork_tools
from lamina.ledger import edits
from lamina.ledger.record import Ledger, blocks_of_entry
from lamina.memories import Evidence, Outcome, Proposal, quoted_from
from lamina.memory import holds, in_their_words
from lamina.messages import Json, as_object
from lamina.state import State
from lamina.text import wording
from lamina.text.asks import wishes_in
from lamina.text.origins import split, typed_parts
from lamina.tools.memory_guard import log_instead

if TYPE_CHECKING:
    from lamina.ports import MemoryStore

LAYER = "extraction"
CURSOR = "extraction.cursor"
BEGUN = "extraction.begun"  # state entry: [cursor, runs by the model from there that were cut off]
_MOST_BEGUN = 2  # a process that ends again and again does not pay again and again
MOST_FAILURES = 3  # in a row; then the rules serve, and the next run tries the model again
OFFER = "extraction.offer"  # written by State.leave before anything leaves the view


@dataclass(slots=True)
class Extracted:
    """What one run did."""

    status: str = "done"  # done | skipped
    by: str = ""  # model | rules
    files: list[str] = field(default_factory=list[str])
    inbox: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])
    not_kept: list[str] = field(default_factory=list[str])  # … by the gate, and worth telling
    no_room: int = 0  # what the inbox could not take
    warnings: list[str] = field(default_factory=list[str])  # what the gate remarked
    revived: list[str] = field(default_factory=list[str])  # forgotten once, and asked for again
    reason: str = ""

    def take(self, outcome: Outcome) -> str:
        if outcome.decision == "inbox":
            self.inbox.append(outcome.path)
        elif outcome.changed and outcome.path not in self.files:
            self.files.append(outcome.path)
            self.revived += [outcome.path] if outcome.revived else []
            self.warnings += [outcome.sentence] if quoted_from(outcome.origin) else []
        self.warnings += outcome.warnings
        return "\n".join([outcome.sentence, *outcome.warnings])

    def turn_away(self, error: GateRefused) -> None:
        self.refused.append(str(error))
        self.no_room += isinstance(error, InboxFull)
        if not isinstance(error, InboxFull | SaidAlready):
            self.not_kept.append(str(error))

    def to_json(self) -> Json:
        shown = ("by", "files", "inbox", "refused", "warnings", "revived", "reason")
        return {name: value for name in shown if (value := getattr(self, name))}


# ---- when


def after_turn(state: State) -> None:
    """Start a run if one is due. Never waits."""
    if due_in(state) == 0:
        begin(state)


def at_open(state: State) -> None:
    """Take up what an earlier process of this session left undone, or left for a pause."""
    job = state.ledger.job(LAYER)
    left = job is not None and job.get("status") in ("started", "deferred")
    left = left or _offered(state) or state.thrifty
    if left and wanted(state) and any_typed(after_cursor(state.ledger)):
        begin(state)


def at_end(state: State) -> None:
    """The session ends: what waited for a pause waits no longer."""
    if wanted(state) and due_in(state) is not None:
        begin(state)


def due_in(state: State) -> float | None:
    """Seconds without a request after which a run is due; 0: now, None: there is nothing to do or
    it waits for more turns."""
    turns = sum("typed" in (entry.get("origins") or ()) for entry in after_cursor(state.ledger))
    every = state.flags.value("extraction.every_turns")
    if not turns:
        return None
    if not state.thrifty:
        return 0.0 if turns >= every or _offered(state) else None
    if turns >= max(every, state.config.int("background.turns")) or _offered(state):
        return 0.0
    return keep_warm_after(state.capabilities.cache_ttl)


def wanted(state: State) -> bool:
    """Main agent only, memory on, switched on for this kind of run, not remote."""
    return (
        state.purpose == "main"
        and not state.forked
        and state.deps.memory is not None
        and state.flags.on("extraction")
        and (state.deps.interactive or state.flags.on("extraction_non_interactive"))
        and not state.config.bool("remote")
    )


def _offered(state: State) -> bool:
    """Has something left the view that extraction has not seen?"""
    offer = state.ledger.job(OFFER)
    position = state.ledger.projection.position
    return offer is not None and position.get(str(offer.get("cursor")), -1) > _cursor(state.ledger)


def _cursor(ledger: Ledger) -> int:
    return ledger.projection.position.get(str(ledger.state(CURSOR, "")), -1)


def after_cursor(ledger: Ledger, upto: str = "") -> list[Json]:
    """Messages after the cursor, up to and with an entry (all of them if none is named)."""
    entries = ledger.entries
    last = ledger.projection.position.get(upto, len(entries) - 1)
    return [one for one in entries[_cursor(ledger) + 1 : last + 1] if one["kind"] == "message"]


def any_typed(entries: Sequence[Json]) -> bool:
    """Did the user say anything in these?"""
    return any(
        span.origin == "typed" and span.text.strip()
        for entry in entries
        for origin, text in blocks_of_entry(entry)
        if origin == "typed"
        for span in split(text)
    )


def said_at(entry: Json) -> datetime | None:
    """When it was said, on the user's own clock: in the evening "tomorrow" is another day in UTC."""
    try:
        return datetime.fromisoformat(str(entry.get("ts"))).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def begin(state: State) -> None:
    # Newest wins: a run that is going on takes this up as its one trailing run.
    state.trailing[LAYER] = str(state.ledger.head)
    state.background.start(LAYER, lambda: _work(state))


async def _work(state: State) -> None:
    while upto := state.trailing.pop(LAYER, ""):
        try:
            await run(state, upto)
        except Exception as error:  # noqa: BLE001 - the edge of a background task; it is booked
            state.layer_failed(LAYER, error)
            failures = _failures(state) + 1
            state.ledger.append(
                edits.state(BEGUN, None),  # it was not cut off
                edits.job(LAYER, "failed", reason=str(error)[:500], failures=failures),
            )
            return


def _failures(state: State) -> int:
    """Runs in a row that failed up to now."""
    return int((state.ledger.job(LAYER) or {}).get("failures") or 0)


def _begun(state: State) -> int:
    """Runs by the model on what follows the cursor that were begun, and never ended."""
    match state.ledger.state(BEGUN):
        case [str(cursor), int(times)] if cursor == state.ledger.state(CURSOR, ""):
            return times
        case _:
            return 0


# ---- one run


async def run(state: State, upto: str) -> Extracted:
    """Extract from the messages after the cursor up to this entry; the cursor follows."""
    store = state.deps.memory
    if store is None:
        return Extracted("skipped", reason="memory is off")
    entries = after_cursor(state.ledger, upto)
    done = Extracted("skipped")
    if not any_typed(entries):
        done.reason = "the user said nothing new"
    elif _wrote_memory(entries, store.directory, state.config.project):
        done.reason = "the agent wrote memory itself"
    else:
        state.ledger.append(edits.job(LAYER, "started", upto, failures=_failures(state)))
        done = await _by_model(state, store, entries) or await _by_rules(state, store, entries)
    state.ledger.append(
        edits.state(CURSOR, upto), edits.job(LAYER, done.status, upto, **done.to_json())
    )
    _say(state, done)
    return done


def _say(state: State, done: Extracted) -> None:
    """What the user sees of a run."""
    if done.files:
        state.emit(MemoryUpdated(tuple(done.files), "extraction"))
    for path in done.revived:
        back = f"{path} was forgotten; you asked for it again, so it is back"
        state.emit(LayerActed(LAYER, back))
    for warning in done.warnings:
        state.emit(Warned(warning))
    # A model hears why the gate refused and may do better; what it saved then is all that counts.
    if done.by == "rules" or not (done.files or done.inbox):
        for reason in dict.fromkeys(done.not_kept):
            state.emit(LayerActed(LAYER, f"something you said was not kept: {reason}"))
    if waiting := len(done.inbox):
        what = "1 memory waits" if waiting == 1 else f"{waiting} memories wait"
        state.emit(LayerActed(LAYER, f"{what} in the inbox: `lamina memory inbox`", 0, waiting))
    if lost := done.no_room:
        what = f"the inbox is full, so {lost} more found no room: `lamina memory inbox`"
        state.emit(LayerActed(LAYER, what, 0, lost))


def _wrote_memory(entries: Sequence[Json], directory: Path, project: Path) -> bool:
    """Did the main agent save something itself in these messages? What waits in the inbox is not."""
    failed = {
        str(block.get("tool_use_id"))
        for entry in entries
        for waits in [as_object(entry.get("meta")).get("decision") == "inbox"]
        for block in entry["content"]
        if block.get("type") == "tool_result" and (waits or block.get("is_error"))
    }
    real = os.path.realpath(directory)
    for entry in entries:
        for block in entry["content"]:
            if block.get("type") != "tool_use" or str(block.get("id")) in failed:
                continue
            path = str(as_object(block.get("input")).get("file_path"))
            inside = Path(os.path.realpath(project / os.path.expanduser(path))).is_relative_to(real)
            writes = block.get("name") in fork_tools.WRITING and inside
            if writes or block.get("name") == "Remember":
                return True
    return False


async def _by_model(state: State, store: MemoryStore, entries: Sequence[Json]) -> Extracted | None:
    """None where no model can be asked: none is set, it fails again and again, its money is spent,
    it was cut off twice by the process's end, or memory is not in files that it could write."""
    asked = state.deps.model.name != "none" and store.in_files
    if state.fork is None or not asked or _failures(state) >= MOST_FAILURES:
        return None
    begun = _begun(state)
    if begun >= _MOST_BEGUN:
        return None
    from lamina.layers.extraction.fork import by_fork

    state.ledger.append(edits.state(BEGUN, [state.ledger.state(CURSOR, ""), begun + 1]))
    return await by_fork(state, state.fork, store, entries)


def log_of(state: State, store: MemoryStore) -> Callable[[], float] | None:
    """The clock of the diary, where one is kept instead of memories."""
    return state.deps.clock.now if state.flags.on("daily_log") and store.in_files else None


# ---- without a model


async def _by_rules(state: State, store: MemoryStore, entries: Sequence[Json]) -> Extracted:
    session, now = state.deps.session_id, state.deps.clock.now()
    daily = log_of(state, store) is not None
    # Aside: rules and judge take most of a second to load, and the user may be typing.
    save = partial(save_by_rules, store, entries, session, now, daily=daily)
    return await anyio.to_thread.run_sync(save)


def save_by_rules(
    store: MemoryStore, entries: Sequence[Json], session: str, now: float, *, daily: bool = False
) -> Extracted:
    """Save what the local extractor finds in ledger entries, as far as the gate lets it."""
    done = Extracted(by="rules")
    for found in proposals(entries, session, now):
        proposal = in_their_words(store, found)
        try:
            logged = log_instead(store, proposal, now) if daily else None
            done.take(logged or store.remember(proposal))
        except GateRefused as error:
            done.turn_away(error)
    return done


def proposals(entries: Sequence[Json], session: str, now: float) -> list[Proposal]:
    """What the local extractor finds in ledger entries."""
    from lamina.local.extractor import extract  # its rules take a while to load

    messages = [_message(entry) for entry in entries]
    found = extract(messages, now=datetime.fromtimestamp(now, UTC).astimezone(), session=session)
    unwanted = Unwanted(entries)
    return [one for one in found if not unwanted(f"{one.description}\n{one.body}", one.evidence)]


class Unwanted:
    """What the user asked to forget in these messages."""

    def __init__(self, entries: Sequence[Json]) -> None:
        self._at = {str(entry.get("uuid")): place for place, entry in enumerate(entries)}
        self._wishes = [
            (place, wish.words)
            for place, entry in enumerate(entries)
            for part in typed_parts(blocks_of_entry(entry))
            for wish in wishes_in(part)
        ]

    def __call__(self, said: str, evidence: Sequence[Evidence]) -> bool:
        """Does a memory rest on a wish itself, or only on words from before a wish about it?"""
        if not self._wishes:
            return False
        if any(wishes_in(one.quote) and not _says_beside(one.quote, said) for one in evidence):
            return True
        last = max((self._at.get(one.entry, -1) for one in evidence), default=-1)
        return any(last < place and holds(words, said) for place, words in self._wishes)


def _says_beside(quote: str, said: str) -> bool:
    """Does a quote with a wish in it also say, in other sentences, what the memory says?"""
    others = [one for one in wording.sentences(quote) if not wishes_in(one)]
    return holds(said, "\n".join(others))


def _message(entry: Json) -> Mapping[str, Any]:
    origins = [*(entry.get("origins") or ())]
    pairs = zip(entry["content"], origins, strict=False)
    blocks = [{**block, "origin": origin} for block, origin in pairs]
    return {
        "role": entry["role"],
        "content": blocks,
        "origin": "typed" if "typed" in origins else (origins[0] if origins else "system"),
        "time": said.isoformat() if (said := said_at(entry)) else None,
        "uuid": entry["uuid"],
    }
