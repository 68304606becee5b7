"""L2.2 from end to end: a session, the official package, and a provider in another process that keeps a
cached prefix and cuts results out of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.layers.test_tool_results import results, saying
from tests.sessions import Place, run
from tests.test_turn import Probe

from lamina.agents.fork import branch_of
from lamina.layers import microcompact

if TYPE_CHECKING:
    from tests.wire.plugin import CacheProvider

MODEL = "anthropic:claude-sonnet-4-6"
ROUNDS = 16
LONG = "a line of some length\n" * 60


def calls(count: int, start: int = 0) -> list[list[dict[str, Any]]]:
    return [
        [{"type": "tool_use", "id": f"toolu_{n}", "name": "Probe", "input": {"n": n}}]
        for n in range(start, start + count)
    ]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def settings(provider: CacheProvider, *, edits: bool = True) -> dict[str, Any]:
    """Only the main thread speaks: the server's answers are for it."""
    return {
        "anthropic.base_url": provider.url,
        "anthropic.cache_edits": edits,
        "notes.enabled": False,
        "folds.enabled": False,  # the results have the same words
        "recall.enabled": False,
        "extraction.enabled": False,
        "microcompact.api_management": False,
        "api.retries": 0,
    }


def deleted(provider: CacheProvider) -> list[str]:
    """Results that the model no longer sees, though they were sent."""
    return [
        part["tool_use_id"]
        for part in provider.seen()
        if part.get("type") == "tool_result" and part["content"] == "[deleted]"
    ]


@pytest.mark.spec("L2.2", "F12")
def test_old_results_are_cut_out_of_the_cached_prefix_and_the_rest_of_it_is_still_read(
    place: Place, cache_provider: CacheProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    cache_provider.script(*calls(ROUNDS), [{"type": "text", "text": "Done."}])

    async def story() -> None:
        async with place.open(
            MODEL, tools=[Probe(saying(LONG), clearable=True)], config=settings(cache_provider)
        ) as session:
            reply = await session.ask("work")
            assert reply.text == "Done."
            # At 12 active results the oldest 7 go, the last 5 of them stay.
            assert deleted(cache_provider) == [f"toolu_{n}" for n in range(7)]
            # The session's own messages are whole, and nothing was edited.
            assert [b["content"] for b in results(session)] == [LONG] * ROUNDS
            assert not [e for e in session.ledger.entries if e["kind"] == "edit"]
            [acted] = [e for e in reply.events if e.kind == "layer_acted"]
            assert acted.count == 7
            # What came after the deletion was read from the shorter prefix, never written anew.
            called = [e.usage for e in reply.events if e.kind == "model_called"]
            assert called[12].prompt < called[11].prompt
            assert all(usage.cache_read > usage.cache_write for usage in called[12:])
            assert not [e for e in reply.events if e.kind == "cache_broke" and not e.registered]

    run(story)


@pytest.mark.spec("L2.2")
def test_a_resumed_session_goes_on_with_the_same_deletions(
    place: Place, cache_provider: CacheProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    cache_provider.script(*calls(12), [{"type": "text", "text": "Done."}])

    async def story() -> None:
        wishes: dict[str, Any] = {
            "tools": [Probe(saying(LONG), clearable=True)],
            "config": settings(cache_provider),
        }
        async with place.open(MODEL, **wishes) as session:
            await session.ask("work")
            name = session.id
        before = deleted(cache_provider)
        assert before == [f"toolu_{n}" for n in range(7)]
        async with place.open(MODEL, session_id=name, **wishes) as session:
            reply = await session.ask("go on")
            assert reply.text == "ok"
            assert deleted(cache_provider) == before
            [usage] = [e.usage for e in reply.events if e.kind == "model_called"]
            assert usage.cache_read > 0

    run(story)


@pytest.mark.spec("L2.2")
def test_a_fork_of_the_session_can_t_change_what_is_deleted(
    place: Place, cache_provider: CacheProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    cache_provider.script(*calls(11), [{"type": "text", "text": "Done."}])

    async def story() -> None:
        async with place.open(
            MODEL, tools=[Probe(saying(LONG), clearable=True)], config=settings(cache_provider)
        ) as session:
            await session.ask("work")
            child = branch_of(session.state, "notes", session.state.tools.permit, 3)
            microcompact.act(child)
            assert microcompact.deletions(child) == ()
            assert deleted(cache_provider) == []
            assert session.ledger.state("cache_edits") is None

    run(story)


@pytest.mark.spec("L2.2", "F8")
def test_a_provider_that_is_not_said_to_can_is_never_asked_to(
    place: Place, cache_provider: CacheProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    cache_provider.script(*calls(ROUNDS), [{"type": "text", "text": "Done."}])

    async def story() -> None:
        async with place.open(
            MODEL,
            tools=[Probe(saying(LONG), clearable=True)],
            config=settings(cache_provider, edits=False),
        ) as session:
            await session.ask("work")
            assert deleted(cache_provider) == []

    run(story)
