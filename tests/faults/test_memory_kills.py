"""`kill -9` at random moments while a real process writes memories: nothing torn, nothing lost.

`LAMINA_KILLS` sets how many times (a few by default, 1,000 for the figure in bench/results).
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

KILLS = int(os.environ.get("LAMINA_KILLS", "4"))

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


def run_and_kill(root: Path, seed: int, moment: float) -> list[str]:
    """Let the writer work until its output reaches a random line, then a random moment more."""
    child = subprocess.Popen(
        [sys.executable, str(WRITER), str(root / "memory"), str(seed)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout
    lines: list[str] = []
    try:
        for line in child.stdout:
            if line.endswith("\n"):
                lines.append(line.strip())
            if len(lines) > 1 + int(moment * 12):
                break
        # A part of a write's own time: no sleep of fixed length, a busy wait of random length.
        for _ in range(int((moment * 1000 % 1) * 40_000)):
            pass
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    whole = rest[: rest.rfind("\n") + 1]
    return [*lines, *whole.split("\n")[:-1]]


@pytest.mark.spec("M9")
def test_a_killed_writer_tears_no_file_and_loses_no_acknowledged_write(tmp_path: Path) -> None:
    chance = random.Random(20261115)
    expected: dict[str, str | None] = {}
    for round_number in range(KILLS):
        lines = run_and_kill(tmp_path, round_number, chance.random())
        assert lines[0] == "ready"
        acknowledge(expected, lines[1:])
        started = lines[-1].split()[1:] if lines[-1].startswith("begin") else []
        check(tmp_path, expected, started)
        # What was under way counts as done or not done; either is fine, half is not.
        refresh(tmp_path, expected, started)


def check(root: Path, expected: dict[str, str | None], started: list[str]) -> None:
    with FileStore(root / "memory") as store:
        assert store.catch_up() == [], "the history did not hold what the files say"
        names = [file.name for file in store.directory.iterdir()]
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
        pointed = {
            pointer.file for pointer in pointers_of((root / "memory" / "MEMORY.md").read_bytes())
        }
        assert pointed == set(memories), "index and files differ"
        files = store.journal.history.files()
        assert set(files) == {*memories, "MEMORY.md"}, "history and files differ"
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
