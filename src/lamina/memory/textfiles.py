"""Opens a text file for reading and says which file that really is. Reads only.

The file is opened first and asked afterwards where it lies, so that a link swapped in between
changes nothing. Devices, pipes, folders, binary and huge files are named, never read.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

MOST_BYTES = 4 * 1024 * 1024


class NotText(Exception):
    """Why a file was not read, in words for the user."""


@dataclass(frozen=True, slots=True)
class TextFile:
    path: str  # where it really lies, links resolved
    text: str
    size: int
    key: tuple[int, int]  # device and inode: the same file under any name


def read_text(path: str, most: int = MOST_BYTES) -> TextFile | None:
    """The file's text; None if there is none; `NotText` with the reason if it can't be taken."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name holds a NUL"
        raise NotText(f"it can't be opened ({reason})") from error
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            return None
        if not stat.S_ISREG(status.st_mode):
            raise NotText("it is no regular file")
        if status.st_size > most:
            raise NotText(f"it has {status.st_size:,} bytes, more than {most:,}")
        data = _read(descriptor, most)
        real = _real_path(descriptor, path)
    except OSError as error:
        raise NotText(f"it can't be read ({error.strerror})") from error
    finally:
        os.close(descriptor)
    if b"\x00" in data:
        raise NotText("it is no text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotText("it is no UTF-8 text") from error
    return TextFile(real, text, len(data), (status.st_dev, status.st_ino))


def _read(descriptor: int, most: int) -> bytes:
    parts: list[bytes] = []
    left = most
    while left > 0:
        part = os.read(descriptor, min(left, 1 << 20))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _real_path(descriptor: int, path: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        pass
    try:  # macOS
        import fcntl

        name = fcntl.fcntl(descriptor, getattr(fcntl, "F_GETPATH", 50), b"\x00" * 1024)
        return os.fsdecode(name.rstrip(b"\x00"))
    except OSError:
        return os.path.realpath(path)
