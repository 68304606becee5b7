"""How a proposal becomes a file, a note for the history, and an outcome for its writer. Pure."""

from __future__ import annotations

import dataclasses

from lamina.errors import Conflict, NameTaken
from lamina.memories import Memory, Proposal, Verdict, Writer
from lamina.memory.intents import Note
from lamina.memory.merge import merge_memory
from lamina.memory.store import Outcome
from lamina.memory.topics import edit_topic, new_topic, read_topic
from lamina.memory.wording import fold, sentences


def written(
    proposal: Proposal, current: bytes | None, base: Memory | None, *, replace: bool
) -> bytes:
    """The file's new content: the proposal brought into what stands there, or Conflict."""
    wanted = Memory(
        path=proposal.path,
        name=proposal.name,
        description=proposal.description,
        type=proposal.type,
        body=proposal.body,
        extra=dict(proposal.extra),
    )
    if current is None:
        if base is not None and not replace:
            raise Conflict(f"{proposal.path} was removed by somebody else. Read the memory again.")
        return new_topic(
            name=wanted.name,
            description=wanted.description,
            type=wanted.type,
            body=wanted.body,
            extra=wanted.extra,
        )
    existing = read_topic(proposal.path, current)
    if base is not None and not replace:
        fitting = merge_memory(base, existing, _keeping_extra(wanted, base))
        if fitting is None:
            raise Conflict(f"{proposal.path} was changed by somebody else. Read it again.")
        wanted = fitting
    elif not replace and not _says_the_same(existing, wanted):
        raise NameTaken(f"{proposal.path} is another memory already. Give this one another name.")
    return edit_topic(
        current,
        name=wanted.name,
        description=wanted.description,
        type=wanted.type,
        body=wanted.body,
        extra={
            key: value for key, value in wanted.extra.items() if existing.extra.get(key) != value
        },
    )


def _keeping_extra(wanted: Memory, base: Memory) -> Memory:
    """A proposal that does not mention an extra key does not mean to remove it."""
    return dataclasses.replace(wanted, extra={**base.extra, **wanted.extra})


def goes_on_with(proposal: Proposal, existing: Memory) -> bool:
    """Does it say all that the memory says, word for word, and perhaps more? Then it may take that
    memory's place; anything else, a newer value or the opposite, gets a file of its own."""
    if proposal.type != existing.type or not existing.body.strip():
        return False
    return _statements(existing.body) <= _statements(proposal.body)


def _statements(text: str) -> set[str]:
    return {fold(one).casefold().rstrip(".!。！ ") for one in sentences(text)}


def _says_the_same(one: Memory, other: Memory) -> bool:
    return (one.name, one.description, one.type, one.body.strip()) == (
        other.name,
        other.description,
        other.type,
        other.body.strip(),
    )


def proposal_of(memory: Memory, writer: Writer, session: str) -> Proposal:
    return Proposal(
        path=memory.path,
        name=memory.name,
        description=memory.description,
        type=memory.type,
        body=memory.body,
        writer=writer,
        session=session,
        extra=memory.extra,
    )


def note_of(proposal: Proposal, verdict: Verdict, subject: str, **marks: str) -> Note:
    return Note(
        writer=proposal.writer,
        subject=subject,
        session=proposal.session,
        entries=tuple(dict.fromkeys(one.entry for one in proposal.evidence if one.entry)),
        origin=verdict.origin,
        reason=proposal.reason,
        marks=marks,
    )


def subject_of(current: bytes | None, path: str) -> str:
    return f"{'remember' if current is None else 'update'} {path}"


def outcome_of(path: str, verdict: Verdict, *, changed: bool = True, inbox_id: str = "") -> Outcome:
    return Outcome(
        path=path,
        decision="inbox" if inbox_id else "accept",
        reason=verdict.reason,
        warnings=tuple(verdict.warnings),
        changed=changed and not inbox_id,
        inbox_id=inbox_id,
        update_of=verdict.update_of,
        origin=verdict.origin,
        revived=verdict.revives and not inbox_id,
    )
