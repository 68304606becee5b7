"""How a session begins and ends: settings, parts, the first entries, hooks, the background tasks and
their drain at the end. Touches the session's ledger and starts what settings name (hooks, MCP
servers).
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio

from lamina import flags as flag_reader
from lamina import prompts, wiring
from lamina.agents import plan
from lamina.agents.fork import Forks, MainToolSession
from lamina.config import Config, load
from lamina.errors import ModelError, UsageError
from lamina.events import BackgroundChanged, Emit, Event, Warned
from lamina.layers import dream, extraction, microcompact, pauses, reading, recall
from lamina.ledger import edits, tokens
from lamina.ledger.log import latest
from lamina.ledger.places import project_folder
from lamina.ledger.record import Ledger, fork_file
from lamina.memory import date_reminder, first_reminder, known_lines, memory_section
from lamina.messages import Block, Json, Request, as_object, text, text_of
from lamina.ports import CountsTokens, NoBackground, ToolContext, ToolSpec
from lamina.recall.prefetch import Limits, Recalls
from lamina.secrets.rules import for_commands
from lamina.state import Deps, State
from lamina.steps import CUT_OFF
from lamina.tools.registry import builtin_tools
from lamina.wiring import Options

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_Held = TypeVar("_Held")
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


def load_config(options: Options) -> Config:
    """The settings of the project; a missing project is an error that names it."""
    if isinstance(options.config, Config):
        if options.remember:
            raise UsageError(
                "Give `remember`, or a Config with extraction.non_interactive; not both."
            )
        return options.config
    if not Path(options.project).expanduser().is_dir():
        raise UsageError(f"The project {options.project} is not a directory.")
    overrides = dict(options.config or {})
    if isinstance(options.model, str):
        overrides["model"] = options.model
    if options.remember:
        overrides["extraction.non_interactive"] = True
    return load(options.project, home=options.home, overrides=overrides, claude=options.claude)


async def make_state(
    options: Options, config: Config, ledger: Ledger, path: Path, stack: AsyncExitStack
) -> State:
    """All parts of a session, wired."""
    flags = flag_reader.read(config, options.flag_provider)
    listeners = [options.on_event] if options.on_event else []
    holder: list[State] = []
    early: list[Event] = []  # what parts say while they are made

    def emit(event: Event) -> None:
        if holder:
            holder[0].emit(event)
        else:
            early.append(event)

    def read(question: str) -> str:
        return reading.read(holder[0], question) if holder else ""

    deps = await wiring.make_deps(options, config, flags, ledger, path, emit, stack, read=read)
    context = _tool_context(options, deps, emit)
    state = State(deps, ledger, context, background=NoBackground(), listeners=listeners)
    stack.push_async_callback(lambda: state.deps.model.close())  # noqa: PLW0108 - the one it has then
    context.session = MainToolSession(state)
    if deps.memory_index is not None and deps.flags.on("recall"):
        state.recalls = Recalls(deps.memory_index, Limits.of(deps.config))
    state.render_again = lambda: _render_again(state)
    holder.append(state)
    state.fork = Forks(state)
    context.permit = plan.reading_first(state, context.permit, "The user approves it.")
    if state.flags.on("agents"):
        from lamina.agents.tools import add_agents

        ask = options.ask if options.interactive else None
        add_agents(state, Tasks, lambda name: wiring.open_model(name, config, options.clock), ask)
    damage = [
        f"The session file {path.name} is damaged: {problem}. It is passed over."
        for problem in ledger.problems
    ]
    problems = [*config.warnings, *flags.problems, *damage]
    for event in [*early, *map(Warned, problems)]:
        state.emit(event)
    return state


def _tool_context(options: Options, deps: Deps, emit: Emit) -> ToolContext:
    """What tools may touch, and whom they ask."""
    config = deps.config
    memory = [deps.memory.directory] if deps.memory else []
    return ToolContext(
        project=config.project,
        cwd=config.project,
        scratch=deps.folder,
        emit=emit,
        permit=wiring.make_permit(
            config, options.ask, interactive=options.interactive, memory=deps.memory
        ),
        env=for_commands(os.environ, config.strings("bash.environment")),
        network=config.bool("sandbox.network"),
        sandbox=wiring.sandbox_profile(config),
        attended=options.interactive and options.ask is not None,
        reach=config.bool("sandbox.unattended_reach"),
        reads=(deps.folder.parent, *memory, *wiring.skill_folders(config)),
        agent="",
    )


# ---- beginning


async def begin(state: State, *, new: bool) -> None:
    """The first entries of a session, or of its next life."""
    first: list[Json] = [edits.state("flags", state.flags.to_json())]
    if new:
        first.insert(0, edits.session(state.deps.session_id, state.config.project))
    frame = state.ledger.projection.frame
    if frame is None:
        first.append(await _measured(state, first_frame(state)))
    elif frame.get("model") != state.deps.model.name:
        first.append(_reframed(state, frame))
    state.ledger.append(*first)
    _stand(state)
    plan.restore(state)
    await recall.warm_up(state)
    extraction.at_open(state)
    dream.at_open(state)
    source = "startup" if new else "resume"
    result = await state.run_hooks("SessionStart", {"source": source}, match=source)
    if result.message:
        state.emit(Warned(result.message))
    for words in result.context:
        state.say(words, "hook")


def first_frame(state: State) -> Json:
    """Render system prompt and tools: once a session; from then on these bytes are reused. A small
    window gets a short form: the tools that work can't do without, in few words, and a line or two
    on memory."""
    system, tools = _system(state), [spec.to_json() for spec in state.deps.toolbox.specs()]
    short = tokens.of_frame(system, tools) > state.window.frame
    if short:
        system, tools = _system(state, short=True), _short_tools(state)
    more = {"short": True} if short else {}
    return edits.frame(system, tools, state.deps.model.name, _params(state), **more)


async def _join_servers(state: State) -> None:
    """Tools of MCP servers that answered meanwhile. A view that lacks them is framed anew, which
    breaks the cache once if anything was sent."""
    deps = state.deps
    if deps.servers is None:
        return
    joined = await deps.servers.arrived(deps.config.float("mcp.wait_seconds"))
    for tool in joined:
        try:
            deps.toolbox.add(tool)
        except UsageError as error:
            state.emit(Warned(str(error)))
    frame = state.ledger.projection.frame
    if frame and {tool.spec.name for tool in joined} - {tool["name"] for tool in frame["tools"]}:
        state.guard.register("tools of an MCP server joined")
        state.ledger.append(await _measured(state, first_frame(state)))


async def _measured(state: State, frame: Json) -> Json:
    """The frame with its size by the model's own tokeniser, where it has one here."""
    model = state.deps.model
    if not isinstance(model, CountsTokens):
        return frame
    request = Request(frame["system"], frame["tools"], [], model.name)
    try:
        return {**frame, "tokens": await model.count(request)}
    except ModelError:  # the first call will say what is wrong
        return frame


