"""Fixtures for tests that talk to a provider: `wire` is a server of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.wire.server import WireServer


@pytest.fixture
def wire() -> Iterator[WireServer]:
    """A local server that speaks Anthropic's and OpenAI's wire formats."""
    with WireServer() as server:
        yield server
