"""Keeps a derived index in one file, so that the next process need not read every memory again.

The file may be deleted at will, and one that is torn, foreign or of another version is simply not
taken: the index is built again from the memories. Touches only the path that it is given.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from lamina.errors import StorageError
from lamina.ledger.places import make_private, open_private

# Raised whenever terms, fields or vectors change their meaning.
_VERSION = 4
_ABANDONED = 3_600.0  # seconds after which nobody is writing any more
_MAGIC = b"lamina-recall-index\n"


class Savable(Protocol):
    def to_state(self) -> dict[str, Any]: ...
    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self: ...


_Index = TypeVar("_Index", bound=Savable)


def save(index: Savable, path: Path, *, tidy: bool = True) -> None:
    """Writes the index beside its old self and swaps them; the old one stays whole till then. `tidy`
    first removes what others left half written of it."""
    import msgspec

    body = msgspec.msgpack.encode({"version": _VERSION, "state": index.to_state()})
    whole = _MAGIC + zlib.crc32(body).to_bytes(4, "big") + body
    fresh = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident():x}.tmp")
    try:
        make_private(path.parent)
        if tidy:
            clear_away(path.parent, path.name)
        # What was said and remembered can be read from it: it is the owner's alone.
        with open(fresh, "wb", opener=open_private) as file:
            file.write(whole)
        fresh.replace(path)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise StorageError(
            f"The search index {path} could not be written ({error.strerror}); "
            "free space or make the folder writable, or delete the index."
        ) from error


def clear_away(folder: Path, name: str = "*") -> None:
    """What processes that were killed left behind half written."""
    for left in folder.glob(f"{name}.*.tmp"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED:
                left.unlink()


def load(kind: type[_Index], path: Path) -> _Index | None:
    """The index in the file, or None when there is none that can be taken."""
    import msgspec

    try:
        whole = path.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + 4
    body = memoryview(whole)[start:]  # an index of many sessions is large: no second copy of it
    if (
        whole[: len(_MAGIC)] != _MAGIC
        or zlib.crc32(body).to_bytes(4, "big") != whole[start - 4 : start]
    ):
        return None
    try:
        saved = msgspec.msgpack.decode(body)
        return kind.from_state(saved["state"]) if saved["version"] == _VERSION else None
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, IndexError):
        return None