# What a model in a small window is told of; it may call the others all the same.
_NEEDED = frozenset({"Read", "Write", "Edit", "Bash", "Expand", "Remember", "Recall"})
_SHORT_INDEX = 1_500  # characters of the index of memories in the short form


def _short_tools(state: State) -> list[Json]:
    """Built-in tools in few words; what the host or the user's settings add stays as it is."""
    ours = {tool.spec.name for tool in builtin_tools()} | {"Remember", "Forget", "Recall"}
    return [
        _in_few_words(spec) if spec.name in ours else spec.to_json()
        for spec in state.deps.toolbox.specs()
        if spec.name not in ours or spec.name in _NEEDED
    ]


def _in_few_words(spec: ToolSpec) -> Json:
    schema: Json = {**spec.input_schema}
    fields = as_object(schema.get("properties"))
    schema["properties"] = {
        name: {key: field[key] for key in ("type", "enum", "items") if key in field}
        for name, field in fields.items()
    }
    return {
        "name": spec.name,
        "description": spec.description.partition(". ")[0].rstrip(".") + ".",
        "input_schema": schema,
    }


def _stand(state: State) -> None:
    """Instruction files and today's date: said before the first message and after a compaction."""
    words, found = first_reminder(state.config, _today(state))
    if not state.config.bool("memory.enabled") and not found.loaded:
        return
    later = [entry for _, entry in state.ledger.messages() if entry.get("instructions")]
    state.standing[:] = [words, *(text_of(entry["content"]) for entry in later)]
    state.instructions[:] = [item.path for item in found.loaded]
    state.instructions += [path for entry in later for path in entry["instructions"]]
    for item in found.loaded:
        for warning in item.warnings:
            state.emit(Warned(f"{item.path}: {warning}"))


