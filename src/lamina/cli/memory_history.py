"""`lamina memory log | diff | blame | undo | restore | inbox`: the changes of the memories, those
that were made and those that wait for a review; and the editor in which people write memories.
Records first what was changed outside Lamina; writes through the store, and temporary files for the
editor.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.cli import terminal
from lamina.cli.options import add_verb, command, config_of, count, flag, hint, optional
from lamina.cli.terminal import harmless, moment, note, one_line, out, out_json, picked, style
from lamina.errors import LaminaError, MemoryStoreError, UsageError
from lamina.ledger.places import find_project_folder
from lamina.memories import Change, Commit, InboxItem, quoted_from

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.ledger.record import Quotes
    from lamina.ports import MemoryHistory, MemoryStore

_WHOSE = {"typed": "You typed", "pasted": "You pasted", "tool": "A tool returned",
          "assistant": "The assistant said", "recalled": "Memory said", "hook": "A hook said",
          "teammate": "A teammate said", "agent": "An agent said", "system": "Lamina said"}  # fmt: skip
_QUOTED = 3  # messages of a change that are quoted


def add_undo(verbs: Any) -> None:
    undo = add_verb(verbs, "undo", "undo a change; what came later stays")
    which = "its id or a prefix of it (the last made through Lamina and not undone yet)"
    optional(undo, "commit", which)


def add_verbs(verbs: Any) -> None:
    log = add_verb(verbs, "log", "list the changes, newest first")
    optional(log, "path", "only changes to this file")
    log.add_argument("-n", "--number", type=count, default=20, help="how many (20); 0: all")
    diff = add_verb(verbs, "diff", "show what a change did")
    optional(diff, "commit", "its id or a prefix of it (the last)")
    blame = add_verb(verbs, "blame", "show for each line who wrote it, when and why")
    blame.add_argument("path", help="the file")
    restore = add_verb(verbs, "restore", "bring a file back as it was after a change")
    restore.add_argument("path", help="the file")
    restore.add_argument("commit", help="the change's id or a prefix of it")


def run(args: argparse.Namespace, store: MemoryStore) -> None:
    VERBS[args.verb](args, store, _caught_up(args, store))


def _caught_up(args: argparse.Namespace, store: MemoryStore) -> MemoryHistory:
    """The history with what was changed outside; where only looking is asked, also without."""
    from lamina.memory import HistoryDamaged

    history = store.history
    if history is None:
        raise UsageError("This memory keeps no history.")
    try:
        first = history.empty  # what is found then is reported as an event
        changed = store.catch_up()
        if changed and not first and not args.json:
            listed = _listed(changed, 5)
            hint(args, f"Changed outside Lamina since last time, now recorded: {listed}.")
    except MemoryStoreError as error:
        if isinstance(error, HistoryDamaged) or args.verb not in ("log", "diff", "blame", "why"):
            raise
        note(f"{error} What was recorded before is shown.")
    return history


def _log(args: argparse.Namespace, store: MemoryStore, history: MemoryHistory) -> None:
    from lamina.memory import teammate_of

    path = _named(store, args.path) if args.path else ""
    commits = list(islice(history.log(path), args.number or None))
    if path and not commits:
        store.read_bytes(path)  # raises if there is none
    if args.json:
        out_json([as_json(commit) for commit in commits])
        return
    if not commits:
        note("No history yet.")
        return
    rows: list[list[str]] = []
    for one in commits:
        who = (teammate_of(one, path) if one.writer == "team" else "") or one.writer
        what = one_line(one.subject, max(20, terminal.width() - 45))
        rows.append([style(one.id[:8], "yellow"), moment(one.when), who, what])
    quotes, room = (
        quotes_of(config_of(args)),
        max(40, terminal.width() - 57),
    )  # with day and session
    for commit, row in zip(commits, terminal.table(rows).splitlines(), strict=True):
        out(row)
        for line in grounds(commit, quotes, room):
            out(style(f"         {one_line(line, max(100, terminal.width() - 9))}", "dim"))


def quotes_of(config: Config) -> Quotes:
    """What was said in the project's sessions, to quote from."""
    from lamina.ledger.record import Quotes  # most verbs quote nothing

    return Quotes(find_project_folder(config.own_home, config.project))


