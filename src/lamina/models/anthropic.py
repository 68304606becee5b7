"""Anthropic's models through the official package: cache breakpoints, context management, and answers
put together from a stream of events, in which fields that nobody here knows are kept as they come.
It talks to one host and touches nothing else; the package loads at the first call.

The view holds no breakpoints: the copies that are sent carry at most four, which move with the
conversation (F4).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio

from lamina.cache.account import LONG_LIFE, SHORT_LIFE
from lamina.cache.usage import anthropic_usage
from lamina.errors import ModelConfigError
from lamina.events import AttemptBroke, Emit, TextDelta, ThinkingDelta, Warned
from lamina.ledger import tokens
from lamina.ledger.joining import breakpoints
from lamina.ledger.tokens import LONG_BETA, bare_name, capabilities, needs_long_beta
from lamina.messages import Block, Json, Message, Request, Response, Usage, as_object, blocks_of
from lamina.models import remote

if TYPE_CHECKING:
    import anthropic

Ttl = Literal["5m", "1h"]
CHOICES: Mapping[str, Literal["all", "frame"]] = {"auto": "all", "mixed": "frame"}

# Without another wish an answer may be this long, or the model's own limit if that is less.
DEFAULT_ANSWER = 32_000

LEAST_THINKING = 1_024  # tokens; the API takes no smaller budget
# How long the end of a body may take after the last word; set by hand.
LAST_BYTES_SECONDS = 1.0

# Which beta header a part of the request needs.
_BETA_OF_EDIT = {"compact_20260112": "compact-2026-01-12"}
_MANAGEMENT_BETA = "context-management-2025-06-27"
_COMPACTION_BETA = "compact-2026-09-04"
_DIAGNOSTICS_BETA = "cache-diagnosis-2026-04-07"


class AnthropicModel(remote.RemoteModel["anthropic.AsyncAnthropic"]):
    """`anthropic:NAME`. All options have defaults (`more`: those of RemoteModel); key and base URL
    may come from the package's own environment variables."""

    package = "anthropic"
    family = "AnthropicError"
    key_variable, url_variable = "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"

    def __init__(
        self,
        name: str,
        *,
        betas: Sequence[str] = (),
        window: int | None = None,
        max_output: int | None = None,
        cache_ttl: Ttl | Literal["auto", "mixed"] = "5m",
        cache_edits: bool = False,
        cache_upgrades: bool = False,
        diagnostics: bool = False,
        **more: Any,
    ) -> None:
        if cache_ttl not in ("auto", "mixed", "5m", "1h"):
            raise ModelConfigError(
                f"A cache lives for 5m or 1h (or auto, mixed: by the session), not {cache_ttl!r}; "
                "set cache_ttl."
            )
        full = f"anthropic:{name}"
        self._betas = [*betas, *([LONG_BETA] if needs_long_beta(full) else [])]
        known = capabilities(full, betas=self._betas, override=window)
        able = replace(
            known,
            max_output=max_output or known.max_output,
            cache="anthropic",
            cache_ttl=LONG_LIFE if cache_ttl == "1h" else SHORT_LIFE,
            cache_choice=CHOICES.get(cache_ttl, ""),
            cache_edits=cache_edits,
            cache_upgrades=cache_upgrades,
        )
        super().__init__(full, able, **more)
        self._diagnostics = diagnostics
        self._last_ids: dict[str, str] = {}
        self._warned: set[str] = set()

    async def complete(self, request: Request, emit: Emit) -> Response:
        response = await super().complete(request, emit)
        self._last_ids[request.purpose] = response.id
        return response

    def _warn_of_end(self, model: str, emit: Emit) -> None:
        """The package knows when models end; the user is told once."""
        from anthropic.resources.beta.messages import messages

        ends = cast("Mapping[str, str]", getattr(messages, "DEPRECATED_MODELS", {}))
        if model in ends and model not in self._warned:
            self._warned.add(model)
            emit(Warned(f"{model} ends on {ends[model]}; choose a newer model."))

    def _body(self, client: anthropic.AsyncAnthropic, request: Request, emit: Emit) -> Json:
        if self.capabilities.cache_choice != "frame":
            request = replace(request, frame_ttl=0)
        life = request.cache_ttl or self.capabilities.cache_ttl
        ttl: Ttl = "1h" if life > SHORT_LIFE else "5m"
        tools, system, messages = with_breakpoints(request, ttl)
        params = dict(request.params)
        previous = params.pop("previous_message_id", None) or self._last_ids.get(request.purpose)
        limit = request.max_tokens or min(DEFAULT_ANSWER, self.capabilities.max_output)
        betas = [*self._betas, *cast("Sequence[str]", params.pop("betas", None) or ())]
        model = bare_name(request.model or self.name)
        self._warn_of_end(model, emit)
        _fit_thinking(params, limit)
        call: Json = {"model": model, "max_tokens": limit, "messages": messages, "stream": True}
        call |= {name: said for name, said in (("system", system), ("tools", tools)) if said}
        if self._diagnostics:
            call["diagnostics"] = {"previous_message_id": previous}
            betas.append(_DIAGNOSTICS_BETA)
        betas += _betas_of(params)
        if request.cache_deletions and self.capabilities.cache_edits:
            params["cache_edits"] = [
                {"type": "delete_tool_result", "tool_use_id": name}
                for name in request.cache_deletions
            ]
        if betas:
            call["betas"] = list(dict.fromkeys(betas))
        return call | remote.for_call(client.beta.messages.create, params)

    def _connect(self) -> anthropic.AsyncAnthropic:
        import anthropic

        # Said as an event instead (_warn_of_end).
        warnings.filterwarnings("ignore", "The model '.*' is deprecated", DeprecationWarning)
        try:
            client = anthropic.AsyncAnthropic(
                api_key=self._key,
                base_url=self._url,
                default_headers=self._headers,
                max_retries=0,  # retries are ours: they are events, and their clock is passed in
                timeout=anthropic.Timeout(self._timeout, connect=remote.CONNECT_SECONDS),
            )
        except (anthropic.AnthropicError, ValueError, TypeError) as error:
            raise ModelConfigError(
                f"The settings for Anthropic can't be used ({error}): check them."
            ) from error
        if not (client.api_key or client.auth_token or client.credentials):
            raise remote.missing_key(self._place(client))
        return client

    async def _stream(self, client: anthropic.AsyncAnthropic, call: Json, emit: Emit) -> Response:
        assembly = Assembly(emit)
        create = cast("Any", client.beta.messages.with_streaming_response.create)
        try:
            with anyio.CancelScope() as last_bytes:
                async with create(**call) as reply:
                    await _read(reply, assembly, last_bytes)
        except Exception:
            if not assembly.done:  # a line that breaks after the last word took nothing away
                raise
        finally:
            if not assembly.done and (usage := assembly.billed()).total:
                emit(AttemptBroke(assembly.model or str(call["model"]), usage))
        if not assembly.done:
            raise remote.BrokenOff
        return assembly.response()

    def _provider(self, client: anthropic.AsyncAnthropic) -> str:  # noqa: ARG002
        return "Anthropic"


