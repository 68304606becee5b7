"""What may become of a dream's wishes: the gate's word on every file, and whether all that was said
still stands. Reads the store and its history; changes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property, partial
from itertools import chain

from lamina.errors import MemoryStoreError
from lamina.local.consolidator import ConsolidationPlan
from lamina.local.standing import THE_USERS, Fate, Moved, Standing, all_said
from lamina.local.working_set import stamp
from lamina.memories import HEAD, QUOTED, Commit, Evidence, Memory, Proposal, Verdict
from lamina.memory import (
    HEAD_BYTES,
    INDEX,
    LARGEST,
    HistoryDamaged,
    blame,
    earlier_name,
    is_binary,
    pointers_of,
    proposal_of,
    read_topic,
    rests_on_user,
    users_word,
    why_ambiguous,
    without_secrets,
)
from lamina.ports import MemoryHistory, MemoryStore
from lamina.text.claims import judge, same_words, statements
from lamina.text.wording import spaced
from lamina.text.written_dates import dated


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """All topic files and the index at one moment."""

    files: Mapping[str, bytes]
    index: bytes | None
    times: Mapping[str, float] = field(default_factory=dict[str, float])
    unread: Collection[str] = ()  # there, but too large or not to be read, perhaps only now
    _parsed: dict[str, Memory] = field(default_factory=dict[str, Memory], compare=False)
    _read: dict[bytes, Memory] = field(default_factory=dict[bytes, Memory], compare=False)

    @classmethod
    def of(cls, store: MemoryStore) -> MemorySnapshot:
        files: dict[str, bytes] = {}
        times: dict[str, float] = {}
        known: dict[bytes, bytes] = {}  # copies share their bytes
        stamps = store.stamps()
        for path, content, mtime in _contents(store, stamps):
            files[path] = known.setdefault(content, content)
            times[path] = mtime
        return cls(files, store.content(INDEX), times, stamps.keys() - files.keys())

    def memories(self, files: Mapping[str, bytes] | None = None) -> list[Memory]:
        chosen = self.files if files is None else files
        return [self._memory(path, content) for path, content in sorted(chosen.items())]

    def _memory(self, path: str, content: bytes) -> Memory:
        found = self._parsed.get(path)
        if found is not None and self.files.get(path) is content:
            return found
        if (said := self._read.get(content)) is None:  # copies share what they say
            said = self._read[content] = read_topic("", content)
        name = said.name or read_topic(path, b"").name
        memory = replace(said, path=path, name=name, mtime=self.times.get(path, 0.0))
        if self.files.get(path) is content:
            self._parsed[path] = memory
        return memory

    @property
    def digest(self) -> str:
        return _digest(self.index, self.files.items())

    def differs_from(self, store: MemoryStore) -> str:
        """A file that is not the same in the store now; "" if there is none."""
        if self.index != store.content(INDEX):
            return INDEX
        gone, other = set(self.files), list[str]()
        for path, content, _ in _contents(store, store.stamps()):
            gone.discard(path)
            if self.files.get(path) != content:
                other.append(path)
        return min([*gone, *other], default="")


def _contents(
    store: MemoryStore, stamps: Mapping[str, tuple[int, int, int]]
) -> Iterator[tuple[str, bytes, float]]:
    """Every topic file with its time, one after the other: all at once they may be too much. A dream
    sees no quotation: none of its words may get into what speaks, or take that one's place."""
    for path, (mtime_ns, size, _) in stamps.items():
        if size > LARGEST:
            continue
        with contextlib.suppress(MemoryStoreError):
            content = store.content(path)
            if content is None or is_binary(content):
                continue
            if QUOTED.encode() not in content[:HEAD_BYTES] or not read_topic(path, content).quoted:
                yield path, content, mtime_ns / 1e9


def digest_of(store: MemoryStore) -> str:
    """What a snapshot of the store would have as its digest."""
    files = _contents(store, store.stamps())
    return _digest(store.content(INDEX), ((path, content) for path, content, _ in files))


def _digest(index: bytes | None, files: Iterable[tuple[str, bytes]]) -> str:
    total = hashlib.sha256(index or b"")
    for path, hashed in sorted((path, hashlib.sha256(content).digest()) for path, content in files):
        total.update(f"\0{path}\0".encode("utf-8", "surrogateescape"))
        total.update(hashed)
    return total.hexdigest()


