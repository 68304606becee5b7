"""How a proposal becomes a file, a note for the history, and an outcome for its writer; and the
secrets that it would bring into memory: where they stand, and the same write without them. Pure.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, TypeVar

from lamina.errors import Conflict, GateRefused, NameTaken, UsageError
from lamina.memories import (
    LABEL,
    MEMORY_TYPES,
    QUOTED,
    Memory,
    MemoryType,
    Note,
    Outcome,
    Proposal,
    Verdict,
    Writer,
    quoted_from,
)
from lamina.memory.evidence import TEMPLATE_WORDS
from lamina.memory.merging import laid_out, merge_memory
from lamina.memory.naming import file_name, free_names, title_of, why_misnamed
from lamina.memory.topics import brought_to, edit_topic, read_topic, topic_of
from lamina.secrets import Rules, Secrets, scan, secrets_in
from lamina.text.claims import fenced_blocks
from lamina.text.own_words import on_one_line
from lamina.text.wording import fold, sentences, spans
from lamina.text.written_dates import with_absolute_dates

if TYPE_CHECKING:
    from lamina.memory_port import MemoryStore

Written = TypeVar("Written", Memory, Proposal)

_EXPLAINS = ("**Why", "**How to apply")


def written(
    proposal: Proposal, current: bytes | None, base: Memory | None, *, replace: bool
) -> bytes:
    """The file's new content: the proposal brought into what stands there, or Conflict."""
    wanted = _memory_of(proposal)
    if current is None:
        if base is not None and not replace:
            raise Conflict(f"{proposal.path} was removed by somebody else. Read the memory again.")
        return topic_of(wanted)
    existing = read_topic(proposal.path, current)
    if base is not None and not replace:
        # A proposal that does not mention an extra key does not mean to remove it.
        wanted = dataclasses.replace(wanted, extra={**base.extra, **wanted.extra})
        fitting = merge_memory(base, existing, wanted)
        if fitting is None:
            raise Conflict(f"{proposal.path} was changed by somebody else. Read it again.")
        wanted = fitting
        if proposal.writer != "user":  # who may change the form of the lines that stand there
            wanted = dataclasses.replace(wanted, body=laid_out(existing.body, wanted.body))
    elif not replace and not _says_the_same(existing, wanted):
        raise NameTaken(f"{proposal.path} is another memory already. Give this one another name.")
    return brought_to(current, wanted)


def _memory_of(proposal: Proposal) -> Memory:
    return Memory(
        path=proposal.path,
        name=proposal.name,
        description=proposal.description,
        type=proposal.type,
        body=proposal.body,
        extra=dict(proposal.extra),
    )


def going_on(
    proposal: Proposal, existing: Memory, by_hand: Callable[[str], bool]
) -> Proposal | None:
    """What a proposal becomes whose name a memory has. Where it says all that the memory says, word for
    word, and perhaps more, it may take its place; anything else, a newer value or the opposite, gets a
    file of its own (None). What a person wrote stays as it stands: more is added below by themselves
    only, since a part of what somebody typed is not their word."""
    known = _statements(existing.body)
    if proposal.type != existing.type or not existing.body.strip():
        return None
    if not known <= _statements(proposal.body):
        return None
    if not by_hand(existing.path):
        return proposal
    new = _beyond(known, proposal.body)
    if new and proposal.writer != "user":
        return None
    return dataclasses.replace(
        proposal,
        name=existing.name,
        description=existing.description or proposal.description,
        body=laid_out(existing.body, f"{existing.body}\n{new}"),
        extra={},
    )


def _beyond(known: Collection[str], body: str) -> str:
    """What a text says beyond these statements, laid out as it is there; a block of code stays whole."""
    kept: list[str] = []
    done = 0
    for block in (*fenced_blocks(body), ""):
        text = body[done : body.index(block, done) if block else len(body)]
        done += len(text) + len(block)
        pieces = (text[start:end] for start, end in spans(text, semicolons=False))
        kept += (one for one in pieces if not one.strip() or _statement(one.strip()) not in known)
        kept += [block] if any(one not in known for one in _statements(block)) else []
    return "".join(kept).strip()


