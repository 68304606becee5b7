"""Any endpoint that speaks OpenAI's chat completions, through the official package: streaming, tool
calls, cached tokens. It talks to one host and touches nothing else; the package loads at the first
call.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from lamina.errors import ModelError
from lamina.events import Emit
from lamina.ledger.window import bare_name, capabilities
from lamina.messages import Json, Request, Response
from lamina.models import faults
from lamina.models.chat_format import chat_messages, chat_tools
from lamina.models.connection import Connection
from lamina.models.openai_stream import ChatAssembly, Malformed
from lamina.models.retry import Policy, SystemClock, with_retries
from lamina.ports import Capabilities, Clock

if TYPE_CHECKING:
    import httpx2
    import openai

_CONNECT_SECONDS = 10.0
_OFFICIAL_HOST = "api.openai.com"
_NO_KEY = "none"

# Parameters of Anthropic's API that have no meaning here.
_FOREIGN = frozenset({"thinking", "context_management", "compaction", "betas", "output_config"})


class OpenAIModel:
    """`openai:NAME`, at OpenAI or wherever `base_url` or OPENAI_BASE_URL points."""

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 300.0,
        retries: int | None = None,
        window: int | None = None,
        max_output: int | None = None,
        cache_key: str | None = None,
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self._name = f"openai:{name}"
        self._key, self._url, self._headers = api_key, base_url, dict(headers or {})
        self._timeout = timeout
        self._policy = Policy() if retries is None else Policy(retries=retries)
        self._cache_key = cache_key
        self._clock: Clock = clock or SystemClock()
        self._chance = chance or random.Random()  # noqa: S311 - jitter, not a secret
        known = capabilities(self._name, override=window)
        self._capabilities = replace(known, max_output=max_output or known.max_output)
        self._connection = Connection(self._connect)

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    async def complete(self, request: Request, emit: Emit) -> Response:
        client = await self._connection.client()
        place = self._place(client, request)
        call = self._body(client, request)

        async def attempt(listen: Emit) -> Response:
            async with self._translated(place):
                return await self._stream(client, call, listen)

        return await with_retries(
            attempt, emit, policy=self._policy, clock=self._clock, chance=self._chance.random
        )

    async def close(self) -> None:
        await self._connection.close()

    # ---- the request

    def _body(self, client: openai.AsyncOpenAI, request: Request) -> Json:
        official = client.base_url.host == _OFFICIAL_HOST
        call: Json = {
            "model": bare_name(request.model or self._name),
            "messages": chat_messages(request.system, request.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            call["tools"] = chat_tools(request.tools)
        if request.max_tokens:
            # OpenAI renamed the limit; most compatible servers know the old name only.
            call["max_completion_tokens" if official else "max_tokens"] = request.max_tokens
        if self._cache_key:
            call["prompt_cache_key"] = self._cache_key
        known = inspect.signature(client.chat.completions.create).parameters
        extra: Json = {}
        for name, value in request.params.items():
            if name == "previous_message_id" or name in _FOREIGN:
                continue
            (call if name in known else extra)[name] = value
        if extra:
            call["extra_body"] = extra
        return call

    # ---- the wire

    def _connect(self) -> openai.AsyncOpenAI:
        import openai

        try:
            client = self._made_with(self._key)
        except openai.OpenAIError as error:
            # A server of one's own often needs no key, but the package wants one.
            client = self._made_with(_NO_KEY)
            if client.base_url.host == _OFFICIAL_HOST:
                raise faults.missing_key(_place(client.base_url, "")) from error
        if wrong := faults.no_address(_place(client.base_url, "")):
            raise wrong
        return client

    def _made_with(self, key: str | None) -> openai.AsyncOpenAI:
        import openai

        return openai.AsyncOpenAI(
            api_key=key,
            base_url=self._url,
            default_headers=self._headers,
            max_retries=0,  # retries are ours: they are events, and their clock is passed in
            timeout=openai.Timeout(self._timeout, connect=_CONNECT_SECONDS),
        )

    async def _stream(self, client: openai.AsyncOpenAI, call: Json, emit: Emit) -> Response:
        assembly = ChatAssembly(emit)
        create = cast("Any", client.chat.completions.create)
        async with await create(**call) as stream:
            async for chunk in stream:
                assembly.take(chunk.to_dict(mode="json", warnings=False))
        if not assembly.finished:
            raise _BrokenOff
        return assembly.response()

    @asynccontextmanager
    async def _translated(self, place: faults.Place) -> AsyncGenerator[None]:
        """The package's exceptions become ours."""
        import httpx2
        import openai

        now = self._clock.now()
        try:
            yield
        except openai.APIStatusError as error:
            headers = {name.lower(): value for name, value in error.response.headers.items()}
            raise faults.refusal(place, error.status_code, error.body, headers, now) from error
        except (openai.APITimeoutError, httpx2.TimeoutException) as error:
            if faults.while_connecting(error):
                raise faults.unreached(place, "no answer") from error
            raise faults.silent(place, self._timeout) from error
        except openai.APIConnectionError as error:
            fault = faults.unreached if faults.while_connecting(error) else faults.broken_off
            raise fault(place, faults.cause_of(error)) from error
        except (_BrokenOff, httpx2.TransportError) as error:
            raise faults.broken_off(place) from error
        except (Malformed, openai.APIResponseValidationError, ValueError) as error:
            cause = str(error) if isinstance(error, Malformed) else "a chunk is not JSON"
            raise faults.malformed(place, cause) from error
        except openai.APIError as error:  # an error inside the stream
            raise faults.refusal(place, 200, error.body or str(error), {}, now) from error
        except openai.OpenAIError as error:
            raise ModelError(f"OpenAI's package gave up ({error}).") from error

    def _place(self, client: openai.AsyncOpenAI, request: Request) -> faults.Place:
        return _place(client.base_url, bare_name(request.model or self._name))


class _BrokenOff(Exception):
    """The stream ended before the message did."""


def _place(url: httpx2.URL, model: str) -> faults.Place:
    return faults.Place(
        provider="OpenAI" if url.host == _OFFICIAL_HOST else "The endpoint",
        url=url,
        model=model,
        key_variable="OPENAI_API_KEY",
        url_variable="OPENAI_BASE_URL",
    )
