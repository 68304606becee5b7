"""What the layers have saved and spent in one session, in tokens of plain input: the account out of
which a break of a warm cache is paid. Follows the ledger's entries and touches nothing else, so that
a resumed session decides alike.

Against doing nothing: content that is kept out before it was ever sent saves its writing, and in
each later request its reading; after a pause that made the cache cold, its writing once more. A break
while the cache is warm costs the writing of what follows it; what is fetched back costs its writing
and a call.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lamina.cache.spend import price_of
from lamina.ledger import tokens
from lamina.ledger.edits import Places, written_at
from lamina.ledger.joining import FRAME_LIFE
from lamina.ledger.places import RESULTS
from lamina.messages import Block, Json, as_object, dicts
from lamina.ports import Capabilities

FETCHED = "fetched_again"  # state entry of a replay: tokens that its answers would have fetched
MARGIN = 20.0  # seconds before the cache ends in which no call is begun to keep it; set by hand
SHORT_LIFE, LONG_LIFE = 300, 3600  # seconds; a long cache is seldom worth keeping through a pause
LIFE = "cache.life"  # state entry: seconds for which the cache is written from here on
AHEAD = 0.5  # of the requests so far: so many more come with odds of two in three
CALL = 120  # tokens that a model writes to ask for something again; set by hand
# State entry: {"price": tokens of plain input, "kept": seconds that the cache lives}.
ASIDE = "aside"
# Chance that the user is back within one more life of the cache, after so many of them in silence.
# From 182 recorded sessions, a session's end counted as never; its own pauses weigh against it.
BACK = (1.0, 0.34, 0.19, 0.13, 0.07)
BACK_WEIGHS = 10  # pauses; set by hand
# Share of what left the view that is reckoned to come back, until the session's own record tells.
# Both set by hand.
FETCHED_BACK = 0.25
RECKONED = 20_000  # tokens of record that weigh as much as this guess
DEBT = 0.005  # share of a session's bill that background work may cost before it is earned


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices of a token in those of a token of plain input; what is not cached has no price."""

    read: float = 0.1
    write: float = 1.25
    output: float = 5.0
    life: float = 300.0  # seconds that the cache lives
    long: float = 2.0  # to write for an hour

    @property
    def again(self) -> float:
        """What it costs more to write a token again than to read it."""
        return self.write - self.read

    def living(self, life: float) -> Rates:
        """The same for a cache of another life."""
        write = self.long if life > SHORT_LIFE else self.write
        return self if life == self.life else replace(self, write=write, life=life)


def rates(
    model: str, able: Capabilities, prices: Mapping[str, Mapping[str, Any]] | None = None
) -> Rates:
    """The rates of a model that has a cache."""
    long = able.cache == "anthropic" and able.cache_ttl > 300
    plain = Rates(write=1.0 if able.cache == "openai" else 2.0 if long else 1.25)
    price = price_of(model, prices) if model else None
    if price is None or price.input <= 0 or price.guessed:
        return Rates(plain.read, plain.write, plain.output, able.cache_ttl)
    write = price.cache_write_1h if long else price.cache_write_5m
    return Rates(
        price.cache_read / price.input,
        max(write / price.input, 1.0),  # where writing has no price of its own it is plain input
        price.output / price.input,
        able.cache_ttl,
        max(price.cache_write_1h / price.input, 1.0),
    )


def keep_warm_after(life: float) -> float:
    """Seconds without a request after which one would still find the cache, and keep it."""
    return life - min(MARGIN, life / 4)


