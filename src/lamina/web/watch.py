"""Tells pages that something changed, without looking for it: the kernel reports writes to the watched
folders (inotify), and a listener sleeps until there is a report or its reader has gone. Where there
is no inotify nothing is reported, and pages change when they are loaded again. Reads no file.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

_EVENTS = 0x002 | 0x040 | 0x080 | 0x100 | 0x200  # modified, moved away and here, made, deleted
_HEAD = struct.Struct("iIII")
_NOTED = (".md", ".jsonl", ".json")  # what people see; indexes and locks change with every look


class Watch:
    """The folders that somebody looks at, and who waits for news of them."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._fd = -1
        self._end = os.pipe()
        self._topics: dict[int, set[str]] = {}  # watched folder → what pages call it
        self._waiting: dict[int, str] = {}  # the end of a pipe to write to → topic
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def folders(self, topic: str, folders: Iterable[Path]) -> None:
        """News from these folders concern the topic. One that is not there yet is left out."""
        if self._libc is None:
            return
        with self._lock:
            if self._thread is None:
                self._fd = self._libc.inotify_init1(os.O_CLOEXEC)
                if self._fd < 0:  # the kernel has no more of them for this user
                    return
                self._thread = threading.Thread(target=self._read, daemon=True)
                self._thread.start()
            for folder in folders:
                number = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), _EVENTS)
                if number >= 0:
                    self._topics.setdefault(number, set()).add(topic)

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._fd, self._end[0]], [], [])
            if self._end[0] in ready:
                return
            data = os.read(self._fd, 65_536)
            numbers: set[int] = set()
            while len(data) >= _HEAD.size:
                number, _, _, length = _HEAD.unpack_from(data)
                name = os.fsdecode(data[_HEAD.size : _HEAD.size + length].rstrip(b"\0"))
                data = data[_HEAD.size + length :]
                if name.endswith(_NOTED) and not name.startswith("."):
                    numbers.add(number)
            with self._lock:
                topics = {topic for number in numbers for topic in self._topics.get(number, ())}
                for pipe, topic in self._waiting.items():
                    if topic in topics:
                        with suppress(OSError):  # full: it has been told
                            os.write(pipe, b"!")

    def close(self) -> None:
        os.write(self._end[1], b"!")
        if self._thread is not None:
            self._thread.join()
            os.close(self._fd)
        for end in self._end:
            os.close(end)

    def listen(self, topic: str, reader: socket.socket, tell: Callable[[], None]) -> None:
        """Call `tell` at every change of the topic, until the reader is gone."""
        ours, theirs = os.pipe()
        os.set_blocking(theirs, False)
        with self._lock:
            self._waiting[theirs] = topic
        try:
            while True:
                ready, _, _ = select.select([ours, reader], [], [])
                if reader in ready:  # it has nothing more to say to us: it left
                    return
                os.read(ours, 65_536)
                tell()
        except OSError:
            return
        finally:
            with self._lock:
                del self._waiting[theirs]
            os.close(ours)
            os.close(theirs)
