"""Reads plain message lists, as agents send them to Anthropic's or OpenAI's APIs, and logs of them.
Each answer is taken as one request. What one entry says is read whichever API it was made for:
role, content in Anthropic's block form, usage, model, time. Touches only the values it is handed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lamina.cache.usage import anthropic_usage, openai_usage
from lamina.messages import Block, Json, Usage, as_list, as_object
from lamina.replay.files import Lines, decode
from lamina.replay.recording import SECONDS_APART, Builder, RecordedRequest, as_blocks, moment_of

ANTHROPIC = "anthropic-messages"
OPENAI = "openai-messages"

_OPENAI_ROLES = frozenset({"system", "developer", "tool", "function"})
_OPENAI_KEYS = frozenset({"tool_calls", "function_call", "tool_call_id"})
# Items of the Responses API. Calls whose output is an item of its own, and where each keeps what
# the tool was given:
_CALLS = {
    "function_call": "arguments", "custom_tool_call": "input", "apply_patch_call": "operation",
    **dict.fromkeys(("local_shell_call", "shell_call", "computer_call"), "action"),
}  # fmt: skip
_OUTPUTS = frozenset(f"{kind}_output" for kind in _CALLS)
# What the provider ran itself: sent back as it came.
_RUN_THERE = frozenset({
    "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
    "mcp_call", "mcp_list_tools",
})  # fmt: skip
_ANSWERED = frozenset({"reasoning", *_CALLS, *_RUN_THERE})
_ITEMS = frozenset({"message", *_ANSWERED, *_OUTPUTS})


def looks_like_message(value: object) -> bool:
    entry = as_object(value)
    return isinstance(entry.get("role"), str) or _word(entry, "type") in _ITEMS


def format_of(messages: Sequence[object]) -> str:
    """Which API a list was made for; a list that fits both counts as Anthropic's."""
    for value in messages[:200]:
        entry = as_object(value)
        if _word(entry, "role") in _OPENAI_ROLES or _OPENAI_KEYS & entry.keys():
            return OPENAI
        if "role" not in entry and _word(entry, "type") in _ITEMS:
            return OPENAI
    return ANTHROPIC


def messages_of(body: Json) -> list[object] | None:
    """The messages of a request's body of any of the APIs, its output behind them where it was
    logged too; None if it holds none."""
    if isinstance(body.get("messages"), list):
        return as_list(body["messages"])
    given, output = body.get("input"), as_list(body.get("output"))
    asked = [{"role": "user", "content": given}] if isinstance(given, str) else as_list(given)
    items: list[object] = [*asked, *output]
    return items if any(map(looks_like_message, items)) else None


def _word(entry: Json, key: str) -> str:
    """A damaged file may hold anything there, and not everything can be looked up in a set."""
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def goes_on(messages: Sequence[object], number: int) -> bool:
    """Whether an item of the Responses API belongs to the answer that the one before it began."""
    return number > 0 and all(
        _word(as_object(value), "type") in _ITEMS and role_of(value) == "assistant"
        for value in messages[number - 1 : number + 1]
    )


def begins_answer(messages: Sequence[object], number: int) -> bool:
    return role_of(messages[number]) == "assistant" and not goes_on(messages, number)


def role_of(value: object) -> str:
    entry = as_object(value)
    role, kind = entry.get("role"), _word(entry, "type")
    if role in ("system", "developer"):
        return "system"
    if role in ("tool", "function", "human") or kind in _OUTPUTS:
        return "user"
    if role in ("ai", "model") or (role is None and kind in _ANSWERED):
        return "assistant"
    return str(role)


def blocks_from(entry: Json) -> list[Block] | None:
    """One entry's content in Anthropic's block form."""
    kind = _word(entry, "type")
    if kind in _OUTPUTS:
        return [_result(entry.get("call_id"), entry.get("output"))]
    if kind in _CALLS:
        tool = entry.get("name") or kind.removesuffix("_call")
        return [_call(entry.get("call_id"), tool, entry.get(_CALLS[kind]))]
    if kind == "reasoning":
        return [_thought(entry)]
    if kind in _RUN_THERE:
        return [entry]
    if entry.get("role") in ("tool", "function"):
        ids = as_list(entry.get("tool_call_ids"))  # SWE-agent's spelling
        name = ids[0] if ids else entry.get("tool_call_id", entry.get("name", ""))
        return [_result(name, entry.get("content"))]
    content = entry.get("content")
    blocks = [] if content in (None, "") else as_blocks(content)
    if blocks is None:
        return None
    blocks = [_part(block) for block in blocks]
    for call in map(as_object, as_list(entry.get("tool_calls"))):
        function = as_object(call.get("function")) or call
        blocks.append(_call(call.get("id"), function.get("name"), function.get("arguments")))
    if old := as_object(entry.get("function_call")):
        blocks.append(_call("", old.get("name"), old.get("arguments")))
    return blocks


