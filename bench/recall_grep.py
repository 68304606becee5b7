"""`lamina sessions grep` over a quarter of a gigabyte of recorded sessions: without its sketches, making
them, and with them. CPU time of the whole command in this process; the files are in the page cache.
"""

from __future__ import annotations

import io
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from bench.figures import Figure, median
from bench.recall_data import DATA

from lamina.cli.main import main as lamina
from lamina.ledger.places import project_folder
from lamina.recall import sketches

SIZE = 256_000_000
WORD = "quetzalcoatlus"  # in one session


def grep_figures() -> list[Figure]:
    recorded = sorted((DATA / "claude-code-sessions").glob("*.jsonl"))
    if not recorded:
        return []
    with tempfile.TemporaryDirectory() as place:
        home, project = Path(place, "home"), Path(place, "project")
        project.mkdir()
        folder = project_folder(home, project)
        _fill(folder, recorded)
        line = '{"type":"user","message":{"content":"we saw a Quetzalcoatlus"}}\n'
        (folder / "0000-needle.jsonl").write_text(line)

        def grep(*more: str) -> float:
            words = ["sessions", "grep", WORD, "-i", "--seconds", "0", *more]
            where = ["--home", str(home), "--project", str(project)]
            told, start = io.StringIO(), time.process_time()
            with redirect_stdout(told), redirect_stderr(io.StringIO()):
                code = lamina([*words, *where])
            if code != 0 or told.getvalue().count("Quetzalcoatlus") != 1:
                raise RuntimeError(f"grep found {told.getvalue()!r}")
            return time.process_time() - start

        worth, sketches.WORTH = sketches.WORTH, 1 << 60
        without = median(grep)
        sketches.WORTH = worth
        time.sleep(3)  # a file that changed just now is not trusted yet
        making = grep()
        made = sum(file.stat().st_size for file in (folder / sketches.FOLDER).iterdir())
        return [
            Figure("grep.256MB.without_index", round(without, 3), "s"),
            Figure("grep.256MB.making_the_index", round(making, 3), "s"),
            Figure("grep.256MB.with_index", round(median(grep), 3), "s"),
            Figure("grep.index_share", round(made / SIZE, 4), ""),
        ]


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
