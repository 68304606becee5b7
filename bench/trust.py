"""Trust, tried: a fault at any system call of `memory add`, of a chat turn and of a dream, and kills.

strace puts one fault (EIO, ENOSPC, EINTR, or SIGKILL) at one call that touches the home. After it
the same home is looked at by an undisturbed process: nothing that was acknowledged may be lost,
nothing half done, no exit code may lie, no temporary file may stay. Points are sampled with a
printed seed (`TRUST_SEED`, `TRUST_SHARE` of each command's points, at least a quarter) and kept in
`bench/out/trust.jsonl`, so that a campaign goes on where it stopped. `kill -9` at random moments of a
writer and of a dream is the same tests that `make test` runs with a few, in batches with seeds of
their own (`bench/out/trust_kills.jsonl`). Forged words and secrets are tried by `trust_forged` and
`secret_scan`; their figures are in the same table.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import secret_scan, trust_forged
from bench.figures import OUT, Figure, at_least, at_most, report

LAMINA = str(Path(sys.executable).parent / "lamina")
CALLS = (
    "openat", "write", "pwrite64", "fsync", "fdatasync", "rename", "renameat", "renameat2",
    "unlink", "unlinkat", "mkdir", "mkdirat", "linkat", "ftruncate", "fchmod", "flock",
)  # fmt: skip
FAULTS = ("EIO", "ENOSPC", "EINTR", "KILL")
_HALF_WRITTEN = re.compile(
    r"\.lamina-tmp.*|.*\.tmp|\..+\.(?:\d+|[0-9a-f]{12})|.+\.begin-\d+|\.writing-.*|tmp_?obj.*|copy-.+"
)
SEED = int(os.environ.get("TRUST_SEED", "20261116"))
SHARE = max(0.25, float(os.environ.get("TRUST_SHARE", "0.5")))
COMMANDS = os.environ.get("TRUST_COMMANDS", "add turn dream").split()
NEW = "The mascot of the harbour office is a walrus."
OLD = {
    "project_host.md": "The build host is called pelican.",
    "user_role.md": "The user is a nurse.",
    "feedback_tests.md": "Never mock the database in tests.",
}
DOUBLE = "We deploy the warehouse service from the release branch on every Tuesday morning."
SCRIPT = {
    "steps": [
        {
            "reply": {
                "tool_use": [
                    {
                        "name": "Remember",
                        "input": {
                            "content": NEW,
                            "name": "mascot",
                            "description": NEW,
                            "type": "project",
                        },
                    },
                    {"name": "Write", "input": {"file_path": "made.txt", "content": "made\n"}},
                ]
            }
        },
        {"reply": "All done."},
    ],
    "otherwise": {"*": "[]"},
}


@dataclass(frozen=True)
class Point:
    command: str
    call: str
    number: int  # of this call, counted as strace does
    fault: str


class World:
    """A project and a home to break; made once, copied for every point."""

    def __init__(self, root: Path) -> None:
        self.root, self.project, self.home = root, root / "project", root / "home"

    @property
    def memory(self) -> Path:
        return self.home / "memory"  # named by a variable: a default place would hold the path

    def run(self, *words: str, fault: Point | None = None, log: Path | None = None) -> Any:
        before: list[str] = []
        if log is not None:
            before = ["strace", "-f", "-y", "-o", str(log)]
        if fault is not None:
            how = "signal=KILL" if fault.fault == "KILL" else f"error={fault.fault}"
            # Stops at these calls alone, but then strace delivers no signal.
            before += ["--seccomp-bpf"] if fault.fault != "KILL" else []
            before += ["-e", f"trace={fault.call}"]
            before += ["-e", f"inject={fault.call}:{how}:when={fault.number}"]
        elif log is not None:
            before += ["-e", f"trace={','.join(CALLS)}"]
        env = {**os.environ, "LAMINA_HOME": str(self.home), "HOME": str(self.root)}
        env["LAMINA_MEMORY_DIR"] = str(self.memory)
        return subprocess.run(
            [*before, LAMINA, *words, "--project", str(self.project)],
            cwd=self.project, env=env, capture_output=True, text=True, timeout=120,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip


def words_of(command: str, world: World) -> list[str]:
    if command == "add":
        return ["memory", "add", NEW, "--file", "project_mascot.md"]
    if command == "dream":
        return ["dream", "--now", "--model", "none"]
    return ["chat", "-p", "go", "--model", f"scripted:{world.root / 'script.json'}"]


def make_world(root: Path) -> World:
    world = World(root)
    world.project.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(world.project)], check=True)
    (root / "script.json").write_text(json.dumps(SCRIPT))
    world.run("settings", "set", "permissions.allow", "Write")
    for name, text in OLD.items():
        kind = name.split("_", 1)[0]
        world.run("memory", "add", text, "--file", name, "--type", kind)
    for name in ("project_deploy_a.md", "project_deploy_b.md"):
        world.run("memory", "add", DOUBLE, "--file", name)
    world.run("memory", "list")
    return world


def copy_of(template: Path, to: Path) -> World:
    shutil.copytree(template, to, symlinks=True)
    return World(to)


def points(command: str, template: Path, scratch: Path) -> list[Point]:
    """Every call of the command that touches its home, times every fault."""
    warm = copy_of(template, scratch / f"warm-{command}")
    warm.run(*words_of(command, warm))  # else modules are compiled while calls are counted
    shutil.rmtree(warm.root)
    world = copy_of(template, scratch / f"count-{command}")
    log = scratch / f"{command}.log"
    world.run(*words_of(command, world), log=log)
    counts: Counter[tuple[str, str]] = Counter()
    found: list[tuple[str, int]] = []
    for line in log.read_text(errors="replace").splitlines():
        match = re.match(r"(\d+) +(\w+)\(", line)
        if not match:
            continue
        thread, call = match.groups()
        counts[thread, call] += 1
        named = line.replace(f"AT_FDCWD<{world.project}>", "")
        if str(world.root) in named:
            found.append((call, counts[thread, call]))
    every = [Point(command, call, n, fault) for call, n in dict.fromkeys(found) for fault in FAULTS]
    shutil.rmtree(world.root)
    return every


def tried(point: Point, template: Path, scratch: Path) -> dict[str, Any]:
    """One fault, then a look by an undisturbed process."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        world = copy_of(template, Path(folder) / "world")
        log = Path(folder) / "calls"
        ran = world.run(*words_of(point.command, world), fault=point, log=log)
        # A call is counted by thread, so a fault meant for a worker may hit the interpreter's start;
        # and a run may make fewer calls than the one that was counted, so that nothing is hit.
        traced = log.read_text(errors="replace")
        hit = "(INJECTED)" in traced or "killed by SIGKILL" in traced
        void = not hit or "importlib" in ran.stderr or "Fatal Python" in ran.stderr
        wrong = [] if void else list(_wrong(point, world, ran))
        return {
            **point.__dict__,
            "code": ran.returncode,
            "void": void,
            "wrong": wrong,
            "said": ran.stderr[-200:],
        }


