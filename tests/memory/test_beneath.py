"""Files beneath one directory: by the kernel's own resolution and by the portable way."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lamina import machine
from lamina.errors import Conflict, MemoryStoreError
from lamina.memory import beneath as module
from lamina.memory.beneath import Beneath

exchange = machine.renameat2  # as it is before a test takes it away


@pytest.fixture(params=["kernel", "portable"])
def inside(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Beneath]:
    (tmp_path / "root").mkdir()
    if request.param == "portable":

        def absent(*_: object) -> None:
            raise machine.Unsupported("renameat2")

        monkeypatch.setattr(module.machine, "renameat2", absent)
    with Beneath(tmp_path / "root", openat2=request.param == "kernel") as files:
        yield files


@pytest.mark.skipif(sys.platform != "linux", reason="openat2 is Linux's")
def test_this_kernel_resolves_beneath_and_refuses_links(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").write_text("secret")
    (tmp_path / "in" / "link").symlink_to("../out")
    directory = os.open(tmp_path / "in", os.O_RDONLY)
    try:
        for path, code in (("../out", errno.EXDEV), ("link", errno.ELOOP)):
            with pytest.raises(OSError, match=path) as raised:
                machine.openat2(directory, path, os.O_RDONLY)
            assert raised.value.errno == code
    finally:
        os.close(directory)


def test_what_is_written_is_read_again_whole(inside: Beneath) -> None:
    assert inside.read("a.md") is None
    inside.write("a.md", b"one", expected=None)
    inside.write("a.md", b"two", expected=b"one")
    inside.write("team/deep/b.md", b"three", expected=None)
    assert inside.read("a.md") == b"two"
    assert inside.read("a.md", 2) == b"tw"
    assert inside.read("team/deep/b.md") == b"three"
    assert sorted(name for name, _ in inside.listing()) == ["a.md", "team"]
    assert inside.remove("a.md", expected=b"two")
    assert not inside.remove("a.md")
    assert sorted(name for name, _ in inside.listing()) == ["team"]


def test_another_ones_change_stays_and_is_a_conflict(inside: Beneath) -> None:
    inside.write("a.md", b"one", expected=None)
    (inside.root / "a.md").write_bytes(b"theirs")
    for attempt in (
        lambda: inside.write("a.md", b"mine", expected=b"one"),
        lambda: inside.write("a.md", b"mine", expected=None),
        lambda: inside.remove("a.md", expected=b"one"),
        lambda: inside.write("gone.md", b"mine", expected=b"was there"),
    ):
        with pytest.raises(Conflict):
            attempt()
    assert [(name, inside.read(name)) for name, _ in inside.listing()] == [("a.md", b"theirs")]


@pytest.mark.parametrize(
    "path",
    [
        *("", "/etc/passwd", "..", "../x.md", "a/../../x.md", "a//b.md", "./a.md", "a/."),
        *("a\x00b.md", "x" * 256, "a/" * 17 + "b.md", "\ud800.md"),
    ],
)
def test_a_path_that_could_leave_is_refused_with_the_reason(inside: Beneath, path: str) -> None:
    for attempt in (
        lambda: inside.read(path),
        lambda: inside.write(path, b"x", expected=None),
        lambda: inside.remove(path),
    ):
        with pytest.raises(MemoryStoreError, match="memory path"):
            attempt()
    assert sorted(os.listdir(inside.root.parent)) == ["root"]


def test_links_are_refused_in_every_part_and_nothing_outside_changes(inside: Beneath) -> None:
    outside = inside.root.parent / "outside"
    outside.mkdir()
    (outside / "x.md").write_text("untouched")
    (inside.root / "dir").symlink_to(outside)
    (inside.root / "file.md").symlink_to(outside / "x.md")
    for path in ("dir/x.md", "dir/new.md", "file.md"):
        for attempt in (
            lambda path=path: inside.read(path),
            lambda path=path: inside.write(path, b"evil", expected=b"untouched"),
            lambda path=path: inside.remove(path),
        ):
            with pytest.raises((MemoryStoreError, Conflict)):
                attempt()
    assert {file.name: file.read_text() for file in outside.iterdir()} == {"x.md": "untouched"}


def test_what_is_no_plain_file_is_named(inside: Beneath) -> None:
    (inside.root / "dir.md").mkdir()
    os.mkfifo(inside.root / "pipe.md")
    with pytest.raises(MemoryStoreError, match=r"dir\.md: it is a directory"):
        inside.read("dir.md")
    with pytest.raises(MemoryStoreError, match="not a plain file"):
        inside.read("pipe.md")


def test_a_root_that_is_a_file_or_a_link_is_named(inside: Beneath, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(inside.root)
    for name in ("file", "link"):
        with Beneath(tmp_path / name) as wrong, pytest.raises(MemoryStoreError, match=name):
            wrong.read("a.md")


def test_a_root_that_was_removed_and_made_again_is_found(inside: Beneath) -> None:
    inside.write("a.md", b"one", expected=None)
    inside.remove("a.md")
    inside.root.rmdir()
    assert inside.read("a.md") is None
    inside.write("a.md", b"two", expected=None)
    assert (inside.root / "a.md").read_bytes() == b"two"


def test_the_mode_of_a_file_survives_and_new_ones_are_private(inside: Beneath) -> None:
    inside.write("a.md", b"one", expected=None)
    assert (inside.root / "a.md").stat().st_mode & 0o777 == 0o600
    (inside.root / "a.md").chmod(0o644)
    inside.write("a.md", b"two", expected=b"one")
    assert (inside.root / "a.md").stat().st_mode & 0o777 == 0o644
    (inside.root / "a.md").chmod(0o444)
    with pytest.raises(MemoryStoreError, match="read-only"):
        inside.write("a.md", b"three", expected=b"two")


def test_no_permission_is_one_sentence(inside: Beneath) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may do anything")
    inside.root.chmod(0o500)
    with pytest.raises(MemoryStoreError, match="Permission denied"):
        inside.write("a.md", b"x", expected=None)
    inside.root.chmod(0o700)


@pytest.mark.skipif(sys.platform != "linux", reason="the swap needs renameat2")
def test_a_link_swapped_in_while_writing_never_leads_out(inside: Beneath) -> None:
    """A thread turns `sub` from a directory into a link and back as fast as it can."""
    outside = inside.root.parent / "outside"
    outside.mkdir()
    (inside.root / "sub").mkdir()
    (inside.root / "link").symlink_to(outside)
    stop = threading.Event()
    directory = os.open(inside.root, os.O_RDONLY)

    def flip() -> None:
        while not stop.is_set():
            exchange(directory, "sub", "link", machine.EXCHANGE)
            exchange(directory, "sub", "link", machine.EXCHANGE)

    flipper = threading.Thread(target=flip)
    flipper.start()
    written = 0
    try:
        for number in range(300):
            try:
                inside.write(f"sub/{number}.md", b"x", expected=None)
                written += 1
            except MemoryStoreError:
                pass
    finally:
        stop.set()
        flipper.join()
        os.close(directory)
    assert list(outside.iterdir()) == []
    assert written == len([name for name, _ in inside.listing("sub") if name.endswith(".md")])


def test_writers_that_race_lose_no_line(inside: Beneath) -> None:
    """Each of two threads adds its lines by read, change, write; a Conflict means: again."""
    inside.write("a.md", b"", expected=None)

    def add(who: str) -> None:
        with Beneath(inside.root, openat2=inside._openat2) as mine:
            for number in range(40):
                while True:
                    before = mine.read("a.md")
                    assert before is not None
                    try:
                        after = before + f"{who}{number}\n".encode()
                        mine.write("a.md", after, expected=before)
                        break
                    except Conflict:
                        continue

    threads = [threading.Thread(target=add, args=(who,)) for who in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (inside.read("a.md") or b"").decode().split()
    assert sorted(lines) == sorted(f"{who}{number}" for who in "ab" for number in range(40))


def test_a_full_disk_changes_nothing(inside: Beneath) -> None:
    inside.write("a.md", b"old", expected=None)
    program = (
        "import sys, pathlib, resource; from lamina.memory.beneath import Beneath;"
        "from lamina.errors import MemoryStoreError;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "b = Beneath(pathlib.Path(sys.argv[1]));\n"
        "try: b.write('a.md', b'x' * 5000, expected=b'old')\n"
        "except MemoryStoreError as e: print(e)"
    )
    assert resource.RLIMIT_FSIZE >= 0
    done = subprocess.run(
        [sys.executable, "-c", program, str(inside.root)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "disk is full" in done.stdout
    assert [(name, inside.read(name)) for name, _ in inside.listing()] == [("a.md", b"old")]


def test_two_listings_at_once_are_both_complete(inside: Beneath) -> None:
    for number in range(50):
        inside.write(f"{number}.md", b"x", expected=None)
    first, second = inside.listing(), inside.listing()
    next(first)
    assert len(list(second)) == 50
    assert len(list(first)) == 49
