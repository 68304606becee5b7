"""What models behind an HTTP API share: a client made at the first call, and what it means when one is
refused or breaks off: for good, for now, or a prompt that is too long; with the sentence for the user,
in which no key ever appears. What fails for now is tried again with growing, jittered pauses, at the
server's pace where it names one. Clock and chance come in as arguments; every pause is an event. Both
official packages name their exceptions alike.
"""

from __future__ import annotations

import inspect
import random
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast

import anyio.to_thread
import msgspec

from lamina.errors import BadResponse, ModelConfigError, ModelError, ModelUnreachable, PromptTooLong
from lamina.events import Emit, Event, Retrying, StreamRestarted, TextDelta, ThinkingDelta
from lamina.ledger.tokens import bare_name, no_long_window
from lamina.machine import SystemClock, read_json, write_private
from lamina.messages import Json, Request, Response
from lamina.ports import Capabilities, Clock

if TYPE_CHECKING:
    import httpx2

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


def for_call(create: Callable[..., Any], params: Mapping[str, Any]) -> Json:
    """Parameters as a package's function takes them: what it does not name goes into the body."""
    named = inspect.signature(create).parameters
    call = {name: value for name, value in params.items() if name in named}
    extra = {name: value for name, value in params.items() if name not in named}
    return {**call, "extra_body": extra} if extra else call


def tool_input(given: str, name: str, *, cut_off: bool) -> Json | None:
    """What was streamed for a call. None: the answer was cut off in it, and half a call can't be run;
    the caller names it for the turn."""
    try:
        return msgspec.json.decode(given, type=dict[str, Any]) if given.strip() else {}
    except ValueError as error:
        if cut_off:
            return None
        raise Malformed(f"the input of {name} is not JSON") from error


