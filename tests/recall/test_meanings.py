"""Recall by meaning, where a model of sentences is installed: texts are read once, in a thread, and
kept by their hash; without one nothing changes. Most tests have a model of their own, whose words
mean one thing or the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.memories import put
from tests.sessions import Place

from lamina.local import embedder
from lamina.local.embedder import Meanings, SentenceModel, has_sentence_model, sentence_model
from lamina.memory.file_store import FileStore
from lamina.recall import index_files
from lamina.recall.index_files import MeaningFile
from lamina.recall.memory_index import MEANINGS_FILE, MemoryIndex, fitting
from lamina.recall.rank import Document, Ranker
from lamina.recall.transcripts import TranscriptIndex
from lamina.recall.turns import Turn, TurnIndex

SAME = [["walrus", "mammal"], ["invoice", "bill"], ["ada"], ["##s"]]
WORDS = {word: 1_000 + row for row, word in enumerate(word for same in SAME for word in same)}
MEANS = {WORDS[word]: row for row, same in enumerate(SAME) for word in same}


class Session:
    """Gives each word's meaning a direction of its own."""

    def __init__(self) -> None:
        self.read = 0

    def run(self, _: None, given: dict[str, Any]) -> list[Any]:
        tokens = given["input_ids"]
        self.read += len(tokens)
        states = np.zeros((*tokens.shape, 6, 64), dtype=np.float32)
        states[:, :, 4] = 0.01
        for row, place in np.argwhere(tokens >= 1_000):
            states[row, place, MEANS[int(tokens[row, place])]] = 1
        return [states.reshape(*tokens.shape, 384)]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    session = Session()
    model = SentenceModel(session, WORDS)
    monkeypatch.setattr(index_files, "sentence_model", lambda: model)
    monkeypatch.setattr(index_files, "has_sentence_model", lambda: True)
    return session


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = Place(tmp_path)
    put(place, "bills.md", "invoice")
    return put(place, "mascot.md", "walrus")


def found(index: MemoryIndex, words: str) -> list[str]:
    return [hit.id for hit in index.search(words, 1, now=0.0, seconds=30)]


@pytest.mark.spec("M7")
def test_a_memory_without_a_word_of_the_question_is_found_by_its_meaning(
    file: Path, session: Session
) -> None:
    index = MemoryIndex(FileStore(file.parent))
    assert found(index, "mammal") == ["mascot.md"]
    assert [memory.path for _, memory in fitting(index, "mammal", 5, 0.0)] == ["mascot.md"]


def test_without_the_model_the_words_alone_rank(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_files, "sentence_model", lambda: None)
    index = MemoryIndex(FileStore(file.parent))
    hits = index.search("walrus", 5, now=0.0)
    assert "meaning" not in hits[0].parts
    assert not (index.store.state / MEANINGS_FILE).exists()


def test_a_text_is_read_once_by_whatever_process_and_however_it_moves(
    file: Path, session: Session
) -> None:
    store = FileStore(file.parent)
    assert found(MemoryIndex(store), "mammal") == ["mascot.md"]
    read = session.read
    file.rename(file.with_name("mascot_2.md"))
    assert found(MemoryIndex(store), "mammal") == ["mascot_2.md"]
    assert session.read == read + 1  # the question


def test_a_memory_that_changed_means_what_it_says_now(file: Path, session: Session) -> None:
    store = FileStore(file.parent)
    assert found(MemoryIndex(store), "mammal") == ["mascot.md"]
    file.write_text(file.read_text().replace("walrus", "invoice"))
    (file.parent / "bills.md").unlink()
    hits = MemoryIndex(store).search("mammal bill", 5, now=0.0, seconds=30)
    assert [hit.id for hit in hits] == ["mascot.md"]
    assert MemoryIndex(store).search("mammal", 5, now=0.0, seconds=30) == []


@pytest.mark.spec("M7")
def test_nothing_of_a_purged_memory_stays_in_the_file(file: Path, session: Session) -> None:
    store = FileStore(file.parent)
    index = MemoryIndex(store)
    assert found(index, "mammal") == ["mascot.md"]
    kept = (store.state / MEANINGS_FILE).read_bytes()
    file.unlink()
    MemoryIndex(store).drop_the_gone()
    left = (store.state / MEANINGS_FILE).read_bytes()
    assert b"mascot" in kept
    assert b"mascot" not in left
    assert len(left) < len(kept) - 384


def test_a_search_that_does_not_wait_is_answered_with_what_is_read(
    file: Path, session: Session
) -> None:
    index = MemoryIndex(FileStore(file.parent))
    index.refresh()
    assert index.quick
    assert [hit.id for hit in index.search("walrus", 1, now=0.0)] == ["mascot.md"]


