"""Memory files that a tool of ours changes pass the same gate as everything else.

Write and Edit hand them to the store, so that lock, gate and journal come before the change. What
another tool (Bash, a host's own) changed by itself is found afterwards and attributed to the call,
and what the gate does not accept is taken back. Touches the memory through its store.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from html import unescape
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from lamina.errors import Conflict, GateRefused, LaminaError, ToolError
from lamina.events import Warned
from lamina.ledger.record import blocks_of_entry
from lamina.memories import Change, Evidence, Memory, Note, Outcome, Proposal, quoted_from
from lamina.memory import (
    HEAD_BYTES,
    file_in_their_words,
    is_memory_path,
    is_plain_confirmation,
    leaks_in,
    left_out,
    note_of,
    proposal_of,
    read_topic,
    takes_back,
    topic_at,
)
from lamina.messages import Json, text_of
from lamina.ports import MemoryStore, ToolContext, ToolOutcome, ToolSession, ToolSpec
from lamina.text import wording
from lamina.text.asks import asks_to_forget
from lamina.text.origins import hidden_character, typed_parts, untyped_parts
from lamina.text.own_words import on_one_line

_MOST_QUOTES = 4
_LOOKED_AT = 400  # entries, newest first
_RUN = 5  # words in a row that show where a text came from
_SNIPPET = 8
_SHOWN = 1_000  # characters of what stands in a file now


def evidence_for(
    claim: str, entries: Sequence[Json], session: str, *, users_word: bool
) -> list[Evidence]:
    """Quotes for what a memory claims. `users_word`: its type promises that, so only the user's
    sentences count; else what it repeats from tools, pastes and memories is named as well."""
    recent = _recent(entries)
    found = _typed(claim, recent, session)
    if not users_word:
        found += echoed(claim, recent, session)
    return found


def taken_back(
    before: Memory | None, after: Memory | None, entries: Sequence[Json], session: str
) -> list[Evidence]:
    """The user's sentences that end what a change drops of a memory, the newest for each."""
    lost = left_out(before, after) if before is not None else []
    typed = list(_sentences(_recent(entries))) if lost else []
    path = before.path if before is not None else ""
    found = [
        next((spoken for spoken in typed if takes_back(spoken[1], one.text, path)), None)
        for one in lost
    ]
    return [Evidence(words, session, entry) for entry, words in dict.fromkeys(filter(None, found))]


def asked_to_forget(memory: Memory, entries: Sequence[Json], session: str) -> list[Evidence]:
    """The user's sentence for which a memory is forgotten: in their last message one that asks to
    forget, or a plain yes; before, one that asks for this."""
    sentences = list(_sentences(_recent(entries)))
    if not sentences:
        return []
    last = sentences[0][0]
    said = wording.content_stems(f"{memory.name} {memory.description}\n{memory.body}")
    for entry, words in sentences:
        about = bool(wording.content_stems(words) & said)
        yes = entry == last and is_plain_confirmation([words])
        if yes or ((about or entry == last) and asks_to_forget(words, about_it=about)):
            return [Evidence(words, session, entry)]
    return []


def last_typed(entries: Sequence[Json]) -> str:
    """What the user typed last, "" if nothing."""
    said = ("\n".join(typed_parts(blocks_of_entry(one))) for one in reversed(_recent(entries)))
    return next((words.strip() for words in said if words.strip()), "")


def _recent(entries: Sequence[Json]) -> list[Json]:
    return [entry for entry in entries[-_LOOKED_AT:] if entry.get("kind") == "message"]


