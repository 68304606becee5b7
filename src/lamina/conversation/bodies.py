"""The requests that providers take, in the forms that `lamina.wrap` and the gateway know: each read into
messages of Anthropic's form, one for one, and told where in it what was changed goes. Pure.
"""

from __future__ import annotations

import pathlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from lamina.cache.usage import anthropic_usage, count, gemini_usage, openai_usage
from lamina.conversation.kept import Asked, Changes
from lamina.conversation.lineage import digest_of, linked
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

HOUR = 3600
_READERS = {"read", "readfile", "view", "cat", "bash", "shell", "terminal", "command"}
_AROUND = ("message", "response")  # what a stream's event may hold an answer in
_USED = ("usage", "usageMetadata")
_HELD_ELSEWHERE = ("previous_response_id", "conversation", "prompt", "cachedContent")
_PATHS = ("file_path", "filepath", "absolute_path", "path", "filename", "command", "cmd")
_EXPANDS = "the original of something that was folded"  # so our MCP server describes its tool
_OUTPUT = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_CLEARS = ("clear_tool_uses", "compact")  # edits that a provider makes by itself

Path = tuple[str | int, ...]  # of a value within a message
Known = tuple[list[Message], list[str]]  # messages in our form, and their hashes


@dataclass(frozen=True, slots=True)
class Form:
    """How a provider wants a request."""

    path: str  # that it is posted to; its end
    read: Callable[[Message], Message]
    # Where in a message the words of a block stand, and what to put there instead.
    put: Callable[[Message, int, Block], tuple[Path, object]]
    # What goes to the end of a message's parts, or the words that take the place of its own.
    append: Callable[[Message, Sequence[Block]], list[Json] | str]
    price: Callable[[object], Usage | None]
    said_in: str = "messages"  # the field that holds the conversation
    parts_in: str = "content"  # the field of a message that holds its parts

    def at(self, path: str) -> bool:
        """Whether a request to this path has this form."""
        return path.partition("?")[0].endswith(self.path)

    def asked(
        self, body: Json, session: str = "", files: bool | None = None, known: Known | None = None
    ) -> Asked | None:
        """The request in our form; None where the provider, not the program, holds the rest."""
        if any(body.get(elsewhere) for elsewhere in _HELD_ELSEWHERE):
            return None
        given = _listed(body[self.said_in]) if known is None else []
        tools = [
            tool  # or those that one entry of the list declares together
            for one in dicts(body.get("tools"))
            for tool in dicts(one.get("functionDeclarations") or one.get("tools")) or [one]
        ]
        system: Any = body.get("system") or body.get("instructions") or ""
        instructed = as_object(body.get("systemInstruction")).get("parts")
        own = linked(map(digest_of, given), f"{self.path} {session}")
        said, hashes = known or ([self.read(m) for m in given], own)
        life = HOUR if b'"ttl":"1h"' in msgspec.json.encode([system, tools, given[-3:]]) else 300
        files = any(map(_reads_files, tools)) if files is None else files
        sizes = {**as_object(body.get("generationConfig")), **body}
        return Asked(
            said,
            hashes,
            str(body.get("model") or ""),
            tokens.of_frame(blocks_of(instructed or system), tools),
            life,
            files,
            not files and any(_EXPANDS in str(tool) for tool in tools),
            acts=not _clears(body),
            output=max(count(sizes.get(name)) for name in _OUTPUT),
            frame=(blocks_of(instructed or system), tools),
        )

    def spliced(self, body: Json, changes: Changes) -> Json:
        """The request with what was changed; the very same if nothing was."""
        touched = changes.replaced.keys() | changes.added.keys()
        if not touched and not changes.folded:
            return body
        messages = _listed(body[self.said_in])
        for number in touched:
            message = messages[number]
            for at, block in changes.replaced.get(number, {}).items():
                message = _with(message, *self.put(message, at, block))
            if added := changes.added.get(number):
                more = self.append(message, added)
                parts = as_list(message.get(self.parts_in))
                own = more if isinstance(more, str) else parts + more
                message = {**message, self.parts_in: own}
            messages[number] = message
        if changes.folded:
            first, rest = messages[: changes.folded], messages[changes.folded :]
            roles = [getattr(m, "role", "") or as_object(m).get("role") for m in first]
            messages = self.summed_up(first, roles, changes.summary) + rest
        return {**body, self.said_in: messages}

    def summed_up(self, said: Sequence[Any], roles: Sequence[object], summary: str) -> list[Any]:
        """A summary of messages; instructions among them stay on their side of the first words."""
        stays = [at for at, role in enumerate(roles) if role in ("system", "developer")]
        lead = sum(number == at for number, at in enumerate(stays))
        own: list[Any] = [said[at] for at in stays]
        words = summary if self.parts_in == "content" else [{"text": summary}]
        own.insert(lead, {"role": "user", self.parts_in: words})
        return own

    def note(self, seen: list[Any], item: Any) -> None:
        """Keep what tells of usage from an item of a stream."""
        if any(getattr(item, name, None) for name in ("usage", *_AROUND)):
            seen.append(item)

    def usage(self, events: Iterable[object]) -> Usage:
        """What an answer used, or the events of a stream tell: later ones count."""
        told: Json = {}
        for event in map(as_object, events):
            for one in (event, *(as_object(event.get(name)) for name in _AROUND)):
                for name in _USED:
                    said = as_object(one.get(name))
                    told |= {what: value for what, value in said.items() if value is not None}
        return self.price(told) or Usage()


