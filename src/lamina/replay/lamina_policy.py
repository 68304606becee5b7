"""The policy `lamina`: a recording put through Lamina's own layers, as a session would have been. Each
conversation gets a state over a ledger in memory, the recorded clock, and a temporary folder for
results that layer 1 moves; the layers are the turn's own, in the turn's own order.

There is no model to ask: notes, summaries and memories are made locally. What the layers would have
asked of the recorded model is taken down, call by call, and charged. Files of the
recording are not on this machine, so that none is shown again after a compaction: what is needed
once more is charged as a re-read.
"""

from __future__ import annotations

import tempfile
from asyncio import Runner
from collections.abc import Awaitable, Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import cast

from lamina import flags as flag_reader
from lamina import prompts, turn
from lamina.cache import lifetime
from lamina.cache.account import FETCHED, SHORT_LIFE
from lamina.cache.spend import price_of
from lamina.config import Config
from lamina.config.table import MODELS_BY_KEY, NO_MODEL
from lamina.conversation.thread import NO_RESULT, Conversation, UnaskedModel
from lamina.errors import LaminaError
from lamina.events import Event, LayerActed, LayerFailed
from lamina.layers import compaction, extraction, notes, pauses
from lamina.layers.extraction.fork import NewWords, cheaper_apart, directive_for, told
from lamina.ledger import edits
from lamina.ledger.edits import Shared
from lamina.ledger.record import Ledger
from lamina.ledger.tokens import capabilities
from lamina.messages import Message, Response, Usage
from lamina.models.anthropic import CHOICES
from lamina.ports import Capabilities, Model, NoBackground
from lamina.recall.prefetch import RANKED
from lamina.replay.policies import PaperForks
from lamina.replay.results import Action, Fork
from lamina.replay.run import DEFAULT_MODEL, DEFAULT_WINDOW, RecordedTurn, Sent
from lamina.replay.weigh import Losses, Weigher
from lamina.steps import close_calls
from lamina.tools.registry import builtin_tools

_MEMORY_LINE, _PICKED = 200, 100  # bytes of a memory's line, and of an answer; set by hand
_TALK_READ = 20_500  # bytes of talk and memory that a reader is shown: the mean of 181 places
_DREAM = (1_200,) * 8  # bytes that each call of a dream writes, a memory's file; set by hand
SIDE = ("agent ", "side chain ")  # conversations of sub-agents, which keep no memories


@dataclass(slots=True)
class RoundWork(NoBackground):
    """Background work of one round, done before the next request."""

    work: Callable[[], Awaitable[None]] | None = None

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> bool:  # noqa: ARG002
        self.work = work
        return True

    async def finish(self) -> None:
        work, self.work = self.work, None
        if work is not None:
            await work()


@contextmanager
def lamina_policy(
    weigher: Weigher, config: Config, *, window: int = DEFAULT_WINDOW, model: str = ""
) -> Generator[LaminaPolicy]:
    """The policy for one recording; its folder goes when the replay is over."""
    with tempfile.TemporaryDirectory(prefix="lamina-replay-") as folder, Runner() as runner:
        yield LaminaPolicy(weigher, config, Path(folder), runner, window, model)


