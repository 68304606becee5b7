"""The requests of the clients that `lamina.wrap` takes: each read into messages of Anthropic's form, one
for one, and put together again with only what was changed exchanged. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from lamina.conversation.kept import Asked, Changes
from lamina.conversation.lineage import chain
from lamina.ledger import tokens
from lamina.messages import (
    Block,
    Json,
    Message,
    Usage,
    as_list,
    as_object,
    blocks_of,
    dicts,
    text,
    text_of,
    tool_result,
    tool_use,
)
from lamina.replay.builder import anthropic_usage, openai_usage

_HOUR = 3600
_READERS = {"read", "readfile", "view", "cat", "bash", "shell", "terminal", "command"}
_AROUND = ("message", "response")  # what a stream's event may hold an answer in
_HELD_ELSEWHERE = ("previous_response_id", "conversation", "prompt")
_PATHS = ("file_path", "path", "filename", "command", "cmd")


@dataclass(frozen=True, slots=True)
class Form:
    """How one resource of a client puts a request."""

    path: str  # that it posts to
    read: Callable[[Message], Message]
    put: Callable[[Message, Mapping[int, Block], Sequence[Block]], Message]
    price: Callable[[object], Usage | None]
    said_in: str = "messages"  # the field that holds the conversation

    def at(self, path: str) -> bool:
        """Whether a request to this path has this form."""
        return path.partition("?")[0].endswith(self.path)

    def asked(self, body: Json, session: str, files: bool | None) -> Asked | None:
        """The request in our form; None where the provider, not the program, holds the rest."""
        if any(body.get(elsewhere) for elsewhere in _HELD_ELSEWHERE):
            return None
        given = as_list(_plain(_listed(body[self.said_in])))
        tools = dicts(body.get("tools"))
        system: Any = body.get("system") or body.get("instructions") or ""
        return Asked(
            [self.read(message) for message in given],
            chain(given, f"{self.path} {session}"),
            str(body.get("model") or ""),
            tokens.of_frame(blocks_of(system), tools),
            _HOUR if b'"ttl":"1h"' in msgspec.json.encode([system, tools, given[-3:]]) else 300,
            any(map(_reads_files, tools)) if files is None else files,
            acts="context_management" not in body,  # the provider clears by itself
        )

    def spliced(self, body: Json, changes: Changes) -> Json:
        """The request with what was changed; the very same if nothing was."""
        touched = {number for number, _ in changes.replaced} | changes.added.keys()
        if not touched:
            return body
        messages = _listed(body[self.said_in])
        for number in touched:
            new = {at: block for (one, at), block in changes.replaced.items() if one == number}
            messages[number] = self.put(messages[number], new, changes.added.get(number, ()))
        return {**body, self.said_in: messages}

    def note(self, seen: list[Any], item: Any) -> None:
        """Keep what tells of usage from an item of a stream."""
        if any(getattr(item, name, None) for name in ("usage", *_AROUND)):
            seen.append(item)

    def usage(self, seen: Sequence[Any]) -> Usage:
        """The usage of an answer, or of the parts of a stream: later ones count."""
        told: Json = {}
        for item in seen:
            inside = (getattr(item, name, None) for name in _AROUND)
            found = next((u for one in (item, *inside) if (u := getattr(one, "usage", None))), None)
            if found is not None:
                told |= {k: v for k, v in as_object(found.model_dump()).items() if v is not None}
        return self.price(told) or Usage()


def _listed(said: Any) -> list[Any]:
    return [{"role": "user", "content": said}] if isinstance(said, str) else list(said)


def _plain(value: Any) -> Any:
    """A program may hand back the client's own objects, which are written out only on sending."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in cast("Json", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[Any]", value)]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_unset=True) if dump is not None else value


def _reads_files(tool: Json) -> bool:
    """Whether a tool can read a file whose path a result names, going by what it is called and takes."""
    function = as_object(tool.get("function")) or tool
    name = str(function.get("name") or "").lower()
    schema = as_object(function.get("input_schema") or function.get("parameters"))
    takes = as_object(schema.get("properties"))
    called = not _READERS.isdisjoint(name.replace("-", "_").split("_"))
    return called and (not schema or any(one in takes for one in _PATHS))


# ---- Anthropic


