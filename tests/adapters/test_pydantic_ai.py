"""pydantic-ai's capability (I1), with the real package and its own function model."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.adapters.conftest import FACT, QUESTION, lines

from lamina.cache.spend import Spend

pytest.importorskip("pydantic_ai", reason="needs pydantic-ai: pip install 'lamina[pydantic-ai]'")

from pydantic_ai import Agent, BinaryContent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from lamina.adapters.pydantic_ai import Lamina

pytestmark = pytest.mark.spec("I1")
LONG = lines("log", 2000)


class Model:
    """Says what it is told to say, and keeps what it was sent."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.sent = list(answers), list[list[ModelMessage]]()
        self.tools: list[str] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.sent.append(messages)
        self.tools = [tool.name for tool in info.function_tools]
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ModelResponse([TextPart(answer) if isinstance(answer, str) else answer])


def calls(number: int, tool: str = "read", **given: Any) -> ToolCallPart:
    return ToolCallPart(tool, given or {"file": "a"}, f"call{number}")


def agent_with(model: Model, home: Path, **options: Any) -> Agent[Any, str]:
    lamina = Lamina(user="alice", home=home, **options)
    agent: Agent[Any, str] = Agent(
        FunctionModel(model), capabilities=[lamina], instructions="Be brief."
    )

    @agent.tool_plain
    def read(file: str) -> str:
        return read_file(file)

    return agent


def run(agent: Agent[Any, str], words: Any, **given: Any) -> Any:
    return anyio.run(partial(agent.run, words, **given))  # theirs leaves an event loop behind


def read_file(file: str) -> str:
    return LONG if file == "log" else f"{lines('a')}\nchanged = {file!r}"


def said(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    return [str(part.content) for part in parts if hasattr(part, "content")]


def test_the_model_sees_the_view_the_history_keeps_the_record_and_expand_leads_back(
    home: Path,
) -> None:
    model = Model(calls(1, file="log"), calls(2, "Expand", id="call1", search="step_77("), "Never.")
    record = run(agent_with(model, home), QUESTION).all_messages()
    assert said(record) == [QUESTION, LONG, LONG.splitlines()[77], "Never."]
    prompt, memory, result, expanded = said(model.sent[-1])
    assert (prompt, expanded) == (QUESTION, LONG.splitlines()[77])
    assert FACT in memory
    assert len(result) < 4000
    assert "Expand " in result.splitlines()[1]
    assert model.tools == ["read", "Expand"]
    assert [bool(call["input"]) for call in Spend(home / "spend").calls()] == [True] * 3


def test_what_was_changed_once_stays_so_and_a_changed_history_is_a_branch(home: Path) -> None:
    model = Model(*(one for n in range(4) for one in (calls(n), calls(10 + n, file="b"), "ok")))
    agent = agent_with(model, home)
    first = run(agent, "Read them.").all_messages()
    run(agent, "Read the others.")
    history = run(agent, "Read them again.", message_history=first).all_messages()
    tea, milk = [*model.sent[:3], *model.sent[6:9]], model.sent[3:6]
    for talk in ([said(view) for view in tea], [said(view) for view in milk]):
        assert talk[2][1] == read_file("a"), "the first reading is whole in each conversation"
        assert len(talk[2][2]) < 300, "the second is folded"
        assert all(later[: len(one)] == one for one, later in pairwise(talk))
    assert said(history)[2] == read_file("b"), "and the record is whole"
    changed = [*first[:-1], ModelResponse([TextPart("Changed history.")])]
    run(agent, "And on.", message_history=changed)
    branch = said(model.sent[9])
    assert branch[:3] == said(model.sent[2])[:3]
    assert branch[3:] == ["Changed history.", "And on."]


@pytest.mark.spec("L4.1")
def test_a_long_history_is_sent_with_a_summary_and_stays_whole(small: Path) -> None:
    count = 12
    model = Model(*(calls(n, "fetch", file=str(n)) for n in range(count)), "Done.", "And on.")
    agent: Agent[Any, str] = Agent(
        FunctionModel(model),
        capabilities=[Lamina(user="alice", home=small)],
        system_prompt="Be brief.",
    )

    @agent.tool_plain
    def fetch(file: str) -> str:
        return lines(file, 700)

    record = run(agent, "Read all of them.").all_messages()
    results = [p for m in record for p in m.parts if isinstance(p, ToolReturnPart)]
    assert [p.content for p in results] == [lines(str(n), 700) for n in range(count)]
    shown = model.sent[-1]
    system, summary = shown[0].parts
    assert isinstance(system, SystemPromptPart), "instructions stay"
    assert str(summary.content).startswith("<summary>")
    assert "Read all of them." in str(summary.content)
    assert isinstance(shown[1], ModelResponse)
    assert shown[1:] == record[len(record) - len(shown) : -1], "the end is as it is"
    more = run(agent, "Go on.", message_history=record).all_messages()
    assert more[: len(record)] == record
    again = said(model.sent[-1])
    assert again[: len(said(shown))] == said(shown), "and the beginning, until the next summary"


def test_a_request_that_the_provider_refuses_goes_out_as_the_agent_made_it(home: Path) -> None:
    no = ModelHTTPError(400, "function")
    model = Model(no, no, no, "ok", no)
    agent = agent_with(model, home)
    with pytest.raises(ModelHTTPError):  # not for what was changed: the original fares no better
        run(agent, QUESTION)
    model.sent.clear()
    with pytest.warns(RuntimeWarning, match="left alone"):
        assert run(agent, QUESTION).output == "ok"
    assert [FACT in "".join(said(view)) for view in model.sent] == [True, False]
    with pytest.raises(ModelHTTPError):
        run(agent, QUESTION)
    assert len(model.sent) == 3


def test_a_streamed_answer_is_booked_too(home: Path) -> None:
    sent: list[list[ModelMessage]] = []

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> Any:
        sent.append(messages)
        yield "Never "
        yield "on Fridays."

    agent: Agent[Any, str] = Agent(
        FunctionModel(stream_function=stream), capabilities=[Lamina(user="alice", home=home)]
    )

    async def talk() -> str:
        async with agent.run_stream(QUESTION) as answer:
            return await answer.get_output()

    assert anyio.run(talk) == "Never on Fridays."
    assert FACT in "".join(said(sent[0]))
    assert len(list(Spend(home / "spend").calls())) == 1


def test_pictures_and_other_parts_stay_as_they_are(home: Path) -> None:
    model = Model("ok")
    image = BinaryContent(b"hi", media_type="image/png")
    run(agent_with(model, home), [QUESTION, image])
    (request,) = model.sent[0]
    assert [one for one in request.parts[0].content if isinstance(one, BinaryContent)] == [image]
    assert FACT in str(request.parts[1].content)


def test_switched_off_it_adds_nothing(home: Path) -> None:
    model = Model("ok")
    run(agent_with(model, home, enabled=False), QUESTION)
    assert (said(model.sent[0]), model.tools) == ([QUESTION], ["read"])
