"""The server behind `lamina ui`: HTTP on 127.0.0.1 for one person. Who may come in (a token once, then a
cookie), from where (Host and Origin are ours), what a post must carry, and what every answer says to
the browser. Pages are functions from `Asked` to `Answer`; nothing here knows what they show.
"""

from __future__ import annotations

import hmac
import os
import secrets
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from lamina.errors import LaminaError
from lamina.machine import Inotify, socket_owner

if TYPE_CHECKING:
    from lamina.web.pages import Site

LARGEST_FORM = 4_000_000  # bytes; a memory is far smaller
_NO_COOKIE = (
    "Open the address that `lamina ui` printed. It works in one browser, once; start it again."
)
_MOST_HEADERS, _LONGEST_HEADER, _BODY_SECONDS = 100, 65_536, 20.0  # of a request that has begun
_GO_ON = (
    '<!doctype html><title>Lamina</title><link rel="icon" href="/assets/icon.svg">'
    '<meta http-equiv="refresh" content="0; url=/">'
)
_ASSETS = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
# Nothing from elsewhere, nothing inline, no frames: text that slipped through would still not run.
_SAFE = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",  # with none, a browser hides the origin of our own forms
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Message:
    """What a post did, shown by the page that follows it."""

    words: str
    undo: str = ""  # the change that takes it back
    bad: bool = False


@dataclass(slots=True)
class Asked:
    """One request that was let in."""

    parts: Sequence[str]  # of the path, unquoted
    query: Mapping[str, str]
    form: Mapping[str, str]
    csrf: str
    fragment: bool = False  # a script wants the part of the page that changes
    message: Message | None = None
    began: bool = True  # to type, after a pause


@dataclass(frozen=True, slots=True)
class Answer:
    body: str | bytes = b""
    status: int = 200
    kind: str = "text/html; charset=utf-8"
    to: str = ""  # go there instead
    message: Message | None = None  # for the page that is gone to
    listen: str = ""  # a topic: this is a stream of its changes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class NotThere(LaminaError):
    """No page has this address."""


