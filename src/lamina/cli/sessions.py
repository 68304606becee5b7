"""`lamina sessions`: list recorded sessions, ours and other agents', show one as a conversation, fold one
into a summary, show what a fold stands for, undo a compaction; `grep` and `search` are in
`sessions_search`. Reads the ledgers under the home; `compact` and `undo-compact` append to one.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any

import anyio

from lamina.cli import sessions_search, transcript
from lamina.cli.options import (
    add_verb,
    choose_model,
    config_of,
    count,
    flag,
    hint,
    option,
    optional,
)
from lamina.cli.terminal import fitted, harmless, note, out, out_bytes, out_json, out_result, picked
from lamina.config import Config
from lamina.errors import LaminaError, UsageError
from lamina.events import AnyEvent
from lamina.ledger import edits, spans
from lamina.ledger.log import read
from lamina.ledger.places import NOTES, find_project_folder
from lamina.ledger.record import Ledger

EXAMPLES = """
lamina sessions list                     this project's, newest first
lamina sessions list --all               those of all projects
lamina sessions show                     the last session, as a conversation
lamina sessions show 3f2a                the one whose id starts with this
lamina sessions show 3f2a --result toolu_1 > whole.txt
lamina sessions grep "connection refused" --ignore-case
lamina sessions grep "TimeoutError" --since 3d
lamina sessions list --agent codex       only what Codex recorded here
lamina sessions search what did we decide about the cache
lamina sessions search --ask "which host has the staging database?"
lamina sessions compact 3f2a --instructions "keep the benchmark figures"
lamina sessions expand 3f2a 2            what its second fold stands for
lamina sessions undo-compact 3f2a        as it was before the last compaction
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = "list | show | grep | search | compact | expand | undo-compact"
    verbs = parser.add_subparsers(dest="verb", metavar=names, required=True)
    listing = add_verb(verbs, "list", "list sessions, newest first")
    listing.add_argument("-n", "--number", type=count, default=20, help="how many (20); 0: all")
    show = add_verb(verbs, "show", "print a session as a conversation, or one whole tool result")
    optional(show, "id", "the session's id or a prefix of it (the last)")
    show.add_argument("--result", metavar="ID", help="print one whole tool result, byte for byte")
    flag(show, "--notes", "print the notes taken on it (layer 3)")
    searches = sessions_search.add_verbs(verbs)
    _add_folding(verbs)
    for verb in (listing, show, *searches):
        flag(verb, "--all", "sessions of all projects")
    listing.add_argument("--agent", metavar="NAME", help="only this agent's: lamina, codex, …")


def run(args: argparse.Namespace) -> int | None:
    config = config_of(args)
    fold = {"compact": _compact, "expand": _expand, "undo-compact": _undo}
    if args.verb in fold:
        return fold[args.verb](args, choose(find(config), args.id))
    if args.verb == "search":
        return sessions_search.search(args, config)
    files = find(config, everywhere=args.all)
    if args.verb == "grep":
        return sessions_search.grep(args, config, files)
    shows = args.verb == "show"
    theirs = others(config, quiet=args.quiet, everywhere=args.all, doubles=shows)
    files = sorted([*files, *theirs], key=changed, reverse=True)
    if shows:
        return _show(args, choose(files, args.id))
    from lamina.replay.agent_sessions import AGENTS

    if args.agent not in (None, "lamina", *AGENTS):
        raise UsageError(f"There is no agent {args.agent}. There are: lamina, {', '.join(AGENTS)}.")
    return _list(args, [one for one in files if args.agent in (None, transcript.agent_of(one))])


def others(
    config: Config,
    *,
    without: Sequence[str] = (),
    quiet: bool = True,
    everywhere: bool = False,
    seconds: float = 10.0,
    doubles: bool = False,
) -> list[Path]:
    """What other coding agents said in this project, or in all, in our own form: copies of their
    records, and what went through a gateway or a wrapped client and is in no such record (`doubles`:
    and what is)."""
    from lamina.replay.agent_sessions import AGENTS, copies  # to find one of ours needs none

    agents = [one for one in AGENTS if one not in without]
    made, late, unread = copies(config, agents, everywhere=everywhere, seconds=seconds)
    if not quiet:
        _tell(late, unread)
    here = find_project_folder(config.own_home, config.project)
    folders = (config.own_home / "projects").glob("*") if everywhere else [here]
    passed = [one for folder in folders for one in folder.glob("conversations/*.jsonl")]
    return [*made, *(passed if doubles else transcript.not_among(passed, made))]