def _statements(text: str) -> set[str]:
    return {_statement(one) for one in sentences(text)}


def _statement(sentence: str) -> str:
    return fold(sentence).casefold().rstrip(".!。！ ")


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


def marked(content: bytes, proposal: Proposal, verdict: Verdict, *, by_hand: bool) -> bytes:
    """The file with the key that says whether it is a quotation: the gate's word, whatever its writer put
    there. A person may write the key or take it off, and a teammate's file comes as it is."""
    if proposal.writer == "team" or (proposal.writer == "user" and by_hand):
        return content
    quoted = quoted_from(verdict.origin)
    if read_topic(proposal.path, content).extra.get(QUOTED, "") == quoted:
        return content
    content = edit_topic(content, extra={QUOTED: quoted or None})
    if read_topic(proposal.path, content).quoted != quoted:  # beyond what is read of a file's head
        raise GateRefused(f"{proposal.path} has too much frontmatter.")
    return content


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


def proposed(
    text: str,
    *,
    type: MemoryType,  # noqa: A002 - the word in the file itself
    store: MemoryStore,
    name: str = "",
    description: str = "",
    reason: str = "lamina.Memory.remember",
) -> Proposal:
    """What somebody wants kept, with a title, a line to find it by and a file's name where they gave
    none. A secret in it gets into no file name."""
    if not isinstance(text, str) or not (text := text.strip()):
        raise UsageError("There is no text to remember.")
    if type not in MEMORY_TYPES:
        raise UsageError(f"type can't be {type!r}: it is one of {', '.join(MEMORY_TYPES)}.")
    first = next(iter(sentences(text)), text)
    description = " ".join((description or first).split())[:200]
    name = " ".join(name.split()) or title_of(text)
    hide = secrets_in(text, name, description, rules=store.secret_rules)
    return Proposal(
        path=file_name(type, hide.mask(name, ""), hide.mask(description, "")),
        name=name,
        description=description,
        type=type,
        body=text,
        writer="user",
        reason=reason,
    )


def labelled(content: bytes, lines: Collection[str]) -> bytes:
    """A file with these lines marked as the assistant's, where a person sees it and may take it off."""
    theirs = {line.strip() for line in lines}
    text = content.decode("utf-8", "surrogateescape").split("\n")
    for at, line in enumerate(text if theirs else ()):
        found = TEMPLATE_WORDS.match(bare := line.strip())
        if bare in theirs and found is not None:
            text[at] = line.replace(bare, f"{found[0]} {LABEL}{bare[found.end() :]}", 1)
    return "\n".join(text).encode("utf-8", "surrogateescape")


# ---- in whose words


def in_their_words(store: MemoryStore, proposal: Proposal, base: Memory | None = None) -> Proposal:
    """A memory of the user's word, named and described by their own sentence, whatever a model
    called it; where the model worded it anew, or a fact would not speak, their whole sentences
    stand there instead, if that is what keeps it from being taken. What explains it stays, and so do
    the lines of `base`, the memory that it changes."""
    if base is None:
        return _worded(store, proposal, new=True)
    body = proposal.body.strip("\n")
    laid = laid_out(base.body, body)
    proposal = proposal if laid == body else replace(proposal, body=laid)
    standing = {*filter(None, map(fold, base.body.split("\n")))}
    lines = laid.split("\n")
    stays = [line for line in lines if fold(line) in standing]
    new = "\n".join(line for line in lines if line.strip() and fold(line) not in standing)
    if not any(map(str.isalnum, new)):
        return proposal  # lines only go
    adds = bool(base.description) and standing <= {*map(fold, stays)}
    if adds:
        proposal = replace(proposal, name=base.name, description=base.description)
    # The file has its name already, which is not asked about again.
    said = _worded(store, replace(proposal, body=new, path=f"{proposal.type}.md"), new=False)
    if said.body == new and not base.description:
        return replace(proposal, name=said.name, description=said.description)
    if said.body == new or fold(said.description) in standing:
        return proposal  # they said nothing else than what stands there
    described = fold(base.description).rstrip(". ")
    # On one line with theirs the old description would speak of the new words.
    if adds or described in fold(" ".join(stays)):
        said = replace(said, name=base.name, description=base.description)
    body = laid_out(base.body, "\n".join([*stays, said.body]))
    return replace(said, body=body, path=proposal.path)


