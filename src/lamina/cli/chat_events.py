"""Events as lines for a person: what a tool does, what a layer did, what went wrong. One row an event
that is shown; the others are not, or are shown otherwise. Pure.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from lamina import events
from lamina.cli.terminal import harmless, one_line
from lamina.errors import alone


@asynccontextmanager
async def on_ctrl_c(stop: Callable[[], object]) -> AsyncGenerator[None]:
    """Inside, Ctrl-C calls `stop`. What goes wrong inside comes out as it was raised."""
    try:
        async with anyio.create_task_group() as group:
            with anyio.open_signal_receiver(signal.SIGINT) as signals:

                async def listen() -> None:
                    async for _ in signals:
                        stop()

                group.start_soon(listen)
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


def _started(event: events.ToolStarted) -> Line:
    return Line(f"• {event.name} {_about(event.input)}".rstrip(), "cyan")


def _finished(event: events.ToolFinished) -> Line | None:
    return Line(f"  {event.name} failed", "yellow") if event.is_error else None


def _refused(event: events.PermissionRefused) -> Line:
    return Line(f"  {event.tool} refused: {_cut(event.reason)}", "yellow")


def _warned(event: events.Warned) -> Line:
    return Line(harmless(event.message), "yellow")


def _retrying(event: events.Retrying) -> Line:
    return Line(f"  trying again in {event.delay:.0f} s: {_cut(event.reason)}")


def _restarted(event: events.StreamRestarted) -> Line:
    return Line(f"  the answer starts again: {_cut(event.reason)}")


def _acted(event: events.LayerActed) -> Line:
    saved = f", {event.tokens_saved:,} tokens saved" if event.tokens_saved else ""
    return Line(f"  {event.layer}: {_cut(event.what)}{saved}")


def _layer_failed(event: events.LayerFailed) -> Line:
    return Line(f"  {event.layer} failed: {_cut(event.error)}", "yellow")


def _recovered(event: events.PromptRecovered) -> Line:
    return Line(f"  the prompt was too long: {_cut(event.how)}")


def _broke(event: events.CacheBroke) -> Line | None:
    return None if event.registered else Line(f"  the prompt cache broke: {_cut(event.cause)}")


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


def _adopted(event: events.MemoryAdopted) -> Line:
    return Line(f"  {adopted(len(event.files))}")


def adopted(count: int, by: str = "") -> str:
    """What is said at first sight of a directory that others filled."""
    many = "1 memory" if count == 1 else f"{count} memories"
    return f"Found {many} {by or 'that Lamina did not write'}; now tracked."


def _recalled(event: events.MemoryRecalled) -> Line:
    return Line(f"  recalled: {', '.join(map(harmless, event.files))}")


def _dreamt(event: events.DreamChanged) -> Line | None:
    done = event.status == "completed" and event.phase == "updating"
    return (
        Line(f"  dream: {_cut(event.text)} `lamina dream diff` shows it.", "green")
        if done
        else None
    )


def _background(event: events.BackgroundChanged) -> Line | None:
    failed = event.state == "failed"
    return Line(f"  {event.task} failed: {_cut(event.detail)}", "yellow") if failed else None


_LINES: dict[type[events.Event], Callable[[Any], Line | None]] = {
    events.ToolStarted: _started,
    events.ToolFinished: _finished,
    events.PermissionRefused: _refused,
    events.Warned: _warned,
    events.Retrying: _retrying,
    events.StreamRestarted: _restarted,
    events.LayerActed: _acted,
    events.LayerFailed: _layer_failed,
    events.PromptRecovered: _recovered,
    events.CacheBroke: _broke,
    events.MemoryUpdated: _remembered,
    events.MemoryAdopted: _adopted,
    events.MemoryRecalled: _recalled,
    events.DreamChanged: _dreamt,
    events.BackgroundChanged: _background,
}

# Of a tool's input, what says most about the call.
_TELLING = ("command", "file_path", "path", "pattern", "query", "url", "description", "prompt")


def _about(given: dict[str, Any]) -> str:
    for name in _TELLING:
        if isinstance(given.get(name), str):
            return _cut(given[name])
    texts = [value for value in given.values() if isinstance(value, str)]
    return _cut(texts[0]) if texts else ""


def _cut(text: str) -> str:
    return one_line(text, WIDEST)
