"""From memory as it is to one step that tidies it: what a dream would change, judged and explained.

Reads the store and its history and writes nothing, but for `carry_out`, which brings a whole step
into the files through the journal, or none of it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial

from lamina.errors import Conflict, InboxFull, LaminaError, MemoryStoreError
from lamina.layers.dream_snapshot import Authors, Snapshot
from lamina.local.consolidator import Plan, consolidate
from lamina.local.desk import dated
from lamina.memories import Memory, Proposal, Verdict
from lamina.memory import drafts
from lamina.memory.claims import statements
from lamina.memory.file_store import FileStore
from lamina.memory.gate import decide
from lamina.memory.index import INDEX, LOADED_BYTES, LOADED_LINES, pointers_of, without_pointer
from lamina.memory.intents import Change, Note
from lamina.memory.leaks import without_secrets
from lamina.memory.topics import edit_topic, read_topic, why_ambiguous
from lamina.recall import uses
from lamina.secrets import redact, secrets_in

_LABEL = re.compile(r"\s*\(source: [^()]*\)$")
_TRIES = 50
_LONGEST_REASON = 4_000


class GaveWay(LaminaError):
    """Somebody edited memory during the dream; their work stands, the dream's is dropped."""


@dataclass(frozen=True, slots=True)
class Dreamed:
    """What somebody wants memory to be: files, and why others are gone."""

    files: Mapping[str, bytes]
    gone: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """Everything that a dream changes, at once."""

    changes: tuple[Change, ...] = ()
    reasons: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()  # changed files that still are the user's own word
    doubtful: tuple[str, ...] = ()
    inbox: tuple[tuple[Proposal, Verdict, bytes], ...] = ()
    warnings: tuple[str, ...] = ()  # what the gate remarked

    @property
    def files(self) -> list[str]:
        return [change.path for change in self.changes if change.path != INDEX]

    @property
    def removed(self) -> list[str]:
        return [change.path for change in self.changes if change.after is None]

    @property
    def empty(self) -> bool:
        return not self.changes and not self.inbox


