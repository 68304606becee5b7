"""Takes memories apart into statements and says whether two of them can both be true. Pure.

It is sure only where the form leaves no room: the same subject with another number, day, place or
name, the same rule with the opposite sign, or a statement that something is over. The rest is doubt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from lamina.memories import Memory
from lamina.text import wording
from lamina.text.asks import classify, find_order, speaks_for_user
from lamina.text.lists import Listed, sections, words
from lamina.text.origins import asks_somebody
from lamina.text.own_words import speaks_of
from lamina.text.wording import content_stems, denials, hard_tokens, spans

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
        for start, end in spans(line[0][offset:], semicolons=False):
            text = line[0][offset + start : offset + end].strip()
            if text:
                at = line.start() + offset
                found.append(Statement(at + start, at + end, text, label))
    return tuple(found)


def headings(body: str) -> list[str]:
    """The headings outside code, without their marks."""
    bare = _FENCE.sub("", body)
    found = (line.lstrip("#").strip() for line in bare.splitlines() if line.startswith("#"))
    return [text for text in found if text]


def fenced_blocks(body: str) -> list[str]:
    """Code in a body: taken along whole."""
    return [match[0] for match in _FENCE.finditer(body)]


# --- still said ---

# Words that turn, narrow or soften what stands beside them; most are too common to be content words.
_TURNING = words("claims.turning")
# Marks and words, anywhere in a sentence, with which it repeats something to call it in question.
_UNSAYING = Listed("claims.unsaying")
_ENDING = words("claims.ending")
_CLAUSE = re.compile(
    r"[.;,!?:\n。；，！？：]+\s*|\s[–—-]\s|\b(?:but|because|and|und|aber|weil|sondern)\b"
)
_COMPARES = re.compile(r"(?i)\b(?:over|than|before|after|instead|rather|statt|als|vor|nach)\b")
_NAMED = re.compile(r"(?<!^)(?<![.!?] )\b[A-Z][\w]*|^[A-Z][a-z]+(?= (?:[a-z]+s|and|is|has)\b)")


def same_words(text: str) -> str:
    """A statement for comparing word by word: spacing, case and the full stop don't count."""
    return wording.fold(text).casefold().rstrip(" .。")


def covered(statement: str, memory: Memory) -> bool:
    """Whether one single statement of the memory says all of this one."""
    return not any(map(str.isalnum, statement)) or any(
        carries(other, statement) for other in said_in(memory)
    )


def said_in(memory: Memory) -> list[str]:
    lines = (one.text for one in statements(memory.body))
    return [memory.name, memory.description, *headings(memory.body), *lines]


@lru_cache(maxsize=2048)
def carries(text: str, statement: str) -> bool:
    """Whether a text says all of a statement: its words in their order, its numbers and names, with
    the same sign, and of the same person."""
    stems = content_stems(statement)
    if not stems <= content_stems(text):
        return False
    tokens = hard_tokens(statement)
    if same_words(text) == same_words(statement):
        return True
    if not stems and not tokens:
        return not any(map(str.isalnum, statement))
    return (
        tokens <= hard_tokens(text)
        and set(_UNSAYING.findall(text)) <= set(_UNSAYING.findall(statement))
        and _turns(_about(text, stems)) == _turns(statement)
        and in_order(statement, text)
        and not speaks_of(statement, (text,))
    )


def overturns(later: str, earlier: str) -> bool:
    """Whether one repeats all words of the other to say that it is not so, or the other way round."""
    old = content_stems(earlier) - _NEGATIONS - _WEIGHTLESS
    about = _about(later, old)
    if not old or not old <= content_stems(about) or hard_tokens(earlier) - hard_tokens(later):
        return False
    if speaks_of(earlier, (later,)):
        return False
    ends, ended = _ENDING.search(about), _ENDING.search(earlier)
    return bool(ends) != bool(ended) or not in_order(earlier, later)


def _turns(text: str) -> set[str]:
    return {found.casefold() for found in _TURNING.findall(text)}


def _about(text: str, stems: frozenset[str]) -> str:
    """The clauses that share words with a statement."""
    return ", ".join(clause for clause in _CLAUSE.split(text) if content_stems(clause) & stems)


