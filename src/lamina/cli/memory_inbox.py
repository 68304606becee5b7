"""`lamina memory inbox`: proposed changes waiting for review, to accept, edit or reject; and the
editor in which people write memories. Writes through the store, and temporary files for the editor.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lamina.cli.options import add_verb, flag
from lamina.cli.terminal import harmless, moment, note, out, out_json, print_diff, style
from lamina.errors import LaminaError, UsageError

if TYPE_CHECKING:
    from lamina.memories import InboxItem
    from lamina.ports import MemoryStore


def add_verbs(verbs: Any) -> None:
    inbox = add_verb(verbs, "inbox", "show what is waiting for review; accept, edit or reject it")
    inbox.add_argument(
        "action",
        nargs="?",
        choices=("show", "accept", "edit", "reject"),
        default="show",
        help="what to do (show)",
    )
    inbox.add_argument("item", nargs="*", help="ids or prefixes of them")
    flag(inbox, "--all", "everything in the inbox")
    flag(inbox, "--allow-secret", "save it even if it looks like a secret")


def run(args: argparse.Namespace, store: MemoryStore) -> int | None:
    items = _chosen(args, store)
    if args.action == "show":
        return _show(args, store, items)
    done: list[dict[str, object]] = []
    code = 0
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
    for row in done:
        if "failed" in row:
            note(f"lamina: {harmless(str(row['path']))}: {harmless(str(row['failed']))}")
        else:
            out(f"{str(row['done']).capitalize()}: {harmless(str(row['path']))}")
            warnings = cast("list[str]", row.get("warnings", []))
            for warning in () if args.quiet else warnings:
                note(harmless(warning))
    return code


def _chosen(args: argparse.Namespace, store: MemoryStore) -> list[InboxItem]:
    if args.item and args.all:
        raise UsageError("Name items or give --all, not both.")
    if args.item:
        return [store.waiting_item(item) for item in args.item]
    if args.action == "show" or args.all:
        return [*store.waiting()]
    raise UsageError(f"Say which: `lamina memory inbox {args.action} ID`, or --all.")


def _do(args: argparse.Namespace, store: MemoryStore, item: InboxItem) -> dict[str, object]:
    if args.action == "reject":
        store.reject(item.id)
        return {"done": "rejected"}
    if args.action == "edit":
        proposed = store.proposed_content(item).decode("utf-8", "surrogateescape")
        text = edited_text(proposed)
        with kept_if_refused(text):
            outcome = store.accept(
                item.id,
                edited=text.encode("utf-8", "surrogateescape"),
                allow_secret=args.allow_secret,
            )
    else:
        outcome = store.accept(item.id, allow_secret=args.allow_secret)
    return {"done": "accepted", "warnings": list(outcome.warnings)}


def _show(args: argparse.Namespace, store: MemoryStore, items: list[InboxItem]) -> None:
    if args.json:
        out_json([_as_json(item, store.inbox_diff(item)) for item in items])
        return
    if not items:
        note("The inbox is empty.")
        return
    for item in items:
        out(style(f"{item.id}  {item.proposal.writer}, {moment(item.when)}", "bold"))
        out(harmless(item.reason))
        for warning in item.warnings:
            out(style(harmless(warning), "yellow"))
        print_diff(store.inbox_diff(item))
        out()
    if not args.quiet:
        note("`lamina memory inbox accept ID`, `edit ID`, `reject ID`, or --all.")


def _as_json(item: InboxItem, diff: str) -> dict[str, object]:
    return {
        "id": item.id,
        "when": item.when,
        "path": item.proposal.path,
        "writer": item.proposal.writer,
        "reason": item.reason,
        "warnings": list(item.warnings),
        "update_of": item.update_of,
        "diff": diff,
    }


# ---- the editor


def edited_text(text: str) -> str:
    """The text as the user left it. The file is removed unless the editor failed."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
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
