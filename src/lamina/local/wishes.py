"""Finds what the user asked to have remembered, and of which type it is. Pure."""

from __future__ import annotations

import re

from lamina.local import phrasing
from lamina.local.cues.any_language import EMAIL, SYSTEMS, URL, Cues
from lamina.local.cues.languages import LANGUAGES
from lamina.local.dates import find_dates
from lamina.local.finding import ASKED, Find
from lamina.local.own_words import Sentence
from lamina.memories import MemoryType


def wish(message: list[Sentence], place: int, rules: Cues) -> Find | None:
    """ "Remember that …", in any of its forms; a chore of this task is none."""
    sentence = message[place]
    asked = rules.remember.search(sentence.plain) or _ELSEWHERE.search(sentence.plain)
    if not asked or (sentence.document and 0 < place < len(message) - 1):
        return None  # amid a document it is the document that speaks
    what = sentence.text[asked.start("what") :].strip(" .!。！?？:：,，")
    because = (sentence,)
    if len(what) < 3:  # "Remember that." speaks of its neighbour
        neighbour = place + 1 if sentence.text.rstrip().endswith((":", "：")) else place - 1
        if not 0 <= neighbour < len(message):
            return None
        told = message[neighbour]
        if told.material or LANGUAGES[told.lang].question.search(told.plain):
            return None
        because = (told, sentence)
        what = told.text.strip()
    elif rules.question.search(sentence.plain) and not _POLITE.match(sentence.plain):
        return None
    if "\x01" in asked["what"] and not asked["what"].strip("\x01 .!。"):
        return None  # nothing but a quotation
    if (_ADDRESSED.search(what) or _OPEN_TASK.match(what)) and rules.this_time.search(
        asked["what"]
    ):
        return None  # a chore of this task
    if _PEP_TALK.match(what) or (_CHEER.search(what) and not _ANCHOR.search(what)):
        return None
    kind = _kind_of(what, sentence, rules)
    why = phrasing.reason_in(what, rules)
    bar = _bar(sentence.plain[asked.start() : asked.start("what")], asked["what"], rules)
    return Find(kind or "project", what, because, ASKED, why, certain=kind is not None, bar=bar)


def _bar(asking: str, what: str, rules: Cues) -> float | None:
    """How likely it must be worth keeping: nothing else is meant by "add to your notes"."""
    if _IN_YOUR_NOTES.search(asking):
        return 0.0
    return _OF_THE_TASK if _SOFT.search(asking) and rules.this_time.search(what) else None


# The rules know three languages well; "remember that" is clear in a few more.
_ELSEWHERE = re.compile(
    r"(?i)(?:(?:^|[.!,;:]\s)(?:(?:retiens|souviens-toi|rappelle-toi)(?: bien)? que|(?:acuérdate|acuerdate) (?:de )?que|recuerda que|ricordati che|lembra-te de que|lembre-se de que|onthoud dat|zapamiętaj,? że)\s|覚えておいて(?:ください|ね)?[、,。\s])\s*(?P<what>\S.*)"
)
_IN_YOUR_NOTES = re.compile(
    r"(?i)\byour (?:notes|memory|memories|records?)\b|\bsomewhere\b|\bto (?:store|keep|remember)\b|\bdown[: ]*$|\bon file\b"
    r"|\bhinterkopf\b|\bschreibe? dir\b|存|备注|笔记"
)
# Said of the task at hand as well: "keep in mind that the beam here is fixed".
_OF_THE_TASK = 0.5
_SOFT = re.compile(r"(?i)\bin mind|\bforget|\bvergiss|\bdenk|别忘|不要忘")
_POLITE = re.compile(r"(?i)(?:can|could|would|will|kannst|könntest|请|帮我|能)")
_OPEN_TASK = re.compile(
    r"(?i)(?:we|you|i) (?:still )?(?:need|have|should|must|want)\b|wir (?:müssen|sollten)\b"
)
_PEP_TALK = re.compile(
    r"(?i)(?:every \w+|it'?s (?:never|important|about|ok)|it takes|you(?:'re)? (?!should|must|need|have)\w+) "
)


# What people say to cheer each other up; with "we", "our", a number or a name in it, it may be meant.
_CHEER = re.compile(
    r"(?i)\b(?:believe|success|failures?|positiv\w+|confidence|determination|dreams?|matters|make a difference|just do it|(?:always )?here for you|worth it|have fun|enjoy|don'?t have to)\b"
)
_ANCHOR = re.compile(r"(?i:\b(?:we|our|us|my)\b)|\d|[a-z]_[a-z]|https?://|`")


def _kind_of(text: str, sentence: Sentence, rules: Cues) -> MemoryType | None:
    """Which of the four types a statement is that the user asked to keep, where its form says so."""
    if URL.search(text) or EMAIL.search(text) or _CONTACT.search(text):
        return "reference"
    if SYSTEMS.search(text) and rules.placed.search(text):
        return "reference"
    if any(hit.day >= sentence.said.date() for hit in find_dates(text, sentence.said.date())):
        return "project"
    return None


_CONTACT = re.compile(
    r"(?i)\b(?:contact|belongs to|point of contact|ansprechpartner\w*|zuständig ist|gehört)\b|负责人是|联系人|找.{1,8}要"
)
_ADDRESSED = re.compile(
    r"(?i)^(?:to )?(?:always|never|don'?t|do not|avoid|use|run|ask|keep|write|answer|put|prefer|stop|make|check|no )\b"
    r"|\byou (?:should|must|need|have to)\b|^(?:immer|nie|niemals|keine?|bitte)\b|\b(?:immer|nie|niemals)\b.*\w+en$"
    r"|^(?:不要|别|一定要|必须|永远|始终|每次)|(?:之前|时候?)?(?:一定要|必须|务必)"
)