def _fit_thinking(params: Json, limit: int) -> None:
    """A budget must leave room for the answer; where it can't, this answer is given without."""
    thinking = cast("Json", params.get("thinking") or {})
    if (budget := int(thinking.get("budget_tokens") or 0)) >= limit:
        budget = limit // 2
        if budget < LEAST_THINKING:
            del params["thinking"]
        else:
            params["thinking"] = {**thinking, "budget_tokens": budget}


async def _read(reply: Any, assembly: Assembly, last_bytes: anyio.CancelScope) -> None:
    """All events, up to the end of the body: a connection is used again only if nothing is left on
    it. A server that keeps the line open after the last word is not waited for."""
    import anthropic

    async for event in anthropic.AsyncStream.raw_events(reply.http_response):
        if event.event is None or not event.data or assembly.done:
            continue
        try:
            data: Any = json.loads(event.data)
        except ValueError as error:
            raise remote.Malformed(f"a {event.event} event is not JSON") from error
        if not isinstance(data, dict):
            raise remote.Malformed(f"a {event.event} event is not an object")
        if event.event == "error":
            raise remote.ErrorInStream(cast("Json", data), dict(reply.headers))
        assembly.take(cast("Json", data))
        if assembly.done:
            last_bytes.deadline = anyio.current_time() + LAST_BYTES_SECONDS


def _betas_of(params: Mapping[str, Any]) -> list[str]:
    betas: list[str] = []
    if managed := params.get("context_management"):
        betas.append(_MANAGEMENT_BETA)
        edits = cast("Sequence[Mapping[str, Any]]", managed.get("edits") or ())
        betas += [_BETA_OF_EDIT[e["type"]] for e in edits if e.get("type") in _BETA_OF_EDIT]
    if params.get("compaction"):
        betas.append(_COMPACTION_BETA)
    return betas


