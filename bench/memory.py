"""The memory directory: scans with a warm and a cold index, writes through the gate, and what commands
cost as it grows.

Scans are compared in the same run with the bare system calls that they can't do without. The kills
are counted by `tests/faults/test_memory_kills.py` (LAMINA_KILLS=1000), not here.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, thread_time

from bench.figures import Figure, at_most, median, p95, report, seconds
from bench.memory_growth import growth

from lamina.memory.beneath import Beneath
from lamina.memory.file_store import FileStore
from lamina.memory.scan import Scanner
from lamina.testing import a_memory

_SYLLABLES = ("ba", "ke", "lim", "no", "ras", "tu", "vo", "zen", "dar", "fi", "gol", "hep")
# As in real text some words are common and most are rare; real memories share few of them.
WORDS = [a + b + c for a in _SYLLABLES for b in _SYLLABLES for c in _SYLLABLES]
_WEIGHTS = [1 / rank for rank in range(1, len(WORDS) + 1)]


def text(rng: random.Random, count: int) -> list[str]:
    return rng.choices(WORDS, _WEIGHTS, k=count)


def fill(directory: Path, count: int) -> None:
    """Memories of the usual size, in two sub-directories too, all older than a minute."""
    rng = random.Random(count)
    (directory / "team").mkdir(parents=True)
    for number in range(count):
        folder = "team/" if number % 10 == 0 else ""
        words = text(rng, rng.randrange(60, 260))
        head = (
            f"---\nname: Note {number}\ndescription: {' '.join(words[:9])}\ntype: project\n---\n\n"
        )
        file = directory / f"{folder}project_note_{number:06}.md"
        file.write_text(head + " ".join(words) + f" {number}.\n")
        os.utime(file, (1.7e9 + number * 37 % 9973, 1.7e9 + number * 37 % 9973))


def scandir_and_stat(directory: Path) -> list[os.stat_result]:
    found: list[os.stat_result] = []
    for folder in (directory, directory / "team"):
        with os.scandir(folder) as entries:
            found += [entry.stat(follow_symlinks=False) for entry in entries]
    return found


def scandir_and_read(directory: Path) -> None:
    for folder in (directory, directory / "team"):
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file():
                    with open(entry.path, "rb") as file:
                        file.read(4096)


def scan(directory: Path, database: Path) -> None:
    """What a process does that has just started: open, scan, take the 200 newest."""
    with Beneath(directory) as files:
        scanner = Scanner(files, database)
        scanner.scan().newest(200)
        scanner.close()


def cold_scan(directory: Path, database: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        Path(f"{database}{ending}").unlink(missing_ok=True)
    scan(directory, database)


def ratio(
    work: Callable[[], object], yardstick: Callable[[], object]
) -> tuple[float, float, float]:
    """Median of five ratios, each of two runs one after the other, and both medians in ms."""
    pairs = [(seconds(work), seconds(yardstick)) for _ in range(5)]
    middle = sorted(one / other for one, other in pairs)[2]
    return middle, *(sorted(pair[at] for pair in pairs)[2] * 1000 for at in (0, 1))


def scans(root: Path) -> list[Figure]:
    figures: list[Figure] = []
    for count in (200, 10_000, 100_000):
        fill(root / str(count) / "memory", count)
    small, middle, large = (root / str(count) / "memory" for count in (200, 10_000, 100_000))
    database = root / "small.sqlite"
    scan(small, database)
    figures.append(
        at_most(
            "scan, warm, 200 files",
            median(lambda: seconds(lambda: scan(small, database))) * 1000,
            "ms",
            5,
        )
    )
    with Beneath(small) as files:
        scanner = Scanner(files, database)
        again = median(lambda: seconds(lambda: scanner.scan().newest(200))) * 1000
        scanner.close()
    figures.append(Figure("scan, warm, 200 files, process that runs on", round(again, 3), "ms"))
    database = root / "large.sqlite"
    scan(large, database)
    times, ours, bare = ratio(lambda: scan(large, database), lambda: scandir_and_stat(large))
    figures.append(
        at_most(
            "scan, warm, 100,000 files ÷ scandir + stat",
            times,
            "×",
            1.3,
            ours_ms=round(ours),
            bare_ms=round(bare),
        )
    )
    database = root / "middle.sqlite"
    times, ours, bare = ratio(lambda: cold_scan(middle, database), lambda: scandir_and_read(middle))
    figures.append(
        at_most(
            "scan, cold, 10,000 files ÷ scandir + 4 KB each",
            times,
            "×",
            2,
            ours_ms=round(ours),
            bare_ms=round(bare),
        )
    )
    return figures


# A process that writes once: from opening the memory to the acknowledgement.
_ONCE = """
import sys
from pathlib import Path
from time import perf_counter, process_time
from lamina.memory.file_store import FileStore
from lamina.testing import a_memory
proposal = a_memory(sys.argv[2] + ".md", description=sys.argv[3][:80], body=sys.argv[3])
started, busy = perf_counter(), process_time()
with FileStore(Path(sys.argv[1])) as store:
    store.remember(proposal)
    print((perf_counter() - started) * 1000, (process_time() - busy) * 1000)
