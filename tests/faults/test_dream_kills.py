"""`kill -9` at random moments of the one step by which a dream changes files: all of it, or nothing.

`LAMINA_KILLS` sets how many times (a few by default), `LAMINA_KILLS_SEED` which.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lamina.layers import dream
from lamina.memory.file_store import FileStore
from lamina.testing import a_memory

KILLS = int(os.environ.get("LAMINA_KILLS", "8"))
SEED = int(os.environ.get("LAMINA_KILLS_SEED", "16"))
KILLER = Path(__file__).with_name("dream_killer.py")
NOW = 1_800_000_000.0


def with_doubles(memory: Path) -> None:
    """Pairs that become one, each with words of its own, so that files are written and removed."""
    with FileStore(memory) as store:
        for number in range(5):
            fact = (
                f"Hall {number} of the northern warehouse holds the heavy machine number {number * 13} "
                "that cuts steel plates for ferry hulls, tender ramps and harbour cranes each winter."
            )
            for name, words in (("a", "Marta knows."), ("b", "Ivo knows.")):
                body = f"{fact}\n\n{words}"
                store.write(a_memory(f"hall_{number}{name}.md", description=fact, body=body))


def contents(memory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(memory.glob("*.md"))}


@pytest.mark.spec("L6.2", "L6.4", "L6.5")
def test_a_dream_that_is_killed_while_it_writes_is_whole_or_was_not(tmp_path: Path) -> None:
    template = tmp_path / "template" / "memory"
    with_doubles(template)
    before = contents(template)
    chance = random.Random(SEED)
    with subprocess.Popen(
        [sys.executable, str(KILLER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as killer:
        assert killer.stdin
        assert killer.stdout

        def dreamt(wait: int) -> tuple[str, Path]:
            assert killer.stdin
            assert killer.stdout
            folder = tmp_path / "work"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(tmp_path / "template", folder)
            killer.stdin.write(f"{folder / 'memory'} {wait}\n")
            killer.stdin.flush()
            return killer.stdout.readline().strip(), folder / "memory"

        started = time.perf_counter()
        end, memory = dreamt(60_000_000)
        longest = (time.perf_counter() - started) * 1e6
        assert end == "done"
        after = contents(memory)
        assert len(after) == 6
        assert dream.last_dream(memory / dream.LOCK) == NOW
        for _ in range(KILLS):
            end, memory = dreamt(int(chance.random() ** 2 * min(longest, 150_000)))
            with FileStore(memory):
                pass  # opening it finishes what was begun
            now = contents(memory)
            assert now in (before, after)
            dream.repair(memory / dream.LOCK)
            assert dream.last_dream(memory / dream.LOCK) in (0, NOW)
        killer.stdin.close()
