"""The gateway's two ends: whoever talks to it, and the provider. HTTP/1.1 by h11, which is strict."""

from __future__ import annotations

import select
import socket
import ssl
import time
from contextlib import suppress
from urllib.parse import urlsplit

import h11

from lamina.errors import UsageError
from lamina.models import lines
from lamina.models.heads import Head

PIECE = 262_144  # bytes that are read at a time, and of a message's head at most
# Seconds for an unused line to the provider, and for a client that is sent off; its last bytes.
_IDLE, _LINGERS, _MOST_LOST = 20.0, 1.0, 2**24
_HEAD, _ENDS_HEAD = 8192, b"\r\n\r\n"  # bytes of a request that are looked at for its head's end
_LEAVES = getattr(select, "POLLRDHUP", select.POLLIN)  # elsewhere than on Linux: it says so itself
_MORE = getattr(socket, "MSG_MORE", 0)
_ASKED = h11.Request(method="POST", target="/", headers=[("Host", "-")]), h11.EndOfMessage()
Message = h11.Request | h11.InformationalResponse | h11.Response
Event = Message | h11.Data | h11.EndOfMessage | h11.ConnectionClosed


class Left(Exception):
    """Whoever something was done for is gone."""


class Peer:
    """One connection. Who uses it waits for it, in a thread of its own."""

    def __init__(self, role: type[h11.CLIENT | h11.SERVER], line: socket.socket) -> None:
        self._role, self._renewed, self._line = role, False, line
        self._talk: h11.Connection | None = None
        self.asked, self._head = False, b""  # of a provider, and what was read: without h11
        self._ahead: bytes | None = None  # said behind a body that h11 has not seen
        self._wait: select.poll | None = None  # for it, or for the end of whom it is read for
        self.asks: Peer | None = None  # who is asked for it
        self.answered = False
        self.until = self.since = 0.0  # by when it must speak, 0: any time; when it was last used

    @property
    def talk(self) -> h11.Connection:
        """What h11 knows of it, which comes to hear of most messages only if it is asked."""
        if self._talk is None:
            self._talk = h11.Connection(self._role, max_incomplete_event_size=PIECE)
            for event in _ASKED if self.asked else ():
                self._talk.send(event)
            if self._head:
                self._talk.receive_data(self._head + (self._ahead or b""))
                self._talk.next_event()
                self._ahead = None
        return self._talk

    def head(self) -> Head | None:
        """Of what the other side says next; None: it has ended. Raises what `next` does."""
        if self._talk is None:
            asks, data = self._role is h11.SERVER, self.read()
            if plain := Head.plain(data, asks=asks):
                self._head, self._ahead = data[: plain[1]], data[plain[1] :]
                return plain[0]
            self.talk.receive_data(data)
        event = self.next()
        if isinstance(event, h11.Request):
            return Head((event.method, event.target), event.headers.raw_items(), event.http_version)
        if not isinstance(event, h11.Response | h11.InformationalResponse):
            return None
        first, said = (b"", event.reason), event.headers.raw_items()
        return Head(first, said, event.http_version, event.status_code)

    def next(self) -> Event:
        """What the other side says next. Raises h11.RemoteProtocolError, OSError, Left."""
        while (event := self.talk.next_event()) is h11.NEED_DATA:
            if self.talk.they_are_waiting_for_100_continue:
                self.say(h11.InformationalResponse(status_code=100, headers=[]))
            self.talk.receive_data(self.read())
        if event is h11.PAUSED:
            raise h11.RemoteProtocolError("more was said than one message")
        return event  # pyright: ignore[reportReturnType] - the other two are handled above

    def body(self, size: int) -> bytes:
        """A body whose length was told. Not by h11, which copies it again and again."""
        data = self.take_over()
        while (left := size - len(data)) > 0:
            if not (piece := self._line.recv(left, socket.MSG_WAITALL)):
                raise h11.RemoteProtocolError("it broke off")
            data = data + piece if data else piece
        self._ahead = data[size:]
        return data[:size]

    def take_over(self) -> bytes:
        """From here on the caller follows what comes; what has come of it already."""
        return bytes(self.talk.trailing_data[0]) if self._ahead is None else self._ahead

    def read(self) -> bytes:
        """What came; b"": the other side has ended."""
        line, size = self._line, PIECE
        if self.until:
            line.settimeout(max(0.001, self.until - time.monotonic()))
        begins = self._talk is None or self._talk.their_state is h11.IDLE
        if begins and self._role is h11.SERVER:  # the head alone, then the body in one piece
            seen = line.recv(_HEAD, socket.MSG_PEEK)
            size = seen.find(_ENDS_HEAD) + len(_ENDS_HEAD) if _ENDS_HEAD in seen else len(seen)
        while self._wait is not None and isinstance(line, ssl.SSLSocket):
            if not line.pending():
                self._await_words(self._wait)
            line.settimeout(0)  # what came may be a word of the encryption's own
            try:
                return line.recv(size)
            except ssl.SSLWantReadError:
                continue
            finally:
                line.settimeout(None)
        if self._wait is not None:
            self._await_words(self._wait)
        return line.recv(size)

    def limit(self, seconds: float) -> None:
        """In these all must be said; 0: whenever."""
        self.until = time.monotonic() + seconds if seconds else 0.0
        self._line.settimeout(seconds or None)

    def read_for(self, other: Peer) -> None:
        """From now on; when the other one leaves, whatever of its words is still unread, so do we."""
        self._wait = select.poll()
        self._wait.register(self._line, select.POLLIN)
        self._wait.register(other._line, _LEAVES)

    def _await_words(self, wait: select.poll) -> None:
        own = self._line.fileno()
        while own not in (ready := dict(wait.poll())) or len(ready) > 1:
            for fd, how in ready.items():
                if fd != own and how != select.POLLIN:
                    raise Left
                if fd != own:  # it says more already: that it leaves comes behind that
                    wait.unregister(fd)

    def write(self, data: bytes, *, more: bool = False) -> None:
        """Waits while the other side does not take it. There may be `more` to go out with it."""
        more = more and not isinstance(self._line, ssl.SSLSocket)
        self._line.sendall(data, _MORE if more else 0)

    def renew(self, ahead: bytes = b"") -> None:
        """A message that h11 has not followed is over; what was said ahead of the next."""
        self._talk, self._head, self._ahead = None, b"", None
        if ahead:
            self.talk.receive_data(ahead)
        self._renewed, self.asked, self.answered = True, False, False

    def say(self, event: Event) -> None:
        self.write(self.talk.send(event) or b"")

    def wakes(self) -> bool:
        """Whether another message can be sent on it; what was said unasked would pass for its answer."""
        idle = self._talk is None or {self._talk.our_state, self._talk.their_state} == {h11.IDLE}
        with suppress(OSError, ValueError):  # it is closed
            (look := select.poll()).register(self._line, select.POLLIN)
            return idle and time.monotonic() - self.since < _IDLE and not look.poll(0)
        return False

    def rest(self) -> bool:
        """The message is over; whether there can be another one."""
        if not self._renewed:
            more = self._role is h11.CLIENT and self.talk.trailing_data[0]  # for nobody
            if more or {self.talk.our_state, self.talk.their_state} != {h11.DONE}:
                return False
            self.renew(bytes(self.talk.trailing_data[0]))
        self._renewed, self._wait, self.since = False, None, time.monotonic()
        return True

    def cut(self) -> None:
        """End it so that the other side sees that something is missing. From any thread."""
        with suppress(OSError):
            socket.socket.shutdown(self._line, socket.SHUT_RDWR)
        if self.asks is not None:
            self.asks.cut()

    def close(self) -> None:
        with suppress(OSError):
            if self._role is h11.SERVER:  # what nobody read would take our last words from it
                self._line.shutdown(socket.SHUT_WR)
                self._line.settimeout(_LINGERS)
                self._line.recv(_MOST_LOST, socket.MSG_WAITALL)
        self._line.close()


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
        self._waiting: list[Peer] = []

    def is_here(self, port: int) -> bool:
        return self._port == port and self._host in ("127.0.0.1", "localhost", "::1")

    def connect(self) -> Peer:
        """A connection to it. Raises OSError, TimeoutError."""
        with suppress(IndexError):  # another thread may take the last one
            while True:
                peer = self._waiting.pop()
                if peer.wakes():
                    return peer
                peer.close()
        return Peer(h11.CLIENT, lines.opened(self._host, self._port, tls=self._tls))

    def done_with(self, peer: Peer, *, last: bool) -> None:
        if peer.rest() and not last:
            self._waiting.append(peer)
        else:
            peer.close()

    def close(self) -> None:
        while self._waiting:
            self._waiting.pop().close()
