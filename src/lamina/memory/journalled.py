"""Memory files that change in one way only: gated, journalled, atomic and recorded.

It owns one memory directory and, beside it, the store's own folder (history, intents, inbox,
tombstones, pins, derived index). Nothing else is touched.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self

from lamina.errors import (
    Conflict,
    GateRefused,
    MemoryStoreError,
    NameTaken,
    SaidAlready,
    StorageError,
)
from lamina.events import Emit, Warned, quiet
from lamina.machine import make_private
from lamina.memories import (
    Change,
    Evidence,
    Hit,
    LoadedIndex,
    Memory,
    Note,
    Outcome,
    Proposal,
    Verdict,
    Writer,
)
from lamina.memory import drafts, index
from lamina.memory.admission import Admission
from lamina.memory.beneath import Beneath, parts_of
from lamina.memory.drafts import for_index
from lamina.memory.gate import GateContext, decide
from lamina.memory.history import finish_interrupted
from lamina.memory.inbox import MOST, Inbox
from lamina.memory.index import INDEX, is_index, load_index
from lamina.memory.index_gate import decide_index
from lamina.memory.journal import Journal, merge_contents
from lamina.memory.known_memories import KnownMemories, search
from lamina.memory.naming import free_names, near_names, printable
from lamina.memory.own_files import Pins, Tombstones
from lamina.memory.scan import Scan, Scanner, first_sight, indexes, nothing_new, record_outside
from lamina.memory.topics import read_topic

INDEX_READ = 1_000_000
_TRIES = 4


class EditorFaster(Exception):
    """Another program changed the file between our look and our write: look again."""


class JournalledFiles:
    """Memories in one directory. `FileStore` is what the other rooms see of it."""

    def __init__(
        self,
        directory: Path,
        state: Path | None = None,
        *,
        gate: GateContext | None = None,
        emit: Emit = quiet,
        background: bool = False,
        before_first_write: Callable[[], object] | None = None,
        inbox_most: int = MOST,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._before_first_write = before_first_write
        self.emit = emit
        self.directory = directory
        self.state = state or directory.with_name(f"{directory.name}.lamina")
        self.files = Beneath(directory)
        self._own = Beneath(self.state)
        self.scanner = Scanner(self.files, self.state / "headers.sqlite")
        self.tombstones = Tombstones(self._own, now)
        self._pins = Pins(self._own)
        rules = gate or GateContext()
        self.inbox = Inbox(
            self.state / "inbox", most=inbox_most, secret_rules=rules.secret_rules, now=now
        )
        self.journal = Journal(
            self.files,
            self.state,
            self.tombstones,
            emit,
            background=background,
            found=self._first_sight,
            now=now,
        )
        self._known = KnownMemories(self.files, self.scanner)
        self.admission = Admission(rules, self._known, self.tombstones, self._pins, self.journal)
        self._open(emit)
        if background and directory.is_dir():
            self.journal.start(self._look_outside)

    def _open(self, emit: Emit) -> None:
        """Finish what a crash left. Nothing is created where there is nothing."""
        if not self.state.is_dir():
            return
        try:
            finish_interrupted(self.state / "history.git")
            self.journal.recover()
        except MemoryStoreError as error:
            # A disk that takes no writes can still be read; the next write says it again.
            emit(Warned(f"A write that a crash left behind can't be finished yet. {error}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Record what is due and let go of everything."""
        try:
            self.journal.close()
        finally:
            for part in (self.scanner, self.inbox, self.files, self._own):
                part.close()

    # ---- reading

    def scan(self) -> Scan:
        return self.scanner.scan()

    def list(self) -> Sequence[Memory]:
        return self.scan().all()

    def read(self, path: str) -> Memory:
        content = self.read_bytes(path)
        stat = self.files.stat(path)
        return read_topic(path, content, mtime=stat.st_mtime if stat else 0.0)

    def read_bytes(self, path: str) -> bytes:
        content = self.files.read(path)
        if content is None:
            near = ", ".join(map(printable, near_names(path, self.scanner.stamps())))
            hint = f"Did you mean {near}?" if near else "`lamina memory list` shows all."
            raise MemoryStoreError(
                f"There is no memory {printable(path)} in {self.directory}. {hint}"
            )
        return content

    def index(self, folder: str = "") -> LoadedIndex:
        """MEMORY.md as it goes into the prompt (`team` for the team's)."""
        path = f"{folder}/{INDEX}" if folder else INDEX
        content = self.files.read(path, INDEX_READ) or b""
        stat = self.files.stat(path)
        return load_index(content, total_bytes=stat.st_size if stat else 0)

    def search(self, query: str, limit: int = 10) -> Sequence[Hit]:
        return search(self._known.all(), query, limit)

    # ---- writing

    def write(
        self,
        proposal: Proposal,
        *,
        base: Memory | None = None,
        replace: bool = False,
        pointer: bool = True,
    ) -> Outcome:
        _demand_no_index(proposal.path)

        def content(current: bytes | None) -> bytes:
            return drafts.written(proposal, current, base, replace=replace)

        return self._write(proposal, content, base=base, exact=None, pointer=pointer)

    def remember(
        self,
        proposal: Proposal,
        *,
        base: Memory | None = None,
        replace: bool = False,
        pointer: bool = True,
    ) -> Outcome:
        """Write a memory that its writer did not look up first. What stands there already is not
        written again, and a name that another memory has is no reason to refuse: it gets the next."""
        if base is not None or replace:
            return self.write(proposal, base=base, replace=replace, pointer=pointer)
        self.make_state()  # so that what the first look learns is kept
        for path in free_names(proposal.path, proposal.body):
            existing = self._called(path)
            named = dataclasses.replace(proposal, path=existing.path if existing else path)
            if existing is not None:
                pinned = proposal.writer != "user" and existing.path in self.pinned()
                by_hand = self.admission.by_hand
                going_on = None if pinned else drafts.going_on(named, existing, by_hand)
                if going_on is None:
                    continue
                named = going_on
            try:
                return self.write(named, base=existing, pointer=pointer)
            except SaidAlready as said:
                return Outcome(said.path, "accept", changed=False)
            except Conflict:
                continue  # somebody was faster
        raise NameTaken(f"{proposal.path} is another memory already. Give this one another name.")

    def _called(self, path: str) -> Memory | None:
        """The memory of this name, in upper or lower case; the gate says what is wrong with a name."""
        for spelled in (path, *self._known.but(path, None).spellings(path)):
            # Of one that is not there nobody asks for names like it.
            with suppress(MemoryStoreError):
                if self.files.stat(spelled) is not None:
                    return self.read(spelled)
        return None

    def write_file(
        self,
        path: str,
        content: bytes,
        *,
        writer: Writer,
        base: bytes | None,
        evidence: Sequence[Evidence] = (),
        takes_back: Sequence[Evidence] = (),
        session: str = "",
        reason: str = "",
        pointer: bool = False,
        subject: str = "",
        allow_secret: bool = False,
    ) -> Outcome:
        """A plain Write or Edit of a memory file, byte for byte, through the same gate.

        `base` is what the writer had read (None: no file).
        """
        proposal = dataclasses.replace(
            drafts.proposal_of(read_topic(path, content), writer, session),
            evidence=evidence,
            takes_back=takes_back,
            reason=reason,
            allow_secret=allow_secret,
        )

        def merged(current: bytes | None) -> bytes:
            if current in (base, content):
                return content
            fitting = merge_contents(base, current, content, path)
            if fitting is None:
                raise Conflict(f"{path} was changed by somebody else. Read it again.")
            return fitting

        before = read_topic(path, base) if base is not None else None
        return self._write(
            proposal, merged, base=before, exact=content, pointer=pointer, subject=subject
        )

    def _write(
        self,
        proposal: Proposal,
        content: Callable[[bytes | None], bytes],
        *,
        base: Memory | None,
        exact: bytes | None,
        pointer: bool,
        subject: str = "",
    ) -> Outcome:
        self.make_state()
        proposal = self._read_first(proposal, exact)
        for _ in range(_TRIES):
            try:
                return self._write_once(
                    proposal, content, base=base, exact=exact, pointer=pointer, subject=subject
                )
            except EditorFaster:
                continue
        raise Conflict(
            f"{proposal.path} changes all the time. Close what writes it, then try again."
        )

    def _read_first(self, proposal: Proposal, exact: bytes | None) -> Proposal:
        """What would go in as the user's word is read in its place, before others wait for the lock."""
        path = proposal.path
        if self.admission.rules.reader is None or not _readable_path(path):
            return proposal
        with suppress(GateRefused, MemoryStoreError):  # told when it is written
            current = self.files.read(path)
            verdict = self.admission.judge(proposal, current, exact)
            if verdict.speaks and verdict.origin == "typed":
                before = (current or b"").decode("utf-8", "replace")
                return dataclasses.replace(proposal, doubt=self.admission.doubt(proposal, before))
        return proposal

    def _write_once(
        self,
        proposal: Proposal,
        content: Callable[[bytes | None], bytes],
        *,
        base: Memory | None,
        exact: bytes | None,
        pointer: bool,
        subject: str,
    ) -> Outcome:
        path = proposal.path
        with self.journal.writing():
            current = self.files.read(path) if _readable_path(path) else None
            try:
                after, conflict = content(current), None
            except Conflict as error:  # told only if the gate has nothing to say
                after, conflict = None, error
            verdict = self.admission.judge(proposal, current, exact, after=after)
            if verdict.decision == "inbox":
                item = self.inbox.add(proposal, verdict, base=base, exact=exact)
                return drafts.outcome_of(item.proposal.path, verdict, inbox_id=item.id)
            if conflict is not None:
                raise conflict
            after, rework = drafts.labelled(after or b"", verdict.unproven), None
            if not is_index(path):
                after = drafts.marked(after, proposal, verdict, by_hand=exact is not None)
            changes = [Change(path, current, after)]
            if pointer and not is_index(path):
                shown = for_index(proposal, self.admission.rules.secret_rules)
                quoted = read_topic(path, after).quoted
                rework = index.adding(shown, verdict.origin, base, quoted)
                changes.append(self.index_change(path, rework))
            note = drafts.note_of(proposal, verdict, subject or drafts.subject_of(current, path))
            lifted = self.tombstones.lifted_by(proposal, asked=verdict.revives)
            try:
                changed = self.journal.apply(changes, note, lifted=lifted, rework=rework)
            except Conflict as error:
                raise EditorFaster from error
            self._known.noted(changes)
            return drafts.outcome_of(path, verdict, changed=changed)

    def index_change(self, path: str, rework: index.Rework) -> Change:
        name = index.index_of(path)
        before = self.files.read(name, INDEX_READ + 1)
        if before is not None and len(before) > INDEX_READ:
            raise MemoryStoreError(
                f"{self.directory / name} has more than {INDEX_READ:,} bytes. Shorten it first."
            )
        return Change(name, before, rework(name, before))

    def judge_among(self, proposal: Proposal, memories: Sequence[Memory], vouched: str) -> Verdict:
        def always(_: str) -> str:
            return vouched

        rules = dataclasses.replace(
            self.admission.rules,
            memories=memories,
            pinned=self.pinned(),
            forgotten=self.tombstones.why,
            forgotten_at=self.tombstones.when,
            vouched=always,
        )
        if is_index(proposal.path):
            return decide_index("", proposal.body, proposal.writer, rules)
        return decide(proposal, rules)

    # ---- renaming and forgetting

    def rename(self, old: str, new: str, *, writer: Writer = "user", session: str = "") -> Outcome:
        _demand_no_index(old)
        self.make_state()
        with self.journal.writing():
            content = self.read_bytes(old)
            self.admission.demand_unpinned(old, writer)
            memory = read_topic(old, content)
            proposal = drafts.proposal_of(dataclasses.replace(memory, path=new), writer, session)
            verdict = self.admission.judge_moved(proposal, old)
            verdict = dataclasses.replace(verdict, origin=self.admission.origin_of(old))
            if self.files.read(new) is not None:
                raise Conflict(f"{new} exists already. Choose another name.")
            rework = index.renaming(old, new, memory)
            indexes = dict.fromkeys([index.index_of(old), index.index_of(new)])
            changes = [Change(new, None, content), Change(old, content, None)]
            changes += [
                Change(path, now := self.files.read(path), rework(path, now)) for path in indexes
            ]
            note = drafts.note_of(
                proposal, verdict, f"rename {old} to {new}", Renamed=f"{old} -> {new}"
            )
            self.journal.apply(changes, note, rework=rework)
            self._known.noted(changes)
            self.move_pin(old, new)
        return drafts.outcome_of(new, verdict)

    def forget(
        self,
        path: str,
        *,
        writer: Writer = "user",
        session: str = "",
        tombstone: bool = True,
        purge_history: bool = False,
        reason: str = "",
        evidence: Sequence[Evidence] = (),
        kind: Literal["forgotten", "removed"] = "forgotten",
    ) -> None:
        """Remove a memory and its pointer. `tombstone` keeps it from coming back; a dream that has
        merged a memory into another puts up none. `purge_history` takes it out of the history too.
        `evidence` is the user's wish; `removed` is what the agent did by itself and may take back."""
        _demand_no_index(path)
        self.make_state()
        with self.journal.writing():
            content = self.files.read(path)
            if content is None and not purge_history:
                self.read_bytes(path)  # says so
            self.admission.demand_unpinned(path, writer)
            memory = read_topic(path, content or b"")
            rework = index.removing(path)
            changes = [Change(path, content, None), self.index_change(path, rework)]
            put_up = tombstone and content is not None
            asked = next((one.entry for one in evidence), "")
            stone = self.tombstones.new(memory, kind=kind, entry=asked) if put_up else ""
            note = Note(
                writer=writer,
                subject=f"forget {path}",
                session=session,
                entries=tuple(dict.fromkeys(one.entry for one in evidence if one.entry)),
                origin="typed" if evidence else "",
                reason=reason,
            )
            self.journal.apply(changes, note, tombstone=stone, rework=rework)
            self._known.noted(changes)
            if purge_history:
                self.journal.sweep()
        if purge_history:
            from lamina.memory.forgetting import purge

            purge(self, path)

    # ---- pins

    def pinned(self) -> set[str]:
        """Paths that only the user may change."""
        return self._pins.all()

    def move_pin(self, old: str, new: str) -> None:
        """A pinned memory has another name now. The caller holds the store's lock."""
        if old in self.pinned():
            self._pins.set((self.pinned() - {old}) | {new})

    # ---- history

    def catch_up(self) -> list[str]:
        """Record everything that is due, and what was changed outside; the paths of the latter."""
        if not self.directory.is_dir() and not self.state.is_dir():
            return []
        self.make_state()
        with self.journal.recording() as history:
            if history.empty:
                return self.journal.record_first_sight()
            return record_outside(self.files, self.scanner, history, busy=self.journal.intents)

    def note_outside(self) -> None:
        self.journal.first_now()
        self._look_outside()

    def _first_sight(self) -> dict[str, bytes]:
        history, intents = self.journal.history, self.journal.intents
        return first_sight(self.files, self.scanner, history, busy=intents)

    def _look_outside(self) -> None:
        """Edits by hand since the last time; when a session opens, in the background."""
        if self.changed_outside():
            self.catch_up()

    def changed_outside(self) -> bool:
        """Is a file not as it was at the last comparison? Before the first one: is there any?"""
        if not self.state.is_dir():
            return bool(self.scanner.stamps()) or bool(indexes(self.files))
        return not nothing_new(self.files, self.scanner)

    def make_state(self) -> None:
        if not self.state.is_dir():
            try:
                make_private(self.state)
            except StorageError as error:
                raise MemoryStoreError(str(error)) from error
        if self._before_first_write is not None:
            self._before_first_write()
            self._before_first_write = None


def _readable_path(path: str) -> bool:
    """A path that can't be opened is not read: the gate names what is wrong with it."""
    try:
        return bool(parts_of(path))
    except MemoryStoreError:
        return False


def _demand_no_index(path: str) -> None:
    if is_index(path):
        raise GateRefused(
            f"{path} lists the memories and is none itself: `lamina memory edit {path}` changes it."
        )
