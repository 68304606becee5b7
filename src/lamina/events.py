"""What happened, as frozen values: the library returns them, the command line and the web render them.

Every event has a `kind` (its class name in snake case) and becomes one JSON object; docs/events.md
lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, TypeAlias, dataclass_transform

from lamina.messages import Usage


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Event:
    """Anything that a session reports. What inherits it is a frozen dataclass, told by kind."""

    kind: ClassVar[Any] = "event"  # in each event a literal, by which type checkers tell them apart

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)
        if "kind" in vars(cls):  # else it is a host's own, and told as what it inherits
            EVENTS[cls.kind] = cls

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}


EVENTS: dict[str, type[Event]] = {}


class TurnStarted(Event):
    """A user's message was recorded and its turn begins."""

    kind: ClassVar[Literal["turn_started"]] = "turn_started"
    turn: int


# Every way in which a turn can end. `turn.run` returns these and no others.
TurnEnd = Literal[
    "end_turn",
    "unanswered",
    "refusal",
    "max_calls",
    "max_tokens",
    "stopped by a hook",
    "blocked",
    "cancelled",
    "error",
]


class TurnEnded(Event):
    """The turn is over; why: end_turn, unanswered (no model, and no rule that helps), refusal (by the
    model), max_calls, max_tokens, stopped by a hook, blocked (the context is full), cancelled, error."""

    kind: ClassVar[Literal["turn_ended"]] = "turn_ended"
    turn: int
    reason: TurnEnd


class TextDelta(Event):
    """Text that the model streams."""

    kind: ClassVar[Literal["text_delta"]] = "text_delta"
    text: str


class ThinkingDelta(Event):
    """Thinking that the model streams."""

    kind: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    text: str


class StreamRestarted(Event):
    """A broken stream starts again: what was streamed of this answer is void."""

    kind: ClassVar[Literal["stream_restarted"]] = "stream_restarted"
    reason: str


class Retrying(Event):
    """A model call failed for now and is tried again."""

    kind: ClassVar[Literal["retrying"]] = "retrying"
    attempt: int
    delay: float
    reason: str


class AttemptBroke(Event):
    """A model call ended before its answer did; what the provider had counted by then is booked."""

    kind: ClassVar[Literal["attempt_broke"]] = "attempt_broke"
    model: str
    usage: Usage
    cost: float = 0.0


class ModelCalled(Event):
    """A call to a model ended and was booked."""

    kind: ClassVar[Literal["model_called"]] = "model_called"
    purpose: str
    model: str
    usage: Usage
    cost: float = 0.0
    seconds: float = 0.0


class OutputContinued(Event):
    """The answer was cut off; how it goes on: raised (limit) or continued."""

    kind: ClassVar[Literal["output_continued"]] = "output_continued"
    how: str
    attempt: int


class PromptRecovered(Event):
    """The provider said that the prompt is too long; what made room."""

    kind: ClassVar[Literal["prompt_recovered"]] = "prompt_recovered"
    how: str


class ToolStarted(Event):
    """A tool begins."""

    kind: ClassVar[Literal["tool_started"]] = "tool_started"
    id: str
    name: str
    input: dict[str, Any]


class ToolFinished(Event):
    """A tool ended; its result is in the record."""

    kind: ClassVar[Literal["tool_finished"]] = "tool_finished"
    id: str
    name: str
    is_error: bool
    size: int
    seconds: float = 0.0
    refused: bool = False  # by the gate or a permission
    why: str = ""  # what was refused, or waits for the user, in a sentence


class PermissionRefused(Event):
    """A tool call was refused, and the rule that did it."""

    kind: ClassVar[Literal["permission_refused"]] = "permission_refused"
    tool: str
    reason: str


class HookRan(Event):
    """A hook ended."""

    kind: ClassVar[Literal["hook_ran"]] = "hook_ran"
    hook: str
    command: str
    outcome: str
    seconds: float = 0.0


class LayerActed(Event):
    """A layer changed the view: what it did and the tokens that it saved."""

    kind: ClassVar[Literal["layer_acted"]] = "layer_acted"
    layer: str
    what: str
    tokens_saved: int = 0
    count: int = 1


class LayerFailed(Event):
    """A layer failed; it is booked and skipped, the next one serves."""

    kind: ClassVar[Literal["layer_failed"]] = "layer_failed"
    layer: str
    error: str


class CacheBroke(Event):
    """The provider's cache read less than expected, and why."""

    kind: ClassVar[Literal["cache_broke"]] = "cache_broke"
    cause: str
    expected: int
    read: int
    registered: bool = False


class Warned(Event):
    """Something that the user should know, in one sentence."""

    kind: ClassVar[Literal["warned"]] = "warned"
    message: str


class BackgroundChanged(Event):
    """A background task changed its state: started, done, failed, cancelled, deferred."""

    kind: ClassVar[Literal["background_changed"]] = "background_changed"
    task: str
    state: str
    detail: str = ""


class AgentChanged(Event):
    """An agent was started, or ended: running, done, failed, stopped, cancelled."""

    kind: ClassVar[Literal["agent_changed"]] = "agent_changed"
    id: str
    name: str
    type: str
    status: str
    detail: str = ""


class MemoryUpdated(Event):
    """Memory files were written, or removed."""

    kind: ClassVar[Literal["memory_updated"]] = "memory_updated"
    files: Sequence[str]
    writer: str
    removed: Sequence[str] = ()


class MemoryAdopted(Event):
    """Memories that Lamina did not write were found at first sight; its history begins with them."""

    kind: ClassVar[Literal["memory_adopted"]] = "memory_adopted"
    files: Sequence[str]


class DreamChanged(Event):
    """A dream went on: running, completed, failed, killed; starting, updating; which step."""

    kind: ClassVar[Literal["dream_changed"]] = "dream_changed"
    status: str
    phase: str
    step: str
    text: str = ""
    tools: int = 0
    files: Sequence[str] = ()


class MemoryRecalled(Event):
    """Memories that fit the user's message went into the view."""

    kind: ClassVar[Literal["memory_recalled"]] = "memory_recalled"
    files: Sequence[str]
    bytes: int


# What a session reports, as type checkers see it: `event.kind == "text_delta"` has an `event.text`.
AnyEvent: TypeAlias = (
    TurnStarted
    | TurnEnded
    | TextDelta
    | ThinkingDelta
    | StreamRestarted
    | Retrying
    | AttemptBroke
    | ModelCalled
    | OutputContinued
    | PromptRecovered
    | ToolStarted
    | ToolFinished
    | PermissionRefused
    | HookRan
    | LayerActed
    | LayerFailed
    | CacheBroke
    | Warned
    | BackgroundChanged
    | AgentChanged
    | MemoryUpdated
    | MemoryAdopted
    | DreamChanged
    | MemoryRecalled
)
Emit = Callable[[Event], None]


def quiet(event: Event) -> None:
    """An Emit for callers that don't listen."""