def _tell(late: int, unread: Sequence[str]) -> None:
    if late:
        note(f"{late} sessions of other agents are not read yet. Try again.")
    alike: dict[str, list[str]] = {}
    for why in unread:
        alike.setdefault(why.partition(": ")[2], []).append(why)
    for first, *more in alike.values():
        many = f" ({len(more)} more like it)" if more else ""
        what = f"{harmless(first.rstrip('.'))}{many}"
        note(f"lamina: Not read: {what}. A newer Lamina may know this form.")


def changed(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def find(config: Config, *, everywhere: bool = False) -> list[Path]:
    """Session files, newest first."""
    try:
        if everywhere:
            folders = [*(config.own_home / "projects").iterdir()]
        else:
            folders = [find_project_folder(config.own_home, config.project)]
        times: dict[Path, int] = {}
        files = (one for folder in folders if folder.is_dir() for one in folder.glob("*.jsonl"))
        for file in files:
            with suppress(FileNotFoundError):  # deleted meanwhile: the others are still there
                stat = file.stat()
                if S_ISREG(stat.st_mode):  # a pipe would never end
                    times[file] = stat.st_mtime_ns
        return sorted(times, key=times.__getitem__, reverse=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        where = f"Can't list the sessions in {config.own_home}"
        raise LaminaError(f"{where}: {error.strerror}.") from error


def choose(files: list[Path], beginning: str) -> Path:
    """The session whose id begins so; the newest if nothing is given."""
    if not files:
        raise UsageError(
            "There are no sessions here yet. `lamina sessions list --all` lists those of all projects."
        )
    found = [file for file in files if file.stem.startswith(beginning)]
    exact = [file for file in found if file.stem == beginning]
    if not found:
        raise UsageError(f"There is no session {beginning}. `lamina sessions list` lists them.")
    if beginning and not exact and len(found) > 1:
        raise UsageError(f"{len(found)} sessions begin with {beginning}. Give more of the id.")
    return (exact or found)[0]


def _list(args: argparse.Namespace, files: list[Path]) -> None:
    shown = files[: args.number or None]
    rows = _under_parents([transcript.summary(file) for file in shown])
    if args.json:
        out_json(rows)
        return
    if not rows:
        note("No sessions here yet.")
        return
    names = {row["id"] for row in rows}
    cells = [
        [
            harmless(row["id"][: 12 if row["id"].startswith("ses_") else 8]),  # theirs begin alike
            row["agent"],
            row["changed"][:16].replace("T", " "),
            str(row["messages"]),
            f"└ {row['title']}" if row["parent"] in names else row["title"],
        ]
        for row in rows
    ]
    heading = ["session", "agent", "last change", "messages", "begins with"]
    out(fitted(cells, heading, gives_way=(3, 2), cut=4))
    if len(files) > len(shown):
        hint(args, f"{len(files) - len(shown)} more; `-n 0` shows all.")


def _under_parents(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sub-agents' conversations below the one that called for them."""
    names, below = {row["id"] for row in rows}, dict[str, list[dict[str, Any]]]()
    for row in rows:
        below.setdefault(row["parent"] if row["parent"] in names else "", []).append(row)
    found, waiting = list[dict[str, Any]](), below.pop("", [])[::-1]
    while waiting or below:
        waiting = waiting or below.popitem()[1]  # those in a circle have no top
        found.append(waiting.pop())
        waiting += below.pop(found[-1]["id"], [])[::-1]
    return found


def _show(args: argparse.Namespace, file: Path) -> None:
    session = read(file)
    if args.result:
        out_bytes(transcript.whole_result(session.entries, file.stem, args.result))
        return
    if args.notes:
        try:
            notes = (file.with_suffix("") / NOTES).read_text("utf-8", "replace")
        except OSError:
            raise UsageError(f"The session {file.stem} has no notes.") from None
        out_result({"id": file.stem, "notes": notes}, harmless(notes), as_json=args.json)
        return
    for problem in () if args.quiet else session.problems:
        note(f"lamina: {file.name}, {problem} was skipped.")
    if args.json:
        out_json({"id": file.stem, "file": str(file), "entries": session.entries})
    else:
        transcript.show(session.entries)


def _add_folding(verbs: Any) -> None:
    compact = add_verb(verbs, "compact", "replace a session's messages by a summary")
    compact.add_argument("--instructions", default="", help="what the summary should stress")
    part = compact.add_mutually_exclusive_group()
    option(part, "--from ENTRY", "only what comes after this entry", dest="first")
    option(part, "--up-to ENTRY", "only what comes before this entry")
    choose_model(compact)
    expand = add_verb(verbs, "expand", "print what a summary or a snipped part stands for")
    undo = add_verb(verbs, "undo-compact", "undo the last compaction")
    for verb in (compact, expand, undo):
        optional(verb, "id", "the session's id or a prefix of it (the last)")
    optional(expand, "n", "its number, or an id (the last)", "N")


def _compact(args: argparse.Namespace, file: Path) -> None:
    from lamina.session import Session

    config = config_of(args, **({"model": args.model} if args.model else {}))

    def hear(event: AnyEvent) -> None:
        if event.kind == "warned" and not args.quiet:
            note(f"lamina: {harmless(event.message)}")

    async def work() -> Any:
        async with Session.open(
            config.project, session_id=file.stem, resume=True, config=config, on_event=hear
        ) as session:
            projection = session.ledger.projection
            first = str(spans.find(projection, args.first)["uuid"]) if args.first else ""
            last = str(spans.find(projection, args.up_to)["uuid"]) if args.up_to else ""
            return await session.compact(args.instructions, from_entry=first, up_to_entry=last)

    done = anyio.run(work)
    about = picked(done, "edit source tokens_before tokens_after score")
    out_result({"session": file.stem, **about}, compaction_sentence(done), as_json=args.json)


def compaction_sentence(done: Any) -> str:
    """What a compaction did, for people."""
    if done.source == "cut":
        return "One message was too large for the window; its beginning and end are shown now."
    made = {"notes": "from the notes", "model": "with the model", "local": "from the record"}
    shrank = f"{done.tokens_before:,} → {done.tokens_after:,} tokens"
    return f"Compacted {made[done.source]}: {shrank}, {done.score:.0%} of the probed facts kept."


def _expand(args: argparse.Namespace, file: Path) -> None:
    ledger = Ledger.of(read(file).entries)
    number = not args.n or (args.n.isascii() and args.n.isdigit() and len(args.n) < 4)
    entry = args.n
    if number:  # counted from 1 as they were made; ids are longer
        folds = [e for e in ledger.entries if e["kind"] == "edit" and e.get("op") == "fold"]
        folds = [fold for fold in folds if fold.get("layer") != "undo"]
        if not folds:
            raise UsageError("Nothing was compacted or snipped in this session.")
        wanted = int(args.n or len(folds))
        if not 1 <= wanted <= len(folds):
            raise UsageError(f"There is no fold {wanted}: this session has {len(folds)}.")
        entry = str(folds[wanted - 1]["uuid"])
    text = spans.expand(ledger.projection, entry)
    out_result({"session": file.stem, "text": text}, harmless(text), as_json=args.json)


def _undo(args: argparse.Namespace, file: Path) -> None:
    from lamina.layers.snip import COMPACTION, undoing  # all of a session's state comes with it

    ledger = Ledger.open(file)
    try:
        before = ledger.tokens()
        edit, entries = undoing(ledger, layers=(COMPACTION,))
        ledger.append(edits.job("extraction.offer", "open", ledger.head), *entries)
        after = ledger.tokens()
    finally:
        ledger.close()
    value = {"session": file.stem, "edit": edit["uuid"], "tokens": after}
    back = f"The messages are back in the context: {before:,} → {after:,} tokens."
    out_result(value, back, as_json=args.json)