def _typed(claim: str, entries: Sequence[Json], session: str) -> list[Evidence]:
    """The fewest sentences that hold most of the claim's words, the newest first among equals."""
    wanted = set(wording.content_stems(claim))
    sentences = list(_sentences(entries))
    chosen: list[Evidence] = []
    if sentences and is_plain_confirmation([sentences[0][1]]):
        chosen.append(Evidence(sentences[0][1], session, sentences[0][0]))
    while wanted and len(chosen) < _MOST_QUOTES:
        gains = [len(wanted & wording.content_stems(words)) for _, words in sentences]
        if not gains or not max(gains):
            break
        entry, words = sentences[gains.index(max(gains))]
        chosen.append(Evidence(words, session, entry))
        wanted -= wording.content_stems(words)
    return chosen


def _sentences(entries: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """(entry, sentence) of everything that was typed, newest message first."""
    for entry in reversed(entries):
        for part in typed_parts(blocks_of_entry(entry)):
            for sentence in wording.sentences(part):
                yield str(entry.get("uuid")), sentence


_ANSWERS = ("Remember", "Forget")


def echoed(
    claim: str, entries: Sequence[Json], session: str, *, most: int = _MOST_QUOTES
) -> list[Evidence]:
    """Texts that nobody here said, which the claim repeats, by words in a row or by a number, a path or
    a name: it is labelled by the worst of them. What the user typed as well is their own word, however
    like a memory it sounds; the program's own reminders are nobody's source, nor are its answers to
    what was kept: the id of something that waits is in none of them a fact."""
    runs = {run for line in claim.splitlines() for run in wording.runs(line, _RUN)}
    tokens = wording.hard_tokens(claim)
    for _, sentence in _sentences(entries) if runs or tokens else ():
        runs -= wording.runs(sentence, _RUN)
        tokens -= wording.hard_tokens(sentence)
    found: list[Evidence] = []
    for entry in reversed(entries) if runs or tokens else ():
        if entry.get("tool") in _ANSWERS:
            continue
        blocks = [block for block in blocks_of_entry(entry) if block[0] != "system"]
        for text in untyped_parts(blocks):
            repeats = not runs.isdisjoint(wording.runs(text, _RUN))
            if repeats or not tokens.isdisjoint(wording.hard_tokens(text)):
                quote = " ".join(wording.fold(text).split()[:_SNIPPET])
                found.append(Evidence(quote, session, str(entry.get("uuid"))))
        if len(found) >= most:
            break
    return found


# ---- the log of a day


def log_instead(store: MemoryStore, proposal: Proposal, now: float) -> Outcome | None:
    """Log a memory, in a project that keeps a diary: a dream makes it one later. The gate judges it as
    if memory were empty, since nothing is doubled by a log; None: a person should look first, or it is
    a quotation, which a file of its own marks as one."""
    verdict = store.judge_among(proposal, (), "")
    if verdict.decision == "refuse":
        raise GateRefused(verdict.reason)
    if not verdict.speaks or (verdict.origin == "typed" and store.doubt(proposal)):
        return None
    when = datetime.fromtimestamp(now, UTC).astimezone()
    said = [line.strip() for line in proposal.body.splitlines() if line.strip()]
    if said and wording.fold(proposal.description) not in wording.fold(" ".join(said)):
        said.insert(0, proposal.description)
    entry = "\n  ".join(said or [proposal.description])
    path = f"{when:logs/%Y/%m/%Y-%m-%d}.md"
    note = note_of(proposal, verdict, f"log in {path}")
    kind = proposal.type or "project"
    append_to_log(store, path, f"- {when:%H:%M} [{kind}] {entry}\n".encode(), note)
    return Outcome(path, "accept", warnings=verdict.warnings, origin=verdict.origin)


def append_to_log(store: MemoryStore, path: str, added: bytes, note: Note) -> None:
    """Through the store, so that it is in the history and nobody's entry is lost."""
    for last in (False, False, False, False, True):
        now = store.content(path)
        between = b"\n" if now and not now.endswith(b"\n") and not added.startswith(b"\n") else b""
        try:
            store.apply(
                [Change(path, now, (now or b"") + between + added)], note, first=lambda: None
            )
        except Conflict:
            if last:
                raise
        else:
            return


def _demand_its_own(path: str, added: bytes, entries: bytes) -> None:
    """Entries in the user's words are logged by Remember, which asks the gate; nothing goes on with one."""
    text = added.decode("utf-8", "replace")
    first = text.partition("\n")[0]
    typed = next(filter(_marked_as_theirs, text.splitlines()), "")
    if typed:
        why = f"“{typed.strip()[:60]}” is marked as what the user said, and Remember logs that"
    elif hidden := hidden_character(text):
        why = f"it would hold {hidden}"
    elif text.lstrip("\r\n")[:1].isspace():
        why = "its first line is indented, and would go on with the entry above"
    elif entries and first.strip() and not _ENTRY.match(first):
        why = "its first line begins no entry (`- …`), and would go on with the entry above"
    else:
        return
    raise ToolError(f"Not written: {path}: {why}.")


_ENTRY = re.compile(r"(?:[-*+]|1[.)]|#{1,6}) \S")  # begins anew in Markdown


def _marked_as_theirs(line: str) -> bool:
    """Does it hold the mark of what the user said, between brackets of any kind, dressed up or not?"""
    plain = unicodedata.normalize("NFKC", unescape(line)).casefold()
    kinds = {"Ps": "[", "Pe": "[", "Cf": ""} | dict.fromkeys("*_`~ ", "")
    shown = "".join(kinds.get(one, kinds.get(unicodedata.category(one), one)) for one in plain)
    words = [word for one in shown.split("[")[1:-1] for word in one.split(",")]
    return any(_looks_like(word, mark) for word in words for mark in ("user", "feedback"))


def _looks_like(word: str, mark: str) -> bool:
    same = (a == b or not a.isascii() for a, b in zip(word, mark, strict=False))
    return len(word) == len(mark) and any(map(str.isascii, word)) and all(same)


Stamped = tuple[tuple[int, int, int], bytes]  # a file's state, and its content


def logs_of(directory: Path, known: Mapping[str, Stamped]) -> dict[str, Stamped]:
    """Every log of a day; those that are as they were are not read again."""
    found: dict[str, Stamped] = {}
    for path in (directory / "logs").glob("*/*/*.md"):
        with suppress(OSError):
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                continue
            stamp = (status.st_ctime_ns, status.st_size, status.st_ino)
            name = path.relative_to(directory).as_posix()
            before = known.get(name)
            same = before is not None and before[0] == stamp
            found[name] = before if before and same else (stamp, path.read_bytes())
    return found


T = TypeVar("T")
Work = Callable[[], Awaitable[ToolOutcome]]
Keep = Callable[[Path, bytes, bytes | None], Path | None]

# They write through the store, or nothing at all.
_HARMLESS = frozenset({"Remember", "Forget", "Recall", "Todo", "Expand", "Snip", "SendMessage"})


class _Waits(ToolError):
    """Somebody should look at it first."""


class _Guarded:
    """The session during one tool call: memory files that the tool writes go to the store."""

    def __init__(self, session: ToolSession, keep: Keep) -> None:
        self.todos, self.expand, self.snip = session.todos, session.expand, session.snip
        self.keep = keep


class MemoryGuard:
    """Stands around the tool calls of one session."""

    def __init__(
        self, store: MemoryStore, session: str, entries: Callable[[], Sequence[Json]]
    ) -> None:
        self._store = store
        self._session = session
        self._entries = entries
        self._logs: dict[str, Stamped] = {}

    async def around(
        self, spec: ToolSpec, input_: Json, context: ToolContext, work: Work
    ) -> ToolOutcome:
        """Run a tool; gate what it changed in memory, even if it is cancelled on the way."""
        if spec.read_only or spec.name in _HARMLESS:
            return await work()
        reason = f"the agent called {spec.name} ({context.tool_use_id})"
        said: list[str] = []
        remarks: list[str] = []  # on what was taken
        waits: list[str] = []  # what was not, and the user should hear of
        asked: list[Path] = []  # by a tool that leaves memory files to the store

        def keep(path: Path, data: bytes, old: bytes | None) -> Path | None:
            asked.append(path)
            evidence = self._evidence(input_, data)
            try:
                return self._keep(path, data, old, evidence, reason, remarks)
            except _Waits as error:
                waits.append(str(error))
                raise

        session = context.session
        try:
            await self._in_thread(self._before, context)
            context.session = _Guarded(session, keep)
            outcome = await work()
        finally:
            context.session = session
            with anyio.CancelScope(shield=True):
                if not asked:
                    look = partial(self._after, input_, reason, remarks)
                    said = await self._in_thread(look, context) or []
        if waits or said:
            told = (waits or said)[0].partition("\n")[0]
            outcome = replace(outcome, meta={**outcome.meta, "decision": "inbox", "waits": told})
        if not said and not remarks:
            return outcome
        content = "\n".join([text_of(outcome.content), *said, *remarks])
        return replace(outcome, content=content, is_error=bool(said) or outcome.is_error)

    def _before(self) -> None:
        self._logs = logs_of(self._store.directory, self._logs)
        self._store.note_outside()

    async def _in_thread(self, look: Callable[[], T], context: ToolContext) -> T | None:
        try:
            return await anyio.to_thread.run_sync(look)
        except LaminaError as error:
            context.emit(Warned(f"Changes of memory files could not be checked: {error}"))
            return None

    def _keep(
        self,
        path: Path,
        data: bytes,
        old: bytes | None,
        evidence: Sequence[Evidence],
        reason: str,
        remarks: list[str],
    ) -> Path | None:
        below = self._below(path)
        if below is None:
            return None
        if not is_memory_path(below):
            self._demand_no_secret(below, data, old)
            return self._appended(path, below, data, old, reason)
        wanted = data
        made = proposal_of(read_topic(below, data), "agent", self._session)
        if old is None and made.type in ("user", "feedback"):
            made = replace(made, evidence=tuple(evidence))
            below, data = file_in_their_words(self._store, made, data, old)
        try:
            outcome = self._store.write_file(
                below,
                data,
                writer="agent",
                base=old,
                evidence=evidence,
                takes_back=self._taken_back(below, old, data),
                session=self._session,
                reason=reason,
            )
        except GateRefused as error:
            raise GateRefused(f"Not written, the memory gate refused it: {error}") from error
        if outcome.decision == "inbox":
            raise _Waits("\n".join([f"Not written yet: {outcome.sentence}", *outcome.warnings]))
        remarks += _remarks(outcome)
        if (now := self._store.content(below) or b"") != wanted:
            words = "It says so in the user's own words" if data != wanted else "It reads now"
            remarks.append(f"{words}: “{on_one_line(read_topic(below, now).body)[:_SHOWN]}”")
        if below == made.path:
            return path
        remarks.append(f"It is saved as {below}: the name {made.path} says what they did not.")
        return path.with_name(below)

    def _appended(
        self, path: Path, below: str, data: bytes, old: bytes | None, reason: str
    ) -> Path | None:
        """The log of a day only grows, through the store, so that it is in the history."""
        if not below.startswith("logs/"):
            return None
        if old is not None and not data.startswith(old):
            raise ToolError(
                f"Not written: {below} is a log, whose lines stay as they are. Use Edit or Write to "
                "add your entry behind the last of them."
            )
        added = data[len(old or b"") :]
        _demand_its_own(below, added, old or b"")
        append_to_log(self._store, below, added, self._note(below, reason))
        return path

    def _note(self, path: str, reason: str) -> Note:
        return Note(writer="agent", subject=f"log in {path}", session=self._session, reason=reason)

    def _logs_after(self, reason: str) -> Iterator[str]:
        """What a command added to logs goes in by the store; what it took away is put back."""
        before, now = self._logs, logs_of(self._store.directory, self._logs)
        for path in sorted({*before, *now}):
            old = before[path][1] if path in before else None
            new = now[path][1] if path in now else None
            if new == old:
                continue
            note, added = self._note(path, reason), b""
            try:
                if new is not None and new.startswith(old or b""):
                    self._demand_no_secret(path, new, old)
                    if new != self._recorded(path):
                        _demand_its_own(path, new[len(old or b"") :], old or b"")
                    added = new[len(old or b"") :]
                else:
                    yield f"Taken back: {path} is a log, whose lines stay as they are."
            except ToolError as error:
                yield f"Taken back: {error}"
            current = self._store.content(path)
            self._store.apply([Change(path, current, old)], note, first=lambda: None)
            if added:
                append_to_log(self._store, path, added, note)

    def _recorded(self, path: str) -> bytes | None:
        """What the store itself wrote there last."""
        if (history := self._store.history) is None:
            return None
        history.settle()
        last = next(iter(history.log(path)), None)
        return history.content(path, last.id) if last is not None else None

    def _demand_no_secret(self, path: str, data: bytes, old: bytes | None) -> None:
        """The diary is no memory that the gate judges, but what it says becomes some."""
        leaks = leaks_in(data.decode("utf-8", "replace"), path, self._store.secret_rules)
        before = (old or b"").decode("utf-8", "replace")
        for leak in leaks:
            if leak.value not in before:
                raise ToolError(f"Not written: {leak.sentence} Leave it out.")

    def _below(self, path: Path) -> str | None:
        """The path beneath the memory directory, None if it is elsewhere."""
        root = Path(os.path.realpath(self._store.directory))
        if not path.is_relative_to(root):
            # Another spelling, where upper and lower case are one.
            for parent in path.parents:
                with suppress(OSError):
                    if parent.samefile(root):
                        return path.relative_to(parent).as_posix()
            return None
        return path.relative_to(root).as_posix()

    def _after(self, input_: Json, reason: str, remarks: list[str]) -> list[str]:
        """Gate what the call changed; a sentence for the model about each file that was not taken."""
        said = [*self._logs_after(reason)]
        if not self._store.changed_outside():
            return said
        outcomes = self._store.attribute(
            writer="agent",
            session=self._session,
            evidence=self._evidence(input_, _content(input_)),
            takes_back=lambda one: self._taken_back(one.path, one.before, one.after),
            reason=reason,
        )
        for outcome in outcomes:
            if isinstance(outcome, GateRefused):
                said.append(f"Taken back, the memory gate refused it: {outcome}")
            elif outcome.decision == "inbox":
                said += [f"Taken back for now: {outcome.sentence}", *outcome.warnings]
            else:
                remarks += _remarks(outcome)
        return said

    def _taken_back(self, path: str, old: bytes | None, new: bytes | None) -> list[Evidence]:
        before, after = topic_at(path, old), topic_at(path, new)
        return taken_back(before, after, list(self._entries()), self._session)

    def _evidence(self, input_: Json, whole: bytes) -> list[Evidence]:
        """Write and Edit say what they put in; of a command nothing is known."""
        claim = str(input_.get("content") or input_.get("new_string") or "")
        if not claim:
            return []
        kind = read_topic("memory.md", whole[:HEAD_BYTES]).type
        entries = list(self._entries())
        users_word = kind in ("user", "feedback")
        return evidence_for(claim, entries, self._session, users_word=users_word)


def _remarks(outcome: Outcome) -> list[str]:
    told = [outcome.sentence] if quoted_from(outcome.origin) else []
    return [*told, *outcome.warnings]


def _content(input_: Json) -> bytes:
    """The file that a host's own tool wrote, as far as it can be told."""
    with suppress(OSError, ValueError):
        return Path(str(input_.get("file_path"))).read_bytes()
    return str(input_.get("content") or "").encode("utf-8", "replace")
