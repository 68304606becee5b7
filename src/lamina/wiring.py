"""The one place that chooses adapters: settings in, parts out.

Touches nothing itself; models, tools, hooks and stores are made here and used elsewhere.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio

from lamina.cache import lifetime
from lamina.cache.spend import Spend
from lamina.config import Config, Flags
from lamina.errors import LaminaError, ModelConfigError, RefusedError, UsageError
from lamina.events import AttemptBroke, Emit, Event, Warned
from lamina.ledger.record import Ledger, Quotes
from lamina.machine import SystemClock
from lamina.memory import GateContext, days_named, open_store
from lamina.messages import MODELS, Json, Request, Response, Usage, names_model
from lamina.ports import Ask, Clock, HookName, Hooks, MemoryStore, Model, Permit, Tool
from lamina.recall.memory_index import MemoryIndex, headed_memories
from lamina.recall.transcripts import (
    FoundMessage,
    claude_folders,
    headed_messages,
    transcript_indexes,
)
from lamina.secrets.rules import for_commands
from lamina.state import Deps
from lamina.tools import files
from lamina.tools.functions import by_command, web_fetch, web_search
from lamina.tools.functions import tool as as_tool
from lamina.tools.hooks import CommandHook, FunctionHook, Hook, HookSet
from lamina.tools.memory_guard import MemoryGuard
from lamina.tools.memory_tools import Forget, Recall, Remember, Remembered, SkillTool, find_skills
from lamina.tools.registry import Toolbox, builtin_tools
from lamina.tools.sandbox import available

if TYPE_CHECKING:
    from lamina.recall.reading import Reading
    from lamina.tools.mcp_client import McpServers


_WANTED = {
    "project": "give the path of its directory",
    "model": "give a name such as 'anthropic:claude-sonnet-4-6', or an object with name, "
    "capabilities, complete and close (lamina.Model)",
    "config": "give settings as a dict, or a Config",
    "memory": "give a MemoryStore, such as lamina.Memory(…).store",
    "ask": "give a function that answers a permission question",
    "tools": "give a list of functions and Tools",
    "hooks": "give a dict of functions by event",
    "on_event": "give a function that takes an event",
}


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller of `Session.open` asked for."""

    project: str | Path
    model: str | Model | None = None
    home: str | Path | None = None
    config: Config | Mapping[str, Any] | None = None
    ask: Ask | None = None
    interactive: bool = False
    on_event: Emit | None = None
    tools: Iterable[Tool | Callable[..., Any]] = ()
    hooks: Mapping[HookName, Any] = field(default_factory=dict[HookName, Any])
    clock: Clock = field(default_factory=SystemClock)
    flag_provider: Any = None
    claude: bool = False
    memory: MemoryStore | None = None  # instead of the project's files
    remember: bool = False  # layer 5 serves this session, though nobody is at it

    def __post_init__(self) -> None:
        """A wrong object is named here, before it fails somewhere inside."""
        wrong = {
            "project": not isinstance(self.project, str | Path),
            "model": not isinstance(self.model, str | Model | None),
            "config": not isinstance(self.config, Config | Mapping | None),
            "memory": self.memory is not None and not hasattr(self.memory, "write_file"),
            "ask": self.ask is not None and not callable(self.ask),
            "tools": not isinstance(self.tools, Iterable),
            "hooks": not isinstance(self.hooks, Mapping),
            "on_event": self.on_event is not None and not callable(self.on_event),
        }
        for name in (name for name, found in wrong.items() if found):
            kind = type(getattr(self, name)).__name__
            raise UsageError(f"`{name}` can't be a {kind}: {_WANTED[name]}.")


def open_model(spec: str, config: Config, clock: Clock, *, saves: bool = True) -> Model:
    """The model that a name stands for, with this configuration's keys and addresses. `saves`:
    whether layer 5 keeps what is said, which the engine without a model promises."""
    from lamina.models import open_model as make

    provider = spec.partition(":")[0]
    if provider == "none":
        from lamina.models.none import NoModel

        return NoModel(saves=saves)
    options: dict[str, Any] = {}
    if provider in ("anthropic", "openai"):
        options = {
            "api_key": config.secret(provider) or None,
            "base_url": config.str(f"{provider}.base_url") or None,
            "headers": config.table(f"{provider}.headers"),
            # What the user says of a window counts more than what an endpoint once said.
            "limits": None if config.int("window.tokens") else config.own_home / "windows.json",
        }
    if provider == "anthropic":
        options |= {
            "betas": config.strings("anthropic.betas"),
            "diagnostics": config.bool("anthropic.diagnostics"),
            "cache_ttl": config.str("cache.ttl"),
            "cache_edits": config.bool("anthropic.cache_edits"),
            "cache_upgrades": lifetime.upgrades(
                config.own_home, spec, config.str("anthropic.base_url")
            ),
        }
    elif provider == "openai":
        options["cache_key"] = config.str("openai.cache_key") or None
    return make(
        spec,
        options={
            **options,
            "clock": clock,
            "timeout": config.float("api.timeout"),
            "retries": config.int("api.retries"),
            "window": config.int("window.tokens") or None,
            "max_output": config.int("max_output") or None,
        },
    )