def _wrong(point: Point, world: World, ran: Any) -> Iterator[str]:
    if "Traceback" in ran.stderr:
        yield "traceback"
    listed = world.run("memory", "list", "-n", "0", "--json")
    if listed.returncode or "Traceback" in listed.stderr:
        yield f"the next command fails: {listed.stderr[-160:]}"
        return
    files = {path.name: path.read_text(errors="replace") for path in world.memory.glob("*.md")}
    whole = "\n".join(files.values())
    lost = [text for text in (*OLD.values(), DOUBLE) if text not in whole]
    if lost:
        yield f"lost: {lost}"
    index = files.pop("MEMORY.md", "")
    targets = set(re.findall(r"\]\(([^)]+)\)", index))
    if targets - files.keys():
        yield f"dangling: {sorted(targets - files.keys())}"
    if files.keys() - targets:
        yield f"no pointer: {sorted(files.keys() - targets)}"
    yield from _lies(point, world, ran, files)
    left = _left(world)
    if left and point.command == "turn":  # a session cleans up what the last one was writing
        world.run("chat", "-p", "go", "--model", "none")
        left = _left(world)
    if left:
        yield f"left behind: {left[:3]}"


def _left(world: World) -> list[str]:
    """Files that nobody would miss: half written, or records of what was going to be written."""
    return [
        str(path.relative_to(world.root))
        for path in [*world.home.rglob("*"), *world.project.rglob("*")]
        if _HALF_WRITTEN.fullmatch(path.name)
        or path.parent.name == "intents"
        or (path.suffix == ".lock" and ".git" in str(path.parent))
    ]


