"""`lamina sessions grep` over real ledgers, large ones, and Claude Code's transcripts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lamina.cli.moments import since, until
from lamina.ledger import edits
from lamina.ledger.places import project_folder, slug
from lamina.ledger.record import Ledger
from lamina.messages import text
from lamina.recall import sketches

Run = Callable[..., Any]
NOON = 1_760_000_000.0  # 2025-10-09
DAY = 86_400.0


@pytest.fixture
def folder(world: Path) -> Path:
    return project_folder(world / "home", world / "project")


def record(folder: Path, name: str, *said: str, at: float = NOON) -> Path:
    path = folder / f"{name}.jsonl"
    ledger = Ledger.open(path, now=lambda: at)
    ledger.append(*(edits.message("user", [text(words)], ["typed"]) for words in said))
    ledger.close()
    os.utime(path, (at, at))
    return path


def texts(ran: Any) -> list[str]:
    return [hit["text"] for hit in ran.json]


@pytest.mark.spec("M7", "I2")
def test_hits_are_kept_to_a_time(lamina: Run, folder: Path) -> None:
    for day in range(4):
        record(folder, f"day-{day}", f"needle {day}", at=NOON + day * DAY)
    grep = ("sessions", "grep", "needle", "--json")
    assert texts(lamina(*grep)) == ["needle 3", "needle 2", "needle 1", "needle 0"]
    dates = [
        f"{datetime.fromtimestamp(NOON + day * DAY, UTC).astimezone():%Y-%m-%d}" for day in range(4)
    ]
    assert texts(lamina(*grep, "--since", dates[2])) == ["needle 3", "needle 2"]
    assert texts(lamina(*grep, "--since", dates[1], "--until", dates[2])) == [
        "needle 2",
        "needle 1",
    ]
    assert texts(lamina(*grep, "--since", "1d")) == []
    refused = lamina(*grep, "--since", "someday")
    assert (refused.code, "is no time; write 2026-11-01" in refused.err) == (2, True)


def test_times_are_read_as_people_write_them() -> None:
    midnight = datetime(2026, 3, 9).astimezone().timestamp()
    assert since("2026-03-09") == midnight
    assert midnight + DAY - 1 < until("2026-03-09") < midnight + DAY
    assert since("2026-03-09T14:30") == until("2026-03-09T14:30") == midnight + 14.5 * 3600
    assert since("1h") - since("1d") == pytest.approx(23 * 3600, abs=5)
    assert since("2w") == pytest.approx(since("14 d"), abs=5)
    assert until("yesterday") < since("today") < until("TODAY")


@pytest.mark.spec("I2")
def test_it_says_when_it_found_nothing_or_not_all(lamina: Run, folder: Path) -> None:
    record(folder, "aaaa", "one needle", "two needles", "three needles")
    cut = lamina("sessions", "grep", "needle", "-n", "2")
    assert (cut.code, len(cut.out.splitlines())) == (0, 2)
    assert cut.err == "There are more: `-n 0` shows all.\n"
    assert lamina("sessions", "grep", "needle", "-n", "3").err == ""
    assert len(lamina("sessions", "grep", "needle", "-n", "0").out.splitlines()) == 3
    nothing = lamina("sessions", "grep", "haystack")
    assert (nothing.code, nothing.err) == (1, "Nothing found.\n")
    assert lamina("sessions", "grep", "haystack", "--quiet").err == ""
    assert lamina("sessions", "grep", "needle", "-n", "-1").code == 2


@pytest.mark.spec("I2")
def test_time_runs_out_inside_a_long_session_too(lamina: Run, folder: Path) -> None:
    record(folder, "long", *(f"{'hay ' * 5_000}{number}" for number in range(200)))
    record(folder, "older", "nothing here", at=NOON - DAY)
    ran = lamina("sessions", "grep", "[n]eedle", "--seconds", "0.000001")
    assert ran.code == 1
    assert ran.err.startswith("Stopped after 1e-06 s: 2 sessions were not searched to the end.")
    assert lamina("sessions", "grep", "[n]eedle", "--seconds", "0").err == "Nothing found.\n"


@pytest.mark.spec("I2")
def test_time_runs_out_inside_one_match_too(lamina: Run, folder: Path) -> None:
    """This one would try a line of a's in more ways than there are seconds."""
    record(folder, "aaaa", "a" * 60 + "!b")
    ran = lamina("sessions", "grep", "(a+)+b", "--seconds", "0.05")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("Stopped after 0.05 s: 1 session was not searched to the end.")


