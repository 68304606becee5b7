"""A place in the file system that is held open, from the permission to its use.

`hold` opens what a real path names and follows no link on the way. From then on its descriptors say
which file is meant, whatever happens to the names meanwhile; a use first makes sure that the path
still leads there. Nothing is opened for reading or writing until it is used.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lamina.machine import open_beneath

# O_PATH pins a file without opening its content: a pipe does not block, a device does not notice.
_LOOK = os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
_FOLDER = _LOOK | os.O_DIRECTORY


class Swapped(Exception):
    """The path no longer leads to what was held."""


@dataclass(slots=True)
class Held:
    """What a path names: a file or a folder, or the place where one can be made."""

    path: Path  # absolute, no link in it
    status: os.stat_result | None = None  # None: nothing is there
    folder: int = -1  # the folder that holds it, or the deepest one above it that is there
    missing: tuple[str, ...] = ()  # the parts below that folder, if nothing is there
    pin: int = -1  # the thing itself; keeps its inode number from being given to another
    error: OSError | None = None  # why it could not be held; raised when it is used

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for descriptor in (self.folder, self.pin):
            if descriptor >= 0:
                os.close(descriptor)
        self.folder = self.pin = -1

    @property
    def name(self) -> str:
        return self.path.name or "."

    def check(self) -> None:
        """Swapped unless the path still leads here; OSError if it never led anywhere."""
        if self.error is not None:
            raise self.error
        depth = len(self.path.parts) - 1 - (len(self.missing) or 1)
        try:
            descriptor = _open_folder(self.path.parts[1 : 1 + max(depth, 0)])
        except OSError as error:
            raise Swapped from error
        try:
            if not os.path.samestat(os.fstat(descriptor), os.fstat(self.folder)):
                raise Swapped
        finally:
            os.close(descriptor)
        if self.status is not None and not _is(self.folder, self.name, self.status):
            raise Swapped

    def open(self, flags: int) -> int:
        """A descriptor of the very file that is held; the caller closes it."""
        self.check()
        if self.status is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            descriptor = os.open(self.name, flags, dir_fd=self.folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOENT):
                raise Swapped from error
            raise
        if not os.path.samestat(os.fstat(descriptor), self.status):
            os.close(descriptor)
            raise Swapped
        return descriptor

    @contextlib.contextmanager
    def parent(self) -> Generator[int]:
        """The folder that holds the name; missing ones are made, links among them refused."""
        self.check()
        current = os.dup(self.folder)
        try:
            for part in self.missing[:-1]:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=current)
                below = open_beneath(current, part, _FOLDER)
                os.close(current)
                current = below
            yield current
        finally:
            os.close(current)


def hold(path: Path) -> Held:
    """Hold what a real, absolute path names; a link in its way is an error, kept in `error`."""
    parts = path.parts[1:]
    folder = -1
    try:
        for depth in range(max(len(parts) - 1, 0), -1, -1):
            with contextlib.suppress(FileNotFoundError):
                folder = _open_folder(parts[:depth])
                if depth == len(parts) - 1 or not parts:
                    return _hold_in(folder, path)
                return Held(path, folder=folder, missing=parts[depth:])
    except OSError as error:
        if folder >= 0:
            os.close(folder)
        return Held(path, error=error)
    return Held(path, error=FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)))


def _hold_in(folder: int, path: Path) -> Held:
    name = path.name or "."
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return Held(path, folder=folder, missing=(name,))
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    pin = -1
    # Where a look is an opening for reading, only what can be opened without effect is pinned.
    if hasattr(os, "O_PATH") or stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        with contextlib.suppress(OSError):
            pin = os.open(name, _LOOK | os.O_NOFOLLOW, dir_fd=folder)
    if pin >= 0 and not os.path.samestat(os.fstat(pin), status):
        os.close(pin)
        raise OSError(errno.EAGAIN, "it is being replaced right now", str(path))
    return Held(path, status, folder, pin=pin)


def _open_folder(parts: tuple[str, ...]) -> int:
    root = os.open("/", _FOLDER)
    if not parts:
        return root
    try:
        return open_beneath(root, "/".join(parts), _FOLDER)
    finally:
        os.close(root)


def _is(folder: int, name: str, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(name, dir_fd=folder, follow_symlinks=False), status)
    except OSError:
        return False
