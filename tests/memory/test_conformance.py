"""The file store passes every check that any store must pass; and the checks can fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.memory.in_memory import InMemoryStore, Shelf
from tests.sessions import Place, run

from lamina import machine
from lamina.memories import InboxItem, Meant, Memory, Outcome, Proposal, Verdict
from lamina.memory.file_store import FileStore
from lamina.ports import MemoryStore
from lamina.testing import STORE_CHECKS, OpenStore, a_memory

names = pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)


@names
@pytest.mark.parametrize("kernel", ["linux", "any"])
@pytest.mark.spec("M9", "L5.6")
def test_the_file_store_keeps_the_protocol(
    check, kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the system calls of Linux, and without them."""
    if kernel == "any":

        def absent(*_: object) -> None:
            raise machine.Unsupported("not here")

        monkeypatch.setattr(machine, "openat2", absent)
        monkeypatch.setattr(machine, "renameat2", absent)
    opened: list[FileStore] = []

    def open_store() -> MemoryStore:
        opened.append(FileStore(tmp_path / "memory"))
        return opened[-1]

    try:
        check(open_store)
    finally:
        for store in opened:
            store.close()


@names
@pytest.mark.spec("M9")
def test_a_store_without_files_keeps_the_protocol_too(check, tmp_path: Path) -> None:
    shelf = Shelf()
    check(lambda: InMemoryStore(tmp_path, shelf))


@pytest.mark.spec("M9")
def test_a_session_runs_on_a_store_of_ones_own(tmp_path: Path) -> None:
    """Asked to remember, extracted from what was said, recalled; and no memory file is written."""
    place, store = Place(tmp_path), InMemoryStore(tmp_path / "derived")
    off = {"dream.enabled": False}

    async def told(words: str) -> str:
        async with place.open("none", memory=store, config=off, interactive=True) as session:
            return (await session.ask(words)).text

    run(told, "Remember that I deploy from the host pelican.")
    run(told, "I prefer tabs over spaces in every Makefile.")
    kept = "\n".join(store.read(one.path).body for one in store.list())
    assert "pelican" in kept
    assert "tabs over spaces" in kept
    assert "pelican" in run(told, "From which host do I deploy?")
    assert not [*tmp_path.rglob("memory/*.md")]


@pytest.mark.spec("M9")
def test_the_sessions_clock_dates_commits_tombstones_and_what_waits(tmp_path: Path) -> None:
    place = Place(tmp_path)

    async def story() -> None:
        async with place.open([]) as session:
            store = session.state.deps.memory
            assert isinstance(store, FileStore)
            store.write(a_memory())
            store.history.settle()
            place.clock.at += 60
            store.forget("user_role.md")
            store.history.settle()
            place.clock.at += 60
            (store.directory / "by_hand.md").write_text("Somebody typed this.\n")
            store.catch_up()
            store.hold(a_memory("later.md"), Verdict("inbox", "look at it"), b"Later.\n")
            written, forgotten, outside = [*store.history.log()][::-1]
            end = place.clock.at
            assert [written.when, forgotten.when, outside.when] == [end - 120, end - 60, end]
            assert [stone.when for stone in store.tombstones.all()] == [end - 60]
            assert [item.when for item in store.waiting()] == [end]

    run(story)


class Forgetful:
    """A store that says yes to everything and keeps nothing."""

    def list(self) -> Sequence[Memory]:
        return []

    def read(self, path: str) -> Memory:
        return Memory(path, "", "", None, "")

    def write(self, proposal: Proposal, **_: object) -> Outcome:
        return Outcome(proposal.path, "accept")

    def rename(self, old: str, new: str, **_: object) -> Outcome:
        return Outcome(new, "accept")

    def forget(self, path: str, **_: object) -> None:
        pass

    def search(self, query: str, limit: int = 10) -> Sequence[object]:
        return []

    history = None

    def newest_change(self) -> str:
        return "0123abcd"

    def read_bytes(self, path: str) -> bytes:
        return b""

    def content(self, path: str, limit: int = -1) -> bytes | None:
        return b"nothing"

    def remember(self, proposal: Proposal) -> Outcome:
        return Outcome(proposal.path, "accept")

    def write_file(self, path: str, content: bytes, **_: object) -> None:
        pass

    def apply(self, changes: object, note: object, *, first: Callable[[], object]) -> bool:
        return False

    def hold(self, proposal: Proposal, verdict: Verdict, content: bytes) -> InboxItem:
        return InboxItem(id="1", when=0.0, proposal=proposal, reason="")

    def waiting(self) -> Sequence[InboxItem]:
        return []

    def pin(self, path: str, *, on: bool = True) -> None:
        pass

    def pinned(self) -> set[str]:
        return set()

    def meant(self, wish: str) -> Meant:
        return Meant("several")


@names
def test_a_store_that_keeps_nothing_fails_every_check(check) -> None:
    store: OpenStore = Forgetful  # type: ignore[assignment]
    with pytest.raises(AssertionError, match=r"\w"):
        check(store)


def test_every_check_in_the_module_is_exported() -> None:
    import lamina.testing as module

    source = Path(module.__file__).read_text()
    written = re.findall(r"^def ([a-z]\w+)\(open_store", source, re.MULTILINE)
    assert written == [check.__name__ for check in STORE_CHECKS]
