"""The two steps of a turn that reach outside: the model call and its tools.

Used by the turn and by forks. The request is recorded before a call, the answer after, whatever
happens: a prompt that is too long is recovered, an answer that is cut off gets its limit raised
once, an interrupted answer keeps what was streamed. Tools run side by side where they allow it,
and every call gets its result, so the ledger stays valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import anyio
import anyio.to_thread

from lamina import events
from lamina.errors import BadResponse, PromptTooLong
from lamina.layers import collapse, compaction, microcompact, tool_results
from lamina.ledger import edits, joining
from lamina.memory import reminder_for
from lamina.messages import Block, Json, Request, Response, as_object, text, text_of, tool_result
from lamina.ports import HookResult, ToolContext, ToolOutcome
from lamina.state import State

USUAL_ANSWER = 32_000  # tokens that an answer may have where nobody says otherwise
NEARLY_FULL: Final = "nearly full"
AT_ONCE = 8  # tools of one answer that run side by side
INTERRUPTED = "[Interrupted by the user]"
_FILE_TOOLS = ("Read", "Write", "Edit")
CUT_OFF = ("max_tokens", "model_context_window_exceeded")
PAUSED: Final = "pause_turn"  # the provider's own tools want another request to go on
NO_ANSWER: Final = ("refusal", "unanswered")  # the model would not, or there is none


async def ask_model(state: State) -> Response:
    """Send the view, record the answer. Raises ModelError when nothing helps."""
    try:
        response = await _call(state)
    except PromptTooLong as error:
        response = await _recovered(state, error)
    most = state.capabilities.max_output
    # An answer that used all the room there is would only be paid for twice.
    if response.stop_reason == "max_tokens" and max(state.max_tokens, response.usage.output) < most:
        state.max_tokens = most
        state.emit(events.OutputContinued("raised", 1))
        state.emit(events.StreamRestarted("it was cut off, and gets more room"))
        try:
            response = await _call(state)
        except PromptTooLong:  # no room for more: the short answer stands, and is continued
            state.emit(events.TextDelta(response.text))
    response = _usable(state, response)
    state.ledger.append(
        edits.answer(
            response.content,
            response.usage,
            id=response.id,
            model=response.model,
            stop_reason=response.stop_reason,
            **({"extra": dict(response.extra)} if response.extra else {}),
        )
    )
    state.streamed = ""
    _warn_when_nearly_full(state)
    return response


def _warn_when_nearly_full(state: State) -> None:
    """One sentence each time that the context passes the warning mark; in a small window, where the
    mark stands near the beginning, it would say nothing."""
    tokens, window = state.ledger.tokens(), state.window
    if state.forked or window.autocompact <= window.margins.warning:
        return
    if tokens < window.warning:
        state.said.discard(NEARLY_FULL)
    elif NEARLY_FULL not in state.said:
        state.said.add(NEARLY_FULL)
        ahead = "/compact makes room"
        if state.flags.on("collapse"):
            ahead = "finished rounds are folded when it fills"
        elif state.flags.on("autocompact"):
            ahead = f"at {window.autocompact:,} it is compacted"
        state.emit(
            events.Warned(f"The context holds {tokens:,} of {window.effective:,} tokens; {ahead}.")
        )


def why_blocked(state: State) -> str:
    """The last guard: a request that can't fit is not sent. A fork's answer is short and makes
    room, or asks for none: it may use what is kept free for the answers of the conversation."""
    tokens, window = state.ledger.tokens(), state.window
    hard = window.size - window.least_answer
    frame = state.ledger.frame_tokens
    # Where system prompt and tools fill the window, no compaction helps: what fits is sent.
    limit = hard if state.forked or frame >= window.blocking else window.blocking
    if tokens < limit:
        return ""
    if frame >= window.blocking:
        return (
            f"System prompt and tools alone take {frame:,} tokens, and this model's window has "
            f"{window.size:,}. Choose a model with a larger one, or try with fewer tools or --bare."
        )
    return (
        f"The context holds {tokens:,} tokens, over the limit of {limit:,} for this model. "
        "Compact it with /compact, or start a new session."
    )


async def _call(state: State) -> Response:
    """One request and its answer, booked; nothing of the answer is recorded yet."""
    request = _request(state)
    capabilities, clock = state.capabilities, state.deps.clock
    if state.caches:
        state.guard.before(request, clock.now(), capabilities)
    blocks, hash_ = state.ledger.fingerprint()
    state.ledger.append(
        edits.request(state.ledger.head, hash_, state.purpose, blocks, state.ledger.tokens())
    )
    state.streamed = ""

    def listen(event: events.Event) -> None:
        if isinstance(event, events.TextDelta):
            state.streamed += event.text
        elif isinstance(event, events.StreamRestarted):
            state.streamed = ""
        state.hear(request, event)

    started = clock.monotonic()
    response = await state.deps.model.complete(request, listen)
    state.book(request, response, started)
    if state.purpose == "main" and "context_management" in response.extra:
        microcompact.book_cleared(state, response.extra["context_management"])
    if state.caches and (broke := state.guard.after(request, response, clock.now(), capabilities)):
        state.emit(broke)
        state.ledger.append(edits.event(broke.to_json()))
    state.last_usage = response.usage
    return response


def _paused(state: State) -> bool:
    """Is the last word the model's own, because its provider wanted a pause?"""
    for entry in reversed(state.ledger.entries):
        if entry["kind"] == "message":
            return entry.get("stop_reason") == PAUSED
    return False


