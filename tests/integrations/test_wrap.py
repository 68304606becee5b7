"""`lamina.wrap`: a client in somebody's own loop (I1). Real packages, a real server, its bytes looked at."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import anthropic
import openai
import pydantic
import pytest
from tests.integrations.conftest import READ, hearing, lines
from tests.wire.cache import PromptCache
from tests.wire.server import Answer, WireServer, fails, says

import lamina
from lamina.cache.spend import Spend, cost, price_of
from lamina.cache.usage import anthropic_usage
from lamina.errors import UsageError
from lamina.messages import Usage

Json = dict[str, Any]
pytestmark = pytest.mark.spec("I1")
MODEL = "claude-sonnet-4-6"


@pytest.fixture
def client(bare: anthropic.Anthropic, project: Path, home: Path) -> anthropic.Anthropic:
    return lamina.wrap(bare, project, home=home)


def said(words: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": words}]}


def called(number: int, tool: str = "Read", **given: Any) -> Json:
    block = {"type": "tool_use", "id": f"call{number}", "name": tool, "input": given}
    return {"role": "assistant", "content": [block]}


def gave(number: int, words: str) -> Json:
    block = {"type": "tool_result", "tool_use_id": f"call{number}", "content": words}
    return {"role": "user", "content": [block]}


def ask(client: Any, messages: list[Json], **given: Any) -> Any:
    given = {"model": MODEL, "max_tokens": 100, "tools": [READ], **given}
    return client.messages.create(messages=messages, **given)


def sent(wire: WireServer, at: int = -1) -> list[Json]:
    """Messages of a request, each as blocks and without marks for the cache."""
    messages = wire.received[at].body["messages"]
    return [{**message, "content": _blocks(message["content"])} for message in messages]


def _blocks(content: str | list[Json]) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [{k: v for k, v in block.items() if k != "cache_control"} for block in content]


def starts_alike(earlier: list[Json], later: list[Json]) -> bool:
    return json.dumps(later[: len(earlier)]) == json.dumps(earlier)


# ---- what is sent


def test_a_request_with_nothing_to_change_is_the_bare_clients_byte_for_byte(
    client: anthropic.Anthropic, bare: anthropic.Anthropic, wire: WireServer
) -> None:
    messages = [said("Read the file."), called(1, file_path="/a"), gave(1, lines("a"))]
    marked = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    for one in (bare, client):
        ask(one, messages, system=[marked], metadata={"user_id": "u"})
    assert wire.received[0].raw == wire.received[1].raw


@pytest.mark.parametrize("off", ["argument", "variable"])
def test_switched_off_it_is_the_client_itself(
    off: str, bare: anthropic.Anthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    if off == "variable":
        monkeypatch.setenv("LAMINA_DISABLED", "1")
    assert lamina.wrap(bare, enabled=off != "argument") is bare


def test_what_repeats_is_folded_once_and_stays_so_to_the_byte(
    client: anthropic.Anthropic, wire: WireServer
) -> None:
    messages = [said("Read it."), called(1, file_path="/a"), gave(1, lines("a"))]
    whole = ask(client, messages)
    messages += [called(2, file_path="/a"), gave(2, lines("a") + "\nnew = 1")]
    ask(client, messages)
    first = sent(wire)
    assert first[:4] == messages[:4]
    assert "new = 1" in first[4]["content"][0]["content"]
    assert len(first[4]["content"][0]["content"]) < 200
    for number in range(3, 6):
        before = sent(wire)
        messages += [called(number, file_path=f"/{number}"), gave(number, lines(str(number)))]
        # A program hands back the client's own objects as well as plain values.
        messages += [{"role": "assistant", "content": whole.content}, said("And on.")]
        messages[-1]["content"][0]["cache_control"] = {"type": "ephemeral"}
        ask(client, messages)
        assert starts_alike(before, sent(wire))
    assert messages[4] == gave(2, lines("a") + "\nnew = 1"), "the program's own list is left alone"


def test_another_process_sends_the_same_bytes(
    client: anthropic.Anthropic, wire: WireServer, project: Path, home: Path
) -> None:
    with lamina.Memory(project, home=home) as memory:
        memory.remember("Deploys never happen on Fridays.")
    messages = [said("When do deploys happen?"), called(1, file_path="/a"), gave(1, lines("a"))]
    ask(client, messages[:1])
    messages += [called(2, file_path="/a"), gave(2, lines("a") + "\nnew = 1")]
    ask(client, messages)
    before = sent(wire)
    assert "Fridays" in before[0]["content"][1]["text"]
    messages += [called(3, file_path="/b"), gave(3, lines("b"))]
    program = (
        "import anthropic, json, lamina, sys\n"
        "url, project, home, messages, tools = sys.argv[1:]\n"
        "client = lamina.wrap(anthropic.Anthropic(base_url=url, api_key='k'), project, home=home)\n"
        f"client.messages.create(model={MODEL!r}, max_tokens=100,\n"
        "    messages=json.loads(messages), tools=json.loads(tools))\n"
    )
    given = [wire.anthropic_url, str(project), str(home), json.dumps(messages)]
    command = [sys.executable, "-c", program, *given, json.dumps([READ])]
    subprocess.run(command, check=True, capture_output=True)
    assert starts_alike(before, sent(wire))
    ask(client, [*messages, called(4, file_path="/c"), gave(4, lines("c"))])
    assert starts_alike(sent(wire, -2), sent(wire)), "and this one goes on from there"


def test_changed_history_is_a_branch_that_keeps_what_both_share(
    client: anthropic.Anthropic, wire: WireServer
) -> None:
    messages = [said("Read it."), called(1, file_path="/a"), gave(1, lines("a"))]
    messages += [called(2, file_path="/a"), gave(2, lines("a") + "\nnew = 1")]
    ask(client, messages)
    first = sent(wire)
    long = [*messages, called(3, file_path="/b"), gave(3, lines("b"))]
    ask(client, long)
    other = [*messages, called(4, file_path="/b"), gave(4, lines("a") + "\nnewer = 2")]
    ask(client, other)
    assert starts_alike(first, sent(wire))
    assert "newer = 2" in sent(wire)[6]["content"][0]["content"]
    assert len(sent(wire)[6]["content"][0]["content"]) < 300, "folded into what both share"
    ask(client, [*long, called(5, file_path="/c"), gave(5, lines("c"))])
    assert starts_alike(sent(wire, -3), sent(wire)), "the other way is as it was"


def test_two_conversations_through_one_client_are_kept_apart(
    client: anthropic.Anthropic, wire: WireServer
) -> None:
    talks = {name: [said(f"Read {name}.")] for name in ("tea", "milk")}
    last: dict[str, list[Json]] = {}
    for number in range(4):
        for name, messages in talks.items():
            words = lines("shared") + f"\n{name} = {number}"
            messages += [called(number, file_path="/a"), gave(number, words)]
            ask(client, messages)
            now = sent(wire)
            assert starts_alike(last.get(name, []), now)
            assert now[2] == messages[2], "the first result is whole in each"
            last[name] = now


def test_a_session_of_its_own_shares_nothing(
    bare: anthropic.Anthropic, wire: WireServer, project: Path, home: Path
) -> None:
    for session in ("one", "two", "one"):
        ask(lamina.wrap(bare, project, session=session, home=home), [said("Hello there, friend.")])
    folder = next((home / "projects").glob("*/conversations"))
    assert len(list(folder.glob("*.jsonl"))) == 2
    assert {len(one.body["messages"]) for one in wire.received} == {1}


# ---- recall, memories, money


def test_a_memory_goes_behind_the_prompt_and_stays_there(
    client: anthropic.Anthropic, wire: WireServer, project: Path, home: Path
) -> None:
    with lamina.Memory(project, home=home) as memory:
        outcome = memory.remember("Deploys never happen on Fridays.")
        ask(client, [said("When do deploys happen?")])
        (prompt,) = sent(wire)
        assert prompt["content"][0] == {"type": "text", "text": "When do deploys happen?"}
        assert "Deploys never happen on Fridays." in prompt["content"][1]["text"]
        memory.forget(outcome.path)
    more = [said("When do deploys happen?"), {"role": "assistant", "content": "Never."}]
    ask(client, [*more, said("And when do deploys happen on Mondays?")])
    assert starts_alike([prompt], sent(wire)), "what was sent is not taken back"
    assert len(sent(wire)[2]["content"]) == 1


def test_what_the_user_says_is_remembered_where_that_is_wanted(
    bare: anthropic.Anthropic, wire: WireServer, home: Path
) -> None:
    wish = [said("Please remember that I am allergic to peanuts.")]
    alice = lamina.wrap(bare, user="alice", remember=True, home=home)
    ask(alice, wish)
    ask(lamina.wrap(bare, user="bob", home=home), wish)
    ask(alice, [said("Any allergies I should know of? Peanuts?")])
    assert "peanuts" in sent(wire)[0]["content"][1]["text"]
    ask(lamina.wrap(bare, user="bob", home=home), [said("Any allergies? Peanuts, for example?")])
    assert len(sent(wire)[0]["content"]) == 1


@pytest.mark.spec("F10")
def test_each_call_is_booked(client: anthropic.Anthropic, wire: WireServer, home: Path) -> None:
    wire.will(Answer(usage={"input_tokens": 1000, "output_tokens": 10}))
    ask(client, [said("Hello there, friend.")])
    (call,) = Spend(home / "spend").calls()
    assert (call["model"], call["input"], call["output"]) == (MODEL, 1000, 10)
    assert call["cost"] == pytest.approx(1000 * 3e-6 + 10 * 15e-6)


def loop(client: Any, wire: WireServer, rounds: int) -> tuple[float, int]:
    """A coding agent's work: files read, changed and read again, tests run over and over, a log now
    and then. Returns what the provider charges, and the tokens that the program's list came to."""
    cache, total = PromptCache(), Usage()

    def bill(body: Json) -> Answer:
        nonlocal total
        usage, _ = cache.serve({**body, "system": []})
        usage["output_tokens"] = 60
        total = total + (anthropic_usage(usage) or Usage())
        return Answer(usage=usage)

    wire.rule = bill
    messages = [said("Make the tests pass.")]
    for number in range(rounds):
        tool = "Bash" if number % 4 == 2 else "Read"
        match number % 4:
            case 0:
                words = lines(f"file {number // 8}", 600) + f"\nchanged = {number}"
            case 1:
                words = lines("tests", 600) + f"\n{number} failed"
            case 2:
                words = lines(f"log {number}", 2000)
            case _:
                words = lines(f"other {number}", 400)
        messages += [called(number, tool, file_path=f"/{number}"), gave(number, words)]
        mark = {"cache_control": {"type": "ephemeral"}}
        last = {**messages[-1], "content": [{**messages[-1]["content"][0], **mark}]}
        ask(client, [*messages[:-1], last])
    return cost(total, price_of(MODEL)), len(json.dumps(messages)) // 4


