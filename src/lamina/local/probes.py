"""Probes of a compaction (L4.8): what the removed span knew and the new view should still answer.

Pure and without a model: a probe is a fact with the words that must be found, and counts by how
likely it is to be needed again. So the score is an estimate of what the work to come will still find.
Every name and figure of the span is asked for, whatever a summary chose.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest
from typing import NamedTuple

from lamina.local.session_facts import SessionFacts, session_facts, words_in
from lamina.messages import Json
from lamina.text.lists import Listed

# How much each kind counts; chosen on half of the recorded compactions, roughly by how often later
# work used one of it.
KINDS = {
    "names": 4.0,
    "files": 2.0,
    "commands": 2.0,
    "numbers": 1.0,
    "constraints": 1.0,
    "tasks": 1.0,
    "errors": 0.5,
    "asked": 0.5,
}
# What a model is asked, one question a kind; its answer must hold the probes' own words.
QUESTIONS = {
    "files": "Which files were changed? Paths.",
    "names": "Which functions, classes and other names were defined or changed?",
    "numbers": "Which figures did the agent report?",
    "errors": "Which errors occurred? Their texts, word for word.",
    "constraints": "What did the user demand or forbid? Word for word.",
    "tasks": "What is still to do? Word for word.",
    "commands": "Which commands were run? Word for word.",
    "asked": "What did the user say? The beginning of each message, word for word.",
}
_ORDER = Listed("finders.demand")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class Probe(NamedTuple):
    kind: str
    question: str
    answers: Sequence[str]  # any of them, found in the view, answers it
    entry: str
    weight: float = 1.0  # among those of its kind


@dataclass(frozen=True, slots=True)
class Score:
    """Share of the probes that a view answers, by their weight, in all and by kind."""

    share: float
    by_kind: dict[str, float]
    count: int
    missed: Sequence[str]  # questions, a few, the heaviest first


def probes(entries: Iterable[Json], each: int = 12) -> list[Probe]:
    """The probes of a removed span."""
    return probes_of(session_facts(entries), each)


def probes_of(span: SessionFacts, each: int = 12) -> list[Probe]:
    """The same from what is known to have happened: all names, figures, files and commands, and up
    to `each` of every kind that has no weights."""
    return [
        *_names(span),
        *_files(span),
        *_commands(span),
        *_numbers(span),
        *_evenly(_constraints(span), each),
        *_evenly(_tasks(span), each),
        *_evenly(_errors(span), each),
        *_evenly(_asked(span), each),
    ]


def likeliest(found: Sequence[Probe], each: int = 12) -> list[Probe]:
    """The heaviest of every kind: as many as one can be asked for in words."""
    chosen: list[Probe] = []
    for kind in KINDS:
        mine = sorted((p for p in found if p.kind == kind), key=lambda p: -p.weight)
        chosen += mine[:each]
    return chosen


def score(found: Sequence[Probe], view: str) -> Score:
    """Look for every probe's answer in the text of a view."""
    text = _View(view)
    whole, kept = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0.0)
    missed: list[Probe] = []
    for probe in found:
        kind, _, answers, _, weight = probe
        whole[kind] += weight
        for answer in answers:
            if text.has(answer, kind):
                kept[kind] += weight
                break
        else:
            missed.append(probe)
    shares = {kind: kept[kind] / weight for kind, weight in whole.items() if weight}
    total = sum(KINDS[kind] for kind in shares)
    share = sum(KINDS[kind] * value for kind, value in shares.items()) / total if total else 1.0
    worst = nlargest(10, missed, key=lambda probe: probe.weight)
    return Score(share, shares, len(found), tuple(probe.question for probe in worst))


