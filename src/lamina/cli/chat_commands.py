"""What can be typed in a conversation besides messages: the slash commands, and the table that
names them. They look at the session, write memories as the user's own word (through the store's
gate), or tell the conversation what to do next.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from lamina.agents import plan, summary
from lamina.cli import sessions, transcript
from lamina.cli.agents import HEADING, present_row, row
from lamina.cli.chat_events import on_ctrl_c
from lamina.cli.context import parts_of
from lamina.cli.dream import running, stop
from lamina.cli.memory_reports import show_recalls, told_as
from lamina.cli.sessions import compaction_sentence
from lamina.cli.terminal import harmless, note, one_line, out, plural, style, table, width, wrapped
from lamina.config import Config
from lamina.config.table import NO_MODEL
from lamina.errors import LaminaError, UsageError
from lamina.layers import dream
from lamina.layers.dream.record import DreamRecord
from lamina.local.extractor import kind_of
from lamina.memories import Forgotten, Outcome
from lamina.memory import and_kept_away, not_forgotten, proposed
from lamina.ports import MemoryStore
from lamina.recall.memory_index import MemoryIndex, fitting
from lamina.recall.why import recalls_of, turns_of
from lamina.session import Session
from lamina.state import State
from lamina.text.asks import forget_wish


@dataclass(frozen=True, slots=True)
class Next:
    """What the conversation does then."""

    leave: bool = False  # this session …
    wish: dict[str, Any] | None = None  # … for another; {}: a new one; None: end
    model: str = ""  # for the sessions that follow too


Handler = Callable[["Session", str], Awaitable[Next | None]]


@dataclass(frozen=True, slots=True)
class SlashCommand:
    run: Handler
    help: str
    argument: str = ""


async def run_command(session: Session, line: str) -> Next | None:
    """Run `/name argument`. UsageError if there is no such command."""
    name, _, argument = line.partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"Did you mean {near[0]}?" if near else "/help lists them."
        raise UsageError(f"There is no command {name}. {hint}")
    return await command.run(session, argument.strip())


_WITHOUT_A_MODEL = (
    "  Without a model: state what should be kept, remember that …, what do you know about …, forget "
    "that …; read FILE, list *.py, search for WORDS, where is … handled?, what does this project do?; "
    "run COMMAND, ls, git status."
)


async def _help(session: Session, argument: str) -> None:  # noqa: ARG001 - all take the same
    names = [f"{name} {command.argument}".rstrip() for name, command in COMMANDS.items()]
    wide, room = max(map(len, names)), width()
    beside = room >= wide + 30  # else a command's help goes below its name
    for name, command in zip(names, COMMANDS.values(), strict=True):
        pad = " " * (wide + 2 - len(name)) if beside else "\n      "
        lines = wrapped(f"  {name}{pad}{command.help}", room, wide + 4 if beside else 6)
        out(lines.replace(name, style(name, "bold"), 1))
    keys = "  Enter sends; Alt-Enter, Ctrl-J or a \\ at the end of a line starts a new line."
    out(wrapped(keys, room))
    out(wrapped("  Ctrl-C stops the answer, Ctrl-D leaves.", room))
    if session.status().model == NO_MODEL:
        out(wrapped(_WITHOUT_A_MODEL, room))


# ---- which session, which model


async def _clear(session: Session, argument: str) -> Next:  # noqa: ARG001
    return Next(leave=True, wish={})


async def _exit(session: Session, argument: str) -> Next:  # noqa: ARG001
    return Next(leave=True)


async def _model(session: Session, argument: str) -> Next | None:
    if argument:
        await session.set_model(argument)
    out(f"  The model is {harmless(session.status().model)}.")
    return Next(model=argument) if argument else None


async def _resume(session: Session, argument: str) -> Next | None:
    """With an id that session; without, the list to choose from."""
    files = [file for file in sessions.find(session.config) if file.stem != session.id]
    if argument:
        file = sessions.choose(files, argument)
        return Next(leave=True, wish={"session_id": file.stem, "resume": True})
    if not files:
        note("  There is no other session here.")
        return None
    for file in files[:10]:
        row = transcript.summary(file)
        changed = row["changed"][:16].replace("T", " ")
        title = one_line(row["title"], max(20, width() - 30))
        out(f"  {style(row['id'][:8], 'bold')}  {changed}  {title}")
    out("  /resume ID continues one of them.")
    return None


async def _context(session: Session, argument: str) -> None:  # noqa: ARG001
    status = session.status()
    share = 100 * status.tokens / status.window if status.window else 0
    out(f"  {status.tokens:,} of {status.window:,} tokens ({share:.0f}%)")
    parts = parts_of(session.ledger).items()
    out(table([[f"    {name}", f"{tokens:,}"] for name, tokens in parts if tokens]))


async def _compact(session: Session, argument: str) -> None:
    """Fold the conversation now; Ctrl-C stops it and leaves everything as it was."""
    async with on_ctrl_c(session.cancel):
        done = await session.compact(argument)
    out(wrapped(f"  {compaction_sentence(done)} /undo brings it back.", width()))


_ROUNDS = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6}))?(?:\s+(.*))?", re.DOTALL)


async def _snip(session: Session, argument: str) -> None:
    """`N`, or `N-M`, then what it was; without an argument the rounds are listed."""
    if not argument:
        for line in session.rounds():
            out(f"  {one_line(line, max(20, width() - 4))}")
        what = "rounds 2 to 4 (a question and its answer each)"
        hint = wrapped(f"  /snip 2-4 WHAT hides {what} from the model.", width(), 2)
        out(style(hint, "dim"))
        return
    found = _ROUNDS.fullmatch(argument)
    if found is None:
        raise UsageError("Say which rounds: /snip 2, or /snip 2-4 and what they were about.")
    first = int(found[1])
    before = session.status().tokens
    session.snip(first, int(found[2] or first), found[3] or "")
    out(f"  {before - session.status().tokens:,} tokens left the context. /undo brings them back.")


async def _undo(session: Session, argument: str) -> None:
    """Bring back the last fold, or the one with this id."""
    name = session.undo(argument)
    layer = next(e["layer"] for e in session.ledger.entries if e["uuid"] == name)
    tokens = session.status().tokens
    out(f"  Undone: {harmless(str(layer))}. The context has {tokens:,} tokens again.")


async def _memory(session: Session, argument: str) -> None:
    """Where memory is and what it holds, or the memories that fit some words."""
    store = _store(session)
    index = session.state.deps.memory_index or MemoryIndex(store)
    room = max(20, width() - 48)
    if argument:
        now = session.state.deps.clock.now()
        hits = await anyio.to_thread.run_sync(lambda: fitting(index, argument, 10, now))
        found = [memory for _, memory in hits]
    else:
        found = await anyio.to_thread.run_sync(store.list)
        waiting = len(store.waiting())
        inbox = f", {waiting} in the inbox (lamina memory inbox)" if waiting else ""
        many = plural(len(found), "memory", "memories")
        out(f"  {many} in {harmless(str(store.directory))}{inbox}")
    rows = [
        [f"  {one.type or '-'}", one_line(one.path, 36), one_line(told_as(one, one.name), room)]
        for one in found[:20]
    ]
    if rows:
        out(table(rows))
    elif argument:
        note("  Nothing found.")
    if len(found) > len(rows):
        out(f"  … and {len(found) - len(rows)} more: lamina memory list")


async def _remember(session: Session, argument: str) -> None:
    """Save this at once, as the user's own word."""
    if not argument:
        raise UsageError("Say what to remember: /remember I deploy from the host pelican")
    store = _store(session)

    def work() -> Outcome:
        proposal = proposed(argument, type=kind_of(argument), store=store, reason="/remember")
        return store.remember(replace(proposal, session=session.id))

    outcome = await anyio.to_thread.run_sync(work)
    if not outcome.changed:  # a change is told as an event
        out(f"  {harmless(outcome.sentence)}")
    for warning in outcome.warnings:
        note(f"  {harmless(warning)}")


