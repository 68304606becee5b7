"""Whether a write is let in: tells the gate what the store knows, and asks it. Every write passes here.

It reads pins, tombstones, what is known of the memories, and the history; it changes nothing.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache

from lamina.errors import GateRefused, SaidAlready
from lamina.memories import BlamedLine, Commit, Memory, Proposal, Verdict, Writer
from lamina.memory import reading
from lamina.memory.commits import blame, teammate_of, users_word
from lamina.memory.drafts import secrets_of
from lamina.memory.evidence import unproven_explanations
from lamina.memory.gate import GateContext, decide, decide_removal, nothing_vouched
from lamina.memory.history import HistoryDamaged
from lamina.memory.index import is_index, pointers_of
from lamina.memory.index_gate import decide_index
from lamina.memory.journal import Journal
from lamina.memory.known_memories import KnownMemories
from lamina.memory.own_files import Pins, Tombstones
from lamina.memory.removal import Saying, carrying, left_out, still_said
from lamina.memory.topics import read_topic, topic_of, why_ambiguous
from lamina.text.wording import spaced

_OUR_WRITERS = ("agent", "extraction", "team")  # what they wrote of facts they may take back
_MODELS = ("agent", "extraction", "dream")


class Admission:
    def __init__(
        self,
        rules: GateContext,
        known: KnownMemories,
        tombstones: Tombstones,
        pins: Pins,
        journal: Journal,
    ) -> None:
        # Without what is known of the memories: a dream adds its own view of them.
        self.rules = rules
        self._known = known
        self._tombstones = tombstones
        self._pins = pins
        self._journal = journal
        self._read: dict[str, str] = {}  # what the reader answered

    def doubt(self, proposal: Proposal, before: str = "", files: reading.Files = ()) -> str:
        """What a reader of the talk has against a memory that a model puts down as the user's word, where
        its file said so much `before`, or that it puts together from `files`."""
        reader = self.rules.reader
        if reader is None or proposal.writer not in _MODELS:
            return ""
        asked = reading.question(proposal, self.rules.record, before, files)
        if asked and asked not in self._read:
            self._read[asked] = reader(asked)
        return reading.objection(self._read[asked]) if asked else ""

    def judge(
        self,
        proposal: Proposal,
        current: bytes | None,
        exact: bytes | None,
        *,
        after: bytes | None = None,
        unsettled: Collection[str] = (),
        mtime: float = 0.0,
        removed: Sequence[Memory] = (),
    ) -> Verdict:
        """Accept or inbox; refusals are raised. `current` is the file before the change, `after` what
        it would become (None: nobody knows), `exact` the bytes that the writer gave, if it gave any.
        `unsettled` are files that were changed too and may yet be put back; `mtime` is the time of the
        file before the change, where that is in the directory already; `removed` went in the same call."""
        path = proposal.path
        if is_index(path):
            before, after_text = (
                (content or b"").decode("utf-8", "replace") for content in (current, exact)
            )
            context = self._context(path, None)
            verdict = decide_index(
                before, after_text, proposal.writer, context, allow_secret=proposal.allow_secret
            )
            if verdict.decision == "accept" and proposal.writer != "user":
                leaving = self._leaving_index(path, before, after_text)
                context = dataclasses.replace(context, leaving=leaving)
                dropped = decide_removal(proposal, context)
                verdict = dropped if dropped.decision == "inbox" else verdict
        else:
            old = None if current is None else read_topic(path, current)
            context = self._context(path, old)
            context = dataclasses.replace(
                context, says=self._said_unasked({path, *unsettled}, removed)
            )
            if old is not None and after is not None and proposal.writer not in ("user", "team"):
                leaving = self._leaving(old, read_topic(path, after), unsettled, mtime)
                context = dataclasses.replace(context, leaving=leaving)
            verdict = decide(proposal, context)
            if verdict.origin == "typed" and proposal.writer in ("agent", "extraction"):
                vouched = context.vouched(path)
                stood = {spaced(line) for line in old.body.splitlines()} if old else set[str]()
                theirs = unproven_explanations(proposal, context.record, vouched)
                new = [line for line in theirs if spaced(line) not in stood]
                verdict = dataclasses.replace(verdict, unproven=new)
        verdict = _let_in(verdict)  # a secret is told before anything else
        if exact is not None and proposal.writer != "user" and not is_index(path):
            demand_clear(secrets_of(proposal, self.rules.secret_rules).mask(path), exact, current)
        return verdict

    def judge_removed(
        self,
        proposal: Proposal,
        content: bytes,
        *,
        unsettled: Collection[str] = (),
        mtime: float = 0.0,
    ) -> Verdict:
        """Whether a file may go that a tool removed: what it says is said elsewhere, or taken back."""
        path = proposal.path
        if is_index(path):
            leaving = self._leaving_index(path, content.decode("utf-8", "replace"), "")
        else:
            leaving = self._leaving(read_topic(path, content), None, unsettled, mtime)
        return decide_removal(proposal, dataclasses.replace(self.rules, leaving=leaving))

    def _said_unasked(
        self, but: Collection[str], removed: Sequence[Memory]
    ) -> Callable[[str], bool]:
        """Whether a line stands in another memory that speaks: then nobody says it anew."""

        @cache
        def lines() -> set[str]:
            others = (one for one in self._known.all() if one.path not in but)
            speak = [one for one in (*others, *removed) if not one.quoted]
            texts = (f"{one.name}\n{one.description}\n{one.body}" for one in speak)
            return {spaced(line) for text in texts for line in text.splitlines()}

        return lambda line: bool(line.strip()) and spaced(line) in lines()

    def _leaving(
        self, old: Memory, new: Memory | None, unsettled: Collection[str] = (), mtime: float = 0.0
    ) -> Sequence[Saying]:
        """What a person said in a file that no memory would say any more."""
        lost = left_out(old, new)
        if new is not None and old.type is not None and new.type != old.type:
            lost.append(Saying(f"type: {old.type}"))
        if not lost:
            return ()
        lines = self._lines(old.path)
        now = self._known.get(old.path)
        mtime = mtime or (now.mtime if now is not None else 0.0)
        own = old.type in ("user", "feedback")
        theirs = [one for one in lost if own or not _ours(one.text, lines)]
        others = self._others(old, unsettled) if theirs else []
        return [
            dataclasses.replace(one, since=self._since(one.text, lines, mtime))
            for one in theirs
            if not any(self._says(path, one.text) for path in _saying(one.text, others))
        ]

    def _says(self, path: str, text: str) -> bool:
        """Does a file say it on, in words that are not the agent's to take back later?"""
        now = self._known.on_disk(path)
        found = carrying(text, now) if now is not None else []
        if not found or now is None or now.type in ("user", "feedback"):
            return bool(found)
        lines = self._lines(path)
        return any(not _ours(one, lines) for one in found)

    def would_lose(self, memory: Memory) -> bool:
        """Does it say what only a person may take back?"""
        return bool(self._leaving(memory, None))

    def _leaving_index(self, path: str, before: str, after: str) -> Sequence[Saying]:
        """What lines of an index said that neither its new lines nor a memory says. A pointer to a file
        that is gone says nothing."""
        gone = [line for line in before.splitlines() if line not in set(after.splitlines())]
        lines = self._lines(path) if gone else []
        theirs = [line for line in gone if not _ours(line, lines)]
        if theirs and not pointers_of(after.encode("utf-8", "replace")):
            # Lines may go, but an index that leads nowhere hides every memory.
            pointers = pointers_of(before.encode("utf-8", "replace"))
            if hidden := [one for one in pointers if self._known.on_disk(one.file)]:
                return [Saying(one.title) for one in hidden]
        said = [_said_by(line, self._known) for line in theirs]
        if not any(said):
            return ()
        others = [*self._known.all(), Memory(path, "", "", None, after)]
        return [
            Saying(text, since=self._since(text, lines, 0.0))
            for text in said
            if text and not still_said(text, others)
        ]

    def _others(self, old: Memory, unsettled: Collection[str]) -> list[Memory]:
        """Where a statement of this memory may stand on: of the user's own word only in a memory that
        has to prove the same."""
        own = old.type in ("user", "feedback")
        return [
            one
            for one in self._known.all()
            if one.path != old.path
            and one.path not in unsettled
            and (not own or one.type in ("user", "feedback"))
            and (bool(old.quoted) or not one.quoted)  # else nobody would be told of it unasked
        ]

    def _lines(self, path: str) -> list[BlamedLine]:
        try:
            self._journal.settle()
            return blame(self._journal.history.versions(path))
        except HistoryDamaged:
            return []

    def _since(self, text: str, lines: Sequence[BlamedLine], mtime: float) -> float:
        """When a statement was said: by the words it rests on, by its commit, by its file."""
        commits = [line.commit for line in lines if text in line.text]
        if not commits:
            return mtime or math.inf
        return max(self._said(commit, mtime) for commit in commits)

    def _said(self, commit: Commit, mtime: float) -> float:
        said = [self.rules.said_at(commit.session, entry) for entry in commit.entries]
        if any(said):
            return max(said)
        # What was changed by hand is recorded later than it was said.
        by_hand = commit.writer == "outside" and mtime > 0
        return min(commit.when, mtime) if by_hand else commit.when

    def judge_moved(self, proposal: Proposal, old: str) -> Verdict:
        """Moving says nothing new: only what no memory may be called or hold is in the way."""
        proposal = dataclasses.replace(proposal, allow_secret=True)
        return _let_in(decide(proposal, self._context(old, None)))

    def demand_unpinned(self, path: str, writer: Writer) -> None:
        if writer != "user" and path in self._pins.all():
            raise GateRefused(f"{path} is pinned: only the user may change it.")

    def _context(self, path: str, old: Memory | None) -> GateContext:
        """What the gate knows, with the memory at this path as it was before the change."""
        return dataclasses.replace(
            self.rules,
            familiar=self._known.but(path, old),
            pinned=self._pins.all(),
            forgotten=self._tombstones.why,
            forgotten_at=self._tombstones.when,
            # Where there is no file yet, nobody can have vouched for it.
            # Bringing a quotation back, or moving it, does not vouch for what it says.
            vouched=self.vouched if old is not None and not old.quoted else nothing_vouched,
            origin_of=self.origin_of,
        )

    def by_hand(self, path: str) -> bool:
        """Has a person written in this file, or given it another form than ours?"""
        try:
            self._journal.settle()
            last = next(self._journal.history.log(path), None)
        except HistoryDamaged:
            return True
        if last is None or last.writer == "outside":
            return True
        content = self._known.content(path) or b""
        lines = self._lines(path)
        recorded = [line.text for line in lines] == content.decode("utf-8", "replace").splitlines()
        ours = recorded and content == topic_of(read_topic(path, content))
        return not ours or any(line.commit.writer == "outside" for line in lines)

    def origin_of(self, path: str) -> str:
        """Whose word a memory is, by the last commit that says so."""
        try:
            self._journal.settle()
            for commit in self._journal.history.log(path):
                if commit.writer not in ("dream", "outside") and commit.origin:
                    return teammate_of(commit, path) or commit.origin
        except HistoryDamaged:
            return ""
        return ""

    def vouched(self, path: str) -> str:
        """The lines of a file that, by its history, rest on the user's word."""
        return users_word(self._lines(path), path)


