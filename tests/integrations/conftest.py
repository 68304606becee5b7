"""What the tests of the library and of wrapped clients share: a project, a home, a client, long results."""

from __future__ import annotations

import random
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anthropic
import pytest

if TYPE_CHECKING:
    from tests.wire.server import WireServer

READ: dict[str, Any] = {
    "name": "Read",
    "description": "Reads a file.",
    "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def bare(wire: WireServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=wire.anthropic_url, api_key="k", max_retries=0) as client:
        yield client


@contextmanager
def hearing() -> Generator[list[str]]:
    """What Lamina warned of, once it has ended. (A filter that makes errors of warnings shows nothing:
    they are not let out of a request.)"""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield told
    told += [str(one.message) for one in heard if one.category is RuntimeWarning]


def lines(seed: str, count: int = 60) -> str:
    rng = random.Random(seed)
    return "\n".join(f"def step_{n}(): return {rng.random()}" for n in range(count))
