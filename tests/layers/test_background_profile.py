"""Background work that earns its keep: later and seldomer than every turn, with nothing lost."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.examples import EXPLORE
from tests.layers.test_notes import notes_of, settle, writes
from tests.sessions import Place, StillClock, run

from lamina.cache.account import keep_warm_after
from lamina.layers import extraction, pauses
from lamina.ledger import edits
from lamina.local import summariser
from lamina.models.scripted import ScriptedModel
from lamina.ports import Capabilities
from lamina.session import Session

MODEL = "claude-sonnet-4-6"  # it has a price
SAID = re.compile(
    r"^(m\d+) \([^)]*\): (Please always run step-(\d+) before a release\.)$", re.MULTILINE
)
FILE = """---
name: Step {number}
description: always run step-{number} before a release
type: feedback
---

Always run step-{number} before a release.

```evidence
{label}: {words}
```
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def keeps(request: Any) -> Any:
    """What a good model keeps: each durable statement of the new words, side by side."""
    last = str(request.messages[-1]["content"][-1].get("text", ""))
    folder = re.search(r"Memory lies in `([^`]+)`", last)
    if folder is None:  # it has written: nothing is left
        return "done"
    made = [
        {
            "name": "Write",
            "input": {
                "file_path": f"{folder[1]}/step_{number}.md",
                "content": FILE.format(number=number, label=label, words=words),
            },
        }
        for label, words, number in SAID.findall(last)
    ]
    return {"tool_use": made} if made else "nothing"


def good_model(name: str = MODEL) -> ScriptedModel:
    otherwise = {"main": "Understood.", "extraction": keeps, "recall": "[]", "dream": "done"}
    return ScriptedModel([], name=name, otherwise=otherwise)


def statement(number: int) -> str:
    return f"Please always run step-{number} before a release."


def kept(place: Place) -> set[str]:
    return {path.name for path in place.home.glob("projects/*/memory/step_*.md")}


def calls(model: ScriptedModel, purpose: str) -> int:
    return sum(request.purpose == purpose for request in model.requests)


async def worked(session: Session) -> None:
    """Until nothing is done in the background; what waits for a pause goes on waiting."""
    with anyio.fail_after(60):
        while session.status().background:
            await anyio.lowlevel.checkpoint()


async def sessions(place: Place, profile: str, count: int, each: int) -> list[tuple[int, int]]:
    """For each session: extraction calls, and memories once it was left."""
    told: list[tuple[int, int]] = []
    config = {"background.profile": profile, "dream.enabled": False, "recall.enabled": False}
    for first in range(0, count * each, each):
        model = good_model()
        clock = Pausing()
        async with place.open(model, interactive=True, config=config, clock=clock) as session:
            for number in range(first, first + each):
                clock.at += 30
                await session.ask(statement(number))
                await worked(session)
        told.append((calls(model, "extraction"), len(kept(place))))
    return told


@pytest.mark.spec("L5.4", "F10")
def test_the_saving_profile_ends_with_the_same_memories_for_a_fraction_of_the_calls(
    tmp_path: Path,
) -> None:
    """With LAMINA_EXPLORE=1 it is 30 sessions and 120 statements."""
    count = 30 if EXPLORE else 3
    found: dict[str, tuple[set[str], list[tuple[int, int]]]] = {}
    for profile in ("every-turn", "saving"):
        (tmp_path / profile).mkdir()
        place = Place(tmp_path / profile)
        told = run(sessions, place, profile, count, 4)
        found[profile] = (kept(place), told)
    often, seldom = found["every-turn"], found["saving"]
    assert len(often[0]) == 4 * count
    assert seldom[0] == often[0]
    # At the end of each session all that was said in it is kept, in either profile.
    assert [memories for _, memories in seldom[1]] == [memories for _, memories in often[1]]
    asked = [sum(calls for calls, _ in told) for told in (seldom[1], often[1])]
    assert asked[0] * 3 < asked[1]


CONFIG = {"dream.enabled": False, "recall.enabled": False}


@pytest.mark.spec("L5.4")
def test_it_waits_no_longer_than_ten_turns(place: Place) -> None:
    async def story() -> None:
        model = good_model()
        async with place.open(model, interactive=True, config=CONFIG) as session:
            for number in range(9):
                place.clock.at += 30
                await session.ask(statement(number))
            assert calls(model, "extraction") == 0
            session.state.background.cancel(pauses.TASK)
            await session.ask(statement(9))
            await settle(session)
            assert len(kept(place)) == 10

    run(story)


