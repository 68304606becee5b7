"""`/why`, `/remember`, `/forget` and `/memory` in a conversation. What they write is the user's own word and
passes the store's gate as such.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from lamina.cli.chat_events import on_ctrl_c
from lamina.cli.terminal import harmless, note, one_line, out, style, table, width, wrapped
from lamina.errors import LaminaError, UsageError

if TYPE_CHECKING:
    from lamina.ports import MemoryStore
    from lamina.session import Session


_ROUNDS = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6}))?(?:\s+(.*))?", re.DOTALL)


async def compact(session: Session, argument: str) -> None:
    """Fold the conversation now; Ctrl-C stops it and leaves everything as it was."""
    from lamina.cli.sessions_folding import sentence

    async with on_ctrl_c(session.cancel):
        done = await session.compact(argument)
    out(wrapped(f"  {sentence(done)} /undo brings it back.", width()))


async def snip(session: Session, argument: str) -> None:
    """`N`, or `N-M`, then what it was; without an argument the rounds are listed."""
    if not argument:
        for line in session.rounds():
            out(f"  {one_line(line, max(20, width() - 4))}")
        out(style("  /snip 2-4 WHAT takes rounds 2 to 4 out of the view.", "dim"))
        return
    found = _ROUNDS.fullmatch(argument)
    if found is None:
        raise UsageError("Say which rounds: /snip 2, or /snip 2-4 and what they were about.")
    first = int(found[1])
    before = session.status().tokens
    session.snip(first, int(found[2] or first), found[3] or "")
    out(f"  {before - session.status().tokens:,} tokens left the view. /undo brings them back.")


async def undo(session: Session, argument: str) -> None:
    """Bring back the last fold, or the one with this id."""
    name = session.undo(argument)
    layer = next(e["layer"] for e in session.ledger.entries if e["uuid"] == name)
    tokens = session.status().tokens
    out(f"  Undone: {harmless(str(layer))}. The view has {tokens:,} tokens again.")


async def dream(session: Session, argument: str) -> None:
    """Whatever the gates say; `--dry-run` changes nothing."""
    from lamina.layers import dream as layer
    from lamina.layers.dream.record import DreamRecord

    if argument not in ("", "--dry-run"):
        raise UsageError("/dream takes nothing, or --dry-run to only show what would change.")
    store = session.state.deps.memory
    if store is None:
        raise UsageError("Memory is off here. `lamina settings --explain` says why.")
    with anyio.CancelScope() as scope:
        async with on_ctrl_c(scope.cancel):
            done = await layer.run(session.state, apply=not argument)
        for line in done.diff.splitlines() if argument else ():
            out(f"  {harmless(line)}")
        if done.status not in ("completed", "nothing"):
            raise LaminaError(done.text)
        if argument or done.status == "nothing":
            out(f"  {harmless(done.text)}")  # what was improved is told as an event
        for doubt in done.step.doubtful:
            note(f"  doubtful: {harmless(doubt)}")
        for problem in done.problems:
            note(f"  not taken over: {harmless(problem)}")
    if scope.cancelled_caught:
        note(f"  {harmless(str(DreamRecord(store.state).status().get('text', '')))}")


_GONE = (
    "<system-reminder>\nThe user had the memory {path} forgotten. Don't use what it said, wherever "
    "it still stands in this conversation.\n</system-reminder>"
)
_PART_GONE = (
    "<system-reminder>\nThe user had a part of the memory {path} forgotten; what else it said is in "
    "{rest}. Don't use that part, wherever it still stands in this conversation.\n</system-reminder>"
)


async def why(session: Session, argument: str) -> None:
    """The recalls of a turn; with no number those of the last turn that had any."""
    from lamina.cli.memory_why import show
    from lamina.recall.why import recalls_of, turns_of

    found = recalls_of(session.ledger.entries)
    typed = turns_of(session.ledger.entries)
    if argument and not (argument.isdecimal() and 1 <= int(argument) <= typed):
        raise UsageError(f"/why takes the number of a message; {typed} were typed so far.")
    turn = int(argument) if argument else max((one.turn for one in found), default=0)
    chosen = [one for one in found if one.turn == turn]
    show(chosen)
    if not chosen:
        note("  Nothing was recalled there." if argument else "  Nothing was recalled yet.")


async def remember(session: Session, argument: str) -> None:
    """Save this at once, as the user's own word."""
    from lamina.local.extractor import kind_of
    from lamina.memories import Proposal
    from lamina.memory import file_name, title_of

    if not argument:
        raise UsageError("Say what to remember: /remember I deploy from the host pelican")
    first = re.split(r"(?<=[.!?])\s|\n", argument, maxsplit=1)[0]
    name = title_of(argument)
    kind = await anyio.to_thread.run_sync(kind_of, argument)
    proposal = Proposal(
        path=file_name(kind, name, argument),
        name=name,
        description=" ".join(first.split())[:200],
        type=kind,
        body=f"{argument}\n",
        writer="user",
        session=session.id,
        reason="/remember",
    )
    outcome = await anyio.to_thread.run_sync(_store(session).remember, proposal)
    if not outcome.changed:  # a change is told as an event
        out(f"  {harmless(outcome.sentence)}")
    for warning in outcome.warnings:
        note(f"  {harmless(warning)}")


