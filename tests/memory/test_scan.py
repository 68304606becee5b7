"""Which memories there are, with and without the derived index, and when the index lies or breaks."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lamina.errors import MemoryStoreError
from lamina.memory.beneath import Beneath
from lamina.memory.scan import Scanner, manifest

pytestmark = pytest.mark.spec("M6")


def topic(name: str, kind: str = "user") -> str:
    return f"---\nname: {name}\ndescription: about {name}\ntype: {kind}\n---\n\nBody of {name}.\n"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    root = tmp_path / "memory"
    (root / "team").mkdir(parents=True)
    (root / "logs" / "2026").mkdir(parents=True)
    (root / "deep" / "logs").mkdir(parents=True)
    for at, path in enumerate(["a.md", "b.md", "team/c.md", "deep/logs/d.md", "logs/2026/x.md"]):
        (root / path).write_text(topic(path))
        os.utime(root / path, (1_000_000 + at, 1_000_000 + at))
    (root / "MEMORY.md").write_text("- [a](a.md)\n")
    (root / "team" / "MEMORY.md").write_text("")
    (root / "notes.txt").write_text("no Markdown")
    (root / ".hidden.md").write_text("hidden")
    return root


@pytest.fixture
def scanner(directory: Path, tmp_path: Path) -> Iterator[Scanner]:
    with Beneath(directory) as files:
        scanner = Scanner(files, tmp_path / "index.sqlite")
        yield scanner
        scanner.close()


def test_memories_are_found_newest_first_without_index_and_logs(scanner: Scanner) -> None:
    found = scanner.scan()
    assert [memory.path for memory in found.all()] == [
        "deep/logs/d.md",
        "team/c.md",
        "b.md",
        "a.md",
    ]
    assert [memory.path for memory in found.newest(2)] == ["deep/logs/d.md", "team/c.md"]
    assert [memory.team for memory in found.all()] == [False, True, False, False]
    assert (len(found), found.unreadable) == (4, [])
    newest = found.newest(1)[0]
    assert (newest.name, newest.type, newest.mtime) == ("deep/logs/d.md", "user", 1_000_003)


def test_what_cannot_be_read_is_skipped_and_counted(scanner: Scanner, directory: Path) -> None:
    (directory / "binary.md").write_bytes(b"\x00\x01\x02")
    (directory / "link.md").symlink_to(directory / "a.md")
    (directory / "dirlink").symlink_to(directory)
    os.mkfifo(directory / "pipe.md")
    (directory / "dir.md").mkdir()
    for _ in range(2):  # cold, then warm
        found = scanner.scan()
        assert len(found) == 4
        assert found.unreadable == ["binary.md", "dir.md", "link.md", "pipe.md"]


def test_only_changed_files_are_read_again(
    scanner: Scanner, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner.scan()
    (directory / "new.md").write_text(topic("new"))
    os.utime(directory / "new.md", (2_000_000, 2_000_000))
    (directory / "b.md").write_text(topic("changed"))
    os.utime(directory / "b.md", (2_000_001, 2_000_001))
    (directory / "a.md").unlink()
    opened: list[str] = []
    real = os.open

    def spy(path: str | Path, flags: int, *rest: int, **named: int) -> int:
        opened.append(str(path))
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", spy)
    found = scanner.scan()
    assert sorted(name for name in opened if name.endswith(".md")) == ["b.md", "new.md"]
    assert [memory.name for memory in found.newest(2)] == ["changed", "new"]
    assert len(found) == 4
    opened.clear()
    scanner.scan()
    assert [name for name in opened if name.endswith(".md")] == []


def test_a_second_edit_at_the_same_time_of_the_clock_is_seen(
    scanner: Scanner, directory: Path
) -> None:
    file = directory / "b.md"
    for name in ("one", "two"):
        with file.open("w") as stream:  # same inode, same size, same time: not yet in the past
            stream.write(topic(name))
        os.utime(file, (4_000_000_000, 4_000_000_000))
        assert scanner.scan().newest(1)[0].name == name


def test_a_second_process_uses_what_the_first_one_read(
    scanner: Scanner, directory: Path, tmp_path: Path
) -> None:
    first = scanner.scan().all()
    with Beneath(directory) as files:
        other = Scanner(files, tmp_path / "index.sqlite")
        assert other.scan().all() == first
        other.close()


@pytest.mark.parametrize("damage", ["deleted", "garbage", "old", "locked", "a directory", "rows"])
def test_the_index_may_vanish_or_break_at_any_time(
    scanner: Scanner, directory: Path, tmp_path: Path, damage: str
) -> None:
    expected = scanner.scan().all()
    scanner.close()
    database = tmp_path / "index.sqlite"
    holder = None
    if damage == "deleted":
        database.unlink()
    elif damage == "garbage":
        database.write_bytes(b"no database" * 1000)
    elif damage == "old":
        with sqlite3.connect(database) as connection:
            connection.execute("pragma user_version = 99")
        connection.close()
    elif damage == "locked":
        holder = sqlite3.connect(database, isolation_level=None)
        holder.execute("pragma locking_mode = exclusive")
        holder.execute("begin exclusive")
    elif damage == "a directory":
        database.unlink()
        database.mkdir()
    else:
        with sqlite3.connect(database) as connection:
            connection.execute("delete from files")
        connection.close()
    assert scanner.scan().all() == expected
    (directory / "new.md").write_text(topic("new"))
    assert len(scanner.scan()) == 5
    if holder:
        holder.close()


def test_an_absent_directory_is_an_empty_memory_and_a_file_is_an_error(tmp_path: Path) -> None:
    with Beneath(tmp_path / "absent") as files:
        assert len(Scanner(files).scan()) == 0
    (tmp_path / "file").write_text("")
    with Beneath(tmp_path / "file") as files, pytest.raises(MemoryStoreError, match="file"):
        Scanner(files).scan()


def test_a_directory_that_changes_during_the_scan_is_no_error(
    scanner: Scanner, directory: Path
) -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for number in range(20):
                (directory / f"churn{number}.md").write_text(topic("churn"))
            for number in range(20):
                (directory / f"churn{number}.md").unlink()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(30):
            paths = {memory.path for memory in scanner.scan().all()}
            assert {"a.md", "b.md", "team/c.md", "deep/logs/d.md"} <= paths
    finally:
        stop.set()
        thread.join()


@pytest.mark.spec("L5.4")
def test_the_manifest_names_type_file_time_and_description(scanner: Scanner) -> None:
    lines = manifest(scanner.scan().all()).splitlines()
    assert lines[1] == "- [user] team/c.md (1970-01-12T13:46:42Z): about team/c.md"
    assert lines[3] == "- [user] a.md (1970-01-12T13:46:40Z): about a.md"
    assert len(manifest(scanner.scan().all() * 100).splitlines()) == 200


def test_names_that_are_no_utf8_are_counted_and_stop_nothing(directory: Path) -> None:
    strange = os.fsdecode(b"bad\xff")
    (directory / f"{strange}.md").write_text("No frontmatter, so that its name would be its title.")
    (directory / strange).mkdir()
    (directory / strange / "inside.md").write_text("unseen")
    with Beneath(directory) as files:
        for _ in range(2):
            scanner = Scanner(files, directory.with_name("headers.sqlite"))
            scan = scanner.scan()
            assert len(scan.all()) == 4
            assert {f"{strange}.md", strange} <= set(scan.unreadable)
            scanner.close()
