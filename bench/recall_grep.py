"""`lamina sessions grep` over a quarter of a gigabyte of recorded sessions: CPU time of the whole command,
ripgrep's included; the files are in the page cache.
"""

from __future__ import annotations

import io
import os
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from bench.figures import Figure, median
from bench.recall_data import DATA

from lamina.cli.main import main as lamina
from lamina.ledger.places import project_folder

SIZE = 256_000_000
# Each is in one session, once.
SEARCHES = {
    "ignore_case": ["quetzalcoatlus", "-i"],
    "branches": ["Timeout.Erraur|Quetzal"],
    "chinese": ["羽蛇翼龙"],
}


def grep_figures() -> list[Figure]:
    recorded = sorted((DATA / "claude-code-sessions").glob("*.jsonl"))
    if not recorded:
        return []
    with tempfile.TemporaryDirectory() as place:
        home, project = Path(place, "home"), Path(place, "project")
        project.mkdir()
        folder = project_folder(home, project)
        _fill(folder, recorded)
        line = '{"type":"user","message":{"content":"we saw a Quetzalcoatlus (羽蛇翼龙)"}}\n'
        (folder / "0000-needle.jsonl").write_text(line)

        def grep(words: list[str]) -> float:
            where = ["--home", str(home), "--project", str(project), "--seconds", "0"]
            told, start = io.StringIO(), _cpu()
            with redirect_stdout(told), redirect_stderr(io.StringIO()):
                code = lamina(["sessions", "grep", *words, *where])
            if code != 0 or told.getvalue().count("Quetzalcoatlus") != 1:
                raise RuntimeError(f"grep found {told.getvalue()!r}")
            return _cpu() - start

        return [
            Figure(f"grep.256MB.{name}", round(median(lambda words=words: grep(words)), 3), "s")
            for name, words in SEARCHES.items()
        ]


def _cpu() -> float:
    """Of this process and of those that it ran and waited for."""
    return sum(os.times()[:4])


def _fill(folder: Path, recorded: list[Path]) -> None:
    """Sessions of about a megabyte and more, with other digits in each copy."""
    written = number = 0
    while written < SIZE:
        number += 1
        digits = bytes(48 + (digit * 3 + number) % 10 for digit in range(10))
        for file in recorded:
            whole = file.read_bytes().translate(bytes.maketrans(b"0123456789", digits))
            (folder / f"{number:04d}-{file.name}").write_bytes(whole)
            written += len(whole)
            if written >= SIZE:
                break
