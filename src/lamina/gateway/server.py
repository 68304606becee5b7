"""The gateway's server: takes requests from this machine, or from whoever knows the token, and passes them
on to one provider, body for body and piece by piece, nothing held back. Who leaves is left: a client that
goes away ends its request, a provider that breaks off breaks off here too. No web page gets in through a
browser: Host and Origin are checked.
"""

from __future__ import annotations

import asyncio
import hmac
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import h11
import msgspec

from lamina.errors import LaminaError
from lamina.gateway.framing import Chunked, Counted, ends_line, framing_of
from lamina.gateway.peers import PIECE, Ear, Headers, Peer, Upstream, passed_on

if TYPE_CHECKING:
    from lamina.gateway.desk import Call, Desk

_MOST_READ = 64 * 2**20  # bytes of a body that is looked at; a longer one goes through unread
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_TOKEN, _KNOWN = b"x-lamina-token", b"/t/"  # it stands in this header, or first in the path
_ASKS = 20.0  # seconds in which somebody on a new line must ask, where strangers can come
_UNKNOWN = 401, "This gateway needs its token: put it in the base URL, as http://HOST:PORT/t/TOKEN."
_OWN_WISH = (b"none", b"same-origin")  # what a browser says of a request that no page made
_LOOKS = 5.0  # seconds between two looks at what a provider is about to forget
_ANSWERS = 60.0  # seconds in which it must answer a request of our own


