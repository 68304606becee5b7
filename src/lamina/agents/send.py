"""Messages between the agents of a session: to a running one's queue, which it reads between two tool
rounds; to a stopped one, which takes up its work again; to all. Whatever an agent writes has the
origin `teammate`: it is never the user's word. Touches queues and the ledgers of the agents.
"""

from __future__ import annotations

from html import escape
from typing import Any

from lamina.agents.plan import PLAN, reminder
from lamina.agents.runner import Agent, Agents
from lamina.errors import ToolError
from lamina.ledger import edits
from lamina.messages import Json, as_object
from lamina.state import State

_KINDS = (
    "shutdown_request",
    "shutdown_response",
    "plan_approval_request",
    "plan_approval_response",
)


async def send(agents: Agents, sender: State, to: str, message: Any, summary: str = "") -> str:
    """Deliver it; a sentence says how. A LaminaError says why it can't be."""
    if isinstance(message, str):
        return await _deliver(agents, sender, to, message, summary)
    value = as_object(message)
    kind = str(value.get("type"))
    if kind not in _KINDS:
        raise ToolError(f"There is no message of type {kind!r}. Types: {', '.join(_KINDS)}.")
    if to == "*":
        raise ToolError(f"A {kind} goes to one agent, not to all.")
    if kind == "shutdown_request":
        return await _ask_to_end(agents, sender, to, value)
    if kind == "shutdown_response":
        return await _agree_to_end(agents, sender, to, value)
    if kind == "plan_approval_request":
        return await _hand_in(agents, sender, to, value)
    return await _decide(agents, sender, to, value)


async def _deliver(agents: Agents, sender: State, to: str, words: str, summary: str) -> str:
    me = agents.of(sender)
    told = _letter(me, words, summary)
    if to == "*":
        others = [one for one in agents.running() if one is not me]
        for one in others:
            _hand_over(one, told)
        if me is not None:
            agents.main.queue.append((told, "teammate"))
        names = [*(["main"] if me is not None else []), *(one.card.name for one in others)]
        return f"Sent to {', '.join(names)}." if names else "No other agent runs; nobody got it."
    if to == "main":
        if me is None:
            raise ToolError("You are main. Write to another agent.")
        agents.main.queue.append((told, "teammate"))
        return "main will read it after its present round."
    agent = agents.find(to)
    if agent is me:
        raise ToolError("That is yourself. Write to another agent.")
    if agent.running:
        _hand_over(agent, told)
        return f"{agent.card.name} will read it after its present round."
    await agents.resume(agent, told, "teammate")
    return f"{agent.card.name} had ended ({agent.card.type}) and goes on with your message."


def _letter(sender: Agent | None, words: str, summary: str) -> str:
    name = sender.card.name if sender else "main"
    about = f' summary="{escape(summary)}"' if summary else ""
    return f'<message from="{escape(name)}"{about}>\n{words}\n</message>'


def _hand_over(agent: Agent, words: str) -> None:
    if agent.state is not None:
        agent.state.queue.append((words, "teammate"))


# ---- asked to end


async def _ask_to_end(agents: Agents, sender: State, to: str, value: Json) -> str:
    agent = agents.find(to)
    _must_lead(agents, sender, agent)
    if not agent.running:
        return f"{agent.card.name} does not run."
    words = (
        f"You are asked to end. {value.get('reason') or ''}\nAnswer with SendMessage to main and "
        "a message of type shutdown_response: approve true, or false with a reason."
    )
    return await _deliver(agents, sender, to, words, "shutdown request")


async def _agree_to_end(agents: Agents, sender: State, to: str, value: Json) -> str:
    me = agents.of(sender)
    if me is None:
        raise ToolError("Only an agent that was asked to end can answer with shutdown_response.")
    if value.get("approve") is True:
        me.shutdown = True
        sender.max_calls = max(1, sender.calls)  # this round was its last
    answer = "I end." if me.shutdown else f"I go on: {value.get('reason') or 'no reason given'}"
    return await _deliver(agents, sender, to, answer, "shutdown response")


def _must_lead(agents: Agents, sender: State, agent: Agent) -> None:
    """Only the conversation, or who started an agent, decides about it."""
    if sender is not agents.main and sender.agent != agent.card.parent:
        raise ToolError(f"Only main, or whoever started {agent.card.name}, can do that.")


# ---- a plan, and the leader's word on it


async def _hand_in(agents: Agents, sender: State, to: str, value: Json) -> str:
    me, plan = agents.of(sender), str(value.get("plan") or "").strip()
    if me is None or not plan:
        raise ToolError("A plan_approval_request comes from an agent, and has a plan.")
    sender.ledger.append(edits.state(PLAN, {"text": plan, "approved": False}))
    words = (
        f"My plan, for your approval:\n\n{plan}\n\nAnswer with SendMessage to {me.card.name} and a "
        "message of type plan_approval_response: approve true, or false with feedback."
    )
    return await _deliver(agents, sender, to, words, "plan approval request")


async def _decide(agents: Agents, sender: State, to: str, value: Json) -> str:
    agent = agents.find(to)
    _must_lead(agents, sender, agent)
    plan = as_object(agents.record_of(agent).state(PLAN))
    if not plan:
        raise ToolError(f"{agent.card.name} has handed in no plan.")
    approved = value.get("approve") is True
    words = f"Your plan is not approved. {value.get('feedback') or 'No reason was given.'}"
    if approved:
        words = f"Your plan is approved. Go on with it:\n\n{plan.get('text')}"
    told = await _deliver(agents, sender, to, words, "plan approval response")
    if approved and agent.state is not None:  # it runs by now
        agent.state.ledger.append(edits.state(PLAN, {**plan, "approved": True}))
        agent.state.standing.append(reminder(plan))
    return told
