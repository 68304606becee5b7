"""The index of a memory directory follows the files, also those that can't be read or are dated
oddly, and keeps nothing of what was purged; uses are counted beside it."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.memories import directory, put
from tests.sessions import Place

from lamina.errors import MemoryStoreError
from lamina.local import embedder
from lamina.local.embedder import WordVectors
from lamina.memory.file_store import FileStore
from lamina.recall import Match, index_files, scoring
from lamina.recall.memory_index import (
    INDEX_FILE,
    USES_FILE,
    MemoryIndex,
    UseCount,
    count_uses,
    fitting,
    load_uses,
    unused,
)


@pytest.fixture(autouse=True, scope="module")
def by_words_alone() -> Iterator[None]:
    """Vectors of the extra are made in the background: what they add would come between two searches."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (embedder, index_files):
            patch.setattr(module, "has_sentence_model", lambda: False)
        yield


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = Place(tmp_path)
    put(place, "invoices.md", "invoices are due in March")
    return put(place, "walrus.md", "our mascot is a walrus called Wendell")


def found(index: MemoryIndex, words: str) -> list[str]:
    return [hit.id for hit in index.search(words, 5, now=0.0)]


@pytest.mark.spec("M7")
def test_the_first_search_tells_how_much_it_has_read_and_the_next_reads_nothing(file: Path) -> None:
    told: list[tuple[int, int]] = []
    sizes = [one.stat().st_size for one in file.parent.glob("*.md") if one.name != "MEMORY.md"]
    for one in file.parent.glob("*.md"):
        os.utime(one, (1e9, 1e9))
    with FileStore(file.parent) as store:
        index = MemoryIndex(store)
        index.progress = lambda done, total: told.append((done, total))
        assert found(index, "mascot") == ["walrus.md"]
        assert told[-1] == (sum(sizes), sum(sizes))
        assert len(told) == len(sizes) == 2
        assert found(index, "mascot") == ["walrus.md"]
        assert len(told) == 2


@pytest.mark.spec("M7")
def test_the_next_process_searches_by_other_words_and_works_out_no_vector(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_SMALL", "_FEW", "_CLOSER"):  # as in a large directory: only some are looked at
        monkeypatch.setattr(scoring, name, 1)
    os.utime(file, (1e9, 1e9))
    os.utime(file.with_name("invoices.md"), (1e9, 1e9))
    with FileStore(file.parent) as store:
        assert found(MemoryIndex(store), "mascot") == ["walrus.md"]
        worked_out: list[object] = []
        monkeypatch.setattr(WordVectors, "embed_rows", lambda *given: worked_out.append(given))
        assert found(MemoryIndex(store), "invoices") == ["invoices.md"]
        assert not worked_out


@pytest.mark.spec("M7")
def test_a_memory_that_could_not_be_read_is_looked_at_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(file.parent)
    index = MemoryIndex(store)
    read = store.files.read

    def refused(path: str, *limit: int) -> bytes | None:
        if path == "walrus.md":
            raise MemoryStoreError("Permission denied")
        return read(path, *limit)

    with monkeypatch.context() as patch:
        patch.setattr(store.files, "read", refused)
        assert found(index, "walrus") == []
        assert index.refresh() == 0  # nothing new, nothing to write
    assert found(index, "walrus") == ["walrus.md"]
    assert found(MemoryIndex(store), "walrus") == ["walrus.md"]


@pytest.mark.spec("M7")
def test_a_memory_from_the_future_is_read_once(file: Path) -> None:
    ahead = time.time() + 1e6
    os.utime(file, (ahead, ahead))
    index = MemoryIndex(FileStore(file.parent))
    assert index.refresh() == 2
    assert index.refresh() == 0
    file.write_text("our mascot is a puffin")
    assert found(index, "puffin") == ["walrus.md"]


@pytest.mark.spec("M7")
@pytest.mark.parametrize("last", [False, True])
def test_what_is_dropped_leaves_no_word_and_no_name(file: Path, *, last: bool) -> None:
    store = FileStore(file.parent)
    index = MemoryIndex(store)
    assert found(index, "wendell") == ["walrus.md"]
    index.count({"walrus.md": True, "invoices.md": False}, 5.0)
    file.unlink()
    if last:
        (file.parent / "invoices.md").unlink()
    MemoryIndex(store).drop_the_gone()
    for derived in (store.state / INDEX_FILE, store.state / USES_FILE):
        held = derived.read_bytes() if derived.exists() else b""
        assert b"wendel" not in held
        assert b"walrus" not in held
    assert list(load_uses(store.state / USES_FILE)) == ([] if last else ["invoices.md"])


def test_counts_are_the_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / USES_FILE
    count_uses(path, {"a.md": True}, 5.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["recall-uses.json", "recall-uses.lock"]


@pytest.mark.spec("M11")
def test_uses_are_counted_and_a_damaged_file_is_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "below" / USES_FILE
    count_uses(file, {"a.md": True, "b.md": False}, 5.0)
    known = count_uses(file, {"a.md": False, "b.md": False}, 9.0)
    assert known["a.md"] == UseCount(1, 5.0, 2)
    count_uses(file, {"b.md": False}, 9.0)
    assert unused(load_uses(file)) == ["b.md"]
    file.write_text("{torn")
    assert load_uses(file) == {}
    assert count_uses(file, {"a.md": True}, 1.0)["a.md"].count == 1


@pytest.mark.parametrize("number", ["99999999999999999999999", "1e300", "-1e300", "-7"])
@pytest.mark.parametrize("key", ["count", "last", "shown"])
def test_numbers_beyond_what_counts_hold_are_bounded(tmp_path: Path, key: str, number: str) -> None:
    file = tmp_path / USES_FILE
    file.write_text(f'{{"a.md": {{"{key}": {number}}}}}')
    for use in load_uses(file).values():
        assert 0 <= use.count <= 10**9
        assert 0 <= use.shown <= 10**9
        assert datetime.fromtimestamp(use.last, UTC).year < 2100


@pytest.mark.spec("M7")
def test_a_memory_that_went_since_the_index_knew_it_is_left_out(tmp_path: Path) -> None:
    place = Place(tmp_path)
    file = put(place, "walrus.md", "our mascot is a walrus")
    put(place, "walrus_food.md", "the walrus eats clams")
    index = MemoryIndex(FileStore(file.parent))
    assert len(fitting(index, "walrus", 5, 0.0)) == 2
    found = index.search

    def goes_meanwhile(*args: object, **more: object):
        hits = found(*args, **more)  # type: ignore[arg-type]
        file.unlink()
        return hits

    index.search = goes_meanwhile
    assert [memory.path for _, memory in fitting(index, "walrus", 5, 0.0)] == ["walrus_food.md"]


CHANGES = ("write", "add", "remove", "rename", "touch", "rewrite in place", "none")
WORDS = ("walrus", "invoice", "harbour", "lantern", "März", "数据库", "tent")
saying = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


def answers(index: MemoryIndex) -> list[list[Match]]:
    return [index.search(word, 9, now=2e9) for word in (*WORDS, " ".join(WORDS))]


def built_anew(store: FileStore) -> list[list[Match]]:
    """What an index says that has no file to begin with."""
    (store.state / INDEX_FILE).rename(store.state / "aside")
    try:
        return answers(MemoryIndex(store))
    finally:
        (store.state / "aside").replace(store.state / INDEX_FILE)


@examples(40)
@given(
    texts=st.lists(saying, min_size=2, max_size=6),
    steps=st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 9), saying), max_size=5),
)
@pytest.mark.spec("M7")
def test_the_next_process_sees_every_change_and_answers_as_an_index_built_anew(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str],
    steps: list[tuple[str, int, str]],
) -> None:
    place = Place(tmp_path_factory.mktemp("changes"))
    files = [put(place, f"m{number}.md", text) for number, text in enumerate(texts)]
    for number, file in enumerate(files):
        os.utime(file, (1e9, 1e9 + number))
    folder = files[0].parent
    with FileStore(folder) as store:
        answers(MemoryIndex(store))
        for what, number, text in steps:
            files = sorted(folder.glob("m*.md"))
            file = files[number % len(files)]
            seen = file.stat()
            if what == "write":
                put(place, file.name, text)
                os.utime(file, (1e9, 1e9 + number))
            elif what == "add":
                put(place, f"m{len(files)}_{number}.md", text)
            elif what == "remove" and len(files) > 1:
                file.unlink()
            elif what == "rename":
                file.rename(folder / f"m{number}_new.md")
            elif what == "touch":
                os.utime(file, (1e9, 1.5e9 + number))
            elif what == "rewrite in place":  # as long as before, and dated back
                file.write_bytes(file.read_bytes().replace(b"a", b"e"))
                os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
            assert answers(MemoryIndex(store)) == built_anew(store)


