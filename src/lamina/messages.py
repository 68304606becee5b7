"""Messages as plain JSON values in Anthropic's block form, and the frozen values around a model call.

Blocks and messages stay dictionaries, so that fields nobody knows yet survive a round trip. Nothing
here touches files, clocks or the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from operator import attrgetter
from typing import Any, Literal, TypeAlias, get_args

Json: TypeAlias = dict[str, Any]
Block: TypeAlias = dict[str, Any]
Message: TypeAlias = dict[str, Any]  # {"role": "user" | "assistant", "content": [Block, ...]}

Role = Literal["user", "assistant"]

# Who put a block into the record. Only `typed` text is the user's own word.
Origin = Literal[
    "typed", "pasted", "tool", "assistant", "recalled", "hook", "teammate", "agent", "system"
]

# Why a model is called. Everything but `main` and `agent` works in the background and never
# autocompacts, recalls, extracts, dreams or touches the state of cache edits.
Purpose = Literal[
    "main",
    "agent",
    "notes",
    "summary",
    "recall",
    "reading",
    "extraction",
    "dream",
    "agent_summary",
    "probe",
    "keep_warm",
]
BACKGROUND = tuple(name for name in get_args(Purpose) if name not in ("main", "agent"))

# How a model is named: who answers, and what there.
_PROVIDERS = {"anthropic": "NAME", "openai": "NAME", "gguf": "PATH-OR-NAME", "scripted": "FILE"}
MODELS = f"{', '.join(map(':'.join, _PROVIDERS.items()))} or none"

# When commands and functions of the user's are run.
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
HOOKS: tuple[HookName, ...] = get_args(HookName)


def names_model(spec: str) -> bool:
    """Whether somebody known would answer. If there is such a model shows at the first call."""
    provider, _, name = spec.partition(":")
    return spec == "none" or (provider in _PROVIDERS and bool(name.strip()))


def text(value: str) -> Block:
    return {"type": "text", "text": value}


def tool_use(id: str, name: str, input: Json) -> Block:  # noqa: A002 - the wire's own names
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def tool_result(tool_use_id: str, content: str | list[Block], *, is_error: bool = False) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content}
    if is_error:
        block["is_error"] = True
    return block


def blocks_of(content: str | Sequence[Block]) -> list[Block]:
    """A message's content as blocks: a bare string is one text block."""
    return [text(content)] if isinstance(content, str) else list(content)


def text_of(content: str | Sequence[Mapping[str, Any]]) -> str:
    """All text of a message or tool result, joined by newlines; other blocks are left out."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content if block.get("type") == "text")


def as_object(value: object) -> Json:
    """The value if it is an object, else an empty one: what was read from a file may be anything."""
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def dicts(value: object) -> list[Json]:
    """The objects of a list; anything else in it is passed over."""
    return [item for item in as_list(value) if isinstance(item, dict)]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, by kind, as the provider reported them."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0  # the part of cache_write with a life of one hour

    @property
    def prompt(self) -> int:
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        return self.prompt + self.output

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.cache_write_1h + other.cache_write_1h,
        )

    def part(self, share: float) -> Usage:
        return Usage(*(round(share * count) for count in astuple(self)))

    def to_json(self) -> Json:
        return dict(zip(_KINDS, _counts(self), strict=True))

    @classmethod
    def from_json(cls, value: object) -> Usage:
        value = as_object(value)
        return cls(*map(_count, map(value.get, _KINDS)))


_KINDS = tuple(field.name for field in fields(Usage))
_counts = attrgetter(*_KINDS)


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is sent. `view()` returns one; adapters translate it to their wire format."""

    system: Sequence[Block]
    tools: Sequence[Json]  # {"name", "description", "input_schema"}
    messages: Sequence[Message]
    model: str = ""
    max_tokens: int = 0  # 0: the model's own default
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    purpose: Purpose = "main"
    # Number of blocks (flattened over messages) up to which an earlier request was marked for the
    # prompt cache and nothing has changed since; usually all of the last request. 0: there was none.
    cached_blocks: int = 0
    # Number of blocks at the end of the last change of the prefix; 0: unknown.
    stable_blocks: int = 0
    cache_ttl: int = 0  # seconds that what is marked now shall live; 0: as long as the model's
    frame_ttl: int = 0  # and system prompt and tools, where that is longer
    # Number of blocks that other forks of the same answer send too: a breakpoint there lets the
    # second fork read what the first one wrote. 0: nobody shares it.
    shared_blocks: int = 0
    # Names of tool results that the provider should delete from its cached prefix (L2.2).
    cache_deletions: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Response:
    """One whole answer of a model."""

    content: list[Block]
    stop_reason: str  # end_turn | tool_use | max_tokens | refusal | …
    usage: Usage
    id: str = ""
    model: str = ""
    # What else the provider said (cleared tool uses, cache diagnostics), kept as it came.
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def text(self) -> str:
        return text_of(self.content)

    @property
    def tool_uses(self) -> list[Block]:
        return [block for block in self.content if block.get("type") == "tool_use"]
