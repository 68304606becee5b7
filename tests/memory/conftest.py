"""Real memory directories, where the machine has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def memory_dirs() -> Path:
    root = Path(__file__).parents[2]
    data = Path(os.environ.get("LAMINA_DATA") or root.parent / "shared" / "data")
    if not (data / "memory-dirs").is_dir():
        pytest.skip("the real memory directories are not on this machine (LAMINA_DATA)")
    return data / "memory-dirs"
