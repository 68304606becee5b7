"""A model at the wire server, for the tests of both providers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lamina.events import Event
from lamina.messages import Request, Response, text
from lamina.models import open_model
from lamina.ports import Model

if TYPE_CHECKING:
    from tests.wire.server import WireServer

READ = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}


class StillClock:
    """Time that passes only by sleeping, and sleeping takes none."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return 1_800_000_000.0 + sum(self.slept)

    def monotonic(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Talk:
    """A model at the wire server, what it emitted, and the pauses it took."""

    def __init__(
        self, wire: WireServer, spec: str = "anthropic:claude-sonnet-4-6", **options: Any
    ) -> None:
        self.wire = wire
        self.clock = StillClock()
        self.events: list[Event] = []
        url = wire.anthropic_url if spec.startswith("anthropic:") else wire.openai_url
        given = {"api_key": "test-key", "base_url": url, "timeout": 20.0, **options}
        given |= {"clock": self.clock, "chance": random.Random(1)}
        self.model = open_model(spec, options=given)

    def ask(self, *requests: Request) -> Response:
        return self.run(lambda model: self._all(model, requests))

    def run(self, work: Callable[[Any], Any]) -> Any:
        async def whole() -> Any:
            try:
                return await work(self.model)
            finally:
                await self.model.close()

        return asyncio.run(whole())

    async def _all(self, model: Model, requests: tuple[Request, ...]) -> Response:
        for request in requests[:-1]:
            await model.complete(request, self.events.append)
        return await model.complete(requests[-1], self.events.append)

    @property
    def body(self) -> Any:
        return self.wire.received[-1].body

    def heard(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def request(*messages: Any, **fields: Any) -> Request:
    given: dict[str, Any] = {"system": [text("Be brief.")], "tools": [READ], **fields}
    return Request(messages=list(messages) or [user("hi")], **given)


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": [text(b) if isinstance(b, str) else b for b in blocks]}


def answer(*blocks: Any) -> dict[str, Any]:
    return {**user(*blocks), "role": "assistant"}
