"""`lamina sessions grep` over real ledgers, large ones, and Claude Code's transcripts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lamina.cli.options import since, until
from lamina.cli.sessions_search import candidate_pattern
from lamina.ledger import edits
from lamina.ledger.places import project_folder, slug
from lamina.ledger.record import Ledger
from lamina.messages import text
from lamina.recall import transcripts
from lamina.tools.grep import find_ripgrep

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
    assert (refused.code, "is not a time; write 2026-11-01" in refused.err) == (2, True)


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
    assert cut.err == "There are more; `-n 0` shows all.\n"
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
    ours = lamina("sessions", "grep", "needle", "--json").json
    assert {hit["session"] for hit in ours} == {"cccc-1"}
    assert len(ours) == 4, "without the words of its sub-agents"
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


ODD_TEXTS = (
    'he said "needle" twice', "back\\slash needle", "tab\tneedle", "a needle\nand a second line",
    "数据库 in Chinese", "naïve café", "\U0001f9a9 flamingo 𠮷野家", "\u212aelvin and \u017fpin", "İstanbul, ılık",
    "needle</script>", "/usr/bin/needle", "\x1b[31mneedle\x1b[0m", "NEEDLE", "x" * 500 + "needle",
)  # fmt: skip


@pytest.mark.spec("I2")
def test_ripgrep_finds_what_reading_every_line_finds(
    lamina: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However JSON writes it, and also what ripgrep's own expressions don't know."""
    record(folder, "ours", *ODD_TEXTS)
    calls = [{"type": "tool_use", "input": {"n": 1e22, "path": "needle.py", "many": [1, 2e5]}}]
    theirs = claude_lines(*(("user", said) for said in ODD_TEXTS), ("assistant", calls))
    spelled = (
        theirs.replace("needle", r"n\u0065edle").replace("2e5", "2e5").replace("1e+22", "1E22")
    )
    for name, content in (("escaped", theirs), ("spelled", spelled)):
        (folder / f"{name}.jsonl").write_text(content.replace("200000.0", "2e5"))
    patterns = (
        "needle", "needle -i", '"needle"', r"back\\slash", "数据库", "数据", "caf[eé]", "café", "CAFÉ -i", "flamingo",
        "𠮷野家", "kelvin -i", "spin -i", "istanbul -i", "ilik -i", "(?<=a )needle", "(needle).*(?!x)", r"(e)\1dle",
        "200000", "1e", "needle|数据", "need(?:le|y)", "colou?r|needl", r"\x6eeedle", "^a", ".", "/usr/bin",
        "nowhere", r"needle\.py", "second", "1, 2",
    )  # fmt: skip
    for words in patterns:
        grep = ("sessions", "grep", *words.split(" -i")[:1], "--json", "-n", "0")
        grep += ("-i",) if words.endswith(" -i") else ()
        by_ripgrep = lamina(*grep).json
        with monkeypatch.context() as patch:
            patch.setattr("lamina.tools.grep.find_ripgrep", lambda: None)
            assert lamina(*grep).json == by_ripgrep, words
        assert bool(by_ripgrep) == (words != "nowhere"), words


PIECES = (
    r"abc", r"a", r"b.c", r"x*", r"y?", r"(ab)", r"(ab)?", r"a{0,2}", r"b+", r"[abc]", r"|", r"\.",
    r"\d", r"(?:ab)", r"(a|b)", r"^", r"$", r"\x61", r".", r"_", r"{", r"-", r"(?i:A)", r"\bab", "K",
    "s", "数据", "é", "É", r"(?!b)", r"(?<=a)", r"[]|]", r"\\", r"\(", r"a|", "(?#(|)", r"a{2}?", r"x++",
)  # fmt: skip
expressions = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
said = st.text(alphabet="abcxyABKks._-1 {|(\\\u212a\u017fıİ数据éÉ", max_size=14)


@given(expressions, st.lists(said, min_size=1, max_size=9), st.booleans(), st.booleans())
@example("ab*c", ["ac"], False, False)
@example("ks", ["\u212a\u017f"], True, True)
@example("ks", ["\u212a\u017f"], True, False)
@example("数据", ["数据"], True, True)
@example("É", ["é"], True, True)
def test_no_hit_is_passed_over(words: str, texts: list[str], ignore: bool, by_number: bool) -> None:
    try:
        pattern = re.compile(words, re.IGNORECASE if ignore else 0)
    except re.error:
        return
    candidates = candidate_pattern(pattern)
    hits = [text for text in texts if pattern.search(text)]
    if not candidates or not hits:
        return
    lines = "".join(json.dumps({"text": text}, ensure_ascii=by_number) + "\n" for text in hits)
    ripgrep = find_ripgrep()
    assert ripgrep
    arguments = [ripgrep, "--no-config", "--count", "--regexp", candidates]
    ran = subprocess.run(arguments, input=lines.encode(), stdout=subprocess.PIPE, check=False)
    assert int(ran.stdout or 0) == len(hits)


@pytest.mark.spec("I2")
def test_entries_that_cant_hold_a_hit_are_not_decoded(
    lamina: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(folder, "aaaa", *(f"hay {number}" for number in range(200)), "a needle", "a NEEDLE")
    decoded: list[bytes] = []
    monkeypatch.setattr(transcripts, "value_of", lambda line: decoded.append(line) or {})
    for words, most in (("needle", 1), ("NEEDLE|needle", 2), ("(?i)needle", 2), ("a need+le", 2)):
        decoded.clear()
        lamina("sessions", "grep", words)
        assert 0 < len(decoded) <= most
    lamina("sessions", "grep", "[n]e+")  # no stretch is sure: everything is read
    assert len(decoded) > 200


@pytest.mark.spec("I2")
def test_a_ripgrep_that_fails_or_an_endless_expression_loses_no_hit(
    lamina: Run, world: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "数据" * 40_000
    record(folder, "aaaa", "a needle", long)
    assert texts(lamina("sessions", "grep", long[:9_000], "--json")) == [long]
    many = "|".join(f"no{number}" for number in range(2_000))
    assert texts(lamina("sessions", "grep", f"{many}|needle", "--json")) == ["a needle"]
    broken = world / "rg"
    broken.write_text("#!/bin/sh\nexit 2\n")
    broken.chmod(0o755)
    for useless in (broken, world / "nowhere", folder):
        monkeypatch.setattr("lamina.tools.grep.find_ripgrep", lambda path=useless: str(path))
        assert texts(lamina("sessions", "grep", "needle", "--json")) == ["a needle"]
