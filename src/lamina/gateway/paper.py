"""What a conversation would have cost with nothing changed in it: the requests as the client wrote them
and as they were sent, each through a prompt cache on paper (`cache/simulate.py`) by the client's own
marks. The difference, at the scale of what the provider counted, is what was saved. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from lamina.cache.prices import Price, cost, price_of
from lamina.cache.simulate import PaperCache, TwoWays, rules_for
from lamina.conversation.kept import Asked, Changes
from lamina.ledger import tokens
from lamina.messages import Block, Usage

_MOST_MARKS = 4
_MOST_LINES = 64  # conversations whose prompts are remembered
_MOST_WEIGHED = 20_000  # messages whose traits are remembered


class Paper:
    """One for a gateway: conversations share what they have in common, as at the provider."""

    def __init__(self, prices: Mapping[str, Mapping[str, Any]]) -> None:
        self._prices = prices
        self._caches: dict[str, tuple[PaperCache, PaperCache, tokens.Counted]] = {}
        # By key of a message; with the changed blocks in it, so that their ids stay theirs.
        self._traits: dict[Hashable, tuple[object, tokens.Traits]] = {}
        self._lines: dict[tuple[str, str, int], TwoWays] = {}  # and its model and frame

    def send(self, asked: Asked, changes: Changes, marked: Sequence[int], now: float) -> Paid:
        """Book a request on both sides. `marked`: numbers of messages that the client marked."""
        price = price_of(asked.model, self._prices)
        if asked.model not in self._caches:
            both = PaperCache(rules_for(price)), PaperCache(rules_for(price))
            self._caches[asked.model] = *both, tokens.Counted()
        direct, sent, counted = self._caches[asked.model]
        new = changes.by_message()
        keys: list[Hashable] = list(asked.hashes)
        for number, changed in new.items():
            keys[number] = (keys[number], *((at, id(block)) for at, block in changed.items()))
        line = self._line((changes.conversation, asked.model, asked.frame_tokens), direct, sent)
        same = line.back_to(keys)
        for number in range(same, len(keys)):
            hash_, key = asked.hashes[number], keys[number]
            blocks: list[Block] = asked.messages[number]["content"]
            whole = own = self._known(hash_, blocks)
            if changed := new.get(number):
                made = [changed.get(at, block) for at, block in enumerate(blocks)]
                own = self._known(key, made, changed)
            line.add((hash_, counted.of(whole)), (key, counted.of(own)), own)
        marks = [1, *(number + 2 for number in marked)][-_MOST_MARKS:]
        unchanged = direct.send(line.direct, now, marks, ttl=asked.life)
        as_sent = sent.send(line.sent, now, marks, ttl=asked.life)
        return Paid(price, unchanged, as_sent, line, counted)

    def _known(self, key: Hashable, blocks: Sequence[Block], held: object = None) -> tokens.Traits:
        if key not in self._traits:
            if len(self._traits) > _MOST_WEIGHED:
                self._traits.clear()
            self._traits[key] = held, tokens.traits(blocks)
        return self._traits[key][1]

    def _line(self, of: tuple[str, str, int], direct: PaperCache, sent: PaperCache) -> TwoWays:
        line = self._lines.pop(of, None)
        if line is None:
            line = TwoWays(direct.prompt(), sent.prompt(), ("frame", of[2]))
        self._lines[of] = line
        if len(self._lines) > _MOST_LINES:
            del self._lines[next(iter(self._lines))]
        return line


class Paid:
    """One request on paper: unchanged, and as it was sent."""

    def __init__(
        self, price: Price, direct: Usage, sent: Usage, line: TwoWays, counted: tokens.Counted
    ) -> None:
        self._price, self._direct, self._sent = price, direct, sent
        self._line, self._counted = line, counted

    def direct(self, billed: Usage) -> float:
        """Dollars that the request would have cost unchanged, the bill being this."""
        self._counted.learn(*self._line.more(billed.prompt))
        price, prompt = self._price, self._sent.prompt
        if not self._sent.cache_read and billed.cache_read > billed.prompt / 2:
            # The cache is from before this gateway's start: both sides would have read it.
            saved = cost(Usage(cache_read=max(0, self._direct.prompt - prompt)), price)
        else:
            saved = cost(self._direct, price) - cost(self._sent, price)
        return cost(billed, price) + saved