class SmallModel:
    """The model for small background calls: opened when first needed, and the conversation's own
    where the setting names that one."""

    def __init__(self, config: Config, clock: Clock, main: Model) -> None:
        self._config, self._clock = config, clock
        name = config.str("small_model")
        if name not in (main.name, config.str("model")) and not names_model(name):
            raise ModelConfigError(f"There is no small_model {name!r}; write {MODELS}.")
        self._opened: Model | None = None

    def __call__(self, main: Model) -> Model:
        name = self._config.str("small_model")
        if name in (main.name, self._config.str("model")):
            return main
        if self._opened is None:
            self._opened = open_model(name, self._config, self._clock)
        return self._opened

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()


async def ask_small(config: Config, request: Request) -> Response:
    """One call of the small model outside of any session: within the caps, and booked like all others."""
    spend, clock = Spend.of(config), SystemClock()
    if reason := spend.refusal(request.purpose, clock.now()):
        raise RefusedError(reason)

    def book(model: str, usage: Usage) -> None:
        spend.book(purpose=request.purpose, model=model, usage=usage, session="", at=clock.now())

    def hear(event: Event) -> None:
        if isinstance(event, AttemptBroke):
            book(event.model, event.usage)

    model = open_model(config.str("small_model"), config, clock)
    try:
        response = await model.complete(request, hear)
    finally:
        await model.close()
    book(response.model or request.model, response.usage)
    return response


def read_turns(config: Config, question: str, found: Sequence[FoundMessage]) -> Reading:
    """Which turns of a search answer the question, by the small model: for people, who have no turn."""
    from lamina.recall.reading import Reading, TurnReader

    name = config.str("small_model")
    if name == "none":
        return Reading(None, "there is no small model (the setting small_model).")
    limits = config.int("recall.max_tokens"), config.float("recall.timeout")
    reader = TurnReader(partial(ask_small, config), name, *limits)
    return anyio.run(reader.read, question, found, time.time())


def _model_of(options: Options, config: Config, flags: Flags) -> Model:
    model = options.model if options.model is not None else config.str("model")
    if not isinstance(model, str):
        return model
    saves = options.interactive or flags.on("extraction_non_interactive")
    return open_model(model, config, options.clock, saves=saves and flags.on("extraction"))


async def make_deps(
    options: Options,
    config: Config,
    flags: Flags,
    ledger: Ledger,
    transcript: Path,
    emit: Emit,
    stack: AsyncExitStack,
    *,
    read: Callable[[str], str] | None = None,
) -> Deps:
    """Everything that a turn calls. What must be closed again goes on the stack. `read` has the small
    model answer what the memory's gate would like to have read."""
    files.sweep(transcript.parent)
    limits = config.float("bash.timeout"), config.float("bash.max_timeout")
    toolbox = Toolbox(builtin_tools(*limits, snips=flags.on("snip")))
    memory = options.memory if config.bool("memory.enabled") else None
    if memory is None:
        memory = make_memory(config, transcript, emit, ledger, options.clock.now, read)
    memory_index = guard = None
    if memory is not None:
        if memory is not options.memory:  # else its maker closes it
            stack.callback(memory.close)
        memory_index, guard = _add_memory_tools(
            toolbox, memory, transcript, options.clock, ledger, config, flags
        )
    for tool in _from_settings(config):
        toolbox.add(tool)
    for tool in options.tools:
        toolbox.add(tool if isinstance(tool, Tool) else as_tool(tool))
    servers = await _connect_servers(config, emit, stack)
    model = _model_of(options, config, flags)
    small = SmallModel(config, options.clock, model)
    stack.push_async_callback(small.close)
    return Deps(
        config=config,
        flags=flags,
        model=model,
        toolbox=toolbox,
        hooks=_make_hooks(config, options.hooks, transcript, emit),
        clock=options.clock,
        spend=Spend.of(config),
        folder=transcript.with_suffix(""),
        transcript=transcript,
        session_id=transcript.stem,
        interactive=options.interactive,
        memory=memory,
        memory_index=memory_index,
        guard=guard,
        small=small if config.str("small_model") != "none" else None,
        unattended=make_permit(config, None, interactive=False),
        servers=servers,
    )


def _from_settings(config: Config) -> list[Tool]:
    """Skills that there are, and the web where the user named commands for it."""
    tools: list[Tool] = []
    if skills := find_skills(skill_folders(config)):
        tools.append(SkillTool(skills))
    env = for_commands(os.environ, config.strings("bash.environment"))
    for name, make in (("web.search", web_search), ("web.fetch", web_fetch)):
        if command := config.str(name):
            tools.append(make(by_command(command, config.project, env)))
    return tools


