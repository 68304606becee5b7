"""A second store, in a dict: no files, no history, and it trusts whoever writes. It shows that the
rest of Lamina takes any store that keeps `ports.MemoryStore`."""

from __future__ import annotations

import builtins
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from lamina.errors import (
    Conflict,
    GateRefused,
    InboxFull,
    MemoryStoreError,
    NameTaken,
    SaidAlready,
    UsageError,
)
from lamina.memories import (
    Change,
    Evidence,
    Forgotten,
    Hit,
    InboxItem,
    LoadedIndex,
    Meant,
    Memory,
    Note,
    Outcome,
    Parted,
    Proposal,
    Verdict,
    Writer,
)
from lamina.memory import drafts, index
from lamina.memory.gate import GateContext, decide
from lamina.memory.index import load_index
from lamina.memory.known_memories import search
from lamina.memory.naming import free_names
from lamina.memory.topics import read_topic
from lamina.ports import Stamp
from lamina.secrets import Rules
from lamina.text.wording import content_stems


@dataclasses.dataclass
class Shelf:
    """What all stores that were opened on it share."""

    files: dict[str, tuple[bytes, float]] = dataclasses.field(default_factory=dict)
    forgotten: list[frozenset[str]] = dataclasses.field(default_factory=list)
    pins: set[str] = dataclasses.field(default_factory=set)
    waiting: dict[str, InboxItem] = dataclasses.field(default_factory=dict)
    ids: itertools.count[int] = dataclasses.field(default_factory=lambda: itertools.count(1))


