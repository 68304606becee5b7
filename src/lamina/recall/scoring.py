"""How documents are scored against a question, for memories and turns alike: BM25 over words,
likeness of word vectors, how sure a match is, and the order of the best. Reads postings; what it
keeps can be computed again. Touches no files.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lamina.local.embedder import DIMENSIONS, likeness, word_vectors
from lamina.recall.kept import Apart, Column
from lamina.recall.postings import Found, Postings, Rows
from lamina.recall.term_counts import Floats, Numbers, Places, changes
from lamina.text.terms import LONGEST_QUERY, frame_terms, proper_names, terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Directions: TypeAlias = Floats | NDArray[np.int16]

# ---- words

_MOST_TERMS = 64  # of a question; a pasted document is asked for by its first words
# Words that only shape a question ("how many"). At .75 recall@5 of sessions goes from .736 to .741
# on LoCoMo 1-5 and from .816 to .802 on LongMemEval (bench/results/recall.md).
_FRAME_WEIGHT = 0.5
FIRST_PERSON = re.compile(
    r"\b(?:i|me|my|mine|je|moi|mon|ma|mes|ich|mein\w*|mich|mir|yo|mi|mis)\b|[我俺私僕]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Field:
    """How one field counts in BM25: how fast repeats stop counting, how length is punished."""

    saturation: float = 0.9
    length: float = 0.75

    def gain(self, weight: float) -> np.float32:
        """Makes one mention of a word worth its weight in a text of mean length."""
        return np.float32(weight * (self.saturation + 1))


def question_terms(query: str) -> dict[str, float]:
    """A question's terms with their weights; words that only shape a question weigh less."""
    counts = Counter(terms(query, LONGEST_QUERY))
    frame = frame_terms()
    return {
        term: math.sqrt(min(count, 2)) * (_FRAME_WEIGHT if term in frame else 1.0)
        for term, count in list(counts.items())[:_MOST_TERMS]
    }


