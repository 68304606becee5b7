"""The index of a memory directory follows the files, also those that can't be read or are dated
oddly, and keeps nothing of what was purged."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
from tests.memories import put
from tests.sessions import Place

from lamina.errors import MemoryStoreError
from lamina.memory.file_store import FileStore
from lamina.recall import uses
from lamina.recall.shelf import INDEX, Shelf


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = Place(tmp_path)
    put(place, "invoices.md", "invoices are due in March")
    return put(place, "walrus.md", "our mascot is a walrus called Wendell")


def found(shelf: Shelf, words: str) -> list[str]:
    return [hit.id for hit in shelf.search(words, 5, now=0.0)]


@pytest.mark.spec("M7")
def test_a_memory_that_could_not_be_read_is_looked_at_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(file.parent)
    shelf = Shelf(store)
    read = store.files.read

    def refused(path: str, *limit: int) -> bytes | None:
        if path == "walrus.md":
            raise MemoryStoreError("Permission denied")
        return read(path, *limit)

    with monkeypatch.context() as patch:
        patch.setattr(store.files, "read", refused)
        assert found(shelf, "walrus") == []
        assert shelf.refresh() == 0  # nothing new, nothing to write
    assert found(shelf, "walrus") == ["walrus.md"]
    assert found(Shelf(store), "walrus") == ["walrus.md"]


@pytest.mark.spec("M7")
def test_a_memory_from_the_future_is_read_once(file: Path) -> None:
    ahead = time.time() + 1e6
    os.utime(file, (ahead, ahead))
    shelf = Shelf(FileStore(file.parent))
    assert shelf.refresh() == 2
    assert shelf.refresh() == 0
    file.write_text("our mascot is a puffin")
    assert found(shelf, "puffin") == ["walrus.md"]


@pytest.mark.spec("M7")
@pytest.mark.parametrize("last", [False, True])
def test_what_is_dropped_leaves_no_word_and_no_name(file: Path, *, last: bool) -> None:
    store = FileStore(file.parent)
    shelf = Shelf(store)
    assert found(shelf, "wendell") == ["walrus.md"]
    shelf.count({"walrus.md": True, "invoices.md": False}, 5.0)
    file.unlink()
    if last:
        (file.parent / "invoices.md").unlink()
    Shelf(store).drop_the_gone()
    for derived in (store.state / INDEX, store.state / uses.NAME):
        held = derived.read_bytes() if derived.exists() else b""
        assert b"wendel" not in held
        assert b"walrus" not in held
    assert list(uses.load(store.state / uses.NAME)) == ([] if last else ["invoices.md"])


def test_counts_are_the_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / uses.NAME
    uses.count(path, {"a.md": True}, 5.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["recall-uses.json", "recall-uses.lock"]
