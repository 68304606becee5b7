"""A gateway in threads of its own, a provider that says byte for byte what it is told to, and a client
that does the same.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

from tests.wire.cache import PromptCache
from tests.wire.server import Answer, WireServer

from lamina.config import load
from lamina.gateway.command import desk_for
from lamina.gateway.desk import Desk
from lamina.gateway.peers import Upstream
from lamina.gateway.server import Gateway

Json = dict[str, Any]
WAIT = 60.0  # seconds until a test gives up


@contextmanager
def gateway_to(url: str, desk: Callable[[], Desk] | None = None) -> Iterator[Gateway]:
    gateway = Gateway(Upstream(url), desk() if desk else None)
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.close()


class Provider:
    """Each connection is handed to `speak`, which reads and writes as it likes."""

    def __init__(self, speak: Callable[[socket.socket, Provider], None]) -> None:
        self._speak = speak
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.received: list[bytes] = []
        self.left = threading.Event()  # somebody hung up
        self.go_on = threading.Event()
        self.failed: list[BaseException] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        line.settimeout(WAIT)
        with line:
            try:
                self._speak(line, self)
            except (ConnectionError, TimeoutError) as error:
                self.failed.append(error)
                self.left.set()


def read_message(line: socket.socket) -> bytes:
    """One request or answer with a content-length or chunks, as it came; b"" at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = line.recv(65_536)
        if not piece:
            return data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    size, chunked = 0, False
    for field in head.split(b"\r\n")[1:]:
        name, _, value = field.partition(b":")
        size = int(value) if name.lower() == b"content-length" else size
        chunked = chunked or name.lower() == b"transfer-encoding"
    while len(body) < size or (chunked and not body.endswith(b"0\r\n\r\n")):
        piece = line.recv(65_536)
        if not piece:
            break
        body += piece
    return head + b"\r\n\r\n" + body


def answers(*whole: bytes) -> Callable[[socket.socket, Provider], None]:
    """Reads a request, sends an answer, and so on; then closes."""

    def speak(line: socket.socket, provider: Provider) -> None:
        for answer in whole:
            request = read_message(line)
            if not request:
                return
            provider.received.append(request)
            line.sendall(answer)

    return speak


def ok(body: bytes, *headers: bytes) -> bytes:
    more = b"".join(header + b"\r\n" for header in headers)
    return b"HTTP/1.1 200 Fine\r\n%bContent-Length: %d\r\n\r\n%b" % (more, len(body), body)


@contextmanager
def client_of(gateway: Gateway) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", gateway.port), WAIT) as line:
        yield line


def request(
    gateway: Gateway,
    body: bytes = b"",
    *headers: bytes,
    path: bytes = b"/v1/messages",
    method: bytes = b"POST",
) -> bytes:
    lines = [
        b"%b %b HTTP/1.1" % (method, path),
        b"Host: 127.0.0.1:%d" % gateway.port,
        *headers,
        b"Content-Length: %d" % len(body),
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def asked(gateway: Gateway, data: bytes) -> bytes:
    """What comes back for these bytes until the other side closes or the message is whole."""
    with client_of(gateway) as line:
        line.sendall(data)
        return read_message(line)


def body_of(message: bytes) -> bytes:
    """The body, out of its chunks if there are any."""
    head, _, body = message.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return body
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        whole, body = whole + rest[:length], rest[length + 2 :]
        if not length:
            break
    return whole


class Agent:
    """A coding agent that keeps its whole list and sends it through a gateway, at times that the test
    sets; behind the gateway a provider with a prompt cache."""

    def __init__(
        self,
        folder: Path,
        wire: WireServer,
        *,
        acts: bool = True,
        recalls: bool = False,
        lives: bool = False,
        compacts: bool = False,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.wire = folder, wire
        self.acts, self.recalls, self.lives, self.compacts = acts, recalls, lives, compacts
        self.now = 1_000_000.0
        self.cache = PromptCache(now=self.now)
        self.told: list[str] = []
        self.headers = {"x-api-key": "sk-secret", "content-type": "application/json"}
        wire.rule = self.serve
        self.upstream = wire.anthropic_url
        self._open = ExitStack()
        self.desk: Any = None

    def __enter__(self) -> Self:
        def desk() -> Desk:
            self.desk = desk_for(
                load(self.folder, home=self.folder / "home"),
                acts=self.acts,
                recalls=self.recalls,
                lives=self.lives,
                compacts=self.compacts,
                tell=self.told.append,
                now=lambda: self.now,
            )
            return self.desk

        self.gateway = self._open.enter_context(gateway_to(self.upstream, desk))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def restart(self) -> None:
        self._open.close()
        self.__enter__()

    def serve(self, body: Json) -> Answer:
        self.cache.now = self.now
        usage, _ = self.cache.serve({**body, "system": body.get("system") or []})
        return Answer(usage=usage)

    def post(self, data: bytes, path: str = "/v1/messages") -> tuple[int, bytes]:
        line = HTTPConnection("127.0.0.1", self.gateway.port, timeout=WAIT)
        try:
            line.request("POST", path, data, self.headers)
            answer = line.getresponse()
            return answer.status, answer.read()
        finally:
            line.close()

    def ask(self, messages: Sequence[Json], seconds: float = 10, **more: Any) -> Json:
        """Sends the list; returns what came to the provider."""
        body = asking(messages, **more)
        status, _ = self.post(json.dumps(body, indent=1).encode())
        assert status == 200
        self.now += seconds
        return self.wire.received[-1].body

    def away(self, seconds: float) -> list[Json]:
        """Nothing is asked for so long; what the provider got meanwhile, the gateway looking once."""
        before = len(self.wire.received)
        self.now += seconds
        self.gateway.keep_warm()
        self.desk.catch_up()  # what is booked beside it is booked
        return [one.body for one in self.wire.received[before:]]

    def ledgers(self) -> list[Path]:
        return sorted(self.folder.glob("home/projects/*/conversations/*.jsonl"))


READ = {
    "name": "Read",
    "description": "Reads a file.",
    "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}},
}


def asking(messages: Sequence[Json], **more: Any) -> Json:
    """A request with the last message marked for the cache."""
    *before, last = messages
    if isinstance(last["content"], list):
        mark = {"cache_control": {"type": "ephemeral"}}
        last = {**last, "content": [*last["content"][:-1], {**last["content"][-1], **mark}]}
    head = {"model": "claude-sonnet-4-6", "max_tokens": 100, "stream": True, "tools": [READ]}
    return {**head, "messages": [*before, last], **more}


def work(rounds: int, start: int = 0, topic: str = "") -> list[Json]:
    """Reading file after file; each result is some 800 tokens of its own."""
    said = {"role": "user", "content": [{"type": "text", "text": f"Go on. {topic}"}]}
    messages: list[Json] = [] if start else [said]
    for n in range(start, start + rounds):
        call = {
            "type": "tool_use",
            "id": f"call{n}",
            "name": "Read",
            "input": {"file_path": f"/{n}"},
        }
        words = "\n".join(f"{topic}{n}.{line} is {n * line}" for line in range(200))
        result = {"type": "tool_result", "tool_use_id": f"call{n}", "content": words}
        messages.append({"role": "assistant", "content": [call]})
        messages.append({"role": "user", "content": [result]})
    return messages
