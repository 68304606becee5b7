"""Recall: which memories and which past turns answer a question, with no model, and why.

`memory_index`, `transcripts`, `prefetch`, `select` and `why` are what others use. The rankers
beneath them load numpy, so they are imported only where something is to be searched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Confidence from which on a match counts; how it comes about stands in `scoring.py`.
LIKELY = 0.15  # somebody asked: show what is only likely, but no noise. Set by hand
# Below this nothing is recalled by itself. Of strangers' questions it refuses 99% with names and
# 56% without, for 2.8 points of recall@5 (bench/results/recall.md).
CONFIDENT = 0.35
# From here on the best match need not wait for a second opinion: seven of eight such belong to the
# question, and one strange question in nine has any (docs/decisions/slow-selector.md).
SURE = 0.7


@dataclass(frozen=True, slots=True)
class Match:
    """A memory or a turn that answers the question, with what speaks for it."""

    id: str
    score: float  # the sum of the parts
    parts: Mapping[str, float]
    confidence: float  # 0 to 1: how likely it belongs to the question at all
