"""The turn: rounds of calls and tools, recovery, cancellation at any moment, resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.sessions import Place, run, use

from lamina.errors import ModelUnreachable, PromptTooLong, SessionBusy, UsageError
from lamina.ledger import joining, log
from lamina.models.scripted import ScriptedModel, Step
from lamina.ports import Capabilities, ToolOutcome, ToolSpec
from lamina.session import Session


class Probe:
    """A host's tool whose behaviour a test decides."""

    def __init__(self, work: Any, name: str = "Probe", **spec: Any) -> None:
        self.spec = ToolSpec(name, "probe", {"type": "object"}, read_only=True, **spec)
        self._work = work

    async def run(self, input: Any, context: Any) -> ToolOutcome:
        result = await self._work(input)
        return result if isinstance(result, ToolOutcome) else ToolOutcome(result)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def kinds(reply: Any) -> list[str]:
    return [event.kind for event in reply.events if event.kind != "background_changed"]


@pytest.mark.spec("F11", "I1")
def test_a_question_is_answered_with_tools_and_all_of_it_is_in_the_ledger(place: Place) -> None:
    (place.project / "a.txt").write_text("forty-two")
    steps = [
        Step(use("Read", file_path="a.txt"), {"last_user": "what is in a.txt", "tools": ["Read"]}),
        Step("It says forty-two.", {"last_result": "forty-two", "prefix": True}),
    ]

    async def story() -> None:
        heard: list[str] = []
        async with place.open(steps, on_event=lambda e: heard.append(e.kind)) as session:
            reply = await session.ask("what is in a.txt")
            assert (reply.text, reply.stop) == ("It says forty-two.", "end_turn")
            assert kinds(reply) == [
                "turn_started",
                "model_called",
                "tool_started",
                "tool_finished",
                "model_called",
                "turn_ended",
            ]
            assert "text_delta" in heard
            assert reply.usage.output > 0
            assert session.status().cache_hit_rate
        entries = log.read(session.ledger.entries and session.folder.with_suffix(".jsonl")).entries
        assert [e["kind"] for e in entries if e["kind"] in ("request", "message")] == [
            "message",
            "message",
            "request",
            "message",
            "message",
            "request",
            "message",
        ]
        assert [e["origins"][0] for e in entries if e["kind"] == "message"] == [
            "system",
            "typed",
            "assistant",
            "tool",
            "assistant",
        ]

    run(story)


@pytest.mark.spec("F11")
def test_calls_of_one_answer_run_side_by_side(place: Place) -> None:
    async def story() -> None:
        both = anyio.Event()
        inside: list[str] = []

        async def meet(input: Any) -> str:
            inside.append(input["who"])
            if len(inside) == 2:
                both.set()
            await both.wait()  # neither returns before the other began
            return f"{input['who']} was here"

        calls = [{"name": "Probe", "input": {"who": who}, "id": who} for who in ("anna", "ben")]
        model = ScriptedModel(
            [{"tool_use": calls}, Step("done", {"last_result": ["anna was here", "ben was here"]})]
        )
        async with place.open(model, tools=[Probe(meet)]) as session:
            assert (await session.ask("meet")).text == "done"

    run(story)


@pytest.mark.spec("F11")
def test_tools_that_must_not_run_beside_others_run_in_order(place: Place) -> None:
    async def story() -> None:
        log_: list[str] = []

        async def work(input: Any) -> str:
            log_.append(f"in {input['n']}")
            await anyio.lowlevel.checkpoint()
            log_.append(f"out {input['n']}")
            return "ok"

        calls = [{"name": "Probe", "input": {"n": n}, "id": f"c{n}"} for n in range(3)]
        async with place.open(
            [{"tool_use": calls}, "done"], tools=[Probe(work, parallel=False)]
        ) as session:
            await session.ask("go")
        assert log_ == ["in 0", "out 0", "in 1", "out 1", "in 2", "out 2"]

    run(story)


