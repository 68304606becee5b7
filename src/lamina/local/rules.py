"""Finds how the user wants work to be done: corrections, preferences, and confirmations. Pure."""

from __future__ import annotations

import re

from lamina.local import finding
from lamina.local.finding import CONFIRMED, RULE, Find, content_words
from lamina.memory import is_plain_confirmation
from lamina.text.cue_words import IDENTIFIER, LANGUAGES, PATH, Cues
from lamina.text.lists import Listed, sections, words
from lamina.text.own_words import Sentence
from lamina.text.wording import sentences

_LONGEST_QUOTE_OF_ASSISTANT = 300


def rule(message: list[Sentence], place: int, rules: Cues) -> Find | None:
    """A lasting rule for the agent's work; what holds for this task alone is none."""
    sentence = message[place]
    plain = sentence.plain
    standing = _STANDING_ORDER.search(plain)
    ordered = standing or rules.order.search(plain)
    insisted = _insisted(message, place, rules)
    chore = rules.this_time.search(_without_reason(plain, rules))
    if rules.about_code.search(plain) or (rules.remember_task.search(plain) and not ordered):
        return None
    if ordered or rules.prefers.search(plain):
        if chore and not _outlives_the_task(plain, rules):
            return None
    elif insisted:
        if chore and not rules.insists.search(plain):
            return None
    elif chore or not (rules.forbids.search(plain) and _is_general(sentence, rules)):
        return None
    if _THIS_CODE.search(plain) and (PATH.search(plain) or IDENTIFIER.search(plain)):
        return None
    if _first_person_habit(plain, rules) or what_happens(plain, rules):
        return None
    text = finding.without_opener(sentence.text)
    if len(content_words(text)) < 2:  # "Always." belongs to what was said before it
        return None
    told = bool(ordered) and not chore
    because, why = [sentence], finding.reason_in(text, rules)
    if not why and place + 1 < len(message) and _gives_reason(message[place + 1]):
        because.append(message[place + 1])
        why = message[place + 1].text.strip(" .!。")
    return Find(
        "feedback",
        text,
        tuple(because),
        RULE,
        why,
        certain=bool(standing),
        plain=bool(ordered and _STRONG.search(plain)),
        bar=_KNOWN_BY_FORM if standing else _bar(plain, told=told, insisted=insisted),
    )


def _bar(plain: str, *, told: bool, insisted: bool) -> float | None:
    """How likely it must read like a rule, if its form says more than that it is one."""
    if told and _UNCONDITIONAL.match(plain):
        return 0.05
    return 0.5 if insisted or LEANS_BACK.search(plain) else None


_KNOWN_BY_FORM = 0.0  # the judge has not learned from all of these languages
_STANDING_ORDER = Listed("finders.standing_order")
_UNCONDITIONAL = Listed("finders.unconditional")


def is_of_the_moment(plain: str, rules: Cues) -> bool:
    """An order for this task alone, or code described: hardly a rule for the agent."""
    chore = rules.this_time.search(_without_reason(plain, rules))
    if chore and not _outlives_the_task(plain, rules):
        return True
    return bool(rules.about_code.search(plain))


def tells_of_the_user(plain: str, rules: Cues) -> bool:
    """A promise, a habit, what happens or a reminder for the task: no rule for the agent."""
    if rules.remember_task.search(plain) or what_happens(plain, rules):
        return True
    return _first_person_habit(plain, rules)


def what_happens(plain: str, rules: Cues) -> bool:
    """ "Whenever I start it, it asks for a password", "we will need more people": no order to anybody."""
    needs = _NEEDS.search(_without_reason(plain, rules))
    return bool(needs or _WHAT_HAPPENS.search(plain))


_WHAT_HAPPENS = words("finders.what_happens")
_NEEDS = words("finders.needs")


def _insisted(message: list[Sentence], place: int, rules: Cues) -> bool:
    """A plain order that the user says was given before, or holds for every case."""
    sentence = message[place]
    if rules.insists.search(sentence.plain) and len(content_words(sentence.text)) > 3:
        return bool(rules.asks_for.search(sentence.plain)) or bool(_WHOLE.search(sentence.plain))
    neighbours = message[max(0, place - 1) : place] + message[place + 1 : place + 2]
    return bool(rules.asks_for.search(sentence.plain)) and any(
        rules.insists.search(other.plain) and not other.material for other in neighbours
    )


_WHOLE = words("finders.whole")
# "Keep them simpler", "every handover in that shape": only the sentence before says what.
LEANS_BACK = Listed("finders.leans_back")


def stands(sentence: Sentence) -> bool:
    """Can it be quoted as what the next one speaks of?"""
    asks = LANGUAGES[sentence.lang].question.search(sentence.plain)
    return not (sentence.material or sentence.document or asks)


