"""Hooks: JSON in, exit code and JSON out; bounded in time and size; never breaking the turn."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import HookError, SettingsError
from lamina.events import Event, HookRan, Warned
from lamina.messages import Json
from lamina.ports import HookResult
from lamina.tools import hooks as room
from lamina.tools.hooks import NAMES, CommandHook, FunctionHook, Hook, HookSet, join

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F13")]


class Hall:
    """A place to run hooks in, with the events that they caused."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.events: list[Event] = []

    def set(self, name: Any, *hooks: Hook) -> HookSet:
        env = {"PATH": os.environ["PATH"]}
        return HookSet({name: hooks}, self.cwd, self.events.append, env)

    async def run(self, name: Any, *hooks: Hook, match: str = "", **payload: Any) -> HookResult:
        return await self.set(name, *hooks).run(name, payload, match=match)

    async def say(self, name: Any, answer: Any) -> HookResult:
        """A command that prints the answer as JSON."""
        (self.cwd / "answer").write_text(answer if isinstance(answer, str) else json.dumps(answer))
        return await self.run(name, CommandHook("cat answer"))

    def ended(self, name: str) -> bool:
        """Whether the process whose number is in that file is gone, or only waits to be reaped."""
        state = Path(f"/proc/{(self.cwd / name).read_text().strip()}/stat")
        return not state.exists() or " Z " in state.read_text()

    @property
    def outcomes(self) -> list[str]:
        return [event.outcome for event in self.events if isinstance(event, HookRan)]

    @property
    def warnings(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, Warned)]


@pytest.fixture
def hall(tmp_path: Path) -> Hall:
    return Hall(tmp_path)


@pytest.mark.parametrize("name", NAMES)
async def test_a_command_gets_the_moment_as_json(hall: Hall, name: Any) -> None:
    await hall.run(name, CommandHook("cat > told"), session_id="s", prompt="ü" * 200_000)
    told = json.loads((hall.cwd / "told").read_text())
    assert told == {
        "hook_event_name": name,
        "cwd": str(hall.cwd),
        "session_id": "s",
        "prompt": "ü" * 200_000,
    }
    assert hall.outcomes == ["ok"]


async def test_exit_code_2_blocks_with_stderr_as_the_reason(hall: Hall) -> None:
    result = await hall.run("PreToolUse", CommandHook("echo not today >&2; exit 2"))
    assert result == HookResult(blocked=True, reason="not today")
    assert hall.outcomes == ["blocked"]


async def test_other_failures_are_reported_and_break_nothing(hall: Hall) -> None:
    result = await hall.run(
        "PreToolUse", CommandHook("echo oops >&2; exit 1"), CommandHook("exit 127")
    )
    assert result == HookResult()
    assert hall.outcomes == ["failed", "failed"]
    assert any("exit code 1. oops" in warning for warning in hall.warnings)


async def test_all_fields_of_the_answer_are_understood(hall: Hall) -> None:
    answer = {
        "continue": False,
        "stopReason": "enough",
        "systemMessage": "for the user",
        "decision": "block",
        "reason": "because",
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "additionalContext": "a fact",
            "updatedInput": {"command": "ls"},
        },
    }
    assert await hall.say("PreToolUse", answer) == HookResult(
        blocked=True,
        reason="enough\nbecause",
        context=("a fact",),
        message="for the user",
        stop=True,
        updated_input={"command": "ls"},
    )


async def test_a_denied_permission_blocks(hall: Hall) -> None:
    answer = {
        "hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no rm"}
    }
    result = await hall.say("PreToolUse", answer)
    assert (result.blocked, result.reason) == (True, "no rm")


@pytest.mark.parametrize("name", NAMES)
async def test_plain_text_is_context_at_two_moments_only(hall: Hall, name: Any) -> None:
    result = await hall.say(name, "a fact")
    wanted = ("a fact",) if name in ("SessionStart", "UserPromptSubmit") else ()
    assert result == HookResult(context=wanted)


@pytest.mark.parametrize("answer", ["{broken", '{"a": NaN', "{" * 100_000])
async def test_broken_json_is_reported(hall: Hall, answer: str) -> None:
    assert await hall.say("Stop", answer) == HookResult()
    assert hall.outcomes == ["failed"]


@pytest.mark.parametrize(
    "answer", [{"continue": "no", "reason": 3, "hookSpecificOutput": []}, {"decision": "approve"}]
)
async def test_fields_of_a_wrong_kind_are_ignored(hall: Hall, answer: Json) -> None:
    assert await hall.say("Stop", answer) == HookResult()
    assert hall.outcomes == ["ok"]


async def test_long_strings_are_cut(hall: Hall) -> None:
    long = "x" * 50_000
    result = await hall.say(
        "Stop",
        {
            "decision": "block",
            "reason": long,
            "systemMessage": long,
            "hookSpecificOutput": {"additionalContext": long},
        },
    )
    assert [len(t) for t in (result.reason, result.message, *result.context)] == [10_000] * 3
    result = await hall.run("Stop", CommandHook("head -c 50000 /dev/zero | tr '\\0' x >&2; exit 2"))
    assert len(result.reason) == 10_000
    result = await hall.say("SessionStart", long)
    assert [len(text) for text in result.context] == [10_000]


