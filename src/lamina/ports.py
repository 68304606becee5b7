"""The doors between rooms: protocols that adapters implement and that the turn calls.

Only values and protocols; `wiring.py` chooses what stands behind each of them.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias, runtime_checkable

from lamina.errors import GateRefused
from lamina.events import Emit
from lamina.held import Held
from lamina.memories import (
    Change,
    Commit,
    Evidence,
    Forgotten,
    Hit,
    InboxItem,
    InForce,
    LoadedIndex,
    Meant,
    Memory,
    Note,
    Outcome,
    Parted,
    Proposal,
    Verdict,
    Writer,
)
from lamina.messages import Block, Json, Purpose, Request, Response, Usage

if TYPE_CHECKING:
    from lamina.secrets import Rules

# ---- models


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model and its provider can do, by the table in `ledger/window.py`."""

    window: int = 200_000
    max_output: int = 32_000
    images: bool = True
    cache: Literal["anthropic", "openai", "none"] = "none"
    min_cacheable: int = 1_024
    cache_ttl: int = 300  # seconds
    context_management: bool = False  # L2.3
    cache_edits: bool = False  # L2.2
    keeps_thinking: bool = True


@runtime_checkable
class Model(Protocol):
    """A model behind any provider. Retries, time-outs and translation are the adapter's work."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def complete(self, request: Request, emit: Emit) -> Response:
        """Send the request, emit TextDelta, ThinkingDelta, Retrying, StreamRestarted, return all.

        Raises ModelConfigError, ModelUnreachable, PromptTooLong, BadResponse.
        """
        ...

    async def close(self) -> None: ...


# ---- tools


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What the model is told of a tool, and what the layers need to know of its results."""

    name: str
    description: str
    input_schema: Json
    clearable: bool = False  # may layer 2 clear its old results?
    read_only: bool = False
    threshold: int | None = None  # L1: characters; None = the default, 0 = never moved
    parallel: bool = True  # may it run beside others of the same answer?

    def to_json(self) -> Json:
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
        }


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a tool gives back. `meta` goes to the record only (exit code, path, line count …)."""

    content: str | list[Block]
    is_error: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file as a tool last showed or wrote it: Edit and Write refuse what changed since."""

    mtime_ns: int
    size: int
    digest: str
    whole: bool  # read from first to last line


@dataclass(slots=True)
class ToolContext:
    """What one agent's tools may use. Forks get a clone (`files` copied, `permit` their own)."""

    project: Path
    cwd: Path
    scratch: Path  # the session's own folder
    emit: Emit
    permit: Permit
    files: MutableMapping[str, SeenFile] = field(default_factory=dict[str, SeenFile])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    sandbox: Literal["full", "workspace", "read-only"] = "workspace"
    network: bool = True  # may commands in `workspace` reach the Internet? `read-only` never does
    tool_use_id: str = ""
    held: Held | None = None  # what this call's path names, open since before its permission
    withheld: Withheld | None = None  # what this call's permission leaves out
    # Writes a file of the memory (path, content, what was there) through its gate, and gives its new
    # status; None for a path that is no memory's, which the tool writes itself.
    keep: Callable[[Path, bytes, bytes | None], os.stat_result | None] | None = None
    todos: Callable[[list[Json] | None], list[Json]] | None = None  # None reads, a list replaces
    expand: Callable[[str], str] | None = None  # a folded span by the id shown in the view
    snip: Callable[[int, int, str], str] | None = (
        None  # rounds first to last leave the view; 0 lists
    )


@runtime_checkable
class Tool(Protocol):
    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        """Do it. ToolError becomes an error result; the turn goes on."""
        ...


# ---- permissions, hooks


class Withheld(Protocol):
    """What a permitted search must not show. Paths are real ones."""

    @property
    def note(self) -> str:
        """A sentence for the model about what it could ask for; "" if there is nothing."""
        ...

    def hides(self, path: str) -> bool: ...

    def globs(self) -> Sequence[str]:
        """The hidden files by globs over paths below the search's beginning, in any case."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    allow: bool
    reason: str = ""  # why not, or which rule allowed it
    withheld: Withheld | None = None  # what it does not allow, of a search that it allows


class Permit(Protocol):
    """The one function that allows or refuses a tool call at run time."""

    async def __call__(self, spec: ToolSpec, input: Json, context: ToolContext) -> Decision: ...  # noqa: A002


# Asks the person at the keyboard; answers once, always (for this session) or no.
Ask = Callable[[str, str], Awaitable[Literal["once", "always", "no"]]]

HookName = Literal[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PreCompact",
    "PostCompact",
    "Stop",
    "SessionEnd",
]


@dataclass(frozen=True, slots=True)
class HookResult:
    """All hooks of one event together."""

    blocked: bool = False
    reason: str = ""
    context: Sequence[str] = ()  # text for the view, origin `hook`
    message: str = ""  # a sentence for the user
    stop: bool = False  # `continue: false`: end the turn
    updated_input: Json | None = None  # PreToolUse may replace a tool's input


class Hooks(Protocol):
    async def run(self, hook: HookName, payload: Json, *, match: str = "") -> HookResult: ...


# ---- the world


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class Background(Protocol):
    """Work beside the turn, one task a name at a time; drained at exit."""

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> bool:
        """False if a task of that name is running: the caller keeps its wish for a trailing run."""
        ...

    def running(self) -> Sequence[str]: ...

    async def drain(self, seconds: float) -> Sequence[str]:
        """Wait for all, at most so long; cancel the rest and return their names."""
        ...


# ---- agents


@dataclass(frozen=True, slots=True)
class ForkResult:
    """What a fork did: its last words, its calls, and how much of its prompts the cache served."""

    text: str
    stop: str  # end_turn | max_calls | refused | error | …
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    refused: Sequence[str] = ()  # tool calls that its permission function refused
    error: str = ""
    too_long: int | None = None  # tokens over the limit, 0 if unknown; None: it was not too long


class Fork(Protocol):
    """Starts a fork of one agent: the parent's prompt byte for byte, then a directive (L7.1)."""

    async def __call__(
        self,
        directive: str,
        *,
        purpose: Purpose,
        permit: Permit,
        max_calls: int,
        files: Mapping[str, SeenFile]
        | None = None,  # counted as read by the fork, beside its parent's
        instead: Sequence[Tool] = (),  # run in the place of the tools with the same spec
        changes: Sequence[
            Json
        ] = (),  # edits of its own view; each costs the cached prefix from there
    ) -> ForkResult: ...