@pytest.mark.spec("L1.1")
def test_a_long_loop_of_tools_costs_less_than_with_the_bare_client(
    client: anthropic.Anthropic, bare: anthropic.Anthropic, wire: WireServer
) -> None:
    direct, tokens = loop(bare, wire, 24)
    assert tokens > 200_000
    first = len(wire.received)
    ours, _ = loop(client, wire, 24)
    assert ours < 0.6 * direct
    calls = range(first, len(wire.received) - 1)
    breaks = [at for at in calls if not starts_alike(sent(wire, at), sent(wire, at + 1))]
    assert len(breaks) <= 4, "a warm cache is broken seldom, out of what was saved before"
    whole, shown = sent(wire, first - 1), sent(wire)
    out = 0
    for was, now in zip(whole[2::2], shown[2::2], strict=True):
        words = now["content"][0]["content"]
        if found := re.search(r"[Aa]ll of it is in (\S+?)[;\]]", words):
            assert Path(found[1]).read_text("utf-8") == was["content"][0]["content"]
            out += 1
    assert out > 10


@pytest.mark.parametrize(
    ("tool", "leaves"),
    [
        ({"name": "mcp__files__read_file", "input_schema": {"properties": {"path": {}}}}, True),
        ({"type": "bash_20250124", "name": "bash"}, True),
        ({"name": "list_categories", "input_schema": {"properties": {"path": {}}}}, False),
        ({"name": "read_mail", "input_schema": {"properties": {"number": {}}}}, False),
    ],
)
def test_long_results_leave_where_a_tool_reads_files(
    tool: Json, leaves: bool, client: anthropic.Anthropic, wire: WireServer
) -> None:
    messages = [said("How is it?"), called(1, tool["name"]), gave(1, lines("log", 2000))]
    ask(client, messages, tools=[tool])
    assert ("All of it is in" in sent(wire)[2]["content"][0]["content"]) == leaves


