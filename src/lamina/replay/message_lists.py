"""Reads plain message lists, as agents send them to Anthropic's or OpenAI's APIs (Chat Completions
and Responses items), and turns them into Anthropic's block form. Each assistant message is taken as
one request. Touches only the values that it is handed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lamina.messages import Block, Json, Usage
from lamina.replay.builder import (
    SECONDS_APART,
    Builder,
    anthropic_usage,
    as_blocks,
    count,
    openai_usage,
)
from lamina.replay.files import as_list, as_object, decode
from lamina.replay.recording import RecordedRequest

ANTHROPIC = "anthropic-messages"
OPENAI = "openai-messages"

_OPENAI_ROLES = frozenset({"system", "developer", "tool", "function"})
_OPENAI_KEYS = frozenset({"tool_calls", "function_call", "tool_call_id"})
_RESPONSES_KINDS = frozenset({"message", "function_call", "function_call_output", "reasoning"})


def looks_like_message(value: object) -> bool:
    entry = as_object(value)
    return isinstance(entry.get("role"), str) or _word(entry, "type") in _RESPONSES_KINDS


def format_of(messages: Sequence[object]) -> str:
    """Which API a list was made for; a list that fits both counts as Anthropic's."""
    for value in messages[:200]:
        entry = as_object(value)
        if _word(entry, "role") in _OPENAI_ROLES or _OPENAI_KEYS & entry.keys():
            return OPENAI
        if "role" not in entry and _word(entry, "type") in _RESPONSES_KINDS:
            return OPENAI
    return ANTHROPIC


def _word(entry: Json, key: str) -> str:
    """A damaged file may hold anything there, and not everything can be looked up in a set."""
    value = entry.get(key)
    return value if isinstance(value, str) else ""


@dataclass(slots=True)
class ListReader:
    """One conversation after another into a builder."""

    builder: Builder
    clock: float = 0.0  # of recordings without times
    timed: bool = False  # whether any entry brought a time of its own
    _system: list[Block] = field(default_factory=list[Block])

    def read(
        self,
        messages: Sequence[object],
        *,
        where: str = "",
        thread: str = "",
        model: str = "",
        system: object = None,
        tools: object = None,
        usage: Usage | None = None,
    ) -> None:
        """`usage` is that of the last answer, for bodies that were logged with their response."""
        self._system = list(as_blocks(system) or [])
        last = -1
        answers = [i for i, value in enumerate(messages) if _role(value) == "assistant"]
        for number, value in enumerate(messages):
            place = f"{where}[{number}]" if where else f"message {number + 1}"
            if not looks_like_message(value):
                self.builder.skip(place, "not a message")
                continue
            entry = as_object(value)
            last = self._entry(place, entry, last)
            if _role(entry) == "assistant" and last >= 0:
                frame = self.builder.frame(self._system, _tools(tools))
                told = usage if answers and number == answers[-1] else None
                self._request(place, entry, last, thread, model, frame, told)

    def _request(
        self,
        place: str,
        entry: Json,
        answer: int,
        thread: str,
        model: str,
        frame: int,
        told: Usage | None,
    ) -> None:
        node = self.builder.messages[answer]
        recorded = _recorded_time(entry)
        self.timed = self.timed or recorded > 0
        self.clock = recorded or self.clock + SECONDS_APART
        used = _usage_of(entry) or told
        self.builder.request(
            place,
            RecordedRequest(
                self.clock,
                node.parent,
                answer,
                used,
                _model_of(entry) or model,
                thread,
                frame,
            ),
        )

    def _entry(self, place: str, entry: Json, last: int) -> int:
        """Adds one entry to the tree; returns the message that now is the last."""
        role = _role(entry)
        blocks = blocks_from(entry)
        if blocks is None:
            self.builder.skip(place, "a message without content")
            return last
        if role == "system":
            if last < 0:
                self._system.extend(blocks)
                return last
            role = "user"  # a system message in the middle is read where it stands
        if role not in ("user", "assistant"):
            self.builder.unknown_kind(place, role)
            return last
        if role == "assistant" and not blocks:
            blocks = [{"type": "text", "text": ""}]
        return self.builder.add(role, blocks, last, self.clock)


