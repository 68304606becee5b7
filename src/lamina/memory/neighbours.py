"""Finds the memory that says nearly the same as a text, among thousands, looking at few. Pure.

A memory that shares at least `o` of a text's `n` words lacks at most `n - o` of them, so of any
`n - o + k` it has at least `k`. The text's rarest words are taken for that, and only memories that
have `k` of those are compared: the answer is that of comparing with all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

_SHARED = 6  # rare words that a memory must have in common before it is compared


def joined(stems: Iterable[str]) -> str:
    """Stems as they are kept: one text."""
    return "\0".join(stems)


class Neighbours:
    """The words of many memories, and for each word which memories have it."""

    def __init__(self, alike: float) -> None:
        self._alike = alike
        self._numbers: dict[str, int] = {}
        self._known: dict[int, tuple[str, str]] = {}  # path and words
        self._having: dict[str, list[int]] = {}  # those of dropped memories too, until `_renumber`
        self._next = 0

    def words(self, path: str) -> str:
        return self._known[self._numbers[path]][1] if path in self._numbers else ""

    def put(self, path: str, stems: str) -> None:
        """Know a memory by its words (as `joined` gives them), in the place of what was known."""
        self.drop(path)
        number = self._next
        self._next += 1
        self._numbers[path] = number
        self._known[number] = (path, stems)
        having = self._having
        for word in stems.split("\0") if stems else ():
            if word in having:
                having[word].append(number)
            else:
                having[word] = [number]

    def drop(self, path: str) -> None:
        number = self._numbers.pop(path, None)
        if number is not None:
            del self._known[number]
            if self._next > 2 * len(self._known) + 1000:
                self._renumber()

    def _renumber(self) -> None:
        known = list(self._known.values())
        self.__init__(self._alike)
        for path, stems in known:
            self.put(path, stems)

    def nearest(self, stems: frozenset[str], *, without: str = "") -> tuple[str, float]:
        """The memory at another path that shares the most, if that is enough; the first by path of
        equals. ("", 0.0) if there is none."""
        size = len(stems)
        least = math.ceil(self._alike * size - 1e-9)  # words that a memory shares if it is alike
        shared = min(_SHARED, least)
        having = sorted((self._having.get(stem, ()) for stem in stems), key=len)
        hits: Counter[int] = Counter()
        for numbers in having[: size - least + shared]:
            hits.update(numbers)
        best, at = 0.0, ""
        for number, count in hits.items():
            if count < shared or number not in self._known:
                continue
            path, words = self._known[number]
            others = words.count("\0") + 1
            if path == without or not least <= others <= size / self._alike + 1e-9:
                continue
            common = len(stems.intersection(words.split("\0")))
            likeness = common / (size + others - common)
            if likeness > best or (likeness == best and path < at):
                best, at = likeness, path
        return (at, best) if best >= self._alike else ("", 0.0)
