"""Write and Edit: only what was seen is changed, whole or not at all."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.examples import examples
from tests.sessions import Place, run

from lamina.errors import ToolError
from lamina.held import hold
from lamina.ledger.places import project_folder
from lamina.tools import files

if TYPE_CHECKING:
    from tests.tools.conftest import Bench

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F7")]


async def test_write_creates_a_file_and_its_directories(bench: Bench) -> None:
    text = await bench.text("Write", file_path="new/deep/a.txt", content="hello\n")
    assert text.startswith("Created ")
    assert (bench.project / "new/deep/a.txt").read_text() == "hello\n"
    assert not list((bench.project / "new/deep").glob(".*"))


async def test_write_refuses_a_file_that_was_not_read(bench: Bench) -> None:
    path = bench.project / "a.txt"
    path.write_text("precious\n")
    assert "was not read yet" in await bench.error("Write", file_path="a.txt", content="x")
    assert path.read_text() == "precious\n"


async def test_write_refuses_a_file_of_which_only_a_part_was_read(bench: Bench) -> None:
    (bench.project / "a.txt").write_text("1\n2\n3\n")
    await bench.text("Read", file_path="a.txt", limit=1)
    assert "Only a part" in await bench.error("Write", file_path="a.txt", content="x")
    await bench.text("Read", file_path="a.txt")
    await bench.text("Read", file_path="a.txt", limit=1)  # a second look does not unsee the rest
    await bench.text("Write", file_path="a.txt", content="x")


async def test_write_and_edit_refuse_a_file_that_changed_since(bench: Bench) -> None:
    path = bench.project / "a.txt"
    path.write_text("old\n")
    await bench.text("Read", file_path="a.txt")
    before = path.stat()
    path.write_text("new\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # even if the time tells nothing
    assert "changed since" in await bench.error("Write", file_path="a.txt", content="x")
    assert "changed since" in await bench.error(
        "Edit", file_path="a.txt", old_string="new", new_string="x"
    )
    assert path.read_text() == "new\n"


async def test_a_file_that_was_only_touched_is_still_known(bench: Bench) -> None:
    (bench.project / "a.txt").write_text("old\n")
    await bench.text("Read", file_path="a.txt")
    os.utime(bench.project / "a.txt", (1, 1))
    await bench.text("Edit", file_path="a.txt", old_string="old", new_string="new")


async def test_write_then_edit_needs_no_read_between(bench: Bench) -> None:
    await bench.text("Write", file_path="a.txt", content="one two\n")
    await bench.text("Edit", file_path="a.txt", old_string="two", new_string="three")
    await bench.text("Write", file_path="a.txt", content="all new\n")
    assert (bench.project / "a.txt").read_text() == "all new\n"


async def test_mode_stays_and_protected_files_are_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.project / "run.sh"
    path.write_text("echo 1\n")
    path.chmod(0o750)
    await bench.text("Read", file_path="run.sh")
    await bench.text("Edit", file_path="run.sh", old_string="1", new_string="2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    # root may write anything, so the system's answer for others is given here
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert "write-protected" in await bench.error("Write", file_path="run.sh", content="x")


async def test_a_link_is_written_through_to_its_target(bench: Bench) -> None:
    (bench.project / "a.txt").write_text("old\n")
    (bench.project / "link").symlink_to("a.txt")
    await bench.text("Read", file_path="link")
    await bench.text("Edit", file_path="link", old_string="old", new_string="new")
    assert (bench.project / "link").is_symlink()
    assert (bench.project / "a.txt").read_text() == "new\n"


def test_a_link_put_in_the_way_after_the_permission_makes_the_write_fail(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "dir").symlink_to("outside")
    with (
        hold(tmp_path / "dir" / "a.txt") as place,
        pytest.raises(ToolError, match=r"a link is in its way|Not a directory"),
    ):
        files.replace(place, b"x", None, tmp_path)
    assert not list((tmp_path / "outside").iterdir())


def test_a_file_that_appears_while_writing_is_not_overwritten(tmp_path: Path) -> None:
    with hold(tmp_path / "a.txt") as place:
        (tmp_path / "a.txt").write_text("theirs")
        with pytest.raises(ToolError, match="appeared meanwhile"):
            files.replace(place, b"ours", None, tmp_path)
    assert (tmp_path / "a.txt").read_text() == "theirs"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


_KILLED = """
import os, sys
from pathlib import Path
from lamina import machine
from lamina.held import hold
from lamina.ledger.places import project_folder
from lamina.tools import files

def die(*_, **__):
    os.kill(os.getpid(), 9)

os.replace = machine.put_new = die
with hold(Path(sys.argv[1])) as place:
    files.replace(place, b"ours", place.status, Path(sys.argv[2]))