def test_threads_share_one_client(client: anthropic.Anthropic, wire: WireServer) -> None:
    def talk(name: str) -> list[Json]:
        messages = [said(f"Read {name}.")]
        for number in range(4):
            messages += [called(number, file_path="/a"), gave(number, lines(name) + f"\n{number}")]
            ask(client, messages)
        return messages

    names = ["tea", "milk", "rice", "salt"]
    with ThreadPoolExecutor(4) as threads:
        talks = dict(zip(names, threads.map(talk, names), strict=True))
    for name, messages in talks.items():
        calls = [sent(wire, at) for at in range(len(wire.received))]
        own = sorted((one for one in calls if one[0] == said(f"Read {name}.")), key=len)
        assert [len(one) for one in own] == [3, 5, 7, 9]
        assert all(starts_alike(one, two) for one, two in pairwise(own))
        assert own[-1][2] == messages[2]


# ---- streams, other clients


STREAMED = [{"type": "text", "text": "Never on Fridays, as far as I know."}]


def test_a_stream_is_the_clients_own_and_is_booked_at_its_end(
    client: anthropic.Anthropic, wire: WireServer, home: Path
) -> None:
    wire.will(*(Answer(STREAMED, usage={"input_tokens": 70, "output_tokens": 9}),) * 2)
    given: Any = {"model": MODEL, "max_tokens": 100, "messages": [said("Hello there, friend.")]}
    with client.messages.stream(**given) as stream:
        assert isinstance(stream, anthropic.MessageStream)
        assert "".join(stream.text_stream) == STREAMED[0]["text"]
        assert stream.get_final_message().usage.output_tokens == 9
    events = client.messages.create(**given, stream=True)
    assert isinstance(events, anthropic.Stream)
    assert [event.type for event in events][-1] == "message_stop"
    assert [call["input"] for call in Spend(home / "spend").calls()] == [70, 70]
    assert wire.received[0].body["messages"] == wire.received[1].body["messages"]


