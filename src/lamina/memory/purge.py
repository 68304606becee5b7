"""Taking a memory out of the history for real: every commit is written anew without it.

The new repository holds only what is still reachable and replaces the old one whole; a crash leaves
either. It touches only the store's own folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from lamina.memories import Commit, Note
from lamina.memory.history import History
from lamina.memory.index import INDEX, without_pointer


def names_of(history: History, path: str) -> set[str]:
    """The path and every name that the file had before or after."""
    names = {path}
    renames = [
        commit.marks["Renamed"].split(" -> ", 1)
        for commit in history.log()
        if " -> " in commit.marks.get("Renamed", "")
    ]
    while found := {
        name for pair in renames if names & set(pair) for name in pair if name not in names
    }:
        names |= found
    return names


def purge(history: History, paths: Collection[str]) -> int:
    """Rewrite the history without these files and the index lines that point at them.

    Returns the number of commits that are no more. The caller holds the history's lock.
    """
    folder = history.folder
    fresh_folder = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh_folder, ignore_errors=True)
    fresh = History(fresh_folder)
    fresh.begin()
    old_commits = list(history.log())[::-1]
    new_ids: dict[str, str] = {}
    for commit in old_commits:
        contents: dict[str, bytes | None] = {}
        for change in history.changes(commit.id):
            if change.path not in paths:
                contents[change.path] = _cleaned(change.path, change.after, paths)
        if contents and (new := fresh.commit(contents, _note(commit, paths, new_ids))):
            new_ids[commit.id] = new
    history.close()
    fresh.close()
    _swap(folder, fresh_folder)
    return len(old_commits) - len(new_ids)


def purge_copies(state: Path, paths: Collection[str]) -> None:
    """Remove what accidents left beside the history: damaged histories, which can't be rewritten, and
    versions that were rescued after a crash."""
    for aside in state.glob("history.git.damaged-*"):
        if aside.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink(missing_ok=True)
    names = tuple(path.replace("/", "-") for path in paths)
    for rescued in state.glob("rescued/*"):
        if rescued.name.endswith(names):
            rescued.unlink(missing_ok=True)
    for intent in state.glob("intents/*.damaged"):
        content = intent.read_bytes()
        if any(path.encode("utf-8", "surrogateescape") in content for path in paths):
            intent.unlink(missing_ok=True)


def _cleaned(path: str, content: bytes | None, paths: Collection[str]) -> bytes | None:
    if content is None or path.rsplit("/", 1)[-1] != INDEX:
        return content
    folder = path.rpartition("/")[0]
    for purged in paths:
        target = purged.removeprefix(f"{folder}/") if folder else purged
        content = without_pointer(content, target)
    return content


def _note(commit: Commit, paths: Collection[str], new_ids: Mapping[str, str]) -> Note:
    """The commit's note without any word on what was purged."""
    undone = commit.marks.get("Undoes", "")
    now = new_ids.get(undone, undone)
    undoes = {"Undoes": now} if undone else {}
    touched = any(name in text for name in paths for text in (commit.subject, str(commit.marks)))
    note = Note(
        writer=commit.writer,  # type: ignore[arg-type]
        subject=commit.subject.replace(f"undo {undone[:8]}:", f"undo {now[:8]}:", 1),
        session=commit.session,
        entries=commit.entries,
        origin=commit.origin,
        reason=commit.reason,
        marks={**commit.marks, **undoes},
        when=commit.when,
    )
    if touched or any(path in commit.paths for path in paths):
        return Note(
            writer=note.writer, subject="change, purged in part", marks=undoes, when=note.when
        )
    return note


def _swap(folder: Path, fresh: Path) -> None:
    """Put the new repository in the old one's place and delete the old one."""
    old = folder.with_name(f"{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def finish_interrupted(folder: Path) -> None:
    """After a crash: between the two renames the new repository is whole, before them the old one."""
    fresh, old = folder.with_name(f"{folder.name}.new"), folder.with_name(f"{folder.name}.old")
    if old.exists() and fresh.exists() and not folder.exists():
        fresh.rename(folder)
    shutil.rmtree(fresh, ignore_errors=True)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