class Gateway:
    def __init__(self, upstream: Upstream, desk: Desk | None = None, token: str = "") -> None:
        self._upstream, self._desk, self._token = upstream, desk, token.encode()
        self._server: asyncio.Server | None = None
        self._hosts: frozenset[bytes] = frozenset()
        self.port, self.url = 0, ""
        self._open: set[asyncio.Task[None]] = set()
        self.stays = False  # the client is there for as long as we are, connected or not

    async def start(self, port: int = 0, host: str = _LOCAL[0]) -> None:
        """Listen; port 0 takes a free one. Raises LaminaError."""
        try:
            line, loop = asyncio.StreamReaderProtocol, asyncio.get_running_loop()
            self._server = await loop.create_server(
                lambda: line(Ear(PIECE), self._serve), host, port
            )
        except (OSError, OverflowError) as error:
            raise LaminaError(f"Can't listen on {host}, port {port}: {error}.") from error
        self.port = int(self._server.sockets[0].getsockname()[1])
        name = f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{self.port}"
        if self._upstream.is_here(self.port):
            await self.close()
            raise LaminaError(f"{self._upstream.url} is this gateway itself. Name another one.")
        names = [f"{one}:{self.port}" for one in (*_LOCAL, name)] + [*_LOCAL] * (self.port == 80)
        self._hosts = frozenset(name.encode() for name in names)
        if self._desk is not None and self._desk.lives:
            self._open.add(asyncio.create_task(self._look()))

    async def close(self) -> None:
        """What is under way is cut off."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._upstream.close()
        if self._desk is not None:
            await self._desk.close()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOKS)
            await self.keep_warm()

    async def keep_warm(self) -> None:
        """Ask again what the provider is about to forget, where that pays."""
        there = self.stays or len(self._open) > 1  # one looks after pauses, the others are clients
        for request, call in await self._desk.due(there=there) if self._desk is not None else ():
            with suppress(OSError, h11.ProtocolError):
                async with asyncio.timeout(_ANSWERS):  # wait_for can swallow the end of the gateway
                    await self._asked_again(request, call)
            call.ended()

    async def _asked_again(self, request: h11.Request, call: Call) -> None:
        provider = await self._upstream.connect()
        try:
            await self._say_whole(provider, request, call.body)
            while not isinstance(event := await provider.next(), h11.EndOfMessage):
                if isinstance(event, h11.Response):
                    call.answer(event)
                elif isinstance(event, h11.Data):
                    call.take(event.data)
        finally:
            await provider.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Peer(h11.SERVER, (reader, writer))
        self._open.add(task := cast("asyncio.Task[None]", asyncio.current_task()))
        try:
            async with asyncio.timeout(_ASKS if self._token else None) as asks:
                while isinstance(request := await client.next(), h11.Request):
                    asks.reschedule(None)
                    await self._one(client, request)
                    if not client.rest():
                        break
        except h11.RemoteProtocolError as error:
            with suppress(OSError, h11.LocalProtocolError):
                await _say(client, error.error_status_hint, f"This is not HTTP/1.1: {error}.")
        except asyncio.CancelledError:
            client.cut()
        except (OSError, h11.LocalProtocolError):
            pass
        finally:
            self._open.discard(task)
            await client.close()

    async def _one(self, client: Peer, came: h11.Request) -> None:
        said, request = self._refusal(came), self._admitted(came)
        if said or request is None:
            await _say(client, *(said or _UNKNOWN))
            return
        call, body = await self._looked_at(client, request)
        try:
            provider = await self._sent(client, request, call, body)
            if provider is not None:
                with client.watched():
                    await self._answered(client, provider, request, call)
        finally:
            if call is not None:
                call.ended()

    def _refusal(self, request: h11.Request) -> tuple[int, str] | None:
        said = dict(request.headers)
        # h11 asks 1.1 for one. Whoever knows the token may call us what they like: no page does.
        if not self._token and b"host" in said and said[b"host"] not in self._hosts:
            return 403, f"This gateway answers only as {self.url}."
        if b"origin" in said or said.get(b"sec-fetch-site", b"none") not in _OWN_WISH:
            return 403, "Web pages are not served here."
        if not request.target.startswith(b"/") or request.method == b"CONNECT":
            return 400, "Ask for a path: this is not a general proxy."
        if b"content-length" in said and b"transfer-encoding" in said:
            return 400, "A request has one length, content-length or chunks."
        return None

    def _admitted(self, request: h11.Request) -> h11.Request | None:
        """The request without its token, which goes no further; None: it has not the right one."""
        if not self._token:
            return request
        target, known = request.target, dict(request.headers).get(_TOKEN, b"")
        first, slash, rest = target.removeprefix(_KNOWN).partition(b"/")
        if slash and target.startswith(_KNOWN) and hmac.compare_digest(first, self._token):
            target, known = slash + rest, first
        if not hmac.compare_digest(known, self._token) or self._token in target:
            return None
        said = [one for one in request.headers.raw_items() if self._token not in one[1]]  # Referer
        version, kept = request.http_version, [one for one in said if one[0].lower() != _TOKEN]
        return h11.Request(method=request.method, target=target, headers=kept, http_version=version)

    async def _looked_at(
        self, client: Peer, request: h11.Request
    ) -> tuple[Call | None, list[bytes]]:
        """The request on somebody's desk, if it is for one, and what of its body was read."""
        pieces: list[bytes] = []
        if self._desk is None or not self._desk.wants(request):
            return None, pieces
        size, told = 0, int(dict(request.headers).get(b"content-length", b"0"))
        if 0 < told <= _MOST_READ and not client.talk.they_are_waiting_for_100_continue:
            body = await client.body(told)
            return await self._desk.before(request, body), [body]
        while size <= _MOST_READ:
            event = await client.next()
            if isinstance(event, h11.EndOfMessage):
                body = b"".join(pieces)
                return await self._desk.before(request, body), [body]
            if isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
                size += len(event.data)
        return None, pieces

    async def _sent(
        self, client: Peer, request: h11.Request, call: Call | None, read: list[bytes]
    ) -> Peer | None:
        """The connection on which the request went out; None: the client was told why not."""
        try:
            provider = await self._upstream.connect()
        except OSError as error:
            why = str(error) or type(error).__name__
            await _say(client, 502, f"{self._upstream.url} can't be reached: {why}.")
            return None
        try:
            if call is not None:
                await self._say_whole(provider, request, call.body)
            else:
                await self._say_piecewise(client, provider, request, read)
        except BaseException as error:
            provider.cut()
            if not isinstance(error, OSError):
                raise
            await _say(client, 502, f"{self._upstream.url} did not accept the request: {error}.")
            return None
        return provider

    async def _say_whole(self, provider: Peer, request: h11.Request, body: bytes) -> None:
        headers = [*passed_on(request, framed=False), (b"Content-Length", b"%d" % len(body))]
        await provider.say(self._head(request, headers))
        await provider.say(h11.Data(data=body))
        await provider.say(h11.EndOfMessage())

    async def _say_piecewise(
        self, client: Peer, provider: Peer, request: h11.Request, read: list[bytes]
    ) -> None:
        await provider.say(self._head(request, passed_on(request)))
        for piece in read:
            await provider.say(h11.Data(data=piece))
        while client.talk.their_state is h11.SEND_BODY:
            event = await client.next()
            if isinstance(event, h11.Data | h11.EndOfMessage):
                await provider.say(event)

    def _head(self, request: h11.Request, headers: Headers) -> h11.Request:
        host = (b"Host", self._upstream.host)
        kept = [pair for pair in headers if pair[0].lower() != b"host"]
        target = self._upstream.base + request.target
        return h11.Request(method=request.method, target=target, headers=[host, *kept])

    async def _answered(
        self, client: Peer, provider: Peer, request: h11.Request, call: Call | None
    ) -> None:
        try:
            try:
                answer = await _begun(client, provider)
                changed = call if call is not None and call.body is not call.original else None
                if changed is not None and answer.status_code == 400:
                    provider.cut()
                    provider = await self._upstream.connect()
                    await self._say_whole(provider, request, changed.original)
                    answer = await _begun(client, provider)
                    changed.refused(takes_original=200 <= answer.status_code < 300)
            except (h11.RemoteProtocolError, OSError) as error:
                provider.cut()
                await _say(client, 502, f"{self._upstream.url} gave no answer: {error}.")
                return
            await _relayed(client, provider, request, answer, call)
        except BaseException:
            provider.cut()  # and the client's line ends with half an answer on it
            raise
        await self._upstream.done_with(provider, last=ends_line(answer))