async def forget(session: Session, argument: str) -> None:
    """Forget the memory of this name, or the one that certainly fits some words, as the user."""
    from lamina.memories import Forgotten
    from lamina.memory import and_kept_away, not_forgotten
    from lamina.text.asks import forget_wish

    if not argument:
        raise UsageError("Say what to forget: /forget user_role.md, or what the memory says.")
    wish = forget_wish(f"forget {argument}")  # "/forget that I …" and "/forget I …" mean the same
    words = wish.words if wish else argument
    store = _store(session)

    def work() -> Forgotten:
        found = store.meant(words)
        if found.fit == "certain":
            return store.forget_meant(
                found.memories[0],
                part=found.part,
                writer="user",
                session=session.id,
                reason="/forget",
            )
        told = not_forgotten(found, words, "`/forget NAME` forgets one of them.")
        claim = wish is not None and wish.claim and found.fit in ("near", "none")
        kept = claim and store.keep_away(words, found.memories)
        return and_kept_away(told) if kept else told

    done = await anyio.to_thread.run_sync(work)
    for line in done.sentence.splitlines():
        out(f"  {harmless(line)}")
    if done.path:
        # What was recalled of it, and its index line, may still stand in the view.
        text = _PART_GONE if done.rest else _GONE
        session.state.say(text.format(path=done.path, rest=done.rest), "system")


async def memory(session: Session, argument: str) -> None:
    """Where memory is and what it holds, or the memories that fit some words."""
    from lamina.recall.memory_index import MemoryIndex, fitting

    store = _store(session)
    index = session.state.deps.memory_index or MemoryIndex(store)
    room = max(20, width() - 48)
    if argument:
        now = session.state.deps.clock.now()
        hits = await anyio.to_thread.run_sync(lambda: fitting(index, argument, 10, now))
        found = [memory for _, memory in hits]
    else:
        found = await anyio.to_thread.run_sync(store.list)
        waiting = len(store.waiting())
        inbox = f", {waiting} in the inbox (lamina memory inbox)" if waiting else ""
        many = "1 memory" if len(found) == 1 else f"{len(found)} memories"
        out(f"  {many} in {harmless(str(store.directory))}{inbox}")
    rows = [
        [f"  {one.type or '-'}", one_line(one.path, 36), one_line(one.description, room)]
        for one in found[:20]
    ]
    if rows:
        out(table(rows))
    elif argument:
        note("  Nothing found.")
    if len(found) > len(rows):
        out(f"  … and {len(found) - len(rows)} more: lamina memory list")


def _store(session: Session) -> MemoryStore:
    store = session.state.deps.memory
    if store is None:
        raise UsageError("Memory is off here. `lamina settings --explain` says why.")
    return store
