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


@pytest.fixture
def small(home: Path) -> Path:
    """The same home, where a conversation is compacted early and nothing else is taken out of it."""
    on_disk = "[tool_results]\nenabled = false\n[microcompact]\nworn = false\n"
    (home / "settings.toml").write_text(f"[compact]\nwindow = 60000\n{on_disk}")
    return home


def lines(seed: str, count: int = 60) -> str:
    rng = random.Random(seed)
    return "\n".join(f"def step_{n}(): return {rng.random()}" for n in range(count))
