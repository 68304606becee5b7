"""How the tools reach files: paths resolved once, opened part by part without following links,
replaced whole or not at all.

Only what is at the resolved path is touched: a link that somebody puts in its way between the
permission and the opening makes the call fail instead of leading it elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from lamina.errors import ToolError
from lamina.messages import Json
from lamina.ports import SeenFile, ToolContext

LARGEST_WHOLE = 32 * 1024 * 1024  # up to here a file is loaded and its digest taken
_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_KERNEL_FILES = ("/proc/", "/sys/")


def resolve(path: str, context: ToolContext) -> Path:
    """The one true path: absolute, `~` and links resolved; relative ones start at the cwd."""
    if not path or "\0" in path:
        raise ToolError("A path must not be empty or contain NUL.")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ToolError("The path has characters that no file name can have.") from error
    return Path(os.path.realpath(context.cwd / Path(path).expanduser()))


def with_real_path(input: Json, field: str, context: ToolContext) -> Json:  # noqa: A002
    """The input with one path field resolved."""
    return {**input, field: str(resolve(str(input[field]), context))}


def complaint(error: OSError, path: Path, doing: str) -> ToolError:
    """An operating system's error as one sentence about this file."""
    if isinstance(error, FileNotFoundError):
        return ToolError(f"{path} does not exist.")
    if error.errno == errno.ELOOP:
        return ToolError(f"Can't {doing} {path}: a link is in its way. Use the real path.")
    return ToolError(f"Can't {doing} {path}: {error.strerror or error}.")


@contextlib.contextmanager
def parent_of(path: Path, *, create: bool = False) -> Generator[int]:
    """A descriptor of the directory that holds the path, reached without following any link."""
    current = os.open("/", _DIRECTORY)
    try:
        for part in path.parts[1:-1]:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=current)
            below = os.open(part, _DIRECTORY, dir_fd=current)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)


@contextlib.contextmanager
def open_regular(path: Path) -> Generator[tuple[BinaryIO, os.stat_result]]:
    """A regular file for reading; anything else is refused before it is opened."""
    if str(path).startswith(_KERNEL_FILES):
        raise ToolError(f"{path} is not a stored file but a window into the system. Use Bash.")
    try:
        with parent_of(path) as parent:
            _refuse_special(os.stat(path.name, dir_fd=parent, follow_symlinks=False), path)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(path.name, flags, dir_fd=parent)
        with open(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            _refuse_special(status, path)
            yield file, status
    except OSError as error:
        raise complaint(error, path, "read") from error


def _refuse_special(status: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{path} is a directory. Use Glob to list its files.")
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "a link appeared")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{path} is a device, pipe or socket, not a file.")


def load(path: Path) -> tuple[bytes, os.stat_result]:
    """A whole file that is about to be changed."""
    with open_regular(path) as (file, status):
        data = file.read(LARGEST_WHOLE + 1)
    if len(data) > LARGEST_WHOLE:
        raise ToolError(
            f"{path} is larger than {LARGEST_WHOLE >> 20} MB. Change it with a command in Bash."
        )
    return data, status


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def seen(data: bytes, status: os.stat_result, *, whole: bool) -> SeenFile:
    return SeenFile(status.st_mtime_ns, status.st_size, digest(data), whole)


def require_unchanged(path: Path, data: bytes, context: ToolContext, doing: str) -> SeenFile:
    """What the agent saw of the file, if that still is what the file holds."""
    known = context.files.get(str(path))
    if known is None:
        raise ToolError(f"{path} was not read yet. Read it before you {doing} it.")
    if known.digest != digest(data):
        raise ToolError(f"{path} changed since it was read. Read it again, then {doing} it.")
    return known


def put(
    path: Path,
    data: bytes,
    old: bytes | None,
    before: os.stat_result | None,
    context: ToolContext,
) -> os.stat_result:
    """Replace a file that held `old`; one that belongs to the memory goes through its gate."""
    kept = context.keep(path, data, old) if context.keep is not None else None
    return replace(path, data, before) if kept is None else kept


def replace(path: Path, data: bytes, before: os.stat_result | None) -> os.stat_result:
    """Put the data at the path, whole or not at all; mode and owner of an old file stay.

    `before` is the old file's status, None for a file that must not exist yet.
    """
    if before is not None and not os.access(path, os.W_OK):
        raise ToolError(f"{path} is write-protected.")
    try:
        with parent_of(path, create=before is None) as parent:
            return _replace_in(parent, path, data, before)
    except OSError as error:
        raise complaint(error, path, "write") from error


def _replace_in(
    parent: int, path: Path, data: bytes, before: os.stat_result | None
) -> os.stat_result:
    temporary = f".{path.name[:100]}.{secrets.token_hex(6)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666, dir_fd=parent)
    try:
        with open(descriptor, "wb") as file:
            if before is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            file.write(data)
            file.flush()
            sync(file.fileno())
            status = os.fstat(file.fileno())
        _require_same(parent, path, before)
        os.replace(temporary, path.name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent)
        raise
    _sync_directory(parent)
    return status


def _require_same(parent: int, path: Path, before: os.stat_result | None) -> None:
    """The last look before the rename: nobody else wrote the file while we did."""
    try:
        now = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return
    if before is None:
        raise ToolError(f"{path} appeared meanwhile. Read it before you write it.")
    if (now.st_ino, now.st_mtime_ns, now.st_size) != (
        before.st_ino,
        before.st_mtime_ns,
        before.st_size,
    ):
        raise ToolError(f"{path} changed meanwhile. Read it again.")


def sync(descriptor: int) -> None:
    """Bytes on the disk itself: on macOS a plain fsync stops at the drive's cache."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def _sync_directory(parent: int) -> None:
    # A directory that may be entered but not listed can't be opened for this; the file is whole
    # either way, only its new name might be lost with the power.
    with contextlib.suppress(PermissionError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
