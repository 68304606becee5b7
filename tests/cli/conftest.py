"""A command line in a world of its own: an empty home, an empty project, no keys."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lamina.cli.main import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that holds `home` and `project`; the process stands in the project."""
    for name in list(os.environ):
        if name.startswith(("LAMINA_", "ANTHROPIC_", "OPENAI_", "CLAUDE_")):
            monkeypatch.delenv(name)
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")  # the same tables on every machine
    monkeypatch.setenv("LAMINA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


@pytest.fixture
def lamina(world: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command line in this process."""

    def run(*words: str) -> Ran:
        capfd.readouterr()
        code = main(list(words))
        captured = capfd.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[bytes], None]]:
    """Put bytes where a pipe would."""
    opened: list[io.TextIOWrapper] = []

    def put(content: bytes) -> None:
        path = tmp_path / "stdin"
        path.write_bytes(content)
        opened.append(io.TextIOWrapper(path.open("rb")))
        monkeypatch.setattr(sys, "stdin", opened[-1])

    put(b"")
    yield put
    for file in opened:
        file.close()
