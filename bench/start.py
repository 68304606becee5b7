"""Cold start: `lamina --version` as users start it and `import lamina`, beside a bare Python.

Every figure is the median of 5 fresh processes, one kind after the other in turn, so that a busy
machine hurts all alike.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.figures import Figure, report, seconds

RUNS = 5
LAMINA = str(Path(sys.executable).parent / "lamina")
COMMANDS = {
    "bare": [sys.executable, "-c", "pass"],
    "start.import": [sys.executable, "-c", "import lamina"],
    "start.version": [LAMINA, "--version"],
    "start.help": [LAMINA, "--help"],
    "start.settings": [LAMINA, "settings", "model"],
}
GOALS = {"start.version": 150, "start.import": 100}


def main() -> int:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "LAMINA_HOME": home}

        def start(command: list[str]) -> None:
            subprocess.run(command, env=env, check=True, capture_output=True)

        for run in range(RUNS + 1):
            for name, command in COMMANDS.items():
                took = seconds(lambda command=command: start(command)) * 1000
                if run:  # the first round fills the caches of files and bytecode
                    times[name].append(took)
    median = {name: round(statistics.median(values), 1) for name, values in times.items()}
    bare = median.pop("bare")
    return report("start", [_figure(name, value, bare) for name, value in median.items()])


def _figure(name: str, value: float, bare: float) -> Figure:
    limit = GOALS.get(name)
    goal = f"≤{limit}" if limit else ""
    return Figure(name, value, "ms", goal, limit is None or value <= limit, {"bare python": bare})


if __name__ == "__main__":
    sys.exit(main())
