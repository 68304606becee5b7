"""Taking back what was written: undo of the last change, or of any commit by its id, and earlier
versions of a file brought back.

Both are writes by the user like any other: journalled, recorded, and can be undone again. What another
program wrote is only taken back by a user who names that commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import dropwhile, islice

from lamina.errors import Conflict, GateRefused, UsageError
from lamina.events import Warned
from lamina.memories import Change, Commit, InForce, Note, Outcome, as_quoted
from lamina.memory import drafts
from lamina.memory.commits import RESTORES
from lamina.memory.index import is_index, without_change
from lamina.memory.journal import merge_contents
from lamina.memory.journalled import JournalledFiles
from lamina.memory.scan import is_memory_path
from lamina.memory.topics import read_topic


class FileHistory:
    """The store's history in git: `ports.MemoryHistory`."""

    def __init__(self, store: JournalledFiles) -> None:
        self._store = store
        self._git = store.journal.history

    @property
    def empty(self) -> bool:
        return self._git.empty

    def settle(self) -> None:
        self._store.journal.settle()

    def log(self, path: str = "") -> Iterator[Commit]:
        return self._git.log(path)

    def find(self, beginning: str) -> str:
        return self._git.find(beginning)

    def changes(self, commit: str) -> Sequence[Change]:
        return self._git.changes(commit)

    def content(self, path: str, commit: str) -> bytes | None:
        return self._git.content(path, commit)

    def versions(self, path: str) -> Sequence[tuple[Commit, bytes | None]]:
        return self._git.versions(path)

    def in_force(self) -> list[InForce]:
        """Newest first. An undo is none of them; undoing it by its id is the redo."""
        change_of: dict[str, Commit] = {}  # what each commit makes, takes back or redoes
        brings: set[str] = set()
        found: dict[str, InForce] = {}
        for commit in reversed(list(self._git.log())):
            target = commit.marks.get("Undoes", "")
            change = change_of.get(target) if target else commit
            if change is None:
                continue  # what it took back was purged
            change_of[commit.id] = change
            found.pop(change.id, None)
            if target not in brings:
                brings.add(commit.id)
                found[change.id] = InForce(change, commit)
        return [*found.values()][::-1]

    def last_change(self) -> Commit | None:
        """What an undo without an id takes back: the newest change made through Lamina that was not taken
        back and of which something is left; never one from outside."""
        self._store.catch_up()
        for change, by in self.in_force():
            if change.writer == "outside":
                continue
            try:
                if self.effect(by):
                    return by
            except Conflict:
                return by  # undoing it says so
        return None

    def effect(self, commit: Commit) -> list[Change]:
        """What undoing the commit would do to the files as they are now."""
        found = [_reversed(self._store, one) for one in self.changes(commit.id)]
        return [change for change in found if change.before != change.after]

    def named(self, beginning: str) -> Commit:
        """The commit that the user means; UsageError where it can't be taken back."""
        full = self.find(beginning)
        commit = next(one for one in self.log() if one.id == full)
        if commit.writer == "outside" and self._git.is_first(full):
            count = len(self.changes(full))
            raise UsageError(
                f"{full[:8]} is what was there when the history began: undoing it would delete "
                f"{count} file{'s' * (count != 1)} that Lamina did not write. "
                "`lamina memory forget NAME` removes a memory."
            )
        return commit

    def undo(self, commit: str) -> list[str]:
        """Take one commit back, whenever it was; what was changed since stays. The paths that changed.

        Conflict, and nothing is changed, where a later change touched the same lines.
        """
        store = self._store
        store.catch_up()
        taken = self.named(commit)
        recorded = self.changes(taken.id)
        with store.journal.writing():
            changes = [_reversed(store, change) for change in recorded]
            _judge(store, recorded, changes)
            old, _, new = taken.marks.get("Renamed", "").partition(" -> ")
            note = Note(
                writer="user",
                subject=f"undo {taken.id[:8]}: {taken.subject}",
                origin=_whose_again(store, taken, changes),
                marks={"Undoes": taken.id}
                | ({"Renamed": f"{new} -> {old}"} if new else {})
                | {key: taken.marks[key] for key in ("Teammates",) if key in taken.marks},
            )
            store.journal.apply(
                changes,
                note,
                tombstone=_put_up_again(store, taken, changes),
                lifted=taken.marks.get("Tombstone", "").split(),
            )
            if new:
                store.move_pin(new, old)
        return [change.path for change in changes if change.before != change.after]

    def restore(self, path: str, commit: str) -> Outcome:
        """Bring a file back as it was after a commit."""
        store = self._store
        store.catch_up()
        full = self.find(commit)
        content = self.content(path, full)
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
            subject=f"{RESTORES}{path} from {full[:8]}",
            allow_secret=True,  # it is in the history anyway, and the user asked for just this
        )


def _whose_again(store: JournalledFiles, commit: Commit, changes: Sequence[Change]) -> str:
    """Whose word the memory that comes back is: what it was before the change that is taken back."""
    back = [one for one in changes if one.after is not None and not is_index(one.path)]
    if len(back) != 1:
        return ""
    if quoted := read_topic(back[0].path, back[0].after or b"").quoted:
        return as_quoted(quoted)
    log = dropwhile(lambda one: one.id != commit.id, store.journal.history.log(back[0].path))
    told = (one.origin for one in islice(log, 1, None) if one.writer not in ("dream", "outside"))
    return next(filter(None, told), "")


def _judge(store: JournalledFiles, recorded: Sequence[Change], changes: Sequence[Change]) -> None:
    """A file that comes back as it was is the user's, whatever the gate thinks of it; only a text that
    never stood there may be refused. What the gate remarks is told either way."""
    gone = {change.path for change in changes if change.after is None}
    for old, change in zip(recorded, changes, strict=True):
        if change.after is None or is_index(change.path) or not is_memory_path(change.path):
            continue
        memory = read_topic(change.path, change.after)
        back = replace(drafts.proposal_of(memory, "user", ""), allow_secret=True)
        as_it_was = suppress(GateRefused) if change.after == old.before else nullcontext()
        with as_it_was:
            verdict = store.admission.judge(back, change.before, change.after)
            for warning in verdict.warnings:
                if not (verdict.update_of in gone and warning.startswith(verdict.update_of)):
                    store.emit(Warned(warning))


def _put_up_again(store: JournalledFiles, commit: Commit, changes: Sequence[Change]) -> str:
    """The change that is taken back had lifted a tombstone: what is gone again must stay away."""
    for change in changes:
        gone = change.before is not None and change.after is None
        if gone and commit.marks.get("Lifted") and not is_index(change.path):
            return store.tombstones.new(read_topic(change.path, change.before or b""))
    return ""


def _reversed(store: JournalledFiles, change: Change) -> Change:
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
            f"{change.path} was changed again since, at the same place, so nothing was undone. "
            f"`lamina memory log {change.path}` names the later change; undo that first, or edit the "
            "file."
        )
    return Change(change.path, current, merged)
