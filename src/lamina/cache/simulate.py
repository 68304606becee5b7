"""A prompt cache on paper: what a provider's cache would read, write and miss for a sequence of
requests at given times. Pure arithmetic: no files, no clock of its own, no network.

A prompt is a list of blocks in the order that the provider hashes them (tools, system, messages),
each a key that stands for its bytes and its size in tokens. Prefixes are interned, so that a prompt
that grows costs only its new blocks, and two prompts share what they have in common.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from lamina.cache.spend import Price, cost, price_of
from lamina.errors import UsageError
from lamina.ledger.tokens import Counted, Traits, traits
from lamina.messages import Block, Message, Usage, text

PaperBlock: TypeAlias = tuple[Hashable, int]  # (what stands for the block's bytes, tokens)

_MOST_MARKS = 4
_MOST_LINES = 64  # conversations whose prompts are remembered
_MOST_WEIGHED = 5_000  # messages whose traits are remembered
_MOST_PREFIXES = 10_000  # of a model, before its caches begin anew
FIVE_MINUTES = 300.0
ONE_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class CacheRules:
    """How one provider caches for one model."""

    kind: Literal["anthropic", "openai"] = "anthropic"
    min_tokens: int = 1024  # shorter prefixes are not cached
    breakpoints: int = 4  # anthropic: at most this many a request
    lookback: int = 20  # anthropic: positions tried for each breakpoint, itself the first
    step: int = 128  # openai: hits come in multiples of this
    life: float = 600.0  # openai: seconds that an unused prefix stays
    bills_writes: bool = False  # openai: newer models report and charge cache writes


def rules_for(price: Price) -> CacheRules:
    """The rules that go with a priced model; unknown providers are taken to cache like OpenAI."""
    if price.provider == "anthropic":
        return CacheRules(min_tokens=price.min_cacheable)
    life = 1800.0 if price.bills_writes else 600.0
    return CacheRules("openai", price.min_cacheable, life=life, bills_writes=price.bills_writes)


class Prompt:
    """One growing prompt: for every block the prefix that ends there and its size."""

    __slots__ = ("_table", "ends", "nodes")

    def __init__(self, table: dict[tuple[int, Hashable], int]) -> None:
        self._table = table
        self.nodes: list[int] = []
        self.ends: list[int] = []

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def tokens(self) -> int:
        return self.ends[-1] if self.ends else 0

    def rewind(self, blocks: int) -> None:
        """Keep only the first `blocks` blocks."""
        del self.nodes[blocks:]
        del self.ends[blocks:]

    def extend(self, blocks: Iterable[PaperBlock]) -> None:
        table = self._table
        node = self.nodes[-1] if self.nodes else 0
        end = self.tokens
        for key, tokens in blocks:
            # Node numbers count upwards from 1; 0 is the empty prefix.
            node = table.setdefault((node, key), len(table) + 1)
            end += tokens
            self.nodes.append(node)
            self.ends.append(end)


@dataclass(slots=True)
class _Entry:
    expires: float
    ttl: float


class PaperCache:
    """One provider's cache. `prompt()` starts a conversation, `send()` is one request."""

    def __init__(self, rules: CacheRules | None = None) -> None:
        self.rules = rules or CacheRules()
        self._table: dict[tuple[int, Hashable], int] = {}
        self._entries: dict[int, _Entry] = {}
        self._live: list[_Branch] = []  # where any prefix is matched: prompts sent lately

    @property
    def prefixes(self) -> int:
        """How many it has ever seen."""
        return len(self._table)

    def prompt(self) -> Prompt:
        return Prompt(self._table)

    def send(
        self,
        prompt: Prompt,
        at: float,
        breakpoints: Sequence[int | tuple[int, float]] = (),
        *,
        ttl: float = FIVE_MINUTES,
        output: int = 0,
    ) -> Usage:
        """Book one request. A breakpoint is a number of blocks, or that with a life of its own."""
        if self.rules.kind == "openai":
            return self._send_openai(prompt, at, output)
        marks = sorted((mark, ttl) if isinstance(mark, int) else mark for mark in breakpoints)
        if len(marks) > self.rules.breakpoints:
            raise UsageError(
                f"A request has {len(marks)} cache breakpoints, but the provider takes at most "
                f"{self.rules.breakpoints}; mark fewer blocks."
            )
        end = len(prompt)
        marks = [(min(mark, end), life) for mark, life in marks if mark > 0 and end]
        return self._send_anthropic(prompt, at, marks, output)

    def _send_anthropic(
        self, prompt: Prompt, at: float, marks: list[tuple[int, float]], output: int
    ) -> Usage:
        hit = self._longest_hit(prompt, at, marks)
        read = prompt.ends[hit - 1] if hit else 0
        written = last_1h = read
        for mark, life in marks:
            node, end = prompt.nodes[mark - 1], prompt.ends[mark - 1]
            entry = self._entries.get(node)
            if mark <= hit:
                if entry is not None and entry.expires > at:
                    entry.expires = max(entry.expires, at + entry.ttl)
            elif end >= self.rules.min_tokens:
                self._entries[node] = _Entry(at + life, life)
                written = end
                last_1h = end if life >= ONE_HOUR else last_1h
        if hit:
            entry = self._entries[prompt.nodes[hit - 1]]
            entry.expires = max(entry.expires, at + entry.ttl)
        return Usage(
            input=prompt.tokens - written,
            output=output,
            cache_read=read,
            cache_write=written - read,
            cache_write_1h=last_1h - read,
        )

    def _longest_hit(self, prompt: Prompt, at: float, marks: list[tuple[int, float]]) -> int:
        for mark, _ in reversed(marks):
            for place in range(mark, max(0, mark - self.rules.lookback), -1):
                entry = self._entries.get(prompt.nodes[place - 1])
                if entry is not None and entry.expires > at:
                    return place
        return 0

    def _send_openai(self, prompt: Prompt, at: float, output: int) -> Usage:
        rules = self.rules
        self._live = [branch for branch in self._live if branch.expires > at]
        shared = max((_shared(branch.path, prompt.nodes) for branch in self._live), default=0)
        read = _stepped(prompt.ends[shared - 1] if shared else 0, rules)
        kept = _stepped(prompt.tokens, rules)
        if kept:
            self._keep(prompt, at + rules.life)
        write = kept - read if rules.bills_writes else 0
        return Usage(prompt.tokens - read - write, output, read, write)

    def _keep(self, prompt: Prompt, expires: float) -> None:
        """A prompt that only grew replaces the one it grew from, so that few are kept and each
        comparison is one look or a bisection."""
        for branch in self._live:
            if _shared(branch.path, prompt.nodes) == len(branch.path):
                # Only what was added: copying the whole path would make growth quadratic.
                branch.path.extend(prompt.nodes[len(branch.path) :])
                branch.expires = max(branch.expires, expires)
                return
        self._live.append(_Branch(list(prompt.nodes), expires))


