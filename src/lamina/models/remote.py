"""What models behind an HTTP API share: a client made at the first call, retries, and the exceptions
of the official packages turned into ours. Both packages name theirs alike.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from lamina.errors import ModelConfigError, ModelError, PromptTooLong
from lamina.events import Emit
from lamina.ledger.places import write_private
from lamina.ledger.window import bare_name, no_long_window
from lamina.messages import Json, Request, Response
from lamina.models import faults
from lamina.models.faults import Policy, with_retries
from lamina.ports import Capabilities, Clock, SystemClock

CONNECT_SECONDS = 10.0
LEAST_WINDOW = 1_000  # tokens; a smaller figure in an error is none of a window


class Malformed(ValueError):
    """What was streamed doesn't make a message."""


class BrokenOff(Exception):
    """The stream ended before the message did."""


class ErrorInStream(Exception):
    def __init__(self, body: Json, headers: Mapping[str, str]) -> None:
        super().__init__("an error event")
        self.body = body
        self.headers = headers


def _within(known: Capabilities, limit: int | None) -> Capabilities:
    if not limit or limit >= known.window:
        return known
    # As with local models: of a small window, a quarter is for the answer.
    return replace(known, window=limit, max_output=min(known.max_output, limit // 4))


def _read_limits(path: Path | None) -> dict[str, int]:
    """Windows by model and address; a file that can't be read says nothing."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, int]) if path else {}
    except (OSError, msgspec.MsgspecError):
        return {}


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
        api_key: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 300.0,
        retries: int | None = None,
        clock: Clock | None = None,
        chance: random.Random | None = None,
        limits: Path | None = None,
    ) -> None:
        if wrong := no_long_window(name):
            raise ModelConfigError(wrong)
        self.name = name
        self._limits = limits
        self._endpoint = f"{name} {base_url or ''}".strip()
        self.capabilities = _within(known, _read_limits(limits).get(self._endpoint))
        self._key, self._url, self._headers = api_key, base_url, dict(headers or {})
        self._timeout = timeout
        self._policy = Policy() if retries is None else Policy(retries=retries)
        self._clock: Clock = clock or SystemClock()
        self._chance = chance or random.Random()  # noqa: S311 - jitter, not a secret
        self._client: C | None = None

    async def complete(self, request: Request, emit: Emit) -> Response:
        if self._client is None:
            import anyio.to_thread

            # In a thread: loading a package takes long enough to freeze a screen.
            self._client = await anyio.to_thread.run_sync(self._connect)
        client = self._client
        place = self._place(client, bare_name(request.model or self.name))
        call = self._body(client, request, emit)

        async def attempt(listen: Emit) -> Response:
            async with self._translated(place):
                return await self._stream(client, call, listen)

        try:
            return await with_retries(
                attempt, emit, policy=self._policy, clock=self._clock, chance=self._chance.random
            )
        except PromptTooLong as error:
            self._learn(error.limit)
            raise

    def _learn(self, limit: int | None) -> None:
        """An endpoint named its window: that counts from now on, in later sessions too."""
        if limit is None or not LEAST_WINDOW <= limit < self.capabilities.window:
            return
        self.capabilities = _within(self.capabilities, limit)
        if self._limits is not None:
            known = {**_read_limits(self._limits), self._endpoint: limit}
            with suppress(OSError):  # not to be kept; this session knows it
                write_private(self._limits, msgspec.json.encode(known))

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
