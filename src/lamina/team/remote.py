"""The team's server as the client sees it: one request at a time, nothing believed unchecked.

A server may be away, refuse, or lie; each is an error of its own, and none leaves half an answer.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from lamina.errors import LaminaError, UsageError
from lamina.team.entries import LARGEST_BODY, Entry, is_name, sha256

ROUTE = "/api/team_memory"
_SECONDS = 15.0
_LARGEST_ANSWER = 20_000_000  # bytes
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class TeamAway(LaminaError):
    """Not reached, or not able to answer now: later is another chance."""


class TeamRefused(LaminaError):
    """The server said no, and why; `details` by file."""

    def __init__(self, sentence: str, details: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.details = dict(details or {})


class TeamMoved(LaminaError):
    """Somebody else wrote first."""


class TeamLies(LaminaError):
    """An answer that can't be true; nothing of it was taken."""

    def __init__(self, did: str) -> None:
        super().__init__(f"The team's server {did}. Nothing was taken.")


class _Standing(msgspec.Struct, frozen=True):
    repo: str
    etag: str
    version: int
    you: str = ""


class _Item(msgspec.Struct, frozen=True):
    author: str
    at: float
    version: int
    content: str | None = None
    sha256: str = ""
    removed: bool = False
    key: str = ""


class _Page(_Standing, frozen=True):
    entries: dict[str, _Item] = {}
    more: bool = False
    whole: bool = False


class _Versions(msgspec.Struct, frozen=True):
    versions: list[_Item]


class Member(msgspec.Struct, frozen=True):
    name: str
    writes: bool


class _Members(msgspec.Struct, frozen=True):
    members: list[Member]


class _Refusal(msgspec.Struct, frozen=True):
    error: str = ""
    details: dict[str, str] = {}


class News(NamedTuple):
    """What changed, and the state that one has after taking it."""

    etag: str
    entries: list[Entry]
    you: str
    whole: bool = False  # everything there is: the server does not know the state that was named


