"""From memory as it is to one step that tidies it: what a dream would change, judged and explained.

Reads the store and its history and writes nothing, but for `carry_out`, which brings a whole step
into the files through the journal, or none of it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from lamina.errors import Conflict, InboxFull, LaminaError, MemoryStoreError
from lamina.layers.dream.judge import After, Authors, GateFindings, Judge, MemorySnapshot
from lamina.local.consolidator import ConsolidationPlan, consolidate, quarrels
from lamina.local.standing import Fate
from lamina.local.working_set import said_on
from lamina.memories import Change, Note, Proposal, Verdict
from lamina.memory import (
    INDEX,
    brought_to,
    edit_topic,
    pointers_of,
    read_topic,
    short_hook,
    with_pointer,
    without_pointer,
)
from lamina.ports import MemoryStore
from lamina.recall.memory_index import USES_FILE, load_uses, unused
from lamina.secrets import Rules, redact, secrets_in
from lamina.text.written_dates import dated

_LABEL = re.compile(r"\s*\(source: [^()]*\)$")
_TRIES = 50
_LONGEST_REASON = 4_000


class GaveWay(LaminaError):
    """Somebody edited memory during the dream; their work stands, the dream's is dropped."""


@dataclass(frozen=True, slots=True)
class WantedMemory:
    """What somebody wants memory to be: files, and why others are gone."""

    files: Mapping[str, bytes]
    gone: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class DreamStep:
    """Everything that a dream changes, at once."""

    changes: tuple[Change, ...] = ()
    reasons: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()  # changed files that still are the user's own word
    doubtful: tuple[str, ...] = ()
    inbox: tuple[tuple[Proposal, Verdict, bytes], ...] = ()
    warnings: tuple[str, ...] = ()  # what the gate remarked
    merged: tuple[str, ...] = ()  # went, and all that they said stands in other files
    problems: tuple[str, ...] = ()  # what was wanted and is not done, with remarks and reason

    @property
    def improved(self) -> list[str]:
        gone = set(self.removed)
        return [path for path in self.files if path not in gone]

    @property
    def files(self) -> list[str]:
        return [change.path for change in self.changes if change.path != INDEX]

    @property
    def removed(self) -> list[str]:
        return [change.path for change in self.changes if change.after is None]

    @property
    def empty(self) -> bool:
        return not self.changes and not self.inbox


