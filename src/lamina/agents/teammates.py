"""A teammate: an agent in a process of its own (`lamina agents start`), for whoever writes to it.

Letters start it, reach it between two rounds, or take it up again from its ledger. Tasks that somebody
elsewhere handed out are done one after the other; the result of each goes back as a letter. What was
begun when its process was killed goes on when it is started again. Touches what its session does.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from lamina.agents import roster
from lamina.agents.fork import last_words
from lamina.agents.roads import Roads, failed, letter_text
from lamina.agents.roster import Order
from lamina.errors import LaminaError, PostAway, UsageError
from lamina.events import AgentChanged, Event, Warned
from lamina.messages import Origin, as_object
from lamina.ports import Letter, Presence

if TYPE_CHECKING:
    from lamina.agents.runner import Agent, Agents

_GO_ON = (
    "<system-reminder>\nYour process was ended before you were done. Go on.\n</system-reminder>"
)
_RETRY = 5.0  # seconds until a result that could not be sent is sent again
_CUT = ("stopped", "cancelled")
_LONGEST = 400_000  # characters of a result


class Teammate(Roads):
    def __init__(self, agents: Agents, type_: str) -> None:
        super().__init__(agents)
        self._type = agents.types.get(type_).name
        self._tasks: list[Letter] = []  # the first one is being done, if `_busy`
        self._busy = self._over = False
        self._stirred, self._going = anyio.Event(), anyio.Lock()
        self.kinds |= {"task": self._task, "task_cancel": self._cancel}
        self.work = anyio.Event()  # once it serves

    @property
    def agent(self) -> Agent | None:
        named = [one for one in self._agents if one.card.name == self.name]
        return named[-1] if named else None

    async def serve(self) -> None:
        """Until it is stopped, or agrees to shut down."""
        agent = self.agent
        if agent is not None and agent.card.reason == roster.KILLED:
            await self._go(_GO_ON, "system")
        self.work.set()
        while not self._over:
            self._stirred = anyio.Event()
            left = await self._step()
            with anyio.move_on_after(_RETRY if left else None):
                await self._stirred.wait()
        self._agents.stop_all()

    def end(self) -> None:
        self._over = True
        self._stirred.set()

    def _hear(self, event: Event) -> None:
        super()._hear(event)
        if isinstance(event, AgentChanged):
            self._stirred.set()

    async def _step(self) -> bool:
        """Hand back a result, begin the next task; says whether something has to be tried again."""
        agent = self.agent
        if agent is not None and agent.running:
            return False
        if self._busy and agent is not None:
            card = agent.card
            text = agent.result or last_words(self._agents.record_of(agent))
            if not await self._handed_back(card.status, card.reason, text):
                return True
        if agent is not None and agent.shutdown:
            self._over = True
        elif self._tasks:
            try:
                await self._begin(self._tasks[0])
            except LaminaError as error:
                return not await self._handed_back("failed", str(error), "")
        return False

    async def _begin(self, task: Letter) -> None:
        self._busy = True
        self.leader = task.reply
        if self.agent is not None:
            self.agent.result = ""
        prompt = str(as_object(task.message).get("prompt"))
        await self._go(letter_text(task, prompt), "teammate", task.summary or prompt)

    async def _handed_back(self, status: str, reason: str, text: str) -> bool:
        """The result of the first task, to whoever wants it."""
        task = self._tasks[0]
        result = failed(task, reason) | {"status": status, "text": text[-_LONGEST:]}
        try:
            with suppress(UsageError):  # who asked has no mailbox any more
                await self.send(task.reply, result, "result", id_=f"{task.id}-r")
        except PostAway as error:
            self._main.emit(Warned(str(error)))
            return False
        self.done(self._tasks.pop(0))
        self._busy = False
        return True

    async def _go(self, words: str, origin: Origin, task: str = "") -> None:
        async with self._going:
            if (agent := self.agent) is None:
                kind, name = self._type, self.name
                order = Order(words, kind, name, task[:60], background=True, origin=origin)
                await self._agents.start(order)
            else:
                if task and not agent.running:
                    agent.card = replace(agent.card, task=" ".join(task[:60].split()))
                await self._agents.resume(agent, words, origin)

    # ---- letters

    async def tell(self, letter: Letter, words: str) -> None:
        self.leader = letter.reply or self.leader
        await self._go(letter_text(letter, words), "teammate", letter.summary or words)

    async def _task(self, letter: Letter) -> None:
        if letter.id in self._said():  # it was begun in an earlier life
            self._busy, self.leader = True, letter.reply
            self._tasks.insert(0, letter)
            if (agent := self.agent) and not agent.running and agent.card.status in _CUT:
                await self._go(_GO_ON, "system")
        else:
            self._tasks.append(letter)
        self._stirred.set()

    async def _cancel(self, letter: Letter) -> None:
        """Nobody waits for it any more."""
        name, asker = as_object(letter.message).get("task"), (letter.reply, letter.proven)
        for number, task in enumerate(self._tasks):
            given = as_object(task.message).get("task") == name
            if given and (task.reply, task.proven) == asker:
                if number == 0 and self._busy and (agent := self.agent) is not None:
                    self._agents.stop(agent.card.id)
                else:
                    self.done(self._tasks.pop(number))
                break
        self.done(letter)

    async def _stop(self, letter: Letter) -> None:
        self.done(letter)
        self.end()

    def describe(self, presence: Presence) -> Presence:
        seen = replace(super().describe(presence), type=self._type, status="idle", line="")
        if (agent := self.agent) is None:
            return seen
        doing = (agent.line or agent.doing) if agent.running else ""
        return replace(seen, status=agent.card.status, line=doing or agent.card.task)
