"""`lamina chat`: chooses the session and reads what is piped in; then a conversation in the
terminal (`chat_repl`), or one question and its answer for scripts and pipes.
"""

from __future__ import annotations

import argparse
import select
import sys
from itertools import islice
from typing import Any

import anyio

from lamina.cli import sessions
from lamina.cli.chat_events import line_of
from lamina.cli.main import DONE, FAILED, INTERRUPTED, REFUSED
from lamina.cli.options import choose_model, config_of, flag, option
from lamina.cli.terminal import (
    harmless,
    letters_of,
    note,
    out,
    out_json,
    picked,
    style,
    width,
    wrapped,
)
from lamina.config import Config
from lamina.config.table import NO_MODEL
from lamina.errors import LaminaError, UsageError
from lamina.events import Event, ToolFinished
from lamina.ledger import log
from lamina.machine import failing_as
from lamina.session import Reply, Session

EXAMPLES = """
lamina chat                              talk; /help lists what else you can type
lamina chat --continue                   continue the last session here
lamina chat -p "What does this project do?"
git diff | lamina chat -p "Review this change"
lamina chat -p "List the open tasks" --continue --json
lamina chat --model openai:gpt-6-luna
"""

LARGEST_INPUT = 20_000_000  # bytes that may be piped in
SECONDS_FOR_INPUT = 3.0  # with -p, how long a pipe may stay silent before it counts as empty


def add_arguments(parser: argparse.ArgumentParser) -> None:
    asking = "ask this, print the answer and exit"
    parser.add_argument("-p", "--print", metavar="PROMPT", dest="prompt", help=asking)
    flag(parser, "--stream-json", "with -p: print every event as a line of JSON")
    choose_model(parser, "anthropic:…, openai:…, gguf:…, scripted:…, none")
    old = parser.add_mutually_exclusive_group()
    flag(old, "--continue", "continue the last session here", dest="go_on")
    option(old, "--resume ID", "continue this session (its id or a prefix of it)")
    flag(parser, "--fork", "with --continue or --resume: continue a copy")
    flag(parser, "--bare", "work without memory")


def run(args: argparse.Namespace) -> int:
    if args.fork and not (args.go_on or args.resume):
        raise UsageError("--fork needs --continue or --resume: there is nothing to copy.")
    overrides: dict[str, Any] = {"model": args.model} if args.model else {}
    if args.bare:
        overrides["bare"] = True
    talk = args.prompt is None and sys.stdin.isatty() and not (args.json or args.stream_json)
    if not talk:
        # A script neither waits for a dream at its end nor pays for one that is cut short.
        overrides["dream.enabled"] = False
    config = config_of(args, **overrides)
    if config.str("model") == NO_MODEL and not config.bool("memory.inbox_all"):
        # What it says that it noted has to be kept; of what is only piped in nothing is.
        typed = talk or bool((args.prompt or "").strip())
        config = config.with_(**{"extraction.non_interactive": typed})
    if not config.project.is_dir():
        raise UsageError(f"The project {config.project} is not a directory.")
    wish: dict[str, Any] = {"config": config, **_which(args, config)}
    if talk:
        if not sys.stdout.isatty():
            raise UsageError(
                "A conversation needs a terminal. With -p the answer can go to a file or a pipe."
            )
        from lamina.cli import chat_repl

        return chat_repl.talk(wish, quiet=args.quiet)
    pasted = _piped(waits=args.prompt is None)
    if not (args.prompt or "").strip() and not pasted.strip():
        raise UsageError('There is nothing to ask: give -p "…", or pipe something in.')
    return ask_once(args, wish, args.prompt or "", pasted)


def _which(args: argparse.Namespace, config: Config) -> dict[str, Any]:
    """Which session: a new one, the last, or the one named."""
    if not (args.go_on or args.resume):
        return {}
    files = sessions.find(config)
    if args.go_on:  # one that was opened and left at once is not what the user means
        files = [*islice(filter(log.was_used, files), 1)] or files
    file = sessions.choose(files, args.resume or "")
    return {"session_id": file.stem, "resume": True, "fork": args.fork}


def _piped(*, waits: bool) -> str:
    """What was piped in. With -p, a pipe that nobody writes to must not hang the command."""
    if sys.stdin.isatty():
        return ""
    source = sys.stdin.buffer
    with failing_as(LaminaError, "Can't read what is piped in"):
        if not waits and not select.select([source], [], [], SECONDS_FOR_INPUT)[0]:
            note("lamina: Nothing came through the pipe in 3 seconds; continuing without it.")
            return ""
        content = source.read(LARGEST_INPUT + 1)
    if len(content) > LARGEST_INPUT:
        raise UsageError("More than 20 MB was piped in. Put it in a file and name the file.")
    return letters_of(content)


# ---- one question


_ENDS = {"end_turn": DONE, "max_tokens": DONE, "stopped by a hook": DONE, "cancelled": INTERRUPTED}
_KEEPS = ("Remember", "Forget")


def ask_once(args: argparse.Namespace, wish: dict[str, Any], prompt: str, pasted: str) -> int:
    reply = anyio.run(_ask, args, wish, prompt, pasted)
    # Was the last tool call refused, or the last wish to remember or forget, or does something wait for
    # the user? After any other refusal a model may well find another way: the answer counts then.
    calls = [event for event in reply.events if isinstance(event, ToolFinished)]
    last = {call.name: call for call in calls}
    waiting = [one for one in calls if one.why and not one.refused]
    refused = [one for one in (*calls[-1:], *(last[n] for n in _KEEPS if n in last)) if one.refused]
    if not (args.quiet or args.json or args.stream_json):
        for one in calls:  # a model need not say so, and its user must know
            moot = one.refused and one is not last[one.name]
            if one.why and not moot and one.why not in reply.text:
                more = " `lamina memory inbox` shows it." if one in waiting else ""
                note(f"lamina: {harmless(one.why)}{more}")
    if reply.stop in ("end_turn", "unanswered") and (refused or waiting):
        return REFUSED
    return _ENDS.get(reply.stop, FAILED)


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
            _show(args, session.id, reply)  # before waiting for background work
    if args.stream_json:  # the result ends the stream of events
        _show(args, session.id, reply)
    return reply


def _show(args: argparse.Namespace, session_id: str, reply: Reply) -> None:
    result = {"session": session_id, **picked(reply, "text stop"), "usage": reply.usage.to_json()}
    if args.stream_json:
        out_json({"kind": "result", **result}, pretty=False)
    elif args.json:
        out_json({**result, "events": [event.to_json() for event in reply.events]})
    else:
        out(wrapped(harmless(reply.text), width()) if sys.stdout.isatty() else reply.text)
    sys.stdout.flush()