class Pausing(StillClock):
    """Whoever sleeps waits until the test lets him go."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted: list[float] = []
        self.over = anyio.Event()

    async def sleep(self, seconds: float) -> None:
        self.wanted.append(seconds)
        await self.over.wait()
        self.at += seconds


@pytest.mark.spec("F14", "L5.4")
def test_a_run_begins_at_a_pause_while_the_cache_is_still_there(place: Place) -> None:
    async def story() -> None:
        clock, model = Pausing(), good_model()
        async with place.open(model, interactive=True, config=CONFIG, clock=clock) as session:
            await session.ask(statement(1))
            await anyio.wait_all_tasks_blocked()
            assert clock.wanted == [keep_warm_after(300)]
            assert session.status().background == []  # nothing is done while it waits
            assert kept(place) == set()
            clock.over.set()
            await settle(session)
            assert kept(place) == {"step_1.md"}
            assert model.usages[-1].cache_read > 5_000
        assert calls(model, "extraction") == 1  # nothing was left for the end

    run(story)


@pytest.mark.spec("L5.4", "F14")
def test_who_asks_again_before_the_pause_is_not_disturbed_and_the_wait_begins_anew(
    place: Place,
) -> None:
    async def story() -> None:
        clock, model = Pausing(), good_model()
        async with place.open(model, interactive=True, config=CONFIG, clock=clock) as session:
            await session.ask(statement(1))
            await anyio.wait_all_tasks_blocked()
            clock.at += 200
            await session.ask(statement(2))
            clock.over.set()
            over, clock.over = clock.over, anyio.Event()
            await anyio.wait_all_tasks_blocked()
            assert calls(model, "extraction") == 0 or clock.at >= 200 + keep_warm_after(300)
            clock.over.set()
            await settle(session)
            assert over.is_set()
            assert kept(place) == {"step_1.md", "step_2.md"}
            assert calls(model, "extraction") == 1

    run(story)


@pytest.mark.spec("L5.4")
def test_a_session_that_was_killed_has_what_waited_taken_up_at_the_next_open(place: Place) -> None:
    async def story() -> None:
        class Killed(BaseException): ...

        async def cut_off() -> None:
            wishes = {"interactive": True, "config": CONFIG, "session_id": "s"}
            async with place.open(good_model(), clock=Pausing(), **wishes) as session:
                await session.ask(statement(1))
                raise Killed

        with pytest.raises(Killed):
            await cut_off()
        assert kept(place) == set()
        async with place.open(
            good_model(), interactive=True, config=CONFIG, session_id="s"
        ) as session:
            await settle(session)
            assert kept(place) == {"step_1.md"}

    run(story)


@pytest.mark.spec("L5.4", "F10")
def test_a_run_that_is_cut_off_is_paid_for_once_more_and_no_more(place: Place) -> None:
    """Each open takes up what the last one left; the model is asked twice at most, then rules serve."""

    class Slow(ScriptedModel):
        """Begins to look for memories, and never comes to an end."""

        async def complete(self, request: Any, emit: Any) -> Any:
            if request.purpose == "extraction":
                self.requests.append(request)
                await anyio.sleep_forever()
            return await super().complete(request, emit)

    async def story() -> None:
        config = {**CONFIG, "background.drain_seconds": 0.0}
        asked: list[int] = []
        for number in range(4):
            model = Slow([], name=MODEL, otherwise={"main": "Understood."})
            wishes: dict[str, Any] = {"session_id": "s", "config": config, "clock": Pausing()}
            async with place.open(model, interactive=True, **wishes) as session:
                if number == 0:
                    await session.ask(statement(1))
                    extraction.begin(session.state)
                if number < 2:
                    await anyio.wait_all_tasks_blocked()
                else:
                    await settle(session)
            asked.append(calls(model, "extraction"))
        assert asked == [1, 1, 0, 0]
        [memory] = place.home.glob("projects/*/memory/*step*.md")
        assert "step-1" in memory.read_text()

    run(story)


@pytest.mark.spec("F10", "L5.4")
def test_a_priced_model_without_a_cache_waits_for_a_pause_too(place: Place) -> None:
    """It was asked with the whole conversation after every turn, at the full price."""

    async def story() -> None:
        clock, model = Pausing(), good_model()
        model.capabilities = replace(model.capabilities, cache="none")
        async with place.open(model, interactive=True, config=CONFIG, clock=clock) as session:
            for number in range(3):
                await session.ask(statement(number))
                await anyio.wait_all_tasks_blocked()
                assert calls(model, "extraction") == 0
                assert clock.wanted[-1] == keep_warm_after(300)
            clock.over.set()
            await settle(session)
            assert kept(place) == {"step_0.md", "step_1.md", "step_2.md"}

    run(story)


@pytest.mark.spec("L5.4")
def test_a_model_that_costs_nothing_is_asked_every_turn(place: Place) -> None:
    async def story() -> None:
        model = good_model("scripted")
        async with place.open(model, interactive=True, config=CONFIG) as session:
            await session.ask(statement(1))
            await settle(session)
            assert kept(place) == {"step_1.md"}

    run(story)


@pytest.mark.spec("L3.2", "F10")
@pytest.mark.parametrize("saved", [0, 50_000])
def test_notes_are_kept_by_rules_and_by_the_model_when_a_compaction_is_near(
    place: Place, saved: int
) -> None:
    """Nothing is paid for notes that may never be used, nor before the session has saved it."""

    async def story() -> None:
        able = Capabilities(cache="anthropic", window=60_000, max_output=4_000)
        model = ScriptedModel(
            [writes("Learnings", "Ports are numbers.")],
            name=MODEL,
            capabilities=able,
            otherwise={"main": "Understood.", "notes": "done", "extraction": "nothing"},
        )
        async with place.open(model, config=CONFIG) as session:
            most, now = session.state.window.autocompact, session.state.ledger.tokens
            account = session.state.balance()
            assert account is not None
            account.saved += saved
            while now() < most and not calls(model, "notes"):
                await session.ask("go on " * 900)
                await settle(session)
            if not saved:
                assert now() >= most
                assert notes_of(session).exists()
                return
            assert session.state.balance() is account
            assert account.saved < saved
            assert 0.9 * most <= now() < most
            assert calls(model, "notes") == 1  # the edits; no second call that says so
            sections = {s.heading: s.body for s in summariser.parse(notes_of(session).read_text())}
            assert "Ports are numbers." in sections["Learnings"]
            assert sections["Current state"]  # the rules have written as well
            await session.ask("go on " * 100)
            await settle(session)
            assert calls(model, "notes") == 1  # once a compaction
            cursor = session.state.ledger.state("notes")
            session.state.ledger.append(edits.state("notes", {**cursor, "tokens": 2 * most}))
            for _ in range(2):
                await session.ask("go on " * 50)
                await settle(session)
            assert calls(model, "notes") == 1  # a view that became smaller is none

    run(story)


@pytest.mark.spec("L5.1", "F10")
def test_on_leaving_the_small_model_sees_what_is_new_and_not_the_conversation(
    place: Place,
) -> None:
    async def story() -> None:
        model, small = good_model(), good_model("claude-haiku-5-5")
        async with place.open(
            model, interactive=True, config=CONFIG, clock=Pausing(), session_id="s"
        ) as session:
            session.state.deps = replace(session.state.deps, small=lambda _: small)
            session.state.say("a long reminder " * 8_000, "system")
            await session.ask(statement(1))
        assert calls(model, "extraction") == 0
        [request] = small.requests
        assert "a long reminder" not in str(request.messages)
        assert {tool["name"] for tool in request.tools} == {"Read", "Write", "Edit"}
        assert kept(place) == {"step_1.md"}

    run(story)


@pytest.mark.spec("L5.1")
def test_a_small_model_that_fails_leaves_it_to_the_conversations_own(place: Place) -> None:
    async def story() -> None:
        model, broken = good_model(), ScriptedModel([], name="claude-haiku-5-5")
        async with place.open(model, interactive=True, config=CONFIG, clock=Pausing()) as session:
            session.state.deps = replace(session.state.deps, small=lambda _: broken)
            session.state.say("a long reminder " * 8_000, "system")
            await session.ask(statement(1))
        assert len(broken.requests) == 1
        assert kept(place) == {"step_1.md"}

    run(story)