def _clears(body: Json) -> bool:
    """Whether the provider clears by itself. Claude Code always sends an edit that keeps thinking."""
    edits = dicts(as_object(body.get("context_management")).get("edits"))
    return any(str(edit.get("type")).startswith(_CLEARS) for edit in edits)


def _with(value: Any, path: Path, new: object) -> Any:
    """The value with another one at a place in it."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    made: Any = list(value) if isinstance(step, int) else dict(value)
    made[step] = _with(value[step], rest, new)
    return made


def _listed(said: Any) -> list[Any]:
    return [{"role": "user", "content": said}] if isinstance(said, str) else list(said)


def plain(value: Any) -> Any:
    """A program may hand back the client's own objects, which are written out only on sending, and
    give an image as a file."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in cast("Json", value).items()}
    read = value.read_bytes if isinstance(value, pathlib.Path) else getattr(value, "read", None)
    if read is not None:
        data = read()
        return b64encode(data.encode() if isinstance(data, str) else data).decode("ascii")
    if isinstance(value, list | tuple | Iterator):
        return [plain(item) for item in cast("list[Any]", value)]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_unset=True, warnings=False) if dump is not None else value


def once(value: Any) -> bool:
    """Whether some of it can be read once only."""
    if isinstance(value, Mapping):
        return any(map(once, cast("Json", value).values()))
    if isinstance(value, list | tuple):
        return any(map(once, cast("list[Any]", value)))
    return isinstance(value, Iterator) or hasattr(value, "read")


def _reads_files(tool: Json) -> bool:
    """Whether a tool can read a file whose path a result names, going by what it is called and takes."""
    function = as_object(tool.get("function")) or tool
    name = str(function.get("name") or "").lower()
    named = ("input_schema", "parameters", "parametersJsonSchema")
    schema = as_object(next((function[one] for one in named if function.get(one)), None))
    takes = {name.lower() for name in as_object(schema.get("properties"))}
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


def _put_anthropic(message: Message, at: int, block: Block) -> tuple[Path, object]:
    if isinstance(message["content"], str):
        return ("content",), block["text"]
    if block.get("type") != "tool_result":
        return ("content", at, "text"), block["text"]
    new: Any = block.get("content")
    own = message["content"][at].get("content")
    # Marks for the cache are the program's own: those of now, not those of when it was recorded.
    marks = [part["cache_control"] for part in dicts(own) if "cache_control" in part]
    if isinstance(new, list):
        kept = dicts(cast("object", new))
        new = [{k: v for k, v in p.items() if k != "cache_control"} for p in kept]
    if marks:
        new = blocks_of(new or "")
        new[-1] = {**new[-1], "cache_control": marks[-1]}
    return ("content", at, "content"), new


def _append_anthropic(message: Message, added: Sequence[Block]) -> list[Json]:
    own = message["content"]
    return [*(blocks_of(own) if isinstance(own, str) else []), *added]


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
    parts = dicts(content)
    return [text(str(one["text"])) if "text" in one else {"type": "image"} for one in parts]


