"""`lamina instructions`: what is loaded from where, in order, with sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
pytestmark = pytest.mark.spec("M8")


def write(world: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = world / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_files_are_listed_in_order_with_scope_size_and_reason(lamina: Run, world: Path) -> None:
    write(
        world,
        {
            "home/AGENTS.md": "mine",
            "project/AGENTS.md": "team @more.md",
            "project/more.md": "more",
            "project/CLAUDE.local.md": "local",
        },
    )
    ran = lamina("instructions")
    rows = [line.split() for line in ran.out.splitlines()[1:-1]]
    assert [(row[1], row[2], Path(row[3]).name) for row in rows] == [
        ("user", "4", "AGENTS.md"),
        ("project", "4", "more.md"),
        ("project", "13", "AGENTS.md"),
        ("local", "5", "CLAUDE.local.md"),
    ]
    assert ran.out.splitlines()[-1].startswith("4 files, 26 bytes")
    assert (ran.code, ran.err) == (0, "")


def test_what_was_not_loaded_is_said_beside_the_result(lamina: Run, world: Path) -> None:
    write(world, {"secret.md": "SECRET", "project/CLAUDE.md": "@../secret.md \x1b[31m @./none.md"})
    ran = lamina("instructions", "--text")
    assert "SECRET" not in ran.out
    assert "\x1b" not in ran.out
    assert "not trusted" in ran.err
    assert "none.md" in ran.err
    assert lamina("instructions", "--quiet").err == ""
    lamina("settings", "set", "instructions.trust", "true")
    assert "SECRET" in lamina("instructions", "--text").out


def test_a_file_shows_what_working_on_it_adds(lamina: Run, world: Path) -> None:
    rule = "---\npaths: src/**\n---\nUse types."
    write(world, {"project/.lamina/rules/py.md": rule, "project/src/AGENTS.md": "src"})
    assert "There are no instruction files here" in lamina("instructions").out
    found = lamina("instructions", "--for", "src/a.py", "--json").json
    assert [item["why"] for item in found["loaded"]] == ["rule for src/**", "AGENTS.md of src"]
    assert found["skipped"] == []


def test_a_project_can_not_trust_itself(lamina: Run, world: Path) -> None:
    write(
        world,
        {
            "secret.md": "SECRET",
            "project/CLAUDE.md": "@~/secret.md",
            "project/.lamina/settings.toml": "[instructions]\ntrust = true\n",
        },
    )
    ran = lamina("instructions", "--text")
    assert "SECRET" not in ran.out
