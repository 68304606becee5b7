"""`lamina agents` and `/agents` over agents that really ran."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from tests.agents.test_agents import ON, agent, asked
from tests.agents.test_types import write
from tests.sessions import Place, run, use

from lamina.agents.runner import Order
from lamina.cli.chat_commands import run_command
from lamina.cli.main import main
from lamina.errors import UsageError
from lamina.models.scripted import ScriptedModel

Run = Callable[..., Any]


@pytest.fixture
def place(world: Path) -> Place:
    return Place(world)


def worked(place: Place) -> None:
    write(place.home / "agents", "top.md", "name: top", "description: d", "agents: explore")
    model = ScriptedModel(
        [
            "hello",
            agent(
                use("Agent", prompt="Look there.", type="explore", name="eye", task="look there")
            ),
            agent("It is in a.py:3."),
            agent("Found \x1b[2Jit."),
        ]
    )

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            await session.ask("hi")
            await session.agents.start(Order("Find it.", type="top", name="boss", task="find it"))

    run(story)


@pytest.mark.spec("L7.2", "I2")
def test_agents_are_listed_under_their_session_as_a_table_a_tree_and_a_conversation(
    lamina: Run, place: Place
) -> None:
    worked(place)
    rows = lamina("agents", "list", "--json").json
    assert [(row["name"], row["type"], row["status"]) for row in rows] == [
        ("boss", "top", "done"),
        ("eye", "explore", "done"),
    ]
    shown = lamina("agents", "list").out
    assert "boss" in shown
    assert "find it" in shown
    assert lamina("agents", "tree").out.splitlines() == [
        "boss  done  find it",
        "  eye  done  look there",
    ]
    told = lamina("agents", "show", "boss").out
    assert "another agent: Find it." in told
    assert "\x1b" not in told
    [session] = lamina("sessions", "list", "--json").json
    found = lamina("sessions", "grep", r"in a\.py:3", "--json").json
    assert {one["session"] for one in found} == {session["id"]}
    whose = sorted((one["who"], one["agent"]) for one in found)
    assert whose == [("assistant", "eye"), ("result", "boss")]
    assert f"{session['id'][:8]} eye " in lamina("sessions", "grep", r"in a\.py:3").out


@pytest.mark.spec("L7.6", "I2")
def test_a_table_that_is_watched_is_shown_anew_until_it_is_left(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    worked(place)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("lamina.cli.agents.time", SimpleNamespace(time=time.time, sleep=sleep))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    words = ["--home", str(place.home), "--project", str(place.project)]
    assert main(["agents", "list", "--watch", *words]) == 130
    shown = capsys.readouterr().out.split("\x1b[H\x1b[J")[1:]
    assert waits == [1, 1]
    assert len(shown) == 2
    for part in ("name", "state", "tokens", "cost", "age", "doing", "boss", "find it"):
        assert part in shown[0]


@pytest.mark.spec("L7.7")
def test_what_an_agent_said_is_found_by_meaning_and_names_the_session_and_the_agent(
    lamina: Run, place: Place
) -> None:
    model = ScriptedModel(["hello", agent("The retry budget of the uploader is seven."), "noted"])

    async def story() -> str:
        async with place.open(model, config=ON) as session:
            await session.ask("hi")
            await session.agents.start(Order("Find the limit.", name="anna"))
            return session.id

    name = run(story)
    words = ("sessions", "search", "retry budget uploader")
    [found] = lamina(*words, "--json").json
    assert (found["session"], found["agent"], found["who"]) == (name, "anna", "assistant")
    assert f"{name[:8]} " in lamina(*words).out
    assert " anna " in lamina(*words).out

    async def recalls() -> None:
        steps = [use("Recall", query="retry budget uploader", where="sessions"), "Seven."]
        async with place.open(steps) as session:
            await session.ask("What did it find?")
            assert f"Session {name}" in str(session.ledger.entries)
            assert "its agent anna" in str(session.ledger.entries)

    run(recalls)
    for file in place.home.rglob("agent-*.jsonl"):
        file.unlink()
    assert lamina(*words, "--json").json == []  # the index forgets what is gone


@pytest.mark.spec("L7.2", "I2")
def test_unknown_agents_are_named_with_the_known_ones_and_types_with_what_is_wrong(
    lamina: Run, place: Place
) -> None:
    worked(place)
    done = lamina("agents", "show", "carl")
    assert done.code == 2
    assert "Agents: boss, eye." in done.err
    write(place.home / "agents", "bad.md", "name: bad", "description: d", "tools: Fly")
    done = lamina("agents", "types")
    assert done.code == 0
    assert "explore" in done.out
    assert "tools that don't exist: Fly" in done.err


@pytest.mark.spec("L7.2", "L7.3")
def test_in_the_chat_agents_are_listed_written_to_and_stopped(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedModel([], otherwise={"agent": {"hang": True}})

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            await run_command(session, "/agents")
            assert "No agent" in capfd.readouterr().err
            await session.agents.start(Order("look", name="anna", background=True))
            while not asked(model):
                await anyio.lowlevel.checkpoint()
            await run_command(session, "/agents")
            assert "anna" in capfd.readouterr().out
            await run_command(session, "/agents send anna look at ports too")
            state = session.agents.find("anna").state
            assert state is not None
            assert state.queue == [("look at ports too", "typed")]
            await run_command(session, "/agents stop anna")
            while session.agents.running():
                await anyio.lowlevel.checkpoint()
            assert session.agents.find("anna").card.status == "cancelled"
            with pytest.raises(UsageError, match="/agents stop NAME"):
                await run_command(session, "/agents dance")
        async with place.open(["hi"]) as session:
            with pytest.raises(UsageError, match="Agents are off"):
                await run_command(session, "/agents")

    run(story)
