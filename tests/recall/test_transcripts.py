"""Recorded sessions: no line is lost, and their index grows with the files, however these change."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.sessions import Place, run, use

from lamina.ledger import edits, log
from lamina.ledger.places import slug
from lamina.ledger.record import Ledger
from lamina.messages import text
from lamina.models.scripted import Step
from lamina.recall import transcripts
from lamina.recall.transcripts import INDEX_FILE, TranscriptIndex, claude_folders, lines, message_in
from lamina.tools.memory_tools import Recall, Remembered

rows = st.lists(st.binary(max_size=30).map(lambda row: row.replace(b"\n", b"")), max_size=12)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded") / "one.jsonl"


@given(rows, st.integers(1, 40), st.integers(0, 12), st.booleans())
def test_every_line_comes_once_and_from_its_place(
    file: Path, rows: list[bytes], block: int, skipped: int, ends: bool
) -> None:
    whole = b"".join(row + b"\n" for row in rows)[: None if ends else -1]
    file.write_bytes(whole)
    parts = [part + b"\n" for part in whole.split(b"\n")[:-1]] + [whole.rsplit(b"\n", 1)[-1]]
    expected = [part for part in parts if part]
    start = sum(map(len, expected[:skipped]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transcripts, "_BLOCK", block)
        found = list(lines(file, start))
    assert [line for _, line in found] == expected[skipped:]
    assert all(whole[place:].startswith(line) for place, line in found)


@given(rows, st.integers(1, 12), st.integers(8, 20))
def test_only_lines_that_nobody_could_read_are_left_out(
    file: Path, rows: list[bytes], block: int, longest: int
) -> None:
    file.write_bytes(b"".join(row + b"\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transcripts, "_BLOCK", block)
        patch.setattr(log, "MAX_LINE", longest)
        found = [line.removesuffix(b"\n") for _, line in lines(file)]
    for row in rows:
        if len(row) < longest - block:
            assert found.count(row) == rows.count(row)
    assert all(row in rows for row in found)


def test_a_line_is_a_message_inly_if_somebody_said_it() -> None:
    said = {"type": "user", "uuid": "u", "message": {"content": "look at this\n> quoted"}}
    message = message_in(said)
    assert message is not None
    assert (message.who, message.text.strip(), message.when) == ("user", "look at this", 0.0)
    for mark in ("isMeta", "isSidechain", "isCompactSummary"):
        assert message_in({**said, mark: True}) is None
    for other in ({}, {"type": "summary"}, {"kind": "edit"}, {"type": "user", "message": "odd"}):
        assert message_in(other) is None


def test_a_long_path_s_transcripts_are_found_by_the_beginning_of_their_folder(
    tmp_path: Path,
) -> None:
    project = tmp_path / ("deep" * 60) / "project"
    theirs = tmp_path / "projects" / f"{slug(project)[:200]}-abc123"
    theirs.mkdir(parents=True)
    assert claude_folders(tmp_path, project) == [theirs]
    assert claude_folders(tmp_path, tmp_path / "other") == []


names = st.sampled_from(
    ["kind", "type", "content", "origins", "message", "text", "timestamp", "ts"]
)
words = st.sampled_from(
    ["message", "user", "assistant", "text", "typed", "2026-01-01", 5, 1.5, None]
)
values = st.recursive(
    words, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5)
)


@given(st.sampled_from(["message", "", 5]), st.dictionaries(names, values, max_size=8))
@example("message", {"content": ["assistant"], "origins": ["typed"]})
@example("message", {"content": [{"type": "text", "text": "x"}], "origins": 5})
def test_no_line_is_so_odd_that_it_stops_a_search(kind: object, more: dict[str, object]) -> None:
    said = message_in({**more, "kind": kind})
    assert said is None or said.text.strip()


NOW = 1_790_000_000.0


def say(folder: Path, session: str, *words: str, at: float = NOW) -> Path:
    path = folder / f"{session}.jsonl"
    ledger = Ledger.open(path, now=lambda: at)
    ledger.append(*(edits.message("user", [text(one)], ["typed"]) for one in words))
    ledger.close()
    return path


def found(past: TranscriptIndex, words: str, **limits: float) -> list[str]:
    """What was found and holds the words; what was said beside it is found too."""
    hits = past.search(words, 50, now=NOW, seconds=60, **limits)
    return [said.text for said in hits if words in said.text]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many lines were read since the last time that somebody asked."""
    count = 0
    lines = transcripts.lines

    def counted(path: Path, start: int = 0):
        nonlocal count
        for line in lines(path, start):
            count += 1
            yield line

    def since_last() -> int:
        nonlocal count
        seen, count = count, 0
        return seen

    monkeypatch.setattr(transcripts, "lines", counted)
    return since_last


