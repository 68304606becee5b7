"""A program in a real terminal: a pty whose screen the tests read and whose keys they press."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PROMPT = "›"
# Escapes, and with them a line that says what is waited for, once it is written anew or taken away.
_UNSEEN = re.compile(
    r"\r\x1b\[K[^\r\n]*(?=\r\x1b\[K)|\r\x1b\[K|\x1b(\[[0-9;?]*[A-Za-z]|[=>78]|\][^\x07]*\x07)"
)

# The pty becomes the terminal that controls the process, so that Ctrl-C is a signal there.
LAUNCH = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from lamina.cli.main import main
sys.exit(main())
"""


class Screen:
    """`lamina` with the given arguments in a terminal of so many columns."""

    def __init__(
        self,
        words: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        columns: int = 100,
        launch: str = LAUNCH,
    ) -> None:
        self.terminal, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, columns))
        self.raw = ""
        self._read_to = 0  # of what came, escapes included: what is read stays read
        self.process = subprocess.Popen(
            [sys.executable, "-c", launch, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={**env, "TERM": "xterm", "NO_COLOR": "1"},
            start_new_session=True,
        )
        os.close(slave)

    @property
    def text(self) -> str:
        return _UNSEEN.sub("", self.raw)

    def expect(self, wanted: str, seconds: float = 60) -> str:
        """Read until the words show up after what was expected last; returns what came before."""
        end = time.monotonic() + seconds
        while True:
            text, places = self._unread()
            at = text.find(wanted)
            if at >= 0:
                self._read_to = places[at + len(wanted) - 1] + 1
                return text[:at]
            if not self._more(end - time.monotonic()):
                raise AssertionError(f"{wanted!r} did not come; the screen shows:\n{self.text}")

    def _unread(self) -> tuple[str, list[int]]:
        """What is shown and was not expected yet, and where each character of it came."""
        places, at = list[int](), self._read_to
        for unseen in _UNSEEN.finditer(self.raw, at):
            places += range(at, unseen.start())
            at = unseen.end()
        places += range(at, len(self.raw))
        return "".join(self.raw[place] for place in places), places

    def press(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def say(self, line: str) -> None:
        """Type a line at the prompt."""
        self.expect(PROMPT)
        self.press(line + "\r")

    def leave(self, keys: str = "") -> int:
        """Read to the end; the exit code."""
        self.press(keys)
        while self._more(60):
            pass
        return self.process.wait(60)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)
        os.close(self.terminal)

    def _more(self, seconds: float) -> bool:
        if seconds <= 0 or not select.select([self.terminal], [], [], seconds)[0]:
            return False
        try:
            chunk = os.read(self.terminal, 65_536)
        except OSError:  # Linux says so when the other end is closed
            return False
        for _ in range(chunk.count(b"\x1b[6n")):  # "where is the cursor?"
            self.press("\x1b[10;1R")
        self.raw += chunk.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(chunk)
