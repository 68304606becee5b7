"""The derived index: documents come and go as if it had been built anew, and on disk it gives the same
answers after loading and does no harm when the file is bad."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.documents import documents, rows_of
from tests.examples import examples

from lamina.errors import StorageError
from lamina.recall.index_files import load, save
from lamina.recall.kept import Apart, Names
from lamina.recall.postings import Postings
from lamina.recall.rank import Document, Ranker
from lamina.recall.turns import Turn, TurnIndex
from lamina.text.terms import spaced, terms


@given(documents, st.sets(st.integers(0, 7)))
def test_an_index_that_lost_documents_equals_one_that_never_had_them(
    many: list[tuple[str, str]], gone: set[int]
) -> None:
    index, other = Postings(2), Postings(2)
    for number, both in enumerate(many):
        index.add([spaced(text) for text in both])
        if number not in gone:
            other.add([spaced(text) for text in both])
    for place in gone:
        if place < len(many):
            index.remove(place)
    for term in {term for both in many for text in both for term in terms(text)}:
        assert index.holders(term) == other.holders(term)
        for field in range(2):
            assert (index.find(term, field) is None) == (other.find(term, field) is None)
    assert index.lengths(0)[1] == other.lengths(0)[1]
    index.sweep()
    assert rows_of(index) == rows_of(other)
    assert set(index.words) == set(other.words)
    again = Postings.from_state(2, index.to_state())
    assert rows_of(again) == rows_of(other)


def test_what_comes_later_is_found_beside_what_was_there() -> None:
    index = Postings(1)
    for number in range(200):
        index.add([spaced(f"tent number{number}")])
        assert index.holders("tent") == number + 1
    found = index.find("tent", 0)
    assert found is not None
    assert found[0].tolist() == list(range(200))
    assert found[1].tolist() == [1.0] * 200


def test_a_saved_index_that_contradicts_itself_is_refused() -> None:
    index = Postings(1)
    index.add([spaced("red tent")])
    state = index.to_state()
    with pytest.raises(ValueError, match="does not exist"):
        Postings.from_state(1, {**state, "words": Names.state_of(["red"], sought=True)})
    with pytest.raises(ValueError, match="add up"):
        Postings.from_state(1, {**state, "words": {**state["words"], "text": Apart(b"redtents")}})
    with pytest.raises(ValueError, match="add up"):
        Postings.from_state(1, {**state, "rows": {**state["rows"], "keys": b""}})
    with pytest.raises(ValueError, match="out of order"):
        Postings.from_state(1, {**state, "rows": {**state["rows"], "ends": b""}})


DOCUMENTS = [
    Document("a.md", "Database", "where it runs", "Oslo, since 2024", "project", 5.0, 2),
    Document("b.md", "Style", "tabs", "数据库 uses tabs", "feedback", 9.5),
]


def ranker(documents: list[Document]) -> Ranker:
    index = Ranker()
    for document in documents:
        index.add(document)
    return index


def test_a_loaded_index_answers_the_same_and_goes_on(tmp_path: Path) -> None:
    index = ranker([*DOCUMENTS, Document("gone.md", body="database")])
    index.remove("gone.md")
    save(index, tmp_path / "deep" / "recall.index")
    loaded = load(Ranker, tmp_path / "deep" / "recall.index")
    assert loaded is not None
    for question in ("database in Oslo", "数据库", "tabs", "gone"):
        assert loaded.search(question, now=9.0) == index.search(question, now=9.0)
    loaded.add(Document("c.md", body="a new database"))
    index.add(Document("c.md", body="a new database"))
    assert loaded.search("database", now=9.0) == index.search("database", now=9.0)
    assert os.listdir(tmp_path / "deep") == ["recall.index"]


def test_sessions_are_saved_too(tmp_path: Path) -> None:
    index = TurnIndex()
    index.add(Turn("1", "s", "the boat sank", "Alma", 5.0))
    save(index, tmp_path / "sessions.index")
    loaded = load(TurnIndex, tmp_path / "sessions.index")
    assert loaded is not None
    assert loaded.search("boat", now=9.0) == index.search("boat", now=9.0)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"lamina-recall-index\n"])
def test_a_foreign_or_missing_file_is_not_taken(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "recall.index"
    assert load(Ranker, path) is None
    path.write_bytes(content)
    assert load(Ranker, path) is None


@examples(40)
@given(data=st.data())
def test_a_damaged_file_is_not_taken(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("index") / "recall.index"
    save(ranker(DOCUMENTS), path)
    whole = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(whole[:place])
    else:
        whole[place] ^= data.draw(st.integers(1, 255))
        path.write_bytes(whole)
    assert load(Ranker, path) is None


def test_one_kind_of_index_is_not_taken_for_the_other(tmp_path: Path) -> None:
    save(ranker(DOCUMENTS), tmp_path / "x")
    assert load(TurnIndex, tmp_path / "x") is None


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(StorageError, match="file is not a directory"):
        save(ranker(DOCUMENTS), blocked / "recall.index")
    (tmp_path / "x").mkdir()
    with pytest.raises(StorageError, match="could not be written"):
        save(ranker(DOCUMENTS), tmp_path / "x")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "x"]


def test_an_index_is_its_owners_alone(tmp_path: Path) -> None:
    save(ranker(DOCUMENTS), tmp_path / "new" / "recall.index")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "recall.index").stat().st_mode & 0o777 == 0o600


def test_what_a_killed_process_left_half_written_is_cleared_away(tmp_path: Path) -> None:
    old, fresh = tmp_path / "recall.index.7.tmp", tmp_path / "recall.index.8.tmp"
    other = tmp_path / "other.9.tmp"
    for file in (old, fresh, other):
        file.write_bytes(b"half")
    for file in (old, other):
        os.utime(file, (1.0, 1.0))
    save(ranker(DOCUMENTS), tmp_path / "recall.index")
    left = ["other.9.tmp", "recall.index", "recall.index.8.tmp"]
    assert sorted(one.name for one in tmp_path.iterdir()) == left
    assert load(Ranker, tmp_path / "recall.index") is not None


def test_threads_that_save_at_once_leave_one_whole_index(tmp_path: Path) -> None:
    path = tmp_path / "recall.index"
    indexes = [ranker(DOCUMENTS) for _ in range(24)]  # one index is for one thread at a time
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda index: save(index, path), indexes))
    assert load(Ranker, path) is not None
    assert [one.name for one in tmp_path.iterdir()] == ["recall.index"]
