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
from lamina.text.unspaced import is_wide
from lamina.text.wording import spans

NOT = frozenset(
    ("not", "no", "never", "dont", "doesnt", "isnt", "arent", "cant", "cannot", "wont", "shouldnt",
     "mustnt", "didnt", "without", "nicht", "kein", "keine", "keinen", "nie", "niemals", "nunca", "não",
     "jamais", "pas", "nessun")
)  # fmt: skip
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
)  # fmt: skip


def _opposites() -> Mapping[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for one, other in map(str.split, sections("statements.txt")["opposites"]):
        found[one].add(other)
        found[other].add(one)
    return {word: frozenset(others) for word, others in found.items()}


OPPOSITES = _opposites()
# What denies is a sign of its own, and so is what that takes back.
POLES = frozenset(word for word, others in OPPOSITES.items() if not NOT & {word, *others})
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SPELT_OUT = {word: str(number) for number, word in enumerate(_NUMBERS, 1)}
_SIGNS = NOT.union(_SPELT_OUT, "always every ever please must should now use uses using".split())  # noqa: SIM905
TELLING = frozenset(
    """is are was runs run uses use on in at to with via from by lives moved deploys prefers prefer ist sind
    every after begins starts needs need only läuft nutzt mit auf nur est sont sur en dans par avec utilise tourne usa
    é são em por com para es son con""".split()  # noqa: SIM905
)
SCOPES = frozenset(  # two sentences that differ in one of these speak of two things
    """production prod staging dev development local test tests testing ci preview sandbox windows linux macos
    mac ios android mobile desktop web frontend backend client server old new legacy first second
    third final previous was were had used war morning evening weekend weekdays default fallback input output read write
    upload    download min max minimum maximum lower upper left right top bottom request response source target parent
    child internal external admin user guest free paid primary secondary""".split()  # noqa: SIM905 - a word list
)
WORN = frozenset(  # words of titles that say nothing of the matter
    """project feedback refer memory note rule user plan statu update state summari detail relat see md file
    work claud workflow""".split()  # noqa: SIM905 - a word list
)
_NO_MATTER = WORN.union(DAYS, MONTHS)
_TIMES = frozenset({"before", "after", "vor", "nach"})  # at the head: "Before the move …"
_RULES = frozenset("always never use avoid dont do must prefer immer nie niemals".split())  # noqa: SIM905 - a word list
_UNITS = frozenset(
    """% k ms s sec seconds second min minutes minute h hours hour days day weeks week months month years year
    kb mb gb tb px em rem eur usd am pm uhr characters chars lines columns sekunden minuten stunden tage wochen monate
    jahre zeichen zeilen secondes heures jours semaines mois ans lignes""".split()  # noqa: SIM905 - a word list
)
_LIMITS = frozenset(
    """max min limit limited most least maximum minimum every exactly threshold""".split()  # noqa: SIM905 - a word list
)
_SPELT = re.compile(rf"(?i)\b(?:{'|'.join(_SPELT_OUT)})\b")
_SPELT_MEASURE = re.compile(
    rf"(?i)\b(?:{'|'.join(_SPELT_OUT)})(?=[ -](?:{'|'.join(one for one in _UNITS if len(one) > 3)})\b)"
)
_IN_A_WORD = (("by hand", "manually"), ("von Hand", "manuell"))
_ASIDE = Listed("statements.aside")
_LABELLED = re.compile(r"#\d+|\b[A-Za-z]+-\d[\w-]*|\b[A-Z]+\d+\b|\b[A-HJ-Z]\b(?!['’])")
_DEFINITE = re.compile(r"(?i)(?:the|our|my|der|die|das) [^\W\d_]+ (?:is|are|ist|sind) \S+\W*\Z")
KEYED = re.compile(r"[^:]{0,30}:(?=[\s*])")
_COUNTED = re.compile(r"\A\W*((?:[^\W\d_]+ ){0,2}[^\W\d_]{3,} \d+[a-z]?)(?![\w.,:%]*\d)(?=\W)")
_NAMED = Listed("statements.named")
_NUMBERED = frozenset("port version limit timeout".split())  # noqa: SIM905 - a word list
_VALUE = re.compile(r"(?<![\w.~–/-])(\d[\d.,:]*)(?:[ -]?(%|[^\W\d_]+))?(?![\w~–/-])")
_PLACE = re.compile(r"https?://\S+|[~.]?/?[\w.-]+(?:/[\w.-]+)+|`[^`]+`")
# "AWS Secrets Manager" is one name.
_PROPER = re.compile(r"(?<=[a-zß-ÿ] )[A-Z]\w+(?: [A-Z]\w+){1,2}\b")
_DATE = Listed("statements.dated")
_ENTRY = re.compile(r"[-*+#|>]|\d+[.)] ")
_WRAPPED = re.compile(r"(?<=[^\s.!?:;。])\n(?=[^\W\d]|[`(\"])")
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
    keyed: bool  # "Port: 8080" says of what
    rule: bool  # "always …", "never …", or in short what "the …" is
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
    counted = _COUNTED.match(bare)
    if counted and counted[1].split()[-2].casefold() not in _NUMBERED:
        labels.add(counted[1].casefold())
        bare = bare[counted.end(1) :]
    for found in _NAMED.findall(bare):
        if found.split()[0].casefold() not in _NUMBERED:
            labels.add(found.casefold())
            bare = bare.replace(found, " ", 1)
    return plain, _PROPER.sub(lambda found: found[0].replace(" ", ""), bare), labels


def plain_words(bare: str) -> frozenset[str]:
    found = wording.words(bare)
    if "'" in bare or not bare.isascii():
        return frozenset(word.replace("'", "") for word in found)
    return frozenset(found)


def about_of(words: frozenset[str]) -> tuple[str, ...]:
    rest = [word for word in words - _SIGNS if word.isalpha() or not any(map(str.isdigit, word))]
    return tuple(wording.stems_of(rest) - _NO_MATTER)


def taken_apart(sentence: str) -> Said:
    _, bare, labels = stripped(sentence)
    words = plain_words(bare)
    return Said(
        text=sentence,
        about=about_of(words),
        no=len(words & NOT) % 2 == 1,
        poles=_kept(words & POLES),
        where=_kept(
            words & SCOPES | {*_DATE.findall(sentence), *_TIMES & {*wording.words(bare[:12])[:1]}}
        ),
        labels=_kept(frozenset(labels)),
        keyed=bool(KEYED.match(sentence)),
        rule=not words.isdisjoint(_RULES) or bool(_DEFINITE.match(sentence)),
        tells=not words.isdisjoint(TELLING),
    )


@lru_cache(maxsize=1024)
def _kept(few: frozenset[str]) -> frozenset[str]:
    """One of those that are the same: most sentences have none of these words."""
    return few


@lru_cache(maxsize=4096)
def values_of(sentence: str) -> Mapping[str, frozenset[str]]:
    """By kind: numbers with their unit, days, months, places."""
    plain, bare, _ = stripped(sentence)
    words = plain_words(bare)
    values = {
        "number": frozenset(_values(bare)),
        "day": frozenset(DAYS).intersection(word.removesuffix("s") for word in words),
        "month": words.intersection(MONTHS) - {"may"},
        "place": frozenset(filter(_is_place, _PLACE.findall(plain))),
    }
    return {kind: found for kind, found in values.items() if found}


def _values(text: str) -> Iterator[str]:
    """Numbers with their unit. How many of a thing there are changes and is no quarrel, unless the
    sentence sets a limit."""
    limit = not _LIMITS.isdisjoint(wording.words(text))
    spelt = _SPELT if limit else _SPELT_MEASURE
    text = spelt.sub(lambda found: _SPELT_OUT[found[0].casefold()], text)
    for number, unit in _VALUE.findall(text):
        word = unit.casefold()
        if word in _UNITS:
            yield f"{_number(number)} {word}"
        elif limit or ":" in number or not word or word in TELLING:
            yield _number(number)


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