def _lies(point: Point, world: World, ran: Any, files: dict[str, str]) -> Iterator[str]:
    kept = any(NEW in text for text in files.values())
    killed = ran.returncode in (-9, 137)
    if point.command == "add" and not killed and kept != (ran.returncode == 0):
        yield f"exit code {ran.returncode}, and the memory is {'there' if kept else 'not there'}"
    if point.command == "turn" and ran.returncode == 0:
        if "All done." not in ran.stdout:
            yield "exit code 0 without the answer"
        again = world.run("chat", "-p", "go", "--continue", "--model", "none")
        if "Traceback" in again.stderr or again.returncode not in (0, 1):
            yield f"can't be continued: {again.stderr[-160:]}"
    if point.command == "dream" and not killed:
        doubles = sum(DOUBLE in text for name, text in files.items() if "deploy" in name)
        if ran.returncode == 0 and "Merged" in ran.stdout + ran.stderr and doubles != 1:
            yield "says that it merged, and did not"
        if ran.returncode and doubles != 2:
            yield f"exit code {ran.returncode}, and the dream was applied"


KILLS, BATCH = 2_000, 50  # in all; in one batch of each of the two tests
KILL_TESTS = ("tests/faults/test_memory_kills.py", "tests/faults/test_dream_kills.py")


def killed() -> list[dict[str, Any]]:
    """The campaign of kills, batch by batch; those that were run before are not run again."""
    kept = OUT / "trust_kills.jsonl"
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    for batch in range(len(rows), KILLS // (BATCH * len(KILL_TESTS))):
        env = {"LAMINA_KILLS": str(BATCH), "LAMINA_KILLS_SEED": str(SEED + batch)}
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *KILL_TESTS],
            env={**os.environ, **env}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = "" if ran.returncode == 0 else ran.stdout[-2_000:]
        rows.append({"seed": SEED + batch, "kills": BATCH * len(KILL_TESTS), "said": said})
        with kept.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        print(
            f"  {sum(row['kills'] for row in rows)} kills, {sum(bool(r['said']) for r in rows)} wrong"
        )
    return rows


def main() -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    kills = killed()
    if shutil.which("strace") is None:
        print("bench-trust: strace is not installed, so no fault can be injected; skipped.")
        return report("trust", [*_kill_figures(kills), *_told_elsewhere()])
    kept = OUT / "trust.jsonl"
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    print(f"seed {SEED}, share {SHARE:.0%}, {len(rows)} points tried before")
    with tempfile.TemporaryDirectory() as folder:
        scratch, template = Path(folder), Path(folder) / "template"
        make_world(template)
        todo: list[Point] = []
        for command in COMMANDS:
            every = points(command, template, scratch)
            chosen = random.Random(f"{SEED}{command}").sample(every, int(len(every) * SHARE) + 1)
            print(f"{command}: {len(every)} points, {len(chosen)} chosen")
            todo += chosen
        done = {(r["command"], r["call"], r["number"], r["fault"]) for r in rows}
        todo = [p for p in todo if (p.command, p.call, p.number, p.fault) not in done]
        with ThreadPoolExecutor(2) as pool, kept.open("a") as file:
            for count, row in enumerate(pool.map(lambda p: tried(p, template, scratch), todo), 1):
                rows.append(row)
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()
                if count % 50 == 0:
                    print(f"  {count} of {len(todo)}, {sum(bool(r['wrong']) for r in rows)} wrong")
    return report("trust", [*_kill_figures(kills), *_figures(rows), *_told_elsewhere()])


def _told_elsewhere() -> list[Figure]:
    """Forged words and secrets, from benchmarks of their own: so that trust is one table."""
    for module in (trust_forged, secret_scan):
        module.main()
    kept = [json.loads((OUT / f"{name}.json").read_text()) for name in ("trust_forged", "secrets")]
    return [Figure(**one) for value in kept for one in value["figures"]]


def _kill_figures(rows: list[dict[str, Any]]) -> list[Figure]:
    wrong = [row["seed"] for row in rows if row["said"]]
    return [
        at_least("kills", sum(row["kills"] for row in rows), "", KILLS),
        at_most("batches of kills with anything lost, torn, mixed or left", len(wrong), "", 0),
    ]


def _figures(rows: list[dict[str, Any]]) -> list[Figure]:
    hit = [row for row in rows if not row["void"]]
    figures = [at_least("points tried", len(hit), "", 1_000)]
    for kind in ("lost", "exit code", "left behind", "dangling", "traceback"):
        wrong = [row for row in rows if any(kind in one for one in row["wrong"])]
        figures.append(at_most(f"points with: {kind}", len(wrong), "", 0))
    other = [row for row in rows if row["wrong"]]
    figures.append(at_most("points with anything wrong", len(other), "", 0))
    for row in other[:40]:
        print(f"  {row['command']} {row['call']}#{row['number']} {row['fault']}: {row['wrong']}")
    return figures


if __name__ == "__main__":
    sys.exit(main())