_GONE = (
    "<system-reminder>\nThe user had the memory {path} forgotten. Don't use what it said, wherever "
    "it still stands in this conversation.\n</system-reminder>"
)
_PART_GONE = (
    "<system-reminder>\nThe user had a part of the memory {path} forgotten; what else it said is in "
    "{rest}. Don't use that part, wherever it still stands in this conversation.\n</system-reminder>"
)


async def _forget(session: Session, argument: str) -> None:
    """Forget the memory of this name, or the one that certainly fits some words, as the user."""
    if not argument:
        raise UsageError("Say what to forget: /forget user_role.md, or what the memory says.")
    wish = forget_wish(f"forget {argument}")  # "/forget that I …" and "/forget I …" mean the same
    words = wish.words if wish else argument
    store = _store(session)

    def work() -> Forgotten:
        found = store.meant(words)
        if found.fit == "certain":
            return store.forget_meant(
                found.memories[0],
                part=found.part,
                writer="user",
                session=session.id,
                reason="/forget",
            )
        told = not_forgotten(found, words, "`/forget NAME` forgets one of them.")
        claim = wish is not None and wish.claim and found.fit in ("near", "none")
        kept = claim and store.keep_away(words, found.memories)
        return and_kept_away(told) if kept else told

    done = await anyio.to_thread.run_sync(work)
    for line in done.sentence.splitlines():
        out(f"  {harmless(line)}")
    if done.path:
        # What was recalled of it, and its index line, may still stand in the view.
        text = _PART_GONE if done.rest else _GONE
        session.state.say(text.format(path=done.path, rest=done.rest), "system")