def _role(value: object) -> str:
    entry = as_object(value)
    role = entry.get("role")
    if role in ("system", "developer"):
        return "system"
    if role in ("tool", "function") or entry.get("type") == "function_call_output":
        return "user"
    if role is None and entry.get("type") in ("function_call", "reasoning"):
        return "assistant"
    if role in ("ai", "model"):
        return "assistant"
    return "user" if role == "human" else str(role)


def blocks_from(entry: Json) -> list[Block] | None:
    """One entry's content in Anthropic's block form."""
    if entry.get("type") == "function_call_output":
        return [_result(entry.get("call_id"), entry.get("output"))]
    if entry.get("type") == "function_call":
        return [_call(entry.get("call_id"), entry.get("name"), entry.get("arguments"))]
    if entry.get("type") == "reasoning":
        return [{"type": "thinking", "thinking": _joined(entry.get("summary"))}]
    if entry.get("role") in ("tool", "function"):
        return [_result(_call_id(entry), entry.get("content"))]
    content = entry.get("content")
    blocks = [] if content in (None, "") else as_blocks(content)
    if blocks is None:
        return None
    blocks = [_part(block) for block in blocks]
    for call in map(as_object, as_list(entry.get("tool_calls"))):
        function = as_object(call.get("function")) or call
        blocks.append(_call(call.get("id"), function.get("name"), function.get("arguments")))
    old = as_object(entry.get("function_call"))
    if old:
        blocks.append(_call("", old.get("name"), old.get("arguments")))
    return blocks


def _part(block: Block) -> Block:
    """OpenAI names the parts of a message otherwise; what is already Anthropic's stays."""
    kind = block.get("type")
    if kind in ("input_text", "output_text"):
        return {"type": "text", "text": str(block.get("text", ""))}
    if kind == "image_url":
        return {"type": "image", "source": {"type": "url", "url": block.get("image_url")}}
    return block


def _call_id(entry: Json) -> object:
    listed = as_list(entry.get("tool_call_ids"))  # SWE-agent's spelling
    if listed:
        return listed[0]
    return entry.get("tool_call_id", entry.get("name", ""))


def _call(name_of_call: object, tool: object, arguments: object) -> Block:
    value: Any = arguments
    if isinstance(arguments, str):
        value = decode(arguments.encode("utf-8", "replace")) if arguments else {}
    parsed = as_object(value) or ({"arguments": arguments} if value else {})
    call = {"type": "tool_use", "id": str(name_of_call or ""), "name": str(tool or "")}
    return {**call, "input": parsed}


def _result(name_of_call: object, content: object) -> Block:
    blocks = content if isinstance(content, str) else as_blocks(content)
    if blocks is None:
        blocks = "" if content is None else str(content)
    return {"type": "tool_result", "tool_use_id": str(name_of_call or ""), "content": blocks}


def _joined(parts: object) -> str:
    return "\n".join(str(as_object(part).get("text", "")) for part in as_list(parts))


def _tools(tools: object) -> list[Json]:
    return [tool for tool in map(as_object, as_list(tools)) if tool]


def _response_of(entry: Json) -> Json:
    """The provider's whole response, where the recorder kept it (mini-swe-agent does)."""
    return as_object(as_object(entry.get("extra")).get("response"))


def _usage_of(entry: Json) -> Usage | None:
    value = entry.get("usage") or _response_of(entry).get("usage")
    return any_usage(value)


def any_usage(value: object) -> Usage | None:
    """Usage of either provider, told apart by its names."""
    usage = as_object(value)
    if "prompt_tokens" in usage or "input_tokens_details" in usage:
        return openai_usage(usage)
    return anthropic_usage(usage) if "input_tokens" in usage else None


def _model_of(entry: Json) -> str:
    value = entry.get("model") or _response_of(entry).get("model")
    return value if isinstance(value, str) else ""


def _recorded_time(entry: Json) -> float:
    for value in (entry.get("timestamp"), _response_of(entry).get("created"), entry.get("created")):
        if isinstance(value, float) and 0 < value < 1e11:
            return value
        if count(value):
            return float(count(value))
    return 0.0