@examples(60)
@given(data=st.data())
def test_a_damaged_index_is_built_anew_and_answers_the_same(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    place = Place(tmp_path_factory.mktemp("damage"))
    for number, word in enumerate(WORDS):
        os.utime(put(place, f"m{number}.md", f"{word} and {WORDS[number - 1]}"), (1e9, 1e9))
    with FileStore(directory(place)) as store:
        wanted = answers(MemoryIndex(store))
        file = store.state / INDEX_FILE
        whole = bytearray(file.read_bytes())
        at = data.draw(st.integers(0, len(whole) - 1))
        if data.draw(st.booleans()):
            del whole[at:]
        else:
            whole[at] ^= data.draw(st.integers(1, 255))
        file.write_bytes(whole)
        index = MemoryIndex(store)
        index.count({"m1.md": False}, 5.0)
        assert answers(index) == wanted
        assert answers(MemoryIndex(store)) == wanted
        os.utime(directory(place) / "m2.md", (1e9, 1.1e9))
        assert answers(MemoryIndex(store)) == built_anew(store)


def test_a_file_that_is_damaged_while_it_is_open_is_built_anew(file: Path) -> None:
    with FileStore(file.parent) as store:
        assert found(MemoryIndex(store), "mascot") == ["walrus.md"]
        index = MemoryIndex(store)
        assert found(index, "mascot") == ["walrus.md"]
        (store.state / INDEX_FILE).write_bytes(b"")
        assert found(index, "invoices") == ["invoices.md"]
        assert found(MemoryIndex(store), "walrus") == ["walrus.md"]


@pytest.mark.spec("M7")
def test_real_directories_are_searched_the_same_from_the_file(
    shared_data: Path, tmp_path: Path
) -> None:
    folders = sorted({file.parent for file in (shared_data / "memory-dirs-2").rglob("MEMORY.md")})
    assert folders
    for number, folder in enumerate(folders):
        copied = tmp_path / str(number) / "memory"
        shutil.copytree(folder, copied)
        with FileStore(copied) as store:
            known = MemoryIndex(store)
            known.refresh()
            for memory in store.list()[::4]:
                words = store.read(memory.path).body.split()
                for query in (memory.description, " ".join(words[:9]), " ".join(words[-5:])):
                    wanted = known.search(query, 10, now=2e9, look=False)
                    assert MemoryIndex(store).search(query, 10, now=2e9) == wanted
