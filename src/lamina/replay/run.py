"""Puts a recording through a policy: each recorded request in order and time, what the policy would
have sent instead, what a cache would have done with it, and what it all would have cost. A
conversation's prompt is kept up to date from request to request: only what differs is changed.
Touches nothing itself; a policy may touch what it likes.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Protocol, runtime_checkable

from lamina.cache.account import CALL as CALL_TOKENS
from lamina.cache.simulate import FIVE_MINUTES, PaperBlock, PaperCache, rules_for
from lamina.cache.spend import Price, cost, price_of
from lamina.ledger import joining
from lamina.messages import Message, Usage
from lamina.replay.recording import RecordedRequest, Recording, RequestStep
from lamina.replay.rereads import Rereads
from lamina.replay.results import Action, Fork, OwnCall, PolicyResult, RequestFigures, Reread
from lamina.replay.weigh import Losses, Piece, Weigher

DEFAULT_WINDOW = 200_000
DEFAULT_MODEL = "claude-sonnet-4-6"  # for recordings that name none


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """What a policy is told before each request."""

    number: int
    request: RecordedRequest  # its time, thread and model; its usage is what the recorder paid
    keep: int  # so many of the thread's messages stay; fewer than it had: it went back
    new: Sequence[Message]  # what follows them; the last answer comes first
    compacted: bool  # the recorder itself started again from a summary
    fetched: int = 0  # tokens of re-reads that stand in the prompt besides the policy's messages

    def held_in(self, threads: dict[str, list[Message]]) -> list[Message]:
        """The thread's messages, brought up to this request."""
        held = threads.setdefault(self.request.thread, [])
        held[self.keep :] = self.new
        return held


@dataclass(frozen=True, slots=True)
class Sent:
    """What a policy sends. Messages that stay as they were should be the same objects."""

    messages: Sequence[Message]
    actions: Sequence[Action] = ()
    calls: Sequence[OwnCall] = ()  # of its own, charged to it
    forks: Sequence[Fork] = ()  # side tasks since the last request, charged to it
    same: int = -1  # so many at the beginning are the thread's last ones; -1: not known
    life: float = 0.0  # seconds for which the cache is written; 0: as in the recording
    frame_life: float = 0.0  # and system prompt and tools, where that is longer


class ContextPolicy(Protocol):
    """One way to keep a context. A policy is made afresh for each recording; it may append what it
    is told to a ledger of its own and send that ledger's view."""

    @property
    def name(self) -> str: ...

    def send(self, turn: RecordedTurn) -> Sent: ...


@runtime_checkable
class EndingPolicy(Protocol):
    """A policy that has something to do when the recording is over."""

    def end(self) -> Mapping[str, Sequence[Fork]]:
        """By conversation, the side tasks on leaving it."""
        ...


class NonePolicy:
    """Sends all that was recorded."""

    name = "none"

    def __init__(self) -> None:
        self._held: dict[str, list[Message]] = {}

    def send(self, turn: RecordedTurn) -> Sent:
        held = turn.held_in(self._held)
        told = [Action("recorder", "compacted by the recorder itself")] if turn.compacted else []
        return Sent(held, told, same=turn.keep)


@contextmanager
def _few_collections() -> Generator[None]:
    """Nearly all that is made in a replay is held to its end: to look through it for garbage again
    and again took a fifth of the time of a long one."""
    first, *others = gc.get_threshold()
    gc.set_threshold(100 * first, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)


