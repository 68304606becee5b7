"""Lines of a session's file that are JSON and entries, but of a wrong shape: told, never a traceback."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lamina.cache.account import Account, Rates
from lamina.cli.main import main
from lamina.cli.transcript import edit_words, requests_of
from lamina.ledger import edits, log
from lamina.ledger.places import project_folder
from lamina.ledger.record import Ledger, Quotes, blocks_of_entry
from lamina.messages import Usage, text
from lamina.recall.why import lines, recalls_of

WRONG: list[Any] = [None, 5, -1, 1.5, True, "x", [], [5], [[]], {}, {"a": 1}, [{"type": 5}]]
CALL = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [text("seen")]}
ENTRIES: list[dict[str, Any]] = [
    edits.frame([text("system")], [{"name": "Read", "input_schema": {}}], "scripted", {"a": 1}),
    edits.message("user", [text("hello")], "typed", meta={"path": "x"}, recalled=[{"path": "y"}]),
    edits.answer([text("hm"), CALL], Usage(1, 2, 3, 4), id="m1"),
    edits.message("user", [RESULT], "tool", tool="Read", meta={"path": "x", "memories": ["a.md"]}),
    edits.request("u1", "abc", "main", 3, 40),
    edits.replace([("u1", 0, text("other"))], "layer", changes_prefix=True),
    edits.fold("u1", "u1", [{"role": "user", "content": [text("short")]}], "layer"),
    edits.revoke("u9", "layer"),
    edits.state("tasks", {"a": 1}),
    edits.job("extraction", "done", "u1"),
    edits.event({"kind": "warned", "message": "x"}),
    {"kind": "repair", "line": 1, "offset": 0, "length": 4, "reason": "torn"},
    {"kind": "recall", "query": "u1", "offered": 2, "candidates": [{"path": "a", "parts": {"b": 1.0}}],
     "picks": ["a"], "shown": [{"path": "a", "bytes": 3}], "by": "ranker", "in_view": ["b"]},
    {"kind": "recall_use", "recall": "u1", "uses": {"a": {"used": True, "words": ["x"]}}},
]  # fmt: skip


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every field, however deep."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        if above or key != "kind":
            yield (*above, key)
        if isinstance(inner, (dict, list)) and inner:
            yield from places(inner, (*above, key))


def put(entry: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(entry)
    *way, last = place
    at: Any = changed
    for key in way:
        at = at[key]
    at[last] = copy.deepcopy(value)
    return changed


def written(path: Path, odd: dict[str, Any]) -> None:
    said = [
        {**edits.message("user", [text("first words")], "typed"), "uuid": "u1"},
        {**odd, "uuid": odd.get("uuid", "odd")},
        {**edits.message("user", [text("last words")], "typed"), "uuid": "u3"},
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in said))


@pytest.mark.spec("F1")
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda one: f"{one['kind']}-{one.get('op', '')}")
def test_every_field_with_every_wrong_shape_keeps_the_good_lines(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    path = tmp_path / "s.jsonl"
    wrong: list[str] = []
    for place in places(entry):
        for value in WRONG:
            odd = put(entry, place, value)
            written(path, odd)
            try:
                ledger = Ledger.open(path)
                try:
                    request = ledger.view()
                    ledger.fingerprint(), ledger.tokens(), ledger.open_calls
                    if not ledger.open_calls:
                        ledger.append(edits.message("user", [text("more")], "typed"))
                finally:
                    ledger.close()
                assert "last words" in str([*request.messages]) or entry.get("op") == "fold"
                entries = log.read(path).entries
                [[*lines(one)] for one in recalls_of(entries)]
                [blocks_of_entry(one) for one in entries]
                Quotes(tmp_path).before("s", "u3")
                for call in requests_of(entries):
                    [edit_words(edit) for edit, _ in call.edits]
                Account().follow(entries, Rates())
            except Exception as error:  # noqa: BLE001 - whatever a reader would show as a traceback
                wrong.append(f"{place} = {value!r}: {type(error).__name__}: {error}")
    assert wrong == []


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    "odd",
    [
        {"kind": "frame", "system": 5},
        {"kind": "request", "blocks": "x", "purpose": "main", "head": "u1"},
        {"kind": "message", "role": "assistant", "content": [5], "origins": 3},
    ],
)
@pytest.mark.parametrize("words", [["sessions", "show"], ["context"], ["memory", "why"]])
def test_commands_say_it_in_a_sentence(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    odd: dict[str, Any],
    words: list[str],
) -> None:
    monkeypatch.setenv("LAMINA_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    where = ["--project", str(project)]
    folder = project_folder(tmp_path / "home", project)
    written(folder / "0b5e8b2c-8d0f-4b6e-9d43-5d2f0f3f7a11.jsonl", odd)
    code = main([*words, *where])
    captured = capfd.readouterr()
    assert code in (0, 1)
    assert "Traceback" not in captured.err + captured.out
    assert "internal" not in captured.err
