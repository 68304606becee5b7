"""How many examples a property tries: few in every run, the whole number with LAMINA_EXPLORE=1."""

from __future__ import annotations

import os
from collections.abc import Collection

from hypothesis import HealthCheck, settings

EXPLORE = bool(os.environ.get("LAMINA_EXPLORE"))
FEWEST = 20


def examples(most: int, *, suppress: Collection[HealthCheck] = ()) -> settings:
    """Settings for a property that is worth more examples than the profile's."""
    return settings(
        max_examples=most if EXPLORE else max(FEWEST, most // 20),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, *suppress],
    )
