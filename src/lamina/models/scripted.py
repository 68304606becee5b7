"""A model that follows a script: for tests, the demo and anybody who wants to see a session without
a provider. It checks what it is sent, answers step by step, and reports usage as a provider with a
prompt cache would. It reads its script (docs/scripted.md has the format) and touches nothing else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec

from lamina.errors import (
    BadResponse,
    ModelConfigError,
    ModelError,
    ModelUnreachable,
    PromptTooLong,
    UsageError,
)
from lamina.events import Emit, Retrying, StreamRestarted, TextDelta, ThinkingDelta
from lamina.ledger import tokens
from lamina.ledger.joining import canonical
from lamina.messages import Block, Json, Request, Response, Usage, blocks_of, text, tool_use
from lamina.models.expectations import EXPECT_KEYS, ScriptMismatch, check, words_of
from lamina.ports import Capabilities

__all__ = ["ScriptMismatch", "ScriptedModel", "Step"]

Reply: TypeAlias = "str | Mapping[str, Any] | Callable[[Request], str | Mapping[str, Any]]"

_REMEMBERED = 16  # requests in the pretended cache: background calls come between two turns


@dataclass(frozen=True, slots=True)
class Step:
    """One call: what must hold of the request, and the answer. `purpose` `*` takes any call."""

    reply: Reply
    expect: Mapping[str, Any] | Callable[[Request], None] = field(default_factory=dict[str, Any])
    purpose: str = "main"
    name: str = ""


class ScriptedModel:
    """Answers from `steps` in order, one line of steps for each purpose."""

    def __init__(
        self,
        steps: Sequence[Step | Reply],
        *,
        name: str = "scripted",
        capabilities: Capabilities | None = None,
        otherwise: Mapping[str, Reply] | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.usages: list[Usage] = []
        self._steps = [step if isinstance(step, Step) else Step(step) for step in steps]
        self._open = list(range(len(self._steps)))
        self._otherwise = dict(otherwise or {})
        self._name = name
        self._capabilities = capabilities or Capabilities(cache="anthropic", min_cacheable=0)
        self._cache: list[list[bytes]] = []
        self._previous: dict[str, Request] = {}
        self._tool_uses = 0

    @classmethod
    def from_file(cls, path: str | Path) -> ScriptedModel:
        return _read(cls, Path(path))

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def remaining(self) -> list[str]:
        """The steps that nobody asked for yet."""
        return [self._label(number) for number in self._open]

    def assert_finished(self) -> None:
        if self._open:
            raise ScriptMismatch(f"The script has unused steps: {', '.join(self.remaining)}.")

    async def complete(self, request: Request, emit: Emit) -> Response:
        request = replace(
            request,
            system=copy.deepcopy(list(request.system)),
            tools=copy.deepcopy(list(request.tools)),
            messages=copy.deepcopy(list(request.messages)),
        )
        self.requests.append(request)
        reply = self._next_reply(request)
        if reply.get("hang"):
            import anyio

            await anyio.sleep_forever()
        _play_faults(reply, emit)
        if "error" in reply:
            raise _error(reply)
        content = self._content(reply)
        usage = self._book(request, content, reply)
        _stream(content, emit)
        stop = "tool_use" if any(b.get("type") == "tool_use" for b in content) else "end_turn"
        return Response(
            content=content,
            stop_reason=str(reply.get("stop_reason", stop)),
            usage=usage,
            id=f"msg_{len(self.requests):04d}",
            model=request.model or self._name,
            extra=dict(reply.get("extra") or {}),
        )

    async def close(self) -> None:
        return None

    def _next_reply(self, request: Request) -> Mapping[str, Any]:
        number = next(
            (n for n in self._open if self._steps[n].purpose in (request.purpose, "*")), None
        )
        if number is None:
            reply = self._otherwise.get(request.purpose, self._otherwise.get("*"))
            if reply is None:
                raise ScriptMismatch(
                    f"The script has no step left for purpose {request.purpose!r}; "
                    f"it was sent {words_of(request)}."
                )
            return _plain(reply, request)
        step = self._steps[number]
        previous = self._previous.get(request.purpose)
        if callable(step.expect):
            step.expect(request)
        else:
            check(self._label(number), step.expect, request, previous)
        self._open.remove(number)
        self._previous[request.purpose] = request
        return _plain(step.reply, request)

    def _label(self, number: int) -> str:
        name = self._steps[number].name
        return f"step {number + 1}" + (f" ({name})" if name else "")

    def _content(self, reply: Mapping[str, Any]) -> list[Block]:
        content: list[Block] = []
        if thinking := reply.get("thinking"):
            signature = f"sig-{len(self.requests):04d}"
            content.append({"type": "thinking", "thinking": thinking, "signature": signature})
        content += blocks_of(reply.get("content", []))
        if (words := reply.get("text")) is not None:
            content.append(text(str(words)))
        for use in _as_list(reply.get("tool_use")):
            self._tool_uses += 1
            content.append(
                tool_use(
                    str(use.get("id") or f"toolu_{self._tool_uses:04d}"),
                    str(use["name"]),
                    dict(use.get("input") or {}),
                )
            )
        return copy.deepcopy(content)

    def _book(self, request: Request, content: list[Block], reply: Mapping[str, Any]) -> Usage:
        """Usage by the rules of a prompt cache: what an earlier request began with is read."""
        parts = [canonical(["model", request.model])]
        weights = [0]
        for kind, values in (("tool", request.tools), ("system", request.system)):
            parts += [canonical([kind, _without_breakpoint(value)]) for value in values]
            weights += [tokens.of_json(v) if kind == "tool" else tokens.of_block(v) for v in values]
        for message in request.messages:
            for block in blocks_of(message["content"]):
                parts.append(canonical([message["role"], _without_breakpoint(block)]))
                weights.append(tokens.of_block(block))
        shared = max((_common(parts, earlier) for earlier in self._cache), default=0)
        read, whole = sum(weights[:shared]), sum(weights)
        if read < self._capabilities.min_cacheable:
            read = 0
        self._cache = [*self._cache[-(_REMEMBERED - 1) :], parts]
        usage = Usage(output=tokens.of_blocks(content), cache_read=read, cache_write=whole - read)
        if whole < self._capabilities.min_cacheable or self._capabilities.cache == "none":
            usage = Usage(input=whole, output=usage.output)
        given = cast("Mapping[str, Any]", reply.get("usage") or {})
        usage = Usage.from_json({**usage.to_json(), **given})
        self.usages.append(usage)
        return usage


def _without_breakpoint(block: Mapping[str, Any]) -> Json:
    return {key: value for key, value in block.items() if key != "cache_control"}


def _common(left: Sequence[bytes], right: Sequence[bytes]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(left), len(right)))


def _plain(reply: Reply, request: Request) -> Mapping[str, Any]:
    value = reply(request) if callable(reply) else reply
    return {"text": value} if isinstance(value, str) else value


def _as_list(value: Any) -> list[Mapping[str, Any]]:
    if not value:
        return []
    return [value] if isinstance(value, Mapping) else list(value)


def _play_faults(reply: Mapping[str, Any], emit: Emit) -> None:
    for attempt in range(1, int(reply.get("retries", 0)) + 1):
        emit(Retrying(attempt, 0.0, "the script says that the provider is overloaded"))
    if "restart" in reply:
        emit(TextDelta(str(reply["restart"])))
        emit(StreamRestarted("the script says that the stream broke"))


def _error(reply: Mapping[str, Any]) -> ModelError:
    kind = str(reply["error"])
    message = str(reply.get("message") or f"The script answers with {kind}.")
    match kind:
        case "prompt_too_long":
            return PromptTooLong(message, reply.get("gap"))
        case "overloaded" | "unreachable":
            return ModelUnreachable(message)
        case "bad_key" | "unknown_model":
            return ModelConfigError(message)
        case "bad_response":
            return BadResponse(message)
        case _:
            raise UsageError(
                f"A script can't answer with the error {kind!r}; see docs/scripted.md."
            )


def _stream(content: Sequence[Block], emit: Emit) -> None:
    for block in content:
        event = ThinkingDelta if block.get("type") == "thinking" else TextDelta
        words = block.get("thinking") or block.get("text") or ""
        for start in range(0, len(words), 40):
            emit(event(words[start : start + 40]))


# ---- a script from a file

REPLY_KEYS = frozenset(
    {"text", "thinking", "tool_use", "content", "stop_reason", "usage", "error", "gap"}
    | {"message", "retries", "restart", "extra", "hang"}
)
STEP_KEYS = frozenset({"name", "purpose", "expect", "reply"})
SCRIPT_KEYS = frozenset({"name", "capabilities", "steps", "otherwise"})


def _read(kind: type[ScriptedModel], where: Path) -> ScriptedModel:
    try:
        script = msgspec.json.decode(where.read_bytes())
    except OSError as error:
        raise UsageError(
            f"The script {where} can't be read ({error.strerror}); give scripted: a JSON file."
        ) from error
    except msgspec.DecodeError as error:
        raise UsageError(f"The script {where} is not valid JSON ({error}); correct it.") from error
    return _model(kind, script, where)


def _model(kind: type[ScriptedModel], given: Any, where: Path) -> ScriptedModel:
    steps_only = isinstance(given, list)
    script = _known({"steps": given} if steps_only else given, SCRIPT_KEYS, where, "the script")
    steps: list[Step] = []
    for number, value in enumerate(cast("list[Any]", script.get("steps") or []), 1):
        step: Any = {"reply": value} if isinstance(value, str) else value
        step = _known(step, STEP_KEYS, where, f"step {number}")
        if "reply" not in step:
            raise UsageError(f"{where}: step {number} has no reply; see docs/scripted.md.")
        _known(step.get("expect") or {}, EXPECT_KEYS, where, f"expect of step {number}")
        _known_reply(step["reply"], where, f"reply of step {number}")
        steps.append(
            Step(
                reply=step["reply"],
                expect=step.get("expect") or {},
                purpose=str(step.get("purpose", "main")),
                name=str(step.get("name", "")),
            )
        )
    otherwise = cast("dict[str, Any]", script.get("otherwise") or {})
    for purpose, reply in otherwise.items():
        _known_reply(reply, where, f"otherwise of {purpose}")
    return kind(
        steps,
        name=str(script.get("name", "scripted")),
        capabilities=_capabilities(script.get("capabilities") or {}, where),
        otherwise=otherwise,
    )


def _capabilities(given: Any, where: Path) -> Capabilities:
    fields = frozenset(Capabilities.__dataclass_fields__)
    known = _known(given, fields, where, "capabilities")
    try:
        return msgspec.convert({"cache": "anthropic", "min_cacheable": 0, **known}, Capabilities)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: capabilities can't be taken ({error}); correct it.") from error


def _known_reply(reply: Any, where: Path, what: str) -> None:
    if not isinstance(reply, str):
        _known(reply, REPLY_KEYS, where, what)


def _known(value: Any, keys: frozenset[str], where: Path, what: str) -> Json:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: {what} must be an object; see docs/scripted.md.")
    given = cast("Json", value)
    if unknown := sorted(set(given) - keys):
        raise UsageError(
            f"{where}: {what} has the unknown key {unknown[0]!r}; it may have: "
            f"{', '.join(sorted(keys))}."
        )
    return given
