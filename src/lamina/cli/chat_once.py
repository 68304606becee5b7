"""One question and its answer: text on stdout, or one JSON object, or every event as a line of JSON.
Remarks go to stderr. Opens one session.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import anyio

from lamina.cli.chat_events import line_of
from lamina.cli.main import DONE, FAILED, INTERRUPTED, REFUSED
from lamina.cli.terminal import harmless, note, out, out_json, style, width, wrapped
from lamina.events import Event, ToolFinished
from lamina.session import Reply, Session

_ENDS = {"end_turn": DONE, "max_tokens": DONE, "stopped by a hook": DONE, "cancelled": INTERRUPTED}
_KEEPS = ("Remember", "Forget")


def ask_once(args: argparse.Namespace, wish: dict[str, Any], prompt: str, pasted: str) -> int:
    reply = anyio.run(_ask, args, wish, prompt, pasted)
    if reply.stop in ("end_turn", "unanswered") and _refused(reply.events):
        return REFUSED
    return _ENDS.get(reply.stop, FAILED)


def _refused(events: Sequence[Event]) -> bool:
    """Was the last thing tried refused, or the last wish to remember or forget? A model may well find
    another way after a refusal; then the answer is what counts."""
    calls = [event for event in events if isinstance(event, ToolFinished)]
    last = {call.name: call for call in calls}
    return any(call.refused for call in (*calls[-1:], *(last[n] for n in _KEEPS if n in last)))


async def _ask(args: argparse.Namespace, wish: dict[str, Any], prompt: str, pasted: str) -> Reply:
    def hear(event: Event) -> None:
        if args.stream_json:
            out_json(event.to_json(), pretty=False)
            sys.stdout.flush()
        elif not args.quiet and (line := line_of(event)):
            if event.kind == "warned":
                note(f"lamina: {line.text}")
            elif sys.stderr.isatty():
                note(style(line.text, line.style, sys.stderr))

    async with Session.open(**wish, on_event=hear) as session:
        reply = await session.ask(prompt, pasted=pasted)
        if not args.stream_json:
            _show(args, session.id, reply)  # before the background is waited for
    if args.stream_json:  # there the result ends the stream of events
        _show(args, session.id, reply)
    return reply


def _show(args: argparse.Namespace, session_id: str, reply: Reply) -> None:
    result = {
        "session": session_id,
        "text": reply.text,
        "stop": reply.stop,
        "usage": reply.usage.to_json(),
    }
    if args.stream_json:
        out_json({"kind": "result", **result}, pretty=False)
    elif args.json:
        out_json({**result, "events": [event.to_json() for event in reply.events]})
    else:
        out(_for_terminal(reply.text) if sys.stdout.isatty() else reply.text)
    sys.stdout.flush()


def _for_terminal(text: str) -> str:
    return wrapped(harmless(text), width())
