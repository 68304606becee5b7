"""What the tests of adapters share: a home with one memory, and long results of tools."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import lamina

QUESTION = "When do deploys happen?"
FACT = "Deploys never happen on Fridays."


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where alice has one memory."""
    with lamina.Memory(user="alice", home=tmp_path / "home") as memory:
        memory.remember(FACT)
    return tmp_path / "home"


def lines(seed: str, count: int = 60) -> str:
    rng = random.Random(seed)
    return "\n".join(f"def step_{n}(): return {rng.random()}" for n in range(count))