async def _relayed(
    client: Peer, provider: Peer, request: h11.Request, answer: h11.Response, call: Call | None
) -> None:
    if call is not None:
        call.answer(answer)
    status, headers = answer.status_code, passed_on(answer)
    await client.say(h11.Response(status_code=status, headers=headers, reason=answer.reason))
    frame = framing_of(answer, request)
    if frame is not None:
        await _streamed(client, provider, frame, call)
    else:
        while not isinstance(event := await provider.next(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                if call is not None:
                    call.take(event.data)
                await client.say(event)
        if call is not None:
            call.ended()
        await client.say(event)
    if not ends_line(request):
        client.renew(client.take_over())


async def _streamed(
    client: Peer, provider: Peer, frame: Counted | Chunked, call: Call | None
) -> None:
    """Pass a body on as it comes, up to its end."""
    data, end = provider.take_over(), -1
    while end < 0:
        if not data and not (data := await provider.read()):
            raise h11.RemoteProtocolError("it broke off")
        try:
            said, end = frame.follow(data)
        except h11.RemoteProtocolError:
            await client.write(data)
            raise
        if call is not None:
            call.take(said)
            if end >= 0:
                call.ended()  # before the client can ask again
        await client.write(data if end < 0 else data[:end])
        data = b"" if end < 0 else data[end:]
    if not data:  # what comes after an answer belongs to nobody
        provider.renew()


async def _begun(client: Peer, provider: Peer) -> h11.Response:
    """The head of the answer; hints that come before it are passed on."""
    while not isinstance(event := await provider.next(), h11.Response):
        if not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("it closed the connection")
        if event.status_code not in (100, 101):
            status, headers = event.status_code, passed_on(event)
            await client.say(h11.InformationalResponse(status_code=status, headers=headers))
    return event


async def _say(client: Peer, status: int, why: str) -> None:
    """An error of our own, in a form that all providers' clients read; the connection ends."""
    if client.talk.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    kind = "authentication_error" if status == 401 else "lamina_gateway"
    error = {"type": kind, "code": status, "message": f"Lamina: {why}"}
    body = msgspec.json.encode({"type": "error", "error": error})
    told = [("Content-Type", "application/json"), ("Content-Length", f"{len(body)}")]
    head = h11.Response(status_code=status, headers=[*told, ("Connection", "close")])
    for event in (head, h11.Data(data=body), h11.EndOfMessage()):
        await client.say(event)
