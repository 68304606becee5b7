"""Probes of a compaction (L4.8): what the removed span knew and the new view should still answer.

Pure and without a model: a probe is a fact with the words that must be found. They are drawn evenly
over the span, by their own rules, so that no summary is measured by its own choice of facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lamina.local.session_facts import SessionFacts, session_facts
from lamina.messages import Json

KINDS = ("files", "names", "numbers", "errors", "constraints", "tasks", "commands", "asked")
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
_NUMBER = re.compile(
    r"(?<![\w.])\d[\d,]*(?:\.\d+)?\s?(?:%|ms|s|KB|MB|GB|tokens|lines|tests|files)?"
)
_ORDER = re.compile(
    r"\b(must|never|always|don't|do not|should not|shouldn't|only|instead of|rather than|make sure|"
    r"without|please use|no need|avoid|keep|remember)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Probe:
    kind: str
    question: str
    answers: Sequence[str]  # any of them, found in the view, answers it
    entry: str


@dataclass(frozen=True, slots=True)
class Score:
    """Share of the probes that a view answers, in all and by kind."""

    share: float
    by_kind: dict[str, float]
    count: int
    missed: Sequence[str]  # questions, a few


def probes(entries: Iterable[Json], each: int = 12) -> list[Probe]:
    """Up to `each` probes of every kind from a removed span."""
    return probes_of(session_facts(entries), each)


def probes_of(span: SessionFacts, each: int = 12) -> list[Probe]:
    """The same from what is known to have happened."""
    return [
        *_evenly(_files(span), each),
        *_evenly(_names(span), each),
        *_evenly(_numbers(span), each),
        *_evenly(_errors(span), each),
        *_evenly(_constraints(span), each),
        *_evenly(_tasks(span), each),
        *_evenly(_commands(span), each),
        *_evenly(_asked(span), each),
    ]


def score(found: Sequence[Probe], view: str) -> Score:
    """Look for every probe's answer in the text of a view."""
    text = folded(view)
    by_kind: dict[str, list[bool]] = {}
    missed: list[str] = []
    for probe in found:
        hit = any(_stands(folded(answer), text, probe.kind) for answer in probe.answers)
        by_kind.setdefault(probe.kind, []).append(hit)
        if not hit:
            missed.append(probe.question)
    shares = {kind: sum(hits) / len(hits) for kind, hits in by_kind.items()}
    total = sum(sum(hits) for hits in by_kind.values())
    return Score(total / len(found) if found else 1.0, shares, len(found), tuple(missed[:10]))


def _stands(answer: str, text: str, kind: str) -> bool:
    """Is it there? A number inside another number is not."""
    if kind != "numbers":
        return answer in text
    at = text.find(answer)
    while at >= 0:
        before, after = text[max(0, at - 1) : at], text[at + len(answer) : at + len(answer) + 1]
        if not before.isdigit() and not (after.isdigit() and answer[-1].isdigit()):
            return True
        at = text.find(answer, at + 1)
    return False


def folded(text: str) -> str:
    """Case and white space don't count."""
    return _SPACE.sub(" ", text).casefold()


def _evenly(items: list[Probe], most: int) -> list[Probe]:
    if len(items) <= most:
        return items
    return [items[i * len(items) // most] for i in range(most)]


def _files(span: SessionFacts) -> list[Probe]:
    return [
        Probe("files", f"Which file was changed ({file.path})?", [_tail(file.path)], file.entry)
        for file in span.changed
    ]


def _tail(path: str) -> str:
    """The last two parts of a path name it well enough."""
    return "/".join(path.rstrip("/").split("/")[-2:])


def _names(span: SessionFacts) -> list[Probe]:
    seen: dict[str, Probe] = {}
    for file in span.changed:
        for name in file.names:
            seen.setdefault(
                name,
                Probe("names", f"What was defined in {file.path}: {name}?", [name], file.entry),
            )
    return list(seen.values())


def _numbers(span: SessionFacts) -> list[Probe]:
    """Figures that the agent reported: at least two digits, with what they count."""
    seen: dict[str, Probe] = {}
    for said in span.answered:
        for number in _NUMBER.findall(said.text):
            plain = number.strip()
            if sum(c.isdigit() for c in plain) >= 2:
                seen.setdefault(
                    plain, Probe("numbers", f"Which figure: {plain}?", [plain], said.entry)
                )
    return list(seen.values())


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
    return [
        Probe("commands", f"Which command ran: {ran.command[:60]}?", [ran.command[:60]], ran.entry)
        for ran in span.commands
        if len(ran.command) >= 8
    ]


def _asked(span: SessionFacts) -> list[Probe]:
    return [
        Probe("asked", f"What did the user say: {said.text[:40]}?", [said.text[:60]], said.entry)
        for said in span.asked
        if len(said.text) >= 8
    ]
