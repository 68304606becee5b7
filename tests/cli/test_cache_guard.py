"""F12 from end to end: a long conversation with a provider in another process that keeps a prompt cache,
through the official package. What breaks the cache is told in words, and nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.examples import EXPLORE
from tests.sessions import Place, run

from lamina.cache.guard import Guard
from lamina.ledger import edits
from lamina.messages import Message, Request, text
from lamina.models import open_model
from lamina.opening import change_model

if TYPE_CHECKING:
    from tests.cli.conftest import Ran
    from tests.wire.plugin import CacheProvider

MODEL = "anthropic:claude-sonnet-4-6"
TURNS = 200 if EXPLORE else 60
WORDS = "words of some length " * (6_000 // TURNS)


class Talk:
    """A session at the provider whose clock and tool list the test changes."""

    def __init__(self, place: Place, provider: CacheProvider, session: Any) -> None:
        self._place, self._provider, self.session = place, provider, session

    async def broke(self) -> list[tuple[str, bool]]:
        """Go on; what is said of the cache then."""
        reply = await self.session.ask("Go on.")
        return [(e.cause, e.registered) for e in reply.events if e.kind == "cache_broke"]

    def wait(self, seconds: float, *, unnoticed: bool = False) -> None:
        self._provider.advance(seconds)
        self._place.clock.at += 0 if unnoticed else seconds

    def frame(self, **changes: Any) -> None:
        frame = {**self.session.ledger.projection.frame, **changes}
        parts = (frame[name] for name in ("system", "tools", "model", "params"))
        self.session.ledger.append(edits.frame(*parts))

    @property
    def tools(self) -> list[Any]:
        return [dict(tool) for tool in self.session.ledger.projection.frame["tools"]]


@pytest.mark.spec("F12", "I2")
def test_every_cause_is_told_and_nothing_else_is_over_a_long_conversation(
    world: Path,
    cache_provider: CacheProvider,
    lamina: Callable[..., Ran],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    place = Place(world)
    config = {
        "anthropic.base_url": cache_provider.url,
        "notes.enabled": False,
        "recall.enabled": False,
        "extraction.enabled": False,
        "microcompact.api_management": False,
        "api.retries": 0,
    }

    async def story() -> None:
        async with place.open(MODEL, config=config) as session:
            talk = Talk(place, cache_provider, session)
            for number in range(TURNS):
                reply = await session.ask(f"Question {number}: {WORDS}")
                assert not [e for e in reply.events if e.kind == "cache_broke"]
                talk.wait(20)

            tools = talk.tools
            [grep] = [tool for tool in tools if tool["name"] == "Grep"]
            grep["description"] += " Now."
            talk.frame(tools=tools)
            assert await talk.broke() == [("tool list changed: Grep description", False)]
            talk.frame(tools=[tool for tool in tools if tool is not grep])
            assert await talk.broke() == [("tool list changed: Grep removed", False)]
            system = [dict(block) for block in session.ledger.projection.frame["system"]]
            system[0]["text"] += " It is Monday."
            talk.frame(system=system)
            said = 'system prompt changed: block 0, at "It is Monday."'
            assert await talk.broke() == [(said, False)]
            assert await talk.broke() == []

            talk.wait(400)
            assert await talk.broke() == [("TTL of 5 min passed (7 min)", False)]
            talk.wait(400, unnoticed=True)
            said = "the provider lost its cache: the prompt only grew"
            assert await talk.broke() == [(said, False)]
            await change_model(session.state, "anthropic:claude-haiku-4-5")
            assert await talk.broke() == [("model changed to anthropic:claude-haiku-4-5", True)]
            await session.compact()
            assert await talk.broke() == [("compaction", True)]
            assert await talk.broke() == []

    run(story)
    value = lamina("context", "--json").json["cache"]
    told = {row["cause"]: row for row in value["breaks"]}
    assert len(told) == 7
    assert told["TTL of 5 min passed"]["tokens"] > 20_000
    assert [cause for cause, row in told.items() if row["expected"]] == [
        "model changed to anthropic:claude-haiku-4-5",
        "compaction",
    ]
    assert 0.8 < value["read"] / value["input"] < 1
    shown = lamina("context").out
    assert "The prompt cache" in shown
    assert all(cause in shown for cause in told)


@pytest.mark.spec("F12")
def test_a_memory_put_before_an_old_message_is_told_where_the_provider_lost_the_prefix(
    cache_provider: CacheProvider,
) -> None:
    def said(count: int) -> list[Message]:
        roles = ("user", "assistant")
        return [{"role": roles[n % 2], "content": [text(f"{n} {WORDS}")]} for n in range(count)]  # type: ignore[typeddict-item]

    async def story() -> None:
        options = {"api_key": "k", "base_url": cache_provider.url}
        model = open_model(MODEL, options=options)
        guard, can = Guard(), model.capabilities

        async def ask(messages: list[Message]) -> str:
            request = Request([text("Be brief.")], [], messages, "claude-sonnet-4-6")
            guard.before(request, 0.0, can)
            response = await model.complete(request, lambda _: None)
            broke = guard.after(request, response, 0.0, can)
            return broke.cause if broke else ""

        assert await ask(said(41)) == ""
        memory = text("<system-reminder>\nMemory (saved 3 days ago): x.md\n</system-reminder>")
        grown = said(43)
        grown[42]["content"].append(memory)
        assert await ask(grown) == ""  # at the end it breaks nothing
        grown = said(45)
        grown[42]["content"].append(memory)
        grown[12]["content"].insert(0, memory)
        assert await ask(grown) == "memory attachment inserted before message 12"
        await model.close()

    run(story)
