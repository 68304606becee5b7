"""The only mutable state of a session, and the frozen set of parts that it works with.

`Deps` is chosen once by wiring.py. `State` belongs to one agent: its ledger, its tools' context,
what waits for the next round. A fork gets a state of its own. Touches nothing but its ledger.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from lamina.cache.account import ASIDE, LIFE, LONG_LIFE, SHORT_LIFE, Account, Rates, rates
from lamina.cache.guard import Guard
from lamina.cache.spend import FREE_PREFIXES, Spend, price_of
from lamina.config import Config, Flags
from lamina.errors import LaminaError, RefusedError
from lamina.events import (
    AttemptBroke,
    Emit,
    Event,
    LayerFailed,
    ModelCalled,
    TextDelta,
    ThinkingDelta,
)
from lamina.ledger import edits, tokens
from lamina.ledger.folding import Folding
from lamina.ledger.record import Ledger
from lamina.ledger.tokens import Window, window_of
from lamina.ledger.view import Projection, Row
from lamina.local.session_facts import SessionReader
from lamina.messages import Block, Json, Origin, Purpose, Request, Response, Usage
from lamina.ports import (
    Agents,
    Background,
    Capabilities,
    Clock,
    Fork,
    HookName,
    HookResult,
    Hooks,
    MemoryStore,
    Model,
    Permit,
    ToolContext,
    ToolSpec,
)
from lamina.tools.registry import Toolbox

if TYPE_CHECKING:
    from lamina.recall.memory_index import MemoryIndex
    from lamina.recall.prefetch import Recalls
    from lamina.tools.mcp_client import McpServers
    from lamina.tools.memory_guard import MemoryGuard

# Streamed pieces go to listeners only: the whole answer is in the ledger.
_PASSING = (TextDelta, ThinkingDelta)


@dataclass(frozen=True, slots=True)
class Deps:
    """Everything that a turn calls, chosen by wiring.py."""

    config: Config
    flags: Flags
    model: Model
    toolbox: Toolbox
    hooks: Hooks | None  # None: there are none
    clock: Clock
    spend: Spend
    folder: Path  # this session's own files
    transcript: Path
    session_id: str
    interactive: bool = False
    servers: McpServers | None = None  # the user's MCP servers, whose tools join when they answer
    memory: MemoryStore | None = None  # None: memory is off
    memory_index: MemoryIndex | None = None  # finds memories; None where memory is off
    guard: MemoryGuard | None = None  # gates memory files that tools change by themselves
    small: Callable[[Model], Model] | None = None  # given the main model, the one for small calls
    unattended: Permit | None = None  # the user's rules for background work, which never asks


@dataclass(slots=True)
class MovedResult:
    """A result that layer 1 moved to disk, as the record has it; and how its file was last seen."""

    block: Block
    stamp: tuple[int, ...] | None = None  # None: look inside


@dataclass(slots=True)
class FoldedView:
    """What folds know of the view: lines, and the blocks in which they stand."""

    entries: Sequence[Json]  # of the ledger that it was made for
    folding: Folding
    until: int = 0  # entries before this one are noted
    blocks: MutableMapping[tuple[int, int], Block] = field(
        default_factory=dict[tuple[int, int], Block]
    )
    calls: MutableMapping[str, Block] = field(default_factory=dict[str, Block])

    def branch(self, entries: Sequence[Json]) -> FoldedView | None:
        """For a branch that has these entries; None: this one has seen others."""
        if self.until > len(entries):
            return None
        blocks, calls = ChainMap({}, self.blocks), ChainMap({}, self.calls)
        return FoldedView(entries, self.folding.branch(self.until), self.until, blocks, calls)


@dataclass(slots=True)
class OldResults:
    """Tool results of a view that layer 2 may clear, as it found them last."""

    projection: Projection | None = None  # that it looked at
    edits: int = 0  # changes of it that were seen,
    until: int = 0  # and rows
    cleared: int = -1  # the last row that was cleared before
    places: list[int] = field(default_factory=list[int])  # of the rows that follow it
    rows: list[Row] = field(default_factory=list[Row])
    sums: list[int] = field(default_factory=list[int])  # tokens of these up to each


@dataclass(slots=True)
class State:
    deps: Deps
    ledger: Ledger
    tools: ToolContext
    background: Background
    purpose: Purpose = "main"
    guard: Guard = field(default_factory=Guard)
    account: Account = field(default_factory=Account)  # what the layers saved so far
    priced: tuple[tuple[str, Capabilities, Config], Rates] | None = None  # last
    listeners: list[Emit] = field(default_factory=list[Emit])
    events: list[Event] = field(default_factory=list[Event])  # of this turn
    queue: list[tuple[str, Origin]] = field(default_factory=list[tuple[str, Origin]])
    usage: Usage = field(default_factory=Usage)  # of this turn
    calls: int = 0  # of the model, in this turn
    last_usage: Usage = field(default_factory=Usage)  # of the last main call
    turn: int = 0
    max_tokens: int = 0  # raised once when an answer is cut off; 0: the model's default
    streamed: str = ""  # text of an answer that is still coming
    max_calls: int = 0  # of one turn; 0: the setting
    forked: bool = False
    asked_until: int = 0  # no directive of a fork stands in the entries before this one
    agent: str = ""  # its id, if another agent started it
    agents: Agents | None = None  # those that it can start; None where that is off
    leads: dict[str, anyio.Event] = field(default_factory=dict[str, anyio.Event])  # first forks
    shared_blocks: int = 0  # of the view, that other forks of the same answer send too
    fork: Fork | None = None  # set by opening.py; layers reach agents through it
    instructions: list[str] = field(default_factory=list[str])  # files whose text was given
    standing: list[str] = field(default_factory=list[str])  # reminders that survive a compaction
    plan: str = ""  # the approved one, as it comes back after a compaction
    trailing: dict[str, str] = field(default_factory=dict[str, str])  # task → run it up to here
    looked: dict[str, float] = field(default_factory=dict[str, float])  # when a layer last looked
    recalls: Recalls | None = None  # None: recall is off
    render_again: Callable[[], None] | None = None  # the system prompt, where that costs no cache
    moved: dict[Path, MovedResult] = field(default_factory=dict[Path, MovedResult])
    moved_until: int = 0  # entries that were looked through for them
    folding: FoldedView | None = None  # made anew from the ledger where it is missing
    results: OldResults = field(default_factory=OldResults)
    facts: SessionReader = field(default_factory=SessionReader)  # of what a summary stands for
    noted: SessionReader = field(default_factory=SessionReader)  # and of the notes by rules
    said: set[str] = field(default_factory=set[str])  # sentences that are told once a session
    expands: bool = True  # whether the model has Expand; else what leaves the view is in a file
    names_files: bool = True  # whether the model can read a file that is named to it
    whole_rounds: bool = (
        False  # a summary ends before an answer: the rest is another program's list
    )

    # ---- short cuts

    @property
    def served(self) -> bool:
        """Do layers 1 to 4 serve it? Agents that live longer than one task of a layer."""
        return self.purpose in ("main", "agent") and not self.forked

    @property
    def flags(self) -> Flags:
        return self.deps.flags

    @property
    def config(self) -> Config:
        return self.deps.config

    @property
    def capabilities(self) -> Capabilities:
        """The model's, with the life that this session's cache has now."""
        able, life = self.deps.model.capabilities, self.ledger.state(LIFE)
        if not life or able.cache_choice != "all" or able.cache_ttl == life:
            return able
        return replace(able, cache_ttl=int(life))

    @property
    def window(self) -> Window:
        return window_of(self.capabilities, self.config)

    @property
    def caches(self) -> bool:
        """Does the model's provider have a prompt cache?"""
        return self.deps.model.capabilities.cache != "none"

    def balance(self) -> Account | None:
        """What the layers have saved so far, up to date; None where no cache is billed."""
        if not self.caches:
            return None
        model = str((self.ledger.projection.frame or {}).get("model") or "")
        of = model, self.deps.model.capabilities, self.config
        if self.priced is None or self.priced[0] != of:
            self.priced = of, rates(*of[:2], self.config.table("prices"))
        return self.account.follow(self.ledger.entries, self.priced[1])

    @property
    def weight(self) -> float:
        """Tokens that the provider counts for one of ours in the view."""
        counted = self.ledger.tokens() - self.ledger.frame_tokens
        return max(0, counted) / max(1, self.ledger.projection.tokens)

    @property
    def whole_tokens(self) -> int:
        """Size of the view if the layers held nothing back from it."""
        account = self.balance()
        held = self.weight * account.kept_out if account is not None else 0.0
        return self.ledger.tokens() + round(held)

    @property
    def thrifty(self) -> bool:
        """Whether background work waits until a call of the model is worth its price. One that costs
        nothing is asked whenever there is something to do."""
        name = self.deps.model.name
        if name == "none" or self.config.str("model").startswith(FREE_PREFIXES):
            return False
        saving = self.config.str("background.profile") == "saving"
        return saving and price_of(name, self.config.table("prices")).input > 0

    @property
    def kept_for(self) -> int:
        """Seconds that a request which only keeps the cache would keep it; 0: it is not worth one,
        or the session has not saved its price."""
        able, account = self.capabilities, self.balance()
        most = self.config.int("cache.keep_warm") if self.deps.interactive else 0
        if account is None or able.cache != "anthropic" or able.cache_ttl > SHORT_LIFE:
            return 0
        if not price_of(self.deps.model.name, self.config.table("prices")).bills_writes:
            return 0
        if account.kept >= (min(most, 1) if able.cache_upgrades else most):
            return 0
        if self.deps.clock.now() >= account.used_at + able.cache_ttl:
            return 0  # it is gone
        life = LONG_LIFE if able.cache_upgrades else able.cache_ttl
        return life if account.keeps_paying(self.ledger.tokens(), life) else 0

    def price_aside(self, prompt: str, *, apart: bool, output: int = 0) -> float:
        """What one call beside the conversation costs, in tokens of the model's plain input: behind
        the conversation as the cache has it, or `apart`, by the small model without it."""
        account, deps, size = self.balance(), self.deps, tokens.of_text(prompt)
        rates = account.rates if account is not None else Rates()
        if not apart or deps.small is None:
            return rates.read * self.ledger.tokens() + rates.write * size + rates.output * output
        prices = self.config.table("prices")
        small, main = (price_of(m.name, prices) for m in (deps.small(deps.model), deps.model))
        frame = self.ledger.projection.frame or {}
        size += tokens.of_blocks(frame.get("system") or ())
        return (small.input * size + small.output * output) / (main.input or 1.0)

    def cheaper_apart(self, prompt: str, fork: str = "") -> bool:
        """Where the model is spared: is the small one, which sees this prompt alone, cheaper than a
        fork that reads the conversation, and this?"""
        deps = self.deps
        if not self.thrifty or deps.small is None:
            return False
        try:
            deps.small(deps.model)
        except LaminaError:  # it can't be opened here
            return False
        return self.price_aside(prompt, apart=True) < self.price_aside(fork, apart=False)

    def paid_for(self, prompt: str, *, apart: bool = False, output: int = 0) -> Json:
        """The entry that charges such a call to what the session has saved, unless it is made at
        whatever price. One behind the conversation keeps the cache as well."""
        price = self.price_aside(prompt, apart=apart, output=output) if self.thrifty else 0.0
        kept = 0 if apart else self.capabilities.cache_ttl
        return edits.state(ASIDE, {"price": round(price), "kept": kept})

    @property
    def answered(self) -> bool:
        """Is it the user's turn?"""
        last = next((e for e in reversed(self.ledger.entries) if e["kind"] == "message"), None)
        return last is not None and last.get("role") == "assistant" and not self.ledger.open_calls

    def spec_of(self, tool: str) -> ToolSpec | None:
        found = self.deps.toolbox.get(tool)
        return found.spec if found else None

    # ---- saying what happened

    def emit(self, event: Event, *, kept: bool = True) -> None:
        if kept and not isinstance(event, _PASSING):
            self.events.append(event)
        for listener in list(self.listeners):
            listener(event)

    def layer_failed(self, layer: str, error: BaseException) -> None:
        """Book the failure of a layer or background task; the next layer serves."""
        event = LayerFailed(layer, f"{type(error).__name__}: {error}"[:500])
        self.emit(event)
        self.ledger.append(edits.event(event.to_json()))

    def attach_waiting(self) -> bool:
        """Messages that arrived meanwhile go at the end of the view, never before; were there any?"""
        waiting, self.queue[:] = list(self.queue), []
        for text, origin in waiting:
            self.say(text, origin)
        return bool(waiting)

    async def run_hooks(self, hook: HookName, payload: Json, *, match: str = "") -> HookResult:
        """The user's hooks around tools guard agents too; the others are about the conversation."""
        hooks = self.deps.hooks
        if hooks is None or (self.agent and hook not in ("PreToolUse", "PostToolUse")):
            return HookResult()
        return await hooks.run(hook, payload, match=match)

    def stop_agents(self) -> None:
        """A cancel reaches every agent that this one started."""
        if self.agents is not None:
            self.agents.stop_all(self.agent)

    def hang_up(self) -> None:
        """Agents of other processes can't reach it any more."""
        if self.agents is not None:
            self.agents.hang_up()

    def lend(self, branch: State) -> None:
        """What is known of the entries that both have, a branch need not find out again."""
        entries = branch.ledger.entries
        branch.account = self.account.branch(entries)
        branch.folding = self.folding.branch(entries) if self.folding is not None else None

    # ---- adding to the record

    def say(self, content: str | list[Block], origin: Origin, **more: Any) -> Json:
        """Add a user-side message: typed, recalled, from a hook or a teammate."""
        [entry] = self.ledger.append(edits.message("user", content, origin, **more))
        return entry

    def leave(self, *entries: Json) -> list[Json]:
        """Append edits by which content leaves the view. Nothing leaves before it is in the ledger
        and offered to extraction (L4.9): the offer is written in the same step, before them."""
        offer = edits.job("extraction.offer", "open", self.ledger.head)
        return self.ledger.append(offer, *entries)[1:]

    def hear(self, request: Request, event: Event, *, aside: bool = False) -> None:
        """What a model says while it answers. A try that broke off is booked like a call; a call
        aside tells nobody the rest."""
        if isinstance(event, AttemptBroke):
            event = replace(event, cost=self._spend(request.purpose, event.model, event.usage))
            if not aside:
                self.usage = self.usage + event.usage
            self.emit(event, kept=not aside)
        elif not aside:
            self.emit(event)

    async def ask_small(self, request: Request) -> Response:
        """One call of the small model, within the caps and booked; it is no call of the turn."""
        deps = self.deps
        if reason := deps.spend.refusal(request.purpose, deps.clock.now()):
            raise RefusedError(reason)
        model = deps.small(deps.model) if deps.small else deps.model
        started = deps.clock.monotonic()
        response = await model.complete(request, partial(self.hear, request, aside=True))
        self.book(request, response, started, aside=True)
        return response

    def book(
        self, request: Request, response: Response, started: float, *, aside: bool = False
    ) -> None:
        """Count a model call that began at `started` (monotonic): turn, ledger of spending, event.
        A call aside is no part of the turn: its figures are not the answer's."""
        model = response.model or request.model
        cost = self._spend(request.purpose, model, response.usage)
        seconds = round(self.deps.clock.monotonic() - started, 3)
        called = ModelCalled(request.purpose, model, response.usage, cost, seconds)
        if not aside:
            self.usage = self.usage + response.usage
            self.calls += 1
        self.emit(called, kept=not aside)

    def _spend(self, purpose: Purpose, model: str, usage: Usage) -> float:
        deps = self.deps
        return deps.spend.book(
            purpose=purpose,
            model=model,
            usage=usage,
            session=deps.session_id,
            at=deps.clock.now(),
        )
