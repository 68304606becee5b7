"""`lamina sessions search`: what was said in the project's sessions, found by meaning; in Claude mode
also in Claude Code's transcripts. Reads session files; keeps the derived indexes up to date.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Any

from lamina.cli.memory_history import count
from lamina.cli.options import add_verb
from lamina.cli.terminal import note, one_line, out, out_json, style, width
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.recall.transcripts import FoundMessage, TranscriptIndex


_AGO = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add_times(parser: argparse.ArgumentParser) -> None:
    """`--since` and `--until`."""
    parser.add_argument(
        "--since",
        type=since,
        metavar="TIME",
        help="from then on: 2026-11-01, 12h, 3d, 2w, yesterday",
    )
    parser.add_argument("--until", type=until, metavar="TIME", help="up to then; a day is included")


def since(words: str) -> float:
    """When it begins."""
    return _moment(words)[0]


def until(words: str) -> float:
    """When it ends: a day is over when the next one begins."""
    return _moment(words)[1]


def _moment(words: str) -> tuple[float, float]:
    """Beginning and end of what the words name, by local time."""
    now = datetime.now().astimezone()
    word = words.strip().lower()
    try:
        if match := _AGO.fullmatch(word):
            then = now - timedelta(**{_UNITS[match[2]]: int(match[1])})
            return then.timestamp(), then.timestamp()
        if word in ("today", "yesterday"):
            day = now.replace(hour=0, minute=0, second=0, microsecond=0)
            return _day(day - timedelta(days=word == "yesterday"))
        then = datetime.fromisoformat(words.strip())
        if len(word) <= len("2026-11-01"):
            return _day(then)
        return then.timestamp(), then.timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{words!r} is no time; write 2026-11-01, 2026-11-01T14:30, 12h, 3d, 2w, today or yesterday"
        ) from None


def _day(begins: datetime) -> tuple[float, float]:
    ends = begins.replace(tzinfo=None) + timedelta(days=1, microseconds=-1)
    return begins.timestamp(), ends.timestamp()


_PATIENCE = 1.0
_EVERY = 0.2


class Progress:
    """Told bytes done and bytes in all, as often as the work likes."""

    def __init__(self, doing: str, *, quiet: bool = False) -> None:
        self._doing = doing
        self._next = time.monotonic() + _PATIENCE if not quiet and sys.stderr.isatty() else None
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        if self._next is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY
        self._shown = True
        share = f"{done / 1e6:.0f} of {max(done, total) / 1e6:.0f} MB"
        sys.stderr.write(f"\r\x1b[K{self._doing}: {share} (Ctrl-C stops)")
        sys.stderr.flush()

    def clear(self) -> None:
        """Takes the line away, before a result is printed or at the end."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False


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
