"""Work beside the turn: one task a name at a time, drained when the session ends.

Touches nothing itself. A task that fails is booked as an event; what can't finish in time is
cancelled and named, so that the next open can run it again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import anyio

from lamina.events import BackgroundChanged, Emit

if TYPE_CHECKING:
    from anyio.abc import TaskGroup


class Tasks:
    """The session's background, in its own task group."""

    def __init__(self, group: TaskGroup, emit: Emit) -> None:
        self._group = group
        self._emit = emit
        self._running: dict[str, anyio.CancelScope] = {}
        self._idle = anyio.Event()
        self._closed = False

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> bool:
        if name in self._running or self._closed:
            return False
        scope = anyio.CancelScope()
        self._running[name] = scope
        self._emit(BackgroundChanged(name, "started"))
        self._group.start_soon(self._run, name, work, scope)
        return True

    async def _run(
        self, name: str, work: Callable[[], Awaitable[None]], scope: anyio.CancelScope
    ) -> None:
        state, detail = "done", ""
        try:
            with scope:
                await work()
            if scope.cancelled_caught:
                state = "cancelled"
        except Exception as error:  # noqa: BLE001 - the edge of a background task
            state, detail = "failed", f"{type(error).__name__}: {error}"[:500]
        finally:
            self._running.pop(name, None)
            if not self._running:
                self._idle.set()
                self._idle = anyio.Event()
        self._emit(BackgroundChanged(name, state, detail))

    def running(self) -> Sequence[str]:
        return tuple(self._running)

    def cancel(self, name: str) -> bool:
        scope = self._running.get(name)
        if scope is not None:
            scope.cancel()
        return scope is not None

    async def drain(self, seconds: float) -> Sequence[str]:
        self._closed = True
        with anyio.move_on_after(seconds):
            while self._running:
                await self._idle.wait()
        left = tuple(self._running)
        for name in left:
            self.cancel(name)
            self._emit(BackgroundChanged(name, "deferred"))
        return left
