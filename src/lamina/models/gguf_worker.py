"""The child process that holds a local model: reads requests as JSON lines from standard input,
writes chunks as JSON lines to standard output, ends with its parent. It reads the weights and opens
no files for writing; the run-time's own listener on this machine is closed by a random key.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from importlib import import_module
from typing import Any, BinaryIO
from urllib.request import Request, urlopen


def main() -> None:
    # Whatever the run-time prints goes to standard error; only our lines go to the parent.
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    lines = sys.stdin.buffer
    settings = {**json.loads(lines.readline()), "key": secrets.token_hex(32)}
    try:
        server = _load(settings)
    except Exception as error:  # noqa: BLE001 - the edge of the process: the parent reports it
        _send(out, {"failed": str(error)})
        return
    _send(out, {"ready": True})
    for line in lines:
        request = json.loads(line)
        if "count" in request:
            _count(server.listening_address, settings["key"], request["count"], out)
        else:
            _answer(server, request, out)


def _load(settings: dict[str, Any]) -> Any:
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.n_ctx = settings["window"]
    params.n_parallel = 1
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.warmup = False
    params.ui = False
    params.verbosity = 0
    params.api_keys = [settings["key"]]
    return xllamacpp.Server(params)


def _answer(server: Any, request: dict[str, Any], out: BinaryIO) -> None:
    def pass_on(chunk: Any) -> bool:
        value = json.loads(chunk) if isinstance(chunk, str | bytes) else chunk
        _send(out, {"error": value["error"]} if "error" in value else {"chunk": value})
        return False

    try:
        last = server.handle_chat_completions(request, pass_on)
    except Exception as error:  # noqa: BLE001 - the edge of the process: the parent reports it
        _send(out, {"error": {"message": str(error)}})
    else:
        if isinstance(last, dict) and "error" in last:
            pass_on(last)
    _send(out, {"done": True})


def _count(address: str, key: str, text: str, out: BinaryIO) -> None:
    """How many tokens the model's own tokeniser makes of a text."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    body = json.dumps({"content": text}).encode()
    try:
        with urlopen(Request(f"{address}/tokenize", body, headers), timeout=60) as reply:  # noqa: S310 - our own
            _send(out, {"count": len(json.load(reply)["tokens"])})
    except (OSError, ValueError, KeyError) as error:
        _send(out, {"error": {"message": str(error)}})


def _send(out: BinaryIO, value: dict[str, Any]) -> None:
    out.write(json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode() + b"\n")


if __name__ == "__main__":
    main()