"""


@pytest.mark.parametrize("there", [True, False])
def test_what_a_killed_write_left_in_the_project_is_gone_with_the_next_session(
    tmp_path: Path, *, there: bool
) -> None:
    place = Place(tmp_path)
    notes = project_folder(place.home, place.project)
    file = place.project / "a.txt"
    if there:
        file.write_text("theirs")
    ran = subprocess.run([sys.executable, "-c", _KILLED, file, notes], check=False)
    assert ran.returncode == -signal.SIGKILL
    assert list(place.project.glob(".a.txt.*.tmp")), "it was killed in the middle"
    mine = place.project / ".a.txt.0123456789ab.tmp"
    mine.write_text("somebody else's")

    async def story() -> None:
        async with place.open([{"reply": "hello"}]):
            pass

    run(story)
    assert sorted(place.project.iterdir()) == sorted([mine, *([file] if there else [])])
    assert not list(notes.glob(".writing-*"))
    assert not there or file.read_text() == "theirs"


def test_what_another_process_is_writing_right_now_is_not_swept(tmp_path: Path) -> None:
    with open(tmp_path / ".writing-1", "w") as note:
        fcntl.flock(note, fcntl.LOCK_EX)
        busy = tmp_path / ".a.txt.0123456789ab.tmp"
        busy.touch()
        note.write(str(busy))
        note.flush()
        files.sweep(tmp_path)
        assert busy.exists()
    files.sweep(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_note_that_was_cut_short_removes_no_file_of_the_users(tmp_path: Path) -> None:
    theirs = tmp_path / ".a.tmp"
    theirs.touch()
    note = tmp_path / ".writing-1"
    note.write_text(str(theirs))  # of .a.tmp.0123456789ab.tmp, on a full disk
    os.utime(note, (0, 0))
    files.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [theirs]


async def test_lone_surrogates_are_refused(bench: Bench) -> None:
    assert "lone surrogates" in await bench.error("Write", file_path="a", content="\ud800")


async def test_edit_names_the_lines_when_the_passage_is_not_unique(bench: Bench) -> None:
    (bench.project / "a.txt").write_text("x\ny\nx\n")
    await bench.text("Read", file_path="a.txt")
    sentence = await bench.error("Edit", file_path="a.txt", old_string="x", new_string="z")
    assert "occurs 2 times" in sentence
    assert "lines 1, 3" in sentence
    outcome = await bench.run(
        "Edit", file_path="a.txt", old_string="x", new_string="z", replace_all=True
    )
    assert outcome.meta["replaced"] == 2
    assert (bench.project / "a.txt").read_text() == "z\ny\nz\n"


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("     1\tdef f():", "without the line numbers"),
        ("def  f():", "Line 1 has the same words"),
        ("def g():", "copy the passage exactly"),
        ("", "old_string is empty"),
        ("bar", "nothing would change"),
    ],
)
async def test_edit_says_why_nothing_was_found(bench: Bench, old: str, hint: str) -> None:
    (bench.project / "a.py").write_text("def f():\n    return 1\n")
    await bench.text("Read", file_path="a.py")
    assert hint in await bench.error("Edit", file_path="a.py", old_string=old, new_string="bar")


async def test_edit_shows_the_lines_around_the_change(bench: Bench) -> None:
    (bench.project / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 21)))
    await bench.text("Read", file_path="a.txt")
    shown = await bench.text("Edit", file_path="a.txt", old_string="10\n", new_string="ten\n")
    assert "    10\tten" in shown
    assert "     6\t6\n" in shown
    assert "\t5\n" not in shown


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\nb\r\nc\n", "b\n", "B\n", b"a\nB\r\nc\n"),
        (b"a\r\nb\n", "a\r\n", "a\n", b"a\nb\n"),
        (b"\xef\xbb\xbfa\n", "a", "\u00fc", b"\xef\xbb\xbf\xc3\xbc\n"),
        ("grün\n".encode("utf-16-le"), "", "", b""),
        (b"K\xe4se a\n", "a\n", "b\n", b"K\xe4se b\n"),
    ],
)
async def test_line_ends_encoding_and_foreign_bytes_stay(
    bench: Bench, before: bytes, old: str, new: str, after: bytes
) -> None:
    if not old:  # UTF-16 with its mark
        before, old, new, after = (
            "grün\n".encode("utf-16"),
            "grün",
            "rot",
            "rot\n".encode("utf-16"),
        )
    path = bench.project / "a.txt"
    path.write_bytes(before)
    await bench.text("Read", file_path="a.txt")
    await bench.text("Edit", file_path="a.txt", old_string=old, new_string=new)
    assert path.read_bytes() == after


async def test_edit_refuses_binary_and_huge_files(bench: Bench) -> None:
    path = bench.project / "big"
    with path.open("wb") as file:
        file.truncate(33 << 20)
    assert "larger than 32 MB" in await bench.error(
        "Edit", file_path="big", old_string="a", new_string="b"
    )


@examples(80, suppress=[HealthCheck.function_scoped_fixture])
@given(
    head=st.binary(max_size=60).map(lambda b: b.replace(b"\0", b"").replace(b"@", b"")),
    tail=st.binary(max_size=60).map(lambda b: b.replace(b"\0", b"").replace(b"@", b"")),
    new=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n@"), max_size=20),
)
async def test_an_edit_changes_its_passage_and_no_other_byte(
    bench: Bench, head: bytes, tail: bytes, new: str
) -> None:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        head = b"x" + head
    head = b"x" + head if head[:1] in (b"\x89", b"\xff", b"G", b"R", b"%") else head
    path = bench.project / "any"
    path.write_bytes(head + b"@old@" + tail)
    await bench.text("Read", file_path="any")
    await bench.text("Edit", file_path="any", old_string="@old@", new_string=new)
    assert path.read_bytes() == head + new.encode() + tail
