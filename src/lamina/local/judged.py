"""Finds what no rule has a pattern for, where the learned judge is sure and nothing in the sentence
speaks against it: code, the task at hand, cheers, doubts, promises. Pure.
"""

from __future__ import annotations

from lamina.local import phrasing
from lamina.local.cues.any_language import IDENTIFIER, PATH, URL, Cues
from lamina.local.facts import CHORE_START, NAMELESS, PAST, SOURCE_FILE, TICKET, UNSETTLED
from lamina.local.finding import Find, content_words
from lamina.local.judge import opinion
from lamina.local.own_words import Sentence
from lamina.local.rules import CHEER, is_of_the_moment
from lamina.memories import MemoryType

# How likely it must be. Sentences in German and Chinese gather less weight for the same certainty:
# each figure is where nine in ten of what the judge adds was right with unknown writers.
_SURE = {"en": 0.7, "de": 0.6, "zh": 0.5}
_DOUBTED = 0.2
_LIKE: dict[MemoryType, str] = {
    "user": "it reads like something about the user",
    "feedback": "it reads like how to work",
    "project": "it reads like a fact of the project",
    "reference": "it reads like where something is kept",
}


def judged(message: list[Sentence], place: int, rules: Cues) -> Find | None:
    """A memory that the judge is sure of."""
    sentence = message[place]
    hands_over = sentence.text.rstrip().endswith((":", "："))
    if hands_over or len(content_words(sentence.text)) < 3 or CHEER.search(sentence.plain):
        return None
    view = opinion(message, place)
    if view.worth < _SURE[sentence.lang] or _speaks_against(sentence, view.type, rules):
        return None
    text = phrasing.without_opener(sentence.text)
    return Find(view.type, text, (sentence,), _LIKE[view.type], phrasing.reason_in(text, rules))


def doubted(message: list[Sentence], place: int) -> bool:
    """Has the form of a rule for the agent, but hardly reads like one: two in three of these were
    orders for code, sayings or complaints."""
    return opinion(message, place).worth < _DOUBTED


def _speaks_against(sentence: Sentence, kind: MemoryType, rules: Cues) -> bool:
    plain = sentence.plain
    if CHORE_START.match(plain) or TICKET.search(plain) or UNSETTLED.search(plain):
        return True
    if kind == "reference":
        in_code = SOURCE_FILE.search(plain) or PATH.search(plain)
        return bool(in_code and not URL.search(sentence.text)) or bool(PAST.search(plain))
    if "\x01" in plain or PATH.search(plain) or IDENTIFIER.search(plain):
        return True  # about code or a quotation
    if kind == "feedback":
        return is_of_the_moment(plain, rules)
    if kind == "project":
        return bool(NAMELESS.match(plain) or rules.not_event.search(plain))
    return bool(rules.this_time.search(plain))
