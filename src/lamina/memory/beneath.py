"""Files beneath one directory, opened by descriptor and without following links, written atomically.

The kernel resolves each path (`openat2`), or, where it can't, every part is opened by itself with
`O_NOFOLLOW`; so a link swapped in at any moment is refused, never followed. It touches only what is
beneath its root.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Self

from lamina import machine
from lamina.errors import Conflict, MemoryStoreError
from lamina.machine import EXCHANGE, Unsupported, private_folder
from lamina.memory.naming import printable

TEMPORARY_PREFIX = ".lamina-tmp-"
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def parts_of(path: str) -> list[str]:
    """The parts of a relative path, or MemoryStoreError that names what is wrong with it."""
    parts = path.split("/")
    fault = (
        "is empty"
        if not path
        else "holds a NUL"
        if "\x00" in path
        else "is absolute"
        if path.startswith("/")
        else "has an empty, '.' or '..' part"
        if any(part in ("", ".", "..") for part in parts)
        else "has a part longer than 255 bytes"
        if any(len(part.encode("utf-8", "surrogatepass")) > 255 for part in parts)
        else "is deeper than 16 directories"
        if len(parts) > 16
        else ""
    )
    if fault:
        raise MemoryStoreError(f"The memory path {path[:120]!r} {fault}. Use a name like topic.md.")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise MemoryStoreError(
            f"The memory path {path[:120]!r} has characters that no file name can hold."
        ) from None
    return parts


class Beneath:
    """One directory and what is beneath it. Paths are relative, with `/`."""

    def __init__(self, root: Path, *, openat2: bool = True) -> None:
        self.root = root
        self._openat2 = openat2
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # ---- reading

    def read(self, path: str, limit: int = -1) -> bytes | None:
        """The file's content (its first `limit` bytes), None if there is none."""
        with self._errors("read", path):
            descriptor = self._open(path, _READ)
            if descriptor is None:
                return None
            try:
                size = _plain_file(descriptor).st_size
                pieces: list[bytes] = []  # most often one: a file object would cost more than it
                while limit and (piece := os.read(descriptor, min(size + 1, limit % 2**62))):
                    pieces.append(piece)
                    if len(piece) == size:
                        break  # one byte more was asked for, and there is none
                    limit -= len(piece) if limit > 0 else 0
                return b"".join(pieces)
            finally:
                os.close(descriptor)
        return None

    def stat(self, path: str) -> os.stat_result | None:
        with self._errors("read", path):
            descriptor = self._open(path, _READ)
            if descriptor is None:
                return None
            try:
                return _plain_file(descriptor)
            finally:
                os.close(descriptor)
        return None

    def directory(self, path: str = "") -> int | None:
        """A descriptor of a directory beneath (the caller closes it), None if there is none."""
        with self._errors("read", path or str(self.root)):
            if not path:
                root = self._root()
                # Not a duplicate: two listings at once must not share one position.
                return None if root is None else os.open(".", _DIRECTORY, dir_fd=root)
            return self._open(path, _DIRECTORY)
        return None

    def changed_ns(self, path: str = "") -> int:
        """When names in a directory last came or went, 0 if there is none."""
        with self._errors("read", path or str(self.root)):
            descriptor = self._open(path, _DIRECTORY) if path else self._root()
            if descriptor is None:
                return 0
            try:
                return os.fstat(descriptor).st_mtime_ns
            finally:
                if path:
                    os.close(descriptor)
        return 0

    def listing(self, path: str = "") -> Iterator[tuple[str, os.stat_result]]:
        """Names and stats (of links themselves) in one directory; empty if it is absent."""
        descriptor = self.directory(path)
        if descriptor is None:
            return
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        yield entry.name, entry.stat(follow_symlinks=False)
        finally:
            os.close(descriptor)

    def names(self, path: str = "") -> list[str]:
        """The names in one directory, in no order; none if it is absent."""
        descriptor = self.directory(path)
        if descriptor is None:
            return []
        try:
            with self._errors("read", path or str(self.root)):
                return os.listdir(descriptor)
        finally:
            os.close(descriptor)
        return []

    # ---- writing

    def write(
        self, path: str, content: bytes, *, expected: bytes | None, flush: bool = True
    ) -> None:
        """Put the content there, whole or not at all, and force it to the disk.

        `expected` is what stands there now (None: no file). If it is something else by the time of
        the rename, that something stays and Conflict is raised. Without `flush` the content is on
        the disk, but not yet under its name: `flush_directory` makes several names last at once.
        """
        with self._errors("write", path), self._parent(path, make=True) as (directory, name):
            # The process is in the name, so that what a killed one left can be told from a living one's.
            temporary = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}.{os.getpid()}"
            left = True
            try:
                self._fill(directory, temporary, content, _mode_of(directory, name))
                if expected is None:
                    _put_new(directory, temporary, name)
                    left = False
                else:
                    with _alone(directory):
                        _swap(directory, temporary, name, expected, content)
            finally:
                if left:  # what stood there before, or never got its name; the next writer sweeps
                    with contextlib.suppress(OSError):
                        os.unlink(temporary, dir_fd=directory)
            if flush:
                machine.flush(directory)

    def flush_directory(self, path: str = "") -> None:
        """Make the names in one directory last."""
        descriptor = self.directory(path)
        if descriptor is not None:
            try:
                with self._errors("write", path or str(self.root)):
                    machine.flush(descriptor)
            finally:
                os.close(descriptor)

    def remove(self, path: str, *, expected: bytes | None = None, flush: bool = True) -> bool:
        """Remove the file; False if there was none. Conflict if it is not what was expected."""
        with self._errors("remove", path):
            status = self.stat(path)
            if status is None:
                return False
            if not status.st_mode & stat.S_IWUSR:
                raise PermissionError(errno.EACCES, "it is read-only")
            with self._parent(path, make=False) as (directory, name):
                # Moved aside first: what is then looked at can't change its name any more.
                aside = TEMPORARY_PREFIX + secrets.token_hex(8)
                with _alone(directory):
                    os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
                    if expected is not None and _content(directory, aside) != expected:
                        _put_new(directory, aside, name)
                        raise Conflict(f"{path} was changed by somebody else. Read it again.")
                with contextlib.suppress(
                    OSError
                ):  # its name is gone; the next writer sweeps the rest
                    os.unlink(aside, dir_fd=directory)
                if flush:
                    machine.flush(directory)
                return True
        return False

    def make_way(self, path: str) -> None:
        """Let a file be written where a link, a directory or a device took its name, or where it was
        made read-only. A link holds nothing and is removed; the rest gets another name."""
        with (
            self._errors("replace", path),
            self._parent(path, make=True) as (directory, name),
            contextlib.suppress(FileNotFoundError),
        ):
            mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                os.unlink(name, dir_fd=directory)
            elif not stat.S_ISREG(mode):
                machine.put_new(directory, name, f"{name}.conflict")
            elif not mode & stat.S_IWUSR:
                os.chmod(name, stat.S_IMODE(mode) | stat.S_IWUSR, dir_fd=directory)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name in the same directory; Conflict if the name is taken."""
        with self._errors("rename", old), self._parent(old, make=False) as (directory, name):
            _put_new(directory, name, parts_of(new)[-1])

    # ---- the walk

    def _root(self) -> int | None:
        if self._descriptor >= 0 and not _is_at(self._descriptor, self.root):
            self.close()  # the directory was removed or moved, and maybe made again
        if self._descriptor < 0:
            try:
                self._descriptor = os.open(self.root, _DIRECTORY | os.O_NOFOLLOW)
            except FileNotFoundError:
                return None
        return self._descriptor

    def _open(self, path: str, flags: int) -> int | None:
        parts = parts_of(path)
        root = self._root()
        if root is None:
            return None
        try:
            if len(parts) == 1:  # leads nowhere else, if it is no link
                return os.open(path, flags | os.O_NOFOLLOW, dir_fd=root)
            if self._openat2:
                try:
                    return machine.openat2(root, path, flags)
                except Unsupported:
                    self._openat2 = False
            return machine.open_by_parts(root, parts, flags)
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def _parent(self, path: str, *, make: bool) -> Generator[tuple[int, str]]:
        """A descriptor of the directory that holds the last part of the path."""
        *above, name = parts_of(path)
        root = self._root()
        if root is None:
            if make:
                private_folder(self.root)
            root = self._root()
        if root is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        current = os.dup(root)
        try:
            for part in above:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, mode=0o700, dir_fd=current)
                below = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=current)
                os.close(current)
                current = below
            yield current, name
        finally:
            os.close(current)

    @staticmethod
    def _fill(directory: int, name: str, content: bytes, mode: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=directory)
        with open(descriptor, "wb", buffering=0) as file:
            rest = memoryview(content)
            while rest:
                rest = rest[file.write(rest) :]
            if mode != 0o600:
                os.fchmod(descriptor, mode)
            machine.flush(descriptor)

    @contextlib.contextmanager
    def _errors(self, verb: str, path: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise MemoryStoreError(self._sentence(verb, path, error)) from error

    def _sentence(self, verb: str, path: str, error: OSError) -> str:
        where = f"{self.root}/{printable(path)}" if path != str(self.root) else path
        if error.errno in (errno.ELOOP, errno.EXDEV, errno.EMLINK):
            return f"Can't {verb} {where}: it is or goes through a link. Put a plain file there."
        if error.errno in _FULL:
            return f"Can't {verb} {where}: the disk is full. Nothing was changed; make room first."
        if error.errno == errno.ENOTDIR:
            return f"Can't {verb} {where}: a part of the path is not a directory (or is a link)."
        return f"Can't {verb} {where}: {error.strerror or error}."


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def _plain_file(descriptor: int) -> os.stat_result:
    known = os.fstat(descriptor)
    if not stat.S_ISREG(known.st_mode):
        kind = "a directory" if stat.S_ISDIR(known.st_mode) else "not a plain file"
        raise OSError(errno.EINVAL, f"it is {kind}")
    return known


def _mode_of(directory: int, name: str) -> int:
    """The mode that a new version of the file gets; a file made read-only stays as it is."""
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0o600
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not mode & stat.S_IWUSR:
        raise PermissionError(errno.EACCES, "it is read-only")
    return stat.S_IMODE(mode) & 0o666


def _content(directory: int, name: str) -> bytes | None:
    try:
        descriptor = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=directory)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _put_new(directory: int, temporary: str, name: str) -> None:
    """Give the file its name unless somebody has it already."""
    try:
        machine.put_new(directory, temporary, name)
    except FileExistsError:
        raise Conflict(f"{name} was made by somebody else meanwhile. Read it first.") from None


@contextlib.contextmanager
def _alone(directory: int) -> Generator[None]:
    """Keep our own writers apart while a file is looked at and replaced: one that met the other in
    the middle would take what is about to be put back for what is there."""
    descriptor = os.open(
        ".", _DIRECTORY, dir_fd=directory
    )  # a description, and so a lock, of its own
    try:
        with contextlib.suppress(OSError):  # where there are no locks, the exchange must do
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _swap(directory: int, temporary: str, name: str, expected: bytes, content: bytes) -> None:
    """Replace the file if it holds what is expected.

    The two are exchanged in one step, so what stood there is in our hands before it is dropped: a
    change that an editor made a moment ago goes back, it is not overwritten.
    """
    changed = Conflict(f"{name} was changed by somebody else. Read it again.")
    try:
        machine.renameat2(directory, temporary, name, EXCHANGE)
    except FileNotFoundError:
        raise Conflict(f"{name} was removed by somebody else. Read it again.") from None
    except Unsupported:
        if _content(directory, name) != expected:
            raise changed from None
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        return
    if _content(directory, temporary) == expected:
        return
    for _ in range(8):
        machine.renameat2(directory, temporary, name, EXCHANGE)
        if _content(directory, temporary) == content:
            raise changed
    # They write faster than we can hand back: keep what we hold under a name of its own.
    os.rename(temporary, f"{name}.conflict", src_dir_fd=directory, dst_dir_fd=directory)
    raise changed
