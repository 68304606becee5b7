"""`kill -9` at random moments while a real process writes memories: nothing torn, nothing lost.

`LAMINA_KILLS` sets how many times (a few by default), `LAMINA_KILLS_SEED` which; `make bench-trust`
runs a campaign of both.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lamina.memory.file_store import FileStore
from lamina.memory.index import pointers_of

KILLS = int(os.environ.get("LAMINA_KILLS", "12"))
SEED = int(os.environ.get("LAMINA_KILLS_SEED", "20261115"))

WRITER = Path(__file__).with_name("memory_writer.py")


def acknowledge(state: dict[str, str | None], lines: list[str]) -> None:
    """Note what the writer said was done: path and content marker, None for forgotten."""
    for line in lines:
        verb, *words = line.split()
        if verb == "wrote":
            state[words[0]] = words[1]
        elif verb == "forgot":
            state[words[0]] = None
        elif verb == "renamed":
            state[words[1]] = state.get(words[0])
            state[words[0]] = None


class Writers:
    """Processes that write, one after the other."""

    def __init__(self, root: Path) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, str(WRITER), str(root / "memory")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "loaded"

    def run_and_kill(self, seed: int, moment: float) -> list[str]:
        """Let one work until it has said so many lines, and a random moment more; what it said."""
        assert self._parent.stdin
        self._parent.stdin.write(f"{seed}\n")
        self._parent.stdin.flush()
        first, process = self._line().split()
        assert first == "ready"
        lines = [self._line() for _ in range(int(moment * 13))]
        # A part of a write's own time: a wait of random length, busy so that it can be short.
        for _ in range(int((moment * 1000 % 1) * 60_000)):
            pass
        os.kill(int(process), signal.SIGKILL)
        while (line := self._line()) != "gone":
            lines.append(line)
        return lines

    def _line(self) -> str:
        assert self._parent.stdout
        line = self._parent.stdout.readline()
        assert line.endswith("\n"), "the writer ended by itself"
        return line.strip()

    def close(self) -> None:
        self._parent.communicate()
        assert self._parent.returncode == 0


@pytest.mark.spec("M9")
def test_a_killed_writer_tears_no_file_and_loses_no_acknowledged_write(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    expected: dict[str, str | None] = {}
    writers = Writers(tmp_path)
    for round_number in range(KILLS):
        lines = writers.run_and_kill(SEED * 10_000 + round_number, chance.random())
        acknowledge(expected, lines)
        started = lines[-1].split()[1:] if lines and lines[-1].startswith("begin") else []
        check(tmp_path, expected, started)
        # What was under way counts as done or not done; either is fine, half is not.
        refresh(tmp_path, expected, started)
    writers.close()


def check(root: Path, expected: dict[str, str | None], started: list[str]) -> None:
    with FileStore(root / "memory") as store:
        assert store.catch_up() == [], "the history did not hold what the files say"
        names = os.listdir(store.directory) if store.directory.exists() else []
        assert not [name for name in names if name.startswith(".")], "a stray file is left"
        memories = {memory.path: memory for memory in store.list()}
        for path, marker in expected.items():
            if path in started:
                continue
            if marker is None:
                assert path not in memories, f"{path} came back"
            else:
                assert path in memories, f"{path} was acknowledged and is lost"
                check_whole(store, path, marker)
        for path in memories:
            check_whole(store, path, None)
        index = store.read_bytes("MEMORY.md") if "MEMORY.md" in names else b""
        pointed = {pointer.file for pointer in pointers_of(index)}
        assert pointed == set(memories), "index and files differ"
        recorded = set(store.journal.history.files())
        assert recorded == set(names), "history and files differ"
        assert store.journal.intents.applied() == store.journal.intents.unapplied() == []
        assert not (store.state / "rescued").exists()


def check_whole(store: FileStore, path: str, marker: str | None) -> None:
    """Every line of a body carries one marker: a torn or mixed file shows at once."""
    lines = store.read(path).body.split("\n")
    markers = {line.split()[0] for line in lines}
    assert len(lines) == 40, f"{path} is torn"
    assert len(markers) == 1, f"{path} is mixed"
    if marker is not None:
        assert markers == {marker}, f"{path} is an older version"


def refresh(root: Path, expected: dict[str, str | None], started: list[str]) -> None:
    with FileStore(root / "memory") as store:
        present = {memory.path for memory in store.list()}
        for path in started:
            expected[path] = store.read(path).body.split()[0] if path in present else None
        strangers = present - {path for path, marker in expected.items() if marker is not None}
        assert not strangers, "a memory that nobody wrote"
