"""The gateway's server: takes requests from this machine, or from whoever knows the token, and passes them
on to one provider, body for body and piece by piece, nothing held back. Who leaves is left: a client that
goes away ends its request, a provider that breaks off breaks off here too. No web page gets in through a
browser: Host and Origin are checked.
"""

from __future__ import annotations

import hmac
import socket
import time
from contextlib import suppress
from threading import Event, Thread, current_thread
from typing import TYPE_CHECKING

import h11
import msgspec

from lamina.errors import LaminaError
from lamina.gateway.framing import Chunked, Counted, framing_of
from lamina.gateway.peers import Left, Peer, Upstream
from lamina.models.heads import Head, Headers, passed_on, written

if TYPE_CHECKING:
    from lamina.gateway.desk import Call, Desk

_MOST_READ = 64 * 2**20  # bytes of a body that is looked at; a longer one goes through unread
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_TOKEN, _KNOWN = b"x-lamina-token", b"/t/"  # it stands in this header, or first in the path
_ASKS = 20.0  # seconds in which somebody on a new line must ask, where strangers can come
_UNKNOWN = 401, "This gateway needs its token: put it in the base URL, as http://HOST:PORT/t/TOKEN."
_OWN_WISH = (b"none", b"same-origin")  # what a browser says of a request that no page made
_LOOKS, _ANSWERS = 5.0, 60.0  # seconds between looks at pauses; to answer a request of our own
_ENDS = 2.0  # seconds in which the clients' threads must end with the gateway


