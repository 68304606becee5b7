"""A host's own tools: `tool` turns a Python function with type hints and a docstring into one.

The hints become the JSON schema (by msgspec: plain types, Literal, Enum, dataclasses, TypedDict,
Annotated), the docstring the description. Functions that are not async run in a thread.

WebSearch and WebFetch are made likewise, of the host's function or of a command in the user's
settings: Lamina reaches no web itself. Their names are fixed, since layer 2 clears old results of
these two; addresses are checked and answers bounded before the model sees them.
"""

from __future__ import annotations

import copy
import inspect
import json
import re
import shlex
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Generic, ParamSpec, TypeVar, cast, overload
from urllib.parse import urlsplit

import anyio.to_thread
import msgspec

from lamina.errors import ToolError, UsageError
from lamina.messages import Block, Json
from lamina.ports import Tool, ToolContext, ToolOutcome, ToolSpec
from lamina.tools.process import Command, run_command

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ARGUMENT = re.compile(r"^\s*(\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(.+)$")
_SECTIONS = re.compile(r"(?m)^\s*(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?):\s*$")

Function = Callable[..., Any]
_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


@overload
def tool(function: Callable[_Given, _Made], /) -> FunctionTool[_Given, _Made]: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    clearable: bool = False,
    read_only: bool = False,
    threshold: int | None = None,
    parallel: bool = True,
) -> Callable[[Callable[_Given, _Made]], FunctionTool[_Given, _Made]]: ...
def tool(function: Function | None = None, /, **options: Any) -> Any:
    """Make a tool of a function: `@tool`, or `@tool(name=…, clearable=True, …)`. It can still be
    called as the function that it was.

    A parameter annotated with ToolContext receives the context and is not shown to the model."""
    if function is None:
        return partial(_make, **options)
    return _make(function)


def _make(
    function: Function, *, name: str = "", description: str = "", **options: Any
) -> FunctionTool[..., Any]:
    if not callable(function):
        raise UsageError(f"A {type(function).__name__} can't be a tool: give a function or a Tool.")
    name = name or getattr(function, "__name__", "")
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} can't name a tool: letters, digits, _ and -, at most 64.")
    about, arguments = _read_docstring(inspect.getdoc(function) or "")
    if not (description or about):
        raise UsageError(f"The tool {name} has no docstring: say what it does, the model reads it.")
    fields, context_name = _fields(function, name, arguments)
    struct = _struct(name, fields)
    spec = ToolSpec(name, description or about, _schema(struct, name), **options)
    return FunctionTool(spec, function, struct, tuple(n for n, _, _ in fields), context_name)


@dataclass(frozen=True, slots=True)
class FunctionTool(Generic[_Given, _Made]):
    """A function behind the port of a tool."""

    spec: ToolSpec
    function: Callable[_Given, _Made]
    struct: Any
    names: tuple[str, ...]
    context_name: str

    def __call__(self, *args: _Given.args, **named: _Given.kwargs) -> _Made:
        return self.function(*args, **named)

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        arguments = self._arguments(input)
        if self.context_name:
            arguments[self.context_name] = context
        return as_outcome(await called(self.function, **arguments))

    def _arguments(self, input: Json) -> dict[str, Any]:  # noqa: A002
        try:
            typed = msgspec.convert(input, self.struct)
        except msgspec.ValidationError as error:
            raise ToolError(
                f"{self.spec.name} was not run, its input does not fit: {error}."
            ) from error
        return {name: getattr(typed, name) for name in self.names}


async def called(function: Function, *args: Any, **named: Any) -> Any:
    """What a host's function returns, async or not. A thread can't be stopped; on cancellation it is
    left to end by itself."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **named)
    call = partial(function, *args, **named)
    result = await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
    return await result if inspect.isawaitable(result) else result


def as_outcome(result: object) -> ToolOutcome:
    """What a function returned, as a tool's outcome: text and blocks as they are, else JSON."""
    if isinstance(result, ToolOutcome):
        return result
    if result is None:
        return ToolOutcome("Done.")
    if isinstance(result, str):
        return ToolOutcome(result)
    if _is_blocks(result):
        return ToolOutcome(cast("list[Block]", result))
    try:
        built = msgspec.to_builtins(result, str_keys=True, enc_hook=str)
        return ToolOutcome(json.dumps(built, ensure_ascii=False))
    except (TypeError, ValueError) as error:
        raise ToolError(f"It returned a {type(result).__name__}, which is not JSON.") from error


def _is_blocks(result: object) -> bool:
    if not isinstance(result, list) or not result:
        return False
    items = cast("list[object]", result)
    return all(
        isinstance(item, dict) and cast("Json", item).get("type") in ("text", "image")
        for item in items
    )


def _fields(
    function: Function, name: str, arguments: dict[str, str]
) -> tuple[list[tuple[str, Any, Any]], str]:
    """The parameters that the model fills in, and the name of the one for the context."""
    hints = _hints(function, name)
    fields: list[tuple[str, Any, Any]] = []
    context_name = ""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
            parameter.POSITIONAL_ONLY,
        ):
            raise UsageError(f"The tool {name} takes {parameter}: name each parameter instead.")
        hint = hints.get(parameter.name)
        if hint is ToolContext:
            context_name = parameter.name
            continue
        if hint is None:
            raise UsageError(f"The parameter {parameter.name} of the tool {name} has no type.")
        about = _annotation(hint) or arguments.get(parameter.name, "")
        if about:
            hint = Annotated[hint, msgspec.Meta(description=about)]
        default = parameter.default
        fields.append(
            (parameter.name, hint, msgspec.NODEFAULT if default is parameter.empty else default)
        )
    return fields, context_name