class LaminaPolicy:
    name = "lamina"

    def __init__(
        self,
        weigher: Weigher,
        config: Config,
        folder: Path,
        runner: Runner,
        window: int,
        model: str,
    ) -> None:
        self._weigher, self._config, self._folder, self._runner = weigher, config, folder, runner
        self._window, self._model = window, model
        self._chooses = CHOICES.get(config.str("cache.ttl"), "")
        self._flags = flag_reader.read(config)
        self._threads: dict[str, _LayeredThread] = {}
        self._times = {id(entry.message): entry.time for entry in weigher.recording.messages}
        self.seconds: list[float] = []  # of CPU time for the layers and the view of each request

    def send(self, turn: RecordedTurn) -> Sent:
        thread = turn.request.thread
        held = self._threads.get(thread)
        if held is None:
            model = self._model or turn.request.model or DEFAULT_MODEL
            talk = self.new_conversation(self._folder / str(len(self._threads)), model)
            held = self._threads[thread] = _LayeredThread(talk, self._weigher, self._times)
            own = self._config.bool("memory.enabled") and not thread.startswith(SIDE)
            held.extracts = own and self._flags.on("extraction")
            held.recalls = own and self._flags.on("recall")
            held.dreams = own and self._flags.on("dream")
        chosen = SHORT_LIFE if self._chooses == "all" else turn.request.ttl
        life = int(chosen) or Capabilities().cache_ttl
        self._runner.get_loop().run_until_complete(held.send(turn, life))
        self.seconds.append(held.seconds)
        return held.sent

    def end(self) -> Mapping[str, Sequence[Fork]]:
        """Who leaves a session has what was said last looked through for memories."""
        return {name: held.leave() for name, held in self._threads.items()}

    def ledger(self, thread: str = "") -> Ledger:
        """What one conversation has recorded so far."""
        return self._threads[thread].state.ledger

    def new_conversation(self, folder: Path, model: str) -> Conversation:
        """One conversation of the recording, as a session would have it."""
        able = replace(
            capabilities(model),
            window=self._window,
            cache_upgrades=lifetime.upgrades(
                self._config.own_home, f"anthropic:{model}", self._config.str("anthropic.base_url")
            ),
            cache_choice=self._chooses,
            context_management=False,  # the provider's own clearing can't be replayed
            cache_edits=False,
        )
        unasked, small = UnaskedModel(able, model), _small_model(self._config, model)
        made = Conversation(
            self._config, self._flags, folder, unasked, RoundWork(), small=small, interactive=True
        )
        made.state.fork = PaperForks(made.clock.now)
        return made


