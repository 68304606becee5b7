"""History snip: finished rounds leave the view by the user's or the agent's word, and come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.layers.talks import NO_NOTES, answer, answers, model, question, summary, talk, view_text
from tests.sessions import Place, run, use

from lamina.errors import UsageError
from lamina.layers.snip import rounds
from lamina.ledger import joining
from lamina.models.scripted import Step


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.spec("L2.5")
def test_snipped_rounds_leave_one_line_and_the_rest_keeps_its_bytes(place: Place) -> None:
    async def story() -> None:
        async with place.open(model(answers(6)), config=NO_NOTES) as session:
            await talk(session, 5)
            before = list(session.view().messages)
            name = session.snip(2, 3, "measuring two ports")
            after = list(session.view().messages)
            assert after[:2] == before[:2]
            assert after[-3:] == before[-3:]
            shown = view_text(session)
            line = (
                "[2 finished rounds snipped: measuring two ports; "
                f"Expand {name[:8]} brings them back]"
            )
            assert line in shown
            assert answer(1) not in shown
            assert answer(2) not in shown
            edit = session.ledger.projection.entry(name)
            assert edit
            assert edit["first"] != edit["last"]  # it names both ends
            acted = [e for e in session.state.events if e.kind == "layer_acted"]
            assert acted[-1].tokens_saved > 5_000

    run(story)


@pytest.mark.spec("L2.5")
def test_undo_brings_the_bytes_back_and_expand_shows_them_meanwhile(place: Place) -> None:
    async def story() -> None:
        async with place.open(model(answers(6)), config=NO_NOTES) as session:
            await talk(session, 4)
            before = joining.request_bytes(session.view())
            first = session.snip(1, 1)
            second = session.snip(1, 1)  # counted anew: what is in view now
            assert answer(0) in session.state.tools.session.expand(first[:8])
            assert answer(1) in session.state.tools.session.expand(second[:8])
            assert question(0)[:40] in view_text(session)  # without words of its own, the question
            session.undo(first[:8])
            assert answer(0) in view_text(session)
            assert answer(1) not in view_text(session)
            assert session.undo() == second
            assert joining.request_bytes(session.view()) == before

    run(story)


@pytest.mark.spec("L2.5")
def test_the_agent_lists_and_snips_by_its_tool_and_its_own_round_stays(place: Place) -> None:
    async def story() -> None:
        steps = [
            *answers(3),
            use("Snip"),
            Step(
                use("Snip", first=1, last=2, what="old\nports"),
                {"last_result": ["1. Question 0", "4. tidy up"]},
            ),
            Step(
                use("Snip", first=2),
                {
                    "last_result": "Rounds 1 to 2 left the view",
                    "lacks": "w1q5 ",
                    "contains": "snipped: old ports",
                },
            ),
            Step("tidy", {"last_result": "can't be snipped", "contains": "w2q5 "}),
        ]
        async with place.open(model(steps), config=NO_NOTES) as session:
            await talk(session, 3)
            reply = await session.ask("tidy up")
            assert reply.text == "tidy"
            assert joining.calls_are_paired(list(session.view().messages)) == []

    run(story)


@pytest.mark.spec("L2.5")
@pytest.mark.parametrize("wanted", [(0, 1), (2, 1), (3, 3), (1, 9), (-1, 1)])
def test_what_is_no_finished_round_is_refused(place: Place, wanted: tuple[int, int]) -> None:
    async def story() -> None:
        async with place.open(model(answers(4)), config=NO_NOTES) as session:
            await talk(session, 3)
            before = joining.request_bytes(session.view())
            with pytest.raises(UsageError, match="has 2 finished rounds in view"):
                session.snip(*wanted)
            assert joining.request_bytes(session.view()) == before

    run(story)


@pytest.mark.spec("L2.5")
def test_switched_off_it_is_refused(place: Place) -> None:
    async def story() -> None:
        config = {**NO_NOTES, "snip.enabled": False}
        async with place.open(model(answers(4)), config=config) as session:
            await talk(session, 3)
            with pytest.raises(UsageError, match=r"snip\.enabled"):
                session.snip(1, 1)

    run(story)


@pytest.mark.spec("L2.5", "L4.2")
def test_a_summary_keeps_the_line_and_does_not_bring_the_snipped_words_back(place: Place) -> None:
    async def story() -> None:
        async with place.open(model(answers(9), summary=summary()), config=NO_NOTES) as session:
            await talk(session, 8)
            session.snip(2, 3, "two ports")
            await session.compact()
            shown = view_text(session)
            assert "2 finished rounds snipped: two ports" in shown
            assert question(1) not in shown
            assert question(3) in shown
            session.undo_compact()
            assert question(1) not in view_text(session)
            assert len(rounds(session.state)) == 6

    run(story)


@pytest.mark.spec("L2.5")
def test_a_message_queued_in_a_turn_begins_no_round_that_parts_a_call(place: Place) -> None:
    async def story() -> None:
        (place.project / "a.txt").write_text("alpha")
        session: Any
        steps = [use("Read", file_path="a.txt"), "one", "two", "three"]

        def interrupt(told: Any) -> None:
            session.queue("and also this")

        async with place.open(
            model(steps), config=NO_NOTES, hooks={"PreToolUse": interrupt}
        ) as session:
            await session.ask("first")
            await session.ask("second")
            for n in range(1, len(rounds(session.state))):
                session.snip(1, 1, f"round {n}")
                assert joining.calls_are_paired(list(session.view().messages)) == []

    run(story)