@pytest.mark.spec("F11", "F5")
@pytest.mark.parametrize("moment", ["in the model call", "in a tool", "between parallel tools"])
def test_cancelling_at_any_moment_leaves_a_ledger_that_can_go_on(place: Place, moment: str) -> None:
    async def story() -> None:
        started = anyio.Event()

        async def hang(input: Any) -> str:
            if input.get("quick"):
                return "quick result"
            while moment.startswith("between") and session.ledger.open_calls != ["b"]:
                await anyio.lowlevel.checkpoint()
            started.set()
            await anyio.sleep_forever()
            return ""

        calls = [
            {"name": "Probe", "input": {"quick": moment.startswith("between")}, "id": "a"},
            {"name": "Probe", "input": {}, "id": "b"},
        ]
        first: Any = (
            {"hang": True}
            if moment == "in the model call"
            else {"text": "I look.", "tool_use": calls}
        )
        model = ScriptedModel([first, Step("going on", {"last_user": "again"})])
        async with place.open(model, tools=[Probe(hang)]) as session:
            async with anyio.create_task_group() as group:

                async def stop() -> None:
                    if moment == "in the model call":
                        while not model.requests:
                            await anyio.lowlevel.checkpoint()
                    else:
                        await started.wait()
                    assert session.cancel()

                group.start_soon(stop)
                reply = await session.ask("go")
            assert reply.stop == "cancelled"
            assert session.ledger.open_calls == []
            assert joining.calls_are_paired(session.view().messages) == []
            if moment.startswith("between"):
                assert "quick result" in str(session.view().messages[-1])
            assert (await session.ask("again")).text == "going on"
        model.assert_finished()

    run(story)


@pytest.mark.spec("F11")
def test_what_was_streamed_before_a_cancel_is_kept(place: Place) -> None:
    class Slow(ScriptedModel):
        async def complete(self, request: Any, emit: Any) -> Any:
            from lamina.events import TextDelta

            if not self.requests:
                self.requests.append(request)
                emit(TextDelta("The first half"))
                await anyio.sleep_forever()
            return await super().complete(request, emit)

    async def story() -> None:
        model = Slow([Step("ok", {"contains": "The first half"})])
        async with place.open(model) as session:
            async with anyio.create_task_group() as group:

                async def stop() -> None:
                    while not model.requests:
                        await anyio.lowlevel.checkpoint()
                    await anyio.lowlevel.checkpoint()
                    session.cancel()

                group.start_soon(stop)
                assert (await session.ask("tell")).text == "The first half"
            assert (await session.ask("go on")).text == "ok"

    run(story)


@pytest.mark.spec("F11")
def test_an_outer_cancel_reaches_the_caller_and_still_closes_the_ledger(place: Place) -> None:
    async def story() -> None:
        model = ScriptedModel([{"hang": True}, "fine"])
        async with place.open(model) as session, anyio.create_task_group() as group:

            async def stop() -> None:
                while not model.requests:
                    await anyio.lowlevel.checkpoint()
                scope.cancel()

            group.start_soon(stop)
            with anyio.CancelScope() as scope:
                await session.ask("go")
            assert scope.cancelled_caught
            assert session.ledger.open_calls == []
            assert (await session.ask("now")).text == "fine"

    run(story)


@pytest.mark.spec("F11")
def test_an_answer_that_was_cut_off_gets_more_room_once_then_is_continued(place: Place) -> None:
    steps = [
        {"text": "half", "stop_reason": "max_tokens"},
        Step({"text": "The first part, ", "stop_reason": "max_tokens"}, {"max_tokens": 32_000}),
        Step({"text": "the second, ", "stop_reason": "max_tokens"}, {"last_user": "cut off"}),
        Step("the end.", {"last_user": "cut off"}),
    ]

    async def story() -> None:
        async with place.open(steps) as session:
            reply = await session.ask("a long story")
            assert reply.text == "The first part, the second, the end."
            hows = [e.how for e in reply.events if e.kind == "output_continued"]
            assert hows == ["raised", "continued", "continued"]

    run(story)


