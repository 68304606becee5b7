"""`lamina sessions search`: what was said in the project's sessions, found by meaning; in Claude mode
also in Claude Code's transcripts. Reads session files; keeps the derived indexes up to date.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict
from math import inf
from typing import TYPE_CHECKING, Any

from lamina.cli.memory_history import count
from lamina.cli.moments import add_times
from lamina.cli.options import add_verb
from lamina.cli.progress import Progress
from lamina.cli.terminal import note, one_line, out, out_json, style, width
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.recall.transcripts import FoundMessage, TranscriptIndex

_ALL = 1_000_000


def add_verbs(verbs: Any) -> None:
    search = add_verb(verbs, "search", "find what was said, best first, by an index")
    search.add_argument("words", nargs="+", help="a question or a few words")
    search.add_argument("-n", "--number", type=count, default=10, help="how many (10); 0: all")
    search.add_argument(
        "--seconds", type=float, default=10.0, help="at most so long for new sessions (10)"
    )
    add_times(search)


def run(args: argparse.Namespace, config: Config) -> int:
    from lamina.recall.scoring import question_terms
    from lamina.recall.transcripts import said_in

    words = " ".join(args.words)
    if not question_terms(words):
        raise UsageError(
            "There is no word to search for in that. Give a word of what was said, or look for "
            "signs with `lamina sessions grep`."
        )
    progress = Progress("Reading new sessions", quiet=args.quiet)
    number = args.number or _ALL
    everywhere = _indexes(config)
    try:
        found = said_in(
            everywhere,
            words,
            number,
            now=time.time(),
            seconds=args.seconds,
            since=-inf if args.since is None else args.since,
            until=inf if args.until is None else args.until,
            progress=progress,
        )
    finally:
        progress.clear()
    _show(args, found)
    for file in (file for past in everywhere for file in past.unreadable):
        note(f"lamina: {file} can't be read.")
    if not all(past.complete for past in everywhere) and not args.quiet:
        note("Not all sessions are in the index yet: search again, or give more --seconds.")
    return 0 if found else 1


def _show(args: argparse.Namespace, found: Sequence[FoundMessage]) -> None:
    if args.json:
        rows = [asdict(said) for said in found]
        rounded = ("score", "confidence")
        out_json([{k: round(v, 3) if k in rounded else v for k, v in row.items()} for row in rows])
        return
    for said in found:
        day = time.strftime("%Y-%m-%d", time.localtime(said.when)) if said.when else "undated"
        head = f"{one_line(said.session[:8], 8)} {day:10} {said.who:9} "
        out(style(head, "dim") + one_line(said.text, max(20, width() - len(head))))
    if not found:
        note("Nothing found.")


def _indexes(config: Config) -> list[TranscriptIndex]:
    """Lamina's own sessions; in Claude mode also Claude Code's, whose index lies with ours."""
    from lamina.ledger.places import find_project_folder
    from lamina.recall.transcripts import claude_folders, transcript_indexes

    own = find_project_folder(config.own_home, config.project)
    return transcript_indexes(
        own, claude_folders(config.home, config.project) if config.claude else ()
    )
