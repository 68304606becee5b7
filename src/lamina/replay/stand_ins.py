"""What stands behind the doors of a replayed session: a clock that follows the recording, a model that is
never asked, hooks and tools that do nothing, background work that is done before the next request.
Touches nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from lamina.errors import ModelConfigError
from lamina.events import Emit, Event
from lamina.messages import Json, Request, Response
from lamina.ports import Capabilities, Decision, HookName, HookResult


class RecordedClock:
    """Stands where the recording is; never goes back."""

    def __init__(self) -> None:
        self._at = 0.0

    def move(self, at: float) -> None:
        self._at = max(self._at, min(at, 4e9))

    def now(self) -> float:
        return self._at

    def monotonic(self) -> float:
        return self._at

    async def sleep(self, seconds: float) -> None:
        self._at += seconds


class NoModel:
    """Has the replayed model's limits and is never asked: layers work locally."""

    name = "none"

    def __init__(self, able: Capabilities) -> None:
        self._able = able
        self.life = able.cache_ttl

    @property
    def capabilities(self) -> Capabilities:
        if self._able.cache_ttl != self.life:
            self._able = replace(self._able, cache_ttl=self.life)
        return self._able

    async def complete(self, request: Request, emit: Emit) -> Response:  # noqa: ARG002
        raise ModelConfigError("A replay asks no model.")

    async def close(self) -> None:
        return None


class NoHooks:
    async def run(self, hook: HookName, payload: Json, *, match: str = "") -> HookResult:  # noqa: ARG002
        return HookResult()


@dataclass(slots=True)
class Waiting:
    """Background work of one round, done before the next request."""

    work: Callable[[], Awaitable[None]] | None = None

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> bool:  # noqa: ARG002
        self.work = work
        return True

    def running(self) -> Sequence[str]:
        return ()

    async def drain(self, seconds: float) -> Sequence[str]:  # noqa: ARG002
        return ()

    async def finish(self) -> None:
        work, self.work = self.work, None
        if work is not None:
            await work()


def unheard(event: Event) -> None:  # noqa: ARG001
    return


async def permit_nothing(spec: object, input: Json, context: object) -> Decision:  # noqa: A002, ARG001
    return Decision(allow=False, reason="a replay runs no tools")
