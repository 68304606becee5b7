"""Wishes by what they are made of, for those that no phrase foresees: a clause that names keeping, is
turned to the reader and beside that has only small words ("I'd hate you to lose track of the fact that
…"). What it wants kept stands behind it, before it or in a neighbouring sentence. Pure; its words are
in `lists/keeping.*.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from lamina.text.lists import either, sections

_TOKEN = re.compile(r"[^\W\u3400-\u9fff]+(?:['-][^\W\u3400-\u9fff]+)*|[\u3400-\u9fff]|[^\s\w]|_")
_STOPS = frozenset(".!?;:：。！？；–—…\n")
_COMMAS = frozenset(",，、-")
_MOST = 20  # small words on each side: a wish is short
_KINDS = ("keep", "lose", "place", "label", "lasting", "weak")
_Token = tuple[int, int, str]  # begin, end, folded


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause that is nothing but a wish."""

    start: int
    end: int  # what is kept may follow from here on
    mark: str  # how it goes on: "that", ":", ",", "own" ("… I have two dogs") or "" for not at all
    points: bool  # it has a word for what is kept: "this"


@lru_cache(maxsize=4)
def words_of(lang: str) -> Keeping:
    return Keeping(lang)


class Keeping:
    """How one language speaks of keeping."""

    def __init__(self, lang: str) -> None:
        self._lists = sections(f"keeping.{lang}.txt")
        self._spaced = lang != "zh"

    def clause_in(self, plain: str, *, asks: bool) -> Clause | None:
        """The first clause of a sentence that only asks to have something kept."""
        tokens: list[_Token] | None = None
        for kind in _KINDS:
            for met in self._ideas[kind].finditer(plain):
                tokens = self._tokens(plain) if tokens is None else tokens
                before = [one for one in tokens if one[1] <= met.start()]
                after = [one for one in tokens if one[0] >= met.end()]
                for left in self._lefts(before, kind):
                    clause = self._clause(met, kind, left, after, asks=asks)
                    if clause is not None:
                        return clause
        return None

    @cached_property
    def _ideas(self) -> dict[str, re.Pattern[str]]:
        edge = r"\b" if self._spaced else ""
        return {
            kind: re.compile(f"(?i){edge}{either(self._lists, kind, spaced=self._spaced)}")
            for kind in _KINDS
        }

    @cached_property
    def _horizon(self) -> re.Pattern[str]:
        """ "next month", "after we close this chat": until when it is to be known."""
        edge = r"\b" if self._spaced else ""
        return re.compile(f"(?i){edge}{either(self._lists, 'horizon', spaced=self._spaced)}")

    @cached_property
    def _case(self) -> re.Pattern[str]:
        """ "下次做饭的时候别忘了": when to think of it, whatever that is."""
        return re.compile(either(self._lists, "case", spaced=self._spaced))

    @cached_property
    def _sets(self) -> dict[str, frozenset[str]]:
        """The words of each section that holds single words, several on a line."""
        return {
            name: frozenset(" ".join(rows).casefold().split()) for name, rows in self._lists.items()
        }

    @cached_property
    def _filler(self) -> str:
        """A word that may stand anywhere and means nothing else."""
        others = (words for name, words in self._sets.items() if name != "soft")
        return min(self._sets["soft"].difference(*others))

    @cached_property
    def _small(self) -> frozenset[str]:
        names = ("small", "soft", "you", "me", "asking", "not", "this", "that")
        return frozenset[str]().union(*(self._sets[name] for name in names))

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._small))

    def _tokens(self, plain: str) -> list[_Token]:
        found = [(m.start(), m.end(), m[0].casefold()) for m in _TOKEN.finditer(plain)]
        return found if self._spaced else [*self._joined(plain, found)]

    def _joined(self, plain: str, found: Sequence[_Token]) -> Iterator[_Token]:
        """Characters as the longest small words that they make."""
        end = 0
        cases = {met.start(): met.end() for met in self._case.finditer(plain)}
        for start, stop, word in found:
            if start < end:
                continue
            if start in cases:
                end = cases[start]
                yield start, end, self._filler
                continue
            sizes = range(min(self._longest, len(plain) - start), 0, -1)
            size = next((n for n in sizes if plain[start : start + n] in self._small), 0)
            end = start + size if size else stop
            yield start, end, plain[start:end] if size else word

    def _lefts(self, before: Sequence[_Token], kind: str) -> Iterator[Sequence[_Token]]:
        """The small words before an idea, from each place where a clause may begin, nearest first.
        Before a place to keep things any verb may open it: "lodge this in your memory"."""
        at = len(before)
        while at and len(before) - at < _MOST:
            word = before[at - 1][2]
            if word in _STOPS:
                break
            if word in _COMMAS:
                yield before[at:]
            elif word not in self._small:
                opens = at == 1 or before[at - 2][2] in _STOPS | _COMMAS | self._sets["soft"]
                if kind == "place" and opens:
                    yield before[at:]
                return
            at -= 1
        yield before[at:]

    def _clause(
        self,
        met: re.Match[str],
        kind: str,
        left: Sequence[_Token],
        after: Sequence[_Token],
        *,
        asks: bool,
    ) -> Clause | None:
        said = [one[2] for one in left if one[2] not in _COMMAS]
        count, mark = self._goes_on(after)
        right = [one[2] for one in after[:count]]
        asks = asks and not self._sets["polite"] & {*said, *right}
        if asks or not self._is_turned(said, met[0].casefold(), kind):
            return None
        start = left[0][0] if left else met.start()
        if mark is None or self._is_denied([*said, *right], met[0].casefold()) != (kind == "lose"):
            return None
        idea = re.split(r"\s+", met[0].casefold())
        points = not self._spaced or bool(
            self._sets["this"] & {*said, *right, *idea} or self._sets["whom"] & {*idea}
        )
        if kind == "weak" and mark in ("", ",") and not points:
            return None
        if kind == "label" and mark not in (":", "that", "own"):
            return None
        end = after[count - 1][1] if count else met.end()
        said_when = met.string[: None if mark == "" else end]  # what is kept has dates of its own
        if kind == "lasting" and not self._horizon.search(said_when):
            return None
        return Clause(start, end, mark, points)

    def _is_denied(self, said: Sequence[str], idea: str) -> bool:
        nots = self._sets["not"]
        return bool(nots & {*said} or nots & {*re.split(r"\s+", idea)})

    def _is_turned(self, said: Sequence[str], idea: str, kind: str) -> bool:
        """Is it the reader who is to keep it? "I remember", "he'd note that" and "do you remember"
        are not said to ask."""
        you, me, asking = (self._sets[name] for name in ("you", "me", "asking"))
        bare = [word for word in said if word not in self._sets["soft"]]
        persons = [word for word in bare if word in you or word in me]
        if not bare or all(word in self._sets["this"] for word in bare):
            return kind != "weak" and (" " in idea or not idea.endswith("ing"))
        if not persons and self._sets["polite"] & {*bare} and self._sets["this"] & {*bare}:
            return True  # "can that stay in your memory?"
        if persons and persons[-1] in you:
            return bool(asking & {*said})
        named = re.split(r"\s+", idea) if self._spaced else [w for w in you if w in idea]
        inside = bool(you & {*named})
        if persons and not (
            inside and kind == "lose"
        ):  # "I want this remembered", not "I want to remember this"
            last = len(bare) - bare[::-1].index(persons[-1])
            return bool(
                self._sets["wants"] & {*bare[last:]} and self._sets["this"] & {*bare[last:]}
            )
        return inside or bare[0] in self._sets["opens"]

    def _goes_on(self, after: Sequence[_Token]) -> tuple[int, str | None]:
        """How many tokens still belong to the wish, and what follows; None: something else."""
        for at, (_, _, word) in enumerate(after[:_MOST]):
            if word in _STOPS:
                colon = word in ":：–—"
                return (at + 1, ":") if colon else (at, "")
            rest = after[at + 1 :]
            if word in _COMMAS:
                if rest and rest[0][2] in self._sets["that"]:
                    continue
                return at + 1, ","
            if word in self._sets["that"]:
                comma = bool(rest) and rest[0][2] in _COMMAS
                if self._says(rest[comma:]) and rest[comma][2] not in self._sets["into"]:
                    return at + 1 + comma, "that"
            passed = {one[2] for one in after[:at]}
            if (
                word in self._sets["own"]
                and self._says(rest)
                and passed <= self._sets["soft"] | self._sets["loose"]
            ):
                return at, "own"
            if word in self._sets["trail"] and self._says(rest):
                return at, ""
            if word not in self._small:
                return 0, None
        return len(after), ""

    def _says(self, rest: Sequence[_Token]) -> bool:
        """Does more than small words follow in this clause?"""
        for _, _, word in rest:
            if word in _STOPS or word in _COMMAS:
                return False
            if word not in self._small:
                return True
        return False