# ---- memory

Stamp: TypeAlias = tuple[int, int, int]  # differs between two states of a file: mtime, size, inode


class MemoryStore(Protocol):
    """Memories by path. Every write passes the gate; every one can be undone where there is history.

    Refusals raise GateRefused, a change by somebody else that does not fit raises Conflict, anything
    the disk does raises MemoryStoreError; in all three cases nothing was changed. `FileStore` is the
    store that Lamina brings; `lamina.testing` holds the checks that any other must pass.
    """

    @property
    def directory(self) -> Path:
        """Where the memories are; of a store without files, a name for it that people are shown."""
        ...

    @property
    def state(self) -> Path:
        """A folder for what is derived from the memories: the recall index, the record of dreams."""
        ...

    @property
    def in_files(self) -> bool:
        """May tools and people open the memories in `directory`? Without files there is no dream,
        and a fork has nothing to write to."""
        ...

    @property
    def history(self) -> MemoryHistory | None:
        """None: the store keeps none, and nothing can be undone."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None: ...

    # reading

    def list(self) -> Sequence[Memory]:
        """All memories, newest first, without bodies."""
        ...

    def newest(self, count: int) -> Sequence[Memory]:
        """The first so many of `list()`, in the time that these take."""
        ...

    def unreadable(self) -> Sequence[str]:
        """What lies among the memories and can't be read as one."""
        ...

    def stamps(self) -> Mapping[str, Stamp]:
        """Every memory, and the state that it is in."""
        ...

    def read(self, path: str) -> Memory:
        """One memory, whole. MemoryStoreError if there is none."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """A memory or an index as a file. MemoryStoreError if there is none."""
        ...

    def content(self, path: str, limit: int = -1) -> bytes | None:
        """The same, or its first `limit` bytes; None if there is none."""
        ...

    def mtime(self, path: str) -> float:
        """When it was last changed; 0 if there is none."""
        ...

    def index(self, folder: str = "") -> LoadedIndex:
        """MEMORY.md as it goes into the prompt (`team` for the team's)."""
        ...

    def search(self, query: str, limit: int = 10) -> Sequence[Hit]:
        """Memories that share words with the query, best first."""
        ...

    # writing

    def write(
        self,
        proposal: Proposal,
        *,
        base: Memory | None = None,
        replace: bool = False,
        pointer: bool = True,
    ) -> Outcome:
        """Write a memory and, with `pointer`, its line in the index.

        `base` is the memory that the writer had read (None: there is none yet). What others changed
        since is kept: both changes are merged, or Conflict is raised. `replace` overwrites blindly.
        """
        ...

    def remember(
        self,
        proposal: Proposal,
        *,
        base: Memory | None = None,
        replace: bool = False,
        pointer: bool = True,
    ) -> Outcome:
        """Write what was not looked up first: known already, it is not written again; where another
        memory has the name, it gets the next one."""
        ...

    def write_file(
        self,
        path: str,
        content: bytes,
        *,
        writer: Writer,
        base: bytes | None,
        evidence: Sequence[Evidence] = (),
        takes_back: Sequence[Evidence] = (),
        session: str = "",
        reason: str = "",
        pointer: bool = False,
        subject: str = "",
        allow_secret: bool = False,
    ) -> Outcome:
        """A memory or an index byte for byte, through the same gate. `base` is what its writer had
        read (None: no file)."""
        ...

    def rename(self, old: str, new: str, *, writer: Writer = "user") -> Outcome:
        """Give a memory another path; its pointer follows."""
        ...

    def apply(self, changes: Sequence[Change], note: Note, *, first: Callable[[], object]) -> bool:
        """Bring in changes that were judged already, all or none; False if there was nothing to
        change. `first` runs when nobody else can write any more, and raises to stop it."""
        ...

    def pinned(self) -> set[str]:
        """Paths that only the user may change."""
        ...

    def pin(self, path: str, *, on: bool = True) -> None: ...

    # forgetting

    def forget(
        self,
        path: str,
        *,
        writer: Writer = "user",
        tombstone: bool = True,
        purge_history: bool = False,
        reason: str = "",
    ) -> None:
        """Remove a memory and its pointer. With `tombstone`, what it said can't come back by itself;
        `purge_history` takes it out of the history too."""
        ...

    def meant(self, wish: str) -> Meant:
        """The memories that these words, or this name, mean."""
        ...

    def forget_meant(
        self,
        memory: Memory,
        *,
        part: Parted | None = None,
        writer: Writer,
        session: str = "",
        reason: str = "",
        evidence: Sequence[Evidence] = (),
        asked: bool = True,
    ) -> Forgotten:
        """Forget what `meant` found. `asked`: the user wanted it; else its writer may save it again."""
        ...

    def keep_away(self, claim: str, near: Sequence[Memory] = ()) -> bool:
        """Keep a statement out that no memory holds yet; False where that can't be done safely."""
        ...

    def would_lose(self, memory: Memory) -> bool:
        """Does it hold words of the user that stand nowhere else?"""
        ...

    # the gate

    @property
    def secret_rules(self) -> Rules | None:
        """The user's own rules beside ours; None: ours alone."""
        ...

    @property
    def max_bytes(self) -> int:
        """The longest memory that is taken."""
        ...

    def judge(self, proposal: Proposal, current: bytes | None, exact: bytes | None) -> Verdict:
        """What the gate would say of it, where `current` stands now; refusals are raised."""
        ...

    def judge_among(self, proposal: Proposal, memories: Sequence[Memory], vouched: str) -> Verdict:
        """What the gate would say if memory held just these, and these words were the user's own."""
        ...

    # what waits for a person

    def waiting(self) -> Sequence[InboxItem]:
        """Everything that waits, oldest first."""
        ...

    def waiting_item(self, beginning: str) -> InboxItem:
        """One item by the beginning of its id; UsageError if none or several begin so."""
        ...

    def hold(self, proposal: Proposal, verdict: Verdict, content: bytes) -> InboxItem:
        """Have a proposal wait; InboxFull if there is no more room."""
        ...

    def proposed_content(self, item: InboxItem) -> bytes:
        """The file as it would be after accepting it."""
        ...

    def inbox_diff(self, item: InboxItem) -> str:
        """What accepting it would change."""
        ...

    def accept(
        self, item_id: str, *, edited: bytes | None = None, allow_secret: bool = False
    ) -> Outcome:
        """Write it as the user's own word, as it is or as they edited it."""
        ...

    def reject(self, item_id: str) -> InboxItem:
        """Drop it; the same words won't be proposed again."""
        ...

    # what did not come through the store

    def catch_up(self) -> Sequence[str]:
        """Record everything that is due, and what was changed outside; the paths of the latter."""
        ...

    def note_outside(self) -> None:
        """Before a tool runs: what others changed up to now is theirs."""
        ...

    def changed_outside(self) -> bool: ...

    def attribute(
        self,
        *,
        writer: Writer,
        session: str,
        evidence: Sequence[Evidence],
        takes_back: Callable[[Change], Sequence[Evidence]],
        reason: str,
    ) -> Sequence[Outcome | GateRefused]:
        """After it ran: gate what it changed by itself, and take back what is not accepted."""
        ...

    def newest_change(self, path: str = "") -> str:
        """The short id of the last change made through Lamina, "" where no history can tell."""
        ...


class MemoryHistory(Protocol):
    """What a store recorded of its changes, and how they are taken back."""

    @property
    def empty(self) -> bool: ...

    def settle(self) -> None:
        """Record what is due. Cheap if nothing is."""
        ...

    def log(self, path: str = "") -> Iterator[Commit]:
        """Newest first, of all files or of one."""
        ...

    def find(self, beginning: str) -> str:
        """The id that begins so; UsageError if none or several do."""
        ...

    def changes(self, commit: str) -> Sequence[Change]: ...

    def content(self, path: str, commit: str) -> bytes | None:
        """The file as it was after the commit."""
        ...

    def versions(self, path: str) -> Sequence[tuple[Commit, bytes | None]]:
        """Oldest first, under earlier names too."""
        ...

    def in_force(self) -> Sequence[InForce]:
        """Changes that were not taken back, newest first."""
        ...

    def named(self, beginning: str) -> Commit:
        """The commit that the user means; UsageError where it can't be taken back."""
        ...

    def last_change(self) -> Commit | None:
        """What an undo without an id takes back."""
        ...

    def effect(self, commit: Commit) -> Sequence[Change]:
        """What undoing it would do to the files as they are now."""
        ...

    def undo(self, commit: str) -> list[str]:
        """Take one commit back; what was changed since stays. The paths that changed. Conflict, and
        nothing is changed, where a later change touched the same lines."""
        ...

    def restore(self, path: str, commit: str) -> Outcome:
        """Bring a file back as it was after a commit."""
        ...
