"""Hostile names, disks that fill, directories that are closed: refused by name, and
nothing outside the directory ever changes, nothing inside is lost."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.examples import EXPLORE

from lamina.errors import LaminaError
from lamina.memory.file_store import FileStore
from lamina.memory.naming import why_bad_name
from lamina.testing import a_memory

NAMES = 10_000 if EXPLORE else 1_200

UP = [
    "..",
    ".",
    "%2e%2e",
    "%252e%252e",
    "．．",
    "‥",
    "..%00",
    "\x00..",
    "....",
    ". .",
    "\u202e..",
    "..;",
]
SLASH = ["/", "\\", "%2f", "%5c", "／", "∕", "⧵", "//", "\xc0\xaf", "%c0%af", "/./", ":"]
ENDS = [
    *("passwd", "x.md", "outside.md", "con.md", "NUL", "aux.md", "com1.md", "LPT9.md", "memory.md"),
    *(
        "MEMORY.md",
        "Memory.MD",
        "X.md",
        "ok.md",
        "OK.md",
        "ok.MD",
        "\ud800.md",
        "a\nb.md",
        ".md",
        "md",
    ),
    *(
        "x" * 300 + ".md",
        "ü" * 150 + ".md",
        "~",
        "~root/x.md",
        "$HOME.md",
        "`id`.md",
        "-rf.md",
        "*.md",
    ),
    *(
        "ok.md ",
        " ok.md",
        "ok.md.",
        "ok.md\x00",
        "ok.md/",
        "\u200bok.md",
        "ｏk.md",
        "о\u043a.md",
        "",
    ),
]
STARTS = [
    "",
    "/",
    "//",
    "\\\\host\\",
    "c:",
    "C:\\",
    "~",
    "file://",
    "/proc/self/fd/",
    "/dev/",
    "team/",
]


def hostile_names(count: int) -> Iterator[str]:
    chance = random.Random(7)
    plain = list(itertools.product(STARTS, ["", *UP], SLASH, ENDS))
    yield from ("".join(parts) for parts in chance.sample(plain, count // 2))
    while True:
        depth = chance.randrange(1, 6)
        middle = "".join(chance.choice(UP) + chance.choice(SLASH) for _ in range(depth))
        name = chance.choice(STARTS) + middle + chance.choice(ENDS)
        yield quote(name, errors="replace") if chance.random() < 0.1 else name


def tree(root: Path) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for path in root.rglob("*"):
        if path.is_symlink():
            found[str(path)] = os.readlink(path)
        elif path.is_file():
            found[str(path)] = path.read_bytes()
        else:
            found[str(path)] = "directory"
    return found


@pytest.mark.spec("M1", "L5.6")
def test_hostile_names_change_nothing_outside_and_lose_nothing_inside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "dir").mkdir(parents=True)
    (outside / "outside.md").write_text("untouched")
    root = tmp_path / "place" / "memory"
    with FileStore(root) as store:
        store.remember(a_memory("ok.md"))
        (root / "link").symlink_to(outside)
        (root / "link.md").symlink_to(outside / "outside.md")
        (root / "team").symlink_to(outside / "dir")
        store.catch_up()
        before, kept = tree(outside), store.read_bytes("ok.md")
        accepted: set[str] = set()
        sentences: set[str] = set()
        for name in itertools.islice(hostile_names(NAMES), NAMES):
            for attempt in (
                lambda name=name: store.write_file(name, b"evil", writer="user", base=None),
                lambda name=name: store.read(name),
                lambda name=name: store.forget(name) if name != "ok.md" else None,
            ):
                try:
                    attempt()
                    accepted.add(name)
                except LaminaError as error:
                    sentences.add(str(error))
        for name in ("link/x.md", "link.md", "team/x.md"):
            for attempt in (
                lambda name=name: store.write_file(name, b"evil", writer="user", base=None),
                lambda name=name: store.read(name),
                lambda name=name: store.forget(name),
            ):
                with pytest.raises(LaminaError):
                    attempt()
        assert all(sentence.isprintable() and sentence for sentence in sentences)
        assert tree(outside) == before
        assert store.read_bytes("ok.md") == kept
        for name in accepted - {"ok.md", "MEMORY.md"}:
            assert why_bad_name(name) == "", name
    assert sorted(os.listdir(tmp_path)) == ["outside", "place"]
    assert sorted(os.listdir(tmp_path / "place")) == ["memory", "memory.lamina"]


FILL = """
import sys, pathlib, resource
from lamina.errors import MemoryStoreError
from lamina.memory.file_store import FileStore
from lamina.testing import a_memory
root = pathlib.Path(sys.argv[1])
limit = int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
with_error = written = 0
store = FileStore(root / "memory")
for number in range(200):
    body = f"words {number} and more " * (400 if number % 2 else 20)
    try:
        store.remember(a_memory(f"m{number}.md", body=body))
        written += 1
        print("wrote", f"m{number}.md", flush=True)
    except MemoryStoreError as error:
        assert "disk is full" in str(error), error
        with_error += 1
        if with_error > 3:
            break
