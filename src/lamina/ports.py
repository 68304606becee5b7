"""The doors between rooms: protocols that adapters implement and that the turn calls.

Values, protocols, and the stand-ins for a part that is not there; `wiring.py` chooses what stands
behind each protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import msgspec

from lamina.errors import ToolError, UsageError
from lamina.events import Emit
from lamina.held import Held
from lamina.memories import Stamp as Stamp  # noqa: PLC0414 - others take it from here
from lamina.memory_port import MemoryHistory as MemoryHistory  # noqa: PLC0414 - others take it from here
from lamina.memory_port import MemoryStore as MemoryStore  # noqa: PLC0414 - others take it from here
from lamina.messages import Block, Json, Purpose, Request, Response, Usage
from lamina.messages import HookName as HookName  # noqa: PLC0414 - others take it from here

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

# ---- models


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model and its provider can do, by the table in `ledger/tokens.py`."""

    window: int = 200_000
    max_output: int = 32_000
    images: bool = True
    cache: Literal["anthropic", "openai", "none"] = "none"
    min_cacheable: int = 1_024
    cache_ttl: int = 300  # seconds
    cache_choice: Literal["", "all", "frame"] = ""  # what of it gets a life request by request
    cache_upgrades: bool = False  # a request that marks an hour gives it to all before the mark
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


@runtime_checkable
class CountsTokens(Protocol):
    """A model that can say how long a prompt is, by its own tokeniser and without an answer."""

    async def count(self, request: Request) -> int: ...


# ---- tools


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What the model is told about a tool, and what the layers need to know about its results."""

    name: str
    description: str
    input_schema: Json
    clearable: bool = False  # may layer 2 clear its old results?
    read_only: bool = False
    threshold: int | None = None  # L1: characters; None = the default, 0 = never moved
    parallel: bool = True  # may it run beside others of the same answer?

    def to_json(self) -> Json:
        return {name: getattr(self, name) for name in ("name", "description", "input_schema")}


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


class ToolSession(Protocol):
    """The session as its tools see it. A method that this agent may not use raises ToolError."""

    def todos(self, new: list[Json] | None) -> list[Json]:
        """The list of tasks; a list replaces it first."""
        ...

    def expand(self, name: str) -> str:
        """The text of a folded span, by the id that the view shows in its place."""
        ...

    def snip(self, first: int, last: int, what: str) -> str:
        """Take these rounds out of the view, or list the rounds if `first` is 0; a sentence."""
        ...

    def keep(self, path: Path, content: bytes, before: bytes | None, /) -> Path | None:
        """Write a memory file through the gate and return where it is now.

        None if the path is not a memory's: then the tool writes the file itself.
        """
        ...


class NoSession:
    """What tools get outside a session: nothing to keep, show or snip."""

    def todos(self, new: list[Json] | None) -> list[Json]:  # noqa: ARG002
        raise ToolError("This session keeps no list of tasks.")

    def expand(self, name: str) -> str:  # noqa: ARG002
        raise ToolError("Nothing is folded in this session.")

    def snip(self, first: int, last: int, what: str) -> str:  # noqa: ARG002
        raise ToolError("Nothing can be snipped here.")

    def keep(self, path: Path, content: bytes, before: bytes | None) -> Path | None:  # noqa: ARG002
        return None


@dataclass(slots=True)
class ToolContext:
    """What one agent's tools may use. Forks get a clone (`files` copied, `permit` their own)."""

    project: Path
    cwd: Path
    scratch: Path  # the session's own folder, or the agent's
    emit: Emit
    permit: Permit
    files: MutableMapping[str, SeenFile] = field(default_factory=dict[str, SeenFile])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    sandbox: Literal["full", "workspace", "read-only"] = "workspace"
    network: bool = True  # may commands in `workspace` reach the Internet? `read-only` never does
    writes: Sequence[Path] = ()  # beside the project, for commands in `workspace`
    attended: bool = True  # else commands reach no network, and what steers later is put back,
    reach: bool = False  # unless the user's settings allow more;
    reads: Sequence[Path] = ()  # these alone are read then, beside the project and the system
    tool_use_id: str = ""
    held: Held | None = None  # what this call's path names, open since before its permission
    withheld: Withheld | None = None  # what this call's permission leaves out
    session: ToolSession = field(default_factory=NoSession)
    agent: str | None = None  # who calls: "" is the conversation, None has no agents
    notes: Path | None = None  # where writes are noted; None: beside `scratch`


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


class Question(str):
    """What a person is asked about; `always` names what that answer would allow."""

    always: str = ""

    @classmethod
    def of(cls, words: str, always: str) -> Question:
        question = cls(words)
        question.always = always
        return question


