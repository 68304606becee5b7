"""`lamina agents`: agents as people see them. Those that sessions of this project started: listed, as a
tree, or one as a conversation; teammates and open sessions that can be written to; the agent types.
`start` is a teammate's process. Reads ledgers, mailboxes and type files; writes letters.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from lamina.agents.roster import KILLED, Card, ledger_path, live_card, look, read_cards
from lamina.agents.types import NAMED, AgentTypes, is_name, load_types
from lamina.cli import sessions, transcript
from lamina.cli.options import add_verb, choose_model, config_of, flag, hint, optional
from lamina.cli.terminal import harmless, note, out, out_json, style, table
from lamina.config import Config
from lamina.errors import LaminaError, UsageError
from lamina.events import Event
from lamina.ledger.log import read
from lamina.ledger.places import find_project_folder
from lamina.ports import Letter, Presence
from lamina.tools.registry import builtin_tools

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

EXAMPLES = """
lamina agents list                       those of the last session, and who else you can message
lamina agents list --watch               the same, every second
lamina agents list 3f2a                  those of the session whose id starts with this
lamina agents tree                       who started whom
lamina agents show anna                  one of them, as a conversation
lamina agents types                      what kinds of agents there are here
lamina agents start anna --type reviewer run an agent that others can message
lamina agents send anna "Look at main"   write to a teammate, or to an agent of the last session
lamina agents stop anna                  end one
"""
_ENDING = 10.0  # seconds that one that is told to stop may take


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = "list | tree | show | types | start | send | stop"
    verbs = parser.add_subparsers(dest="verb", metavar=names, required=True)
    listing = add_verb(verbs, "list", "list a session's agents, and who else you can message")
    tree = add_verb(verbs, "tree", "show which agent started which")
    for one in (listing, tree):
        optional(one, "session", "its id or a prefix (the last)")
    flag(listing, "--watch", "refresh every second")
    show = add_verb(verbs, "show", "print what an agent did, as a conversation")
    show.add_argument("agent", help="its name or id")
    show.add_argument("--session", default="", help="its session's id or a prefix (the last)")
    add_verb(verbs, "types", "list the agent types of this project and of your home")
    start = add_verb(verbs, "start", "run a teammate, an agent others can message, until stopped")
    start.add_argument("agent", help="its name: letters, digits, - and _")
    start.add_argument("--type", default="general", help="its agent type (general)")
    choose_model(start, "the model it works with")
    send = add_verb(verbs, "send", "write to a teammate, or to a running session's agent")
    send.add_argument("agent", help="its name, uds:PATH or bridge:ID")
    send.add_argument("words", nargs="+", help="what to say")
    stop = add_verb(verbs, "stop", "end a teammate, or a running session's agent")
    stop.add_argument("agent", help="its name or bridge:ID")


def run(args: argparse.Namespace) -> None:
    config = config_of(args)
    verbs = {"list": _list, "types": _types, "start": _start, "send": _send, "stop": _stop}
    if args.verb in verbs:
        return verbs[args.verb](args, config)
    folder = sessions.choose(sessions.find(config), args.session).with_suffix("")
    cards = [card for card, _ in live_cards(folder, present(config)[0], stays=False)]
    if args.verb == "show":
        return _show(args, folder, cards)
    if args.json:
        return out_json([card.to_json() for card in cards])
    return _tree(cards, "", "") if cards else note("This session started no agents.")


HEADING = ("name", "type", "state", "tokens", "cost", "age", "doing")


def row(card: Card, doing: str, now: float) -> tuple[str, ...]:
    age = (card.ended or now) - card.started if card.started else 0.0
    minutes = f"{age / 60:.0f} min" if age >= 90 else f"{max(0, age):.0f} s"
    cost = f"${card.dollars:.2f}" if card.dollars else ""
    about = (doing or card.reason or card.task)[:60]
    shown = (card.name, card.type, card.status, f"{card.tokens:,}", cost, minutes, about)
    return tuple(map(harmless, shown))


def _list(args: argparse.Namespace, config: Config) -> None:
    while True:
        there, problem = present(config)
        cards = _cards(args, config, there)
        if args.json:
            agents = [{**card.to_json(), "doing": doing} for card, doing in cards]
            out_json([*agents, *map(asdict, there)])
            return
        now = time.time()
        rows = [row(card, doing, now) for card, doing in cards]
        rows += [present_row(one, now) for one in there]
        text = table(rows, HEADING) if rows else "No agents here yet."
        if not args.watch or not sys.stdout.isatty():
            out(text) if rows else note(text)
            if problem:
                note(f"lamina: {harmless(problem)}")
            return
        out(f"\x1b[H\x1b[J{text}\n{style('Ctrl-C leaves.', 'dim')}")
        time.sleep(1)


def present(config: Config) -> tuple[list[Presence], str]:
    """Who has a mailbox; and why nobody can tell who is on the bridge."""
    from lamina.agents.roads import posts_of  # loads the session: `types` and `show` need none

    found: list[Presence] = []
    for post in posts_of(config, "user").values():
        try:
            found += [one for one in post.present() if one.alive or one.type]
        except LaminaError as error:
            return found, str(error)
        finally:
            post.close()
    return found, ""


def present_row(one: Presence, now: float) -> tuple[str, ...]:
    """A teammate or a session in the same table."""
    card = Card("", one.name, one.type or "session", one.alive * (one.line or one.address))
    card = replace(card, tokens=one.tokens, dollars=one.dollars, status="not running")
    card = replace(card, status=one.status, started=one.started) if one.alive else card
    return row(card, "", now)


def _cards(
    args: argparse.Namespace, config: Config, there: Sequence[Presence]
) -> list[tuple[Card, str]]:
    """The agents of a session, each with what it does while its session is open."""
    teammates = {one.session for one in there if one.type and not args.session}
    files = [one for one in sessions.find(config) if one.stem not in teammates]
    if not files and not args.session:
        return []
    folder = sessions.choose(files, args.session).with_suffix("")
    for name in [one.session for one in there if args.watch and one.alive]:
        look(folder.with_name(name))
    return live_cards(folder, there, stays=args.watch)


def live_cards(
    folder: Path, there: Sequence[Presence], *, stays: bool = True
) -> list[tuple[Card, str]]:
    """The agents of a session; what each does, while somebody has that session open. `stays`: it is
    shown for a while, so the session keeps it fresh."""
    open_ = any(one.alive and one.session == folder.name for one in there)
    if open_ and stays:
        look(folder)
    return [
        live_card(folder, one) if open_ and one.reason == KILLED else (one, "")
        for one in read_cards(folder)
    ]


# ---- writing to them


def _deliver(args: argparse.Namespace, config: Config, message: str | dict[str, str]) -> Presence:
    """To a teammate, else to an agent of a session that is open; says whose mailbox it was."""
    from lamina.agents.mailboxes import new_id
    from lamina.agents.roads import posts_of, whereabouts

    where, _, inner = args.agent.partition("#")
    folder = find_project_folder(config.own_home, config.project)
    posts = posts_of(config, "user")
    for one in present(config)[0]:
        cards = read_cards(folder / one.session) if one.alive and not one.type else ()
        if where in [name for card in cards for name in (card.name, card.id)]:
            where, inner = one.name, where
    try:
        send, one = whereabouts(posts, where)
        if not one.alive and not isinstance(message, str):
            raise UsageError(f"{args.agent} is not running.")
        send(Letter(new_id(), "user", "", message, inner))
    finally:
        for post in posts.values():
            post.close()
    return one


def _send(args: argparse.Namespace, config: Config) -> None:
    if not (words := " ".join(args.words).encode(errors="replace").decode()).strip():
        raise UsageError("There is nothing to send.")
    one = _deliver(args, config, words)
    hint(args, "Sent." if one.alive else f"Sent; {args.agent} will read it when it next starts.")


def _stop(args: argparse.Namespace, config: Config) -> None:
    name = _deliver(args, config, {"type": "stop"}).name
    until = time.monotonic() + _ENDING
    while any(one.alive and one.type and one.name == name for one in present(config)[0]):
        if time.monotonic() > until:
            raise LaminaError(f"{args.agent} was told to stop and has not done so yet.")
        time.sleep(0.02)
    hint(args, f"{args.agent} is stopped.")


# ---- being one


def _start(args: argparse.Namespace, config: Config) -> None:
    if not is_name(args.agent):
        raise UsageError(f"{args.agent!r} is not a valid name: {NAMED}.")
    given = {"agents.enabled": True, "agents.name": args.agent, "agents.serves": args.type}
    given |= {"model": args.model} if args.model else {}
    before = [one for one in present(config)[0] if one.name == args.agent]
    if before and before[0].alive:
        raise UsageError(f"{args.agent} is already running. Stop it first, or choose another name.")
    anyio.run(_serve, args, config.with_(**given), before[0].session if before else None)


async def _serve(args: argparse.Namespace, config: Config, session_id: str | None) -> None:
    from lamina.agents.teammates import Teammate
    from lamina.cli.chat_events import line_of
    from lamina.session import Session

    said: list[str] = []

    def hear(event: Event) -> None:
        if (line := line_of(event)) is not None and not args.quiet:
            note(harmless(line.text.strip()))
        if event.kind == "warned" and line is not None:
            said.append(line.text)

    async with Session.open(config=config, session_id=session_id, on_event=hear) as session:
        teammate = session.agents.roads
        if args.agent not in teammate.open_at or not isinstance(teammate, Teammate):
            raise UsageError(said[-1] if said else f"{args.agent} can't be reached.")

        async def watch(*, task_status: TaskStatus[None]) -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                task_status.started()  # whoever reads where it listens may stop it at once
                async for _ in signals:
                    teammate.end()

        async with anyio.create_task_group() as tasks:
            await tasks.start(watch)
            roads = ", ".join(teammate.open_at)
            note(f"{args.agent} ({args.type}) is listening at {roads}. Ctrl-C stops it.")
            await teammate.serve()
            tasks.cancel_scope.cancel()


def _tree(cards: Sequence[Card], parent: str, margin: str) -> None:
    for card in cards:
        if card.parent == parent:
            name = style(harmless(card.name), "bold")
            out(f"{margin}{name}  {harmless(card.status)}  {harmless(card.task[:60])}")
            _tree(cards, card.id, f"{margin}  ")


def _show(args: argparse.Namespace, folder: Path, cards: Sequence[Card]) -> None:
    found = next((one for one in reversed(cards) if args.agent in (one.name, one.id)), None)
    if found is None:
        names = ", ".join(card.name for card in cards) or "none"
        raise UsageError(f"There is no agent {args.agent!r} in {folder.name}. Agents: {names}.")
    entries = read(ledger_path(folder, found.id)).entries
    if args.json:
        out_json({**found.to_json(), "entries": entries})
    else:
        transcript.show(entries)


def types_of(config: Config) -> AgentTypes:
    names = [tool.spec.name for tool in builtin_tools()]
    return load_types(config, [*names, "Remember", "Forget", "Recall", "Agent", "SendMessage"])


def _types(args: argparse.Namespace, config: Config) -> None:
    types = types_of(config)
    if args.json:
        listed = {one.name: one.description for one in types.known.values()}
        out_json({"types": listed, "bad": types.bad})
        return
    rows = [(k.name, str(k.file or "built in"), k.description) for k in types.known.values()]
    out(table([tuple(map(harmless, one)) for one in rows]))
    for problem in (*types.bad.values(), *types.warnings):
        note(f"lamina: {harmless(problem)}")