class Account:
    """`saved` less what was spent, and what a decision needs besides."""

    def __init__(self) -> None:
        self._begin([])

    def _begin(self, entries: Sequence[Json]) -> None:
        self.rates = self._first = Rates()
        self._life = 0.0  # that was chosen; 0: none was
        self.saved = 0.0
        self.requests = 0
        self.pauses = 0  # after which the cache was cold
        self.dropped = 0  # tokens that left the view
        self.fetched = 0  # tokens that were fetched back
        self._grown = array("q", [0])  # tokens of all messages, at each request
        self._entries, self._next = entries, 0
        self._position: Places[str] = Places()
        self._size = array("q")  # tokens that each entry has in the view
        # By block (entry, number): what stands there by each edit that replaced it, (edit, tokens).
        self._instead: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {}
        self._folds: dict[int, list[tuple[int, int]]] = {}  # by edit: (entry, tokens less)
        self._asked: set[str] = set()  # calls that fetch something back
        self._view = 0
        self._said = 0  # tokens of all messages but what was fetched back
        self._out = 0  # tokens that doing nothing would send besides
        self._new_out = 0  # of these, never sent
        self._summarised = 0  # of these, what stood before the last summary
        self._sent = 0  # entries before this one have been sent
        self._marked = array("q")  # and before each of these, with a mark that still holds
        self._broken = -1  # first of them that was changed since the last request,
        self._changed = -1  # and the last
        self.warm_until = 0.0  # the cache lives until then,
        self._alone = 0.0  # and so long if nothing had been sent to keep it
        self._asked_at = 0.0
        self._last_word = 0.0
        self.breaks = 0  # pauses that an hour would have bridged, and five minutes not
        self.used_at = 0.0  # when the cache was last used, also only to keep it; 0: never
        self._prompt = 0  # tokens of the last request, system prompt and tools included
        self._away: Counter[int] = Counter()  # pauses, by how many lives of the cache they lasted
        self.bill = 0.0  # of the conversation's own requests
        self.kept = 0  # requests that kept the cache in this pause
        self.aside = 0.0  # spent on background work
        self._framed = 0  # tokens of the prompt that live longer than the rest

    def affords(self, price: float) -> bool:
        """Has the session saved what a call beside it costs? A little may be owed."""
        return self.saved - price >= -DEBT * self.bill

    def back_soon(self) -> float:
        """The chance that the user is back before the cache ends that is kept now: by other
        sessions' pauses until there are some of this one's."""
        silent = self.kept + 1
        chance = BACK[silent] if silent < len(BACK) else 0.0
        reached = sum(count for lasted, count in self._away.items() if lasted >= silent)
        return (BACK_WEIGHS * chance + self._away[silent]) / (BACK_WEIGHS + reached)

    def keeps_paying(self, tokens: int, life: float) -> bool:
        """Is a request that only keeps a prompt of this size cached likely to save its price, and
        is that price there? `life`: how long the cache lives after it."""
        price = self.rates.read * tokens + self.rates.output
        chance = 1.0 - math.prod(1.0 - one for one in BACK[1:]) if life > self.rates.life else 0.0
        chance = max(chance, self.back_soon())
        lost = self.rates.again * (tokens - self._framed)
        return price <= self.saved and chance * lost > price

    def best_life(self, tokens: int) -> int:
        """For how long a prompt of this size is best cached that is written anew: an hour costs more
        for all that is written, and saves the writing after a pause as this session has had."""
        first = self._first
        lost = first.again * tokens * self.breaks * AHEAD
        more = (first.long - first.write) * (tokens + self.pace * self.requests * AHEAD)
        return LONG_LIFE if lost > more else SHORT_LIFE

    @property
    def comes_back(self) -> float:
        """Share of what leaves the view now that will likely be fetched back."""
        return (self.fetched + FETCHED_BACK * RECKONED) / (max(0, self.dropped) + RECKONED)

    @property
    def kept_out(self) -> int:
        """Tokens that the layers hold back from a conversation which is otherwise whole: since the
        last summary, or since it began."""
        return max(0, self._out - self._summarised)

    def written_again(self, entry: int) -> int:
        """Tokens of the view that were sent and would be written anew if this entry changed: what
        follows the last mark before it."""
        held = bisect_right(self._marked, entry)
        return sum(self._size[self._marked[held - 1] if held else 0 : self._sent])

    @property
    def warm_run(self) -> float:
        """Requests between two pauses, on the average so far."""
        return self.requests / (self.pauses + 1)

    @property
    def pace(self) -> float:
        """Tokens that a request added, on the average of the later half of them."""
        half = (self.requests + 1) // 2
        return (self._said - self._grown[half]) / max(1, self.requests - half)

    def requests_since(self, tokens: float) -> int:
        """Requests since the conversation had so many tokens less than now."""
        return self.requests - bisect_right(self._grown, self._said - tokens) + 1

    def follow(self, entries: Sequence[Json], rates: Rates) -> Account:
        """Take the entries that are new."""
        if entries is not self._entries or len(entries) < self._next:
            self._begin(entries)
        self._first, self.rates = rates, rates.living(self._life or rates.life)
        if len(entries) > self._next:  # it is asked for more often than something is new
            for at, entry in enumerate(entries[self._next :], self._next):
                self._take(at, entry)
            self._next = len(entries)
        return self

    def branch(self, entries: Sequence[Json]) -> Account:
        """The account of a branch that has these entries, of which this one followed the first."""
        other = Account()
        if self._next <= len(entries):
            other.__dict__ |= self.__dict__
            other._entries, other._position = entries, self._position.branch(self._next)
            other._grown, other._size = self._grown[:], self._size[:]
            other._marked, other._away = self._marked[:], self._away.copy()
            other._instead, other._folds = self._instead.copy(), self._folds.copy()
            other._asked = self._asked.copy()
        return other

    def _take(self, at: int, entry: Json) -> None:
        self._position.add(entry["uuid"], at)
        self._size.append(0)
        kind = entry["kind"]
        if kind == "message":
            self._message(at, entry)
        elif kind == "edit":
            self._edit(entry)
        elif kind == "request" and entry.get("purpose") in ("main", "agent"):
            self._request(at, entry)
        elif kind != "state":
            return
        elif (name := entry.get("name")) == FETCHED:
            self._fetch(int(entry.get("value") or 0))
        elif name == LIFE:
            self._life = float(entry.get("value") or 0.0)
            self.rates = self._first.living(self._life or self._first.life)
        elif name == FRAME_LIFE:
            self._framed = int(as_object(entry.get("value")).get("tokens") or 0)
        elif name == ASIDE:
            self._beside(written_at(entry), as_object(entry.get("value")))

    # ---- what the view holds, and what doing nothing would hold besides

    def _message(self, at: int, entry: Json) -> None:
        size = extra = 0
        for block in dicts(entry.get("content")):
            amount = tokens.of_block(block)
            size += amount
            kind = block.get("type")
            if kind == "tool_use" and _fetches(block):
                self._asked.add(str(block.get("id")))
                self.saved -= self.rates.read * self._view
                extra += amount
            elif kind == "tool_result" and str(block.get("tool_use_id")) in self._asked:
                self.fetched += amount
                extra += amount
        if entry.get("compaction"):  # comes back with a summary: doing nothing would not say it
            extra = size
        self._size[at] = size
        self._view += size
        self._keep_out(-extra)
        self._said += size - extra
        # Another program's answer is known with its next request: what was kept meanwhile is not its doing.
        if entry.get("role") == "assistant" and not self.kept:
            self._last_word = written_at(entry)
            self._alone = max(self._alone, written_at(entry) + self.rates.life)
            self.warm_until = max(self.warm_until, self._alone)

    def cold(self, now: float) -> bool:
        """Has the cache of earlier requests run out?"""
        return self.requests > 0 and now > self.warm_until

    def _beside(self, now: float, paid: Json) -> None:
        """A call beside the conversation; one that reads its prompt keeps the cache."""
        price, life = float(paid.get("price") or 0.0), float(paid.get("kept") or 0.0)
        self.saved -= price
        self.aside += price
        if life and now <= self.warm_until:
            self.warm_until, self.used_at = max(self.warm_until, now + life), now
            self.kept += 1

    def _keep_out(self, amount: int) -> None:
        self._out += amount
        self._new_out += amount

    def _fetch(self, amount: int) -> None:
        """A replay tells what its answers leant on; less than nothing: it has left the prompt."""
        self._keep_out(-amount)
        if amount > 0:
            self.fetched += amount
            self.saved -= self.rates.read * self._view + self.rates.output * CALL

    def _edit(self, edit: Json) -> None:
        at, undone = self._position[edit["uuid"]], False
        while edit.get("op") == "revoke":  # also of a revoke: then the edit holds again
            before = self._position.get(str(edit.get("edit")), at)
            if before >= at:
                return
            at, edit, undone = before, self._entries[before], not undone
        changes = self._folded(at, edit, undone) if edit.get("op") == "fold" else ()
        if edit.get("op") == "replace":
            changes = self._replaced(at, edit, undone)
        for entry, less in changes:
            self._size[entry] -= less
            self._view -= less
            self._out += less
            self.dropped += less
            if entry >= self._sent:
                self._new_out += less
            else:
                self._broken = entry if self._broken < 0 else min(self._broken, entry)
                self._changed = max(self._changed, entry)
        if edit.get("op") == "fold":
            self._summarised = self._out

    def _replaced(self, edit_at: int, edit: Json, undone: bool) -> Iterator[tuple[int, int]]:
        for item in dicts(edit.get("items")):
            at, number = self._position.get(str(item.get("entry"))), item.get("block")
            if at is None or not isinstance(number, int):
                continue
            before = self._stands(at, number)
            instead = [held for held in self._instead.get((at, number), ()) if held[0] != edit_at]
            if not undone:
                instead.append((edit_at, tokens.of_block(as_object(item.get("with")))))
                instead.sort(key=lambda held: held[0])  # edits hold in the ledger's order
            self._instead[at, number] = tuple(instead)
            yield at, before - self._stands(at, number)

    def _stands(self, at: int, number: int) -> int:
        """Tokens of what stands at a block's place now."""
        if instead := self._instead.get((at, number)):
            return instead[-1][1]
        blocks = dicts(self._entries[at].get("content"))
        return tokens.of_block(blocks[number]) if 0 <= number < len(blocks) else 0

    def _folded(self, edit_at: int, edit: Json, undone: bool) -> list[tuple[int, int]]:
        if undone:
            return [(at, -less) for at, less in self._folds.pop(edit_at, [])]
        first = self._position.get(str(edit.get("first")))
        last = self._position.get(str(edit.get("last")))
        if first is None or last is None:
            return []
        gone = [(at, self._size[at]) for at in range(first, last + 1) if self._size[at]]
        told = (dicts(one.get("content")) for one in dicts(edit.get("messages")))
        new = sum(map(tokens.of_blocks, told))
        self._folds[edit_at] = [*gone, (first, -new)]
        return self._folds[edit_at]

    # ---- what a request costs less, or more

    def _request(self, at: int, entry: Json) -> None:
        now, rates = written_at(entry), self.rates
        prompt = int(entry.get("tokens") or 0)
        cold = not self.requests or now > self.warm_until
        self.bill += rates.write * prompt if cold else rates.read * prompt
        if cold:
            self.pauses += self.requests > 0
            self.saved += rates.write * self._out  # all would have been written again
        elif now > self._alone:
            self.saved += rates.again * (self._prompt - self._framed) + rates.write * self._out
        else:
            self.saved += rates.read * self._out + rates.again * self._new_out
        if not cold:
            self.bill += rates.again * max(0, prompt - self._prompt)
            if self._broken >= 0:
                self.saved -= rates.again * self.written_again(self._broken)
        if self.requests and (lasted := int((now - self._asked_at) // rates.life)):
            self._away[lasted] += 1
        self.breaks += cold and SHORT_LIFE < now - self._last_word <= LONG_LIFE
        self._last_word = now
        self.requests += 1
        self._grown.append(self._said)
        self._asked_at = self.used_at = now
        self._alone = max(self._alone, now + rates.life)
        self.warm_until = max(self.warm_until, now + rates.life)
        if self._broken >= 0:
            del self._marked[bisect_right(self._marked, self._broken) :]
            self._marked.append(self._changed + 1)  # where a change ends is marked as well
        self._marked.append(at)
        self._sent, self._new_out, self._broken, self._changed = at, 0, -1, -1
        self._prompt, self.kept = prompt, 0


def _fetches(call: Block) -> bool:
    """Expand, or reading a file to which layer 1 moved a result."""
    if str(call.get("name")).lower().endswith("expand"):  # its own, or that of our MCP server
        return True
    return f"/{RESULTS}/" in str(as_object(call.get("input")).get("file_path") or "")
