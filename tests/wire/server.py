"""The server: answers are queued by the test, faults among them, and what came in is kept raw."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

from tests.wire.formats import (
    Json,
    anthropic_error,
    anthropic_events,
    anthropic_whole,
    openai_chunks,
    openai_error,
    openai_whole,
    responses_whole,
)

Fault = Literal["half_open", "drop", "malformed", "wrong_event", "error_event"]


@dataclass(slots=True)
class Answer:
    """What the server says to one request.

    `fault` strikes after `after` events: half_open sends nothing more and keeps the line, drop
    closes it, malformed sends what is no JSON, wrong_event sends JSON of a wrong shape, error_event
    sends the provider's own error. `silent` is set when a
    line has gone silent, `left` when the client hung up on it.
    """

    content: list[Json] = field(default_factory=lambda: [{"type": "text", "text": "ok"}])
    stop_reason: str = "end_turn"
    usage: Json | None = None
    message: Json = field(default_factory=dict[str, Any])  # more fields of message_start's message
    end: Json = field(default_factory=dict[str, Any])  # more fields of message_delta
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    error: tuple[str, str] = ("api_error", "The wire test says no.")
    code: str | None = None
    fault: Fault | None = None
    after: int = 3
    silent: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def nobodys_port() -> Iterator[int]:
    """A port that refuses connections. No other test can get it meanwhile, but a server that is told to may
    listen there, as often as it likes."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))  # bound, not listening
        yield held.getsockname()[1]


def says(text: str, **fields: Any) -> Answer:
    return Answer([{"type": "text", "text": text}], **fields)


def fails(status: int, kind: str = "api_error", message: str = "no", **fields: Any) -> Answer:
    return Answer(status=status, error=(kind, message), **fields)


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Json:
        return json.loads(self.raw)


class WireServer:
    """Both wire formats on one port; use it as a context manager or through the `wire` fixture."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answers: list[Answer] = []
        self.rule: Callable[[Json], Answer | None] | None = None  # asked first, by body
        self.connections = 0
        self.token_count = 123
        self.closing = threading.Event()
        self._lock = threading.Lock()
        server = self

        class Handler(_Handler):
            wire = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()

    @property
    def port(self) -> int:
        return self._http.server_address[1]

    @property
    def anthropic_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def will(self, *answers: Answer) -> None:
        """Queue answers; when none is left, the server says `ok`."""
        with self._lock:
            self.answers.extend(answers)

    def answer_to(self, received: Received) -> Answer:
        with self._lock:
            self.received.append(received)
            if self.rule is not None and (answer := self.rule(received.body)) is not None:
                return answer
            return self.answers.pop(0) if self.answers else Answer()


class _Handler(BaseHTTPRequestHandler):
    wire: WireServer
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.wire.connections += 1

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(self.path.partition("?")[0], headers, raw)
        if received.path.endswith("/count_tokens"):
            self.wire.received.append(received)
            self._json(200, {"input_tokens": self.wire.token_count})
            return
        openai = received.path.endswith("/chat/completions")
        responses = received.path.endswith("/responses")
        if not openai and not responses and not received.path.endswith("/v1/messages"):
            self._json(404, {"error": {"type": "not_found_error", "message": "no such path"}})
            return
        answer = self.wire.answer_to(received)
        kind, message = answer.error
        if answer.status != 200:
            body = (
                openai_error(kind, message, answer.code)
                if openai
                else anthropic_error(kind, message)
            )
            self._json(answer.status, body, answer.headers)
            return
        if responses:
            self._responses(answer, streams=bool(received.body.get("stream")))
            return
        if not received.body.get("stream"):
            self._json(200, _whole(answer, openai=openai), answer.headers)
            return
        # A client that hangs up in the middle is a part of the tests.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._stream(answer, list(_lines(answer, received.body, openai=openai)))

    def _json(self, status: int, body: Json, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _responses(self, answer: Answer, *, streams: bool) -> None:
        whole = responses_whole(answer.content, usage=answer.usage or _RESPONSES_USAGE)
        if not streams:
            self._json(200, whole)
            return
        kinds = ("response.created", "response.completed")
        events = [
            _sse(kind, {"type": kind, "sequence_number": number, "response": whole})
            for number, kind in enumerate(kinds)
        ]
        self._stream(answer, events)

    def _stream(self, answer: Answer, lines: list[bytes]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        whole = lines if answer.fault is None else lines[: answer.after]
        self._chunks(whole)
        match answer.fault:
            case None:
                self.wfile.write(b"0\r\n\r\n")
            case "half_open":
                self._stay_silent(answer)
            case "drop":
                self._hang_up()
            case "malformed":
                self._chunks([b'event: content_block_delta\ndata: {"type": "content_\n\n'])
                self._hang_up()
            case "wrong_event":
                wrong = {"type": "content_block_delta", "index": 99, "choices": "none"}
                self._chunks([_sse("content_block_delta", wrong)])
                self._hang_up()
            case "error_event":
                kind, message = answer.error
                self._chunks([_sse("error", anthropic_error(kind, message))])
                self.wfile.write(b"0\r\n\r\n")

    def _chunks(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()

    def _stay_silent(self, answer: Answer) -> None:
        """Wait until the client hangs up or the test is over."""
        answer.silent.set()
        self.connection.settimeout(0.05)
        while not self.wire.closing.is_set():
            try:
                if not self.connection.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        answer.left.set()
        self.close_connection = True

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True


def _sse(event: str | None, data: Json) -> bytes:
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()


_OPENAI_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
_RESPONSES_USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 15,
}
_ANTHROPIC_USAGE = {"input_tokens": 10, "output_tokens": 5}


def _whole(answer: Answer, *, openai: bool) -> Json:
    usage = answer.usage or (_OPENAI_USAGE if openai else _ANTHROPIC_USAGE)
    if openai:
        return openai_whole(answer.content, stop_reason=answer.stop_reason, usage=usage)
    return anthropic_whole(
        answer.content, stop_reason=answer.stop_reason, usage=usage, message=answer.message
    )


def _lines(answer: Answer, body: Json, *, openai: bool) -> Iterator[bytes]:
    if openai:
        with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        for chunk in openai_chunks(
            answer.content,
            stop_reason=answer.stop_reason,
            usage=answer.usage or _OPENAI_USAGE,
            with_usage=with_usage,
        ):
            yield _sse(None, chunk)
        yield b"data: [DONE]\n\n"
        return
    for event, data in anthropic_events(
        answer.content,
        stop_reason=answer.stop_reason,
        usage=answer.usage or _ANTHROPIC_USAGE,
        message=answer.message,
        end=answer.end,
    ):
        yield _sse(event, data)