class Server(ThreadingHTTPServer):
    """Everything that lives as long as the server: secrets, watched folders, the last messages."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, port: int, pages: Callable[[Watch], Site]) -> None:
        self.watch = Watch()
        self.pages = pages(self.watch)
        super().__init__(("127.0.0.1", port), _Handler)  # closes both if the port is taken
        self.port = int(self.server_address[1])
        self.token = secrets.token_urlsafe(32)
        self.url = f"http://127.0.0.1:{self.port}/?token={self.token}"
        self.cookie = f"lamina-{self.port}={secrets.token_urlsafe(32)}"  # ports share their cookies
        self.csrf = secrets.token_urlsafe(32)
        self.owner = os.getuid()
        self.names = {f"127.0.0.1:{self.port}", f"localhost:{self.port}"}
        self.messages: dict[str, Message] = {}
        self._lock = threading.Lock()
        package = resources.files("lamina.web")
        self.assets = {name: (package / name).read_bytes() for name in _ASSETS}

    def server_close(self) -> None:
        super().server_close()
        self.watch.close()
        self.pages.close()

    def enter(self, token: str) -> bool:
        """A token lets in once: an address that others may see in a list of processes is no key."""
        with self._lock:
            fits = bool(self.token) and hmac.compare_digest(token.encode(), self.token.encode())
            if fits:
                self.token = ""
            return fits

    def leave(self, message: Message) -> str:
        name = secrets.token_hex(6)
        with self._lock:
            self.messages[name] = message
            while len(self.messages) > 50:  # pages that nobody loaded
                del self.messages[next(iter(self.messages))]
        return name

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """A browser that hangs up is no error; anything else is one of ours, and is said."""
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):
            sys.stderr.write(f"lamina: {type(error).__name__}: {error}\n")


class _Refused(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "lamina", ""
    wbufsize = 1 << 16  # head and body leave together
    server: Any  # a Server; the base class says less
    connection: socket.socket
    raw_requestline: bytes
    headers: Any  # by name in small letters
    _owner: int | None = -1

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Nobody reads a log of their own clicks."""

    def parse_request(self) -> bool:
        """The head of a browser's request. The standard library reads it as it would a mail, which
        takes as long as all checks and the sending together."""
        self.connection.settimeout(_BODY_SECONDS)  # between requests it may wait for ever
        self.requestline = str(self.raw_requestline, "iso-8859-1").strip()
        self.request_version, self.close_connection, self.headers = "HTTP/1.1", True, {}
        self.command, self.path, version, *more = [*self.requestline.split(" "), "", "", ""]
        line = ""
        for _ in range(_MOST_HEADERS):
            line = str(self.rfile.readline(_LONGEST_HEADER), "iso-8859-1")
            name, colon, value = line.partition(":")
            if not colon or not line.endswith("\n") or name.lower() in self.headers:
                break  # nothing is said twice: which of two Hosts would count?
            self.headers[name.lower()] = value.strip()
        known = self.path.startswith("/") and version in ("HTTP/1.0", "HTTP/1.1") and not any(more)
        if line not in ("\r\n", "\n") or not known:
            self.send_error(400)
            return False
        kept = self.headers.get("connection", "").lower() != "close"
        self.close_connection = version == "HTTP/1.0" or not kept
        return True

    def _handle(self) -> None:
        try:
            answer = self._post() if self.command == "POST" else self._get()
        except (_Refused, ValueError) as refused:  # or what is no address, or no form
            self.close_connection = True  # its body, if any, was not read
            words = f"{refused}\n".encode()
            answer = Answer(words, getattr(refused, "status", 400), "text/plain; charset=utf-8")
        if answer.listen:
            self._stream(answer.listen)
            return
        self._send(answer)
        self.connection.settimeout(None)

    do_GET = do_POST = _handle  # noqa: N815 - http.server's names

    # ---- who may come in

    def _check_host(self) -> None:
        """A name that leads here by somebody's DNS is not ours, nor are other people of this machine:
        they may see the token in its list of processes before the browser has used it."""
        if self._owner == -1:  # once: a connection stays with who made it
            self._owner = socket_owner(self.client_address, self.connection.getsockname())
        if self._owner not in (None, 0, self.server.owner):
            raise _Refused(403, "This page is another user's.")
        if self.headers.get("host", "") not in self.server.names:
            raise _Refused(421, "This address is not mine.")

    def _check_origin(self) -> None:
        """Nor may a page of somebody else use this one."""
        ours = {None, *(f"http://{one}" for one in self.server.names)}
        strange = self.headers.get("origin") not in ours
        if strange or self.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise _Refused(403, "This page can't be used from another one.")

    def _check_cookie(self) -> None:
        held, own = self.headers.get("cookie", "").encode(), self.server.cookie.encode()
        if not any(hmac.compare_digest(pair.strip(), own) for pair in held.split(b";")):
            raise _Refused(401, _NO_COOKIE)

    def _get(self) -> Answer:
        self._check_host()
        if self.path.startswith("/assets/"):
            name = self.path.removeprefix("/assets/")
            if name not in _ASSETS:
                raise _Refused(404, "There is no such file.")
            kind, headers = f"{_ASSETS[name]}; charset=utf-8", {"Cache-Control": "no-cache"}
            return Answer(self.server.assets[name], kind=kind, headers=headers)
        token = parse_qs(self.path[2:]).get("token") if self.path.startswith("/?") else None
        # The browser may have been sent here by a mail program: the token says who it is.
        if token and self.server.enter(token[0]):
            # Going on from a page of ours, not by redirection: then the cookie counts as our own.
            cookie = {"Set-Cookie": f"{self.server.cookie}; Path=/; HttpOnly; SameSite=Strict"}
            return Answer(_GO_ON, headers=cookie)
        self._check_origin()
        self._check_cookie()
        return self._page(self.server.pages.get, {})

    def _post(self) -> Answer:
        self._check_host()
        self._check_origin()
        self._check_cookie()
        if self.headers.get("origin") is None:  # every browser names it in a post
            raise _Refused(403, "A form must be sent by the page itself.")
        form = self._form()
        if not hmac.compare_digest(form.pop("csrf", "").encode(), self.server.csrf.encode()):
            raise _Refused(403, "This form is from an older page. Load it again.")
        return self._page(self.server.pages.post, form)

    def _form(self) -> dict[str, str]:
        length = self.headers.get("content-length", "")
        if not length.isascii() or not length.isdigit() or int(length) > LARGEST_FORM:
            raise _Refused(413, f"A form has at most {LARGEST_FORM:,} bytes.")
        body = self.rfile.read(int(length)).decode("utf-8", "replace")
        found = parse_qs(body, keep_blank_values=True, max_num_fields=1_000)
        return {key: values[0] for key, values in found.items()}

    # ---- answers

    def _page(self, page: Callable[[Asked], Answer], form: Mapping[str, str]) -> Answer:
        split = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(split.query).items()}
        parts = [unquote(part, errors="surrogateescape") for part in split.path.split("/") if part]
        message = self.server.messages.get(query.get("done", ""))
        fragment = self.headers.get("x-fragment") == "1"
        asked = Asked(parts, query, form, self.server.csrf, fragment, message)
        sorry = self.server.pages.sorry
        try:
            answer = page(asked)
        except NotThere as error:
            return Answer(sorry(str(error), asked, "Not here"), 404)
        except LaminaError as error:
            return Answer(sorry(str(error), asked), 409 if form else 400)
        except Exception as error:  # noqa: BLE001 - the edge: recorded, and said in a sentence
            from lamina.cli import crash

            return Answer(sorry(crash.record(error, sys.argv[1:]), asked), 500)
        if answer.message is not None:
            mark = "&" if "?" in answer.to else "?"
            to, hash_, place = answer.to.partition("#")
            to = f"{to}{mark}done={self.server.leave(answer.message)}{hash_}{place}"
            return Answer(to=to)
        return answer

    def _send(self, answer: Answer) -> None:
        said = answer.body
        body = said if isinstance(said, bytes) else said.encode("utf-8", "replace")
        location = {"Location": answer.to} if answer.to else {}
        headers = {"Content-Type": answer.kind, **answer.headers, **location}
        self._begin(303 if answer.to else answer.status, headers | {"Content-Length": len(body)})
        self.wfile.write(body)

    def _begin(self, status: int, headers: Mapping[str, object]) -> None:
        self.send_response_only(status)
        for name, value in {**_SAFE, **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()

    def _stream(self, topic: str) -> None:
        """Server-sent events: one line for each change. The thread sleeps in between."""
        self.close_connection = True
        self._begin(200, {"Content-Type": "text/event-stream"})
        self.wfile.write(b": listening\n\n")
        self.wfile.flush()
        self.connection.settimeout(None)
        news = b"event: changed\ndata: 1\n\n"
        tell = partial(self.connection.send, news, socket.MSG_DONTWAIT)
        self.server.watch.listen(topic, self.connection, tell)


# ---- what tells pages that something changed

# What people see, and the folders that it is in; indexes and locks change with every look.
_NOTED = (".md", ".jsonl", ".json", "memory", "team", "inbox", "dream", "spend", "subagents")


class Watch:
    """The folders that somebody looks at, and who waits for news of them."""

    def __init__(self) -> None:
        self._news: Inotify | None = None
        self._end = os.pipe()
        # Watched folder → what pages call it, and the one name that they await there, if any.
        self._topics: dict[int, set[tuple[str, str]]] = {}
        # By who waits: the topic, and how to tell them.
        self._waiting: dict[socket.socket, tuple[str, Callable[[], object]]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def folders(self, topic: str, folders: Iterable[Path]) -> None:
        """News from these folders concern the topic."""
        with self._lock:
            if self._news is None and (news := Inotify.opened()):
                self._news = news
                self._thread = threading.Thread(target=self._read, args=[news], daemon=True)
                self._thread.start()
            for folder in folders:
                self._add(topic, folder)

    def _add(self, topic: str, folder: Path, awaited: str = "") -> None:
        """For a folder that is not there yet the nearest above it, until the next one comes."""
        if self._news is None:
            return
        if (number := self._news.add(folder)) < 0 and folder != folder.parent:
            self._add(topic, folder.parent, folder.name)
            number = self._news.add(folder)  # it may have come meanwhile
        if number >= 0:
            self._topics.setdefault(number, set()).add((topic, awaited))

    def _read(self, news: Inotify) -> None:
        while True:
            ready, _, _ = select.select([news.file, self._end[0]], [], [])
            if self._end[0] in ready:
                return
            reports = {*news.read()}
            with self._lock:
                topics = {
                    topic
                    for number, name in reports
                    for topic, awaited in self._topics.get(number, ())
                    if name == awaited or (not awaited and name.endswith(_NOTED) and name[0] != ".")
                }
                for topic, tell in self._waiting.values():
                    if topic in topics:
                        with suppress(OSError):  # full: it has been told; or gone
                            tell()

    def close(self) -> None:
        os.write(self._end[1], b"!")
        if self._thread is not None and self._news is not None:
            self._thread.join()
            os.close(self._news.file)
        for end in self._end:
            os.close(end)

    def listen(self, topic: str, reader: socket.socket, tell: Callable[[], object]) -> None:
        """Call `tell`, which never waits, at every change of the topic, until the reader is gone."""
        with self._lock:
            self._waiting[reader] = topic, tell
        try:
            with suppress(OSError):
                reader.recv(1)  # it has nothing more to say to us: it left
        finally:
            with self._lock:
                del self._waiting[reader]
