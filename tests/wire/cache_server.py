"""A provider with a prompt cache and `cache_edits`, as a process of its own: prints its port, then
serves `/v1/messages`. Tests steer it over HTTP: `POST /control/script` (a list of answers),
`/control/advance` ({"seconds"}), `GET /control/seen` (what the model was shown last).

Run: python -m tests.wire.cache_server [--min-tokens N]
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.wire.cache import PromptCache
from tests.wire.formats import Json, anthropic_error, anthropic_events


class Provider:
    """The cache, the answers to come, and one lock around both."""

    def __init__(self, min_tokens: int) -> None:
        self.cache = PromptCache(min_tokens)
        self.script: list[list[Json]] = []
        self.count = 0
        self.lock = threading.Lock()

    def answer(self, body: Json) -> list[tuple[str, Json]]:
        with self.lock:
            usage, edits = self.cache.serve(body)
            self.count += 1
            content = self.script.pop(0) if self.script else [{"type": "text", "text": "ok"}]
            message = {"id": f"msg_{self.count:04d}", "model": str(body.get("model"))}
        end = {"cache_edits": edits} if body.get("cache_edits") else {}
        stop = "tool_use" if any(b["type"] == "tool_use" for b in content) else "end_turn"
        return list(
            anthropic_events(content, stop_reason=stop, usage=usage, message=message, end=end)
        )


class Handler(BaseHTTPRequestHandler):
    provider: Provider
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        cache = self.provider.cache
        self._json(200, {"seen": cache.seen, "entries": len(cache.entries), "now": cache.now})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        match self.path.partition("?")[0]:
            case "/control/script":
                self.provider.script = body
                self._json(200, {})
            case "/control/advance":
                self.provider.cache.advance(body["seconds"])
                self._json(200, {})
            case "/v1/messages":
                self._messages(body)
            case _:
                self._json(404, anthropic_error("not_found_error", self.path))

    def _messages(self, body: Json) -> None:
        try:
            events = self.provider.answer(body)
        except (ValueError, KeyError, TypeError) as error:
            self._json(400, anthropic_error("invalid_request_error", str(error)))
            return
        lines = [f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events]
        self._send(200, "text/event-stream", "".join(lines).encode())

    def _json(self, status: int, value: Json) -> None:
        self._send(status, "application/json", json.dumps(value).encode())

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--min-tokens", type=int, default=0)
    Handler.provider = Provider(parser.parse_args().min_tokens)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    # It ends with the test that started it, however that ended.
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
