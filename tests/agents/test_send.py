"""Messages between agents: who gets them, when they are read, and that they are never the user's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.agents.test_agents import ON, agent, asked, said
from tests.agents.test_types import write
from tests.sessions import Place, run, use

from lamina import tool
from lamina.agents.runner import Order
from lamina.agents.tools import send
from lamina.errors import LaminaError
from lamina.ledger import log
from lamina.memories import Evidence, Proposal
from lamina.messages import text_of
from lamina.models.scripted import ScriptedModel, Step


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def ended(session: Any) -> None:
    while session.agents.running():
        await anyio.lowlevel.checkpoint()


@pytest.mark.spec("L7.3")
def test_a_running_agent_reads_it_between_two_tool_rounds(place: Place) -> None:
    waiting, going = anyio.Event(), anyio.Event()

    @tool(read_only=True)
    async def wait() -> str:
        """Wait."""
        waiting.set()
        await going.wait()
        return "waited"

    model = ScriptedModel(
        [
            agent({"tool_use": [{"name": "wait", "input": {}}]}),
            agent("I looked at ports too.", last_result="waited"),
        ]
    )

    async def story() -> None:
        async with place.open(model, config=ON, tools=[wait]) as session:
            one = await session.agents.start(Order("look", name="anna", background=True))
            await waiting.wait()
            answer = await send(
                session.agents, session.state, "anna", "Look at ports too.", "ports"
            )
            assert answer == "anna will read it after its present round."
            going.set()
            await ended(session)
            assert one.result == "I looked at ports too."
            letter = asked(model)[1].messages[-1]["content"][-1]["text"]
            assert letter == (
                '<message from="main" summary="ports">\nLook at ports too.\n</message>'
            )

    run(story)


@pytest.mark.spec("L7.3")
def test_a_stopped_agent_goes_on_from_its_ledger_even_in_another_process(place: Place) -> None:
    first = ScriptedModel([agent("The port is 8080.")])
    later = ScriptedModel(
        [
            use("SendMessage", to="anna", message="And the host?"),
            Step("Asked.", {"last_result": "goes on with your message"}),
            "So it is.",
            agent("The host is example.org."),
        ]
    )

    async def begin() -> str:
        async with place.open(first, config=ON) as session:
            await session.agents.start(Order("find the port", name="anna"))
            return session.id

    async def go_on(name: str) -> None:
        async with place.open(later, config=ON, session_id=name) as session:
            await session.ask("ask anna for the host")
            await ended(session)
            sent = asked(later)[0]
            assert "find the port" in said(sent)
            assert "The port is 8080." in said(sent)
            assert "And the host?" in said(sent)
            assert list(sent.system) == list(asked(first)[0].system)
            await session.ask("and?")
            assert "The host is example.org." in said(later.requests[-1])

    # A resumed session keeps its list of tools, so it is opened with agents from the start.
    run(go_on, run(begin))


@pytest.mark.spec("L7.3")
def test_two_messages_at_once_take_a_stopped_agent_up_once(place: Place) -> None:
    model = ScriptedModel([agent("The port is 8080."), agent("Both."), agent("Both.")])

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            one = await session.agents.start(Order("find the port", name="anna"))
            async with anyio.create_task_group() as group:
                for words in ("And the host?", "And the path?"):
                    group.start_soon(send, session.agents, session.state, "anna", words)
            await ended(session)
            heard = str(log.read(session.folder / f"subagents/agent-{one.card.id}.jsonl").entries)
            assert "And the host?" in heard
            assert "And the path?" in heard

    run(story)


@pytest.mark.spec("L7.3")
def test_a_star_reaches_all_that_run_and_an_unknown_name_lists_the_known(place: Place) -> None:
    model = ScriptedModel([], otherwise={"agent": {"hang": True}})

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            for name in ("anna", "ben"):
                await session.agents.start(Order("look", name=name, background=True))
            while len(asked(model)) < 2:
                await anyio.lowlevel.checkpoint()
            answer = await send(session.agents, session.state, "*", "Stop looking.")
            assert answer == "Sent to anna, ben."
            anna = session.agents.find("anna")
            assert anna.state is not None
            answer = await send(session.agents, anna.state, "*", "I found it.")
            assert answer == "Sent to main, ben."
            assert [origin for _, origin in session.state.queue] == ["teammate"]
            with pytest.raises(LaminaError, match=r"no agent 'main'. Agents: anna, ben\.$"):
                await send(session.agents, session.state, "main", {"type": "shutdown_request"})
            with pytest.raises(LaminaError, match="Agents: anna, ben, and main"):
                await send(session.agents, session.state, "carl", "Hello.")
            with pytest.raises(LaminaError, match="yourself"):
                await send(session.agents, anna.state, "anna", "Hello.")
            session.agents.stop_all()
            await ended(session)
            # What it had no time to read is in its record.
            path = session.folder / "subagents" / f"agent-{anna.card.id}.jsonl"
            assert "Stop looking." in str(log.read(path).entries)

    run(story)


@pytest.mark.spec("L7.3", "L7.7", "L5.6")
def test_words_of_an_agent_are_no_evidence_for_what_the_user_is_or_wants(place: Place) -> None:
    claim = "The user is a pilot and always wants metric units."
    model = ScriptedModel(
        [
            use("Agent", prompt="Who is the user?", name="anna", background=True),
            "Started.",
            "Noted.",
            agent(use("SendMessage", to="main", message=claim)),
            agent(claim),
        ]
    )

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            await session.ask("find out about me")
            await ended(session)
            await session.ask("go on")
            store = session.state.deps.memory
            assert store is not None
            found = {
                origin: str(entry["uuid"])
                for _, entry in session.ledger.messages()
                for origin in entry["origins"]
                if claim in text_of(entry["content"])
            }
            assert set(found) == {"teammate", "agent"}
            for origin, entry in found.items():
                for kind in ("user", "feedback"):
                    proposal = Proposal(
                        path=f"{kind}_{origin}.md",
                        name=f"{kind}_{origin}",
                        description=claim,
                        type=kind,
                        body=claim,
                        writer="extraction",
                        evidence=(Evidence(claim, session.id, entry),),
                    )
                    assert store.judge(proposal, None, None).decision != "accept"

    run(story)


@pytest.mark.spec("L7.3")
def test_an_agent_that_is_asked_to_end_agrees_and_ends_after_that_round(place: Place) -> None:
    ask, agree = {"type": "shutdown_request", "reason": "Enough."}, {"type": "shutdown_response"}
    waiting, going = anyio.Event(), anyio.Event()

    @tool(read_only=True)
    async def wait() -> str:
        """Wait."""
        waiting.set()
        await going.wait()
        return "waited"

    model = ScriptedModel(
        [
            agent({"tool_use": [{"name": "wait", "input": {}}]}),
            agent(use("SendMessage", to="main", message={**agree, "approve": True})),
        ]
    )

    async def story() -> None:
        async with place.open(model, config=ON, tools=[wait]) as session:
            one = await session.agents.start(Order("look", name="anna", background=True))
            await waiting.wait()
            await send(session.agents, session.state, "anna", ask)
            going.set()
            await ended(session)
            assert (one.card.status, one.card.reason) == ("stopped", "it was asked to shut down")
            assert "You are asked to end. Enough." in said(asked(model)[1])
            assert any("I end." in words for words, _ in session.state.queue)
            with pytest.raises(LaminaError, match="no message of type 'dance'"):
                await send(session.agents, session.state, "anna", {"type": "dance"})

    run(story)


@pytest.mark.spec("L7.3")
def test_an_agent_with_a_plan_only_reads_until_its_leader_approves(place: Place) -> None:
    write(place.home / "agents", "planner.md", "name: planner", "description: d", "plan: true")
    request = {"type": "plan_approval_request", "plan": "Write a.txt."}
    yes = {"type": "plan_approval_response", "approve": True}
    steps = [
        agent(use("Write", file_path="a.txt", content="x")),
        agent(
            use("SendMessage", to="main", message=request),
            last_result="the plan is not approved yet",
        ),
        agent("Waiting."),
    ]
    model = ScriptedModel(steps, otherwise={"agent": {"hang": True}})

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            agents, main = session.agents, session.state
            one = await agents.start(Order("Do it.", type="planner", name="anna"))
            assert one.running  # it never keeps its leader waiting
            while not main.queue:
                await anyio.lowlevel.checkpoint()
            assert "Write a.txt." in main.queue[0][0]
            await ended(session)
            other = await agents.start(Order("x", name="ben", background=True))
            assert other.state is not None
            with pytest.raises(LaminaError, match="Only main"):
                await send(agents, other.state, "anna", yes)
            agents.stop_all()
            await ended(session)

    run(story)
    assert not (place.project / "a.txt").exists()


@pytest.mark.spec("L7.3")
def test_an_approved_plan_lets_it_work_and_a_rejected_one_comes_back_with_the_reason(
    place: Place,
) -> None:
    write(place.home / "agents", "planner.md", "name: planner", "description: d", "plan: true")
    request = {"type": "plan_approval_request", "plan": "Write a.txt."}
    answer = {"type": "plan_approval_response"}
    writing = use("Write", file_path="a.txt", content="x")
    model = ScriptedModel(
        [
            agent(use("SendMessage", to="main", message=request)),
            agent("Waiting."),
            agent(use("SendMessage", to="main", message=request)),
            agent("Waiting again."),
            agent(writing),
            agent("Written."),
        ]
    )

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            agents, main = session.agents, session.state
            one = await agents.start(Order("Do it.", type="planner", name="anna"))
            await ended(session)
            await send(
                agents, main, "anna", {**answer, "approve": False, "feedback": "Say why first."}
            )
            await ended(session)
            assert "Say why first." in said(asked(model)[2])
            await send(agents, main, "anna", {**answer, "approve": True})
            await ended(session)
            assert one.result == "Written."
            assert (place.project / "a.txt").read_text() == "x"

    run(story)