@pytest.mark.spec("F11")
def test_continuing_ends_after_three_times(place: Place) -> None:
    async def story() -> None:
        model = ScriptedModel([], otherwise={"main": {"text": "x", "stop_reason": "max_tokens"}})
        async with place.open(model) as session:
            reply = await session.ask("endless")
            assert reply.stop == "max_tokens"
            assert len(model.requests) == 5  # the first, with more room, three continued

    run(story)


@pytest.mark.spec("F11")
def test_a_prompt_that_is_too_long_is_recovered_by_clearing_old_results(place: Place) -> None:
    async def big(input: Any) -> str:
        return str(input["n"]) * 9_000

    async def story() -> None:
        steps: list[Any] = [use("Big", f"r{n}", n=n) for n in range(7)]
        steps += [
            {"error": "prompt_too_long", "gap": 100},
            Step("ok", {"contains": "[Old tool result content cleared; Expand "}),
        ]
        async with place.open(steps, tools=[Probe(big, "Big", clearable=True)]) as session:
            reply = await session.ask("work")
            assert reply.text == "ok"
            [event] = [e for e in reply.events if e.kind == "prompt_recovered"]
            assert "cleared 2" in event.how

    run(story)


@pytest.mark.spec("F11")
def test_a_prompt_that_nothing_can_shorten_is_a_clear_error_and_the_session_goes_on(
    place: Place,
) -> None:
    async def story() -> None:
        async with place.open([{"error": "prompt_too_long"}, "ok"]) as session:
            with pytest.raises(PromptTooLong):
                await session.ask("too much")
            assert (await session.ask("less")).text == "ok"

    run(story)


@pytest.mark.spec("F11")
def test_a_context_over_the_limit_is_not_sent(place: Place) -> None:
    async def story() -> None:
        model = ScriptedModel(["never"], capabilities=Capabilities(window=8_000, max_output=1_000))
        async with place.open(model, config={"compact.auto": False}) as session:
            reply = await session.ask("x" * 60_000)
            assert reply.stop == "blocked"
            assert model.requests == []
            assert any("over the limit" in getattr(e, "message", "") for e in reply.events)

    run(story)


@pytest.mark.spec("F11")
def test_a_turn_stops_at_its_most_calls(place: Place) -> None:
    async def story() -> None:
        model = ScriptedModel([], otherwise={"main": use("Glob", pattern="*")})
        async with place.open(model, config={"turn.max_calls": 4}) as session:
            reply = await session.ask("loop")
            assert reply.stop == "max_calls"
            assert len(model.requests) == 4
            assert session.ledger.open_calls == []

    run(story)


@pytest.mark.spec("F11", "F4")
def test_a_resumed_session_sends_the_same_bytes_and_goes_on(place: Place) -> None:
    async def story() -> None:
        async with place.open([use("Glob", pattern="*.py"), "none found"]) as session:
            await session.ask("python files?")
            before = joining.request_bytes(session.view())
            tokens = session.ledger.tokens()
        async with place.open(["again"], resume=True) as session2:
            assert session2.id == session.id
            assert joining.request_bytes(session2.view()) == before
            assert session2.ledger.tokens() == tokens
            assert (await session2.ask("and now?")).text == "again"
        async with place.open([], session_id=session.id) as session3:
            assert len(session3.view().messages) == 6

    run(story)


@pytest.mark.spec("F5")
def test_resuming_after_a_crash_in_a_tool_closes_its_call(place: Place) -> None:
    async def story() -> None:
        async with place.open(["hi"]) as session:
            await session.ask("hello")
            path = session.folder.with_suffix(".jsonl")
        from lamina.ledger import edits
        from lamina.ledger.record import Ledger
        from lamina.messages import Usage, tool_use

        ledger = Ledger.open(path)
        ledger.append(edits.message("user", "run it", "typed"))
        ledger.append(edits.answer([tool_use("lost", "Bash", {})], Usage()))
        ledger.close()  # as a killed process leaves it
        async with place.open(
            [Step("I see", {"contains": "ended before this call"})], resume=True
        ) as again:
            assert again.ledger.open_calls == []
            assert (await again.ask("what happened")).text == "I see"

    run(story)