def _saying(text: str, memories: Sequence[Memory]) -> Iterator[str]:
    return (one.path for one in memories if still_said(text, [one]))


def _said_by(line: str, known: KnownMemories) -> str:
    """What an index line says beside naming a file."""
    if pointer := next(iter(pointers_of(line.encode("utf-8", "replace"))), None):
        there = known.on_disk(pointer.file) is not None
        return re.sub(r"\(source: [^()]*\)$", "", pointer.hook).strip() if there else ""
    return "" if line.startswith("#") else line.strip(" -*\t")


def _ours(text: str, lines: Sequence[BlamedLine]) -> bool:
    writers = {line.commit.writer for line in lines if text in line.text}
    return bool(writers) and writers <= set(_OUR_WRITERS)


def demand_clear(path: str, content: bytes, before: bytes | None) -> None:
    """Frontmatter that others could read in another way is refused; what stood there may stay."""
    if why := why_ambiguous(content, before):
        raise GateRefused(f"{path} can be read in two ways: {why}. Write plain `key: value` lines.")


def _let_in(verdict: Verdict) -> Verdict:
    if verdict.decision == "refuse" and verdict.update_of:
        raise SaidAlready(verdict.reason, verdict.update_of)
    if verdict.decision == "refuse":
        raise GateRefused(verdict.reason)
    return verdict
