"""Taking a dream back: its one commit undone, and what came back left alone from then on."""

from __future__ import annotations

from lamina.errors import UsageError
from lamina.layers.dream_record import DreamRecord
from lamina.memory.commits import Commit
from lamina.memory.file_store import FileStore
from lamina.memory.index import is_index
from lamina.memory.undo import InForce, in_force, undo


def last_dream(store: FileStore, commit_id: str = "") -> InForce | None:
    """The newest dream that changed something and was not taken back, or the one with this id."""
    store.journal.settle()
    for one in in_force(store.journal.history):
        named = one.change.id.startswith(commit_id) or one.by.id.startswith(commit_id)
        if one.change.writer == "dream" and named:
            return one
    return None


def take_back(store: FileStore, commit_id: str = "") -> tuple[Commit, list[str]]:
    """Undo the last dream, or this one; the files that changed. What was edited since stays."""
    dream = last_dream(store, commit_id)
    if dream is None:
        which = f"dream {commit_id}" if commit_id else "dream"
        raise UsageError(f"There is no {which} to undo. `lamina dream log` shows what there was.")
    paths = undo(store, dream.by.id)
    back = {path: store.files.read(path) for path in paths if not is_index(path)}
    DreamRecord(store.state).take_back(
        {path: content for path, content in back.items() if content is not None}
    )
    return dream.change, paths
