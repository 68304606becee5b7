"""Requests that keep the provider's cache while the user is away: few, paid from savings, booked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from tests.layers.test_notes import settle
from tests.sessions import Place, StillClock, run

from lamina.cache.spend import Spend
from lamina.layers import pauses
from lamina.messages import Json
from lamina.models import open_model
from lamina.models.scripted import ScriptedModel
from lamina.ports import Capabilities
from lamina.session import Session

if TYPE_CHECKING:
    from tests.wire.plugin import CacheProvider
    from tests.wire.server import WireServer

SONNET = "anthropic:claude-sonnet-4-6"
CONFIG = {"dream.enabled": False, "recall.enabled": False, "extraction.enabled": False}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class Steps(StillClock):
    """Time goes on to where a sleeper wants it, each time the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.step = anyio.Event()

    async def sleep(self, seconds: float) -> None:
        await self.step.wait()
        self.at += seconds

    def skip(self, seconds: float) -> None:
        self.at += seconds

    async def go_on(self) -> None:
        before, self.step = self.step, anyio.Event()
        before.set()
        await anyio.wait_all_tasks_blocked()


def model_with(**able: Any) -> ScriptedModel:
    return ScriptedModel(
        [],
        name="claude-sonnet-4-6",
        capabilities=replace(Capabilities(cache="anthropic"), **able),
        otherwise={"main": "Understood.", "keep_warm": "ok", "notes": "done"},
    )


async def talk(session: Session, saved: int) -> None:
    session.state.say("a long reminder " * 4_000, "system")
    await session.ask("begin")
    await settle(session)
    account = session.state.balance()
    assert account is not None
    account.saved = saved
    pauses.after_turn(session.state)
    await anyio.wait_all_tasks_blocked()


def kept(model: ScriptedModel) -> int:
    return sum(request.purpose == "keep_warm" for request in model.requests)


async def away(place: Place, model: ScriptedModel, saved: int, **config: Any) -> tuple[int, int]:
    """Requests that kept the cache through a long pause, and how much the next one read from it."""
    clock = Steps()
    options = {"interactive": True, "config": {**CONFIG, **config}, "clock": clock}
    async with place.open(model, **options) as session:
        await talk(session, saved)
        for _ in range(8):
            await clock.go_on()
        requests = kept(model)
        clock.at += 100
        await session.ask("go on")
        return requests, session.state.last_usage.cache_read


@pytest.mark.spec("F14", "F10")
@pytest.mark.parametrize(("most", "sent"), [(2, 2), (3, 3), (11, 3)])  # a fourth would not pay
def test_a_pause_is_bridged_by_few_requests_paid_from_savings_and_booked(
    place: Place, most: int, sent: int
) -> None:
    async def story() -> None:
        model = model_with()
        requests, read = await away(place, model, 1_000_000, **{"cache.keep_warm": most})
        assert requests == sent
        assert read > 10_000  # a quarter of an hour later
        booked = [row["purpose"] for row in Spend(place.home / "spend").calls()]
        assert booked.count("keep_warm") == sent

    run(story)


@pytest.mark.spec("F14", "F10")
@pytest.mark.parametrize(
    ("saved", "able", "config"),
    [
        (100, {}, {}),  # less than one costs
        (1_000_000, {"cache": "openai"}, {}),  # it bills no writes
        (1_000_000, {"cache": "none"}, {}),
        (1_000_000, {"cache_ttl": 3600}, {}),
        (1_000_000, {}, {"prices": {"claude-sonnet-4-6": {"cache_write_5m": 3.0}}}),
        (1_000_000, {}, {"cache.keep_warm": 0}),
        (1_000_000, {}, {"spend.layer_caps": {"keep_warm": 0.000001}}),
    ],
)
def test_no_request_is_made_where_it_is_not_earned_not_priced_or_not_allowed(
    place: Place, saved: int, able: dict[str, Any], config: dict[str, Any]
) -> None:
    async def story() -> None:
        model = model_with(**able)
        clock = Steps()
        options = {"interactive": True, "config": {**CONFIG, **config}, "clock": clock}
        async with place.open(model, **options) as session:
            if able.get("cache") == "none":
                await session.ask("begin")
            else:
                await talk(session, saved)
            for _ in range(4):
                await clock.go_on()
        assert kept(model) <= ("spend.layer_caps" in config)  # a cap stops what comes after it

    run(story)


@pytest.mark.spec("F14")
def test_a_session_that_was_closed_is_not_kept_for_anybody(place: Place) -> None:
    async def story() -> None:
        model, clock = model_with(), Steps()
        async with place.open(model, interactive=True, config=CONFIG, clock=clock) as session:
            await talk(session, 1_000_000)
        await clock.go_on()
        assert kept(model) == 0

    run(story)