@_few_collections()
def replay(
    recording: Recording,
    policy: ContextPolicy,
    *,
    window: int = DEFAULT_WINDOW,
    model: str = "",
    weigher: Weigher | None = None,
    prices: Mapping[str, Mapping[str, Any]] | None = None,
) -> PolicyResult:
    """`model` overrides the recorded ones, `prices` the price table."""
    books = _Books(model, prices or {})
    weigher = weigher or Weigher(recording)
    threads: dict[str, _ReplayedThread] = {}
    figures: list[RequestFigures] = []
    for step in recording.steps():
        thread = threads.setdefault(step.request.thread, _ReplayedThread(recording, weigher, books))
        turn = thread.hold(step)
        figures.append(thread.book(step, policy.send(turn)))
    last = {request.thread: number for number, request in enumerate(figures)}
    for name, forks in policy.end().items() if isinstance(policy, EndingPolicy) else ():
        figures[last[name]] = threads[name].leave(figures[last[name]], forks)
    return PolicyResult(policy.name, window, figures, books.names(), books.guessed)


class _Books:
    """What the threads of one replay share: prices, and one cache a model."""

    def __init__(self, model: str, overrides: Mapping[str, Mapping[str, Any]]) -> None:
        self.guessed = False
        self._model, self._overrides = model, overrides
        self._prices: dict[str, Price] = {}
        self._caches: dict[str, PaperCache] = {}

    def price(self, model: str) -> Price:
        if model not in self._prices:
            self._prices[model] = price_of(model, self._overrides)
            self.guessed = self.guessed or self._prices[model].guessed
        return self._prices[model]

    def price_for(self, request: RecordedRequest) -> Price:
        named = self._model or request.model
        self.guessed = self.guessed or not named
        return self.price(named or DEFAULT_MODEL)

    def names(self) -> list[str]:
        return list(dict.fromkeys(price.model for price in self._prices.values()))

    def cache_for(self, request: RecordedRequest) -> PaperCache:
        price = self.price_for(request)
        if price.model not in self._caches:
            self._caches[price.model] = PaperCache(rules_for(price))
        return self._caches[price.model]


