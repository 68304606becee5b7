"""Fixtures for tests that talk to a provider: `wire` is a server in this process that breaks on
demand, `cache_provider` a server in a process of its own that keeps a prompt cache.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.wire.server import WireServer

ROOT = Path(__file__).parents[2]


@pytest.fixture
def wire() -> Iterator[WireServer]:
    """A local server that speaks Anthropic's and OpenAI's wire formats."""
    with WireServer() as server:
        yield server


class CacheProvider:
    """The cache server's process, and how a test steers it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def script(self, *answers: list[dict[str, Any]]) -> None:
        """The content of the answers to come; afterwards it says `ok`."""
        self._call("/control/script", list(answers))

    def advance(self, seconds: float) -> None:
        """Let time pass at the server."""
        self._call("/control/advance", {"seconds": seconds})

    def seen(self) -> list[dict[str, Any]]:
        """What the model was shown last: tools, system and messages as one list."""
        return self._call("/control/seen")["seen"]

    def _call(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.url + path, data=data), timeout=60) as reply:
            return json.load(reply)


@pytest.fixture
def cache_provider() -> Iterator[CacheProvider]:
    """A provider with a prompt cache and cache edits, in a separate process."""
    with cache_server() as provider:
        yield provider


@contextmanager
def cache_server() -> Iterator[CacheProvider]:
    """The same for a benchmark."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.wire.cache_server"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield CacheProvider(int(process.stdout.readline()))
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()
