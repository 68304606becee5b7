"""`lamina replay`: figures for people and for scripts, and what it says of files that are no transcripts."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.cli.conftest import Ran
from tests.cli.test_bad_places import run as powerless
from tests.replay.conftest import Session

Lamina = Callable[..., Ran]


def transcript(folder: Path, name: str = "one.jsonl", rounds: int = 12) -> Path:
    session = Session()
    session.user("build <b>it</b>")
    for number in range(rounds):
        block = {
            "type": "tool_use",
            "id": f"t{number}",
            "name": "Bash",
            "input": {"command": f"make {number}"},
        }
        session.answer([block], usage=None)
        said = "".join(f"line {n} of output {number}\n" for n in range(130))
        session.user([{"type": "tool_result", "tool_use_id": f"t{number}", "content": said}])
    session.answer([{"type": "text", "text": "Done."}], usage=None)
    session.clock += 7200
    session.user("and now?")
    session.answer([{"type": "text", "text": "Nothing left."}], usage=None)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(session.text())
    return path


@pytest.mark.spec("I4")
def test_a_file_gives_a_table_with_money_cache_and_what_each_layer_did(
    lamina: Lamina, world: Path
) -> None:
    ran = lamina("replay", str(transcript(world)))
    assert ran.code == 0
    assert ran.err == ""
    assert "one.jsonl" in ran.out
    rows = {line.split()[0]: line for line in ran.out.splitlines()[2:5]}
    assert {"recorded", "none", "lamina"} <= set(rows)
    assert "$" in rows["none"]
    assert re.search(r"lamina did: .*L2 microcompaction 1×", ran.out)
    assert "%" in rows["lamina"]


@pytest.mark.spec("I4")
def test_json_is_one_object_a_file_with_the_agreed_names(lamina: Lamina, world: Path) -> None:
    transcript(world / "all", "a.jsonl")
    transcript(world / "all", "b.jsonl", rounds=2)
    transcript(world / "all" / "a" / "subagents", "agent-1.jsonl")  # read with its session
    ran = lamina("replay", str(world / "all"), "--json")
    assert ran.code == 0
    values = [json.loads(line) for line in ran.out.splitlines()]
    assert [Path(value["file"]).name for value in values] == ["a.jsonl", "b.jsonl"]
    for value in values:
        assert set(value) == {"file", "format", "requests", "skipped", "recorded", "policies"}
        assert set(value["recorded"]) == {"input", "cache_read", "cache_write", "output"}
        none, own = value["policies"]["none"], value["policies"]["lamina"]
        assert value["policies"]["recorded"]["cost"] == none["cost"]  # it never compacted
        assert own["background"]["calls"] > 0
        assert 0 < own["background"]["cost"] < own["cost"]
        assert none["background"] == {"calls": 0, "cost": 0, "purposes": {}}
        names = {"input", "cache_read", "cache_write", "output", "cost", "max_context", "overflows"}
        assert names <= set(none)
        assert names | {"layers"} <= set(own)
        assert "layers" not in none
    cleared = values[0]["policies"]["lamina"]["layers"]["microcompact"]
    assert cleared["count"] == 1
    assert cleared["tokens_saved"] > 1_000


@pytest.mark.spec("I4")
def test_the_report_is_one_page_that_loads_nothing_and_escapes_what_it_shows(
    lamina: Lamina, world: Path
) -> None:
    page = world / "report.html"
    odd = transcript(world, "<script>alert(1)</script>.jsonl".replace("/", "_"))
    policies = "none,lamina,clear-oldest,drop-oldest"
    ran = lamina("replay", str(odd), "--html", str(page), "--policy", policies)
    assert ran.code == 0
    assert str(page) in ran.err
    tags: list[str] = []
    addresses: list[str] = []

    class Look(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            addresses.extend(
                value or "" for name, value in attrs if name in ("src", "href", "xlink:href")
            )

    Look().feed(page.read_text())
    assert "svg" in tags
    assert "script" not in tags
    assert all(address.startswith("#") for address in addresses)
    for name in policies.split(","):
        assert name in page.read_text()


@pytest.mark.spec("I4")
def test_files_that_are_no_transcripts_are_named_and_the_others_replayed(
    lamina: Lamina, world: Path
) -> None:
    good = transcript(world)
    empty, wrong = world / "empty.jsonl", world / "wrong.json"
    empty.write_text("")
    wrong.write_text('{"colour": "blue"}')
    ran = lamina("replay", str(empty), str(good), str(wrong), str(world / "gone.jsonl"), "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["file"] == str(good)
    for name in ("empty.jsonl", "wrong.json", "gone.jsonl"):
        [line] = [line for line in ran.err.splitlines() if name in line]
        assert line.startswith("lamina: not replayed: ")


@pytest.mark.spec("I4")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff" * 100,
        b"[" * 100_000,
        b'{"type": "user"',
        b'{"a": 1}\n' * 3,
        b'{"messages": []}',
    ],
)
def test_a_file_of_which_nothing_can_be_used_is_a_sentence_and_a_failure(
    lamina: Lamina, world: Path, content: bytes
) -> None:
    path = world / "bad.jsonl"
    path.write_bytes(content)
    ran = lamina("replay", str(path))
    assert ran.code == 1
    assert ran.out == ""
    assert "Traceback" not in ran.err
    assert "bad.jsonl" in ran.err
    [line] = ran.err.splitlines()
    assert line.startswith("lamina: ")


@pytest.mark.spec("I4")
def test_a_folder_of_all_sorts_is_replayed_with_one_line_for_each_that_is_not(
    lamina: Lamina, world: Path
) -> None:
    folder = world / "sorts"
    (folder / "inner").mkdir(parents=True)
    good = transcript(world).read_bytes()
    (folder / "inner" / "good.jsonl").write_bytes(good)
    (folder / "mark.jsonl").write_bytes(b"\xef\xbb\xbf" + good.replace(b"\n", b"\r\n"))
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ok"}]
    (folder / "messages.json").write_text(json.dumps({"messages": said}))
    (folder / "packed.jsonl").write_bytes(gzip.compress(good))
    (folder / "wide.jsonl").write_bytes(good.decode().encode("utf-16"))
    (folder / "notes.json").write_text('{"colour": "blue"}')
    (folder / "gone.jsonl").symlink_to("nowhere")
    (folder / "round.jsonl").symlink_to("round.jsonl")
    (folder / "self").symlink_to(".")
    (folder / "inner" / "up").symlink_to("..")
    ran = lamina("replay", str(folder), "--json")
    assert ran.code == 0
    done = [Path(json.loads(line)["file"]).name for line in ran.out.splitlines()]
    assert done == ["mark.jsonl", "messages.json", "good.jsonl"]
    told = {Path(line.split()[3]).name: line for line in ran.err.splitlines()}
    assert sorted(told) == ["notes.json", "packed.jsonl", "wide.jsonl"]
    assert told["packed.jsonl"].endswith("(compressed with gzip: unpack it first).")
    assert told["wide.jsonl"].endswith("(UTF-16 text: write it as UTF-8).")
    assert lamina("replay", str(folder), "--json", "--quiet").err == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policy", "abacus"], "There is no policy 'abacus'"),
        (["--policy", ","], "Name at least one policy"),
        (["--window", "12"], "too small"),
        (["--html", "/nowhere/x.html"], "Can't write the report to /nowhere/x.html: No such file"),
        (["--html", "/"], "Can't write the report to /: Is a directory"),
    ],
)
def test_wrong_use_is_one_sentence(
    lamina: Lamina, world: Path, words: list[str], said: str
) -> None:
    ran = lamina("replay", str(transcript(world)), *words)
    assert ran.code in (1, 2)
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1
    assert ran.out == ""  # said before the work is done, not behind it


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))


@pytest.mark.spec("I4")
def test_a_transcript_can_be_piped_in(
    lamina: Lamina, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = transcript(world)
    piped(monkeypatch, path.read_bytes())
    [by_pipe, by_name] = lamina("replay", "-", str(path), "-", "--json").out.splitlines()
    assert json.loads(by_pipe) == {**json.loads(by_name), "file": "stdin"}


@pytest.mark.spec("I4")
@pytest.mark.parametrize(
    ("data", "said"),
    [(b"", "lamina: stdin is empty; "), (b"prose", "lamina: stdin is not a transcript (not JSON)")],
)
def test_what_is_piped_in_and_is_no_transcript_is_named_without_our_own_file(
    lamina: Lamina, monkeypatch: pytest.MonkeyPatch, data: bytes, said: str
) -> None:
    piped(monkeypatch, data)
    ran = lamina("replay", "-")
    assert ran.code == 1
    assert ran.err.startswith(said)
    assert "lamina-replay" not in ran.err


def test_a_pipe_that_is_closed_is_said(lamina: Lamina, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    ran = lamina("replay", "-")
    sys.stdin.close()
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("lamina: stdin is empty")


@pytest.mark.spec("I4")
@pytest.mark.parametrize("torn", [1, 3])
def test_what_was_not_used_is_told_as_far_as_the_line_has_room(
    lamina: Lamina, world: Path, monkeypatch: pytest.MonkeyPatch, torn: int
) -> None:
    path = transcript(world)
    path.write_text(path.read_text() + '{"torn\n' * torn)
    monkeypatch.setenv("COLUMNS", "61")
    [line] = [s for s in lamina("replay", str(path)).out.splitlines() if "Not used" in s]
    more = ", and 2 more" if torn == 3 else ""
    assert line == f"  Not used: line 29: cut off: the JSON has no end{more}"


@pytest.mark.spec("I4")
def test_one_policy_alone_is_compared_with_nothing(lamina: Lamina, world: Path) -> None:
    path = str(transcript(world))
    [_, alone, _, *_] = lamina("replay", path, "--policy", "lamina").out.splitlines()
    assert re.fullmatch(
        r"  policy +cost +background  from cache  largest  over window  re-reads", alone
    )


@pytest.mark.spec("I4")
def test_a_folder_that_may_not_be_looked_into_is_named(world: Path) -> None:
    folder = world / "mine"
    folder.mkdir()
    (folder / "good.jsonl").write_bytes(transcript(world).read_bytes())
    closed = folder / "closed"
    closed.mkdir(mode=0o000)
    done = powerless("replay", str(folder))
    assert done.returncode == 0
    assert done.stderr == f"lamina: can't open {closed} (Permission denied).\n"
    done = powerless("replay", str(closed))
    assert done.returncode == 2
    assert done.stderr == f"lamina: Can't open {closed}: Permission denied.\n"


def test_an_empty_folder_among_others_stops_none_of_them(lamina: Lamina, world: Path) -> None:
    for name in ("empty", "bare"):
        (world / name).mkdir()
    ran = lamina("replay", str(world / "empty"), str(transcript(world)))
    assert ran.code == 0
    assert ran.err == (
        f"lamina: There are no transcripts (*.jsonl, *.json, *.traj) in {world / 'empty'}.\n"
    )
    assert "one.jsonl" in ran.out
    ran = lamina("replay", str(world / "empty"), str(world / "bare"))
    assert ran.code == 2
    assert ran.err.splitlines()[-1].startswith("lamina: None of these folders holds a transcript")


def test_an_empty_folder_says_what_it_was_looked_through_for(lamina: Lamina, world: Path) -> None:
    (world / "none").mkdir()
    ran = lamina("replay", str(world / "none"))
    assert ran.code == 2
    assert "There are no transcripts" in ran.err


@pytest.mark.spec("I4")
def test_a_smaller_window_makes_compaction_work(lamina: Lamina, world: Path) -> None:
    path = transcript(world, rounds=40)
    ran = lamina("replay", str(path), "--json", "--window", "20000", "--model", "claude-opus-4-6")
    value = json.loads(ran.out)["policies"]
    assert value["none"]["overflows"] > 0
    assert value["lamina"]["overflows"] == 0
    assert value["lamina"]["layers"]["compaction"]["count"] > 0
    assert value["lamina"]["prices"][0] == "claude-opus-4-6"  # then the small model's