def in_order(statement: str, text: str) -> bool:
    """Alice reviews for Bob; Bob does not review for Alice. Tabs over spaces is not spaces over tabs."""
    compared = _COMPARES.search(statement)
    named = {one.casefold() for one in _NAMED.findall(statement)}
    wanted = [one for one in _ordered(statement) if compared or one[0] in named]
    rest = iter([stem for _, stem in _ordered(text)])
    return all(stem in rest for _, stem in wanted)


def _ordered(text: str) -> list[tuple[str, str]]:
    """Words and their stems; runs of a script without spaces hold their order themselves."""
    found = [(word, content_stems(word)) for word in wording.words(text)]
    return [(word, next(iter(stems))) for word, stems in found if len(stems) == 1]


# --- polarity ---

_NEGATIONS = frozenset(
    """not no never dont doesnt isnt arent cant wont avoid stop without nicht nie niemals kein keine
    keinen""".split()  # noqa: SIM905 - a word list
)
_WEIGHTLESS = frozenset("alway ever pleas immer stets bitt now again anymor use".split())  # noqa: SIM905 - a word list
_OVER = words("claims.over")
_OVER_STEMS = frozenset("longer anymor more nicht mehr not no".split())  # noqa: SIM905 - a word list


def negations(text: str) -> frozenset[str]:
    return content_stems(text) & _NEGATIONS


def speaks_of_an_end(text: str) -> bool:
    return bool(_OVER.search(text))


def declares_over(later: str, earlier: str) -> bool:
    """ "We no longer deploy on Fridays" ends "We deploy on Fridays"."""
    if not speaks_of_an_end(later) or speaks_of_an_end(earlier):
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

