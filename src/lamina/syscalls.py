"""Two Linux system calls that Python does not offer, `openat2` and `renameat2`, and what stands on
them: opening beneath a directory without following links, and naming a file without replacing one;
what Linux tells about sockets, and its reports of changed files.

Each raises OSError like its cousins in `os`; `Unsupported` says that this kernel, C library or file
system has no such call, and the caller takes the portable way. Touches nothing by itself.
"""

from __future__ import annotations

import errno
import functools
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_OPENAT2 = 437  # the same number on every architecture that Python has wheels for
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_ABSENT = (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENOTSUP)

NO_REPLACE = 1
EXCHANGE = 2


class Unsupported(Exception):
    """The call does not exist here."""


@functools.cache
def _libc() -> Any:
    if sys.platform != "linux":
        return None
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


@functools.cache
def _how(flags: int, mode: int) -> Any:
    """Only ever read, so one for all calls alike."""
    import ctypes

    class OpenHow(ctypes.Structure):
        _fields_ = [
            ("flags", ctypes.c_uint64),
            ("mode", ctypes.c_uint64),
            ("resolve", ctypes.c_uint64),
        ]

    return OpenHow(flags, mode, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)


def openat2(directory: int, path: str, flags: int, mode: int = 0) -> int:
    """Open `path` beneath the directory, following no link in any part of it."""
    libc = _libc()
    if libc is None:
        raise Unsupported("openat2")
    import ctypes

    how = _how(flags | os.O_CLOEXEC, mode if flags & os.O_CREAT else 0)
    code = 0
    for _ in range(16):  # EAGAIN: a rename elsewhere raced with the walk, and the kernel gave up
        descriptor = libc.syscall(
            _OPENAT2, directory, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how)
        )
        if descriptor >= 0:
            return int(descriptor)
        code = ctypes.get_errno()
        if code != errno.EAGAIN:
            break
    if code in (errno.ENOSYS, errno.EPERM):
        raise Unsupported("openat2")
    raise OSError(code, os.strerror(code), path)


def renameat2(directory: int, old: str, new: str, flags: int) -> None:
    """Rename inside one directory: never replacing (NO_REPLACE), or swapping the two (EXCHANGE)."""
    function = getattr(_libc(), "renameat2", None)
    if function is None:
        raise Unsupported("renameat2")
    import ctypes

    code = errno.EINTR
    while code == errno.EINTR:
        if function(directory, os.fsencode(old), directory, os.fsencode(new), flags) == 0:
            return
        code = ctypes.get_errno()
    if code in _ABSENT:
        raise Unsupported("renameat2")
    raise OSError(code, os.strerror(code), new)


def open_beneath(directory: int, path: str, flags: int) -> int:
    """Open `path` beneath the directory, following no link: by the kernel, else part by part."""
    try:
        return openat2(directory, path, flags)
    except Unsupported:
        return open_by_parts(directory, path.split("/"), flags)


def open_by_parts(directory: int, parts: list[str], flags: int) -> int:
    """The portable way: each part is opened by itself with O_NOFOLLOW."""
    folder = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    if flags & getattr(os, "O_PATH", 0):
        folder |= os.O_PATH  # a folder may be entered that may not be listed
    current = os.dup(directory)
    try:
        for part in parts[:-1]:
            below = os.open(part, folder, dir_fd=current)
            os.close(current)
            current = below
        return os.open(parts[-1], flags | os.O_NOFOLLOW, dir_fd=current)
    finally:
        os.close(current)


def put_new(directory: int, temporary: str, name: str) -> None:
    """Give a file its name; FileExistsError if somebody has it already."""
    try:
        renameat2(directory, temporary, name, NO_REPLACE)
    except Unsupported:
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        os.unlink(temporary, dir_fd=directory)


def flush(descriptor: int) -> None:
    """Force a file or directory to the disk itself: macOS needs more than fsync for that."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError:  # not on every file system, not on directories
            os.fsync(descriptor)
    else:
        os.fsync(descriptor)


def socket_owner(theirs: tuple[str, int], ours: tuple[str, int]) -> int | None:
    """The user at the other end of a TCP connection within this machine; None where none is told."""

    def written(address: tuple[str, int]) -> str:
        return f"{struct.unpack('=I', socket.inet_aton(address[0]))[0]:08X}:{address[1]:04X}"

    ends = written(theirs), written(ours)
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                _, local, remote, *_, user = line.split(None, 8)[:8]
                if local.endswith(ends[0]) and remote.endswith(ends[1]):
                    return int(user)
    return None


_CHANGES = 0x002 | 0x040 | 0x080 | 0x100 | 0x200  # modified, moved away and here, made, deleted
_REPORT = struct.Struct("iIII")


class Inotify:
    """The kernel's reports of what changes in folders; `file` is readable when there is one."""

    def __init__(self, libc: Any, file: int) -> None:
        self._libc, self.file = libc, file

    @classmethod
    def opened(cls) -> Inotify | None:
        """None where the kernel has none, or no more of them for this user."""
        if sys.platform != "linux":
            return None
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        file = libc.inotify_init1(os.O_CLOEXEC)
        return cls(libc, file) if file >= 0 else None

    def add(self, folder: Path) -> int:
        """The number by which reports name it; negative for one that is not there."""
        return self._libc.inotify_add_watch(self.file, os.fsencode(folder), _CHANGES)

    def read(self) -> Iterator[tuple[int, str]]:
        """What was reported: the folder's number, and the file's name."""
        data = os.read(self.file, 65_536)
        while len(data) >= _REPORT.size:
            number, _, _, length = _REPORT.unpack_from(data)
            yield number, os.fsdecode(data[_REPORT.size : _REPORT.size + length].rstrip(b"\0"))
            data = data[_REPORT.size + length :]


def is_alive(process: int) -> bool:
    """Does a process of this number run? One of another user's does too."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True
