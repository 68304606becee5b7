"""The gateway's two ends: whoever talks to it, and the provider. HTTP/1.1 by h11, which is strict."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from base64 import b64encode
from collections.abc import Awaitable, Generator
from contextlib import contextmanager, suppress
from typing import cast
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import h11

from lamina.errors import UsageError

PIECE = 262_144  # bytes that are read at a time, and of a message's head at most
_IDLE = 20.0  # seconds for which an unused connection to the provider is kept
_CONNECTS = 60.0  # seconds in which a provider must take a connection
# They belong to one connection, not to the message (RFC 9110, 7.6.1). `expect` is answered here.
_HOP = frozenset(
    b"connection keep-alive proxy-connection proxy-authorization te trailer upgrade expect".split()
)
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))

Headers = list[tuple[bytes, bytes]]
Message = h11.Request | h11.InformationalResponse | h11.Response
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Event = Message | h11.Data | h11.EndOfMessage | h11.ConnectionClosed


def passed_on(message: Message, *, framed: bool = True) -> Headers:
    """What goes on to the other side; without `framed` the length is for the sender to say."""
    told = b",".join(value for name, value in message.headers if name == b"connection")
    named = {word.strip() for word in told.lower().split(b",")}
    off = _HOP | (named - _FRAMING) if framed else _HOP | named | _FRAMING
    return [(name, value) for name, value in message.headers.raw_items() if name.lower() not in off]


class Ear(asyncio.StreamReader):
    """Ends the work for the other side when that leaves, whatever of its words is still unread."""

    gone, works = False, cast("asyncio.Task[None] | None", None)

    def feed_eof(self) -> None:
        super().feed_eof()
        self.gone = True
        if self.works is not None:
            self.works.cancel()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.feed_eof()


class Peer:
    """One connection."""

    def __init__(self, role: type[h11.CLIENT | h11.SERVER], line: Line) -> None:
        self._role, self._renewed = role, False
        self.talk = h11.Connection(role, max_incomplete_event_size=PIECE)
        self._reader, self._writer = line
        self._ahead: bytes | None = None  # said behind a body that h11 has not seen
        self.since = 0.0  # when it was last used

    async def next(self) -> Event:
        """What the other side says next. Raises h11.RemoteProtocolError, ConnectionError."""
        while (event := self.talk.next_event()) is h11.NEED_DATA:
            if self.talk.they_are_waiting_for_100_continue:
                await self.say(h11.InformationalResponse(status_code=100, headers=[]))
            self.talk.receive_data(await self._reader.read(PIECE))
        if event is h11.PAUSED:
            raise h11.RemoteProtocolError("more was said than one message")
        return event  # pyright: ignore[reportReturnType] - the other two are handled above

    async def body(self, size: int) -> bytes:
        """A body whose length was told. Not by h11, which copies it again and again."""
        data = self.take_over()
        try:
            data += await self._reader.readexactly(max(0, size - len(data)))
        except asyncio.IncompleteReadError as error:
            raise h11.RemoteProtocolError("it broke off") from error
        self._ahead = data[size:]
        return data[:size]

    def take_over(self) -> bytes:
        """From here on the caller follows what comes; what has come of it already."""
        return bytes(self.talk.trailing_data[0]) if self._ahead is None else self._ahead

    def read(self) -> Awaitable[bytes]:
        return self._reader.read(PIECE)

    def write(self, data: bytes) -> Awaitable[None]:
        self._writer.write(memoryview(data))  # what can't go at once is copied once less
        return self._writer.drain()

    def renew(self, ahead: bytes = b"") -> None:
        """A message that h11 has not followed is over; what was said ahead of the next."""
        self.talk = h11.Connection(self._role, max_incomplete_event_size=PIECE)
        if ahead:
            self.talk.receive_data(ahead)
        self._renewed, self._ahead = True, None

    async def say(self, event: Event) -> None:
        """Waits while the other side does not take it."""
        if data := self.talk.send(event):
            await self.write(data)

    @contextmanager
    def watched(self) -> Generator[None]:
        """What this task does meanwhile, it does for the other side."""
        ear = cast("Ear", self._reader)
        ear.works = asyncio.current_task()
        if ear.gone:
            ear.feed_eof()
        try:
            yield
        finally:
            ear.works = None

    def wakes(self) -> bool:
        """Whether another message can be sent on it; what was said unasked would pass for its answer."""
        unasked = self._reader.read(1)
        try:
            unasked.send(None)
        except Exception:  # noqa: BLE001  # an end, words, or whatever broke the connection
            return False
        unasked.close()  # it would have to wait
        idle = self.talk.our_state is h11.IDLE and self.talk.their_state is h11.IDLE
        return idle and time.monotonic() - self.since < _IDLE and not self._writer.is_closing()

    def rest(self) -> bool:
        """The message is over; whether there can be another one."""
        if not self._renewed:
            if self.talk.our_state is not h11.DONE or self.talk.their_state is not h11.DONE:
                return False
            self.talk.start_next_cycle()
        self._renewed, self.since = False, time.monotonic()
        return True

    def cut(self) -> None:
        """End it so that the other side sees that something is missing."""
        self._writer.transport.abort()

    async def close(self) -> None:
        with suppress(Exception):
            self._writer.close()
            await self._writer.wait_closed()


class Upstream:
    """The provider: where it is, and the connections to it that wait for work."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            port = (parts := urlsplit(self.url)).port
        except ValueError as error:
            raise UsageError(f"{url} is not an address: {error}.") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url} is not an address; give one that begins with https://.")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise UsageError(f"{parts.scheme}://{parts.hostname} is given with more than a path.")
        self._host, self._tls = parts.hostname, parts.scheme == "https"
        self._port = port or (443 if self._tls else 80)
        self.base = parts.path.encode()
        name = f"[{self._host}]" if ":" in self._host else self._host
        self.host = (f"{name}:{port}" if port else name).encode()
        self._address = f"{name}:{self._port}"
        self._trusted: ssl.SSLContext | None = None
        self._waiting: list[Peer] = []

    def is_here(self, port: int) -> bool:
        return self._port == port and self._host in ("127.0.0.1", "localhost", "::1")

    async def connect(self) -> Peer:
        """A connection to it. Raises OSError, TimeoutError."""
        while self._waiting:
            peer = self._waiting.pop()
            if peer.wakes():
                return peer
            await peer.close()
        if self._tls and self._trusted is None:
            self._trusted = await asyncio.to_thread(_trusted)
        async with asyncio.timeout(_CONNECTS):
            return Peer(h11.CLIENT, await self._opened())

    async def _opened(self) -> Line:
        """Through the user's proxy, which sees no more of it than where it goes; or directly."""
        trusted, proxy = self._trusted, _proxy_for(self._address)
        if trusted is None or proxy is None:
            return await asyncio.open_connection(self._host, self._port, ssl=trusted, limit=PIECE)
        head = f"CONNECT {self._address} HTTP/1.1\r\nHost: {self._address}\r\n"
        if proxy.username:
            who = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
            head += f"Proxy-Authorization: Basic {b64encode(who).decode()}\r\n"
        there = proxy.hostname, proxy.port or 80
        reader, writer = await asyncio.open_connection(*there, limit=PIECE)
        try:
            writer.write(f"{head}\r\n".encode())
            with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                answer = await reader.readuntil(b"\r\n\r\n")
                if answer.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")):
                    await writer.start_tls(trusted, server_hostname=self._host)
                    return reader, writer
                status = answer.partition(b"\r\n")[0].decode("latin-1")
                raise ConnectionError(f'the proxy {proxy.hostname} said "{status}"')
            raise ConnectionError(f"the proxy {proxy.hostname} hung up")
        except BaseException:
            writer.close()
            raise

    async def done_with(self, peer: Peer, *, last: bool) -> None:
        if peer.rest() and not last:
            self._waiting.append(peer)
        else:
            await peer.close()

    async def close(self) -> None:
        while self._waiting:
            await self._waiting.pop().close()


def _proxy_for(address: str) -> SplitResult | None:
    """The proxy that the environment names for it."""
    url = (named := getproxies_environment()).get("https") or named.get("all") or ""
    if not url or proxy_bypass(address):
        return None
    with suppress(ValueError):  # which would repeat a piece of the password
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme == "http" and parts.hostname and parts.port != 0:
            return parts
    raise ConnectionError("the proxy in HTTPS_PROXY is none like http://host:port")


def _trusted() -> ssl.SSLContext:
    """The system's certificates, and those that programs on Node are told to trust besides."""
    context = ssl.create_default_context()
    if more := os.environ.get("NODE_EXTRA_CA_CERTS"):
        with suppress(OSError, ssl.SSLError):
            context.load_verify_locations(more)
    return context
