"""An answer as the providers put it on the wire: server-sent events in both formats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def pieces(value: str, size: int = 7) -> list[str]:
    return [value[start : start + size] for start in range(0, len(value), size)]


# ---- Anthropic


def anthropic_events(
    content: list[Json], *, stop_reason: str, usage: Json, message: Json, end: Json
) -> Iterator[tuple[str, Json]]:
    """(event name, data) from message_start to message_stop, a ping among them."""
    start = {
        "id": "msg_wire",
        "type": "message",
        "role": "assistant",
        "model": "wire",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
        **message,
    }
    yield "message_start", {"type": "message_start", "message": start}
    yield "ping", {"type": "ping"}
    for index, block in enumerate(content):
        yield from _block_events(index, block)
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    output = {"output_tokens": usage.get("output_tokens", 5)}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": output, **end}
    yield "message_stop", {"type": "message_stop"}


def _block_events(index: int, block: Json) -> Iterator[tuple[str, Json]]:
    opening = dict(block)
    deltas: list[Json] = []
    match block["type"]:
        case "text":
            opening["text"] = ""
            deltas = [{"type": "text_delta", "text": part} for part in pieces(block["text"])]
            for citation in opening.pop("citations", []):
                deltas.append({"type": "citations_delta", "citation": citation})
        case "thinking":
            opening |= {"thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": part} for part in pieces(block["thinking"])
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "tool_use":
            opening["input"] = {}
            text = block.get("raw_input") or json.dumps(block["input"])
            opening.pop("raw_input", None)
            deltas = [
                {"type": "input_json_delta", "partial_json": part} for part in ["", *pieces(text)]
            ]
        case "compaction":
            opening["content"] = None
            deltas = [{**block, "type": "compaction_delta"}]
        case _:
            pass
    yield (
        "content_block_start",
        {
            "type": "content_block_start",
            "index": index,
            "content_block": opening,
        },
    )
    for delta in deltas:
        yield (
            "content_block_delta",
            {
                "type": "content_block_delta",
                "index": index,
                "delta": delta,
            },
        )
    yield "content_block_stop", {"type": "content_block_stop", "index": index}


def anthropic_whole(content: list[Json], *, stop_reason: str, usage: Json, message: Json) -> Json:
    """An answer that is not streamed."""
    whole = {"id": "msg_wire", "type": "message", "role": "assistant", "model": "wire"}
    end = {"content": content, "stop_reason": stop_reason, "stop_sequence": None, "usage": usage}
    return {**whole, **end, **message}


def anthropic_error(kind: str, message: str) -> Json:
    return {"type": "error", "error": {"type": kind, "message": message}}


# ---- OpenAI

_FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}


def openai_chunks(
    content: list[Json], *, stop_reason: str, usage: Json, with_usage: bool
) -> Iterator[Json]:
    """Chunks of a chat completion: role, text, tool calls in pieces, finish, usage."""

    def chunk(delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {
            "id": "chatcmpl-wire",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "wire",
            "choices": [choice],
        }

    yield chunk({"role": "assistant", "content": ""})
    calls = 0
    for block in content:
        if block["type"] == "text":
            for part in pieces(block["text"]):
                yield chunk({"content": part})
        elif block["type"] == "thinking":
            yield chunk({"reasoning_content": block["thinking"]})
        elif block["type"] == "tool_use":
            function = {"name": block["name"], "arguments": ""}
            call = {"index": calls, "id": block["id"], "type": "function", "function": function}
            yield chunk({"tool_calls": [call]})
            arguments = block.get("raw_input") or json.dumps(block["input"])
            for part in pieces(arguments):
                more = {"index": calls, "function": {"arguments": part}}
                yield chunk({"tool_calls": [more]})
            calls += 1
    yield chunk({}, _FINISH.get(stop_reason, stop_reason))
    if with_usage:
        last = chunk({})
        yield {**last, "choices": [], "usage": usage}


def openai_whole(content: list[Json], *, stop_reason: str, usage: Json) -> Json:
    """An answer that is not streamed."""
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
        }
        for block in content
        if block["type"] == "tool_use"
    ]
    said = "".join(block["text"] for block in content if block["type"] == "text")
    message = {"role": "assistant", "content": said or None}
    finish = _FINISH.get(stop_reason, stop_reason)
    message = {**message, "tool_calls": calls} if calls else message
    choice = {"index": 0, "finish_reason": finish, "logprobs": None, "message": message}
    whole = {"id": "chatcmpl-wire", "object": "chat.completion", "created": 1, "model": "wire"}
    return {**whole, "choices": [choice], "usage": usage}


def responses_whole(content: list[Json], *, usage: Json) -> Json:
    """An answer of the Responses API."""
    said = [
        {"type": "output_text", "text": block["text"], "annotations": []}
        for block in content
        if block["type"] == "text"
    ]
    item = {"id": "msg_wire", "type": "message", "role": "assistant", "status": "completed"}
    calls = [
        {
            "type": "function_call",
            "call_id": block["id"],
            "name": block["name"],
            "arguments": json.dumps(block["input"]),
        }
        for block in content
        if block["type"] == "tool_use"
    ]
    output = [*([{**item, "content": said}] if said or not calls else []), *calls]
    whole = {"id": "resp_wire", "object": "response", "created_at": 1, "model": "wire"}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "completed"}
    return {**whole, **rest, "output": output, "usage": usage}


def openai_error(kind: str, message: str, code: str | None) -> Json:
    return {"error": {"type": kind, "message": message, "param": None, "code": code}}
