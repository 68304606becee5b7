"""Context collapse: finished rounds are staged without effect, then folded one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.layers.talks import (
    NO_NOTES,
    SMALL,
    answer,
    answers,
    filler,
    model,
    question,
    summary,
    talk,
    view_text,
)
from tests.sessions import Place, run, use

from lamina.layers import collapse
from lamina.ledger import joining
from lamina.models.scripted import Step

ON = {**NO_NOTES, "collapse.enabled": True}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def staged(session: Any) -> list[Any]:
    return [entry for entry in session.ledger.entries if entry["kind"] == "staged"]


def folds(session: Any) -> list[Any]:
    return [
        entry
        for entry in session.ledger.entries
        if entry["kind"] == "edit" and entry["layer"] == "collapse"
    ]


async def fill(session: Any, percent: float) -> int:
    """Talk until the view at the next call is over this share of the effective window."""
    n = 0
    while 100 * session.ledger.tokens() / session.state.window.effective < percent:
        await talk(session, 1, first=n)
        n += 1
    return n


@pytest.mark.spec("L4.10")
def test_from_seventy_percent_on_rounds_are_staged_without_effect(place: Place) -> None:
    async def story() -> None:
        async with place.open(model(answers(30)), config=ON) as session:
            count = await fill(session, 70)
            assert not staged(session)
            before = list(session.view().messages)
            await talk(session, 1, first=count)
            assert len(staged(session)) == count - 1  # the newest two rounds are never staged
            for n, entry in enumerate(staged(session)):  # from its question to its answer
                assert question(n)[:20] in entry["text"]
                assert answer(n)[:20] in entry["text"]
            assert not folds(session)
            assert list(session.view().messages)[: len(before)] == before
            await talk(session, 1, first=count + 1)
            assert len(staged(session)) == count  # one more finished; none is staged twice

    run(story)


@pytest.mark.spec("L4.10")
def test_at_ninety_percent_each_fold_takes_effect_and_autocompaction_stays_off(
    place: Place,
) -> None:
    async def story() -> None:
        scripted = model(answers(40))
        async with place.open(scripted, config=ON) as session:
            count = await fill(session, 90)
            assert session.ledger.tokens() > session.state.window.autocompact
            [reply] = await talk(session, 1, first=count)
            assert folds(session)
            assert not [r for r in scripted.requests if r.purpose == "summary"]
            [acted] = [e for e in reply.events if e.kind == "layer_acted"]
            assert acted.layer == "collapse"
            assert acted.count == len(folds(session))
            assert session.ledger.tokens() < SMALL.window / 2
            shown = view_text(session)
            assert shown.count("[A finished round, folded; Expand ") == len(folds(session))
            assert question(0) in shown
            assert answer(0) not in shown
            [broke] = [e for e in reply.events if e.kind == "cache_broke"]
            assert broke.registered
            assert "collapse" in broke.cause

    run(story)


@pytest.mark.spec("L4.10")
def test_each_fold_can_be_expanded_and_undone_and_stays_undone(place: Place) -> None:
    async def story() -> None:
        async with place.open(model(answers(40)), config=ON) as session:
            count = await fill(session, 90)
            await talk(session, 1, first=count)
            first = folds(session)[0]
            assert answer(0) in session.state.tools.session.expand(first["uuid"][:8])
            session.undo(first["uuid"][:8])
            assert answer(0) in view_text(session)
            assert answer(1) not in view_text(session)
            collapse.stage(session.state)
            collapse.commit(session.state)
            assert answer(0) in view_text(session)

    run(story)


@pytest.mark.spec("L4.10", "F11")
def test_a_refused_prompt_commits_all_that_is_staged(place: Place) -> None:
    async def story() -> None:
        steps = [*answers(11), Step({"error": "prompt_too_long"}), "after all"]
        async with place.open(model(steps), config=ON) as session:
            await talk(session, 11)
            assert staged(session)
            assert not folds(session)
            reply = await session.ask("now?")
            assert reply.text == "after all"
            [recovered] = [e for e in reply.events if e.kind == "prompt_recovered"]
            assert "finished rounds folded" in recovered.how
            assert len(folds(session)) == len(staged(session))

    run(story)


@pytest.mark.spec("L4.10")
def test_a_resume_shows_the_same_bytes_and_goes_on_with_what_is_staged(place: Place) -> None:
    async def story() -> None:
        async with place.open(model(answers(40)), config=ON) as session:
            count = await fill(session, 70)
            await talk(session, 1, first=count)
            name, before = session.id, joining.request_bytes(session.view())
            waiting = [e["uuid"] for e in collapse.pending(session.state)]
            assert waiting
        async with place.open(model([]), config=ON, session_id=name) as session:
            assert joining.request_bytes(session.view()) == before
            assert [e["uuid"] for e in collapse.pending(session.state)] == waiting
            assert collapse.commit(session.state)
            assert collapse.pending(session.state) == []

    run(story)


@pytest.mark.spec("L4.10")
def test_off_nothing_is_staged(place: Place) -> None:
    async def story() -> None:
        config = {**NO_NOTES, "compact.auto": False}
        async with place.open(model(answers(40)), config=config) as session:
            await fill(session, 85)
            assert not staged(session)

    run(story)


@pytest.mark.spec("L4.10", "L4.1")
@pytest.mark.parametrize("collapsing", [True, False])
def test_one_long_job_folds_its_calls_and_comes_to_its_end(
    place: Place, *, collapsing: bool
) -> None:
    for n in range(40):
        (place.project / f"part{n}.txt").write_text(filler(n, 3_000).replace("00 ", "00\n"))

    async def story() -> None:
        work = [use("Read", f"call_{n}", file_path=f"part{n}.txt") for n in range(40)]
        scripted = model([*work, "all read"], summary=summary())
        config = {**NO_NOTES, "collapse.enabled": collapsing, "microcompact.worn": False}
        async with place.open(scripted, config=config) as session:
            reply = await session.ask("Read all parts, one by one.")
            assert (reply.text, reply.stop) == ("all read", "end_turn")
            assert bool(folds(session)) == collapsing
            if collapsing:
                assert "Read part0.txt" in view_text(session)
                assert "w39q5" in view_text(session)
                assert filler(0, 20) in session.state.tools.session.expand(
                    folds(session)[0]["uuid"]
                )

    run(story)


@pytest.mark.spec("L4.10")
def test_where_nothing_can_be_folded_autocompaction_is_the_net(place: Place) -> None:
    async def story() -> None:
        scripted = model([*answers(1, 47_000), "short"], summary=summary())
        async with place.open(scripted, config=ON) as session:
            _, reply = await talk(session, 2)
            assert reply.stop == "end_turn"
            assert [e.layer for e in reply.events if e.kind == "layer_acted"] == ["compaction"]

    run(story)
