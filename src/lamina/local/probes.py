"""Probes of a compaction (L4.8): what the removed span knew and the new view should still answer.

Pure and without a model: a probe is a fact with the words that must be found, and counts by how
likely it is to be needed again. So the score is an estimate of what the work to come will still find.
Every name and figure of the span is asked for, whatever a summary chose.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lamina.local.session_facts import SessionFacts, in_order, session_facts, words_in
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


@dataclass(frozen=True, slots=True)
class Probe:
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
    text = _View.of(view)
    whole: dict[str, float] = {}
    kept: dict[str, float] = {}
    missed: list[Probe] = []
    for probe in found:
        kind, weight = probe.kind, probe.weight
        whole[kind] = whole.get(kind, 0.0) + weight
        for answer in probe.answers:
            if text.has(answer, kind):
                kept[kind] = kept.get(kind, 0.0) + weight
                break
        else:
            missed.append(probe)
    shares = {kind: kept.get(kind, 0.0) / whole[kind] for kind in KINDS if kind in whole}
    total = sum(KINDS[kind] for kind in shares)
    share = sum(KINDS[kind] * value for kind, value in shares.items()) / total if total else 1.0
    missed.sort(key=lambda probe: -probe.weight)
    return Score(share, shares, len(found), tuple(probe.question for probe in missed[:10]))


@dataclass(frozen=True, slots=True)
class _View:
    """The text of a view, and its words: most of what is missing is known by these."""

    text: str
    words: frozenset[str]
    ordered: list[str]

    @classmethod
    def of(cls, view: str) -> _View:
        text = folded(view)
        words = words_in(text)
        return cls(text, words, sorted(words))

    def has(self, answer: str, kind: str) -> bool:
        """Is it there? A name inside another, or a number inside another number, is not."""
        if kind == "names" or (kind == "numbers" and answer.isalnum()):
            return answer.casefold() in self.words
        answer = folded(answer)
        if kind != "numbers":
            return self._may_have(answer) and answer in self.text
        if not self.words >= words_in(answer):
            return False
        text, at = self.text, self.text.find(answer)
        while at >= 0:
            before, after = text[max(0, at - 1) : at], text[at + len(answer) : at + len(answer) + 1]
            if not before.isdigit() and not (after.isdigit() and answer[-1].isdigit()):
                return True
            at = text.find(answer, at + 1)
        return False

    def _may_have(self, answer: str) -> bool:
        """Whether all its words are there; the first may end a longer one, the last begin one."""
        _, *words = in_order(answer) or [""]
        if not words:
            return True
        at = bisect_left(self.ordered, words[-1])
        begun = at < len(self.ordered) and self.ordered[at].startswith(words[-1])
        return begun and self.words.issuperset(words[:-1])


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
    found: list[Probe] = []
    for said in span.asked:
        for sentence in _SENTENCE.split(said.text):
            words = sentence.strip()
            if 12 <= len(words) <= 240 and _ORDER.search(words):
                found.append(
                    Probe("constraints", f"What did the user demand: {words}?", [words], said.entry)
                )
    return found


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
