"""Sketches of session files: a search by them finds what a search without them does, whatever
happened to the file, and reads less."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.recall import saved, sketches
from lamina.recall.expressions import plain_of
from lamina.recall.sketches import FOLDER, Sketch, Sketches, Wanted

LATER = 3_600.0  # files of a test are new, and a sketch trusts only what is not


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("_BLOCK", 64), ("_SMALL", 1), ("WORTH", 1)):
        monkeypatch.setattr(sketches, name, size)


def sketched(folder: Path, *, ahead: float = LATER) -> Sketches:
    return Sketches({folder: folder / FOLDER}, now=lambda: time.time() + ahead)


def hits(by: Sketches, file: Path, pattern: re.Pattern[str]) -> list[str]:
    """As `lamina sessions grep` goes about it."""
    plain = plain_of(pattern)
    by.begin([file])
    found = b"".join(block for _, block in by.blocks(file, Wanted(plain)))
    return [line for line in found.decode().split("\n") if pattern.search(line)]


def read(by: Sketches, file: Path, pattern: str) -> int:
    """How many bytes of the file a search reads."""
    by.begin([file])
    return sum(len(block) for _, block in by.blocks(file, Wanted(plain_of(re.compile(pattern)))))


alphabet = "abcdeKkS \u212a数"
rows = st.lists(st.text(alphabet, max_size=40), min_size=1, max_size=8)
changes = st.lists(
    st.tuples(st.sampled_from(["append", "tear", "truncate", "rewrite", "replace", "touch"]), rows),
    min_size=1,
    max_size=6,
)
patterns = st.text(alphabet, min_size=1, max_size=7).map(re.escape) | st.sampled_from(
    ["abcd|dcba", "ab.*cdea", "(?i)KKaa", "aaaa"]
)


def change(file: Path, how: str, lines: list[str], tick: int) -> None:
    new = "".join(f"{line}\n" for line in lines).encode()
    old = file.read_bytes()
    match how:
        case "append":
            with file.open("ab") as opened:
                opened.write(new)
        case "tear":
            with file.open("ab") as opened:
                opened.write(new[:-1])
        case "truncate":
            os.truncate(file, len(old) // 2)
        case "rewrite":  # the same file, as long as before or longer
            with file.open("r+b") as opened:
                opened.write(new)
        case "replace":
            other = file.with_name("other")
            other.write_bytes(new + old[len(new) :])
            other.replace(file)
        case _:
            pass
    os.utime(file, (tick, tick))


@examples(40)
@given(rows, changes, st.lists(patterns, min_size=1, max_size=3), st.booleans(), st.booleans())
def test_the_same_lines_are_found_as_without_whatever_happens_to_the_file(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[str],
    later: list[tuple[str, list[str]]],
    wanted: list[str],
    ignore: bool,
    settled: bool,
) -> None:
    folder = tmp_path_factory.mktemp("sessions")
    file = folder / "one.jsonl"
    file.touch()
    compiled = [re.compile(one, re.IGNORECASE if ignore else 0) for one in wanted]
    for tick, (how, lines) in enumerate([("append", first), *later], 1_000):
        change(file, how, lines, tick)
        whole = file.read_text(errors="replace").split("\n")
        for pattern in compiled:
            by = sketched(folder, ahead=LATER if settled else 0.0)
            expected = [line for line in whole if pattern.search(line)]
            for _ in range(2):  # while sketches are made and by them
                if "\ufffd" not in "".join(whole):
                    assert hits(by, file, pattern) == expected


@pytest.fixture
def session(tmp_path: Path) -> Path:
    file = tmp_path / "one.jsonl"
    lines = [f'{{"n": {number}, "text": "{"hay " * 10}{number:05d}x"}}' for number in range(100)]
    file.write_text("\n".join([*lines[:50], '"a needle"', *lines[50:], ""]))
    return file


def test_blocks_that_cant_hold_a_hit_are_not_read(session: Path) -> None:
    folder, size = session.parent, session.stat().st_size
    assert read(sketched(folder), session, "needle") == size
    assert read(sketched(folder), session, "needle") < size / 20
    assert hits(sketched(folder), session, re.compile("needle")) == ['"a needle"']
    assert read(sketched(folder), session, "NEEDLE") < size / 20
    assert read(sketched(folder), session, "00017x|a needle") < size / 10
    assert read(sketched(folder), session, "nee") == size  # too short to tell
    assert read(sketched(folder), session, "0+") == size


def test_what_is_new_is_added_and_only_a_changed_file_is_proven(session: Path) -> None:
    folder, size = session.parent, session.stat().st_size
    read(sketched(folder), session, "needle")
    with session.open("a") as file:
        file.write('"another needle"\n')
    assert read(sketched(folder), session, "needle") == session.stat().st_size > size
    assert read(sketched(folder), session, "needle") < size / 10
    assert hits(sketched(folder), session, re.compile("needle")) == [
        '"a needle"',
        '"another needle"',
    ]


def test_a_change_that_its_time_may_not_show_is_not_trusted(session: Path) -> None:
    """Two writes in one tick of the file system's clock leave the same time."""
    by = sketched(session.parent, ahead=0.0)
    for _ in range(2):
        assert read(by, session, "needle") == session.stat().st_size
    found = saved.load(Sketch, session.parent / FOLDER / "one.sketch")
    assert found is not None
    assert found.stamp == ""


