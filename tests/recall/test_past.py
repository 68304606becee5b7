"""The index of past sessions grows with their files, however these change meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lamina.ledger import edits
from lamina.ledger.record import Ledger
from lamina.messages import text
from lamina.recall import past as past_module
from lamina.recall.past import INDEX, PastSessions

NOW = 1_790_000_000.0


def say(folder: Path, session: str, *words: str, at: float = NOW) -> Path:
    path = folder / f"{session}.jsonl"
    ledger = Ledger.open(path, now=lambda: at)
    ledger.append(*(edits.message("user", [text(one)], ["typed"]) for one in words))
    ledger.close()
    return path


def found(past: PastSessions, words: str, **limits: float) -> list[str]:
    """What was found and holds the words; what was said beside it is found too."""
    hits = past.search(words, 50, now=NOW, seconds=60, **limits)
    return [said.text for said in hits if words in said.text]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many lines were read since the last time that somebody asked."""
    count = 0
    lines = past_module.lines

    def counted(path: Path, start: int = 0):
        nonlocal count
        for line in lines(path, start):
            count += 1
            yield line

    def since_last() -> int:
        nonlocal count
        seen, count = count, 0
        return seen

    monkeypatch.setattr(past_module, "lines", counted)
    return since_last


@pytest.mark.spec("M7")
def test_only_what_is_new_is_read_and_by_another_process_too(
    tmp_path: Path, read: Callable[[], int]
) -> None:
    say(tmp_path, "one", *(f"walrus {number}" for number in range(20)))
    first = PastSessions(tmp_path)
    assert len(found(first, "walrus")) == 20
    assert read() >= 20
    say(tmp_path, "one", "walrus and pelican")
    assert found(first, "pelican") == ["walrus and pelican"]
    assert 1 <= read() <= 3
    assert found(first, "pelican") == ["walrus and pelican"]
    assert read() == 0
    again = PastSessions(tmp_path)
    assert found(again, "pelican") == ["walrus and pelican"]
    assert read() <= 3


@pytest.mark.spec("M7")
def test_a_line_that_is_still_being_written_waits_for_its_end(tmp_path: Path) -> None:
    path = say(tmp_path, "one", "a walrus")
    whole = path.read_bytes()
    line = whole.splitlines()[-1].replace(b"a walrus", b"a pelican") + b"\n"
    past = PastSessions(tmp_path)
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
    past = PastSessions(tmp_path)
    assert len(found(past, "walrus")) == 3
    fresh = say(tmp_path, "fresh", "a pelican")
    os.replace(fresh, path)
    assert found(past, "walrus") == ["a third walrus"]
    assert found(past, "pelican") == ["a pelican"]
    path.unlink()
    assert found(past, "pelican") == []
    again = PastSessions(tmp_path)
    assert found(again, "walrus") == ["a third walrus"]
    (tmp_path / "two.jsonl").write_bytes(b"")
    assert found(again, "walrus") == []


@pytest.mark.spec("M7")
def test_a_search_without_time_gets_on_a_little_each_time_inside_one_file(tmp_path: Path) -> None:
    say(tmp_path, "one", *(f"walrus {number}" for number in range(300)))
    seen = list[int]()
    told = list[tuple[int, int]]()
    for _ in range(20):
        past = PastSessions(tmp_path)
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
    past = PastSessions(tmp_path)
    assert sorted(found(past, "walrus", since=NOW - 1.5 * 86_400)) == ["walrus 0", "walrus 1"]
    assert sorted(found(past, "walrus", until=NOW - 3.5 * 86_400)) == ["walrus 4"]


@pytest.mark.spec("M7")
def test_an_index_that_is_broken_or_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    say(tmp_path, "one", "a walrus")
    (tmp_path / INDEX).write_bytes(b"lamina-recall-index\nxxxx")
    assert found(PastSessions(tmp_path), "walrus") == ["a walrus"]
    (tmp_path / INDEX).unlink()
    (tmp_path / INDEX).mkdir()
    assert found(PastSessions(tmp_path), "walrus") == ["a walrus"]
    assert not list(tmp_path.glob("*.tmp"))
    assert found(PastSessions(tmp_path / "nowhere"), "walrus") == []


@pytest.mark.spec("M7")
def test_a_large_index_is_not_written_again_for_a_single_message(tmp_path: Path) -> None:
    say(tmp_path, "one", *(f"walrus {number}" for number in range(100)))
    past = PastSessions(tmp_path)
    found(past, "walrus")
    before = (tmp_path / INDEX).read_bytes()
    say(tmp_path, "two", "a pelican")
    assert found(past, "pelican") == ["a pelican"]
    assert (tmp_path / INDEX).read_bytes() == before
    say(tmp_path, "two", "b", "c pelican", "d pelican")
    assert len(found(past, "pelican")) == 3
    assert (tmp_path / INDEX).read_bytes() != before


@pytest.mark.spec("M7")
def test_a_running_session_that_says_most_of_it_crowds_out_no_other(tmp_path: Path) -> None:
    say(tmp_path, "before", "the walrus lives in Oslo")
    say(tmp_path, "running", *(f"walrus walrus walrus {number}" for number in range(60)))
    past = PastSessions(tmp_path, without="running")
    assert [said.text for said in past.search("walrus", 2, now=NOW)] == ["the walrus lives in Oslo"]


@pytest.mark.spec("M7")
def test_a_session_that_can_t_be_read_is_named_and_the_others_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(tmp_path, "one", "a walrus")
    locked = say(tmp_path, "two", "another walrus")
    lines = past_module.lines

    def refused(path: Path, start: int = 0):
        if path == locked:
            raise PermissionError
        return lines(path, start)

    past = PastSessions(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(past_module, "lines", refused)
        assert found(past, "walrus") == ["a walrus"]
        assert (past.unreadable, past.complete) == ([locked], True)
    assert len(found(past, "walrus")) == 2
    assert past.unreadable == []
