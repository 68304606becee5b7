"""`lamina memory search | why | audit`: find memories as recall does, explain the recalls of a
session, and find what is wrong with the memories. Reads memories and ledgers and keeps the derived
index up to date; `audit --fix` repairs what is certain.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lamina.cli import terminal
from lamina.cli.options import add_verb, count, flag, hint, optional
from lamina.cli.terminal import harmless, note, one_line, out, out_json, picked, plural, style
from lamina.errors import MemoryStoreError, UsageError
from lamina.memories import Memory

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.memory import Audit, Repaired, Step
    from lamina.ports import MemoryStore
    from lamina.recall import Match
    from lamina.recall.why import RecallRecord

_STEP = "action path reason value"


def add_search(verbs: Any) -> argparse.ArgumentParser:
    verb = add_verb(verbs, "search", "find memories by their words")
    verb.add_argument("words", nargs="+", help="what to look for")
    verb.add_argument("-n", "--number", type=count, default=10, help="how many (10); 0: all")
    return verb


def add_why(verbs: Any) -> None:
    verb = add_verb(verbs, "why", "say why memories were recalled, or where one comes from")
    of = "a session's id or a prefix of it (the last), or a memory's name"
    optional(verb, "session", of, "SESSION | MEMORY")
    verb.add_argument("--turn", type=count, metavar="N", help="only for the N-th message you typed")


def add_audit(verbs: Any) -> argparse.ArgumentParser:
    verb = add_verb(verbs, "audit", "find what is wrong with the memories")
    flag(verb, "--fix", "make the repairs that are safe")
    return verb


def search(args: argparse.Namespace, store: MemoryStore) -> None:
    from lamina.recall import likeliest
    from lamina.recall.memory_index import MemoryIndex, fitting, sources

    words = " ".join(args.words)
    if not words.strip():
        raise UsageError("Give a word to search for: lamina memory search deploy")
    index = MemoryIndex(store)
    index.progress = line = terminal.Progress("Reading memories", quiet=args.quiet or args.json)
    found = fitting(index, words, args.number, time.time())
    line.clear()
    whose = sources(store) if found else {}
    hits = [
        (match, memory, chance, whose.get(memory.path, ""))
        for match, memory, chance in likeliest(found)
    ]
    if args.json:
        out_json([_found_json(*hit) for hit in hits])
    elif found:
        rows: list[list[str]] = []
        for _, memory, chance, source in hits:
            told = told_as(memory, memory.body)
            told = f"{source}: {told}" if source.startswith("teammate ") else told
            rows.append([f"{chance:.0%}", memory.type or "-", harmless(memory.path), told])
        out(terminal.fitted(rows, ["chance", "type", "file", "what"], gives_way=(1, 0), cut=3))
    else:
        note("Nothing found.")


def told_as(memory: Memory, otherwise: str) -> str:
    """What a row says of a memory, and whether it only quotes somebody."""
    told = memory.description or otherwise
    return f"quoted from {memory.quoted}: {told}" if memory.quoted else told


def _found_json(match: Match, memory: Memory, chance: float, source: str) -> dict[str, Any]:
    from lamina.cli.memory import as_json

    figures = {"score": match.score, "confidence": match.confidence, "chance": chance}
    told: dict[str, Any] = {name: round(value, 3) for name, value in figures.items()}
    parts = {name: round(value, 3) for name, value in match.parts.items() if value}
    return {**told, "parts": parts, **as_json(memory), "source": source}


def why(args: argparse.Namespace, config: Config) -> None:
    from lamina.cli import sessions
    from lamina.ledger.log import read
    from lamina.recall.why import recalls_of, turns_of

    files = sessions.find(config)
    if args.session and not any(file.stem.startswith(args.session) for file in files):
        from lamina.cli import memory, memory_history

        with memory.open_store(config) as store:
            try:
                path = memory.known(store, args.session) or memory.find(store, args.session)
            except MemoryStoreError as error:
                raise UsageError(f"{error} No session has that id either.") from error
            memory_history.why_it_is_there(args, store, path)
            return
    file = sessions.choose(files, args.session)
    entries = read(file).entries
    found = recalls_of(entries)
    if args.turn is not None:
        typed = turns_of(entries)
        if not 1 <= args.turn <= typed:
            wrong = f"There is no message {args.turn} in session {file.stem[:8]}"
            raise UsageError(f"{wrong}: it has {plural(typed, 'typed message')}.")
        found = [one for one in found if one.turn == args.turn]
    if args.json:
        out_json([one.to_json() for one in found])
        return
    show_recalls(found)
    if not found:
        where = f" for message {args.turn}" if args.turn is not None else ""
        note(f"Nothing was recalled{where} in session {file.stem[:8]}.")


def show_recalls(found: Sequence[RecallRecord]) -> None:
    from lamina.recall.why import lines

    for one in found:
        first, *rest = lines(one)
        out(style(harmless(first), "bold"))
        for line in rest:
            out(harmless(line))


def audit(args: argparse.Namespace, store: MemoryStore, config: Config) -> int:
    """0: nothing is wrong, or all of it was repaired; 1: something is left for a person to look at."""
    from lamina.memory import repair

    exact = args.fix or args.json  # the count below need not be
    look = auditor(store, config, ask_history=exact)
    found, steps = look()
    done: Sequence[Repaired] = ()
    if args.fix and steps:
        done = repair(store, steps)
        found, steps = look()
    if args.json:
        out_json(_audit_json(found, steps, done))
    else:
        _show_audit(args, found, steps, done)
        if unread := len(store.stamps()) - found.checked:
            note(f"Not looked at: {plural(unread, 'file')} that could not be read.")
    return 1 if found.faults else 0


def auditor(
    store: MemoryStore, config: Config, *, ask_history: bool = True
) -> Callable[[], tuple[Audit, Sequence[Step]]]:
    """Looks the memories over: what is wrong, and what can be repaired without a reader."""
    from lamina.memory import look_over
    from lamina.recall.memory_index import USES_FILE, load_uses

    uses = load_uses(store.state / USES_FILE)
    return partial(
        look_over,
        store,
        time.time(),
        with_index=config.bool("memory.index"),
        last_used={path: use.last for path, use in uses.items()},
        exists=lambda name: (config.project / name).exists(),
        ask_history=ask_history,
    )


def _show_audit(
    args: argparse.Namespace, found: Audit, steps: Sequence[Step], done: Sequence[Repaired]
) -> None:
    from lamina.memory import FEW_TO_ASK

    for item in done:
        what = f"{item.step.action.replace('_', ' ')} {harmless(item.step.path)}"
        if item.failure:
            note(f"not repaired: {what}: {harmless(item.failure)}")
        else:
            out(f"{style('repaired', 'green')}  {what}: {harmless(item.step.reason)}")
    rows: list[list[str]] = []
    for fault in found.faults:
        kind = fault.kind + ("?" if fault.doubtful else "")
        rows.append([kind, one_line(fault.path, 250), one_line(fault.reason, 1000)])
    for line in terminal.table_lines(rows):
        out(line)
    counts = ", ".join(f"{kind} {count}" for kind, count in found.counts.items() if count)
    checked = plural(found.checked, "memory", "memories")
    out(style(f"{checked} checked: {counts or 'nothing wrong'}", "dim"))
    if found.counts["secret"]:
        hint(
            args, "Change a secret where it is used; then run `lamina memory forget FILE --purge`."
        )
    if steps and not args.fix:
        deletes = sum(step.action == "delete" for step in steps)
        most = "at most " if deletes > FEW_TO_ASK else ""  # it keeps what a person wrote
        would = f"`lamina memory audit --fix` would make {most}{plural(len(steps), 'repair')}"
        hint(args, f"{would}; a ? marks what is for you to judge.")


def _audit_json(found: Audit, steps: Sequence[Step], done: Sequence[Repaired]) -> dict[str, object]:
    return {
        "checked": found.checked,
        "counts": dict(found.counts),
        "faults": [
            picked(fault, "kind path reason doubtful other")
            | ({"line": fault.line, "rule": fault.rule} if fault.rule else {})
            for fault in found.faults
        ],
        "steps": [picked(step, _STEP) for step in steps],
        "done": [{**picked(item.step, _STEP), "failure": item.failure} for item in done],
    }
