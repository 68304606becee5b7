"""Taking back what was written: undo of any commit, and earlier versions of a file brought back.

Both are writes by the user like any other: gated, journalled, recorded, and can be undone again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lamina.errors import Conflict, UsageError
from lamina.events import Warned
from lamina.memory import drafts
from lamina.memory.commits import Commit
from lamina.memory.file_store import FileStore
from lamina.memory.index import is_index, without_change
from lamina.memory.intents import Change, Note
from lamina.memory.journal import merge_contents
from lamina.memory.store import Outcome
from lamina.memory.topics import read_topic


def undo(store: FileStore, commit_id: str) -> list[str]:
    """Take one commit back, whenever it was; what was changed since stays. The paths that changed.

    Conflict, and nothing is changed, where a later change touched the same lines.
    """
    store.catch_up()
    history = store.journal.history
    full = history.find(commit_id)
    commit = next((one for one in history.log() if one.id == full), None)
    if commit is None:
        raise UsageError(f"{full[:8]} is no commit. `lamina memory log` lists them.")
    if commit.writer == "outside" and history.is_first(full):
        raise UsageError(
            f"{full[:8]} is how the memories were when the history began: nothing is known from "
            "before. `lamina memory forget` removes a memory."
        )
    recorded = history.changes(full)
    with store.journal.writing():
        changes = [_reversed(store, change) for change in recorded]
        for change in changes:
            if change.after is not None and not is_index(change.path):
                memory = read_topic(change.path, change.after)
                back = replace(drafts.proposal_of(memory, "user", ""), allow_secret=True)
                for warning in store.judge(back, change.before, change.after).warnings:
                    store.emit(Warned(warning))
        old, _, new = commit.marks.get("Renamed", "").partition(" -> ")
        note = Note(
            writer="user",
            subject=f"undo {full[:8]}: {commit.subject}",
            origin="typed" if commit.origin == "typed" else "",
            marks={"Undoes": full} | ({"Renamed": f"{new} -> {old}"} if new else {}),
        )
        store.journal.apply(
            changes,
            note,
            tombstone=_put_up_again(store, commit, changes),
            lifted=commit.marks.get("Tombstone", "").split(),
        )
        if new:
            store.move_pin(new, old)
    return [change.path for change in changes if change.before != change.after]


def _put_up_again(store: FileStore, commit: Commit, changes: Sequence[Change]) -> str:
    """The change that is taken back had lifted a tombstone: what is gone again must stay away."""
    for change in changes:
        gone = change.before is not None and change.after is None
        if gone and commit.marks.get("Lifted") and not is_index(change.path):
            return store.tombstones.new(read_topic(change.path, change.before or b""))
    return ""


def _reversed(store: FileStore, change: Change) -> Change:
    """The file without that change, whatever else happened to it since."""
    current = store.files.read(change.path)
    if current == change.after:
        return Change(change.path, current, change.before)
    if current == change.before:
        return Change(change.path, current, current)
    merged = merge_contents(change.after, current, change.before, change.path)
    if merged is None and is_index(change.path) and current is not None:
        merged = without_change(current, change.before or b"", change.after or b"")
    if merged is None:
        raise Conflict(
            f"{change.path} was changed again since, at the same place. "
            "Undo the later commit first, or edit the file."
        )
    return Change(change.path, current, merged)


def restore(store: FileStore, path: str, commit_id: str) -> Outcome:
    """Bring a file back as it was after a commit."""
    store.catch_up()
    full = store.journal.history.find(commit_id)
    content = store.journal.history.content(path, full)
    if content is None:
        raise UsageError(
            f"{path} did not exist after {full[:8]}. `lamina memory log {path}` helps."
        )
    return store.write_file(
        path,
        content,
        writer="user",
        base=store.files.read(path),
        pointer=True,
        subject=f"restore {path} from {full[:8]}",
        allow_secret=True,  # it is in the history anyway, and the user asked for just this
    )
