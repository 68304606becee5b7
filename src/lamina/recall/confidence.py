"""How sure the ranker is that a memory belongs to a question at all, so that an unrelated question
recalls nothing. The figures were fitted on LoCoMo's first five conversations: questions put to the
right conversation against questions put to another one, with people's names and without."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lamina.local.embedder import word_vectors

# Below this a hit is more likely noise than an answer.
CONFIDENT = 0.35
# From here on the best hit need not wait for a second opinion: seven of eight such hits belong to
# the question, and one strange question in nine has any.
SURE = 0.7


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a hit, each between 0 and about 1."""

    coverage: float  # share of the question, by how rare its words are, that the memory holds
    strange_names: float  # share of the question's names that nothing in the index holds
    likeness: float  # cosine of the word vectors
    words: float = 0.0  # the words' score in shares of what the question's words could score


def rarities(question: Mapping[str, float]) -> dict[str, float]:
    """What each term of a question weighs in its coverage. Rarity is that of English at large: in a
    directory of five files the files' own words say too little."""
    rarity = word_vectors().rarity
    return {term: weight * rarity(term) for term, weight in question.items()}


def coverage(weights: Mapping[str, float], held: Collection[str]) -> float:
    """The share of a question, weighed by `rarities`, that these terms make up. Added up in the
    question's order: that of a set is another in every process, and so would the last bit be."""
    found = sum(weight for term, weight in weights.items() if term in held)
    return found / max(sum(weights.values()), 1e-9)


def confidence(evidence: Evidence) -> float:
    """Of a memory. Coverage knows how rare a word is in English, the words' score how rare it is
    here; together they refuse more than either does."""
    logit = -3.3 + 3.0 * evidence.coverage + 2.4 * evidence.words + 2.8 * evidence.likeness
    return _sure(logit - 2.9 * evidence.strange_names)


def turn_confidence(evidence: Evidence) -> float:
    """Of a turn in a session, where the turns around it count as its own words."""
    logit = -2.4 + 5.0 * evidence.coverage + 2.0 * evidence.likeness
    return _sure(logit - 1.2 * evidence.strange_names)


def _sure(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))