# Asks the person about a tool and a Question; answers once, always (for this session) or no.
Ask = Callable[[str, str], Awaitable[Literal["once", "always", "no"]]]


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

    def cancel(self, name: str) -> bool:
        """Stop a task; False if none of that name is running."""
        ...

    async def drain(self, seconds: float) -> Sequence[str]:
        """Wait for all, at most so long; cancel the rest and return their names."""
        ...


class NoBackground:
    """Where nothing runs beside the turn."""

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> bool:  # noqa: ARG002
        return False

    def running(self) -> Sequence[str]:
        return ()

    def cancel(self, name: str) -> bool:  # noqa: ARG002
        return False

    async def drain(self, seconds: float) -> Sequence[str]:  # noqa: ARG002
        return ()


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


class Agents(Protocol):
    """The agents that a session has started."""

    def stop_all(self, starter: str) -> None:
        """Stop those that this agent started, directly or not; "": all of them."""
        ...

    async def listen(self, *, task_status: TaskStatus[None]) -> None:
        """Hear from agents of other processes, until `hang_up`."""
        ...

    def hang_up(self) -> None: ...


# ---- letters between processes

LARGEST_LETTER = 1_000_000  # bytes


@dataclass(frozen=True, slots=True)
class Letter:
    """One message on its way. `message` is text, or an object with a type."""

    id: str
    sender: str  # as people read it
    reply: str  # where an answer goes
    message: str | dict[str, Any]
    to: str = ""  # an agent behind the mailbox; "": whoever owns it
    summary: str = ""
    proven: bool = True  # the post vouches for `reply`; found out by whoever reads, not believed

    def __post_init__(self) -> None:
        if not (self.id.isascii() and self.id.replace("-", "").isalnum() and len(self.id) < 200):
            raise ValueError("a letter's id has letters, digits and -")  # a file is named by it

    @property
    def kind(self) -> str:
        """The type of an object; "" for words."""
        return "" if isinstance(self.message, str) else str(self.message.get("type"))

    def packed(self) -> bytes:
        """A UsageError if it is too large."""
        data = msgspec.json.encode(self)
        if len(data) > LARGEST_LETTER:
            raise UsageError(
                f"A letter of {len(data):,} bytes is too large: at most {LARGEST_LETTER:,}. "
                "Write what matters to a file and send its path."
            )
        return data

    @classmethod
    def unpacked(cls, data: bytes, where: str) -> Letter:
        """A UsageError says what is wrong with it."""
        if len(data) > LARGEST_LETTER:
            most = f"the {LARGEST_LETTER:,} bytes that a letter may have"
            raise UsageError(f"{where} is larger than {most}.")
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.MsgspecError as error:
            raise UsageError(f"{where} is damaged, or half a letter: {error}.") from error


@dataclass(frozen=True, slots=True)
class Presence:
    """Who reads a mailbox, as others see it."""

    name: str
    type: str = ""  # of a teammate; "": a session
    session: str = ""
    address: str = ""  # of its socket
    status: str = ""
    line: str = ""  # what it does
    tokens: int = 0
    dollars: float = 0.0
    started: float = 0.0
    alive: bool = True  # found out by whoever looks, not believed

    def packed(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def unpacked(cls, data: bytes | str, alive: bool) -> Presence | None:
        """None: nothing that can be read."""
        try:
            return replace(msgspec.json.decode(data, type=cls), alive=alive)
        except msgspec.MsgspecError:
            return None


class Reader(Protocol):
    """An open mailbox: nobody else reads it meanwhile."""

    @property
    def bell(self) -> int:
        """A descriptor that can be read when something has come; `hush` empties it."""
        ...

    def hush(self) -> None: ...

    def take(self, hand_over: Callable[[Letter], None]) -> int:
        """Hand over what waits, oldest first. A letter is read once `hand_over` has returned; one whose
        reader died before that comes again."""
        ...

    def show(self, presence: Presence) -> None: ...

    def close(self, *, keep: bool = True) -> None:
        """Not `keep`: a mailbox in which nothing waits disappears."""
        ...


class Post(Protocol):
    """Where mailboxes are."""

    def send(self, name: str, letter: Letter) -> None:
        """It is safe in that mailbox when this returns. The same id again is the same letter."""
        ...

    def read(self, presence: Presence, complain: Callable[[str], None]) -> Reader:
        """Open one's own mailbox; a UsageError if somebody alive reads it. `complain` hears of letters
        that can't be read and are set aside."""
        ...

    def present(self) -> list[Presence]:
        """All that have a mailbox here, those that don't run too."""
        ...

    def close(self) -> None: ...


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
        ends_with: Collection[str] = (),  # an answer that calls these alone, and well, is the last
        apart: bool = False,  # by the small model, on a prompt without the conversation
        hear: Emit | None = None,  # what goes on in it, its own words too
    ) -> ForkResult: ...
