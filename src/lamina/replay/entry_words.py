"""What one entry of a message list says, whichever API it was made for: its role, its content in
Anthropic's block form, usage, model and time. Knows Anthropic's messages, OpenAI's Chat Completions and
Responses items, and the shells that recorders put around them. Pure: looks at the values it is handed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina.messages import Block, Json, Usage
from lamina.replay.builder import anthropic_usage, as_blocks, moment_of, openai_usage
from lamina.replay.files import as_list, as_object, decode

ANTHROPIC = "anthropic-messages"
OPENAI = "openai-messages"

_OPENAI_ROLES = frozenset({"system", "developer", "tool", "function"})
_OPENAI_KEYS = frozenset({"tool_calls", "function_call", "tool_call_id"})
# Items of the Responses API. Calls whose output is an item of its own, and where each keeps what
# the tool was given:
_CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "computer_call": "action",
}
_OUTPUTS = frozenset(f"{kind}_output" for kind in _CALLS)
# What the provider ran itself: sent back as it came.
_RUN_THERE = frozenset(
    {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
    }
)
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
    logged too; None if it holds none.
    """
    if isinstance(body.get("messages"), list):
        return as_list(body["messages"])
    given, output = body.get("input"), as_list(body.get("output"))
    asked = [{"role": "user", "content": given}] if isinstance(given, str) else as_list(given)
    items = [*asked, *output]
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
    if role in ("tool", "function") or kind in _OUTPUTS:
        return "user"
    if role is None and kind in _ANSWERED:
        return "assistant"
    if role in ("ai", "model"):
        return "assistant"
    return "user" if role == "human" else str(role)


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


def _thought(entry: Json) -> Block:
    """The words are a summary; what the provider packed up grows with the thought itself."""
    thought: Block = {"type": "thinking", "thinking": _joined(entry.get("summary"))}
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


def tools_of(tools: object) -> list[Json]:
    return [tool for tool in map(as_object, as_list(tools)) if tool]


def _response_of(entry: Json) -> Json:
    """The provider's whole response, where the recorder kept it (mini-swe-agent does)."""
    return as_object(as_object(entry.get("extra")).get("response"))


def usage_of(entry: Json) -> Usage | None:
    value = entry.get("usage") or _response_of(entry).get("usage")
    return any_usage(value)


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
    extra, response = as_object(entry.get("extra")), _response_of(entry)
    told: tuple[object, ...] = (
        entry.get("timestamp"),
        extra.get("timestamp"),
        response.get("created"),
        response.get("created_at"),
        entry.get("created"),
        entry.get("created_at"),
    )
    return next((moment for value in told if (moment := moment_of(value))), 0.0)
