"""What a step of a script may demand of the request it answers. Pure checks; a demand that does not
hold is raised with the step's name, what was wanted and what was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

from lamina.errors import ModelError
from lamina.ledger.joining import canonical
from lamina.messages import Block, Request, blocks_of, text_of

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
        where, sent = _SOUGHT[key]
        return _lacking(wanted, sent(request), where)
    match key:
        case "lacks":
            return _present(wanted, _everything(request))
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
    sent: Any
    match key:
        case "messages":
            sent = len(request.messages)
        case "params":
            sent = {name: request.params.get(name) for name in wanted}
        case "cache_deletions":
            sent = list(request.cache_deletions)
        case _:
            sent = getattr(request, key)
    return "" if sent == wanted else f"{key} {wanted!r}, but was sent {sent!r}"


def _wanted(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(item) for item in cast("list[Any]", value)]


def _lacking(wanted: Any, sent: str, where: str) -> str:
    for words in _wanted(wanted):
        if words not in sent:
            return f"{where} to contain {words!r}, but was sent {_shorten(sent)!r}"
    return ""


def _present(unwanted: Any, sent: str) -> str:
    for words in _wanted(unwanted):
        if words in sent:
            return f"no {words!r} in the messages, but it is there"
    return ""


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
        if [canonical(v) for v in getattr(request, name)] != [
            canonical(v) for v in getattr(previous, name)
        ]:
            return f"the {name} of the last request, but they changed"
    new = [canonical([role, _bare(block)]) for role, block in _flat(request)]
    old = [canonical([role, _bare(block)]) for role, block in _flat(previous)]
    if new[: len(old)] == old:
        return ""
    at = next((i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), None)
    where = f"block {at + 1} differs" if at is not None else "it is shorter"
    return f"the last request's {len(old)} blocks as a prefix, but {where}"


def _flat(request: Request) -> list[tuple[str, Block]]:
    return [(m["role"], block) for m in request.messages for block in blocks_of(m["content"])]


def _bare(block: Block) -> Block:
    return {key: value for key, value in block.items() if key != "cache_control"}


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