class DreamPlanner:
    """One dream's view of memory."""

    def __init__(self, store: MemoryStore, now: float) -> None:
        self.store = store
        self.now = now
        self.before = MemorySnapshot.of(store)
        self.held = {*store.pinned(), *store.read_only(), *self.before.unread}
        if store.history is not None:
            store.history.settle()
        self.authors = Authors(store.history)
        self.labels = self._labels()
        counted = load_uses(store.state / USES_FILE)
        self.uses = {path: use.count for path, use in counted.items() if use.count}
        self.last_used = {
            path: datetime.fromtimestamp(use.last, UTC).astimezone().date()
            for path, use in counted.items()
            if use.last > 0
        }
        self.in_vain = frozenset(unused(counted))
        self.said = self._said()
        self.judge = Judge(store, self.before, self.authors, self.labels)

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
            if fact and "said" not in memory.extra and dated(text, today) != dated(text, None):
                days = self.authors.said_on(memory.path)
                if days:
                    found[memory.path] = days.pop() if len(days) == 1 else None
        return found

    def dated(self) -> list[str]:
        """What memories say with the days that their relative dates mean."""
        found: list[str] = []
        for memory in self.before.memories():
            text = f"{memory.description}\n{memory.body}"
            absolute = dated(text, self.said.get(memory.path) or said_on(memory))
            found += [absolute] if absolute != text else []
        return found

    def plan(
        self,
        files: Mapping[str, bytes] | None = None,
        gone: Collection[str] = (),
        *,
        compare: bool = False,
    ) -> ConsolidationPlan:
        index = self._index(files or {})
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
            overrules=self.judge.overrules,
            by_hand=self.judge.by_hand,
            others=[*self.store.unreadable(), *self.before.unread],
            compare=compare,
        )

    def _index(self, files: Mapping[str, bytes]) -> bytes:
        """The index as it was, but for lines that repeated a description: they follow it."""
        index = self.before.index or b""
        for pointer in pointers_of(index):
            path, old = pointer.file, self.before.files.get(pointer.file)
            if old is None or files.get(path, old) == old:
                continue
            label, new = self.labels.get(path, ""), read_topic(path, files[path]).description
            said = short_hook(path, pointer.title, read_topic(path, old).description, suffix=label)
            if pointer.hook == said and new:
                hook = short_hook(path, pointer.title, new, suffix=label)
                index = with_pointer(index, path, "", hook)
        return index

    # ---- from a wish to a step

    def step(self, wanted: WantedMemory | None = None) -> DreamStep:
        """The deterministic part on top of a wish: only what the gate lets through, and no removal
        of anything that will not stand on disk afterwards."""
        wanted = wanted or WantedMemory(self.before.files)
        draft = Draft(dict(wanted.files), dict(wanted.gone), self.before.files)
        inbox: list[tuple[Proposal, Verdict, bytes]] = []
        for _ in range(_TRIES):
            plan = self.plan(draft.files, draft.gone)
            after = _carried_out(plan, draft.files, self.before)
            judged = self.judge.gate(plan, after, draft.own)
            inbox += judged.inbox
            draft.remarks |= judged.remarks
            bad = dict(judged.bad)
            fates: dict[str, Fate] = {}
            if not bad:
                aged = {drop.path for drop in plan.drops if not drop.because}
                fates = self.judge.fates(after, aged - draft.gone.keys())
                bad = {
                    path: f"“{fate.lost.strip()[:80]}” would stand nowhere any more"
                    for path, fate in fates.items()
                    if fate.lost
                }
            if not bad:
                return self._assembled(plan, after, draft, judged, fates, inbox, wanted.problems)
            for path, why in bad.items():
                self.held |= draft.give_up(path, why, plan)
        raise LaminaError("The dream found no change that the gate takes. Nothing was changed.")

    def _assembled(
        self,
        plan: ConsolidationPlan,
        after: After,
        draft: Draft,
        judged: GateFindings,
        fates: Mapping[str, Fate],
        inbox: Sequence[tuple[Proposal, Verdict, bytes]],
        said: Sequence[str],
    ) -> DreamStep:
        index = plan.index
        lost = [path for path in self.before.files if path not in after]
        if judged.labels:  # found only while judging: the index shows them
            self.labels |= judged.labels
            index = self.plan(_plain(after), {*draft.gone, *lost}).index
        doubtful = (*plan.doubtful, *quarrels(plan.memories))
        changes = [
            Change(path, self.before.files.get(path), content)
            for path, content in _plain(after).items()
            if content != self.before.files.get(path)
        ]
        changes += [Change(path, self.before.files[path], None) for path in lost]
        rules, old = self.store.secret_rules, self.before.index or b""
        fresh_secrets = secrets_in(index, rules=rules).beyond(old.decode("utf-8", "replace"))
        text = fresh_secrets.mask(index).encode("utf-8", "surrogateescape")
        if text != (self.before.index or b""):
            changes.append(Change(INDEX, self.before.index, text))
        reasons = _reasons(plan, draft.gone, fates)
        unexplained = [path for path in lost if path not in reasons]
        if unexplained:
            raise LaminaError(f"The dream would lose {unexplained[0]} and not say why.")
        remarks = [(path, one) for path in sorted(draft.remarks) for one in draft.remarks[path]]
        doubts = [redact(f"{named(doubt.paths)}: {doubt.reason}", rules) for doubt in doubtful]
        return DreamStep(
            changes=tuple(changes),
            reasons=tuple(redact(reasons[path], rules) for path in sorted(reasons)),
            typed=tuple(judged.typed),
            doubtful=tuple(doubts),
            inbox=tuple(inbox),
            warnings=tuple(one for _, one in remarks),
            merged=tuple(
                p for p in lost if p in fates and fates[p].holders and not fates[p].overruled
            ),
            problems=(
                *(one for path, one in remarks if path in draft.problems),
                *(redact(draft.mask(one, rules), rules) for one in draft.problems.values()),
                *(redact(one, rules) for one in said),
            ),
        )


