"""The process that dreams: it says where it is and, at the moment it is told, waits for a line.

`dreamer.py ROOT [--hold TEXT] [--clock FILE] [--limit BYTES]`. Prints `at TEXT` for every step and
at the end the result as JSON. The clock is read from a file, so that a test moves it.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import anyio
from tests.sessions import Place

from lamina.events import DreamChanged, Event
from lamina.layers import dream


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


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--hold", default="")
    parser.add_argument("--clock", default="")
    parser.add_argument("--limit", type=int, default=0)
    args = parser.parse_args()

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


if __name__ == "__main__":
    anyio.run(main)
