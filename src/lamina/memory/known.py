"""All memories with their bodies, kept in mind between writes: only files that changed are read.

The gate compares every write with all of them. Within one second of the last look at every file,
and as long as no directory has changed but by our own writes, that look is not repeated.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

from lamina.errors import MemoryStoreError
from lamina.memories import Memory
from lamina.memory.beneath import Beneath
from lamina.memory.index import INDEX
from lamina.memory.outside import LARGEST
from lamina.memory.scan import TICK_NS, Scanner
from lamina.memory.topics import is_binary, read_topic

_TRUSTED = 1.0  # seconds


class _Kept(NamedTuple):
    key: tuple[int, int, int]
    memory: Memory
    sure: bool  # read well after the file's last change


class KnownMemories:
    def __init__(self, files: Beneath, scanner: Scanner) -> None:
        self._files = files
        self._scanner = scanner
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()
        self._looked = -_TRUSTED
        self._folders: dict[str, int] = {}  # and when each last changed

    def all(self) -> list[Memory]:
        """Every readable memory, in no particular order."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked >= _TRUSTED or self._changes() != self._folders:
                self._look()
                self._looked = now
            return [one.memory for one in self._kept.values()]

    def noted(self, paths: Iterable[str]) -> None:
        """These were just written by us: look at them alone."""
        with self._lock:
            for path in paths:
                if path.rsplit("/", 1)[-1] == INDEX:
                    continue
                self._kept.pop(path, None)
                with contextlib.suppress(MemoryStoreError):
                    stat = self._files.stat(path)
                    key = (stat.st_mtime_ns, stat.st_size, stat.st_ino) if stat else None
                    if key and (one := self._read(path, key)):
                        self._kept[path] = one
            self._folders = self._changes()

    def _look(self) -> None:
        kept: dict[str, _Kept] = {}
        known = self._kept.get
        folders = {"": 0}
        before = self._changes()
        for path, key in self._scanner.present():
            one = known(path)
            if one is None or one.key != key or not one.sure:
                one = self._read(path, key) if key[1] <= LARGEST else None
            if one is not None:
                kept[path] = one
            if "/" in path:
                folders[path.rpartition("/")[0]] = 0
        self._kept = kept
        # When the folders changed is from before the look: what came during it is seen next time.
        self._folders = {folder: before.get(folder, 0) for folder in folders}

    def _changes(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for folder in self._folders or {"": 0}:
            found[folder] = 0
            with contextlib.suppress(MemoryStoreError):
                descriptor = self._files.directory(folder)
                if descriptor is not None:
                    found[folder] = os.fstat(descriptor).st_mtime_ns
                    os.close(descriptor)
        return found

    def _read(self, path: str, key: tuple[int, int, int]) -> _Kept | None:
        now = time.time_ns()
        with contextlib.suppress(MemoryStoreError):
            content = self._files.read(path)
            if content is not None and not is_binary(content):
                memory = read_topic(path, content, mtime=key[0] / 1e9)
                return _Kept(key, memory, key[0] < now - TICK_NS)
        return None
