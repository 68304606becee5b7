"""One turn of an agent: every layer in order. Read this to know what Lamina does, and when.

The user's message is in the ledger already. Layers append edits; the view is a projection; only
`ask_model` and `run_tools` reach outside. A layer that fails is booked and skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio

from lamina import steps
from lamina.events import OutputContinued, TurnEnd, TurnEnded, TurnStarted, Warned
from lamina.layers import (
    collapse,
    compaction,
    dream,
    microcompact,
    notes,
    pauses,
    recall,
    tool_results,
)
from lamina.state import State

CONTINUE = "Your answer was cut off by its length limit. Go on exactly where it stopped."


async def run(state: State) -> TurnEnd:
    """From the question to the final answer; returns why it ended."""
    state.turn += 1
    state.emit(TurnStarted(state.turn))
    reason: TurnEnd = "error"
    _attach(state)  # what came while nobody listened
    try:
        reason = await _rounds(state)
    except anyio.get_cancelled_exc_class():
        reason = "cancelled"
        state.stop_agents()
        raise
    finally:
        recall.end(state)
        steps.keep_interrupted(state)
        state.emit(TurnEnded(state.turn, reason))
    if reason in ("end_turn", "unanswered"):
        after = (
            ("recall", recall.after_turn),
            ("extraction", pauses.after_turn),  # layer 5, in the background
            ("dream", dream.after_turn),  # layer 6, in the background
        )
        await _each(state, after)
    return reason


async def _rounds(state: State) -> TurnEnd:
    continued = stopped = 0
    while True:
        most = state.max_calls or state.config.int("turn.max_calls")
        if most and state.calls >= most:
            if state.purpose == "main":
                state.emit(Warned(f"The turn stopped after {most} model calls (turn.max_calls)."))
            return "max_calls"
        await make_room(state)
        if blocked := steps.why_blocked(state):
            state.emit(Warned(blocked))
            return "blocked"
        response = await steps.ask_model(state)
        notes.check(state, response)  # layer 3, in the background

        if response.stop_reason in steps.CUT_OFF and not response.tool_uses:
            if continued >= state.config.int("turn.continuations"):
                return "max_tokens"
            continued += 1
            state.emit(OutputContinued("continued", continued))
            state.say(CONTINUE, "system")
            continue
        if response.stop_reason == steps.PAUSED and not response.tool_uses:
            continue
        if response.tool_uses and await steps.run_tools(state, response):
            return "stopped by a hook"
        if _attach(state) or response.tool_uses:  # or a message came while the answer was written
            continue
        if stopped < 3 and (why := await steps.stop_hooks(state, response, again=stopped > 0)):
            stopped += 1
            state.say(why, "hook")
            continue
        return response.stop_reason if response.stop_reason in steps.NO_ANSWER else "end_turn"


async def make_room(state: State) -> None:
    """The layers that act before a call, cheapest first."""
    layers = (
        ("recall", recall.act),  # memories that fit the user's message, once they are there
        ("folds", tool_results.fold),  # what the view says already is not said again
        ("tool_results", tool_results.act),  # layer 1: large results go to disk
        ("microcompact", microcompact.act),  # layer 2: old results are cleared
        ("collapse", collapse.act),  # finished rounds are folded, where switched on
        ("compaction", compaction.act),  # layer 4: from the notes, else by a summary
        ("keep_warm", pauses.choose_life),  # for how long a prompt that is written anew is cached
    )
    await _each(state, layers)


async def _each(state: State, layers: Sequence[tuple[str, Callable[[State], Any]]]) -> None:
    for name, act in layers:
        try:
            if (waiting := act(state)) is not None:
                await waiting
        except Exception as error:  # noqa: BLE001 - booked; the next layer serves
            state.layer_failed(name, error)


def _attach(state: State) -> bool:
    """Messages that arrived meanwhile go at the end of the view, never before."""
    waiting, state.queue[:] = list(state.queue), []
    for text, origin in waiting:
        state.say(text, origin)
    return bool(waiting)
