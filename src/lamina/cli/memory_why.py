"""`lamina memory why`: for each recall of a session the candidates with their scores, who picked what,
where it went and whether the answer used it. Reads one ledger.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lamina.cli.options import add_verb
from lamina.cli.terminal import harmless, note, out, out_json, style
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.recall.why import RecallRecord


def add_verbs(verbs: Any) -> None:
    why = add_verb(verbs, "why", "say why memories were recalled, and whether they were used")
    why.add_argument("session", nargs="?", default="", help="its id or the beginning (last)")
    why.add_argument("--turn", type=int, metavar="N", help="only the N-th message that was typed")


def run(args: argparse.Namespace, config: Config) -> int:
    from lamina.cli import sessions, transcript
    from lamina.recall.why import recalls_of, turns_of

    file = sessions.choose(sessions.find(config), args.session)
    entries = transcript.read(file).entries
    found = recalls_of(entries)
    if args.turn is not None:
        typed = turns_of(entries)
        if not 1 <= args.turn <= typed:
            raise UsageError(
                f"There is no message {args.turn} in session {file.stem[:8]}: "
                f"{typed or 'none'} {'was' if typed == 1 else 'were'} typed."
            )
        found = [one for one in found if one.turn == args.turn]
    if args.json:
        out_json([one.to_json() for one in found])
        return 0
    show(found)
    if not found:
        where = f" for message {args.turn}" if args.turn is not None else ""
        note(f"Nothing was recalled{where} in session {file.stem[:8]}.")
    return 0


def show(found: Sequence[RecallRecord]) -> None:
    from lamina.recall.why import lines

    for one in found:
        first, *rest = lines(one)
        out(style(harmless(first), "bold"))
        for line in rest:
            out(harmless(line))
