"""The line that says what a running agent is doing."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.agents.test_agents import ON, agent, asked
from tests.sessions import Place, run, use

from lamina.agents import roster, summary
from lamina.agents.runner import Order
from lamina.models.scripted import ScriptedModel, Step
from lamina.tools.registry import words_for

CONFIG = {**ON, "model": "scripted", "small_model": "scripted"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.spec("L7.6")
def test_the_last_tool_call_says_it_where_no_model_does() -> None:
    assert words_for("Read", {"file_path": "/a/b/runner.py"}) == "Reading runner.py"
    assert words_for("Grep", {"pattern": "def start"}) == "Searching for def start"
    assert words_for("Todo", {}) == "Using Todo"


@pytest.mark.spec("L7.6")
@pytest.mark.parametrize(
    ("line", "holds"),
    [
        ("Reading limits in runner.py", True),
        ("Investigating the issue", False),  # names nothing
        ("Analyzed runner.py for limits", False),  # not what it is doing now
        ("Reading runner.py", False),  # two words
        ("Reading the whole of runner.py with care", False),
    ],
)
def test_a_line_is_three_to_five_words_in_the_present_and_names_what_it_is_at(
    line: str, holds: bool
) -> None:
    assert summary.fits(line, "Reading runner.py") == holds


@pytest.mark.spec("L7.6")
def test_a_look_costs_one_small_call_in_thirty_seconds_and_none_if_nothing_happened(
    place: Place,
) -> None:
    (place.project / "runner.py").write_text("x")
    model = ScriptedModel(
        [
            agent(use("Read", file_path="runner.py")),
            agent({"hang": True}),
            Step("Reading limits in runner.py.", purpose="agent_summary"),
        ]
    )

    async def story() -> None:
        async with place.open(model, config=CONFIG) as session:
            one = await session.agents.start(Order("look", name="anna", background=True))
            while len(asked(model)) < 2:
                await anyio.lowlevel.checkpoint()
            assert (one.line or one.doing) == "Reading runner.py"
            for _ in range(3):
                await summary.refresh(session.agents)
                place.clock.at += 60  # nothing happened meanwhile
            assert (one.line or one.doing) == "Reading limits in runner.py"
            [call] = [r for r in model.requests if r.purpose == "agent_summary"]
            assert list(call.tools) == []
            spent = [row["purpose"] for row in session.state.deps.spend.calls()]
            assert spent.count("agent_summary") == 1
            one.rounds += 1
            await summary.refresh(session.agents)  # the script is over: an error is no line
            assert (one.line or one.doing) == "Reading runner.py"
            session.agents.stop_all()

    run(story)


@pytest.mark.spec("L7.6")
@pytest.mark.parametrize("look", ["status line", "table of another process", "nobody"])
def test_whoever_shows_an_agent_s_line_has_it_brought_up_to_date(place: Place, look: str) -> None:
    (place.project / "runner.py").write_text("x")
    model = ScriptedModel(
        [
            agent(use("Read", file_path="runner.py")),
            agent({"hang": True}),
            Step("Reading limits in runner.py", purpose="agent_summary"),
        ]
    )

    async def story() -> None:
        async with place.open(model, config=CONFIG) as session:
            roster.ledger_path(session.folder, "x").parent.mkdir(parents=True)
            if look == "table of another process":
                roster.look(session.folder)
            one = await session.agents.start(Order("look", name="anna", background=True))
            while len(asked(model)) < 2:
                await anyio.lowlevel.checkpoint()
            if look == "status line":
                assert summary.shown(session.agents) == ["anna: Reading runner.py"]
            for _ in range(300):
                await anyio.lowlevel.checkpoint()
            line = "Reading runner.py" if look == "nobody" else "Reading limits in runner.py"
            assert summary.shown(session.agents) == [f"anna: {line}"]
            assert roster.live_card(session.folder, one.card)[1] == line
            session.agents.stop_all()

    run(story)
