"""One question and its answer: text on stdout, or one JSON object, or every event as a line of JSON.
Remarks go to stderr. Opens one session.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import anyio

from lamina.cli.chat_events import line_of
from lamina.cli.main import DONE, FAILED, INTERRUPTED, REFUSED
from lamina.cli.terminal import harmless, note, out, out_json, style, width
from lamina.cli.wrapping import wrapped
from lamina.events import Event, ToolFinished
from lamina.session import Reply, Session

_ENDS = {
    "end_turn": DONE,
    "max_tokens": DONE,
    "stopped by a hook": DONE,
    "cancelled": INTERRUPTED,
    "refused": REFUSED,
}


def ask_once(args: argparse.Namespace, wish: dict[str, Any], prompt: str, pasted: str) -> int:
    return _ENDS.get(anyio.run(_ask, args, wish, prompt, pasted), FAILED)


async def _ask(args: argparse.Namespace, wish: dict[str, Any], prompt: str, pasted: str) -> str:
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
    return "refused" if _refused(session, reply) else reply.stop


def _refused(session: Session, reply: Reply) -> bool:
    """Was the wish not granted? A model finds its own way on; the rules have no other."""
    return session.state.deps.model.name == "none" and any(
        isinstance(event, ToolFinished) and event.name == "Remember" and event.is_error
        for event in reply.events
    )


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
