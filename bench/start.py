"""Cold start: `lamina --version` as users start it and `import lamina`, beside a bare Python; and what
a coding agent waits for, as CPU time of a bare Python start in the same run: `lamina mcp` until its
tools are listed, and `lamina hook` at a prompt with 1,000 memories and the resident process up.

Every figure is the median of 5 fresh processes, one kind after the other in turn, so that a busy
machine hurts all alike.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from bench.figures import Figure, report, seconds

from lamina.tools.sandbox import Sandbox, spawn

RUNS = 5
PROMPTS, MEMORIES = 40, 1_000
LAMINA = str(Path(sys.executable).parent / "lamina")
BARE = [sys.executable, "-c", "pass"]
COMMANDS = {
    "bare": BARE,
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
    return report("start", [*figures, _sandbox(), *_for_agents()])


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


# ---- what a coding agent waits for


def _for_agents() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="lb-", dir="/tmp") as place:
        project, home, runtime = (Path(place) / name for name in ("shop", "home", "run"))
        project.mkdir()
        runtime.mkdir(mode=0o700)
        env = {**os.environ, "LAMINA_HOME": str(home), "XDG_RUNTIME_DIR": str(runtime)}
        _fill(project, home)
        resident = subprocess.Popen(
            [sys.executable, "-m", "lamina.integrations.hook", str(home)], env=env
        )
        try:
            _until_up(env, project)
            return _ratios(env, project)
        finally:
            resident.kill()
            resident.wait()


def _fill(project: Path, home: Path) -> None:
    """1,000 memories as another program would leave them: adopted at the first look."""
    from lamina.config import load
    from lamina.memory import memory_place

    config = load(project, home=home)
    folder = memory_place(config.home, config.project).directory
    folder.mkdir(parents=True)
    for number in range(MEMORIES):
        about = f"name: Server {number}\ndescription: Where service {number} runs\ntype: project"
        text = f"---\n{about}\n---\nService {number} runs on host h{number % 97}.\n"
        (folder / f"project_server_{number}.md").write_text(text)


def _event(project: Path, number: int) -> bytes:
    words = f"Which host does service {number} run on?"
    event = {"hook_event_name": "UserPromptSubmit", "session_id": str(number), "prompt": words}
    return json.dumps({**event, "cwd": str(project)}).encode()


def _until_up(env: dict[str, str], project: Path) -> None:
    """The first answers build the index."""
    hook = [LAMINA, "hook", "claude-code"]
    waiting = threading.Event()
    for number in range(100):
        event = _event(project, number)
        done = subprocess.run(hook, env=env, input=event, capture_output=True, check=True)
        if number > 3 and b"runs on host" in done.stdout:
            return
        waiting.wait(0.1)
    raise RuntimeError("the hook recalls nothing")


def _ratios(env: dict[str, str], project: Path) -> list[Figure]:
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    asked = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    spent: dict[str, list[float]] = {"bare": [], "mcp": [], "hook": []}
    for number in range(PROMPTS):
        event = _event(project, 500 + number)
        for name, command, given in (
            ("bare", BARE, b""),
            ("mcp", [LAMINA, "mcp", "--project", str(project)], asked),
            ("hook", [LAMINA, "hook", "claude-code"], event),
        ):
            spent[name].append(cpu_of(command, given, env))
    bare = statistics.median(spent["bare"])
    mcp = round(statistics.median(spent["mcp"]) / bare, 2)
    hook = round(statistics.quantiles(spent["hook"], n=20)[-1] / bare, 2)
    unit, peers = "× bare python", {"bare python, ms of CPU": round(bare * 1000, 1)}
    return [
        Figure("start.mcp", mcp, unit, "≤3", mcp <= 3, peers),
        Figure("start.hook.p95", hook, unit, "≤5", hook <= 5, peers),
    ]


def cpu_of(command: list[str], given: bytes, env: dict[str, str]) -> float:
    """Seconds of CPU that a process and what it waited for used."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=given, env=env, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
