"""What every benchmark prints and writes: a table for people, `bench/out/NAME.json` for scripts.

Beside its figures each run prints a CPU loop and an fsync loop, so that numbers of a busy machine
can be read for what they are.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "bench" / "out"


@dataclass
class Figure:
    id: str
    value: float
    unit: str
    goal: str = ""
    holds: bool = True
    peers: dict[str, float] = field(default_factory=dict)


def at_most(id_: str, value: float, unit: str, limit: float, **peers: float) -> Figure:
    return Figure(id_, round(value, 4), unit, f"≤{limit:g}", value <= limit, peers)


def at_least(id_: str, value: float, unit: str, limit: float, **peers: float) -> Figure:
    return Figure(id_, round(value, 4), unit, f"≥{limit:g}", value >= limit, peers)


def median(measure: Callable[[], float], runs: int = 5) -> float:
    return statistics.median(measure() for _ in range(runs))


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def p95(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]


def cpu_loop() -> float:
    """Milliseconds of a fixed piece of arithmetic."""
    return seconds(lambda: sum(n * n for n in range(1_000_000))) * 1000


def fsync_loop(count: int = 20) -> float:
    """Milliseconds of one small write with fsync."""
    with tempfile.NamedTemporaryFile(dir=ROOT) as file:

        def work() -> None:
            for _ in range(count):
                os.write(file.fileno(), b"x" * 200)
                os.fsync(file.fileno())

        return seconds(work) * 1000 / count


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def report(name: str, figures: list[Figure]) -> int:
    """Print, write, and say with the exit code whether every goal holds."""
    width = max((len(figure.id) for figure in figures), default=10)
    print(f"\n{name} at {commit()}: CPU loop {cpu_loop():.0f} ms, fsync {fsync_loop():.2f} ms")
    for figure in figures:
        word = "" if not figure.goal else ("holds" if figure.holds else "FAILS")
        peers = ", ".join(f"{peer} {value:g}" for peer, value in figure.peers.items())
        print(
            f"  {figure.id:<{width}} {figure.value:>12,.4g} {figure.unit:<8} {figure.goal:<8} {word:<6}"
            + (f" ({peers})" if peers else "")
        )
    OUT.mkdir(parents=True, exist_ok=True)
    value = {"name": name, "commit": commit(), "figures": [asdict(figure) for figure in figures]}
    (OUT / f"{name}.json").write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    return 0 if all(figure.holds for figure in figures) else 1
