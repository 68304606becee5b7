"""Looks for memories beside the turn: ranked at once where that takes no time, else in a thread,
then picked, by a small model where there is one, and attached as reminders. Knows nothing of
sessions: what was shown already, the tools in use and the room that is left come in. Reads memories
by their index.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.to_thread

from lamina import prompts
from lamina.errors import LaminaError, MemoryStoreError
from lamina.memories import Memory
from lamina.memory import HEAD_BYTES, age_words, heading, read_topic
from lamina.messages import Block, Json, Request, Response, text
from lamina.recall import CONFIDENT, SURE, Match
from lamina.recall.memory_index import MEANING_SECONDS, NOT_THEIRS, MemoryIndex, sources, whole
from lamina.text.origins import typed_parts
from lamina.text.terms import terms
from lamina.text.wording import sentences

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.ports import MemoryStore


# Sends one request to the small model and books it; raises LaminaError if that can't be.
Ask = Callable[[Request], Awaitable[Response]]

_SCHEMA: Json = {
    "type": "object",
    "properties": {"selected": {"type": "array", "items": {"type": "string"}}},
    "required": ["selected"],
    "additionalProperties": False,
}
LONGEST_QUESTION = 2_000
_ASKS = ("?", "？")
_MOST_QUESTIONS = 3  # of one message, each looked for by itself
_LONGEST_LINE = 300
_LONGEST_WORD = 500  # of the selector's answer, in the record


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """One message of the user, and what is to be known about the moment."""

    entry: str  # its id in the record
    question: str
    now: float
    tools: Collection[str] = ()  # in use
    exclude: Collection[str] = ()  # memories that were shown or read already
    vouched: Collection[str] = ()  # what a model picked for the message before, too late for it


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that the ranker offers, with what the selector is told of it."""

    match: Match
    type: str = ""
    description: str = ""
    saved: float = 0.0

    @property
    def path(self) -> str:
        return self.match.id


@dataclass(frozen=True, slots=True)
class Selection:
    """What was picked, by whom, and in which words."""

    paths: Sequence[str]
    by: str  # the model's name, or "ranker"
    said: str = ""  # the model's answer as it came, shortened
    why: str = ""  # why the ranker chose


@dataclass(frozen=True, slots=True)
class SmallModel:
    """A small model that is asked one thing and names what it chooses, in time or not at all."""

    ask: Ask
    model: str
    max_tokens: int = 256
    seconds: float = 10.0

    def to_choose(self, prompt: str, words: str) -> Request:
        return Request(
            system=[text(prompt)],
            tools=[],
            messages=[{"role": "user", "content": [text(words)]}],
            model=self.model,
            max_tokens=self.max_tokens,
            params=schema_params(self.model),
            purpose="recall",
        )

    async def answer(self, request: Request) -> Response | str:
        """Its answer, or why there is none."""
        with anyio.move_on_after(self.seconds):
            try:
                return await self.ask(request)
            except LaminaError as error:
                return f"{self.model} could not be asked: {error}"
        return f"{self.model} took over {self.seconds:g} s"


class Selector(SmallModel):
    """It picks memories."""

    async def pick(
        self, asked: RecallRequest, candidates: Sequence[Candidate], most: int
    ) -> Selection:
        """Up to `most` of the candidates; the ranker's choice if the model is of no help."""
        response = await self.answer(self._request(asked, candidates, most))
        if isinstance(response, str):
            return by_rank(candidates, most, response)
        return _read_choice(response, candidates, most, self.model)

    def _request(self, asked: RecallRequest, candidates: Sequence[Candidate], most: int) -> Request:
        from lamina.recall.scoring import (
            fitting_part,
        )  # it loads numpy; who only attaches needs none

        words = [f"The message:\n{asked.question[:LONGEST_QUESTION]}"]
        words += [f"\nTools in use: {', '.join(sorted(asked.tools))}"] if asked.tools else []
        words.append("\nThe memories:")
        for one in candidates:
            kind = f"[{one.type}] " if one.type else ""
            about = fitting_part(one.description, asked.question, _LONGEST_LINE)
            words.append(f"- {kind}{one.path} (saved {age_words(one.saved, asked.now)}): {about}")
        return self.to_choose(prompts.load("recall", most=str(most)), "\n".join(words))


def by_rank(candidates: Sequence[Candidate], most: int, why: str) -> Selection:
    """What the ranker is sure of; for an unrelated question that is nothing."""
    sure = [one.path for one in candidates if one.match.confidence >= CONFIDENT]
    return Selection(tuple(sure[:most]), "ranker", why=why)


def at_once(
    candidates: Sequence[Candidate], vouched: Collection[str], most: int, model: str
) -> Selection:
    """What a call should not miss while the model is still thinking: the best candidate where the
    ranker is sure of it, and those that fit again after the model picked them too late."""
    best = [one.path for one in candidates[:1] if one.match.confidence >= SURE]
    again = [
        one.path
        for one in candidates
        if one.path in vouched and one.match.confidence >= CONFIDENT and one.path not in best
    ]
    return Selection((*best, *again)[:most], "ranker", why=f"{model} had not answered yet")


