"""How sure the ranker is that a memory belongs to a question at all, so that an unrelated question
recalls nothing. The figures were fitted on LoCoMo's first five conversations: questions asked of
the right conversation against questions asked of another one."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Below this a hit is more likely noise than an answer.
CONFIDENT = 0.5


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a hit, each between 0 and 1."""

    coverage: float  # share of the question's weight whose words the memory holds
    known: float  # share of the question's weight whose words any memory holds
    strange_names: float  # share of the question's names that no memory holds
    likeness: float  # cosine of the word vectors


def confidence(evidence: Evidence) -> float:
    logit = (
        -2.0
        + 4.0 * evidence.coverage
        + 1.0 * evidence.known
        - 3.0 * evidence.strange_names
        + 2.0 * evidence.likeness
    )
    return 1 / (1 + math.exp(-logit))