def _call(call: Json) -> Block:
    function = as_object(call.get("function") or call.get("custom"))
    given = str(function.get("arguments") or function.get("input") or "")
    try:
        taken = as_object(msgspec.json.decode(given))
    except msgspec.MsgspecError:
        taken = {"arguments": given}
    return tool_use(str(call.get("id")), str(function.get("name")), taken)


def _put_openai(message: Message, at: int, block: Block) -> tuple[Path, object]:
    if message.get("role") == "tool":
        return ("content",), text_of(block["content"])
    if message.get("type") == "function_call_output":
        return ("output",), text_of(block["content"])
    whole = isinstance(message["content"], str)
    return (("content",) if whole else ("content", at, "text")), block["text"]


def _append_openai(message: Message, added: Sequence[Block]) -> list[Json] | str:
    own = message["content"]
    if isinstance(own, str):  # some servers take nothing else
        return "\n\n".join([own, *(block["text"] for block in added)])
    return list(added)


# ---- OpenAI, Responses


def _read_item(item: Message) -> Message:
    match item.get("type", "message"):
        case "message" if item["role"] in ("user", "assistant"):
            return {"role": item["role"], "content": _parts(item.get("content"))}
        case "message":  # instructions: never touched
            return {"role": "user", "content": []}
        case "function_call":
            call = _call({"id": item["call_id"], "function": item})
            return {"role": "assistant", "content": [call]}
        case "function_call_output":
            output = item["output"]
            said = output if isinstance(output, str) else _parts(output)
            return {"role": "user", "content": [tool_result(item["call_id"], said)]}
        case _:  # reasoning, and what the provider's own tools did
            return {"role": "assistant", "content": []}


def _append_item(item: Message, added: Sequence[Block]) -> list[Json]:
    own = item["content"]
    said = [own] if isinstance(own, str) else []
    return [{"type": "input_text", "text": t} for t in (*said, *(b["text"] for b in added))]


# ---- Gemini


def _read_content(content: Message) -> Message:
    role = "assistant" if content.get("role") == "model" else "user"
    return {"role": role, "content": [_part(part) for part in dicts(content.get("parts"))]}


def _part(part: Json) -> Block:
    if call := as_object(part.get("functionCall")):
        name = str(call.get("name"))
        return tool_use(str(call.get("id") or name), name, as_object(call.get("args")))
    if given := as_object(part.get("functionResponse")):
        name, said = str(given.get("id") or given.get("name")), as_object(given.get("response"))
        output = said.get("output")
        # Words stand under `output`; whatever else a tool gave is never changed.
        return tool_result(name, output) if isinstance(output, str) else {"type": "image"}
    if part.get("thought") or "text" not in part:
        return {"type": "image"}
    return text(str(part["text"]))


def _put_content(_: Message, at: int, block: Block) -> tuple[Path, object]:
    if block.get("type") == "tool_result":
        where = ("parts", at, "functionResponse", "response", "output")
        return where, text_of(block["content"])
    return ("parts", at, "text"), block["text"]


def _append_content(_: Message, added: Sequence[Block]) -> list[Json]:
    return [{"text": block["text"]} for block in added]


ANTHROPIC = Form("/messages", _read_anthropic, _put_anthropic, _append_anthropic, anthropic_usage)
_CHAT = Form("/chat/completions", _read_openai, _put_openai, _append_openai, openai_usage)
RESPONSES = Form("/responses", _read_item, _put_openai, _append_item, openai_usage, "input")
_READS = _read_content, _put_content, _append_content, gemini_usage
_GEMINI = Form(":generateContent", *_READS, said_in="contents", parts_in="parts")

_OPENAI = {"chat.completions": _CHAT, "responses": RESPONSES}
# By package, the resources of a client.
FORMS: Mapping[str, Mapping[str, Form]] = {
    "anthropic": {"messages": ANTHROPIC, "beta.messages": ANTHROPIC},
    "openai": {f"{where}{name}": form for where in ("", "beta.") for name, form in _OPENAI.items()},
}


def form_of(path: str) -> Form | None:
    """The form of what is posted to a path."""
    forms = {form.path: form for form in (ANTHROPIC, _CHAT, RESPONSES, _GEMINI)}
    forms[":streamGenerateContent"] = _GEMINI
    return next((form for end, form in forms.items() if path.endswith(end)), None)
