"""The front of the library, as a host's program uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.sessions import Place, run, use

from lamina.errors import (
    LaminaError,
    ModelConfigError,
    ModelError,
    SessionBusy,
    SettingsError,
    UsageError,
)
from lamina.messages import text_of
from lamina.session import Session


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


BAD: list[tuple[dict[str, Any], type[LaminaError]]] = [
    ({"model": "nobody:x"}, ModelConfigError),
    ({"model": "none", "config": {"small_model": "nobody:x"}}, ModelConfigError),
    ({"model": "none", "hooks": {"BeforeTool": print}}, SettingsError),
    ({"model": "none", "tools": [3]}, UsageError),
]


@pytest.mark.spec("I1")
@pytest.mark.parametrize(("wishes", "kind"), BAD)
def test_what_can_not_be_opened_is_a_plain_error_and_leaves_no_session(
    place: Place, wishes: dict[str, Any], kind: type[LaminaError]
) -> None:
    model = wishes["model"]
    others = {name: value for name, value in wishes.items() if name != "model"}

    async def story() -> None:
        async with place.open(model, **others):
            pytest.fail("it opened")

    with pytest.raises(kind):
        run(story)
    with pytest.raises(kind), place.open(model, **others):
        pytest.fail("it opened")
    assert list(place.home.rglob("*.jsonl")) == []


@pytest.mark.spec("F11", "I1")
def test_a_turn_that_failed_leaves_nothing_to_cancel(place: Place) -> None:
    async def story() -> None:
        async with place.open([{"error": "overloaded", "message": "no"}, "Better."]) as session:
            with pytest.raises(ModelError):
                await session.ask("Hello")
            assert session.cancel() is False
            assert (await session.ask("Again")).text == "Better."

    run(story)


@pytest.mark.spec("F11", "F13")
def test_a_hook_that_keeps_a_message_waiting_can_be_cancelled(place: Place) -> None:
    async def story() -> None:
        waiting = anyio.Event()

        async def slow(_: Any) -> None:
            waiting.set()
            await anyio.sleep_forever()

        async with place.open(["Hi."], hooks={"UserPromptSubmit": slow}) as session:
            async with anyio.create_task_group() as group:

                async def stop() -> None:
                    await waiting.wait()
                    assert session.cancel()

                group.start_soon(stop)
                assert (await session.ask("Hello")).stop == "cancelled"
            assert session.view().messages == []

    run(story)


@pytest.mark.spec("I1")
def test_the_model_is_not_changed_under_a_running_turn(place: Place) -> None:
    async def story() -> None:
        refused: list[str] = []

        async def change(_: Any) -> None:
            with pytest.raises(UsageError) as caught:
                await opened[0].set_model("none")
            refused.append(str(caught.value))

        opened: list[Session] = []
        async with place.open(["Hi."], hooks={"UserPromptSubmit": change}) as session:
            opened.append(session)
            assert (await session.ask("Hello")).text == "Hi."
        assert refused == ["A turn is running; wait for it, or cancel it."]

    run(story)


class Stop(BaseException):
    """As KeyboardInterrupt, which the event loop would not let pass."""


@pytest.mark.spec("F11", "F1")
def test_an_interrupted_session_does_not_wait_for_its_background(place: Place) -> None:
    async def story() -> None:
        async def begun() -> None:
            async with place.open(["Hi."], session_id="one") as session:
                session.state.background.start("dream", anyio.sleep_forever)
                raise Stop

        with pytest.raises(Stop):
            await begun()
        async with place.open(["Hi."], session_id="one") as session:
            job = session.ledger.job("dream")
            assert job is not None
            assert job["status"] == "deferred"

    run(story)


@pytest.mark.spec("F1")
def test_a_session_that_this_program_has_open_says_so(place: Place) -> None:
    async def story() -> None:
        async with place.open(["Hi."], session_id="one"):
            with pytest.raises(SessionBusy, match="open already in this program"):
                await place.open(["Hi."], session_id="one").__aenter__()
        async with place.open(["Hi."], session_id="one"):
            pass  # closed, it can be opened again

    run(story)


@pytest.mark.spec("F7", "F13")
def test_alone_a_skills_own_files_are_read_and_nothing_else_of_the_home(place: Place) -> None:
    named = place.home.parent / "skills"
    for folder in (place.home / "skills" / "ours", named / "theirs"):
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text("---\nname: x\ndescription: y\n---\nSee list.md.\n")
        (folder / "list.md").write_text("the list")
    (place.home / "private.txt").write_text("CANARY")
    wanted = [
        place.home / "skills/ours/list.md", named / "theirs/list.md", place.home / "private.txt"
    ]  # fmt: skip

    async def story() -> list[str]:
        steps = [*(use("Read", file_path=str(one)) for one in wanted), "done"]
        config = {"skills.directories": [str(named)]}
        async with place.open(steps, config=config) as session:
            await session.ask("read them")
            found = [e for e in session.ledger.entries if e.get("tool") == "Read"]
            return [text_of(e["content"][0]["content"]) for e in found]

    said = run(story)
    assert all("the list" in one for one in said[:2]), said
    assert "sandbox.unattended_reach" in said[2]
