"""One sentence of a memory taken apart: what it speaks of, and what of that may decide against another.
Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from lamina.text import wording
from lamina.text.lists import Listed, sections
from lamina.text.lists import words as whole_words
from lamina.text.unspaced import is_wide
from lamina.text.wording import spans

NOT = frozenset(
    ("not", "no", "never", "dont", "doesnt", "isnt", "arent", "cant", "cannot", "wont", "shouldnt",
     "mustnt", "didnt", "without", "nicht", "kein", "keine", "keinen", "nie", "niemals", "nunca", "não",
     "jamais", "pas", "nessun", "aucun", "aucune", "nenhum", "nenhuma", "sans", "sem", "ohne")
)  # fmt: skip
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
)  # fmt: skip


_DAY = {
    word: day
    for day, *others in map(str.split, sections("statements.txt")["days"])
    for word in (day, f"{day}s", *others)
}


def _opposites() -> Mapping[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for one, other in map(str.split, sections("statements.txt")["opposites"]):
        found[one].add(other)
        found[other].add(one)
    return {word: frozenset(others) for word, others in found.items()}


OPPOSITES = _opposites()
# What denies is a sign of its own, and so is what that takes back.
POLES = frozenset(word for word, others in OPPOSITES.items() if not NOT & {word, *others})
_LEAST_STEM = 4  # letters that two opposites have in common
_OPENINGS = [
    (less.strip("_"), more) for less, more in map(str.split, sections("statements.txt")["opening"])
]
_SPELT_OUT = {
    word: number
    for number, *words in map(str.split, sections("statements.txt")["numerals"])
    for word in words
}
_SIGNS = NOT.union(
    _SPELT_OUT,
    "always every ever please must should now use uses using".split(),  # noqa: SIM905
    *map(str.split, sections("statements.txt")["urging"]),
    *map(str.split, sections("statements.txt")["function"]),
)
TELLING = frozenset(
    """is are was runs run uses use on in at to with via from by lives moved deploys prefers prefer ist sind
    every after begins starts needs need only läuft nutzt mit auf nur est sont sur en dans par avec utilise tourne usa
    é são em por com para es son con through into über durch von zur zum am im bei chez vers via na
    pelo pela""".split()  # noqa: SIM905
)
SCOPES = frozenset(  # two sentences that differ in one of these speak of two things
    """production prod staging dev development local test tests testing ci preview sandbox windows linux macos
    mac ios android mobile desktop web frontend backend client server old new legacy first second
    third final previous was were had used war morning evening weekend weekdays default fallback input output read write
    upload    download min max minimum maximum lower upper left right top bottom request response source target parent
    child internal external admin user guest free paid primary secondary""".split()  # noqa: SIM905 - a word list
)
UNREAL = frozenset(sections("statements.txt")["unreal"])
WORN = frozenset(  # words of titles that say nothing of the matter
    """project feedback refer memory note rule user plan statu update state summari detail relat see md file
    work claud workflow""".split()  # noqa: SIM905 - a word list
)
_NO_MATTER = WORN.union(_DAY, MONTHS)
TIMES = frozenset({"before", "after", "vor", "nach"})  # at the head: "Before the move …"
_RULES = frozenset(
    """always never use avoid dont do must prefer immer nie niemals toujours jamais sempre nunca
    siempre""".split()  # noqa: SIM905 - a word list
)
_UNITS = {  # what each measures, and how much of it
    word: (what, float(much))
    for what, much, *words in map(str.split, sections("statements.txt")["units"])
    for word in words
}
PERSONS = frozenset("he she it they er sie es il elle ils elles ele ela eles elas".split())  # noqa: SIM905
_DEFINITES = PERSONS.union(sections("statements.txt")["definites"])
_BOUNDS = frozenset(
    sections("statements.txt")["bounds"]
)  # "above 500": no name of a thing, but a limit
_LIMITS = _BOUNDS.union(
    "max min limit limited most least maximum minimum every exactly threshold".split()  # noqa: SIM905
)
_SPELT = re.compile(rf"(?i)\b(?:{'|'.join(_SPELT_OUT)})\b")
_LONG_UNITS = "|".join(one for one in _UNITS if (len(one) > 2 or one == "an") and one.isalpha())
_SPELT_MEASURE = re.compile(rf"(?i)\b(?:{'|'.join(_SPELT_OUT)})(?=[ -](?:{_LONG_UNITS})\b)")
_EACH = "|".join(sections("statements.txt")["EACH"])
_ONE = re.compile(rf"(?i)\b({_EACH}) (?=(?:{_LONG_UNITS})\b)")  # "every hour", "un an"
_MEASURE = re.compile(
    rf"(?i)(?<![\w.~–/-])(?:\d[\d.,:]*|{'|'.join(_SPELT_OUT)})[ -]?(?:%|(?:{'|'.join(map(re.escape, _UNITS))})\b)"
)
_RATE = Listed("statements.rate")
_IN_A_WORD = (("by hand", "manually"), ("von Hand", "manuell"))
_ELIDED = Listed("statements.elided")  # "n'est", "l'API"
_ASIDE = Listed("statements.aside")
_LABELLED = re.compile(
    r"#\d+|\b[A-Za-z]+-\d[\w-]*|\b[A-Z]+\d+\b|\b(?!A [^\W\dA-Z_])[A-HJ-Z]\b(?!['’])"
)
_DEFINITE = re.compile(r"(?i)(?:the|our|my|der|die|das) [^\W\d_]+ (?:is|are|ist|sind) \S+\W*\Z")
KEYED = re.compile(r"[^:]{0,30}:(?=[\s*])")
_COUNTED = Listed("statements.counted")
_DIGIT = re.compile(r"\d")
_NAMED = Listed("statements.named")
_NUMBERED = frozenset("port version limit timeout".split())  # noqa: SIM905 - a word list
_VALUE = re.compile(r"(?<![\w.~–/-])(\d[\d.,:]*)(?:[ -]?(%|[^\W\d_]+))?(?![\w~–/-])")
_PLACE = re.compile(r"https?://\S+|[~.]?/?[\w.-]+(?:/[\w.-]+)+|`[^`]+`")
# "AWS Secrets Manager" is one name.
_PROPER = re.compile(r"(?<=[a-zß-ÿ] )[A-Z]\w+(?: [A-Z]\w+){1,2}\b")
_DATE = Listed("statements.dated")
_ENTRY = re.compile(r"[-*+#|>]|\d+[.)] ")
_WRAPPED = re.compile(r"(?<=[^\s.!?:;。])\n {0,3}(?=[^\W\d]|[`(\"]|\d(?!\d*[.)]\s))")
# "**How to apply:** …", "What we agreed in the call: …"; "Customer Halden: …" is of that customer
_KEY = Listed("statements.key", flags=re.RegexFlag.NOFLAG)
_JOINING = "|".join(sections("statements.txt")["JOINING"])
_JOINED = re.compile(rf"(?i)\A(?:{_JOINING})\s+")
_BREAK = Listed("statements.break")
_CAUSE = Listed("statements.cause")
_SHORT_WIDE = 5  # characters of what says next to nothing
_NARROWS = whole_words(
    "statements.narrows"
)  # how a clause begins that says when the one beside it is so
EXCEPTS = whole_words("statements.excepts")
_POINTING = (*"[[ http related why siehe verwandt voir link status source".split(), "see ")  # noqa: SIM905
COMPARED = re.compile(r"\b(\w+) (?:over|to|than|instead of|before|after|statt|als|vor|nach) (\w+)")


@dataclass(frozen=True, slots=True)
class Said:
    """One sentence of a memory, taken apart: what it speaks of, and what of that may decide."""

    text: str
    about: tuple[str, ...]  # stems without signs and values, each once
    no: bool
    poles: frozenset[str]  # words that have an opposite
    where: frozenset[str]  # words that narrow it: an environment, a platform, a day of its own
    labels: frozenset[str]  # "plan 12", "#4711": names of things, which differ without a quarrel
    keyed: bool  # "Port: 8080" says of what only with its file
    rule: bool  # "always …", "never …", or in short what "the …" is
    opening: str  # its first word
    generic: bool  # it begins with what it speaks of, not with "the", "its" or "it", which is of its file
    tells: bool  # it has the verb or preposition that a value follows


def stripped(sentence: str) -> tuple[str, str, set[str]]:
    """A sentence without asides, without places and names of things too, and those names."""
    plain = _ASIDE.sub(" ", sentence) if "(" in sentence or "[[" in sentence else sentence
    for phrase, word in _IN_A_WORD:
        plain = plain.replace(phrase, word)
    bare = _PLACE.sub(" ", plain) if "/" in plain or "`" in plain else plain
    labels = {found.casefold() for found in _LABELLED.findall(bare)}
    if labels:
        bare = _LABELLED.sub(" ", bare)
    numbered = _DIGIT.search(bare)  # most have no number
    counted = numbered and _COUNTED.match(bare)
    if counted:
        words, behind = wording.words(counted[0]), wording.words(bare[counted.end() :][:12])
        if not (_NUMBERED | _BOUNDS).intersection(words[-2:-1]) and _UNITS.keys().isdisjoint(
            behind[:1]
        ):
            labels.add(" ".join(words))
            bare = bare[counted.end() :]
    for found in _NAMED.findall(bare) if numbered else ():
        if found.split()[0].casefold() not in _NUMBERED:
            labels.add(found.casefold())
            bare = bare.replace(found, " ", 1)
    return plain, _PROPER.sub(lambda found: found[0].replace(" ", ""), bare), labels


def plain_words(bare: str) -> frozenset[str]:
    found = wording.words(_ELIDED.sub("", bare) if "'" in bare or "’" in bare else bare)
    if "'" in bare or not bare.isascii():
        return frozenset(word.replace("'", "") for word in found)
    return frozenset(found)


def matter_of(bare: str) -> tuple[str, ...]:
    """What a stripped sentence speaks of: "30 minutes" and "2 hours" are values, units and all."""
    words = plain_words(bare)
    if words.isdisjoint(_UNITS) and "%" not in bare:  # most have none
        return about_of(words)
    return about_of(plain_words(_MEASURE.sub(" ", _ONE.sub(r"\1 1 ", bare))))


def about_of(words: frozenset[str]) -> tuple[str, ...]:
    rest = [word for word in words - _SIGNS if word.isalpha() or not any(map(str.isdigit, word))]
    return tuple(wording.stems_of(rest) - _NO_MATTER)


def taken_apart(sentence: str) -> Said:
    _, bare, labels = stripped(sentence)
    words = plain_words(bare)
    return Said(
        text=sentence,
        about=matter_of(bare),
        no=len(words & NOT) % 2 == 1,
        poles=_kept(words & POLES),
        where=_kept(
            words & (SCOPES | UNREAL)
            | {*_DATE.findall(sentence), *TIMES & {*wording.words(bare[:12])[:1]}}
        ),
        labels=_kept(frozenset(labels)),
        keyed=bool(KEYED.match(sentence)),
        rule=not words.isdisjoint(_RULES) or bool(_DEFINITE.match(sentence)),
        opening=_first_word(sentence),
        generic=sentence.count(" ") > 1 and _first_word(sentence) not in _DEFINITES,
        tells=not words.isdisjoint(TELLING),
    )


def _first_word(sentence: str) -> str:
    return next(iter(wording.words(sentence[:24])), "")


@lru_cache(maxsize=1024)
def _kept(few: frozenset[str]) -> frozenset[str]:
    """One of those that are the same: most sentences have none of these words."""
    return few


def opening_apart(one: str, other: str) -> bool:
    """Are they opposites by how they begin?"""
    for less, more in _OPENINGS:
        for first, second in ((one, other), (other, one)):
            rest = first.removeprefix(less)
            if len(rest) >= _LEAST_STEM and second == more + rest and first == less + rest:
                return True
    return False


@lru_cache(maxsize=4096)
def values_of(sentence: str) -> Mapping[str, frozenset[str]]:
    """By kind: numbers with their unit, days, months, places."""
    plain, bare, _ = stripped(sentence)
    words = plain_words(bare)
    values = {
        "number": frozenset(_values(bare)),
        "day": frozenset(_DAY[word] for word in words if word in _DAY),
        "month": words.intersection(MONTHS) - {"may"},
        "place": frozenset(filter(_is_place, _PLACE.findall(plain))),
    }
    return {kind: found for kind, found in values.items() if found}


def _values(text: str) -> Iterator[str]:
    """Numbers with their unit. How many of a thing there are changes and is no quarrel, unless the
    sentence sets a limit."""
    limit = not _LIMITS.isdisjoint(wording.words(text))
    spelt = _SPELT if limit else _SPELT_MEASURE
    text = _ONE.sub(r"\1 1 ", spelt.sub(lambda found: _SPELT_OUT[found[0].casefold()], text))
    for found in _VALUE.finditer(text):
        number, word = found[1], (found[2] or "").casefold()
        if word in _UNITS or (word and _RATE.match(text, found.end())):
            yield f"{_number(number)} {word}"
        elif limit or ":" in number or not word or word in TELLING:
            yield _number(number)


def measured(value: str) -> tuple[str, float | str]:
    """What a value of `values_of` measures, and how much: "2 hours" and "120 minutes" are the same."""
    number, _, unit = value.partition(" ")
    what, much = _UNITS.get(unit, (unit, 1))
    plain = number.replace(",", "")
    return what, float(plain) * much if re.fullmatch(r"\d+(?:\.\d+)?", plain) else plain


def _is_place(found: str) -> bool:
    """Not a pointer to a document, nor a commit: many of those may be right."""
    bare = found.strip("`").rstrip(".,;:)")
    return not (bare.endswith(".md") or re.fullmatch(r"[0-9a-f]{6,40}|[A-Z]+-\d[\d/]*", bare))


def _number(text: str) -> str:
    """15, 15.0 and 15,000 without its comma: one number has one spelling."""
    plain = wording.number_key(text).rstrip(".,:")
    return plain.rstrip("0").rstrip(".") if plain.count(".") == 1 else plain


def sentences_of(text: str) -> Iterator[str]:
    """Whole sentences: lines that were wrapped become one again, and what only heads or points is none."""
    for paragraph in text.split("\n\n"):  # one by one: most readers want the first few sentences
        joined = _WRAPPED.sub(" ", paragraph)
        dated = False  # what follows a date in its paragraph was so on that day
        for start, end in spans(joined, semicolons=True):
            sentence = joined[start:end].strip()
            if dated and not _ENTRY.match(sentence):
                continue
            dated = bool(_DATE.search(sentence[:40]))
            bare = sentence.strip(" \t-*#>|")
            short = len(bare) < 8 and not (len(bare) > 3 and is_wide(bare))
            if short or len(bare) > 300 or "|" in bare or sentence.startswith("#"):
                continue
            opening = bare[:24].casefold().lstrip("*")
            if not opening.startswith(_POINTING) and not bare.rstrip("*_").endswith(":"):
                yield bare


def clauses_of(sentence: str) -> Iterator[str]:
    """What a sentence says before more is added to it: "The export starts at 3:00, and it takes an hour". A
    condition or an exception belongs to what it narrows, and an enumeration is one thing."""
    key = _KEY.match(sentence)
    whole = sentence[key.end() :] if key else sentence
    if key and whole.count(" ") > 2:
        yield whole
    found = _BREAK.search(whole)
    if not found or _NARROWS.match(whole) or EXCEPTS.search(whole):
        return
    head, rest = whole[: found.start()], _JOINED.sub("", whole[found.end() :].lstrip())
    if _NARROWS.match(rest):
        return
    following = _BREAK.search(rest)
    added = rest[: following.start()] if following else rest
    if is_wide(head):
        long = len(head) > _SHORT_WIDE and len(added) > _SHORT_WIDE // 2
    else:
        last = not following and not found[0].isspace()  # else it may be one of several
        long = head.count(" ") > 1 and (last or added.count(" ") > 1)
    if long:
        yield head
    if _CAUSE.match(whole, found.start()) and added.count(" ") > 2:  # a reason is a fact, too
        yield added
