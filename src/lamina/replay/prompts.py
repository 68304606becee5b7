"""One conversation's prompt on paper, as it changes from request to request: only what differs from
the last one is taken down and put up again. Pure arithmetic.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from lamina.cache.simulate import PaperBlock, PaperCache
from lamina.messages import Message, Usage
from lamina.replay.weigh import Weigher


@dataclass(slots=True)
class _Line:
    """A block as it stands in the prompt."""

    paper: PaperBlock
    fetched: Hashable = None  # for a re-read: the key of the block that it brought back


@dataclass(frozen=True, slots=True)
class Change:
    """Keys of the blocks that left the prompt and of those that came in."""

    gone: Sequence[Hashable]
    come: Sequence[Hashable]


class SentPrompt:
    def __init__(self, weigher: Weigher) -> None:
        self._weigher = weigher
        self._frame: list[PaperBlock] = []
        self._messages: list[Message] = []
        self._ends: list[int] = []  # for each message, how many lines there are up to its end
        self._lines: list[_Line] = []
        self._cache = PaperCache()
        self._prompt = self._cache.prompt()
        self._sent = 0  # lines at the end of the last request
        self.fetched = 0  # tokens of what was fetched again and still stands there

    @property
    def tokens(self) -> int:
        return self._prompt.tokens

    def update(
        self, cache: PaperCache, frame: Sequence[PaperBlock], messages: Sequence[Message]
    ) -> Change:
        """Make the prompt hold exactly this; blocks fetched again stay where they were put."""
        same = self.same_messages(messages) if self._frame == frame else 0
        new = [self._weigher.paper(message) for message in messages[same:]]
        if self._frame != frame:
            keep = 0
            added = [_Line(paper) for paper in frame]
        else:
            keep = self._ends[same - 1] if same else len(frame)
            added = []
            if new:
                keep, new[0] = self._same_blocks(keep, new[0])
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
        self._redraw(cache, keep)
        return Change(gone, [_name(line) for line in self._lines[keep:]])

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

    def _redraw(self, cache: PaperCache, keep: int) -> None:
        if cache is not self._cache:
            self._cache, self._prompt, keep, self._sent = cache, cache.prompt(), 0, 0
        self._prompt.rewind(keep)
        self._prompt.extend(line.paper for line in self._lines[keep:])
        self._sent = min(self._sent, keep)

    def fetch(self, blocks: Sequence[tuple[Hashable, PaperBlock]]) -> None:
        """Put content that had been removed at the end, as a call and its result would."""
        for key, paper in blocks:
            self._lines.append(_Line(paper, key))
            self.fetched += paper[1]
            self._prompt.extend([paper])
        if self._ends:
            self._ends[-1] = len(self._lines)

    def warm(self, at: float, ttl: float) -> None:
        """Let the cache know the system prompt already: others had sent it."""
        prompt = self._cache.prompt()
        prompt.extend(line.paper for line in self._lines[:1])
        self._cache.send(prompt, at, [1], ttl=ttl)

    def send(self, at: float, ttl: float, output: int) -> Usage:
        """Book one request, with breakpoints after the system prompt, where the last one ended,
        and at the end.
        """
        end = len(self._lines)
        marks = sorted({mark for mark in (1, self._sent, end) if 0 < mark <= end})
        self._sent = end
        return self._cache.send(self._prompt, at, marks, ttl=ttl, output=output)


def _name(line: _Line) -> Hashable:
    return line.paper[0] if line.fetched is None else line.fetched
