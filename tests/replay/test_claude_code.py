"""Claude Code sessions are rebuilt as they were sent, whatever shape the file is in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lamina.messages import Message, Usage
from lamina.replay.readers import read_recording
from lamina.replay.recording import Recording

pytestmark = pytest.mark.spec("I4")

Save = Callable[..., Path]


def merged(messages: Sequence[Message]) -> list[Message]:
    """Messages with neighbours of one role joined, as providers demand that roles alternate."""
    joined: list[Message] = []
    for message in messages:
        if joined and joined[-1]["role"] == message["role"]:
            joined[-1] = {**joined[-1], "content": [*joined[-1]["content"], *message["content"]]}
        else:
            joined.append(message)
    return joined


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(name: str, tool: str = "Read", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": given}


def result(name: str, words: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": words}


def sent(recording: Recording, number: int) -> list[str]:
    """The blocks of one request, each by its type and what names it."""
    names: list[str] = []
    for message in recording.context(recording.requests[number]):
        for block in message["content"]:
            value = block.get("text") or block.get("id") or block.get("tool_use_id")
            names.append(f"{message['role'][0]}:{value or block['type']}")
    return names


def test_lines_of_one_answer_are_one_request(session: Any, save: Save) -> None:
    session.user("hello")
    session.answer([{"type": "thinking", "thinking": "hm"}, text("hi"), call("t1")], (3, 70, 20))
    recording = read_recording(save(session))
    assert recording.format == "claude-code"
    assert len(recording.requests) == 1
    request = recording.requests[0]
    # Later lines repeat the usage with the output that had come by then.
    assert request.usage == Usage(3, 3, 20, 70, 70)
    assert request.ttl == 3600
    assert len(recording.messages[request.answer].message["content"]) == 3
    assert sent(recording, 0) == ["u:hello"]


def test_parallel_results_are_all_sent_though_each_names_its_own_line(
    session: Any, save: Save
) -> None:
    session.user("look")
    lines = session.answer([call("a"), call("b"), call("c")])
    session.user([result("b", "B")], parent=lines[1])
    session.user([result("a", "A")], parent=lines[0])
    last = session.user([result("c", "C")], parent=lines[2])
    session.answer([text("done")], parent=last)
    recording = read_recording(save(session))
    assert sent(recording, 1) == ["u:look", "a:a", "a:b", "a:c", "u:b", "u:a", "u:c"]
    assert [m["role"] for m in merged(recording.context(recording.requests[1]))] == [
        "user",
        "assistant",
        "user",
    ]


def test_an_answer_that_runs_tools_while_it_streams_stays_one(session: Any, save: Save) -> None:
    session.user("look")
    first = session.answer([call("a")], name="m1")
    session.user([result("a", "A")], parent=first[0])
    second = session.answer([call("b")], parent=first[0], name="m1")
    session.user([result("b", "B")], parent=second[0])
    session.answer([text("done")])
    recording = read_recording(save(session))
    assert len(recording.requests) == 2
    assert sent(recording, 1) == ["u:look", "a:a", "a:b", "u:a", "u:b"]


def test_going_back_takes_another_branch_and_leaves_the_first(session: Any, save: Save) -> None:
    session.user("one")
    fork = session.answer([text("first")])[0]
    session.user("left")
    session.answer([text("L")])
    session.user("right", parent=fork)
    session.answer([text("R")])
    recording = read_recording(save(session))
    assert sent(recording, 1) == ["u:one", "a:first", "u:left"]
    assert sent(recording, 2) == ["u:one", "a:first", "u:right"]
    steps = list(recording.steps())
    assert [step.keep for step in steps] == [0, 1, 2]
    assert [len(step.new) for step in steps] == [1, 2, 1]


def test_a_compaction_starts_again_from_its_summary(session: Any, save: Save) -> None:
    session.user("long ago")
    session.answer([text("yes")])
    session.line("system", parent=None, subtype="compact_boundary", logicalParentUuid="u1")
    session.user("This is a summary", isCompactSummary=True)
    session.user("go on")
    session.answer([text("sure")])
    recording = read_recording(save(session))
    assert sent(recording, 1) == ["u:This is a summary", "u:go on"]
    assert [step.compacted for step in recording.steps()] == [False, True]

    whole = recording.without_compactions()
    assert sent(whole, 1) == ["u:long ago", "a:yes", "u:go on"]
    # What the provider reported since tells of a shorter prompt.
    assert recording.requests[1].usage is not None
    assert whole.requests[0].usage == recording.requests[0].usage
    assert whole.requests[1].usage is None
    assert not any(step.compacted for step in whole.steps())
    assert not any(request.compact for request in whole.requests)


def test_a_summary_begins_anew_though_the_boundary_before_it_was_torn(
    session: Any, save: Save
) -> None:
    session.user("a long story")
    session.answer([{"type": "text", "text": "told"}])
    session.line("system", parent=None, subtype="compact_boundary")
    session.user("In short: a story.", isCompactSummary=True)
    session.answer([{"type": "text", "text": "more"}])
    lines = session.text().splitlines()
    lines[2] = lines[2][:30]
    recording = read_recording(save("\n".join(lines)))
    assert [step.compacted for step in recording.steps()] == [False, True]
    assert recording.messages[2].after == 1
    assert [entry.where for entry in recording.skipped] == ["line 3", "line 4"]


def test_usage_that_only_a_later_line_of_the_answer_carries_is_taken(
    session: Any, save: Save
) -> None:
    session.user("go")
    session.answer([text("yes"), text("and")], usage=(10, 200, 30))
    del session.lines[1]["message"]["usage"]
    request = read_recording(save(session)).requests[0]
    assert request.usage == Usage(10, 2, 30, 200, 200)
    assert request.ttl == 3600


def test_empty_lines_that_a_model_began_with_were_not_sent_back(session: Any, save: Save) -> None:
    session.user("go")
    session.answer([{"type": "text", "text": "\n\n"}, text("yes")])
    session.user("on")
    session.answer([text("yes")])
    recording = read_recording(save(session))
    assert len(recording.requests) == 2
    assert recording.context(recording.requests[1])[1]["content"] == [text("yes")]


def test_a_session_without_times_has_its_requests_apart_and_says_so(
    session: Any, save: Save
) -> None:
    for word in ("one", "two"):
        session.user(word)
        session.answer([text("yes")])
    for line in session.lines:
        del line["timestamp"]
    recording = read_recording(save(session))
    assert not recording.timed
    assert [request.time for request in recording.requests] == [10.0, 20.0]


def test_links_and_meta_lines_keep_the_chain(session: Any, save: Save) -> None:
    session.line("progress", parent=None, data={"type": "hook_progress"})
    session.user("hello")
    session.line("system", subtype="turn_duration")
    session.line("some-new-kind")
    session.user("injected", isMeta=True)
    session.answer([text("hi")])
    recording = read_recording(save(session))
    assert sent(recording, 0) == ["u:hello", "u:injected"]
    assert [(entry.where, entry.reason) for entry in recording.skipped] == [
        ("line 4", "unknown kind 'some-new-kind'")
    ]


def test_side_chains_and_agent_files_are_threads_of_their_own(session: Any, save: Save) -> None:
    session.user("main")
    session.answer([text("ok")])
    session.user("do it", parent=None, isSidechain=True, agentId="a7")
    session.answer([text("doing")], isSidechain=True, agentId="a7")
    session.user("old style", parent=None, isSidechain=True)
    session.answer([text("old")], isSidechain=True)
    path = save(session)
    agent = type(session)()
    agent.user("beside", parent=None, isSidechain=True, agentId="b8")
    agent.answer([text("there")], isSidechain=True, agentId="b8")
    for number, line in enumerate(agent.lines):
        line["uuid"] = f"agent{number}"
        line["parentUuid"] = None if number == 0 else f"agent{number - 1}"
        line.get("message", {})["id"] = f"agent{number}"
    save(agent, "session/subagents/agent-b8.jsonl")
    recording = read_recording(path)
    threads = {request.thread: number for number, request in enumerate(recording.requests)}
    assert set(threads) == {"", "agent a7", "side chain u4", "agent b8"}
    assert sent(recording, threads["agent a7"]) == ["u:do it"]
    assert sent(recording, threads["agent b8"]) == ["u:beside"]
    # The agent's file was read last, but its request went out with the first.
    times = [request.time for request in recording.requests]
    assert times == sorted(times)
    assert threads["agent b8"] <= 1


def test_notices_of_the_program_are_no_requests(session: Any, save: Save) -> None:
    session.user("hello")
    session.model = "<synthetic>"
    session.answer([text("API Error")])
    session.model = "claude-opus-4-6"
    session.user("again")
    session.answer([text("hi")])
    recording = read_recording(save(session))
    assert len(recording.requests) == 1
    assert sent(recording, 0) == ["u:hello", "u:again"]


def test_a_torn_line_costs_only_itself(session: Any, save: Save) -> None:
    session.user("one")
    session.answer([text("first")])
    session.user("two")
    session.answer([text("second")])
    lines = session.text().splitlines()
    lines[2] = lines[2][: len(lines[2]) // 2]
    recording = read_recording(save("\n".join(lines) + "\n" + lines[3][:30]))
    assert len(recording.requests) == 2
    assert sent(recording, 1) == ["u:one", "a:first"]
    reasons = [(entry.where, entry.reason) for entry in recording.skipped]
    assert reasons[0] == ("line 3", "cut off: the JSON has no end")
    assert reasons[1][1].startswith("the line that it follows is not in the file")
    assert reasons[2] == ("line 5", "cut off: the JSON has no end")


def test_a_clock_that_goes_back_is_reported_and_held(session: Any, save: Save) -> None:
    session.user("one")
    session.answer([text("first")])
    session.clock -= 7200
    session.user("two")
    session.answer([text("second")])
    recording = read_recording(save(session))
    first, second = recording.requests
    assert second.time == first.time
    assert "the clock goes back 7190 s" in recording.skipped[0].reason


@pytest.mark.parametrize(("back", "told"), [(50, False), (75, True)])
def test_parallel_lines_that_are_a_moment_out_of_order_are_no_news(
    session: Any, save: Save, back: float, told: bool
) -> None:
    session.user("one")
    session.answer([text("first")])
    session.clock -= back
    session.user("two")
    session.answer([text("second")])
    recording = read_recording(save(session))
    assert bool(recording.skipped) == told
    assert recording.requests[0].time == recording.requests[1].time


def test_a_resumed_file_whose_beginning_is_elsewhere_is_read(session: Any, save: Save) -> None:
    session.user("go on", parent="not-in-this-file")
    session.answer([text("ok")])
    recording = read_recording(save(session))
    assert sent(recording, 0) == ["u:go on"]
    assert "taken as the first" in recording.skipped[0].reason


def test_repeated_lines_are_read_once(session: Any, save: Save) -> None:
    session.user("one")
    session.answer([text("first")])
    recording = read_recording(save(session.text() + session.text()))
    assert len(recording.requests) == 1
    assert len(recording.skipped) == 2


def test_every_real_session_is_read_whole(real_data: Path) -> None:
    import json

    for path in sorted((real_data / "claude-code-sessions").glob("*.jsonl")):
        told: dict[str, dict[str, Any]] = {}
        for line in path.read_text("utf-8").splitlines():
            value = json.loads(line)
            if value.get("type") == "assistant" and value["message"]["model"] != "<synthetic>":
                told[value["message"]["id"]] = value["message"]["usage"]
        recording = read_recording(path)
        usage = recording.usage()
        assert len(recording.requests) == len(told), path.name
        assert usage.input == sum(u["input_tokens"] for u in told.values())
        assert usage.cache_read == sum(u["cache_read_input_tokens"] for u in told.values())
        assert usage.cache_write == sum(u["cache_creation_input_tokens"] for u in told.values())
        for number, request in enumerate(recording.requests):
            if number % 25 == 0:
                blocks = [b for m in recording.context(request) for b in m["content"]]
                calls = {b["id"] for b in blocks if b["type"] == "tool_use"}
                results = {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"}
                assert calls == results, (path.name, number)