def said(folder: Path, session: str, *texts: str) -> None:
    rows = [
        {"type": "user", "uuid": str(row), "message": {"role": "user", "content": text}}
        for row, text in enumerate(texts)
    ]
    (folder / f"{session}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.spec("M7")
def test_what_was_said_is_found_by_its_meaning_and_its_reading_is_told(
    tmp_path: Path, session: Session
) -> None:
    said(tmp_path, "one", "the invoice came today", "we saw a walrus")
    told: list[tuple[int, int]] = []
    past = TranscriptIndex(tmp_path)
    hits = past.search("mammal", 1, now=0.0, seconds=30, meaning=lambda a, b: told.append((a, b)))
    assert [hit.text for hit in hits] == ["we saw a walrus"]
    assert told[-1] == (2, 2)
    assert past.unread == 0
    said(tmp_path, "two", "we saw a walrus", "the invoice came today")
    (tmp_path / "two.jsonl").rename(tmp_path / "one.jsonl")
    again = TranscriptIndex(tmp_path).search("bill", 1, now=0.0, seconds=30)
    assert [hit.text for hit in again] == ["the invoice came today"]


def test_the_name_of_a_speaker_says_nothing_of_what_a_turn_means() -> None:
    model = SentenceModel(Session(), WORDS)
    index = TurnIndex()
    for turn in (Turn("1", "s", "Ada, ada!", "Bob"), Turn("2", "s", "a walrus", "Ada")):
        index.add(turn)
    index.meanings = Meanings(model)
    index.meanings.add({"1": "Ada, ada!", "2": "a walrus"})
    parts = {hit.id: hit.parts["meaning"] for hit in index.search("Ada's mammal", now=0.0)}
    assert parts["2"] > 0.4 > parts.get("1", 0.0)


def test_the_parts_add_up_with_meaning_too() -> None:
    ranker = Ranker()
    ranker.meanings = Meanings(SentenceModel(Session(), WORDS))
    texts = {"a": "walrus", "b": "invoice", "c": "walrus invoice"}
    for id_, text in texts.items():
        ranker.add(Document(id_, body=text))
    ranker.meanings.add(texts)
    ranker.remove("b")
    hits = ranker.search("mammal bill", now=0.0)
    assert [hit.id for hit in hits] == ["c", "a"]
    assert all(hit.score == pytest.approx(sum(hit.parts.values())) for hit in hits)


def test_a_file_that_is_torn_is_made_again(tmp_path: Path, session: Session) -> None:
    path = tmp_path / "x.meanings"
    path.write_bytes(b"torn")
    meanings = MeaningFile(path, {"a": "walrus"}.get).of(["a"], seconds=30)
    assert meanings is not None
    assert meanings.near("mammal", ["a"])[0] > 0.3
    assert len(Meanings.from_state(meanings.to_state())) == 1


def test_a_text_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, session: Session
) -> None:
    texts = {"a": "walrus"}

    def read(id_: str) -> str:
        text = texts[id_]
        if text == "walrus":
            texts["a"] = "invoice"
            file.forget(["a"])
        return text

    file = MeaningFile(tmp_path / "x.meanings", read)
    file.of(["a"], seconds=30)
    meanings = file.of(["a"], seconds=30)
    assert meanings is not None
    assert meanings.near("bill", ["a"])[0] > 0.9


_LEAVES = """
import atexit, sys, threading
from pathlib import Path
from lamina.recall import index_files
from tests.recall.test_meanings import WORDS, Session
from lamina.local.embedder import SentenceModel

ends = threading.Event()
class Slow(Session):
    def run(self, *given):
        assert ends.wait(30)
        return super().run(*given)

model = SentenceModel(Slow(), WORDS)
index_files.sentence_model = lambda: model
texts = {str(number): "walrus" for number in range(20)}
index_files.MeaningFile(Path(sys.argv[1]), texts.get).of(texts, seconds=0)
atexit.register(ends.set)
"""


def test_a_process_that_ends_waits_for_the_model_and_keeps_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "x.meanings"
    command = [sys.executable, "-c", _LEAVES, str(path)]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
    kept = index_files.load(Meanings, path)
    assert kept is not None
    assert "0" in kept


def test_long_texts_are_read_in_pieces_of_whole_sentences() -> None:
    model = SentenceModel(Session(), WORDS)
    pieces = model.texts(["walrus " * 40 + ". " + "invoice " * 40 + ".", "", "bill " * 1_000])
    assert [len(rows) for rows in pieces] == [2, 0, 4]


def test_signs_accents_and_chinese_are_taken_apart_as_the_model_learned_them() -> None:
    words = ["naive", "cafe", "'", "漢", "字", "60", "##°", "[", "]"]
    model = SentenceModel(Session(), {word: row for row, word in enumerate(words, 1)})
    tokens = [*model._tokens("Naïve café's 漢字 60° [x]")]
    assert tokens == [1, 2, 3, 100, 4, 5, 6, 7, 8, 100, 9]


def test_another_file_in_place_of_the_model_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedder, "has_sentence_model", lambda: True)
    monkeypatch.setattr(embedder, "import_module", lambda _: None)
    monkeypatch.setattr(embedder, "files", lambda _: Path(__file__).parent)
    assert sentence_model.__wrapped__() is None


def test_the_runtime_is_loaded_with_its_telemetry_off(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str | None] = []
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "")  # so that it is put back
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY")
    monkeypatch.setattr(embedder, "has_sentence_model", lambda: True)
    monkeypatch.setattr(
        embedder, "import_module", lambda _: told.append(os.environ.get("ORT_DISABLE_TELEMETRY"))
    )
    monkeypatch.setattr(embedder, "files", lambda _: Path(__file__).parent)
    sentence_model.__wrapped__()
    assert told == ["1"]


@pytest.mark.skipif(not has_sentence_model(), reason="the extra lamina[semantic] is not installed")
def test_the_real_model_knows_what_is_meant() -> None:
    model = sentence_model()
    assert model is not None
    asked = model.question("Where does she earn her living?")
    job, train = (model.question(text) for text in ("Her job is at a bakery", "The train was late"))
    assert asked @ job > asked @ train + 0.2 * 512**2