def _read_anthropic(message: Message) -> Message:
    if message["role"] == "system":  # instructions in the middle: never touched
        return {"role": "user", "content": []}
    content = message["content"]
    blocks = blocks_of(content) if isinstance(content, str) else dicts(content)
    if len(blocks) != (1 if isinstance(content, str) else len(content)):
        raise ValueError("a message holds what is no block")
    return {"role": message["role"], "content": blocks}


def _put_anthropic(message: Message, new: Mapping[int, Block], added: Sequence[Block]) -> Message:
    blocks = blocks_of(message["content"])
    for at, block in new.items():
        own = {k: blocks[at][k] for k in ("tool_use_id", "cache_control") if k in blocks[at]}
        blocks[at] = {k: v for k, v in block.items() if k != "cache_control"} | own
    return {**message, "content": [*blocks, *added]}


# ---- OpenAI, Chat Completions


def _read_openai(message: Message) -> Message:
    content = message.get("content")
    match message["role"]:
        case "user":
            return {"role": "user", "content": _parts(content)}
        case "tool":
            said = content if isinstance(content, str) else _parts(content)
            return {"role": "user", "content": [tool_result(message["tool_call_id"], said)]}
        case "assistant":
            calls = [_call(call) for call in dicts(message.get("tool_calls"))]
            return {"role": "assistant", "content": [*_parts(content), *calls]}
        case _:  # instructions: never touched
            return {"role": "user", "content": []}


def _parts(content: object) -> list[Block]:
    if isinstance(content, str):
        return [text(content)] if content else []
    return [part if part.get("type") == "text" else {"type": "image"} for part in dicts(content)]


def _call(call: Json) -> Block:
    function = as_object(call.get("function") or call.get("custom"))
    given = str(function.get("arguments") or function.get("input") or "")
    try:
        taken = as_object(msgspec.json.decode(given))
    except msgspec.MsgspecError:
        taken = {"arguments": given}
    return tool_use(str(call.get("id")), str(function.get("name")), taken)


def _put_openai(message: Message, new: Mapping[int, Block], added: Sequence[Block]) -> Message:
    content = message["content"]
    if message["role"] == "tool":
        return {**message, "content": text_of(new[0]["content"])}
    if isinstance(content, str):  # some servers take nothing else
        said = [text_of([new[0]]) if 0 in new else content, *(block["text"] for block in added)]
        return {**message, "content": "\n\n".join(said)}
    parts = [{**part, **new[at]} if at in new else part for at, part in enumerate(content)]
    return {**message, "content": [*parts, *added]}


# ---- OpenAI, Responses


def _read_item(item: Message) -> Message:
    match item.get("type", "message"):
        case "message" if item["role"] in ("user", "assistant"):
            content = item.get("content")
            parts = [text(content)] if isinstance(content, str) else dicts(content)
            return {"role": item["role"], "content": [_worded(part) for part in parts]}
        case "message":  # instructions: never touched
            return {"role": "user", "content": []}
        case "function_call":
            call = _call({"id": item["call_id"], "function": item})
            return {"role": "assistant", "content": [call]}
        case "function_call_output":
            output = item["output"]
            said = output if isinstance(output, str) else [_worded(p) for p in dicts(output)]
            return {"role": "user", "content": [tool_result(item["call_id"], said)]}
        case _:  # reasoning, and what the provider's own tools did
            return {"role": "assistant", "content": []}


def _worded(part: Json) -> Block:
    return text(str(part["text"])) if "text" in part else {"type": "image"}


def _put_item(item: Message, new: Mapping[int, Block], added: Sequence[Block]) -> Message:
    if item.get("type") == "function_call_output":
        return {**item, "output": text_of(new[0]["content"])}
    content = item["content"]
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    parts = [{**p, "text": new[at]["text"]} if at in new else p for at, p in enumerate(parts)]
    more = [{"type": "input_text", "text": block["text"]} for block in added]
    return {**item, "content": [*parts, *more]}


ANTHROPIC = Form("/messages", _read_anthropic, _put_anthropic, anthropic_usage)
_CHAT = Form("/chat/completions", _read_openai, _put_openai, openai_usage)
RESPONSES = Form("/responses", _read_item, _put_item, openai_usage, "input")

# By package, the resources of a client.
FORMS: Mapping[str, Mapping[str, Form]] = {
    "anthropic": {"messages": ANTHROPIC, "beta.messages": ANTHROPIC},
    "openai": {"chat.completions": _CHAT, "responses": RESPONSES},
}
