"""`lamina sessions search`: what was said in the project's sessions, found by meaning. Reads session
files; keeps the derived index beside them up to date.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from lamina.cli.options import add_verb
from lamina.cli.terminal import note, one_line, out, out_json, style, width

if TYPE_CHECKING:
    from lamina.config import Config


def add_verbs(verbs: Any) -> None:
    search = add_verb(verbs, "search", "find what was said, best first, by an index")
    search.add_argument("words", nargs="+", help="a question or a few words")
    search.add_argument("-n", "--number", type=int, default=10, help="how many (10)")
    search.add_argument(
        "--seconds", type=float, default=10.0, help="at most so long for new sessions (10)"
    )


def run(args: argparse.Namespace, config: Config) -> int:
    from lamina.ledger.places import find_project_folder
    from lamina.recall.past import PastSessions
    from lamina.recall.searches import LEAST

    past = PastSessions(find_project_folder(config.own_home, config.project))
    words = " ".join(args.words)
    hits = past.search(words, args.number, now=time.time(), seconds=args.seconds)
    found = [said for said in hits if said.confidence >= LEAST]
    if args.json:
        out_json(
            [
                {
                    "session": said.session,
                    "entry": said.entry,
                    "who": said.who,
                    "when": said.when,
                    "score": round(said.score, 3),
                    "confidence": round(said.confidence, 3),
                    "text": said.text,
                }
                for said in found
            ]
        )
    else:
        for said in found:
            day = time.strftime("%Y-%m-%d", time.localtime(said.when))
            head = f"{said.session[:8]} {day} {said.who:9} "
            out(style(head, "dim") + one_line(said.text, max(20, width() - len(head))))
    if not found and not args.json:
        note("Nothing found.")
    if not past.complete and not args.quiet:
        note("Not all sessions are in the index yet: search again, or give more --seconds.")
    return 0 if found else 1
