"""The state of an agent: its ledger, tools, prompt and context, made from whoever starts it or, when it
is taken up again, from its ledger. Touches that ledger.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lamina import prompts
from lamina.agents import plan, roster
from lamina.agents.fork import Forks, MainToolSession
from lamina.agents.scopes import AgentRemember, heard_by
from lamina.agents.types import FORK, AgentType
from lamina.ledger import edits, log
from lamina.ledger.record import Ledger
from lamina.machine import private_folder
from lamina.messages import Json, text
from lamina.ports import NoBackground
from lamina.state import State
from lamina.tools.permissions import Rule
from lamina.tools.registry import Toolbox

if TYPE_CHECKING:
    from lamina.agents.runner import Agent, Agents

_HAND_IN = "Send it to main as a plan_approval_request."
_OURS = ("Remember", "Forget", "Recall")  # the conversation's memory is not an agent's


def agent_state(agents: Agents, agent: Agent, caller: State, project: Path) -> State:
    """A new one, or one whose ledger is there already."""
    card, kind = agent.card, agent.type
    path = roster.ledger_path(agents.main.deps.folder, card.id)
    private_folder(path.parent)
    new = not path.exists()
    ledger = agent_ledger(agents, agent, caller, path)
    place = agent.tree.place if agent.tree is not None else project
    fork = kind.name == FORK
    whole = agents.box if caller is agents.main or kind.tools is not None else caller.deps.toolbox
    toolbox = caller.deps.toolbox if fork else narrowed(whole, kind)
    if not new:  # its type may have gone or grown since: it has what it began with, at most
        had = {tool["name"] for tool in (ledger.projection.frame or {"tools": []})["tools"]}
        toolbox = Toolbox(tool for tool in toolbox if tool.spec.name in had)
    deps = replace(
        caller.deps,
        model=agent.opened or caller.deps.model,
        toolbox=toolbox,
        hooks=agents.main.deps.hooks,
        folder=path.with_suffix(""),
        transcript=path,
        memory_index=None,
    )
    tools = replace(
        caller.tools,
        project=place,
        cwd=place if agent.tree is not None or not fork else caller.tools.cwd,
        scratch=deps.folder,
        notes=caller.tools.notes or caller.tools.scratch.parent,
        agent=card.id,
        files=dict(caller.tools.files) if fork else {},
    )
    if agent.tree is not None:
        tools.writes, tools.reads = agent.tree.writes, [*tools.reads, agent.tree.git]
    if agent.memory is not None:
        tools.reads = [*tools.reads, agent.memory.directory]
        store = agent.memory.open(caller.config, caller.emit, lambda: heard_by(ledger))
        others = [tool for tool in toolbox if tool.spec.name != "Remember"]
        mine = AgentRemember(agent.memory, store, deps.session_id)
        agent.store, deps = store, replace(deps, toolbox=Toolbox([*others, mine]))
    state = State(deps, ledger, tools, NoBackground(), purpose="agent", agent=card.id)
    state.agents = agents
    state.tools.emit, state.tools.session = state.emit, MainToolSession(state)
    state.fork = Forks(state)
    state.max_calls = kind.max_calls or agents.main.config.int("agents.max_calls")
    state.standing = list(caller.standing)
    plan.restore(state)
    if kind.plan:
        state.tools.permit = plan.reading_first(state, caller.tools.permit, _HAND_IN, always=True)
    if fork and new:
        caller.lend(state)
    if new:
        ledger.append(*_first(state, agent, fork=fork))
    return state


def narrowed(box: Toolbox, kind: AgentType) -> Toolbox:
    """Tools of the conversation that the type names: never more than there are."""
    named, denied = kind.tools, [Rule(one, one, None) for one in kind.without]
    starts = bool(kind.agents) or (named is not None and "Agent" in named)

    def fits(name: str) -> bool:
        if any(one.names(name) for one in denied):
            return False
        if named is None or name == "Agent":
            return starts if name == "Agent" else name not in _OURS
        return name in named or (name == "SendMessage" and bool(named))

    return Toolbox(t for t in box if fits(t.spec.name))


def agent_ledger(agents: Agents, agent: Agent, caller: State, path: Path) -> Ledger:
    clock = agents.main.deps.clock
    if agent.type.name != FORK:
        return Ledger.open(path, now=clock.now)
    if not path.exists():
        return caller.ledger.branch(at_answer=True).kept_in(path)
    parent = agents.main.ledger
    if agent.card.parent:
        above = roster.ledger_path(agents.main.deps.folder, agent.card.parent)
        parent = Ledger.of(log.read(above).entries)
    at = parent.projection.position.get(agent.card.base, len(parent.entries) - 1)
    return Ledger.of(parent.entries[: at + 1], now=clock.now).kept_in(path)


def _first(state: State, agent: Agent, *, fork: bool) -> list[Json]:
    head = edits.session(state.deps.session_id, state.tools.project)
    first = [head, edits.state(roster.CARD, agent.card.to_json())]
    if fork:
        return first
    part = agent.type.prompt or agent.type.description
    if agent.type.plan:
        part += f"\n\nYou may only read until your plan is approved. {_HAND_IN} Then end your turn."
    system = [text(prompts.load("agent", project=str(state.tools.project), prompt=part))]
    if agent.memory is not None and agent.store is not None:
        system.append(text(agent.memory.section(agent.store)))
    tools = [spec.to_json() for spec in state.deps.toolbox.specs()]
    return [*first, edits.frame(system, tools, state.deps.model.name, {})]