def fitting_part(said: str, question: str, most: int) -> str:
    """Of a text that is too long to be shown, the stretch that holds most of the question's words."""
    words = " ".join(said.split())
    if len(words) <= most:
        return words
    wanted, step = question_terms(question), most // 6
    weights: dict[int, float] = {}
    for start in range(0, len(words) - most + step, step):
        held = {*terms(words[start : start + most])}
        weights[start] = sum(weight for term, weight in wanted.items() if term in held)
    most_held = max(weights.values())
    best = [start for start, weight in weights.items() if weight == most_held]
    # What is asked for may stand on either side of the words that ask for it.
    start = best[len(best) // 2] if most_held else 0
    end = "…" if start + most < len(words) else ""
    return f"{'…' if start else ''}{words[start : start + most]}{end}"


def rarity(holders: int, documents: int) -> float:
    """What a term tells: nothing when all hold it, most when none does."""
    return math.log(1 + (documents - holders + 0.5) / (holders + 0.5))


class Bm25:
    """Scores by shared words over the fields of one set of postings, rare words counting more."""

    def __init__(self, postings: Postings, fields: Sequence[Field]) -> None:
        self._postings = postings
        self._fields = tuple(fields)
        self._norms: list[Floats] = []

    def changed(self) -> None:
        """The postings changed: lengths are computed anew at the next search."""
        self._norms = []

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
        if not self._norms:
            for number, field in enumerate(self._fields):
                lengths, mean = self._postings.lengths(number)
                relative = lengths / max(mean, 1e-9)
                self._norms.append(field.saturation * (1 - field.length + field.length * relative))
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
                slots = slots.astype(np.intp)  # once, not at each use
                gains = field.gain(weight) * counts / (counts + self._norms[number][slots])
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

    def _like(self, term: str, number: int, asked: Mapping[str, float]) -> list[Found]:
        """Where words of like meaning stand in a field, the nearest last."""
        near = (other for other in word_vectors().related(term) if other not in asked)
        found = [self._postings.find(other, number) for other in near]
        return [one for one in reversed(found) if one is not None]


# ---- vectors

_PIECE = 100_000  # entries that are worked out together
_INDEX_BITS, _DOCUMENT_BITS = 22, 16  # of a packed entry; the rest is the word's


@dataclass(frozen=True, slots=True)
class VectorWords:
    """Which words of the rows pull a document's vector, and how hard."""

    fields: int  # how many the rows have
    body: int
    first: int = 0  # different words of a body that count, from its beginning; 0 for all
    headings: Sequence[int] = ()
    heading: float = 0.0  # a word of a heading counts as often as this, in each

    def of(self, rows: Rows, first: int, last: int) -> tuple[Places, Numbers, Floats]:
        """For the documents from one place to before another: how many words each has, the words,
        and how often each counts."""
        places, keys, counts = rows.between(first, last)
        places -= np.uint32(first)
        fields = keys % np.uint32(self.fields)
        body = np.flatnonzero(fields == self.body)
        if self.first:
            opens = np.searchsorted(places[body], np.arange(last - first))  # where each one begins
            body = body[np.arange(len(body)) - opens[places[body]] < self.first]
        headings = np.flatnonzero(np.isin(fields, self.headings))
        taken = np.concatenate((body, headings))
        of, words = places[taken], keys[taken] // np.uint32(self.fields)
        amounts = np.full(len(taken), self.heading, dtype=np.float32)
        amounts[: len(body)] = counts[body]
        if len(headings):
            of, words, amounts = _summed(of, words, amounts)
        return np.bincount(of, minlength=last - first), words, amounts


def _summed(of: Numbers, words: Numbers, amounts: Floats) -> tuple[Numbers, Numbers, Floats]:
    """Document by document, each word once with all its amounts, in the order of first use."""
    bits, low = np.uint64(_INDEX_BITS), np.uint64((1 << _INDEX_BITS) - 1)
    index = np.arange(len(of), dtype=np.uint64)
    document = of.astype(np.uint64) << np.uint64(64 - _DOCUMENT_BITS)
    packed = document | words.astype(np.uint64) << bits | index
    packed.sort()
    by = (packed & low).astype(np.intp)
    starts = np.flatnonzero(changes(packed >> bits))
    total = np.add.reduceat(amounts[by], starts)
    firsts = by[starts]
    order = np.argsort(of[firsts].astype(np.uint64) << bits | firsts.astype(np.uint64))
    chosen = firsts[order]
    return of[chosen], words[chosen], total[order]


class DocumentVectors:
    """One direction for each place of some postings, worked out for all of them when one is asked
    for: a process that asks once and saves nothing would work them out anew each time. A document
    without a known word has none, and is near nothing."""

    def __init__(self, postings: Postings, words: VectorWords) -> None:
        self._postings = postings
        self._words = words
        self._replace(np.zeros((0, DIMENSIONS), dtype=np.float32))

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self) -> _Directions:
        """All directions, by place: whole numbers, as they are kept, until some come in."""
        last, wanted = len(self._rows), self._postings.slots
        if last < wanted:
            fresh = islice(self._postings.words, len(self._of_words), None)
            self._of_words.extend(word_vectors().rows_of(fresh))
            of_words = np.array(self._of_words, dtype=np.intp)
            documents = self._postings.rows()
            rows = np.empty((wanted, DIMENSIONS), dtype=np.float32)
            rows[:last] = self._rows
            while (first := last) < wanted:
                last = min(documents.reach(first, _PIECE), first + (1 << _DOCUMENT_BITS))
                sizes, words, amounts = self._words.of(documents, first, last)
                rows[first:last] = word_vectors().embed_rows(
                    sizes.tolist(), of_words[words], amounts
                )
            self._rows = rows
        return self._rows

    def keep(self, slots: Sequence[int]) -> None:
        """Only these places stay of postings that were swept; they rise."""
        self._replace(self._rows[slots[: bisect_left(slots, len(self._rows))]])

    def _replace(self, rows: _Directions) -> None:
        self._rows = rows
        self._of_words = array("I")  # where each word's vector is; a sweep numbers words anew

    def near(self, weighed: Mapping[str, float], places: Numbers | None = None) -> Floats:
        """The cosine to the question of each document, or of those at `places`; 0 when no word of
        the question is known."""
        rows, vector = self.rows(), word_vectors().embed(weighed)
        if places is None:
            self._rows = rows = rows.astype(np.float32, copy=False)
        else:
            rows = rows[places].astype(np.float32, copy=False)
        if vector is None:
            return np.zeros(len(rows), dtype=np.float32)
        return likeness(rows, vector)

    def to_state(self) -> Apart:
        return Apart(self.rows().astype(np.int16))

    def from_state(self, saved: Apart) -> None:
        self._replace(Column(saved, "i2")[:].reshape(-1, DIMENSIONS))


