"""Whether words speak of somebody else than the user: "my colleague is a data scientist" says nothing
about who types it. Clauses are looked at one by one; a memory that names that somebody is about them
and may say so. Pure: text in, a word out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from lamina.text import wording
from lamina.text.lists import Listed, words

_HARD = words("persons.hard")
# Ways to say no without a "not".
_SOFT = words("persons.soft")
_POLARITY_CLAUSE = re.compile(
    r"[.;,!?:\n。；，！？：]+|\s[–—-]\s|\b(?:but|because|since|so that|sondern|weil|aber)\b"
)
_RESTATES = 0.7


def turned_round(claim: str, quotes: Iterable[str]) -> str:
    """The clause of the claim that says the opposite of a quote; "" if none does."""
    said = [(clause, stems) for quote in quotes for clause, stems in _clauses(quote)]
    for clause, stems in _clauses(claim):
        alike = [other for other, known in said if _restates(stems, known)]
        if alike and all(_opposite(clause, other) for other in alike):
            return clause
    return ""


def _clauses(text: str) -> list[tuple[str, set[str]]]:
    parts = [part.strip() for part in _POLARITY_CLAUSE.split(text)]
    found = [(part, {s for s in wording.content_stems(part) if not _HARD.fullmatch(s)}) for part in parts]  # fmt: skip
    return [(part, stems) for part, stems in found if len(stems) >= 2]


def _restates(one: set[str], other: set[str]) -> bool:
    return len(one & other) >= _RESTATES * max(len(one), len(other))


def _opposite(one: str, other: str) -> bool:
    """One says no and the other does not, in no way."""
    no_one, no_other = bool(_HARD.search(one)), bool(_HARD.search(other))
    if no_one == no_other or _cut_before_the_no(one, other):
        return False
    return not _SOFT.search(other if no_one else one)


def _cut_before_the_no(one: str, other: str) -> bool:
    """A title cut from the quote's beginning leaves out a "not" that came later, and turns nothing."""
    before, found, _ = wording.fold(other).casefold().partition(wording.fold(one).casefold())
    return bool(found) and not _HARD.search(before)


_KNOWN = Listed("persons.known", flags=re.NOFLAG)
_PRONOUN = Listed("persons.pronoun", flags=re.NOFLAG)
_NAMED = Listed("persons.named", flags=re.NOFLAG)
_CHINESE = Listed("persons.chinese_person", flags=re.NOFLAG)
_WHO = Listed("persons.who", flags=re.NOFLAG)
_NOT_SOMEBODY = frozenset(
    """i im we it this that there here what who which whose my our you your everything nothing all name
    work job role title position nickname location timezone email age experience employer city
    language me us them him her mir uns mich dir profession background focus home office stack degree major team company
    today now ich wir das es dies hier was mein meine name beruf arbeit one someone anyone never always
    and or so because""".split()  # noqa: SIM905 - a word list
)
_SELF = words("persons.self")
_CLAUSE = Listed("persons.clause")
_ABOUT_ANYBODY = words("persons.about_anybody")


def speaks_of(claim: str, sentences: Iterable[str]) -> str:
    """ "" or the one whom the words are about that a claim about the user rests on."""
    stems = wording.content_stems(claim)
    own: set[str] = set()
    others: list[tuple[str, frozenset[str]]] = []
    for sentence in sentences:
        for clause in filter(str.strip, _CLAUSE.split(wording.fold(sentence))):
            who, name, said = _subject(clause.strip())
            mine = wording.content_stems(clause[: len(clause) - len(said)] if who else clause)
            own |= mine
            if who and not _names(claim, who, name):
                others.append((f"{who} {name}".strip(), wording.content_stems(said)))
    for who, said in others:
        if 2 * len(stems & (said - own)) >= len(stems) > 0:
            return who
    return ""


def _subject(clause: str) -> tuple[str, str, str]:
    """Somebody else whom a clause speaks of, their name, and the words about them."""
    plain = clause.casefold()
    for rule in (_KNOWN, _PRONOUN, _CHINESE):
        if found := rule.match(plain):
            about = clause[found.end() :]
            name = found.groupdict().get("name") or ""
            return ("", "", "") if _SELF.search(about) else (found["who"], name.strip(), about)
    if found := _WHO.search(plain):
        who = found["who"] or found["name"]
        if who not in _NOT_SOMEBODY:
            return who, "", clause[found.end() :]
    found = _NAMED.match(plain)
    if found and found["who"] not in _NOT_SOMEBODY and not _SELF.search(clause):
        return found["who"], "", clause[found.end() :]
    return "", "", ""


def _names(claim: str, who: str, name: str) -> bool:
    """Does the claim say whom it is about?"""
    if who in ("he", "she", "they", "er", "sie", "il", "elle", "él", "ella", "他", "她"):
        return bool(_ABOUT_ANYBODY.search(claim))
    return bool(wording.content_stems(f"{who} {name}") & wording.content_stems(claim))


# ---- negations, in sentences and in the names of files

# Words that tell nothing. No negation is among them: a name must never say the opposite.
_SMALL_WORDS = frozenset(
    """a an the to of in on at for and or but so is are was be been i im my me we our you your it
    its this that these with as by from please do does der die das den dem des ein eine einen einem
    einer und oder aber ich bin du wir ist sind im am zum zur mit bei fuer von auf dass bitte es zu
    mir dir""".split()  # noqa: SIM905 - a word list
)

NEGATION = Listed("persons.negation", flags=re.NOFLAG)

# "特别" (especially), "别人" (others), "不过" (but), "不错" (good) and the like deny nothing.
_CHINESE_NO = Listed("persons.chinese_no", flags=re.NOFLAG)

_APOSTROPHES = re.compile(r"['’‘`´]")

_INTERJECTION = re.compile(r"(?i)^(?:no|nope|nein)[,!.;:–—-]+\s*")  # "No, use pnpm" denies nothing

_TRANSLITERATED = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"}
)


def negates(text: str) -> bool:
    """Does it say no, in English, German or Chinese? Made for sentences and for the names of files."""
    return any(NEGATION.fullmatch(word) for word, _ in plain_words(text))


def plain_words(text: str) -> list[tuple[str, bool]]:
    """The words in order, in plain letters, and whether each tells something."""
    plain = _CHINESE_NO.sub(" not ", _INTERJECTION.sub("", wording.fold(text)))
    plain = _APOSTROPHES.sub("", plain).translate(_TRANSLITERATED)
    plain = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    found = list(re.finditer(r"[A-Za-z0-9]+", plain))
    return [
        (one[0].lower(), one[0].lower() not in _SMALL_WORDS or _is_label(one, found))
        for one in found
    ]


def _is_label(word: re.Match[str], words: Sequence[re.Match[str]]) -> bool:
    """The A of "shop A is closed" and of "shop a" is no article."""
    if word is words[0]:
        return False
    return word[0] == "A" or (word[0] == "a" and word is words[-1])