class InMemoryStore:
    in_files = False
    history = None
    secret_rules: Rules | None = None
    max_bytes = 250_000

    def __init__(
        self, state: Path, shelf: Shelf | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self.directory = Path("memory-in-a-dict")
        self.state = state
        self.shelf = shelf or Shelf()
        self._now = now

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        pass

    # ---- reading

    def _all(self) -> builtins.list[Memory]:
        found = [self.read(path) for path in self.shelf.files if not index.is_index(path)]
        return sorted(found, key=lambda one: -one.mtime)

    def list(self) -> Sequence[Memory]:
        return [dataclasses.replace(one, body="") for one in self._all()]

    def newest(self, count: int) -> Sequence[Memory]:
        return self.list()[:count]

    def read_only(self) -> Sequence[str]:
        return ()

    def unreadable(self) -> Sequence[str]:
        return ()

    def aside(self) -> Sequence[str]:
        return ()

    def stamps(self) -> Mapping[str, Stamp]:
        return {one.path: (int(one.mtime * 1e9), one.size, 0) for one in self._all()}

    def read(self, path: str) -> Memory:
        content = self.read_bytes(path)
        memory = read_topic(path, content, mtime=self.mtime(path))
        return dataclasses.replace(memory, size=hash(content))

    def read_bytes(self, path: str) -> bytes:
        content = self.content(path)
        if content is None:
            raise MemoryStoreError(f"There is no memory {path}.")
        return content

    def content(self, path: str, limit: int = -1) -> bytes | None:
        found = self.shelf.files.get(path)
        return None if found is None else found[0][: limit if limit >= 0 else None]

    def mtime(self, path: str) -> float:
        return self.shelf.files.get(path, (b"", 0.0))[1]

    def index(self, folder: str = "") -> LoadedIndex:
        return load_index(self.content(index.index_of(f"{folder}/x" if folder else "x")) or b"")

    def search(self, query: str, limit: int = 10) -> Sequence[Hit]:
        return search(self._all(), query, limit)

    # ---- writing

    def write(
        self,
        proposal: Proposal,
        *,
        base: Memory | None = None,
        replace: bool = False,
        pointer: bool = True,
    ) -> Outcome:
        verdict = self._let_in(proposal)
        current = self.content(proposal.path)
        after = drafts.written(proposal, current, base, replace=replace)
        return self._put(proposal, after, verdict, base, pointer=pointer)

    def remember(
        self,
        proposal: Proposal,
        *,
        base: Memory | None = None,
        replace: bool = False,
        pointer: bool = True,
    ) -> Outcome:
        if base is not None or replace:
            return self.write(proposal, base=base, replace=replace, pointer=pointer)
        for path in free_names(proposal.path, proposal.body):
            try:
                return self.write(dataclasses.replace(proposal, path=path), pointer=pointer)
            except SaidAlready as said:
                return Outcome(said.path, "accept", changed=False)
            except Conflict:
                continue
        raise NameTaken(f"{proposal.path} is another memory already.")

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
        if self.content(path) not in (base, content):
            raise Conflict(f"{path} was changed by somebody else. Read it again.")
        proposal = dataclasses.replace(
            drafts.proposal_of(read_topic(path, content), writer, session),
            allow_secret=allow_secret,
        )
        verdict = Verdict("accept", "") if index.is_index(path) else self._let_in(proposal)
        return self._put(proposal, content, verdict, None, pointer=pointer)

    def _let_in(self, proposal: Proposal) -> Verdict:
        verdict = self.judge(proposal, None, None)
        stems = content_stems(f"{proposal.description}\n{proposal.body}")
        if proposal.writer != "user" and any(stems <= gone for gone in self.shelf.forgotten):
            raise GateRefused(f"{proposal.path} says what was forgotten.")
        return verdict

    def _put(
        self,
        proposal: Proposal,
        after: bytes,
        verdict: Verdict,
        base: Memory | None,
        *,
        pointer: bool,
    ) -> Outcome:
        path = proposal.path
        changed = self.content(path) != after
        if changed:
            self.shelf.files[path] = (after, self._now())
        if pointer and not index.is_index(path):
            self._rework(index.adding(proposal, "", base), path)
        return drafts.outcome_of(path, verdict, changed=changed)

    def _rework(self, rework: index.Rework, *paths: str) -> None:
        for name in dict.fromkeys(map(index.index_of, paths)):
            after = rework(name, self.content(name))
            if after is not None and after != self.content(name):
                self.shelf.files[name] = (after, self._now())

    def rename(self, old: str, new: str, *, writer: Writer = "user") -> Outcome:
        memory, found = self.read(old), self.shelf.files[old]
        if new in self.shelf.files:
            raise Conflict(f"{new} exists already. Choose another name.")
        renamed = drafts.proposal_of(dataclasses.replace(memory, path=new), writer, "")
        others = [one for one in self._all() if one.path != old]
        verdict = _demanded(decide(renamed, GateContext(memories=others)))
        self.shelf.files[new] = found
        del self.shelf.files[old]
        self._rework(index.renaming(old, new, memory), old, new)
        return drafts.outcome_of(new, verdict)

    def apply(self, changes: Sequence[Change], note: Note, *, first: Callable[[], object]) -> bool:
        first()
        if any(self.content(change.path) != change.before for change in changes):
            raise Conflict("Memory was changed by somebody else.")
        for change in changes:
            self.shelf.files.pop(change.path, None)
            if change.after is not None:
                self.shelf.files[change.path] = (change.after, note.when or self._now())
        return bool(changes)

    def pinned(self) -> set[str]:
        return set(self.shelf.pins)

    def pin(self, path: str, *, on: bool = True) -> None:
        self.read_bytes(path)
        (self.shelf.pins.add if on else self.shelf.pins.discard)(path)

    # ---- forgetting

    def forget(
        self,
        path: str,
        *,
        writer: Writer = "user",
        tombstone: bool = True,
        purge_history: bool = False,
        reason: str = "",
    ) -> None:
        memory = self.read(path)
        if writer != "user" and path in self.shelf.pins:
            raise GateRefused(f"{path} is pinned.")
        del self.shelf.files[path]
        self._rework(index.removing(path), path)
        if tombstone:
            self.shelf.forgotten.append(content_stems(f"{memory.description}\n{memory.body}"))

    def meant(self, wish: str) -> Meant:
        named = [one for one in self._all() if wish in (one.path, one.name)]
        if named:
            return Meant("certain", tuple(named[:1]))
        near = tuple(hit.memory for hit in self.search(wish))
        return Meant("near", near) if near else Meant("none")

    def forget_meant(
        self,
        memory: Memory,
        *,
        part: Parted | None = None,
        writer: Writer,
        session: str = "",
        reason: str = "",
        evidence: Sequence[Evidence] = (),
        asked: bool = True,
    ) -> Forgotten:
        self.forget(memory.path, writer=writer, tombstone=asked, reason=reason)
        return Forgotten("certain", f"Forgotten: {memory.path}.", memory.path)

    def keep_away(self, claim: str, near: Sequence[Memory] = ()) -> bool:
        if near:
            return False
        self.shelf.forgotten.append(content_stems(claim))
        return True

    def would_lose(self, memory: Memory) -> bool:
        return True

    def by_hand(self, path: str) -> bool:
        return False

    # ---- the gate

    def judge(self, proposal: Proposal, current: bytes | None, exact: bytes | None) -> Verdict:
        return _demanded(self.judge_among(proposal, self._all(), ""))

    def doubt(self, proposal: Proposal, files: Iterable[tuple[str, str]] = ()) -> str:
        return ""

    def judge_among(self, proposal: Proposal, memories: Sequence[Memory], vouched: str) -> Verdict:
        trusted = dataclasses.replace(proposal, writer="user")
        return decide(trusted, GateContext(memories=memories, pinned=self.pinned()))

    # ---- what waits for a person

    def waiting(self) -> Sequence[InboxItem]:
        return [*self.shelf.waiting.values()]

    def waiting_item(self, beginning: str) -> InboxItem:
        found = [one for one in self.waiting() if beginning and one.id.startswith(beginning)]
        if len(found) != 1:
            raise UsageError(f"No one item begins with {beginning!r}.")
        return found[0]

    def hold(self, proposal: Proposal, verdict: Verdict, content: bytes) -> InboxItem:
        if len(self.shelf.waiting) >= 200:
            raise InboxFull("The inbox is full.")
        item = InboxItem(
            id=f"{next(self.shelf.ids):04x}",
            when=self._now(),
            proposal=proposal,
            reason=verdict.reason,
            exact=content,
        )
        self.shelf.waiting[item.id] = item
        return item

    def proposed_content(self, item: InboxItem) -> bytes:
        return item.exact or b""

    def inbox_diff(self, item: InboxItem) -> str:
        return self.proposed_content(item).decode("utf-8", "replace")

    def accept(
        self, item_id: str, *, edited: bytes | None = None, allow_secret: bool = False
    ) -> Outcome:
        item = self.waiting_item(item_id)
        path = item.proposal.path
        content = edited if edited is not None else self.proposed_content(item)
        outcome = self.write_file(
            path,
            content,
            writer="user",
            base=self.content(path),
            pointer=True,
            allow_secret=allow_secret,
        )
        del self.shelf.waiting[item.id]
        return outcome

    def reject(self, item_id: str, *, for_good: bool = True) -> InboxItem:
        item = self.waiting_item(item_id)
        del self.shelf.waiting[item.id]
        if for_good:
            self.shelf.forgotten.append(content_stems(item.proposal.body))
        return item

    # ---- nothing comes but through the store

    def catch_up(self) -> Sequence[str]:
        return ()

    def note_outside(self) -> None:
        pass

    def changed_outside(self) -> bool:
        return False

    def attribute(
        self,
        *,
        writer: Writer,
        session: str,
        evidence: Sequence[Evidence],
        takes_back: Callable[[Change], Sequence[Evidence]],
        reason: str,
    ) -> Sequence[Outcome | GateRefused]:
        return ()

    def newest_change(self, path: str = "") -> str:
        return ""


def _demanded(verdict: Verdict) -> Verdict:
    if verdict.decision == "refuse":
        raise GateRefused(verdict.reason)
    return verdict