@pytest.mark.spec("I2")
def test_odd_names_and_things_that_are_no_files_do_no_harm(lamina: Run, folder: Path) -> None:
    whole = record(folder, "plain", "a needle").read_bytes()
    for name in ("two\nlines", "\x1b[31mred", "--help", "日本語"):
        (folder / f"{name}.jsonl").write_bytes(whole)
    names = ["plain", "two line", "␛[31mred", "--help", "日本語"]
    others = list[str]()
    with suppress(OSError):  # some systems refuse a name that is no text
        Path(os.fsdecode(os.fsencode(folder) + b"/\xe9.jsonl")).write_bytes(whole)
        others.append("?")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "folder.jsonl").mkdir()
    grep = lamina("sessions", "grep", "needle")
    found = [line.split(" user")[0] for line in grep.out.splitlines()]
    assert sorted(found) == sorted([*names, *others])
    assert len(lamina("sessions", "grep", "needle", "--json").json) == len(found)
    search = lamina("sessions", "search", "needle")
    assert (search.code, len(search.out.splitlines())) == (0, len(names))
    assert "\x1b" not in search.out
    assert len(lamina("sessions", "search", "needle", "--json").json) == len(names)
    assert "\x1b" not in lamina("sessions", "list").out


@pytest.mark.spec("I2")
def test_a_result_that_was_moved_out_of_the_view_is_searched_whole(
    lamina: Run, world: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record holds every result whole, wherever layer 1 put it."""
    hay = "seq 1 20000; echo a nee''dle; seq 1 20000"
    call = {"name": "Bash", "input": {"command": hay}}
    steps = [
        {"reply": {"text": "I look.", "tool_use": [call]}},
        {"expect": {"last_result": "<persisted-output>"}, "reply": "Done."},
    ]
    script = world / "script.json"
    script.write_text(json.dumps({"steps": steps, "otherwise": {"*": "[]"}}))
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert lamina("chat", "-p", "look", "--model", f"scripted:{script}").code == 0
    assert [*folder.glob("*/tool-results/*.txt")]
    [hit] = lamina("sessions", "grep", "needle", "--json").json
    assert (hit["who"], hit["text"]) == ("result", "a needle")


@pytest.mark.spec("I2")
def test_what_is_no_entry_is_passed_over(lamina: Run, folder: Path) -> None:
    path = record(folder, "aaaa", "a needle")
    with path.open("ab") as file:
        file.write(b'needle\n[1, "needle"]\n{"kind": 3, "needle": 1}\n\n{"kind":"message","con')
        file.write(b"needle")
    (folder / "gone.jsonl").symlink_to(folder / "nowhere")
    ran = lamina("sessions", "grep", "needle")
    assert ran.out == "aaaa user      a needle\n"


def claude_lines(*said: tuple[str, Any]) -> str:
    rows = [
        {
            "type": who,
            "uuid": str(number),
            "timestamp": "2026-02-06T09:24:39.425Z",
            "message": {"role": who, "content": content},
        }
        for number, (who, content) in enumerate(said)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def claude(world: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Claude Code's folder for the project."""
    monkeypatch.delenv("LAMINA_HOME")
    folder = world / ".claude" / "projects" / slug(world / "project")
    folder.mkdir(parents=True)
    (folder / "cccc-1.jsonl").write_text(
        '{"type":"summary","summary":"needles"}\nnot json\n'
        + claude_lines(
            ("user", "where is the needle?"),
            ("assistant", [{"type": "text", "text": "The needle is in the hay barn."}]),
            ("assistant", [{"type": "tool_use", "input": {"path": "needle.py"}}]),
            ("user", [{"type": "tool_result", "content": [{"type": "text", "text": "needle 7"}]}]),
            ("user", [{"type": "tool_result", "content": "needle 8"}, "odd", {"type": "image"}]),
            ("user", 5),
        )
    )
    agents = folder / "cccc-1" / "subagents"
    agents.mkdir(parents=True)
    (agents / "agent-1.jsonl").write_text(claude_lines(("user", "find another needle")))
    return folder


@pytest.mark.spec("I2")
def test_claude_mode_also_sees_claude_codes_transcripts(lamina: Run, claude: Path) -> None:
    found = lamina("sessions", "grep", "needle", "--claude", "--json").json
    assert {(hit["session"], hit["who"], hit["text"]) for hit in found} == {
        ("cccc-1", "user", "where is the needle?"),
        ("cccc-1", "assistant", "The needle is in the hay barn."),
        ("cccc-1", "call", '{"path": "needle.py"}'),
        ("cccc-1", "result", "needle 7"),
        ("cccc-1", "result", "needle 8"),
        ("cccc-1", "user", "find another needle"),
    }
    assert found[0]["when"].startswith("2026-02-06T09:24:39")
    assert lamina("sessions", "grep", "needle", "--json").json == []
    elsewhere = ("sessions", "grep", "needle", "--claude", "--json", "--project", "/")
    assert lamina(*elsewhere).json == []
    assert len(lamina(*elsewhere, "--all").json) == 6


@pytest.mark.spec("I2")
def test_a_result_that_claude_code_showed_in_part_is_searched_whole(
    lamina: Run, claude: Path
) -> None:
    preview = "<persisted-output>\nOutput too large (40KB).\n\nPreview:\nhay\n</persisted-output>"
    row = json.loads(claude_lines(("user", [{"type": "tool_result", "content": preview}])))
    row["toolUseResult"] = {"stdout": "hay\n" * 100 + "a walrus", "interrupted": False}
    (claude / "dddd.jsonl").write_text(json.dumps(row) + "\n")
    [hit] = lamina("sessions", "grep", "walrus", "--claude", "--json").json
    assert (hit["who"], hit["text"]) == ("result", "a walrus")


@pytest.mark.spec("M7", "I2")
def test_claude_mode_searches_claude_codes_transcripts_and_writes_nothing_beside_them(
    lamina: Run, claude: Path
) -> None:
    before = sorted(claude.rglob("*"))
    for _ in range(2):
        [first, *_] = lamina("sessions", "search", "needle in the barn", "--claude", "--json").json
        assert (first["session"], first["who"]) == ("cccc-1", "assistant")
        assert first["text"] == "The needle is in the hay barn."
    assert sorted(claude.rglob("*")) == before


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sketches of few bytes, so that a test need not write megabytes."""
    for name, size in (("_BLOCK", 256), ("_SMALL", 1), ("WORTH", 1), ("_SETTLED", -1e9)):
        monkeypatch.setattr(sketches, name, size)


@pytest.mark.spec("M7", "I2")
@pytest.mark.usefixtures("eager")
def test_the_index_grows_with_the_sessions_and_changes_no_result(lamina: Run, folder: Path) -> None:
    grep = ("sessions", "grep", "needle", "-n", "0", "--json")
    record(folder, "aaaa", *(f"hay {number}" for number in range(40)), "a needle", at=NOON)
    record(folder, "bbbb", "nothing but hay", at=NOON + DAY)
    for _ in range(3):
        assert texts(lamina(*grep)) == ["a needle"]
    assert sorted(os.listdir(folder / "grep.index")) == ["aaaa.sketch", "bbbb.sketch"]
    record(folder, "aaaa", "hay again", "another needle", at=NOON + 2 * DAY)
    (folder / "bbbb.jsonl").unlink()
    for _ in range(3):
        assert texts(lamina(*grep)) == ["a needle", "another needle"]
        assert texts(lamina(*grep[:2], "NEEDLE", "-i", "--json", "-n", "1")) == ["a needle"]
        assert lamina("sessions", "grep", "needles").code == 1
    assert os.listdir(folder / "grep.index") == ["aaaa.sketch"]
    (folder / "grep.index" / "aaaa.sketch").write_bytes(b"nonsense")
    assert texts(lamina(*grep)) == ["a needle", "another needle"]


@pytest.mark.spec("I2")
@pytest.mark.usefixtures("eager")
def test_the_index_of_claude_codes_transcripts_lies_in_our_own_home(
    lamina: Run, world: Path, claude: Path
) -> None:
    before = sorted(claude.parent.rglob("*"))
    for _ in range(3):
        for everywhere in ((), ("--all",)):
            found = lamina("sessions", "grep", "needle", "--claude", "--json", *everywhere)
            assert len(found.json) == 6
    assert sorted(claude.parent.rglob("*")) == before
    ours = world / ".claude" / "lamina" / "grep.index" / claude.name
    assert sorted(str(file.relative_to(ours)) for file in ours.rglob("*.sketch")) == [
        "cccc-1.sketch",
        "cccc-1/subagents/agent-1.sketch",
    ]


@pytest.mark.spec("I2")
@pytest.mark.usefixtures("eager")
def test_without_a_place_for_the_index_the_search_goes_on(lamina: Run, folder: Path) -> None:
    record(folder, "aaaa", "a needle")
    (folder / "grep.index").write_text("in the way")
    for _ in range(2):
        ran = lamina("sessions", "grep", "needle")
        assert (ran.code, ran.out, ran.err) == (0, "aaaa user      a needle\n", "")
