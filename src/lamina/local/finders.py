"""The finders: how the user wants work to be done (corrections, preferences, confirmations), and plain
facts (who the user is, what is due when, what was settled); and what they find. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lamina.memories import MemoryType
from lamina.memory import is_plain_confirmation
from lamina.text.cue_words import EMAIL, IDENTIFIER, LANGUAGES, PATH, SYSTEMS, URL, Cues
from lamina.text.dates import find_dates
from lamina.text.lists import Listed, sections, words
from lamina.text.own_words import Sentence, asked_at
from lamina.text.wording import sentences

_LONGEST_QUOTE_OF_ASSISTANT = 300
_OPENERS = Listed("finders.openers")
SECOND_STATEMENT = Listed("finders.second_statement")

# Why something was proposed, as the log tells it.
ASKED = "the user asked to remember it"
CONFIRMED = "the user confirmed how it was done"
RULE = "the user said how to work"
DATE = "the user named a date"
CORRECTED = "the user corrected what the assistant took for true"
ROLE = "the user said who they are"
TOLD = "the user told what lasts"
REPEATED = "the user said it in several sessions"


@dataclass(frozen=True, slots=True)
class Find:
    """A memory in the making: what to keep, of which type, and the sentences that it rests on."""

    type: MemoryType
    text: str
    because: tuple[Sentence, ...]
    reason: str  # why it was proposed, for the log
    why: str = ""
    assistant: str = ""  # the assistant's own words that the user confirmed
    certain: bool = True  # is the type, too
    plain: bool = False  # the words alone say that it lasts: "from now on"
    bar: float | None = None  # how likely it must be, if not as all finds of its reason
    also: str = ""  # what else lasts in a message that is kept whole


def without_opener(text: str) -> str:
    """ "No, please don't …" without its first breath; never leaves nothing."""
    rest = _OPENERS.sub("", text, count=1).strip()
    return rest or text


def reason_in(text: str, cues: Cues) -> str:
    """What the user gave as the reason, in their words; "" if none."""
    found = cues.because.search(text)
    if not found:
        return ""
    return (found["why"] or found["why2"] or "").strip(" .!。！")


def content_words(text: str) -> list[str]:
    """Words long enough to carry meaning; two Chinese characters count as one."""
    words = re.findall(r"[^\W_]{3,}", text)
    return [*words, *re.findall(r"[\u3400-\u9fff]{2}", text)]


# ---- rules for the work


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
    text = without_opener(sentence.text)
    if len(content_words(text)) < 2:  # "Always." belongs to what was said before it
        return None
    told = bool(ordered) and not chore
    because, why = [sentence], reason_in(text, rules)
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
    return SECOND_STATEMENT.split(plain[:end], maxsplit=1)[0]


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


# ---- plain facts


def wish(message: list[Sentence], place: int, rules: Cues) -> Find | None:
    """ "Remember that …", in any of its forms; a chore of this task is none."""
    asked = asked_at(message, place)
    if asked is None:
        return None
    kind = _kind_of(asked.text, message[place], rules)
    why = reason_in(asked.text, rules)
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
    return Find("user", without_opener(sentence.text), (sentence,), ROLE)


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
    why = reason_in(text, rules)
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
    text = _CONNECTIVE.sub("", without_opener(sentence.text[start:].strip()), count=1)
    if start and held and not _SUBJECT.match(text):
        text = without_opener(sentence.text)
    # "I prefer short answers" tells of the user, and of how to answer.
    certain, why = not _TASTE.search(plain), reason_in(text, rules)
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


def leans(text: str) -> bool:
    """ "I use it every day", "I have a locker there": what and where, only the sentence before can say."""
    told = _ASIDE.sub("", text, count=1)
    thing = _THING.search(told)
    if thing and not _NAMED_THING.search(told, 0, thing.start()):
        return True
    return elsewhere(_PLACE, told)


def elsewhere(place: re.Pattern[str] | Listed, told: str) -> bool:
    """Does it speak of a place that it has not named?"""
    found = place.search(told)
    return bool(found) and not _SOMEWHERE.search(told, 0, found.start())


_ASIDE = Listed("finders.aside")
_THING = Listed("finders.unnamed_thing")
_NAMED_THING = Listed("finders.named_thing", flags=re.NOFLAG)
_PLACE, _SOMEWHERE = Listed("finders.place_meant"), Listed("finders.place_named")


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
    text = without_opener(sentence.text)
    why = reason_in(text, rules)
    return Find("project", text, (sentence,), DATE, why, plain=bool(_NAMED_EVENT.match(text)))


_NAMED_EVENT = Listed("finders.named_event")


NAMELESS = Listed("finders.nameless")


TICKET = re.compile(r"\b[A-Z]{2,8}-\d+\b")
CHORE_START = Listed("finders.chore_start")
SOURCE_FILE = re.compile(
    r"\b[\w-]+\.[a-z]{1,4}\b(?<!\.com)(?<!\.net)(?<!\.org)|\b(?:src|lib|app|tests?)/|\(\)"
)
PAST = words("finders.past")
