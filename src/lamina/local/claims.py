"""Takes memories apart into statements and says whether two of them can both be true. Pure.

It is sure only where the form leaves no room: the same subject with another number, day, place or
name, the same rule with the opposite sign, or a statement that something is over. The rest is doubt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from lamina.memory.wording import content_stems, fold, hard_tokens, words

Judgement = Literal["sure", "doubtful", ""]


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence or list item of a body, and where it stands."""

    start: int
    end: int
    text: str  # without list marker and trailing space
    label: bool  # "**Why:** …", "**How to apply:** …": explains another statement


_FENCE = re.compile(r"^(```|~~~).*?(?:^\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"[^\n]+")
_MARKER = re.compile(r"[ \t]*(?:[-*+][ \t]+|\d{1,3}[.)][ \t]+|>[ \t]?)?")
_SENTENCE = re.compile(r".+?(?:[.!?](?=[ \t]+[^\W\d_a-z]|[ \t]*$)|[。！？]|$)")
_LABEL = re.compile(r"\*\*(?:why|how to apply)\b", re.IGNORECASE)


@lru_cache(maxsize=4096)
def statements(body: str) -> tuple[Statement, ...]:
    """All statements of a body in order; headings and fenced code are none."""
    code = bytearray(len(body))
    for fence in _FENCE.finditer(body):
        code[fence.start() : fence.end()] = b"\x01" * len(fence[0])
    found: list[Statement] = []
    for line in _LINE.finditer(body):
        if code[line.start()] or line[0].startswith("#"):
            continue
        marker = _MARKER.match(line[0])
        offset = marker.end() if marker else 0
        label = bool(_LABEL.match(line[0], offset))
        for sentence in _SENTENCE.finditer(line[0], offset):
            text = sentence[0].strip()
            if text:
                start = line.start() + sentence.start()
                found.append(Statement(start, line.start() + sentence.end(), text, label))
    return tuple(found)


def headings(body: str) -> list[str]:
    """The headings outside code, without their marks."""
    bare = _FENCE.sub("", body)
    found = (line.lstrip("#").strip() for line in bare.splitlines() if line.startswith("#"))
    return [text for text in found if text]


def fenced_blocks(body: str) -> list[str]:
    """Code in a body: taken along whole."""
    return [match[0] for match in _FENCE.finditer(body)]


# --- one statement inside another ---

# Small words that turn a statement into another one; `content_stems` leaves them out.
_TURNING = frozenset(
    """before after until over under more most only all any both off up down out each every
    during""".split()  # noqa: SIM905 - a word list
)
_WORD = re.compile(r"\w+(?:[.:/'’-]\w+)*")


def same_words(text: str) -> str:
    """A statement for comparing word by word: spacing, case and the full stop don't count."""
    return fold(text).casefold().rstrip(" .。")


def says_all(one: str, other: str) -> bool:
    """Whether `one` says all that `other` says: its words and figures, with the same "not" and the
    same "before", and names in the same order ("Ana reports to Bo")."""
    stems = content_stems(other)
    if not stems <= content_stems(one):
        return False
    if same_words(one) == same_words(other):
        return True
    tokens = hard_tokens(other)
    if not stems and not tokens:
        return not any(map(str.isalnum, other))
    return (
        tokens <= hard_tokens(one)
        and negations(one) == negations(other)
        and _TURNING.intersection(words(other)) <= _TURNING.intersection(words(one))
        and _in_order(_names(other), [word.casefold() for word in _WORD.findall(one)])
    )


def _names(text: str) -> list[str]:
    """What may be a name or a figure, in order."""
    named = (word for word in _WORD.findall(text) if word[0].isupper() or word[0].isdigit())
    return [word.casefold() for word in named if content_stems(word)]


def _in_order(some: list[str], of: list[str]) -> bool:
    rest = iter(of)
    return len(some) < 2 or all(word in rest for word in some)


# --- polarity ---

_NEGATIONS = frozenset(
    """not no never dont doesnt isnt arent cant wont avoid stop without nicht nie niemals kein keine
    keinen""".split()  # noqa: SIM905 - a word list
)
_WEIGHTLESS = frozenset("alway ever pleas immer stets bitt now again anymor use".split())  # noqa: SIM905 - a word list
_OVER = re.compile(
    r"\b(?:no longer|not\b.{0,60}\banymore|not\b.{0,60}\bany more|nicht mehr|kein\w*\b.{0,40}\bmehr)\b|不再|已经?不",
    re.IGNORECASE,
)
_OVER_STEMS = frozenset("longer anymor more nicht mehr not no".split())  # noqa: SIM905 - a word list


def negations(text: str) -> frozenset[str]:
    return content_stems(text) & _NEGATIONS


def declares_over(later: str, earlier: str) -> bool:
    """ "We no longer deploy on Fridays" ends "We deploy on Fridays"."""
    if not _OVER.search(later) or _OVER.search(earlier):
        return False
    old, new = content_stems(earlier), content_stems(later) - _OVER_STEMS
    return len(old) >= 2 and old - _WEIGHTLESS <= new and len(new) <= 3 * len(old)


def _opposite(one: str, other: str) -> bool:
    first, second = content_stems(one), content_stems(other)
    bare_first = first - _NEGATIONS - _WEIGHTLESS
    if len(bare_first) < 1 or bare_first != second - _NEGATIONS - _WEIGHTLESS:
        return False
    return bool(first & _NEGATIONS) != bool(second & _NEGATIONS)


# --- subject and value ---

_CLAIM = re.compile(
    r"(?P<subject>\S.{1,79}?)(?:\s(?P<verb>is now|are now|is|are|was moved to|moved to|changed to|runs on|runs at|runs"
    r"|uses?|prefers?|lives? in|starts?|begins?|ends?|happens?|belongs to|ist|sind|liegt|läuft|beginnt|endet|nutzt|heißt"
    r"|verwendet)\s|\s?(?P<sign>[:=])\s|(?P<zh>改为|改成|改到|位于|是|为|在|用))(?P<value>\S.{0,79})",
)
_MANY_VALUED = frozenset("use uses prefer prefers nutzt verwendet 用 在".split())  # noqa: SIM905 - a word list
_MOVED = re.compile(r"now\b|moved to|changed to|改")
_DEFINITE = re.compile(
    r"(?i)(?:the|our|my|their|its|der|die|das|den|unser\w*|mein\w*|the user)\b|我们?的?"
)
_LEAD = re.compile(
    r"(?i)^(?:now|on|at|in|under|to|by|port|version|v|am|um|im|unter|bei|the|jetzt)\s+"
)
_DAY = re.compile(r"(?i)(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?|(?:周|星期)[一二三四五六日天]")  # fmt: skip
_PLACE = re.compile(r"(?i)https?://\S+|\S+@\S+\.\S+|[~.]?/?[\w.-]+/[\w./-]+|`[^`]+`|#[\w-]+")
_NUMERIC = re.compile(r"v?\d[\w.,:/-]*(?:\s?(?:%|am|pm|uhr|days?|weeks?|hours?|minutes?|seconds?|years?|[kmgt]b|ms|s))?", re.IGNORECASE)  # fmt: skip
_NAME = re.compile(r"[A-Z][\w.+#-]*(?:\s[A-Z][\w.+#-]*){0,3}")


@dataclass(frozen=True, slots=True)
class Claim:
    """ "The staging port is 8080" as subject, verb and value."""

    subject: frozenset[str]
    definite: bool
    verb: str
    value: str
    kind: str  # number · day · place · name · other


@lru_cache(maxsize=8192)
def claim(text: str) -> Claim | None:
    """The claim that a short statement makes, if it has that form."""
    found = _CLAIM.fullmatch(text.strip().rstrip(".!。！"))
    if not found:
        return None
    subject = content_stems(found["subject"])
    value = found["value"].strip()
    while lead := _LEAD.match(value):
        value = value[lead.end() :]
    if not subject or not value:
        return None
    verb = found["verb"] or found["sign"] or found["zh"]
    definite = bool(_DEFINITE.match(found["subject"])) or found["sign"] is not None
    return Claim(subject, definite, verb, value, _kind(value))


def _kind(value: str) -> str:
    for kind, pattern in (("day", _DAY), ("place", _PLACE), ("number", _NUMERIC), ("name", _NAME)):
        if pattern.fullmatch(value):
            return kind
    return "other"


def judge(later: str, earlier: str) -> Judgement:
    """Whether the later statement takes the earlier one's place."""
    if later == earlier:
        return ""
    if declares_over(later, earlier) or _opposite(later, earlier):
        return "sure"
    new, old = claim(later), claim(earlier)
    if not new or not old or new.subject != old.subject:
        return ""
    if content_stems(new.value) == content_stems(old.value) and hard_tokens(new.value) == hard_tokens(old.value):  # fmt: skip
        return ""
    moved = bool(_MOVED.search(new.verb)) or new.verb in {"改为", "改成", "改到"}
    same_verb = moved or _base(new.verb) == _base(old.verb)
    if not same_verb:
        return ""
    single = moved or (new.verb not in _MANY_VALUED and (new.definite or new.kind != "name"))
    if new.kind == old.kind != "other" and single:
        return "sure"
    short = max(len(new.value.split()), len(old.value.split())) <= 4
    return "doubtful" if short and (new.kind == old.kind) else ""


def _base(verb: str) -> str:
    return {"are": "is", "are now": "is", "is now": "is", "use": "uses", "prefer": "prefers"}.get(verb, verb.rstrip("s") if verb.isascii() and len(verb) > 3 else verb)  # fmt: skip
