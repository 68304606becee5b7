"""Processes that dream: each says where it is and, at the moment it is told, waits for a line.

`dreamer.py SOCKET` imports everything once, then forks a dreamer for each connection. Its first line
is a JSON list, `ROOT [--hold TEXT] [--clock FILE] [--limit BYTES]`; the dreamer says its process id,
`at TEXT` for every step, and at the end the result as JSON. The clock is read from a file, so that a
test moves it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from pathlib import Path

import anyio
from tests.sessions import Place

from lamina.events import DreamChanged, Event
from lamina.layers import dream

LAZY = (  # what a session and a dream import when they first need it
    "anyio._backends._asyncio",
    "dulwich.repo",
    "lamina.layers.dream.runner",
    "lamina.local.consolidator",
    "lamina.models.none",
    "lamina.recall.transcripts",
    "lamina.secrets.scanner",
    "lamina.tools.functions",
    "lamina.tools.grep",
    "lamina.tools.permissions",
    "lamina.tools.view_tools",
)


class FileClock:
    """Real time, plus what a file says."""

    def __init__(self, file: str) -> None:
        self._file = Path(file) if file else None

    def _ahead(self) -> float:
        return float(self._file.read_text()) if self._file and self._file.exists() else 0.0

    def now(self) -> float:
        return time.time() + self._ahead()

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


async def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--hold", default="")
    parser.add_argument("--clock", default="")
    parser.add_argument("--limit", type=int, default=0)
    args = parser.parse_args(words)

    def listen(event: Event) -> None:
        if isinstance(event, DreamChanged):
            say(f"at {event.text}")
            if args.hold and event.text == args.hold and event.status == "running":
                sys.stdin.readline()
                if args.limit:
                    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (args.limit, most))

    place = Place(args.root)
    clock = FileClock(args.clock)
    async with place.open("none", clock=clock, on_event=listen) as session:
        say("ready")
        try:
            done = await dream.run(session.state)
            result = done.to_json()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            result = {"status": "raised", "text": str(error)}
        if args.limit:
            _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        say(json.dumps(result))


def bury(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def serve(path: str) -> None:
    """Until nobody holds our stdin any more."""
    for name in LAZY:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, bury)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        say("ready")
        while sys.stdin not in select.select([server, sys.stdin], [], [])[0]:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                be_dreamer(connection)
            connection.close()


def be_dreamer(connection: socket.socket) -> None:
    sys.stdin, sys.stdout = connection.makefile("r"), connection.makefile("w")
    say(str(os.getpid()))
    try:
        anyio.run(main, json.loads(sys.stdin.readline()))
    finally:
        os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