def checked_url(url: str) -> str:
    """The server's address as it is kept; UsageError says what is wrong with it."""
    wrong = UsageError(f"{url} is not an address. Give one such as https://team.acme.org.")
    try:
        parts = urllib.parse.urlsplit(url.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise wrong from error
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise wrong
    if parts.username or parts.password:
        raise UsageError("Leave the token out of the address: you will be asked for it.")
    if parts.scheme == "http" and host not in _LOOPBACK:
        raise UsageError(f"{url} would send your token unencrypted. Use https.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


class Remote:
    def __init__(self, url: str, repo: str, token: str) -> None:
        self._url = url
        self.repo = repo
        self._token = token
        here = urllib.parse.urlsplit(url).hostname in _LOOPBACK
        # Without the handler of redirects: a token goes to the server that the user named alone.
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler({} if here else None),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
        ):
            self._opener.add_handler(handler)

    def news(self, since: str) -> News | None:
        """What changed since that state; None if nothing did."""
        entries: dict[str, Entry] = {}
        etag, whole = since, False
        for _ in range(1_000):
            answer = self._ask("GET", {"since": etag}, etag=("If-None-Match", etag))
            if answer is None:
                break
            page = _decoded(answer, _Page)
            self._demand_ours(page)
            entries |= {key: _entry(key, item) for key, item in page.entries.items()}
            if page.etag == etag and page.more:
                raise TeamLies("repeats itself")
            etag, whole = page.etag, whole or page.whole
            if not page.more:
                return News(etag, [*entries.values()], page.you, whole)
        return News(etag, [*entries.values()], "", whole) if entries else None

    def put(self, contents: Mapping[str, str], etag: str) -> News:
        body = msgspec.json.encode(encoded(contents))
        answer = self._ask("PUT", {}, etag=("If-Match", etag), body=body)
        return self._written(answer)

    def remove(self, key: str, etag: str) -> News:
        return self._written(self._ask("DELETE", {"key": key}, etag=("If-Match", etag)))

    def history(self, key: str = "") -> list[Entry]:
        answer = self._ask("GET", {"key": key} if key else {}, "/history") or b""
        return [_entry(one.key, one, bare=True) for one in _decoded(answer, _Versions).versions]

    def version(self, key: str, number: int) -> Entry:
        answer = self._ask("GET", {"key": key, "version": str(number)}, "/version") or b""
        return _entry(key, _decoded(answer, _Item))

    def members(self) -> list[Member]:
        return _decoded(self._ask("GET", {}, "/members") or b"", _Members).members

    def _written(self, answer: bytes | None) -> News:
        done = _decoded(answer or b"", _Standing)
        self._demand_ours(done)
        return News(done.etag, [], done.you)

    def _demand_ours(self, answer: _Standing) -> None:
        if answer.repo != self.repo or not answer.etag:
            raise TeamLies(f"answered about {answer.repo[:80]!r}")

    def _ask(
        self,
        method: str,
        query: Mapping[str, str],
        end: str = "",
        *,
        etag: tuple[str, str] | None = None,
        body: bytes | None = None,
    ) -> bytes | None:
        """The body of a good answer; None for 304."""
        words = urllib.parse.urlencode({"repo": self.repo, **query})
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        if etag is not None:
            headers[etag[0]] = f'"{etag[1]}"'
        request = urllib.request.Request(  # noqa: S310 - checked_url lets only http(s) in
            f"{self._url}{ROUTE}{end}?{words}", body, headers, method=method
        )
        try:
            with self._opener.open(request, timeout=_SECONDS) as response:
                content: bytes = response.read(_LARGEST_ANSWER + 1)
                length = response.headers.get("Content-Length")
                cut = length is not None and length != str(len(content))
                if cut or len(content) > _LARGEST_ANSWER:
                    raise TeamLies("broke off, or sent too much")
                return content
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 304:
                    return None
                raise _refusal(error) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = getattr(error, "reason", None) or error
            why = getattr(why, "strerror", None) or why
            raise TeamAway(f"The team's server at {self._url} can't be reached: {why}.") from error


def encoded(contents: Mapping[str, str]) -> dict[str, Any]:
    return {
        "entries": {
            key: {"content": content, "sha256": sha256(content.encode())}
            for key, content in contents.items()
        }
    }


def batches(contents: Mapping[str, str]) -> list[dict[str, str]]:
    """As few bodies as the limit allows; a file that is larger travels alone."""
    found: list[dict[str, str]] = []
    room = 0
    for key, content in contents.items():
        size = len(msgspec.json.encode(encoded({key: content})))
        if size > room:
            found.append({})
            room = LARGEST_BODY
        found[-1][key] = content
        room -= size
    return found


def _refusal(error: urllib.error.HTTPError) -> LaminaError:
    if error.code == 412:
        return TeamMoved("Somebody else wrote to the team's memory first.")
    try:
        said = msgspec.json.decode(error.read(1_000_000), type=_Refusal)
    except (msgspec.MsgspecError, OSError, http.client.HTTPException, UnicodeDecodeError):
        said = _Refusal()
    sentence = said.error[:500] or f"The team's server answered {error.code}."
    if error.code == 429 or error.code >= 500:
        return TeamAway(sentence)
    return TeamRefused(sentence, said.details)


def _decoded(answer: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TeamLies("sent what is no answer of one") from error


def _entry(key: str, item: _Item, *, bare: bool = False) -> Entry:
    """`bare`: a version without its content."""
    if not is_name(item.author):
        raise TeamLies("named an author that can't be one")
    if item.removed:
        return Entry(key, None, "", item.author, item.at, item.version)
    content = "" if bare else item.content
    if content is None or not (bare or sha256(content.encode()) == item.sha256):
        raise TeamLies(f"sent {key[:80]!r} with a wrong hash")
    return Entry(key, content, item.sha256, item.author, item.at, item.version)
