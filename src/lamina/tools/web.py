"""WebSearch and WebFetch: the host brings the function, or the user's settings a command; Lamina brings
the tool around it.

Lamina reaches no web itself. The names are fixed, since layer 2 clears old results of these two;
addresses are checked and answers bounded before the model sees them.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

import anyio.to_thread

from lamina.errors import ToolError
from lamina.messages import Json
from lamina.ports import Tool
from lamina.tools.functions import tool
from lamina.tools.process import Command, run_command

SECONDS = 60.0
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
                Command(given, cwd, env, SECONDS, 4 * LONGEST_PAGE, b"", False)
            )
        except (OSError, ValueError) as error:
            raise ToolError(f"The command {command!r} can't be run: {error}.") from error
        if done.timed_out:
            raise ToolError(f"The command {command!r} was ended after {SECONDS:g} seconds.")
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
        answer: Any = await _call(search, query)
        if isinstance(answer, str):
            return _cut(answer) or "Nothing was found."
        hits = [_hit(hit) for hit in list(cast("Sequence[Json]", answer))[:MOST_HITS]]
        return "\n\n".join(hits) or "Nothing was found."

    return run


def web_fetch(fetch: Fetch) -> Tool:
    """A WebFetch tool around the host's fetch, which returns a page as text."""

    @tool(name="WebFetch", clearable=True)
    async def run(url: Annotated[str, "http or https."]) -> str:
        """Shows the text of a web page."""
        check_address(url)
        return _cut(str(await _call(fetch, url))) or "The page has no text."

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


async def _call(function: Callable[[str], Any], argument: str) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(argument)
    call = partial(function, argument)
    result = await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
    return await result if inspect.isawaitable(result) else result


def _hit(hit: Json) -> str:
    title, url = str(hit.get("title") or hit.get("url") or ""), str(hit.get("url") or "")
    snippet = " ".join(str(hit.get("snippet") or "").split())[:LONGEST_SNIPPET]
    return "\n".join(line for line in (f"{title} <{url}>", snippet) if line)


def _cut(words: str) -> str:
    if len(words) <= LONGEST_PAGE:
        return words
    return f"{words[:LONGEST_PAGE]}\n\n[… {len(words) - LONGEST_PAGE:,} more characters]"
