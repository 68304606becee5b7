"""Other recordings become the same value, and bad files a clear word instead of a crash."""

from __future__ import annotations

import copy
import gzip
import json
import os
import re
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.errors import TranscriptError
from lamina.messages import Usage
from lamina.replay.files import LINE_LIMIT
from lamina.replay.readers import read_recording

pytestmark = pytest.mark.spec("I4")

Save = Callable[..., Path]
FUNCTION = {"name": "search", "arguments": '{"q": "flights"}'}
OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Find flights"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "three found"},
    {"role": "assistant", "content": "There are three."},
]
ANTHROPIC = [
    {"role": "user", "content": "Find flights"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "flights"}}],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "three found"}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "There are three."}]},
]


def shape(path: Path) -> tuple[str, list[list[str]]]:
    """The format, and for each request the kinds of the blocks that were sent."""
    recording = read_recording(path)
    kinds = [
        [block["type"] for message in recording.context(request) for block in message["content"]]
        for request in recording.requests
    ]
    return recording.format, kinds


def jsonl(values: list[Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


@pytest.mark.parametrize("content", [OPENAI, {"messages": OPENAI}, jsonl(OPENAI)])
def test_openai_messages_in_any_wrapping(save: Save, content: Any) -> None:
    path = save(content, "log.json")
    assert shape(path) == ("openai-messages", [["text"], ["text", "tool_use", "tool_result"]])
    recording = read_recording(path)
    assert recording.frames[recording.requests[0].frame].system[0]["text"] == "Be brief."
    call = recording.context(recording.requests[1])[1]["content"][0]
    assert (call["name"], call["input"]) == ("search", {"q": "flights"})
    assert not recording.timed


@pytest.mark.parametrize("content", [ANTHROPIC, {"messages": ANTHROPIC}, jsonl(ANTHROPIC)])
def test_anthropic_messages_in_any_wrapping(save: Save, content: Any) -> None:
    assert shape(save(content, "log.json")) == (
        "anthropic-messages",
        [["text"], ["text", "tool_use", "tool_result"]],
    )


def test_responses_items_are_read(save: Save) -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Find flights"}]},
        {"type": "function_call", "call_id": "c1", "name": "search", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "three"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "3"}]},
    ]
    assert shape(save(items, "items.json")) == (
        "openai-messages",
        [["text"], ["text", "tool_use", "tool_result"]],
    )


def test_a_log_of_bodies_is_one_conversation_a_line_with_its_usage(save: Save) -> None:
    usage = {"prompt_tokens": 900, "completion_tokens": 7}
    usage["prompt_tokens_details"] = {"cached_tokens": 300}  # type: ignore[assignment]
    bodies = [{"model": "gpt-5.4", "messages": OPENAI, "usage": usage}, {"messages": OPENAI}]
    recording = read_recording(save(jsonl(bodies), "bodies.jsonl"))
    assert [request.thread for request in recording.requests] == ["line 1"] * 2 + ["line 2"] * 2
    assert recording.requests[0].model == "gpt-5.4"
    assert recording.requests[0].usage is None
    assert recording.requests[1].usage == Usage(600, 7, 300)


RESPONSES = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Find both"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Two searches"}]},
    {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q": "a"}'},
    {"type": "custom_tool_call", "call_id": "c2", "name": "shell", "input": "ls -l"},
    {"type": "function_call_output", "call_id": "c1", "output": "three"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": "four"},
    {"type": "web_search_call", "id": "ws", "status": "completed"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "7"}]},
]


def test_items_of_one_response_are_one_request(save: Save) -> None:
    """Thought, parallel calls and words come as items of their own, from one call of the model."""
    path = save(RESPONSES, "items.json")
    asked = ["text", "thinking", "tool_use", "tool_use", "tool_result", "tool_result"]
    assert shape(path) == ("openai-messages", [["text"], asked])
    recording = read_recording(path)
    last = recording.messages[recording.requests[1].answer].message["content"]
    assert [block["type"] for block in last] == ["web_search_call", "text"]
    called = recording.context(recording.requests[1])[1]["content"]
    assert called[2]["input"] == {"arguments": "ls -l"}
    assert not recording.skipped


def test_a_thought_that_came_packed_weighs_what_was_packed(save: Save) -> None:
    items = [RESPONSES[0], {"type": "reasoning", "summary": [], "encrypted_content": "x" * 900}]
    recording = read_recording(save(items, "items.json"))
    thought = recording.messages[recording.requests[0].answer].message["content"][0]
    assert thought == {"type": "thinking", "thinking": "", "signature": "x" * 900}