@dataclass(frozen=True, slots=True)
class Word:
    """Whose word a statement is, and since when."""

    when: float
    typed: bool
    by_hand: bool = False  # nobody vouches for it and no tool of ours made it: an editor did


class Authors:
    """Who wrote which memory, from one walk through the history."""

    def __init__(self, history: MemoryHistory | None) -> None:
        self._history = history
        self._words: dict[str, dict[int, Word]] = {}
        self._commits: dict[str, list[Commit]] = {}
        with contextlib.suppress(HistoryDamaged):
            for commit in history.log() if history is not None else ():
                paths = commit.paths or self._paths(commit.id)
                for path in paths:
                    self._commits.setdefault(path, []).append(commit)

    def _paths(self, commit: str) -> list[str]:
        changes = self._history.changes(commit) if self._history is not None else ()
        return [change.path for change in changes]

    def _content(self, path: str, commit: Commit) -> bytes | None:
        return None if self._history is None else self._history.content(path, commit.id)

    def origin(self, path: str) -> str:
        """Whose word the memory is; "" where nobody recorded it."""
        for commit in self._commits.get(path, ()):
            if commit.writer not in ("dream", "outside") and commit.origin:
                return commit.origin
        return ""

    def only_outside(self, path: str) -> bool:
        """Was it never written through the store?"""
        return all(one.writer == "outside" for one in self._commits.get(path, ()))

    def words(self, path: str, mtime: float) -> dict[int, Word]:
        """Each statement of a memory, by the hash of `same_words` (all texts of a large store are too
        much); nothing where the history is damaged."""
        if path not in self._words:
            found: dict[int, Word] = {}
            words: dict[str, Word] = {}  # one for each commit: many lines came by the same
            with contextlib.suppress(HistoryDamaged):
                for line in blame(self._versions(path)):
                    commit = line.commit
                    if (word := words.get(commit.id)) is None:
                        typed = rests_on_user(commit, path)
                        outside = commit.writer == "outside"
                        when = min(commit.when, mtime) if outside else commit.when
                        by_hand = not typed and (outside or not commit.origin)
                        word = words[commit.id] = Word(when, typed, by_hand)
                    for part in statements(line.text):
                        found[hash(same_words(part.text))] = word
            self._words[path] = found
        return self._words[path]

    def said_on(self, path: str) -> set[date | None]:
        """The days on which lines with relative dates came into a memory, by its history; None for
        those that came past the store, whose day nobody knows."""
        days: set[date | None] = set()
        with contextlib.suppress(HistoryDamaged):
            for line in blame(self._versions(path)):
                day = datetime.fromtimestamp(line.commit.when, UTC).astimezone().date()
                if dated(line.text, day) != dated(line.text, None):
                    days.add(None if line.commit.writer == "outside" else day)
        return days

    def _versions(self, path: str) -> list[tuple[Commit, bytes | None]]:
        """All versions of a memory, oldest first, under its earlier names too."""
        found: list[tuple[Commit, bytes | None]] = []
        commits = self._commits.get(path, [])
        while commits:
            found += [(one, self._content(path, one)) for one in commits]
            renamed, before = commits[-1], earlier_name(commits[-1], path)
            known = self._commits.get(before, [])
            at = known.index(renamed) + 1 if before != path and renamed in known else len(known)
            path, commits = before, known[at:]
        return found[::-1]

    def vouched(self, path: str) -> str:
        with contextlib.suppress(HistoryDamaged):
            commits = reversed(self._commits.get(path, ()))
            versions = [(one, self._content(path, one)) for one in commits]
            return users_word(blame(versions), path)
        return ""


After = Mapping[str, bytes | MemoryStoreError]


@dataclass(slots=True)
class GateFindings:
    """The gate's word on all files of a dream."""

    bad: dict[str, str] = field(default_factory=dict[str, str])  # path: why it may not be so
    typed: list[str] = field(default_factory=list[str])  # still the user's own word
    labels: dict[str, str] = field(default_factory=dict[str, str])  # of files not labelled so far
    remarks: dict[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])  # by path
    inbox: list[tuple[Proposal, Verdict, bytes]] = field(
        default_factory=list[tuple[Proposal, Verdict, bytes]]
    )