def _hints(function: Function, name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise UsageError(
            f"A type of the tool {name} can't be found: {error}. Import it outside TYPE_CHECKING."
        ) from error


def _annotation(hint: Any) -> str:
    """`Annotated[int, "how many"]` describes its parameter."""
    if typing.get_origin(hint) is not Annotated:
        return ""
    return next((note for note in typing.get_args(hint)[1:] if isinstance(note, str)), "")


def _struct(name: str, fields: list[tuple[str, Any, Any]]) -> Any:
    # A default that can change is made anew for each call.
    def default(value: Any) -> Any:
        fresh = partial(copy.deepcopy, value)
        return (
            msgspec.field(default_factory=fresh) if isinstance(value, list | dict | set) else value
        )

    return msgspec.defstruct(
        f"{name}_input",
        [(field, hint, default(value)) for field, hint, value in fields],
        forbid_unknown_fields=True,
        kw_only=True,
    )


def _schema(struct: Any, name: str) -> Json:
    try:
        found, components = msgspec.json.schema_components((struct,), ref_template="#/$defs/{name}")
    except TypeError as error:
        raise UsageError(
            f"The tool {name} has a parameter without a JSON form: {error}."
        ) from error
    own = components.pop(str(next(iter(found))["$ref"]).removeprefix("#/$defs/"))
    own.pop("title", None)
    if components:
        own["$defs"] = components
    return own


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description, and what it says of each argument (`Args:`, one a line)."""
    parts = _SECTIONS.split(text)
    arguments: dict[str, str] = {}
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        if title not in ("Args", "Arguments", "Parameters"):
            continue
        last = ""
        for line in body.splitlines():
            if found := _ARGUMENT.match(line):
                last = found[1]
                arguments[last] = found[2].strip()
            elif last and line.strip():
                arguments[last] += f" {line.strip()}"
    return parts[0].strip(), arguments


# ---- the web

_WEB_SECONDS = 60.0
MOST_HITS = 20
LONGEST_SNIPPET = 500
LONGEST_PAGE = 100_000

# Hits are {"title", "url", "snippet"}; a text is shown as it is. Both kinds may be plain functions.
Search = Callable[[str], Awaitable[Sequence[Json] | str] | Sequence[Json] | str]
Fetch = Callable[[str], Awaitable[str] | str]


def by_command(command: str, cwd: Path, env: Mapping[str, str]) -> Fetch:
    """A search or fetch by the user's own command, which gets what is asked as its last argument."""

    async def run(argument: str) -> str:
        # A leading blank, so that no command takes the words of a model for one of its options.
        asked = f" {argument}" if argument.startswith("-") else argument
        try:
            given = [*shlex.split(command), asked]
            done = await run_command(
                Command(given, cwd, env, _WEB_SECONDS, 4 * LONGEST_PAGE, b"", False)
            )
        except (OSError, ValueError) as error:
            raise ToolError(f"The command {command!r} can't be run: {error}.") from error
        if done.timed_out:
            raise ToolError(f"The command {command!r} was ended after {_WEB_SECONDS:g} seconds.")
        if done.code:
            said = " ".join(done.err.whole().decode("utf-8", "replace").split())[:LONGEST_SNIPPET]
            raise ToolError(f"The command {command!r} failed (exit code {done.code}): {said}")
        return done.out.whole().decode("utf-8", "replace")

    return run


def web_search(search: Search) -> Tool:
    """A WebSearch tool around the host's search."""

    @tool(name="WebSearch", clearable=True)
    async def run(query: Annotated[str, "What to look for."]) -> str:
        """Searches the web. Returns titles, addresses and excerpts; read a page by WebFetch."""
        if not query.strip():
            raise ToolError("The query is empty.")
        answer: Any = await called(search, query)
        if isinstance(answer, str):
            return _page(answer) or "Nothing was found."
        hits = [_shown_hit(hit) for hit in list(cast("Sequence[Json]", answer))[:MOST_HITS]]
        return "\n\n".join(hits) or "Nothing was found."

    return run


def web_fetch(fetch: Fetch) -> Tool:
    """A WebFetch tool around the host's fetch, which returns a page as text."""

    @tool(name="WebFetch", clearable=True)
    async def run(url: Annotated[str, "http or https."]) -> str:
        """Shows the text of a web page."""
        check_address(url)
        return _page(str(await called(fetch, url))) or "The page has no text."

    return run


def check_address(url: str) -> None:
    """Refuse what is not a plain web address."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        raise ToolError(f"{url!r} is not an address: {error}.") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ToolError(f"{url!r} is not an address that begins with http:// or https://.")
    if parts.username or parts.password:
        raise ToolError("An address must not contain a user name or a password.")


def _shown_hit(hit: Json) -> str:
    title, url = str(hit.get("title") or hit.get("url") or ""), str(hit.get("url") or "")
    snippet = " ".join(str(hit.get("snippet") or "").split())[:LONGEST_SNIPPET]
    return "\n".join(line for line in (f"{title} <{url}>", snippet) if line)


def _page(words: str) -> str:
    if len(words) <= LONGEST_PAGE:
        return words
    return f"{words[:LONGEST_PAGE]}\n\n[… {len(words) - LONGEST_PAGE:,} more characters]"