class Desk:
    """One dream's view of memory."""

    def __init__(self, store: FileStore, now: float, held: Collection[str] = ()) -> None:
        self.store = store
        self.now = now
        self.before = Snapshot.of(store)
        self.held = {*store.pinned(), *held}
        store.journal.settle()
        self.authors = Authors(store.journal.history)
        self.labels = self._labels()
        counted = uses.load(store.state / uses.NAME)
        self.uses = {path: use.count for path, use in counted.items() if use.count}
        self.last_used = {
            path: datetime.fromtimestamp(use.last, UTC).astimezone().date()
            for path, use in counted.items()
            if use.last > 0
        }
        self.in_vain = frozenset(uses.unused(counted))
        self.said = self._said()
        self._remarks: dict[str, Sequence[str]] = {}  # of the gate, by path

    def _labels(self) -> dict[str, str]:
        """What index lines end with where a memory is not the user's own word."""
        found: dict[str, str] = {}
        for pointer in pointers_of(self.before.index or b""):
            if label := _LABEL.search(pointer.hook):
                found[pointer.file] = f" {label[0].strip()}"
        for path in self.before.files:
            origin = self.authors.origin(path)
            if path not in found and origin and origin != "typed":
                found[path] = f" (source: {origin})"
        return found

    def _said(self) -> dict[str, date | None]:
        """Of memories that don't name it, the day from which "tomorrow" counts in them: a file's time
        moves with every edit and copy. None where its lines are of different days."""
        found: dict[str, date | None] = {}
        today = datetime.fromtimestamp(self.now, UTC).astimezone().date()
        for memory in self.before.memories():
            text = f"{memory.description}\n{memory.body}"
            fact = memory.type not in ("user", "feedback") and not memory.team
            if fact and "said" not in memory.extra and dated(text, today) != text:
                days = self.authors.said_on(memory.path, memory.mtime)
                if days:
                    found[memory.path] = days.pop() if len(days) == 1 else None
        return found

    def plan(self, files: Mapping[str, bytes] | None = None, gone: Collection[str] = ()) -> Plan:
        index = self.before.index or b""
        for path in gone:
            index = without_pointer(index, path)
        return consolidate(
            self.before.memories(files),
            index=index.decode("utf-8", "surrogateescape"),
            now=datetime.fromtimestamp(self.now, UTC).astimezone(),
            uses=self.uses,
            pinned=self.held,
            labels=self.labels,
            last_used=self.last_used,
            in_vain=self.in_vain,
            said=self.said,
        )

    # ---- from a wish to a step

    def step(self, wish: Dreamed | None = None) -> Step:
        """The deterministic part on top of a wish, with only what the gate lets through."""
        files, gone = (
            dict((wish or Dreamed(self.before.files)).files),
            dict(wish.gone if wish else {}),
        )
        own = {path for path in files if files[path] != self.before.files.get(path)}
        inbox: list[tuple[Proposal, Verdict, bytes]] = []
        for _ in range(_TRIES):
            plan = self.plan(files, gone)
            after = _carried_out(plan, files)
            bad, typed = self._judged(plan, after, own, inbox)
            bad += self._never_to_come_back(after)
            if not bad:
                return self._assembled(plan, after, gone, typed, inbox)
            for path in bad:
                self._leave_alone(path, plan, files, own)
        raise LaminaError("The dream found no change that the gate takes. Nothing was changed.")

    def _never_to_come_back(self, after: Mapping[str, bytes | MemoryStoreError]) -> list[str]:
        """Memories whose present text the gate would refuse (somebody put it there past the gate):
        undoing a dream that changed them would fail, so none does."""
        rules = dataclasses.replace(self.store.admission.rules, memories=(), pinned=())
        changed = [path for path, old in self.before.files.items() if after.get(path) != old]
        proposals = [
            drafts.proposal_of(read_topic(path, self.before.files[path]), "user", "")
            for path in changed
        ]
        return [one.path for one in proposals if decide(one, rules).decision == "refuse"]

    def _leave_alone(self, path: str, plan: Plan, files: dict[str, bytes], own: set[str]) -> None:
        """Plan again without touching this memory, or those that were to become a part of it."""
        self.held.add(path)
        self.held.update(p for merge in plan.merges if merge.into == path for p in merge.absorbed)
        if path in own:
            own.discard(path)
            if path in self.before.files:
                files[path] = self.before.files[path]
            else:
                files.pop(path, None)

    def _judged(
        self,
        plan: Plan,
        after: Mapping[str, bytes | MemoryStoreError],
        own: set[str],
        inbox: list[tuple[Proposal, Verdict, bytes]],
    ) -> tuple[list[str], list[str]]:
        """Paths that the gate does not take, and those that still are the user's own word."""
        taken_in = {merge.into: merge.absorbed for merge in plan.merges}
        bad: list[str] = []
        typed: list[str] = []
        for path, content in after.items():
            if content == self.before.files.get(path):
                continue
            if isinstance(content, MemoryStoreError) or (path in own and why_ambiguous(content)):
                bad.append(path)
                continue
            wider = {*own, *(p for p in self.before.files if p not in after)} if path in own else ()
            sources = (path, *taken_in.get(path, ()), *wider)
            proposal, verdict = self._asked(path, content, sources, plan.memories)
            self._remarks[path] = verdict.warnings
            if verdict.decision == "inbox" and path not in own:
                # The rules only put together what memories of this kind said already: no new
                # claim, though not everybody's line of it is known to be the user's.
                _, verdict = self._asked(path, content, sources, plan.memories, anyone=True)
                verdict = dataclasses.replace(verdict, origin="")
            if verdict.decision != "accept":
                bad.append(path)
                if verdict.decision == "inbox" and path not in self.before.files:
                    rules = self.store.admission.rules.secret_rules
                    kept, exact = without_secrets(proposal, content, None, rules)
                    inbox.append((kept, verdict, exact or b""))
            elif verdict.origin == "typed":
                typed.append(path)
            elif path in own and path not in self.labels:
                self.labels[path] = f" (source: {verdict.origin})"
        return bad, typed

    def _asked(
        self,
        path: str,
        content: bytes,
        sources: Collection[str],
        others: Sequence[Memory],
        *,
        anyone: bool = False,
    ) -> tuple[Proposal, Verdict]:
        memory = read_topic(path, content)
        proposal = drafts.proposal_of(memory, "dream", "")
        known = [other for other in others if other.path != path]
        if path in self.before.files:
            known.append(read_topic(path, self.before.files[path]))
        context = dataclasses.replace(
            self.store.admission.rules,
            memories=known,
            pinned=self.store.pinned(),
            forgotten=self.store.tombstones.why,
            vouched=partial(self._vouched, sources, anyone),
        )
        return proposal, decide(proposal, context)

    def _vouched(self, sources: Collection[str], anyone: bool, path: str) -> str:
        """Lines that rest on the user's word, whole and sentence by sentence, and its index line.

        `anyone`: all lines of memories that carry no label, whoever wrote them.
        """
        plain = [source for source in sources if source not in self.labels]
        if anyone:
            texts = [self.before.files.get(one, b"").decode("utf-8", "replace") for one in plain]
        else:
            texts = [self.authors.vouched(one) for one in plain]
        if path not in self.labels and any(texts):
            texts += [p.hook for p in pointers_of(self.before.index or b"") if p.file == path]
        return "\n".join([*texts, *(part.text for text in texts for part in statements(text))])

    def _assembled(
        self,
        plan: Plan,
        after: Mapping[str, bytes | MemoryStoreError],
        gone: Mapping[str, str],
        typed: list[str],
        inbox: list[tuple[Proposal, Verdict, bytes]],
    ) -> Step:
        fresh = self.labels != self._labels()  # found only while judging: the index shows them
        index = self.plan(_plain(after), gone).index if fresh else plan.index
        changes = [
            Change(path, self.before.files.get(path), content)
            for path, content in _plain(after).items()
            if content != self.before.files.get(path)
        ]
        lost = [path for path in self.before.files if path not in after]
        changes += [Change(path, self.before.files[path], None) for path in lost]
        rules, old = self.store.admission.rules.secret_rules, self.before.index or b""
        fresh_secrets = secrets_in(index, rules=rules).beyond(old.decode("utf-8", "replace"))
        text = fresh_secrets.mask(index).encode("utf-8", "surrogateescape")
        if text != (self.before.index or b""):
            changes.append(Change(INDEX, self.before.index, text))
        reasons = _reasons(plan, gone)
        unexplained = [path for path in lost if path not in reasons]
        if unexplained:
            raise LaminaError(f"The dream would lose {unexplained[0]} and not say why.")
        _demand_limits(text, self.before.index or b"")
        doubts = [redact(f"{named(doubt.paths)}: {doubt.reason}", rules) for doubt in plan.doubtful]
        return Step(
            tuple(changes),
            tuple(redact(reasons[path], rules) for path in sorted(reasons)),
            tuple(typed),
            tuple(doubts),
            tuple(inbox),
            tuple(one for path in sorted(self._remarks) for one in self._remarks[path]),
        )


