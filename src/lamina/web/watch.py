"""Tells pages that something changed, without looking for it: the kernel reports writes to the watched
folders (inotify), and a listener sleeps until there is a report or its reader has gone. Where there
is no inotify nothing is reported, and pages change when they are loaded again. Reads no file.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from lamina.syscalls import Inotify

# What people see, and the folders that it is in; indexes and locks change with every look.
_NOTED = (".md", ".jsonl", ".json", "memory", "team", "inbox", "dream", "spend", "subagents")


class Watch:
    """The folders that somebody looks at, and who waits for news of them."""

    def __init__(self) -> None:
        self._news: Inotify | None = None
        self._end = os.pipe()
        # Watched folder → what pages call it, and the one name that they await there, if any.
        self._topics: dict[int, set[tuple[str, str]]] = {}
        self._waiting: dict[int, str] = {}  # the end of a pipe to write to → topic
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def folders(self, topic: str, folders: Iterable[Path]) -> None:
        """News from these folders concern the topic."""
        with self._lock:
            if self._news is None and (news := Inotify.opened()):
                self._news = news
                self._thread = threading.Thread(target=self._read, args=[news], daemon=True)
                self._thread.start()
            for folder in folders:
                self._add(topic, folder)

    def _add(self, topic: str, folder: Path, awaited: str = "") -> None:
        """For a folder that is not there yet the nearest above it, until the next one comes."""
        if self._news is None:
            return
        if (number := self._news.add(folder)) < 0 and folder != folder.parent:
            self._add(topic, folder.parent, folder.name)
            number = self._news.add(folder)  # it may have come meanwhile
        if number >= 0:
            self._topics.setdefault(number, set()).add((topic, awaited))

    def _read(self, news: Inotify) -> None:
        while True:
            ready, _, _ = select.select([news.file, self._end[0]], [], [])
            if self._end[0] in ready:
                return
            reports = {*news.read()}
            with self._lock:
                topics = {
                    topic
                    for number, name in reports
                    for topic, awaited in self._topics.get(number, ())
                    if name == awaited or (not awaited and name.endswith(_NOTED) and name[0] != ".")
                }
                for pipe, topic in self._waiting.items():
                    if topic in topics:
                        with suppress(OSError):  # full: it has been told
                            os.write(pipe, b"!")

    def close(self) -> None:
        os.write(self._end[1], b"!")
        if self._thread is not None and self._news is not None:
            self._thread.join()
            os.close(self._news.file)
        for end in self._end:
            os.close(end)

    def listen(self, topic: str, reader: socket.socket, tell: Callable[[], object]) -> None:
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
