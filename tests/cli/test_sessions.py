"""`lamina sessions` over real ledgers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lamina.ledger import edits
from lamina.ledger.places import project_folder
from lamina.ledger.record import Ledger
from lamina.messages import Usage, text, tool_result, tool_use

Run = Callable[..., Any]


@pytest.fixture
def folder(world: Path) -> Path:
    return project_folder(world / "home", world / "project")


def record(folder: Path, name: str, *, at: float, question: str = "Fix the test") -> Path:
    """A session with a call, its result and an answer, written by the real ledger."""
    path = folder / f"{name}.jsonl"
    ledger = Ledger.open(path, now=lambda: at)
    ledger.append(
        edits.message("user", [text(question), text("piped in")], ["typed", "pasted"]),
        edits.answer(
            [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                text("I look."),
                tool_use("toolu_1", "Read", {"path": "a.py"}),
            ],
            Usage(10, 5),
        ),
        edits.message("user", [tool_result("toolu_1", "line\n" * 600)], "tool"),
        edits.answer([text("Done \x1b[2Jnow.")], Usage(20, 5)),
    )
    ledger.close()
    os.utime(path, (at, at))
    return path


@pytest.mark.spec("I2")
def test_sessions_are_listed_newest_first_with_what_they_began_with(
    lamina: Run, folder: Path
) -> None:
    record(folder, "aaaa-1", at=1_700_000_000, question="Older  one\nhere")
    reminded = record(folder, "bbbb-2", at=1_700_000_100)
    ledger = Ledger.open(reminded, now=lambda: 1_700_000_100)
    ledger.append(edits.message("user", [text("<system-reminder>x")], "system"))
    ledger.close()
    os.utime(reminded, (1_700_000_100, 1_700_000_100))
    rows = lamina("sessions", "list", "--json").json
    assert [(row["id"], row["messages"], row["title"]) for row in rows] == [
        ("bbbb-2", 4, "Fix the test"),
        ("aaaa-1", 4, "Older  one\nhere"),
    ]
    assert datetime.fromisoformat(rows[1]["changed"]).timestamp() == 1_700_000_000
    lines = lamina("sessions", "list").out.splitlines()
    assert lines[0].split() == ["session", "agent", "last", "change", "messages", "begins", "with"]
    assert lines[2].endswith("Older one here")
    ran = lamina("sessions", "list", "-n", "1")
    assert len(ran.out.splitlines()) == 2
    assert "1 more" in ran.err


def test_other_projects_sessions_show_only_with_all(lamina: Run, folder: Path, world: Path) -> None:
    other = world / "other"
    other.mkdir()
    record(project_folder(world / "home", other), "cccc-3", at=1_700_000_000)
    assert lamina("sessions", "list", "--json").json == []
    assert [row["id"] for row in lamina("sessions", "list", "--all", "--json").json] == ["cccc-3"]
    assert lamina("sessions", "list", "--json", "--project", str(other)).json[0]["id"] == "cccc-3"


def test_with_no_session_at_all_there_is_a_word(lamina: Run) -> None:
    assert lamina("sessions", "list").err == "No sessions here yet.\n"
    assert lamina("sessions", "list", "--all").code == 0
    ran = lamina("sessions", "show")
    assert (ran.code, ran.out) == (2, "")
    assert "no sessions here yet" in ran.err


@pytest.mark.spec("I2")
def test_a_session_reads_as_a_conversation_that_can_not_steer_the_terminal(
    lamina: Run, folder: Path
) -> None:
    record(folder, "aaaa-1", at=1_700_000_000)
    out = lamina("sessions", "show").out
    lines = out.splitlines()
    assert lines[:4] == [
        "you: Fix the test",
        "pasted: piped in",
        "agent: I look.",
        'call: Read {"path": "a.py"}  [toolu_1]',
    ]
    assert "[1,000 more characters: --result toolu_1 prints them all]" in lines
    assert lines[-1] == "agent: Done ␛[2Jnow."
    assert "hm" not in out.split()


@pytest.mark.spec("L1.5")
def test_a_whole_tool_result_comes_back_byte_for_byte(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    from lamina.cli.main import main

    path = record(folder, "aaaa-1", at=1_700_000_000)
    assert main(["sessions", "show", "aaaa", "--result", "toolu_1"]) == 0
    assert capfdbinary.readouterr().out == b"line\n" * 600
    moved = path.with_suffix("") / "tool-results" / "toolu_1.txt"
    moved.parent.mkdir(parents=True)
    moved.write_bytes(b"forged \xff result\r\n")
    assert main(["sessions", "show", "aaaa", "--result", "toolu_1"]) == 0
    assert capfdbinary.readouterr().out == b"line\n" * 600
    assert main(["sessions", "show", "aaaa", "--result", "toolu_9"]) == 2


def test_a_tool_id_that_is_a_path_leads_nowhere(lamina: Run, folder: Path) -> None:
    path = folder / "aaaa-1.jsonl"
    ledger = Ledger.open(path)
    evil = "../../../secret"
    ledger.append(
        edits.message("user", "x", "typed"),
        edits.answer([tool_use(evil, "Read", {})], Usage(1, 1)),
        edits.message("user", [tool_result(evil, "shown")], "tool"),
    )
    ledger.close()
    (folder.parent.parent / "secret.txt").write_text("hidden")
    assert "result: shown" in lamina("sessions", "show").out


def test_an_id_is_found_by_its_beginning_if_only_one_fits(lamina: Run, folder: Path) -> None:
    record(folder, "abc-1", at=1_700_000_000)
    record(folder, "abd-2", at=1_700_000_100)
    assert lamina("sessions", "show", "abc", "--json").json["id"] == "abc-1"
    assert "2 sessions begin with ab" in lamina("sessions", "show", "ab").err
    ran = lamina("sessions", "show", "zz")
    assert (ran.code, "There is no session zz" in ran.err) == (2, True)


def test_edits_are_told_and_damaged_lines_named(lamina: Run, folder: Path) -> None:
    path = record(folder, "aaaa-1", at=1_700_000_000)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    result = next(e for e in entries if e["content"][0]["type"] == "tool_result")
    ledger = Ledger.open(path)
    replaced = tool_result("toolu_1", "[Old tool result content cleared]")
    ledger.append(
        edits.replace([(result["uuid"], 0, replaced)], "microcompact", changes_prefix=True)
    )
    ledger.close()
    with path.open("ab") as file:
        file.write(b"{broken\n")
    ran = lamina("sessions", "show")
    assert "edit: microcompact replaced 1 block" in ran.out
    assert "line 6" in ran.err
    assert lamina("sessions", "show", "--quiet").err == ""


@pytest.mark.spec("I2")
def test_grep_finds_lines_and_says_by_its_exit_code_whether(lamina: Run, folder: Path) -> None:
    record(folder, "aaaa-1", at=1_700_000_000)
    ran = lamina("sessions", "grep", "FIX", "-i")
    assert (ran.code, ran.out) == (0, "aaaa-1 user      Fix the test\n")
    assert lamina("sessions", "grep", "FIX").code == 1
    hits = lamina("sessions", "grep", "line", "--json", "-n", "3").json
    when = "2023-11-14T22:13:20+00:00"
    hit = {"session": "aaaa-1", "who": "result", "text": "line", "when": when, "agent": ""}
    assert hits == [hit] * 3
    assert lamina("sessions", "grep", "a.py", "--json").json[0]["who"] == "call"
    bad = lamina("sessions", "grep", "(")
    assert (bad.code, "not a regular expression" in bad.err) == (2, True)


def test_a_session_without_a_verb_is_told_the_verbs(lamina: Run) -> None:
    ran = lamina("sessions")
    assert (ran.code, "list, show, grep" in ran.err) == (2, True)
