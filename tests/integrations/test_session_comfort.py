"""A session in a program of one's own (I1): awaited, streamed, typed, and plain about mistakes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, get_args

import pytest

import lamina
from lamina.errors import UsageError
from lamina.events import EVENTS, AnyEvent, TextDelta

pytestmark = pytest.mark.spec("I1")


@pytest.fixture
def place(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "shop").mkdir()
    return {"project": tmp_path / "shop", "home": tmp_path / "home", "model": "none"}


def test_a_session_lives_from_one_await_to_another_in_other_tasks(place: dict[str, Any]) -> None:
    async def cells() -> None:
        loop = asyncio.get_running_loop()
        opened = lamina.Session.open(**place)

        async def first() -> lamina.Session:
            return await opened

        session = await loop.create_task(first())  # each cell of a notebook is a task of its own
        reply = await loop.create_task(session.ask("hello"))
        assert reply.text
        await loop.create_task(session.close())
        with pytest.raises(lamina.LaminaError):
            await session.ask("still there?")

    asyncio.run(cells())


def test_a_session_that_cannot_be_opened_says_so_where_it_is_awaited(place: dict[str, Any]) -> None:
    async def cell() -> None:
        await lamina.Session.open(**{**place, "project": place["project"] / "nowhere"})

    with pytest.raises(UsageError, match="not a directory"):
        asyncio.run(cell())


def test_a_turn_can_be_streamed(place: dict[str, Any]) -> None:
    async def work() -> None:
        async with lamina.Session.open(**place) as session:
            events = [event async for event in session.stream("hello")]
            assert "".join(one.text for one in events if isinstance(one, TextDelta))
            assert events[-1].kind == "turn_ended"
            with pytest.raises(UsageError, match="empty"):
                await anext(session.stream(" "))
            assert (await session.ask("hello again")).text

    asyncio.run(work())
    with lamina.Session.open(**place) as session:
        assert [event.kind for event in session.stream("hello")][-1] == "turn_ended"


def test_leaving_a_stream_early_ends_the_turn(place: dict[str, Any]) -> None:
    async def work() -> None:
        async with lamina.Session.open(**place) as session:
            stream = session.stream("hello")
            async for _ in stream:
                break
            await stream.aclose()
            assert (await session.ask("hello again")).text

    asyncio.run(work())


def test_what_a_program_hears_is_remembered_if_it_asks_for_that(place: dict[str, Any]) -> None:
    said = "I am a nurse, and I prefer tabs over spaces in all my files."
    with lamina.Session.open(**place) as session:
        assert "For this session only" in session.ask(said).text
    with lamina.Memory(place["project"], home=place["home"]) as memory:
        assert memory.all() == []
    with lamina.Session.open(**place, remember=True) as session:
        assert "only" not in session.ask(said).text
    with lamina.Memory(place["project"], home=place["home"]) as memory:
        assert memory.all() != []


def test_what_a_tool_saved_and_extraction_heard_waits_once(place: dict[str, Any]) -> None:
    config = {"memory.inbox_all": True}
    with lamina.Session.open(**place, config=config, remember=True) as session:
        session.ask("Remember that deploys never happen on Fridays.")
    (shown,) = (place["home"]).glob("projects/*/*/inbox/*.json")
    assert "never happen on Fridays" in shown.read_text("utf-8")


def test_a_tool_is_still_the_function_it_was() -> None:
    @lamina.tool
    def stock(item: str) -> int:
        """How many of an item are in stock."""
        return {"tea": 12}.get(item, 0)

    assert stock("tea") == 12
    assert stock.spec.name == "stock"


def test_the_view_is_plain_json(place: dict[str, Any]) -> None:
    with lamina.Session.open(**place) as session:
        session.ask("hello")
        assert "hello" in json.dumps(session.view().messages)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"model": 5}, "`model` can't be a int"),
        ({"config": 5}, "`config` can't be a int"),
        ({"memory": 5}, "`memory` can't be a int"),
        ({"ask": "yes"}, "`ask` can't be a str"),
        ({"tools": [5]}, "can't be a tool"),
        ({"tools": 5}, "`tools` can't be a int"),
        ({"hooks": 5}, "`hooks` can't be a int"),
        ({"project": 5}, "`project` can't be a int"),
        ({"home": 5}, "`home` can't be a int"),
    ],
)
def test_a_wrong_object_gets_a_sentence(
    place: dict[str, Any], wrong: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        lamina.Session.open(**{**place, **wrong}).__enter__()


def test_the_kind_of_an_event_tells_a_type_checker_its_fields() -> None:
    def words(event: AnyEvent) -> str:  # as in `cli/sessions.py`, which `make check` looks at
        return event.text if event.kind == "text_delta" else ""

    assert words(TextDelta("a")) == "a"
    assert {kind: one.__name__ for kind, one in EVENTS.items()} == {
        one.kind: one.__name__ for one in get_args(AnyEvent)
    }


def test_a_host_s_own_kind_of_event_takes_no_other_s_place() -> None:
    class Shouted(TextDelta):
        loud: bool = True

    assert EVENTS["text_delta"] is TextDelta
    assert Shouted("hey").to_json() == {"kind": "text_delta", "text": "hey", "loud": True}


def test_a_session_that_was_not_entered_says_how(place: dict[str, Any]) -> None:
    opening: Any = lamina.Session.open(**place)
    with pytest.raises(AttributeError, match="not open; enter it by `with`"):
        opening.ask("Hello.")
    assert not hasattr(opening, "view")
