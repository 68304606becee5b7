"""`lamina sessions grep` over real ledgers, large ones, and Claude Code's transcripts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lamina.cli.moments import since, until
from lamina.cli.sessions_grep import literal_in
from lamina.ledger import edits
from lamina.ledger.places import project_folder, slug
from lamina.ledger.record import Ledger
from lamina.messages import text, tool_result, tool_use

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
def test_a_result_that_was_moved_out_of_the_session_is_searched_whole(
    lamina: Run, folder: Path
) -> None:
    path = record(folder, "aaaa", "look")
    ledger = Ledger.open(path, now=lambda: NOON)
    ledger.append(
        edits.message("assistant", [tool_use("toolu_1", "Read", {"path": "a"})], "assistant"),
        edits.message("user", [tool_result("toolu_1", "only the beginning")], "tool"),
    )
    ledger.close()
    results = folder / "aaaa" / "tool-results"
    results.mkdir(parents=True)
    (results / "toolu_1.txt").write_text("only the beginning\nand a needle")
    assert texts(lamina("sessions", "grep", "needle", "--json")) == ["and a needle"]


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


patterns = st.lists(
    st.sampled_from(
        [
            r"abc",
            r"a",
            r"b.c",
            r"x*",
            r"y?",
            r"(ab)",
            r"(ab)?",
            r"a{0,2}",
            r"b+",
            r"[abc]",
            r"|",
            r"\.",
            r"\d",
            r"(?:ab)",
            r"(a|b)",
            r"^",
            r"$",
            r"\x61",
            r".",
            r"_",
            r"{",
            r"-",
            r"(?i:A)",
            r"\bab",
        ]
    ),
    max_size=6,
).map("".join)


@given(patterns, st.text(alphabet="abcxyABK._-1 {\u212a\u017f", max_size=14), st.booleans())
@example("ab*c", "ac", False)
@example("ks", "\u212a\u017f", True)
def test_no_hit_is_missed_by_looking_for_its_plain_part_first(
    pattern: str, words: str, ignore: bool
) -> None:
    try:
        wanted = re.compile(pattern, re.IGNORECASE if ignore else 0)
    except re.error:
        return
    if wanted.search(words):
        plain = literal_in(wanted)
        if not ignore:
            assert plain in words
        elif words.isascii():
            assert plain.lower() in words.lower()
