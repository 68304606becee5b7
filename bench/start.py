"""Cold start: `lamina --version` as users start it and `import lamina`, beside a bare Python.

Every figure is the median of 5 fresh processes, one kind after the other in turn, so that a busy
machine hurts all alike. A CPU loop and an fsync loop of the same run are printed beside.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RUNS = 5

COMMANDS = {
    "bare python": [sys.executable, "-c", "pass"],
    "import lamina": [sys.executable, "-c", "import lamina"],
    "lamina --version": [str(Path(sys.executable).parent / "lamina"), "--version"],
    "lamina settings model": [str(Path(sys.executable).parent / "lamina"), "settings", "model"],
    "lamina --help": [str(Path(sys.executable).parent / "lamina"), "--help"],
}


def main() -> int:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "LAMINA_HOME": home}
        for run in range(RUNS + 1):
            for name, command in COMMANDS.items():
                started = time.perf_counter()
                subprocess.run(command, env=env, check=True, capture_output=True)
                if run:  # the first round fills the caches of files and bytecode
                    times[name].append((time.perf_counter() - started) * 1000)
    median = {name: statistics.median(values) for name, values in times.items()}
    bare = round(median["bare python"], 1)
    goals = {"lamina --version": 150, "import lamina": 100}
    figures = [
        {
            "id": "start." + name.replace(" ", "_").replace("--", ""),
            "value": round(median[name], 1),
            "unit": "ms",
            "goal": f"≤{goals[name]}" if name in goals else "",
            "holds": median[name] <= goals.get(name, float("inf")),
            "peers": {"bare python": bare},
        }
        for name in COMMANDS
        if name != "bare python"
    ]
    return report(figures)


def report(figures: list[dict[str, Any]]) -> int:
    for figure in figures:
        peers = ", ".join(f"{name} {value} ms" for name, value in figure["peers"].items())
        word = "" if not figure["goal"] else ("holds" if figure["holds"] else "FAILS")
        print(f"{figure['id']:32} {figure['value']:8} ms  {figure['goal']:6} {word:6} ({peers})")
    print(f"CPU loop {cpu_loop():.0f} ms, fsync {fsync_loop():.2f} ms each")
    out = ROOT / "bench" / "out" / "start.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(
        json.dumps({"name": "start", "commit": commit(), "figures": figures}, indent=2) + "\n"
    )
    return 0 if all(figure["holds"] for figure in figures) else 1


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def cpu_loop() -> float:
    started = time.perf_counter()
    total = 0
    for number in range(2_000_000):
        total += number
    return (time.perf_counter() - started) * 1000


def fsync_loop() -> float:
    with tempfile.NamedTemporaryFile() as file:
        started = time.perf_counter()
        for _ in range(20):
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
        return (time.perf_counter() - started) * 1000 / 20


if __name__ == "__main__":
    sys.exit(main())
