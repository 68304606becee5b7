"""The cache guard: where a prompt parts from the last one, and what a lost cache is called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledger.invariants import prefix_length

from lamina.cache.guard import Guard, part
from lamina.ledger import edits
from lamina.ledger.record import Ledger
from lamina.messages import Request, Response, Usage, text
from lamina.ports import Capabilities

CAN = Capabilities(cache="anthropic", min_cacheable=1_024, cache_ttl=300)


def request(*said: str, tools: Any = (), system: str = "s", model: str = "m") -> Request:
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": [text(words)]} for n, words in enumerate(said)]
    return Request([text(system)], list(tools), messages, model)


def answer(read: int, write: int = 0, **extra: Any) -> Response:
    return Response([], "end_turn", Usage(input=1, cache_read=read, cache_write=write), extra=extra)


def grep(words: str) -> dict[str, Any]:
    return {"name": "Grep", "description": words, "input_schema": {}}


@pytest.mark.spec("F12")
@pytest.mark.parametrize(
    ("old", "new", "where", "cause"),
    [
        (request("a"), request("a", "b", "c"), None, ""),
        (
            request("a", tools=[grep("x")]),
            request("a", tools=[grep("y")]),
            ("tools", 0, 0),
            "tool list changed: Grep description",
        ),
        (
            request("a", tools=[grep("x")]),
            request("a"),
            ("tools", 0, 0),
            "tool list changed: Grep removed",
        ),
        (
            request("a"),
            request("a", tools=[grep("x")]),
            ("tools", 0, 0),
            "tool list changed: Grep added",
        ),
        (
            request("a"),
            request("a", system="So it is. Today is Monday."),
            ("system", 0, 0),
            'system prompt changed: block 0, at "So it is. Today is Monday."',
        ),
        (
            request("a", system="Be brief. Be kind."),
            request("a", system="Be brief."),
            ("system", 0, 0),
            "system prompt changed: block 0, cut after 9 characters",
        ),
        (
            request("a", tools=[grep("x"), {**grep("x"), "name": "Read"}]),
            request("a", tools=[{**grep("x"), "name": "Read"}, grep("x")]),
            ("tools", 0, 0),
            "tool list changed: other order",
        ),
        (request("a"), request("a", model="n"), ("model", 0, 0), "model changed: m to n"),
        (
            request("a", tools=[grep("x")]),
            request("a", tools=[{**grep("x"), "cache_control": {"type": "ephemeral"}}]),
            None,
            "",
        ),
        (
            request("a"),
            replace(request("a"), system=[text("s"), text("more")]),
            ("system", 0, 1),
            "system prompt changed: 2 blocks now",
        ),
        (
            replace(request("a"), system=[text("s"), text("more")]),
            request("a"),
            ("system", 0, 1),
            "system prompt changed: 1 block now",
        ),
        (
            request("a", "b", "c"),
            request("a", "x", "c"),
            ("message", 1, 0),
            "message 1, block 0 changed: text",
        ),
        (request("a", "b", "c"), request("a"), ("message", 1, 0), "messages 1 to 2 were removed"),
        (request("a", "b"), request("a"), ("message", 1, 0), "message 1 was removed"),
        (
            request("a", "b", "c", "d", "e"),
            request("c", "d", "e"),
            ("message", 0, 0),
            "messages 0 to 1 were removed",
        ),
        (
            request("a", "b", "c"),
            request("a", "b", "x", "y", "c"),
            ("message", 2, 0),
            "2 messages inserted before message 2",
        ),
    ],
)
def test_it_knows_where_and_why_two_requests_part(
    old: Request, new: Request, where: Any, cause: str
) -> None:
    found = part(old, new)
    if where is None:
        assert found is None
    else:
        assert found
        assert (found.where, found.message, found.block) == where
        assert found.cause == cause


@pytest.mark.spec("F12")
def test_a_memory_put_before_an_earlier_message_is_called_that() -> None:
    old = request("a", "b", "c")
    new = request("a", "b", "c")
    memory = text("<system-reminder>Memory (saved 3 days ago): x.md</system-reminder>")
    new.messages[2]["content"].insert(0, memory)
    found = part(old, new)
    assert found
    assert found.cause == "memory attachment inserted before message 2"


contents = st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), max_size=8)


@pytest.mark.spec("F12")
@given(contents, contents, st.integers(0, 8))
def test_it_parts_exactly_where_the_old_blocks_are_no_prefix_any_more(
    first: list[list[str]], second: list[list[str]], shared: int
) -> None:
    old, new = (
        Request(
            [],
            [],
            [
                {"role": ("user", "assistant")[n % 2], "content": [text(word) for word in words]}
                for n, words in enumerate(said)
            ],
        )
        for said in (first, [*first[:shared], *second])
    )
    blocks = sum(map(len, first))
    same = prefix_length(old.messages, new.messages)
    found = part(old, new)
    assert (found is None) == (same == blocks)
    if found is not None:
        assert sum(map(len, first[: found.message])) + found.block == same
        assert found.cause


@pytest.mark.spec("F12")
def test_blocks_put_into_an_earlier_message_or_taken_out_of_it_are_told() -> None:
    plain, fuller = request("a", "b", "c", "d", "e"), request("a", "b", "c", "d", "e")
    memory = text("<system-reminder>Memory (saved 3 days ago): x.md</system-reminder>")
    fuller.messages[2]["content"].append(memory)
    came, went = part(plain, fuller), part(fuller, plain)
    assert came
    assert went
    assert (came.block, came.cause) == (1, "memory attachment inserted before message 3")
    assert (went.block, went.cause) == (1, "memory attachment removed from message 2")
    moved = request("a", "b", "c", "d", "e")
    moved.messages[2]["content"].insert(0, memory)
    found = part(moved, plain)
    assert found
    assert (found.block, found.cause) == (0, "memory attachment removed from message 2")
    # At the end of the prompt it breaks nothing.
    grown = request("a", "b", "c", "d", "e")
    grown.messages[4]["content"].append(memory)
    assert part(plain, grown) is None


@pytest.mark.spec("F12")
@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"tools": [grep("x")]}, "tool list changed: Grep added"),
        ({}, "the provider lost its cache: the prompt only grew"),
        ({"wait": 301}, "TTL of 5 min passed (5 min)"),
        (
            {"wait": 900, "tools": [grep("x")]},
            "tool list changed: Grep added; TTL of 5 min passed (15 min)",
        ),
        ({"said": "too busy"}, "the provider says: too busy"),
    ],
)
def test_an_unexpected_miss_is_named_with_its_cause(change: dict[str, Any], cause: str) -> None:
    guard = Guard()
    first = request("a")
    guard.before(first, 0.0, CAN)
    assert guard.after(first, answer(0, 50_000), 0.0, CAN) is None
    second = request("a", "b", "c", tools=change.get("tools", ()))
    now = 1.0 + change.get("wait", 0)
    guard.before(second, now, CAN)
    extra = {"cache_miss_reason": change["said"]} if "said" in change else {}
    broke = guard.after(second, answer(0, 60_000, **extra), now, CAN)
    assert broke
    assert broke.cause == cause
    assert (broke.expected, broke.read, broke.registered) == (50_000, 0, False)


@pytest.mark.spec("F12")
@pytest.mark.parametrize("read", [50_000, 48_100, 47_600])
def test_small_drops_are_no_news(read: int) -> None:
    guard = Guard()
    guard.after(request("a"), answer(0, 50_000), 0.0, CAN)
    guard.before(request("a", "b", "c"), 1.0, CAN)
    broke = guard.after(request("a", "b", "c"), answer(read), 1.0, CAN)
    assert (broke is None) == (50_000 - read <= 2_500)


@pytest.mark.spec("F12")
def test_a_registered_break_is_reported_as_such_once_and_resets_the_baseline() -> None:
    guard = Guard()
    guard.after(request("a"), answer(0, 50_000), 0.0, CAN)
    guard.register("compaction")
    guard.before(request("z"), 1.0, CAN)
    broke = guard.after(request("z"), answer(0, 9_000), 1.0, CAN)
    assert broke
    assert broke.registered
    guard.before(request("z", "y", "x"), 2.0, CAN)
    assert guard.after(request("z", "y", "x"), answer(9_000, 500), 2.0, CAN) is None


@pytest.mark.spec("F12")
@pytest.mark.parametrize(("lost", "told"), [(2_000, False), (2_001, True)])
def test_a_drop_of_more_than_two_thousand_tokens_is_news(lost: int, told: bool) -> None:
    guard = Guard()
    guard.after(request("a"), answer(0, 10_000), 0.0, CAN)
    guard.before(request("a", "b", "c"), 1.0, CAN)
    broke = guard.after(request("a", "b", "c"), answer(10_000 - lost), 1.0, CAN)
    assert (broke is not None) == told


@pytest.mark.spec("F12")
def test_what_is_too_short_to_be_cached_is_not_missed() -> None:
    can = Capabilities(cache="anthropic", min_cacheable=4_096)
    guard = Guard()
    guard.after(request("a"), answer(0, 4_000), 0.0, can)
    guard.before(request("a", "b", "c"), 1.0, can)
    assert guard.after(request("a", "b", "c"), answer(0), 1.0, can) is None


@pytest.mark.spec("F12")
@pytest.mark.parametrize(
    ("wait", "cause"),
    [
        (300.0, "the provider lost its cache: the prompt only grew"),
        (300.5, "TTL of 5 min passed (5 min)"),
    ],
)
def test_the_life_of_the_cache_has_passed_when_it_is_exceeded(wait: float, cause: str) -> None:
    guard = Guard()
    guard.after(request("a"), answer(0, 10_000), 0.0, CAN)
    guard.before(request("a", "b", "c"), wait, CAN)
    broke = guard.after(request("a", "b", "c"), answer(0), wait, CAN)
    assert broke is not None
    assert broke.cause == cause


@pytest.mark.spec("F12")
def test_a_cause_that_was_registered_explains_one_break_and_no_later_one() -> None:
    guard = Guard()
    guard.after(request("a"), answer(0, 50_000), 0.0, CAN)
    guard.register("compaction")
    guard.before(request("z"), 1.0, CAN)
    assert guard.after(request("z"), answer(0, 9_000), 1.0, CAN)
    guard.before(request("z", "y", "x", tools=[grep("x")]), 2.0, CAN)
    broke = guard.after(request("z", "y", "x"), answer(0, 9_500), 2.0, CAN)
    assert broke is not None
    assert (broke.registered, broke.cause) == (False, "tool list changed: Grep added")


@pytest.mark.spec("F12")
def test_openai_s_cached_tokens_are_measured_against_the_last_prompt() -> None:
    can = Capabilities(cache="openai", min_cacheable=1_024)
    guard = Guard()
    guard.after(request("a"), Response([], "x", Usage(input=20_000)), 0.0, can)
    guard.before(request("a", "b", "c"), 1.0, can)
    broke = guard.after(request("a", "b", "c"), Response([], "x", Usage(input=21_000)), 1.0, can)
    assert broke
    assert broke.expected == 19_968


@pytest.mark.spec("L2.3", "F12")
def test_a_model_that_drops_earlier_thinking_is_expected_to() -> None:
    can = Capabilities(cache="anthropic", keeps_thinking=False)
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}, text("b")]}
    first = Request([], [], [request("a").messages[0]])
    second = Request([], [], [first.messages[0], thought, {"role": "user", "content": [text("c")]}])
    guard = Guard()
    guard.after(first, answer(0, 50_000), 0.0, can)
    guard.before(second, 1.0, can)
    broke = guard.after(second, answer(9_000), 1.0, can)
    assert broke
    assert broke.registered


@pytest.mark.spec("L2.3", "F12")
def test_the_same_request_once_more_drops_no_thinking() -> None:
    """Another try brings no new question: a miss then has another cause."""
    can = Capabilities(cache="anthropic", keeps_thinking=False)
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}, text("b")]}
    said = [request("a").messages[0], thought, {"role": "user", "content": [text("c")]}]
    guard = Guard()
    guard.after(Request([], [], said), answer(0, 50_000), 0.0, can)
    guard.before(Request([], [], said), 1.0, can)
    broke = guard.after(Request([], [], said), answer(9_000), 1.0, can)
    assert broke is not None
    assert not broke.registered


@pytest.mark.spec("F12")
def test_a_change_of_the_very_first_message_of_a_ledger_is_found() -> None:
    ledger = Ledger.of()
    [first] = ledger.append(edits.message("user", "a question", "typed"))
    ledger.append(edits.answer([text("an answer")], Usage(output=1)))
    ledger.append(edits.message("user", "another", "typed"))
    before = ledger.view()
    ledger.append(edits.replace([(first["uuid"], 0, text("changed"))], "l", changes_prefix=True))
    found = part(before, ledger.view())
    assert found is not None
    assert (found.message, found.block, found.cause) == (0, 0, "message 0, block 0 changed: text")


@pytest.mark.spec("F12")
def test_several_blocks_taken_out_of_an_earlier_message_are_counted() -> None:
    blocks = [text(words) for words in "abcde"]
    old = Request([], [], [{"role": "user", "content": blocks}, *request("x", "y").messages])
    new = Request([], [], [{"role": "user", "content": blocks[:1] + blocks[4:]}, *old.messages[1:]])
    found = part(old, new)
    assert found is not None
    assert (found.block, found.cause) == (1, "3 blocks removed from message 0")
    back = part(new, old)
    assert back is not None
    assert back.cause == "text inserted before message 0"


@pytest.mark.spec("F12")
def test_attachments_at_the_end_never_break_the_prefix_over_two_hundred_turns() -> None:
    ledger = Ledger.of()
    last: Request | None = None
    for n in range(200):
        ledger.append(edits.message("user", f"question {n}", "typed"))
        if n % 3 == 0:
            reminder = f"<system-reminder>Memory (saved {n} days ago): m{n}.md</system-reminder>"
            ledger.append(edits.message("user", reminder, "recalled"))
        view = ledger.view()
        if last is not None:
            assert part(last, view) is None
        last = view
        ledger.append(edits.answer([text(f"answer {n}")], Usage(output=1)))
