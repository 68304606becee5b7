"""Plan first: until a plan is approved, only reading is permitted. For the conversation the user approves
its last answer (`/plan`); for an agent whose type wants a plan, whoever leads it. The plan is an entry
of the ledger, and comes back after a compaction. Touches the ledger.
"""

from __future__ import annotations

from lamina.agents.roster import enclosed
from lamina.errors import UsageError
from lamina.ledger import edits
from lamina.messages import Json, as_object, text_of
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
    state.ledger.append(edits.state(PLAN, {"text": "", "approved": False}))
    state.say(_BEGIN, "system", reminder=True)


def approve(state: State) -> str:
    """The last answer is the plan; returns it."""
    if not planning(state):
        raise UsageError("There is no plan to approve. /plan begins one.")
    text = ""
    for _, entry in state.ledger.messages():
        if entry.get("role") == "assistant":
            text = text_of(entry["content"]).strip() or text
    if not text:
        raise UsageError("There is no plan yet: ask for one first.")
    plan = {"text": text, "approved": True}
    state.ledger.append(edits.state(PLAN, plan))
    state.standing.append(reminder(plan))
    state.say(
        "<system-reminder>\nThe user approved the plan. Carry it out.\n</system-reminder>", "system"
    )
    return text


def leave(state: State) -> None:
    """No plan, after all: everything is permitted as before."""
    state.ledger.append(edits.state(PLAN, None))


def restore(state: State) -> None:
    """An approved plan of an earlier life of this session stands on."""
    plan = as_object(state.ledger.state(PLAN))
    if plan.get("approved") is True and state.standing:
        state.standing.append(reminder(plan))


def reminder(plan: Json) -> str:
    """An approved plan, as it comes back after a compaction."""
    return enclosed("system-reminder", f"The approved plan:\n\n{plan.get('text')}")


def reading_first(state: State, permit: Permit, how: str, *, always: bool = False) -> Permit:
    """The permission function of one whose plan may be awaited; `always`: even before it began one."""

    async def decide(spec: ToolSpec, input: Json, context: ToolContext) -> Decision:  # noqa: A002
        plan = state.ledger.state(PLAN)
        waits = planning(state) or (always and plan is None)
        if not waits or spec.read_only or spec.name in _WHILE_PLANNING:
            return await permit(spec, input, context)
        return Decision(allow=False, reason=f"the plan is not approved yet. {how}")

    return decide
