"""Recall: which memories and which past turns answer a question, with no model, and why.

`memory_index`, `transcripts`, `prefetch`, `select` and `why` are what others use. The rankers
beneath them load numpy, so they are imported only where something is to be searched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

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


class IndexTorn(Exception):
    """A part of an index's file is not what was written: it must be built again."""


T = TypeVar("T")
ScoredT = TypeVar("ScoredT", bound="Scored")


class Scored(Protocol):
    """A match, or what was made of one."""

    @property
    def score(self) -> float: ...
    @property
    def confidence(self) -> float: ...


def chances(found: Sequence[Scored]) -> list[float]:
    """For matches in order, how likely each is the one that was asked for: what people are shown.
    Confidence only says whether a match belongs to the question, and of five that do four may be
    beside the point. On data left out of the fit the share that is right was off from it by 4 to
    12 points on average (bench/results/recall.md). One that has no rival is as likely as it belongs.
    """
    if len(found) == 1:
        return [found[0].confidence]
    after = [*(match.score for match in found[1:]), *(match.score for match in found[-1:])]
    return [
        _chance(match.confidence, match.score, found[0].score, next_)
        for match, next_ in zip(found, after, strict=True)
    ]


def likeliest(found: Sequence[tuple[ScoredT, T]]) -> list[tuple[ScoredT, T, float]]:
    """Matches with what was found and its chance, in the order of the figure that people are shown."""
    likely = chances([match for match, _ in found])
    rows = [(match, what, chance) for (match, what), chance in zip(found, likely, strict=True)]
    return sorted(rows, key=lambda row: -row[2])


def _chance(confidence: float, score: float, best: float, next_: float) -> float:
    sure = min(max(confidence, 1e-6), 1 - 1e-6)
    logit = 0.4 * math.log(sure / (1 - sure)) - 5.2
    return 1 / (1 + math.exp(-logit - (3 * score + 5 * (score - next_)) / max(best, 1e-9)))
