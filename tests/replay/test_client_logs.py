"""Sessions of Codex, Gemini CLI, opencode and pi (I3, I4), in the forms that the programs wrote."""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.conversation.entries import entries_of
from lamina.errors import TranscriptError
from lamina.ledger.record import Ledger
from lamina.messages import Usage
from lamina.replay.readers import read_recording
from lamina.replay.recording import Recording

pytestmark = pytest.mark.spec("I3", "I4")
AT = "2026-11-17T01:14:42.409Z"


def _codex(*lines: tuple[str, dict[str, Any]]) -> str:
    return "".join(
        json.dumps({"timestamp": AT, "ordinal": n, "type": kind, "payload": payload}) + "\n"
        for n, (kind, payload) in enumerate(lines)
    )


def _said(role: str, *texts: str) -> tuple[str, dict[str, Any]]:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text} for text in texts]
    return "response_item", {"type": "message", "role": role, "content": content}


def _used(**usage: int) -> tuple[str, dict[str, Any]]:
    return "token_usage_record", {"usage": usage}


CODEX = _codex(
    ("session_meta", {"id": "x", "cwd": "/shop", "base_instructions": {"text": "Be a coder."}}),
    _said("developer", "<skills_instructions>"),
    _said("user", "# AGENTS.md instructions for /shop", "<environment_context>"),
    ("turn_context", {"model": "gpt-5.2-codex"}),
    _said("user", "I prefer tabs."),
    (
        "event_msg",
        {
            "type": "item_completed",
            "item": {
                "type": "UserMessage",
                "content": [{"type": "text", "text": "I prefer tabs."}],
            },
        },
    ),
    (
        "response_item",
        {"type": "function_call", "name": "exec", "arguments": '{"cmd": "cat a"}', "call_id": "c1"},
    ),
    _used(input_tokens=100, cached_input_tokens=0, output_tokens=10),
    ("response_item", {"type": "function_call_output", "call_id": "c1", "output": "hello\n"}),
    _said("assistant", "All done."),
    _used(input_tokens=150, cached_input_tokens=100, output_tokens=2),
)
GEMINI = "\n".join(
    json.dumps(line)
    for line in (
        {"sessionId": "s", "projectHash": "h", "startTime": AT, "kind": "main"},
        {
            "$set": {
                "messages": [
                    {
                        "id": "0",
                        "timestamp": AT,
                        "type": "user",
                        "content": [{"text": "<session_context>\nToday"}],
                    }
                ]
            }
        },
        {
            "id": "1",
            "timestamp": AT,
            "type": "user",
            "content": [{"text": "<hook_context>FACT</hook_context>I prefer tabs."}],
        },
        {
            "id": "2",
            "timestamp": AT,
            "type": "gemini",
            "content": "",
            "tokens": {"input": 100, "output": 9, "cached": 0, "thoughts": 1},
            "model": "gemini-2.5-pro",
        },
        {
            "id": "2",
            "timestamp": AT,
            "type": "gemini",
            "content": "",
            "tokens": {"input": 100, "output": 9, "cached": 0, "thoughts": 1},
            "model": "gemini-2.5-pro",
            "toolCalls": [
                {
                    "id": "c1",
                    "name": "read",
                    "args": {"p": "a"},
                    "result": [
                        {"functionResponse": {"id": "c1", "response": {"output": "hello\n"}}}
                    ],
                }
            ],
        },
        {
            "id": "4",
            "timestamp": AT,
            "type": "gemini",
            "content": "All done.",
            "tokens": {"input": 150, "output": 2, "cached": 100},
            "model": "gemini-2.5-pro",
        },
    )
)
PI_LINES = (
    {"type": "session", "version": 3, "id": "s", "timestamp": AT, "cwd": "/shop"},
    {"type": "model_change", "id": "m", "parentId": None, "timestamp": AT, "modelId": "fake-1"},
    {
        "type": "message",
        "id": "0",
        "parentId": "m",
        "message": {"role": "user", "content": "other"},
    },
    {
        "type": "message",
        "id": "1",
        "parentId": "m",
        "timestamp": AT,
        "message": {"role": "user", "content": [{"type": "text", "text": "I prefer tabs."}]},
    },
    {"type": "custom_message", "id": "1b", "parentId": "1", "timestamp": AT, "content": "FACT"},
    {
        "type": "message",
        "id": "2",
        "parentId": "1b",
        "timestamp": AT,
        "message": {
            "role": "assistant",
            "model": "fake-1",
            "content": [{"type": "toolCall", "id": "c1", "name": "read", "arguments": {"p": "a"}}],
            "usage": {"input": 100, "output": 10, "cacheRead": 0, "cacheWrite": 0},
        },
    },
    {
        "type": "message",
        "id": "3",
        "parentId": "2",
        "timestamp": AT,
        "message": {
            "role": "toolResult",
            "toolCallId": "c1",
            "content": [{"type": "text", "text": "hello\n"}],
        },
    },
    {
        "type": "message",
        "id": "4",
        "parentId": "3",
        "timestamp": AT,
        "message": {
            "role": "assistant",
            "model": "fake-1",
            "content": [{"type": "text", "text": "All done."}],
            "usage": {"input": 50, "output": 2, "cacheRead": 100, "cacheWrite": 0},
        },
    },
)
PI = "\n".join(map(json.dumps, PI_LINES))


