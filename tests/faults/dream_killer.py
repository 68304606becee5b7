"""Forks a dreamer for every line on stdin (`MEMORY MICROSECONDS`) and kills it that long after it
began to write. Says `gone` then, or `done` if the dreamer was faster.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from lamina.layers import dream as dream_lock
from lamina.layers.dream.plan import DreamPlanner, carry_out
from lamina.memory.file_store import FileStore

NOW = 1_800_000_000.0


def dream(memory: Path, ready: int) -> None:
    lock = dream_lock.acquire(memory / dream_lock.LOCK, now=NOW)
    with FileStore(memory) as store:
        store.catch_up()
        planner = DreamPlanner(store, NOW)
        step = planner.step()
        os.write(ready, b"r")
        carry_out(store, planner.before, step, NOW)
        lock.succeeded(NOW)


def killed(memory: Path, wait: float) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        dream(memory, writing)
        os._exit(0)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    until = time.perf_counter() + wait
    ended, status = 0, 0
    while time.perf_counter() < until and not ended:
        ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    return "done" if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0 else "gone"


def main() -> None:
    for line in sys.stdin:
        memory, microseconds = line.rsplit(" ", 1)
        sys.stdout.write(killed(Path(memory), int(microseconds) / 1e6) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
