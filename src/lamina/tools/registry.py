"""The toolbox: an agent's tools in order, and the one way to run them.

Every call goes input check (by the tool's JSON schema) → permission → tool, and every failure becomes
a result that the model can read; only cancellation passes through. Events are emitted for refusals
and for tools that break; ToolStarted and ToolFinished belong to the turn, which also runs the hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import ge, gt, le, lt
from typing import Any, Protocol, cast, runtime_checkable

import anyio.to_thread

from lamina.errors import LaminaError, RefusedError, UsageError
from lamina.events import PermissionRefused, Warned
from lamina.messages import Json
from lamina.ports import Tool, ToolContext, ToolOutcome, ToolSpec

LONGEST_COMPLAINT = 500  # characters


@runtime_checkable
class PreparesInput(Protocol):
    """A tool whose input is made definite before anyone decides on it.

    A path is resolved here once and held open by the context, so that what was permitted and what
    is used are the same."""

    def prepare(self, input: Json, context: ToolContext) -> Json: ...  # noqa: A002


class Toolbox:
    """Tools by name, in the order in which the model is told of them."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> None:
        name = tool.spec.name
        if name in self._tools:
            raise UsageError(f"Two tools are called {name}. Rename or remove one of them.")
        self._tools[name] = tool

    def replacing(self, others: Iterable[Tool]) -> Toolbox:
        """The same tools, some of them done by others that the model can't tell apart."""
        by_name = {tool.spec.name: tool for tool in others}
        for name, tool in by_name.items():
            if name in self._tools and tool.spec != self._tools[name].spec:
                raise UsageError(f"{name} can only be replaced by a tool with the same spec.")
        return Toolbox(by_name.get(name, tool) for name, tool in self._tools.items())

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def specs(self) -> Sequence[ToolSpec]:
        return tuple(tool.spec for tool in self._tools.values())

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    async def run(self, name: str, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        """Check, ask for permission, run. Never raises but for cancellation."""
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            return _failed(f"There is no tool called {name!r}. Tools: {known}.")
        if wrong := problems(tool.spec.input_schema, input):
            return _failed(f"{name} was not run, its input does not fit: {'; '.join(wrong)}.")
        call, started_in = replace(context, held=None, withheld=None), context.cwd
        try:
            if isinstance(tool, PreparesInput):
                input = await anyio.to_thread.run_sync(tool.prepare, input, call)  # noqa: A001
            decision = await context.permit(tool.spec, input, call)
            if not decision.allow:
                reason = decision.reason or "a permission rule refused it"
                context.emit(PermissionRefused(tool=name, reason=reason))
                return _refused(f"{name} was not permitted: {reason}")
            call.withheld = decision.withheld
            return await tool.run(input, call)
        except RefusedError as error:
            return _refused(str(error))
        except LaminaError as error:
            return _failed(str(error))
        except Exception as error:  # noqa: BLE001 - a host's tool may raise anything; it is booked
            complaint = f"{name} failed: {_one_line(error)}"
            context.emit(Warned(complaint))
            return _failed(complaint)
        finally:
            if call.cwd != started_in:
                context.cwd = call.cwd  # where a command's cd left us
            if call.held is not None:
                call.held.close()


def _failed(sentence: str) -> ToolOutcome:
    """An outcome that tells the model what went wrong."""
    return ToolOutcome(sentence, is_error=True)


def _refused(sentence: str) -> ToolOutcome:
    """The same where it was a rule that said no."""
    return ToolOutcome(sentence, is_error=True, meta={"decision": "refuse", "reason": sentence})


def _one_line(error: Exception) -> str:
    words = " ".join(str(error).split())
    shown = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return shown if len(shown) <= LONGEST_COMPLAINT else shown[: LONGEST_COMPLAINT - 1] + "…"


def builtin_tools(
    bash_seconds: float = 120, bash_most: float = 600, *, snips: bool = True
) -> list[Tool]:
    """The tools that every session has, in the order in which the model is told of them."""
    from lamina.tools.bash import Bash
    from lamina.tools.glob import Glob
    from lamina.tools.grep import Grep
    from lamina.tools.read_write import Edit, Read, Write
    from lamina.tools.view_tools import Expand, Snip, Todo

    tools: list[Tool] = [Read(), Write(), Edit(), Grep(), Glob(), Bash(bash_seconds, bash_most)]
    return [*tools, Todo(), Expand(), *([Snip()] if snips else [])]


# ---- does an input fit a JSON schema?

DEEPEST = 64  # levels of nesting, so that no input can exhaust the stack
MOST_PROBLEMS = 8

_TYPES: dict[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}

_DOES = {
    "Read": "Reading", "Write": "Writing", "Edit": "Editing", "Grep": "Searching for",
    "Glob": "Looking for", "Bash": "Running", "Agent": "Starting", "SendMessage": "Writing to",
}  # fmt: skip
_ABOUT = ("file_path", "pattern", "command", "name", "to", "path", "query")


def words_for(tool: str, input_: Mapping[str, Any]) -> str:
    """What a tool call does, in a few words: `Reading runner.py`."""
    about = next((str(input_[key]) for key in _ABOUT if input_.get(key)), "")
    if "/" in about and " " not in about:
        about = about.rstrip("/").rpartition("/")[2]
    words = " ".join(about.split()[:3])
    return f"{_DOES.get(tool, f'Using {tool} on' if words else f'Using {tool}')} {words}".strip()


def problems(schema: Json, value: object) -> list[str]:
    """What is wrong with the value, one sentence each; an empty list means that it fits."""
    return list(islice(_check(schema, value, "", schema, 0), MOST_PROBLEMS))


def _check(schema: object, value: object, where: str, root: Json, depth: int) -> Iterator[str]:
    if schema is False:
        yield f"{_named(where)} is not allowed"
    if not isinstance(schema, dict):
        return
    if depth > DEEPEST:
        yield f"{_named(where)} is nested too deeply"
        return
    rules = cast("Json", schema)
    if isinstance(reference := rules.get("$ref"), str):
        yield from _check(_resolve(reference, root), value, where, root, depth + 1)
    wrong_type = list(_check_type(rules, value, where))
    if wrong_type:
        yield from wrong_type
        return
    yield from _check_choice(rules, value, where, root, depth)
    if isinstance(value, dict):
        yield from _check_object(rules, cast("Json", value), where, root, depth)
    elif isinstance(value, list):
        items = cast("list[object]", value)
        yield from _check_limits("Items", rules, len(items), where)
        for index, item in enumerate(items):
            yield from _check(rules.get("items", True), item, f"{where}[{index}]", root, depth + 1)
    elif isinstance(value, str):
        yield from _check_limits("Length", rules, len(value), where)
    elif _TYPES["number"](value):
        yield from _check_limits("imum", rules, cast("float", value), where)


def _check_type(rules: Json, value: object, where: str) -> Iterator[str]:
    wanted: object = rules.get("type")
    if isinstance(wanted, str):
        names = [wanted]
    elif isinstance(wanted, list):
        names = [str(name) for name in cast("list[object]", wanted)]
    else:
        return
    known = [name for name in names if name in _TYPES]
    if known and not any(_TYPES[name](value) for name in known):
        yield f"{_named(where)} must be {' or '.join(known)}, not {_type_name(value)}"


def _check_choice(rules: Json, value: object, where: str, root: Json, depth: int) -> Iterator[str]:
    choices: object = rules.get("enum")
    if isinstance(choices, list) and not any(
        _same(value, c) for c in cast("list[object]", choices)
    ):
        shown = ", ".join(_shown(choice) for choice in cast("list[object]", choices)[:20])
        yield f"{_named(where)} must be one of {shown}, not {_shown(value)}"
    if "const" in rules and not _same(value, rules["const"]):
        yield f"{_named(where)} must be {_shown(rules['const'])}, not {_shown(value)}"
    for part in _list_of(rules, "allOf"):
        yield from _check(part, value, where, root, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        options = _list_of(rules, keyword)
        if not options:
            continue
        misses = [list(_check(option, value, where, root, depth + 1)) for option in options]
        if all(misses):
            yield min(misses, key=len)[0] + " (no other permitted form fits either)"


def _check_object(rules: Json, value: Json, where: str, root: Json, depth: int) -> Iterator[str]:
    properties = cast("Json", rules.get("properties") or {})
    for name in _list_of(rules, "required"):
        if name not in value:
            yield f"{_named(_below(where, str(name)))} is missing"
    rest: object = rules.get("additionalProperties", True)
    for name, item in value.items():
        if name in properties:
            yield from _check(properties[name], item, _below(where, name), root, depth + 1)
        elif rest is False:
            known = ", ".join(properties) or "none"
            yield f"{_named(_below(where, name))} is not known (known: {known})"
        else:
            yield from _check(rest, item, _below(where, name), root, depth + 1)


# Keyword → what breaks the limit, and what is said then.
_LIMITS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "minItems": (lt, "needs at least {limit:g} items, and has {size}"),
    "maxItems": (gt, "may have at most {limit:g} items, and has {size}"),
    "minLength": (lt, "needs at least {limit:g} characters"),
    "maxLength": (gt, "may have at most {limit:g} characters"),
    "minimum": (lt, "must be at least {limit:g}, not {size:g}"),
    "maximum": (gt, "must be at most {limit:g}, not {size:g}"),
    "exclusiveMinimum": (le, "must be above {limit:g}, not {size:g}"),
    "exclusiveMaximum": (ge, "must be below {limit:g}, not {size:g}"),
}


def _check_limits(ending: str, rules: Json, size: float, where: str) -> Iterator[str]:
    """By the keywords that end so."""
    for keyword, (breaks, sentence) in _LIMITS.items():
        limit: Any = rules.get(keyword) if keyword.endswith(ending) else None
        if _TYPES["number"](limit) and breaks(size, limit):
            yield f"{_named(where)} {sentence.format(limit=limit, size=size)}"


def _list_of(rules: Json, keyword: str) -> list[object]:
    value: object = rules.get(keyword)
    return cast("list[object]", value) if isinstance(value, list) else []


def _resolve(reference: str, root: Json) -> object:
    """A local reference (`#/$defs/Name`); one that leads nowhere permits anything."""
    if not reference.startswith("#"):
        return True
    found: Any = root
    for part in reference[1:].split("/")[1:]:
        if not isinstance(found, dict):
            return True
        found = cast("Json", found).get(part.replace("~1", "/").replace("~0", "~"), True)
    return found


def _same(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _named(where: str) -> str:
    return f"`{where}`" if where else "the input"


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "…"


def _type_name(value: object) -> str:
    return next((name for name, fits in _TYPES.items() if fits(value)), type(value).__name__)
