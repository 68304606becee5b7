"""Whether a memory turns round what the user said: "never" lost on the way, or one put in.

A model that restates badly drops a "not" more easily than any other word, and such a memory says the
opposite in the user's name. Clauses are compared one by one; only where one restates the other does a
difference count. Pure: words in, a word out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lamina.memory import wording

_HARD = re.compile(
    r"(?i)\b(?:not|never|no|none|nothing|cannot|\w+n['’]t|dont|doesnt|isnt|cant|wont|nicht|nie|niemals|kein\w*|nichts|nix)\b"
    r"|不|别|勿|没有|禁止"
)
# Ways to say no without a "not".
_SOFT = re.compile(
    r"(?i)\b(?:without|avoid\w*|stop\w*|quit\w*|instead|rather|skip\w*|refus\w*|forbid\w*|forbidden|ban\w*|banned|"
    r"hat(?:e|es|ed)|dislik\w*|unwanted|against|omit\w*|leav\w+ out|drop\w*|remov\w*|only|less|fewer|free of|"
    r"ohne|statt|vermeid\w*|hör\w* auf|verboten|nur|weniger|lieber)\b|避免|停止|讨厌|只"
)
_CLAUSE = re.compile(
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
    parts = [part.strip() for part in _CLAUSE.split(text)]
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