class Gateway:
    """A thread for each client: whoever waits, for a disk or a provider, holds nobody else up."""

    def __init__(self, upstream: Upstream, desk: Desk | None = None, token: str = "") -> None:
        self._upstream, self._desk, self._token = upstream, desk, token.encode()
        self._listening: list[socket.socket] = []
        self._hosts: frozenset[bytes] = frozenset()
        self.port, self.url = 0, ""
        self._open: dict[Peer | None, Thread] = {}  # by client; None: who looks after pauses
        self._ended = Event()
        self.stays = False  # the client is there for as long as we are, connected or not

    def start(self, port: int = 0, host: str = _LOCAL[0]) -> None:
        """Listen; port 0 takes a free one. Raises LaminaError."""
        self.port = port
        try:
            for kind, *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                where = (str(place[0]), self.port)
                self._listening.append(socket.create_server(where, family=kind, backlog=100))
                self.port = int(self._listening[0].getsockname()[1])
        except (OSError, OverflowError) as error:
            self.close()
            raise LaminaError(f"Can't listen on {host}, port {port}: {error}.") from error
        name = f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{self.port}"
        if self._upstream.is_here(self.port):
            self.close()
            raise LaminaError(f"{self._upstream.url} is this gateway itself. Name another one.")
        names = [f"{one}:{self.port}" for one in (*_LOCAL, name)] + [*_LOCAL] * (self.port == 80)
        self._hosts = frozenset(name.encode() for name in names)
        for listening in self._listening:
            Thread(target=self._accept, args=(listening,), daemon=True).start()
        if self._desk is not None and self._desk.lives:
            self._open[None] = Thread(target=self._look, daemon=True)
            self._open[None].start()

    def close(self) -> None:
        """What is under way is cut off."""
        self._ended.set()
        for listening in self._listening:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # or it is waited for on
            listening.close()
        under_way, deadline = {**self._open}, time.monotonic() + _ENDS
        for client in filter(None, under_way):
            client.cut()
        for thread in under_way.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        self._upstream.close()
        if self._desk is not None:
            self._desk.close()

    def _accept(self, listening: socket.socket) -> None:
        while not self._ended.is_set():
            try:
                line, _ = listening.accept()
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                Thread(target=self._serve, args=(Peer(h11.SERVER, line),), daemon=True).start()
            except (OSError, RuntimeError):  # too many are here already, or it left again
                self._ended.wait(0.1)

    def _look(self) -> None:
        while not self._ended.wait(_LOOKS):
            self.keep_warm()

    def keep_warm(self) -> None:
        """Ask again what the provider is about to forget, where that pays."""
        there = self.stays or any(self._open)
        for request, call in self._desk.due(there=there) if self._desk is not None else ():
            with suppress(OSError, h11.ProtocolError):
                self._asked_again(request, call)
            call.ended()

    def _asked_again(self, request: Head, call: Call) -> None:
        provider = self._upstream.connect()
        try:
            provider.limit(_ANSWERS)
            self._say_whole(provider, request, call.body)
            call.answer(answer := _begun(None, provider))
            if (frame := framing_of(answer, request)) is not None:
                _streamed(None, provider, frame, call)
            while frame is None and not isinstance(event := provider.next(), h11.EndOfMessage):
                call.take(event.data if isinstance(event, h11.Data) else b"")
        finally:
            provider.close()

    def _serve(self, client: Peer) -> None:
        self._open[client] = current_thread()
        client.limit(_ASKS if self._token else 0)
        try:
            while not self._ended.is_set() and (request := client.head()) is not None:
                if client.until:
                    client.limit(0)
                self._one(client, request)
                if not client.rest():
                    break
        except h11.RemoteProtocolError as error:
            with suppress(OSError, h11.LocalProtocolError):
                _say(client, error.error_status_hint, f"This is not HTTP/1.1: {error}.")
        except (OSError, Left, h11.LocalProtocolError):
            pass
        except Exception as error:  # noqa: BLE001 - a fault of ours, at the edge of its thread
            with suppress(OSError, h11.LocalProtocolError):
                _say(client, 502, f"a request failed: {type(error).__name__}: {error}.")
        finally:
            client.close()
            self._open.pop(client, None)

    def _one(self, client: Peer, came: Head) -> None:
        said, request = self._refusal(came), self._admitted(came)
        if said or request is None:
            _say(client, *(said or _UNKNOWN))
            return
        call, body = self._looked_at(client, request)
        try:
            provider = self._sent(client, request, call, body)
            if provider is not None:
                provider.read_for(client)
                self._answered(client, provider, request, call)
        finally:
            if call is not None and self._desk is not None:
                call.ended()
                self._desk.catch_up()

    def _refusal(self, request: Head) -> tuple[int, str] | None:
        said = request.told
        # h11 asks 1.1 for one. Whoever knows the token may call us what they like: no page does.
        if not self._token and b"host" in said and said[b"host"] not in self._hosts:
            return 403, f"This gateway answers only as {self.url}."
        if b"origin" in said or said.get(b"sec-fetch-site", b"none") not in _OWN_WISH:
            return 403, "Web pages are not served here."
        if not request.first[1].startswith(b"/") or request.first[0] == b"CONNECT":
            return 400, "Ask for a path: this is not a general proxy."
        if b"content-length" in said and b"transfer-encoding" in said:
            return 400, "A request has one length, content-length or chunks."
        return None

    def _admitted(self, request: Head) -> Head | None:
        """The request without its token, which goes no further; None: it has not the right one."""
        if not self._token:
            return request
        target, known = request.first[1], request.told.get(_TOKEN, b"")
        first, slash, rest = target.removeprefix(_KNOWN).partition(b"/")
        if slash and target.startswith(_KNOWN) and hmac.compare_digest(first, self._token):
            target, known = slash + rest, first
        if not hmac.compare_digest(known, self._token) or self._token in target:
            return None
        kept = [h for h in request.headers if self._token not in h[1] and h[0].lower() != _TOKEN]
        return msgspec.structs.replace(request, first=(request.first[0], target), headers=kept)

    def _looked_at(self, client: Peer, request: Head) -> tuple[Call | None, list[bytes]]:
        """The request on somebody's desk, if it is for one, and what of its body was read."""
        pieces: list[bytes] = []
        if self._desk is None or not self._desk.wants(request):
            return None, pieces
        size, told = 0, int(request.told.get(b"content-length", b"0"))
        if 0 < told <= _MOST_READ and b"expect" not in request.told:
            body = client.body(told)
            return self._desk.before(request, body), [body]
        while size <= _MOST_READ:
            event = client.next()
            if isinstance(event, h11.EndOfMessage):
                body = b"".join(pieces)
                return self._desk.before(request, body), [body]
            if isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
                size += len(event.data)
        return None, pieces

    def _sent(
        self, client: Peer, request: Head, call: Call | None, read: list[bytes]
    ) -> Peer | None:
        """The connection on which the request went out; None: the client was told why not."""
        try:
            provider = self._upstream.connect()
        except (OSError, UnicodeError) as error:  # no host can have such a name
            why = str(error) or type(error).__name__
            _say(client, 502, f"{self._upstream.url} can't be reached: {why}.")
            return None
        client.asks = provider  # it may take nothing: then only its end ends us
        try:
            if call is not None:
                self._say_whole(provider, request, call.body)
            else:
                self._say_piecewise(client, provider, request, read)
        except BaseException as error:
            provider.close()
            if not isinstance(error, OSError):
                raise
            _say(client, 502, f"{self._upstream.url} did not accept the request: {error}.")
            return None
        return provider

    def _say_whole(self, provider: Peer, request: Head, body: bytes) -> None:
        length = (b"Content-Length", b"%d" % len(body))
        target, headers = self._told(request, [*passed_on(request, framed=False), length])
        first, provider.asked = b"%b %b HTTP/1.1" % (request.first[0], target), True
        provider.write(written(first, headers), more=bool(body))
        provider.write(body)

    def _say_piecewise(
        self, client: Peer, provider: Peer, request: Head, read: list[bytes]
    ) -> None:
        target, headers = self._told(request, passed_on(request))
        provider.say(h11.Request(method=request.first[0], target=target, headers=headers))
        for piece in read:
            provider.say(h11.Data(data=piece))
        while client.talk.their_state is h11.SEND_BODY:
            event = client.next()
            if isinstance(event, h11.Data | h11.EndOfMessage):
                provider.say(event)

    def _told(self, request: Head, headers: Headers) -> tuple[bytes, Headers]:
        """Target and headers of a request, at the provider."""
        kept = [pair for pair in headers if pair[0].lower() != b"host"]
        return self._upstream.base + request.first[1], [(b"Host", self._upstream.host), *kept]

    def _answered(self, client: Peer, provider: Peer, request: Head, call: Call | None) -> None:
        try:
            try:
                answer = _begun(client, provider)
                changed = call if call is not None and call.body is not call.original else None
                if changed is not None and answer.status == 400:
                    provider.close()
                    provider = self._upstream.connect()
                    provider.read_for(client)
                    self._say_whole(provider, request, changed.original)
                    answer = _begun(client, provider)
                    changed.refused(takes_original=200 <= answer.status < 300)
            except (h11.RemoteProtocolError, OSError) as error:
                provider.close()
                _say(client, 502, f"{self._upstream.url} gave no answer: {error}.")
                return
            _relayed(client, provider, request, answer, call)
        except BaseException:
            provider.close()  # and the client's line ends with half an answer on it
            raise
        self._upstream.done_with(provider, last=answer.ends_line)


