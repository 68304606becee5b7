"""Pairs of sets that share most of what they hold, among thousands, without comparing all. Pure."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, combinations, pairwise, product

_SHARED = 6  # of the rarest words, before two long texts are compared
_MASK = (1 << 64) - 1
_FEW = 3  # words of which each set may have one alone, and half are still in both


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


def one_apart(
    sets: Sequence[Collection[str]], least: float, beside: Collection[str], *, crowd: int = 1 << 60
) -> Iterator[tuple[int, int]]:
    """Every pair (i < j) whose Jaccard likeness is at least `least`, which is a half or more, and of which
    each has at most one word that the other lacks, and two with those `beside`. In no order; no set has a word
    twice, and an empty one is like none.

    Two sets of which each lacks one word of the other are the same without these words. So each set is
    looked up whole and without each of its words, and none is compared with what it does not pair with. Of
    more than a `crowd` that are the same so, only neighbours are paired (`pairs_among`).
    """
    rest = frozenset(beside)
    by_size: defaultdict[int, dict[int, list[int]]] = defaultdict(dict)  # by the sum of their words
    for place, words in enumerate(sets):
        if words:
            own = [word for word in words if word not in rest]
            by_size[len(own)].setdefault(sum(map(hash, own)) & _MASK, []).append(place)
    for size, same in by_size.items():
        for first, second in _meeting(sets, same, by_size.get(size - 1, {}), size, rest, crowd):
            one, other = {*sets[first]}, {*sets[second]}
            shared = len(one & other)
            alike = shared >= least * (len(one) + len(other) - shared)
            alone = max(len(one - other - rest), len(other - one - rest))
            if alike and alone <= 1 and max(len(one), len(other)) - shared <= 2:
                yield min(first, second), max(first, second)


def _meeting(
    sets: Sequence[Collection[str]],
    same: Mapping[int, Sequence[int]],
    smaller: Mapping[int, Sequence[int]],
    size: int,
    beside: Collection[str],
    crowd: int,
) -> Iterator[tuple[int, int]]:
    """Places of sets of this size that are the same but for what is beside, or are so without a word of
    one or of each."""
    once, twice = set[int](), set[int]()
    for sum_, places in same.items():
        yield from pairs_among(places, crowd)
        for rest in _less_a_word(sets[places[0]], sum_, beside):
            yield from _between(places, smaller.get(rest, ()), crowd)
            (twice if rest in once else once).add(rest)
    without: dict[int, list[int]] = {rest: [] for rest in twice}  # which sets are this then
    for sum_, places in same.items():
        for rest in twice.intersection(_less_a_word(sets[places[0]], sum_, beside)):
            without[rest].append(sum_)
    for sums in without.values():
        # A few words of which one differs are half the same only with some beside.
        met = [[at for at in same[one] if size >= _FEW or len(sets[at]) > size] for one in sums]
        for one, other in pairs_among(range(len(met)), crowd):
            yield from _between(met[one], met[other], crowd)


def pairs_among(these: Sequence[int], crowd: int) -> Iterator[tuple[int, int]]:
    """Each with each, or of more than a crowd each with the next."""
    return combinations(these, 2) if len(these) <= crowd else pairwise(these)


def _between(these: Sequence[int], those: Sequence[int], crowd: int) -> Iterator[tuple[int, int]]:
    return product(these[:crowd], those[:crowd])


def _less_a_word(words: Collection[str], sum_: int, beside: Collection[str]) -> Iterator[int]:
    """The sum without each of the words."""
    return ((sum_ - hash(word)) & _MASK for word in words if word not in beside)
