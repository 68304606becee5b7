"""Our breakpoints and deletions against a provider that keeps a prompt cache, over HTTP, in another
process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.talk import READ, answer, user
from tests.wire.cache import PromptCache, parts_of

from lamina.events import quiet
from lamina.messages import Message, Request, Response, text, tool_result, tool_use
from lamina.models import open_model
from lamina.models.anthropic import with_breakpoints
from lamina.ports import Model

if TYPE_CHECKING:
    from tests.wire.plugin import CacheProvider


def conversation(rounds: int) -> list[Message]:
    """Rounds of one tool call each, with a result of some size."""
    messages = [user("begin")]
    for number in range(rounds):
        name = f"toolu_{number}"
        messages.append(answer(tool_use(name, "Read", {"n": number})))
        messages.append(user(tool_result(name, f"result {number} " * 50)))
    return messages


def blocks_in(messages: list[Message]) -> int:
    return sum(len(message["content"]) for message in messages)


def request(messages: list[Message], **fields: Any) -> Request:
    return Request([text("Be brief. " * 20)], [READ], messages, **fields)


def talk(provider: CacheProvider, work: Callable[[Model], Awaitable[Any]], **options: Any) -> Any:
    async def whole() -> Any:
        given = {"api_key": "k", "base_url": provider.url, "retries": 0, **options}
        model = open_model("anthropic:claude-sonnet-4-6", options=given)
        try:
            return await work(model)
        finally:
            await model.close()

    return asyncio.run(whole())


async def grow(model: Model, rounds: range, **fields: Any) -> list[Response]:
    """One request a round, each of which says where the last one ended."""
    responses: list[Response] = []
    cached = 0
    for count in rounds:
        messages = conversation(count)
        sent = request(messages, cached_blocks=cached, **fields)
        responses.append(await model.complete(sent, quiet))
        cached = blocks_in(messages)
    return responses


@pytest.mark.spec("F4", "F6")
def test_a_growing_conversation_reads_all_of_its_last_prompt_from_the_cache(
    cache_provider: CacheProvider,
) -> None:
    responses = talk(cache_provider, lambda model: grow(model, range(5)))
    first, *others = [response.usage for response in responses]
    assert first.cache_read == 0
    assert first.cache_write > 0
    before = first
    for usage in others:
        assert usage.cache_read == before.prompt
        assert usage.input == 0
        before = usage


@pytest.mark.spec("F4")
def test_more_new_blocks_than_the_look_back_still_hit_the_last_breakpoint(
    cache_provider: CacheProvider,
) -> None:
    async def work(model: Model, *, told: bool) -> int:
        messages = conversation(3)
        await model.complete(request(messages), quiet)
        names = [f"toolu_many_{n}" for n in range(30)]
        messages += [
            answer(*[tool_use(name, "Read", {}) for name in names]),
            user(*[tool_result(name, "x") for name in names]),
        ]
        cached = blocks_in(conversation(3)) if told else 0
        sent = request(messages, cached_blocks=cached)
        return (await model.complete(sent, quiet)).usage.cache_read

    whole = talk(cache_provider, lambda model: work(model, told=True))
    cache_provider.advance(10_000)
    assert talk(cache_provider, lambda model: work(model, told=False)) < whole


def test_a_cold_cache_is_written_again_and_an_hour_is_an_hour(
    cache_provider: CacheProvider,
) -> None:
    async def work(model: Model) -> list[Response]:
        sent = request(conversation(2))
        responses = [await model.complete(sent, quiet)]
        for wait in (299, 299, 301):
            cache_provider.advance(wait)
            responses.append(await model.complete(sent, quiet))
        return responses

    reads = [response.usage.cache_read for response in talk(cache_provider, work)]
    assert reads[0] == 0
    assert reads[1] == reads[2] > 0
    assert reads[3] == 0
    cache_provider.advance(10_000)
    long = talk(cache_provider, work, cache_ttl="1h")
    assert [response.usage.cache_read > 0 for response in long] == [False, True, True, True]
    assert long[0].usage.cache_write_1h == long[0].usage.cache_write > 0


@pytest.mark.spec("L2.2")
def test_deleted_results_leave_the_cached_prefix_while_our_messages_stay(
    cache_provider: CacheProvider,
) -> None:
    async def work(model: Model) -> tuple[Response, Response, Response]:
        before = (await grow(model, range(1, 5)))[-1]
        messages = conversation(5)
        gone = ["toolu_0", "toolu_1"]
        sent = request(messages, cached_blocks=blocks_in(conversation(4)), cache_deletions=gone)
        cut = await model.complete(sent, quiet)
        assert [b for b in cache_provider.seen() if b.get("tool_use_id") == "toolu_0"] == [
            {"type": "tool_result", "tool_use_id": "toolu_0", "content": "[deleted]"}
        ]
        # The next request says nothing of deletions: they stay with the cached prefix.
        later = request(conversation(6), cached_blocks=blocks_in(messages))
        return before, cut, await model.complete(later, quiet)

    before, cut, after = talk(cache_provider, work, cache_edits=True)
    edits = cut.extra["cache_edits"]
    assert edits["deleted"] == ["toolu_0", "toolu_1"]
    assert edits["deleted_tokens"] > 200
    assert cut.usage.cache_read == before.usage.prompt - edits["deleted_tokens"]
    assert after.usage.cache_read == cut.usage.prompt
    shown = {b["tool_use_id"]: b["content"] for b in cache_provider.seen() if "tool_use_id" in b}
    assert [name for name, content in shown.items() if content == "[deleted]"] == [
        "toolu_0",
        "toolu_1",
    ]


@pytest.mark.spec("L2.2")
def test_what_is_not_in_the_cached_prefix_is_not_deleted(cache_provider: CacheProvider) -> None:
    async def work(model: Model) -> Response:
        sent = request(conversation(3), cache_deletions=["toolu_0", "nobody"])
        return await model.complete(sent, quiet)

    response = talk(cache_provider, work, cache_edits=True)
    assert response.extra["cache_edits"] == {"deleted": [], "deleted_tokens": 0}


def test_a_script_makes_the_provider_call_tools(cache_provider: CacheProvider) -> None:
    cache_provider.script([tool_use("t", "Read", {"a": 1})], [text("done")])

    async def work(model: Model) -> list[Response]:
        return await grow(model, range(3))

    first, second, third = talk(cache_provider, work)
    assert first.tool_uses == [tool_use("t", "Read", {"a": 1})]
    assert (second.text, third.text) == ("done", "ok")


def test_the_provider_refuses_a_fifth_breakpoint_as_the_real_one_does() -> None:
    marked = {**text("x"), "cache_control": {"type": "ephemeral"}}
    with pytest.raises(ValueError, match="maximum of 4"):
        PromptCache().serve({"model": "m", "messages": [user(*[marked] * 5)]})


block = st.sampled_from(
    [
        text("a"),
        text(""),
        {"type": "thinking", "thinking": "t", "signature": "s"},
        {**text("m"), "cache_control": {"type": "ephemeral"}},
        tool_use("t", "Read", {}),
    ]
)
messages = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant"]),
        st.lists(block, max_size=4),
    ),
    max_size=6,
)


@pytest.mark.spec("F4")
@given(messages=messages, system=st.lists(block, max_size=3), cached=st.integers(0, 30))
def test_there_are_never_more_than_four_breakpoints_and_blocks_stay_the_same(
    messages: list[Message], system: list[Any], cached: int
) -> None:
    sent = Request(system, [READ], messages, cached_blocks=cached)
    tools, new_system, new_messages = with_breakpoints(sent)
    body = {"model": "m", "tools": tools, "system": new_system, "messages": new_messages}
    marked = [part for part in parts_of(body) if part.ttl]
    assert len(marked) <= 4
    assert all(part.value.get("type") != "thinking" for part in marked)
    assert all(part.value.get("text") != "" for part in marked)
    plain = {"model": "m", "tools": [READ], "system": system, "messages": messages}
    assert [part.key for part in parts_of(body)] == [part.key for part in parts_of(plain)]
