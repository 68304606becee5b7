"""Finds plain facts: who the user is, what is due when, what was settled. Pure."""

from __future__ import annotations

import re

from lamina.local import finding
from lamina.local.finding import (
    ASKED,
    CORRECTED,
    DATE,
    ROLE,
    TOLD,
    Find,
)
from lamina.memories import MemoryType
from lamina.text.cue_words import EMAIL, IDENTIFIER, PATH, SYSTEMS, URL, Cues
from lamina.text.dates import find_dates
from lamina.text.lists import Listed, words
from lamina.text.own_words import Sentence, asked_at


def wish(message: list[Sentence], place: int, rules: Cues) -> Find | None:
    """ "Remember that …", in any of its forms; a chore of this task is none."""
    asked = asked_at(message, place)
    if asked is None:
        return None
    kind = _kind_of(asked.text, message[place], rules)
    why = finding.reason_in(asked.text, rules)
    certain = kind is not None
    # The user decides what is worth keeping, not the judge.
    return Find(kind or "project", asked.text, asked.because, ASKED, why, certain=certain, bar=0.0)


def fitting(kind: MemoryType, text: str) -> MemoryType:
    """The type of an asked-for statement, where its grammar is against what it reads like: what speaks
    of neither the user nor the agent is a fact of the project."""
    if kind == "user" and not MYSELF.search(text):
        return "project"
    return "project" if kind == "feedback" and _IS_SO.match(text) else kind


MYSELF = words("telling.myself")
_IS_SO = Listed("telling.is_so")


def _kind_of(text: str, sentence: Sentence, rules: Cues) -> MemoryType | None:
    """Which of the four types a statement is that the user asked to keep, where its form says so."""
    if URL.search(text) or EMAIL.search(text):
        return "reference"
    if SYSTEMS.search(text) and rules.placed.search(text):
        return "reference"
    if _is_ahead(sentence, text):
        return "project"
    return "user" if _I_AM.match(text) else None


def _is_ahead(sentence: Sentence, text: str = "") -> bool:
    """Does it name a day that is still to come?"""
    today = sentence.said.date()
    return any(hit.day >= today for hit in find_dates(text or sentence.text, today))


_I_AM = Listed("telling.i_am")


def role(sentence: Sentence, rules: Cues) -> Find | None:
    """Who the user is and what they know."""
    plain = sentence.plain
    if not rules.role.search(plain) or _AT_WORK.search(plain) or LEANS_ON.match(plain):
        return None
    return Find("user", finding.without_opener(sentence.text), (sentence,), ROLE)


_AT_WORK = words("finders.at_work")


def correction(message: list[Sentence], place: int, rules: Cues) -> Find | None:
    """ "No, we deploy with Nomad, not Kubernetes": how things are with the user, said against what the
    assistant took for true, or may."""
    sentence = message[place]
    says_no = _SAYS_NO.match(sentence.plain)
    before = f"{message[place - 1].plain} " if place else ""
    said_no = _SAYS_NO.match(before)
    against = bool(sentence.answers and (says_no or said_no))
    start = says_no.end() if says_no else 0
    told = sentence.plain[start:]
    rather = _RATHER_THAN.search(told) or (said_no and _RATHER_THAN.search(before))
    with_us = _WITH_US.match(told)
    if not with_us or not rather:
        return None
    now = rules.this_time.search(told, with_us.end())
    if now or _AT_WORK.search(told):
        return None
    if PATH.search(told) or _IN_CODE.search(told):  # a product's name may look like an identifier
        return None
    because = (message[place - 1], sentence) if against and not says_no else (sentence,)
    text = sentence.text[start:]
    why = finding.reason_in(text, rules)
    if not against:
        return Find("project", text, because, TOLD, why, bar=_UNASKED)
    return Find("project", text, because, CORRECTED, why)


_UNASKED = 0.3  # how likely it must be where nobody is corrected


_SAYS_NO = Listed("finders.says_no")
_IN_CODE = re.compile(r"\w_\w|\w\(|\w\.\w|::")
_WITH_US = Listed("finders.with_us")
_RATHER_THAN = Listed("finders.rather_than")


