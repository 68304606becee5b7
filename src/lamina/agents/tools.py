"""The tools by which an agent starts others and writes to them: Agent and SendMessage.

They are the same for everyone in a session, so that forks share its prompt; who calls is known from
the tool context. What an agent may do is decided where it is started (`runner.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lamina.agents.runner import Agents, Order
from lamina.agents.send import hear_structured, send
from lamina.agents.types import FORK, load_types
from lamina.events import Warned
from lamina.messages import Json
from lamina.ports import Ask, Background, Model, ToolContext, ToolOutcome, ToolSpec
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
