"""All memories with their bodies, kept in mind between writes: only files that changed are read."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import NamedTuple

from lamina.errors import MemoryStoreError
from lamina.memories import Memory
from lamina.memory.beneath import Beneath
from lamina.memory.outside import LARGEST
from lamina.memory.scan import TICK_NS, Scanner
from lamina.memory.topics import is_binary, read_topic


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

    def all(self) -> list[Memory]:
        """Every readable memory as it is now, in no particular order."""
        with self._lock:
            kept: dict[str, _Kept] = {}
            known = self._kept.get
            for path, key in self._scanner.present():
                one = known(path)
                if one is None or one.key != key or not one.sure:
                    one = self._read(path, key) if key[1] <= LARGEST else None
                if one is not None:
                    kept[path] = one
            self._kept = kept
            return [one.memory for one in kept.values()]

    def _read(self, path: str, key: tuple[int, int, int]) -> _Kept | None:
        now = time.time_ns()
        with contextlib.suppress(MemoryStoreError):
            content = self._files.read(path)
            if content is not None and not is_binary(content):
                memory = read_topic(path, content, mtime=key[0] / 1e9)
                return _Kept(key, memory, key[0] < now - TICK_NS)
        return None
