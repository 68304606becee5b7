"""One conversation that somebody else leads: what was said goes into a ledger of ours, the layers act on
it, and the ledger's view is what to send. Fed with messages and times; asks no model and runs no tool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from lamina import turn
from lamina.cache.spend import Spend
from lamina.config import Config, Flags
from lamina.conversation.entries import entries_of
from lamina.errors import ModelConfigError
from lamina.events import CacheBroke, Emit, quiet
from lamina.layers import notes
from lamina.ledger import edits
from lamina.ledger.record import Ledger
from lamina.messages import Block, Json, Message, Origin, Request, Response, Usage
from lamina.ports import Background, Capabilities, Decision, Model, ToolContext
from lamina.state import Deps, State
from lamina.steps import close_calls
from lamina.tools.registry import Toolbox, builtin_tools

NO_RESULT = "(no result was recorded)"
Place = tuple[int, int]  # of a block in the ledger: position of its entry, number in it


class MovedClock:
    """Stands where it was moved to; never goes back."""

    def __init__(self) -> None:
        self._at = 0.0

    def move(self, at: float) -> None:
        self._at = max(self._at, min(at, 4e9))

    def now(self) -> float:
        return self._at

    def monotonic(self) -> float:
        return self._at

    async def sleep(self, seconds: float) -> None:
        self._at += seconds


class UnaskedModel:
    """Has the name and limits of the model that the other program asks, and is never asked."""

    def __init__(self, able: Capabilities, name: str = "none") -> None:
        self.name = name
        self._able = able
        self.life = able.cache_ttl

    @property
    def capabilities(self) -> Capabilities:
        if self._able.cache_ttl != self.life:
            self._able = replace(self._able, cache_ttl=self.life)
        return self._able

    async def complete(self, request: Request, emit: Emit) -> Response:  # noqa: ARG002
        raise ModelConfigError("This model is asked by the program that leads the conversation.")

    async def close(self) -> None:
        return None


async def permit_nothing(spec: object, input: Json, context: object) -> Decision:  # noqa: A002, ARG001
    return Decision(allow=False, reason="the tools belong to another program")


class Conversation:
    """What was said so far, message by message, and where it stands in the ledger."""

    def __init__(
        self,
        config: Config,
        flags: Flags,
        folder: Path,
        model: UnaskedModel,
        background: Background,
        *,
        entries: Sequence[Json] = (),
        spend: Spend | None = None,
        toolbox: Toolbox | None = None,
        small: Callable[[Model], Model] | None = None,
        interactive: bool = False,
    ) -> None:
        self.clock, self.model = MovedClock(), model
        deps = Deps(
            config=config,
            flags=flags,
            model=model,
            toolbox=Toolbox(builtin_tools()) if toolbox is None else toolbox,
            hooks=None,
            clock=self.clock,
            spend=spend or Spend(folder / "spend"),
            folder=folder,
            transcript=folder.with_suffix(".jsonl"),
            session_id=folder.name,
            interactive=interactive,
            small=small,
        )
        context = ToolContext(folder, folder, folder, quiet, permit_nothing)
        ledger = Ledger.of(entries, now=self.clock.now)
        self.state = State(deps, ledger, context, background=background)
        self._sent: Request | None = None  # by this process, last
        self._parts = False  # whether it did not begin as the one before
        self.asker: Origin = "typed"  # whose the words are that the model gets
        self.held: list[Message] = []
        self.ends: list[int] = []  # entries when all up to this message was in; -1: within a run
        self.places: list[Sequence[Place | None]] = []  # by message, of each of its blocks

    def go_back(self, keep: int, usage_of: Callable[[Sequence[Message]], Usage]) -> None:
        """The other program took another way from an earlier message on: so does the ledger."""
        if keep >= len(self.held):
            return
        whole = keep
        while whole and self.ends[whole - 1] < 0:
            whole -= 1
        entries = self.state.ledger.entries[: self.ends[whole - 1] if whole else 0]
        self.state.ledger = Ledger.of(entries, now=self.clock.now)
        again = self.held[whole:keep]
        del self.held[whole:], self.ends[whole:], self.places[whole:]
        now = self.clock.now()
        self.append(again, lambda _: now, usage_of)

    def append(
        self,
        messages: Sequence[Message],
        time_of: Callable[[Sequence[Message]], float],
        usage_of: Callable[[Sequence[Message]], Usage],
    ) -> Response | None:
        """Record messages in the form that a session gives them; returns the last answer."""
        answer: Response | None = None
        for role, neighbours in groupby(messages, key=lambda message: message["role"]):
            run = list(neighbours)
            self.clock.move(time_of(run))
            if role == "assistant":
                close_calls(self.state, NO_RESULT)
                answer = self._answer(run, usage_of)
            else:
                self._question(run)
            self.held += run
            self.ends += [-1] * (len(run) - 1) + [len(self.state.ledger.entries)]
        return answer

    def _answer(
        self, run: Sequence[Message], usage_of: Callable[[Sequence[Message]], Usage]
    ) -> Response | None:
        self.places += [[None] * len(message["content"]) for message in run]
        placed = entries_of(run, self.state.ledger)
        if not placed:
            return None
        blocks = placed[0][0]["content"]
        stop = "tool_use" if any(b.get("type") == "tool_use" for b in blocks) else "end_turn"
        answer = Response(blocks, stop, usage_of(run))
        self.state.ledger.append(edits.answer(answer.content, answer.usage))
        return answer

    def _question(self, run: Sequence[Message]) -> None:
        ledger = self.state.ledger
        start, placed = len(ledger.entries), entries_of(run, ledger, self.asker)
        ledger.append(*(entry for entry, _ in placed))
        stands = {  # by place among the blocks of the messages
            place: (start + at, number)
            for at, (_, places) in enumerate(placed)
            for number, place in enumerate(places)
        }
        at = 0
        for message in run:
            count = len(message["content"])
            self.places.append([stands.get(place) for place in range(at, at + count)])
            at += count

    def make_room(self, answer: Response | None = None) -> None:
        """What a turn does after an answer and before a call, for a caller that can't wait: of its
        layers only those that ask a model ever do, and these must be switched off."""
        try:
            if answer is not None:
                notes.keep(self.state, answer)
        except Exception as error:  # noqa: BLE001 - booked; the next layer serves
            self.state.layer_failed(notes.LAYER, error)
        layers = turn.make_room(self.state)
        try:
            layers.send(None)
        except StopIteration:
            return
        layers.close()
        raise RuntimeError("A layer waits for something, and nobody is there to wait.")

    def watch_cache(self, system: Sequence[Block], tools: Sequence[Json]) -> None:
        """Before a request, with what stands before the view in it."""
        self._sent = replace(self.state.ledger.view(), system=system, tools=tools)
        parting = self.state.guard.before(self._sent, self.clock.now(), self.model.capabilities)
        self._parts = parting is not None

    def cache_broke(self, usage: Usage) -> CacheBroke | None:
        """After its answer: whether the cache was not read for what the other program changed. None
        of its doing: what a layer meant, a pause, a provider that keeps no cache."""
        if self._sent is None:
            return None
        answer, now = Response([], "", usage), self.clock.now()
        found = self.state.guard.after(self._sent, answer, now, self.model.capabilities)
        return None if found is None or found.registered or not self._parts else found

    def note_request(self) -> None:
        """What the view holds now has been sent."""
        ledger = self.state.ledger
        blocks, hash_ = ledger.fingerprint()
        ledger.append(edits.request(ledger.head, hash_, "main", blocks, ledger.tokens()))