async def remind(state: State) -> None:
    """Before a message of the user: the standing reminder at first, the new date after midnight.
    Both go to the end of the view, so that no cache breaks. And tools that joined."""
    await _join_servers(state)
    told, today = state.ledger.state("date"), _today(state)
    if told == today or not state.standing:
        return
    if told is None:
        if any("typed" in (entry.get("origins") or ()) for _, entry in state.ledger.messages()):
            return  # a session from before; what it was told stays
        state.say(state.standing[0], "system", reminder=True)
    else:
        state.standing[0] = first_reminder(state.config, today)[0]
        state.say(date_reminder(today), "system", reminder=True)
    state.ledger.append(edits.state("date", today))


def _today(state: State) -> str:
    """The user's own date."""
    return f"{datetime.fromtimestamp(state.deps.clock.now(), UTC).astimezone():%A, %Y-%m-%d}"


def _system(state: State, *, short: bool = False) -> list[Block]:
    words = prompts.load(
        "system",
        project=str(state.config.project),
        platform=f"{platform.system()} {platform.machine()}",
    )
    deps = state.deps
    blocks = [text(words)]
    if deps.servers and (notes := deps.servers.instructions):
        said = "\n\n".join(f"## {name}\n{note}" for name, note in notes.items())
        blocks.append(text(f"# What the MCP servers say about their tools\n\n{said}"))
    if deps.memory is not None and short:
        index = known_lines(deps.memory, deps.config)[:_SHORT_INDEX] or "(nothing yet)"
        said = (
            f"{prompts.load('memory_short', index=index)}\n{deps.config.str('memory.guidelines')}"
        )
        blocks.append(text(said.strip()))
    elif deps.memory is not None:
        blocks.append(
            text(memory_section(deps.memory, deps.config, deps.flags, deps.transcript.parent))
        )
    return blocks


def _render_again(state: State) -> None:
    """After a compaction: the section on memory as it is now. Where the window turned out to be a
    small one, all of it in the short form."""
    frame = state.ledger.projection.frame
    if frame is None:
        return
    if not frame.get("short") and state.ledger.frame_tokens > state.window.frame:
        state.ledger.append({**first_frame(state), "params": frame["params"]})
        return
    system = _system(state, short=bool(frame.get("short")))
    if frame["system"] != system:
        more = {"short": True} if frame.get("short") else {}
        state.ledger.append(
            edits.frame(system, frame["tools"], frame["model"], frame["params"], **more)
        )


def _params(state: State) -> Json:
    params: Json = {}
    config = state.config
    match config.str("anthropic.thinking"):
        case "adaptive":
            params["thinking"] = {"type": "adaptive"}
        case "enabled":
            budget = config.int("anthropic.thinking_tokens")
            params["thinking"] = {"type": "enabled", "budget_tokens": budget}
        case _:
            pass
    specs = state.deps.toolbox.specs()
    managed = microcompact.api_management(
        state.flags, state.window, state.capabilities, params, specs
    )
    return {**params, **managed}


def _reframed(state: State, frame: Json) -> Json:
    """Another model, the same bytes of system and tools, unless its window is too small for them."""
    state.guard.register(f"model changed to {state.deps.model.name}")
    if not frame.get("short") and state.ledger.frame_tokens > state.window.frame:
        return first_frame(state)
    return edits.frame(frame["system"], frame["tools"], state.deps.model.name, _params(state))


async def change_model(state: State, name: str) -> None:
    model = wiring.open_model(name, state.config, state.deps.clock)
    old = state.deps.model
    state.deps = replace(state.deps, model=model)
    frame = state.ledger.projection.frame
    if frame is not None:
        state.ledger.append(_reframed(state, frame))
    await old.close()


# ---- ending


def begin_last(state: State) -> None:
    """The user leaves: what waited for a pause begins."""
    state.background.cancel(pauses.TASK)
    extraction.at_end(state)


async def drain(state: State, seconds: float) -> None:
    """Let background work end; what can't in time is recorded, for the next open."""
    if seconds > 0:
        begin_last(state)
    state.background.cancel(pauses.TASK)
    for name in await state.background.drain(seconds):
        state.ledger.append(edits.job(name, "deferred"))
    if not state.ledger.open_calls:  # what came too late for this life is there in the next
        for words, origin in state.queue:
            state.say(words, origin)
        state.queue.clear()


