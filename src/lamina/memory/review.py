"""What waits for a person, and what tools wrote behind the store's back: both end at the same gate.

Accepting an item of the inbox is the user's own write. Changes that a tool call of ours made to
memory files are attributed to it and gated after the fact: what is not accepted is taken back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from lamina.errors import Conflict, GateRefused
from lamina.memories import Evidence, Writer
from lamina.memory import drafts
from lamina.memory.file_store import FileStore
from lamina.memory.inbox import InboxItem, diff_of
from lamina.memory.index import INDEX, is_index
from lamina.memory.intents import Change, Note
from lamina.memory.outside import differences
from lamina.memory.store import Outcome
from lamina.memory.tombstones import ids_of
from lamina.memory.topics import read_topic


def inbox_diff(store: FileStore, item: InboxItem) -> str:
    """What accepting the item would change, as a unified diff."""
    current = store.files.read(item.proposal.path)
    return diff_of(item, current, proposed_content(store, item))


def proposed_content(store: FileStore, item: InboxItem) -> bytes:
    """The file as it would be; where it no longer fits, the proposal alone."""
    current = store.files.read(item.proposal.path)
    if item.exact is not None:
        return item.exact
    try:
        return drafts.written(item.proposal, current, item.base, replace=False)
    except Conflict:
        return drafts.written(item.proposal, None, None, replace=True)


def accept(store: FileStore, item_id: str, *, edited: bytes | None = None) -> Outcome:
    """Write an item, as it is or as the user edited it. Hard refusals still refuse."""
    item = store.inbox.get(item_id)
    proposal = dataclasses.replace(
        item.proposal, writer="user", reason=f"proposed by {item.proposal.writer}, accepted"
    )
    path = proposal.path
    current = store.files.read(path)
    if edited is None and item.exact is None:
        outcome = store.write(proposal, base=item.base)
    else:
        content = edited if edited is not None else item.exact or b""
        known = item.base is None if current is None else _same(path, current, item)
        if not known and edited is None:
            raise Conflict(f"{path} was changed since. Edit the item, or reject it.")
        outcome = store.write_file(
            path,
            content,
            writer="user",
            base=current,
            evidence=proposal.evidence,
            session=proposal.session,
            reason=proposal.reason,
            pointer=not is_index(path),
        )
    store.inbox.remove(item)
    return outcome


def _same(path: str, current: bytes, item: InboxItem) -> bool:
    memory = read_topic(path, current)
    return item.base is not None and dataclasses.replace(
        memory, mtime=item.base.mtime, size=item.base.size
    ) == dataclasses.replace(item.base)


def reject(store: FileStore, item_id: str) -> InboxItem:
    """Drop an item; the same words won't be proposed again."""
    item = store.inbox.get(item_id)
    store.make_state()
    with store.journal.writing():
        if not is_index(item.proposal.path):
            store.tombstones.put_up(store.tombstones.new(item.proposal, kind="rejected"))
    store.inbox.remove(item)
    return item


def attribute(
    store: FileStore,
    *,
    writer: Writer,
    session: str = "",
    evidence: Sequence[Evidence] = (),
    reason: str = "",
) -> list[Outcome | GateRefused]:
    """Gate what a tool call just changed by itself; `store.catch_up()` came before the call.

    Accepted changes are recorded as the writer's; for the others the file is put back as it was, and
    the proposal waits in the inbox or is refused.
    """
    store.make_state()
    with store.journal.recording() as history:
        changed = differences(store.files, store.scanner, history, busy=store.journal.intents)
        store.journal.nothing_to_adopt()
    # What was removed after what was written, which may say the same; the index last: its lines point
    # at memories that must be judged first.
    changed.sort(key=lambda one: (one.path.endswith(INDEX), one.after is None, one.path))
    outcomes: list[Outcome | GateRefused] = []
    gone: list[Change] = []
    for change in changed:
        with store.journal.writing():
            if store.files.read(change.path) != change.after:
                continue
            if change.after is None and _forgets(store, change, changed):
                gone.append(change)
            else:
                outcomes.append(_judged(store, change, changed, writer, session, evidence, reason))
    outcomes += [_forgotten(store, change, writer, session, reason) for change in gone]
    return outcomes


def _forgets(store: FileStore, change: Change, changed: Sequence[Change]) -> bool:
    """Is what the removed file said gone with it? A file that was only moved, or worked into another
    memory, is not forgotten."""
    if is_index(change.path) or not change.before:
        return False
    after = {one.path: one.after for one in changed}
    return not _said_elsewhere(store, change, after)


def _said_elsewhere(store: FileStore, change: Change, contents: Mapping[str, bytes | None]) -> bool:
    """Does a memory say what the removed file said: one of these, or another that is there?"""
    old = read_topic(change.path, change.before or b"")
    others = [
        read_topic(path, content)
        for path, content in contents.items()
        if content is not None and not is_index(path)
    ]
    found = store.search(f"{old.name} {old.description}", 5)
    others += [hit.memory for hit in found if hit.memory.path not in {change.path, *contents}]
    return any(store.tombstones.says_again(old, other) for other in others)


def _forgotten(
    store: FileStore, change: Change, writer: Writer, session: str, reason: str
) -> Outcome | GateRefused:
    """Forget it as everybody does, with tombstone and pointer: for that the file must be there."""
    with store.journal.writing():
        if store.files.read(change.path) is None:
            _put_back(store, change)
    try:
        store.forget(change.path, writer=writer, session=session, reason=reason, kind="removed")
    except GateRefused as error:
        return error
    return Outcome(change.path, "accept")


def _judged(
    store: FileStore,
    change: Change,
    changed: Sequence[Change],
    writer: Writer,
    session: str,
    evidence: Sequence[Evidence],
    reason: str,
) -> Outcome | GateRefused:
    path = change.path
    memory = read_topic(path, change.after or b"")
    proposal = dataclasses.replace(
        drafts.proposal_of(memory, writer, session), evidence=evidence, reason=reason
    )
    try:
        if change.after is None:
            store.admission.demand_unpinned(path, writer)
            _demand_kept(store, change, changed)
            note = Note(writer=writer, subject=f"remove {path}", session=session, reason=reason)
            store.journal.adopt([change], note)
            return Outcome(path, "accept")
        verdict = store.judge(proposal, change.before, change.after)
        base = read_topic(path, change.before) if change.before is not None else None
        item = None
        if verdict.decision == "inbox":
            item = store.inbox.add(proposal, verdict, base=base, exact=change.after)
    except GateRefused as error:
        _put_back(store, change)
        return error
    if item is not None:
        _put_back(store, change)
        return drafts.outcome_of(path, verdict, inbox_id=item.id)
    subject = drafts.subject_of(change.before, path)
    stones = store.tombstones.lifted_by(proposal, asked=verdict.revives)
    note = drafts.note_of(proposal, verdict, subject)
    store.journal.adopt([change], note, lifted=ids_of(stones))
    return drafts.outcome_of(path, verdict)


def _demand_kept(store: FileStore, change: Change, changed: Sequence[Change]) -> None:
    """A file that was moved to where the gate does not take it must stay where it was."""
    if change.before and not is_index(change.path):
        now = {one.path: store.files.read(one.path) for one in changed}
        if not _said_elsewhere(store, change, now):
            raise GateRefused(f"what {change.path} says would be lost, so it stays.")


def _put_back(store: FileStore, change: Change) -> None:
    """As the newest commit has it; what was refused must not enter the history on the way."""
    if change.before is None:
        store.files.remove(change.path, expected=change.after)
    else:
        store.files.write(change.path, change.before, expected=change.after)
