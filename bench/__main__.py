"""`python -m bench NAME` runs one benchmark, `python -m bench all` runs all and writes RESULTS.md."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from pathlib import Path

from bench.figures import OUT

HERE = Path(__file__).parent
# Names that differ from their module: a module must not hide one of the standard library.
MODULES = {"secrets": "secret_scan"}
_HEAD = ["| figure | value | goal | | peers |", "|---|---|---|---|---|"]
LEFT_OUT = {"__init__", "__main__", "figures"}


def names() -> list[str]:
    modules = {module: name for name, module in MODULES.items()}
    files = [f.stem for f in HERE.glob("*.py") if f.stem not in LEFT_OUT]
    runnable = [f for f in files if "def main(" in (HERE / f"{f}.py").read_text()]
    return sorted(modules.get(f, f) for f in runnable)


def run(name: str) -> int:
    # Before numpy is loaded: a second thread that waits for the first counts as processor time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return importlib.import_module(f"bench.{MODULES.get(name, name)}").main() or 0


def write_results() -> None:
    """bench/RESULTS.md with the figures of the last runs in their sections. What people wrote there stays; a new
    section begins with the notes of its benchmark in bench/results/."""
    file = HERE / "RESULTS.md"
    said = (
        file.read_text()
        if file.exists()
        else "# Results\n\nMade by `make bench`. Bad results stay in.\n\n"
    )
    for name in names():
        path = OUT / f"{name}.json"
        if path.exists():
            value = json.loads(path.read_text())
            table = [f"## {name} (at {value['commit']})", "", *_HEAD, *map(_row, value["figures"])]
            there = re.compile(rf"^## {name} \(.*\n\n(?:\|.*\n)+", re.MULTILINE)
            notes = HERE / "results" / f"{name}.md"
            if there.search(said):
                said = there.sub(lambda _, new=table: "\n".join([*new, ""]), said, count=1)
            else:
                said += "\n".join([*table, "", notes.read_text() if notes.exists() else "", ""])
    file.write_text(said)


def _row(figure: dict) -> str:
    peers = ", ".join(f"{peer} {value}" for peer, value in figure.get("peers", {}).items())
    word = "" if not figure.get("goal") else ("holds" if figure["holds"] else "**fails**")
    return f"| {figure['id']} | {figure['value']} {figure['unit']} | {figure.get('goal', '')} | {word} | {peers} |"


def main(arguments: list[str]) -> int:
    known = names()
    if len(arguments) != 1 or arguments[0] not in (*known, "all", "results"):
        print(f"Say which: {', '.join(known)}, all, or results.", file=sys.stderr)
        return 2
    if arguments[0] == "results":
        write_results()
        return 0
    if arguments[0] != "all":
        return run(arguments[0])
    failed = [name for name in known if run(name)]
    write_results()
    if failed:
        print(f"Goals missed in: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