def file_in_their_words(
    store: MemoryStore, proposal: Proposal, content: bytes, before: bytes | None
) -> tuple[str, bytes]:
    """A model's file in the user's own words, where its own would keep it waiting, and the path for it: a
    new one whose name says what they did not is called after theirs. What it goes on with keeps its form."""
    if before is not None:
        base = read_topic(proposal.path, before)
        memory = _memory_of(in_their_words(store, proposal, base))
        return proposal.path, brought_to(before, memory)
    said = proposal
    if not store.judge_among(proposal, (), "").speaks:
        said = in_their_words(store, proposal)
    if said is proposal:
        return said.path, content
    names = [said.path] if said.path == proposal.path else free_names(said.path, said.body)
    path = next(one for one in names if one == proposal.path or store.content(one) is None)
    return path, edit_topic(content, name=said.name, description=said.description, body=said.body)


def _worded(store: MemoryStore, proposal: Proposal, *, new: bool) -> Proposal:
    if not proposal.type or not proposal.evidence:
        return proposal
    lines = [line.strip() for line in proposal.body.splitlines() if line.strip()]
    explained = [line for line in lines if line.startswith(_EXPLAINS)]
    rule = " ".join(one for one in lines if one not in explained) or proposal.description
    # A fact may be worded by anybody, as long as it only restates theirs.
    fact = proposal.type not in ("user", "feedback")
    if fact and store.judge_among(proposal, (), "").speaks:
        return proposal
    said = [rule, proposal.body]
    ways = [_called(proposal, *(_with_days(proposal, said) if fact else said))]
    asked = replace(proposal, type="user") if fact else proposal
    if theirs := store.judge_among(asked, (), "").theirs:
        known = fold(" ".join(theirs))  # what it says itself is not explained again
        more = [one for one in explained if fold(one.rpartition(":**")[2]) not in known]
        bodies: tuple[list[str], ...] = (["", *more] if more else [], [])
        ways += [
            _called(proposal, words[0], "\n".join([*_listed(words), *more, ""]))
            for words in ([_with_days(proposal, theirs), theirs] if fact else [theirs])
            for more in bodies
        ]
    # A file that is named after other words of theirs costs nobody the memory; one in a folder is meant
    # for it.
    if new and "/" not in proposal.path:
        ways = [_filed_by_its_words(one) if why_misnamed(one) else one for one in ways]
    taken = (one for one in ways if store.judge_among(one, (), "").speaks)
    return next(taken, proposal)


def _filed_by_its_words(proposal: Proposal) -> Proposal:
    return replace(proposal, path=file_name(proposal.type or "project", proposal.description))


def _with_days(proposal: Proposal, theirs: Sequence[str]) -> list[str]:
    """Their words, with the days that they name: a fact is read on another day."""
    try:
        said = date.fromisoformat(str(proposal.extra["said"]))
    except (KeyError, ValueError):
        return [*theirs]
    return [with_absolute_dates(one, said) for one in theirs]


def _listed(said: Sequence[str]) -> Sequence[str]:
    """One message as it was typed; of several each an item, since in one text they would speak of each other."""
    return said if len(said) == 1 else [f"- {on_one_line(one)}" for one in said]


def _called(proposal: Proposal, said: str, body: str) -> Proposal:
    return replace(
        proposal, name=title_of(said), description=on_one_line(said).rstrip("."), hook="", body=body
    )


# ---- secrets that a write would bring in


