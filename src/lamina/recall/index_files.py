"""How an index is kept in a file that may be deleted, and what documents mean in one of their own."""

from __future__ import annotations

import atexit
import os
import threading
import time
import zlib
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar
from weakref import WeakSet

import msgspec

from lamina.errors import StorageError
from lamina.local.embedder import Meanings, has_sentence_model, sentence_model
from lamina.machine import make_private, open_private

# ---- an index in a file

_VERSION = 11  # raised whenever terms, fields or vectors change their meaning
_ABANDONED = 3_600.0  # seconds after which nobody is writing any more
_MAGIC = b"lamina-recall-index\n"


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
            file.write(_MAGIC + reduce(_checked, parts, 0).to_bytes(4, "big"))
            file.writelines(parts)
        fresh.replace(path)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise StorageError(
            f"The search index {path} could not be written ({error.strerror}); "
            "free space or make the folder writable, or delete the index."
        ) from error


def load(kind: type[_Index], path: Path) -> _Index | None:
    """The index in the file; None when there is none, or one that is torn, foreign or of another
    version: then it is built again from what it was derived from."""
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + 4
    body = memoryview(whole)[start:]
    if whole[:start] != _MAGIC + zlib.crc32(body).to_bytes(4, "big"):
        return None
    try:
        saved = _decoded(body)
        return kind.from_state(saved["state"]) if saved["version"] == _VERSION else None
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, IndexError):
        return None


class Apart:
    """Long rows of numbers: they are written behind the rest and used where they were read, and no
    copy of a large index is made for either."""

    def __init__(self, rows: memoryview) -> None:
        self.rows = rows


def _encoded(state: dict[str, Any]) -> list[bytes | memoryview]:
    apart: list[memoryview] = []

    def put(found: Any) -> msgspec.msgpack.Ext:
        apart.append(found.rows)
        return msgspec.msgpack.Ext(0, found.rows.nbytes.to_bytes(8, "big"))

    head = msgspec.msgpack.encode(state, enc_hook=put)
    return [len(head).to_bytes(8, "big"), head, *apart]


def _decoded(body: memoryview) -> Any:
    end = at = 8 + int.from_bytes(body[:8], "big")

    def take(_: int, size: memoryview) -> memoryview:
        nonlocal at
        first, at = at, at + int.from_bytes(size, "big")
        return body[first:at]

    return msgspec.msgpack.decode(body[8:end], ext_hook=take)


def _checked(before: int, part: bytes | memoryview) -> int:
    return zlib.crc32(part, before)


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
