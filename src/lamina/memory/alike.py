"""Finds pairs of texts that share most of their words, among thousands, without comparing all. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence


def alike_pairs(sets: Sequence[frozenset[str]], least: float) -> Iterator[tuple[int, int, float]]:
    """Every pair (i < j) whose Jaccard likeness is at least `least`, with the likeness.

    Two sets that alike must share one of their rarest words, so only sets that do are compared.
    """
    spread = Counter(word for words in sets for word in words)
    by_word: dict[str, list[int]] = defaultdict(list)
    for number, words in enumerate(sets):
        if not words:
            continue
        rare = sorted(words, key=lambda word: (spread[word], word))
        needed = len(rare) - math.ceil(least * len(rare) - 1e-9) + 1
        rivals = {other for word in rare[:needed] for other in by_word[word]}
        for other in sorted(rivals):
            small, large = sorted((len(words), len(sets[other])))
            if small < least * large:
                continue
            shared = len(words & sets[other])
            if shared >= least * (small + large - shared):
                yield other, number, shared / (small + large - shared)
        for word in rare[:needed]:
            by_word[word].append(number)
