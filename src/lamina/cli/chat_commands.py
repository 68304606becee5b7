"""What can be typed in a conversation beside messages: one table of slash commands. A layer's command
is one more line in it. They look at the session or tell the conversation what to do next.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lamina.cli.terminal import harmless, note, one_line, out, style, table, width, wrapped
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.session import Session


@dataclass(frozen=True, slots=True)
class Leave:
    """End the conversation."""


@dataclass(frozen=True, slots=True)
class Switch:
    """Go on with another session; with no wish, a new one."""

    wish: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Use:
    """Stay, and use this model for the sessions that follow too."""

    model: str


Next = Leave | Switch | Use | None
Handler = Callable[["Session", str], Awaitable[Next]]


@dataclass(frozen=True, slots=True)
class SlashCommand:
    run: Handler
    help: str
    argument: str = ""


async def run_command(session: Session, line: str) -> Next:
    """Run `/name argument`. UsageError if there is no such command."""
    name, _, argument = line.partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"Did you mean {near[0]}?" if near else "/help lists them."
        raise UsageError(f"There is no command {name}. {hint}")
    return await command.run(session, argument.strip())


async def _help(session: Session, argument: str) -> Next:  # noqa: ARG001 - all take the same
    names = [f"{name} {command.argument}".rstrip() for name, command in COMMANDS.items()]
    wide, room = max(map(len, names)), width()
    beside = room >= wide + 30  # else a command's help goes below its name
    for name, command in zip(names, COMMANDS.values(), strict=True):
        pad = " " * (wide + 2 - len(name)) if beside else "\n      "
        lines = wrapped(f"  {name}{pad}{command.help}", room, wide + 4 if beside else 6)
        out(lines.replace(name, style(name, "bold"), 1))
    keys = "  Enter sends; Alt-Enter, Ctrl-J or a \\ at the end of a line starts a new one."
    out(wrapped(keys, width()))
    out(wrapped("  Ctrl-C stops the answer, Ctrl-D leaves.", width()))
    return None


async def _clear(session: Session, argument: str) -> Next:  # noqa: ARG001
    return Switch()


async def _exit(session: Session, argument: str) -> Next:  # noqa: ARG001
    return Leave()


async def _model(session: Session, argument: str) -> Next:
    if argument:
        await session.set_model(argument)
    out(f"  The model is {harmless(session.status().model)}.")
    return Use(argument) if argument else None


async def _resume(session: Session, argument: str) -> Next:
    """With an id that session; without, the list to choose from."""
    from lamina.cli import sessions, transcript

    files = [file for file in sessions.find(session.config) if file.stem != session.id]
    if argument:
        file = sessions.choose(files, argument)
        return Switch({"session_id": file.stem, "resume": True})
    if not files:
        note("  There is no other session here.")
        return None
    for file in files[:10]:
        row = transcript.summary(file)
        title = one_line(row["title"], max(20, width() - 32))
        out(f"  {style(row['id'][:8], 'bold')}  {row['changed']}  {title}")
    out("  /resume ID goes on with one of them.")
    return None


async def _context(session: Session, argument: str) -> Next:  # noqa: ARG001
    from lamina.cli.context import parts_of

    status = session.status()
    share = 100 * status.tokens / status.window if status.window else 0
    out(f"  {status.tokens:,} of {status.window:,} tokens ({share:.0f}%)")
    parts = parts_of(session.ledger).items()
    out(table([[f"    {name}", f"{tokens:,}"] for name, tokens in parts if tokens]))
    return None


def _in(module: str, name: str) -> Handler:
    """A command of a sibling module, which is loaded when the command is first used."""

    async def run(session: Session, argument: str) -> Next:
        from importlib import import_module

        await getattr(import_module(f"lamina.cli.{module}"), name)(session, argument)
        return None

    return run


COMMANDS: dict[str, SlashCommand] = {
    "/help": SlashCommand(_help, "this list"),
    "/clear": SlashCommand(_clear, "start a new session; this one stays recorded"),
    "/context": SlashCommand(_context, "what fills the context"),
    "/compact": SlashCommand(
        _in("chat_actions", "compact"), "fold the conversation into a summary", "[WHAT TO STRESS]"
    ),
    "/snip": SlashCommand(
        _in("chat_actions", "snip"), "list finished rounds, or take some out", "[N[-M] [WHAT]]"
    ),
    "/undo": SlashCommand(_in("chat_actions", "undo"), "bring back what was folded last", "[ID]"),
    "/memory": SlashCommand(
        _in("chat_actions", "memory"), "what is remembered, or what fits some words", "[WORDS]"
    ),
    "/remember": SlashCommand(
        _in("chat_actions", "remember"), "save this for later sessions", "TEXT"
    ),
    "/forget": SlashCommand(
        _in("chat_actions", "forget"), "remove a memory so that it stays away", "NAME OR WORDS"
    ),
    "/dream": SlashCommand(
        _in("chat_actions", "dream"),
        "tidy the memories now, or show what that would change",
        "[--dry-run]",
    ),
    "/why": SlashCommand(
        _in("chat_actions", "why"), "why memories were recalled, and if they were used", "[N]"
    ),
    "/model": SlashCommand(_model, "show the model, or go on with another", "[NAME]"),
    "/resume": SlashCommand(_resume, "list earlier sessions, or go on with one", "[ID]"),
    "/exit": SlashCommand(_exit, "leave"),
}