@pytest.mark.spec("F1")
def test_a_second_open_is_refused_and_a_fork_works_on_a_copy(place: Place) -> None:
    async def story() -> None:
        async with place.open(["one"]) as session:
            await session.ask("hello")
            with pytest.raises(SessionBusy):
                async with place.open([], session_id=session.id):
                    pass
            async with place.open(["two"], session_id=session.id, fork=True) as copy:
                assert copy.id != session.id
                assert joining.request_bytes(copy.view()) == joining.request_bytes(session.view())
                await copy.ask("apart")
            assert len(session.view().messages) == 2

    run(story)


@pytest.mark.spec("F11")
def test_messages_that_arrive_during_a_turn_are_read_after_the_tools(place: Place) -> None:
    async def story() -> None:
        async def work(input: Any) -> str:
            session.queue("by the way, use tabs")
            return "done"

        steps = [use("Probe"), Step("with tabs", {"last_user": "use tabs", "last_result": "done"})]
        async with place.open(steps, tools=[Probe(work)]) as session:
            assert (await session.ask("format")).text == "with tabs"

    run(story)


@pytest.mark.spec("F6", "F11")
def test_a_model_that_can_t_be_reached_is_an_error_and_the_next_question_works(
    place: Place,
) -> None:
    async def story() -> None:
        async with place.open([{"error": "unreachable"}, "back"]) as session:
            with pytest.raises(ModelUnreachable):
                await session.ask("hello?")
            assert (await session.ask("now?")).text == "back"

    run(story)


def test_ids_that_a_server_uses_twice_are_made_new(place: Place) -> None:
    async def story() -> None:
        steps = [use("Glob", "call_0", pattern="*"), use("Glob", "call_0", pattern="*"), "done"]
        async with place.open(steps) as session:
            assert (await session.ask("go")).text == "done"
            ids = [
                b["id"]
                for m in session.view().messages
                for b in m["content"]
                if b["type"] == "tool_use"
            ]
            assert ids == ["call_0", "call_0_2"]

    run(story)


def test_empty_questions_and_wrong_ids_are_refused_in_words(place: Place) -> None:
    async def story() -> None:
        async with place.open([]) as session:
            with pytest.raises(UsageError, match="nothing to ask"):
                await session.ask("  ")
        with pytest.raises(UsageError, match="no session id"):
            async with place.open([], session_id="../evil"):
                pass
        with pytest.raises(UsageError, match="There is no session"):
            async with place.open([], session_id="missing", resume=True):
                pass

    run(story)
    with pytest.raises(UsageError, match="not a directory"), Session.open(place.project / "gone"):
        pass


@pytest.mark.spec("I1")
def test_the_same_session_without_async(place: Place) -> None:
    with place.open([use("Glob", pattern="*"), "sync works"]) as session:
        assert session.ask("hello").text == "sync works"
        assert session.status().tokens > 0
        assert session.id
        assert session.view().tools
    assert Session.latest(place.project, place.home) == session.id


@pytest.mark.spec("F13")
def test_hooks_see_the_session_and_can_block_add_and_stop(place: Place) -> None:
    seen: list[Any] = []

    def submit(told: Any) -> Any:
        seen.append((told["hook_event_name"], told["session_id"], told["prompt"]))
        return (
            {"decision": "block", "reason": "not on Fridays"}
            if "deploy" in told["prompt"]
            else None
        )

    def before(told: Any) -> Any:
        if told["tool_input"].get("command") == "rm -rf /":
            return {"decision": "block", "reason": "too dangerous"}
        return None

    def stop(told: Any) -> Any:
        return (
            None
            if told["stop_hook_active"]
            else {"decision": "block", "reason": "run the tests first"}
        )

    async def story() -> None:
        steps = [
            use("Bash", command="rm -rf /"),
            Step("finished", {"last_result": "too dangerous"}),
            Step("tests pass", {"last_user": "run the tests first"}),
        ]
        hooks = {
            "UserPromptSubmit": submit,
            "PreToolUse": before,
            "Stop": stop,
            "SessionStart": lambda told: f"started by {told['source']}",
        }
        async with place.open(steps, hooks=hooks) as session:
            assert "started by startup" in str(session.view().messages)
            blocked = await session.ask("deploy now")
            assert blocked.stop == "blocked"
            assert (await session.ask("clean up")).text == "tests pass"
            assert seen[0] == ("UserPromptSubmit", session.id, "deploy now")

    run(story)


