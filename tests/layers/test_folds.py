"""Folds in a session: before the first sending, never afterwards, and what they point at stays or they go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.reach import markers
from tests.sessions import Place, run, use

from lamina.messages import text_of
from lamina.models.scripted import ScriptedModel, Step

FILE = "".join(
    f"def step_{n}(value):  # what is done in step {n}\n    return value + {n}\n\n"
    for n in range(60)
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    (place.project / "steps.py").write_text(FILE)
    return place


def shown(session: Any) -> list[str]:
    return [
        text_of(block["content"])
        for message in session.view().messages
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]


def read(place: Place, name: str) -> dict[str, Any]:
    return use("Read", name, file_path=str(place.project / "steps.py"))


@pytest.mark.spec("L1.6", "L1.3")
def test_a_file_that_is_read_again_is_folded_and_expand_gives_every_byte(place: Place) -> None:
    async def story() -> None:
        steps = [
            read(place, "r0"),
            "first",
            read(place, "r1"),
            Step("second", {"prefix": True, "contains": "[lines 1-180 as in Read of "}),
            use("Expand", "x0", id="r1", limit=10_000),
            Step("third", {"prefix": True}),
        ]
        async with place.open(steps) as session:
            for words in ("look", "look again", "show it"):
                reply = await session.ask(words)
            whole, folded, expanded = shown(session)
            assert len(folded) < 200 < len(whole)
            assert expanded == whole.removesuffix("\n")  # what was asked for is not folded
            assert session.state.tools.session.expand("r1") == whole
            assert markers(session.ledger) == (1, [])
            assert reply.text == "third"

    run(story)


@pytest.mark.spec("L1.6", "L2.1")
def test_when_what_it_points_at_is_cleared_a_fold_is_whole_again_in_the_same_request(
    place: Place,
) -> None:
    (place.project / "other.py").write_text(FILE.replace("step", "part"))

    async def story() -> None:
        other = use("Read", "o", file_path=str(place.project / "other.py"))
        steps = [other, read(place, "r0"), "a", read(place, "r1"), "b", "c"]
        async with place.open(steps, config={"microcompact.keep": 1}) as session:
            await session.ask("look")
            await session.ask("look again")
            _, whole, folded = shown(session)
            assert "as in Read of" in folded
            place.clock.at += 10_000
            await session.ask("go on")
            *cleared, again = shown(session)
            marker = "[Old tool result content cleared; Expand "
            assert [words.startswith(marker) for words in cleared] == [True, True]
            assert again == whole
            name = session.id
        async with place.open(["d"], session_id=name) as session:
            assert shown(session) == [*cleared, whole]
            assert markers(session.ledger)[1] == []

    run(story)


@pytest.mark.spec("L1.6", "L2.1")
def test_nothing_is_cleared_where_as_much_would_come_back(place: Place) -> None:
    async def story() -> None:
        steps = [read(place, "r0"), "a", read(place, "r1"), "b", "c"]
        async with place.open(steps, config={"microcompact.keep": 1}) as session:
            await session.ask("look")
            await session.ask("look again")
            before = shown(session)
            place.clock.at += 10_000
            await session.ask("go on")
            assert shown(session) == before

    run(story)


@pytest.mark.spec("L1.6", "F1")
def test_a_resumed_session_folds_into_what_the_first_one_showed(place: Place) -> None:
    async def story() -> None:
        async with place.open([read(place, "r0"), "a"]) as session:
            await session.ask("look")
            name = session.id
        async with place.open([read(place, "r1"), "b"], session_id=name) as session:
            await session.ask("again")
            assert "as in Read of" in shown(session)[1]

    run(story)


@pytest.mark.spec("L1.6", "F8")
def test_switched_off_nothing_is_folded_and_nothing_is_noted(place: Place) -> None:
    async def story() -> None:
        model = ScriptedModel([read(place, "r0"), read(place, "r1"), "a"])
        async with place.open(model, config={"folds.enabled": False}) as session:
            await session.ask("look twice")
            assert session.state.folding is None
            first, second = shown(session)
            assert first == second
            assert not [e for e in session.ledger.entries if e["kind"] == "edit"]

    run(story)


@pytest.mark.spec("L1.6")
def test_the_user_s_own_words_stay_as_they_are(place: Place) -> None:
    async def story() -> None:
        async with place.open([read(place, "r0"), "a", "b"]) as session:
            await session.ask(FILE)
            await session.ask(FILE)
            said = [b for m in session.view().messages for b in m["content"] if b["type"] == "text"]
            assert [block["text"] for block in said].count(FILE) == 2

    run(story)
