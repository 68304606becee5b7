"""The committed figures of the benchmarks stand above their floors, and the quick ones still do."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parent.parent / "bench"
FLOORS: dict[str, dict[str, Any]] = tomllib.loads((BENCH / "floor.toml").read_text("utf-8"))
BENCHMARKS = sorted(FLOORS.keys() - {"house"})
_ROW = re.compile(r"^\| ([^|]+?) \| (-?[\d.]+)[^|]* \| [^|]* \| [^|]* \| [^|]*\|$")


def committed() -> dict[str, dict[str, float]]:
    """Benchmark -> figure -> value, as bench/RESULTS.md has them."""
    found: dict[str, dict[str, float]] = {}
    rows: dict[str, float] | None = None
    for line in (BENCH / "RESULTS.md").read_text("utf-8").splitlines():
        if line.startswith("#"):  # only the table that a run wrote counts, not its notes
            head = re.fullmatch(r"## (\w+) \(at [0-9a-f]+\)", line)
            rows = found.setdefault(head[1], {}) if head else None
        elif rows is not None and (row := _ROW.match(line)):
            rows[row[1]] = float(row[2])
    return found


def below(name: str, figures: dict[str, float]) -> Iterator[str]:
    """What is on the wrong side of its floor, of the figures given."""
    for figure, floor in FLOORS[name].get("least", {}).items():
        if figure in figures and figures[figure] < floor:
            yield f"{name}: {figure} is {figures[figure]}, its floor {floor}"
    for figure, ceiling in FLOORS[name].get("most", {}).items():
        if figure in figures and figures[figure] > ceiling:
            yield f"{name}: {figure} is {figures[figure]}, its ceiling {ceiling}"


def test_no_committed_figure_is_below_its_floor() -> None:
    figures = committed()
    assert [line for name in BENCHMARKS for line in below(name, figures.get(name, {}))] == []


def test_every_floor_has_a_figure_that_was_measured() -> None:
    figures = committed()
    floors = {(n, f) for n in BENCHMARKS for side in FLOORS[n].values() for f in side}
    assert sorted(floors - {(n, f) for n, rows in figures.items() for f in rows}) == []


def test_a_figure_that_fell_is_named() -> None:
    worse = {"secrets.found": 0.5, "secrets.growth": 9.0, "secrets.kinds": 350.0}
    assert list(below("secrets", worse)) == [
        "secrets: secrets.found is 0.5, its floor 0.97",
        "secrets: secrets.growth is 9.0, its ceiling 2",
    ]


def test_extraction_still_finds_what_a_stranger_labelled() -> None:
    from bench import extract

    found = extract.score("blind_g")
    right, wrong, wanted = (found[key]["all"] for key in ("right", "wrong", "wanted"))
    figures = {
        "blind_g_precision": right / (right + wrong),
        "blind_g_recall": right / wanted,
        "blind_g_foreign_into_user_or_feedback": found["foreign"],
        "blind_g_traps_fallen_into": sum(fallen for _, fallen in found["traps"].values()),
    }
    assert list(below("extract", figures)) == []


def test_recall_still_answers_the_questions_about_real_directories(shared_data: Path) -> None:
    from bench import recall
    from bench.recall_data import memory_questions

    apart = recall.Scores([], [], [])
    asked: dict[str, list[Any]] = {}
    for directory, question in memory_questions():
        asked.setdefault(directory, []).append(question)
    for directory, questions in asked.items():
        apart += recall.found_in(recall.directory_index([directory]), questions)
    figures = {
        "memory_dirs.recall@5": recall.mean(apart.at5),
        "memory_dirs.mrr": recall.mean(apart.first),
    }
    assert list(below("recall", figures)) == []


def test_secrets_of_every_kind_are_still_found() -> None:
    from bench import secret_scan

    samples = secret_scan.make_samples(per_kind=1)
    figures = {
        "secrets.kinds": len({kind for kind, _, _ in samples}),
        "secrets.found": secret_scan.found_share(samples)[0],
    }
    assert list(below("secrets", figures)) == []
