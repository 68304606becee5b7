"""An answer of Anthropic's API put together from its stream of events. Unknown fields, blocks and
deltas are kept as they come; nothing is read or sent here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from lamina.events import Emit, TextDelta, ThinkingDelta
from lamina.messages import Block, Json, Response, Usage

# Fields of the message and of its last delta that the response has a place for.
_PLACED = frozenset(
    {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage", "delta"}
)


class Malformed(ValueError):
    """The events don't make a message."""


class Assembly:
    """Takes events in order; `done` says when the message is whole."""

    def __init__(self, emit: Emit) -> None:
        self.done = False
        self._emit = emit
        self._message: Json | None = None
        self._blocks: dict[int, Block] = {}
        self._partial: dict[int, list[str]] = {}
        self._usage: Json = {}
        self._end: Json = {}
        self._extra: Json = {}

    def take(self, event: Mapping[str, Any]) -> None:
        """One event. Raises Malformed where its parts don't fit; unknown kinds are passed over."""
        try:
            match event.get("type"):
                case "message_start":
                    self._start(event["message"])
                case "content_block_start":
                    self._blocks[event["index"]] = dict(event["content_block"])
                case "content_block_delta":
                    self._delta(event["index"], event["delta"])
                case "message_delta":
                    self._message_delta(event)
                case "message_stop":
                    self.done = True
                case _:
                    pass
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise Malformed(f"a {event.get('type')} event is not whole") from error

    def response(self) -> Response:
        """The whole answer. Raises Malformed if parts are missing."""
        if self._message is None or not self._end.get("stop_reason"):
            raise Malformed("the message has no beginning or no stop reason")
        stop = str(self._end["stop_reason"])
        content = self._content(cut_off=stop in ("max_tokens", "model_context_window_exceeded"))
        if self._end.get("stop_sequence") is not None:
            self._extra["stop_sequence"] = self._end["stop_sequence"]
        return Response(
            content=content,
            stop_reason=stop,
            usage=usage_of(self._usage),
            id=str(self._message.get("id") or ""),
            model=str(self._message.get("model") or ""),
            extra={**self._extra, "usage": self._usage},
        )

    def _start(self, message: Mapping[str, Any]) -> None:
        self._message = dict(message)
        self._usage.update(message.get("usage") or {})
        self._keep(message)
        # Normally empty; a proxy may send a whole message at once.
        for index, block in enumerate(message.get("content") or []):
            self._blocks[index] = dict(block)
        self._end = {name: message.get(name) for name in ("stop_reason", "stop_sequence")}

    def _message_delta(self, event: Mapping[str, Any]) -> None:
        delta = cast("Mapping[str, Any]", event["delta"])
        self._end.update({name: value for name, value in delta.items() if value is not None})
        given = cast("Mapping[str, Any]", event.get("usage") or {})
        self._usage.update({name: value for name, value in given.items() if value is not None})
        self._keep({**delta, **event})

    def _keep(self, values: Mapping[str, Any]) -> None:
        self._extra.update(
            {name: v for name, v in values.items() if name not in _PLACED and v is not None}
        )

    def _delta(self, index: int, delta: Mapping[str, Any]) -> None:
        block = self._blocks[index]
        match delta.get("type"):
            case "text_delta":
                block["text"] = str(block.get("text") or "") + delta["text"]
                self._emit(TextDelta(delta["text"]))
            case "thinking_delta":
                block["thinking"] = str(block.get("thinking") or "") + delta["thinking"]
                if delta["thinking"]:
                    self._emit(ThinkingDelta(delta["thinking"]))
            case "input_json_delta":
                self._partial.setdefault(index, []).append(delta["partial_json"])
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta["citation"]]
            case "signature_delta" | "compaction_delta":
                block.update({name: v for name, v in delta.items() if name != "type"})
            case _:
                _merge(block, delta)

    def _content(self, *, cut_off: bool) -> list[Block]:
        content: list[Block] = []
        for index in sorted(self._blocks):
            block = self._blocks[index]
            if index in self._partial:
                given = "".join(self._partial[index])
                try:
                    block = {**block, "input": _object(given)}
                except ValueError as error:
                    if not cut_off:
                        raise Malformed(f"the input of {block.get('name')} is not JSON") from error
                    # Half a call can't be run; what was cut is named for the turn.
                    self._extra["cut_tool_use"] = block.get("name")
                    continue
            content.append(block)
        return content


def usage_of(usage: Mapping[str, Any]) -> Usage:
    written = cast("Mapping[str, Any]", usage.get("cache_creation") or {})
    return Usage.from_json(
        {
            "input": usage.get("input_tokens"),
            "output": usage.get("output_tokens"),
            "cache_read": usage.get("cache_read_input_tokens"),
            "cache_write": usage.get("cache_creation_input_tokens"),
            "cache_write_1h": written.get("ephemeral_1h_input_tokens"),
        }
    )


def _object(given: str) -> Json:
    return msgspec.json.decode(given, type=dict[str, Any]) if given.strip() else {}


def _merge(block: Block, delta: Mapping[str, Any]) -> None:
    """A delta of a kind that we don't know: strings and lists grow, the rest is replaced."""
    for name, value in delta.items():
        if name == "type":
            continue
        old = block.get(name)
        grows = (isinstance(old, str) and isinstance(value, str)) or (
            isinstance(old, list) and isinstance(value, list)
        )
        block[name] = cast("Any", old) + value if grows else value