@pytest.mark.parametrize("content", [b"", b"nonsense", None])
def test_a_damaged_or_foreign_sketch_is_made_anew(session: Path, content: bytes | None) -> None:
    folder = session.parent
    sketch = folder / FOLDER / "one.sketch"
    read(sketched(folder), session, "needle")
    other = folder / "two.jsonl"
    other.write_text('"quite another"\n' * 20)
    read(sketched(folder), other, "needle")
    foreign = sketch.with_name("two.sketch").read_bytes()
    sketch.write_bytes(foreign if content is None else content)
    for _ in range(3):
        assert hits(sketched(folder), session, re.compile("needle")) == ['"a needle"']
    assert read(sketched(folder), session, "needle") < session.stat().st_size / 10


@pytest.mark.parametrize(
    "rows",
    [
        [(5, 3, 0, False, b"\0" * 64)],
        [(0, 3, 0, False, b"\0" * 63)],
        [(0, 3, 0, False, b"")],
        [(0, 9, 0, False, b"\0" * 64), (3, 12, 0, False, b"\0" * 64)],
        [(0, 3)],
    ],
)
def test_rows_that_contradict_each_other_are_not_taken(rows: list[tuple[object, ...]]) -> None:
    with pytest.raises(ValueError, match=r"row|unpack"):
        Sketch.from_state({"stamp": "", "rows": rows})


def test_sketches_are_the_owner_s_alone_and_go_with_their_session(session: Path) -> None:
    folder = session.parent
    read(sketched(folder), session, "needle")
    sketch = folder / FOLDER / "one.sketch"
    assert stat.S_IMODE(sketch.stat().st_mode) == 0o600
    assert stat.S_IMODE(sketch.parent.stat().st_mode) == 0o700
    left = sketch.with_name("one.sketch.1-2.tmp")
    left.touch()
    os.utime(left, (1, 1))
    session.unlink()
    sketched(folder).begin([])
    assert os.listdir(sketch.parent) == []


def test_where_nothing_can_be_written_a_search_goes_on_without(session: Path) -> None:
    (session.parent / FOLDER).touch()
    for _ in range(2):
        assert hits(sketched(session.parent), session, re.compile("needle")) == ['"a needle"']


def test_what_is_soon_read_gets_no_sketch(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketches, "WORTH", 1 << 20)
    assert hits(sketched(session.parent), session, re.compile("needle")) == ['"a needle"']
    assert not (session.parent / FOLDER).exists()


def test_a_search_that_stops_early_keeps_what_it_learned(session: Path) -> None:
    folder = session.parent
    by = sketched(folder)
    by.begin([session])
    part = by.blocks(session, Wanted(plain_of(re.compile("needle"))))
    for _ in range(40):
        next(part)
    assert isinstance(part, Iterator)
    part.close()  # type: ignore[attr-defined]
    kept = saved.load(Sketch, folder / FOLDER / "one.sketch")
    assert kept is not None
    assert len(kept.rows) == 40
    assert hits(sketched(folder), session, re.compile("needle")) == ['"a needle"']
    assert read(sketched(folder), session, "needle") < session.stat().st_size / 10


def test_several_searches_at_once_leave_a_whole_sketch(session: Path) -> None:
    folder, needle = session.parent, re.compile("needle")
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(hits, sketched(folder), session, needle) for _ in range(12)]
        assert [one.result() for one in found] == [['"a needle"']] * 12
    assert os.listdir(folder / FOLDER) == ["one.sketch"]
    assert read(sketched(folder), session, "needle") < session.stat().st_size / 20


def test_a_line_longer_than_a_block_is_one_block(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    file.write_text("hay " * 1_000 + "needle\n" + "hay\n" * 100)
    for _ in range(2):
        [found] = hits(sketched(tmp_path), file, re.compile("needle"))
        assert found.endswith("needle")
    assert read(sketched(tmp_path), file, "needles") < 400