def test_a_stream_that_is_left_early_is_booked_and_its_question_remembered(
    wire: WireServer, home: Path
) -> None:
    wire.will(*(Answer(STREAMED, usage={"input_tokens": 70, "output_tokens": 9}),) * 4)
    given: Any = {"model": MODEL, "max_tokens": 100}

    def asked(thing: str) -> list[Json]:
        return [said(f"Please remember that I am allergic to {thing}.")]

    async def later() -> None:
        async with anthropic.AsyncAnthropic(base_url=wire.anthropic_url, api_key="k") as bare:
            client = lamina.wrap(bare, user="alice", remember=True, home=home)
            async with client.messages.stream(**given, messages=asked("walnuts")) as stream:
                async for _ in stream:
                    break
            async for event in await client.messages.create(
                **given, messages=asked("cashews"), stream=True
            ):
                if event.type == "message_stop":
                    break

    with anthropic.Anthropic(base_url=wire.anthropic_url, api_key="k") as bare:
        client = lamina.wrap(bare, user="alice", remember=True, home=home)
        with client.messages.create(**given, messages=asked("peanuts"), stream=True) as events:
            next(iter(events))
        for event in client.messages.create(**given, messages=asked("almonds"), stream=True):
            if event.type == "message_stop":
                break
        asyncio.run(later())
        ask(client, [said("Which allergies do I have?")])
    assert [call["input"] for call in Spend(home / "spend").calls()][:4] == [70] * 4
    with lamina.Memory(user="alice", home=home) as memory:
        known = memory.prompt()
    assert all(thing in known for thing in ("walnuts", "cashews", "peanuts", "almonds"))


