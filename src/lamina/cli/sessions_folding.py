"""`lamina sessions compact | expand | undo-compact`: shorten a recorded session, look at what a fold
stands for, take a compaction back. `expand` only reads; the others append to that session's ledger.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.cli.options import add_verb, config_of
from lamina.cli.terminal import harmless, note, out, out_json
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.ledger.record import Ledger
    from lamina.messages import Json

VERBS = ("compact", "expand", "undo-compact")


def add_verbs(verbs: argparse._SubParsersAction[Any]) -> None:  # pyright: ignore[reportPrivateUsage]
    """The verbs below `lamina sessions`."""
    compact = add_verb(verbs, "compact", "fold a session into a summary")
    compact.add_argument("--instructions", default="", help="what the summary should stress")
    part = compact.add_mutually_exclusive_group()
    part.add_argument("--from", dest="first", metavar="ENTRY", help="only what follows this entry")
    part.add_argument("--up-to", metavar="ENTRY", help="only what comes before this entry")
    compact.add_argument("--model", metavar="NAME", help="this model instead of the setting's")
    expand = add_verb(verbs, "expand", "print what a fold of the view stands for")
    undo = add_verb(verbs, "undo-compact", "take the last compaction back")
    for verb in (compact, expand, undo):
        verb.add_argument("id", nargs="?", default="", help="the session's id or its beginning")
    expand.add_argument(
        "n", nargs="?", default="", metavar="N", help="which: its number, or an id (the last)"
    )


def run(args: argparse.Namespace) -> int:
    from lamina.cli.sessions import choose, find

    config = config_of(args)
    file = choose(find(config), args.id)
    if args.verb == "compact":
        return _compact(args, file)
    if args.verb == "expand":
        return _expand(args, file)
    return _undo(args, file)


def _compact(args: argparse.Namespace, file: Path) -> int:
    import anyio

    from lamina.events import Event
    from lamina.ledger.spans import find
    from lamina.session import Session

    config = config_of(args, **({"model": args.model} if args.model else {}))

    def hear(event: Event) -> None:
        if event.kind == "warned" and not args.quiet:
            note(f"lamina: {harmless(str(getattr(event, 'message', '')))}")

    async def work() -> Any:
        async with Session.open(
            config.project, session_id=file.stem, resume=True, config=config, on_event=hear
        ) as session:
            projection = session.ledger.projection
            first = str(find(projection, args.first)["uuid"]) if args.first else ""
            last = str(find(projection, args.up_to)["uuid"]) if args.up_to else ""
            return await session.compact(args.instructions, from_entry=first, up_to_entry=last)

    done = anyio.run(work)
    if args.json:
        names = ("edit", "source", "tokens_before", "tokens_after", "score")
        out_json({"session": file.stem, **{name: getattr(done, name) for name in names}})
    else:
        out(sentence(done))
    return 0


def sentence(done: Any) -> str:
    """What a compaction did, for people."""
    if done.source == "cut":
        return "One message was too large for the window; its beginning and end are shown now."
    made = {"notes": "from the notes", "model": "with the model", "local": "from the record"}
    return (
        f"Compacted {made[done.source]}: {done.tokens_before:,} → {done.tokens_after:,} tokens, "
        f"{done.score:.0%} of the probed facts kept."
    )


def _expand(args: argparse.Namespace, file: Path) -> int:
    from lamina.ledger import spans
    from lamina.ledger.log import read
    from lamina.ledger.record import Ledger

    ledger = Ledger.of(read(file).entries)
    if args.n and not _is_number(args.n):
        text = spans.expand(ledger.projection, args.n)
    else:
        text = spans.expand(ledger.projection, str(_fold(ledger, args.n)["uuid"]))
    if args.json:
        out_json({"session": file.stem, "text": text})
    else:
        out(harmless(text))
    return 0


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 4  # ids are longer


def _fold(ledger: Ledger, number: str) -> Json:
    """The fold with this number, counted from 1 in the order they were made; without, the last."""
    folds = [e for e in ledger.entries if e["kind"] == "edit" and e.get("op") == "fold"]
    folds = [fold for fold in folds if fold.get("layer") != "undo"]
    if not folds:
        raise UsageError("Nothing was folded in this session.")
    wanted = int(number) if number else len(folds)
    if not 1 <= wanted <= len(folds):
        raise UsageError(f"There is no fold {wanted}: this session has {len(folds)}.")
    return folds[wanted - 1]


def _undo(args: argparse.Namespace, file: Path) -> int:
    from lamina.layers.snip import COMPACTION, undoing
    from lamina.ledger import edits
    from lamina.ledger.record import Ledger

    ledger = Ledger.open(file)
    try:
        before = ledger.tokens()
        edit, entries = undoing(ledger, layers=(COMPACTION,))
        ledger.append(edits.job("extraction.offer", "open", ledger.head), *entries)
        after = ledger.tokens()
    finally:
        ledger.close()
    if args.json:
        out_json({"session": file.stem, "edit": edit["uuid"], "tokens": after})
    else:
        out(f"The messages are back in the view: {before:,} → {after:,} tokens.")
    return 0
