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

_size = tokens.of_block
_MOST_MARKS = 4
_MOST_LINES = 64  # conversations whose prompts are remembered
_MOST_EDITED = 20_000  # changed messages whose size is remembered


class Paper:
    """One for a gateway: conversations share what they have in common, as at the provider."""

    def __init__(self, prices: Mapping[str, Mapping[str, Any]]) -> None:
        self._prices = prices
        self._caches: dict[str, tuple[PaperCache, PaperCache]] = {}
        self._sizes: dict[str, int] = {}  # tokens of a message, by the hash of all up to it
        # Messages with changed blocks, which are held, so that their ids stay theirs; and their tokens.
        self._edited: dict[Hashable, tuple[Mapping[int, Block], int]] = {}
        self._scales: dict[str, float] = {}  # their tokens for one of ours, of what went out whole
        self._lines: dict[tuple[str, str, int], TwoWays] = {}  # and its model and frame

    def send(self, asked: Asked, changes: Changes, marked: Sequence[int], now: float) -> Paid:
        """Book a request on both sides. `marked`: numbers of messages that the client marked."""
        price = price_of(asked.model, self._prices)
        direct, sent = self._caches.setdefault(
            asked.model, (PaperCache(rules_for(price)), PaperCache(rules_for(price)))
        )
        new = changes.by_message()
        keys: list[Hashable] = list(asked.hashes)
        for number, changed in new.items():
            keys[number] = (keys[number], *((at, id(block)) for at, block in changed.items()))
        line = self._line((changes.conversation, asked.model, asked.frame_tokens), direct, sent)
        same = line.back_to(keys)
        for number in range(same, len(keys)):
            hash_, key, message = asked.hashes[number], keys[number], asked.messages[number]
            blocks: list[Block] = message["content"]
            size = self._sizes.get(hash_)
            if size is None:
                size = self._sizes[hash_] = tokens.of_blocks(blocks)
            own = size
            if changed := new.get(number):
                if key not in self._edited:
                    if len(self._edited) > _MOST_EDITED:
                        self._edited.clear()
                    less = sum(_size(b) - _size(blocks[at]) for at, b in changed.items())
                    self._edited[key] = (changed, size + less)
                own = self._edited[key][1]
            line.add((hash_, size), (key, own))
        marks = [1, *(number + 2 for number in marked)][-_MOST_MARKS:]
        unchanged = direct.send(line.direct, now, marks, ttl=asked.life)
        as_sent = sent.send(line.sent, now, marks, ttl=asked.life)
        return Paid(price, unchanged, as_sent, self._scales, changes)

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
        self, price: Price, direct: Usage, sent: Usage, scales: dict[str, float], changes: Changes
    ) -> None:
        self._price, self._direct, self._sent = price, direct, sent
        self._scales, self._changes = scales, changes

    def direct(self, billed: Usage) -> float:
        """Dollars that the request would have cost unchanged, the bill being this."""
        paid, prompt, name = (
            cost(billed, self._price),
            self._sent.prompt,
            self._changes.conversation,
        )
        scale = billed.prompt / prompt if prompt else 1.0
        if not self._changes.replaced:
            self._scales[name] = scale
            return paid
        if not self._sent.cache_read and billed.cache_read > billed.prompt / 2:
            # The cache is from before this gateway's start: both sides would have read it.
            saved = cost(Usage(cache_read=max(0, self._direct.prompt - prompt)), self._price)
        else:
            saved = cost(self._direct, self._price) - cost(self._sent, self._price)
        return paid + self._scales.get(name, scale) * saved
