"""Dreams in real processes: two at once, killed, stopped, out of time, out of disk, overtaken."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sessions import Place

from lamina.config import load
from lamina.layers import dream
from lamina.layers.dream.record import DreamRecord
from lamina.memory.file_store import FileStore
from lamina.memory.paths import claim, memory_place, prepare
from lamina.testing import a_memory

ROOT = Path(__file__).parents[2]
WRITING = "Writing"
CHECKING = "Checking the result and the index"


class Dreamer:
    """One process of dreamer.py."""

    def __init__(self, nursery: str, root: Path, *options: str) -> None:
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(nursery)
        self._heard = self._line.makefile("r")
        self.pid = int(self._heard.readline())
        self._death = os.pidfd_open(self.pid)
        self._say(json.dumps([str(root), *options]))

    def _say(self, words: str = "") -> None:
        self._line.sendall(f"{words}\n".encode())

    def until(self, words: str) -> None:
        """Wait until it says this."""
        for line in self._heard:
            if line.strip() == words:
                return
        raise AssertionError(f"it ended before it said {words!r}")

    def go_on(self) -> None:
        self._say()

    def alive(self) -> bool:
        return not select.select([self._death], [], [], 0)[0]

    def ended(self) -> dict[str, Any]:
        last = ""
        for line in self._heard:
            last = line
        self._wait()
        return json.loads(last) if last.startswith("{") else {}

    def kill(self) -> None:
        signal.pidfd_send_signal(self._death, signal.SIGKILL)
        self._wait()

    def _wait(self) -> None:
        select.select([self._death], [], [])
        while os.path.exists(f"/proc/{self.pid}"):
            pass  # dead, and about to be buried

    def close(self) -> None:
        if self.alive():
            self.kill()
        os.close(self._death)
        self._heard.close()
        self._line.close()


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where dreamers are born: importing costs far more than dreaming, so it is done once."""
    foreign = ("LAMINA_", "ANTHROPIC_", "OPENAI_", "CLAUDE_")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [sys.executable, "-m", "tests.faults.dreamer", f"{folder}/line"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**plain, "HOME": str(tmp_path_factory.mktemp("home"))},
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield f"{folder}/line"
        process.kill()