class _ReplayedThread:
    """One conversation under a policy: what it holds, and what of that is sent."""

    def __init__(self, recording: Recording, weigher: Weigher, books: _Books) -> None:
        self._recording, self._weigher, self._books = recording, weigher, books
        self._said: list[Message] = []
        self._held: list[list[PaperBlock]] = []  # the same, weighed
        self._losses: Losses = ()  # with which it was
        self._tokens = 0  # of all that
        self._frame: Sequence[PaperBlock] = ()
        self._prompt = SentPrompt(weigher)
        self._last: RecordedRequest | None = None
        self._rereads = Rereads()
        self._shown: Counter[Hashable] = Counter()
        self._begun = False
        self._life = FIVE_MINUTES  # that the cache was last given
        self._missing = 0  # tokens of the conversation that the last prompt left out
        self._made: set[Hashable] = set()  # the policy's own blocks: previews, summaries

    def hold(self, step: RequestStep) -> RecordedTurn:
        """Take down what the recording gave up and up what it added."""
        for paper in self._held[step.keep :]:
            for key, tokens in paper:
                self._tokens -= tokens
                self._rereads.forget(key)
        del self._held[step.keep :], self._said[step.keep :]
        self._frame = self._weigher.at(step.number)
        if self._losses != self._weigher.losses:
            self._losses = self._weigher.losses
            self._held = [self._weigher.paper(message) for message in self._said]
            self._tokens = sum(tokens for paper in self._held for _, tokens in paper)
        new = [self._recording.messages[index].message for index in step.new]
        for message in new:
            paper = self._weigher.paper(message)
            for block, (key, tokens) in zip(message["content"], paper, strict=False):
                self._rereads.add(key, block, tokens)
            self._tokens += sum(tokens for _, tokens in paper)
            self._held.append(paper)
            self._said.append(message)
        told = (step.number, step.request, step.keep, new, step.compacted)
        return RecordedTurn(*told, self._prompt.fetched)

    def book(self, step: RequestStep, sent: Sent) -> RequestFigures:
        request, books = step.request, self._books
        new = [self._recording.messages[index].message for index in step.new]
        calls = [*sent.calls, *self._side_tasks(sent.forks, new)]
        self._last = request
        self._life = life = sent.life or request.ttl or FIVE_MINUTES
        self._prompt.frame_life = sent.frame_life
        cache, price = books.cache_for(request), books.price_for(request)
        same = sent.same if sent.same >= 0 else self._prompt.same_messages(sent.messages)
        # What a policy wrote itself tells something too: lines quoted in it are not missing.
        for block in (block for message in sent.messages[same:] for block in message["content"]):
            key, _ = self._weigher.block(block)
            if not self._rereads.knows(key):
                self._made.add(key)
                self._rereads.tell(key, block)
        gone, come = self._prompt.update(cache, self._frame, sent.messages, same)
        self._note(gone, come, step)
        actions = self._saved_by(sent.actions)
        first, self._begun = not self._begun, True
        if first and request.usage is not None and request.usage.cache_read:
            self._prompt.warm(request.time, life, request.usage.cache_read)
        answer = self._recording.messages[request.answer].message if request.answer >= 0 else None
        output = self._weigher.tokens(answer) if answer else 0
        if request.usage is not None:
            # Some recorders note the output before it was complete.
            output = max(output, request.usage.output)
        usage = self._prompt.send(request.time, life, output)
        paid = cost(usage, price)
        rereads = self._fetch(answer) if answer else []
        if rereads:
            more = self._prompt.send(request.time, life, CALL_TOKENS)
            usage, paid = usage + more, paid + cost(more, price)
        sent_and_paid = (request.time, self._prompt.tokens, usage, paid)
        figures = RequestFigures(*sent_and_paid, request.thread, actions, rereads)
        return self._charged(figures, calls)

    def leave(self, figures: RequestFigures, forks: Sequence[Fork]) -> RequestFigures:
        """The thread's last request, with what was done after its answer."""
        return self._charged(figures, self._side_tasks(forks))

    def _charged(self, figures: RequestFigures, calls: Sequence[OwnCall]) -> RequestFigures:
        """A request with calls of the policy's own, and what they cost."""
        calls = [replace(c, cost=cost(c.usage, self._books.price(c.model))) for c in calls]
        usage = sum((call.usage for call in calls), figures.usage)
        paid = figures.cost + sum(call.cost for call in calls)
        return replace(figures, usage=usage, cost=paid, calls=(*figures.calls, *calls))

    def _side_tasks(self, forks: Sequence[Fork], new: Sequence[Message] = ()) -> list[OwnCall]:
        """What side tasks cost: each reads the prompt that was sent last, and keeps it warm."""
        last = self._last
        if last is None:  # nothing was sent that they could read
            alone = [fork for fork in forks if fork.model]
            return [call for fork in alone for call in self._apart(fork)]
        answer = self._recording.messages[last.answer].message if last.answer >= 0 else None
        said = self._weigher.paper(answer) if answer else []
        later = [block for message in new for block in self._weigher.paper(message)]
        model = self._books.price_for(last).model
        calls = list[OwnCall]()
        for fork in forks:
            if fork.model:
                calls += self._apart(fork)
                continue
            asked, written = self._sizes(fork)
            at = max(last.time, fork.at)
            added = [*(later if fork.sees_new and later else said), (object(), asked)]
            if fork.keeps:
                used = [self._prompt.keep(at, fork.keeps, said, asked, written[0])]
            else:
                used = self._prompt.aside(at, self._life, added, written)
            calls += [OwnCall(fork.purpose, model, usage.part(fork.share)) for usage in used]
        return calls

    def _sizes(self, fork: Fork) -> tuple[int, list[int]]:
        scales = self._weigher.scales
        asked = scales.tokens(Piece("directive", "text", fork.directive))
        return asked, [scales.tokens(Piece("output", "text", size)) for size in fork.outputs]

    def _apart(self, fork: Fork) -> list[OwnCall]:
        """By another model, which is not shown the conversation."""
        asked, written = self._sizes(fork)
        usages = [Usage(input=asked, output=output) for output in written]
        return [OwnCall(fork.purpose, fork.model, usage.part(fork.share)) for usage in usages]

    def _saved_by(self, actions: Sequence[Action]) -> tuple[Action, ...]:
        """The actions with what they took out as it is weighed here: layers tell their estimates,
        which would not add up with the prompts."""
        whole = sum(tokens for _, tokens in self._frame) + self._tokens + self._prompt.fetched
        before, self._missing = self._missing, whole - self._prompt.tokens
        told = sum(action.tokens_saved for action in actions)
        if not told:
            return tuple(actions)
        share = max(0, self._missing - before) / told
        return tuple(replace(a, tokens_saved=round(a.tokens_saved * share)) for a in actions)

    def _note(self, gone: Sequence[Hashable], come: Sequence[Hashable], step: RequestStep) -> None:
        """Keep account of what the prompt shows, so that the rest is known to be missing."""
        self._shown.subtract(gone)
        self._shown.update(come)
        looked = {*gone, *come, *(key for paper in self._held[step.keep :] for key, _ in paper)}
        for key in looked:
            if self._shown[key] > 0:
                self._rereads.show(key)
                continue
            del self._shown[key]
            if key in self._made:
                self._made.discard(key)
                self._rereads.forget(key)
            else:
                self._rereads.hide(key)

    def _fetch(self, answer: Message) -> list[Reread]:
        """Bring back what the answer leans on: one more call, and its results stay."""
        found = self._rereads.found(answer["content"])
        if found:
            asked = [(("asked again", key), CALL_TOKENS) for key, _ in found[:1]]
            again = [(key, (("again", key), reread.tokens)) for key, reread in found]
            self._prompt.fetch([(block[0], block) for block in asked] + again)
            for key, _ in found:
                self._shown[key] += 1
                self._rereads.show(key)
        return [reread for _, reread in found]