class _View:
    """The text of a view, and where its pieces stand: of thousands of answers most are not there, and
    to look for each in all of the text takes far longer than to look for a piece of it."""

    def __init__(self, view: str) -> None:
        self._text = folded(view)
        self._pieces = self._text.split(" ")
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for place, piece in enumerate(self._pieces):
            self._places[piece].append(place)
        self._ordered = sorted(self._places)
        self._once = " ".join(self._ordered)  # what has no space in it stands there too
        self.words = words_in(self._once)

    def has(self, answer: str, kind: str) -> bool:
        """Is it there? A name inside another, or a number inside another number, is not."""
        if kind == "names" or (kind == "numbers" and answer.isalnum()):
            return answer.casefold() in self.words
        text, pieces, words = _read(answer)
        if kind != "numbers":
            return self._has_all(pieces) if len(pieces) > 1 else text in self._once
        return self.words.issuperset(words) and self._has_number(text)

    def _has_number(self, answer: str) -> bool:
        text, at = self._text, self._text.find(answer)
        while at >= 0:
            before, after = text[max(0, at - 1) : at], text[at + len(answer) : at + len(answer) + 1]
            if not before.isdigit() and not (after.isdigit() and answer[-1].isdigit()):
                return True
            at = text.find(answer, at + 1)
        return False

    def _has_all(self, pieces: Sequence[str]) -> bool:
        """Whether they stand there one after the other: the first may end a longer one, the last begin
        one, those between are whole."""
        found, end = self._pieces, len(pieces) - 1
        first, last = pieces[0], pieces[end]
        if end == 1:
            for place in self._beginning(last):
                if place and found[place - 1].endswith(first):
                    return True
            return False
        whole = pieces[1:end]
        rare = min(whole, key=lambda piece: len(self._places.get(piece, ())))
        starts = [place - 1 - whole.index(rare) for place in self._places.get(rare, ())]
        return any(
            found[start].endswith(first)
            and found[start + end].startswith(last)
            and found[start + 1 : start + end] == whole
            for start in starts
            if 0 <= start < len(found) - end
        )

    def _beginning(self, letters: str) -> list[int]:
        """Places of the pieces that begin with these."""
        ordered, places = self._ordered, list[int]()
        for at in range(bisect_left(ordered, letters), len(ordered)):
            if not ordered[at].startswith(letters):
                break
            places += self._places[ordered[at]]
        return places


@lru_cache(maxsize=16_384)
def _read(answer: str) -> tuple[str, list[str], frozenset[str]]:
    """As it is looked for, its pieces and its words. The same ones are looked for again and again."""
    text = folded(answer)
    return text, text.split(" "), words_in(text)


def folded(text: str) -> str:
    """Case and white space don't count."""
    return " ".join(text.split()).casefold()


def _evenly(items: list[Probe], most: int) -> list[Probe]:
    if len(items) <= most:
        return items
    return [items[i * len(items) // most] for i in range(most)]


def _files(span: SessionFacts) -> list[Probe]:
    newest = sorted(span.files.values(), key=lambda file: -file.order)
    return [
        Probe(
            "files",
            f"Which file was {'changed' if file.changes else 'read'} ({file.path})?",
            [_tail(file.path)],
            file.entry,
            (3.0 if file.changes else 1.0) * rank**-0.5,
        )
        for rank, file in enumerate(newest, 1)
    ]


def _tail(path: str) -> str:
    """The last two parts of a path name it well enough."""
    return "/".join(path.rstrip("/").split("/")[-2:])


def _names(span: SessionFacts) -> list[Probe]:
    return [
        Probe(
            "names",
            f"Which name{f' in {m.file}' if m.file else ''}: {name}?",
            [name],
            m.entry,
            m.weight**1.5,
        )
        for name, m in span.mentioned.names.items()
    ]


def _numbers(span: SessionFacts) -> list[Probe]:
    return [
        Probe("numbers", f"Which figure: {m.words or figure}?", [figure], m.entry, m.weight**1.5)
        for figure, m in span.mentioned.figures.items()
    ]


def _errors(span: SessionFacts) -> list[Probe]:
    seen: dict[str, Probe] = {}
    for failure in span.failures:
        words = failure.text[:60].strip()
        if len(words) >= 12:
            seen.setdefault(
                words, Probe("errors", f"Which error: {words}?", [words], failure.entry)
            )
    return list(seen.values())


def _constraints(span: SessionFacts) -> list[Probe]:
    return [
        Probe("constraints", f"What did the user demand: {words}?", [words], said.entry)
        for said in span.asked
        for words in _demands(said.text)
    ]


@lru_cache(maxsize=4_096)
def _demands(text: str) -> list[str]:
    found = [sentence.strip() for sentence in _SENTENCE.split(text)]
    return [words for words in found if 12 <= len(words) <= 240 and _ORDER.search(words)]


def _tasks(span: SessionFacts) -> list[Probe]:
    return [Probe("tasks", f"What is still to do: {what}?", [what], "") for what in span.open_tasks]


def _commands(span: SessionFacts) -> list[Probe]:
    newest = [ran for ran in reversed(span.commands) if len(ran.command) >= 8]
    return [
        Probe(
            "commands",
            f"Which command ran: {ran.command[:60]}?",
            [ran.command[:60]],
            ran.entry,
            ran.runs * rank**-0.5,
        )
        for rank, ran in enumerate(newest, 1)
    ]


def _asked(span: SessionFacts) -> list[Probe]:
    return [
        Probe("asked", f"What did the user say: {said.text[:40]}?", [said.text[:60]], said.entry)
        for said in span.asked
        if len(said.text) >= 8
    ]