class Judge:
    """Knows memory as it was before the dream."""

    def __init__(
        self,
        store: MemoryStore,
        before: MemorySnapshot,
        authors: Authors,
        labels: Mapping[str, str],
    ) -> None:
        self._store, self._authors, self._labels = store, authors, labels
        self._before, self._files = before, before.files  # the files as they are on disk
        self._corrected: Mapping[str, bytes] = {}
        self._memories = {memory.path: memory for memory in before.memories()}
        # By path, what the user typed in past sessions of what is written there now.
        self.heard: Mapping[str, Sequence[Evidence]] = {}
        self._hooks = {one.file: one.hook for one in pointers_of(before.index or b"")}

    def correct(self, corrected: Mapping[str, bytes]) -> None:
        """Files whose paths had drifted count as if they had named the right ones all along."""
        self._corrected = corrected
        self._before = replace(self._before, files={**self._before.files, **corrected})
        self._memories = {memory.path: memory for memory in self._before.memories()}

    def _stands(self, path: str, content: bytes | MemoryStoreError | None) -> bool:
        """Is a file as it was, but perhaps for such a path?"""
        return content in (self._files.get(path), self._before.files.get(path))

    def _still_typed(self, path: str) -> bool:
        """Were the lines whose paths are put right the user's own word?"""
        vouched = self._authors.vouched(path).splitlines()
        now = self._corrected[path].decode("utf-8", "replace").splitlines()
        was = self._files[path].decode("utf-8", "replace").splitlines()
        return all({line, f"{HEAD}{line}"} & {*vouched} for line in was if line not in now)

    @cached_property
    def _moved(self) -> Moved:
        return Moved(self._memories.values(), self._hooks)

    # ---- the gate

    def gate(self, plan: ConsolidationPlan, after: After, own: Collection[str]) -> GateFindings:
        """`own`: files that somebody other than the rules wrote."""
        was, taken_in = self._before.files, {merge.into: merge.absorbed for merge in plan.merges}
        found = GateFindings()
        for path, content in after.items():
            if self._stands(path, content):
                if content == self._corrected.get(path) and self._still_typed(path):
                    found.typed.append(path)
                continue
            if isinstance(content, MemoryStoreError):
                found.bad[path] = str(content)
            elif why := why_ambiguous(content, was.get(path)):
                found.bad[path] = f"it can be read in two ways: {why}"
            else:
                sources = [path, *taken_in.get(path, ())]
                if path in own:
                    sources += [*own, *(one for one in self._before.files if one not in after)]
                self._ask(path, content, sources, plan.memories, found, own)
        return found

    def _ask(
        self,
        path: str,
        content: bytes,
        sources: Collection[str],
        others: Sequence[Memory],
        found: GateFindings,
        own: Collection[str],
    ) -> None:
        """First as the gate asks everybody; then without the lines that only moved."""
        memory = read_topic(path, content)
        proposal = proposal_of(memory, "dream", "")
        if path in own:
            proposal = replace(proposal, evidence=tuple(self.heard.get(path, ())))
        moved = self._moved.lines(memory, partial(self._may_move, memory))
        vouched = self._vouched(sources, path)
        stood = "\n".join([vouched, *moved])
        if memory.type in THE_USERS:
            lines = [*map(str.rstrip, memory.body.splitlines()), *moved]
            theirs, kept = {*map(spaced, vouched.splitlines())}, [o for o in lines if o in moved]
            stood = "\n".join(kept)
            vouched = "\n".join(line for line in kept if spaced(line) in theirs)
        verdict = self._decided(proposal, vouched, others)
        found.remarks[path] = verdict.warnings
        typed = verdict.decision == "accept" and verdict.origin == "typed"
        if not typed and verdict.decision != "refuse":
            verdict = self._decided(proposal, stood, others)
        if path in own and verdict.decision == "accept" and (typed or memory.type in THE_USERS):
            files = self._put_together(path, moved) if memory.type in THE_USERS else ()
            if doubt := self._store.doubt(proposal, files):
                proposal, typed = replace(proposal, doubt=doubt), False
                verdict = self._decided(proposal, stood, others)
        if typed:
            found.typed.append(path)
            return
        if verdict.decision != "accept":
            found.bad[path] = verdict.reason.rstrip(".")
            if verdict.decision == "inbox" and path not in self._before.files:
                found.bad[path] += "; it waits in the inbox"
                rules = self._store.secret_rules
                kept, exact = without_secrets(proposal, content, None, rules)
                found.inbox.append((kept, verdict, exact or b""))
        elif path in own and path not in self._labels:
            only_moved = verdict.origin == "typed"
            label = self._label_of(path, moved) if only_moved else f" (source: {verdict.origin})"
            if label:
                found.labels[path] = label

    def _put_together(self, path: str, moved: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
        """The files that its lines come from, as they were: lines may say another thing side by side."""
        paths = dict.fromkeys([path, *chain.from_iterable(moved.values())])
        was = self._before.files
        return [(one, was[one].decode("utf-8", "replace")) for one in paths if one in was]

    def _decided(self, proposal: Proposal, vouched: str, others: Sequence[Memory]) -> Verdict:
        known = [other for other in others if other.path != proposal.path]
        if proposal.path in self._before.files:
            known.append(read_topic(proposal.path, self._before.files[proposal.path]))
        return self._store.judge_among(proposal, known, vouched)

    def _vouched(self, sources: Collection[str], path: str) -> str:
        """Lines that rest on the user's word, and its index line."""
        texts = [self._authors.vouched(one) for one in sources if one not in self._labels]
        if path not in self._labels and any(texts) and path in self._hooks:
            texts.append(self._hooks[path])
        return "\n".join(texts)

    def _may_move(self, to: Memory, source: Memory) -> bool:
        """A fact does not become the user's own word by standing among it."""
        users = source.type in THE_USERS and source.path not in self._labels
        return source.team == to.team and (users or to.type not in THE_USERS)

    def _label_of(self, path: str, moved: Mapping[str, Sequence[str]]) -> str:
        """The label of a file whose lines all come from others: that of its least trusted line."""
        for paths in moved.values():
            if paths and all(one in self._labels for one in paths):
                return self._labels[paths[0]]
        return "" if path in self._before.files else " (source: outside)"

    # ---- what still stands

    def fates(self, after: After, aged: Collection[str]) -> dict[str, Fate]:
        """Of every memory that changed or went, but for facts whose day is long past."""
        files = {path: content for path, content in after.items() if isinstance(content, bytes)}
        changed = [
            memory
            for path, memory in self._memories.items()
            if not self._stands(path, files.get(path)) and path not in aged
        ]
        if not changed:
            return {}
        texts = (text for one in changed for text in (*all_said(one), self._hook(one.path, files)))
        standing = Standing(self._before.memories(files), texts)
        found: dict[str, Fate] = {}
        for memory in changed:
            overruled = partial(self._overruled, memory, standing)
            found[memory.path] = standing.fate(memory, overruled, self._hook(memory.path, files))
        return found

    def _hook(self, path: str, files: Collection[str]) -> str:
        """What the index said of a file that is no more."""
        hook = "" if path in files else self._hooks.get(path, "")
        return hook.removesuffix(self._labels.get(path, ""))

    def _overruled(self, older: Memory, standing: Standing, old: str) -> str:
        """The file whose statement took the place of this one."""
        for newer in standing.memories.values():
            if newer.path == older.path or newer.type != older.type or newer.team:
                continue
            for part in statements(newer.body):
                if (
                    judge(part.text, old) == "sure"
                    and stamp(newer) > stamp(older)
                    and self.overrules(newer, part.text, older, old)
                ):
                    return newer.path
        return ""

    def overrules(self, newer: Memory, new: str, older: Memory, old: str) -> bool:
        """The user's own typed word overrules what was said earlier. What an assistant wrote down
        gives way to any later word that is not less trusted."""
        later, earlier = self._word(newer, new), self._word(older, old)
        if later is not None and later.typed:
            return later.when >= (earlier.when if earlier else older.mtime)
        ours = earlier is not None and not (earlier.typed or earlier.by_hand)
        return ours and older.path in self._labels and older.type not in THE_USERS

    def _word(self, memory: Memory, text: str) -> Word | None:
        """Whose word a statement is, by its file's history or that of a file which it came from."""
        key = hash(same_words(text))
        for path in chain((memory.path,), self._memories):
            known = self._memories.get(path)
            if known is None or not (path == memory.path or text in known.body):
                continue
            if word := self._authors.words(path, known.mtime).get(key):
                return word
        return None

    def by_hand(self, path: str) -> bool:
        """Is a line of it somebody's own, written past the store?"""
        if self._authors.only_outside(path):
            return True
        known = self._memories.get(path)
        found = self._authors.words(path, known.mtime) if known else {}
        return not found or any(word.by_hand for word in found.values())
