"""An answer put together from the chunks of a streamed chat completion, in Anthropic's block form.
Nothing is read or sent here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from lamina.events import Emit, TextDelta, ThinkingDelta
from lamina.messages import Block, Json, Response, Usage, text, tool_use

_STOP = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


class Malformed(ValueError):
    """The chunks don't make a message."""


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
            raise Malformed("a chunk is not whole") from error

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
        return Response(content, stop, usage_of(self._usage), self._id, self._model, extra)

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
            given = "".join(call["arguments"])
            try:
                value = msgspec.json.decode(given, type=dict[str, Any]) if given.strip() else {}
            except ValueError as error:
                if not cut_off:
                    raise Malformed(f"the input of {call['name']} is not JSON") from error
                # Half a call can't be run; what was cut is named for the turn.
                extra["cut_tool_use"] = call["name"]
                continue
            if not call["name"]:
                raise Malformed("a tool call has no name")
            # Some servers give no ids; the pair of call and result needs one.
            name = call["id"] or f"call_{self._id or 'x'}_{index}"
            uses.append(tool_use(name, call["name"], value))
        return uses


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """OpenAI counts cached tokens within the prompt; we count them apart."""
    details = cast("Mapping[str, Any]", usage.get("prompt_tokens_details") or {})
    prompt = int(usage.get("prompt_tokens") or 0)
    read = min(prompt, int(details.get("cached_tokens") or 0))
    written = min(prompt - read, int(details.get("cache_write_tokens") or 0))
    return Usage(
        input=prompt - read - written,
        output=int(usage.get("completion_tokens") or 0),
        cache_read=read,
        cache_write=written,
    )
