"""`lamina extract`: save what is worth remembering from a recorded session, as after an answer.
Writes memories through the gate and moves the session's cursor; with --dry-run it does neither.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from lamina.cli.options import config_of
from lamina.cli.sessions import choose, find, others
from lamina.cli.terminal import harmless, note, one_line, out, out_json, table, width
from lamina.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from lamina.config import Config
    from lamina.events import Event
    from lamina.memories import Proposal, Verdict
    from lamina.ports import MemoryStore

EXAMPLES = """
lamina extract                           the last session here
lamina extract 3f2a                      the one whose id starts with this
lamina extract 01a1e712                  also one of another agent's (`lamina sessions list`)
lamina extract --dry-run                 what the rules find, with no model and nothing written
"""
_TOLD = ("status", "by", "files", "inbox", "refused", "warnings", "revived", "reason")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session", nargs="?", default="", help="its id or a prefix of it (the last)"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what the rules find")
    parser.add_argument(
        "--model", metavar="NAME", help="use this model instead of the one in the settings"
    )


def run(args: argparse.Namespace) -> int:
    config = config_of(args)
    if not config.bool("memory.enabled"):
        raise UsageError(f"Memory is off ({config.source('memory.enabled').where}).")
    own = find(config)
    file = choose([*own, *others(config)] if args.session else own, args.session)
    if args.dry_run:
        return _show(args, config, file)
    if file in own:
        import anyio

        value = anyio.run(_extract, args, file.stem)
    else:
        value = _by_rules(config, file)
    if args.json:
        out_json(value)
        return 0
    if value["files"]:
        out(f"Memory updated: {harmless(', '.join(value['files']))}")
    else:
        out(f"Nothing to remember{': ' + value['reason'] if value['reason'] else ''}.")
    if not args.quiet:
        for path in value["revived"]:
            note(f"{harmless(path)} had been forgotten; you asked for it again, so it is back.")
        for path in value["inbox"]:
            note(f"{harmless(path)} is in the inbox; `lamina memory inbox` shows why.")
        for warning in value["warnings"]:
            note(harmless(warning))
        for reason in value["refused"]:
            note(f"not saved: {harmless(reason)}")
    return 0


async def _extract(args: argparse.Namespace, session_id: str) -> dict[str, Any]:
    from lamina.events import Warned
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
    return {"session": session_id, **{name: getattr(done, name) for name in _TOLD}}


def _by_rules(config: Config, file: Path) -> dict[str, Any]:
    """From another agent's session: its record is not ours to fork, so the local rules serve."""
    import time

    from lamina.layers import extraction
    from lamina.ledger import log
    from lamina.wiring import make_memory

    store = make_memory(config, file, lambda _: None)
    if store is None:
        raise UsageError("There is no place for memories here. `lamina doctor` says more.")
    said = [entry for entry in log.read(file).entries if entry["kind"] == "message"]
    with store:
        daily = config.bool("memory.daily_log")
        done = extraction.save_by_rules(store, said, file.stem, time.time(), daily=daily)
    return {"session": file.stem, **{name: getattr(done, name) for name in _TOLD}}


def _verdict(store: MemoryStore, proposal: Proposal) -> Verdict:
    from lamina.errors import GateRefused
    from lamina.memories import Verdict

    try:
        return store.judge(proposal, store.content(proposal.path), None)
    except GateRefused as error:
        return Verdict("refuse", str(error))


def _show(args: argparse.Namespace, config: Config, file: Path) -> int:
    """What the local extractor proposes, and what the gate decides."""
    import time

    from lamina.layers import extraction
    from lamina.ledger import log
    from lamina.ledger.record import Ledger
    from lamina.wiring import make_memory

    entries = log.read(file).entries
    ledger = Ledger.of(entries)
    store = make_memory(config, file, lambda _: None, ledger)
    if store is None:
        raise UsageError("There is no place for memories here. `lamina doctor` says more.")
    with store:
        new = extraction.after_cursor(ledger)
        rows = [
            (proposal, _verdict(store, proposal))
            for proposal in extraction.proposals(new, file.stem, time.time())
        ]
    if args.json:
        names = ("path", "type", "description", "body")
        shown = [
            {name: getattr(proposal, name) for name in names}
            | {"decision": verdict.decision, "reason": verdict.reason}
            for proposal, verdict in rows
        ]
        out_json({"session": file.stem, "messages": len(new), "proposals": shown})
        return 0
    if not rows:
        note("The rules find nothing new to remember.")
        return 0
    room = max(20, width() - 60)
    cells = [
        [verdict.decision, proposal.path, one_line(verdict.reason or proposal.description, room)]
        for proposal, verdict in rows
    ]
    out(table(cells))
    return 0