@pytest.fixture
def dreamers(nursery: str) -> Iterator[Any]:
    started: list[Dreamer] = []

    def start(root: Path, *options: str) -> Dreamer:
        started.append(Dreamer(nursery, root, *options))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A memory with doubles in it, where the dreamers look for theirs."""
    place = Place(tmp_path)
    config = load(place.project, home=place.home)
    where = memory_place(config.home, config.project)
    assert not prepare(where)
    claim(where)
    with FileStore(where.directory, where.state) as store:
        for number in range(6):
            fact = f"Hall {number} holds machine number {number * 13} of the northern warehouse"
            for name in ("a", "b"):
                path = f"hall_{number}{name}.md"
                body = f"{fact}." + (" Marta looks after it." if name == "b" else "")
                store.write(
                    a_memory(path, name=f"Hall {number}{name}", description=fact, body=body)
                )
    return where.directory


def state_of(memory: Path) -> Path:
    return memory.with_name("memory.lamina")


def contents(memory: Path) -> dict[str, bytes]:
    """The files as they are once a store has been opened on them."""
    with FileStore(memory, state_of(memory)):
        pass
    return {path.name: path.read_bytes() for path in sorted(memory.glob("*.md"))}


def dreams_of(memory: Path) -> list[str]:
    with FileStore(memory, state_of(memory)) as store:
        store.journal.settle()
        return [commit.id for commit in store.journal.history.log() if commit.writer == "dream"]


def last(memory: Path) -> float:
    return dream.last_dream(memory / dream.LOCK)


@pytest.mark.spec("L6.2")
def test_of_many_processes_one_dreams_and_the_others_are_told_who(
    tmp_path: Path, memory: Path, dreamers: Any
) -> None:
    first = dreamers(tmp_path, "--hold", WRITING)
    first.until(f"at {WRITING}")
    others = [dreamers(tmp_path).ended() for _ in range(2)]
    assert [one["status"] for one in others] == ["refused", "refused"]
    assert f"process {first.pid} dreams already" in others[0]["text"]
    first.go_on()
    assert first.ended()["status"] == "completed"
    assert len(dreams_of(memory)) == 1
    assert last(memory) > 0


@pytest.mark.spec("L6.2")
def test_started_at_the_same_moment_they_make_one_change_between_them(
    tmp_path: Path, memory: Path, dreamers: Any
) -> None:
    racing = [dreamers(tmp_path) for _ in range(4)]
    ends = [one.ended()["status"] for one in racing]
    assert ends.count("completed") == 1
    assert set(ends) <= {"completed", "refused", "nothing"}
    assert len(dreams_of(memory)) == 1
    assert len([*memory.glob("hall_*.md")]) == 6


@pytest.mark.spec("L6.2", "L6.4")
def test_a_killed_holder_leaves_memory_and_mtime_and_blocks_nobody(
    tmp_path: Path, memory: Path, dreamers: Any
) -> None:
    before = contents(memory)
    one = dreamers(tmp_path, "--hold", WRITING)
    one.until(f"at {WRITING}")
    one.kill()
    assert contents(memory) == before
    assert last(memory) == 0
    body = (memory / dream.LOCK).read_text().split()
    assert body == [str(one.pid), "0"]
    assert dreamers(tmp_path).ended()["status"] == "completed"
    log = DreamRecord(memory.with_name(f"{memory.name}.lamina")).log()
    assert [line["status"] for line in log] == ["completed", "killed"], "both are told of"


def _changed(before: dict[str, bytes], memory: Path) -> int:
    """Files that are others now, seen from outside while somebody writes."""
    now: dict[str, bytes] = {}
    for path in memory.glob("*.md"):
        with contextlib.suppress(FileNotFoundError):
            now[path.name] = path.read_bytes()
    return sum(before.get(name) != now.get(name) for name in {*before, *now})


@pytest.mark.spec("L6.4", "L6.5")
def test_killed_at_any_moment_memory_is_as_before_or_as_after_never_between(
    tmp_path: Path, memory: Path, dreamers: Any
) -> None:
    before = contents(memory)
    after: dict[str, bytes] = {}
    for changes in range(4):  # it dies when so many files are seen to have changed
        one = dreamers(tmp_path, "--hold", WRITING)
        one.until(f"at {WRITING}")
        one.go_on()
        while one.alive() and _changed(before, memory) < changes:
            pass
        one.kill()
        now = contents(memory)
        if now != before:
            after = now
            break
    if not after:
        assert dreamers(tmp_path).ended()["status"] == "completed"
        after = contents(memory)
    assert len([name for name in after if name.startswith("hall_")]) == 6
    assert all(b"Marta looks after it." in after[name] for name in after if name != "MEMORY.md")
    again = dreamers(tmp_path).ended()
    assert again["status"] == "nothing"
    assert contents(memory) == after


@pytest.mark.spec("L6.2")
def test_a_stopped_holder_is_never_robbed_and_ends_itself_when_it_wakes_hours_later(
    tmp_path: Path, memory: Path, dreamers: Any
) -> None:
    before = contents(memory)
    clock = tmp_path / "clock"
    clock.write_text("0")
    one = dreamers(tmp_path, "--hold", CHECKING, "--clock", str(clock))
    one.until(f"at {CHECKING}")
    os.kill(one.pid, signal.SIGSTOP)
    clock.write_text("7200")
    other = dreamers(tmp_path, "--clock", str(clock)).ended()
    assert other["status"] == "refused"
    os.kill(one.pid, signal.SIGCONT)
    one.go_on()
    end = one.ended()
    assert end["status"] == "raised"
    assert "too long" in end["text"]
    assert contents(memory) == before
    assert last(memory) == 0
    assert dreamers(tmp_path, "--clock", str(clock)).ended()["status"] == "completed"


@pytest.mark.spec("L6.2")
def test_a_pid_that_somebody_else_has_now_blocks_nobody(
    tmp_path: Path, memory: Path, dreamers: Any
) -> None:
    lock = memory / dream.LOCK
    lock.write_text(f"{os.getpid()}\n5000000000000\n")  # alive, and no dreamer
    assert dreamers(tmp_path).ended()["status"] == "completed"
    process, when = lock.read_text().split()
    assert int(process) != os.getpid()
    assert int(when) == lock.stat().st_mtime_ns > 5_000_000_000_000


_LOCK_WITH_NO_ROOM = """
import resource, sys
from pathlib import Path
from lamina.errors import MemoryStoreError
from lamina.layers import dream
path = Path(sys.argv[1])
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
try:
    dream.acquire(path, now=1e9)
