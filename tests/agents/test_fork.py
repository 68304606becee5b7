"""The fork: the parent's prompt byte for byte, own state, refusals at run time, no fork of a fork."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sessions import Place, run, use

from lamina.agents.fork import PLACEHOLDER, TAG, Forks
from lamina.errors import UsageError
from lamina.events import Event
from lamina.ledger import joining, log
from lamina.messages import Json
from lamina.models.scripted import ScriptedModel, Step
from lamina.ports import Decision, ToolContext, ToolSpec


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def reads_only(spec: Any, input: Any, context: Any) -> Decision:
    return Decision(spec.read_only, "a fork only reads")


@pytest.mark.spec("L7.1")
def test_a_fork_sends_its_parent_s_prompt_then_one_message(place: Place) -> None:
    model = ScriptedModel(["hello", Step("a summary", purpose="summary")])

    async def story() -> None:
        async with place.open(model) as session:
            await session.ask("hi")
            before = joining.request_bytes(session.view())
            assert session.state.fork
            result = await session.state.fork(
                "Sum it up.", purpose="summary", permit=reads_only, max_calls=3
            )
            assert (result.text, result.stop, result.calls) == ("a summary", "end_turn", 1)
            assert result.usage.cache_read > 0.9 * result.usage.prompt
            assert joining.request_bytes(session.view()) == before
            parent, fork = model.requests
            assert list(fork.system) == list(parent.system)
            assert list(fork.tools) == list(parent.tools)
            assert list(fork.messages)[: len(parent.messages)] == list(parent.messages)
            assert "Sum it up." in fork.messages[-1]["content"][0]["text"]
            assert fork.messages[-1]["content"][0]["text"].startswith(f"<{TAG}>")
            assert TAG not in str(parent.messages)
            path = session.folder.with_suffix(".jsonl")
        assert "Sum it up" not in str(log.read(path).entries)  # no transcript of its own
        spent = list(session.state.deps.spend.calls())
        assert [row["purpose"] for row in spent] == ["main", "summary"]

    run(story)


@pytest.mark.spec("L7.1")
def test_open_calls_get_the_same_placeholder_before_the_directive(place: Place) -> None:
    calls = [{"name": "Glob", "input": {"pattern": "*"}, "id": f"c{n}"} for n in range(2)]
    model = ScriptedModel(
        [{"text": "looking", "tool_use": calls}, Step("noted", purpose="notes"), "done"]
    )

    async def story() -> None:
        seen: list[Any] = []

        async def fork_now(told: Any) -> None:
            if not seen:
                seen.append(told)
                start = Forks(session.state)
                await start("Take notes.", purpose="notes", permit=reads_only, max_calls=1)

        async with place.open(model, hooks={"PreToolUse": fork_now}) as session:
            await session.ask("go")
        fork = model.requests[1]
        assert [b.get("content") for b in fork.messages[-1]["content"][:2]] == [PLACEHOLDER] * 2
        assert fork.messages[-1]["content"][2]["type"] == "text"
        assert [b["type"] for b in fork.messages[-2]["content"]] == ["text", "tool_use", "tool_use"]

    run(story)


@pytest.mark.spec("L7.1")
def test_tasks_and_view_stay_the_parents_whatever_the_fork_may_do(place: Place) -> None:
    task = {"content": "ship it", "status": "pending"}
    steps = [
        use("Todo", todos=[task]),
        "noted",
        Step(use("Todo", todos=[]), purpose="notes"),
        Step(use("Snip", first=1), {"last_result": "keeps no list of tasks"}, purpose="notes"),
        Step("gave up", {"last_result": "Nothing can be snipped"}, purpose="notes"),
    ]

    async def anything(spec: ToolSpec, input: Json, context: ToolContext) -> Decision:
        return Decision(allow=True)

    async def story() -> None:
        async with place.open(steps) as session:
            await session.ask("remember the task")
            before = joining.request_bytes(session.view())
            result = await Forks(session.state)(
                "Clear it.", purpose="notes", permit=anything, max_calls=5
            )
            assert result.text == "gave up"
            assert session.state.tools.session.todos(None) == [task]
            assert joining.request_bytes(session.view()) == before

    run(story)


@pytest.mark.spec("L7.1")
def test_its_permission_function_refuses_at_run_time_and_state_is_its_own(place: Place) -> None:
    (place.project / "a.txt").write_text("one")
    steps = [
        use("Read", file_path="a.txt"),
        "read",
        Step(use("Edit", file_path="a.txt", old_string="one", new_string="two"), purpose="notes"),
        Step(use("Read", file_path="a.txt"), {"last_result": "a fork only reads"}, purpose="notes"),
        Step("gave up", {"last_result": "one"}, purpose="notes"),
    ]

    async def story() -> None:
        async with place.open(steps) as session:
            await session.ask("read it")
            files = dict(session.state.tools.files)
            assert session.state.fork
            result = await session.state.fork(
                "Change it.", purpose="notes", permit=reads_only, max_calls=5
            )
            assert result.text == "gave up"
            assert [line.split(":")[0] for line in result.refused] == ["Edit"]
            assert session.state.tools.files == files
            assert (place.project / "a.txt").read_text() == "one"

    run(story)


@pytest.mark.spec("L7.1")
def test_it_ends_at_its_limit_of_calls_and_can_t_fork(place: Place) -> None:
    model = ScriptedModel(["hi"], otherwise={"notes": use("Glob", pattern="*")})

    async def story() -> None:
        async with place.open(model) as session:
            await session.ask("hi")
            assert session.state.fork
            result = await session.state.fork(
                "Loop.", purpose="notes", permit=reads_only, max_calls=3
            )
            assert (result.stop, result.calls) == ("max_calls", 3)
            from lamina.agents.fork import branch_of

            child = branch_of(session.state, "notes", reads_only, 1)
            with pytest.raises(UsageError, match="can't fork"):
                await Forks(child)("again", purpose="notes", permit=reads_only, max_calls=1)

    run(story)


@pytest.mark.spec("F10", "L7.1")
def test_a_cap_stops_it_before_the_first_call_with_one_sentence(place: Place) -> None:
    model = ScriptedModel(["hi", "ho"], otherwise={"notes": "never"})

    async def story() -> None:
        config = {
            "spend.layer_caps": {"notes": 0.000001},
            "prices": {"scripted": {"input": 5.0, "output": 5.0}},
        }
        async with place.open(model, config=config) as session:
            await session.ask("hi")
            state = session.state
            from lamina.messages import Usage

            state.deps.spend.book(
                purpose="notes",
                model="scripted",
                usage=Usage(input=10**6),
                session="s",
                at=place.clock.now(),
            )
            for _ in range(3):
                result = await Forks(state)("x", purpose="notes", permit=reads_only, max_calls=1)
                assert result.stop == "refused"
            said = [e for e in state.events if e.kind == "warned" and "cap" in e.message]
            assert len(said) == 1
            assert len(model.requests) == 1
            assert (await session.ask("ho")).text == "ho"

    run(story)


@pytest.mark.spec("F10", "L7.1")
def test_the_call_that_reaches_a_cap_is_the_last_one(place: Place) -> None:
    reads = use("Read", file_path=str(place.project / "a.txt"))
    model = ScriptedModel(["hi"], otherwise={"dream": reads})
    config = {
        "spend.layer_caps": {"dream": 0.000001},
        "prices": {"scripted": {"input": 5.0, "output": 5.0}},
    }

    async def story() -> None:
        async with place.open(model, config=config) as session:
            await session.ask("hi")
            state = session.state
            result = await Forks(state)("x", purpose="dream", permit=reads_only, max_calls=30)
            assert (result.stop, result.calls) == ("refused", 1)
            assert "cap" in result.error
            assert sum(e.kind == "warned" and "cap" in e.message for e in state.events) == 1

    run(story)


@pytest.mark.spec("F10", "L7.1")
def test_that_a_cap_is_spent_is_not_said_again_after_a_restart_but_on_another_day(
    place: Place,
) -> None:
    config = {
        "spend.layer_caps": {"notes": 0.000001},
        "prices": {"scripted": {"input": 5.0, "output": 5.0}},
    }

    async def tried(name: str) -> int:
        model = ScriptedModel([], otherwise={"notes": "a word"})
        heard: list[Event] = []
        wishes = {"session_id": name, "resume": True} if name else {"session_id": "once"}
        async with place.open(model, config=config, on_event=heard.append, **wishes) as session:
            for _ in range(2):
                await Forks(session.state)("x", purpose="notes", permit=reads_only, max_calls=1)
        return sum(event.kind == "warned" for event in heard)

    assert run(tried, "") == 1
    assert run(tried, "once") == 0
    place.clock.at += 86_400
    assert run(tried, "once") == 1


@pytest.mark.spec("L7.1")
def test_an_error_of_the_model_comes_back_as_a_value(place: Place) -> None:
    async def story() -> None:
        async with place.open(["hi", Step({"error": "unreachable"}, purpose="notes")]) as session:
            await session.ask("hi")
            result = await Forks(session.state)(
                "x", purpose="notes", permit=reads_only, max_calls=1
            )
            assert result.stop == "error"
            assert result.error

    run(story)