def _within(known: Capabilities, limit: int | None) -> Capabilities:
    if not limit or limit >= known.window:
        return known
    # As with local models: of a small window, a quarter is for the answer.
    return replace(known, window=limit, max_output=min(known.max_output, limit // 4))


def _read_limits(path: Path | None) -> dict[str, int]:
    """Windows by model and address."""
    return (read_json(path, dict[str, int]) if path else None) or {}


class Client(Protocol):
    @property
    def base_url(self) -> httpx2.URL: ...
    def close(self) -> Awaitable[None]: ...


C = TypeVar("C", bound=Client)


class RemoteModel(ABC, Generic[C]):
    package: ClassVar[str]
    family: ClassVar[str]  # the package's own exception, from which all others derive
    key_variable: ClassVar[str]
    url_variable: ClassVar[str]

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
            # In a thread: loading a package takes long enough to freeze a screen.
            self._client = await anyio.to_thread.run_sync(self._connect)
        client = self._client
        place = self._place(client, bare_name(request.model or self.name))
        check_address(place)
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
    def _provider(self, client: C) -> str: ...

    def _place(self, client: C, model: str = "") -> Place:
        known = self._provider(client), client.base_url, model
        return Place(*known, self.key_variable, self.url_variable)

    @abstractmethod
    def _body(self, client: C, request: Request, emit: Emit) -> Json:
        """The arguments of the call; `emit` for what the user should know before it."""

    @abstractmethod
    async def _stream(self, client: C, call: Json, emit: Emit) -> Response: ...

    @asynccontextmanager
    async def _translated(self, place: Place) -> AsyncGenerator[None]:
        import httpx2

        package: Any = import_module(self.package)
        now = self._clock.now()
        try:
            yield
        except package.APIStatusError as error:
            headers = {name.lower(): value for name, value in error.response.headers.items()}
            raise refusal(place, error.status_code, error.body, headers, now) from error
        except ErrorInStream as error:
            raise refusal(place, 200, error.body, error.headers, now) from error
        except (package.APITimeoutError, httpx2.TimeoutException) as error:
            if while_connecting(error):
                raise passing(place, "unreached", "no answer") from error
            raise passing(place, "silent", f"{self._timeout:g}") from error
        except package.APIConnectionError as error:
            fault: Kind = "unreached" if while_connecting(error) else "broken off"
            cause = (str(error.__cause__ or "") or str(error)).rstrip(".")
            raise passing(place, fault, cause or "no connection") from error
        except (BrokenOff, httpx2.TransportError) as error:
            raise passing(place, "broken off", "the connection closed") from error
        except (Malformed, package.APIResponseValidationError) as error:
            raise passing(place, "malformed", str(error)) from error
        except ValueError as error:
            raise passing(place, "malformed", "a chunk is not JSON") from error
        except package.APIError as error:  # OpenAI's package raises it inside a stream
            raise refusal(place, 200, error.body or str(error), {}, now) from error
        except getattr(package, self.family) as error:
            raise ModelError(f"The package {self.package} gave up ({error}).") from error


# ---- what a refusal means


@dataclass(frozen=True, slots=True)
class Place:
    """Whom we talk to, for sentences."""

    provider: str  # Anthropic, OpenAI
    url: httpx2.URL
    model: str
    key_variable: str
    url_variable: str


_BUSY = {408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529}
_BUSY_TYPES = {"overloaded_error", "api_error", "rate_limit_error", "timeout_error", "server_error"}
_NO_MONEY = {"billing_error", "insufficient_quota", "enforced_spend_limit_reached"}

_TOO_LONG = (
    r"prompt is too long(?:: (?P<sent>\d+) tokens > (?P<limit>\d+) maximum)?",
    r"exceed context limit: (?P<sent>\d+) \+ (?P<extra>\d+) > (?P<limit>\d+)",
    r"maximum context length is (?P<limit>\d+) tokens.*?(?:resulted in|requested) (?P<sent>\d+)",
    r"request \((?P<sent>\d+) tokens\) exceeds the available context size \((?P<limit>\d+)",
    r"maximum context length|context[_ ](?:length|window)[_ ]exceeded",
    r"exceeds? the (?:model's |available )?(?:maximum )?context",
    r"input exceeds the context window|too many (?:input )?tokens",
)


def too_long(message: str) -> PromptTooLong | None:
    """The error of a prompt that doesn't fit, with the gap where the message names it."""
    for pattern in _TOO_LONG:
        if match := re.search(pattern, message, re.IGNORECASE | re.DOTALL):
            numbers = {name: int(value) for name, value in match.groupdict().items() if value}
            sent, limit = numbers.get("sent", 0) + numbers.get("extra", 0), numbers.get("limit")
            gap = sent - limit if limit and sent > limit else None
            sizes = f" by {gap:,} tokens" if gap else ""
            said = f"The prompt is longer than the model's window{sizes}; compact the session."
            return PromptTooLong(said, gap, limit)
    return None


def refusal(
    place: Place, status: int, body: object, headers: Mapping[str, str], now: float
) -> Exception:
    """The exception for an HTTP error or an error inside a stream (`status` 200)."""
    kind, code, message = read_error(body)
    if status in (400, 413, 422, 200) and (long := too_long(f"{message} {code}")):
        return long
    if status == 413 or kind == "request_too_large":
        return PromptTooLong(f"{place.provider} says that the request is too large (413).")
    if status == 402 or {kind, code} & _NO_MONEY:
        return ModelConfigError(
            f"{place.provider} refuses the call for lack of credit: {_short(message)}"
        )
    if status in (401, 403) or kind in ("authentication_error", "permission_error"):
        return _wrong_key(place, status)
    if status == 404 or kind == "not_found_error" or code == "model_not_found":
        return ModelConfigError(
            f"{place.url.host} has no model {place.model!r} (404): check the model's name"
            f" and {place.url_variable}."
        )
    may_retry = headers.get("x-should-retry", "").lower() != "false"
    if may_retry and (status in _BUSY or status >= 500 or kind in _BUSY_TYPES):
        return _busy(place, status, kind, headers, now)
    number = f" ({status})" if status != 200 else ""
    return ModelError(f"{place.provider} rejected the request{number}: {_short(message)}")


# What may pass, by kind: in a few words, and the sentence for the user if it does not.
_FAULTS: dict[Kind, tuple[str, str]] = {
    "unreached": (
        "{address} can't be reached ({cause})",
        "{who} can't be reached at {address} ({cause}): check the network and {variable}",
    ),
    "silent": (
        "{host} sent nothing for {cause} s",
        "{who} at {host} sent nothing for {cause} seconds: try again later",
    ),
    "broken off": (
        "the answer broke off ({cause})",
        "{who} at {host} broke off its answer ({cause}): try again later",
    ),
    "malformed": (
        "the answer can't be read ({cause})",
        "{host} sent an answer that can't be read ({cause}): check that it speaks {who}'s protocol",
    ),
    "busy": (
        "{who} answered: {cause}",
        "{who} at {host} can't serve the call now ({cause}): try again later",
    ),
}


def passing(place: Place, kind: Kind, cause: str, retry_after: float | None = None) -> Passing:
    told = {"who": place.provider, "host": place.url.host, "variable": place.url_variable}
    address = place.url.netloc.decode("ascii", "replace")
    reason, sentence = (one.format(cause=cause, address=address, **told) for one in _FAULTS[kind])
    return Passing(kind, reason, sentence, retry_after=retry_after)


def check_address(place: Place) -> None:
    """Where the address itself is wrong, trying it again would not help."""
    if place.url.scheme not in ("http", "https") or not place.url.host:
        raise ModelConfigError(
            f"{str(place.url)!r} is not the address of an API: set {place.url_variable} to one that"
            " begins with https:// or http://."
        )


def missing_key(place: Place) -> ModelConfigError:
    return ModelConfigError(
        f"There is no key for {place.provider}: set {place.key_variable}, or choose another model"
        " with --model."
    )


def read_error(body: object) -> tuple[str, str, str]:
    """(type, code, message) of an error body in either provider's form."""
    if not isinstance(body, Mapping):
        return "", "", str(body or "")
    outer = cast("Mapping[str, Any]", body)
    inner: Any = outer.get("error", outer)
    if not isinstance(inner, Mapping):
        return "", "", str(inner)
    error = cast("Mapping[str, Any]", inner)
    details: Any = error.get("details")
    code: Any = error.get("code")
    if isinstance(details, Mapping):
        code = cast("Mapping[str, Any]", details).get("error_code") or code
    return str(error.get("type") or ""), str(code or ""), str(error.get("message") or "")


def _wrong_key(place: Place, status: int) -> ModelConfigError:
    if status == 403:
        return ModelConfigError(
            f"The key for {place.provider} may not use {place.model!r} at {place.url.host} (403):"
            f" check {place.key_variable} and what it is allowed."
        )
    return ModelConfigError(
        f"{place.provider} at {place.url.host} refused the key (401): check {place.key_variable}."
    )


def _busy(place: Place, status: int, kind: str, headers: Mapping[str, str], now: float) -> Passing:
    what = {429: "too many requests", 529: "overloaded"}.get(status)
    if what is None:
        what = kind.removesuffix("_error").replace("_", " ") if kind else f"error {status}"
    return passing(place, "busy", what, retry_after(headers, now))


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the server asks us to wait: `retry-after-ms`, seconds, or a date."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return max(0.0, float(milliseconds) / 1000)
        value = headers.get("retry-after", "").strip()
        if not value:
            return None
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value)
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except ValueError:
        return None


def _short(message: str) -> str:
    line = " ".join(message.split()) or "no reason was given"
    line = re.sub(r"\b(sk|key)-[\w*-]{6,}", "…", line)
    return line if len(line) <= 300 else line[:297] + "…"


def while_connecting(error: BaseException) -> bool:
    """Did it fail before a connection stood? Both packages use httpx2."""
    import httpx2

    reaching = httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout
    return isinstance(error.__cause__ or error, reaching)


# ---- trying again

T = TypeVar("T")

# Why a call failed for now.
Kind = Literal["unreached", "busy", "silent", "broken off", "malformed"]


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
    failures: Counter[Kind] = Counter()
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
            total = failures.total()
            asked = failure.retry_after
            if (
                failures[failure.kind] > policy.tries(failure.kind)
                or total > policy.retries
                or (asked is not None and asked > policy.longest_asked)
            ):
                often = f" (tried {total} times)" if total > 1 else ""
                kind = BadResponse if failure.kind == "malformed" else ModelUnreachable
                raise kind(f"{failure.sentence}{often}.") from failure
            delay = policy.delay(total, asked, chance())
            if streamed:
                emit(StreamRestarted(failure.reason))
            emit(Retrying(total, delay, failure.reason))
            await clock.sleep(delay)