def telling(sentence: Sentence, rules: Cues) -> Find | None:
    """What the user tells of themselves, their people, their things or what is settled, in a form that
    lasts; what is told of the moment has another."""
    plain = sentence.plain
    sure = None if NAMELESS.match(plain) else plain
    settled = _SETTLED.search(plain) or _TRIP.search(plain)
    settled = settled or (sure and rules.decided.search(sure))
    named = _NAMED.search(plain)
    of_user = _OF_USER.search(plain) or named
    if not (of_user or IDENTIFIER.search(plain)):
        of_user = sure and rules.habit.search(sure)
    planned = _UPCOMING.search(plain) if _is_ahead(sentence) else None
    told = of_user or settled or planned
    if not told or (PATH.search(plain) and not (settled or named)):
        return None
    if of_the_task(plain):
        return None
    asked = _REQUEST.match(plain)
    start = max(plain.rfind(mark, 0, told.start() + 1) for mark in (", ", "; ")) + 1 if asked else 0
    # "I'm worried about my deadline of May 10": a worry may be all of a sentence, and hold a fact.
    held = planned or named or _DATED.search(plain)
    held = held and not ASKS_FOR_HELP.match(plain)
    asked = asked or _WONDERS.match(plain)
    if (asked and not start and not held) or LEANS_ON.match(plain):
        return None
    text = _CONNECTIVE.sub("", finding.without_opener(sentence.text[start:].strip()), count=1)
    if start and held and not _SUBJECT.match(text):
        text = finding.without_opener(sentence.text)
    # "I prefer short answers" tells of the user, and of how to answer.
    certain, why = not _TASTE.search(plain), finding.reason_in(text, rules)
    kind: MemoryType = "user" if of_user else "project"
    if _OF_WORK.search(plain):
        kind, certain = "feedback", True
    bar = _ONLY_NAMED if told is named and not told[0].startswith("I") else None
    return Find(kind, text, (sentence,), TOLD, why, certain=certain, bar=bar)


def of_the_task(plain: str) -> bool:
    """Said for now, of the work at hand, or in somebody else's part."""
    return any(other.search(plain) for other in (_FOR_NOW, _AT_WORK, _NOT_MEANT))


_ONLY_NAMED = 0.002  # a name beside "my friend" may stand in any story
_OF_USER = Listed("telling.user")
_TASTE = Listed("telling.taste")
_OF_WORK = Listed("telling.work")
_NAMED = Listed("telling.named", flags=re.NOFLAG)
_SETTLED = Listed("telling.project")
_TRIP = Listed("telling.trip", flags=re.NOFLAG)
_DATED = Listed("telling.dated")
_UPCOMING = Listed("telling.upcoming")
OF_THE_MOMENT = Listed("telling.moment")
_FOR_NOW = words("telling.for_now")
_CONNECTIVE = Listed("telling.connective")
_SUBJECT = Listed("telling.subject")
ASKS_FOR_HELP = Listed("telling.can_you")
_REQUEST = Listed("telling.request")
_WONDERS = Listed("own_words.WONDERS")
_NOT_MEANT = Listed("telling.not_meant")


# Speaks of a place or a thing that only the sentence before it names.
LEANS_ON = Listed("finders.leans_on")


def date_that_matters(sentence: Sentence, rules: Cues) -> Find | None:
    """Something that happens on a day ahead, outside the code."""
    plain = sentence.plain
    if not rules.event.search(plain) or rules.not_event.search(plain):
        return None
    if PATH.search(plain) or IDENTIFIER.search(plain):
        return None
    if NAMELESS.match(plain):
        return None
    if not _is_ahead(sentence):
        return None
    text = finding.without_opener(sentence.text)
    why = finding.reason_in(text, rules)
    return Find("project", text, (sentence,), DATE, why, plain=bool(_NAMED_EVENT.match(text)))


_NAMED_EVENT = Listed("finders.named_event")


NAMELESS = Listed("finders.nameless")


TICKET = re.compile(r"\b[A-Z]{2,8}-\d+\b")
CHORE_START = Listed("finders.chore_start")
SOURCE_FILE = re.compile(
    r"\b[\w-]+\.[a-z]{1,4}\b(?<!\.com)(?<!\.net)(?<!\.org)|\b(?:src|lib|app|tests?)/|\(\)"
)
PAST = words("finders.past")
