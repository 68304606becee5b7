"""Says how likely a sentence is to hold something worth keeping, and of which type: a linear judge
learned from `bench/data/judge_*.jsonl` by `bench/train_judge.py`. It finds what the rules have no
pattern for. Reads its one data file when first asked; the same sentence always gets the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from lamina.local.embedder import word_vectors
from lamina.local.features import seen
from lamina.local.own_words import Sentence
from lamina.memories import MEMORY_TYPES, MemoryType
from lamina.memory.wording import content_stems

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

TYPES = MEMORY_TYPES
PARTS_WEIGHT = 0.5
MEANING_WEIGHT = 4.0
_TABLE = "judge.npz"


@dataclass(frozen=True, slots=True)
class Opinion:
    """How likely a sentence is worth keeping, and as what if so."""

    worth: float
    type: MemoryType


def opinion(message: Sequence[Sentence], place: int) -> Opinion:
    """What the judge holds of one sentence of a message."""
    import numpy as np

    learned = table()
    words, parts = seen(message, place)
    scores = learned["bias"] + learned["buckets"][words].sum(axis=0, dtype=np.float32)
    scores += learned["buckets"][parts].sum(axis=0, dtype=np.float32) * np.float32(PARTS_WEIGHT)
    direction = meaning(message[place].text)
    if direction is not None:
        scores += direction @ learned["meaning"]
    odds = np.exp(scores - scores.max())
    odds /= odds.sum()
    best = int(odds[1:].argmax())
    return Opinion(float(1 - odds[0]), TYPES[best])


def meaning(text: str) -> Floats | None:
    """The direction of a sentence in the space of words, as the judge weighs it."""
    import numpy as np

    vector = word_vectors().embed(dict.fromkeys(sorted(content_stems(text)), 1.0))
    if vector is None:
        return None
    return vector * np.float32(MEANING_WEIGHT / max(1.0, float(np.linalg.norm(vector))))


@cache
def table() -> dict[str, Any]:
    import numpy as np

    source = files("lamina.local").joinpath(_TABLE)
    with source.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        steps = stored["steps"].astype(np.float32)
        return {
            "buckets": stored["buckets"].astype(np.float32) * steps,
            "meaning": stored["meaning"].astype(np.float32),
            "bias": stored["bias"].astype(np.float32),
        }
