"""The file store passes every check that any store must pass; and the checks can fail."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from lamina import syscalls
from lamina.memories import Memory, Outcome, Proposal
from lamina.memory.file_store import FileStore
from lamina.ports import MemoryStore
from lamina.testing import STORE_CHECKS, OpenStore

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
            raise syscalls.Unsupported("not here")

        monkeypatch.setattr(syscalls, "openat2", absent)
        monkeypatch.setattr(syscalls, "renameat2", absent)
    opened: list[FileStore] = []

    def open_store() -> MemoryStore:
        opened.append(FileStore(tmp_path / "memory"))
        return opened[-1]

    try:
        check(open_store)
    finally:
        for store in opened:
            store.close()


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
