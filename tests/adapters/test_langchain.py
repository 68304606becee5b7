"""LangChain's middleware (I1), with the real package and its own fake model."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.conftest import FACT, QUESTION, lines
from tests.wire.server import Answer, WireServer, fails, says

from lamina.cache.spend import Spend

pytest.importorskip("langchain", reason="needs langchain: pip install 'lamina[langchain]'")

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from lamina.adapters.langchain import LaminaMiddleware

pytestmark = pytest.mark.spec("I1")


class Model(GenericFakeChatModel):
    """Says what it is told to say, and keeps what it was sent."""

    sent: list[list[BaseMessage]]
    refuses: int = 0

    def bind_tools(self, tools: Any, **_: Any) -> Model:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **named: Any) -> Any:
        self.sent.append(messages)
        if self.refuses:
            self.refuses -= 1
            raise BadRequest
        return super()._generate(messages, *args, **named)


class BadRequest(Exception):
    status_code = 400


def model(*answers: AIMessage) -> Model:
    return Model(messages=iter(answers), sent=[])


def calls(number: int, tool: str = "read", **given: Any) -> AIMessage:
    call = {"name": tool, "args": given or {"file": "a"}, "id": f"call{number}"}
    usage = {"input_tokens": 100, "output_tokens": 5, "total_tokens": 105}
    cached: Any = {**usage, "input_token_details": {"cache_read": 60, "cache_creation": 30}}
    return AIMessage("", tool_calls=[call], usage_metadata=cached)


LONG = lines("log", 2000)


def read(file: str) -> str:
    """Reads a file."""
    return LONG if file == "log" else f"{lines('a')}\nchanged = {file!r}"


def ask(agent: Any, words: str, thread: str = "", history: list[Any] | None = None) -> list[Any]:
    config: Any = {"configurable": {"thread_id": thread}} if thread else {}
    return agent.invoke({"messages": [*(history or []), HumanMessage(words)]}, config)["messages"]


def said(messages: list[BaseMessage]) -> list[str]:
    return [str(message.content) for message in messages]


def test_the_model_sees_the_view_the_state_keeps_the_record_and_expand_leads_back(
    home: Path,
) -> None:
    fake = model(
        calls(1, file="log"), calls(2, "Expand", id="call1", search="step_77("), AIMessage("Never.")
    )
    agent = create_agent(fake, [read], middleware=[LaminaMiddleware(user="alice", home=home)])
    record = ask(agent, QUESTION)
    assert said(record)[0] == QUESTION
    assert said(record)[2] == LONG
    assert said(record)[4] == LONG.splitlines()[77]
    shown = said(fake.sent[-1])
    assert shown[0].startswith(f"{QUESTION}\n\n<system-reminder>")
    assert FACT in shown[0]
    assert len(shown[2]) < 4000
    assert "Expand " in shown[2].splitlines()[1]
    assert shown[4] == LONG.splitlines()[77], "whoever asks for an original gets it whole"
    first = next(iter(Spend(home / "spend").calls()))
    assert [first[kind] for kind in ("input", "cache_read", "cache_write", "output")] == [
        10,
        60,
        30,
        5,
    ]


def test_what_was_changed_once_stays_so_in_each_thread_and_in_a_branch(home: Path) -> None:
    fake = model(
        *(
            one
            for n in range(4)
            for one in (calls(2 * n), calls(2 * n + 1, file="b"), AIMessage("ok"))
        )
    )
    kept = InMemorySaver()
    middleware = LaminaMiddleware(user="alice", home=home)
    agent = create_agent(fake, [read], middleware=[middleware], checkpointer=kept)
    for thread in ("tea", "milk", "tea"):
        ask(agent, "Read them.", thread)
    views = [said(view) for view in fake.sent]
    tea, milk = [*views[:3], *views[6:9]], views[3:6]
    for talk in (tea, milk):
        assert len(talk[2][4]) < 300, "the second reading is folded"
        assert talk[2][2] == read("a"), "the first one is whole in each thread"
        assert all(later[: len(one)] == one for one, later in pairwise(talk))
    history = agent.get_state({"configurable": {"thread_id": "tea"}}).values["messages"]
    assert said(history)[4] == read("b"), "and the record is whole"
    bare = create_agent(fake, [read], middleware=[middleware])
    ask(bare, "Read other ones.", history=[*history[:5], AIMessage("Changed history.")])
    branch = said(fake.sent[-3])
    assert branch[:3] == tea[-1][:3]
    assert branch[5] == "Changed history."


@pytest.mark.spec("L4.1")
def test_a_long_thread_is_sent_with_a_summary_and_the_state_is_whole(small: Path) -> None:
    count = 12
    answers = (
        AIMessage(f"Part {n}.", tool_calls=calls(n, file=str(n)).tool_calls) for n in range(count)
    )
    fake = model(*answers, AIMessage("Done."))

    def fetch(file: str) -> str:
        """Fetches a file."""
        return lines(file, 400)

    tool = {"name": "read", "description": "Fetches a file."}
    agent = create_agent(
        fake,
        [StructuredTool.from_function(fetch, **tool)],
        middleware=[LaminaMiddleware(user="alice", home=small)],
    )
    told = [SystemMessage("Be brief.")]
    record = ask(agent, "Read all of them.", history=told)
    assert [len(one.content) for one in record if isinstance(one, ToolMessage)] == [
        len(lines(str(n), 400)) for n in range(count)
    ]
    shown = fake.sent[-1]
    assert shown[0] == told[0], "instructions stay"
    assert isinstance(shown[1], HumanMessage)
    assert shown[1].text.startswith("<summary>")
    assert "Read all of them." in shown[1].text
    assert isinstance(shown[2], AIMessage)
    assert shown[2:] == record[len(record) - 1 - len(shown[2:]) : -1], "the end is as it is"


def test_a_request_that_the_provider_refuses_goes_out_as_the_agent_made_it(home: Path) -> None:
    fake = model(AIMessage("ok"), AIMessage("ok"))
    fake.refuses = 1
    agent = create_agent(fake, [], middleware=[LaminaMiddleware(user="alice", home=home)])
    with pytest.warns(RuntimeWarning, match="left alone"):
        ask(agent, QUESTION)
    assert [FACT in said(view)[0] for view in fake.sent] == [True, False]
    fake.refuses = 1
    with pytest.raises(BadRequest):
        ask(agent, QUESTION)


def test_switched_off_it_adds_nothing(home: Path) -> None:
    middleware = LaminaMiddleware(user="alice", home=home, enabled=False)
    fake = model(AIMessage("ok"))
    ask(create_agent(fake, [], middleware=[middleware]), QUESTION)
    assert (list(middleware.tools), said(fake.sent[0])) == ([], [QUESTION])


def test_a_real_model_is_streamed_and_asked_again_where_it_refuses(
    wire: WireServer, home: Path
) -> None:
    openai = pytest.importorskip("langchain_openai", reason="needs langchain-openai")
    import anyio
    import httpx

    given: Any = {"model": "gpt-5", "base_url": wire.openai_url, "api_key": "k"}
    middleware = LaminaMiddleware(user="alice", home=home)

    async def talk(words: str) -> str:
        async with httpx.AsyncClient() as http:
            chat = openai.ChatOpenAI(**given, stream_usage=True, http_async_client=http)
            agent = create_agent(chat, [read], system_prompt="Be brief.", middleware=[middleware])
            parts = agent.astream({"messages": [HumanMessage(words)]}, stream_mode="messages")
            return "".join([part.text async for part, _ in parts])

    wire.will(Answer([{"type": "tool_use", "id": "c1", "name": "read", "input": {"file": "log"}}]))
    wire.will(says("Never on Fridays."))
    assert anyio.run(talk, QUESTION).endswith("Never on Fridays.")
    sent = wire.received[-1].body["messages"]
    assert sent[0] == {"role": "system", "content": "Be brief."}
    assert FACT in sent[1]["content"]
    assert len(sent[3]["content"]) < 4000
    assert [call["input"] for call in Spend(home / "spend").calls()] == [10, 10]
    wire.will(fails(400, "invalid_request_error"))
    with pytest.warns(RuntimeWarning, match="left alone"):
        anyio.run(talk, QUESTION)
    assert wire.received[-1].body["messages"][1]["content"] == QUESTION


def test_a_deep_agent_takes_the_same_middleware(home: Path) -> None:
    deep = pytest.importorskip("deepagents", reason="needs deepagents: make test-adapters")
    fake = model(calls(1), calls(2, file="b"), AIMessage("ok"))
    middleware = LaminaMiddleware(user="alice", home=home)
    agent = deep.create_deep_agent(model=fake, tools=[read], middleware=[middleware])
    record = ask(agent, QUESTION)
    results = [m.content for m in record if isinstance(m, ToolMessage)]
    assert results == [read("a"), read("b")]
    assert any(FACT in words for words in said(fake.sent[-1]))
    shown = [m.content for m in fake.sent[-1] if isinstance(m, ToolMessage)]
    assert shown[0] == results[0]
    assert "as in" in shown[1], "what repeats is folded"


def test_blocks_that_are_no_text_stay_where_they_are(home: Path) -> None:
    fake = model(AIMessage("ok"))
    agent = create_agent(fake, [], middleware=[LaminaMiddleware(user="alice", home=home)])
    image = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    prompt = HumanMessage([{"type": "text", "text": QUESTION}, image])
    agent.invoke({"messages": [prompt]})
    words, picture, memory = fake.sent[0][-1].content
    assert (words["text"], picture, FACT in memory["text"]) == (QUESTION, image, True)
