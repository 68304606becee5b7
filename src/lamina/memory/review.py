"""What waits for a person, and what tools wrote behind the store's back: both end at the same gate.

Accepting an item of the inbox is the user's own write. Changes that a tool call of ours made to
memory files are attributed to it and gated after the fact: what is not accepted is taken back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lamina.errors import Conflict, GateRefused, MemoryStoreError
from lamina.memories import Change, Evidence, InboxItem, Note, Outcome, Proposal, Verdict, Writer
from lamina.memory import drafts
from lamina.memory.commits import diff_text
from lamina.memory.header_index import IndexBroken
from lamina.memory.index import INDEX, is_index
from lamina.memory.journalled import JournalledFiles
from lamina.memory.naming import free_names
from lamina.memory.removal import left_out
from lamina.memory.scan import LARGEST, blob_id, differences, indexes
from lamina.memory.topics import read_topic


def inbox_diff(store: JournalledFiles, item: InboxItem) -> str:
    """What accepting the item would change, as a unified diff."""
    path = item.proposal.path
    current = store.files.read(path)
    if item.removes:
        return diff_text(path, current, None)
    if current is not None and item.base is None and not is_index(path):
        current = current if _going_on(store, item, current) else None
    return diff_text(path, current, proposed_content(store, item))


def _going_on(store: JournalledFiles, item: InboxItem, current: bytes) -> Proposal | None:
    """What it becomes where a memory got its name: who accepts it writes it."""
    theirs = dataclasses.replace(item.proposal, writer="user")
    return drafts.going_on(theirs, read_topic(theirs.path, current), store.admission.by_hand)


def proposed_content(store: JournalledFiles, item: InboxItem) -> bytes:
    """The file as it would be; where it no longer fits, the proposal alone. Accepting vouches for all of
    it, so that of a quotation the key goes."""
    current = store.files.read(item.proposal.path)
    if item.exact is not None:
        return item.exact
    new, base = item.proposal, item.base
    if current is not None and base is None and (going_on := _going_on(store, item, current)):
        new, base = going_on, read_topic(new.path, current)
    try:
        content = drafts.written(new, current, base, replace=False)
    except Conflict:
        content = drafts.written(item.proposal, None, None, replace=True)
    vouched = Verdict("accept", "", origin="typed")
    return drafts.marked(content, item.proposal, vouched, by_hand=False)


def accept(
    store: JournalledFiles, item_id: str, *, edited: bytes | None = None, allow_secret: bool = False
) -> Outcome:
    """Write an item, as it is or as the user edited it. Hard refusals still refuse."""
    item = store.inbox.get(item_id)
    if item.removes and edited is None:
        return _accept_removal(store, item)
    proposal = dataclasses.replace(
        item.proposal,
        writer="user",
        reason=f"proposed by {item.proposal.writer}, accepted",
        allow_secret=allow_secret,
    )
    path = proposal.path
    current = store.files.read(path)
    if edited is None and item.exact is None:
        outcome = store.remember(proposal, base=item.base)
    else:
        content = edited if edited is not None else item.exact or b""
        known = item.base is None if current is None else _same(path, current, item)
        if not known and edited is None and item.base is None and not is_index(path):
            # Another memory got the name meanwhile.
            names = free_names(path, item.id)
            path = next(name for name in names if store.files.read(name, 1) is None)
            current = None
        elif not known and edited is None:
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
            allow_secret=allow_secret,
        )
    store.inbox.remove(item)
    return outcome


def _accept_removal(store: JournalledFiles, item: InboxItem) -> Outcome:
    path = item.proposal.path
    current = store.read_bytes(path)
    if not _same(path, current, item):
        raise Conflict(f"{path} was changed since. Edit the item, or reject it.")
    store.forget(path, reason=f"proposed by {item.proposal.writer}, accepted")
    store.inbox.remove(item)
    return Outcome(path, "accept")


def _same(path: str, current: bytes, item: InboxItem) -> bool:
    memory = read_topic(path, current)
    return item.base is not None and dataclasses.replace(
        memory, mtime=item.base.mtime, size=item.base.size
    ) == dataclasses.replace(item.base)


def reject(store: JournalledFiles, item_id: str, *, for_good: bool = True) -> InboxItem:
    """Drop an item; `for_good`, and the same words won't be proposed again."""
    item = store.inbox.get(item_id)
    store.make_state()
    with store.journal.writing():
        new = _only_new(item)
        unsaid = is_index(new.path) or item.removes or not (new.body or new.description)
        if for_good and not unsaid:
            store.tombstones.put_up(store.tombstones.new(new, kind="rejected"))
    store.inbox.remove(item)
    return item


