"""Weighs what the rules found and finds what no rule has a pattern for, by the learned judge: a find
must read like one, and the more so where something in it speaks against it: code, the task at hand,
cheers, doubts, promises. Pure.
"""

from __future__ import annotations

import re
from dataclasses import replace

from lamina.local import phrasing
from lamina.local.cues.any_language import IDENTIFIER, PATH, URL, Cues
from lamina.local.facts import CHORE_START, LEANS_ON, NAMELESS, PAST, SOURCE_FILE, TICKET, UNSETTLED
from lamina.local.finding import (
    ASKED,
    CONFIRMED,
    CORRECTED,
    DATE,
    DECISION,
    HABIT,
    PLACE,
    ROLE,
    RULE,
    Find,
    content_words,
)
from lamina.local.judge import opinion
from lamina.local.own_words import Sentence
from lamina.local.rules import CHEER, LEANS_BACK, is_of_the_moment, stands, tells_of_the_user
from lamina.memories import MemoryType

# How likely it must be: where nine in ten were right with writers whom the judge had not seen …
_SURE: dict[MemoryType, float] = {"feedback": 0.88, "project": 0.7, "reference": 0.5, "user": 0.7}
# … if something speaks against it …
_SURER: dict[MemoryType, float] = {
    "feedback": 0.92,
    "project": 0.85,
    "reference": 0.65,
    "user": 0.75,
}
# … and if a rule speaks for it.
_DOUBTED = {
    ASKED: 0.06, CONFIRMED: 0.05, RULE: 0.5, DATE: 0.25, DECISION: 0.05, CORRECTED: 0.0, PLACE: 0.15, ROLE: 0.35, HABIT: 0.05
}  # fmt: skip
_PLAIN = {RULE: 0.25, DATE: 0.0}  # … and its words leave no doubt
# Sentences in German gather less weight for the same certainty.
_EASIER = {"en": 0.0, "de": 0.05, "zh": 0.0}
_TELLS = 3  # words that a sentence needs to say by itself what another one leans on
_FOLLOWS = 0.15  # what comes after a rule and may be part of one belongs to it
_LIKE: dict[MemoryType, str] = {
    "user": "it reads like something about the user",
    "feedback": "it reads like how to work",
    "project": "it reads like a fact of the project",
    "reference": "it reads like where something is kept",
}


def judged(message: list[Sentence], place: int, rules: Cues) -> Find | None:
    """A memory that the judge is sure of."""
    sentence = message[place]
    view = opinion(message, place)
    if _forbids(sentence, view.type, rules):
        return None
    against = _speaks_against(sentence, view.type, rules)
    if view.worth < (_SURER if against else _SURE)[view.type] - _EASIER[sentence.lang]:
        return None
    text = phrasing.without_opener(sentence.text)
    because = (sentence,)
    if view.type == "user" and _leans(text):
        if not place or not stands(message[place - 1]):
            return None
        because = (message[place - 1], sentence)
        text = f"{phrasing.without_opener(because[0].text)} {text}"
    return Find(view.type, text, because, _LIKE[view.type], phrasing.reason_in(text, rules))


def weighed(find: Find, message: list[Sentence]) -> Find | None:
    """What a rule found, if it reads like one, under the type that it reads like."""
    views = [opinion(message, message.index(s)) for s in find.because if s in message]
    best = max(views, key=lambda view: view.worth, default=None)
    if best is None:
        return find
    usual = (_PLAIN if find.plain else _DOUBTED)[find.reason]
    if best.worth < (usual if find.bar is None else find.bar):
        return None
    return find if find.certain else replace(find, type=best.type)


