"""The fork as a provider receives it: equal tools, system and blocks, through the real package."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.layers.talks import NO_NOTES, filler, summary
from tests.sessions import Place, run
from tests.wire.server import Answer, Received, WireServer, fails, says

from lamina import tool
from lamina.messages import tool_use
from lamina.models.anthropic import AnthropicModel


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def model_at(wire: WireServer) -> AnthropicModel:
    return AnthropicModel(
        "claude-sonnet-4-5", api_key="test-key", base_url=wire.anthropic_url, retries=0
    )


def without_breakpoints(value: Any) -> Any:
    """The same without `cache_control`, which says where a cache is written, not what is sent."""
    if isinstance(value, list):
        return [without_breakpoints(item) for item in value]
    if isinstance(value, dict):
        return {k: without_breakpoints(v) for k, v in value.items() if k != "cache_control"}
    return value


def blocks(body: Any) -> list[Any]:
    """(role, block) one by one: how they are grouped into messages does not matter to a cache."""
    return [
        (message["role"], without_breakpoints(block))
        for message in body["messages"]
        for block in (
            message["content"]
            if isinstance(message["content"], list)
            else [{"type": "text", "text": message["content"]}]
        )
    ]


@pytest.mark.spec("L7.1", "L4.1")
def test_a_summary_fork_is_received_as_its_parent_s_request_and_one_message_more(
    place: Place, wire: WireServer
) -> None:
    (place.project / "a.txt").write_text("forty-two")
    thinking = {"type": "thinking", "thinking": "I should read it.", "signature": "s1"}
    wire.will(
        Answer([thinking, tool_use("t1", "Read", {"file_path": "a.txt"})], stop_reason="tool_use"),
        says("It holds forty-two. " + filler(1, 8_000)),
        says("Table, port and parser. " + filler(2, 8_000)),
        says(summary(), usage={"input_tokens": 10, "output_tokens": 90}),
    )

    async def story() -> None:
        async with place.open(model_at(wire), config=NO_NOTES) as session:
            await session.ask("what is in a.txt? Use the parser, the table and every port.")
            await session.ask("and the last question: go on, measure the next port")
            done = await session.compact()
            assert done.source == "model"

    run(story)
    *_, parent, fork = [received.body for received in wire.received]
    assert without_breakpoints(fork["tools"]) == without_breakpoints(parent["tools"])
    assert without_breakpoints(fork["system"]) == without_breakpoints(parent["system"])
    assert fork["model"] == parent["model"]
    sent = blocks(parent)
    assert blocks(fork)[: len(sent)] == sent
    answered, directive = blocks(fork)[len(sent) :]
    assert answered[0] == "assistant"
    assert directive[0] == "user"
    assert "<fork-directive>" in directive[1]["text"]
    # Where the parent's cache ends, the fork reads it.
    marked = [b for m in fork["messages"] for b in m["content"] if "cache_control" in b]
    assert any(without_breakpoints(b) == sent[-1][1] for b in marked)


@pytest.mark.spec("L7.1", "L3.3")
def test_a_notes_fork_in_the_middle_of_calls_carries_the_open_answer_whole(
    place: Place, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = [
        {"type": "thinking", "thinking": "Two files.", "signature": "s2"},
        {"type": "text", "text": "Both at once. " + filler(3, 11_000)},
        tool_use("t1", "look", {"pattern": "*.py"}),
        tool_use("t2", "look", {"pattern": "*.md"}),
    ]
    forked, answer_to = threading.Event(), wire.answer_to

    def seen(received: Received) -> Answer:
        if b"<fork-directive>" in received.raw:
            forked.set()
        return answer_to(received)

    @tool(read_only=True)
    def look(pattern: str) -> str:
        """Look for files; still at it when the fork is sent."""
        assert forked.wait(30)
        return f"no {pattern}"

    monkeypatch.setattr(wire, "answer_to", seen)

    async def story() -> None:
        config = {"background.profile": "every-turn"}
        async with place.open(model_at(wire), tools=[look], config=config) as session:
            await session.ask("look at both")

    usage = {"input_tokens": 100, "output_tokens": 11_000}
    wire.will(Answer(opened, stop_reason="tool_use", usage=usage))
    run(story)
    bodies = [received.body for received in wire.received]
    forks = [b for b in bodies if "<fork-directive>" in str(b["messages"])]
    parent = bodies[0]
    fork = next(b for b in forks if "Bring the notes" in str(b["messages"]))
    sent = blocks(parent)
    received = blocks(fork)
    assert received[: len(sent)] == sent
    assert [b for _, b in received[len(sent) : len(sent) + 4]] == opened
    tail = received[len(sent) + 4 :]
    assert [role for role, _ in tail] == ["user"] * len(tail)
    first, second, words = (b for _, b in tail)
    assert (first["tool_use_id"], second["tool_use_id"]) == ("t1", "t2")
    assert first["content"] == second["content"]
    assert words["type"] == "text"
    assert without_breakpoints(fork["tools"]) == without_breakpoints(parent["tools"])
    assert without_breakpoints(fork["system"]) == without_breakpoints(parent["system"])


@pytest.mark.spec("L4.6")
def test_the_gap_that_the_provider_names_is_covered_by_leaving_out_the_oldest_rounds(
    place: Place, wire: WireServer
) -> None:
    too_long = fails(
        400, "invalid_request_error", "prompt is too long: 205000 tokens > 200000 maximum"
    )
    wire.will(
        *(says(f"Parser, port, table {n}. " + filler(n, 4_000)) for n in range(5)),
        too_long,
        says(summary()),
    )

    async def story() -> None:
        async with place.open(model_at(wire), config=NO_NOTES) as session:
            for n in range(5):
                await session.ask(f"question {n}: measure the last port")
            assert (await session.compact()).source == "model"

    run(story)
    first, second = [r.body for r in wire.received][-2:]
    assert "w0q5 " in str(first["messages"])
    assert "w0q5 " not in str(second["messages"])
    assert "w1q5 " not in str(second["messages"])  # one round is not enough for 5,000 tokens
    assert "w2q5 " in str(second["messages"])
