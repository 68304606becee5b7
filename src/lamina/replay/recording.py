"""What a recording is: frozen values that every reader produces and every policy is run on. Nothing
here touches files or clocks.

Messages form a tree: each names the one before it, so that a conversation that grows, goes back and
takes another way, or starts again from a summary is stored once. A request names the last message
that was sent; the messages before it are the way up to the root.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lamina.messages import Block, Json, Message, Usage


@dataclass(frozen=True, slots=True)
class SkippedPart:
    """Something in the file that could not be used, or not as it stood."""

    where: str  # "line 12", "history[3]"
    reason: str


@dataclass(frozen=True, slots=True)
class Frame:
    """System prompt and tools, where the recording holds them."""

    system: Sequence[Block] = ()
    tools: Sequence[Json] = ()


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    message: Message  # {"role": "user" | "assistant", "content": [Block, ...]}
    parent: int = -1  # index of the message before it; -1: the first of its conversation
    depth: int = 1  # how many messages there are from the root up to this one
    time: float = 0.0
    summary: bool = False  # stands for what a compaction took away
    after: int = -1  # for a summary: the last message before the compaction
    asked: bool = False  # for a summary: the user wanted it


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    time: float  # when it was sent, in seconds since 1970
    tail: int  # index of the last message sent; -1: none
    answer: int  # index of the assistant's message; -1: not recorded
    usage: Usage | None = None
    model: str = ""
    thread: str = ""  # "" is the main conversation; else the agent, or the run within the file
    frame: int = 0  # index into the recording's frames
    ttl: float = 0.0  # life of the cache that it wrote, in seconds; 0: not recorded
    compact: bool = False  # the user asked for a compaction before it


@dataclass(frozen=True, slots=True)
class RequestStep:
    """One request as a change of what the one before it in its thread sent."""

    number: int  # index into the recording's requests
    request: RecordedRequest
    keep: int  # so many of the messages sent before stay
    new: Sequence[int]  # indexes of the messages that follow them; the last answer comes first
    compacted: bool  # starts again from a summary


@dataclass(frozen=True, slots=True)
class Recording:
    file: str
    format: str
    messages: Sequence[RecordedMessage]
    requests: Sequence[RecordedRequest]  # in order of time
    skipped: Sequence[SkippedPart] = ()
    frames: Sequence[Frame] = (Frame(),)
    timed: bool = True  # whether the times are the recording's own
    reported: Usage | None = None  # by the provider in all, where that is more than requests carry

    def steps(self) -> Iterator[RequestStep]:
        """Every request, as the change since the last one of its thread."""
        held: dict[str, list[int]] = {}
        for number, request in enumerate(self.requests):
            path = held.setdefault(request.thread, [])
            keep, new = self._change(path, request.tail)
            del path[keep:]
            path.extend(new)
            compacted = keep == 0 and bool(new) and self.messages[new[0]].summary
            yield RequestStep(number, request, keep, new, compacted)

    def _change(self, path: list[int], tail: int) -> tuple[int, list[int]]:
        """How much of `path` the way to `tail` shares, and what it adds."""
        new: list[int] = []
        while tail >= 0:
            depth = self.messages[tail].depth
            if depth <= len(path) and path[depth - 1] == tail:
                return depth, new[::-1]
            new.append(tail)
            tail = self.messages[tail].parent
        return 0, new[::-1]

    def context(self, request: RecordedRequest) -> list[Message]:
        """The messages of one request, whole; for many requests use `steps`."""
        return [self.messages[index].message for index in self._change([], request.tail)[1]]

    def usage(self) -> Usage | None:
        """The sum of what the provider reported; None: nothing."""
        told = [request.usage for request in self.requests if request.usage is not None]
        return self.reported or (sum(told, Usage()) if told else None)

    def without_compactions(self) -> Recording:
        """The same work with nothing taken away: what followed a summary follows what the summary
        stood for, so that every policy faces the whole history. Usage from a compaction on is left
        out, as it tells of shorter prompts; for exact sizes use `Weigher(self).uncut()`. Where the
        user asked for the compaction, the request says so: whoever keeps the context obeys.
        """
        compacted: set[str] = set()
        messages: list[RecordedMessage] = []
        for entry in self.messages:
            parent = entry.parent
            while parent >= 0 and self.messages[parent].summary:
                parent = self.messages[parent].after
            depth = messages[parent].depth + 1 if parent >= 0 else 1
            messages.append(replace(entry, parent=parent, depth=depth, summary=False))
        requests: list[RecordedRequest] = []
        steps = list(self.steps())
        for number, request in enumerate(self.requests):
            tail = request.tail
            while tail >= 0 and self.messages[tail].summary:
                tail = self.messages[tail].after
            step, asked = steps[number], False
            if step.compacted:
                compacted.add(request.thread)
                asked = self.messages[step.new[0]].asked
            usage = None if request.thread in compacted else request.usage
            requests.append(replace(request, tail=tail, usage=usage, compact=asked))
        return replace(self, messages=messages, requests=requests)
