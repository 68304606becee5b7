"""Messages between agents: to a running one's queue, which it reads between two tool rounds; to a
stopped one, which takes up its work again; to all; by `roads.py` to those of other processes. Whatever
an agent writes has the origin `teammate`: it is never the user's word. Touches queues and ledgers.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio.to_thread

from lamina.agents.plan import PLAN, reminder
from lamina.agents.roster import enclosed
from lamina.agents.runner import Agent, Agents
from lamina.errors import ToolError, UsageError
from lamina.ledger import edits
from lamina.messages import Json, as_object
from lamina.ports import Letter
from lamina.state import State

_KINDS = (
    "shutdown_request",
    "shutdown_response",
    "plan_approval_request",
    "plan_approval_response",
)


async def send(agents: Agents, sender: State, to: str, message: Any, summary: str = "") -> str:
    """Deliver it; a sentence says how. A LaminaError says why it can't be."""
    if to == "main" and agents.roads.leader:  # a teammate's own conversation has no reader
        to = agents.roads.leader
    if isinstance(message, str):
        return await _deliver(agents, sender, to, message, summary)
    value = as_object(message)
    kind = str(value.get("type"))
    if kind not in _KINDS:
        raise ToolError(f"There is no message of type {kind!r}. Types: {', '.join(_KINDS)}.")
    if to == "*":
        raise ToolError(f"A {kind} goes to one agent, not to all.")
    if kind == "shutdown_response":
        return await _agree_to_end(agents, sender, to, value)
    if kind == "plan_approval_request":
        return await _hand_in(agents, sender, to, value)
    if _is_elsewhere(agents, to):
        return await _post(agents, agents.of(sender), to, value, kind.replace("_", " "))
    if kind == "shutdown_request":
        return await _ask_to_end(agents, sender, to, value)
    return await _decide(agents, sender, to, value)


def hear_structured(agents: Agents) -> None:
    """What agents of other processes may ask of those here."""
    agents.roads.kinds["shutdown_request"] = partial(_asked_to_end, agents)
    agents.roads.kinds["plan_approval_response"] = partial(_decided, agents)


def _is_elsewhere(agents: Agents, to: str) -> bool:
    """By its address, or since no agent of this session is called so."""
    names = {name for one in agents for name in (one.card.name, one.card.id)}
    return to.startswith(("uds:", "bridge:")) or to not in {"main", "*", *names}


async def _post(agents: Agents, me: Agent | None, to: str, message: Any, summary: str) -> str:
    try:
        return await agents.roads.send(to, message, summary, me.card.name if me else "")
    except UsageError as error:
        if to.startswith(("uds:", "bridge:")):
            raise
        with_names = ", ".join(dict.fromkeys(one.card.name for one in agents)) or "none yet"
        raise UsageError(
            f"There is no agent {to!r}. Agents: {with_names}, and main. {error}"
        ) from error


async def _deliver(agents: Agents, sender: State, to: str, words: str, summary: str) -> str:
    me = agents.of(sender)
    if _is_elsewhere(agents, to):
        return await _post(agents, me, to, words, summary)
    told = _letter(me, words, summary)
    if to == "*":
        return await _to_all(agents, me, words, summary)
    if to == "main":
        if me is None:
            raise ToolError("You are main. Write to another agent.")
        agents.main.queue.append((told, "teammate"))
        return "main will read it after its present round."
    agent = agents.find(to)
    if agent is me:
        raise ToolError("That is yourself. Write to another agent.")
    ran = agent.running
    await agents.resume(agent, told, "teammate")
    if ran:
        return f"{agent.card.name} will read it after its present round."
    return f"{agent.card.name} had ended ({agent.card.type}) and goes on with your message."


async def _to_all(agents: Agents, me: Agent | None, words: str, summary: str) -> str:
    """Whoever runs in this session, and the teammates of this project on this machine."""
    names = ["main"] if me is not None else []
    if me is not None:
        agents.main.queue.append((_letter(me, words, summary), "teammate"))
    for one in agents.running():
        if one is not me:
            await agents.resume(one, _letter(me, words, summary), "teammate")
            names.append(one.card.name)
    for there in await anyio.to_thread.run_sync(agents.roads.others):
        if there.alive and there.type and "@" not in there.name:
            await _post(agents, me, there.name, words, summary)
            names.append(there.name)
    return f"Sent to {', '.join(names)}." if names else "No other agent runs; nobody got it."


def _letter(sender: Agent | None, words: str, summary: str) -> str:
    name = sender.card.name if sender else "main"
    return enclosed("message", words, {"from": name, "summary": summary})


# ---- asked to end


async def _ask_to_end(agents: Agents, sender: State, to: str, value: Json) -> str:
    agent = agents.find(to)
    _must_lead(agents, sender, agent)
    if not agent.running:
        return f"{agent.card.name} does not run."
    return await _deliver(agents, sender, to, _end_words(value, "main"), "shutdown request")


async def _asked_to_end(agents: Agents, letter: Letter) -> None:
    await agents.roads.tell(letter, _end_words(as_object(letter.message), letter.reply))


def _end_words(value: Json, leader: str) -> str:
    return (
        f"You are asked to end. {value.get('reason') or ''}\nAnswer with SendMessage to {leader} "
        "and a message of type shutdown_response: approve true, or false with a reason."
    )


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
    sender.ledger.append(edits.state(PLAN, {"text": plan, "approved": False, "to": to}))
    here = not _is_elsewhere(agents, to)
    name = me.card.name if here else agents.roads.address(to, me.card.name)
    words = (
        f"My plan, for your approval:\n\n{plan}\n\nAnswer with SendMessage to {name} and a "
        "message of type plan_approval_response: approve true, or false with feedback."
    )
    return await _deliver(agents, sender, to, words, "plan approval request")


async def _decide(agents: Agents, sender: State, to: str, value: Json) -> str:
    agent = agents.find(to)
    _must_lead(agents, sender, agent)
    plan, words = _verdict(agents, agent, value)
    told = await _deliver(agents, sender, to, words, "plan approval response")
    _approve(agent, plan, value)
    return told


async def _decided(agents: Agents, letter: Letter) -> None:
    """Only whoever the plan was sent to can approve it."""
    value, agent = as_object(letter.message), agents.find(letter.to or agents.roads.name)
    plan, words = _verdict(agents, agent, value)
    asked = str(plan.get("to")).removeprefix("bridge:")
    if not letter.proven or letter.reply.removeprefix("bridge:") != asked:
        raise ToolError(f"{agent.card.name} sent its plan to {asked}, who alone can approve it.")
    await agents.roads.tell(letter, words)
    _approve(agent, plan, value)


def _verdict(agents: Agents, agent: Agent, value: Json) -> tuple[Json, str]:
    """The plan, and the words for whoever made it."""
    plan = as_object(agents.record_of(agent).state(PLAN))
    if not plan:
        raise ToolError(f"{agent.card.name} has handed in no plan.")
    if value.get("approve") is True:
        return plan, f"Your plan is approved. Go on with it:\n\n{plan.get('text')}"
    return plan, f"Your plan is not approved. {value.get('feedback') or 'No reason was given.'}"


def _approve(agent: Agent, plan: Json, value: Json) -> None:
    if value.get("approve") is True and agent.state is not None:  # it runs by now
        agent.state.ledger.append(edits.state(PLAN, {**plan, "approved": True}))
        agent.state.standing.append(reminder(plan))