try:
    store.close()
except MemoryStoreError as error:
    print("close", error)
print("errors", with_error, flush=True)
"""


def after_the_disk_was_full(root: Path, output: str) -> None:
    lines = output.splitlines()
    assert lines[-1].startswith("errors ")
    assert lines[-1] != "errors 0", "the disk never was full"
    written = {line.split()[1] for line in lines if line.startswith("wrote")}
    with FileStore(root / "memory") as store:
        assert {memory.path for memory in store.list()} == written
        for path in written:
            number = int(path.strip("m.d"))
            wanted = f"words {number} and more " * (400 if number % 2 else 20)
            assert store.read(path).body == wanted
        store.catch_up()
        assert store.catch_up() == []
        assert not [name for name in os.listdir(root / "memory") if name.startswith(".")]


@pytest.mark.spec("M9")
def test_a_file_size_limit_refuses_whole_writes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(tmp_path), "5000"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    after_the_disk_was_full(tmp_path, done.stdout)


@pytest.mark.spec("M9")
def test_a_full_disk_refuses_whole_writes_and_memory_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    """A real file system of two megabytes, mounted in a namespace of its own."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare(1) to mount a small file system")
    (tmp_path / "small").mkdir()
    script = (
        'mount -t tmpfs -o size=2m tmpfs "$1/small" || exit 77; '
        '"$2" -c "$3" "$1/small" 0 || exit 1; cp -a "$1/small" "$1/copy"'
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), sys.executable, FILL],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77 or "unshare:" in done.stderr:
        pytest.skip("this machine allows no mount in a namespace")
    assert done.returncode == 0, done.stderr
    after_the_disk_was_full(tmp_path / "copy", done.stdout)


CLOSED = """
import os, sys, pathlib, tempfile
from lamina.errors import MemoryStoreError
from lamina.memory.file_store import FileStore
from lamina.testing import a_memory
with tempfile.TemporaryDirectory() as warm, FileStore(pathlib.Path(warm) / "memory") as store:
    store.remember(a_memory("warm.md"))  # loads what is loaded late, while files can be read
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
with FileStore(pathlib.Path(sys.argv[1]) / "memory") as store:
    print(len(store.list()), len(store.scan().unreadable))
    for path in ("new.md", "open.md"):
        try: store.remember(a_memory(path), replace=True)
        except MemoryStoreError as error: print(error)
"""


@pytest.mark.spec("M1", "M6")
def test_without_permission_reading_goes_on_and_writing_is_refused_with_the_reason() -> None:
    root = Path(tempfile.mkdtemp(prefix="lamina-closed-"))
    try:
        with FileStore(root / "memory") as store:
            store.remember(a_memory("open.md"))
            store.remember(a_memory("closed.md", body="Only for the owner, in other words."))
        for path in (root, *root.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        (root / "memory" / "closed.md").chmod(0)
        before = tree(root / "memory") if os.geteuid() == 0 else {}
        done = subprocess.run(
            [sys.executable, "-c", CLOSED, str(root)], capture_output=True, text=True, check=False
        )
        lines = done.stdout.splitlines()
        assert lines[0] == "1 1", done.stderr
        assert len(lines) == 3
        assert all("Permission denied" in line or "Read-only" in line for line in lines[1:])
        if before:
            assert tree(root / "memory") == before
    finally:
        for path in (root, *root.rglob("*")):
            path.chmod(0o700)
        shutil.rmtree(root)


@pytest.mark.spec("M3", "M6")
def test_files_that_are_no_memories_are_counted_and_kept(tmp_path: Path) -> None:
    root = tmp_path / "memory"
    root.mkdir()
    (root / "binary.md").write_bytes(os.urandom(4096) + b"\x00")
    (root / "empty.md").write_bytes(b"")
    (root / "bomb.md").write_bytes(b"---\n" + b"a: &a [*a, *a]\n" * 400_000)
    (root / "dir.md").mkdir()
    os.mkfifo(root / "pipe.md")
    with FileStore(root) as store:
        assert {memory.path for memory in store.list()} == {"empty.md", "bomb.md"}
        assert store.scan().unreadable == ["binary.md", "dir.md", "pipe.md"]
        assert store.read("bomb.md").name == "bomb"
        store.remember(a_memory("good.md"))
        store.catch_up()
    assert (root / "bomb.md").stat().st_size == 4 + 15 * 400_000
