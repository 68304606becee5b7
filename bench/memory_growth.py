"""What commands on a growing memory cost, against reading and hashing every file of it once.

Real directories are copied with other file names until there are enough files. Each command runs in a
process of its own; its processor time on an empty store is taken off. `python -m bench.memory_growth 1000
3000` prints these sizes alone, `… add audit` these commands. With `reworded` a third of the words of each
copy, by their hash, are other words of these directories, so that no two files say the same.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from time import process_time
from zlib import crc32

from bench.dream import directories
from bench.figures import Figure, at_most

from lamina.memory import memory_place

SIZES = (1_000, 3_000, 10_000)
LIMITS = {"add": 1, "audit": 20, "dream": 150, "first search": 10, "search": 1}
MOST_MB = 150
MOST_GROWTH = 12.0  # from 1,000 to 10,000 files
_ADD, _SEARCH = ("memory", "add"), ("memory", "search")
_QUERY = "deploy of the database on friday"
_OTHER_QUERIES = (
    "which port does the test server use",
    "how are release notes written",
    "why did the build fail",
    "who reviews a change of the schema",
    "where are the logs kept",
)
_NEWS = (
    "Nobody repaints the lighthouse railing in a thunderstorm.",
    "Marmalade jars belong on the cellar's third shelf.",
    "Our choir rehearses the second cantata without an organ.",
    "Bees return late when the lime trees blossom.",
    "The ferry to Skopun carries mail and one tractor.",
)
_COMMANDS: dict[str, Sequence[tuple[str, ...]]] = {  # of several the median counts
    "first search": [(*_SEARCH, *_QUERY.split())],
    # By other words each time: what an earlier search looked at must not be all that it left.
    "search": [(*_SEARCH, *query.split()) for query in _OTHER_QUERIES],
    "first add": [(*_ADD, "The grey heron counts boats before breakfast.")],
    "add": [(*_ADD, text) for text in _NEWS],
    "audit": [("memory", "audit")],
    "dream": [("dream", "--now")],
}


@dataclass(frozen=True)
class Cost:
    seconds: float
    megabytes: float


def sources() -> list[tuple[str, bytes, float]]:
    """Name, content and time of every memory of the real directories; names differ."""
    found: dict[str, tuple[str, bytes, float]] = {}
    for number, folder in enumerate(directories()):
        for path in sorted(folder.rglob("*.md")):
            if path.name != "MEMORY.md":
                name = path.stem if path.stem not in found else f"{path.stem}_of_{number}"
                found[name] = name, path.read_bytes(), path.stat().st_mtime
    return list(found.values())


_WORD = re.compile(rb"(?<![\w.-])[a-z]{4,}(?![\w.-])")
_CHANGED = 3  # one word in so many


def reworded(content: bytes, pool: Sequence[bytes], again: int) -> bytes:
    """The text with other words, the same one for the same, and no two copies alike."""

    def other(found: re.Match[bytes]) -> bytes:
        number = crc32(found[0], again)
        return found[0] if number % _CHANGED else pool[number // _CHANGED % len(pool)]

    return _WORD.sub(other, content) if again else content


def fill(memory: Path, files: int, *, alike: bool) -> None:
    """So many files; the index has a line for each of the first round."""
    memory.mkdir(parents=True)
    originals = sources()
    pool = sorted({word for _, content, _ in originals for word in _WORD.findall(content)})
    lines: list[str] = []
    for number in range(files):
        (name, content, mtime), again = originals[number % len(originals)], number // len(originals)
        path = memory / f"{name}{f'_copy_{again}' if again else ''}.md"
        path.write_bytes(content if alike else reworded(content, pool, again))
        os.utime(path, (mtime - number, mtime - number))
        if not again and len(lines) < 150:
            words = re.sub(r"[\[\]()*_#`>|-]", " ", content.decode("utf-8", "replace")).split()
            lines.append(f"- [{name}]({path.name}) — {' '.join(words[-8:])[:60]}\n")
    (memory / "MEMORY.md").write_text("".join(lines))


def read_and_hash(memory: Path) -> float:
    """Processor seconds, the least of three."""

    def once() -> float:
        started = process_time()
        for path in memory.rglob("*.md"):
            hashlib.sha256(path.read_bytes()).digest()
        return process_time() - started

    return min(once() for _ in range(3))


def cost(root: Path, command: Sequence[str]) -> Cost:
    """Of one process: `lamina COMMAND` in the project and home beneath `root`."""
    words = [*command, "--home", str(root / "home"), "--project", str(root / "project"), "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-m", "lamina.cli.main", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=_environment(root),
    )
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        said = process.stderr.read().decode() if process.stderr else ""
        raise SystemExit(f"lamina {' '.join(command)} failed: {said}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def _environment(root: Path) -> dict[str, str]:
    """An installed program has its modules compiled, whatever is set here."""
    own = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**own, "HOME": str(root), "OPENBLAS_NUM_THREADS": "1"}


def project(root: Path) -> Path:
    """A project beneath `root`; where its memory goes."""
    (root / "project").mkdir(parents=True)
    return memory_place(root / "home", root / "project").directory


def costs(
    root: Path, files: int, names: Sequence[str], *, alike: bool = True
) -> Iterator[tuple[str, Cost, float]]:
    """Command by command, as they are done: what it took, and what reading and hashing took."""
    memory = project(root)
    if files:
        fill(memory, files, alike=alike)
    for name in names:
        unit = read_and_hash(memory) if files else 0.0
        taken = [cost(root, command) for command in _COMMANDS[name]]
        yield name, Cost(median(t.seconds for t in taken), max(t.megabytes for t in taken)), unit


def growth(
    sizes: Sequence[int] = SIZES,
    names: Sequence[str] = tuple(_COMMANDS),
    *,
    alike: bool = True,
) -> list[Figure]:
    figures: list[Figure] = []
    smallest: dict[str, float] = {}
    if not sources():
        print("Growth is not measured: there are no real memory directories (LAMINA_DATA).")
        return figures
    with tempfile.TemporaryDirectory(prefix="lamina-growth-") as folder:
        places = (Path(folder) / str(number) for number in count())
        dict.fromkeys(costs(next(places), 0, names))  # so that all modules are compiled
        for files in sizes:
            # An empty store's run just before: on a busy machine both are slower than a minute ago.
            empty = costs(next(places), 0, names)
            full = costs(next(places), files, names, alike=alike)
            for (name, bare, _), (_, one, unit) in zip(empty, full, strict=True):
                taken = max(0.0, one.seconds - bare.seconds)
                smallest.setdefault(name, taken)
                figures.append(_figure(name, files, taken, unit, one, smallest[name]))
                print(figures[-1].id, figures[-1].value, figures[-1].peers, flush=True)
    return figures


def _figure(name: str, files: int, taken: float, unit: float, one: Cost, smallest: float) -> Figure:
    more = {
        "seconds": round(taken, 2),
        "once_s": round(unit, 3),
        "mb": round(one.megabytes),
        "x_smallest": round(taken / smallest, 1) if smallest else 0.0,
    }
    id_ = f"growth.{name}.{files}"
    if name in LIMITS and files == 10_000:
        figure = at_most(id_, taken / unit, "× once", LIMITS[name], **more)
        figure.holds &= one.megabytes <= MOST_MB and more["x_smallest"] <= MOST_GROWTH
        return figure
    return Figure(id_, round(taken / unit, 3), "× once", peers=more)


if __name__ == "__main__":
    wanted = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    named = [name for name in _COMMANDS if name.replace(" ", "-") in sys.argv[1:]]
    growth(wanted or SIZES, named or tuple(_COMMANDS), alike="reworded" not in sys.argv[1:])
