"""The agents of one session: started, watched over, stopped, and taken up again from their ledgers.

An agent has a state, a ledger (`<session>/subagents/agent-<id>.jsonl`) and a folder of its own; layers
1 to 4 serve it as they serve the conversation, recall, extraction and dream do not. It never may do
more than whoever started it. Touches that folder, and what the agent's tools are permitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from lamina import turn
from lamina.agents import fork, roster, summary, worktree
from lamina.agents.roads import Roads
from lamina.agents.roster import Card, Order
from lamina.agents.scopes import AgentMemory
from lamina.agents.states import agent_state
from lamina.agents.teammates import Teammate
from lamina.agents.types import FORK, NAMED, AgentType, AgentTypes, Trust, is_name
from lamina.errors import LaminaError, ToolError, UsageError
from lamina.events import AttemptBroke, Emit, Event, ModelCalled, ToolStarted, Warned
from lamina.layers import tool_results
from lamina.ledger import edits, log
from lamina.ledger.record import Ledger
from lamina.messages import Origin
from lamina.ports import Ask, Background, MemoryStore, Model, ToolSpec
from lamina.state import State
from lamina.steps import close_calls
from lamina.tools.registry import Toolbox, words_for

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

_WORKTREE = ToolSpec("Worktree", "Makes a git worktree for an agent.", {"type": "object"})
_CUT = "its session was killed while it worked; it goes on if you write to it"
_CAME = "<system-reminder>\nThis came while you were ending. Read it.\n</system-reminder>"
_ENDED = {"end_turn": "done", "unanswered": "done", "cancelled": "cancelled", "error": "failed"}


@dataclass(slots=True)
class Agent:
    """One agent, running or not."""

    card: Card
    type: AgentType
    caller: State  # who is told of its end
    state: State | None = None  # None while it does not run
    scope: anyio.CancelScope | None = None
    tree: worktree.Worktree | None = None
    result: str = ""
    doing: str = ""  # its last tool call, in words
    line: str = ""  # what it is doing, by a small model
    summed: tuple[int, float] = (0, 0.0)  # rounds and time at the last line
    rounds: int = 0  # model calls so far, for whoever watches
    shutdown: bool = False  # it agreed to end after this round
    opened: Model | None = None  # a model of its own
    memory: AgentMemory | None = None  # that of its type
    store: MemoryStore | None = None

    @property
    def running(self) -> bool:
        return self.state is not None


@dataclass(slots=True)
class Agents:
    """`session.agents`: start, send, stop, and look at them."""

    main: State
    types: AgentTypes
    box: Toolbox  # all tools that agents may be given
    make_tasks: Callable[[TaskGroup, Emit], Background]
    open_model: Callable[[str], Model]
    ask: Ask | None = None  # None: nobody is there to be asked
    known: dict[str, Agent] = field(default_factory=dict[str, Agent])  # by id
    roads: Roads = field(init=False)  # to agents of other processes
    _trust: Trust = field(init=False)
    _starting: anyio.Lock = field(default_factory=anyio.Lock)

    def __post_init__(self) -> None:
        self._trust = Trust(self.main.config)
        serves = self.main.config.str("agents.serves")
        self.roads = Teammate(self, serves) if serves else Roads(self)
        for card in roster.read_cards(self.main.deps.folder):
            kind = self.types.known.get(card.type) or AgentType(card.type, card.task)
            agent = self.known[card.id] = Agent(card, kind, self.main)
            if card.reason == roster.KILLED and not (serves and card.name == self.roads.name):
                # With its session: its record says so, and whoever waits for it hears of it.
                agent.card = replace(card, reason=_CUT, ended=self.main.deps.clock.now())
                with suppress(LaminaError):
                    self.roads.book(agent)
                if card.background:
                    self._notify(agent)

    # ---- looking

    def __iter__(self) -> Iterator[Agent]:
        return iter(self.known.values())

    def running(self) -> list[Agent]:
        return [agent for agent in self.known.values() if agent.running]

    def find(self, name: str) -> Agent:
        """By name or id, the last one of that name; a UsageError lists those that there are."""
        for agent in reversed(self.known.values()):
            if name in (agent.card.name, agent.card.id):
                return agent
        names = ", ".join(dict.fromkeys(one.card.name for one in self.known.values()))
        raise UsageError(f"There is no agent {name!r}. Agents: {names or 'none yet'}.")

    def of(self, state: State) -> Agent | None:
        return self.known.get(state.agent)

    def record_of(self, agent: Agent) -> Ledger:
        """Its ledger, to read."""
        if agent.state is not None:
            return agent.state.ledger
        path = roster.ledger_path(self.main.deps.folder, agent.card.id)
        return Ledger.of(log.read(path).entries)

    def caller(self, id_: str | None) -> State:
        """The agent that a tool is called by; a ToolError for background work of the layers."""
        if id_ == "":
            return self.main
        state = self.known[id_].state if id_ in self.known else None
        if state is None:
            raise ToolError("A fork can't start agents or write to them.")
        return state

    # ---- starting

    async def start(self, order: Order, caller: State | None = None) -> Agent:
        """Start an agent; one in the foreground is done when this returns. A LaminaError says why it
        can't be."""
        caller = caller or self.main
        async with self._starting:  # calls of one answer: each counts those before it
            agent = await self._made(order, caller)
        if order.remote:
            await self.roads.hand_out(agent, order.remote, order.prompt)
        elif agent.state is not None:
            # One that waits for its plan to be approved can't keep its leader waiting.
            wait = not order.background and not agent.type.plan
            await self._go(agent, agent.state, wait=wait)
        return agent

    async def _made(self, order: Order, caller: State) -> Agent:
        kind = self._allowed(order, caller)
        await self._must_be_trusted(kind)
        above = self.of(caller)
        card = roster.new_card(
            order.name or (roster.REMOTE if order.remote else order.type),
            kind.name,
            order.task or order.prompt[:60],
            parent=caller.agent,
            depth=1 + (above.card.depth if above else 0),
            started=self.main.deps.clock.now(),
            base=(caller.ledger.answer_head or "") if kind.name == FORK else order.remote,
            background=order.background,
            worktree=order.worktree and not order.remote,
            number=1 + len(self.known),
            taken={agent.card.name for agent in self.known.values()},
        )
        agent = Agent(card, kind, caller)
        if not order.remote:
            state = await self._state(agent, caller)
            if kind.name == FORK:
                fork.say_directive(state, order.prompt)
            else:
                for words in caller.standing[:1]:
                    state.say(words, "system", reminder=True)
                state.say(order.prompt, order.origin)
        self.known[card.id] = agent
        return agent

    async def _state(self, agent: Agent, caller: State) -> State:
        if agent.card.worktree:
            agent.tree = await self._make_tree(caller, agent.card)
        try:
            if agent.type.model:
                agent.opened = self.open_model(agent.type.model)
            agent.memory = await self._memory(agent.type)
            agent.state = await anyio.to_thread.run_sync(
                agent_state, self, agent, caller, caller.tools.project
            )
        except BaseException:  # a cancelled question too
            with anyio.CancelScope(shield=True):
                await self._let_go(agent)
            raise
        self._listen(agent, agent.state)
        return agent.state

    async def _memory(self, kind: AgentType) -> AgentMemory | None:
        """What somebody else put into it is shown first; else the agent goes without."""
        memory = AgentMemory.of(kind, self.main.config, self._trust)
        strange = memory.strange() if memory is not None else {}
        if memory is None or not strange:
            return memory
        files = {name: data.decode(errors="replace") for name, data in strange.items()}
        lines = [f"{n}: {one}" for n, text in files.items() for one in text.splitlines() if one]
        shown = "\n".join(lines[:15]) + "\n…" * (len(lines) > 15)
        question = f"show {kind.name} its memory, which others changed, in {memory.directory}"
        answer = "no" if self.ask is None else await self.ask("Agent", f"{question}:\n{shown}")
        if answer == "no":
            which = ", ".join(strange)
            self.main.emit(Warned(f"{kind.name} works without its memory: others changed {which}."))
            return None
        memory.agree(strange)
        return memory

    def _allowed(self, order: Order, caller: State) -> AgentType:
        if fork.is_fork(caller):
            raise ToolError("A fork can't start agents; do the task yourself.")
        if order.name and not is_name(order.name):
            raise ToolError(f"{order.name!r} is no name: {NAMED}.")
        config, above = self.main.config, self.of(caller)
        if above is not None and above.card.depth >= config.int("agents.depth"):
            raise ToolError("Agents may not start agents any deeper (agents.depth).")
        self._must_have_room()
        if order.remote:
            return AgentType(roster.REMOTE, "A task that a teammate does.")
        if order.type == FORK:
            return AgentType(FORK, "A copy of the agent that started it.")
        kind = self.types.get(order.type)
        if above is not None and above.type.agents and kind.name not in above.type.agents:
            raise ToolError(f"{above.card.name} may start only: {', '.join(above.type.agents)}.")
        return kind

    def _must_have_room(self) -> None:
        if (count := len(self.running())) >= self.main.config.int("agents.at_once"):
            raise ToolError(f"{count} agents run already (agents.at_once). Wait for one to end.")

    async def _must_be_trusted(self, kind: AgentType) -> None:
        if self._trust.allows(kind):
            return
        if self.ask is None:
            raise ToolError(
                f"The agent type {kind.name} came with the project ({kind.file}), and nobody is "
                "here to allow it. Set agents.trust, or copy it to the agents folder of your home."
            )
        answer = await self.ask("Agent", f"use the agent type {kind.name} of {kind.file}")
        if answer == "no":
            raise ToolError(f"The user does not want the agent type {kind.name} of this project.")
        self._trust.add([kind.digest], lasting=answer == "always")

    async def _make_tree(self, caller: State, card: Card) -> worktree.Worktree:
        decision = await caller.tools.permit(_WORKTREE, {"name": card.name}, caller.tools)
        if not decision.allow:
            raise ToolError(f"A worktree was not permitted: {decision.reason}")
        path = self.main.deps.folder / "worktrees" / card.id
        work = partial(worktree.make, caller.tools.project, path, f"agent-{card.id}")
        return await anyio.to_thread.run_sync(work)

    def _listen(self, agent: Agent, state: State) -> None:
        most = agent.type.max_dollars or self.main.config.float("agents.max_dollars")

        def hear(event: Event) -> None:
            fork.pass_on(self.main, event)
            if isinstance(event, ToolStarted):
                agent.doing, agent.line = words_for(event.name, event.input), ""
                if roster.is_watched(self.main.deps.folder):
                    summary.shown(self)
            elif isinstance(event, (AttemptBroke, ModelCalled)):
                agent.card = agent.card.booked(event.usage, event.cost)
            if isinstance(event, ModelCalled):
                agent.rounds += 1
                if (most and agent.card.dollars >= most) or agent.shutdown:
                    state.max_calls = state.calls  # this one was the last

        state.listeners.append(hear)

    # ---- running

    async def _go(self, agent: Agent, state: State, *, wait: bool) -> None:
        agent.card = replace(agent.card, status="running", background=not wait, reason="")
        agent.scope = anyio.CancelScope()  # it can be stopped before its first step
        work = partial(self._live, agent, state, agent.scope)
        self.main.emit(agent.card.changed())
        if wait:
            await work()
        elif not self.main.background.start(f"agent {agent.card.id}", work):
            await self._end(agent, "stopped", "the session is ending")
            raise ToolError("The session is ending; no agent can be started.")

    async def _live(self, agent: Agent, state: State, scope: anyio.CancelScope) -> None:
        """From its first call to its last word, whatever ends it."""
        status, why = "cancelled", ""
        minutes = agent.type.max_minutes or self.main.config.float("agents.max_minutes")
        try:
            with scope:
                async with anyio.create_task_group() as group:
                    state.background = self.make_tasks(group, state.emit)
                    with anyio.move_on_after(60 * minutes) as limit:
                        status, why = await self._turns(agent, state)
                    if limit.cancelled_caught:
                        status, why = "stopped", f"its {minutes:g} minutes are over"
                    await state.background.drain(0)
        finally:
            with anyio.CancelScope(shield=True):
                await self._end(agent, status, why)

    async def _turns(self, agent: Agent, state: State) -> tuple[str, str]:
        if agent.type.name == FORK:
            await fork.behind_the_first(agent.caller, state, agent.card.base)
        try:
            while True:
                state.calls, before = 0, len(state.ledger.entries)
                stop = await turn.run(state)
                agent.result = fork.last_words(state.ledger, before) or agent.result
                if stop != "end_turn" or not state.queue or agent.shutdown:
                    break
        except LaminaError as error:
            return "failed", str(error)
        if agent.shutdown:
            return "stopped", "it was asked to shut down"
        why = "its limit of calls or dollars is reached" if stop == "max_calls" else stop
        status = _ENDED.get(stop, "stopped")
        return status, "" if status == "done" else why

    async def _end(self, agent: Agent, status: str, why: str) -> None:
        """Its last entries; its caller hears of it. Nothing that was sent to it is lost: what came
        after its last round is in its record, and it is taken up again for that."""
        kept, now = await self._let_go(agent), self.main.deps.clock.now()
        # No pause from here on: whoever writes finds its queue, or can take it up again.
        state, agent.state, agent.scope = agent.state, None, None
        if state is None:
            return
        agent.card = replace(agent.card, status=status, reason=why, ended=now, kept=kept)
        for words, origin in state.queue:
            state.say(words, origin)
        state.ledger.append(edits.state(roster.CARD, agent.card.to_json()))
        state.ledger.close()
        self.main.emit(agent.card.changed())
        if agent.card.background:
            self._notify(agent)
        if state.queue and status == "done":
            again = partial(self.resume, agent, _CAME, "system")
            self.main.background.start(f"words for agent {agent.card.id}", again)

    async def _let_go(self, agent: Agent) -> str:
        """Of what it held beside its ledger; says where its worktree is, if that is kept."""
        if agent.store is not None:
            await anyio.to_thread.run_sync(agent.store.close)
        if agent.opened is not None:
            await agent.opened.close()
        agent.store = agent.opened = None
        return await anyio.to_thread.run_sync(worktree.finish, agent.tree) if agent.tree else ""

    def report(self, agent: Agent) -> str:
        """What its caller is told: how it ended, its last words, its worktree."""
        card = agent.card
        how = "is done" if card.status == "done" else f"{card.status}: {card.reason}"
        head = f"The agent {card.name} ({card.type}, id {card.id}) {how.rstrip(': ')}."
        return "\n\n".join(part for part in (head, agent.result, card.kept) if part)

    def _notify(self, agent: Agent) -> None:
        above = self.of(agent.caller)
        caller = agent.caller if above is None or above.running else self.main
        name = f"agent-{agent.card.id}-{agent.rounds}"
        words = tool_results.told(caller, name, self.report(agent))
        caller.queue.append((roster.enclosed("agent-notification", words), "agent"))

    # ---- stopping, and going on

    def stop(self, name: str) -> Agent:
        """End a running agent; what it did stays."""
        agent = self.find(name)
        if agent.card.type == roster.REMOTE and agent.card.status == "running":
            self.main.background.start(f"call off {name}", partial(self.roads.call_off, agent))
        if agent.scope is not None:
            agent.scope.cancel()
        return agent

    def stop_all(self, starter: str = "") -> None:
        """Those that this agent started, directly or not; "": all."""
        for agent in self.running():
            above: Agent | None = agent
            while above is not None and above.card.parent != starter:
                above = self.known.get(above.card.parent)
            if (above is not None or not starter) and agent.scope is not None:
                agent.scope.cancel()

    async def listen(self, *, task_status: TaskStatus[None]) -> None:
        await self.roads.listen(task_status=task_status)

    def hang_up(self) -> None:
        self.roads.hang_up()

    async def resume(self, agent: Agent, words: str, origin: Origin) -> None:
        """Words for an agent: into its queue while it runs; else it is taken up again from its ledger,
        in the background."""
        async with self._starting if agent.state is None else nullcontext():
            if agent.state is not None:  # two at once must not open it twice
                agent.state.queue.append((words, origin))
                return
            self._must_have_room()
            if agent.card.type == roster.REMOTE:
                raise ToolError(f"{agent.card.name} is done elsewhere. Write to {agent.card.base}.")
            await self._must_be_trusted(agent.type)
            agent.caller, agent.shutdown = self.main, False
            state = await self._state(agent, self.main)
            agent.card = replace(agent.card, status="running", reason="", background=True)
            # First, so that whoever finds its record cut off knows that there was more to do.
            state.ledger.append(edits.state(roster.CARD, agent.card.to_json()))
            close_calls(state, "[The agent ended before this call did]")
            state.say(words, origin)
            await self._go(agent, state, wait=False)


def agents_of(state: State) -> Agents:
    """A UsageError where agents are off."""
    if not isinstance(state.agents, Agents):
        raise UsageError("Agents are off. Set agents.enabled.")
    return state.agents
