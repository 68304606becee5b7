"""Processes of a sandboxed command that took off its mark: while one runs, this process adopts what is
orphaned below it (Linux). A process can clear its environment and leave its group, but its parents end
here all the same.

Adopted ones are told from what this process starts otherwise by the sandbox's filters of system calls,
which they can't take off. While two commands run nobody knows whose an orphan is: the last one ends it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from lamina.tools.sandbox import Sandbox, spawn

_SET, _GET = 36, 37  # PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER
_LOOKS, _SECONDS = 5, 2.0
_running: set[int] = set()  # commands in a sandbox
_turn = threading.Lock()
_adopted_before = False  # by whoever this process belongs to: left as it was

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)


def start(
    sandbox: Sandbox | None, popen: Callable[[], subprocess.Popen[bytes]]
) -> subprocess.Popen[bytes]:
    """Start it as `spawn` does, and adopt its orphans until it is forgotten."""
    global _adopted_before  # noqa: PLW0603 - a property of the process
    if sandbox is None or sys.platform != "linux":
        return spawn(sandbox, popen)
    with _turn:
        if not _running:
            _adopted_before = _adopts()
        _adopt(on=True)
        try:
            process = spawn(sandbox, popen)
            _running.add(process.pid)
            return process
        finally:
            _adopt(on=_adopted_before or bool(_running))


def forget(process: int) -> None:
    with _turn:
        if process in _running:
            _running.discard(process)
            _adopt(on=_adopted_before or bool(_running))


def orphans_of(process: int) -> list[int]:
    """Adopted ones that are alive, if they can only be this command's; the dead are buried."""
    found: list[int] = []
    with _turn:
        for child in _children() if _running == {process} else ():
            if child != process and _is_orphan(child, process):
                with contextlib.suppress(ChildProcessError):
                    if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG) is None:
                        found.append(child)
    return found


def end_all(process: int) -> None:
    """End them until none is seen: one that forks and exits all the time is somewhere else in every
    look, so it is ended as soon as it is found, and looked for again."""
    deadline, unseen = time.monotonic() + _SECONDS, 0
    while unseen < _LOOKS and time.monotonic() < deadline:
        found = orphans_of(process)
        for one in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        unseen = 0 if found else unseen + 1


def _children() -> list[int]:
    found: list[int] = []
    for one in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, one.read_text("ascii").split())
    return found


def _is_orphan(child: int, process: int) -> bool:
    """Not what the program that we are a part of has started itself: that is older, in its own session
    or without a sandbox. No process gets back into a session that it was started out of."""
    session, began = _begun(child)
    younger = (began, child) > (_begun(process)[1], process)  # of one tick, by their numbers
    return session != os.getsid(0) and younger and _filters(child) > _filters("self")


def _begun(process: int) -> tuple[int, int]:
    """Its session, and when it started, in ticks."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
        fields = text.rpartition(")")[2].split()
        return int(fields[3]), int(fields[19])
    return 0, 0


def _filters(process: int | str) -> int:
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{process}/status").read_text("utf-8", "replace")
        found = re.search(r"^Seccomp_filters:\s*(\d+)", status, re.MULTILINE)
        return int(found[1]) if found else 0
    return 0


def _adopts() -> bool:
    found = ctypes.c_int(0)
    _prctl(_GET, ctypes.byref(found))
    return bool(found.value)


def _adopt(*, on: bool) -> None:
    _prctl(_SET, ctypes.c_ulong(on))


def _prctl(option: int, value: object) -> None:
    rest = (ctypes.c_ulong(0),) * 3
    ctypes.CDLL(None).prctl(ctypes.c_int(option), value, *rest)
