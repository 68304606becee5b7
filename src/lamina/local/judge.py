"""Says how likely a sentence is to hold something worth keeping, and of which type: a linear judge
and one with a small hidden layer, who must agree, learned from `bench/data/judge_*.jsonl` by
`bench/train_judge.py`. Reads its one data file when first asked; the same sentence always gets the
same answer.
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
LENGTH = 8.0  # what is seen of a sentence has this length for the hidden layer, however long it is
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
    direction = meaning(message[place].text)
    scores = _summed(learned, "buckets", words, parts, direction) + learned["bias"]
    hidden = _summed(learned, "hidden", words, parts, direction)
    hidden *= np.float32(LENGTH / _length(words, parts, direction))
    active = np.maximum(hidden + learned["hidden_bias"], np.float32(0))
    both = _chances(scores) + _chances(active @ learned["out"] + learned["out_bias"])
    odds = np.exp(_chances(both / np.float32(2)))
    best = int(odds[1:].argmax())
    return Opinion(float(1 - odds[0]), TYPES[best])


def _summed(
    learned: dict[str, Any], name: str, words: list[int], parts: list[int], direction: Floats | None
) -> Floats:
    """The weights of all that was seen, added up: parts of words count less."""
    import numpy as np

    rows = learned[name]
    found = rows[words].sum(axis=0, dtype=np.int32) + np.float32(PARTS_WEIGHT) * rows[parts].sum(
        axis=0, dtype=np.int32
    )
    found = (found * learned[f"{name}_steps"]).astype(np.float32)
    return found if direction is None else found + direction @ learned[f"{name}_meaning"]


def _length(words: list[int], parts: list[int], direction: Floats | None) -> float:
    square = len(words) + PARTS_WEIGHT**2 * len(parts)
    return max(1e-6, square + (0.0 if direction is None else float(direction @ direction))) ** 0.5


def _chances(scores: Floats) -> Floats:
    """Logarithms of how likely each type is; of two judges' sum, of what they hold together."""
    import numpy as np

    scores = scores - scores.max()
    return scores - np.log(np.exp(scores).sum())


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
        return {name: stored[name] for name in stored.files}