class _LayeredThread:
    """One thread: what the recording says goes into the ledger, the ledger's view is sent."""

    def __init__(self, talk: Conversation, weigher: Weigher, times: dict[int, float]) -> None:
        self._talk, self._weigher, self._times = talk, weigher, times
        self.state = state = talk.state
        # As `new_conversation` made them.
        self._work = cast("RoundWork", state.background)
        self._forks = cast("PaperForks", state.fork)
        self.extracts = self.recalls = self.dreams = False
        self._asked = 0.0  # when the last request was sent
        self._answered = 0.0  # and when its answer came
        self._sent = 0  # tokens of the last prompt
        self._fetched = 0  # tokens of re-reads in it
        self._estimate = 1.0  # the ledger's estimate for a token of the recording
        self.seconds = 0.0
        self._actions: list[Action] = []
        self._known: dict[int, tuple[Message, int]] = {}  # by id: a message of the view, its place
        self._places: dict[Hashable, list[int]] = {}  # in the recording, by a message's first block
        self._placed = 0  # so many messages of it are in there
        self._shown = _LastView()
        self.sent = Sent(())
        state.listeners.append(self._hear)

    async def send(self, turn_: RecordedTurn, life: int) -> None:
        """Leaves in `sent` what is sent."""
        state, request = self.state, turn_.request
        self._talk.model.life = life
        self._talk.go_back(turn_.keep, self._usage)
        self._placed = min(self._placed, turn_.keep)
        said = next((n for n, m in enumerate(turn_.new) if m["role"] != "assistant"), None)
        answer = self._append(turn_.new[:said], request.time)
        if answer is not None:
            await self._beside(answer, request.time)
        self._append(turn_.new[said:] if said is not None else (), request.time)
        self._talk.clock.move(request.time)
        frame = sum(size for _, size in self._weigher.at(turn_.number))
        if frame != state.ledger.frame_tokens:
            state.ledger.append(edits.frame([], [], request.model, {}, tokens=frame))
        self._pick_memories()
        # What the recording would have had to fetch again stands in no message: say it apart.
        if more := round((turn_.fetched - self._fetched) * self._estimate):
            state.ledger.append(edits.state(FETCHED, more))
        self._fetched = turn_.fetched
        close_calls(state, NO_RESULT)
        began = process_time()
        if request.compact:
            with suppress(LaminaError):  # too little, or refused: then it goes on as it is
                await compaction.compact(state)
        await turn.make_room(state)
        view = state.ledger.view()
        self.seconds = process_time() - began
        self._talk.note_request()
        messages, said = self._recorded(view.messages)
        self._sent = frame + turn_.fetched + said
        self._estimate = state.ledger.projection.tokens / max(1, said)
        actions, self._actions = self._actions, []
        state.events.clear()
        self._asked = request.time
        if self._forks.asked("summary"):
            self._forks.wrote("summary", _last_fold(state.ledger))
        forks, life = self._forks.take(), state.capabilities.cache_ttl
        self.sent = Sent(messages, actions, (), forks, self._shown.kept, life, view.frame_ttl)

    def _pick_memories(self) -> None:
        """The call of the small model that picks memories for what the user typed, as if there were
        as many of them as it is ever shown."""
        state = self.state
        last = state.ledger.entries[-1:]
        said = [entry for entry in last if "typed" in (entry.get("origins") or ())]
        if not self.recalls or not said or not state.deps.small:
            return
        asked = len(prompts.load("recall", most="5").encode()) + RANKED * _MEMORY_LINE
        asked += min(len(str(said[0].get("content"))), _MEMORY_LINE * 10)
        small = state.deps.small(state.deps.model).name
        self._forks.add(Fork("recall", asked, (_PICKED,), self._talk.clock.now(), model=small))

    async def _beside(self, answer: Response, until: float) -> None:
        """What a session does beside the conversation from one answer to the next request."""
        state, path = self.state, notes.notes_path(self.state)
        self._answered = self._talk.clock.now()
        notes.check(state, answer)
        if self._work.work is not None:
            before = path.read_text("utf-8") if path.exists() else ""
            await self._work.finish()
            after = path.read_text("utf-8") if path.exists() else ""
            new = set(after.splitlines()) - set(before.splitlines())
            self._forks.wrote("notes", sum(len(line.encode()) for line in new))
        if not answer.tool_uses:
            self._away(until)

    def _away(self, until: float) -> None:
        """The pause after an answer, as `pauses` has it."""
        state, waits = self.state, self.extracts
        self._dream()
        if waits and extraction.due_in(state) == 0:
            self._extract(self._answered)
        while True:
            waits = waits and bool(extraction.due_in(state))
            at = pauses.next_at(state, waits=waits)
            if at is None or (at := max(at, self._answered)) > until:
                return
            self._talk.clock.move(at)
            if waits:
                self._extract(at)
                waits = False
            elif life := state.kept_for:
                self._forks.add(Fork("keep_warm", len(pauses.WORDS), (1,), at, keeps=life))
                state.ledger.append(pauses.paid(state, life))

    def _dream(self) -> None:
        """One session in so many dreams, after its first turn; each bears its share. As if memory
        were full."""
        if not self.dreams:
            return
        self.dreams, state = False, self.state
        known = state.config.int("memory.manifest_files") * _MEMORY_LINE
        directive = prompts.load("dream") + " " * known
        share = 1 / max(1, state.flags.value("dream.sessions"))
        fork = Fork("dream", len(directive.encode()), _DREAM, self._answered, share=share)
        self._forks.add(self._apart(fork) if state.cheaper_apart(directive, directive) else fork)

    def _apart(self, fork: Fork) -> Fork:
        """The same, asked of the small model without the conversation."""
        deps = self.state.deps
        if deps.small is None:
            return fork
        small = deps.small(deps.model).name
        return replace(fork, directive=_own_prompt() + fork.directive, model=small)

    def _extract(self, at: float) -> None:
        ledger, deps = self.state.ledger, self.state.deps
        entries = extraction.after_cursor(ledger)
        words = NewWords.of(entries, deps.session_id)
        calls = deps.config.int("extraction.max_calls")
        directive = directive_for(words, str(deps.folder), "", calls)
        found = extraction.proposals(entries, deps.session_id, at)
        written = sum(len(f"{one.description}\n{one.body}".encode()) for one in found)
        closing = (0,) if found and not self.state.thrifty else ()
        alone = f"{told(entries)}\n{directive}"
        self._talk.clock.move(at)
        apart = cheaper_apart(self.state, alone)
        asked = alone if apart else directive
        self.state.ledger.append(self.state.paid_for(asked, apart=apart))
        fork = Fork("extraction", len(asked.encode()), (written, *closing), at)
        self._forks.add(self._apart(fork) if apart else fork)
        if deps.small is not None and deps.config.bool("memory.reader"):
            small = deps.small(deps.model).name
            asked = len(prompts.load("reading").encode()) + _TALK_READ
            for _ in found:
                self._forks.add(Fork("reading", asked, (_PICKED,), at, model=small))
        ledger.append(edits.state(extraction.CURSOR, ledger.head))

    def leave(self) -> list[Fork]:
        self._away(float("inf"))  # nobody knows that it was the end: a session may stay open
        return self._forks.take()

    def _recorded(self, messages: Sequence[Message]) -> tuple[Sequence[Message], int]:
        """Messages that are as they were recorded, as the recorded objects: so they weigh what they
        weighed there, also where others have the same words. And what they weigh together."""
        shown = self._shown.up_to(messages, self._weigher.losses)
        for message in messages[len(shown.messages) :]:
            place = self._place_of(message, shown.next_place)
            recorded = self._talk.held[place] if place >= 0 else message
            shown.add(recorded, place, self._weigher.tokens(recorded))
        return shown.messages.copy(), shown.tokens

    def _place_of(self, message: Message, start: int) -> int:
        """Where the recording has a message of the view, from a place on; -1: nowhere."""
        known, place = self._known.get(id(message), (None, 0))
        gone = place >= len(self._talk.held) or (place >= 0 and self._talk.held[place] != message)
        if known is not message or gone:
            held = self._talk.held
            for n in range(self._placed, len(held)):
                self._places.setdefault(self._first(held[n]), []).append(n)
            self._placed = len(held)
            known_at = sorted(self._places.get(self._first(message), ()))
            likely = (n for n in known_at if start <= n < len(held))
            place = next((n for n in likely if held[n] == message), -1)
            self._known[id(message)] = (message, place)
        return place

    def _first(self, message: Message) -> Hashable:
        return self._weigher.paper(message)[0][0] if message["content"] else None

    def _hear(self, event: Event) -> None:
        if isinstance(event, LayerActed):
            self._actions.append(Action(event.layer, event.what, event.tokens_saved))
        elif isinstance(event, LayerFailed):
            self._actions.append(Action(f"{event.layer} failed", event.error))

    def _append(self, messages: Sequence[Message], until: float) -> Response | None:
        return self._talk.append(
            messages,
            lambda run: min(until, max(self._times.get(id(m), 0.0) for m in run)),
            self._usage,
        )

    def _usage(self, answer: Sequence[Message]) -> Usage:
        output = sum(map(self._weigher.tokens, answer))
        return Usage(self._sent, output) if self._sent else Usage()