# ---- the prompt that is sent


@dataclass(slots=True)
class _Line:
    """A block as it stands in the prompt."""

    paper: PaperBlock
    fetched: Hashable = None  # for a re-read: the key of the block that it brought back


class SentPrompt:
    def __init__(self, weigher: Weigher) -> None:
        self._weigher = weigher
        self._frame: list[PaperBlock] = []
        self._messages: list[Message] = []
        self._ends: list[int] = []  # for each message, how many lines there are up to its end
        self._lines: list[_Line] = []
        self._cache = PaperCache()
        self._prompt = self._cache.prompt()
        self._marks = joining.Marks()
        self.fetched = 0  # tokens of what was fetched again and still stands there
        self.frame_life = 0.0  # seconds for which the system prompt is marked, where that is longer

    @property
    def tokens(self) -> int:
        return self._prompt.tokens

    def update(
        self,
        cache: PaperCache,
        frame: Sequence[PaperBlock],
        messages: Sequence[Message],
        same: int = -1,
    ) -> tuple[list[Hashable], list[Hashable]]:
        """Make the prompt hold exactly this, of which so many messages are those sent last (-1: not
        known); blocks fetched again stay where they were put. Returns the keys of the blocks that
        left it and of those that came in."""
        same = same if same >= 0 else self.same_messages(messages)
        same = same if self._frame == frame else 0
        new = [self._weigher.paper(message) for message in messages[same:]]
        if self._frame != frame:
            keep = 0
            added = [_Line(paper) for paper in frame]
        else:
            keep = self._ends[same - 1] if same else len(frame)
            added = []
            if new:
                keep, new[0] = self._same_blocks(keep, new[0])
        before = [line.paper[0] for line in self._lines[keep:]]
        gone = [_name(line) for line in self._lines[keep:]]
        self.fetched -= sum(
            line.paper[1] for line in self._lines[keep:] if line.fetched is not None
        )
        del self._lines[keep:], self._ends[same:]
        self._lines.extend(added)
        for paper in new:
            self._lines.extend(_Line(block) for block in paper)
            self._ends.append(len(self._lines))
        self._frame, self._messages[same:] = list(frame), messages[same:]
        if cache is not self._cache:
            self._cache, self._prompt, self._marks = cache, cache.prompt(), joining.Marks()
        drawn = min(keep, len(self._prompt))
        self._prompt.rewind(drawn)
        self._prompt.extend(line.paper for line in self._lines[drawn:])
        now = [line.paper[0] for line in self._lines[keep:]]
        if before:
            self._marks = self._marks.after(keep, keep + joining.settled(before, now))
        return gone, [_name(line) for line in self._lines[keep:]]

    def same_messages(self, messages: Sequence[Message]) -> int:
        """How many messages at the beginning are the ones that were sent last."""
        same = 0
        for old, new in zip(self._messages, messages, strict=False):
            if old is not new and old != new:
                break
            same += 1
        return same

    def _same_blocks(self, keep: int, paper: list[PaperBlock]) -> tuple[int, list[PaperBlock]]:
        """How far the first message that differs is still the same, block by block."""
        used = 0
        for line in self._lines[keep:]:
            if line.fetched is None:
                if used == len(paper) or line.paper != paper[used]:
                    break
                used += 1
            keep += 1
        return keep, paper[used:]

    def fetch(self, blocks: Sequence[tuple[Hashable, PaperBlock]]) -> None:
        """Put content that had been removed at the end, as a call and its result would."""
        for key, paper in blocks:
            self._lines.append(_Line(paper, key))
            self.fetched += paper[1]
            self._prompt.extend([paper])
        if self._ends:
            self._ends[-1] = len(self._lines)

    def warm(self, at: float, ttl: float, read: int) -> None:
        """Let the cache know what the first request read already: the system prompt that others had
        sent, or all of a conversation that began before its file."""
        ends = list(accumulate(line.paper[1] for line in self._lines))
        known = min(range(len(ends)), key=lambda place: abs(ends[place] - read)) + 1
        prompt = self._cache.prompt()
        prompt.extend(line.paper for line in self._lines[:known])
        self._cache.send(prompt, at, [1, known] if known > 1 else [1], ttl=ttl)

    def aside(
        self, at: float, ttl: float, added: Sequence[PaperBlock], written: Sequence[int]
    ) -> list[Usage]:
        """Book the calls of a side task behind what was sent last; the prompt stays as it was."""
        end, used = len(self._lines), list[Usage]()
        self._prompt.extend(added)
        for output in written:
            marks = sorted({1, self._marks.cached, end, len(self._prompt)} - {0})
            used.append(self._marked(at, marks, ttl, output))
            self._prompt.extend([(object(), output + CALL_TOKENS)])  # and what its tools say
        self._prompt.rewind(end)
        return used

    def keep(
        self, at: float, life: float, said: Sequence[PaperBlock], asked: int, output: int
    ) -> Usage:
        """Book a request that only keeps what was sent last, and the answer, for so long."""
        end = len(self._lines)
        self._prompt.extend([*said, (object(), asked)])
        marks = sorted({1, end, len(self._prompt) - 1, len(self._prompt)} - {0})
        used = self._marked(at, marks, life, output)
        self._prompt.rewind(end)
        return used

    def send(self, at: float, ttl: float, output: int) -> Usage:
        """Book one request, with breakpoints after the system prompt and where the adapter has them."""
        end = len(self._lines)
        places = joining.breakpoints(self._marks.cached, self._marks.stable, end)
        self._marks.sent(end)
        return self._marked(at, sorted({1, *places} if end else ()), ttl, output)

    def _marked(self, at: float, marks: Sequence[int], ttl: float, output: int) -> Usage:
        lives = [(mark, max(ttl, self.frame_life) if mark == 1 else ttl) for mark in marks]
        return self._cache.send(self._prompt, at, lives, ttl=ttl, output=output)


def _name(line: _Line) -> Hashable:
    return line.paper[0] if line.fetched is None else line.fetched
