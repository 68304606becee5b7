"""The tools of one answer: hooks before, tools side by side, each result recorded as it comes.

Touches the ledger and whatever the tools touch. A result is its own entry, so that a crash loses
only what had not finished; hook texts follow when all results are in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import anyio
import anyio.to_thread

from lamina.events import ToolFinished, ToolStarted, Warned
from lamina.layers import tool_results
from lamina.ledger import edits
from lamina.memory.section import reminder_for
from lamina.messages import Block, Json, Response, text_of, tool_result
from lamina.ports import HookResult, ToolContext, ToolOutcome
from lamina.state import State

AT_ONCE = 8
_FILE_TOOLS = ("Read", "Write", "Edit")


async def run_tools(state: State, response: Response) -> bool:
    """Run all calls of an answer; True if a hook wants the turn to end."""
    notes: list[HookResult] = []
    done: list[Block] = []
    room = anyio.CapacityLimiter(AT_ONCE)
    calls = response.tool_uses
    beside = [call for call in calls if _may_run_beside(state, call)]
    async with anyio.create_task_group() as group:
        for call in beside:
            group.start_soon(_run_within, state, call, notes, done, room)
    for call in calls:
        if call not in beside:
            await _run(state, call, notes, done)
    tool_results.mend(state)
    await _instructions(state, [call for call in calls if call in done])
    for note in notes:
        for context in note.context:
            state.say(context, "hook")
        if note.message:
            state.emit(Warned(note.message))
    return any(note.stop for note in notes)


async def _instructions(state: State, calls: Sequence[Block]) -> None:
    """Instruction files of folders that were just worked in, and rules for those files (M8)."""
    if state.forked:
        return
    inputs = [call.get("input") for call in calls if call.get("name") in _FILE_TOOLS]
    paths = [cast("Json", given).get("file_path") for given in inputs if isinstance(given, dict)]
    for path in dict.fromkeys(one for one in paths if isinstance(one, str) and "\0" not in one):
        words, files = await anyio.to_thread.run_sync(
            reminder_for, state.config, path, state.instructions
        )
        if files:
            state.instructions += files
            state.standing.append(words)
            state.say(words, "system", instructions=files)


def _may_run_beside(state: State, call: Block) -> bool:
    spec = state.spec_of(str(call.get("name")))
    return spec is None or spec.parallel


async def _run_within(
    state: State,
    call: Block,
    notes: list[HookResult],
    done: list[Block],
    room: anyio.CapacityLimiter,
) -> None:
    async with room:
        await _run(state, call, notes, done)


async def _run(state: State, call: Block, notes: list[HookResult], done: list[Block]) -> None:
    name, id_ = str(call.get("name")), str(call.get("id"))
    given: Any = call.get("input")
    input_: Json = dict(cast("Json", given)) if isinstance(given, dict) else {}
    state.emit(ToolStarted(id_, name, input_))
    started = state.deps.clock.monotonic()
    payload: Json = {"tool_name": name, "tool_input": input_, "tool_use_id": id_}
    before = await state.deps.hooks.run("PreToolUse", payload, match=name)
    if before.blocked:
        why = before.reason or "A hook refused this call."
        outcome = ToolOutcome(why, is_error=True, meta={"decision": "refuse", "reason": why})
    else:
        if before.updated_input is not None:
            input_ = before.updated_input
        tool_results.mend(state)
        context = replace(state.tools, tool_use_id=id_)
        outcome = await _ran(state, name, input_, context)
        state.tools.cwd = context.cwd  # where a command's cd left us
    if not outcome.is_error:  # a folder that a rule closes must not speak through its instructions
        done.append(call)
    seconds = state.deps.clock.monotonic() - started
    _record(state, name, id_, outcome, seconds)
    after = await state.deps.hooks.run(
        "PostToolUse", {**payload, "tool_response": _said(outcome)}, match=name
    )
    if after.blocked and after.reason:
        after = replace(after, context=[*after.context, after.reason])
    notes += [before, after]


async def _ran(state: State, name: str, input_: Json, context: ToolContext) -> ToolOutcome:
    """Run the tool; memory files that it changes pass the gate."""
    guard, spec = state.deps.guard, state.spec_of(name)
    if guard is None or spec is None:
        return await state.deps.toolbox.run(name, input_, context)
    return await guard.around(
        spec, input_, context, lambda: state.deps.toolbox.run(name, input_, context)
    )


def _record(state: State, name: str, id_: str, outcome: ToolOutcome, seconds: float) -> None:
    content = outcome.content if outcome.content != "" else f"({name} gave no output)"
    block = tool_result(id_, content, is_error=outcome.is_error)
    state.ledger.append(edits.message("user", [block], "tool", tool=name, meta=dict(outcome.meta)))
    size = len(_said(outcome).encode("utf-8", "replace"))
    refused = outcome.is_error and outcome.meta.get("decision") == "refuse"
    state.emit(ToolFinished(id_, name, outcome.is_error, size, round(seconds, 3), refused))


def _said(outcome: ToolOutcome) -> str:
    content: str | Sequence[Block] = outcome.content
    return text_of(content)


async def stop_hooks(state: State, response: Response, *, again: bool) -> str:
    """What a Stop hook wants done before the turn may end."""
    payload = {"stop_hook_active": again, "last_assistant_message": response.text}
    result = await state.deps.hooks.run("Stop", payload)
    return result.reason if result.blocked else ""