def test_a_body_of_the_responses_api_is_read_with_its_output(save: Save) -> None:
    used = {"input_tokens": 900, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 512}}
    body = {
        "model": "gpt-5.4",
        "instructions": "Be brief.",
        "input": RESPONSES[:-2],
        "output": RESPONSES[-2:],
        "usage": used,
    }
    recording = read_recording(save(body, "body.json"))
    assert [request.usage for request in recording.requests] == [None, Usage(388, 7, 512)]
    assert recording.frames[recording.requests[1].frame].system[0]["text"] == "Be brief."
    assert {request.model for request in recording.requests} == {"gpt-5.4"}
    short = {"input": "Hi", "output": RESPONSES[-1:]}
    assert shape(save(short, "short.json"))[1] == [["text"]]


@pytest.mark.parametrize("messages", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("around", ["[\n%s\n]\n", '{"model": "m",\n"messages": [\n%s\n]}\n'])
def test_a_document_with_a_message_a_line_is_read_whole(
    save: Save, messages: list[Any], around: str
) -> None:
    """Its last message has no comma behind it and would be a line of JSONL by itself."""
    text = around % ",\n".join(map(json.dumps, messages))
    recording = read_recording(save(text, "log.json"))
    assert len(recording.requests) == 2
    assert not recording.skipped


def test_a_torn_first_line_leaves_a_file_of_lines(session: Any, save: Save) -> None:
    session.user("one")
    session.answer([{"type": "text", "text": "first"}])
    recording = read_recording(save('{"type":"user","uuid":"x","message":{"con\n' + session.text()))
    assert len(recording.requests) == 1
    assert [entry.where for entry in recording.skipped] == ["line 1"]


def test_lines_of_a_session_in_one_list_are_read_as_that_session(session: Any, save: Save) -> None:
    session.user("one")
    session.answer([{"type": "text", "text": "first"}])
    recording = read_recording(save(json.dumps(session.lines, indent=1), "session.json"))
    assert (recording.format, len(recording.requests)) == ("claude-code", 1)


def marked(message: Any) -> Any:
    """The message with a cache breakpoint on its last block."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    *others, last = blocks
    return {**message, "content": [*others, {**last, "cache_control": {"type": "ephemeral"}}]}


def test_a_log_of_growing_bodies_is_one_conversation_sent_once(save: Save) -> None:
    """Each body repeats all that went before it, with the breakpoint moved on."""
    talk = [marked(message) for message in ANTHROPIC]
    plain = [{**m, "content": [{**b} for b in m["content"]]} for m in talk]
    for message in plain:
        message["content"][-1].pop("cache_control")
    bodies = [
        {"messages": [*plain[:end], talk[end]], "system": "Be brief."} for end in range(0, 4, 2)
    ]
    again = {"messages": [*plain[:2], talk[2]], "system": "Be brief."}  # tried once more
    other = {"messages": [{"role": "user", "content": "Something else"}, *OPENAI[4:]]}
    whole = {"messages": plain, "system": "Be brief."}
    recording = read_recording(save(jsonl([*bodies, again, other, whole]), "bodies.jsonl"))
    assert [request.thread for request in recording.requests] == ["line 1", "line 4", "line 1"]
    main = [request for request in recording.requests if request.thread == "line 1"]
    assert [len(recording.context(request)) for request in main] == [1, 3]
    systems = [recording.frames[request.frame].system for request in main]
    assert all(system[0]["text"] == "Be brief." for system in systems)
    assert len(recording.messages) == 6


def test_a_growing_body_keeps_the_system_prompt_that_stands_in_its_messages(save: Save) -> None:
    bodies = [{"messages": OPENAI[:3]}, {"messages": OPENAI}]
    recording = read_recording(save(jsonl(bodies), "bodies.jsonl"))
    assert [recording.frames[request.frame].system for request in recording.requests] == [
        ({"type": "text", "text": "Be brief."},)
    ] * 2
    assert [request.thread for request in recording.requests] == ["line 1"] * 2


def test_usage_of_a_body_without_its_answer_is_given_to_no_other_answer(save: Save) -> None:
    used = {"prompt_tokens": 900, "completion_tokens": 7}
    recording = read_recording(save({"messages": [*OPENAI, OPENAI[1]], "usage": used}, "x.json"))
    assert [request.usage for request in recording.requests] == [None, None]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z"),
        ("2026-03-01T10:00:00", "2026-03-01T12:00:00+01:00"),
        (1_772_359_200, 1_772_362_800),
        (1_772_359_200_000, 1_772_362_800_000),
        (1_772_359_200.0, 1_772_362_800.0),
    ],
)
def test_times_of_messages_are_taken_in_every_usual_form(
    save: Save, first: Any, second: Any
) -> None:
    talk = [{**m, "timestamp": first if n < 2 else second} for n, m in enumerate(ANTHROPIC)]
    recording = read_recording(save(talk, "log.json"))
    assert [request.time for request in recording.requests] == [1_772_359_200, 1_772_362_800]
    assert recording.timed


@pytest.mark.parametrize("odd", ["soon", -5, 0, True, 1e30, 10**400, [], None, "9999-99-99"])
def test_a_time_that_is_none_is_as_if_it_were_not_there(save: Save, odd: Any) -> None:
    recording = read_recording(save([{**m, "timestamp": odd} for m in ANTHROPIC], "log.json"))
    assert [request.time for request in recording.requests] == [10.0, 20.0]
    assert not recording.timed


def test_a_request_was_sent_when_the_message_before_its_answer_came(save: Save) -> None:
    talk = [{**m, "created_at": 1_000_000 + 100 * n} for n, m in enumerate(ANTHROPIC)]
    recording = read_recording(save(talk, "log.json"))
    assert [request.time for request in recording.requests] == [1_000_000, 1_000_200]


def test_a_request_without_a_time_follows_the_last_answer_that_has_one(save: Save) -> None:
    talk = [
        {**ANTHROPIC[0], "timestamp": 1_000_000},
        {**ANTHROPIC[1], "timestamp": 1_000_060},
        *ANTHROPIC[2:],
    ]
    recording = read_recording(save(talk, "log.json"))
    assert [request.time for request in recording.requests] == [1_000_000, 1_000_070]


def test_what_a_router_says_was_written_to_the_cache_is_booked(save: Save) -> None:
    for details in (
        {"prompt_tokens_details": {"cached_tokens": 500, "cache_creation_tokens": 300}},
        {"prompt_tokens_details": {"cached_tokens": 500, "cache_write_tokens": 300}},
        {"prompt_tokens_details": {"cached_tokens": 500}, "cache_creation_input_tokens": 300},
    ):
        used = {"prompt_tokens": 1000, "completion_tokens": 7, **details}
        recording = read_recording(save({"messages": ANTHROPIC, "usage": used}, "x.json"))
        assert recording.requests[-1].usage == Usage(200, 7, 500, 300)


def test_swe_agent_trajectories_are_read(save: Save) -> None:
    history = [
        {"role": "system", "content": "You are a programmer", "message_type": "system_prompt"},
        {"role": "user", "content": "Fix it"},
        {"role": "assistant", "content": "Let me look", "tool_calls": OPENAI[2]["tool_calls"]},
        {"role": "tool", "content": "found", "tool_call_ids": ["c1"]},
        {"role": "assistant", "content": "done", "action": "submit"},
    ]
    config = {"agent": {"model": {"name": "gpt-4o"}}}
    value = {"history": history, "trajectory": [], "info": {}, "replay_config": config}
    path = save(value, "x.traj")
    assert shape(path) == ("swe-agent", [["text"], ["text", "text", "tool_use", "tool_result"]])
    recording = read_recording(path)
    assert {request.model for request in recording.requests} == {"gpt-4o"}
    assert recording.context(recording.requests[1])[2]["content"][0]["tool_use_id"] == "c1"


def test_mini_swe_agent_trajectories_carry_time_model_and_usage(save: Save) -> None:
    response = {"model": "gemini-3", "created": 1_763_510_516, "usage": {"prompt_tokens": 1662}}
    messages = [
        {"role": "system", "content": "shell"},
        {"role": "user", "content": "Fix it"},
        {"role": "assistant", "content": "ls", "extra": {"response": response}},
    ]
    value = {"messages": messages, "info": {}, "trajectory_format": "mini-swe-agent-1"}
    recording = read_recording(save(value, "x.traj.json"))
    assert (recording.format, recording.timed) == ("mini-swe-agent", True)
    request = recording.requests[0]
    assert (request.time, request.model) == (1_763_510_516, "gemini-3")
    assert request.usage == Usage(input=1662)


def test_tau_bench_runs_are_threads(save: Save) -> None:
    runs = [{"task_id": 4, "trial": 1, "traj": OPENAI}, {"task_id": 5, "traj": OPENAI}, {"x": 1}]
    recording = read_recording(save(runs, "runs.json"))
    assert recording.format == "tau-bench"
    assert {r.thread for r in recording.requests} == {"task 4 trial 1", "task 5 trial 0"}
    assert recording.skipped[0].where == "run 3"
    assert len(recording.frames) == 2  # no frame, and the one system prompt that both share


def test_tau_bench_displays_are_read_with_their_hidden_calls(save: Save) -> None:
    shown = "user: Hi\nthere\nassistant: None\ntool: {}\nassistant: Done.\nuser: Bye"
    path = save(jsonl([{"messages_display": shown}]), "few_shot.jsonl")
    assert shape(path) == ("tau-bench", [["text"], ["text", "tool_use", "tool_result"]])


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "is empty"),
        (b"\n\n \n", "is not a transcript"),
        (b"hello, this is prose", "is not a transcript"),
        (b"\x7fELF\x00\x01\x02" * 400, "binary data"),
        (b'{"a": 1}', "is not a transcript that Lamina knows"),
        (b"[1, 2, 3]", "is not a transcript that Lamina knows"),
        (b"42", "is not a transcript that Lamina knows"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b"[" * 100_000, "is not a transcript"),
        (b'[{"role": "user", "content": "hi"', "cut off"),
        (b'[{"role": "user", "content": "hi"}]', "holds no answer"),
        (b'{"type": "user", "uuid": "x"}\n', "holds no answer"),
        (b'{"history": []}', "holds no answer"),
        (b'{"messages": [null, 3, {"role": 7}]}', "holds no answer"),
    ],
)
def test_what_is_no_transcript_is_refused_in_one_sentence(
    save: Save, content: bytes, word: str
) -> None:
    path = save(content, "file.json")
    with pytest.raises(TranscriptError, match=word) as refused:
        read_recording(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.jsonl", tmp_path):
        with pytest.raises(TranscriptError, match="can't be read"):
            read_recording(path)


def test_bad_lines_among_good_ones_are_listed(session: Any, save: Save) -> None:
    session.user("one")
    session.answer([{"type": "text", "text": "first"}])
    deep = b'{"type":"user","message":' + b"[" * 100_000 + b"\n"
    rest = b'[1]\n"x"\n{"type":"user","uuid":"z","message":{"content":5}}\n\xff\xfe\n'
    recording = read_recording(save(session.text().encode() + deep + rest))
    assert len(recording.requests) == 1
    assert [entry.where for entry in recording.skipped] == [f"line {n}" for n in range(3, 8)]
    assert recording.skipped[0].reason == "nested too deeply"


@pytest.mark.parametrize(("levels", "taken"), [(100, True), (300, False), (980, False)])
def test_what_is_nested_deeper_than_anyone_writes_is_skipped(
    session: Any, save: Save, levels: int, taken: bool
) -> None:
    """The parser takes more than the code that takes it apart later."""
    session.user("one")
    session.answer([{"type": "text", "text": "first"}])
    session.user("@")
    session.answer([{"type": "text", "text": "second"}])
    deep = '[{"type":"text","text":"[[{{","x":' + "[" * levels + "]" * levels + "}]"
    recording = read_recording(save(session.text().replace('"@"', deep).encode()))
    reasons = [entry.reason for entry in recording.skipped]
    assert ("nested too deeply" in reasons) is not taken
    assert len(recording.requests) == 2


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (gzip.compress(b'{"type":"user"}'), "compressed with gzip: unpack it first"),
        (b"PK\x03\x04 and more", "a zip archive: unpack it first"),
        ('{"messages": []}'.encode("utf-16"), "UTF-16 text: write it as UTF-8"),
    ],
    ids=["gzip", "zip", "utf-16"],  # gzip notes the time, and every worker must see the same names
)
def test_a_file_in_another_form_is_told_which(save: Save, raw: bytes, reason: str) -> None:
    with pytest.raises(TranscriptError, match=re.escape(reason)):
        read_recording(save(raw))


def test_a_mark_at_the_beginning_of_the_file_is_passed_over(session: Any, save: Save) -> None:
    session.user("one")
    session.answer([{"type": "text", "text": "first"}])
    recording = read_recording(save(b"\xef\xbb\xbf" + session.text().encode()))
    assert not recording.skipped
    assert recording.messages[0].message["content"][0]["text"] == "one"


def test_a_line_of_200_mb_is_passed_over_in_little_memory(session: Any, save: Save) -> None:
    session.user("one")
    session.answer([{"type": "text", "text": "first"}])
    path = save(session)
    with path.open("ab") as file:
        file.write(b'{"type":"user","message":"')
        file.truncate(file.tell() + 200_000_000)  # a hole: costs no disk
        file.seek(0, os.SEEK_END)
        file.write(b'"}\n{"type":"mode"}\n')
    tracemalloc.start()
    recording = read_recording(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(recording.requests) == 1
    assert [(s.where, s.reason) for s in recording.skipped] == [
        ("line 3", "a line of 200 MB is too long to be read")
    ]
    assert peak < 3 * LINE_LIMIT


def test_complaints_are_counted_rather_than_listed_without_end(session: Any, save: Save) -> None:
    session.user("one")
    session.answer([{"type": "text", "text": "first"}])
    recording = read_recording(save(session.text() + "broken\n" * 5000))
    assert len(recording.skipped) == 201
    assert recording.skipped[-1].reason == "4800 more places not listed"


KINDS: dict[str, Any] = {
    "a.json": OPENAI,
    "b.jsonl": ANTHROPIC,
    "c.traj": {"history": OPENAI, "info": {"model_stats": {}}},
    "d.json": [{"traj": OPENAI}],
    "h.jsonl": [
        {"kind": "session", "uuid": "1", "ts": "2026-01-01T00:00:00Z"},
        {
            "kind": "frame",
            "uuid": "2",
            "ts": "x",
            "system": [{"type": "text"}],
            "tools": [{"a": 1}],
        },
        {"kind": "message", "uuid": "3", "ts": "x", **ANTHROPIC[0]},
        {"kind": "request", "uuid": "4", "ts": "2026-01-01T00:00:00Z", "purpose": "main"},
        {"kind": "message", "uuid": "5", "ts": "x", **ANTHROPIC[1], "usage": {"input": 9}},
        {"kind": "edit", "uuid": "6", "ts": "x"},
    ],
    "f.json": {"model": "m", "instructions": "x", "input": RESPONSES, "output": RESPONSES[-1:]},
    "g.jsonl": [{"messages": ANTHROPIC[:2]}, {"messages": ANTHROPIC, "usage": {"input_tokens": 1}}],
    "e.jsonl": [
        {"type": "user", "uuid": "1", "message": {"content": "x"}, "timestamp": "2026"},
        {"type": "assistant", "uuid": "2", "parentUuid": "1", "message": ANTHROPIC[1]},
    ],
}


def written(name: str, value: Any) -> str:
    return jsonl(value) if name.endswith(".jsonl") else json.dumps(value)


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with every key or number in it."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places_in(value[key])


@pytest.mark.parametrize("name", sorted(KINDS))
def test_no_value_of_another_kind_makes_a_reader_crash(tmp_path: Path, name: str) -> None:
    whole = copy.deepcopy(KINDS[name])
    path = tmp_path / name
    for container, key in list(places_in(whole)):
        kept = container[key]
        for odd in (None, 5, True, "odd", [], [[]], {}, {"x": [{}]}):
            container[key] = odd
            path.write_text(written(name, whole))
            with suppress(TranscriptError):
                recording = read_recording(path)
                for request in recording.requests:
                    recording.context(request)
        container[key] = kept


@examples(150, suppress=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_makes_a_reader_crash(tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(KINDS)))
    raw = bytearray(written(name, KINDS[name]).encode())
    for _ in range(data.draw(st.integers(0, 4))):
        start = data.draw(st.integers(0, len(raw)))
        end = data.draw(st.integers(start, min(len(raw), start + 40)))
        pieces = st.sampled_from(
            [b"null", b"[]", b"{}", b"-1", b'"', b"1e999", b"\xff", b"\n", b"["]
        )
        raw[start:end] = data.draw(pieces)
    path = tmp_path / name
    path.write_bytes(bytes(raw))
    try:
        recording = read_recording(path)
    except TranscriptError:
        return
    for request in recording.requests:
        recording.context(request)


def test_every_real_recording_of_other_tools_is_read(real_data: Path) -> None:
    for folder, kind, count in (
        ("swe-agent", "swe-agent", 22),
        ("mini-swe-agent", "mini-swe-agent", 21),
        ("tau-bench", "tau-bench", 2),
    ):
        files = sorted(path for path in (real_data / folder).iterdir() if path.is_file())
        recordings = [read_recording(path) for path in files]
        assert [recording.format for recording in recordings] == [kind] * count
        assert not any(recording.skipped for recording in recordings)


@pytest.mark.spec("I4")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    with pytest.raises(TranscriptError, match="not a plain file"):
        read_recording(pipe)