def grounds(commit: Commit, quotes: Quotes, most: int = 200) -> Iterator[str]:
    """What a change rests on: on which words of which day and session, and why it was accepted."""
    session = f" in session {commit.session[:8]}" if commit.session else ""
    cited = [
        (origin, words, _day(quotes.when(commit.session, entry)))
        for entry in commit.entries
        for origin, words in quotes.origin_text(commit.session, entry)
    ]
    origin = quoted_from(commit.origin) or commit.origin
    said = [one[1:] for one in cited if not origin or one[0] == origin]
    other = origin[:1].upper() + origin[1:]  # "teammate anna"
    whose = _WHOSE.get(origin) or f"{other or 'Somebody'} said"
    if not said and origin == "assistant":  # in its words, but it did not think of it
        said = [one[1:] for one in cited if one[0] == "typed"]
        whose = "The assistant's reading of what you typed:"
    for words, day in said[:_QUOTED]:
        yield f"{whose} “{one_line(words, most)}”{day}{session}."
    if not said and (commit.session or commit.origin):
        yield f"{whose + ' it' if origin else 'Made'}{session}."
    if commit.reason:
        yield f"because: {to_you(commit.reason)}"


def _day(recorded: str) -> str:
    """As a sentence says it: " on 12 May 2026", by this machine's clock; "" if nobody knows."""
    with suppress(ValueError, OverflowError):
        local = datetime.fromisoformat(recorded).astimezone()
        return f" on {local.day} {local:%b %Y}"
    return ""


def to_you(reason: str) -> str:
    """What was noted about "the user", as they read it themselves."""
    your = reason.replace("The user's ", "Your ").replace("the user's ", "your ")
    you = your.replace("The user ", "You ").replace("the user ", "you ")
    return you.replace("you said who they are", "you said who you are")


def why_it_is_there(args: argparse.Namespace, store: MemoryStore, path: str) -> None:
    """`lamina memory why NAME`: where a memory comes from, newest change first."""
    from lamina.memory import read_topic, written_at

    commits = list(_caught_up(args, store).log(path))
    quotes = quotes_of(config_of(args))
    mtime = store.mtime(path)
    if args.json:
        rows = [{**as_json(one), "grounds": [*grounds(one, quotes)]} for one in commits]
        out_json({"path": path, "changes": rows})
        return
    out(style(harmless(path), "bold"))
    if read_topic(path, store.content(path) or b"").quoted:
        out("  A quotation, which nobody typed: shown when asked for, never by itself.")
        out(f"  {command(args, f'memory vouch {path}')} makes it your own word.")
    for commit in commits:
        when = moment(written_at(commit, mtime))
        out(f"  {commit.id[:8]} {when}  {commit.writer}: {one_line(commit.subject, 80)}")
        for line in grounds(commit, quotes):
            out(style(f"    {harmless(line)}", "dim"))


def _diff(args: argparse.Namespace, _: MemoryStore, history: MemoryHistory) -> None:
    from lamina.memory import diff_text

    newest = next((one.id for one in history.log()), "")
    commit = history.find(args.commit) if args.commit else newest
    if not commit:
        note("No history yet.")
        return
    changes = history.changes(commit)
    diffs = [diff_text(change.path, change.before, change.after) for change in changes]
    if args.json:
        paths = [change.path for change in changes]
        out_json({"commit": commit, "diffs": dict(zip(paths, diffs, strict=True))})
        return
    for text in diffs:
        terminal.print_diff(text)