@dataclass(slots=True)
class Draft:
    """A wish while it is judged: what can't be had is given up piece by piece, and named."""

    files: dict[str, bytes]
    gone: dict[str, str]
    before: Mapping[str, bytes]
    own: set[str] = field(init=False)  # files that are not as the rules found them
    problems: dict[str, str] = field(default_factory=dict[str, str])  # by path, the last holds
    remarks: dict[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    wished: list[str] = field(init=False)  # all that the wish would write, names included

    def __post_init__(self) -> None:
        self.own = {path for path in self.files if self.files[path] != self.before.get(path)}
        texts = [self.files[path].decode("utf-8", "replace") for path in self.own]
        self.wished = [*texts, *self.own, *map(str.upper, self.own)]
        for path in self.own & self.before.keys():
            self.files[path] = _with_keys_of(path, self.files[path], self.before[path])

    def mask(self, text: str, rules: Rules | None) -> str:
        """The text without secrets that were wished for, folded into a file's name among them."""
        return secrets_in(*self.wished, rules=rules).mask(text)

    def give_up(self, path: str, why: str, plan: ConsolidationPlan) -> set[str]:
        """Wish one thing less: a new title and description first, then all that changes this file.
        The paths that the rules may not touch either."""
        old = self.before.get(path)
        stays = f"{path} stays as it was: {why}"
        if path in self.gone and old is not None:
            self.files[path] = old
            self.problems[path] = f"{path} stays: {why} (the wish: {self.gone.pop(path)})"
            return set()
        if path not in self.own:
            self.problems[path] = stays
            return {path, *(p for m in plan.merges if m.into == path for p in m.absorbed)}
        plain = None if old is None else _with_head_of(path, self.files[path], old)
        if plain is not None and plain not in (self.files[path], old):
            self.files[path] = plain
            self.problems[path] = f"{path} keeps its title and description: {why}"
            return set()
        self.own.discard(path)
        if old is None:
            del self.files[path]
        else:
            self.files[path] = old
        self.problems[path] = stays if old is not None else f"{path} was not written: {why}"
        return set()


def _with_head_of(path: str, content: bytes, old: bytes) -> bytes | None:
    """The file with the title and description that it had; None where that can't be written."""
    before = read_topic(path, old)
    with contextlib.suppress(MemoryStoreError):
        return edit_topic(content, name=before.name, description=before.description)
    return None


def _with_keys_of(path: str, content: bytes, old: bytes) -> bytes:
    """The file with keys of its frontmatter that a rewrite forgot: the day it counts from, a pin."""
    before, now = read_topic(path, old).extra, read_topic(path, content).extra
    forgotten = {key: value for key, value in before.items() if key not in now}
    with contextlib.suppress(MemoryStoreError):
        return edit_topic(content, extra=forgotten) if forgotten else content
    return content


def named(paths: Sequence[str], most: int = 5) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(paths[:most]) + more


def _carried_out(
    plan: ConsolidationPlan, files: Mapping[str, bytes], before: MemorySnapshot
) -> dict[str, bytes | MemoryStoreError]:
    """Every file as the plan has it; bytes that say the same stay as they are."""
    found = {memory.path: memory for memory in before.memories(files)}
    after: dict[str, bytes | MemoryStoreError] = {}
    for memory in plan.memories:
        content = files[memory.path]
        if memory is found.get(memory.path):
            after[memory.path] = content
            continue
        old = read_topic(memory.path, content)
        same = (old.name, old.description, old.type, old.body, dict(old.extra)) == (
            memory.name, memory.description, memory.type, memory.body, dict(memory.extra),
        )  # fmt: skip
        if same:
            after[memory.path] = content
            continue
        try:
            after[memory.path] = brought_to(content, memory)
        except MemoryStoreError as error:
            after[memory.path] = error
    return after


def _plain(after: After) -> dict[str, bytes]:
    return {path: content for path, content in after.items() if isinstance(content, bytes)}


def _reasons(
    plan: ConsolidationPlan, gone: Mapping[str, str], fates: Mapping[str, Fate]
) -> dict[str, str]:
    """One line for each memory that changed or went."""
    reasons: dict[str, str] = {}
    for path, why in gone.items():
        fate = fates.get(path, Fate())
        became = [f"merged into {named(fate.holders)}"] if fate.holders else []
        if fate.overruled:
            became.append(f"removed: {named(fate.overruled)} says otherwise since")
        told = bool(became) and all(one in why for one in (*fate.holders, *fate.overruled))
        words = ", ".join(became or ["removed: it said nothing"])
        reasons[path] = f"{path} {words}" + ("" if told else f" ({why})")
    for merge in plan.merges:
        for path in merge.absorbed:
            reasons[path] = f"{path} merged into {merge.into}"
    for drop in plan.drops:
        because = f" ({drop.because})" if drop.because else ""
        reasons[drop.path] = f"{drop.path} dropped: {drop.reason}{because}"
    for rewrite in plan.rewrites:
        reasons[rewrite.path] = f"{rewrite.path}: {rewrite.reason}"
    for path, fate in fates.items():
        if fate.overruled and path not in reasons:
            reasons[path] = f"{path}: {named(fate.overruled)} says otherwise since"
    return reasons


# ---- the one write


def carry_out(
    store: MemoryStore, before: MemorySnapshot, step: DreamStep, when: float
) -> tuple[str, int]:
    """Bring the step into the files, whole; the commit's id, and how much the inbox had no room for.
    GaveWay if memory changed meanwhile."""

    def give_way() -> None:
        if path := before.differs_from(store):
            raise GaveWay(f"{path} was edited during the dream, so the dream gave way.")

    note = Note(
        writer="dream",
        subject=f"dream: {len(step.files)} memories",
        reason="; ".join(step.reasons)[:_LONGEST_REASON],
        marks={"Typed": " ".join(step.typed)} if step.typed else {},
        when=when,
    )
    try:
        store.apply(step.changes, note, first=give_way)
    except Conflict as error:
        raise GaveWay(f"{error} The dream gave way.") from error
    no_room = 0
    for proposal, verdict, content in step.inbox:
        try:
            store.hold(proposal, verdict, content)
        except (InboxFull, MemoryStoreError):
            no_room += 1
    return _commit_of_dream(store), no_room


def _commit_of_dream(store: MemoryStore) -> str:
    if store.history is None:
        return ""
    # What was dreamt is in the files; the store says when the history can only follow later.
    with contextlib.suppress(MemoryStoreError):
        store.history.settle()
        last = next(store.history.log(), None)
        return last.id if last is not None and last.writer == "dream" else ""
    return ""
