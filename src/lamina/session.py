"""Session: the front of the library. Open or resume one, ask, look at the view, fork.

    async with lamina.Session.open(project=".", model="anthropic:claude-sonnet-4-6") as session:
        reply = await session.ask("…")

A plain `with` gives a synchronous one. Touches its ledger and what settings allow its parts.
"""

from __future__ import annotations

import math
from collections.abc import (
    AsyncGenerator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast, overload

import anyio
import anyio.abc

from lamina import opening, turn
from lamina.agents.runner import Agents, agents_of
from lamina.config import Config
from lamina.errors import RefusedError, UsageError, alone
from lamina.events import AnyEvent, Emit, Event, TurnEnd, Warned
from lamina.layers import compaction, notes, pauses, snip
from lamina.layers.compaction import Compacted
from lamina.ledger import edits
from lamina.ledger.log import drop_empty, latest
from lamina.ledger.places import find_project_folder
from lamina.ledger.record import Ledger
from lamina.machine import SystemClock
from lamina.messages import Origin, Request, Usage, text
from lamina.ports import Ask, Clock, HookName, MemoryStore, Model, Tool
from lamina.state import State
from lamina.steps import close_calls
from lamina.wiring import Options


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole turn."""

    text: str
    usage: Usage
    events: Sequence[AnyEvent]
    stop: TurnEnd


@dataclass(frozen=True, slots=True)
class Status:
    """What a status line shows."""

    model: str
    tokens: int
    window: int
    cache_hit_rate: float | None  # of the last call; None before the first
    background: Sequence[str]
    fidelity: float | None = None  # of the last compaction in force, when it is low


class Session:
    """One conversation with memory. Made by `Session.open`."""

    def __init__(self, state: State, group: anyio.abc.TaskGroup) -> None:
        self._state = state
        self._group = group
        self._scope: anyio.CancelScope | None = None
        self._busy = False

    @classmethod
    def open(
        cls,
        project: str | Path = ".",
        model: str | Model | None = None,
        *,
        home: str | Path | None = None,
        session_id: str | None = None,
        config: Config | Mapping[str, Any] | None = None,
        resume: bool = False,
        fork: bool = False,
        ask: Ask | None = None,
        interactive: bool = False,
        on_event: Callable[[AnyEvent], None] | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        hooks: Mapping[HookName, Callable[..., Any] | Sequence[Callable[..., Any]]] | None = None,
        clock: Clock | None = None,
        flag_provider: Any = None,
        claude: bool = False,
        memory: MemoryStore | None = None,
        remember: bool = False,
    ) -> Opening:
        """A session to enter with `async with` (or `with`, for code that is not async), or to await.

        `remember` saves what the user says after each answer, as the chat does; else a session of a
        program remembers only what it is asked to.
        `session_id` resumes that session if it is there; `resume` without an id takes the latest
        one of the project; `fork` works on a copy and leaves the original as it is. `memory` is a
        store of your own in the place of the project's files; who made it closes it.
        """
        return Opening(
            Options(
                project=project,
                model=model,
                home=home,
                config=config,
                ask=ask,
                interactive=interactive,
                on_event=cast("Emit | None", on_event),
                tools=tools,
                hooks=hooks or {},
                clock=clock or SystemClock(),
                flag_provider=flag_provider,
                claude=claude,
                memory=memory,
                remember=remember,
            ),
            session_id,
            resume=resume,
            fork=fork,
        )

    @staticmethod
    def latest(project: str | Path = ".", home: str | Path | None = None) -> str | None:
        """The id of the project's session that was written last."""
        config = opening.load_config(Options(project=Path(project), home=home))
        return latest(find_project_folder(config.own_home, config.project))

    # ---- the conversation

    async def ask(self, prompt: str, *, pasted: str = "") -> Reply:
        """One whole turn. `pasted` is text that the user did not type, such as piped input."""
        if self._busy:
            raise UsageError("A turn is running; wait for it, cancel it, or use queue().")
        if not all(isinstance(w, str) for w in (prompt, pasted)) or not (prompt + pasted).strip():
            raise UsageError("There is nothing to ask: the message is empty, or no text.")
        self._busy, state = True, self._state
        state.events, state.usage, state.calls, state.max_tokens = [], Usage(), 0, 0
        start = len(state.ledger.entries)
        reason: TurnEnd = "cancelled"
        try:
            with anyio.CancelScope() as self._scope:
                reason = await self._submit(prompt, pasted)
        finally:
            self._busy, self._scope = False, None
        answer = opening.answer_since(state.ledger, start)
        return Reply(answer, state.usage, cast("tuple[AnyEvent, ...]", tuple(state.events)), reason)

    async def _submit(self, prompt: str, pasted: str) -> TurnEnd:
        """The message goes through the hooks into the record; then the turn runs."""
        state = self._state
        verdict = await state.run_hooks("UserPromptSubmit", {"prompt": prompt})
        if verdict.message:
            state.emit(Warned(verdict.message))
        if verdict.blocked or verdict.stop:
            state.emit(Warned(verdict.reason or "A hook refused this message."))
            return "blocked"
        await opening.remind(state)
        parts: list[tuple[str, Origin]] = [(prompt, "typed"), (pasted, "pasted")]
        blocks = [text(words) for words, _ in parts if words.strip()]
        origins: list[Origin] = [origin for words, origin in parts if words.strip()]
        state.ledger.append(edits.message("user", blocks, origins))
        for words in verdict.context:
            state.say(words, "hook")
        return await turn.run(state)

    async def stream(self, prompt: str, *, pasted: str = "") -> AsyncGenerator[AnyEvent]:
        """One whole turn, event by event: `TextDelta` has the words. Leaving early cancels it."""
        send, receive = anyio.create_memory_object_stream[Event](math.inf)
        raised: list[BaseException] = []

        async def work() -> None:
            try:
                await self.ask(prompt, pasted=pasted)
            except Exception as error:  # noqa: BLE001 - raised again where the events are read
                raised.append(error)
            finally:
                stop()
                send.close()

        stop = self.subscribe(send.send_nowait)
        try:
            self._group.start_soon(work)
            async for event in receive:
                yield cast("AnyEvent", event)
            if raised:
                raise raised[0]
        finally:
            stop()
            receive.close()
            self.cancel()

    async def close(self) -> None:
        """End a session that was opened with `await`; one from `with` ends by itself."""

    def queue(self, message: str) -> None:
        """Add a message while a turn runs; it is read after the tools of this round."""
        self._state.queue.append((message, "typed"))

    def cancel(self) -> bool:
        """Stop the running turn and the notes that are being taken on it; what was done stays, and
        the session can go on."""
        self._state.background.cancel(notes.LAYER)
        if self._scope is not None:
            self._scope.cancel()
        return self._scope is not None

    async def compact(
        self, instructions: str = "", *, from_entry: str = "", up_to_entry: str = ""
    ) -> Compacted:
        """Fold the conversation into a summary now: all of it, from an entry on, or up to one."""
        self._must_be_idle()
        self._busy = True
        done: Compacted | None = None
        try:
            with anyio.CancelScope() as self._scope:
                done = await compaction.compact(
                    self._state,
                    instructions=instructions,
                    from_entry=from_entry,
                    up_to_entry=up_to_entry,
                )
        finally:
            self._busy, self._scope = False, None
        if done is None:
            raise RefusedError("The compaction was cancelled.")
        return done

    def _must_be_idle(self) -> None:
        if self._busy:
            raise UsageError("A turn is running; wait for it, or cancel it.")

    def undo_compact(self) -> str:
        """Bring back what the last compaction folded; returns the id of the undone edit."""
        return str(snip.undo(self._state, layers=(snip.COMPACTION,))["uuid"])

    def undo(self, name: str = "") -> str:
        """Bring back what a compaction, snip or collapse folded: by its id, or the last one."""
        return str(snip.undo(self._state, name)["uuid"])

    def snip(self, first: int, last: int, what: str = "") -> str:
        """Take finished rounds (counted from 1) out of the view; returns the edit's id."""
        return str(snip.snip(self._state, first, last, what)["uuid"])

    def rounds(self) -> list[str]:
        """The rounds in view that can be snipped, as numbered lines; the present one is the last."""
        return snip.listed(self._state)

    async def set_model(self, model: str) -> None:
        """Go on with another model; system prompt and tools keep their bytes."""
        self._must_be_idle()
        await opening.change_model(self._state, model)

    async def drain(self, seconds: float | None = None) -> None:
        """Wait for background work, which starts no more; what is not done in time is stopped, and
        taken up when the session is opened again."""
        wait = self.config.float("background.drain_seconds") if seconds is None else seconds
        await opening.drain(self._state, wait)

    def leaving(self) -> Sequence[str]:
        """Begin what waited for a pause; returns the background work that `drain` will wait for."""
        opening.begin_last(self._state)
        return self.status().background

    # ---- looking at it

    @property
    def id(self) -> str:
        return self._state.deps.session_id

    @property
    def folder(self) -> Path:
        """Where this session's own files are."""
        return self._state.deps.folder

    @property
    def config(self) -> Config:
        return self._state.config

    @property
    def ledger(self) -> Ledger:
        return self._state.ledger

    @property
    def state(self) -> State:
        return self._state

    @property
    def agents(self) -> Agents:
        """Those that this session started: start one, send to it, stop it."""
        return agents_of(self._state)

    def view(self) -> Request:
        """What the model would be sent now, as plain values."""
        now = self._state.ledger.view()
        return replace(now, messages=list(now.messages))

    def status(self) -> Status:
        state, used = self._state, self._state.last_usage
        caches = state.caches and used.prompt
        share = snip.fidelity(state.ledger)
        low = share is not None and share < state.config.float("compact.fidelity")
        return Status(
            model=state.deps.model.name,
            tokens=state.ledger.tokens(),
            window=state.capabilities.window,
            cache_hit_rate=used.cache_read / used.prompt if caches else None,
            background=[n for n in state.background.running() if n != pauses.TASK],
            fidelity=share if low else None,
        )

    def subscribe(self, listener: Emit) -> Callable[[], None]:
        """Hear every event from now on; call the result to stop."""
        self._state.listeners.append(listener)
        heard = self._state.listeners
        return lambda: heard.remove(listener) if listener in heard else None


class Opening:
    """A session about to be opened: enter it with `async with`, or with `with`."""

    def __init__(self, options: Options, session: str | None, *, resume: bool, fork: bool) -> None:
        self._options, self._id, self._resume, self._fork = options, session, resume, fork
        self._stack, self._sync = AsyncExitStack(), ExitStack()

    if not TYPE_CHECKING:  # which names it by itself

        def __getattr__(self, name: str) -> Any:
            how = "enter it by `with` or `async with`, or await it"
            raise AttributeError(f"No {name} yet: this session is not open; {how}.")

    def __await__(self) -> Generator[Any, None, Session]:
        """`session = await Session.open(…)`, as in a notebook: `await session.close()` ends it."""
        return self._kept_open().__await__()

    async def _kept_open(self) -> Session:
        kept = opening.KeptOpen(self)
        session = await kept.begin()
        session.close = kept.end
        return session

    async def __aenter__(self) -> Session:
        try:
            return await self._enter()
        except BaseExceptionGroup as group:
            raise alone(group) from None

    async def _enter(self) -> Session:
        options = self._options
        config = opening.load_config(options)
        path, new = opening.place(config, self._id, resume=self._resume, fork=self._fork)
        async with AsyncExitStack() as stack:
            ledger = Ledger.open(path, now=options.clock.now)
            stack.callback(ledger.close)
            stack.callback(drop_empty, path)  # while it is still locked
            group = await stack.enter_async_context(anyio.create_task_group())
            state = await opening.make_state(options, config, ledger, path, stack)
            state.background = opening.Tasks(group, state.emit)
            session = Session(state, group)
            if not new:
                close_calls(state, "[The session ended before this call did]")
            await opening.begin(state, new=new)
            if state.agents is not None:
                await group.start(state.agents.listen)
            stack.push_async_exit(partial(_end, state))
            self._stack = stack.pop_all()
            return session

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        try:
            return await self._stack.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if alone(group) is error:
                return False  # the caller's own error, as it was raised
            raise

    def __enter__(self) -> SyncSession:
        from anyio.from_thread import start_blocking_portal

        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            manager: AbstractContextManager[Session] = portal.wrap_async_context_manager(self)
            session = stack.enter_context(manager)
            self._sync = stack.pop_all()
            return SyncSession(session, portal)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return self._sync.__exit__(kind, error, trace)


async def _end(state: State, kind: type[BaseException] | None, *_: object) -> None:
    """The last steps of a session, whatever it ends by."""
    interrupted = kind is not None and not issubclass(kind, Exception)
    await opening.end(state, interrupted=interrupted)


_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


@overload
def _run(
    method: Callable[Concatenate[Session, _Given], Coroutine[Any, Any, _Made]],
) -> Callable[Concatenate[SyncSession, _Given], _Made]: ...
@overload
def _run(
    method: Callable[Concatenate[Session, _Given], _Made],
) -> Callable[Concatenate[SyncSession, _Given], _Made]: ...
def _run(method: Callable[..., Any]) -> Any:
    """The same method, run to its end in the session's own event loop."""

    @wraps(method)
    def call(self: SyncSession, /, *args: Any, **named: Any) -> Any:
        return self.portal.call(partial(method, self.session, *args, **named))

    return call


class SyncSession:
    """The one synchronous front: the same session, each call run to its end."""

    def __init__(self, session: Session, portal: Any) -> None:
        self.session = session
        self.portal = portal

    ask = _run(Session.ask)
    compact = _run(Session.compact)
    set_model = _run(Session.set_model)
    drain = _run(Session.drain)
    queue = _run(Session.queue)
    cancel = _run(Session.cancel)
    undo = _run(Session.undo)
    undo_compact = _run(Session.undo_compact)
    snip = _run(Session.snip)
    rounds = _run(Session.rounds)
    view = _run(Session.view)
    status = _run(Session.status)
    subscribe = _run(Session.subscribe)

    def stream(self, prompt: str, *, pasted: str = "") -> Iterator[AnyEvent]:
        """One whole turn, event by event."""
        events = self.session.stream(prompt, pasted=pasted)
        try:
            while True:
                try:
                    yield self.portal.call(events.__anext__)
                except StopAsyncIteration:
                    return
        finally:
            self.portal.call(events.aclose)

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def folder(self) -> Path:
        return self.session.folder

    @property
    def config(self) -> Config:
        return self.session.config

    @property
    def ledger(self) -> Ledger:
        return self.session.ledger

    @property
    def state(self) -> State:
        return self.session.state


__all__ = ["Opening", "Reply", "Session", "Status", "SyncSession"]
