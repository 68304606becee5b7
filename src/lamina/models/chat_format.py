"""Anthropic's block form as chat messages and back: tool calls, tool results, images, system. Pure;
shared by every adapter whose model speaks chat messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from lamina.messages import Block, Json, Message, blocks_of, text_of

# Only we and the model that wrote them can read these; a chat model gets none of them.
_PRIVATE = frozenset({"thinking", "redacted_thinking", "connector_text"})


def chat_messages(system: Sequence[Block], messages: Sequence[Message]) -> list[Json]:
    """The conversation as chat messages. The same blocks always give the same bytes."""
    chat: list[Json] = []
    if words := text_of(system):
        chat.append({"role": "system", "content": words})
    for message in messages:
        blocks = blocks_of(message["content"])
        if message["role"] == "assistant":
            chat.append(_assistant(blocks))
        else:
            chat += _user(blocks)
    return chat


def chat_tools(tools: Sequence[Json]) -> list[Json]:
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "parameters": tool.get("input_schema") or {"type": "object"},
            },
        }
        for tool in tools
    ]


def _assistant(blocks: Sequence[Block]) -> Json:
    said = [_plain(block) for block in blocks if block.get("type") not in (*_PRIVATE, "tool_use")]
    calls: list[Json] = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": _compact(block.get("input") or {})},
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    message: Json = {"role": "assistant", "content": "\n".join(filter(None, said))}
    if calls:
        message["content"] = message["content"] or None
        message["tool_calls"] = calls
    return message


def _user(blocks: Sequence[Block]) -> list[Json]:
    """Results first, each a message of its own; then the rest. Pictures in results follow too,
    because a tool message holds text only.
    """
    chat: list[Json] = []
    parts: list[Json] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            words, pictures = _result(block)
            chat.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": words})
            parts += pictures
        elif block.get("type") not in _PRIVATE:
            parts.append(_part(block))
    if parts:
        chat.append({"role": "user", "content": _joined(parts)})
    return chat


def _joined(parts: Sequence[Json]) -> str | list[Json]:
    """One string where there is only text: every compatible server takes that."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(str(part["text"]) for part in parts)
    return list(parts)


def _result(block: Block) -> tuple[str, list[Json]]:
    content: Any = block.get("content") or ""
    words: list[str] = []
    pictures: list[Json] = []
    for inner in blocks_of(content):
        part = _part(inner)
        if part["type"] == "text":
            words.append(str(part["text"]))
        else:
            words.append("[The picture follows.]")
            pictures.append(part)
    joined = "\n".join(words)
    return (f"Error: {joined}" if block.get("is_error") else joined), pictures


def _part(block: Block) -> Json:
    if block.get("type") == "image":
        source = cast("Json", block.get("source") or {})
        url = source.get("url")
        if source.get("type") == "base64":
            url = f"data:{source.get('media_type', 'image/png')};base64,{source.get('data', '')}"
        if url:
            return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "text", "text": _plain(block)}


def _plain(block: Block) -> str:
    """A block in words. What has none is shown as JSON rather than dropped."""
    if block.get("type") == "text":
        return str(block.get("text", ""))
    if block.get("type") == "compaction":
        return str(block.get("content") or "")
    return _compact({key: value for key, value in block.items() if key != "cache_control"})


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
