"""`lamina agents`: the agents that sessions of this project started: listed, as a tree, or one of them
as a conversation; and the agent types that there are. Reads ledgers and type files, writes nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from lamina.agents.roster import Card, ledger_path, read_cards
from lamina.agents.types import load_types
from lamina.cli import sessions, transcript
from lamina.cli.options import add_verb, config_of
from lamina.cli.terminal import harmless, note, out, out_json, style, table
from lamina.config import Config
from lamina.errors import UsageError

EXAMPLES = """
lamina agents list                       those of the last session
lamina agents list 3f2a                  those of the session whose id starts with this
lamina agents tree                       who started whom
lamina agents show anna                  one of them, as a conversation
lamina agents types                      what kinds of agents there are here
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="list | tree | show | types", required=True)
    for verb, about in (
        ("list", "list the agents of a session"),
        ("tree", "show which agent started which"),
    ):
        one = add_verb(verbs, verb, about)
        one.add_argument("session", nargs="?", default="", help="its id or a prefix (the last)")
    show = add_verb(verbs, "show", "print what an agent did, as a conversation")
    show.add_argument("agent", help="its name or id")
    show.add_argument("--session", default="", help="its session's id or a prefix (the last)")
    add_verb(verbs, "types", "list the agent types of this project and of your home")


def run(args: argparse.Namespace) -> int:
    config = config_of(args)
    if args.verb == "types":
        return _types(args, config)
    folder = sessions.choose(sessions.find(config), args.session).with_suffix("")
    cards = read_cards(folder)
    if args.verb == "show":
        return _show(args, folder, cards)
    if args.json:
        out_json([card.to_json() for card in cards])
    elif not cards:
        note("This session started no agents.")
    elif args.verb == "list":
        out(table([row(card) for card in cards], HEADING))
    else:
        _tree(cards, "", "")
    return 0


HEADING = ("name", "type", "state", "tokens", "cost", "task")


def row(card: Card, doing: str = "") -> tuple[str, ...]:
    """One agent in a table."""
    about = doing or card.reason or card.task
    cost = f"${card.dollars:.2f}" if card.dollars else ""
    words = (card.name, card.type, card.status, f"{card.tokens:,}", cost, about[:60])
    return tuple(map(harmless, words))


def _tree(cards: Sequence[Card], parent: str, margin: str) -> None:
    for card in cards:
        if card.parent == parent:
            name = style(harmless(card.name), "bold")
            out(f"{margin}{name}  {harmless(card.status)}  {harmless(card.task[:60])}")
            _tree(cards, card.id, f"{margin}  ")


def _show(args: argparse.Namespace, folder: Path, cards: Sequence[Card]) -> int:
    found = next((one for one in reversed(cards) if args.agent in (one.name, one.id)), None)
    if found is None:
        names = ", ".join(card.name for card in cards) or "none"
        raise UsageError(f"There is no agent {args.agent!r} in {folder.name}. Agents: {names}.")
    session = transcript.read(ledger_path(folder, found.id))
    if args.json:
        out_json({**found.to_json(), "entries": session.entries})
        return 0
    for mark, text in transcript.lines(session):
        out(style(mark, "bold") + harmless(text))
    return 0


def _types(args: argparse.Namespace, config: Config) -> int:
    from lamina.tools.registry import builtin_tools

    names = [tool.spec.name for tool in builtin_tools()]
    known = [*names, "Remember", "Forget", "Recall", "Agent", "SendMessage"]
    types = load_types(config, known)
    if args.json:
        listed = {one.name: one.description for one in types.known.values()}
        out_json({"types": listed, "bad": types.bad})
        return 0
    rows = [
        (one.name, str(one.file or "built in"), one.description) for one in types.known.values()
    ]
    out(table([tuple(map(harmless, one)) for one in rows]))
    for problem in (*types.bad.values(), *types.warnings):
        note(f"lamina: {harmless(problem)}")
    return 0