def _blame(args: argparse.Namespace, store: MemoryStore, history: MemoryHistory) -> None:
    from lamina.memory import blame, teammate_of, written_at

    path = _named(store, args.path)
    lines = blame(history.versions(path))
    if not lines:
        store.read_bytes(path)  # raises if there is none
    if args.json:
        rows = [
            {"line": one.number, "text": one.text, "commit": as_json(one.commit)} for one in lines
        ]
        out_json(rows)
        return
    mtime = store.mtime(path)
    for line in lines:
        commit = line.commit
        writer = teammate_of(commit, path) or commit.writer
        who = f"{commit.id[:8]} {writer:<10} {moment(written_at(commit, mtime))}"
        out(f"{style(who, 'dim')}  {harmless(line.text)}")
    quotes = quotes_of(config_of(args))
    for commit in {line.commit.id: line.commit for line in lines}.values():
        for ground in grounds(commit, quotes):
            out(style(f"{commit.id[:8]} {harmless(ground)}", "dim"))


def _undo(args: argparse.Namespace, store: MemoryStore, history: MemoryHistory) -> None:
    commit = history.named(args.commit) if args.commit else history.last_change()
    if commit is None:
        none = "There is no change made through Lamina left to undo. `lamina memory log` lists all"
        note(f"{none} changes; give the id of one made outside to undo it.")
        return
    if commit.writer == "outside" and not args.json:
        effect = announced(history.effect(commit))
        hint(args, f"{commit.id[:8]} was not made through Lamina. {effect}")
    paths, redo = undone(store, history, commit)
    if args.json:
        out_json({"undone": commit.id, "paths": paths, "redo": redo})
        return
    done = ", ".join(map(harmless, paths)) or "none of it was left"
    out(f"Undone {commit.id[:8]} ({one_line(commit.subject, 60)}): {done}.")
    if redo:
        hint(args, f"{command(args, f'memory undo {redo}')} redoes it.")


def undone(store: MemoryStore, history: MemoryHistory, commit: Commit) -> tuple[list[str], str]:
    """Undo a change: the files that it changed, and the change that redoes it."""
    from lamina.layers.dream.record import last_dream, take_back

    dream = last_dream(store, commit.id)  # the next dream leaves alone what comes back
    paths = take_back(store, commit.id)[1] if dream else history.undo(commit.id)
    return paths, store.newest_change(paths[0]) if paths else ""


def announced(changes: Sequence[Change]) -> str:
    """What an undo is about to do to files that Lamina did not write."""
    kinds = {
        "deletes": [one.path for one in changes if one.after is None],
        "brings back": [one.path for one in changes if one.before is None],
        "changes": [one.path for one in changes if None not in (one.before, one.after)],
    }
    told = [f"{what} {_listed(paths)}" for what, paths in kinds.items() if paths]
    return f"Undoing it {'; '.join(told) or 'changes nothing'}."


def _listed(paths: Sequence[str], most: int = 10) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(harmless(path) for path in paths[:most]) + more


def _restore(args: argparse.Namespace, _: MemoryStore, history: MemoryHistory) -> None:
    path = args.path if args.path.endswith(".md") else f"{args.path}.md"
    outcome = history.restore(path, args.commit)
    terminal.out_result(picked(outcome, "path changed"), outcome.sentence, as_json=args.json)


VERBS = {"log": _log, "diff": _diff, "blame": _blame, "undo": _undo, "restore": _restore}


def _named(store: MemoryStore, word: str) -> str:
    """A path that exists, or did: the history still knows deleted memories."""
    known = store.content(f"{word}.md", 1) is not None
    return f"{word}.md" if known or not word.endswith(".md") else word


def as_json(commit: Commit) -> dict[str, object]:
    about = picked(commit, "id writer when subject paths session")
    return {**about, "messages": commit.entries, **picked(commit, "origin reason")}


def add_inbox(verbs: Any) -> None:
    inbox = add_verb(verbs, "inbox", "show what is waiting for review; accept, edit or reject it")
    actions, about = ("show", "accept", "edit", "reject"), "what to do (show)"
    inbox.add_argument("action", nargs="?", choices=actions, default="show", help=about)
    inbox.add_argument("item", nargs="*", help="ids or prefixes of them")
    flag(inbox, "--all", "everything in the inbox")
    flag(inbox, "--allow-secret", "save it even if it looks like a secret")