async def _dream(session: Session, argument: str) -> None:
    """Whether or not one is due; `--dry-run` changes nothing."""
    store = _store(session)
    if argument in ("status", "stop"):
        if argument == "stop":
            stop(store)
        for line in running(store) or ["No dream is running."]:
            out(f"  {line}")
        return
    if argument not in ("", "--dry-run"):
        raise UsageError(
            "/dream takes no argument, or status, stop, or --dry-run to only show what would change."
        )
    with anyio.CancelScope() as scope:
        async with on_ctrl_c(scope.cancel):
            done = await dream.run(session.state, apply=not argument)
        for line in done.diff.splitlines() if argument else ():
            out(f"  {harmless(line)}")
        if done.status not in ("completed", "nothing"):
            raise LaminaError(done.text)
        if argument or done.status == "nothing":
            out(f"  {harmless(done.text)}")  # what was improved is told as an event
        for doubt in done.step.doubtful:
            note(f"  doubtful: {harmless(doubt)}")
        for problem in done.problems:
            note(f"  not applied: {harmless(problem)}")
    if scope.cancelled_caught:
        note(f"  {harmless(str(DreamRecord(store.state).status().get('text', '')))}")


async def _why(session: Session, argument: str) -> None:
    """The recalls of a turn; with no number those of the last turn that had any."""
    found = recalls_of(session.ledger.entries)
    typed = turns_of(session.ledger.entries)
    if argument and not (argument.isdecimal() and 1 <= int(argument) <= typed):
        raise UsageError(f"/why takes the number of a message; you have typed {typed} so far.")
    turn = int(argument) if argument else max((one.turn for one in found), default=0)
    chosen = [one for one in found if one.turn == turn]
    show_recalls(chosen)
    if not chosen:
        which = "for that message" if argument else "yet"
        note(f"  Nothing was recalled {which}.")


_PLANNING: dict[str, tuple[Callable[[State], object], str]] = {
    "": (plan.begin, "Only reading is permitted until you approve a plan (/plan approve)."),
    "approve": (plan.approve, "The plan is approved. Tell the agent to go ahead."),
    "off": (plan.leave, "Everything is permitted as before."),
}


async def _plan(session: Session, argument: str) -> None:
    """Begin to plan, approve the last answer as the plan, or give it up."""
    if argument not in _PLANNING:
        raise UsageError("Use /plan to start one, /plan approve, or /plan off.")
    act, said = _PLANNING[argument]
    act(session.state)
    note(f"  {said}")


