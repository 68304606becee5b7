"""What models behind an HTTP API share: a client made at the first call, retries, and the exceptions
of the official packages turned into ours. Both packages name theirs alike.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from lamina.errors import ModelError
from lamina.events import Emit
from lamina.ledger.window import bare_name
from lamina.messages import Json, Request, Response
from lamina.models import faults
from lamina.models.retry import Policy, with_retries
from lamina.ports import Capabilities, Clock, SystemClock

CONNECT_SECONDS = 10.0


class Malformed(ValueError):
    """What was streamed doesn't make a message."""


class BrokenOff(Exception):
    """The stream ended before the message did."""


class ErrorInStream(Exception):
    def __init__(self, body: Json, headers: Mapping[str, str]) -> None:
        super().__init__("an error event")
        self.body = body
        self.headers = headers


class Closes(Protocol):
    def close(self) -> Awaitable[None]: ...


C = TypeVar("C", bound=Closes)


class RemoteModel(ABC, Generic[C]):
    package: ClassVar[str]
    family: ClassVar[str]  # the package's own exception, from which all others derive

    def __init__(
        self,
        name: str,
        known: Capabilities,
        *,
        api_key: str | None,
        base_url: str | None,
        headers: Mapping[str, str] | None,
        timeout: float,
        retries: int | None,
        clock: Clock | None,
        chance: random.Random | None,
    ) -> None:
        self._name = name
        self._capabilities = known
        self._key, self._url, self._headers = api_key, base_url, dict(headers or {})
        self._timeout = timeout
        self._policy = Policy() if retries is None else Policy(retries=retries)
        self._clock: Clock = clock or SystemClock()
        self._chance = chance or random.Random()  # noqa: S311 - jitter, not a secret
        self._client: C | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    async def complete(self, request: Request, emit: Emit) -> Response:
        if self._client is None:
            import anyio.to_thread

            # In a thread: loading a package takes long enough to freeze a screen.
            self._client = await anyio.to_thread.run_sync(self._connect)
        client = self._client
        place = self._place(client, bare_name(request.model or self._name))
        call = self._body(client, request, emit)

        async def attempt(listen: Emit) -> Response:
            async with self._translated(place):
                return await self._stream(client, call, listen)

        return await with_retries(
            attempt, emit, policy=self._policy, clock=self._clock, chance=self._chance.random
        )

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @abstractmethod
    def _connect(self) -> C:
        """The package's client. Raises ModelConfigError."""

    @abstractmethod
    def _place(self, client: C, model: str) -> faults.Place: ...

    @abstractmethod
    def _body(self, client: C, request: Request, emit: Emit) -> Json:
        """The arguments of the call; `emit` for what the user should know before it."""

    @abstractmethod
    async def _stream(self, client: C, call: Json, emit: Emit) -> Response: ...

    @asynccontextmanager
    async def _translated(self, place: faults.Place) -> AsyncGenerator[None]:
        import httpx2

        package: Any = import_module(self.package)
        now = self._clock.now()
        try:
            yield
        except package.APIStatusError as error:
            headers = {name.lower(): value for name, value in error.response.headers.items()}
            raise faults.refusal(place, error.status_code, error.body, headers, now) from error
        except ErrorInStream as error:
            raise faults.refusal(place, 200, error.body, error.headers, now) from error
        except (package.APITimeoutError, httpx2.TimeoutException) as error:
            if faults.while_connecting(error):
                raise faults.unreached(place, "no answer") from error
            raise faults.silent(place, self._timeout) from error
        except package.APIConnectionError as error:
            fault = faults.unreached if faults.while_connecting(error) else faults.broken_off
            raise fault(place, faults.cause_of(error)) from error
        except (BrokenOff, httpx2.TransportError) as error:
            raise faults.broken_off(place) from error
        except (Malformed, package.APIResponseValidationError) as error:
            raise faults.malformed(place, str(error)) from error
        except ValueError as error:
            raise faults.malformed(place, "a chunk is not JSON") from error
        except package.APIError as error:  # OpenAI's package raises it inside a stream
            raise faults.refusal(place, 200, error.body or str(error), {}, now) from error
        except getattr(package, self.family) as error:
            raise ModelError(f"The package {self.package} gave up ({error}).") from error