@dataclass(frozen=True, slots=True)
class Leak:
    """One secret, and where it stands."""

    where: str  # "the body of deploy.md", "MEMORY.md"
    line: int
    rule: str
    value: str = dataclasses.field(repr=False)

    @property
    def sentence(self) -> str:
        return f"Line {self.line} of {self.where} looks like a secret ({self.rule})."


def leaks_in(text: str, where: str, rules: Rules | None) -> list[Leak]:
    return [
        Leak(where, found.line, found.rule, text[found.start : found.end])
        for found in scan(text, rules)
    ]


def leaks_of(proposal: Proposal, rules: Rules | None, known: Secrets) -> list[Leak]:
    """All that its parts hold, also of what only the words that it rests on show to be a secret."""
    leaks: list[Leak] = []
    for part, text in _parts(proposal).items():
        where = f"the {part} of {proposal.path}"
        leaks += leaks_in(text, where, rules)
        found = {leak.value for leak in leaks}
        for value, rule in known.among(text):
            if not any(value in one for one in found):
                leaks.append(Leak(where, text.count("\n", 0, text.index(value)) + 1, rule, value))
    return leaks


def new_leaks(leaks: Sequence[Leak], before: Memory | None) -> list[Leak]:
    """Those that the file does not hold already: what somebody wrote there knowingly may stay."""
    old = _all(before) if before is not None else ""
    return [leak for leak in leaks if leak.value not in old]


def secrets_of(proposal: Proposal, rules: Rules | None, *beside: str) -> Secrets:
    """Every secret that a word about this write could repeat, its evidence and file name included."""
    quotes = (one.quote for one in proposal.evidence)
    path = proposal.path
    texts = (*_parts(proposal).values(), proposal.reason, *quotes, *beside)
    return secrets_in(*texts, path, path.upper(), rules=rules)


def safe_path(proposal: Proposal, rules: Rules | None) -> str:
    """Its path, or a neutral one where the name gives a secret away."""
    found = secrets_of(proposal, rules)
    if not found.named_by(proposal.path):
        return proposal.path
    mark = hashlib.sha256(found.mask(_all(proposal)).encode("utf-8", "replace")).hexdigest()[:8]
    return f"{proposal.type or 'memory'}_masked_{mark}.md"


def without_secrets(
    proposal: Proposal, exact: bytes | None, base: Memory | None, rules: Rules | None
) -> tuple[Proposal, bytes | None]:
    """The same write with every secret masked that its file does not hold already."""
    text = (exact or b"").decode("utf-8", "surrogateescape")
    found = secrets_of(proposal, rules, text)
    found = found.beyond(_all(base)) if base else found
    if not found:
        return proposal, exact
    exact = None if exact is None else found.mask(text).encode("utf-8", "surrogateescape")
    quotes = [dataclasses.replace(one, quote=found.mask(one.quote)) for one in proposal.evidence]
    masked = dataclasses.replace(
        proposal,
        path=safe_path(proposal, rules),
        name=found.mask(proposal.name),
        description=found.mask(proposal.description),
        body=found.mask(proposal.body),
        hook=found.mask(proposal.hook),
        reason=found.mask(proposal.reason),
        extra={key: found.mask(value) for key, value in proposal.extra.items()},
        evidence=tuple(quotes),
    )
    return masked, exact


def for_index(written: Written, rules: Rules | None) -> Written:
    """With name, description and hook as the index may show them: it goes into every prompt."""
    found = secrets_in(*_parts(written).values(), rules=rules)
    if not found:
        return written
    head = {"name": found.mask(written.name), "description": found.mask(written.description)}
    if isinstance(written, Proposal):
        head["hook"] = found.mask(written.hook)
    return dataclasses.replace(written, **head)


def _parts(written: Memory | Proposal) -> dict[str, str]:
    return {
        "name": written.name,
        "description": written.description,
        "hook": written.hook if isinstance(written, Proposal) else "",
        "frontmatter": "\n".join(f"{key}: {value}" for key, value in written.extra.items()),
        "body": written.body,
    }


def _all(written: Memory | Proposal) -> str:
    return "\n".join(_parts(written).values())
