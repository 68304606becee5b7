"""One server for all tests here; each has a tenant of its own on it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.team.people import Person, Server, start, stop

from lamina.team.database import Database

_numbers = itertools.count()


@pytest.fixture(scope="session")
def sqlite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from _served(f"sqlite://{tmp_path_factory.mktemp('team') / 'team.db'}")


@pytest.fixture
def server(sqlite_server: Server) -> Server:
    return sqlite_server


@pytest.fixture(scope="session")
def postgresql_server(postgresql: str) -> Iterator[Server]:
    yield from _served(postgresql)


def _served(address: str) -> Iterator[Server]:
    pytest.importorskip("starlette", reason="the server needs lamina[team]")
    pytest.importorskip("uvicorn", reason="the server needs lamina[team]")
    database = Database(address)
    process, url = start(address, "--rate", "100000")
    yield Server(url, database, address)
    stop(process)
    database.close()


@pytest.fixture
def tenant() -> str:
    return f"t{next(_numbers)}"


@pytest.fixture
def person(
    server: Server,
    tenant: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Person]:
    for name in list(os.environ):
        if name.startswith(("LAMINA_", "ANTHROPIC_", "OPENAI_", "CLAUDE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))

    def make(name: str, *, url: str = "", writes: bool = True, claude: bool = False) -> Person:
        token, folder = server.token(name, tenant, "acme/*", writes=writes), tmp_path / name
        url = url or server.url
        return Person(name, folder, token, url, monkeypatch, capsys, claude=claude)

    return make