def _request(state: State) -> Request:
    request = state.ledger.view(state.purpose)
    if wrong := joining.sendable(request, paused=_paused(state)):
        raise BadResponse(f"The request can't be sent: {'; '.join(wrong)}.")
    limit = state.max_tokens or state.config.int("max_output")
    room = state.window.size - state.ledger.tokens()
    if room < (limit or min(USUAL_ANSWER, state.capabilities.max_output)):
        # Providers add what an answer may have to the prompt, and refuse what is over the window.
        limit = max(room * 99 // 100, state.window.least_answer)
    able = state.capabilities
    return replace(
        request,
        max_tokens=limit,
        shared_blocks=state.shared_blocks,
        cache_ttl=able.cache_ttl if able.cache_choice == "all" else 0,
        cache_deletions=microcompact.deletions(state) if able.cache_edits else (),
    )


# What makes room for a refused prompt, cheapest first, and the flags of which one must be on.
_ROOM = (
    (("collapse",), collapse.commit),
    (("time_clearing", "worn_clearing", "cache_edits", "api_management"), microcompact.clear_now),
    (("autocompact",), compaction.make_room),
)


async def _recovered(state: State, error: PromptTooLong) -> Response:
    """Make room, cheapest first, and try again; the error is withheld until nothing helps."""
    if state.forked:  # whoever started it decides what to leave out
        raise error
    if state.render_again is not None and state.ledger.frame_tokens > state.window.frame:
        old = state.ledger.projection.frame
        state.render_again()  # the provider has just named a window smaller than we thought
        if state.ledger.projection.frame is not old:
            state.emit(events.PromptRecovered("fewer tools, in few words"))
            try:
                return await _call(state)
            except PromptTooLong as again:
                error = again
    for switches, make_room in _ROOM:
        if not (state.config.bool("turn.recover") or any(map(state.flags.on, switches))):
            continue  # off is off: a refused prompt is told then, not edited
        how = make_room(state)
        how = how if isinstance(how, str) else await how
        if not how:
            continue
        state.emit(events.PromptRecovered(how))
        try:
            return await _call(state)
        except PromptTooLong as again:
            error = again
    raise error


def _usable(state: State, response: Response) -> Response:
    """Blocks that the ledger can take: known ids made new, a call that was cut off dropped."""
    content: list[Block] = []
    for block in response.content:
        if block.get("type") == "tool_use":
            if response.stop_reason in CUT_OFF:
                continue  # its input may be torn
            block = _own_id(state, block, content)  # noqa: PLW2901
        content.append(block)
    if not any(b.get("type") not in ("thinking", "redacted_thinking") for b in content):
        content.append(text("(no answer)"))
    return replace(response, content=content)


def _own_id(state: State, block: Block, content: list[Block]) -> Block:
    """Some servers number their calls anew in each answer; in a ledger an id is used once."""
    wanted = name = str(block.get("id") or "call")
    number = 1
    taken = {str(b.get("id")) for b in content}
    while name in taken or state.ledger.knows_call(name):
        number += 1
        name = f"{wanted}_{number}"
    return {**block, "id": name}


def keep_interrupted(state: State) -> None:
    """After a turn of any end: keep text that was streamed, close calls that are open."""
    if state.streamed.strip() and not state.ledger.open_calls:
        state.ledger.append(
            edits.message("assistant", [text(state.streamed)], "assistant", interrupted=True)
        )
    state.streamed = ""
    close_calls(state, INTERRUPTED)


def close_calls(state: State, why: str) -> None:
    """Give every open call a result, so that the ledger is sendable again."""
    if waiting := state.ledger.open_calls:
        results = [tool_result(name, why, is_error=True) for name in waiting]
        state.ledger.append(edits.message("user", results, "system", closing=True))


# ---- tools


async def run_tools(state: State, response: Response) -> bool:
    """Run all calls of an answer; True if a hook wants the turn to end."""
    notes: list[HookResult] = []
    done: list[Block] = []
    room = anyio.CapacityLimiter(AT_ONCE)
    calls = response.tool_uses
    specs = [state.spec_of(str(call.get("name"))) for call in calls]
    beside = [c for c, spec in zip(calls, specs, strict=True) if spec is None or spec.parallel]

    async def run_within(call: Block) -> None:
        async with room:
            await _run(state, call, notes, done)

    async with anyio.create_task_group() as group:
        for call in beside:
            group.start_soon(run_within, call)
    for call in calls:
        if call not in beside:
            await _run(state, call, notes, done)
    tool_results.mend(state)
    await _instructions(state, [call for call in calls if call in done])
    for note in notes:
        for context in note.context:
            state.say(context, "hook")
        if note.message:
            state.emit(events.Warned(note.message))
    return any(note.stop for note in notes)


async def _instructions(state: State, calls: Sequence[Block]) -> None:
    """Instruction files of folders that were just worked in, and rules for those files (M8)."""
    if state.forked:
        return
    inputs = [as_object(call.get("input")) for call in calls if call.get("name") in _FILE_TOOLS]
    paths = [given.get("file_path") for given in inputs]
    for path in dict.fromkeys(one for one in paths if isinstance(one, str) and "\0" not in one):
        words, files = await anyio.to_thread.run_sync(
            reminder_for, state.config, path, state.instructions
        )
        if files:
            state.instructions += files
            state.standing.append(words)
            state.say(words, "system", instructions=files)


async def _run(state: State, call: Block, notes: list[HookResult], done: list[Block]) -> None:
    name, id_ = str(call.get("name")), str(call.get("id"))
    input_ = dict(as_object(call.get("input")))
    state.emit(events.ToolStarted(id_, name, input_))
    started = state.deps.clock.monotonic()
    payload: Json = {"tool_name": name, "tool_input": input_, "tool_use_id": id_}
    before = await state.run_hooks("PreToolUse", payload, match=name)
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
    after = await state.run_hooks(
        "PostToolUse", {**payload, "tool_response": text_of(outcome.content)}, match=name
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
    size = len(text_of(outcome.content).encode("utf-8", "replace"))
    decision = outcome.meta.get("decision")
    refused = outcome.is_error and decision == "refuse"
    said = text_of(outcome.content).partition("\n")[0] if refused or decision == "inbox" else ""
    why = str(outcome.meta.get("waits") or said)
    took = round(seconds, 3)
    state.emit(events.ToolFinished(id_, name, outcome.is_error, size, took, refused, why))


async def stop_hooks(state: State, response: Response, *, again: bool) -> str:
    """What a Stop hook wants done before the turn may end."""
    payload = {"stop_hook_active": again, "last_assistant_message": response.text}
    result = await state.run_hooks("Stop", payload)
    return result.reason if result.blocked else ""
