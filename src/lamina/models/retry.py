"""Trying again: what fails for now is tried with growing, jittered pauses, at the server's pace where
it names one. Clock and chance come in as arguments; every pause is an event.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from lamina.errors import BadResponse, ModelUnreachable
from lamina.events import Emit, Event, Retrying, StreamRestarted, TextDelta, ThinkingDelta
from lamina.ports import Clock

T = TypeVar("T")

# Why a call failed for now: it never reached the host, the host was busy or went silent, or the
# answer broke the wire format.
Kind = Literal["unreached", "busy", "malformed"]


class Passing(Exception):
    """A call failed in a way that may pass. `sentence` is for the user if it doesn't."""

    def __init__(
        self, kind: Kind, reason: str, sentence: str, *, retry_after: float | None = None
    ) -> None:
        super().__init__(reason)
        self.kind: Kind = kind
        self.reason = reason
        self.sentence = sentence
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Policy:
    """How often and how long. A host that can't be reached at all is given up sooner."""

    retries: int = 8
    retries_unreached: int = 3
    retries_malformed: int = 1
    first: float = 0.5
    longest: float = 32.0
    longest_asked: float = 300.0  # a server that asks for more than this is given up

    def tries(self, kind: Kind) -> int:
        limits = {"unreached": self.retries_unreached, "malformed": self.retries_malformed}
        return min(self.retries, limits.get(kind, self.retries))

    def delay(self, attempt: int, asked: float | None, chance: float) -> float:
        """Seconds before try `attempt` + 1; `chance` in [0, 1) spreads clients apart."""
        own = min(self.longest, self.first * 2.0 ** (attempt - 1)) * (0.5 + chance / 2)
        return own if asked is None else max(own, asked)


async def with_retries(
    attempt: Callable[[Emit], Awaitable[T]],
    emit: Emit,
    *,
    policy: Policy,
    clock: Clock,
    chance: Callable[[], float],
) -> T:
    """Run `attempt` until it succeeds, fails for good, or has been tried often enough."""
    failures: dict[Kind, int] = {"unreached": 0, "busy": 0, "malformed": 0}
    while True:
        streamed = False

        def listen(event: Event) -> None:
            nonlocal streamed
            streamed = streamed or isinstance(event, TextDelta | ThinkingDelta)
            emit(event)

        try:
            return await attempt(listen)
        except Passing as failure:
            failures[failure.kind] += 1
            total = sum(failures.values())
            asked = failure.retry_after
            if (
                failures[failure.kind] > policy.tries(failure.kind)
                or total > policy.retries
                or (asked is not None and asked > policy.longest_asked)
            ):
                raise _given_up(failure, total) from failure
            delay = policy.delay(total, asked, chance())
            if streamed:
                emit(StreamRestarted(failure.reason))
            emit(Retrying(total, delay, failure.reason))
            await clock.sleep(delay)


def _given_up(failure: Passing, tries: int) -> Exception:
    often = f" (tried {tries} times)" if tries > 1 else ""
    kind = BadResponse if failure.kind == "malformed" else ModelUnreachable
    return kind(f"{failure.sentence}{often}.")