def _small_model(config: Config, model: str) -> Callable[[Model], Model] | None:
    """The small model that a session with the recorded one would have."""
    name = config.str("small_model")
    if config.source("small_model").kind == "default" and config.str("model") == NO_MODEL:
        provider = price_of(model).provider
        name = MODELS_BY_KEY[provider][1] if provider in MODELS_BY_KEY else NO_MODEL
    small = UnaskedModel(Capabilities(), name)
    return (lambda _: small) if name != NO_MODEL else None


def _own_prompt() -> int:
    """Bytes of what a side task apart is sent besides its directive: how to remember, and tools."""
    parts = ("system", "memory_where", "memory_types", "memory_not", "memory_save", "memory_check")
    tools = (tool.spec for tool in builtin_tools() if tool.spec.name in ("Read", "Write", "Edit"))
    words = sum(len(prompts.load(part).encode()) for part in parts)
    return words + sum(len(str(spec.to_json()).encode()) for spec in tools)


def _last_fold(ledger: Ledger) -> int:
    """Bytes of the last summary."""
    for entry in reversed(ledger.entries):
        if entry["kind"] == "edit" and entry.get("op") == "fold":
            return len(str(entry.get("messages")).encode())
    return 0


class _LastView:
    """The messages that were sent last, so that only those behind the first change are looked up."""

    def __init__(self) -> None:
        self.messages: Shared[Message] = Shared()
        self.kept = 0  # so many of them are those of the view before
        self._view: Sequence[Message] = ()
        self._losses: Losses = ()
        self._ends: list[tuple[int, int]] = []  # (next place in the recording, tokens) up to each

    @property
    def next_place(self) -> int:
        return self._ends[-1][0] if self._ends else 0

    @property
    def tokens(self) -> int:
        return self._ends[-1][1] if self._ends else 0

    def up_to(self, view: Sequence[Message], losses: Losses) -> _LastView:
        """Keep what the new view still begins with, at its weight."""
        same = self._view.shared(view) if isinstance(self._view, Shared) else 0
        same = same if losses == self._losses else 0
        self.messages.cut(same)
        del self._ends[same:]
        self.kept = len(self.messages)
        self._view, self._losses = view, losses
        return self

    def add(self, message: Message, place: int, tokens: int) -> None:
        self._ends.append((max(self.next_place, place + 1), self.tokens + tokens))
        self.messages.append(message)
