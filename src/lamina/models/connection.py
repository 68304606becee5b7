"""A provider's client, made when it is first needed and closed with the model. Touches what the
given function touches: importing a provider's package takes a second or more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar


class Closes(Protocol):
    def close(self) -> Awaitable[None]: ...


C = TypeVar("C", bound=Closes)


class Connection(Generic[C]):
    def __init__(self, connect: Callable[[], C]) -> None:
        self._connect = connect
        self._client: C | None = None

    async def client(self) -> C:
        if self._client is None:
            import anyio.to_thread

            self._client = await anyio.to_thread.run_sync(self._connect)  # no screen freezes
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
