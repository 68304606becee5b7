"""A plan before anything changes, and a conversation that only coordinates."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agents.test_agents import ON, agent, asked, names, said
from tests.layers.talks import NO_NOTES, filler, summary
from tests.sessions import Place, run, use

from lamina.agents import plan
from lamina.cli.chat_commands import run_command
from lamina.errors import UsageError
from lamina.messages import text_of
from lamina.models.scripted import ScriptedModel, Step
from lamina.session import Session


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


WRITES = use("Write", file_path="a.txt", content="x")


@pytest.mark.spec("L7.3")
def test_until_the_user_approves_the_plan_only_reading_is_permitted(place: Place) -> None:
    model = ScriptedModel(
        [
            WRITES,
            Step(use("Glob", pattern="*"), {"last_result": "the plan is not approved yet"}),
            Step("1. Write a.txt.", {"last_result": "No file"}),
            WRITES,
            "Written.",
        ]
    )

    async def story() -> None:
        async with place.open(model) as session:
            await run_command(session, "/plan")
            await session.ask("write a.txt")
            assert not (place.project / "a.txt").exists()
            await run_command(session, "/plan approve")
            assert (await session.ask("go")).text == "Written."
            assert (place.project / "a.txt").exists()
            with pytest.raises(UsageError, match="no plan to approve"):
                await run_command(session, "/plan approve")
            kept = session.ledger.state(plan.PLAN)
            assert kept == {"text": "1. Write a.txt.", "approved": True}

    run(story)


@pytest.mark.spec("L7.3")
def test_a_plan_that_is_awaited_binds_agents_and_the_next_life_of_the_session(
    place: Place,
) -> None:
    model = ScriptedModel(
        [
            use("Agent", prompt="Write it."),
            Step("refused", {"last_result": "the plan is not approved yet"}),
        ]
    )

    async def first() -> str:
        async with place.open(model, config=ON) as session:
            plan.begin(session.state)
            await session.ask("go")
            assert not list(session.agents)
            return session.id

    async def second(name: str) -> None:
        steps = [WRITES, Step("still not", {"last_result": "not approved yet"}), WRITES, "done"]
        async with place.open(steps, config=ON, session_id=name) as session:
            await session.ask("and now?")
            await run_command(session, "/plan off")
            assert (await session.ask("go")).text == "done"

    run(second, run(first))


@pytest.mark.spec("L4.3", "L7.3")
def test_an_approved_plan_comes_back_after_a_compaction_and_a_restart(place: Place) -> None:
    words = "1. Measure the port. 2. Write the table."
    steps = [
        words,
        *(f"Parser {n}. " + filler(n, 4_000) for n in range(3)),
        Step(summary(), purpose="summary"),
    ]

    async def first() -> str:
        async with place.open(ScriptedModel(steps), config=NO_NOTES) as session:
            plan.begin(session.state)
            await session.ask("how would you do it? Use the parser, the table and every port.")
            plan.approve(session.state)
            return session.id

    async def second(name: str) -> None:
        model = ScriptedModel(steps[1:])
        async with place.open(model, config=NO_NOTES, session_id=name) as session:
            for n in range(3):
                await session.ask(f"question {n}: measure the last port")
            await session.compact()
            reminders = [text_of(m["content"]) for m in session.view().messages]
            assert any(f"The approved plan:\n\n{words}" in one for one in reminders)

    run(second, run(first))


@pytest.mark.spec("L4.3", "L7.3")
@pytest.mark.parametrize("memory", [True, False])
def test_only_the_last_approved_plan_comes_back_and_none_that_was_given_up(
    place: Place, *, memory: bool
) -> None:
    long = [f"Parser {n}. " + filler(n, 4_000) for n in range(3)]
    steps = ["1. Do A.", "2. Do B.", *long, *long, *[Step(summary(), purpose="summary")] * 2]
    model = ScriptedModel(steps)

    async def story() -> None:
        config = {**NO_NOTES, "memory.enabled": memory}
        async with place.open(model, config=config) as session:
            for _ in range(2):
                plan.begin(session.state)
                await session.ask("how would you do it?")
                plan.approve(session.state)
            assert await seen(session) == ["2. Do B."]
            plan.leave(session.state)
            assert await seen(session) == []

    async def seen(session: Session) -> list[str]:
        for n in range(3):
            await session.ask(f"question {n}: measure the last port")
        done = await session.compact()
        back = [e for e in session.ledger.entries if e.get("compaction") == done.edit]
        texts = [text_of(entry["content"]) for entry in back]
        return [one.split("\n")[3] for one in texts if "The approved plan:" in one]

    run(story)


@pytest.mark.spec("L7.3")
def test_a_coordinator_reads_and_starts_agents_and_they_have_the_other_tools(
    place: Place,
) -> None:
    model = ScriptedModel(
        [
            use("Agent", prompt="Write a.txt."),
            Step("It is written.", {"last_result": "Written."}),
            agent(WRITES),
            agent("Written."),
        ]
    )

    async def story() -> None:
        config = {**ON, "agents.coordinator": True}
        async with place.open(model, config=config) as session:
            assert (await session.ask("go")).text == "It is written."
            mine = set(names(model.requests[0]))
            assert {"Agent", "SendMessage", "Read", "Grep", "Glob"} <= mine
            assert not {"Write", "Edit", "Bash", "Remember"} & mine
            described = next(t for t in model.requests[0].tools if t["name"] == "Agent")
            assert "- explore: Finds out" in described["description"]
            assert {"Write", "Edit", "Bash"} <= set(names(asked(model)[0]))
            assert "Write a.txt." in said(asked(model)[0])
            assert (place.project / "a.txt").exists()

    run(story)
