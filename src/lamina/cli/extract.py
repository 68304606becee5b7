"""`lamina extract`: save what is worth remembering from a recorded session, as after an answer.
Writes memories through the gate and moves the session's cursor; with --dry-run it does neither.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from lamina.cli import terminal
from lamina.cli.options import choose_model, config_of, flag, optional
from lamina.cli.sessions import changed, choose, find, others
from lamina.cli.terminal import StatusLine, harmless, note, out, out_decisions, out_json, picked
from lamina.config import Config
from lamina.errors import GateRefused, UsageError
from lamina.events import Event, Warned
from lamina.ledger import log
from lamina.ledger.record import Ledger
from lamina.memories import Proposal, Verdict
from lamina.ports import MemoryStore

EXAMPLES = """
lamina extract                           the last session here
lamina extract 3f2a                      the one whose id starts with this
lamina extract 01a1e712                  also one of another agent's (`lamina sessions list`)
lamina extract --dry-run                 what the rules find, with no model and nothing written
lamina extract --all                     every session here, all agents', by the rules alone
"""
_LISTS = ("files", "inbox", "refused", "warnings", "revived")
_TOLD = f"status by {' '.join(_LISTS)} reason"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    optional(parser, "session", "its id or a prefix of it (the last)")
    flag(parser, "--all", "every session here, including other agents', without a model")
    flag(parser, "--dry-run", "only show what the rules find")
    choose_model(parser)


def run(args: argparse.Namespace) -> None:
    config = config_of(args)
    if not config.bool("memory.enabled"):
        raise UsageError(f"Memory is off ({config.source('memory.enabled').where}).")
    if args.all and (args.session or args.model):
        raise UsageError(
            "--all covers every session, without a model: leave out the session and --model."
        )
    own = find(config)
    files = [*own, *others(config, quiet=args.quiet)] if args.all or args.session else own
    # What was said later counts more.
    files = sorted(files, key=changed) if args.all else [choose(files, args.session)]
    if args.dry_run:
        return _show(args, config, files)
    if args.all:
        value = _every(args, config, files)
    elif (file := files[0]) in own:
        value = anyio.run(_extract, args, file.stem)
    else:
        value = _by_rules(config, file)
    return out_json(value) if args.json else _tell(value, quiet=args.quiet)


_SAID = {
    "revived": "{} had been forgotten; you asked for it again, so it is back.",
    "inbox": "{} is in the inbox; `lamina memory inbox` shows why.",
    "warnings": "{}",
    "refused": "not saved: {}",
}


def _tell(value: dict[str, Any], *, quiet: bool) -> None:
    if value["files"]:
        out(f"Memory updated: {harmless(', '.join(value['files']))}")
    else:
        out(f"Nothing to remember{': ' + value['reason'] if value['reason'] else ''}.")
    for kind, words in _SAID.items() if not quiet else ():
        for one in value[kind]:
            note(words.format(harmless(one)))


async def _extract(args: argparse.Namespace, session_id: str) -> dict[str, Any]:
    from lamina.layers import extraction
    from lamina.session import Session

    def hear(event: Event) -> None:
        if isinstance(event, Warned) and not args.quiet:
            note(f"lamina: {harmless(event.message)}")

    async with Session.open(
        args.project,
        args.model,
        home=args.home,
        session_id=session_id,
        resume=True,
        on_event=hear,
        claude=args.claude,
    ) as session:
        done = await extraction.run(session.state, str(session.ledger.head))
    return {"session": session_id, **picked(done, _TOLD)}


def _every(args: argparse.Namespace, config: Config, files: Sequence[Path]) -> dict[str, Any]:
    line = StatusLine(quiet=args.quiet or args.json)
    total: dict[str, Any] = {"sessions": len(files), **dict.fromkeys(_TOLD.split(), "")}
    total |= {name: [] for name in _LISTS}
    try:
        for number, file in enumerate(files, 1):
            line.say(f"Reading {number} of {terminal.plural(len(files), 'session')} (Ctrl-C stops)")
            found = _by_rules(config, file)
            for name in _LISTS:
                total[name] = [*dict.fromkeys([*total[name], *found[name]])]
    finally:
        line.clear()
    return {**total, "status": "completed", "by": "rules"}


def _by_rules(config: Config, file: Path) -> dict[str, Any]:
    """From another agent's session: its record is not ours to fork, so the local rules serve."""
    from lamina.layers import extraction

    said = [entry for entry in log.read(file).entries if entry["kind"] == "message"]
    with _store(config, file) as store:
        daily = config.bool("memory.daily_log")
        done = extraction.save_by_rules(store, said, file.stem, time.time(), daily=daily)
    return {"session": file.stem, **picked(done, _TOLD)}


def _store(config: Config, file: Path, ledger: Ledger | None = None) -> MemoryStore:
    """The memory, which is told what was said in this session."""
    from lamina.wiring import make_memory

    store = make_memory(config, file, lambda _: None, ledger)
    if store is None:
        raise UsageError("There is no place for memories here. `lamina doctor` says more.")
    return store


def _verdict(store: MemoryStore, proposal: Proposal) -> Verdict:
    try:
        return store.judge(proposal, store.content(proposal.path), None)
    except GateRefused as error:
        return Verdict("refuse", str(error))


def _show(args: argparse.Namespace, config: Config, files: Sequence[Path]) -> None:
    """What the local extractor proposes, and what the gate decides."""
    found = [_proposed(config, file) for file in files]
    if args.json:
        out_json(found if args.all else found[0])
        return
    rows = [row for one in found for row in one["proposals"]]
    if not rows:
        note("The rules find nothing new to remember.")
        return
    out_decisions([{**row, "reason": row["reason"] or row["description"]} for row in rows], 60)


def _proposed(config: Config, file: Path) -> dict[str, Any]:
    from lamina.layers import extraction
    from lamina.memory import in_their_words

    ledger = Ledger.of(log.read(file).entries)
    with _store(config, file, ledger) as store:
        new = extraction.after_cursor(ledger)
        found = extraction.proposals(new, file.stem, time.time())
        said = [in_their_words(store, proposal) for proposal in found]
        shown = [
            picked(one, "path type description body")
            | picked(_verdict(store, one), "decision reason")
            for one in said
        ]
    return {"session": file.stem, "messages": len(new), "proposals": shown}
