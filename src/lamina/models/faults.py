"""What a provider's refusal means: for good, for now, or a prompt that is too long; with the sentence for
the user, in which no key ever appears. And trying again: what fails for now is tried with growing,
jittered pauses, at the server's pace where it names one. Clock and chance come in as arguments; every
pause is an event.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from lamina.errors import BadResponse, ModelConfigError, ModelError, ModelUnreachable, PromptTooLong
from lamina.events import Emit, Event, Retrying, StreamRestarted, TextDelta, ThinkingDelta
from lamina.ports import Clock

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True, slots=True)
class Place:
    """Whom we talk to, for sentences."""

    provider: str  # Anthropic, OpenAI
    url: httpx2.URL
    model: str
    key_variable: str
    url_variable: str

    @property
    def host(self) -> str:
        return self.url.host


_BUSY = {408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529}
_BUSY_TYPES = {"overloaded_error", "api_error", "rate_limit_error", "timeout_error", "server_error"}
_NO_MONEY = {"billing_error", "insufficient_quota", "enforced_spend_limit_reached"}

_TOO_LONG = (
    re.compile(
        r"prompt is too long(?:: (?P<sent>\d+) tokens > (?P<limit>\d+) maximum)?", re.IGNORECASE
    ),
    re.compile(
        r"exceed context limit: (?P<sent>\d+) \+ (?P<extra>\d+) > (?P<limit>\d+)", re.IGNORECASE
    ),
    re.compile(
        r"maximum context length is (?P<limit>\d+) tokens.*?"
        r"(?:resulted in|requested|you requested) (?P<sent>\d+) tokens",
        re.IGNORECASE | re.DOTALL,
    ),
    re.compile(
        r"request \((?P<sent>\d+) tokens\) exceeds the available context size \((?P<limit>\d+)",
        re.IGNORECASE,
    ),
    re.compile(r"maximum context length|context[_ ](?:length|window)[_ ]exceeded", re.IGNORECASE),
    re.compile(r"exceeds? the (?:model's |available )?(?:maximum )?context", re.IGNORECASE),
    re.compile(r"input exceeds the context window|too many (?:input )?tokens", re.IGNORECASE),
)


def too_long(message: str) -> PromptTooLong | None:
    """The error of a prompt that doesn't fit, with the gap where the message names it."""
    for pattern in _TOO_LONG:
        if match := pattern.search(message):
            numbers = {name: int(value) for name, value in match.groupdict().items() if value}
            gap = None
            if "sent" in numbers and "limit" in numbers:
                gap = numbers["sent"] + numbers.get("extra", 0) - numbers["limit"]
            sizes = f" by {gap:,} tokens" if gap and gap > 0 else ""
            return PromptTooLong(
                f"The prompt is longer than the model's window{sizes}; compact the session.",
                gap if gap and gap > 0 else None,
                numbers.get("limit"),
            )
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
            f"{place.host} has no model {place.model!r} (404): check the model's name"
            f" and {place.url_variable}."
        )
    may_retry = headers.get("x-should-retry", "").lower() != "false"
    if may_retry and (status in _BUSY or status >= 500 or kind in _BUSY_TYPES):
        return _busy(place, status, kind, headers, now)
    number = f" ({status})" if status != 200 else ""
    return ModelError(f"{place.provider} rejected the request{number}: {_short(message)}")


def unreached(place: Place, cause: str) -> Passing:
    return Passing(
        "unreached",
        f"{_address(place)} can't be reached ({cause})",
        f"{place.provider} can't be reached at {_address(place)} ({cause}): check the network"
        f" and {place.url_variable}",
    )


def _address(place: Place) -> str:
    return place.url.netloc.decode("ascii", "replace")


def no_address(place: Place) -> ModelConfigError | None:
    """What is wrong with the address itself: trying it again would not help."""
    if place.url.scheme in ("http", "https") and place.host:
        return None
    return ModelConfigError(
        f"{str(place.url)!r} is not the address of an API: set {place.url_variable} to one that begins"
        " with https:// or http://."
    )


def silent(place: Place, seconds: float) -> Passing:
    return Passing(
        "busy",
        f"{place.host} sent nothing for {seconds:g} s",
        f"{place.provider} at {place.host} sent nothing for {seconds:g} seconds: try again later",
    )


def broken_off(place: Place, cause: str = "the connection closed") -> Passing:
    return Passing(
        "busy",
        f"the answer broke off ({cause})",
        f"{place.provider} at {place.host} broke off its answer ({cause}): try again later",
    )


def malformed(place: Place, cause: str) -> Passing:
    return Passing(
        "malformed",
        f"the answer can't be read ({cause})",
        f"{place.host} sent an answer that can't be read ({cause}): check that it speaks"
        f" {place.provider}'s protocol",
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
            f"The key for {place.provider} may not use {place.model!r} at {place.host} (403):"
            f" check {place.key_variable} and what it is allowed."
        )
    return ModelConfigError(
        f"{place.provider} at {place.host} refused the key (401): check {place.key_variable}."
    )


def _busy(place: Place, status: int, kind: str, headers: Mapping[str, str], now: float) -> Passing:
    what = {429: "too many requests", 529: "overloaded"}.get(status)
    if what is None:
        what = kind.removesuffix("_error").replace("_", " ") if kind else f"error {status}"
    return Passing(
        "busy",
        f"{place.provider} answered: {what}",
        f"{place.provider} at {place.host} can't serve the call now ({what}): try again later",
        retry_after=retry_after(headers, now),
    )


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


# ---- what the transport says (both packages use httpx2)


def while_connecting(error: BaseException) -> bool:
    """Did it fail before a connection stood?"""
    import httpx2

    reaching = httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout
    return isinstance(error.__cause__ or error, reaching)


def cause_of(error: BaseException) -> str:
    cause = str(error.__cause__ or "") or str(error)
    return cause.rstrip(".") or "no connection"


# ---- trying again

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
