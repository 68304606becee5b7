"""Finds pairs of texts that share most of their words, among thousands, without comparing all. Pure."""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from lamina.text import wording
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

_SHARED = 6  # of the rarest words, before two long texts are compared
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


def alike_pairs(
    sets: Sequence[Collection[str]] | Sequence[Collection[int]],
    least: float,
    *,
    apart: int | None = None,
) -> list[tuple[int, int, float]]:
    """Every pair (i < j) whose Jaccard likeness is at least `least`, with the likeness, by j, then i; with
    `apart` only those of which each has at most so many words that the other lacks. No set has a word twice.

    Two sets that are alike must share some of their rarest words, so only sets that do are compared, each
    with those before it in the order of their sizes.
    """
    spread = Counter(chain.from_iterable(sets))
    ranks = {word: rank for rank, word in enumerate(sorted(spread, key=lambda w: (spread[w], w)))}
    order = sorted(filter(sets.__getitem__, range(len(sets))), key=lambda one: len(sets[one]))
    ranked = [array("I", sorted(map(ranks.__getitem__, sets[one]))) for one in order]
    by_word: defaultdict[int, list[int]] = defaultdict(list)  # rising
    sharing: list[int] = []
    found: list[tuple[int, int, float]] = []
    first = 0  # those before it are too small
    for place, words in enumerate(ranked):
        size = len(words)
        near = size - apart if apart is not None else 0
        common = max(1, math.ceil(least * size - 1e-9), near)
        with_larger = max(common, math.ceil(2 * least / (1 + least) * size - 1e-9))
        sharing.append(min(_SHARED, 1 + common // 16))
        while len(ranked[first]) < common:
            first += 1
        rare = [by_word[word] for word in words[: size - common + sharing[-1]] if word in by_word]
        for smaller in rare:
            if smaller and smaller[0] < first:
                del smaller[: bisect_left(smaller, first)]
        rivals = Counter(chain.from_iterable(rare))
        mine = frozenset(words)
        for other in [one for one, n in rivals.items() if n >= sharing[one]]:
            shared = len(mine.intersection(ranked[other]))
            both = size + len(ranked[other]) - shared
            if shared >= near and shared >= least * both:
                one, two = sorted((order[other], order[place]))
                found.append((one, two, shared / both))
        for word in words[: size - with_larger + sharing[-1]]:
            by_word[word].append(place)
    return sorted(found, key=lambda pair: (pair[1], pair[0]))
