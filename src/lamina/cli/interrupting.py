"""Ctrl-C in a conversation stops what is being done, not the program. Touches the signal's handler."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from lamina.errors import alone


@asynccontextmanager
async def on_ctrl_c(stop: Callable[[], object]) -> AsyncGenerator[None]:
    """Inside, Ctrl-C calls `stop`. What goes wrong inside comes out as it was raised."""
    try:
        async with anyio.create_task_group() as group:
            with anyio.open_signal_receiver(signal.SIGINT) as signals:

                async def listen() -> None:
                    async for _ in signals:
                        stop()

                group.start_soon(listen)
                yield
                group.cancel_scope.cancel()
    except BaseExceptionGroup as error:
        raise alone(error) from None
