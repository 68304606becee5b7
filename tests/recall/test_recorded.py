"""Lines of session files: none is lost, whatever their length and wherever reading begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lamina.ledger import log
from lamina.ledger.places import slug
from lamina.recall import recorded
from lamina.recall.recorded import claude_folders, line_at, lines, message_on

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
        patch.setattr(recorded, "_BLOCK", block)
        found = list(lines(file, start))
    assert [line for _, line in found] == expected[skipped:]
    assert all(line_at(file, place) == line for place, line in found)


@given(rows, st.integers(1, 12), st.integers(8, 20))
def test_only_lines_that_nobody_could_read_are_left_out(
    file: Path, rows: list[bytes], block: int, longest: int
) -> None:
    file.write_bytes(b"".join(row + b"\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded, "_BLOCK", block)
        patch.setattr(log, "MAX_LINE", longest)
        found = [line.removesuffix(b"\n") for _, line in lines(file)]
    for row in rows:
        if len(row) < longest - block:
            assert found.count(row) == rows.count(row)
    assert all(row in rows for row in found)


def test_a_line_is_a_message_only_if_somebody_said_it() -> None:
    said = {"type": "user", "uuid": "u", "message": {"content": "look at this\n> quoted"}}
    message = message_on(said)
    assert message is not None
    assert (message.who, message.text.strip(), message.when) == ("user", "look at this", 0.0)
    for mark in ("isMeta", "isSidechain", "isCompactSummary"):
        assert message_on({**said, mark: True}) is None
    for other in ({}, {"type": "summary"}, {"kind": "edit"}, {"type": "user", "message": "odd"}):
        assert message_on(other) is None


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
    said = message_on({**more, "kind": kind})
    assert said is None or said.text.strip()
