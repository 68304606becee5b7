"""How often each memory was of use, and when last: what the ranker and ageing go by.

A derived file beside the memory directory: it may be deleted, and one that can't be read is begun
anew. Several sessions may count at once; a lock on a file of its own keeps them apart.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lamina.ledger.places import open_private, private_folder, write_private

NAME = "recall-uses.json"


@dataclass(frozen=True, slots=True)
class Use:
    """One memory's record."""

    count: int = 0  # answers that used it
    last: float = 0.0  # when the last of them was given
    shown: int = 0  # answers that it was shown to


def load(path: Path) -> dict[str, Use]:
    """What is known by memory path; {} where there is nothing that can be read."""
    import msgspec

    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Use])
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return {}


def count(path: Path, used: Mapping[str, bool], now: float) -> dict[str, Use]:
    """Count memories that were shown, and whether the answer used them; all records after that."""
    with _changing(path) as known:
        for memory, was_used in used.items():
            old = known.get(memory, Use())
            last = now if was_used else old.last
            known[memory] = Use(old.count + was_used, last, old.shown + 1)
        return known


def keep_only(path: Path, memories: Collection[str]) -> None:
    """Drop the records of all other memories."""
    if path.exists():
        with _changing(path) as known:
            for gone in known.keys() - set(memories):
                del known[gone]


@contextmanager
def _changing(path: Path) -> Generator[dict[str, Use]]:
    """The records, to be changed by one process at a time; written in one step."""
    import msgspec

    private_folder(path.parent)
    lock = open_private(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = load(path)
        yield known
        write_private(path, msgspec.json.encode(known))
    finally:
        os.close(lock)


def unused(known: Mapping[str, Use], *, shown: int = 3) -> list[str]:
    """Memories that were shown several times and never of use: the first to go when room is short,
    and the first to age out."""
    return [name for name, use in known.items() if not use.count and use.shown >= shown]
