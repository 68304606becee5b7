"""The house stays as small as it was made: what `bench/house.py` counts may only go down."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest
from bench import house

RATCHET: dict[str, Any] = tomllib.loads((house.ROOT / "bench" / "floor.toml").read_text("utf-8"))[
    "house"
]
COUNTED = {"nodes": house.nodes.__wrapped__, "imports": house.imports.__wrapped__}  # uncached


def test_no_module_is_too_long() -> None:
    most = RATCHET["module lines"]
    assert [n for n, (_, t, _) in house.modules().items() if len(t.splitlines()) > most] == []


def test_no_function_is_too_long() -> None:
    assert house.long_functions(RATCHET["function lines"]) == []


def test_no_python_of_ours_looks_for_modules_in_the_folder_it_is_started_in() -> None:
    """That is a project's, which may have a json.py: without -P it would be run."""
    started = [
        f"{name}: {line.strip()}"
        for name, (_, text, _) in house.modules().items()
        for line in text.splitlines()
        if "sys.executable" in line and "lamina" in line and "-m" in line
    ]
    assert started
    assert [line for line in started if "-P" not in line] == []


def test_nothing_is_dead_but_what_is_excused() -> None:
    excused = RATCHET["dead"]
    assert [name for name in house.dead() if name not in excused] == []
    assert len(excused) <= 10
    assert all(excused.values()), "each with its reason"


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("modules", lambda: list(house.rebuilt())),
        ("modules with one importer", house.single_importers),
        ("regexes that choose between words, outside text/ and secrets/", house.word_regexes),
        ("lines over 120 characters", house.long_lines),
    ],
)
def test_there_are_no_more_than_there_were(name: str, count: Any) -> None:
    found = count()
    assert len(found) <= RATCHET[name], found


@pytest.mark.parametrize("package", house.LATER)
def test_a_package_that_came_later_keeps_within_its_budget(package: str) -> None:
    assert house.lines_of_later()[package] <= house.LATER[package]


def test_there_is_no_more_regex_than_there_was() -> None:
    assert house.regex_characters() <= RATCHET["regex characters"]


@pytest.mark.parametrize("what", ["sentence", "turn"])
def test_a_walk_enters_no_more_files_than_it_did(what: str) -> None:
    files = {"sentence": house.walk_of_a_sentence, "turn": house.walk_of_a_turn}[what]()
    assert len(files) <= RATCHET[f"files on the walk of a {what}"], house.by_room(files)
    assert str(house.SRC / "turn.py") in files


# ---- the counts see what they are for


@pytest.fixture
def small_house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A package of one module, instead of ours."""

    def build(code: str, name: str = "lamina.local.made") -> None:
        front = "from lamina.local import made\n\nmade.used()\n"
        parts = {"lamina": front, "lamina.cli.main": "def main(): ...\n", name: code}
        parts["lamina.testing"] = "def for_hosts(): ...\n"
        found = {n: (tmp_path / f"{n}.py", t, ast.parse(t)) for n, t in parts.items()}
        monkeypatch.setattr(house, "modules", lambda: found)
        for cached, counted in COUNTED.items():
            monkeypatch.setattr(house, cached, counted)
        monkeypatch.setattr(house, "unread_settings", list)

    return build


def test_a_function_that_nobody_calls_is_dead_and_what_a_host_may_call_is_not(
    small_house: Any,
) -> None:
    small_house(
        "def used():\n    return _inner()\n\n"
        "def _inner(): ...\n\n"
        "def unused():\n    return _only_there()\n\n"
        "def _only_there(): ...\n"
    )
    assert house.dead() == ["lamina.local.made._only_there", "lamina.local.made.unused"]


@pytest.mark.parametrize(
    ("pattern", "counts"),
    [
        (r"\b(?:always|never|often|seldom)\b", True),
        (r"(?:please )?(?:note|keep|store|remember that)\s", True),
        (r"\b(?:yes|no|maybe)\b", False),
        (r"[a-z]|\d|\.|-", False),
        (r"always never often seldom", False),
    ],
)
def test_a_regex_that_chooses_between_words_belongs_to_the_rooms_of_language(
    small_house: Any, pattern: str, counts: bool
) -> None:
    code = f"import re\n\ndef used(): ...\n\nX = re.compile({pattern!r})\n"
    small_house(code)
    assert house.word_regexes() == (["lamina.local.made:5"] if counts else [])
    small_house(code, "lamina.text.made")
    assert house.word_regexes() == []


def test_what_a_killed_process_measured_by_half_does_not_end_the_run(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    coverage = pytest.importorskip("coverage")
    for name in ("whole", "half", "cut", "empty"):
        data = coverage.CoverageData(str(tmp_path / f".coverage.{name}"))
        data.add_lines({f"/{n}.py": range(1, 90) for n in range(90)})
        data.close()
    half, cut = tmp_path / ".coverage.half", tmp_path / ".coverage.cut"
    pages = half.read_bytes()
    half.write_bytes(pages[: 8 * 4096] + bytes(4096) + pages[9 * 4096 :])  # coverage reads this one
    cut.write_bytes(pages[: 3 * 4096])
    (tmp_path / ".coverage.empty").write_bytes(b"")
    ours: Any = request.config.pluginmanager.get_plugin(
        str(Path(__file__).with_name("conftest.py"))
    )
    assert {file.name for file in ours.half_written(tmp_path)} == {
        *(".coverage.half", ".coverage.cut", ".coverage.empty"),
    }
