"""`lamina sessions`: what was recorded, to list, to read, to search, and to shorten. Reads ledgers
under the home; what changes one is in `sessions_folding`.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

from lamina.cli import sessions_folding, sessions_grep, sessions_search, transcript
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
lamina sessions grep "TimeoutError" --since 3d
lamina sessions grep "TimeoutError" --claude   also in Claude Code's transcripts
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
    grep = sessions_grep.add_verbs(verbs)
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
            return sessions_grep.run(args, config, files)


def find(config: Config, *, everywhere: bool = False) -> list[Path]:
    """Session files, newest first."""
    from lamina.ledger.places import find_project_folder

    try:
        if everywhere:
            folders = [*(config.own_home / "projects").iterdir()]
        else:
            folders = [find_project_folder(config.own_home, config.project)]
        changed: dict[Path, int] = {}
        for file in (
            one for folder in folders if folder.is_dir() for one in folder.glob("*.jsonl")
        ):
            with suppress(FileNotFoundError):  # it went meanwhile: the others are still there
                stat = file.stat()
                if S_ISREG(stat.st_mode):  # a pipe would never end
                    changed[file] = stat.st_mtime_ns
        return sorted(changed, key=changed.__getitem__, reverse=True)
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
        claude = (
            " Claude Code's transcripts are searched by `grep` and `search`." if args.claude else ""
        )
        note(f"No sessions here yet.{claude}")
        return 0
    room = max(20, width() - 52)
    heading = [
        style(word, "bold") for word in ("session", "last change", "messages", "begins with")
    ]
    cells = [
        [
            one_line(row["id"][:8], 8),
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