def _relayed(client: Peer, provider: Peer, request: Head, answer: Head, call: Call | None) -> None:
    if call is not None:
        call.answer(answer)
    status, headers, frame = answer.status, passed_on(answer), framing_of(answer, request)
    last, client.answered = request.ends_line, True
    if isinstance(frame, Chunked):  # then a length that was told besides does not count
        headers = [pair for pair in headers if pair[0].lower() != b"content-length"]
    if frame is None or last:
        client.say(h11.Response(status_code=status, headers=headers, reason=answer.first[1]))
    else:
        client.write(written(b"HTTP/1.1 %d %b" % (status, answer.first[1]), headers))
    if frame is not None:
        _streamed(client, provider, frame, call)
    else:
        while not isinstance(event := provider.next(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                if call is not None:
                    call.take(event.data)
                client.say(event)
        if call is not None:
            call.ended()
        client.say(event)
    if not last:
        client.renew(client.take_over())


def _streamed(client: Peer | None, peer: Peer, frame: Counted | Chunked, call: Call | None) -> None:
    """Pass a body on as it comes, up to its end."""
    data, end, write = peer.take_over(), -1, client.write if client is not None else len
    while end < 0:
        if not data and not (data := peer.read()):
            raise h11.RemoteProtocolError("it broke off")
        try:
            said, end = frame.follow(data)
        except h11.RemoteProtocolError:
            write(data)
            raise
        if call is not None:
            call.take(said)
            if end >= 0:
                call.ended()  # before the client can ask again
        write(data if end < 0 else data[:end])
        data = b"" if end < 0 else data[end:]
    if not data:  # what comes after an answer belongs to nobody
        peer.renew()


def _begun(client: Peer | None, provider: Peer) -> Head:
    """The head of the answer; hints that come before it are passed on."""
    while (head := provider.head()) is not None and head.status < 200:
        if head.status not in (100, 101) and client is not None:
            client.say(h11.InformationalResponse(status_code=head.status, headers=passed_on(head)))
    if head is None:
        raise h11.RemoteProtocolError("it closed the connection")
    return head


def _say(client: Peer, status: int, why: str) -> None:
    """An error of our own, in a form that all providers' clients read; the connection ends."""
    if client.answered or client.talk.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    kind = "authentication_error" if status == 401 else "lamina_gateway"
    error = {"type": kind, "code": status, "message": f"Lamina: {why}"}
    body = msgspec.json.encode({"type": "error", "error": error})
    told = [("Content-Type", "application/json"), ("Content-Length", f"{len(body)}")]
    head = h11.Response(status_code=status, headers=[*told, ("Connection", "close")])
    for event in (head, h11.Data(data=body), h11.EndOfMessage()):
        client.say(event)