# ---- confidence: does a match belong to the question at all?


@dataclass(frozen=True, slots=True)
class QuestionTerms:
    """What a question asks for, weighed by how rare its words are in English at large: in a
    directory of five files the files' own words say too little."""

    rarities: Mapping[str, float]  # by term
    keys: Mapping[int, str]  # of the terms in the postings
    strange_names: float  # share of the question's names that nothing in the index holds

    @classmethod
    def of(
        cls,
        query: str,
        question: Mapping[str, float],
        postings: Postings,
        known: Collection[str] = (),
    ) -> QuestionTerms:
        """`known` are terms that are no strangers although no document holds them."""
        rarity = word_vectors().rarity
        names = proper_names(query)
        strange = [name for name in names if name not in known and not postings.holders(name)]
        return cls(
            {term: weight * rarity(term) for term, weight in question.items()},
            postings.keys_of(question),
            len(strange) / max(len(names), 1),
        )

    def coverage(self, held: Collection[str]) -> float:
        """The share of the question that these terms make up. Added up in the question's order:
        that of a set is another in every process, and so would the last bit be."""
        found = sum(weight for term, weight in self.rarities.items() if term in held)
        return found / max(sum(self.rarities.values()), 1e-9)


# The figures below are from a logistic fit on LoCoMo 1-5: questions put to the right conversation
# against questions put to another one, with people's names and without
# (docs/decisions/local-ranker.md).


def memory_confidence(
    *, coverage: float, likeness: float, words: float, strange_names: float
) -> float:
    """Coverage knows how rare a word is in English; `words`, their score in shares of what the
    question's could score, how rare it is here. Together they refuse more than either does."""
    logit = -3.3 + 3.0 * coverage + 2.4 * words + 2.8 * likeness
    return 1 / (1 + math.exp(2.9 * strange_names - logit))


def turn_confidence(*, coverage: float, likeness: float, strange_names: float) -> float:
    """Of a turn in a session, where the turns around it count as its own words."""
    logit = -2.4 + 5.0 * coverage + 2.0 * likeness
    return 1 / (1 + math.exp(1.2 * strange_names - logit))


def meant_confidence(near: float) -> float:
    """Of a match by its meaning alone, given the cosine: likely from .38 on, confident from .49. Words
    decide as long as they are surer. Set with LoCoMo, LongMemEval and BEAM in sight: strangers'
    questions that found nothing before find something in 1 to 4 of 100 cases."""
    return 1 / (1 + math.exp(-10 * (near - 0.55)))


# ---- order

_FIRST_TAKE = 16
# Sizes that bound the time of a search, not its answers: query_p95 of 100,000 memories is 3.6 ms.
_SMALL = 4_000
_FEW = 50
_CLOSER = 1_000


def best_first(scores: Floats, id_of: Callable[[int], str]) -> Iterator[int]:
    """Places with a score above 0, no more of them sorted than somebody takes. The order depends on
    scores and ids alone, never on places, so an index that grew in another order answers the
    same."""
    take, above, line = _FIRST_TAKE, math.inf, math.inf
    while line > 0:
        line = _line(scores, take)
        least = max(line, np.finfo(np.float32).tiny)
        places = np.flatnonzero((scores >= least) & (scores < above))
        ranked = zip((-scores[places]).tolist(), places.tolist(), strict=True)
        for _, slot in sorted(ranked, key=lambda pair: (pair[0], id_of(pair[1]))):
            yield slot
        take, above = take * 8, line


def promising(scores: Floats) -> Numbers:
    """The places worth a closer look, in order. A small index is looked at whole, and so is a large
    one that shares hardly a word with the question: there only related words can help."""
    found = np.flatnonzero(scores > 0)
    if len(scores) <= _SMALL or len(found) < _FEW:
        return np.arange(len(scores), dtype=np.uint32)
    values = scores[found]
    return found[values >= _line(values, _CLOSER)].astype(np.uint32)


def _line(values: Floats, take: int) -> float:
    """The value that so many reach."""
    return -math.inf if len(values) <= take else np.partition(values, -take)[-take]