async def end(state: State, *, interrupted: bool) -> None:
    """Drain the background, unless somebody interrupted it: the next open takes it up then."""
    wait = 0.0 if interrupted else state.config.float("background.drain_seconds")
    with anyio.CancelScope(shield=True):
        await drain(state, wait)
        state.hang_up()
        await state.run_hooks("SessionEnd", {"reason": "exit"}, match="exit")


# ---- the background


def place(config: Config, wanted: str | None, *, resume: bool, fork: bool) -> tuple[Path, bool]:
    """The session's file, and whether it is a new one."""
    folder = project_folder(config.own_home, config.project)
    if wanted is not None and not _SESSION_ID.fullmatch(wanted):
        raise UsageError(f"{wanted!r} is no session id: use letters, digits, - and _.")
    if wanted is None and (resume or fork):
        wanted = latest(folder)
        if wanted is None:
            raise UsageError(f"The project {config.project} has no session to go on with.")
    path = folder / f"{wanted or uuid.uuid4()}.jsonl"
    there = wanted is not None and path.exists()
    if (resume or fork) and not there:
        raise UsageError(
            f"There is no session {wanted} of {config.project}. See: lamina sessions list"
        )
    if fork:
        copy = folder / f"{uuid.uuid4()}.jsonl"
        fork_file(path, copy)
        path = copy
    return path, not there


def answer_since(ledger: Ledger, start: int) -> str:
    """The turn's last answer; one that was cut off and continued is put together."""
    pieces: list[str] = []
    for entry in reversed(ledger.entries[start:]):
        if entry["kind"] != "message" or entry.get("role") != "assistant":
            continue
        if pieces and entry.get("stop_reason") not in CUT_OFF:
            break
        pieces.append(text_of(entry["content"]))
    return "".join(reversed(pieces))


class Tasks:
    """The session's background, in its own task group."""

    def __init__(self, group: TaskGroup, emit: Emit) -> None:
        self._group = group
        self._emit = emit
        self._running: dict[str, anyio.CancelScope] = {}
        self._idle = anyio.Event()
        self._closed = False

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> bool:
        if name in self._running or self._closed:
            return False
        scope = anyio.CancelScope()
        self._running[name] = scope
        self._emit(BackgroundChanged(name, "started"))
        self._group.start_soon(self._run, name, work, scope)
        return True

    async def _run(
        self, name: str, work: Callable[[], Awaitable[None]], scope: anyio.CancelScope
    ) -> None:
        state, detail = "done", ""
        try:
            with scope:
                await work()
            if scope.cancelled_caught:
                state = "cancelled"
        except Exception as error:  # noqa: BLE001 - the edge of a background task
            state, detail = "failed", f"{type(error).__name__}: {error}"[:500]
        finally:
            self._running.pop(name, None)
            if not self._running:
                self._idle.set()
                self._idle = anyio.Event()
        self._emit(BackgroundChanged(name, state, detail))

    def running(self) -> Sequence[str]:
        return tuple(self._running)

    def cancel(self, name: str) -> bool:
        scope = self._running.get(name)
        if scope is not None:
            scope.cancel()
        return scope is not None

    async def drain(self, seconds: float) -> Sequence[str]:
        self._closed = True
        with anyio.move_on_after(seconds):
            while self._running:
                await self._idle.wait()
        left = tuple(self._running)
        for name in left:
            self.cancel(name)
            self._emit(BackgroundChanged(name, "deferred"))
        return left


class KeptOpen(Generic[_Held]):
    """Holds a context open between two awaits that may be in different tasks, such as the cells of a
    notebook: it is entered and left in a task of its own."""

    def __init__(self, context: AbstractAsyncContextManager[_Held, Any]) -> None:
        self._context = context
        self._over = asyncio.Event()

    async def begin(self) -> _Held:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError("`await Session.open(…)` needs asyncio; use `async with`.") from None
        entered: asyncio.Future[_Held] = loop.create_future()
        self._task = loop.create_task(self._live(entered))
        await asyncio.wait([self._task, entered], return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            self._task.result()  # raises why it can't be entered
        return entered.result()

    async def _live(self, entered: asyncio.Future[_Held]) -> None:
        async with self._context as held:
            entered.set_result(held)
            await self._over.wait()

    async def end(self) -> None:
        self._over.set()
        await self._task