def test_the_async_client_does_all_that_too(wire: WireServer, project: Path, home: Path) -> None:
    with lamina.Memory(project, home=home) as memory:
        memory.remember("Deploys never happen on Fridays.")
    wire.will(*(Answer(STREAMED),) * 3)
    messages: Any = [said("When do deploys happen?")]

    async def talk() -> None:
        async with anthropic.AsyncAnthropic(base_url=wire.anthropic_url, api_key="k") as bare:
            client = lamina.wrap(bare, project, home=home)
            assert isinstance(client, anthropic.AsyncAnthropic)
            given: Any = {"model": MODEL, "max_tokens": 100, "messages": messages}
            whole = await client.messages.create(**given)
            assert whole.content[0].type == "text"
            async with client.messages.stream(**given) as stream:
                assert [words async for words in stream.text_stream]
            events = await client.with_options(timeout=60).messages.create(**given, stream=True)
            assert [event.type async for event in events][-1] == "message_stop"

    asyncio.run(talk())
    assert len({one.raw.replace(b',"stream":true', b"") for one in wire.received}) == 1
    assert "Fridays" in sent(wire)[0]["content"][1]["text"]
    assert len(list(Spend(home / "spend").calls())) == 3


def openai_talk(number: int, words: str) -> list[Json]:
    call = {"name": "Read", "arguments": json.dumps({"file_path": f"/{number}"})}
    asked = {"id": f"call{number}", "type": "function", "function": call}
    return [
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": f"call{number}", "content": words},
    ]


@pytest.mark.parametrize("streams", [False, True])
def test_an_openai_client_folds_recalls_and_streams(
    streams: bool, wire: WireServer, project: Path, home: Path
) -> None:
    with lamina.Memory(project, home=home) as memory:
        memory.remember("Deploys never happen on Fridays.")
    messages: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "When do deploys happen?"},
    ]
    with openai.OpenAI(base_url=wire.openai_url, api_key="k") as bare:
        client = lamina.wrap(bare, project, home=home)
        assert isinstance(client, openai.OpenAI)
        for number in range(3):
            messages += openai_talk(number, lines("a") + f"\nnew = {number}")
            before = wire.received[-1].body["messages"] if wire.received else []
            given: Any = {"model": "gpt-5", "messages": messages}
            if streams:
                tail = {"stream": True, "stream_options": {"include_usage": True}}
                assert list(client.chat.completions.create(**given, **tail))
            else:
                assert client.chat.completions.create(**given).choices[0].message.content == "ok"
            now = wire.received[-1].body["messages"]
            assert starts_alike(before, now)
    assert now[0] == messages[0]
    assert now[3] == messages[3], "the first result is whole"
    assert [len(now[at]["content"]) < 300 for at in (5, 7)] == [True, True]
    assert [call["input"] for call in Spend(home / "spend").calls()] == [10, 10, 10]


def test_an_openai_prompt_stays_a_string_with_the_memory_behind_it(
    wire: WireServer, project: Path, home: Path
) -> None:
    with lamina.Memory(project, home=home) as memory:
        memory.remember("Deploys never happen on Fridays.")
    with openai.OpenAI(base_url=wire.openai_url, api_key="k") as bare:
        client = lamina.wrap(bare, project, home=home)
        for content in (
            "When do deploys happen?",
            [{"type": "text", "text": "When exactly do deploys happen?"}],
        ):
            prompt: Any = {"role": "user", "content": content}
            client.chat.completions.create(model="gpt-5", messages=[prompt])
    first, second = (one.body["messages"][0]["content"] for one in wire.received)
    assert first.startswith("When do deploys happen?\n\n<system-reminder>")
    assert "Fridays" in second[1]["text"]


@pytest.mark.parametrize("streams", [False, True])
def test_the_responses_api_folds_recalls_and_streams(
    streams: bool, wire: WireServer, project: Path, home: Path
) -> None:
    with lamina.Memory(project, home=home) as memory:
        memory.remember("Deploys never happen on Fridays.")
    items: list[Any] = [{"role": "user", "content": "When do deploys happen?"}]
    with openai.OpenAI(base_url=wire.openai_url, api_key="k") as bare:
        client = lamina.wrap(bare, project, home=home)
        for number in range(3):
            given: Any = {"model": "gpt-5", "input": items, "stream": streams}
            before = wire.received[-1].body["input"] if wire.received else []
            answer = client.responses.create(**given)
            if streams:
                assert [event.type for event in answer][-1] == "response.completed"
            else:
                items += answer.output
            assert starts_alike(before, wire.received[-1].body["input"])
            call = {"type": "function_call", "call_id": f"c{number}", "name": "Read"}
            items.append({**call, "arguments": json.dumps({"path": f"/{number}"})})
            words = lines("a") + f"\nnew = {number}"
            done = {"type": "function_call_output", "call_id": f"c{number}", "output": words}
            items.append(done)
        client.responses.create(model="gpt-5", input=items)
        now = wire.received[-1].body["input"]
        client.responses.create(model="gpt-5", input="And then?", previous_response_id="r")
    assert "Fridays" in now[0]["content"][1]["text"]
    outputs = [one["output"] for one in now if one.get("type") == "function_call_output"]
    assert outputs[0] == lines("a") + "\nnew = 0"
    assert [len(one) < 300 for one in outputs[1:]] == [True, True]
    assert wire.received[-1].body["input"] == "And then?", "the rest is the provider's"
    booked = [(call["input"], call["cache_read"]) for call in Spend(home / "spend").calls()]
    assert booked == [(6, 4)] * 4


