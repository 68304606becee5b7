"""What session search knows of every turn whatever is asked, as arrays: its neighbours, its session,
who spoke and when. Worked out once for many questions; lives in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lamina.recall.lexical import Field

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lamina.recall.rows import Floats

SESSION = Field(1.0, length=0.75)
HALF_LIFE = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Columns:
    """What is known of every turn, as arrays by place; `session_norm` is by session."""

    session: NDArray[np.int64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    before2: NDArray[np.int64]
    after2: NDArray[np.int64]
    speaker: NDArray[np.int64]
    said: NDArray[np.float64]
    faded: NDArray[np.float64]  # how much less than the newest turn each still counts
    timed: Floats
    answering: Floats  # 1 where the turn before is a question
    length: Floats
    session_norm: Floats
    named: Mapping[str, set[int]]

    def recency(self, now: float) -> Floats:
        """1 for a turn of this moment, half of it after each half-life."""
        import numpy as np

        newest = float(self.said.max(initial=0.0))
        if newest <= now:  # one product instead of as many powers as there are turns
            fading = self.faded * 2.0 ** (-(now - newest) / HALF_LIFE)
        else:
            fading = np.exp2(-np.maximum(now - self.said, 0.0) / HALF_LIFE)
        return fading.astype(np.float32)


def length_norm(lengths: Floats) -> Floats:
    """What BM25 sets against the counts of a session, by how long it is."""
    import numpy as np

    mean = np.float32(max(float(lengths.mean()), 1e-9))
    return SESSION.saturation * (1 - SESSION.length + SESSION.length * lengths / mean)


def beyond(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """One step further; -1, where there is nothing, stays -1."""
    import numpy as np

    return np.append(places, -1)[places]