@pytest.mark.spec("M7")
def test_only_what_is_new_is_read_and_by_another_process_too(
    tmp_path: Path, read: Callable[[], int]
) -> None:
    say(tmp_path, "one", *(f"walrus {number}" for number in range(20)))
    first = TranscriptIndex(tmp_path)
    assert len(found(first, "walrus")) == 20
    assert read() >= 20
    say(tmp_path, "one", "walrus and pelican")
    assert found(first, "pelican") == ["walrus and pelican"]
    assert 1 <= read() <= 3
    assert found(first, "pelican") == ["walrus and pelican"]
    assert read() == 0
    again = TranscriptIndex(tmp_path)
    assert found(again, "pelican") == ["walrus and pelican"]
    assert read() <= 3


@pytest.mark.spec("M7")
def test_a_line_that_is_still_being_written_waits_for_its_end(tmp_path: Path) -> None:
    path = say(tmp_path, "one", "a walrus")
    whole = path.read_bytes()
    line = whole.splitlines()[-1].replace(b"a walrus", b"a pelican") + b"\n"
    past = TranscriptIndex(tmp_path)
    with path.open("ab") as file:
        file.write(line[:40])
    assert found(past, "pelican") == []
    with path.open("ab") as file:
        file.write(line[40:])
    assert found(past, "pelican") == ["a pelican"]
    with path.open("ab") as file:
        file.write(b"no entry\n" + line.replace(b"pelican", b"albatross"))
    assert found(past, "albatross") == ["a albatross"]


@pytest.mark.spec("M7")
def test_a_file_that_is_replaced_or_gone_is_forgotten(tmp_path: Path) -> None:
    path = say(tmp_path, "one", "a walrus", "another walrus")
    say(tmp_path, "two", "a third walrus")
    past = TranscriptIndex(tmp_path)
    assert len(found(past, "walrus")) == 3
    fresh = say(tmp_path, "fresh", "a pelican")
    os.replace(fresh, path)
    assert found(past, "walrus") == ["a third walrus"]
    assert found(past, "pelican") == ["a pelican"]
    path.unlink()
    assert found(past, "pelican") == []
    again = TranscriptIndex(tmp_path)
    assert found(again, "walrus") == ["a third walrus"]
    (tmp_path / "two.jsonl").write_bytes(b"")
    assert found(again, "walrus") == []


@pytest.mark.spec("M7")
def test_a_search_without_time_gets_on_a_little_each_time_inside_one_file(tmp_path: Path) -> None:
    say(tmp_path, "one", *(f"walrus {number}" for number in range(300)))
    seen = list[int]()
    told = list[tuple[int, int]]()
    for _ in range(20):
        past = TranscriptIndex(tmp_path)
        hits = past.search(
            "walrus", 999, now=NOW, seconds=0, progress=lambda *far: told.append(far)
        )
        seen.append(len(hits))
        if past.complete:
            break
    assert seen[-1] == 300
    assert seen[0] < 150
    assert seen == sorted(seen)
    assert all(done <= total for done, total in told)


@pytest.mark.spec("M7")
def test_times_bound_what_is_found(tmp_path: Path) -> None:
    for day in range(5):
        say(tmp_path, f"s{day}", f"walrus {day}", at=NOW - day * 86_400)
    past = TranscriptIndex(tmp_path)
    assert sorted(found(past, "walrus", since=NOW - 1.5 * 86_400)) == ["walrus 0", "walrus 1"]
    assert sorted(found(past, "walrus", until=NOW - 3.5 * 86_400)) == ["walrus 4"]