def _read_choice(
    response: Response, candidates: Sequence[Candidate], most: int, model: str
) -> Selection:
    said = response.text.strip()
    names, offered = _names(said), {one.path for one in candidates}
    known = [name for name in dict.fromkeys(names or ()) if name in offered]
    if response.stop_reason == "refusal":
        problem = "refused"
    elif names is None:
        problem = "gave no list of names"
    elif known or not names:
        return Selection(tuple(known[:most]), model, said[:_LONGEST_WORD])
    else:
        problem = "named what was not offered"
    return replace(by_rank(candidates, most, f"{model} {problem}"), said=said[:_LONGEST_WORD])


def _names(said: str) -> list[str] | None:
    try:
        value: Any = json.loads(said)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        value = cast("Json", value).get("selected")
    if not isinstance(value, list):
        return None
    items = cast("list[Any]", value)
    return cast("list[str]", items) if all(isinstance(item, str) for item in items) else None


def schema_params(model: str, schema: Json = _SCHEMA, name: str = "memories") -> Json:
    """How the provider is told to answer by a schema."""
    if model.startswith("anthropic:"):
        return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    named = {"name": name, "schema": schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


RANKED = 20  # that stand first in what a model picks from …
OFFERED = 200  # … which is the whole manifest, or its newest files
FEW = 10  # where the ranker picks itself
_NO_MODEL = "there is no small model"


def question_in(typed: str) -> str:
    """What a typed message asks memory for: the user's own words, if they are more than one."""
    words = "\n".join(typed_parts([("typed", typed)])).strip()
    # Scripts without spaces are one "word" to split(); their terms count instead.
    return words if len(words.split()) > 1 or len(set(terms(words))) > 1 else ""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be shown; the defaults are those of the settings."""

    files: int = 5
    lines: int = 200
    bytes: int = 4_096
    session_bytes: int = 60_000
    stale_days: float = 1.0

    @classmethod
    def of(cls, config: Config) -> Limits:
        return cls(
            config.int("recall.max_files"),
            config.int("recall.max_lines"),
            config.int("recall.max_bytes"),
            config.int("recall.session_bytes"),
            config.float("recall.stale_days"),
        )


@dataclass(slots=True)
class Prefetch:
    """One search, from the user's message to the moment when it is taken or dropped."""

    index: MemoryIndex
    request: RecallRequest
    limits: Limits
    selector: Selector | None = None
    candidates: Sequence[Candidate] = ()
    in_view: Sequence[str] = ()  # what would have been picked, and is shown already
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
        if not self.index.quick:
            return False
        self._rank()
        if self.candidates and self.selector is not None:
            return False
        self._finish(by_rank(self.candidates, self.limits.files, _NO_MODEL))
        self.ended.set()
        return True

    async def work(self) -> None:
        """The rest, beside the turn. Whoever waits for it is told even if it fails."""
        try:
            with self._scope:
                if not self._ranked:
                    await anyio.to_thread.run_sync(self._rank, abandon_on_cancel=True)
                candidates, most = self.candidates, self.limits.files
                if candidates and self.selector is not None:
                    self._finish(await self.selector.pick(self.request, candidates, most))
                else:
                    self._finish(by_rank(candidates, most, _NO_MODEL))
        finally:
            self.ended.set()

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

    def cancel(self) -> None:
        self._taken = True
        self._scope.cancel()

    def _rank(self) -> None:
        asked, selector = self.request, self.selector
        most = RANKED if selector else max(FEW, self.limits.files)
        every = _found(self.index, asked, most + len(asked.exclude))
        fits = [one.id for one in every if one.confidence >= CONFIDENT]
        self.in_view = [path for path in fits if path in asked.exclude]
        ranked = [Candidate(one) for one in every if one.id not in asked.exclude][:most]
        self.candidates = self._manifest(ranked) if selector else ranked
        if self.candidates and selector:
            early = at_once(self.candidates, asked.vouched, self.limits.files, selector.model)
            if early.paths:
                self.early_memories = _read(self.index.store, early)
                self.early = early
        self._ranked = True

    def _manifest(self, ranked: Sequence[Candidate]) -> list[Candidate]:
        """Everything that the selector may choose from: a memory that shares no word with the
        question may still be what it is about."""
        known = {*self.request.exclude, *self.index.quoted, *(one.path for one in ranked)}
        newest: Sequence[Memory] = ()
        with suppress(MemoryStoreError):
            newest = self.index.store.newest(OFFERED + len(known))
        rest = [
            Candidate(
                Match(one.path, 0.0, {}, 0.0),
                one.type or "",
                one.description or one.name,
                one.mtime,
            )
            for one in newest
            if one.path not in known
        ]
        return [*map(self._described, ranked), *rest][:OFFERED]

    def _described(self, one: Candidate) -> Candidate:
        """What the selector needs to know of it: the head of the file."""
        store = self.index.store
        with suppress(MemoryStoreError):
            head = store.content(one.path, HEAD_BYTES)
            if head is not None:
                memory = read_topic(one.path, head)
                about = memory.description or memory.name
                return Candidate(one.match, memory.type or "", about, store.mtime(one.path))
        return one

    def _finish(self, selection: Selection) -> None:
        self.memories = _read(self.index.store, selection)
        self.selection = selection


def recall_now(
    index: MemoryIndex, asked: RecallRequest, limits: Limits
) -> list[tuple[Memory, str]]:
    """The ranker's choice, however long that takes: for a caller that has no turn."""
    most = max(FEW, limits.files)
    matches = _found(index, asked, most, exclude=asked.exclude, seconds=MEANING_SECONDS)
    return _read(index.store, by_rank([*map(Candidate, matches)], limits.files, _NO_MODEL))


def _found(index: MemoryIndex, asked: RecallRequest, most: int, **more: Any) -> list[Match]:
    """What fits the whole message, then what fits a question in it: other sentences beside a question
    share their words with no memory that answers it, and so make it look less sure."""
    found: dict[str, Match] = {}
    for number, words in enumerate((asked.question, *_questions(asked.question))):
        more["look"] = not number  # the directory is gone through once
        for one in index.search(
            words, most, now=asked.now, tools=asked.tools, unasked=True, **more
        ):
            known = found.get(one.id, one)
            found[one.id] = one if one.confidence > known.confidence else known
    return list(found.values())


def _questions(message: str) -> list[str]:
    """The sentences of a longer message that ask something."""
    if not any(mark in message for mark in _ASKS):
        return []
    every = sentences(message[:LONGEST_QUESTION])
    asked = [one for one in every if one.endswith(_ASKS) and question_in(one)]
    return asked[:_MOST_QUESTIONS] if len(every) > 1 else []


def _read(store: MemoryStore, selection: Selection) -> list[tuple[Memory, str]]:
    """What was picked, each with whose word it is; a memory that went meanwhile, or became a quotation,
    is left out."""
    known = sources(store) if selection.paths else {}
    memories: list[tuple[Memory, str]] = []
    for path in selection.paths:
        with suppress(MemoryStoreError):
            memories.append((store.read(path), known.get(path, "")))
    return [one for one in memories if not one[0].quoted]


@dataclass(frozen=True, slots=True)
class ShownMemories:
    """What an answer was shown: the recall's entry, the message, the question, the memories."""

    recall: str
    attached: str
    question: str
    memories: Sequence[Memory]


@dataclass(slots=True)
class Recalls:
    """One session's recall: the index, its limits, and what is going on."""

    index: MemoryIndex
    limits: Limits
    asked: set[str] = field(default_factory=set[str])  # messages that were looked at
    underway: list[Prefetch] = field(default_factory=list[Prefetch])
    given: list[ShownMemories] = field(default_factory=list[ShownMemories])  # in this turn
    vouched: frozenset[str] = frozenset()  # picked in the turn before, too late for it


# ---- as the model sees them


@dataclass(frozen=True, slots=True)
class Attachment:
    """One memory in the view."""

    path: str
    block: Block
    bytes: int
    cut: bool

    def to_json(self) -> Json:
        return {"path": self.path, "bytes": self.bytes, "cut": self.cut}


def attachments(
    memories: Sequence[tuple[Memory, str]],
    *,
    directory: str,
    now: float,
    limits: Limits,
    room: int,
) -> list[Attachment]:
    """Each memory (with whose word it is, "" for the user's) as a reminder; what exceeds the room
    that the session has left stays out."""
    shown: list[Attachment] = []
    for memory, source in memories[: limits.files]:
        one = reminder(memory, source, directory=directory, now=now, limits=limits)
        if one.bytes <= room:
            shown.append(one)
            room -= one.bytes
    return shown


def reminder(
    memory: Memory, source: str, *, directory: str, now: float, limits: Limits
) -> Attachment:
    """One memory as a `<system-reminder>`, with its age: the same bytes for the same moment. It
    says what the body says, and the description where the body does not repeat it."""
    path = f"{directory}/{memory.path}"
    words, cut = cut_to(whole(memory) or "(This memory has no text.)", limits.lines, limits.bytes)
    parts = [heading(path, memory.mtime, now, limits.stale_days)]
    if source:
        parts.append(NOT_THEIRS.format(source))
    parts += ["", words.replace("</system-reminder", "&lt;/system-reminder")]
    if cut:
        parts += ["", f"[Cut here. Use Read on {path} to see the whole memory.]"]
    block = text("\n".join(["<system-reminder>", *parts, "</system-reminder>"]))
    return Attachment(memory.path, block, len(block["text"].encode("utf-8", "replace")), cut)


def cut_to(words: str, lines: int, most: int) -> tuple[str, bool]:
    """The first lines within both limits, and whether something was cut off. One line that is too
    long by itself is cut within, never inside a character."""
    kept = words.split("\n")
    few = "\n".join(kept[:lines])
    encoded = few.encode("utf-8", "replace")
    if len(encoded) <= most:
        return few, len(kept) > lines
    piece = encoded[:most].decode("utf-8", "ignore")
    end = piece.rfind("\n")
    return (piece[:end] if end > len(piece) // 2 else piece), True
