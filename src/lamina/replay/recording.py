"""What a recording is: frozen values that every policy is run on, and the builder that every reader
fills with messages, requests and complaints. Nothing here touches files or clocks.

Messages form a tree: each names the one before it, so that a conversation that grows, goes back and
takes another way, or starts again from a summary is stored once. A request names the last message
that was sent; the messages before it are the way up to the root.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

from lamina.messages import Block, Json, Message, Usage, as_list
from lamina.replay.files import Lines, Unreadable

MOST_COMPLAINTS = 200  # beyond that only their number is kept
SECONDS_APART = 10.0  # between requests of a recording without times
CLOCK_SLACK = 60.0  # smaller steps back are the normal order of parallel lines
_MILLISECONDS = 1e11  # larger numbers are no seconds: that would be the year 5138


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
        user asked for the compaction, the request says so: whoever keeps the context obeys."""
        compacted: set[str] = set()
        messages: list[RecordedMessage] = []
        for entry in self.messages:
            parent = self._told_in_full(entry.parent)
            depth = messages[parent].depth + 1 if parent >= 0 else 1
            messages.append(replace(entry, parent=parent, depth=depth, summary=False))
        requests: list[RecordedRequest] = []
        for step in self.steps():
            request, asked = step.request, step.compacted and self.messages[step.new[0]].asked
            compacted |= {request.thread} if step.compacted else set()
            usage = None if request.thread in compacted else request.usage
            tail = self._told_in_full(request.tail)
            requests.append(replace(request, tail=tail, usage=usage, compact=asked))
        return replace(self, messages=messages, requests=requests)

    def _told_in_full(self, index: int) -> int:
        """The message that stands there, or the last that the summary there stands for."""
        while index >= 0 and self.messages[index].summary:
            index = self.messages[index].after
        return index


# ---- one in the making


@dataclass(slots=True)
class Builder:
    """One recording in the making."""

    file: str
    format: str
    messages: list[RecordedMessage] = field(default_factory=list[RecordedMessage])
    requests: list[RecordedRequest] = field(default_factory=list[RecordedRequest])
    skipped: list[SkippedPart] = field(default_factory=list[SkippedPart])
    frames: list[Frame] = field(default_factory=lambda: [Frame()])
    timed: bool = False  # whether any entry brought a time of its own
    reported: Usage | None = None
    _unlisted: int = 0
    _clock: dict[str, float] = field(default_factory=dict[str, float])
    _kinds: dict[str, int] = field(default_factory=dict[str, int])

    def skip(self, where: str, reason: str) -> None:
        if len(self.skipped) < MOST_COMPLAINTS:
            self.skipped.append(SkippedPart(where, reason))
        else:
            self._unlisted += 1

    def readable(self, lines: Lines, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """(where, value) of each line; those without a value are complaints."""
        for number, value in lines:
            where = f"{prefix}line {number}"
            if isinstance(value, Unreadable):
                self.skip(where, value.reason)
            else:
                yield where, value

    def unknown_kind(self, where: str, kind: str) -> None:
        """A kind of entry that nobody knows is reported once, with its number at the end."""
        if kind not in self._kinds:
            self.skip(where, f"unknown kind {kind[:60]!r}")
        self._kinds[kind] = self._kinds.get(kind, 0) + 1

    def frame(self, system: Sequence[Block], tools: Sequence[Json] = ()) -> int:
        """The number of this frame; equal ones are kept once."""
        wanted = Frame(tuple(system), tuple(tools))
        if wanted not in self.frames:
            self.frames.append(wanted)
        return self.frames.index(wanted)

    def add(self, role: str, content: list[Block], parent: int, time: float, **summary: Any) -> int:
        """`summary`: what else a `RecordedMessage` that stands for others says."""
        depth = self.messages[parent].depth + 1 if parent >= 0 else 1
        message: Message = {"role": role, "content": content}
        self.messages.append(RecordedMessage(message, parent, depth, time, **summary))
        return len(self.messages) - 1

    def request(self, where: str, request: RecordedRequest) -> None:
        """Book a request; its time never lies before that of the last one in its thread."""
        last = self._clock.get(request.thread, 0.0)
        if request.time < last:
            if request.time < last - CLOCK_SLACK:
                back = round(last - request.time)
                self.skip(where, f"the clock goes back {back} s here; the time before is kept")
            request = replace(request, time=last)
        self._clock[request.thread] = request.time
        self.requests.append(request)

    def finish(self) -> Recording:
        for kind, count in self._kinds.items():
            if count > 1:
                self.skip("whole file", f"{count} entries of the unknown kind {kind[:60]!r}")
        if self._unlisted:
            more = f"{self._unlisted} more places not listed"
            self.skipped.append(SkippedPart("whole file", more))
        requests = sorted(self.requests, key=lambda request: request.time)
        said = (self.file, self.format, self.messages, requests)
        return Recording(*said, self.skipped, self.frames, self.timed, self.reported)


def as_blocks(content: object) -> list[Block] | None:
    """A message's content in block form; None if it is neither text nor a list of blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    parts = as_list(content)
    whole = isinstance(content, list) and all(isinstance(part, dict) for part in parts)
    return cast("list[Block]", parts) if whole else None


def moment_of(value: object) -> float:
    """A recorded time in seconds since 1970, from ISO form (UTC where it names no zone) or a number
    of seconds or milliseconds; 0: none."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            return max(0.0, zoned.timestamp())
        except (ValueError, OverflowError):
            return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e14:
        return 0.0
    return value / 1000 if value >= _MILLISECONDS else float(value)
