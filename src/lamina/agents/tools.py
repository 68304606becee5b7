"""The tools by which an agent starts others and writes to them: Agent and SendMessage.

They are the same for everyone in a session, so that forks share its prompt; who calls is known from
the tool context. What an agent may do is decided where it is started (`runner.py`).

A message goes to a running agent's queue, which it reads between two tool rounds; to a stopped one,
which takes up its work again; to all; by `roads.py` to those of other processes. Whatever an agent
writes has the origin `teammate`: it is never the user's word. Touches queues and ledgers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread

from lamina.agents.plan import PLAN, settle
from lamina.agents.roster import Order, enclosed
from lamina.agents.runner import Agent, Agents
from lamina.agents.types import FORK, load_types
from lamina.errors import ToolError, UsageError
from lamina.events import Warned
from lamina.messages import Json, as_object
from lamina.ports import Ask, Background, Letter, Model, ToolContext, ToolOutcome, ToolSpec
from lamina.state import State
from lamina.tools import takes, words
from lamina.tools.registry import Toolbox

_COORDINATES = ("Agent", "SendMessage", "Todo")  # beside what only reads
_STRING: Json = {"type": "string", "minLength": 1}
_TYPED: Json = {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}


class AgentTool:
    """Agent: gives a task to another agent."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        types = "\n".join(f"- {one.name}: {one.description}" for one in agents.types.known.values())
        self.spec = ToolSpec(
            name="Agent",
            description=(
                "Gives a task to another agent, and returns its result. It sees nothing of this "
                f"conversation, so the prompt has to say everything; type {FORK!r} is a copy of you "
                "that has seen all of it. Several calls in one answer run side by side. With "
                "background you go on at once and are told when it is done; with worktree it works "
                "on a git worktree of its own; with remote a teammate of that name does it, in a "
                f"process of its own or on another host. Types:\n{types}"
            ),
            input_schema=takes(
                "prompt",
                prompt={**_STRING, "description": "The whole task."},
                type={**_STRING, "description": "An agent type; general if left out."},
                task=words(100, "The task in 3-5 words."),
                name=words(40, "To write to it by."),
                background={"type": "boolean"},
                worktree={"type": "boolean"},
                remote=words(200, "Instead of a type."),
            ),
        )

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        agent = await self._agents.start(Order(**input), self._agents.caller(context.agent))
        card = agent.card
        meta: dict[str, Any] = {"agent": card.id, "type": card.type, "status": card.status}
        if agent.running or card.background:
            told = (
                f"The agent {card.name} (id {card.id}) works in the background. You will be told "
                "when it is done; don't wait for it, and don't do its task."
            )
            return ToolOutcome(told, meta=meta)
        if card.status == "done" and not card.kept:
            return ToolOutcome(agent.result, meta=meta)
        return ToolOutcome(self._agents.report(agent), is_error=card.status != "done", meta=meta)


