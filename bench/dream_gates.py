"""What the dream's gates cost a turn when they are closed, and a whole dream over files.

The store is that of the dream benchmark: 500 memories with 100 doubles, 50 contradictions and 30
dangling pointers, written to a real directory and dreamt over through gate, journal and history.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import anyio

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench import dream_store  # noqa: E402 - run as a file or as a module
from bench.figures import Figure, at_most, median, report, seconds  # noqa: E402

from lamina.layers import dream  # noqa: E402
from lamina.memory.index import pointers_of  # noqa: E402
from lamina.memory.topics import new_topic  # noqa: E402
from lamina.session import Session  # noqa: E402

ROUNDS = 2_000


def main() -> int:
    with tempfile.TemporaryDirectory() as root:
        figures = anyio.run(_measure, Path(root))
    return report("dream_gates", figures)


async def _measure(root: Path) -> list[Figure]:
    (root / "project").mkdir()
    async with Session.open(
        root / "project", "none", home=root / "home", interactive=True
    ) as session:
        state, store = session.state, session.state.deps.memory
        assert store is not None
        planted = dream_store.make()
        for memory in planted.memories:
            content = new_topic(
                name=memory.name,
                description=memory.description,
                type=memory.type,
                body=memory.body,
                extra=memory.extra,
            )
            (store.directory / memory.path).write_bytes(content)
        (store.directory / "MEMORY.md").write_text(planted.index)
        started = time.perf_counter()
        first = await dream.run(state)
        took = time.perf_counter() - started
        again = await dream.run(state)
        lock = store.directory / dream.LOCK
        os.utime(lock)

        def turns() -> None:
            for _ in range(ROUNDS):
                dream.after_turn(state)

        closed = median(lambda: seconds(turns)) / ROUNDS * 1e6
        bodies = "".join(path.read_text() for path in store.directory.glob("*.md"))
        lost = [fact for fact in planted.facts if fact not in bodies]
        pointers = pointers_of((store.directory / "MEMORY.md").read_bytes())
        dangling = [one.file for one in pointers if not (store.directory / one.file).exists()]
        merged = [copy for one, copy in planted.duplicates if not _both(store.directory, one, copy)]
        share = len(merged) / len(planted.duplicates)
        return [
            at_most("gates closed", closed, "µs", 50),
            Figure("dream over 500 files", round(took, 2), "s"),
            Figure("duplicates merged", round(share, 3), "", "≥0.95", share >= 0.95),
            at_most("unique facts lost", len(lost), "", 0),
            at_most("dangling pointers left", len(dangling), "", 0),
            at_most("changed by a second dream", len(again.step.changes), "files", 0),
            Figure("memories improved", len(first.step.files), ""),
        ]


def _both(directory: Path, one: str, copy: str) -> bool:
    return (directory / one).exists() and (directory / copy).exists()


if __name__ == "__main__":
    sys.exit(main())