@pytest.mark.spec("F13")
def test_hooks_around_a_tool_change_its_input_add_words_and_end_the_turn(place: Place) -> None:
    (place.project / "b.txt").write_text("from b")

    def before(told: Any) -> Any:
        assert told["tool_input"] == {"file_path": "a.txt"}
        more = {"additionalContext": "a.txt moved to b.txt", "updatedInput": {"file_path": "b.txt"}}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **more}}

    def after(told: Any) -> Any:
        assert "from b" in told["tool_response"]
        if len(ended) == 0:
            ended.append(False)
            return {"decision": "block", "reason": "say it in French", "systemMessage": "Reading"}
        return {"continue": False, "stopReason": "enough was read"}

    ended: list[bool] = []

    async def story() -> None:
        steps = [
            use("Read", file_path="a.txt"),
            Step(use("Read", file_path="a.txt"), {"last_result": "from b"}),
            "never asked for",
        ]
        hooks = {"PreToolUse": before, "PostToolUse": after}
        async with place.open(steps, hooks=hooks) as session:
            reply = await session.ask("read a.txt")
            assert reply.stop == "stopped by a hook"
            assert "Reading" in [getattr(event, "message", "") for event in reply.events]
            said = [e for _, e in session.ledger.messages() if e.get("origins") == ["hook"]]
            assert [entry["content"][0]["text"] for entry in said] == [
                "a.txt moved to b.txt",
                "say it in French",
                "a.txt moved to b.txt",
            ]
            assert joining.sendable(session.view()) == []

    run(story)


@pytest.mark.spec("F7")
def test_open_tasks_live_in_the_ledger_and_survive_a_resume(place: Place) -> None:
    tasks = [{"content": "write tests", "status": "pending"}]

    async def story() -> None:
        async with place.open([use("Todo", todos=tasks), "noted"]) as session:
            await session.ask("plan")
        async with place.open([], resume=True) as again:
            assert [t["content"] for t in again.ledger.state("todos")] == ["write tests"]

    run(story)


def test_an_error_of_the_caller_comes_out_as_it_was_raised(place: Place) -> None:
    async def story() -> None:
        with pytest.raises(KeyError, match="mine"):
            async with place.open([]):
                raise KeyError("mine")

    run(story)
    with pytest.raises(KeyError, match="mine"), place.open([]):
        raise KeyError("mine")


def test_resuming_takes_the_last_session_in_which_somebody_spoke(place: Place) -> None:
    async def story() -> None:
        async with place.open(["hello"]) as session:
            await session.ask("hi")
        async with place.open([]):
            pass  # opened and left
        async with place.open([], resume=True) as again:
            assert again.id == session.id
        assert Session.latest(place.project, place.home) == session.id

    run(story)


@pytest.mark.spec("F11")
def test_where_a_higher_limit_does_not_fit_the_short_answer_is_kept_and_continued(
    place: Place,
) -> None:
    steps = [
        {"text": "The first half, ", "stop_reason": "max_tokens"},
        {"error": "prompt_too_long"},
        Step("and the second.", {"last_user": "cut off", "contains": "The first half"}),
    ]

    async def story() -> None:
        async with place.open(steps) as session:
            assert (await session.ask("tell")).text == "The first half, and the second."

    run(story)
