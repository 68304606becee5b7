"""The edges of a provider's wire: lines that are used again, answers that break off, pause, or begin
again, and limits that a provider names; whole sessions through the official packages.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.sessions import StillClock, run
from tests.wire.server import Answer, WireServer, fails, says

from lamina.events import AttemptBroke, Event, StreamRestarted, TextDelta
from lamina.session import Opening, Session

NAMED = {"model": "claude-opus-4-5"}
OPUS = "anthropic:claude-opus-4-5"
BARE = {"memory.enabled": False, "notes.enabled": False}
USAGE = {
    "input_tokens": 20,
    "output_tokens": 5,
    "cache_creation_input_tokens": 12_000,
    "cache_read_input_tokens": 7,
}
Open = Callable[..., Opening]


@pytest.fixture
def open_at(wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens sessions of one project whose models are behind the wire server."""
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.anthropic_url)
    monkeypatch.setenv("OPENAI_BASE_URL", wire.openai_url)

    def open_(model: str = OPUS, config: dict[str, Any] | None = None, **wishes: Any) -> Opening:
        wishes.setdefault("clock", StillClock())
        settings = {**BARE, **(config or {})}
        return Session.open(
            tmp_path / "project", model, home=tmp_path / "home", config=settings, **wishes
        )

    return open_


def booked(home: Path) -> list[dict[str, Any]]:
    lines = [file.read_text().splitlines() for file in sorted((home / "spend").glob("*.jsonl"))]
    return [json.loads(line) for some in lines for line in some]


@pytest.mark.spec("F6")
@pytest.mark.parametrize("model", [OPUS, "openai:gpt-5.4-mini"])
def test_all_calls_of_a_session_go_over_one_connection(
    wire: WireServer, open_at: Open, model: str
) -> None:
    async def story() -> None:
        async with open_at(model) as session:
            for number in range(5):
                assert (await session.ask(f"question {number}")).text == "ok"

    run(story)
    assert len(wire.received) == 5
    assert wire.connections == 1


@pytest.mark.spec("F10")
def test_an_attempt_that_broke_off_is_booked_with_what_its_beginning_counted(
    wire: WireServer, open_at: Open, tmp_path: Path
) -> None:
    wire.will(
        says("one two three", fault="drop", after=5, usage=USAGE, message=NAMED),
        says("one two three", fault="error_event", after=4, usage=USAGE, message=NAMED),
        says("one two three", usage=USAGE, message=NAMED),
    )
    heard: list[Event] = []

    async def story() -> None:
        async with open_at(on_event=heard.append) as session:
            reply = await session.ask("count")
            assert reply.text == "one two three"
            assert reply.usage.cache_write == 36_000
            assert reply.usage.input == 60

    run(story)
    rows = booked(tmp_path / "home")
    assert [row["cache_write"] for row in rows] == [12_000] * 3
    assert all(row["cost"] > 0.07 for row in rows)
    assert {row["model"] for row in rows[:2]} == {"claude-opus-4-5"}
    broken = [event for event in heard if isinstance(event, AttemptBroke)]
    assert [event.cost > 0.07 for event in broken] == [True, True]


@pytest.mark.spec("F10")
def test_an_answer_that_the_user_stopped_is_booked(
    wire: WireServer, open_at: Open, tmp_path: Path
) -> None:
    answer = says("one two three", fault="half_open", after=5, usage=USAGE)
    wire.will(answer)

    async def story() -> None:
        async with open_at() as session, anyio.create_task_group() as group:
            session.subscribe(lambda e: session.cancel() if isinstance(e, TextDelta) else None)
            group.start_soon(session.ask, "count")

    run(story)
    assert [row["cache_write"] for row in booked(tmp_path / "home")] == [12_000]


@pytest.mark.spec("F6")
def test_a_line_that_stays_open_after_the_last_word_keeps_no_answer_back(
    wire: WireServer, open_at: Open, tmp_path: Path
) -> None:
    whole = 9  # events of this answer, message_stop among them
    wire.will(says("hello", fault="half_open", after=whole), says("again", fault="drop", after=99))

    async def story() -> None:
        async with open_at() as session:
            assert (await session.ask("say it")).text == "hello"
            assert (await session.ask("and again")).text == "again"

    run(story)
    assert len(wire.received) == len(booked(tmp_path / "home")) == 2


@pytest.mark.spec("F11")
def test_after_a_pause_the_turn_goes_on_from_the_models_own_words(
    wire: WireServer, open_at: Open
) -> None:
    searching = {
        "type": "server_tool_use",
        "id": "srv_1",
        "name": "web_search",
        "input": {"query": "tea"},
    }
    wire.will(
        Answer([{"type": "text", "text": "I look."}, searching], stop_reason="pause_turn"),
        says("Tea is twelve."),
        says("Still twelve."),
    )

    async def story() -> None:
        async with open_at() as session:
            reply = await session.ask("what is tea?")
            assert (reply.text, reply.stop) == ("Tea is twelve.", "end_turn")
            assert (await session.ask("sure?")).text == "Still twelve."

    run(story)
    _, after, later = [received.body["messages"] for received in wire.received]
    assert after[-1]["role"] == "assistant"
    assert [block["type"] for block in after[-1]["content"]] == ["text", "server_tool_use"]
    assert [message["role"] for message in later[-3:]] == ["user", "assistant", "user"]


@pytest.mark.spec("F11")
def test_an_answer_that_begins_again_with_more_room_voids_what_was_streamed(
    wire: WireServer, open_at: Open
) -> None:
    wire.will(says("AAA", stop_reason="max_tokens"), says("BBB"))
    shown: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, StreamRestarted):
            shown.clear()
        elif isinstance(event, TextDelta):
            shown.append(event.text)

    async def story() -> None:
        async with open_at(on_event=hear) as session:
            assert (await session.ask("write")).text == "BBB"

    run(story)
    assert "".join(shown) == "BBB"
    first, second = [received.body["max_tokens"] for received in wire.received]
    assert (first, second) == (32_000, 64_000)


@pytest.mark.spec("F11")
def test_where_no_more_room_is_to_be_had_the_short_answer_is_shown_again(
    wire: WireServer, open_at: Open
) -> None:
    long = "input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000"
    wire.will(
        says("AAA", stop_reason="max_tokens"), fails(400, "invalid_request_error", long), says("B")
    )
    shown: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, StreamRestarted):
            shown.clear()
        elif isinstance(event, TextDelta):
            shown.append(event.text)

    async def story() -> None:
        async with open_at(on_event=hear) as session:
            assert (await session.ask("write")).text == "AAAB"

    run(story)
    assert "".join(shown) == "AAAB"


@pytest.mark.spec("F6")
def test_a_retry_waits_by_the_sessions_own_clock(wire: WireServer, open_at: Open) -> None:
    wire.will(fails(529, "overloaded_error", headers={"retry-after": "250"}), says("at last"))
    clock = StillClock()
    before = clock.now()

    async def story() -> None:
        async with open_at(clock=clock) as session:
            assert (await session.ask("hello?")).text == "at last"

    run(story)
    assert clock.now() - before >= 250