def _thought(entry: Json) -> Block:
    """The words are a summary; what the provider packed up grows with the thought itself."""
    parts = map(as_object, as_list(entry.get("summary")))
    words = "\n".join(str(part.get("text", "")) for part in parts)
    thought: Block = {"type": "thinking", "thinking": words}
    packed = entry.get("encrypted_content")
    return {**thought, "signature": packed} if isinstance(packed, str) and packed else thought


def _part(block: Block) -> Block:
    """OpenAI names the parts of a message otherwise; what is already Anthropic's stays."""
    kind = block.get("type")
    if kind in ("input_text", "output_text"):
        return {"type": "text", "text": str(block.get("text", ""))}
    if kind == "image_url":
        return {"type": "image", "source": {"type": "url", "url": block.get("image_url")}}
    return block


def _call(name_of_call: object, tool: object, arguments: object) -> Block:
    value: Any = arguments
    if isinstance(arguments, str) and arguments:
        value = decode(arguments.encode("utf-8", "replace"))
    parsed = as_object(value) or ({"arguments": arguments} if value else {})
    call = {"type": "tool_use", "id": str(name_of_call or ""), "name": str(tool or "")}
    return {**call, "input": parsed}


def _result(name_of_call: object, content: object) -> Block:
    blocks = content if isinstance(content, str) else as_blocks(content)
    if blocks is None:
        blocks = "" if content is None else str(content)
    return {"type": "tool_result", "tool_use_id": str(name_of_call or ""), "content": blocks}


def tools_of(tools: object) -> list[Json]:
    return [tool for tool in map(as_object, as_list(tools)) if tool]


def _response_of(entry: Json) -> Json:
    """The provider's whole response, where the recorder kept it (mini-swe-agent does)."""
    return as_object(as_object(entry.get("extra")).get("response"))


def usage_of(entry: Json) -> Usage | None:
    return any_usage(entry.get("usage") or _response_of(entry).get("usage"))


def any_usage(value: object) -> Usage | None:
    """Usage of either provider, told apart by its names."""
    usage = as_object(value)
    if "prompt_tokens" in usage or "input_tokens_details" in usage:
        return openai_usage(usage)
    return anthropic_usage(usage) if "input_tokens" in usage else None


def model_of(entry: Json) -> str:
    value = entry.get("model") or _response_of(entry).get("model")
    return value if isinstance(value, str) else ""


def recorded_time(entry: Json) -> float:
    held = [(entry, "timestamp"), (as_object(entry.get("extra")), "timestamp")]
    held += [(one, at) for one in (_response_of(entry), entry) for at in ("created", "created_at")]
    return next((moment for one, at in held if (moment := moment_of(one.get(at)))), 0.0)


