"""Plan first: until a plan is approved, only reading is permitted. For the conversation the user approves
its last answer (`/plan`); for an agent whose type wants a plan, whoever leads it. The plan is an entry
of the ledger, and comes back after a compaction. Touches the ledger.
"""

from __future__ import annotations

from lamina.agents.fork import last_words
from lamina.agents.roster import enclosed
from lamina.errors import UsageError
from lamina.ledger import edits
from lamina.messages import Json, as_object
from lamina.ports import Decision, Permit, ToolContext, ToolSpec
from lamina.state import State

PLAN = "plan"  # the name of the `state` entry: {"text", "approved"}
_WHILE_PLANNING = ("SendMessage", "Todo")
_BEGIN = (
    "<system-reminder>\nThe user wants a plan first. Only reading is permitted until they approve "
    "it. Look at what the task needs, then answer with the plan: the steps, the files, how you "
    "will check the result.\n</system-reminder>"
)


def planning(state: State) -> bool:
    """Is there a plan to be made, or one that nobody approved yet?"""
    plan = state.ledger.state(PLAN)
    return plan is not None and as_object(plan).get("approved") is not True


def begin(state: State) -> None:
    """From here on the conversation may only read."""
    settle(state, {"text": "", "approved": False})
    state.say(_BEGIN, "system", reminder=True)


def approve(state: State) -> str:
    """The last answer is the plan; returns it."""
    if not planning(state):
        raise UsageError("There is no plan to approve. /plan starts one.")
    if not (text := last_words(state.ledger).strip()):
        raise UsageError("There is no plan yet: ask for one first.")
    settle(state, {"text": text, "approved": True})
    state.say(
        "<system-reminder>\nThe user approved the plan. Carry it out.\n</system-reminder>", "system"
    )
    return text


def leave(state: State) -> None:
    """No plan, after all: everything is permitted as before."""
    settle(state, None)


def settle(state: State, plan: Json | None) -> None:
    """This is the plan from now on, and no earlier one."""
    state.ledger.append(edits.state(PLAN, plan))
    restore(state)


def restore(state: State) -> None:
    """An approved plan of the record comes back after a compaction."""
    plan = as_object(state.ledger.state(PLAN))
    words = f"The approved plan:\n\n{plan.get('text')}"
    state.plan = enclosed("system-reminder", words) if plan.get("approved") is True else ""


def reading_first(state: State, permit: Permit, how: str, *, always: bool = False) -> Permit:
    """The permission function of one whose plan may be awaited; `always`: even before it began one."""

    async def decide(spec: ToolSpec, input: Json, context: ToolContext) -> Decision:  # noqa: A002
        waits = planning(state) or (always and state.ledger.state(PLAN) is None)
        if not waits or spec.read_only or spec.name in _WHILE_PLANNING:
            return await permit(spec, input, context)
        return Decision(allow=False, reason=f"the plan is not approved yet. {how}")

    return decide
