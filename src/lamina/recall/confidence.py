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


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a hit, each between 0 and 1."""

    coverage: float  # share of the question, by how rare its words are, that the memory holds
    strange_names: float  # share of the question's names that nothing in the index holds
    likeness: float  # cosine of the word vectors


def coverage(question: Mapping[str, float], held: Collection[str]) -> float:
    """The share of a question that these terms make up. Rarity is that of English at large: in a
    directory of five files the files' own words say too little."""
    rarity = word_vectors().rarity
    weights = {term: weight * rarity(term) for term, weight in question.items()}
    return sum(weights[term] for term in held) / max(sum(weights.values()), 1e-9)


def confidence(evidence: Evidence) -> float:
    """Of a memory."""
    logit = -3.2 + 5.5 * evidence.coverage + 2.2 * evidence.likeness
    return _sure(logit - 2.8 * evidence.strange_names)


def turn_confidence(evidence: Evidence) -> float:
    """Of a turn in a session, where the turns around it count as its own words."""
    logit = -2.4 + 5.0 * evidence.coverage + 2.0 * evidence.likeness
    return _sure(logit - 1.2 * evidence.strange_names)


def _sure(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))