async def test_a_flood_is_bounded_while_it_is_read(hall: Hall) -> None:
    result = await hall.run("SessionStart", CommandHook("yes"), CommandHook("yes >&2"))
    assert result == HookResult()
    assert hall.outcomes == ["failed", "failed"]
    assert "more than 2,000,000 bytes" in hall.warnings[0]


async def test_a_hanging_command_is_ended_with_all_it_started(hall: Hall) -> None:
    hanging = CommandHook("sleep 1000 & echo $! > pid; trap '' TERM; wait; sleep 1000", timeout=3)
    assert await hall.run("Stop", hanging) == HookResult()
    assert hall.outcomes == ["timed out"]
    assert "was ended after 3 s" in hall.warnings[0]
    assert hall.ended("pid")


async def test_each_moment_has_its_own_limit(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (room.SECONDS, dict(room.SECONDS_OF)) == (
        600,
        {"UserPromptSubmit": 30, "SessionEnd": 1.5},
    )
    monkeypatch.setattr(room, "SECONDS_OF", {"SessionEnd": 0.05})

    async def hang(told: Json) -> None:
        await anyio.sleep_forever()

    await hall.run("SessionEnd", FunctionHook(hang))
    assert hall.outcomes == ["timed out"]
    await hall.run("SessionEnd", CommandHook("sleep 0.2; exit 0", timeout=30))
    assert hall.outcomes == ["timed out", "ok"]


async def test_a_matcher_is_for_the_whole_name_of_the_tool(hall: Hall) -> None:
    hooks = [
        CommandHook("echo 1 >> ran", "Edit|Write"),
        CommandHook("echo 2 >> ran", "mcp__.*"),
        CommandHook("echo 3 >> ran", "Wri"),
        CommandHook("echo 4 >> ran", "*"),
    ]
    await hall.run("PreToolUse", *hooks, match="Write")
    assert sorted((hall.cwd / "ran").read_text().split()) == ["1", "4"]


async def test_hooks_of_a_moment_run_side_by_side_and_join_in_order(hall: Hall) -> None:
    # Each waits for the other: one after the other they would never end.
    first = "touch a; until [ -e b ]; do sleep 0.01; done; echo first"
    second = "touch b; until [ -e a ]; do sleep 0.01; done; echo second"
    result = await hall.run(
        "SessionStart", CommandHook(first, timeout=20), CommandHook(second, timeout=20)
    )
    assert result.context == ("first", "second")


async def test_functions_are_hooks_too(hall: Hall) -> None:
    def plain(told: Json) -> str:
        return f"prompt was {told['prompt']}"

    async def fields(told: Json) -> Json:
        return {"systemMessage": "hello"}

    def refuses(told: Json) -> None:
        raise HookError("not this one")

    def breaks(told: Json) -> None:
        raise ZeroDivisionError

    def strange(told: Json) -> int:
        return 3

    functions = [plain, fields, refuses, breaks, strange, lambda told: HookResult(stop=True)]
    result = await hall.run(
        "UserPromptSubmit", *(FunctionHook(function) for function in functions), prompt="p"
    )
    assert result == HookResult(
        blocked=True,
        reason="not this one",
        context=("prompt was p",),
        message="hello",
        stop=True,
    )
    assert sorted(hall.outcomes) == ["blocked", "failed", "failed", "ok", "ok", "ok"]
    assert len(hall.warnings) == 2


async def test_cancelling_ends_hooks_and_passes_through(hall: Hall) -> None:
    pid = hall.cwd / "pid"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hall.run, "Stop", CommandHook("echo $$ > pid; exec sleep 1000"))
        while not pid.exists() or not pid.read_text():
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert hall.outcomes == []
    assert hall.ended("pid")


@pytest.mark.parametrize(
    ("name", "matcher", "word"), [("Nope", "", "no hook 'Nope'"), ("Stop", "(", "not a regular")]
)
def test_what_can_not_be_a_hook_is_named_at_once(
    hall: Hall, name: str, matcher: str, word: str
) -> None:
    with pytest.raises(SettingsError, match=word):
        hall.set(name, CommandHook("x", matcher))


RESULTS = st.builds(
    HookResult,
    blocked=st.booleans(),
    reason=st.sampled_from(["", "r"]),
    context=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    stop=st.booleans(),
    updated_input=st.none() | st.just({"a": 1}),
)


@given(st.lists(RESULTS, max_size=4), st.lists(RESULTS, max_size=4))
def test_joining_is_the_same_in_one_or_two_steps(
    one: list[HookResult], two: list[HookResult]
) -> None:
    assert join([join(one), join(two)]) == join(one + two)
