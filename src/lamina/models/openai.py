"""Any endpoint that speaks OpenAI's chat completions, through the official package: streaming, tool
calls, cached tokens; and Anthropic's block form as chat messages, for every adapter that needs
them. It talks to one host and touches nothing else; the package loads at the first call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from lamina.cache.usage import openai_usage
from lamina.events import Emit, TextDelta, ThinkingDelta
from lamina.ledger.tokens import bare_name, capabilities
from lamina.messages import (
    Block,
    Json,
    Message,
    Request,
    Response,
    Usage,
    blocks_of,
    text,
    text_of,
    tool_use,
)
from lamina.models import remote

if TYPE_CHECKING:
    import openai

_OFFICIAL_HOST = "api.openai.com"
_NO_KEY = "none"

# Parameters of Anthropic's API that have no meaning here.
_FOREIGN = frozenset({
    "thinking", "context_management", "compaction", "betas", "output_config", "previous_message_id",
})  # fmt: skip


class OpenAIModel(remote.RemoteModel["openai.AsyncOpenAI"]):
    """`openai:NAME`, at OpenAI or wherever `base_url` or OPENAI_BASE_URL points; `more` are the
    options of RemoteModel."""

    package = "openai"
    family = "OpenAIError"
    key_variable, url_variable = "OPENAI_API_KEY", "OPENAI_BASE_URL"

    def __init__(
        self,
        name: str,
        *,
        window: int | None = None,
        max_output: int | None = None,
        cache_key: str | None = None,
        **more: Any,
    ) -> None:
        full = f"openai:{name}"
        known = capabilities(full, override=window)
        able = replace(known, max_output=max_output or known.max_output)
        super().__init__(full, able, **more)
        self._cache_key = cache_key

    def _body(self, client: openai.AsyncOpenAI, request: Request, emit: Emit) -> Json:  # noqa: ARG002
        official = client.base_url.host == _OFFICIAL_HOST
        call: Json = {
            "model": bare_name(request.model or self.name),
            "messages": chat_messages(request.system, request.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            call["tools"] = chat_tools(request.tools)
        if request.max_tokens:
            # OpenAI renamed the limit; most compatible servers know the old name only.
            call["max_completion_tokens" if official else "max_tokens"] = request.max_tokens
        if self._cache_key:
            call["prompt_cache_key"] = self._cache_key
        params = {name: v for name, v in request.params.items() if name not in _FOREIGN}
        return call | remote.for_call(client.chat.completions.create, params)

    def _connect(self) -> openai.AsyncOpenAI:
        import openai

        try:
            client = self._made_with(self._key)
        except openai.OpenAIError as error:
            # A server of one's own often needs no key, but the package wants one.
            client = self._made_with(_NO_KEY)
            if client.base_url.host == _OFFICIAL_HOST:
                raise remote.missing_key(self._place(client)) from error
        return client

    def _made_with(self, key: str | None) -> openai.AsyncOpenAI:
        import openai

        return openai.AsyncOpenAI(
            api_key=key,
            base_url=self._url,
            default_headers=self._headers,
            max_retries=0,  # retries are ours: they are events, and their clock is passed in
            timeout=openai.Timeout(self._timeout, connect=remote.CONNECT_SECONDS),
        )

    async def _stream(self, client: openai.AsyncOpenAI, call: Json, emit: Emit) -> Response:
        assembly = ChatAssembly(emit)
        create = cast("Any", client.chat.completions.create)
        async with await create(**call) as stream:
            async for chunk in stream:
                assembly.take(chunk.to_dict(mode="json", warnings=False))
        if not assembly.finished:
            raise remote.BrokenOff
        return assembly.response()

    def _provider(self, client: openai.AsyncOpenAI) -> str:
        return "OpenAI" if client.base_url.host == _OFFICIAL_HOST else "The endpoint"


# ---- blocks as chat messages

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
            "function": {"name": block["name"], "arguments": compact(block.get("input") or {})},
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
    because a tool message holds text only."""
    chat: list[Json] = []
    parts: list[Json] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            words, pictures = _result(block)
            chat.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": words})
            parts += pictures
        elif block.get("type") not in _PRIVATE:
            parts.append(_part(block))
    if parts and all(part["type"] == "text" for part in parts):  # every server takes one string
        chat.append({"role": "user", "content": "\n".join(str(part["text"]) for part in parts)})
    elif parts:
        chat.append({"role": "user", "content": parts})
    return chat


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
    return compact({key: value for key, value in block.items() if key != "cache_control"})


def compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# ---- an answer from its chunks

_STOP = {
    "stop": "end_turn", "tool_calls": "tool_use", "function_call": "tool_use",
    "length": "max_tokens", "content_filter": "refusal",
}  # fmt: skip


class ChatAssembly:
    """Takes chunks in order; `finished` says that a finish reason came."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, Json] = {}
        self._finish: str | None = None
        self._usage: Json = {}
        self._id = self._model = ""

    @property
    def finished(self) -> bool:
        return self._finish is not None

    def take(self, chunk: Mapping[str, Any]) -> None:
        """One chunk. Raises Malformed where its parts don't fit."""
        try:
            self._id = str(chunk.get("id") or self._id)
            self._model = str(chunk.get("model") or self._model)
            if usage := chunk.get("usage"):
                self._usage = dict(usage)
            for choice in cast("list[Json]", chunk.get("choices") or []):
                if choice.get("index", 0) == 0:
                    self._delta(choice.get("delta") or {})
                    self._finish = choice.get("finish_reason") or self._finish
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise remote.Malformed("a chunk is not whole") from error

    def response(self) -> Response:
        """The whole answer. Raises Malformed if a tool call can't be read."""
        extra: Json = {"usage": self._usage}
        content: list[Block] = []
        if words := "".join(self._text):
            content.append(text(words))
        stop = _STOP.get(self._finish or "", self._finish or "end_turn")
        content += self._tool_uses(extra, cut_off=stop == "max_tokens")
        if any(block["type"] == "tool_use" for block in content) and stop == "end_turn":
            stop = "tool_use"  # some servers finish calls with `stop`
        if refusal := "".join(self._refusal):
            stop = "refusal"
            content = content or [text(refusal)]
        return Response(
            content, stop, openai_usage(self._usage) or Usage(), self._id, self._model, extra
        )

    def _delta(self, delta: Mapping[str, Any]) -> None:
        if words := delta.get("content"):
            self._text.append(words)
            self._emit(TextDelta(words))
        # Not in OpenAI's own protocol, but common among compatible servers.
        if thought := delta.get("reasoning_content") or delta.get("reasoning"):
            self._emit(ThinkingDelta(str(thought)))
        if refusal := delta.get("refusal"):
            self._refusal.append(refusal)
            self._emit(TextDelta(refusal))
        for place, part in enumerate(delta.get("tool_calls") or []):
            self._call(part.get("index", place), part)

    def _call(self, index: int, part: Mapping[str, Any]) -> None:
        call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": []})
        function = cast("Mapping[str, Any]", part.get("function") or {})
        call["id"] = part.get("id") or call["id"]
        call["name"] = function.get("name") or call["name"]
        if given := function.get("arguments"):
            call["arguments"].append(given)

    def _tool_uses(self, extra: Json, *, cut_off: bool) -> list[Block]:
        uses: list[Block] = []
        for index in sorted(self._calls):
            call = self._calls[index]
            value = remote.tool_input("".join(call["arguments"]), call["name"], cut_off=cut_off)
            if value is None:
                extra["cut_tool_use"] = call["name"]
                continue
            if not call["name"]:
                raise remote.Malformed("a tool call has no name")
            # Some servers give no ids; the pair of call and result needs one.
            name = call["id"] or f"call_{self._id or 'x'}_{index}"
            uses.append(tool_use(name, call["name"], value))
        return uses
