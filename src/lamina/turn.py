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
    extraction,
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
    state.attach_waiting()  # what came while nobody listened
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
        after = (  # beside the conversation: layer 5, what waits for a pause, layer 6
            ("recall", state.recalls is not None, recall.after_turn),
            ("extraction", extraction.wanted(state), extraction.after_turn),
            ("keep_warm", state.caches or state.thrifty, pauses.after_turn),
            ("dream", dream.wanted(state), dream.after_turn),
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
        if state.attach_waiting() or response.tool_uses:  # or a message came meanwhile
            continue
        if stopped < 3 and (why := await steps.stop_hooks(state, response, again=stopped > 0)):
            stopped += 1
            state.say(why, "hook")
            continue
        return response.stop_reason if response.stop_reason in steps.NO_ANSWER else "end_turn"


async def make_room(state: State) -> None:
    """The layers that act before a call, cheapest first, each where it has something to do."""
    on, served, called = state.flags.on, state.served, state.ledger.called
    layers = (
        ("recall", state.recalls is not None, recall.act),  # memories that fit the user's message
        ("folds", served and on("folds"), tool_results.fold),  # nothing is said twice in the view
        ("tool_results", called and on("tool_results"), tool_results.act),  # layer 1: to disk
        ("microcompact", served and called, microcompact.act),  # layer 2: old results are cleared
        ("collapse", served and on("collapse"), collapse.act),  # finished rounds are folded
        ("compaction", served and on("autocompact"), compaction.act),  # layer 4: notes or a summary
        ("keep_warm", served and state.caches, pauses.choose_life),  # how long the cache lives
    )
    await _each(state, layers)


async def _each(state: State, layers: Sequence[tuple[str, bool, Callable[[State], Any]]]) -> None:
    for name, wanted, act in layers:
        try:
            if wanted and (waiting := act(state)) is not None:
                await waiting
        except Exception as error:  # noqa: BLE001 - booked; the next layer serves
            state.layer_failed(name, error)
