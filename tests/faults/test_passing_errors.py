"""Errors of the disk that pass: what they leave behind is swept, and nothing stays hidden by them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamina import machine
from lamina.errors import MemoryStoreError
from lamina.layers.dream.plan import DreamPlanner
from lamina.memory import look_over
from lamina.memory.beneath import TEMPORARY_PREFIX, Beneath
from lamina.memory.file_store import FileStore
from lamina.memory.index import pointers_of
from lamina.memory.own_files import exclusive
from lamina.testing import a_memory


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "memory")


def strays(store: FileStore) -> list[str]:
    return [str(path) for path in store.directory.parent.rglob(f"{TEMPORARY_PREFIX}*")]


def failing(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, code: int, when: Callable[..., bool]
) -> None:
    """The function fails where `when` says so, as the disk would make it."""
    real = getattr(module, name)

    def maybe(*given: Any, **more: Any) -> Any:
        if when(*given):
            raise OSError(code, os.strerror(code))
        return real(*given, **more)

    monkeypatch.setattr(module, name, maybe)


@pytest.mark.spec("M6")
def test_a_memory_that_could_not_be_read_once_is_there_the_next_time(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.remember(a_memory("a.md"))
    before = [one.path for one in store.list()]
    os.utime(store.directory / "a.md", (1, 1))  # looked at again
    with monkeypatch.context() as patched:
        failing(patched, os, "open", errno.EIO, lambda name, *_: name == "a.md")
        assert [one.path for one in store.list()] == []
    assert [one.path for one in store.list()] == before
    with FileStore(store.directory) as again:
        assert [one.path for one in again.list()] == before


@pytest.mark.spec("M6")
def test_a_memory_that_can_not_be_read_now_keeps_its_line_in_the_index(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, body in (("a", "The harbour has nine cranes."), ("b", "Lunch is at noon.")):
        store.remember(a_memory(f"{name}.md", body=body))
    store.list()  # their headers are known: what fails is reading the rest
    read = Beneath.read

    def fails(self: Beneath, path: str, limit: int = -1) -> bytes | None:
        if path == "a.md":
            raise MemoryStoreError("Can't read a.md: Input/output error.")
        return read(self, path, limit)

    with monkeypatch.context() as patched:
        patched.setattr(Beneath, "read", fails)
        found, steps = look_over(store, 1e9)
        plan = DreamPlanner(store, 1e9).plan()
    assert [one.kind for one in found.faults if one.path == "a.md"] == []
    assert not steps
    assert [one.file for one in pointers_of(plan.index.encode())] == ["a.md", "b.md"]


@pytest.mark.spec("M9")
def test_a_write_that_is_told_to_have_failed_is_not_finished_later(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.remember(a_memory("a.md"))
    calls: list[int] = []

    def second(_: int) -> bool:
        calls.append(1)
        return len(calls) == 2  # the folder of intents, once the intent has its name

    with monkeypatch.context() as patched:
        failing(patched, machine, "flush", errno.EIO, second)
        with pytest.raises(MemoryStoreError):
            store.remember(a_memory("b.md", body="Something else entirely about trains."))
    with FileStore(store.directory) as again:
        again.remember(a_memory("c.md", body="The harbour has nine cranes."))
        assert sorted(one.path for one in again.list()) == ["a.md", "c.md"]


@pytest.mark.spec("M9")
@pytest.mark.parametrize("code", [errno.EIO, errno.EINTR, errno.ENOSPC])
def test_what_could_not_be_unlinked_is_swept_and_leaves_no_pointer_dangling(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    store.remember(a_memory("a.md"))
    store.remember(a_memory("b.md", body="Something else entirely about trains."))
    with monkeypatch.context() as patched:
        failing(
            patched, os, "unlink", code, lambda name, *_: str(name).startswith(TEMPORARY_PREFIX)
        )
        store.forget("a.md")
        store.remember(a_memory("c.md", body="The harbour has nine cranes."))
    assert strays(store)
    store.close()
    with FileStore(store.directory) as again:
        again.remember(a_memory("d.md", body="Lunch is at noon in the blue room."))
        files = sorted(one.path for one in again.list())
        assert files == ["b.md", "c.md", "d.md"]
        index = (again.directory / "MEMORY.md").read_bytes()
        assert sorted(one.file for one in pointers_of(index)) == files
        assert strays(again) == []
        assert not (again.state / "rescued").exists(), "all of it is in the history"


@pytest.mark.spec("M9", "M10")
def test_what_a_killed_writer_left_before_its_intent_had_a_name_is_swept(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    store.close()
    left = store.state / "intents" / f"{TEMPORARY_PREFIX}feed"
    left.write_text("c2VjcmV0")
    with FileStore(store.directory) as again:
        again.forget("a.md", purge_history=True)
    assert not left.exists()


@pytest.mark.spec("M9")
def test_a_read_sweeps_what_killed_writers_left_but_nothing_of_one_at_work(
    store: FileStore,
) -> None:
    store.remember(a_memory("a.md"))
    store.close()
    dead = 2**22 + 7  # beyond what the kernel gives to processes
    left = [
        store.state / "intents" / f"{TEMPORARY_PREFIX}feed",
        store.directory / "topics" / f"{TEMPORARY_PREFIX}beef",
        store.state / f"recall.index.{dead}-7f3c.tmp",
        store.state / "dream" / f".status.json.{dead}",
        store.state / "inbox" / f"{TEMPORARY_PREFIX}feed.{dead}",
    ]
    ours = store.state / f"recall.index.{os.getpid()}-7f3c.tmp"
    for path in (*left, ours):
        path.parent.mkdir(exist_ok=True)
        path.write_text("half")
    with exclusive(store.state / "lock"), FileStore(store.directory) as again:
        assert [one.path for one in again.list()] == ["a.md"]
        assert all(path.exists() for path in left)
    with FileStore(store.directory) as again:
        assert [one.path for one in again.list()] == ["a.md"]
    assert not any(path.exists() for path in left)
    assert ours.exists()


@pytest.mark.spec("M10")
def test_a_purge_takes_the_words_out_of_what_was_rescued_after_a_crash(store: FileStore) -> None:
    store.remember(a_memory("a.md", body="The vault is behind the painting."))
    other = "Nobody else ever wrote this line down.\n"
    for name, text in (("a1", "draft\nThe vault is behind the painting.\n"), ("b2", other)):
        (store.directory / f"{TEMPORARY_PREFIX}{name}").write_text(text)
    store.forget("a.md", purge_history=True)
    rescued = [path.read_text() for path in (store.state / "rescued").iterdir()]
    assert rescued == [other]


@pytest.mark.spec("M9")
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_write_that_is_in_the_files_succeeded_though_its_intent_could_not_be_marked(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    store.remember(a_memory("a.md"))
    store.close()
    with FileStore(store.directory) as writer:
        with monkeypatch.context() as patched:
            failing(patched, machine, "put_new", code, lambda _, old, new: new.endswith(".done"))
            assert writer.forget("a.md") is None
        assert [one.path for one in writer.list()] == []
    with FileStore(store.directory) as again:
        newest = next(again.history.log())
        assert newest.subject == "forget a.md"
        assert newest.marks.get("Tombstone")
        assert [*(again.state / "intents").iterdir()] == []
