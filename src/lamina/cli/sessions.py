"""`lamina sessions`: what was recorded, to list, to read, to search, and to shorten. Reads ledgers
under the home; what changes one is in `sessions_folding`.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Any

from lamina.cli import sessions_folding, sessions_search, transcript
from lamina.cli.options import add_verb, config_of
from lamina.cli.terminal import harmless, note, one_line, out, out_json, style, table, width
from lamina.config import Config
from lamina.errors import LaminaError, UsageError

EXAMPLES = """
lamina sessions list                     of this project, newest first
lamina sessions list --all               of all projects
lamina sessions show                     the last session, as a conversation
lamina sessions show 3f2a                by the beginning of its id
lamina sessions show 3f2a --result toolu_1 > whole.txt
lamina sessions grep "connection refused" --ignore-case
lamina sessions search what did we decide about the cache
lamina sessions compact 3f2a --instructions "keep the benchmark figures"
lamina sessions expand 3f2a 2            what its second fold stands for
lamina sessions undo-compact 3f2a        the view as it was before the last compaction
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(
        dest="verb",
        metavar="list | show | grep | search | compact | expand | undo-compact",
        required=True,
    )
    listing = add_verb(verbs, "list", "list sessions, newest first")
    listing.add_argument(
        "-n", "--number", type=int, default=20, help="how many at most (20); 0: all"
    )
    show = add_verb(verbs, "show", "print a session as a conversation, or one whole tool result")
    show.add_argument("id", nargs="?", default="", help="the session's id or its beginning (last)")
    show.add_argument("--result", metavar="ID", help="print one tool result whole, byte for byte")
    grep = add_verb(verbs, "grep", "search all that was said and all tool results")
    grep.add_argument("pattern", help="a regular expression")
    grep.add_argument("-i", "--ignore-case", action="store_true", help="a and A are the same")
    grep.add_argument("-n", "--number", type=int, default=50, help="hits at most (50); 0: all")
    grep.add_argument("--seconds", type=float, default=30.0, help="at most so long (30); 0: all")
    sessions_search.add_verbs(verbs)
    sessions_folding.add_verbs(verbs)
    for verb in (listing, grep, show):
        verb.add_argument("--all", action="store_true", help="sessions of all projects")


def run(args: argparse.Namespace) -> int:
    if args.verb in sessions_folding.VERBS:
        return sessions_folding.run(args)
    config = config_of(args)
    if args.verb == "search":
        return sessions_search.run(args, config)
    files = find(config, everywhere=args.all)
    match args.verb:
        case "list":
            return _list(args, files)
        case "show":
            return _show(args, choose(files, args.id))
        case _:
            return _grep(args, files)


def find(config: Config, *, everywhere: bool = False) -> list[Path]:
    """Session files, newest first."""
    from lamina.ledger.places import find_project_folder

    try:
        if everywhere:
            folders = [*(config.own_home / "projects").iterdir()]
        else:
            folders = [find_project_folder(config.own_home, config.project)]
        files = [file for folder in folders if folder.is_dir() for file in folder.glob("*.jsonl")]
        return sorted(files, key=lambda file: file.stat().st_mtime_ns, reverse=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise LaminaError(
            f"Can't list the sessions in {config.own_home}: {error.strerror}."
        ) from error


def choose(files: list[Path], beginning: str) -> Path:
    """The session whose id begins so; with nothing given the newest."""
    if not files:
        raise UsageError(
            "There are no sessions here yet. `lamina sessions list --all` looks everywhere."
        )
    found = [file for file in files if file.stem.startswith(beginning)]
    exact = [file for file in found if file.stem == beginning]
    if not found:
        raise UsageError(f"There is no session {beginning}. `lamina sessions list` shows them.")
    if beginning and not exact and len(found) > 1:
        raise UsageError(f"{len(found)} sessions begin with {beginning}. Give more of the id.")
    return (exact or found)[0]


def _list(args: argparse.Namespace, files: list[Path]) -> int:
    shown = files[: args.number] if args.number else files
    rows = [transcript.summary(file) for file in shown]
    if args.json:
        out_json(rows)
        return 0
    if not rows:
        note("No sessions here yet.")
        return 0
    room = max(20, width() - 52)
    heading = [
        style(word, "bold") for word in ("session", "last change", "messages", "begins with")
    ]
    cells = [
        [
            row["id"][:8],
            row["changed"][:16].replace("T", " "),
            str(row["messages"]),
            one_line(row["title"], room),
        ]
        for row in rows
    ]
    out(table(cells, heading))
    if len(files) > len(shown) and not args.quiet:
        note(f"{len(files) - len(shown)} more; `-n 0` shows all.")
    return 0


def _show(args: argparse.Namespace, file: Path) -> int:
    session = transcript.read(file)
    if args.result:
        sys.stdout.flush()
        sys.stdout.buffer.write(transcript.whole_result(session, args.result))
        sys.stdout.buffer.flush()
        return 0
    for problem in () if args.quiet else session.problems:
        note(f"lamina: {file.name}, {problem} was passed over.")
    if args.json:
        out_json({"id": file.stem, "file": str(file), "entries": session.entries})
        return 0
    for line in transcript.lines(session):
        mark, text = line
        out(style(mark, "bold") + harmless(text) if mark else harmless(text))
    return 0


def _grep(args: argparse.Namespace, files: list[Path]) -> int:
    try:
        pattern = re.compile(args.pattern, re.IGNORECASE if args.ignore_case else 0)
    except re.error as error:
        raise UsageError(f"{args.pattern!r} is no regular expression: {error}.") from error
    hits: list[dict[str, Any]] = []
    until = time.monotonic() + args.seconds
    for number, file in enumerate(files):
        if args.seconds and time.monotonic() > until:
            left = len(files) - number
            note(f"Stopped after {args.seconds:g} s: {left} older sessions were not searched.")
            break
        hits += [
            {"session": file.stem, "who": who, "text": line}
            for who, text in transcript.texts(transcript.read(file))
            for line in text.splitlines()
            if pattern.search(line)
        ]
        if args.number and len(hits) >= args.number:
            break
    hits = hits[: args.number] if args.number else hits
    if args.json:
        out_json(hits)
    else:
        for hit in hits:
            room = max(20, width() - 22)
            head = f"{hit['session'][:8]} {hit['who']:9} "
            out(style(head, "dim") + _around(hit["text"], pattern, room))
    return 0 if hits else 1


def _around(text: str, pattern: re.Pattern[str], room: int) -> str:
    """A long line, cut so that the hit is in it."""
    found = pattern.search(text)
    start = max(0, (found.start() if found else 0) - room // 3)
    return one_line(("…" if start else "") + text[start:], room)
