"""Has the small model read, in its place in the talk, what a model wants to keep as the user's word (L5.6).

The gate asks from the thread that writes, and waits; what can't be asked is left to the words alone.
Touches the small model, through the spend ledger, and nothing else.
"""

from __future__ import annotations

import anyio
import anyio.from_thread

from lamina import prompts
from lamina.errors import LaminaError, RefusedError
from lamina.messages import Json, Request, text
from lamina.recall.prefetch import schema_params
from lamina.state import State

LAYER = "reading"
_SECONDS = 20.0
_MOST_TOKENS = 300  # an answer that is cut off is none
_VERDICT: Json = {
    "type": "object",
    "properties": {"meant": {"type": "boolean"}, "why": {"type": "string"}},
    "required": ["meant", "why"],
    "additionalProperties": False,
}


def read(state: State, question: str) -> str:
    """The answer, "" if there is none. On the session's own thread nobody may wait for one."""
    try:
        return anyio.from_thread.run(_asked, state, question)
    except RuntimeError:
        return ""


async def _asked(state: State, question: str) -> str:
    deps = state.deps
    if deps.small is None:
        return ""
    model = deps.small(deps.model).name
    try:
        request = Request(
            system=[text(prompts.load(LAYER))],
            tools=[],
            messages=[{"role": "user", "content": [text(question)]}],
            model=model,
            max_tokens=_MOST_TOKENS,
            params=schema_params(model, _VERDICT, "verdict"),
            purpose=LAYER,
        )
        with anyio.move_on_after(_SECONDS):
            return (await state.ask_small(request)).text
    except RefusedError:
        pass  # today's money is spent
    except LaminaError as error:
        state.layer_failed(LAYER, error)
    return ""
