"""The OpenAI Agents SDK (I1), the real package against a server of our own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.adapters.conftest import FACT, QUESTION, lines
from tests.wire.server import Answer, WireServer, fails, says

from lamina.cache.spend import Spend

pytest.importorskip("agents", reason="needs openai-agents: pip install 'lamina[openai-agents]'")

import openai

from agents import (
    Agent,
    OpenAIProvider,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from lamina.adapters.openai_agents import LaminaProvider

pytestmark = pytest.mark.spec("I1")
LONG = lines("log", 2000)


def read_file(file: str) -> str:
    if file.startswith("long "):
        return lines(file, 400)
    return LONG if file == "log" else f"{lines('a')}\nchanged = {file!r}"


@function_tool
def fetch(file: str) -> str:
    """Fetches a file."""
    return read_file(file)


def calls(number: int, tool: str = "fetch", **given: Any) -> Answer:
    block = {"type": "tool_use", "id": f"call{number}", "name": tool, "input": given}
    return Answer([block])


def sent(wire: WireServer, at: int = -1) -> list[Any]:
    body = wire.received[at].body
    return body.get("input") or body["messages"]


Talk = Callable[[LaminaProvider, Callable[..., Awaitable[Any]], SQLiteSession], Awaitable[None]]


def run(wire: WireServer, home: Path, talk: Talk, *, responses: bool = True, **given: Any) -> None:
    """A story with one agent, one provider and one session."""
    set_tracing_disabled(True)

    async def story() -> None:
        url = wire.openai_url
        async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
            inner = OpenAIProvider(openai_client=client, use_responses=responses)
            provider = LaminaProvider(inner, user="alice", home=home, **given)
            agent = Agent(
                "it", model="gpt-5", tools=[fetch, provider.expand], instructions="Be brief."
            )
            config = RunConfig(model_provider=provider)
            session = SQLiteSession("one")

            async def ask(words: str, streams: bool = False, **more: Any) -> Any:
                more = {"session": session, "run_config": config, **more}
                if not streams:
                    return (await Runner.run(agent, words, **more)).final_output
                result = Runner.run_streamed(agent, words, **more)
                async for _ in result.stream_events():
                    pass
                return result.final_output

            await talk(provider, ask, session)
            session.close()

    anyio.run(story)


@pytest.mark.parametrize("responses", [True, False])
@pytest.mark.parametrize("streams", [True, False])
def test_the_model_sees_the_view_the_session_keeps_the_record_and_expand_leads_back(
    responses: bool, streams: bool, wire: WireServer, home: Path
) -> None:
    wire.will(
        calls(1, file="log"), calls(2, "Expand", id="call1", search="step_77("), says("Never.")
    )
    record: list[Any] = []

    async def talk(_: LaminaProvider, ask: Any, session: SQLiteSession) -> None:
        assert await ask(QUESTION, streams) == "Never."
        record.extend(await session.get_items())

    run(wire, home, talk, responses=responses)
    outputs = [one["output"] for one in record if one.get("type") == "function_call_output"]
    assert outputs == [LONG, LONG.splitlines()[77]]
    assert record[0]["content"] == QUESTION
    assert FACT in str(sent(wire)[0 if responses else 1])
    results = [str(one.get("output") or one.get("content")) for one in sent(wire)]
    shown = next(one for one in results if "persisted-output" in one)
    assert len(shown) < 4000
    assert "Expand " in shown.splitlines()[1]
    assert LONG.splitlines()[77] in results
    booked = len(list(Spend(home / "spend").calls()))
    assert booked == (3 if responses or not streams else 0), "a chat's stream does not tell"


def test_what_was_changed_once_stays_so_and_a_changed_history_is_a_branch(
    wire: WireServer, home: Path
) -> None:
    for number in range(4):
        wire.will(calls(number, file="a"), calls(10 + number, file="b"), says("ok"))
    other = SQLiteSession("two")

    async def talk(_: LaminaProvider, ask: Any, session: SQLiteSession) -> None:
        await ask("Read them.")
        await ask("Read the others.", session=other)
        await ask("Read them again.")
        last = await session.pop_item()
        assert last is not None
        await ask("Another way.")
        assert [one.get("output") for one in await session.get_items()][4] == read_file("b")

    run(wire, home, talk)
    other.close()
    tea, milk = [0, 1, 2, 6, 7, 8], [3, 4, 5]
    for numbers in (tea, milk):
        views = [sent(wire, at) for at in numbers]
        assert views[2][2]["output"] == read_file("a"), "whole in each conversation"
        assert len(views[2][4]["output"]) < 300
        assert all(later[: len(one)] == one for one, later in pairwise(views))
    assert sent(wire, 9)[: len(sent(wire, 8))] == sent(wire, 8), "what both share is as it was sent"


@pytest.mark.spec("L4.1")
@pytest.mark.parametrize("responses", [True, False])
def test_a_long_session_is_sent_with_a_summary_and_stays_whole(
    responses: bool, wire: WireServer, small: Path
) -> None:
    count = 12
    for n in range(count):
        usage = {"input_tokens": 4_400 * n + 100, "output_tokens": 5}
        wire.will(replace(calls(n, file=f"long {n}"), usage=usage))
    wire.will(says("Done."))
    record: list[Any] = []

    async def talk(_: LaminaProvider, ask: Any, session: SQLiteSession) -> None:
        assert await ask("Read all of them.", max_turns=20) == "Done."
        record.extend(await session.get_items())

    run(wire, small, talk, responses=responses)
    outputs = [one["output"] for one in record if one.get("type") == "function_call_output"]
    assert outputs == [read_file(f"long {n}") for n in range(count)]
    shown = sent(wire) if responses else sent(wire)[1:]  # behind the system prompt
    assert str(shown[0]["content"]).startswith("<summary>")
    assert "Read all of them." in str(shown[0]["content"])
    tail = [str(one.get("output") or one.get("content") or "") for one in shown]
    assert outputs[-1] in tail
    assert outputs[0] not in tail


@pytest.mark.parametrize("streams", [True, False])
def test_a_request_that_the_provider_refuses_goes_out_as_the_agent_made_it(
    streams: bool, wire: WireServer, home: Path
) -> None:
    wire.will(fails(400, "invalid_request_error"), says("ok"), fails(400, "invalid_request_error"))

    async def talk(_: LaminaProvider, ask: Any, session: SQLiteSession) -> None:
        with pytest.warns(RuntimeWarning, match="left alone"):
            assert await ask(QUESTION, streams, session=None) == "ok"
        with pytest.raises(openai.BadRequestError):
            await ask(QUESTION, streams, session=None)

    run(wire, home, talk)
    assert [FACT in str(sent(wire, at)) for at in range(3)] == [True, False, False]


def test_a_model_that_is_an_object_is_taken_too_and_off_means_off(
    wire: WireServer, home: Path
) -> None:
    async def talk(provider: LaminaProvider, ask: Any, _: SQLiteSession) -> None:
        async with openai.AsyncOpenAI(base_url=wire.openai_url, api_key="k") as client:
            bare = OpenAIResponsesModel("gpt-5", client)
            for one in (provider, LaminaProvider(user="alice", home=home, enabled=False)):
                await Runner.run(Agent("it", model=one.around(bare)), QUESTION)

    run(wire, home, talk)
    assert [FACT in str(sent(wire, at)) for at in range(2)] == [True, False]


def test_what_the_provider_holds_passes_through(wire: WireServer, home: Path) -> None:
    async def talk(_: LaminaProvider, ask: Any, session: SQLiteSession) -> None:
        await ask(QUESTION, session=None, previous_response_id="resp_1")

    run(wire, home, talk)
    assert FACT not in str(sent(wire))
