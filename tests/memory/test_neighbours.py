"""The near-duplicate search looks at few memories and answers as if it had compared with all."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.errors import GateRefused
from lamina.memories import Memory
from lamina.memory.file_store import FileStore
from lamina.memory.known_memories import ALIKE, Listed, Neighbours, joined, stems_said
from lamina.testing import a_memory

# Few words, some of them in nearly every text, so that texts of every likeness come up.
_WORDS = [f"word{number}" for number in range(40)]
_TEXT = st.lists(st.one_of(st.sampled_from(_WORDS[:12]), st.sampled_from(_WORDS)), max_size=30).map(
    " ".join
)


def _memory(path: str, body: str) -> Memory:
    return Memory(path=path, name="", description="", type=None, body=body)


@examples(300)
@given(
    texts=st.lists(_TEXT, max_size=12),
    asked=_TEXT,
    again=st.lists(st.tuples(st.integers(0, 11), st.none() | _TEXT), max_size=6),
    before=st.integers(0, 4),
)
def test_the_answer_is_that_of_comparing_with_every_memory(
    texts: list[str], asked: str, again: list[tuple[int, str | None]], before: int
) -> None:
    neighbours = Neighbours(ALIKE)
    there = {f"m{number}.md": text for number, text in enumerate(texts)}
    for path, text in there.items():
        neighbours.put(path, joined(stems_said("", text)))
    for _ in range(before):  # who asks often gets answers in another way
        neighbours.nearest(stems_said("", asked))
    for number, text in again:  # changed and removed
        path = f"m{number}.md"
        if text is None:
            there.pop(path, None)
            neighbours.drop(path)
        else:
            there[path] = text
            neighbours.put(path, joined(stems_said("", text)))
    stems = stems_said("", asked)
    plain = {path: _likeness(stems, stems_said("", text)) for path, text in there.items()}
    best = max(plain.values(), default=0.0)
    at = min((path for path, likeness in plain.items() if likeness == best), default="")
    expected = (at, best) if best >= ALIKE else ("", 0.0)
    assert neighbours.nearest(stems) == expected
    assert Listed([_memory(path, text) for path, text in there.items()]).nearest(stems) == expected


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


def test_a_memory_that_was_replaced_thousands_of_times_is_found_by_its_last_words() -> None:
    neighbours = Neighbours(ALIKE)
    for number in range(3000):
        neighbours.put("one.md", joined({f"a{number}", f"b{number}"}))
    assert neighbours.nearest(frozenset({"a2999", "b2999"})) == ("one.md", 1.0)
    assert neighbours.nearest(frozenset({"a7", "b7"})) == ("", 0.0)


BODY = "The nightly export of invoices runs at three and mails its report to accounting."


def _twin(store: FileStore) -> str:
    proposal = a_memory("other.md", description="Nightly export", body=BODY, writer="user")
    return store.judge(proposal, None, None).update_of


@pytest.mark.spec("L5.6")
def test_the_next_process_knows_the_words_without_reading_the_files(tmp_path: Path) -> None:
    directory = tmp_path / "memory"
    with FileStore(directory) as store:
        store.remember(a_memory("export.md", description="Nightly export", body=BODY))
    # Older than a tick of the clock, so that its words may be kept.
    os.utime(directory / "export.md", (1.7e9, 1.7e9))
    with FileStore(directory) as store:
        assert _twin(store) == "export.md"
    with FileStore(directory) as store:
        index = store.scanner.index
        words = index.stems(["export.md"])["export.md"].split("\0")
        assert "export" in words
        keys, amounts = index.wordings()
        assert ([*keys], amounts) == (["export.md"], [len(words)])
        assert _twin(store) == "export.md"
    with sqlite3.connect(store.state / "headers.sqlite") as database:
        database.execute("delete from stems")
    with FileStore(directory) as store:  # what the index lost, the file still says
        assert _twin(store) == "export.md"


@pytest.mark.spec("L5.6")
def test_what_the_very_first_write_learns_of_a_directory_is_kept(tmp_path: Path) -> None:
    directory = tmp_path / "memory"
    directory.mkdir()
    (directory / "old.md").write_text("The harbour crane is painted every spring.\n")
    os.utime(directory / "old.md", (1.7e9, 1.7e9))
    with FileStore(directory) as store:
        store.remember(a_memory("export.md", description="Nightly export", body=BODY))
    with FileStore(directory) as store:
        assert "old.md" in store.scanner.index.wordings()[0]


@pytest.mark.spec("L5.6")
def test_words_kept_from_before_an_edit_in_place_do_not_count(tmp_path: Path) -> None:
    directory = tmp_path / "memory"
    with FileStore(directory) as store:
        store.remember(a_memory("export.md", description="Nightly export", body=BODY))
    file = directory / "export.md"
    os.utime(file, (1.7e9, 1.7e9))
    with FileStore(directory) as store:
        assert _twin(store) == "export.md"
    text = file.read_text().replace("Nightly export", "Cats purr here")
    with file.open("r+") as opened:  # the same file, not a new one in its place
        opened.write(text.replace(BODY, "Cats, and only cats, sleep for most of the whole day."))
        opened.truncate()
    with FileStore(directory) as store:
        assert _twin(store) == ""


@pytest.mark.spec("L5.6")
def test_what_another_process_wrote_a_moment_ago_is_a_near_duplicate(tmp_path: Path) -> None:
    directory = tmp_path / "memory"
    agent = dataclasses.replace(
        a_memory("twin.md", description="Nightly export", body=BODY), writer="agent"
    )
    with FileStore(directory) as one, FileStore(directory) as other:
        one.remember(a_memory("first.md", description="Cats", body="Cats sleep all day."))
        other.remember(a_memory("export.md", description="Nightly export", body=BODY))
        with pytest.raises(GateRefused, match=r"export\.md says the same already"):
            one.write(agent)
        again = one.remember(agent)
        assert (again.path, again.changed) == ("export.md", False)


@pytest.mark.spec("L5.6")
def test_a_forgotten_memory_leaves_no_words_in_the_derived_index(tmp_path: Path) -> None:
    directory = tmp_path / "memory"
    with FileStore(directory) as store:
        store.remember(a_memory("export.md", description="Nightly export", body=BODY))
    os.utime(directory / "export.md", (1.7e9, 1.7e9))
    with FileStore(directory) as store:
        assert _twin(store) == "export.md"
        store.forget("export.md")
    with FileStore(directory) as store:
        assert store.scanner.index.wordings() == ({}, [])
        assert store.scanner.index.stems(["export.md"]) == {}
    for file in store.state.glob("headers.sqlite*"):
        assert b"invoic" not in file.read_bytes()