async def _connect_servers(config: Config, emit: Emit, stack: AsyncExitStack) -> McpServers | None:
    """The user's MCP servers, which are started but not waited for."""
    if not (servers := config.table("mcp.servers")):
        return None
    from lamina.tools.mcp_client import connect

    return await connect(servers, stack, emit)


def make_memory(
    config: Config,
    transcript: Path,
    emit: Emit,
    ledger: Ledger | None = None,
    now: Callable[[], float] = time.time,
    read: Callable[[str], str] | None = None,
) -> MemoryStore | None:
    """The project's memory, its directory made; None where it is off or has no place."""
    if not config.bool("memory.enabled"):
        return None
    quotes = Quotes(transcript.parent, transcript.stem, ledger)

    small = config.str("small_model") != "none"
    try:
        gate = GateContext(
            origin_text=quotes.origin_text,
            before=quotes.before,
            whole=quotes.whole,
            dates=partial(days_named, quotes.when),
            said_at=quotes.said_at,
            reader=read if config.bool("memory.reader") and small else None,
        )
        return open_store(config, emit, gate=gate, in_session=True, now=now)
    except LaminaError as error:
        emit(Warned(f"Memory is off: {error}"))
        return None


def _add_memory_tools(
    toolbox: Toolbox,
    store: MemoryStore,
    transcript: Path,
    clock: Clock,
    ledger: Ledger | None,
    config: Config,
    flags: Flags,
) -> tuple[MemoryIndex, MemoryGuard | None]:
    """Remember, Forget and Recall, and what stands behind them."""

    def entries() -> Sequence[Json]:
        return ledger.entries if ledger is not None else ()

    memory_index, session = MemoryIndex(store), transcript.stem
    claude = claude_folders(config.home, config.project) if config.claude else ()
    past = transcript_indexes(transcript.parent, claude, without=session)

    def memories(query: str, limit: int) -> Sequence[Remembered]:
        found = headed_memories(memory_index, query, limit, clock.now())
        return [Remembered(*one) for one in found]

    def sessions(query: str, limit: int) -> Sequence[Remembered]:
        return [Remembered(*one) for one in headed_messages(past, query, limit, clock.now())]

    log = clock.now if flags.on("daily_log") and store.in_files else None
    with_index = config.bool("memory.index")
    toolbox.add(Remember(store, session, entries, with_index=with_index, log=log))
    toolbox.add(Forget(store, session, entries))
    toolbox.add(Recall(memories, sessions))
    guard = MemoryGuard(store, session, entries) if store.in_files else None
    return memory_index, guard


def _make_hooks(
    config: Config, callables: Mapping[HookName, Any], transcript: Path, emit: Emit
) -> Hooks | None:
    """Commands from the settings, then the host's callables."""
    chosen: dict[HookName, list[Hook]] = {}
    for name, rows in config.table("hooks").items():
        for row in rows:
            hook = CommandHook(row["command"], row.get("match", ""), row.get("timeout"))
            chosen.setdefault(name, []).append(hook)  # pyright: ignore[reportArgumentType]
    for name, given in callables.items():
        several = isinstance(given, (list, tuple))
        functions = list(cast("Sequence[Any]", given)) if several else [given]
        chosen.setdefault(name, []).extend(FunctionHook(function) for function in functions)
    session: Json = {"session_id": transcript.stem, "transcript_path": str(transcript)}
    return HookSet(chosen, config.project, emit, os.environ, session) if chosen else None


def skill_folders(config: Config) -> list[Path]:
    """Where skills are kept, with the files that they name; never by a project's word."""
    named = (Path(name).expanduser() for name in config.strings("skills.directories"))
    return [config.own_home / "skills", *named]


def sandbox_profile(config: Config) -> Literal["full", "workspace", "read-only"]:
    """The profile in force: without a sandbox in the kernel, permissions alone guard the shell."""
    wanted = config.str("sandbox.profile")
    if wanted == "workspace" and available():
        return "full"
    return cast("Literal['full', 'workspace', 'read-only']", wanted)


def make_permit(
    config: Config, ask: Ask | None, *, interactive: bool, memory: MemoryStore | None = None
) -> Permit:
    """The user's rules; writing memory files needs no question, for the gate judges it."""
    from lamina.tools.permissions import PermissionRules
    from lamina.tools.permissions import make_permit as make

    return make(
        PermissionRules.of(
            allow=[*config.strings("permissions.allow"), *_for_memory(memory)],
            ask=config.strings("permissions.ask"),
            deny=config.strings("permissions.deny"),
        ),
        ask=ask,
        interactive=interactive,
        sandboxed=sandbox_profile(config) != "full",
    )


def _for_memory(store: MemoryStore | None) -> list[str]:
    if (
        store is None
        or not store.in_files
        or any(char in str(store.directory) for char in "*?[]{}()")
    ):
        return []
    return [f"{tool}({store.directory}/**)" for tool in ("Write", "Edit")]
