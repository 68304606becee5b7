"""Scores documents by the words that they share with a question: BM25 over weighted fields, rare
words counting more. Reads the postings; keeps nothing of its own but what it can compute again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lamina.local.embedder import word_vectors
from lamina.recall.postings import Postings
from lamina.recall.words import LONGEST_QUERY, frame_terms, terms

if TYPE_CHECKING:
    from lamina.recall.rows import Floats, Slots

_MOST_TERMS = 64  # of a question; a pasted document is asked for by its first words
_FRAME_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Field:
    """How one field counts: its weight, how fast repeats stop counting, how length is punished."""

    weight: float
    saturation: float = 0.9
    length: float = 0.5

    @property
    def most(self) -> float:
        """What makes one mention of a word worth 1 in a text of mean length."""
        return self.saturation + 1


def question_terms(query: str) -> dict[str, float]:
    """A question's terms with their weights; words that only shape a question weigh less."""
    counts = Counter(terms(query, LONGEST_QUERY))
    frame = frame_terms()
    return {
        term: math.sqrt(min(count, 2)) * (_FRAME_WEIGHT if term in frame else 1.0)
        for term, count in list(counts.items())[:_MOST_TERMS]
    }


def rarity(holders: int, documents: int) -> float:
    """What a term tells: nothing when all hold it, most when none does."""
    return math.log(1 + (documents - holders + 0.5) / (holders + 0.5))


class Lexical:
    """BM25 over the fields of one set of postings."""

    def __init__(self, postings: Postings, fields: Sequence[Field]) -> None:
        self._postings = postings
        self._fields = tuple(fields)
        self._norms: list[Floats] = []

    def changed(self) -> None:
        """The postings changed: lengths are computed anew at the next search."""
        self._norms = []

    def _length_norms(self) -> list[Floats]:
        if not self._norms:
            for number, field in enumerate(self._fields):
                lengths, mean = self._postings.lengths(number)
                relative = lengths / max(mean, 1e-9)
                self._norms.append(field.saturation * (1 - field.length + field.length * relative))
        return self._norms

    def weigh(self, question: Mapping[str, float]) -> dict[str, float]:
        """Each term's weight times its rarity here; a term that nobody holds is the rarest."""
        documents = max(len(self._postings), 1)
        return {
            term: weight * rarity(self._postings.holders(term), documents)
            for term, weight in question.items()
        }

    def score(self, weighed: Mapping[str, float], *, related: float = 0.0) -> list[Floats]:
        """One array of scores for each field, by place; dead places hold rubbish.

        A document that lacks a word but holds one of like meaning gets the share `related`.
        """
        import numpy as np

        frame = frame_terms()
        one = np.empty(self._postings.slots, dtype=np.float32)
        scores: list[Floats] = []
        for number, field in enumerate(self._fields):
            total = np.zeros_like(one)
            for term, weight in weighed.items():
                own = self._postings.find(term, number)
                others = () if not related or term in frame else self._like(term, number, weighed)
                found = [*others, *((own,) if own else ())]
                if not found:
                    continue
                slots, counts = (
                    found[0] if len(found) == 1 else map(np.concatenate, zip(*found, strict=True))
                )
                gain = np.float32(weight * field.weight * field.most)
                gains = gain * counts / (counts + self._length_norms()[number][slots])
                if not others:
                    total[slots] += gains
                    continue
                gains[: len(slots) - (len(own[0]) if own else 0)] *= np.float32(related)
                # Several wordings of one word in one document count once: what is written last,
                # and that is the question's own.
                one[slots] = gains
                total[slots] = total[slots] + one[slots]
            scores.append(total)
        return scores

    def _like(
        self, term: str, number: int, asked: Mapping[str, float]
    ) -> list[tuple[Slots, Floats]]:
        """Where words of like meaning stand in a field, the nearest last."""
        near = (other for other in word_vectors().related(term) if other not in asked)
        found = [self._postings.find(other, number) for other in near]
        return [one for one in reversed(found) if one is not None]
