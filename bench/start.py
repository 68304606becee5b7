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

from lamina.tools.sandbox import Sandbox, spawn

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
    figures = [_figure(name, value, bare) for name, value in median.items()]
    return report("start", [*figures, _sandbox()])


def _figure(name: str, value: float, bare: float) -> Figure:
    limit = GOALS.get(name)
    goal = f"≤{limit}" if limit else ""
    return Figure(name, value, "ms", goal, limit is None or value <= limit, {"bare python": bare})


def _sandbox() -> Figure:
    """What a command costs within the sandbox, beside the same one without."""

    def median(box: Sandbox | None) -> float:
        def once() -> None:
            spawn(box, lambda: subprocess.Popen(["/bin/true"])).wait()

        once()
        return round(statistics.median(seconds(once) for _ in range(9)) * 1000, 1)

    plain, boxed = median(None), median(Sandbox())
    return Figure("start.sandboxed", boxed, "ms", "", peers={"without a sandbox": plain})


if __name__ == "__main__":
    sys.exit(main())