def _opencode(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE session (id, directory, time_created)")
        database.execute("CREATE TABLE message (id, session_id, time_created, data)")
        database.execute("CREATE TABLE part (id, message_id, session_id, time_created, data)")
        database.execute("INSERT INTO session VALUES ('s', '/shop', 1)")
        made = {"time": {"created": 1794878101030}}
        answer = {"role": "assistant", "modelID": "fake-1", **made}
        messages = [("1", {"role": "user", **made}), ("2", answer)]
        first = {"input": 100, "output": 10, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        second = {"input": 50, "output": 1, "reasoning": 1, "cache": {"read": 100, "write": 0}}
        done = {"status": "completed", "input": {"p": "a"}, "output": "hello\n"}
        parts: list[tuple[str, dict[str, Any]]] = [
            ("1", {"type": "text", "text": "I prefer tabs."}),
            ("1", {"type": "text", "text": "FACT", "synthetic": True}),
            ("2", {"type": "step-start"}),
            ("2", {"type": "tool", "tool": "read", "callID": "c1", "state": done}),
            ("2", {"type": "step-finish", "tokens": first}),
            ("2", {"type": "step-start"}),
            ("2", {"type": "text", "text": "All done."}),
            ("2", {"type": "step-finish", "tokens": second}),
        ]
        for name, data in messages:
            row = (name, "s", int(name), json.dumps(data))
            database.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
        for number, (name, data) in enumerate(parts):
            row = (f"p{number}", name, "s", number, json.dumps(data))
            database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?)", row)
    database.close()


@pytest.fixture(params=["codex", "gemini-cli", "pi", "opencode"])
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Recording:
    path = tmp_path / "session"
    if request.param == "opencode":
        _opencode(path)
    else:
        path.write_text({"codex": CODEX, "gemini-cli": GEMINI, "pi": PI}[request.param], "utf-8")
    found = read_recording(path)
    assert found.format == request.param
    return found


def test_a_session_of_each_client_is_read_whole(recorded: Recording) -> None:
    first, second = recorded.requests
    assert first.usage == Usage(100, 10)
    assert second.usage == Usage(50, 2, 100)
    assert recorded.timed
    blocks = [b for one in recorded.messages for b in one.message["content"]]
    call = next(block for block in blocks if block["type"] == "tool_use")
    result = next(block for block in blocks if block["type"] == "tool_result")
    assert call["id"] == result["tool_use_id"]
    assert "hello" in str(result["content"])
    assert recorded.context(second)[-1]["content"] == [result]


def test_only_what_the_person_typed_counts_as_typed(recorded: Recording) -> None:
    ledger = Ledger.of([])
    typed = [
        block["text"]
        for one in recorded.messages
        if one.message["role"] == "user"
        for entry, _ in entries_of([one.message], ledger)
        for block, origin in zip(entry["content"], entry["origins"], strict=True)
        if origin == "typed"
    ]
    assert typed == ["I prefer tabs."]


def test_codex_begins_again_from_its_summary(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    kept = [{"type": "message", "content": [{"type": "input_text", "text": "What we did: tea."}]}]
    after = _codex(
        ("compacted", {"message": "What we did", "replacement_history": kept}),
        _said("user", "Go on."),
        _said("assistant", "On it."),
    )
    path.write_text(CODEX + after, "utf-8")
    found = read_recording(path)
    (summary,) = [one for one in found.messages if one.summary]
    assert summary.message["content"][0]["text"] == "What we did: tea."
    assert len(found.context(found.requests[-1])) == 2
    assert [step.compacted for step in found.steps()] == [False, False, True]


def test_another_branch_of_pi_is_counted_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(PI, "utf-8")
    found = read_recording(path)
    assert "other" not in json.dumps([one.message for one in found.messages])
    assert [one.reason for one in found.skipped] == ["1 entries on other branches"]


def test_a_database_of_somebody_else_gets_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE cheese (name)")
    database.close()
    with pytest.raises(TranscriptError, match="can't read as opencode's"):
        read_recording(path)


def test_a_database_that_is_being_written_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    _opencode(path)
    with sqlite3.connect(path) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("INSERT INTO session VALUES ('t', '/shop', 2)")
        assert len(read_recording(path).requests) == 2
    writer.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 10**13) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@examples(60)
@given(st.data())
def test_a_value_of_any_kind_in_any_place_is_read_or_told(data: st.DataObject) -> None:
    import tempfile

    text = data.draw(st.sampled_from([CODEX, GEMINI, PI]))
    lines = [json.loads(line) for line in text.splitlines()]
    line = data.draw(st.sampled_from(lines[1:]))
    key = data.draw(st.sampled_from(sorted(line)))
    inner = line[key]
    if isinstance(inner, dict) and inner and data.draw(st.booleans()):
        inner[data.draw(st.sampled_from(sorted(inner)))] = data.draw(JSON)
    else:
        line[key] = data.draw(JSON)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("\n".join(map(json.dumps, lines)))
        file.flush()
        with suppress(TranscriptError):
            read_recording(file.name)
