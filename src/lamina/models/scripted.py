"""A model that follows a script: for tests, the demo and anybody who wants to see a session without
a provider. It checks what it is sent, answers step by step, and reports usage as a provider with a
prompt cache would. It reads its script (docs/scripted.md has the format) and touches nothing else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, TypeAlias, cast

import anyio
import msgspec

from lamina import errors
from lamina.cache.simulate import CacheRules, PaperBlock, PaperCache
from lamina.errors import BadResponse, ModelConfigError, ModelError, ModelUnreachable, UsageError
from lamina.events import Emit, Retrying, StreamRestarted, TextDelta, ThinkingDelta
from lamina.ledger import tokens
from lamina.ledger.joining import canonical
from lamina.messages import (
    Block,
    Json,
    Request,
    Response,
    Usage,
    blocks_of,
    text,
    text_of,
    tool_use,
)
from lamina.ports import Capabilities

__all__ = ["ScriptMismatch", "ScriptedModel", "Step"]

Reply: TypeAlias = "str | Mapping[str, Any] | Callable[[Request], str | Mapping[str, Any]]"


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
        self.name = name
        self.capabilities = capabilities or Capabilities(cache="anthropic", min_cacheable=0)
        least = self.capabilities.min_cacheable
        self._cache = PaperCache(CacheRules("openai", least, step=1, life=inf, bills_writes=True))
        self._previous: dict[str, Request] = {}
        self._tool_uses = 0

    @classmethod
    def from_file(cls, path: str | Path) -> ScriptedModel:
        where = Path(path)
        try:
            return _model(cls, msgspec.json.decode(where.read_bytes()), where)
        except OSError as error:
            raise UsageError(
                f"The script {where} can't be read ({error.strerror}); give scripted: a JSON file."
            ) from error
        except msgspec.DecodeError as error:
            raise UsageError(
                f"The script {where} is not valid JSON ({error}); correct it."
            ) from error

    @property
    def remaining(self) -> list[str]:
        """The steps that nobody asked for yet."""
        return [self._label(number) for number in self._open]

    def assert_finished(self) -> None:
        if self._open:
            raise ScriptMismatch(f"The script has unused steps: {', '.join(self.remaining)}.")

    async def complete(self, request: Request, emit: Emit) -> Response:
        sent = {name: list(getattr(request, name)) for name in ("system", "tools", "messages")}
        request = replace(request, **copy.deepcopy(sent))
        self.requests.append(request)
        reply = self._next_reply(request)
        if reply.get("hang"):
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
            model=request.model or self.name,
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
        given: Any = reply.get("tool_use") or ()
        uses: list[Any] = [given] if isinstance(given, Mapping) else list(given)
        for use in uses:
            self._tool_uses += 1
            name = str(use.get("id") or f"toolu_{self._tool_uses:04d}")
            content.append(tool_use(name, str(use["name"]), dict(use.get("input") or {})))
        return copy.deepcopy(content)

    def _book(self, request: Request, content: list[Block], reply: Mapping[str, Any]) -> Usage:
        """Usage by the rules of a prompt cache: what an earlier request began with is read."""
        prompt = self._cache.prompt()
        prompt.extend([(("model", request.model), 0)])
        prompt.extend((("tool", canonical(one)), tokens.of_json(one)) for one in request.tools)
        prompt.extend((("system", canonical(one)), tokens.of_block(one)) for one in request.system)
        prompt.extend(_said(request))
        usage = self._cache.send(prompt, 0.0, output=tokens.of_blocks(content))
        if self.capabilities.cache == "none":
            usage = Usage(input=prompt.tokens, output=usage.output)
        given = cast("Mapping[str, Any]", reply.get("usage") or {})
        usage = Usage.from_json({**usage.to_json(), **given})
        self.usages.append(usage)
        return usage


def _plain(reply: Reply, request: Request) -> Mapping[str, Any]:
    value = reply(request) if callable(reply) else reply
    return {"text": value} if isinstance(value, str) else value


def _play_faults(reply: Mapping[str, Any], emit: Emit) -> None:
    for attempt in range(1, int(reply.get("retries", 0)) + 1):
        emit(Retrying(attempt, 0.0, "the script says that the provider is overloaded"))
    if "restart" in reply:
        emit(TextDelta(str(reply["restart"])))
        emit(StreamRestarted("the script says that the stream broke"))


_ERRORS: dict[str, type[ModelError]] = {
    **dict.fromkeys(("overloaded", "unreachable"), ModelUnreachable),
    **dict.fromkeys(("bad_key", "unknown_model"), ModelConfigError),
    "bad_response": BadResponse,
}


def _error(reply: Mapping[str, Any]) -> ModelError:
    kind = str(reply["error"])
    message = str(reply.get("message") or f"The script answers with {kind}.")
    if kind == "prompt_too_long":
        return errors.PromptTooLong(message, reply.get("gap"))
    if kind not in _ERRORS:
        raise UsageError(f"A script can't answer with the error {kind!r}; see docs/scripted.md.")
    return _ERRORS[kind](message)


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
        step["expect"] = step.get("expect") or {}
        steps.append(Step(**step))
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


# ---- what a step may demand of the request that it answers

EXPECT_KEYS = frozenset(
    {"last_user", "last_result", "contains", "lacks", "system", "tools", "no_tools", "messages"}
    | {"prefix", "paired", "alternating", "model", "max_tokens", "params", "cache_deletions"}
)


class ScriptMismatch(ModelError):
    """The request is not what the script expects."""


def check(
    label: str, expect: Mapping[str, Any], request: Request, previous: Request | None
) -> None:
    """Raise ScriptMismatch at the first demand that doesn't hold."""
    if unknown := sorted(set(expect) - EXPECT_KEYS):
        raise ScriptMismatch(f"{label.capitalize()} expects the unknown key {unknown[0]!r}.")
    demands = {"paired": True, "alternating": True, **expect}
    for key, wanted in demands.items():
        if fault := _fault(key, wanted, request, previous):
            raise ScriptMismatch(f"{label.capitalize()} expected {fault}.")


