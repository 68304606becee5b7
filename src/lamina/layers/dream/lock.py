"""The lock of the dream: `.consolidate-lock` in the memory directory, held by the kernel.

Its mtime is the time of the last consolidation (no file: never); its body holds the PID of the last
holder and that time again, so that whoever holds it next can put the mtime back after a kill. The
file is never replaced. Touches this one file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from lamina.errors import MemoryStoreError
from lamina.machine import is_alive, open_private, private_folder

NAME = ".consolidate-lock"
_ROBBED_AFTER = 3600.0  # seconds after which another program takes a lock for abandoned
_TRIES = 5
_MOMENT = 0.005
_LONGEST_BODY = 200
_NO_PROCESS, _NO_TIME = 2**31, 2**62


class LockHeld(Exception):
    """Somebody else dreams; the words say who."""


@dataclass(slots=True)
class DreamLock:
    """Held until it is released; only success moves the mtime."""

    path: Path
    descriptor: int
    last_ns: int  # when the last dream succeeded; 0: never

    def succeeded(self, now: float) -> None:
        self.last_ns = int(now * 1e9)
        # What was dreamt is in the files, whatever is noted here.
        with contextlib.suppress(OSError):
            _write(self.descriptor, self.last_ns)

    def put_back(self, before: bytes | None) -> None:
        """Leave the file as it was before a dream that only looked, while it is still held."""
        with contextlib.suppress(OSError):
            if before is None and not self.last_ns:
                self.path.unlink()
            # Else another dreamt since.
            elif before and before.split()[1:2] == [b"%d" % self.last_ns]:
                os.pwrite(self.descriptor, before, 0)
                os.ftruncate(self.descriptor, len(before))
                os.utime(self.descriptor, ns=(self.last_ns, self.last_ns))

    def release(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def last_dream(path: Path) -> float:
    """When the last dream succeeded, by one stat; 0 if there was none."""
    try:
        return os.stat(path, follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


def left_at(path: Path) -> bytes | None:
    """What the last holder left; None if nobody ever dreamt."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def acquire(path: Path, *, now: float, claude: bool = False) -> DreamLock:
    """Take the lock or raise LockHeld at once. A dead holder never blocks, a live one is never robbed.

    `claude`: another program that knows only the PID rule may hold it, so that is respected too.
    """
    for _ in range(_TRIES):
        descriptor = _opened(path)
        try:
            lock = _locked(path, descriptor, now, claude=claude)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                raise MemoryStoreError(
                    f"Can't lock the dream by {path}: {error.strerror}."
                ) from error
            raise
        if lock is not None:
            return lock
        os.close(descriptor)  # the file was removed meanwhile: what we hold guards nothing
    raise LockHeld(f"{path} is removed again and again by another program")


def is_held(path: Path) -> bool:
    """Whether somebody dreams at this moment."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def repair(path: Path) -> None:
    """Put the mtime back if a holder was killed between writing the body and setting it."""
    with contextlib.suppress(OSError, LockHeld, MemoryStoreError):
        if not path.is_file():
            return
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            process, last = _body(descriptor)
            if last is None and not process and not os.fstat(descriptor).st_size:
                last = 0  # killed as soon as the file was there
            if last is not None and os.fstat(descriptor).st_mtime_ns != last:
                os.utime(descriptor, ns=(last, last))
        finally:
            os.close(descriptor)


def _opened(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        private_folder(path.parent)
        descriptor = open_private(path, flags)
    except OSError as error:
        odd = error.errno in (errno.EISDIR, errno.ELOOP)
        why = "it is no plain file. Remove it" if odd else error.strerror
        raise MemoryStoreError(f"Can't lock the dream by {path}: {why}.") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MemoryStoreError(f"Can't lock the dream by {path}: it is no plain file. Remove it.")
    return descriptor


def _locked(path: Path, descriptor: int, now: float, *, claude: bool) -> DreamLock | None:
    for again in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if again == _TRIES - 1:
                process, _ = _body(descriptor)
                raise LockHeld(f"process {process or '?'} dreams already") from None
            time.sleep(_MOMENT)  # somebody may only be looking
    here = os.fstat(descriptor)
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
        return None
    process, last = _body(descriptor)
    recent = 0 <= now - here.st_mtime < _ROBBED_AFTER
    another = process not in (0, os.getpid()) and is_alive(process)
    if claude and last is None and recent and another:
        raise LockHeld(f"process {process} of another program dreams")
    if last is None:  # written by that program, or brand new
        last = here.st_mtime_ns if process else 0
    _write(descriptor, last)
    return DreamLock(path, descriptor, last)


def _body(descriptor: int) -> tuple[int, int | None]:
    """The PID, and the time of the last dream where one of ours wrote it."""
    lines = os.pread(descriptor, _LONGEST_BODY, 0).decode("ascii", "replace").split()
    numbers = [int(line) if line.isdecimal() else None for line in lines[:2]]
    process, last = [*numbers, None, None][:2]
    # What is no PID and no time is somebody's garbage, and must not stop every dream from now on.
    known = process if process is not None and process < _NO_PROCESS else 0
    return known, last if last is not None and last < _NO_TIME else None


def _write(descriptor: int, last: int) -> None:
    """PID and time in one write, then the mtime: a kill in between is repaired from the body."""
    text = f"{os.getpid()}\n{last}\n".encode()
    old = os.fstat(descriptor).st_size
    try:
        os.pwrite(descriptor, text.ljust(min(old, _LONGEST_BODY), b"\n"), 0)
        os.ftruncate(descriptor, len(text))
    finally:  # on a full disk, too, a file that was only just made is no dream
        os.utime(descriptor, ns=(last, last))
