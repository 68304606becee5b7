"""Changes that did not come through the store: an editor, another tool, a shell command of ours.

They are found by comparing the files with the newest commit. Nobody vouches for them: they are
recorded as `outside`, or, where they follow a tool call of ours, handed to the store to be gated.
It reads memory files and writes only to the history and the derived index.
"""

from __future__ import annotations

import contextlib
import hashlib
import time

from lamina.errors import MemoryStoreError
from lamina.memories import Change
from lamina.memory.beneath import Beneath
from lamina.memory.header_index import IndexBroken
from lamina.memory.history import History
from lamina.memory.index import INDEX
from lamina.memory.intents import IntentLog
from lamina.memory.journal import outside_note
from lamina.memory.scan import TICK_NS, Found, Scanner, key_of

LARGEST = 4 * 1024 * 1024  # larger files are no memories and stay out of the history


def blob_id(content: bytes) -> str:
    """The name that git gives to this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def differences(
    files: Beneath, scanner: Scanner, history: History, *, busy: IntentLog
) -> list[Change]:
    """Every file that is not as the newest commit has it. The caller holds the history's lock.

    Files that a writer is changing at this moment are left out: their intent is on disk before they
    change, so looking at the intents last is enough.
    """
    known = history.files()
    present = {found.path: found for found in [*scanner.scan().found, *indexes(files)]}
    ids = _blob_ids(files, scanner, present)
    changed: list[Change] = []
    for path in sorted(known.keys() | present.keys()):
        if known.get(path) == ids.get(path):
            continue
        after = files.read(path) if path in ids else None
        if path in present and path not in ids:
            continue  # unreadable or too large: neither changed nor gone
        changed.append(Change(path, history.content(path) if path in known else None, after))
    writing = {
        change.path for intent in [*busy.unapplied(), *busy.applied()] for change in intent.changes
    }
    return [
        change for change in changed if change.path not in writing and change.before != change.after
    ]


def first_sight(
    files: Beneath, scanner: Scanner, history: History, *, busy: IntentLog
) -> dict[str, bytes]:
    """Every file as it was before anything was written through Lamina. The history is empty."""
    changed = differences(files, scanner, history, busy=busy)
    found: dict[str, bytes | None] = {change.path: change.after for change in changed}
    for intent in sorted([*busy.unapplied(), *busy.applied()], key=lambda one: one.id):
        for change in intent.changes:
            found.setdefault(change.path, change.before)
    return {path: content for path, content in found.items() if content is not None}


def record_outside(
    files: Beneath, scanner: Scanner, history: History, *, busy: IntentLog
) -> list[str]:
    """Commit what was changed outside; the paths. The caller holds the history's lock."""
    changed = differences(files, scanner, history, busy=busy)
    if changed:
        contents = {change.path: change.after for change in changed}
        history.commit(contents, outside_note(len(contents)))
    return [change.path for change in changed]


def nothing_new(files: Beneath, scanner: Scanner) -> bool:
    """Is every file as it was at the last comparison? Cheap: no content, no history is looked at."""
    keys = {path: key for path, key in scanner.present() if key[1] <= LARGEST}
    keys |= {
        one.path: (one.mtime_ns, one.size, one.inode)
        for one in indexes(files)
        if one.size <= LARGEST
    }
    try:
        return {path: row[:3] for path, row in scanner.index.recorded().items()} == keys
    except IndexBroken:
        return False


def indexes(files: Beneath) -> list[Found]:
    """The index of the directory and the team's, as files."""
    found: list[Found] = []
    for path in (INDEX, f"team/{INDEX}"):
        with contextlib.suppress(MemoryStoreError):
            if stat := files.stat(path):
                found.append(Found(path, *key_of(stat)))
    return found


def _blob_ids(files: Beneath, scanner: Scanner, present: dict[str, Found]) -> dict[str, str]:
    """The blob id of every readable file; those that did not change are not read again."""
    now = time.time_ns()
    try:
        recorded = scanner.index.recorded()
    except IndexBroken:
        recorded = {}
    ids: dict[str, str] = {}
    fresh: list[tuple[str, int, int, int, str]] = []
    for path, found in present.items():
        key = (found.mtime_ns, found.size, found.inode)
        old = recorded.get(path)
        if old is not None and old[:3] == key:
            ids[path] = old[3]
            continue
        if found.size > LARGEST:
            continue
        with contextlib.suppress(MemoryStoreError):
            content = files.read(path)
            if content is not None:
                ids[path] = blob_id(content)
                if found.mtime_ns < now - TICK_NS:
                    fresh.append((path, *key, ids[path]))
    gone = recorded.keys() - {path for path, found in present.items() if found.size <= LARGEST}
    if fresh or gone:
        with contextlib.suppress(IndexBroken):
            scanner.index.record(fresh, gone)
    return ids
