"""How an index is kept in a file that may be deleted, and what documents mean in one of their own."""

from __future__ import annotations

import atexit
import os
import threading
import time
import zlib
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar
from weakref import WeakSet

import msgspec

from lamina.errors import StorageError
from lamina.local.embedder import Meanings, has_sentence_model, sentence_model
from lamina.machine import make_private, open_private
from lamina.recall import IndexTorn
from lamina.recall.kept import BLOCK, Apart, Blocks, InFile, sums_of

# ---- an index in a file

_VERSION = 12  # raised whenever terms, fields or vectors change their meaning
_ABANDONED = 3_600.0  # seconds after which nobody is writing any more
_MAGIC = b"lamina-recall-index\n"
_START = len(_MAGIC) + 20  # bytes: what it is, a sum of all up to the long rows, two sizes
_ALIGNED = 8  # where long rows begin


class Savable(Protocol):
    def to_state(self) -> dict[str, Any]: ...
    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self: ...


_Index = TypeVar("_Index", bound=Savable)


def save(index: Savable, path: Path) -> None:
    """Writes the index beside its old self and swaps them; the old one stays whole till then. What
    killed processes left half written of it is removed first."""
    parts = _encoded({"version": _VERSION, "state": index.to_state()})
    fresh = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident():x}.tmp")
    try:
        make_private(path.parent)
        for left in path.parent.glob(f"{path.name}.*.tmp"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > _ABANDONED:
                    left.unlink()
        # What was said and remembered can be read from it: it is the owner's alone.
        with open(fresh, "wb", opener=open_private) as file:
            file.writelines(parts)
        fresh.replace(path)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise StorageError(
            f"The search index {path} could not be written ({error.strerror}); "
            "free space or make the folder writable, or delete the index."
        ) from error


def load(kind: type[_Index], path: Path, *, in_parts: bool = False) -> _Index | None:
    """The index in the file; None when there is none, or one that is torn, foreign or of another
    version: then it is built again from what it was derived from. With `in_parts` long rows are read
    and checked when they are asked for, and IndexTorn may come as late as that."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    head, behind, apart = _head(descriptor)
    if head is None:
        os.close(descriptor)
        return None
    blocks = Blocks(descriptor, behind, head[len(head) - _sums_size(apart) :].cast("I"))
    try:
        rows: Apart = InFile(blocks, 0, apart)
        rows = rows if in_parts else Apart(rows.read())
        saved = _decoded(head[: len(head) - _sums_size(apart)], rows)
        return kind.from_state(saved["state"]) if saved["version"] == _VERSION else None
    except (IndexTorn, msgspec.DecodeError, KeyError, TypeError, ValueError, IndexError):
        return None


def _head(descriptor: int) -> tuple[memoryview | None, int, int]:
    """What stands before the long rows, the sums of their blocks at its end; where they begin, and
    their size. None for what no index of ours begins with, or one that is cut off."""
    with suppress(OSError):
        start = os.pread(descriptor, _START, 0)
        size, apart = int.from_bytes(start[-16:-8], "big"), int.from_bytes(start[-8:], "big")
        behind = _START + size + _sums_size(apart)
        if start.startswith(_MAGIC) and os.fstat(descriptor).st_size == behind + apart:
            head = os.pread(descriptor, behind - _START, _START)
            sum_ = zlib.crc32(head, zlib.crc32(start[-16:]))
            if sum_ == int.from_bytes(start[len(_MAGIC) : -16], "big"):
                return memoryview(head), behind, apart
    return None, 0, 0


def _sums_size(apart: int) -> int:
    return 4 * -(-apart // BLOCK)


def _encoded(state: dict[str, Any]) -> list[bytes | memoryview]:
    apart: list[memoryview] = []

    def put(found: Any) -> msgspec.msgpack.Ext:
        rows = found.read()
        apart.extend((rows, memoryview(bytes(-len(rows) % _ALIGNED))))
        return msgspec.msgpack.Ext(0, len(rows).to_bytes(8, "big"))

    head = msgspec.msgpack.encode(state, enc_hook=put)
    sums = sums_of(apart).tobytes()
    sizes = len(head).to_bytes(8, "big") + sum(map(len, apart)).to_bytes(8, "big")
    check = zlib.crc32(sums, zlib.crc32(head, zlib.crc32(sizes)))
    return [_MAGIC, check.to_bytes(4, "big"), sizes, head, sums, *apart]


def _decoded(head: memoryview, apart: Apart) -> Any:
    at = 0

    def take(_: int, size: memoryview) -> Apart:
        nonlocal at
        first, at = at, at + int.from_bytes(size, "big")
        taken = apart.part(first, at)
        at += -at % _ALIGNED
        return taken

    return msgspec.msgpack.decode(head, ext_hook=take)


# ---- meanings in a file

_ENCODED_AT_ONCE = 8  # documents; a process that ends waits for that many
_SAVED_EVERY = 10.0  # seconds of encoding that a killed process may lose
_leaving = threading.Event()
_workers: WeakSet[threading.Thread] = WeakSet()


def _leave() -> None:
    """A thread that Python ends inside the model takes the process down, and its work with it."""
    _leaving.set()
    for worker in [*_workers]:
        worker.join()


atexit.register(_leave)


class MeaningFile:
    """Keeps what documents mean in a file of their own, which may be deleted, and encodes what is
    new in a thread. `read` gives a document's text, or None where it is no more."""

    def __init__(self, path: Path, read: Callable[[str], str | None]) -> None:
        self._path = path
        self._read = read
        self._meanings: Meanings | None = None
        self._worker: threading.Thread | None = None
        self._asked = False
        self._changed: set[str] = set()  # since the thread began, which may have read them before

    @property
    def loaded(self) -> bool:
        """Would `of` take no time, but for what it waits for?"""
        return not has_sentence_model() or self._asked

    def of(
        self,
        ids: Collection[str],
        *,
        seconds: float,
        progress: Callable[[int, int], None] | None = None,
    ) -> Meanings | None:
        """What is known of these documents, the only ones, after at most so long for what is new;
        None without a model of sentences. `progress` is told how many are encoded, of how many."""
        model, self._asked = sentence_model(), True
        if model is None:
            return None
        meanings = self._known()
        if meanings is None:
            meanings = self._meanings = Meanings()
        meanings.model = model
        until = time.monotonic() + seconds
        waiting = [id_ for id_ in ids if id_ not in meanings]
        if waiting and (self._worker is None or not self._worker.is_alive()):
            self._changed.clear()
            given = meanings, waiting, frozenset(ids)
            self._worker = threading.Thread(target=self._encode, args=given, daemon=True)
            _workers.add(self._worker)
            self._worker.start()
        while waiting:
            left = until - time.monotonic()
            if self._worker is not None and left > 0:
                self._worker.join(min(left, 0.1))
            if progress is not None:
                progress(sum(id_ in meanings for id_ in waiting), len(waiting))
            if left <= 0 or self._worker is None or not self._worker.is_alive():
                break
        return meanings

    def forget(self, ids: Collection[str]) -> None:
        """Documents that are gone, or have another text now."""
        self._changed.update(ids)
        meanings = self._known()
        if meanings is not None and meanings.forget(ids):
            with suppress(StorageError):
                save(meanings, self._path)

    def keep(self, ids: Collection[str]) -> None:
        """Leaves nothing of other documents, in the file either."""
        meanings = self._known()
        if meanings is not None and meanings.keep(ids):
            save(meanings, self._path)

    def _known(self) -> Meanings | None:
        if self._meanings is None:
            self._meanings = load(Meanings, self._path)
        return self._meanings

    def _encode(self, meanings: Meanings, waiting: list[str], ids: Collection[str]) -> None:
        saved = time.monotonic()
        with suppress(StorageError):  # the next process encodes it again
            for first in range(0, len(waiting), _ENCODED_AT_ONCE):
                if _leaving.is_set():
                    break
                some = waiting[first : first + _ENCODED_AT_ONCE]
                meanings.add({id_: self._read(id_) or "" for id_ in some})
                meanings.forget([id_ for id_ in some if id_ in self._changed])
                if time.monotonic() - saved > _SAVED_EVERY:
                    save(meanings, self._path)
                    saved = time.monotonic()
            meanings.keep(ids)
            save(meanings, self._path)
