"""The processes that are killed: each writes, updates, renames and forgets memories as fast as it can.

For every seed on stdin one process is forked, so that nothing need be loaded again. It prints its
id, `begin PATH…` before an operation, and what was done after the store acknowledged it; `gone`
follows when it is dead.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path

from lamina.memory.file_store import FileStore
from lamina.testing import a_memory


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def main() -> None:
    directory = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as warm, FileStore(Path(warm) / "memory") as store:
        store.remember(a_memory("warm.md"))  # loads what is loaded late
    say("loaded")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            write(directory, int(line))
            os._exit(0)
        os.waitpid(child, 0)
        say("gone")


def write(directory: Path, seed: int) -> None:
    chance = random.Random(seed)
    with FileStore(directory, background=True) as store:
        say("ready", str(os.getpid()))
        for number in range(10_000):
            step(store, chance, f"r{seed}n{number}")


def step(store: FileStore, chance: random.Random, marker: str) -> None:
    present = sorted(memory.path for memory in store.list())
    action = chance.random()
    path = f"memory_{chance.randrange(12)}.md"
    if present and action < 0.3:
        path = chance.choice(present)
    if path in present and action < 0.2:
        say("begin", path)
        store.forget(path, tombstone=action < 0.05)
        say("forgot", path)
    elif path in present and action < 0.3:
        new = f"renamed_{marker}.md"
        say("begin", path, new)
        store.rename(path, new)
        say("renamed", path, new)
    else:
        body = "\n".join(f"{marker} line {line} of this memory" for line in range(40))
        base = store.read(path) if path in present else None
        say("begin", path)
        store.remember(a_memory(path, body=body, description=f"version {marker}"), base=base)
        say("wrote", path, marker)


if __name__ == "__main__":
    main()