def _without_reason(plain: str, rules: Cues) -> str:
    """The rule itself: what follows "because" or starts a second statement says nothing of its reach."""
    because = rules.because.search(plain)
    end = because.start() if because and because.start() > 8 else len(plain)
    return finding.SECOND_STATEMENT.split(plain[:end], maxsplit=1)[0]


def _outlives_the_task(plain: str, rules: Cues) -> bool:
    """ "From now on" beats "here"; "always" alone does not."""
    return bool(rules.lasting.search(plain) and _STRONG.search(plain))


_STRONG = words("finders.strong")


def _is_general(sentence: Sentence, rules: Cues) -> bool:
    """A bare "don't" is a rule only if it speaks of a kind of thing, not of one thing."""
    if PATH.search(sentence.plain) or IDENTIFIER.search(sentence.plain):
        return False
    first_clause = sentence.plain.partition(",")[0]
    return bool(rules.general.search(sentence.plain)) and not _CERTAIN_ONES.search(first_clause)


_CERTAIN_ONES = re.compile(r"(?i)\b(?:the|these|those|my) \w+s\b(?! (?:that|which|without))")


def _first_person_habit(plain: str, rules: Cues) -> bool:
    """ "I always work at night" tells of the user, not of the agent's work."""
    if _PROMISE.search(plain):
        return True
    subject = rules.first_person.match(plain)
    return bool(subject) and not (rules.prefers.search(plain) or _WANTS.search(plain))


_PROMISE = words("finders.promise")
_WANTS = words("finders.wants")


_THIS_CODE = re.compile(r"(?i)\b(?:everywhere|every|each)\b")


def _gives_reason(sentence: Sentence) -> bool:
    return bool(_REASON_START.match(sentence.text)) and not sentence.material


POLITE_ORDER = Listed("finders.polite_order")
_REASON_START = Listed("finders.reason_start")


def confirmation(message: list[Sentence], foreign: str) -> Find | None:
    """Praise for what the assistant did, and the wish to go on like that."""
    first = message[0]
    rules = LANGUAGES[first.lang]
    if (
        not first.answers
        or first.document
        or first.material
        or not rules.praise.search(first.plain)
    ):
        return None
    if rules.question.search(first.plain):
        return None
    wishes = [
        s
        for s in message[:3]
        if LANGUAGES[s.lang].go_on.search(s.plain)
        and not LANGUAGES[s.lang].question.search(s.plain)
        and not CHEER.search(s.plain)
        and not _PROMISE.search(s.plain)
    ]
    if not wishes:
        return None
    because = tuple(message[: message.index(wishes[-1]) + 1])
    if any(s.material or LANGUAGES[s.lang].question.search(s.plain) for s in because):
        because = tuple(s for s in because if s is first or s in wishes)
    own = " ".join(s.text for s in because)
    lists = sections("asks.txt")
    empty = {*lists["confirms"], *lists["confirming"], *_EMPTY}
    telling = [w for w in content_words(_CONFIRMING.sub(" ", own)) if w.lower() not in empty]
    if len(telling) >= (2 if first.lang == "zh" else 1):
        return Find("feedback", own, because, CONFIRMED)
    said = _own_statement(first.answers, foreign)
    if not said or not is_plain_confirmation([s.text for s in message]):
        return None  # the gate lends the assistant's words to a plain yes only
    return Find("feedback", own, because, CONFIRMED, assistant=said)


_CONFIRMING = words("finders.confirming")
_EMPTY = frozenset("and with you them these those doing done job work und mit den die der".split())  # noqa: SIM905


CHEER = Listed("finders.cheer")


def _own_statement(answer: str, foreign: str) -> str:
    """The assistant's first sentence about what it did, unless it repeats what tools or files said."""
    for line in answer.splitlines():
        first = next(iter(sentences(line)), "")
        if 15 <= len(first) <= _LONGEST_QUOTE_OF_ASSISTANT and not _repeats(first, foreign):
            return first
    return ""


def _repeats(text: str, foreign: str) -> bool:
    """Five words in a row (eight Chinese characters) of untyped text would let a file speak."""
    words = re.findall(r"\w+", text.lower())
    hay = " ".join(re.findall(r"\w+", foreign.lower()))
    runs = (" ".join(words[i : i + 5]) for i in range(max(1, len(words) - 4)))
    if hay and any(f" {run} " in f" {hay} " for run in runs):
        return True
    squeezed = re.sub(r"\s", "", foreign)
    return any(run in squeezed for run in re.findall(r"(?=([\u3400-\u9fff]{8}))", text))
