"""The words by which the extractor knows a rule, a role, a date that matters or a place: what a cue
is, the cues of each language (from `lists/cues.*.txt`), and those that need no language. They are
narrow on purpose: what is missed can be said again, what is wrong stays in memory. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TypeAlias

from lamina.text.lists import Listed, sections, words

Pattern: TypeAlias = re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Cues:
    """How one language says things. All patterns are searched in a sentence with quotations blanked."""

    remember_task: Pattern  # "remember to …": a chore unless it is lasting
    lasting: Pattern  # holds beyond the task at hand
    order: Pattern  # a rule addressed to the agent, lasting by its own words
    forbids: Pattern  # "don't …": lasting only when general
    prefers: Pattern  # what the user likes, said as such
    insists: Pattern  # said before, or meant for every case: makes a plain order last
    asks_for: Pattern  # a plain order, or what it should be and what not
    this_time: Pattern  # one-off: this file, here, yet, now
    general: Pattern  # plurals, "without asking": makes a bare "don't" a rule
    about_code: Pattern  # describes how code behaves
    praise: Pattern  # opens a confirmation
    go_on: Pattern  # asks for more of the same
    role: Pattern
    event: Pattern  # what a date can be the date of
    not_event: Pattern  # past, features and chores with a date in them
    placed: Pattern  # "is kept in", "steht unter"
    decided: Pattern  # what was settled, or done on purpose: no code says so
    habit: Pattern  # how the user usually works or lives
    first_person: Pattern
    question: Pattern
    imagined: Pattern  # suppose, act as, as a customer I want
    because: Pattern  # group "why"
    scope: Pattern  # group "scope": when or where a rule holds


def verbose(pattern: str) -> Pattern:
    return re.compile(pattern, re.IGNORECASE | re.VERBOSE)


# Systems outside the repository in which people keep things.
SYSTEMS = Listed("finders.systems")
URL = re.compile(r"\bhttps?://[^\s<>\"'`，。；、）)\]]+")
EMAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")
PATH = Listed("finders.path", flags=re.NOFLAG)
IDENTIFIER = re.compile(r"\b(?:[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+|[a-z]+_[a-z_0-9]+|\w+\(\))")
SECRET = verbose(
    r"""\b(?:password|passwd|passphrase|passwort|kennwort|token|api[\s_-]?key|secret)\b.{0,40}?
    (?:\bis\b|\bist\b|:|=).{0,4}(?=\S*\d)\S{6,}|密码.{0,6}[是:：=]\s*\S+
    |\b(?:sk|pk|gh[a-z]|xox[a-z]|AKIA)[-_]?(?=[a-z_-]*\d)[\w-]{12,}"""
)
# A word of praise beside a complaint, or a set phrase: not meant as said.
SARCASM = words("finders.sarcasm")


_NAME = re.compile(r"\{([A-Z_]+)\}")


def _cues(lang: str) -> Cues:
    lists = sections(f"cues.{lang}.txt")
    shared = {name: f"(?:{'|'.join(lines)})" for name, lines in lists.items() if name.isupper()}
    if work := lists.get("work"):
        shared |= _verbs(work)
    return Cues(
        **{
            field.name: verbose(_NAME.sub(lambda m: shared[m[1]], "|".join(lists[field.name])))
            for field in fields(Cues)
        }
    )


def _verbs(work: tuple[str, ...]) -> dict[str, str]:
    """What an agent is told to do, and the same with "-ing"."""
    doing = {
        form
        for verb in work
        if verb not in {"go", "move", "push", "stay"}
        for form in (f"{verb}ing", f"{verb[:-1]}ing", f"{verb}{verb[-1]}ing")
    }
    return {
        "VERB": rf"(?:{_longest_first(work)})\b(?!\s(?:up|in\sto)\b)",
        "ING": rf"(?:{_longest_first(doing)})\b",
    }


def _longest_first(words: tuple[str, ...] | set[str]) -> str:
    return "|".join(sorted(words, key=lambda word: (-len(word), word)))


LANGUAGES: dict[str, Cues] = {lang: _cues(lang) for lang in ("en", "de", "zh")}