"""


def written_once(directory: Path) -> list[Figure]:
    """Each of eight processes writes one memory; the first has no words in the derived index yet."""
    rng = random.Random(6)
    runs: list[tuple[float, float]] = []
    for number in range(8):
        body = " ".join(text(rng, 120))
        done = subprocess.run(
            [sys.executable, "-c", _ONCE, str(directory), f"once_{number}", body],
            capture_output=True,
            text=True,
            check=True,
        )
        wall, busy = done.stdout.split()
        runs.append((float(wall), float(busy)))
    wall, busy = (round(statistics.median(run[at] for run in runs[1:]), 1) for at in (0, 1))
    return [
        Figure("write by a process of its own, open to acknowledgement, median", wall, "ms"),
        Figure("write by a process of its own, processor time, median", busy, "ms"),
        Figure("the first of them, processor time", round(runs[0][1], 1), "ms"),
    ]


def writes(root: Path) -> list[Figure]:
    directory = root / "writes" / "memory"
    fill(directory, 1000)
    once = written_once(directory)
    rng = random.Random(5)
    taken: list[float] = []
    worked: list[float] = []
    looked: list[float] = []
    with FileStore(directory, background=True) as store:
        store.catch_up()
        store.remember(a_memory("warm.md", body="The first write loads what is loaded late."))
        for number in range(200):
            body = " ".join(text(rng, 120)) + f" number {number}."
            proposal = a_memory(f"new_{number}.md", description=body[:80], body=body)
            started, busy = perf_counter(), thread_time()
            store.remember(proposal)
            taken.append((perf_counter() - started) * 1000)
            worked.append((thread_time() - busy) * 1000)
        for number in range(20):
            (directory / "made_outside.txt").touch()  # so that every file is looked at again
            (directory / "made_outside.txt").unlink()
            body = " ".join(text(rng, 120)) + f" after {number}."
            proposal = a_memory(f"after_{number}.md", description=body[:80], body=body)
            busy = thread_time()
            store.remember(proposal)
            looked.append((thread_time() - busy) * 1000)
        done = perf_counter()
    behind = perf_counter() - done
    with FileStore(directory) as store:
        lost = len(store.catch_up())
        commits = sum(1 for commit in store.journal.history.log() if commit.writer == "user")
    return [
        at_most("write to acknowledgement at 1,000 files, p95", p95(taken), "ms", 15),
        Figure("write to acknowledgement, median", round(statistics.median(taken), 2), "ms"),
        Figure("write, processor time alone, p95", round(p95(worked), 2), "ms"),
        Figure("write, processor time alone, median", round(statistics.median(worked), 2), "ms"),
        Figure(
            "write after others changed the directory, processor time, median",
            round(statistics.median(looked), 2),
            "ms",
        ),
        *once,
        Figure("history behind after 220 writes without a pause", round(behind, 2), "s"),
        at_most("writes missing in the history", 229 - commits + lost, "", 0),
    ]


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="lamina-bench-") as folder:
        root = Path(folder)
        return report("memory", [*writes(root), *scans(root), *growth()])