@dataclass(slots=True)
class ListReader:
    """One conversation after another into a builder."""

    builder: Builder
    clock: float = 0.0  # of recordings without times
    _system: list[Block] = field(default_factory=list[Block])
    _asked_at: float = 0.0  # when the last entry came, where it says so

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
        known: int = 0,
        last: int = -1,
    ) -> int:
        """`usage` is that of the last answer, for bodies that were logged with their response. The
        first `known` messages were read before, up to node `last`; returns the node that now is it.
        """
        self._system = list(as_blocks(system) or [])
        self._asked_at = 0.0
        answers = [at for at in range(known, len(messages)) if begins_answer(messages, at)]
        final = answers[-1] if answers else -1
        lead = True  # system messages before all others belong to the frame
        for number, value in enumerate(messages):
            place = f"{where}[{number}]" if where else f"message {number + 1}"
            entry, new = as_object(value), number >= known
            if not looks_like_message(value):
                if new:
                    self.builder.skip(place, "not a message")
                continue
            if lead and role_of(entry) == "system":
                blocks = blocks_from(entry)
                if blocks is None:
                    self.builder.skip(place, "a message without content")
                self._system.extend(blocks or ())
                continue
            lead = lead and role_of(entry) not in ("user", "assistant")
            if new:
                last = self._entry(place, entry, last, grows=goes_on(messages, number))
            if new and last >= 0 and begins_answer(messages, number):
                frame = self.builder.frame(self._system, tools_of(tools))
                used = usage_of(entry) or (usage if number == final else None)
                about = (used, model_of(entry) or model, thread, frame)
                self._request(place, recorded_time(entry), last, *about)
            self._asked_at = recorded_time(entry)
        return last

    def _request(self, place: str, answered: float, answer: int, *about: Any) -> None:
        """Sent when the entry before the answer came; where that is not known, when the answer did."""
        sent = self._asked_at or answered
        self.builder.timed = self.builder.timed or sent > 0
        self.clock = sent or self.clock + SECONDS_APART
        parent = self.builder.messages[answer].parent
        self.builder.request(place, RecordedRequest(self.clock, parent, answer, *about))
        self.clock = max(self.clock, answered)

    def _entry(self, place: str, entry: Json, last: int, *, grows: bool) -> int:
        """Adds one entry to the tree; returns the message that now is the last."""
        role, blocks, held = role_of(entry), blocks_from(entry), self.builder.messages
        if blocks is None:
            self.builder.skip(place, "a message without content")
            return last
        if role == "system":
            role = "user"  # in the middle it is read where it stands
        if role not in ("user", "assistant"):
            self.builder.unknown_kind(place, role)
            return last
        if grows and last >= 0 and held[last].message["role"] == "assistant":
            held[last].message["content"].extend(blocks)
            return last
        if role == "assistant" and not blocks:
            blocks = [{"type": "text", "text": ""}]
        return self.builder.add(role, blocks, last, recorded_time(entry) or self.clock)


OPEN = 16  # conversations of a log that may go on: agents at work at the same time


@dataclass(slots=True)
class _LoggedConversation:
    """One of a log, as far as it has been told."""

    thread: str
    messages: list[object]
    last: int = -1


class BodyLog:
    """A log of whole conversations, or of request bodies, one a line. A body that begins with all of
    an earlier one carries that conversation on: what both hold was sent once."""

    def __init__(self, reader: ListReader) -> None:
        self._reader = reader
        self._open: list[_LoggedConversation] = []

    def read(self, lines: Lines) -> None:
        builder = self._reader.builder
        for where, value in builder.readable(lines):
            body = as_object(value)
            messages = messages_of(body)
            if messages is None:
                builder.skip(where, "holds no messages")
                continue
            builder.format = builder.format or format_of(messages)
            said = list(map(_unmarked, messages))
            held = self._conversation(where, said)
            so_far = {"thread": held.thread, "known": len(held.messages), "last": held.last}
            held.last = read_body(body, self._reader, where=where, **so_far)
            held.messages = said

    def _conversation(self, where: str, said: list[object]) -> _LoggedConversation:
        for held in reversed(self._open):
            same = held.messages == said[: len(held.messages)]
            # What is told once more in full is another run; without its answer, another try.
            if same and (len(said) > len(held.messages) or role_of(said[-1]) != "assistant"):
                return held
        new = _LoggedConversation(where, [])
        self._open = [*self._open[-OPEN + 1 :], new]
        return new


def read_body(body: Json, reader: ListReader, **told: Any) -> int:
    """One request's body; `told` is for `ListReader.read`."""
    messages, model = messages_of(body) or [], body.get("model")
    answered = bool(messages) and role_of(messages[-1]) == "assistant"
    return reader.read(
        messages,
        model=model if isinstance(model, str) else "",
        system=body.get("system") or body.get("instructions"),
        tools=body.get("tools"),
        usage=any_usage(body.get("usage")) if answered else None,
        **told,
    )


def _unmarked(message: object) -> object:
    """A message without cache breakpoints: they move on with every request."""
    entry = as_object(message)
    if not isinstance(entry.get("content"), list):
        return message
    bare = [
        {key: value for key, value in as_object(part).items() if key != "cache_control"} or part
        for part in as_list(entry["content"])
    ]
    return {**entry, "content": bare}