def named(paths: Sequence[str], most: int = 5) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(paths[:most]) + more


def _carried_out(plan: Plan, files: Mapping[str, bytes]) -> dict[str, bytes | MemoryStoreError]:
    """Every file as the plan has it; bytes that say the same stay as they are."""
    after: dict[str, bytes | MemoryStoreError] = {}
    for memory in plan.memories:
        content = files[memory.path]
        old = read_topic(memory.path, content)
        same = (old.name, old.description, old.type, old.body, dict(old.extra)) == (
            memory.name, memory.description, memory.type, memory.body, dict(memory.extra),
        )  # fmt: skip
        if same:
            after[memory.path] = content
            continue
        extra = {key: value for key, value in memory.extra.items() if old.extra.get(key) != value}
        try:
            after[memory.path] = edit_topic(
                content,
                name=memory.name,
                description=memory.description,
                type=memory.type,
                body=memory.body,
                extra=extra,
            )
        except MemoryStoreError as error:
            after[memory.path] = error
    return after


def _plain(after: Mapping[str, bytes | MemoryStoreError]) -> dict[str, bytes]:
    return {path: content for path, content in after.items() if isinstance(content, bytes)}


def _reasons(plan: Plan, gone: Mapping[str, str]) -> dict[str, str]:
    """One line for each memory that changed or went."""
    reasons = {path: f"{path} removed: {why}" for path, why in gone.items()}
    for merge in plan.merges:
        for path in merge.absorbed:
            reasons[path] = f"{path} merged into {merge.into}"
    for drop in plan.drops:
        because = f" ({drop.because})" if drop.because else ""
        reasons[drop.path] = f"{drop.path} dropped: {drop.reason}{because}"
    for rewrite in plan.rewrites:
        reasons[rewrite.path] = f"{rewrite.path}: {rewrite.reason}"
    return reasons


def _demand_limits(index: bytes, before: bytes) -> None:
    """Within what is loaded; an index that is too long by its prose alone may not grow."""
    lines, old = len(index.splitlines()), len(before.splitlines())
    if lines > max(LOADED_LINES, old) or len(index) > max(LOADED_BYTES, len(before)):
        raise LaminaError(f"The dream would make {INDEX} longer than what is loaded.")


# ---- the one write


def carry_out(store: FileStore, before: Snapshot, step: Step, when: float) -> tuple[str, int]:
    """Bring the step into the files, whole; the commit's id, and how much the inbox had no room for.
    GaveWay if memory changed meanwhile."""
    with store.journal.writing():
        if path := before.differs_from(Snapshot.of(store)):
            raise GaveWay(f"{path} was edited during the dream, so the dream gave way.")
        note = Note(
            writer="dream",
            subject=f"dream: {len(step.files)} memories",
            reason="; ".join(step.reasons)[:_LONGEST_REASON],
            marks={"Typed": " ".join(step.typed)} if step.typed else {},
            when=when,
        )
        try:
            store.journal.apply(step.changes, note)
        except Conflict as error:
            raise GaveWay(f"{error} The dream gave way.") from error
    no_room = 0
    for proposal, verdict, content in step.inbox:
        try:
            store.inbox.add(proposal, verdict, base=None, exact=content)
        except InboxFull:
            no_room += 1
    store.journal.settle()
    last = next(store.journal.history.log(), None)
    return (last.id if last is not None and last.writer == "dream" else ""), no_room