def completed(find: Find, message: list[Sentence], place: int, room_after: bool) -> Find:
    """A rule with the sentences that it leans on ("keep it that way"); and with the one that completes
    it ("no recaps, please. Two lines at most."), as what the user tells of themselves."""
    if find.type not in ("feedback", "user") or find.because != (message[place],):
        return find
    parts = [(find.text, message[place])]
    if find.type == "feedback" and LEANS_BACK.search(message[place].plain):
        for before in reversed(message[max(0, place - 2) : place]):
            if not stands(before):
                break
            parts.insert(0, (phrasing.without_opener(before.text), before))
            if len(content_words(before.text)) >= _TELLS:
                break
    after = message[place + 1 : place + 2] if room_after else []
    if after and stands(after[0]):
        view = opinion(message, place + 1)
        if view.type == find.type and view.worth >= _FOLLOWS:
            parts.append((after[0].text, after[0]))
    text = " ".join(text for text, _ in parts)
    return replace(find, text=text, because=tuple(sentence for _, sentence in parts))


def _forbids(sentence: Sentence, kind: MemoryType, rules: Cues) -> bool:
    """Too short to be understood later, hands something over, promises, doubts, or leans on what is
    not named: of these too many were wrong, however sure the judge was."""
    plain = sentence.plain
    if sentence.text.rstrip().endswith((":", "：")) or _COURTESY.search(plain):
        return True
    if kind in {"feedback", "project"} and len(content_words(sentence.text)) < 3:
        return True
    if kind == "feedback":
        return bool(CHORE_START.match(plain)) or tells_of_the_user(plain, rules)
    if kind == "project":
        return bool(NAMELESS.match(plain) or UNSETTLED.search(plain) or IDENTIFIER.search(plain))
    if kind == "reference":
        return bool(_IN_REPOSITORY.search(plain))
    return bool(LEANS_ON.match(plain))


_COURTESY = re.compile(
    r"(?i)\bif (?:anything|there(?:'s| is| are)|you (?:need|have|find|can|manage|could))\b.*\blet me know\b|\b(?:falls|wenn) (?:noch )?(?:etwas|was|fragen)\b.*\bbescheid\b"
)


def _leans(text: str) -> bool:
    """ "I use it every day", "I have a locker there": what and where, only the sentence before can say."""
    told = _ASIDE.sub("", text, count=1)
    thing, place = _THING.search(told), _PLACE.search(told)
    if thing and not _NAMED.search(told, 0, thing.start()):
        return True
    return bool(place) and not _SOMEWHERE.search(told, 0, place.start())


_ASIDE = re.compile(r"(?i)^(?:(?:by the way|also|and|speaking of which),?\s)+")
_THING = re.compile(r"(?i)\b(?:it|them|her|him)\b(?!'s\b|'ll\b|\s(?:is|are|was|were)\b)")
_NAMED = re.compile(
    r"\b(?:an?|my|our|the|some|two|three|all|\d+)\s(?!lot\b|bit\b)\w+|(?<=[a-z,] )[A-Z]\w+"
)
_PLACE = re.compile(r"(?i)(?<!out )\bthere\b(?!'s\b|\s(?:is|are|was|were)\b)")
_SOMEWHERE = re.compile(r"(?i:\b(?:in|at|on|to|from|near)\s\w)")
_IN_REPOSITORY = re.compile(
    r"(?<![\w/.])(?:src|docs?|lib|app|tests?|scripts|packages|config|internal|cmd|bench|examples)/\w"
)


def _speaks_against(sentence: Sentence, kind: MemoryType, rules: Cues) -> bool:
    """About code, a quotation, the past or the task at hand, by the look of it."""
    plain = sentence.plain
    if CHEER.search(plain) or CHORE_START.match(plain) or UNSETTLED.search(plain):
        return True
    if kind == "reference":
        in_code = SOURCE_FILE.search(plain) or PATH.search(plain)
        return bool(in_code and not URL.search(sentence.text)) or bool(PAST.search(plain))
    if "\x01" in plain or PATH.search(plain) or IDENTIFIER.search(plain) or TICKET.search(plain):
        return True
    if kind == "feedback":
        return is_of_the_moment(plain, rules)
    return bool((rules.not_event if kind == "project" else rules.this_time).search(plain))