def words_of(request: Request) -> str:
    """A request in a few words, for a mismatch's sentence."""
    last = _shorten(_last_text(request))
    return f"{len(request.messages)} messages, the last of which says {last!r}"


def _fault(key: str, wanted: Any, request: Request, previous: Request | None) -> str:
    if key in _SOUGHT:
        where, look = _SOUGHT[key]
        sent = look(request)
        lacks = [f"{where} to contain {words!r}" for words in _wanted(wanted) if words not in sent]
        return f"{lacks[0]}, but was sent {_shorten(sent)!r}" if lacks else ""
    match key:
        case "lacks":
            sent = _everything(request)
            has = [f"no {words!r} in the messages" for words in _wanted(wanted) if words in sent]
            return f"{has[0]}, but it is there" if has else ""
        case "tools" | "no_tools":
            return _tools(wanted, request, offered=key == "tools")
        case "prefix":
            return _not_grown(request, previous) if wanted else ""
        case "paired":
            return unpaired(request.messages) if wanted else ""
        case "alternating":
            return _roles(request) if wanted else ""
        case _:
            return _differs(key, wanted, request)


def _differs(key: str, wanted: Any, request: Request) -> str:
    sent: Any = getattr(request, key)
    if key == "messages":
        sent = len(sent)
    elif key == "params":
        sent = {name: sent.get(name) for name in wanted}
    elif key == "cache_deletions":
        sent = list(sent)
    return "" if sent == wanted else f"{key} {wanted!r}, but was sent {sent!r}"


def _wanted(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(item) for item in cast("list[Any]", value)]


def _tools(wanted: Any, request: Request, *, offered: bool) -> str:
    names = {str(tool.get("name")) for tool in request.tools}
    for name in _wanted(wanted):
        if (name in names) is not offered:
            verb = "the tool" if offered else "no tool"
            return f"{verb} {name!r}, but was offered {sorted(names)}"
    return ""


def _last_text(request: Request) -> str:
    for message in reversed(request.messages):
        if message["role"] == "user" and (words := text_of(message["content"])):
            return words
    return ""


def _last_results(request: Request) -> str:
    if not request.messages:
        return ""
    blocks = blocks_of(request.messages[-1]["content"])
    results = [block for block in blocks if block.get("type") == "tool_result"]
    return "\n".join(text_of(block.get("content") or "") for block in results)


def _everything(request: Request) -> str:
    """All strings of all messages, as a person would search them."""
    parts: list[str] = []

    def collect(value: Any) -> None:
        if isinstance(value, str):
            parts.append(value)
        elif isinstance(value, Mapping):
            for item in cast("Mapping[str, Any]", value).values():
                collect(item)
        elif isinstance(value, Sequence):
            for item in cast("Sequence[Any]", value):
                collect(item)

    for message in request.messages:
        collect(message["content"])
    return "\n".join(parts)


def _not_grown(request: Request, previous: Request | None) -> str:
    if previous is None:
        return ""
    for name in ("tools", "system"):
        new, old = ([*map(canonical, getattr(one, name))] for one in (request, previous))
        if new != old:
            return f"the {name} of the last request, but they changed"
    new, old = _said(request), _said(previous)
    pairs = enumerate(zip(old, new, strict=False))
    at = next((n for n, (a, b) in pairs if a != b), min(len(old), len(new)))
    if at == len(old):
        return ""
    where = f"block {at + 1} differs" if at < len(new) else "it is shorter"
    return f"the last request's {len(old)} blocks as a prefix, but {where}"


def _said(request: Request) -> list[PaperBlock]:
    """The blocks of the messages, as a prompt cache sees them."""
    return [
        ((message["role"], canonical(block)), tokens.of_block(block))
        for message in request.messages
        for block in blocks_of(message["content"])
    ]


def unpaired(messages: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with the pairs of tool_use and tool_result; empty if nothing is."""
    waiting: list[str] = []
    for message in messages:
        blocks = blocks_of(message["content"])
        results = [str(b.get("tool_use_id")) for b in blocks if b.get("type") == "tool_result"]
        if message["role"] == "user":
            if sorted(waiting) != sorted(results):
                return f"results for {sorted(waiting)} in the next message, but there are {sorted(results)}"
            waiting = []
        elif waiting:
            return f"results for {sorted(waiting)} before the next answer"
        else:
            waiting = [str(b.get("id")) for b in blocks if b.get("type") == "tool_use"]
    return f"results for {waiting} at the end" if waiting else ""


def _roles(request: Request) -> str:
    roles = [message["role"] for message in request.messages]
    if not roles or roles[0] != "user":
        return f"a user message first, but the roles are {roles[:3]}"
    if roles[-1] != "user":
        return "a user message last, but an assistant message is"
    for index, pair in enumerate(pairwise(roles), 1):
        if pair[0] == pair[1]:
            return f"alternating roles, but messages {index} and {index + 1} are both {pair[0]}"
    return ""


def _shorten(value: str) -> str:
    return value if len(value) <= 200 else value[:197] + "…"


# Where a demand for words looks.
_SOUGHT: dict[str, tuple[str, Callable[[Request], str]]] = {
    "last_user": ("the last user message", _last_text),
    "last_result": ("the last tool results", _last_results),
    "contains": ("the messages", _everything),
    "system": ("the system prompt", lambda request: text_of(request.system)),
}