def _only_new(item: InboxItem) -> Proposal:
    """What was rejected of a change: not the lines that stand there and stay."""
    proposal, base = item.proposal, item.base
    if base is None:
        return proposal
    known = {*base.body.splitlines()}
    lines = [line for line in proposal.body.splitlines() if line not in known]
    description = "" if proposal.description == base.description else proposal.description
    return dataclasses.replace(
        proposal, body="\n".join(lines).strip(), description=description, name=""
    )


# The user's words that take back what a change drops.
TakesBack = Callable[[Change], Sequence[Evidence]]


def _nothing_taken_back(_change: Change) -> Sequence[Evidence]:
    return ()


@dataclass(frozen=True, slots=True)
class _Call:
    """The tool call that changed files."""

    writer: Writer
    session: str
    evidence: Sequence[Evidence]
    takes_back: TakesBack
    reason: str

    def proposal(self, path: str, content: bytes, change: Change) -> Proposal:
        memory = read_topic(path, content)
        return dataclasses.replace(
            drafts.proposal_of(memory, self.writer, self.session),
            evidence=self.evidence,
            takes_back=self.takes_back(change),
            reason=self.reason,
        )


@dataclass(frozen=True, slots=True)
class _Others:
    """What is known of the files that a call changed, beside their content."""

    unsettled: set[str]  # may yet be put back
    times: Mapping[str, tuple[int, str]]  # when each was last changed before, and its blob

    def mtime(self, change: Change) -> float:
        when, blob = self.times.get(change.path, (0, ""))
        known = change.before is not None and blob == blob_id(change.before)
        return when / 1e9 if known else 0.0


def _times(store: JournalledFiles) -> dict[str, tuple[int, str]]:
    try:
        return {path: (row[0], row[3]) for path, row in store.scanner.index.recorded().items()}
    except IndexBroken:
        return {}


def attribute(
    store: JournalledFiles,
    *,
    writer: Writer,
    session: str = "",
    evidence: Sequence[Evidence] = (),
    takes_back: TakesBack = _nothing_taken_back,
    reason: str = "",
) -> list[Outcome | GateRefused]:
    """Gate what a tool call just changed by itself; `store.catch_up()` came before the call.

    Accepted changes are recorded as the writer's; for the others the file is put back as it was, and
    the proposal waits in the inbox or is refused.
    """
    call = _Call(writer, session, evidence, takes_back, reason)
    store.make_state()
    times = _times(store)
    with store.journal.recording() as history:
        changed = differences(store.files, store.scanner, history, busy=store.journal.intents)
        store.journal.nothing_to_adopt()
    # What lost words after what gained them, which may say the same; the index last: its lines point
    # at memories that must be judged first.
    changed.sort(
        key=lambda one: (one.path.endswith(INDEX), one.after is None, _drops(one), one.path)
    )
    outcomes = _outgrown(store, times)
    gone: list[Change] = []
    others = _Others({change.path for change in changed}, times)
    for change in changed:
        try:
            with store.journal.writing():
                if _plain(store, change.path) != change.after:
                    continue
                forgets = change.after is None and _forgets(store, change, changed)
                kept = _kept(store, change, call, others) if forgets else None
                if forgets and kept is None:
                    gone.append(change)
                else:
                    outcomes.append(kept or _judged(store, change, changed, call, others))
        except MemoryStoreError as error:  # of one file, and the others must be judged all the same
            outcomes.append(GateRefused(str(error)))
        others.unsettled.discard(change.path)
    outcomes += [_forgotten(store, change, writer, session, reason) for change in gone]
    if any(isinstance(outcome, GateRefused) for outcome in outcomes):
        store.scanner.forget_index()  # it may know words of what was just taken back
    return outcomes


def _plain(store: JournalledFiles, path: str) -> bytes | None:
    """What the file says; None where it is gone or something else has its name."""
    try:
        return store.files.read(path)
    except MemoryStoreError:
        return None


def _outgrown(
    store: JournalledFiles, times: Mapping[str, tuple[int, str]]
) -> list[Outcome | GateRefused]:
    """Put back what the call made too large to be looked at; what was too large before has no time."""
    outcomes: list[Outcome | GateRefused] = []
    found = [*store.scan().found, *indexes(store.files)]
    for path in [one.path for one in found if one.size > LARGEST]:
        before = store.journal.history.content(path) if path in times else None
        if before is not None:
            with store.journal.writing():
                store.files.make_way(path)
                store.files.remove(path)
                store.files.write(path, before, expected=None)
            outcomes.append(GateRefused(f"{path} would have more than {LARGEST:,} bytes."))
    return outcomes


def _drops(change: Change) -> bool:
    if not change.before or change.after is None or is_index(change.path):
        return False
    old, new = (read_topic(change.path, one) for one in (change.before, change.after))
    return bool(left_out(old, new))


