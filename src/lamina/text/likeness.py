"""Whether two texts with nearly the same words say the same. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lamina.text import wording
from lamina.text.pairs import alike_pairs
from lamina.text.statements import (
    COMPARED,
    DAYS,
    MONTHS,
    NOT,
    OPPOSITES,
    about_of,
    plain_words,
    stripped,
)
from lamina.text.unspaced import is_wide, parting
from lamina.text.wording import negates

_RESTATED = 0.6  # of the words of two sentences that may say the same
_INSTEAD = ("instead of", "rather than", "anstatt", "statt")


def difference(one: str, other: str) -> str:
    """ "" or in what two sentences on the same thing differ."""
    first, second = _plain(one), _plain(other)
    for word in sorted(first - second):
        if against := OPPOSITES.get(word, frozenset[str]()) & (second - first):
            return f"{word} / {min(against)}"
    if bool(first & NOT) != bool(second & NOT):
        return "one of them says not"
    for names in (DAYS, MONTHS):
        mine, theirs = first.intersection(names), second.intersection(names)
        if mine and theirs and not mine & theirs:
            return f"{min(mine)} / {min(theirs)}"
    mine, theirs = _numbers(one), _numbers(other)
    if mine and theirs and len(mine) == len(theirs) and not mine & theirs:
        return f"{min(mine)} / {min(theirs)}"
    return ""


def tells_apart(one: str, other: str) -> bool:
    """Of two texts with nearly the same words: do they name different things, or say different things
    of the same? A number, a letter, a day, a negation or the order of a comparison decides."""
    for marks in (_numbers, _letters):
        mine, theirs = marks(one), marks(other)
        if mine - theirs and theirs - mine:
            return True
    if negates(one) != negates(other) or difference(one, other):
        return True
    if is_wide(one) and is_wide(other):
        first, second = (set(wording.sentences(text)) for text in (one, other))
        if any(parting(a, b)[0] for a in first - second for b in second - first):
            return True
    turned = {(less, more) for more, less in COMPARED.findall(one.casefold())}
    return not turned.isdisjoint(COMPARED.findall(other.casefold()))


def restated(sentences: Sequence[str], least: float = _RESTATED) -> Iterator[tuple[int, int, bool]]:
    """Pairs of sentences about the same thing, and whether they say the same of it: the same words in
    the same order, but for signs such as "please" or "use", and nothing that tells them apart."""
    plain = list(sentences)
    for phrase in _INSTEAD:
        plain = [one.replace(f" {phrase} ", " not ") for one in plain]
    about = [about_of(plain_words(stripped(one)[1])) for one in plain]
    for first, second, _ in alike_pairs(about, least):
        one, other = plain[first], plain[second]
        shared = {*about[first]}.intersection(about[second])
        orders = [
            [
                *dict.fromkeys(
                    stem for word in wording.words(text) for stem in wording.stems_of([word])
                )
            ]
            for text in (one, other)
        ]
        left, right = ([stem for stem in order if stem in shared] for order in orders)
        yield first, second, left == right and not tells_apart(one, other)


def _letters(text: str) -> set[str]:  # that stand alone as names do: "shop A"
    return {letter.casefold() for letter in re.findall(r"\b[A-HJ-Z]\b(?!['’])", text)}


def _plain(sentence: str) -> set[str]:
    return {word.replace("'", "") for word in wording.words(sentence)}


def _numbers(sentence: str) -> set[str]:
    return {wording.number_key(number) for number in re.findall(r"\d+(?:[.,:-]\d+)*", sentence)}
