"""Taking a dream back: its one commit undone, and what came back left alone from then on."""

from __future__ import annotations

from lamina.errors import UsageError
from lamina.layers.dream_record import DreamRecord
from lamina.memory.commits import Commit
from lamina.memory.file_store import FileStore
from lamina.memory.index import is_index
from lamina.memory.undo import undo


def last_dream(store: FileStore) -> Commit | None:
    """The newest dream that changed something and was not taken back."""
    store.journal.settle()
    undone: set[str] = set()
    for commit in store.journal.history.log():
        undone.add(commit.marks.get("Undoes", ""))
        if commit.writer == "dream" and commit.id not in undone:
            return commit
    return None


def take_back(store: FileStore) -> tuple[Commit, list[str]]:
    """Undo the last dream; the files that changed. What was edited since stays."""
    commit = last_dream(store)
    if commit is None:
        raise UsageError("There is no dream to undo. `lamina dream log` shows what there was.")
    paths = undo(store, commit.id)
    back = {path: store.files.read(path) for path in paths if not is_index(path)}
    DreamRecord(store.state).take_back(
        {path: content for path, content in back.items() if content is not None}
    )
    return commit, paths
