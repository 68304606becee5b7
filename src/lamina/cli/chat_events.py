"""A session's events as lines for a person: what a tool does, what a layer did, what went wrong.
Events without a row in the table are not shown, or are shown elsewhere. Also what Ctrl-C does
meanwhile.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from lamina import events
from lamina.cli.terminal import harmless, one_line, plural
from lamina.errors import alone


@asynccontextmanager
async def on_ctrl_c(
    stop: Callable[[], object], meanwhile: Callable[[], Coroutine[Any, Any, None]] | None = None
) -> AsyncGenerator[None]:
    """Inside, Ctrl-C calls `stop`, and `meanwhile` runs beside it. What goes wrong inside comes out as it
    was raised."""
    try:
        async with anyio.create_task_group() as group:
            with anyio.open_signal_receiver(signal.SIGINT) as signals:

                async def listen() -> None:
                    async for _ in signals:
                        stop()

                group.start_soon(listen)
                if meanwhile is not None:
                    group.start_soon(meanwhile)
                yield
                group.cancel_scope.cancel()
    except BaseExceptionGroup as error:
        raise alone(error) from None


WIDEST = 100


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    style: str = "dim"


def line_of(event: events.Event) -> Line | None:
    """One line, or None."""
    make = _LINES.get(type(event))
    return make(event) if make is not None else None


def _remembered(event: events.MemoryUpdated) -> Line | None:
    if event.writer == "dream":
        return None  # it says itself how much it improved
    told = [
        f"{what}: {', '.join(map(harmless, files))}"
        for what, files in (("updated", event.files), ("removed", event.removed))
        if files
    ]
    said = event.writer == "user" and not event.files  # `/forget` says itself what went
    return None if said or not told else Line(f"  Memory {'; '.join(told)}", "green")


def _dreamt(event: events.DreamChanged) -> Line | None:
    if event.status != "completed" or event.phase != "updating":
        return None
    return Line(f"  dream: {_cut(event.text)} `lamina dream diff` shows it.", "green")


def adopted(count: int, by: str = "") -> str:
    """What is said at first sight of a directory that others filled."""
    many = plural(count, "memory", "memories")
    return f"Found {many} {by or 'that Lamina did not write'}; now tracked."


def _failed(what: str, why: str = "") -> Line:
    return Line(f"  {what} failed" + (f": {_cut(why)}" if why else ""), "yellow")


def _saved(tokens: int) -> str:
    return f", {tokens:,} tokens saved" if tokens else ""


_LINES: dict[type[events.Event], Callable[[Any], Line | None]] = {
    events.ToolStarted: lambda e: Line(f"• {called(e)}", "cyan"),
    events.ToolFinished: lambda e: (
        _failed(e.name, e.why)
        if e.is_error
        else Line(f"  {_cut(e.why)}", "yellow")
        if e.why
        else None
    ),
    events.PermissionRefused: lambda e: Line(f"  {e.tool} refused: {_cut(e.reason)}", "yellow"),
    events.Warned: lambda e: Line(harmless(e.message), "yellow"),
    events.Retrying: lambda e: Line(f"  trying again in {e.delay:.0f} s: {_cut(e.reason)}"),
    events.StreamRestarted: lambda e: Line(f"  the answer starts again: {_cut(e.reason)}"),
    events.LayerActed: lambda e: Line(f"  {e.layer}: {_cut(e.what)}{_saved(e.tokens_saved)}"),
    events.LayerFailed: lambda e: _failed(e.layer, e.error),
    events.PromptRecovered: lambda e: Line(f"  the prompt was too long: {_cut(e.how)}"),
    events.CacheBroke: lambda e: (
        None if e.registered else Line(f"  the prompt cache broke: {_cut(e.cause)}")
    ),
    events.AgentChanged: lambda e: Line(f"  {e.name} ({e.type}) {e.status}: {_cut(e.detail)}"),
    events.MemoryUpdated: _remembered,
    events.MemoryAdopted: lambda e: Line(f"  {adopted(len(e.files))}"),
    events.MemoryRecalled: lambda e: Line(f"  recalled: {', '.join(map(harmless, e.files))}"),
    events.DreamChanged: _dreamt,
    events.BackgroundChanged: lambda e: _failed(e.task, e.detail) if e.state == "failed" else None,
}

# Of a tool's input, what says most about the call.
_TELLING = ("command", "file_path", "path", "pattern", "query", "url", "description", "prompt")


def called(event: events.ToolStarted) -> str:
    given = [*(event.input.get(name) for name in _TELLING), *event.input.values()]
    about = next((value for value in given if isinstance(value, str)), "")
    return f"{event.name} {_cut(about)}".rstrip()


def _cut(text: str) -> str:
    return one_line(text, WIDEST)
