"""docs/spec.md and the tests name the same promises."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
ID = r"[FLMTI]\d+(?:\.\d+)?"


def _all_listed() -> list[str]:
    page = (ROOT / "docs" / "spec.md").read_text("utf-8")
    return re.findall(rf"^- \*\*({ID})\*\*", page, re.MULTILINE)


def _listed() -> set[str]:
    return set(_all_listed())


def _tested() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("*.py"):
        for call in re.findall(r"mark\.spec\(([^)]*)\)", path.read_text("utf-8")):
            for name in re.findall(rf"\"({ID})\"", call):
                found.setdefault(name, set()).add(path.name)
    return found


def test_every_promise_is_listed_once() -> None:
    listed = _all_listed()
    assert sorted({name for name in listed if listed.count(name) > 1}) == []


def test_every_listed_promise_has_a_test() -> None:
    assert sorted(_listed() - set(_tested())) == []


def test_every_promise_that_a_test_names_is_listed() -> None:
    unlisted = {name: files for name, files in _tested().items() if name not in _listed()}
    assert unlisted == {}
