"""Finds the processes of a command on Linux, wherever they went: by a mark in their environment.

A process keeps the environment that it was started with through forks, new sessions and new
parents. Reads /proc only.
"""

from __future__ import annotations

import contextlib
import os
import time

MARK = "LAMINA_CALL"
_LARGEST_ENVIRONMENT = 1 << 21
_ROUNDS = 5
_TRIES, _PAUSE = 20, 0.002
_KERNEL_THREAD, _EXITING = 0x00200000, 0x00000004


def marked(mark: str, since: int = 0) -> list[int]:
    """The processes with this mark. `since`: when the command started, in the kernel's ticks."""
    found: list[int] = []
    for _ in range(_ROUNDS):
        newest = _newest()
        found = _scan(f"{MARK}={mark}".encode(), since)
        if found or _newest() == newest:  # else one may have been born behind our back
            return found
    return found


def started_at(process: int) -> int:
    """When a process started, in ticks since the machine did; 0 if that can't be known."""
    fields = _status(str(process))
    return int(fields[19]) if len(fields) > 19 else 0


def _scan(wanted: bytes, since: int) -> list[int]:
    return [
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit() and wanted in _environment(name, since)
    ]


def _environment(process: str, since: int) -> bytes:
    """It reads as empty for a moment while a process begins another program: wait that out."""
    for _ in range(_TRIES):
        with contextlib.suppress(OSError), open(f"/proc/{process}/environ", "rb") as file:
            if content := file.read(_LARGEST_ENVIRONMENT):
                return content
        if not _may_be_starting(process, since):
            break
        time.sleep(_PAUSE)
    return b""


def _may_be_starting(process: str, since: int) -> bool:
    fields = _status(process)
    if len(fields) <= 19 or fields[0] in "ZX" or int(fields[19]) < since:
        return False
    return not int(fields[6]) & (_KERNEL_THREAD | _EXITING)


def _status(process: str) -> list[str]:
    """The fields of a process's status from the state on, which follows the name in brackets."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _newest() -> str:
    """The number of the newest process of the system."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return file.read().split()[-1]
    except OSError:
        return ""
