"""Anthropic's models: the real package against a server that speaks the real wire format."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.models.talk import READ, Talk, answer, request, user
from tests.wire.server import Answer, WireServer, fails, nobodys_port, says

from lamina import errors
from lamina.errors import (
    BadResponse,
    ModelConfigError,
    ModelError,
    ModelUnreachable,
    PromptTooLong,
    UsageError,
)
from lamina.events import (
    AttemptBroke,
    Retrying,
    StreamRestarted,
    TextDelta,
    ThinkingDelta,
    Warned,
    quiet,
)
from lamina.messages import Request, Usage, text, tool_use
from lamina.models import OPTIONS, open_model
from lamina.models.anthropic import AnthropicModel, Assembly, with_breakpoints
from lamina.models.remote import Malformed
from lamina.ports import Model

# ---- answers


@pytest.mark.spec("F6")
def test_an_answer_is_streamed_and_returned_whole(wire: WireServer) -> None:
    content = [
        {"type": "thinking", "thinking": "The user greets me.", "signature": "s1g"},
        {"type": "text", "text": "Let me look at the file."},
        tool_use("toolu_1", "Read", {"file_path": "a.py", "lines": [1, 2]}),
        tool_use("toolu_2", "Read", {}),
    ]
    usage = {
        "input_tokens": 3,
        "output_tokens": 40,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 200,
        "cache_creation": {"ephemeral_5m_input_tokens": 50, "ephemeral_1h_input_tokens": 150},
    }
    wire.will(Answer(content, stop_reason="tool_use", usage=usage))
    talk = Talk(wire)
    assert isinstance(talk.model, Model)
    response = talk.ask(request())
    assert response.content == content
    assert response.stop_reason == "tool_use"
    assert response.usage == Usage(3, 40, 1000, 200, 150)
    assert (response.id, response.model) == ("msg_wire", "wire")
    assert "".join(e.text for e in talk.heard(TextDelta)) == "Let me look at the file."
    assert len(talk.heard(TextDelta)) > 1
    assert "".join(e.text for e in talk.heard(ThinkingDelta)) == "The user greets me."


def test_the_request_is_what_the_wire_format_asks_for(wire: WireServer) -> None:
    talk = Talk(wire)
    talk.ask(request(user("hi"), params={"temperature": 0.5, "tool_choice": {"type": "auto"}}))
    received = wire.received[0]
    assert received.path == "/v1/messages"
    assert received.headers["authorization"] == "Bearer test-key"
    assert talk.body["model"] == "claude-sonnet-4-6"
    assert talk.body["stream"] is True
    assert talk.body["max_tokens"] == 32_000
    assert talk.body["temperature"] == 0.5
    assert talk.body["tool_choice"] == {"type": "auto"}
    assert "anthropic-beta" not in received.headers


def test_the_model_and_the_length_of_an_answer_can_be_set_by_request(wire: WireServer) -> None:
    talk = Talk(wire)
    talk.ask(request(model="anthropic:claude-haiku-4-5", max_tokens=64_000))
    assert (talk.body["model"], talk.body["max_tokens"]) == ("claude-haiku-4-5", 64_000)


def test_unknown_fields_and_blocks_survive_both_ways(wire: WireServer) -> None:
    content = [
        {"type": "text", "text": "Cited.", "citations": [{"type": "page", "page": 3}], "new": 1},
        {"type": "compaction", "content": "The summary.", "encrypted_content": "0pa9ue"},
        {"type": "hologram", "beam": {"angle": 3.5}},
        {"type": "redacted_thinking", "data": "xyz"},
    ]
    wire.will(Answer(content, stop_reason="a_new_reason"))
    talk = Talk(wire)
    response = talk.ask(request())
    assert response.content == content
    assert response.stop_reason == "a_new_reason"
    talk = Talk(wire)
    odd = {"type": "tool_result", "tool_use_id": "t", "content": [text("x")], "novel": {"a": [1]}}
    talk.ask(request(user("hi"), answer(*content, tool_use("t", "Read", {})), user(odd, "go on")))
    assert talk.body["messages"][1]["content"] == [*content, tool_use("t", "Read", {})]
    assert talk.body["messages"][2]["content"][0] == odd


def test_deltas_of_an_unknown_kind_grow_strings_and_lists_and_replace_the_rest() -> None:
    assembly = Assembly(quiet)
    start = {"id": "m", "content": [{"type": "rhyme", "line": "ro", "feet": [1], "n": 1}]}
    assembly.take({"type": "message_start", "message": start})
    delta = {"type": "rhyme_delta", "line": "ses", "feet": [2], "n": 2, "new": True}
    assembly.take({"type": "content_block_delta", "index": 0, "delta": delta})
    assembly.take({"type": "an_event_of_tomorrow"})
    with pytest.raises(Malformed, match="no stop reason"):
        assembly.response()
    end = {"stop_reason": "stop_sequence", "stop_sequence": "END"}
    assembly.take({"type": "message_delta", "delta": end})
    response = assembly.response()
    assert response.content == [
        {"type": "rhyme", "line": "roses", "feet": [1, 2], "n": 2, "new": True}
    ]
    assert response.extra["stop_sequence"] == "END"


# ---- the cache


def marks(body: dict[str, Any]) -> list[str]:
    """Where the breakpoints are, e.g. tools/0, system/1, 3/0 (message 3, block 0)."""
    found = [f"tools/{i}" for i, t in enumerate(body.get("tools", [])) if "cache_control" in t]
    found += [f"system/{i}" for i, b in enumerate(body["system"]) if "cache_control" in b]
    for number, message in enumerate(body["messages"]):
        for index, block in enumerate(message["content"]):
            assert "cache_control" not in json.dumps(block.get("content", ""))
            if "cache_control" in block:
                found.append(f"{number}/{index}")
    return found


@pytest.mark.spec("F4", "F6")
def test_breakpoints_stand_after_tools_and_system_and_move_with_the_conversation(
    wire: WireServer,
) -> None:
    talk = Talk(wire)
    tools = [READ, {**READ, "name": "Grep"}]
    system = [text("one"), text("two")]
    first = request(user("a", "b"), tools=tools, system=system)
    second = request(
        user("a", "b"), answer("c"), user("d"), tools=tools, system=system, cached_blocks=2
    )
    talk.ask(first, second)
    assert marks(wire.received[0].body) == ["tools/1", "system/1", "0/1"]
    assert marks(wire.received[1].body) == ["tools/1", "system/1", "0/1", "2/0"]
    assert talk.body["system"][1]["cache_control"] == {"type": "ephemeral", "ttl": "5m"}


@pytest.mark.spec("F4", "F10")
@pytest.mark.parametrize(("purpose", "marks"), [("main", 1), ("recall", 0), ("reading", 0)])
def test_what_is_asked_once_is_not_written_to_the_cache(purpose: Any, marks: int) -> None:
    asked = Request(
        [], [], [{"role": "user", "content": [text("Which of these?")]}], purpose=purpose
    )
    [message] = with_breakpoints(asked)[2]
    assert sum("cache_control" in block for block in message["content"]) == marks


@pytest.mark.spec("F4")
def test_breakpoints_are_never_on_thinking_or_empty_text_and_foreign_ones_are_dropped(
    wire: WireServer,
) -> None:
    talk = Talk(wire, cache_ttl="1h")
    foreign = {"cache_control": {"type": "ephemeral"}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    inner = {"type": "tool_result", "tool_use_id": "t", "content": [{**text("x"), **foreign}]}
    talk.ask(
        request(
            user({**text("a"), **foreign}),
            answer(text("b"), tool_use("t", "Read", {}), thinking),
            user(inner, ""),
            system=[{**text("s"), **foreign}, text("t")],
            tools=[{**READ, **foreign}, {**READ, "name": "Late", "defer_loading": True}],
            cached_blocks=4,
        )
    )
    assert marks(talk.body) == ["tools/0", "system/1", "1/1", "2/0"]
    assert talk.body["tools"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert talk.model.capabilities.cache_ttl == 3600


def test_without_tools_and_system_nothing_but_messages_is_sent(wire: WireServer) -> None:
    talk = Talk(wire)
    talk.ask(request(tools=[], system=[]))
    assert "tools" not in talk.body
    assert "system" not in talk.body


def test_the_request_handed_in_stays_as_it_was(wire: WireServer) -> None:
    sent = request(user("a"))
    before = json.dumps([sent.system, sent.tools, sent.messages])
    Talk(wire).ask(sent)
    assert json.dumps([sent.system, sent.tools, sent.messages]) == before


@pytest.mark.spec("L2.2")
def test_deletions_are_named_only_where_the_provider_declares_them(wire: WireServer) -> None:
    talk = Talk(wire, cache_edits=True)
    assert talk.model.capabilities.cache_edits
    talk.ask(request(cache_deletions=["toolu_1", "toolu_2"]))
    assert talk.body["cache_edits"] == [
        {"type": "delete_tool_result", "tool_use_id": "toolu_1"},
        {"type": "delete_tool_result", "tool_use_id": "toolu_2"},
    ]
    plain = Talk(wire)
    assert not plain.model.capabilities.cache_edits
    plain.ask(request(cache_deletions=["toolu_1"]))
    assert "cache_edits" not in plain.body


@pytest.mark.spec("L2.3")
def test_context_management_is_sent_with_its_header_and_its_report_is_kept(
    wire: WireServer,
) -> None:
    applied = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8}]}
    wire.will(Answer(end={"context_management": applied}))
    talk = Talk(wire)
    managed = {
        "edits": [
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": 180_000},
                "clear_at_least": {"type": "input_tokens", "value": 140_000},
            },
            {"type": "compact_20260112"},
        ]
    }
    response = talk.ask(request(params={"context_management": managed, "betas": ["mine-2026"]}))
    assert talk.body["context_management"] == managed
    assert wire.received[0].headers["anthropic-beta"].split(",") == [
        "mine-2026",
        "context-management-2025-06-27",
        "compact-2026-01-12",
    ]
    assert response.extra["context_management"] == applied


@pytest.mark.spec("F12")
def test_cache_diagnostics_name_the_last_answer_of_the_same_purpose(wire: WireServer) -> None:
    reason = {"cache_miss_reason": {"type": "system_changed", "cache_missed_input_tokens": 9}}
    wire.will(says("a", message={"id": "msg_1"}), says("b", message={"id": "msg_2"}))
    wire.will(says("c", message={"diagnostics": reason}))
    talk = Talk(wire, diagnostics=True)
    response = talk.ask(request(), request(purpose="notes"), request())
    previous = [r.body["diagnostics"]["previous_message_id"] for r in wire.received]
    assert previous == [None, None, "msg_1"]
    assert wire.received[0].headers["anthropic-beta"] == "cache-diagnosis-2026-04-07"
    assert response.extra["diagnostics"] == reason


@pytest.mark.spec("F3")
def test_the_suffix_for_a_million_becomes_a_header_where_the_model_needs_one(
    wire: WireServer,
) -> None:
    talk = Talk(wire, "anthropic:claude-sonnet-4-5[1m]")
    talk.ask(request())
    assert talk.model.capabilities.window == 1_000_000
    assert talk.body["model"] == "claude-sonnet-4-5"
    assert wire.received[0].headers["anthropic-beta"] == "context-1m-2025-08-07"
    assert talk.heard(Warned)[0].message.startswith("claude-sonnet-4-5 ends on")
    talk = Talk(wire, "anthropic:claude-opus-5-5[1m]")
    talk.ask(request())
    assert "anthropic-beta" not in wire.received[1].headers


def test_a_broken_profile_of_the_package_is_a_clear_sentence(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("ANTHROPIC_PROFILE", "nobody")
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    with pytest.raises(ModelConfigError, match="settings for Anthropic can't be used"):
        Talk(wire, api_key=None).ask(request())


# ---- trying again


@pytest.mark.spec("F6")
@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again_with_growing_pauses(wire: WireServer, status: int) -> None:
    wire.will(*[fails(status)] * 3, says("at last"))
    talk = Talk(wire)
    assert talk.ask(request()).text == "at last"
    assert len(wire.received) == 4
    pauses = talk.clock.slept
    assert len(pauses) == 3
    assert 0.25 <= pauses[0] <= 0.5
    assert 1 <= pauses[2] <= 2
    assert [(e.attempt, e.delay) for e in talk.heard(Retrying)] == list(enumerate(pauses, 1))
    assert talk.heard(StreamRestarted) == []


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({"retry-after": "17"}, 17.0),
        ({"retry-after-ms": "2500"}, 2.5),
        ({"retry-after": "Fri, 15 Jan 2027 08:01:30 GMT"}, 90.0),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, None),
        ({"retry-after": "soon"}, None),
    ],
)
def test_the_server_sets_the_pace(
    wire: WireServer, headers: dict[str, str], pause: float | None
) -> None:
    wire.will(fails(429, headers=headers))
    talk = Talk(wire)
    talk.ask(request())
    [slept] = talk.clock.slept
    assert slept == pause if pause else slept <= 0.5


def test_a_server_that_asks_for_too_long_a_pause_is_given_up(wire: WireServer) -> None:
    wire.will(fails(429, headers={"retry-after": "3600"}))
    with pytest.raises(ModelUnreachable, match="too many requests"):
        Talk(wire).ask(request())
    assert len(wire.received) == 1


def test_a_server_that_forbids_another_try_is_obeyed(wire: WireServer) -> None:
    wire.will(fails(500, headers={"x-should-retry": "false"}))
    with pytest.raises(ModelError, match="500"):
        Talk(wire).ask(request())
    assert len(wire.received) == 1


@pytest.mark.spec("F6")
def test_after_all_tries_the_user_reads_one_sentence(wire: WireServer) -> None:
    wire.will(*[fails(529, "overloaded_error")] * 9)
    talk = Talk(wire)
    with pytest.raises(ModelUnreachable) as caught:
        talk.ask(request())
    assert str(caught.value) == (
        "Anthropic at 127.0.0.1 can't serve the call now (overloaded): try again later"
        " (tried 9 times)."
    )
    assert len(wire.received) == 9
    assert max(talk.clock.slept) <= 32


def test_retries_can_be_switched_off(wire: WireServer) -> None:
    wire.will(fails(529))
    with pytest.raises(ModelUnreachable):
        Talk(wire, retries=0).ask(request())
    assert len(wire.received) == 1


@pytest.mark.spec("F6")
@pytest.mark.parametrize("fault", ["drop", "malformed", "wrong_event", "error_event"])
def test_a_stream_that_breaks_starts_again_and_says_so(wire: WireServer, fault: Any) -> None:
    wire.will(
        says("half of it", fault=fault, after=5, error=("overloaded_error", "Overloaded")),
        says("the whole answer"),
    )
    talk = Talk(wire)
    assert talk.ask(request()).text == "the whole answer"
    kinds = [type(event) for event in talk.events]
    assert kinds[:5] == [TextDelta, TextDelta, AttemptBroke, StreamRestarted, Retrying]
    assert "".join(e.text for e in talk.heard(TextDelta)[2:]) == "the whole answer"


@pytest.mark.spec("F6")
def test_a_line_that_goes_silent_is_given_up_and_tried_again(wire: WireServer) -> None:
    silent = says("half", fault="half_open", after=4)
    wire.will(silent, says("whole"))
    talk = Talk(wire, timeout=1)
    assert talk.ask(request()).text == "whole"
    assert "sent nothing for 1 s" in talk.heard(Retrying)[0].reason
    assert silent.left.wait(30)


def test_an_answer_that_stays_malformed_is_named_as_such(wire: WireServer) -> None:
    wire.will(*[says("x", fault="malformed")] * 2)
    with pytest.raises(BadResponse, match="can't be read") as caught:
        Talk(wire).ask(request())
    assert "127.0.0.1" in str(caught.value)
    assert len(wire.received) == 2


def test_a_tool_call_whose_input_is_no_json_is_malformed(wire: WireServer) -> None:
    bad = {**tool_use("t", "Read", {}), "raw_input": '{"file_path": '}
    wire.will(*[Answer([bad], stop_reason="tool_use")] * 2)
    with pytest.raises(BadResponse, match="the input of Read is not JSON"):
        Talk(wire).ask(request())


@pytest.mark.parametrize("name", ["Write", None])
def test_a_tool_call_that_was_cut_off_is_left_out_and_named(
    wire: WireServer, name: str | None
) -> None:
    cut = {**tool_use("t", "Write", {}), "name": name, "raw_input": '{"content": "half'}
    wire.will(Answer([text("Writing."), cut], stop_reason="max_tokens"))
    response = Talk(wire).ask(request())
    assert response.content == [text("Writing.")]
    assert response.stop_reason == "max_tokens"
    assert response.extra["cut_tool_use"] == name


@pytest.mark.spec("F11")
def test_cancelling_hangs_up_at_once(wire: WireServer) -> None:
    silent = says("half", fault="half_open", after=4)
    wire.will(silent)
    talk = Talk(wire)

    async def story(model: Model) -> None:
        begun = asyncio.Event()
        call = asyncio.create_task(model.complete(request(), lambda _: begun.set()))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    talk.run(story)
    assert silent.left.wait(30)
    assert len(wire.received) == 1


# ---- refusals


@pytest.mark.spec("F6")
@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (
            fails(401, "authentication_error", "invalid x-api-key sk-ant-123456"),
            "Anthropic at 127.0.0.1 refused the key (401): check ANTHROPIC_API_KEY.",
        ),
        (
            fails(403, "permission_error"),
            "The key for Anthropic may not use 'claude-sonnet-4-6' at 127.0.0.1 (403): check ANTHROPIC_API_KEY and what it is allowed.",
        ),
        (
            fails(404, "not_found_error", "model: claude-sonnet-4-6"),
            "127.0.0.1 has no model 'claude-sonnet-4-6' (404): check the model's name and ANTHROPIC_BASE_URL.",
        ),
        (
            fails(402, "billing_error", "Your balance is empty."),
            "Anthropic refuses the call for lack of credit: Your balance is empty.",
        ),
    ],
)
def test_what_the_user_must_set_right_is_one_sentence(
    wire: WireServer, failure: Answer, sentence: str
) -> None:
    wire.will(failure)
    with pytest.raises(ModelConfigError) as caught:
        Talk(wire).ask(request())
    assert str(caught.value) == sentence
    assert len(wire.received) == 1


def test_a_bad_request_says_why_and_hides_keys(wire: WireServer) -> None:
    wire.will(fails(400, "invalid_request_error", "tools.0: bad\n  sk-ant-api03-secretsecret"))
    with pytest.raises(ModelError) as caught:
        Talk(wire).ask(request())
    assert str(caught.value) == "Anthropic rejected the request (400): tools.0: bad …"


@pytest.mark.spec("F11")
@pytest.mark.parametrize(
    ("failure", "gap"),
    [
        (
            fails(
                400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"
            ),
            10_000,
        ),
        (fails(400, "invalid_request_error", "prompt is too long"), None),
        (
            fails(
                400,
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000,"
                " decrease input length",
            ),
            22_000,
        ),
        (fails(413, "request_too_large", "Request exceeds the maximum size"), None),
    ],
)
def test_a_prompt_that_is_too_long_is_known_as_such(
    wire: WireServer, failure: Answer, gap: int | None
) -> None:
    wire.will(failure)
    with pytest.raises(PromptTooLong) as caught:
        Talk(wire).ask(request())
    assert caught.value.gap == gap
    assert len(wire.received) == 1


@pytest.mark.spec("F6")
def test_a_missing_key_is_one_sentence(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ModelConfigError) as caught:
        Talk(wire, api_key=None).ask(request())
    assert str(caught.value) == (
        "There is no key for Anthropic: set ANTHROPIC_API_KEY, or choose another model with --model."
    )
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
    Talk(wire, api_key=None).ask(request())
    assert wire.received[0].headers["authorization"] == "Bearer from-the-environment"


@pytest.mark.spec("F6")
@pytest.mark.parametrize("kind", ["anthropic:claude-sonnet-4-6", "openai:gpt-5.5"])
@pytest.mark.parametrize("url", ["ftp://files.test/v1", "localhost:9/v1", "nowhere"])
def test_what_is_no_address_is_said_at_once(wire: WireServer, kind: str, url: str) -> None:
    talk = Talk(wire, kind, base_url=url)
    with pytest.raises(ModelConfigError, match=r"is not the address of an API: set .*_BASE_URL"):
        talk.ask(request())
    assert talk.clock.slept == []


@pytest.mark.spec("F6")
def test_an_unreachable_host_is_one_sentence(wire: WireServer) -> None:
    with nobodys_port() as port:
        talk = Talk(wire, base_url=f"http://127.0.0.1:{port}")
        with pytest.raises(ModelUnreachable) as caught:
            talk.ask(request())
    assert f"Anthropic can't be reached at 127.0.0.1:{port} (" in str(caught.value)
    assert "ANTHROPIC_BASE_URL" in str(caught.value)
    assert "tried 4 times" in str(caught.value)


def test_a_host_that_closes_without_a_word_is_tried_again(wire: WireServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as rude:

        def slam() -> None:
            for _ in range(2):
                connection, _ = rude.accept()
                connection.recv(10)
                connection.close()

        threading.Thread(target=slam, daemon=True).start()
        talk = Talk(wire, base_url=f"http://127.0.0.1:{rude.getsockname()[1]}", retries=1)
        with pytest.raises(ModelUnreachable, match="broke off"):
            talk.ask(request())


def test_something_else_at_the_base_url_is_a_clear_sentence(wire: WireServer) -> None:
    talk = Talk(wire, base_url=f"{wire.anthropic_url}/elsewhere")
    wire.will(*[Answer(fault="drop", after=0)] * 9)
    with pytest.raises(ModelUnreachable, match="broke off"):
        talk.ask(request())


def test_the_documentation_lists_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    for option in OPTIONS:
        assert f"| `{option}` |" in page, option


def test_bad_options_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match="no option 'colour'"):
        open_model("anthropic:claude-opus-5", options={"colour": "red"})
    with pytest.raises(ModelConfigError, match="5m or 1h"):
        open_model("anthropic:claude-opus-5", options={"cache_ttl": "2h"})


@pytest.mark.spec("F6")
def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.models.find_spec", lambda _: None)
    for kind in ("anthropic", "openai", "gguf"):
        with pytest.raises(ModelConfigError, match=rf"pip install -e '.*\[{kind}\]'"):
            open_model(f"{kind}:x")  # from a checkout, as the tests are


def test_an_installed_lamina_gets_an_extra_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "site-packages" / "lamina" / "x.py"))
    assert errors.installing("openai") == "pip install 'lamina[openai]'"


def test_opening_a_model_loads_no_package() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from lamina.models import open_model;"
        "open_model('anthropic:claude-opus-5');"
        "assert not {'anthropic', 'openai', 'httpx2'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_closing_an_unused_model_is_fine() -> None:
    asyncio.run(AnthropicModel("claude-opus-5").close())


def test_quiet_listeners_are_fine(wire: WireServer) -> None:
    talk = Talk(wire)
    assert talk.run(lambda model: model.complete(request(), quiet)).text == "ok"
