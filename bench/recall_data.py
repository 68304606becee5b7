"""Reads the data that the recall benchmark measures on: LoCoMo's conversations, LongMemEval's
evidence turns, real memory directories with our own questions. Only reads; nothing is copied."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("LAMINA_DATA") or ROOT.parent / "shared" / "data")


@dataclass(frozen=True)
class Question:
    text: str
    expected: frozenset[str]  # ids of the turns or files that answer it
    kind: str = ""
    asked: float = 0.0  # when, as a timestamp; 0 where the data has no time
    id: str = ""  # as the data names it


@dataclass(frozen=True)
class Item:
    """A dialogue turn."""

    id: str
    text: str
    speaker: str = ""
    session: str = ""
    said: float = 0.0
    date: str = ""

    @property
    def whole(self) -> str:
        """What a plain search engine is given: date, speaker, words."""
        return f"{self.date} {self.speaker}: {self.text}"


@dataclass(frozen=True)
class Corpus:
    name: str
    items: tuple[Item, ...]
    questions: tuple[Question, ...]
    people: frozenset[str] = frozenset()
    unanswerable: Sequence[str] = ()  # questions that nothing here answers


def _timestamp(text: str, form: str) -> float:
    return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()


def _turns(conversation: dict[str, Any], name: str) -> list[Item]:
    turns: list[Item] = []
    number = 1
    said_in: list[dict[str, Any]]
    while f"session_{number}_date_time" in conversation:
        date = conversation[f"session_{number}_date_time"]
        said = _timestamp(date, "%I:%M %p on %d %B, %Y")
        said_in = conversation.get(f"session_{number}") or []
        for turn in said_in:
            caption = turn.get("blip_caption")
            text = turn["text"] + (f" [picture: {caption}]" if caption else "")
            turns.append(
                Item(
                    f"{name}/{turn['dia_id']}",
                    text,
                    turn["speaker"],
                    f"{name}/{number}",
                    said,
                    date,
                )
            )
        number += 1
    return turns


@cache
def locomo() -> list[Corpus]:
    """Ten conversations; questions of all kinds but the adversarial ones, with evidence."""
    corpora: list[Corpus] = []
    for conversation in json.loads((DATA / "locomo" / "locomo10.json").read_text()):
        name = conversation["sample_id"]
        turns = _turns(conversation["conversation"], name)
        known = {turn.id for turn in turns}
        questions: list[Question] = []
        for entry in conversation["qa"]:
            named = {
                f"{name}/{found}"
                for evidence in entry.get("evidence", [])
                for found in re.findall(r"D\d+:\d+", evidence)
            }
            if entry["category"] != 5 and named & known:
                questions.append(
                    Question(entry["question"], frozenset(named & known), str(entry["category"]))
                )
        people = frozenset(turn.speaker for turn in turns)
        strange = [entry["question"] for entry in conversation["qa"] if entry["category"] == 5]
        corpora.append(Corpus(name, tuple(turns), tuple(questions), people, strange))
    return corpora


@cache
def longmemeval() -> Corpus:
    """Evidence turns of all questions in one pool. Turns stand alone: what surrounded them is not
    in the data, and the fact that two are evidence of one question must not help."""
    turns: dict[str, Item] = {}
    questions: list[Question] = []
    strange: list[str] = []
    path = DATA / "longmemeval" / "longmemeval_evidence500.json"
    for entry in json.loads(path.read_text()):
        if entry["question_id"].endswith("_abs"):
            strange.append(entry["question"])
        found: set[str] = set()
        for session in entry["evidence_sessions"]:
            date = re.sub(r"\s*\(\w+\)", "", session["date"])
            for turn in session["turns"]:
                id_ = f"t{len(turns)}"
                item = Item(
                    id_,
                    turn["content"],
                    turn["role"],
                    id_,
                    _timestamp(date, "%Y/%m/%d %H:%M"),
                    date,
                )
                found.add(turns.setdefault(turn["content"], item).id)
        if found:
            asked = re.sub(r"\s*\(\w+\)", "", entry["question_date"])
            questions.append(
                Question(
                    entry["question"],
                    frozenset(found),
                    entry["question_type"],
                    _timestamp(asked, "%Y/%m/%d %H:%M"),
                    entry["question_id"],
                )
            )
    return Corpus("longmemeval", tuple(turns.values()), tuple(questions), unanswerable=strange)


# What asks for the order of events, or for a summary, is answered by a dozen turns and more.
_WHOLE_TALK = frozenset({"event_ordering", "summarization"})


@cache
def beam() -> list[Corpus]:
    """Twenty chats of a user with an assistant; 279 questions of the kinds that a few turns answer,
    and two for each chat that nothing in it does."""
    corpora: list[Corpus] = []
    for path in sorted((DATA / "beam-100k").glob("*.json")):
        chat = json.loads(path.read_text())
        items = tuple(
            Item(turn["id"], turn["text"], turn["role"], turn["session"], _day(turn), turn["date"])
            for turn in chat["turns"]
        )
        known = {item.id for item in items}
        questions = tuple(
            Question(entry["question"], found, entry["kind"])
            for entry in chat["questions"]
            if entry["kind"] not in _WHOLE_TALK and (found := frozenset(entry["evidence"]) & known)
        )
        corpora.append(Corpus(path.stem, items, questions, unanswerable=chat["unanswerable"]))
    return corpora


def _day(turn: dict[str, Any]) -> float:
    return _timestamp(turn["date"].replace("-", " "), "%B %d %Y")


@dataclass(frozen=True)
class MemoryFile:
    directory: str
    path: str
    name: str
    description: str
    type: str
    body: str
    mtime: float = 0.0

    @property
    def whole(self) -> str:
        return f"{self.path} {self.name} {self.description} {self.body}"


def _memory_file(directory: str, path: Path) -> MemoryFile:
    text = path.read_text()
    head: dict[str, str] = {}
    if text.startswith("---\n"):
        front, _, text = text[4:].partition("\n---\n")
        for line in front.splitlines():
            key, _, value = line.strip().partition(":")
            head[key] = value.strip().strip('"')
    return MemoryFile(
        directory,
        path.name,
        head.get("name", ""),
        head.get("description", ""),
        head.get("type", ""),
        text,
    )


@cache
def memory_directories() -> dict[str, list[MemoryFile]]:
    """Topic files of each real directory; the index file is not a memory."""
    found: dict[str, list[MemoryFile]] = {}
    for path in sorted((DATA / "memory-dirs").glob("*/.claude/memory/*.md")):
        if path.name != "MEMORY.md":
            directory = path.parts[-4]
            found.setdefault(directory, []).append(_memory_file(directory, path))
    return found


@cache
def memory_questions() -> list[tuple[str, Question]]:
    """(directory, question) for each of our own questions; ids are `directory/file`."""
    listed = json.loads((ROOT / "bench" / "data" / "memory_questions.json").read_text())
    return [
        (
            entry["dir"],
            Question(
                entry["question"],
                frozenset(f"{entry['dir']}/{name}" for name in entry["files"]),
            ),
        )
        for entry in listed["questions"]
    ]


def _service_calls() -> Iterator[Item]:
    for path in sorted((DATA / "tau-bench").glob("*.json")):
        for number, run in enumerate(json.loads(path.read_text())):
            for place, message in enumerate(run["traj"]):
                text = message.get("content")
                if message["role"] in ("user", "assistant") and text:
                    session = f"tau/{path.stem}/{number}"
                    yield Item(f"{session}/{place}", text, message["role"], session)


def _coding_sessions() -> Iterator[Item]:
    for path in sorted((DATA / "claude-code-sessions").glob("*.jsonl")):
        for place, line in enumerate(path.read_text().splitlines()):
            message: Any = json.loads(line).get("message") or {}
            blocks: Any = message.get("content")
            first: Any = blocks[0] if blocks and not isinstance(blocks, str) else {}
            if first.get("type") == "text" and first["text"].strip():
                session = f"code/{path.stem}"
                yield Item(f"{session}/{place}", first["text"][:2_000], message["role"], session)


@cache
def mixed(size: int = 10_000) -> Corpus:
    """All of LoCoMo's turns among LongMemEval's, service calls and coding sessions."""
    items = [turn for corpus in locomo() for turn in corpus.items]
    questions = tuple(question for corpus in locomo() for question in corpus.questions)
    items += [*longmemeval().items, *_service_calls(), *_coding_sessions()]
    return Corpus("mix", tuple(items[:size]), questions)


# Of each set every so many-th question, so that none outweighs the others.
TOGETHER = {"LoCoMo": 16, "LongMemEval": 4, "BEAM": 2}


@cache
def together() -> Corpus:
    """One store that holds all of this talk at once; each question's kind is the set that asks it."""
    sets = {"LoCoMo": locomo(), "LongMemEval": [longmemeval()], "BEAM": beam()}
    items, questions = list[Item](), list[Question]()
    for name, corpora in sets.items():
        asked = list[Question]()
        for corpus in corpora:
            items += corpus.items
            latest = max(item.said for item in corpus.items) + 86_400.0
            asked += [replace(q, kind=name, asked=q.asked or latest) for q in corpus.questions]
        questions += asked[:: TOGETHER[name]]
    items += [*_service_calls(), *_coding_sessions()]
    return Corpus("together", tuple(items), tuple(questions))
