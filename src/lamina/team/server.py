"""The team's server: a small HTTP interface to the database. Who asks is known by the token alone, and
a repository that a token does not reach looks like one that does not exist.

It keeps nothing but counters in memory, so any number of workers may stand on one database.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import msgspec
import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from lamina._version import __version__
from lamina.team.database import Database, DatabaseAway, Stale, State, Token, TooMany
from lamina.team.entries import (
    LARGEST_ALONE,
    LARGEST_BODY,
    MOST_AT_ONCE,
    Entry,
    is_repository,
    sha256,
    why_not_shared,
)

PATHS = ("/api/team_memory", "/api/claude_code/team_memory")
BODY_SECONDS = 20.0
_MANY = 10_000  # callers whose rate is remembered
_MOST_OPEN, _MOST_SILENT = 500, 300  # connections, and those of them that owe a request

_Saver: TypeAlias = Callable[[bytes], Response]  # wants the body before it answers
_Handler: TypeAlias = Callable[[Request, Token, str], Response | _Saver]


class Refusal(Exception):
    """An answer that is no success: its status, one sentence, and what it is about."""

    def __init__(
        self,
        status: int,
        sentence: str,
        details: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.details = details or {}
        self.headers = headers or {}


class _Item(msgspec.Struct):
    content: str
    sha256: str = ""


class _Put(msgspec.Struct):
    entries: dict[str, _Item]


@dataclass(slots=True)
class Rates:
    """So many requests a minute for each caller, all at once if they like."""

    a_minute: int
    now: Callable[[], float] = time.monotonic
    _left: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def demand(self, caller: str, cost: float = 1.0) -> None:
        with self._lock:
            if len(self._left) > _MANY:
                self._left.clear()
            most, now = float(self.a_minute), self.now()
            left, then = self._left.get(caller, (most, now))
            left = min(most, left + (now - then) * most / 60)
            self._left[caller] = (left - cost if left >= cost else left, now)
        if left < cost:
            raise Refusal(429, "Too many requests. Wait a minute.", headers={"Retry-After": "60"})


class TeamServer:
    """Routes and their rules. `app` is what uvicorn runs."""

    def __init__(self, database: Database, *, requests_a_minute: int = 600) -> None:
        self._database = database
        self._known = Rates(requests_a_minute)
        self._unknown = Rates(60)
        self._counts: Counter[tuple[str, str, int]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        handlers: dict[str, Mapping[str, _Handler]] = {
            "": {"GET": self._get, "PUT": self._put, "DELETE": self._delete},
            "/history": {"GET": self._history},
            "/version": {"GET": self._version},
            "/members": {"GET": self._members},
        }
        self.app = Starlette(
            routes=[
                *(
                    Route(f"{start}{end}", self._route(f"{PATHS[0]}{end}", verbs), methods=[*verbs])
                    for start in PATHS
                    for end, verbs in handlers.items()
                ),
                Route("/healthz", self._health),
                Route("/metrics", self._metrics),
                Route("/openapi.json", self._described),
            ]
        )

    def _route(
        self, name: str, verbs: Mapping[str, _Handler]
    ) -> Callable[[Request], Awaitable[Response]]:
        def answered(request: Request, handler: _Handler) -> Response | _Saver:
            token = self._who(request)
            return handler(request, token, _repository(request, token))

        async def answer(request: Request) -> Response:
            began = time.perf_counter()
            verb = "GET" if request.method == "HEAD" else request.method
            try:
                response = await to_thread.run_sync(answered, request, verbs[verb])
                if not isinstance(response, Response):  # no thread waits for a body
                    response = await to_thread.run_sync(response, await _body(request))
            except Refusal as refusal:
                response = _json(
                    {"error": str(refusal), "details": refusal.details},
                    refusal.status,
                    refusal.headers,
                )
            except DatabaseAway as error:
                response = _json({"error": str(error), "details": {}}, 503, {"Retry-After": "5"})
            except ClientDisconnect:
                response = _json({"error": "The body broke off.", "details": {}}, 400)
            self._counts[name, request.method, response.status_code] += 1
            self._seconds[name] += time.perf_counter() - began
            return response

        return answer

    def _who(self, request: Request) -> Token:
        caller = request.client.host if request.client else ""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        known = None
        if scheme.lower() == "bearer" and secret.strip():
            known = self._database.token(secret.strip())
        if known is None:
            self._unknown.demand(caller)
            raise Refusal(
                401,
                "The token is missing or no longer valid. Ask whoever runs the server.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        self._known.demand(known.id)
        return known

    # ---- the memories of a repository

    def _get(self, request: Request, token: Token, repo: str) -> Response:
        view = request.query_params.get("view", "")
        if view not in ("", "hashes"):
            raise Refusal(400, "view is hashes, or left out.")
        wanted = _etags(request, "if-none-match")
        state = self._database.state(token.tenant, repo)
        if state.etag in wanted:
            return Response(status_code=304, headers={"ETag": f'"{state.etag}"'})
        if view == "hashes":
            state, found = self._database.hashes(token.tenant, repo)
            return _standing(repo, state, {"hashes": found})
        since = request.query_params.get("since", "")
        page = self._database.changes(token.tenant, repo, since)
        entries = {entry.key: _shown(entry) for entry in page.entries}
        told = {"whole": page.whole, "more": page.more, "you": token.name, "entries": entries}
        return _standing(repo, page.state, told)

    def _put(self, request: Request, token: Token, repo: str) -> _Saver:
        _demand_writing(token)
        expected = _expected(request)

        def save(body: bytes) -> Response:
            contents = _contents(body)
            self._known.demand(token.id, len(contents) / 20)
            return self._written(token, repo, contents, expected)

        return save

    def _delete(self, request: Request, token: Token, repo: str) -> Response:
        _demand_writing(token)
        expected = _expected(request)
        key = request.query_params.get("key", "")
        _, hashes = self._database.hashes(token.tenant, repo)
        if key not in hashes:
            raise Refusal(404, "There is no such memory.")
        return self._written(token, repo, {key: None}, expected)

    def _written(
        self, token: Token, repo: str, contents: Mapping[str, str | None], expected: str
    ) -> Response:
        try:
            state = self._database.write(token, repo, contents, expected)
        except Stale as error:
            raise Refusal(412, f"{error} Pull, then try again.") from error
        except TooMany as error:
            raise Refusal(413, str(error)) from error
        return _standing(repo, state, {"you": token.name})

    def _history(self, request: Request, token: Token, repo: str) -> Response:
        key = request.query_params.get("key", "")
        found = self._database.history(token.tenant, repo, key)
        versions = [{"key": one.key, **_shown(one, content=False)} for one in found]
        return _json({"repo": repo, "versions": versions})

    def _version(self, request: Request, token: Token, repo: str) -> Response:
        key, number = (request.query_params.get(name, "") for name in ("key", "version"))
        if not number.isascii() or not number.isdigit() or len(number) > 18:
            raise Refusal(400, "version is a whole number.")
        found = self._database.version(token.tenant, repo, key, int(number))
        if found is None:
            raise Refusal(404, "There is no such version.")
        return _json({"key": found.key, **_shown(found)})

    def _members(self, _request: Request, token: Token, repo: str) -> Response:
        tokens = self._database.tokens(token.tenant)
        members: dict[str, bool] = {}
        for one in tokens:
            if one.revoked is None and one.reaches(repo):
                members[one.name] = members.get(one.name, False) or one.writes
        named = [{"name": name, "writes": writes} for name, writes in sorted(members.items())]
        return _json({"repo": repo, "members": named})

    # ---- for whoever runs it

    async def _health(self, _request: Request) -> Response:
        well = await to_thread.run_sync(self._database.answers)
        return _json({"status": "ok" if well else "database away"}, 200 if well else 503)

    async def _described(self, _request: Request) -> Response:
        return _json(description())

    async def _metrics(self, _request: Request) -> Response:
        lines = ["# TYPE lamina_team_requests_total counter"]
        lines += [
            f'lamina_team_requests_total{{route="{route}",method="{method}",status="{status}"}} {n}'
            for (route, method, status), n in sorted(self._counts.items())
        ]
        lines.append("# TYPE lamina_team_seconds_total counter")
        lines += [
            f'lamina_team_seconds_total{{route="{route}"}} {seconds:.6f}'
            for route, seconds in sorted(self._seconds.items())
        ]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


def description() -> dict[str, Any]:
    """The interface as OpenAPI has it. The second address is the first one again."""
    told = msgspec.json.decode(Path(__file__).with_name("openapi.json").read_bytes())
    told["info"]["version"] = __version__
    first, second = PATHS
    told["paths"] |= {path.replace(first, second): one for path, one in told["paths"].items()}
    return told


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    safe = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **(headers or {})}
    return Response(msgspec.json.encode(value), status, safe, "application/json")


def _repository(request: Request, token: Token) -> str:
    repo = request.query_params.get("repo", "").lower()
    if not is_repository(repo):
        raise Refusal(400, "repo is owner/name.")
    if any("\x00" in value for value in request.query_params.values()):
        raise Refusal(400, "The address holds a character that no name has.")
    if not token.reaches(repo):
        raise Refusal(404, "There is no such repository, or this token does not reach it.")
    return repo


def _demand_writing(token: Token) -> None:
    if not token.writes:
        raise Refusal(403, "This token can read but not write.")


def _etags(request: Request, header: str) -> list[str]:
    return [word.strip().strip('"') for word in request.headers.get(header, "").split(",")]


def _expected(request: Request) -> str:
    named = [etag for etag in _etags(request, "if-match") if etag]
    if not named:
        raise Refusal(428, "If-Match is required: send the ETag of the last answer.")
    return named[0]


def _standing(repo: str, state: State, more: Mapping[str, Any]) -> Response:
    about = {"repo": repo, "version": state.version, "etag": state.etag, **more}
    return _json(about, headers={"ETag": f'"{state.etag}"'})


def _shown(entry: Entry, *, content: bool = True) -> dict[str, Any]:
    shown: dict[str, Any] = {"author": entry.author, "at": entry.at, "version": entry.version}
    if entry.content is None:
        return {**shown, "removed": True}
    shown["sha256"] = entry.sha256
    return {**shown, "content": entry.content} if content else shown


async def _body(request: Request) -> bytes:
    """Whole and in time, or refused before it fills the memory."""
    parts: list[bytes] = []
    size = 0
    try:
        with anyio.fail_after(BODY_SECONDS):
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > LARGEST_ALONE:
                    raise Refusal(413, f"A body has at most {LARGEST_BODY:,} bytes.")
    except TimeoutError as error:
        raise Refusal(408, "The body took too long.", headers={"Connection": "close"}) from error
    return b"".join(parts)


def _contents(body: bytes) -> dict[str, str]:
    """The memories in the body of a PUT, each fit to be shared."""
    try:
        entries = msgspec.json.decode(body, type=_Put).entries
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, 'The body is JSON: {"entries": {key: {"content": …}}}.') from error
    if not entries:
        raise Refusal(400, "There is nothing in entries.")
    if len(body) > LARGEST_BODY and len(entries) > 1:
        raise Refusal(413, f"Several files take at most {LARGEST_BODY:,} bytes: send fewer.")
    if len(entries) > MOST_AT_ONCE:
        raise Refusal(413, f"At most {MOST_AT_ONCE:,} files at once.")
    wrong: dict[str, str] = {}
    for key, item in entries.items():
        if why := why_not_shared(key, item.content):
            wrong[key[:200]] = why
        elif item.sha256 and item.sha256 != sha256(item.content.encode()):
            wrong[key] = f"The sha256 of {key} does not fit its content."
    if wrong:
        first = next(iter(wrong.values()))
        raise Refusal(422, f"Nothing was saved. {first}", wrong)
    return {key: item.content for key, item in entries.items()}


def make_server(database: Database, *, requests_a_minute: int) -> uvicorn.Server:
    """Ready to `run` on sockets, until a signal ends it."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    silent: dict[Any, Any] = {}  # connections that owe us a request, and what ends each in time

    class Guarded(H11Protocol):
        """Ends a connection whose next request does not begin in time, or sooner, the oldest first, if
        so many are silent that they would keep the others out."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self.rest()
            super().connection_lost(exc)

        def _watch(self) -> None:
            cycle: Any = self.cycle  # None before the first request, whatever its type says
            if cycle is not None and not cycle.response_complete:
                self.rest()
            elif self not in silent:
                silent[self] = self.loop.call_later(BODY_SECONDS, self.end)
                if len(silent) > _MOST_SILENT:
                    next(iter(silent)).end()

        def end(self) -> None:
            self.rest()
            self.transport.close()

        def rest(self) -> None:
            if late := silent.pop(self, None):
                late.cancel()

    app = TeamServer(database, requests_a_minute=requests_a_minute).app
    config = uvicorn.Config(
        app,
        http=Guarded,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_MOST_OPEN,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
    )
    return uvicorn.Server(config)