@pytest.mark.spec("M7")
def test_an_index_that_is_broken_or_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    say(tmp_path, "one", "a walrus")
    (tmp_path / INDEX_FILE).write_bytes(b"lamina-recall-index\nxxxx")
    assert found(TranscriptIndex(tmp_path), "walrus") == ["a walrus"]
    (tmp_path / INDEX_FILE).unlink()
    (tmp_path / INDEX_FILE).mkdir()
    assert found(TranscriptIndex(tmp_path), "walrus") == ["a walrus"]
    assert not list(tmp_path.glob("*.tmp"))
    assert found(TranscriptIndex(tmp_path / "nowhere"), "walrus") == []


@pytest.mark.spec("M7")
def test_a_large_index_is_not_written_again_for_a_single_message(tmp_path: Path) -> None:
    say(tmp_path, "one", *(f"walrus {number}" for number in range(100)))
    past = TranscriptIndex(tmp_path)
    found(past, "walrus")
    before = (tmp_path / INDEX_FILE).read_bytes()
    say(tmp_path, "two", "a pelican")
    assert found(past, "pelican") == ["a pelican"]
    assert (tmp_path / INDEX_FILE).read_bytes() == before
    say(tmp_path, "two", "b", "c pelican", "d pelican")
    assert len(found(past, "pelican")) == 3
    assert (tmp_path / INDEX_FILE).read_bytes() != before


@pytest.mark.spec("M7")
def test_a_running_session_that_says_most_of_it_crowds_out_no_other(tmp_path: Path) -> None:
    say(tmp_path, "before", "the walrus lives in Oslo")
    say(tmp_path, "running", *(f"walrus walrus walrus {number}" for number in range(60)))
    past = TranscriptIndex(tmp_path, without="running")
    assert [said.text for said in past.search("walrus", 2, now=NOW)] == ["the walrus lives in Oslo"]


@pytest.mark.spec("M7")
def test_a_session_that_can_t_be_read_is_named_and_the_others_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(tmp_path, "one", "a walrus")
    locked = say(tmp_path, "two", "another walrus")
    lines = transcripts.lines

    def refused(path: Path, start: int = 0):
        if path == locked:
            raise PermissionError
        return lines(path, start)

    past = TranscriptIndex(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(transcripts, "lines", refused)
        assert found(past, "walrus") == ["a walrus"]
        assert (past.unreadable, past.complete) == ([locked], True)
    assert len(found(past, "walrus")) == 2
    assert past.unreadable == []


@pytest.mark.spec("M7")
def test_in_claude_mode_the_tool_recall_also_knows_claude_codes_sessions(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.home = tmp_path / ".claude"
    theirs = place.home / "projects" / slug(place.project)
    theirs.mkdir(parents=True)
    rows = [("user", "our mascot is a walrus called Wendell"), ("assistant", "A fine name.")]
    (theirs / "abc.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "type": who,
                    "uuid": who,
                    "timestamp": "2026-02-06T09:24:39.425Z",
                    "message": {"role": who, "content": said},
                }
            )
            + "\n"
            for who, said in rows
        )
    )

    async def story() -> None:
        call = use("Recall", query="what is our mascot called?", where="sessions")
        steps = [Step(call), Step("Wendell.", {"contains": "walrus called Wendell"})]
        async with place.open(steps) as session:
            assert session.config.claude
            reply = await session.ask("who is our mascot?")
            assert reply.text == "Wendell."

    run(story)
    assert [file.name for file in theirs.iterdir() if file.suffix != ""] == ["abc.jsonl"]


@pytest.mark.spec("M7")
def test_a_cancelled_turn_does_not_wait_for_a_search_of_the_tool() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow(query: str, limit: int) -> list[Remembered]:
        begun.set()
        may_end.wait(60)
        return []

    async def story() -> None:
        tool = Recall(slow, slow)
        async with anyio.create_task_group() as group:
            group.start_soon(tool.run, {"query": "walrus"}, None)
            await anyio.to_thread.run_sync(begun.wait)
            group.cancel_scope.cancel()
        assert not may_end.is_set()
        may_end.set()

    run(story)