# ---- what goes wrong


def test_an_error_of_ours_lets_the_request_through_and_is_told_once(
    client: anthropic.Anthropic, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no luck today")

    monkeypatch.setattr("lamina.conversation.kept.Conversations.changes", broken)
    with hearing() as told:
        for _ in range(2):
            assert ask(client, [said("Hello there, friend.")]).content[0].text == "ok"
    assert ["no luck today" in one for one in told] == [True]
    assert [sent(wire, at) for at in (0, 1)] == [[said("Hello there, friend.")]] * 2


@pytest.mark.parametrize("kind", ["a file", "read only"])
def test_a_home_that_can_not_be_written_stops_nobody(
    kind: str, bare: anthropic.Anthropic, wire: WireServer, project: Path, home: Path
) -> None:
    if kind == "a file":
        home.write_text("not a folder")
    else:
        (home / "projects").mkdir(parents=True)
        (home / "projects" / "-").write_text("")
        (home / "projects").chmod(0o500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = lamina.wrap(bare, project, home=home)
        assert ask(client, [said("Hello there, friend.")]).content[0].text == "ok"
    (home / "projects").chmod(0o700) if home.is_dir() else None


def test_what_the_provider_refuses_goes_out_as_the_program_made_it(
    client: anthropic.Anthropic, wire: WireServer, home: Path
) -> None:
    messages = [said("Read it."), called(1, file_path="/a"), gave(1, lines("a"))]
    messages += [called(2, file_path="/a"), gave(2, lines("a") + "\nnew = 1")]
    wire.will(fails(400, "invalid_request_error", "I do not like it."))
    with pytest.warns(RuntimeWarning, match="left alone"):
        assert ask(client, messages).content[0].text == "ok"
    assert sent(wire) == messages
    ask(client, messages)
    assert sent(wire) == messages
    assert len(list(Spend(home / "spend").calls())) == 2, "both answers cost something"


def test_an_error_that_the_original_gets_too_is_no_fault_of_a_change(
    client: anthropic.Anthropic, wire: WireServer, home: Path
) -> None:
    messages = [said("Read it."), called(1, file_path="/a"), gave(1, lines("a"))]
    messages += [called(2, file_path="/a"), gave(2, lines("a") + "\nnew = 1")]
    wire.will(*(fails(400, "invalid_request_error", "Your credit balance is too low."),) * 2)
    with hearing() as told, pytest.raises(anthropic.BadRequestError, match="credit"):
        ask(client, messages)
    assert told == []
    ask(client, messages)
    assert sent(wire) != messages, "and the next request is folded as before"
    assert len(list(Spend(home / "spend").calls())) == 1


def test_an_error_of_the_providers_is_the_programs(
    client: anthropic.Anthropic, wire: WireServer
) -> None:
    wire.will(fails(400, "invalid_request_error", "too long"), fails(429, "rate_limit_error"))
    for kind in (anthropic.BadRequestError, anthropic.RateLimitError):
        with pytest.raises(kind):
            ask(client, [said("Hello there, friend.")])
    assert len(wire.received) == 2


def test_what_is_no_client_is_named() -> None:
    with pytest.raises(UsageError, match="can't be a str"):
        lamina.wrap("anthropic")


def test_a_package_of_an_unknown_version_works_bare_and_that_is_told(
    bare: anthropic.Anthropic, project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lamina.integrations.wrap._DOOR", "_another_door")
    with pytest.warns(RuntimeWarning, match="this version of anthropic is not known"):
        client = lamina.wrap(bare, project, home=home)
    assert ask(client, [said("Hello there, friend.")]).content[0].text == "ok"


def test_a_wrapped_client_is_not_wrapped_again(client: anthropic.Anthropic, project: Path) -> None:
    assert lamina.wrap(client, project) is client


def test_other_calls_and_raw_answers_are_the_clients_own(
    client: anthropic.Anthropic, wire: WireServer
) -> None:
    messages: Any = [said("Hello there, friend.")]
    counted = client.messages.count_tokens(model=MODEL, messages=messages)
    assert counted.input_tokens == wire.token_count
    raw = client.messages.with_raw_response.create(model=MODEL, max_tokens=100, messages=messages)
    assert raw.http_response.status_code == 200
    assert raw.parse().content[0].type == "text"


class City(pydantic.BaseModel):
    name: str


QUESTION = "Which database do we use?"
ASKED: Any = {"model": MODEL, "max_tokens": 100, "messages": [said(QUESTION)]}
CHAT: Any = {"model": "gpt-5", "messages": [said(QUESTION)]}
RESPONSE: Any = {"model": "gpt-5", "input": QUESTION}
FORMAT: Any = {"output_format": City}


def _entered(manager: Any, read: Callable[[Any], Any]) -> Any:
    with manager as opened:
        return read(opened)


def _read_once(asked: Any = ASKED) -> Any:
    return {
        **asked,
        "messages": iter([{"role": "user", "content": iter(said(QUESTION)["content"])}]),
    }


def _runner(client: anthropic.Anthropic) -> Any:
    @anthropic.beta_tool
    def weather(city: str) -> str:
        """The weather in a city."""
        return city

    return client.beta.messages.tool_runner(**ASKED, tools=[weather]).until_done().content


ANTHROPIC_WAYS: dict[str, Callable[[Any], Any]] = {
    "create": lambda c: c.messages.create(**ASKED).content,
    "an iterator": lambda c: (
        c.messages.create(**{**ASKED, "messages": iter(ASKED["messages"])}).content
    ),
    "an iterator in a message": lambda c: c.messages.create(**_read_once()).content,
    "stream": lambda c: [e.type for e in c.messages.create(**ASKED, stream=True)],
    "stream()": lambda c: _entered(c.messages.stream(**ASKED), lambda s: list(s.text_stream)),
    "parse": lambda c: c.messages.parse(**ASKED, **FORMAT).parsed_output,
    "raw": lambda c: c.messages.with_raw_response.create(**ASKED).parse().content,
    "raw stream": lambda c: [
        e.type for e in c.messages.with_raw_response.create(**ASKED, stream=True).parse()
    ],
    "streaming response": lambda c: _entered(
        c.messages.with_streaming_response.create(**ASKED), lambda r: r.parse().content
    ),
    "beta": lambda c: c.beta.messages.create(**ASKED, betas=["x"]).content,
    "beta parse": lambda c: c.beta.messages.parse(**ASKED, **FORMAT).parsed_output,
    "beta stream": lambda c: _entered(c.beta.messages.stream(**ASKED), lambda s: s.until_done()),
    "tool runner": _runner,
    "with_options": lambda c: c.with_options(timeout=9).copy().messages.create(**ASKED).content,
}
OPENAI_WAYS: dict[str, Callable[[Any], Any]] = {
    "create": lambda c: c.chat.completions.create(**CHAT).choices,
    "an iterator in a message": lambda c: c.chat.completions.create(**_read_once(CHAT)).choices,
    "stream()": lambda c: _entered(
        c.chat.completions.stream(**CHAT, stream_options={"include_usage": True}),
        lambda s: [event.type for event in s],
    ),
    "parse": lambda c: c.chat.completions.parse(**CHAT, response_format=City).choices[0].message,
    "raw": lambda c: c.chat.completions.with_raw_response.create(**CHAT).parse().choices,
    "beta": lambda c: c.beta.chat.completions.create(**CHAT).choices,
    "response": lambda c: c.responses.create(**RESPONSE).output,
    "response stream()": lambda c: _entered(
        c.responses.stream(**RESPONSE), lambda s: [event.type for event in s]
    ),
    "response parse": lambda c: c.responses.parse(**RESPONSE, text_format=City).output_parsed,
    "response raw": lambda c: c.responses.with_raw_response.create(**RESPONSE).parse().output,
    "with_options": lambda c: c.with_options(timeout=9).responses.create(**RESPONSE).output,
}


@pytest.mark.parametrize(
    ("maker", "way"),
    [("anthropic", way) for way in ANTHROPIC_WAYS] + [("openai", way) for way in OPENAI_WAYS],
)
def test_whatever_way_it_is_called_it_recalls_books_and_answers_as_the_bare_one(
    maker: str, way: str, wire: WireServer, project: Path, home: Path
) -> None:
    with lamina.Memory(project, home=home) as memory:
        memory.remember("The database is PostgreSQL 16.")
    wire.rule = lambda body: says('{"name": "Oslo"}')
    make = {
        "anthropic": lambda: anthropic.Anthropic(base_url=wire.anthropic_url, api_key="k"),
        "openai": lambda: openai.OpenAI(base_url=wire.openai_url, api_key="k"),
    }[maker]
    call = {"anthropic": ANTHROPIC_WAYS, "openai": OPENAI_WAYS}[maker][way]
    with make() as bare, hearing() as told:
        assert call(lamina.wrap(bare, project, home=home)) == call(bare)
    assert told == []
    assert "PostgreSQL 16" in json.dumps(wire.received[0].body)
    assert [one["output"] for one in Spend(home / "spend").calls()] == [5]


@pytest.mark.parametrize("opened", [Path.open, lambda path: BytesIO(path.read_bytes()), Path])
def test_an_image_may_be_a_file_as_with_the_bare_client(
    opened: Callable[[Path], Any], client: anthropic.Anthropic, wire: WireServer, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(b"picture")

    def look(*more: Json) -> list[Json]:
        source = {"type": "base64", "media_type": "image/png", "data": opened(tmp_path / "a.png")}
        shown: Json = {"role": "user", "content": [{"type": "image", "source": source}]}
        ask(client, [shown, *more])
        return sent(wire)

    with hearing() as told:
        first = look()
        assert first[0]["content"][0]["source"]["data"] == "cGljdHVyZQ=="
        assert look({"role": "assistant", "content": "A cat."}, said("Sure?"))[:1] == first
    assert told == []
    assert len(wire.received) == 2


def test_the_async_client_is_read_raw_and_streamed_raw_too(
    wire: WireServer, project: Path, home: Path
) -> None:
    async def work() -> None:
        async with anthropic.AsyncAnthropic(base_url=wire.anthropic_url, api_key="k") as bare:
            client: Any = lamina.wrap(bare, project, home=home)
            raw = await client.messages.with_raw_response.create(**ASKED)
            assert (await raw.parse()).content[0].text == "ok"
            asked = client.messages.with_streaming_response.create(**ASKED, stream=True)
            async with asked as response:
                assert [event.type async for event in await response.parse()]

    asyncio.run(work())
    assert len(list(Spend(home / "spend").calls())) == 2


def test_an_answer_that_is_parsed_is_counted_without_a_word(
    wire: WireServer, project: Path, home: Path
) -> None:
    class Number(pydantic.BaseModel):
        number: int

    wire.will(says('{"number": 3}'))
    with openai.OpenAI(base_url=wire.openai_url, api_key="k") as bare:
        asked: Any = {"model": "gpt-5", "messages": [{"role": "user", "content": "Any number."}]}
        client: Any = lamina.wrap(bare, project, home=home)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            answer = client.chat.completions.parse(**asked, response_format=Number)
    assert answer.choices[0].message.parsed == Number(number=3)
    assert [str(one.message) for one in heard] == []
    assert len(list(Spend(home / "spend").calls())) == 1


def test_what_the_provider_holds_itself_passes_without_a_word(
    wire: WireServer, project: Path, home: Path
) -> None:
    with openai.OpenAI(base_url=wire.openai_url, api_key="k") as bare:
        client = lamina.wrap(bare, project, home=home)
        with hearing() as told:
            client.responses.create(model="gpt-5", prompt={"id": "pmpt_1"})
            client.responses.create(**RESPONSE, previous_response_id="resp_1")
    assert told == []
    assert not list(Spend(home / "spend").calls())