def _kept(
    store: JournalledFiles, change: Change, call: _Call, others: _Others
) -> Outcome | GateRefused | None:
    """Of a removed file that says what only its owner may take back: it is put back, and the removal
    waits. None if it may go."""
    content = change.before or b""
    proposal = call.proposal(change.path, content, change)
    verdict = store.admission.judge_removed(
        proposal, content, unsettled=others.unsettled, mtime=others.mtime(change)
    )
    if verdict.decision == "accept":
        return None
    try:
        store.admission.demand_unpinned(change.path, call.writer)
        base = read_topic(change.path, content)
        item = store.inbox.add(proposal, verdict, base=base, exact=None, removes=True)
    except GateRefused as error:
        return error
    finally:
        _put_back(store, change)
    return drafts.outcome_of(change.path, verdict, inbox_id=item.id)


def _forgets(store: JournalledFiles, change: Change, changed: Sequence[Change]) -> bool:
    """Is what the removed file said gone with it? A file that was only moved, or worked into another
    memory, is not forgotten."""
    if is_index(change.path) or not change.before:
        return False
    after = {one.path: one.after for one in changed}
    return not _said_elsewhere(store, change, after)


def _said_elsewhere(
    store: JournalledFiles, change: Change, contents: Mapping[str, bytes | None]
) -> bool:
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
    store: JournalledFiles, change: Change, writer: Writer, session: str, reason: str
) -> Outcome | GateRefused:
    """Forget it as everybody does, with tombstone and pointer: for that the file must be there."""
    with store.journal.writing():
        if _plain(store, change.path) is None:
            _put_back(store, change)
    try:
        store.forget(change.path, writer=writer, session=session, reason=reason, kind="removed")
    except GateRefused as error:
        return error
    return Outcome(change.path, "accept")


def _judged(
    store: JournalledFiles,
    change: Change,
    changed: Sequence[Change],
    call: _Call,
    others: _Others,
) -> Outcome | GateRefused:
    path = change.path
    proposal = call.proposal(path, change.after or b"", change)
    try:
        if change.after is None:
            store.admission.demand_unpinned(path, call.writer)
            _demand_kept(store, change, changed)
            if is_index(path):
                _demand_said(store, change, proposal)
            elif change.before:
                kept = _kept(store, change, call, others)
                if kept is not None:
                    return kept
            subject = f"remove {path}"
            note = Note(
                writer=call.writer, subject=subject, session=call.session, reason=call.reason
            )
            store.journal.adopt([change], note)
            return Outcome(path, "accept")
        verdict = store.admission.judge(
            proposal,
            change.before,
            change.after,
            after=change.after,
            unsettled=others.unsettled,
            mtime=others.mtime(change),
            removed=[
                read_topic(one.path, one.before)
                for one in changed
                if one.after is None and one.before and not is_index(one.path)
            ],
        )
        base = read_topic(path, change.before) if change.before is not None else None
        item = None
        if verdict.decision == "inbox":
            item = store.inbox.add(proposal, verdict, base=base, exact=change.after)
        after = drafts.labelled(change.after, verdict.unproven)
        if not is_index(path):
            after = drafts.marked(after, proposal, verdict, by_hand=False)
    except (GateRefused, MemoryStoreError) as error:
        _put_back(store, change)
        return error if isinstance(error, GateRefused) else GateRefused(str(error))
    if item is not None:
        _put_back(store, change)
        return drafts.outcome_of(path, verdict, inbox_id=item.id)
    if after != change.after:
        store.files.write(path, after, expected=change.after)
        change = Change(path, change.before, after)
    subject = drafts.subject_of(change.before, path)
    lifted = store.tombstones.lifted_by(proposal, asked=verdict.revives)
    note = drafts.note_of(proposal, verdict, subject)
    store.journal.adopt([change], note, lifted=lifted)
    return drafts.outcome_of(path, verdict)


def _demand_said(store: JournalledFiles, change: Change, proposal: Proposal) -> None:
    """An index that says what no memory says is not removed whole: there is nothing to put it into."""
    verdict = store.admission.judge_removed(proposal, change.before or b"")
    if verdict.decision != "accept":
        raise GateRefused(verdict.reason)


def _demand_kept(store: JournalledFiles, change: Change, changed: Sequence[Change]) -> None:
    """A file that was moved to where the gate does not take it must stay where it was."""
    if change.before and not is_index(change.path):
        now = {one.path: _plain(store, one.path) for one in changed}
        if not _said_elsewhere(store, change, now):
            raise GateRefused(f"what {change.path} says would be lost, so it stays.")


def _put_back(store: JournalledFiles, change: Change) -> None:
    """As the newest commit has it; what was refused must not enter the history on the way."""
    store.files.make_way(change.path)
    if change.before is None:
        store.files.remove(change.path, expected=change.after)
    else:
        store.files.write(change.path, change.before, expected=change.after)