def review(args: argparse.Namespace, store: MemoryStore) -> int | None:
    items = _items(args, store)
    if args.action == "show":
        return _show_inbox(args, store, items)
    done, code = list[dict[str, Any]](), 0
    for item in items:
        try:
            done.append({"id": item.id, "path": item.proposal.path, **_do(args, store, item)})
        except LaminaError as error:
            # One that no longer applies must not hold up the others.
            code = error.exit_code
            done.append({"id": item.id, "path": item.proposal.path, "failed": str(error)})
    if args.json:
        out_json(done)
        return code
    if not done:
        note("The inbox is empty.")
    for row in done:
        if "failed" in row:
            note(f"lamina: {harmless(row['path'])}: {harmless(row['failed'])}")
        else:
            out(f"{row['done'].capitalize()}: {harmless(row['path'])}")
            for warning in row.get("warnings", ()):
                hint(args, harmless(warning))
    return code


def _items(args: argparse.Namespace, store: MemoryStore) -> list[InboxItem]:
    if args.item and args.all:
        raise UsageError("Name items or give --all, not both.")
    if args.item:
        return [store.waiting_item(item) for item in args.item]
    if args.action == "show" or args.all:
        return [*store.waiting()]
    raise UsageError(f"Say which: `lamina memory inbox {args.action} ID`, or --all.")


def _do(args: argparse.Namespace, store: MemoryStore, item: InboxItem) -> dict[str, Any]:
    if args.action == "reject":
        store.reject(item.id)
        return {"done": "rejected"}
    if args.action == "accept":
        outcome = store.accept(item.id, allow_secret=args.allow_secret)
    else:
        text = edited_text(store.proposed_content(item).decode("utf-8", "surrogateescape"))
        edited = text.encode("utf-8", "surrogateescape")
        with kept_if_refused(text):
            outcome = store.accept(item.id, edited=edited, allow_secret=args.allow_secret)
    return {"done": "accepted", "warnings": list(outcome.warnings)}


def _item_json(item: InboxItem, store: MemoryStore) -> dict[str, Any]:
    about = picked(item, "id when") | picked(item.proposal, "path writer")
    return {**about, **picked(item, "reason warnings update_of"), "diff": store.inbox_diff(item)}


def _show_inbox(args: argparse.Namespace, store: MemoryStore, items: list[InboxItem]) -> None:
    if args.json:
        out_json([_item_json(item, store) for item in items])
        return
    if not items:
        note("The inbox is empty.")
        return
    for item in items:
        out(style(f"{item.id}  {item.proposal.writer}, {moment(item.when)}", "bold"))
        out(harmless(item.reason))
        for warning in item.warnings:
            out(style(harmless(warning), "yellow"))
        terminal.print_diff(store.inbox_diff(item))
        out()
    hint(args, "`lamina memory inbox accept ID`, `edit ID`, `reject ID`, or --all.")


def edited_text(text: str) -> str:
    """The text as the user left it. The file is removed unless the editor failed."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("There is no terminal to edit in. Run this in one, or set EDITOR.")
    command = command or "vi"
    name = _temporary(text)
    file = Path(name)
    try:
        done = subprocess.run([*shlex.split(command), name], check=False)
    except (OSError, ValueError) as error:
        file.unlink()
        raise UsageError(f"Can't start the editor {command!r}. Set EDITOR to another.") from error
    if done.returncode != 0:
        raise LaminaError(
            f"The editor {command!r} failed with code {done.returncode}. Nothing was changed; "
            f"what you typed is in {name}."
        )
    changed = file.read_bytes().decode("utf-8", "surrogateescape")
    file.unlink()
    return changed


@contextlib.contextmanager
def kept_if_refused(text: str) -> Generator[None]:
    """What was typed is not lost when it is refused: the error says where it is."""
    try:
        yield
    except LaminaError as error:
        try:
            name = _temporary(text)
        except OSError:
            raise error from None
        raise type(error)(f"{error} What you typed is in {name}.") from error


def _temporary(text: str) -> str:
    descriptor, name = tempfile.mkstemp(suffix=".md", prefix="lamina-")
    with open(descriptor, "wb") as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))
    return name