def _stepped(tokens: int, rules: CacheRules) -> int:
    return tokens // rules.step * rules.step if tokens >= rules.min_tokens else 0


@dataclass(slots=True)
class _Branch:
    path: list[int]  # the prefixes of a prompt as it was sent
    expires: float


def _shared(one: list[int], other: list[int]) -> int:
    """How many leading prefixes two paths share: equal nodes mean equal prefixes up to there."""
    low, high = 0, min(len(one), len(other))
    if high and one[high - 1] == other[high - 1]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[middle - 1] == other[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low


class _TwoWays:
    """A conversation's prompt as it is and as it was sent, after the last request."""

    def __init__(self, direct: Prompt, sent: Prompt, frame: tuple[str, int]) -> None:
        self.direct, self.sent = direct, sent
        self.learnt = 0  # counts that the provider had given when it was weighed
        self._hashes: list[str] = []  # of the messages
        self._made: list[tuple[int, object]] = []  # what was changed in which
        self._traits: list[Traits] = []  # of all up to each of them
        self._counted: tuple[Traits, int] | None = None  # of the last request that was answered
        direct.extend([(frame, frame[1])])
        sent.extend([(frame, frame[1])])

    def back_to(self, hashes: Sequence[str], made: list[tuple[int, object]]) -> int:
        """Keep what is the same in the next request: so many messages. The others are to be added.
        `made`: numbers of messages and what was changed in them, in this order."""
        old, before = self._hashes, self._made
        same = min(len(old), len(hashes))
        if same and old[same - 1] != hashes[same - 1]:  # each is of all before it, too
            same = bisect_left(range(same), True, key=lambda at: old[at] != hashes[at])
        if made[: len(before)] != before:
            pairs = zip_longest(before, made, fillvalue=(same, None))
            same = min(same, next(min(a[0], b[0]) for a, b in pairs if a != b))
        elif len(made) > len(before):
            same = min(same, made[len(before)][0])
        self.direct.rewind(1 + same)
        self.sent.rewind(1 + same)
        del self._traits[same:]
        old[same:], self._made = hashes[same:], made
        return same

    def add(self, direct: PaperBlock, sent: PaperBlock, own: Traits) -> None:
        self.direct.extend([direct])
        self.sent.extend([sent])
        before = self._traits[-1] if self._traits else (0.0,) * len(own)
        self._traits.append(tuple(map(sum, zip(before, own, strict=True))))

    def more(self, counted: int) -> tuple[Traits, int]:
        """What was sent more than in the last request, and how much more was counted."""
        now, before = (self._traits[-1], counted), self._counted
        self._counted = now
        if before is None:
            return (0.0,) * len(now[0]), 0
        return tuple(a - b for a, b in zip(now[0], before[0], strict=True)), counted - before[1]


class Sent(Struct, frozen=True):
    """A request: its messages, as they were written and as they were sent, and what decides besides."""

    conversation: str
    model: str
    frame_tokens: int
    life: int
    hashes: Sequence[str]  # of all up to each message
    messages: Sequence[Message]
    changed: Mapping[int, Mapping[int, Block]]  # by number of the message, then of the block
    marked: Sequence[int]  # messages that the client marked
    acts: bool  # False: it went out as it was written, and the changes are only thought of
    sent_life: int = 0  # seconds, if they are not those that the client wrote
    folded: int = 0  # so many of the first messages have a summary in their place
    summary: str = ""
    window: int = 0  # tokens that the model takes, prompt and answer; 0: not known


class Paper:
    """What conversations would have cost with nothing changed in them: the requests as the client wrote
    them and as they were sent, each through a prompt cache by the client's own marks, in tokens as the
    provider counts them. Conversations share what they have in common, as at the provider."""

    def __init__(self, prices: Mapping[str, Mapping[str, Any]]) -> None:
        self._prices = prices
        self._caches: dict[str, tuple[PaperCache, PaperCache, Counted]] = {}
        # By key of a message; with the changed blocks in it, so that their ids stay theirs.
        self._traits: dict[Hashable, tuple[object, Traits]] = {}
        self._lines: dict[tuple[str, str, int], _TwoWays] = {}  # and its model and frame

    def send(self, asked: Sent, now: float) -> Paid:
        """Book a request on both sides."""
        price = price_of(asked.model, self._prices)
        known = self._caches.get(asked.model)
        if known is None or known[0].prefixes > _MOST_PREFIXES:
            both = PaperCache(rules_for(price)), PaperCache(rules_for(price))
            self._caches[asked.model] = *both, known[2] if known else Counted()
            self._lines.clear()
        direct, sent, counted = self._caches[asked.model]
        new, made = asked.changed, list[tuple[int, object]](asked.changed.items())
        if asked.folded:
            made.insert(0, (0, (asked.folded, asked.summary)))
        line = self._line((asked.conversation, asked.model, asked.frame_tokens), direct, sent)
        if counted.rows >= 2 * line.learnt:  # what was weighed at the beginning is weighed again
            line.back_to([], [])
            line.learnt = max(1, counted.rows)
        for number in range(line.back_to(asked.hashes, made), len(asked.hashes)):
            key: Hashable = (hash_ := asked.hashes[number])
            blocks: list[Block] = asked.messages[number]["content"]
            whole = own = self._known(hash_, blocks)
            if number < asked.folded:
                key = hash_, hash(asked.summary)
                own = self._known(key, [] if number else [text(asked.summary)])
            elif changed := new.get(number):
                key = hash_, *((at, id(block)) for at, block in changed.items())
                stands = [changed.get(at, block) for at, block in enumerate(blocks)]
                own = self._known(key, stands, changed)
            line.add(
                (hash_, counted.of(whole)), (key, counted.of(own)), own if asked.acts else whole
            )
        marks = [1, *(number + 2 for number in asked.marked)][-_MOST_MARKS:]
        unchanged = direct.send(line.direct, now, marks, ttl=asked.life)
        life = asked.sent_life or asked.life
        as_sent = sent.send(line.sent, now, marks, ttl=life)
        again = partial(sent.send, line.sent, breakpoints=marks, ttl=life)
        too_long = 0 < asked.window < unchanged.prompt
        return Paid(price, unchanged, as_sent, line, counted, again, possible=not too_long)

    def _known(self, key: Hashable, blocks: Sequence[Block], held: object = None) -> Traits:
        if key not in self._traits:
            if len(self._traits) > _MOST_WEIGHED:
                self._traits.clear()
            self._traits[key] = held, traits(blocks)
        return self._traits[key][1]

    def _line(self, of: tuple[str, str, int], direct: PaperCache, sent: PaperCache) -> _TwoWays:
        line = self._lines.pop(of, None)
        if line is None:
            line = _TwoWays(direct.prompt(), sent.prompt(), ("frame", of[2]))
        self._lines[of] = line
        if len(self._lines) > _MOST_LINES:
            del self._lines[next(iter(self._lines))]
        return line


class Paid(Struct, frozen=True):
    """One request on paper: unchanged, and as it was sent."""

    price: Price
    direct: Usage
    sent: Usage
    line: _TwoWays
    counted: Counted
    again: Callable[[float], Usage]  # as it was sent, once more at this time, to keep the cache
    possible: bool = True  # the provider would have taken it unchanged

    def saved(self, billed: Usage) -> float:
        """Dollars that the request costs less for its changes, by what was counted of it. What could not
        have been sent unchanged has no other price: nothing was saved on it, if nothing was lost."""
        self.counted.learn(*self.line.more(billed.prompt))
        less = self._less(billed)
        return less if self.possible else min(0.0, less)

    def _less(self, billed: Usage) -> float:
        price, prompt = self.price, self.sent.prompt
        if not self.sent.cache_read and billed.cache_read > billed.prompt / 2:
            # The cache is from before this gateway's start: both sides would have read it.
            return cost(Usage(cache_read=max(0, self.direct.prompt - prompt)), price)
        return cost(self.direct, price) - cost(self.sent, price)