async def _agents(session: Session, argument: str) -> None:
    """The table; or stop one, or write to it: what is typed here is the user's own word."""
    agents = session.agents
    verb, _, rest = argument.partition(" ")
    name, _, words = rest.strip().partition(" ")
    if verb == "stop" and name:
        agent = agents.stop(name)
        note(f"  {harmless(agent.card.name)} is stopped.")
    elif verb == "send" and words.strip():
        if name in [word for one in agents for word in (one.card.name, one.card.id)]:
            await agents.resume(agents.find(name), words.strip(), "typed")
            note(f"  Sent to {harmless(name)}.")
        else:  # in another process it is nobody's typed word
            note(f"  {harmless(await agents.roads.send(name, words.strip()))}")
    elif argument:
        raise UsageError("/agents lists them; /agents stop NAME; /agents send NAME WORDS.")
    else:
        await summary.refresh(agents)
        now = session.state.deps.clock.now()
        doing = [(one.card, (one.line or one.doing) if one.running else "") for one in agents]
        rows = [row(*one, now) for one in doing]
        there = await anyio.to_thread.run_sync(agents.roads.others)
        rows += [present_row(one, now) for one in there if one.alive or one.type]
        out(table(rows, HEADING)) if rows else note("  No agent was started here.")


def _store(session: Session) -> MemoryStore:
    store = session.state.deps.memory
    if store is None:
        raise UsageError("Memory is off here. `lamina settings --explain` says why.")
    return store


COMMANDS: dict[str, SlashCommand] = {
    "/help": SlashCommand(_help, "show this list"),
    "/clear": SlashCommand(_clear, "start a new session; this one stays recorded"),
    "/context": SlashCommand(_context, "show what fills the context"),
    "/compact": SlashCommand(
        _compact, "replace the conversation so far by a summary", "[WHAT TO STRESS]"
    ),
    "/snip": SlashCommand(
        _snip, "list finished rounds, or hide some from the model", "[N[-M] [WHAT]]"
    ),
    "/undo": SlashCommand(_undo, "bring back what was compacted or snipped last", "[ID]"),
    "/memory": SlashCommand(
        _memory, "list what is remembered, or find what fits some words", "[WORDS]"
    ),
    "/remember": SlashCommand(_remember, "save this for later sessions", "TEXT"),
    "/forget": SlashCommand(_forget, "remove a memory so that it stays away", "NAME OR WORDS"),
    "/dream": SlashCommand(
        _dream,
        "tidy the memories now, or show what that would change; watch or end one",
        "[--dry-run | status | stop]",
    ),
    "/why": SlashCommand(_why, "say why memories were recalled, and if they were used", "[N]"),
    "/plan": SlashCommand(
        _plan, "only reading until you approve a plan: the last answer", "[approve | off]"
    ),
    "/agents": SlashCommand(
        _agents, "list the agents; stop one, or write to it", "[stop NAME | send NAME WORDS]"
    ),
    "/model": SlashCommand(_model, "show the model, or switch to another", "[NAME]"),
    "/resume": SlashCommand(_resume, "list earlier sessions, or continue one", "[ID]"),
    "/exit": SlashCommand(_exit, "leave"),
}


# ---- Tab

_MOST_OFFERED = 100  # names that Tab goes through


def completions(line: str, config: Config) -> Iterator[tuple[str, str]]:
    """What Tab offers at the end of a line, and the part of the line that it stands for: a command, its
    words, a session to continue, or a file of the project."""
    words = re.split(r"\s", line)
    typed = words[-1].lstrip("`'\"(")
    command = COMMANDS.get(words[0])
    if len(words) == 1 and line.startswith("/"):
        offered = [name for name in COMMANDS if name.startswith(line)]
    elif len(words) == 2 and words[0] == "/resume":
        offered = [file.stem for file in sessions.find(config)]
    elif command is not None and (known := re.findall(r"-*[a-z][a-z-]+", command.argument)):
        offered = known if len(words) == 2 else []
    else:
        offered = _files_from(config.project, typed)
    for one in [one for one in offered if one.startswith(typed)][:_MOST_OFFERED]:
        yield one, typed


def _files_from(project: Path, typed: str) -> list[str]:
    folder, name = os.path.split(typed)
    try:
        with os.scandir(project / folder) as found:
            names = sorted(one.name + "/" * one.is_dir() for one in found)
    except (OSError, ValueError):
        return []
    shown = [one for one in names if name.startswith(".") or not one.startswith(".")]
    return [os.path.join(folder, one) for one in shown]