class SendMessage:
    """SendMessage: words for another agent, or for all."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self.spec = ToolSpec(
            name="SendMessage",
            description=(
                "Writes to another agent: by its name or id, `main` for the agent of the "
                "conversation, `*` for all that run; outside this session by the name of a teammate, "
                "or by what a message is `from`. A running agent reads it after its present round; "
                "one that has ended takes up its work again. Besides text, message "
                "can be an object with a type: shutdown_request (reason), shutdown_response "
                "(approve, reason), plan_approval_request (plan), plan_approval_response (approve, "
                "feedback)."
            ),
            input_schema=takes(
                "to message",
                to={**_STRING, "maxLength": 200},
                message={"anyOf": [{**_STRING, "maxLength": 100_000}, _TYPED]},
                summary=words(200, "In 5-10 words."),
            ),
        )

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        sender = self._agents.caller(context.agent)
        return ToolOutcome(await send(self._agents, sender, **input))


def add_agents(
    state: State,
    make_tasks: Callable[..., Background],
    open_model: Callable[[str], Model],
    ask: Ask | None,
) -> None:
    """Give a session these tools, and what stands behind them."""
    box, config = state.deps.toolbox, state.config
    types = load_types(config, [*(tool.spec.name for tool in box), "Agent", "SendMessage"])
    agents = state.agents = Agents(state, types, Toolbox(box), make_tasks, open_model, ask)
    hear_structured(agents)
    for tool in (AgentTool(agents), SendMessage(agents)):
        agents.box.add(tool)
        box.add(tool)
    if config.bool("agents.coordinator"):
        mine = [t for t in box if t.spec.read_only or t.spec.name in _COORDINATES]
        state.deps = replace(state.deps, toolbox=Toolbox(mine))
    problems = [*types.bad.values(), *types.warnings]
    frame = state.ledger.projection.frame or {"tools": [{"name": "Agent"}]}
    if "Agent" not in {tool["name"] for tool in frame["tools"]}:  # its tools stay as they were
        problems.append("This session began without agents; only a new one can start them.")
    for problem in problems:
        state.emit(Warned(problem))


# ---- messages between agents

T = TypeVar("T")
_PLAN_ASKED, _PLAN_DECIDED = "plan_approval_request", "plan_approval_response"
_KINDS = ("shutdown_request", "shutdown_response", _PLAN_ASKED, _PLAN_DECIDED)
_ADDRESSES = ("uds:", "bridge:")


async def send(agents: Agents, sender: State, to: str, message: Any, summary: str = "") -> str:
    """Deliver it; a sentence says how. A LaminaError says why it can't be."""
    me, value = agents.of(sender), as_object(message)
    if to == "main" and agents.roads.leader:  # a teammate's own conversation has no reader
        to = agents.roads.leader
    if isinstance(message, str):
        return await _deliver(agents, me, to, message, summary)
    if (kind := str(value.get("type"))) not in _KINDS:
        raise ToolError(f"There is no message of type {kind!r}. Types: {', '.join(_KINDS)}.")
    if to == "*":
        raise ToolError(f"A {kind} goes to one agent, not to all.")
    words = kind.replace("_", " ")
    if kind == "shutdown_response":
        return await _deliver(agents, me, to, _answer_to_end(me, sender, value), words)
    if kind == _PLAN_ASKED:
        return await _deliver(agents, me, to, _hand_in(agents, me, sender, to, value), words)
    if _is_elsewhere(agents, to):
        return await _deliver(agents, me, to, value, words)
    agent = agents.find(to)
    if sender is not agents.main and sender.agent != agent.card.parent:
        raise ToolError(f"Only main, or whoever started {agent.card.name}, can do that.")
    if kind == _PLAN_DECIDED:
        return await _decide(agents, agent, value, partial(_deliver, agents, me, to, summary=words))
    if not agent.running:
        return f"{agent.card.name} is not running."
    return await _deliver(agents, me, to, _end_words(value, "main"), words)


def hear_structured(agents: Agents) -> None:
    """What agents of other processes may ask of those here."""

    async def asked_to_end(letter: Letter) -> None:
        await agents.roads.tell(letter, _end_words(as_object(letter.message), letter.reply))

    async def decided(letter: Letter) -> None:
        agent = agents.find(letter.to or agents.roads.name)
        asked = str(_plan_of(agents, agent).get("to")).removeprefix("bridge:")
        if not letter.proven or letter.reply.removeprefix("bridge:") != asked:
            raise ToolError(
                f"{agent.card.name} sent its plan to {asked}, who alone can approve it."
            )
        await _decide(agents, agent, as_object(letter.message), partial(agents.roads.tell, letter))

    agents.roads.kinds |= {"shutdown_request": asked_to_end, _PLAN_DECIDED: decided}


