"""Looks for memories beside the turn: ranked at once where that takes no time, else in a thread; then
picked, by a small model where there is one. The result is taken once, or cancelled with the turn.

Reads memories through the shelf. Knows nothing of sessions: what was shown already, the tools in use
and the room that is left come in with the wish.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from lamina.errors import MemoryStoreError
from lamina.memories import Memory
from lamina.memory.index import INDEX, pointers_of
from lamina.memory.origins import typed_parts
from lamina.memory.topics import HEAD_BYTES, read_topic
from lamina.recall.attach import Limits
from lamina.recall.select import Candidate, Selection, Selector, at_once, by_rank
from lamina.recall.shelf import Shelf
from lamina.recall.words import terms

CANDIDATES = 20  # for a model to pick from …
FEW = 10  # … and where the ranker picks itself
_LARGEST_INDEX = 200_000
_SOURCE = re.compile(r"\(source: ([^()]*)\)\s*$")


def question_in(typed: str) -> str:
    """What a typed message asks memory for: the user's own words, if they are more than one."""
    words = "\n".join(typed_parts([("typed", typed)])).strip()
    # Scripts without spaces are one "word" to split(); their terms count instead.
    return words if len(words.split()) > 1 or len(set(terms(words))) > 1 else ""


@dataclass(frozen=True, slots=True)
class Wish:
    """One message of the user, and what is to be known about the moment."""

    entry: str  # its id in the record
    question: str
    now: float
    tools: Collection[str] = ()  # in use
    exclude: Collection[str] = ()  # memories that were shown or read already
    vouched: Collection[str] = ()  # what a model picked for the message before, too late for it


@dataclass(slots=True)
class Prefetch:
    """One search, from the user's message to the moment when it is taken or dropped."""

    shelf: Shelf
    wish: Wish
    limits: Limits
    selector: Selector | None = None
    candidates: Sequence[Candidate] = ()
    selection: Selection | None = None
    memories: Sequence[tuple[Memory, str]] = ()  # picked and read, with whose word they are
    early: Selection | None = None  # what need not wait for the selector …
    early_memories: Sequence[tuple[Memory, str]] = ()  # … read
    shown: int = 0  # memories that this message was shown already
    ended: anyio.Event = field(default_factory=anyio.Event)
    _ranked: bool = False
    _taken: bool = False
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def begin(self) -> bool:
        """Rank at once, if that takes no time; True if nothing is left to do beside the turn."""
        if not self.shelf.quick:
            return False
        self._rank()
        if self.candidates and self.selector is not None:
            self._early(self.selector)
            return False
        self._finish(by_rank(self.candidates, self.limits.files, "there is no small model"))
        self.ended.set()
        return True

    async def work(self) -> None:
        """The rest, beside the turn. Whoever waits for it is told even if it fails."""
        try:
            with self._scope:
                if not self._ranked:
                    await anyio.to_thread.run_sync(self._rank, abandon_on_cancel=True)
                    if self.candidates and self.selector is not None:
                        self._early(self.selector)
                self._finish(await self._pick())
        finally:
            self.ended.set()

    async def _pick(self) -> Selection:
        wish = self.wish
        if not self.candidates or self.selector is None:
            return by_rank(self.candidates, self.limits.files, "there is no small model")
        return await self.selector.pick(
            wish.question,
            self.candidates,
            most=self.limits.files,
            now=wish.now,
            tools=wish.tools,
        )

    def take(self) -> bool:
        """True once: when the result is there and nobody has taken it yet."""
        if self.selection is None or self._taken:
            return False
        self._taken = True
        return True

    def take_early(self) -> Selection | None:
        """What need not wait for the selector: once, and only while its choice is not there."""
        early, self.early = self.early, None
        return early if self.selection is None and not self._taken else None

    @property
    def waiting(self) -> bool:
        return not self._taken

    def cancel(self) -> None:
        self._taken = True
        self._scope.cancel()

    def _rank(self) -> None:
        wish = self.wish
        described = self.selector is not None
        most = CANDIDATES if described else max(FEW, self.limits.files)
        hits = self.shelf.search(
            wish.question, most, now=wish.now, tools=wish.tools, exclude=wish.exclude
        )
        self.candidates = [
            self._described(Candidate(hit)) if described else Candidate(hit) for hit in hits
        ]
        self._ranked = True

    def _described(self, one: Candidate) -> Candidate:
        """What the selector needs to know of it: the head of the file."""
        files = self.shelf.store.files
        with suppress(MemoryStoreError):
            head, stat = files.read(one.path, HEAD_BYTES), files.stat(one.path)
            if head is not None and stat is not None:
                memory = read_topic(one.path, head)
                about = memory.description or memory.name
                return Candidate(one.hit, memory.type or "", about, stat.st_mtime)
        return one

    def _early(self, selector: Selector) -> None:
        early = at_once(self.candidates, self.wish.vouched, self.limits.files, selector.model)
        if early.paths:
            self.early_memories = self._read(early)
            self.early = early

    def _finish(self, selection: Selection) -> None:
        self.memories = self._read(selection)
        self.selection = selection

    def _read(self, selection: Selection) -> list[tuple[Memory, str]]:
        """What was picked; a memory that went meanwhile is left out."""
        sources = self._sources() if selection.paths else {}
        memories: list[tuple[Memory, str]] = []
        for path in selection.paths:
            with suppress(MemoryStoreError):
                memories.append((self.shelf.store.read(path), sources.get(path, "")))
        return memories

    def _sources(self) -> dict[str, str]:
        """Whose word a memory is where it is not the user's own: the index line says so."""
        found: dict[str, str] = {}
        for folder in ("", "team/"):
            with suppress(MemoryStoreError):
                content = self.shelf.store.files.read(folder + INDEX, _LARGEST_INDEX) or b""
                for pointer in pointers_of(content):
                    if label := _SOURCE.search(pointer.hook):
                        found[folder + pointer.file] = label[1]
        return found


@dataclass(frozen=True, slots=True)
class Given:
    """What an answer was shown: the recall's entry, the message, the question, the memories."""

    recall: str
    attached: str
    question: str
    memories: Sequence[Memory]


@dataclass(slots=True)
class Recalls:
    """One session's recall: the shelf, its limits, and what is going on."""

    shelf: Shelf
    limits: Limits
    asked: set[str] = field(default_factory=set[str])  # messages that were looked at
    underway: list[Prefetch] = field(default_factory=list[Prefetch])
    given: list[Given] = field(default_factory=list[Given])  # in this turn
    vouched: frozenset[str] = frozenset()  # picked in the turn before, too late for it
