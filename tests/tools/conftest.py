"""A project, a session's own folder and a context with real parts, for the tools' tests."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lamina.events import Event
from lamina.messages import Json, text_of
from lamina.ports import Decision, ToolContext, ToolOutcome, ToolSpec
from lamina.tools.registry import Toolbox, builtin_tools


async def permit_all(spec: ToolSpec, input: Json, context: ToolContext) -> Decision:
    return Decision(allow=True)


@dataclass
class Bench:
    """A toolbox at work in a project of its own."""

    root: Path
    context: ToolContext
    toolbox: Toolbox
    events: list[Event] = field(default_factory=list[Event])

    @property
    def project(self) -> Path:
        return self.context.project

    async def run(self, name: str, **input: Any) -> ToolOutcome:
        return await self.toolbox.run(name, input, self.context)

    async def text(self, name: str, **input: Any) -> str:
        """The text of a call that must succeed."""
        outcome = await self.run(name, **input)
        assert not outcome.is_error, outcome.content
        return text_of(outcome.content)

    async def error(self, name: str, **input: Any) -> str:
        """The text of a call that must fail."""
        outcome = await self.run(name, **input)
        assert outcome.is_error, outcome.content
        return text_of(outcome.content)

    async def shell(self, command: str, **input: Any) -> ToolOutcome:
        return await self.run("Bash", command=command, **input)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    root = Path(os.path.realpath(tmp_path))
    project, scratch = root / "project", root / "scratch"
    project.mkdir()
    scratch.mkdir()
    events: list[Event] = []
    context = ToolContext(
        project=project,
        cwd=project,
        scratch=scratch,
        emit=events.append,
        permit=permit_all,
        env={"PATH": os.environ["PATH"], "HOME": str(root)},
    )
    return Bench(root, context, Toolbox(builtin_tools()), events)


Run = Callable[..., Awaitable[ToolOutcome]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
