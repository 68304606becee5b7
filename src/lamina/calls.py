"""The model call of a turn: the request is recorded before, the answer after, whatever happens.

Used by the turn and by forks. Touches the ledger, the model, the spend ledger. A prompt that is too
long is recovered, an answer that is cut off gets its limit raised once, an interrupted answer keeps
what was streamed, and every call leaves the ledger valid.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

from lamina.errors import BadResponse, PromptTooLong
from lamina.events import (
    Event,
    OutputContinued,
    PromptRecovered,
    StreamRestarted,
    TextDelta,
)
from lamina.layers import collapse, compaction, microcompact
from lamina.ledger import edits, invariants
from lamina.messages import Block, Request, Response, text, tool_result
from lamina.state import State

INTERRUPTED = "[Interrupted by the user]"
CUT_OFF = ("max_tokens", "model_context_window_exceeded")
NO_ANSWER = ("refusal", "unanswered")  # the model would not, or there is none


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
        state.emit(OutputContinued("raised", 1))
        with contextlib.suppress(PromptTooLong):  # no room for more: the short answer is continued
            response = await _call(state)
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
    return response


def why_blocked(state: State) -> str:
    """The last guard: a request that can't fit is not sent."""
    tokens, limit = state.ledger.tokens(), state.window.blocking
    if tokens < limit:
        return ""
    return (
        f"The context holds {tokens:,} tokens, over the limit of {limit:,} for this model. "
        "Compact it with /compact, or start a new session."
    )


async def _call(state: State) -> Response:
    """One request and its answer, booked; nothing of the answer is recorded yet."""
    request = _request(state)
    capabilities, clock = state.capabilities, state.deps.clock
    state.guard.before(request, clock.now(), capabilities)
    blocks, hash_ = state.ledger.fingerprint()
    state.ledger.append(
        edits.request(state.ledger.head, hash_, state.purpose, blocks, state.ledger.tokens())
    )
    state.streamed = ""

    def listen(event: Event) -> None:
        if isinstance(event, TextDelta):
            state.streamed += event.text
        elif isinstance(event, StreamRestarted):
            state.streamed = ""
        state.emit(event)

    started = clock.monotonic()
    response = await state.deps.model.complete(request, listen)
    state.book(request, response, clock.monotonic() - started)
    microcompact.book_cleared(state, response)
    if broke := state.guard.after(request, response, clock.now(), capabilities):
        state.emit(broke)
        state.ledger.append(edits.event(broke.to_json()))
    state.last_usage = response.usage
    return response


def _request(state: State) -> Request:
    request = state.ledger.view(state.purpose)
    if wrong := invariants.sendable(request):
        raise BadResponse(f"The request can't be sent: {'; '.join(wrong)}.")
    limit = state.max_tokens or state.config.int("max_output")
    return replace(request, max_tokens=limit, **microcompact.request_parts(state))


async def _recovered(state: State, error: PromptTooLong) -> Response:
    """Make room, cheapest first, and try again; the error is withheld until nothing helps."""
    if state.forked:  # whoever started it decides what to leave out
        raise error
    for make_room in (collapse.commit, microcompact.clear_now, compaction.make_room):
        how = make_room(state)
        how = how if isinstance(how, str) else await how
        if not how:
            continue
        state.emit(PromptRecovered(how))
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