_CLAIM = Listed("claims.claim", flags=re.NOFLAG)
_MANY_VALUED = frozenset("use uses prefer prefers nutzt verwendet 用 在".split())  # noqa: SIM905 - a word list
_MOVED = re.compile(r"now\b|moved to|changed to|改")
_DEFINITE = Listed("claims.definite")
_LEAD = Listed("claims.lead")
_DAY = Listed("claims.day")
_PLACE = re.compile(r"(?i)https?://\S+|\S+@\S+\.\S+|[~.]?/?[\w.-]+/[\w./-]+|`[^`]+`|#[\w-]+")
_NUMERIC = re.compile(
    r"v?\d[\w.,:/-]*(?:\s?(?:%|am|pm|uhr|(?:day|week|hour|minute|second|year)s?|[kmgt]b|ms|s))?",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Z][\w.+#-]*(?:\s[A-Z][\w.+#-]*){0,3}")


@dataclass(frozen=True, slots=True)
class Claim:
    """ "The staging port is 8080" as subject, verb and value."""

    subject: frozenset[str]
    definite: bool
    verb: str
    value: str
    kind: str  # number · day · place · name · other


@lru_cache(maxsize=2048)
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
    as_before = content_stems(new.value) == content_stems(old.value)
    if as_before and hard_tokens(new.value) == hard_tokens(old.value):
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
    same = {"are": "is", "are now": "is", "is now": "is", "use": "uses", "prefer": "prefers"}
    return same.get(verb, verb.rstrip("s") if verb.isascii() and len(verb) > 3 else verb)


# ---- what is no fact


def no_statement(text: str, name: str = "") -> str:
    """ "" or what in a text is no statement of fact: it asks, orders, hides, or speaks for the user."""
    said = f"{name}\n{text}" if " " in name else text  # `check_the_log` is a name and says nothing
    found = {
        "gives an order: “{}”": find_order(text),
        "speaks for the user: “{}”": speaks_for_user(text),
        "hides words in a comment": "<!--" in text and "<!--",
        "asks for something: “{}”": asks_somebody(said)[:80],
    }
    return next((what.format(words) for what, words in found.items() if words), "")


def order_heard(text: str, heard: Callable[[], Iterable[str]]) -> str:
    """ "" or the order in a text that stands in what was heard."""
    orders = (classify(one).orders for one in wording.sentences(text))
    given = [wording.fold(order) for order in orders if order]
    told = [wording.fold(words) for words in heard()] if given else []
    return next((order for order in given if any(order in words for words in told)), "")


# ---- what says again what somebody said

_RUN = 5  # words or wide characters that show where a text came from
_TITLE, _TITLE_LETTERS = 4, 40  # words and letters of one that is made of what it stands over


def echoes(text: str, sources: Iterable[str]) -> bool:
    """Whether some words in a row of a text stand in one of the sources."""
    runs = wording.runs(text, _RUN)
    return bool(runs) and any(not runs.isdisjoint(wording.runs(one, _RUN)) for one in sources)


def only_restates(text: str, title: str, said: Sequence[str], days: Sequence[str]) -> bool:
    """Does each sentence of a text say one of those that were said, its words in their order and with
    as many a "not"? A title of a few of its words may stand over it."""
    units = [one for one in (*wording.sentences(text), title) if any(map(str.isalnum, one))]
    told = [one for one in units if any(_says_again(one, other, days) for other in said)]
    body = "\n".join(told)
    return all(one in told or _only_names(one, body) for one in units)


def _says_again(one: str, said: str, days: Sequence[str]) -> bool:
    if not wording.days_in_order(one, days):
        return False
    known = "\n".join([said, *days])
    for day in " ".join(days).split():
        one = one.replace(f" ({day})", "")
    return (
        _share(one, known) == 1
        and not wording.missing_tokens(one, known)
        and denials(one) == denials(said)
        # "It is a lie that …" must not be gone, nor what limits it.
        and content_stems(said) - content_stems(one) <= _leads()
        and _turns(one) == _turns(said)
        and in_order(one, said)
    )


@lru_cache(maxsize=1)
def _leads() -> frozenset[str]:
    """The words with which people begin and that say nothing: "by the way"."""
    known = sections("proof.txt")
    return content_stems("\n".join((*known["lead"], *known["calls"])))


def _share(one: str, other: str) -> float:
    stems = content_stems(one.replace("用户的", "我").replace("用户", "我"))
    return len(stems & content_stems(other)) / len(stems) if stems else 1.0


def _only_names(title: str, body: str) -> bool:
    """A few words of a text, which say nothing of their own: neither an order nor a "not" less."""
    fits = len(title.split()) <= _TITLE and len(title) <= _TITLE_LETTERS
    known = content_stems(title) <= content_stems(body) and not wording.missing_tokens(title, body)
    return fits and known and not find_order(title) and denials(title) == denials(body)


# ---- of files, and of texts that took the place of others

_NAMED_FILE = re.compile(r"`([\w.-]+(?:/[\w.-]+)+\.\w+)`")
_SUPERSEDES = re.compile(r"(?i)\b(?:supersedes|replaces|ersetzt)\W+(?!durch|\W)")
_SUPERSEDED, _FILE = Listed("audit.superseded_by"), re.compile(r"[\w./-]*\w")
_SOON_LINKED = re.compile(r"(?:[\w*_:-]+ ){0,4}[*_]*\[{1,2}")
_ANYWHERE, _TO_COME = Listed("audit.anywhere"), Listed("audit.to_come")


def files_named_in(text: str) -> tuple[str, ...]:
    """Files of the project that a text says are there."""
    return tuple(
        dict.fromkeys(
            found[1]
            for found in _NAMED_FILE.finditer(text)
            if not _ANYWHERE.search(found[1])
            and not _TO_COME.search(text, max(0, found.start() - 60), found.start())
        )
    )


def superseding(body: str) -> tuple[tuple[str, ...], str]:
    """Whose place a text says that it took, and what it says took its own."""
    folded = body.casefold()
    if not any(word in folded for word in _REPLACING):
        return (), ""
    found = _SUPERSEDED.search(body)
    replaced = (_named_at(body, one.end()) for one in _SUPERSEDES.finditer(body))
    return tuple(filter(None, replaced)), _named_at(body, found.end()) if found else ""


def _named_at(text: str, at: int) -> str:
    """The file that is named here, or to which the link leads that begins here."""
    before, line = text[max(0, at - 4) : at], text[at : at + 500].partition("\n")[0]
    if "[[" in before:
        line = line.partition("]")[0].partition("|")[0]
        return line.partition("#")[0].strip()
    target = line.partition("](")[2].partition(")")[0].strip(" <") if "[" in before else ""
    if target:
        return target.partition(" ")[0].partition("#")[0].removeprefix("./").rstrip(">")
    if "[" not in before and (link := _SOON_LINKED.match(line)):  # "by the [new one](new.md)"
        return _named_at(text, at + link.end())
    found = _FILE.match(line)
    return found[0].strip("_") if found else ""


_REPLACING = ("supersede", "replace", "ersetzt", "remplac", "substituíd")