def _is_elsewhere(agents: Agents, to: str) -> bool:
    """By its address, or since no agent of this session is called so."""
    names = {name for one in agents for name in (one.card.name, one.card.id)}
    return to.startswith(_ADDRESSES) or to not in {"main", "*", *names}


async def _deliver(
    agents: Agents, me: Agent | None, to: str, message: str | Json, summary: str
) -> str:
    name = me.card.name if me else "main"
    if not isinstance(message, str) or _is_elsewhere(agents, to):
        return await _post(agents, me, to, message, summary)
    told = enclosed("message", message, {"from": name, "summary": summary})
    if to == "*":
        return await _to_all(agents, me, message, summary, told)
    if to == name == "main":
        raise ToolError("You are main. Write to another agent.")
    if to == "main":
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


async def _post(agents: Agents, me: Agent | None, to: str, message: Any, summary: str) -> str:
    try:
        return await agents.roads.send(to, message, summary, me.card.name if me else "")
    except UsageError as error:
        if to.startswith(_ADDRESSES):
            raise
        names = ", ".join(dict.fromkeys(one.card.name for one in agents)) or "none yet"
        raise UsageError(f"There is no agent {to!r}. Agents: {names}, and main. {error}") from error


async def _to_all(agents: Agents, me: Agent | None, words: str, summary: str, told: str) -> str:
    """Whoever runs in this session, and the teammates of this project on this machine."""
    names = ["main"] if me is not None else []
    if me is not None:
        agents.main.queue.append((told, "teammate"))
    for one in agents.running():
        if one is not me:
            await agents.resume(one, told, "teammate")
            names.append(one.card.name)
    for there in await anyio.to_thread.run_sync(agents.roads.others):
        if there.alive and there.type and "@" not in there.name:
            await _post(agents, me, there.name, words, summary)
            names.append(there.name)
    return f"Sent to {', '.join(names)}." if names else "No other agent runs; nobody got it."


# ---- asked to end


def _end_words(value: Json, leader: str) -> str:
    return (
        f"You are asked to end. {value.get('reason') or ''}\nAnswer with SendMessage to {leader} "
        "and a message of type shutdown_response: approve true, or false with a reason."
    )


def _answer_to_end(me: Agent | None, sender: State, value: Json) -> str:
    if me is None:
        raise ToolError("Only an agent that was asked to end can answer with shutdown_response.")
    if value.get("approve") is not True:
        return f"I go on: {value.get('reason') or 'no reason given'}"
    me.shutdown = True
    sender.max_calls = max(1, sender.calls)  # this round was its last
    return "I end."


# ---- a plan, and the leader's word on it


def _hand_in(agents: Agents, me: Agent | None, sender: State, to: str, value: Json) -> str:
    plan = str(value.get("plan") or "").strip()
    if me is None or not plan:
        raise ToolError("A plan_approval_request comes from an agent, and has a plan.")
    settle(sender, {"text": plan, "approved": False, "to": to})
    here = not _is_elsewhere(agents, to)
    name = me.card.name if here else agents.roads.address(to, me.card.name)
    return (
        f"My plan, for your approval:\n\n{plan}\n\nAnswer with SendMessage to {name} and a "
        "message of type plan_approval_response: approve true, or false with feedback."
    )


def _plan_of(agents: Agents, agent: Agent) -> Json:
    plan = as_object(agents.record_of(agent).state(PLAN))
    if not plan:
        raise ToolError(f"{agent.card.name} has handed in no plan.")
    return plan


async def _decide(
    agents: Agents, agent: Agent, value: Json, tell: Callable[[str], Awaitable[T]]
) -> T:
    plan = _plan_of(agents, agent)
    if value.get("approve") is not True:
        why = value.get("feedback") or "No reason was given."
        return await tell(f"Your plan is not approved. {why}")
    told = await tell(f"Your plan is approved. Go on with it:\n\n{plan.get('text')}")
    if agent.state is not None:  # it runs by now
        settle(agent.state, {**plan, "approved": True})
    return told
