"""How tests open sessions: a project and a home in a temporary folder, a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from lamina.layers import recall
from lamina.models.scripted import ScriptedModel
from lamina.session import Opening, Session

# A slow machine has as long as it takes: what opens a session waits for the index of its memories.
recall._OPEN_WAITS = 60.0  # pyright: ignore[reportPrivateUsage]


class StillClock:
    """Time moves only when a test moves it, or when somebody sleeps."""

    def __init__(self, at: float = 1_790_000_000.0) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        await anyio.lowlevel.checkpoint()


class Place:
    """A project and a home of their own."""

    def __init__(self, root: Path) -> None:
        self.project = root / "project"
        self.home = root / "home"
        self.project.mkdir(exist_ok=True)
        self.clock = StillClock()
        self.config: dict[str, Any] = {}  # for each session that says nothing else

    def open(self, steps: list[Any] | Any, **wishes: Any) -> Opening:
        model = ScriptedModel(steps) if isinstance(steps, list) else steps
        wishes.setdefault("clock", self.clock)
        if self.config:
            wishes["config"] = {**self.config, **(wishes.get("config") or {})}
        return Session.open(self.project, model, home=self.home, **wishes)


def run(story: Callable[..., Any], *args: Any) -> Any:
    """Run an async story to its end."""
    return anyio.run(story, *args)


def use(name: str, id_: str = "", /, **input_: Any) -> dict[str, Any]:
    """A step's reply that calls one tool."""
    call = {"name": name, "input": input_, **({"id": id_} if id_ else {})}
    return {"tool_use": [call]}