# ---- breakpoints of the prompt cache

MOST_BREAKPOINTS = 4
_ASKED_ONCE = ("recall", "reading")
_NEVER_MARKED = frozenset({"thinking", "redacted_thinking", "connector_text"})


def with_breakpoints(
    request: Request, ttl: Ttl = "5m"
) -> tuple[list[Json], list[Block], list[Message]]:
    """Tools, system and messages to send: end of tools, end of system, and the places in the messages
    that `joining.breakpoints` names. The simulated cache is marked by the same rule."""
    mark: Json = {"type": "ephemeral", "ttl": ttl}
    first: Json = {**mark, "ttl": "1h"} if request.frame_ttl > SHORT_LIFE else mark
    # Copies in which only ours can be: whoever wrote the blocks, their breakpoints are dropped.
    tools = [_stripped(tool) for tool in request.tools]
    system = [_stripped(block) for block in request.system]
    messages: list[Message] = [
        {**message, "content": [_stripped(block) for block in blocks_of(message["content"])]}
        for message in request.messages
    ]
    flat = [block for message in messages for block in message["content"]]
    # What is asked once is never read again: a mark would only make it a quarter dearer.
    places = (
        ()
        if request.purpose in _ASKED_ONCE
        else breakpoints(
            request.cached_blocks, request.stable_blocks, len(flat), request.shared_blocks
        )
    )
    known = [block for block in system if markable(block)]
    _mark_last(known, first)
    if len(places) + bool(known) < MOST_BREAKPOINTS:  # else the system's includes the tools
        # A tool that is loaded later isn't a part of the cached prefix.
        _mark_last([tool for tool in tools if not tool.get("defer_loading")], first)
    for place in places:
        _mark_last([block for block in flat[:place] if markable(block)], mark)
    return tools, system, messages


def markable(block: Block) -> bool:
    """May this block carry a breakpoint? Thinking and empty text may not."""
    kind = block.get("type")
    return kind not in _NEVER_MARKED and not (kind == "text" and not block.get("text"))


def _mark_last(blocks: Sequence[Json], mark: Json) -> None:
    if blocks:
        blocks[-1]["cache_control"] = dict(mark)


def _stripped(block: Json) -> Json:
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    content: Any = bare.get("content")
    if isinstance(content, list):
        bare["content"] = [
            _stripped(cast("Json", item)) if isinstance(item, dict) else item
            for item in cast("list[Any]", content)
        ]
    return bare


# ---- an answer from its events

# Fields of the message and of its last delta that the response has a place for.
_PLACED = frozenset(
    {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage", "delta"}
)


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
            raise remote.Malformed(f"a {event.get('type')} event is not whole") from error

    def response(self) -> Response:
        """The whole answer. Raises Malformed if parts are missing."""
        if self._message is None or not self._end.get("stop_reason"):
            raise remote.Malformed("the message has no beginning or no stop reason")
        stop = str(self._end["stop_reason"])
        content = self._content(cut_off=stop in ("max_tokens", "model_context_window_exceeded"))
        if self._end.get("stop_sequence") is not None:
            self._extra["stop_sequence"] = self._end["stop_sequence"]
        return Response(
            content=content,
            stop_reason=stop,
            usage=anthropic_usage(self._usage) or Usage(),
            id=str(self._message.get("id") or ""),
            model=self.model,
            extra={**self._extra, "usage": self._usage},
        )

    @property
    def model(self) -> str:
        return str((self._message or {}).get("model") or "")

    def billed(self) -> Usage:
        """What an answer that broke off has cost: the prompt as its beginning counts it, and what
        was written so far, by our own estimate where that is more."""
        counted = anthropic_usage(self._usage) or Usage()
        written = tokens.of_blocks(self._blocks.values())
        written += sum(len(piece) for parts in self._partial.values() for piece in parts) // 2
        return replace(counted, output=max(counted.output, written)) if counted.prompt else counted

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
        diagnosed = as_object(as_object(values.get("diagnostics")).get("cache_miss_reason"))
        if diagnosed.get("type"):
            self._extra["cache_miss_reason"] = str(diagnosed["type"])

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
                name: Any = block.get("name")
                given = remote.tool_input("".join(self._partial[index]), name, cut_off=cut_off)
                if given is None:
                    self._extra["cut_tool_use"] = name
                    continue
                block = {**block, "input": given}
            content.append(block)
        return content


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