@pytest.mark.spec("F14")
def test_a_new_question_begins_the_wait_anew(place: Place) -> None:
    async def story() -> None:
        model, clock = model_with(), Steps()
        async with place.open(model, interactive=True, config=CONFIG, clock=clock) as session:
            await talk(session, 1_000_000)
            clock.at += 200
            await session.ask("go on")
            clock.at -= 280 - 200  # the first sleeper wakes at its own time
            await clock.go_on()
            assert kept(model) == 0

    run(story)


@pytest.mark.spec("F14")
def test_where_a_provider_is_proven_to_lengthen_all_before_a_mark_one_request_marks_an_hour(
    place: Place,
) -> None:
    async def story() -> None:
        model = model_with(cache_upgrades=True)
        requests, _ = await away(place, model, 1_000_000)
        assert requests == 1
        [request] = [one for one in model.requests if one.purpose == "keep_warm"]
        assert request.cache_ttl == 3600

    run(story)


class Together(Steps):
    """Time passes here and at the provider."""

    def __init__(self, provider: CacheProvider) -> None:
        super().__init__()
        self._provider = provider

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self._provider.advance(seconds)


@pytest.mark.spec("F14", "F4")
@pytest.mark.parametrize(("most", "kept_warm"), [(0, False), (1, True)])
def test_over_http_the_whole_prompt_and_the_answer_are_still_cached_after_the_pause(
    place: Place, cache_provider: CacheProvider, most: int, kept_warm: bool
) -> None:
    async def story() -> None:
        clock = Together(cache_provider)
        options = {"api_key": "k", "base_url": cache_provider.url, "retries": 0}
        model = open_model("anthropic:claude-sonnet-4-6", options=options)
        config = {**CONFIG, "cache.keep_warm": most, "notes.enabled": False}
        async with place.open(model, interactive=True, config=config, clock=clock) as session:
            await talk(session, 1_000_000)
            before = session.state.last_usage.prompt
            await clock.go_on()
            with anyio.fail_after(60):
                while (account := session.state.balance()) is None or account.kept < most:
                    await anyio.lowlevel.checkpoint()
            later = 250.0 if most else 400.0
            cache_provider.advance(later)
            clock.skip(later)
            await session.ask("go on")
            used = session.state.last_usage
            assert (used.cache_read >= before) is kept_warm

    run(story)


@pytest.mark.spec("F14")
@pytest.mark.parametrize(("able", "lives"), [({"cache_choice": "all"}, 3600), ({}, 0)])
def test_a_prompt_written_anew_gets_the_life_that_the_pauses_so_far_ask_for(
    place: Place, able: dict[str, Any], lives: int
) -> None:
    async def story() -> None:
        model, clock = model_with(**able), Steps()
        config = {**CONFIG, "cache.keep_warm": 0, "notes.enabled": False}
        async with place.open(model, config=config, clock=clock) as session:
            session.state.say("a long reminder " * 4_000, "system")
            for pause in (0, 10, 600, 600, 600):
                clock.skip(pause)
                await session.ask("go on")
            asked = [request.cache_ttl for request in model.requests]
            first = 300 if lives else 0
            assert asked == [*[first] * 4, lives]  # after two, the next one is believed
            clock.skip(3_000)
            await session.ask("and now")
            assert session.state.last_usage.cache_read > 10_000 or not lives

    run(story)


@pytest.mark.spec("F14")
def test_after_a_pause_system_prompt_and_tools_are_marked_for_an_hour(
    wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then, and where five minutes are asked for, all is marked for five."""
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.anthropic_url)

    def lives(body: Json) -> tuple[set[str], set[str]]:
        said = [block for message in body["messages"] for block in message["content"]]
        both = ([*body["system"], *body["tools"]], said)
        found = [{b["cache_control"]["ttl"] for b in part if "cache_control" in b} for part in both]
        return found[0], found[1]

    async def story(name: str, pauses: list[int], ttl: str) -> list[tuple[set[str], set[str]]]:
        clock, before = Steps(), len(wire.received)
        given = {
            "memory.enabled": False,
            "cache.keep_warm": 0,
            **({"cache.ttl": ttl} if ttl else {}),
        }
        place, home = tmp_path / "project", tmp_path / "home"
        resume: dict[str, Any] = {"session_id": name, "resume": True} if name else {}
        async with Session.open(place, SONNET, home=home, config=given, clock=clock, **resume) as s:
            for pause in pauses:
                clock.skip(pause)
                await s.ask("go on")
            names.append(s.id)
        return [lives(got.body) for got in wire.received[before:]]

    names: list[str] = []
    short, long = ({"5m"}, {"5m"}), ({"1h"}, {"5m"})
    assert run(story, "", [0, 10, 301, 10], "mixed") == [short, short, long, long]
    assert run(story, names[0], [0], "mixed") == [long]
    assert run(story, names[0], [0, 301], "5m") == [short, short]
