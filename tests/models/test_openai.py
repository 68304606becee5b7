"""OpenAI-compatible endpoints: the real package against a server that speaks the wire format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.models.talk import READ, Talk, answer, request, user
from tests.wire.server import Answer, WireServer, fails, nobodys_port, says

from lamina.errors import BadResponse, ModelConfigError, ModelError, ModelUnreachable, PromptTooLong
from lamina.events import Retrying, StreamRestarted, TextDelta, ThinkingDelta
from lamina.messages import Usage, text, tool_result, tool_use
from lamina.models.openai import ChatAssembly, chat_messages
from lamina.models.remote import Malformed
from lamina.ports import Model

GPT = "openai:gpt-5.5"


@pytest.mark.spec("F6")
def test_an_answer_is_streamed_and_comes_back_in_block_form(wire: WireServer) -> None:
    content = [
        text("Let me look at both."),
        tool_use("call_1", "Read", {"file_path": "a.py"}),
        tool_use("call_2", "Read", {"file_path": "b.py", "lines": [1, 2]}),
    ]
    usage = {
        "prompt_tokens": 1500,
        "completion_tokens": 30,
        "total_tokens": 1530,
        "prompt_tokens_details": {"cached_tokens": 1024, "cache_write_tokens": 400},
    }
    wire.will(Answer(content, stop_reason="tool_use", usage=usage))
    talk = Talk(wire, GPT)
    assert isinstance(talk.model, Model)
    response = talk.ask(request())
    assert response.content == content
    assert response.stop_reason == "tool_use"
    assert response.usage == Usage(input=76, output=30, cache_read=1024, cache_write=400)
    assert response.usage.prompt == 1500
    assert (response.id, response.model) == ("chatcmpl-wire", "wire")
    assert "".join(e.text for e in talk.heard(TextDelta)) == "Let me look at both."
    assert len(talk.heard(TextDelta)) > 1


@pytest.mark.spec("F6")
def test_a_conversation_is_sent_as_chat_messages(wire: WireServer) -> None:
    talk = Talk(wire, GPT, cache_key="session-1")
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "eA=="},
    }
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    linked = {"type": "image", "source": {"type": "url", "url": "https://example.org/x.png"}}
    talk.ask(
        request(
            user("look", linked),
            answer(
                thinking, "On it.", tool_use("c1", "Read", {"a": "ü"}), tool_use("c2", "Read", {})
            ),
            user(
                tool_result("c1", [text("one"), picture]),
                tool_result("c2", "no such file", is_error=True),
                "go on",
            ),
            answer(tool_use("c3", "Read", {})),
            user(tool_result("c3", "")),
            system=[text("Be brief."), text("Be kind.")],
            max_tokens=500,
            params={"temperature": 0.1, "top_k": 3, "thinking": {"type": "adaptive"}},
        )
    )
    body = talk.body
    assert wire.received[0].path == "/v1/chat/completions"
    assert wire.received[0].headers["authorization"] == "Bearer test-key"
    assert body["model"] == "gpt-5.5"
    assert body["stream_options"] == {"include_usage": True}
    assert body["prompt_cache_key"] == "session-1"
    assert (body["max_tokens"], body["temperature"], body["top_k"]) == (500, 0.1, 3)
    assert "thinking" not in body
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "Read",
                "description": "Reads.",
                "parameters": READ["input_schema"],
            },
        }
    ]
    png = {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}}
    call = {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": '{"a":"ü"}'}}
    assert body["messages"] == [
        {"role": "system", "content": "Be brief.\nBe kind."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": "On it.",
            "tool_calls": [
                call,
                {"id": "c2", "type": "function", "function": {"name": "Read", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "one\n[The picture follows.]"},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: no such file"},
        {"role": "user", "content": [png, {"type": "text", "text": "go on"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c3", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c3", "content": ""},
    ]


@pytest.mark.spec("F4")
def test_a_grown_conversation_begins_with_the_bytes_of_the_old_one() -> None:
    grown = [
        user("a"),
        answer("b", tool_use("c", "Read", {"z": 1, "a": 2})),
        user(tool_result("c", "d")),
    ]
    old = [json.dumps(m) for m in chat_messages([text("s")], grown)]
    new = [json.dumps(m) for m in chat_messages([text("s")], [*grown, answer("e"), user("f")])]
    assert new[: len(old)] == old


def test_blocks_without_a_chat_form_are_shown_rather_than_dropped() -> None:
    odd = {"type": "hologram", "beam": 1, "cache_control": {"type": "ephemeral"}}
    summary = {"type": "compaction", "content": "What happened."}
    chat = chat_messages([], [user("a"), answer(summary), user(odd)])
    assert chat[1] == {"role": "assistant", "content": "What happened."}
    assert chat[2] == {"role": "user", "content": '{"type":"hologram","beam":1}'}


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("end_turn", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("content_filter", "refusal"),
        ("eos", "eos"),
    ],
)
def test_finish_reasons_are_translated(wire: WireServer, finish: str, stop: str) -> None:
    wire.will(says("x", stop_reason=finish))
    assert Talk(wire, GPT).ask(request()).stop_reason == stop


def test_reasoning_of_compatible_servers_is_streamed_but_not_kept(wire: WireServer) -> None:
    wire.will(Answer([{"type": "thinking", "thinking": "hm", "signature": ""}, text("x")]))
    talk = Talk(wire, "openai:local-model")
    assert talk.ask(request()).content == [text("x")]
    assert talk.heard(ThinkingDelta) == [ThinkingDelta("hm")]


@pytest.mark.spec("F6")
def test_a_tool_call_whose_input_is_no_json_is_tried_once_more_then_named(wire: WireServer) -> None:
    bad = {**tool_use("c", "Read", {}), "raw_input": '{"file_path": '}
    good = tool_use("c", "Read", {"file_path": "a"})
    wire.will(Answer([bad], stop_reason="tool_use"), Answer([good], stop_reason="tool_use"))
    assert Talk(wire, GPT).ask(request()).content == [good]
    wire.will(*[Answer([bad], stop_reason="tool_use")] * 2)
    with pytest.raises(BadResponse, match="the input of Read is not JSON"):
        Talk(wire, GPT).ask(request())
    assert len(wire.received) == 4


def test_a_tool_call_that_was_cut_off_is_left_out_and_named(wire: WireServer) -> None:
    cut = {**tool_use("c", "Write", {}), "raw_input": '{"content": "half'}
    wire.will(Answer([text("Writing."), cut], stop_reason="max_tokens"))
    response = Talk(wire, GPT).ask(request())
    assert (response.content, response.stop_reason) == ([text("Writing.")], "max_tokens")
    assert response.extra["cut_tool_use"] == "Write"


def chunk(delta: Any, finish: str | None = None) -> Any:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def test_calls_without_ids_get_some_and_calls_finished_with_stop_are_still_calls() -> None:
    assembly = ChatAssembly(lambda _: None)
    assembly.take(chunk({"tool_calls": [{"function": {"name": "Read", "arguments": "{}"}}]}))
    assembly.take({"id": "x", "choices": [{"index": 1, "delta": {"content": "other choice"}}]})
    assembly.take(chunk({}, "stop"))
    response = assembly.response()
    assert response.content == [tool_use("call_x_0", "Read", {})]
    assert response.stop_reason == "tool_use"


def test_a_refusal_is_its_text_and_a_nameless_call_is_malformed() -> None:
    assembly = ChatAssembly(lambda _: None)
    assembly.take(chunk({"refusal": "I won't."}, "stop"))
    assert assembly.response().content == [text("I won't.")]
    assert assembly.response().stop_reason == "refusal"
    assembly = ChatAssembly(lambda _: None)
    assembly.take(chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}, "stop"))
    with pytest.raises(Malformed, match="no name"):
        assembly.response()
    with pytest.raises(Malformed, match="not whole"):
        assembly.take({"choices": ["x"]})


# ---- trying again


@pytest.mark.spec("F6")
@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_may_pass_is_tried_again_at_the_servers_pace(wire: WireServer, status: int) -> None:
    wire.will(fails(status, headers={"retry-after": "7"}), fails(status), says("at last"))
    talk = Talk(wire, GPT)
    assert talk.ask(request()).text == "at last"
    assert talk.clock.slept[0] == 7
    assert len(talk.heard(Retrying)) == 2


@pytest.mark.spec("F6")
@pytest.mark.parametrize("fault", ["drop", "malformed", "wrong_event", "error_event"])
def test_a_stream_that_breaks_starts_again_and_says_so(wire: WireServer, fault: Any) -> None:
    wire.will(
        says("half of it", fault=fault, after=3, error=("server_error", "Overloaded")),
        says("the whole answer"),
    )
    talk = Talk(wire, GPT)
    assert talk.ask(request()).text == "the whole answer"
    assert len(talk.heard(StreamRestarted)) == 1


@pytest.mark.spec("F6")
def test_a_line_that_goes_silent_is_given_up_and_tried_again(wire: WireServer) -> None:
    silent = says("half", fault="half_open", after=2)
    wire.will(silent, says("whole"))
    talk = Talk(wire, GPT, timeout=1)
    assert talk.ask(request()).text == "whole"
    assert "sent nothing for 1 s" in talk.heard(Retrying)[0].reason
    assert silent.left.wait(30)


# ---- refusals


@pytest.mark.spec("F6")
@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (
            fails(401, "invalid_request_error", "Incorrect API key provided: sk-abcdef"),
            "The endpoint at 127.0.0.1 refused the key (401): check OPENAI_API_KEY.",
        ),
        (
            fails(404, "invalid_request_error", "no such model", code="model_not_found"),
            "127.0.0.1 has no model 'gpt-5.5' (404): check the model's name and OPENAI_BASE_URL.",
        ),
        (
            fails(429, "insufficient_quota", "Out of quota.", code="insufficient_quota"),
            "The endpoint refuses the call for lack of credit: Out of quota.",
        ),
    ],
)
def test_what_the_user_must_set_right_is_one_sentence(
    wire: WireServer, failure: Answer, sentence: str
) -> None:
    wire.will(failure)
    with pytest.raises(ModelConfigError) as caught:
        Talk(wire, GPT).ask(request())
    assert str(caught.value) == sentence
    assert len(wire.received) == 1


@pytest.mark.spec("F11")
@pytest.mark.parametrize(
    ("message", "code", "gap"),
    [
        (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130500 tokens.",
            "context_length_exceeded",
            2_500,
        ),
        (
            "the request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
            None,
            904,
        ),
        ("Your input exceeds the context window of this model.", None, None),
        ("Too much.", "context_length_exceeded", None),
    ],
)
def test_a_prompt_that_is_too_long_is_known_as_such(
    wire: WireServer, message: str, code: str | None, gap: int | None
) -> None:
    wire.will(fails(400, "invalid_request_error", message, code=code))
    with pytest.raises(PromptTooLong) as caught:
        Talk(wire, GPT).ask(request())
    assert caught.value.gap == gap


def test_a_bad_request_says_why(wire: WireServer) -> None:
    wire.will(fails(400, "invalid_request_error", "tools[0] is bad"))
    with pytest.raises(ModelError, match=r"rejected the request \(400\): tools\[0\] is bad"):
        Talk(wire, GPT).ask(request())


@pytest.mark.spec("F6")
def test_a_missing_key_is_one_sentence_but_a_local_server_needs_none(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelConfigError) as caught:
        Talk(wire, GPT, api_key=None, base_url="https://api.openai.com/v1").ask(request())
    assert str(caught.value) == (
        "There is no key for OpenAI: set OPENAI_API_KEY, or choose another model with --model."
    )
    assert Talk(wire, GPT, api_key=None).ask(request()).text == "ok"


@pytest.mark.spec("F6")
def test_the_base_url_may_come_from_the_environment(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", wire.openai_url)
    assert Talk(wire, GPT, base_url=None).ask(request()).text == "ok"
    assert len(wire.received) == 1


def test_an_unreachable_host_is_one_sentence(wire: WireServer) -> None:
    with nobodys_port() as port:
        url = f"http://127.0.0.1:{port}/v1"
        with pytest.raises(ModelUnreachable, match=r"can't be reached at 127\.0\.0\.1") as caught:
            Talk(wire, GPT, base_url=url).ask(request())
    assert "OPENAI_BASE_URL" in str(caught.value)
