"""Collects messages, requests and complaints while a reader goes through a file, and freezes them
into a recording. Touches nothing outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

from lamina.messages import Block, Json, Message, Usage, as_list
from lamina.replay.files import Unreadable
from lamina.replay.recording import Frame, RecordedMessage, RecordedRequest, Recording, SkippedPart

MOST_COMPLAINTS = 200  # beyond that only their number is kept
SECONDS_APART = 10.0  # between requests of a recording without times
CLOCK_SLACK = 60.0  # smaller steps back are the normal order of parallel lines
_MILLISECONDS = 1e11  # larger numbers are no seconds: that would be the year 5138


@dataclass(slots=True)
class Builder:
    """One recording in the making."""

    file: str
    format: str
    messages: list[RecordedMessage] = field(default_factory=list[RecordedMessage])
    requests: list[RecordedRequest] = field(default_factory=list[RecordedRequest])
    skipped: list[SkippedPart] = field(default_factory=list[SkippedPart])
    frames: list[Frame] = field(default_factory=lambda: [Frame()])
    reported: Usage | None = None
    _unlisted: int = 0
    _clock: dict[str, float] = field(default_factory=dict[str, float])
    _kinds: dict[str, int] = field(default_factory=dict[str, int])

    def skip(self, where: str, reason: str) -> None:
        if len(self.skipped) < MOST_COMPLAINTS:
            self.skipped.append(SkippedPart(where, reason))
        else:
            self._unlisted += 1

    def readable(
        self, lines: Iterable[tuple[int, Any | Unreadable]], prefix: str = ""
    ) -> Iterator[tuple[str, Any]]:
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

    def add(
        self,
        role: str,
        content: list[Block],
        parent: int,
        time: float = 0.0,
        *,
        summary: bool = False,
        after: int = -1,
        asked: bool = False,
    ) -> int:
        depth = self.messages[parent].depth + 1 if parent >= 0 else 1
        message: Message = {"role": role, "content": content}
        self.messages.append(RecordedMessage(message, parent, depth, time, summary, after, asked))
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

    def finish(self, *, timed: bool = True) -> Recording:
        for kind, count in self._kinds.items():
            if count > 1:
                self.skip("whole file", f"{count} entries of the unknown kind {kind[:60]!r}")
        if self._unlisted:
            self.skipped.append(
                SkippedPart("whole file", f"{self._unlisted} more places not listed")
            )
        requests = sorted(self.requests, key=lambda request: request.time)
        return Recording(
            self.file,
            self.format,
            self.messages,
            requests,
            self.skipped,
            self.frames,
            timed,
            self.reported,
        )


def as_blocks(content: object) -> list[Block] | None:
    """A message's content in block form; None if it is neither text nor a list of blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    parts = as_list(content)
    whole = isinstance(content, list) and all(isinstance(part, dict) for part in parts)
    return cast("list[Block]", parts) if whole else None


def moment_of(value: object) -> float:
    """A recorded time in seconds since 1970, from ISO form (UTC where it names no zone) or a number
    of seconds or milliseconds; 0: none.
    """
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