except MemoryStoreError as error:
    print(error)
"""


@pytest.mark.spec("L6.2")
def test_a_disk_that_is_full_before_the_lock_is_written_is_no_dream(tmp_path: Path) -> None:
    path = tmp_path / "memory" / dream.LOCK
    done = subprocess.run(
        [sys.executable, "-c", _LOCK_WITH_NO_ROOM, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"Can't lock the dream by {path}: ")
    assert dream.last_dream(path) == 0, "nobody dreamt, so one is due"
    dream.acquire(path, now=1e9).release()


@pytest.mark.spec("L6.4")
def test_a_full_disk_changes_nothing(tmp_path: Path, memory: Path, dreamers: Any) -> None:
    before = contents(memory)
    one = dreamers(tmp_path, "--hold", WRITING, "--limit", "700")
    one.until(f"at {WRITING}")
    one.go_on()
    end = one.ended()
    assert end["status"] == "raised"
    assert "disk is full" in end["text"]
    assert contents(memory) == before
    assert last(memory) == 0
    assert dreamers(tmp_path).ended()["status"] == "completed"


@pytest.mark.spec("L6.4")
def test_a_disk_that_fills_up_in_the_middle_leaves_all_or_nothing(
    tmp_path: Path, memory: Path, dreamers: Any
) -> None:
    # Both of a pair say something of their own, so the merged one is written anew; the last is the
    # only one that needs two pages. There is one. Intent and history lie where there is room.
    for number in range(6):
        fact = (
            f"Hall {number} of the northern warehouse holds the heavy machine number {number * 13} "
            "that cuts steel plates for ferry hulls, tender ramps and harbour cranes each winter."
        )
        many = "\n".join([fact] * (30 if number == 5 else 1))
        for name, words in (("a", "Marta knows."), ("b", "Ivo knows.")):
            path = memory / f"hall_{number}{name}.md"
            head = f"---\nname: Hall {number}\ndescription: hall {number}\ntype: project\n---\n\n"
            path.write_text(f"{head}{many}\n\n{words}\n")
    saved = {path.name: path.read_bytes() for path in memory.iterdir()}
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(memory)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("a small file system can't be mounted here")
    try:
        for name, content in saved.items():
            (memory / name).write_bytes(content)
        before = contents(memory)
        one = dreamers(tmp_path, "--hold", WRITING)
        one.until(f"at {WRITING}")
        filler = memory / "filler.bin"
        descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
        with contextlib.suppress(OSError):
            while os.write(descriptor, b"x" * 4096):
                pass
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - 4096)
        os.close(descriptor)
        one.go_on()
        end = one.ended()
        assert end["status"] == "raised", end
        assert "disk is full" in end["text"]
        filler.unlink(missing_ok=True)
        assert contents(memory) == before
    finally:
        subprocess.run(["umount", str(memory)], check=False)


@pytest.mark.spec("L6.4")
def test_what_a_person_edits_meanwhile_stands_and_the_dream_gives_way(
    tmp_path: Path, memory: Path, dreamers: Any
) -> None:
    before = contents(memory)
    one = dreamers(tmp_path, "--hold", WRITING)
    one.until(f"at {WRITING}")
    (memory / "hall_3a.md").write_text("by hand\n")
    one.go_on()
    end = one.ended()
    assert end["status"] == "gave way"
    assert "hall_3a.md" in end["text"]
    assert contents(memory) == {**before, "hall_3a.md": b"by hand\n"}
    assert last(memory) == 0
