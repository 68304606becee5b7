"""The scripted model: it checks, answers, and counts like a provider with a prompt cache."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from lamina.errors import (
    BadResponse,
    LaminaError,
    ModelConfigError,
    ModelUnreachable,
    PromptTooLong,
    UsageError,
)
from lamina.events import Event, Retrying, StreamRestarted, TextDelta, ThinkingDelta, quiet
from lamina.messages import Message, Purpose, Request, text, tool_result, tool_use
from lamina.models import open_model
from lamina.models.scripted import ScriptedModel, ScriptMismatch, Step
from lamina.ports import Capabilities, Model

READ = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}


def user(*blocks: Any) -> Message:
    return {"role": "user", "content": [text(b) if isinstance(b, str) else b for b in blocks]}


def answer(*blocks: Any) -> Message:
    return {"role": "assistant", "content": [text(b) if isinstance(b, str) else b for b in blocks]}


def request(*messages: Message, purpose: Purpose = "main", **fields: Any) -> Request:
    fields = {"system": [text("Be brief.")], "tools": [READ], **fields}
    return Request(messages=list(messages), purpose=purpose, **fields)


def run(model: Model, sent: Request, emit: Any = quiet) -> Any:
    return asyncio.run(model.complete(sent, emit))


@pytest.mark.spec("F6")
def test_a_script_answers_step_by_step_and_streams() -> None:
    heard: list[Event] = []
    model = ScriptedModel(
        [
            {
                "thinking": "hm",
                "text": "Let me look.",
                "tool_use": {"name": "Read", "input": {"x": 1}},
            },
            "Done.",
        ]
    )
    assert isinstance(model, Model)
    first = run(model, request(user("hi")), heard.append)
    assert [block["type"] for block in first.content] == ["thinking", "text", "tool_use"]
    assert first.stop_reason == "tool_use"
    assert first.tool_uses[0] == tool_use("toolu_0001", "Read", {"x": 1})
    assert heard == [ThinkingDelta("hm"), TextDelta("Let me look.")]
    second = run(
        model, request(user("hi"), answer(*first.content), user(tool_result("toolu_0001", "ok")))
    )
    assert (second.text, second.stop_reason) == ("Done.", "end_turn")
    model.assert_finished()


@pytest.mark.parametrize(
    ("expect", "complaint"),
    [
        ({"last_user": "bye"}, "the last user message to contain 'bye'"),
        ({"last_result": "no"}, "the last tool results"),
        ({"contains": ["hi", "nowhere"]}, "'nowhere'"),
        ({"lacks": "found it"}, "no 'found it' in the messages"),
        ({"system": "long"}, "the system prompt to contain 'long'"),
        ({"tools": ["Write"]}, "the tool 'Write', but was offered ['Read']"),
        ({"no_tools": ["Read"]}, "no tool 'Read'"),
        ({"messages": 2}, "messages 2, but was sent 3"),
        ({"model": "x"}, "model 'x'"),
        ({"params": {"temperature": 1}}, "params"),
        ({"cache_deletions": ["a"]}, "cache_deletions ['a'], but was sent []"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ],
)
def test_a_demand_that_does_not_hold_names_the_step(expect: Any, complaint: str) -> None:
    model = ScriptedModel([Step("no", expect, name="looks")])
    sent = request(
        user("hi"), answer(tool_use("t", "Read", {})), user(tool_result("t", "found it"))
    )
    with pytest.raises(ScriptMismatch) as caught:
        run(model, sent)
    assert str(caught.value).startswith("Step 1 (looks) expect")
    assert complaint in str(caught.value)
    assert model.remaining == ["step 1 (looks)"]


def test_demands_that_hold_let_the_step_answer() -> None:
    expect = {
        "last_user": "hi",
        "last_result": ["found", "it"],
        "contains": "found",
        "lacks": "lost",
        "system": "brief",
        "tools": "Read",
        "no_tools": ["Bash"],
        "messages": 3,
        "max_tokens": 0,
        "params": {},
        "prefix": True,
    }
    sent = request(
        user("hi"), answer(tool_use("t", "Read", {})), user(tool_result("t", "found it"))
    )
    assert run(ScriptedModel([Step("yes", expect)]), sent).text == "yes"


@pytest.mark.spec("F5")
@pytest.mark.parametrize(
    "messages",
    [
        [user("a"), answer(tool_use("t", "Read", {})), user("b")],
        [user("a"), answer(tool_use("t", "Read", {}))],
        [user(tool_result("t", "x"))],
        [user("a"), answer(tool_use("t", "Read", {})), answer("b"), user(tool_result("t", "x"))],
        [user("a"), user("b")],
        [answer("a"), user("b")],
        [],
    ],
)
def test_pairs_and_roles_are_checked_without_being_asked_for(messages: list[Message]) -> None:
    with pytest.raises(ScriptMismatch):
        run(ScriptedModel(["x"]), request(*messages))


@pytest.mark.spec("F4")
def test_a_prefix_that_changed_is_found() -> None:
    grown = [user("a"), answer("1"), user("b")]
    model = ScriptedModel(["1", Step("2", {"prefix": True})])
    run(model, request(user("a")))
    assert run(model, request(*grown)).text == "2"
    for changed, complaint in (
        (request(user("A"), answer("1"), user("b")), "block 1 differs"),
        (request(*grown, system=[text("Be long.")]), "the system of the last request"),
        (request(*grown, tools=[]), "the tools of the last request"),
    ):
        model = ScriptedModel(["1", Step("2", {"prefix": True})])
        run(model, request(user("a")))
        with pytest.raises(ScriptMismatch, match=complaint):
            run(model, changed)


def test_background_calls_have_steps_of_their_own() -> None:
    model = ScriptedModel(
        ["main one", Step("a summary", purpose="summary"), "main two"],
        otherwise={"recall": "[]", "*": "anything"},
    )
    assert run(model, request(user("a"), purpose="summary")).text == "a summary"
    assert run(model, request(user("a"))).text == "main one"
    assert run(model, request(user("a"), purpose="recall")).text == "[]"
    assert run(model, request(user("a"), purpose="dream")).text == "anything"
    with pytest.raises(ScriptMismatch, match="unused steps: step 3"):
        model.assert_finished()
    with pytest.raises(ScriptMismatch, match="no step left for purpose 'notes'"):
        run(ScriptedModel(["x"]), request(user("a"), purpose="notes"))


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        ("prompt_too_long", PromptTooLong),
        ("overloaded", ModelUnreachable),
        ("unreachable", ModelUnreachable),
        ("bad_key", ModelConfigError),
        ("unknown_model", ModelConfigError),
        ("bad_response", BadResponse),
        ("nonsense", UsageError),
    ],
)
def test_a_script_can_answer_with_an_error(error: str, raised: type[LaminaError]) -> None:
    with pytest.raises(raised) as caught:
        run(ScriptedModel([{"error": error, "gap": 5000}]), request(user("a")))
    if isinstance(caught.value, PromptTooLong):
        assert caught.value.gap == 5000


def test_a_script_can_cut_off_retry_and_restart() -> None:
    heard: list[Event] = []
    reply = {"text": "half", "stop_reason": "max_tokens", "retries": 2, "restart": "ha"}
    response = run(ScriptedModel([reply]), request(user("a")), heard.append)
    assert response.stop_reason == "max_tokens"
    assert [type(event) for event in heard] == [
        Retrying,
        Retrying,
        TextDelta,
        StreamRestarted,
        TextDelta,
    ]


def test_a_hanging_step_ends_when_it_is_cancelled() -> None:
    async def story() -> None:
        model = ScriptedModel([{"hang": True}])
        call = asyncio.create_task(model.complete(request(user("a")), quiet))
        await asyncio.sleep(0)  # it has begun
        assert len(model.requests) == 1
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(story())


def test_usage_is_that_of_a_prompt_cache() -> None:
    model = ScriptedModel(["one", "two", "three"])
    first = run(model, request(user("a" * 400))).usage
    assert first.cache_read == 0
    assert first.cache_write > 100
    second = run(model, request(user("a" * 400), answer("one"), user("b" * 400))).usage
    assert second.cache_read == first.prompt
    assert second.cache_write == 101
    third = run(model, request(user("A" * 400), answer("one"), user("b" * 400))).usage
    assert 0 < third.cache_read < first.prompt
    assert model.usages == [first, second, third]


def test_a_script_may_state_its_usage_and_have_no_cache() -> None:
    model = ScriptedModel(
        [{"text": "x", "usage": {"cache_read": 7}}, "y"],
        capabilities=Capabilities(cache="none"),
    )
    first = run(model, request(user("a"))).usage
    assert first.cache_read == 7
    second = run(model, request(user("a"))).usage
    assert second.cache_read == second.cache_write == 0
    assert second.input > 0


def test_replies_and_expectations_may_be_functions() -> None:
    seen: list[int] = []
    step = Step(
        reply=lambda sent: f"{len(sent.messages)} messages",
        expect=lambda sent: seen.append(len(sent.messages)),
    )
    assert run(ScriptedModel([step]), request(user("a"))).text == "1 messages"
    assert seen == [1]


def test_what_was_sent_is_kept_even_if_the_caller_changes_it_later() -> None:
    model = ScriptedModel(["x"])
    message = user("before")
    run(model, request(message))
    message["content"][0]["text"] = "after"
    assert model.requests[0].messages[0]["content"][0]["text"] == "before"


@pytest.mark.spec("F6")
def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    script = {
        "name": "demo",
        "capabilities": {"window": 50_000},
        "steps": [{"name": "one", "expect": {"last_user": "hi"}, "reply": {"text": "ho"}}, "bye"],
        "otherwise": {"recall": "[]"},
    }
    file.write_text(json.dumps(script))
    model = open_model(f"scripted:{file}", options={})
    assert (model.name, model.capabilities.window) == ("demo", 50_000)
    assert run(model, request(user("hi"))).text == "ho"
    assert run(model, request(user("x"))).text == "bye"
    file.write_text('["only"]')
    assert run(open_model(f"scripted:{file}"), request(user("hi"))).text == "only"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "is not valid JSON"),
        ("3", "the script must be an object"),
        ('{"step": []}', "unknown key 'step'"),
        ('[{"rply": "x"}]', "step 1 has the unknown key 'rply'"),
        ("[{}]", "step 1 has no reply"),
        ('[{"reply": {"txt": "x"}}]', "reply of step 1 has the unknown key 'txt'"),
        ('[{"reply": "x", "expect": {"last": "x"}}]', "expect of step 1"),
        ('{"steps": [], "otherwise": {"recall": {"a": 1}}}', "otherwise of recall"),
        ('{"steps": [], "capabilities": {"window": "big"}}', "capabilities can't be taken"),
    ],
)
def test_a_bad_script_is_refused_in_one_sentence(
    tmp_path: Path, content: str, complaint: str
) -> None:
    file = tmp_path / "script.json"
    file.write_text(content)
    with pytest.raises(UsageError) as caught:
        open_model(f"scripted:{file}")
    assert complaint in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read"):
        open_model(f"scripted:{tmp_path / 'no.json'}")


@pytest.mark.parametrize("spec", ["", "gpt-5", "anthropic:", "scripted:", "none:x", "llama:x"])
def test_an_unknown_kind_of_model_is_a_clear_sentence(spec: str) -> None:
    with pytest.raises(ModelConfigError, match="write anthropic:NAME, openai:NAME"):
        open_model(spec)


def test_the_documentation_lists_every_key_of_a_script() -> None:
    from lamina.models.scripted import EXPECT_KEYS, REPLY_KEYS, SCRIPT_KEYS, STEP_KEYS

    page = (Path(__file__).parents[2] / "docs" / "scripted.md").read_text()
    for key in EXPECT_KEYS | REPLY_KEYS | SCRIPT_KEYS | STEP_KEYS:
        assert f"`{key}`" in page or f'"{key}"' in page, key
