"""A model with no mind behind it, for real coding agents: it answers with the calls that a test has
planned and then with "Done.", in the four dialects that those agents stream, and keeps every
request. A request that offers no tools is a side question (a title, a summary) and uses up no plan.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]
Call = tuple[str, Json]  # a tool's name and its arguments
LAST_CALL = "of the last call"  # an argument `id` that is this becomes the id of that
_CALL = re.compile(r'"((?:toolu|call)_\d+)"')
_USAGE = {"input_tokens": 100, "output_tokens": 10}


class ModelServer(ThreadingHTTPServer):
    """`with ModelServer() as server:` listens on a free port of this machine."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[Json] = []
        self.plan: list[Call] = []
        self.words = "Done."  # when there is nothing left to call
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def step(self, body: Json) -> tuple[int, Call | None, str]:
        """The number of this request, the call that answers it, if one is planned, and the words."""
        with self._lock:
            self.requests.append(body)
            call = self.plan.pop(0) if body.get("tools") and self.plan else None
            if call is not None and call[1].get("id") == LAST_CALL:
                call = (call[0], {"id": _CALL.findall(json.dumps(body))[-1]})
            return len(self.requests), call, self.words


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self._whole({})

    def do_GET(self) -> None:
        self._whole({"object": "list", "data": [], "models": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        path = self.path.partition("?")[0]
        dialect = next((make for end, make in DIALECTS.items() if path.endswith(end)), None)
        if dialect is None:  # counting tokens and the like
            self._whole({"input_tokens": 100, "totalTokens": 100})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, data in dialect(*self.server.step(body)):
            head = f"event: {name}\n" if name else ""
            self.wfile.write(f"{head}data: {json.dumps(data)}\n\n".encode())

    def _whole(self, value: Json) -> None:
        raw = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)


Events = Iterator[tuple[str, Any]]


def _messages(number: int, call: Call | None, words: str) -> Events:
    """Anthropic's Messages."""

    def event(kind: str, **more: Any) -> tuple[str, Json]:
        return kind, {"type": kind, **more}

    head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m"}
    about = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": _USAGE}
    yield event("message_start", message={**head, **about})
    if call:
        empty: Json = {"type": "tool_use", "id": f"toolu_{number}", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    else:
        empty = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": words}
    yield event("content_block_start", index=0, content_block=empty)
    yield event("content_block_delta", index=0, delta=delta)
    yield event("content_block_stop", index=0)
    ended = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    yield event("message_delta", delta=ended, usage={"output_tokens": 10})
    yield event("message_stop")


def _chat(number: int, call: Call | None, words: str) -> Events:
    """OpenAI's Chat Completions."""
    head = {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    delta: Json = {"role": "assistant", "content": words}
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        one = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        delta = {"role": "assistant", "tool_calls": [one]}
    yield "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    ended = "tool_calls" if call else "stop"
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    yield "", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": ended}]}
    yield "", {**head, "choices": [], "usage": usage}


def _responses(number: int, call: Call | None, words: str) -> Events:
    """OpenAI's Responses. An MCP tool's name is told apart from its server's."""
    if call:
        server, _, tool = call[0].rpartition("__")
        item: Json = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
        item |= {"name": tool, "arguments": json.dumps(call[1]), "status": "completed"}
        item |= {"namespace": server} if server else {}
    else:
        said = [{"type": "output_text", "text": words, "annotations": []}]
        item = {"type": "message", "id": f"m{number}", "role": "assistant", "content": said}
    response = {"id": f"r{number}", "object": "response", "status": "completed", "output": [item]}
    usage = {**_USAGE, "total_tokens": 110, "input_tokens_details": {"cached_tokens": 0}}
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}}
    steps = {
        "response.created": {"response": {**response, "status": "in_progress", "output": []}},
        "response.output_item.added": {"output_index": 0, "item": item},
        "response.output_item.done": {"output_index": 0, "item": item},
        "response.completed": {"response": {**response, "usage": usage}},
    }
    for kind, data in steps.items():
        yield kind, {"type": kind, **data}


def _gemini(number: int, call: Call | None, words: str) -> Events:
    """Google's streamGenerateContent."""
    part: Json = {"text": words}
    if call:
        part = {"functionCall": {"name": call[0], "args": call[1], "id": f"f{number}"}}
    content = {"role": "model", "parts": [part]}
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
    candidate = {"content": content, "index": 0, "finishReason": "STOP"}
    yield "", {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}


DIALECTS: dict[str, Callable[[int, Call | None, str], Events]] = {
    "/messages": _messages,
    "/chat/completions": _chat,
    "/responses": _responses,
    ":streamGenerateContent": _gemini,
}
