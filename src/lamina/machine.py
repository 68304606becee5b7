"""The machine under Lamina: files that are opened beneath a directory without following links, given a
name without replacing one, made for their owner alone and written whole or not at all; processes,
sockets, reports of changed files, and the clock.

`openat2` and `renameat2` are Linux system calls that Python does not offer. Each raises OSError like
its cousins in `os`; `Unsupported` says that this kernel, C library or file system has no such call,
and the caller takes the portable way. Touches nothing but what it is given.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import stat
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lamina.errors import LaminaError, StorageError

if TYPE_CHECKING:
    import socket

T = TypeVar("T")

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
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError:  # not on every file system, not on directories
            os.fsync(descriptor)
    else:
        os.fsync(descriptor)


# ---- files of their owner alone


def make_private(folder: Path) -> None:
    """Make a directory and its missing parents, readable by the owner alone."""
    try:
        private_folder(folder)
    except NotADirectoryError as error:
        raise StorageError(f"{folder} is not a directory. Move it away.") from error
    except OSError as error:
        raise StorageError(
            f"Can't make {folder}: {error.strerror}. Check the folder's permissions, or choose"
            " another with --home."
        ) from error


def private_folder(folder: Path) -> None:
    """The same for callers that tell of a failure in their own words: `mkdir` with parents gives its
    mode to the last folder alone."""
    if os.path.isdir(folder):
        return
    missing = [folder, *(parent for parent in folder.parents if not os.path.lexists(parent))]
    for directory in reversed(missing):
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
    if not os.path.isdir(folder):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


@contextlib.contextmanager
def failing_as(kind: type[LaminaError], what: str) -> Generator[None]:
    """What the system refuses becomes one sentence: what can't be done, and why."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror}.") from error


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """A descriptor of a file under the home. One that is made by it is its owner's alone, whatever the
    umask; one that is there keeps its mode. Fits as `opener` of `open`."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def open_to_append(path: Path | str) -> tuple[int, bool]:
    """A descriptor of such a file, to be read and added to, and whether it was made, with its folder
    if need be: as a rule it is there, and nothing else is looked at."""
    flags = os.O_RDWR | os.O_APPEND
    try:
        return open_private(path, flags), False
    except FileNotFoundError:
        private_folder(Path(path).parent)
        return open_private(path, flags | os.O_CREAT), True


def write_private(path: Path, data: bytes, *, lasting: bool = False, mode: int = 0o600) -> None:
    """The file has all of it or is as it was. `lasting`: even if the power fails right afterwards."""
    private_folder(path.parent)
    plain_mode(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb", opener=open_private) as file:
            if mode != 0o600:
                os.fchmod(file.fileno(), mode)
            file.write(data)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def read_json(path: Path, kind: type[T]) -> T | None:
    """What a file of ours holds; None if it can't be read, or somebody else wrote it."""
    import msgspec  # whoever only asks for a path does not wait for it

    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, ValueError):  # also what is no UTF-8
        return None


@contextlib.contextmanager
def scratch_folder(name: str) -> Generator[Path]:
    """A temporary folder of this process's own. Those of processes that were killed go first."""
    import shutil  # whoever only asks for a path does not wait for these
    import tempfile

    with contextlib.ExitStack() as held:
        for left in Path(tempfile.gettempdir()).glob(f"{name}-*"):
            with contextlib.suppress(OSError), _locked(left):
                if left.stat().st_uid == os.getuid() and left.stat().st_mtime < time.time() - 60:
                    shutil.rmtree(left)
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix=f"{name}-")))
        held.enter_context(_locked(folder))
        yield folder


@contextlib.contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Raises OSError: another process has it."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes | None) -> None:
    """The same for a file of the user's, which keeps its mode and its links; None: it goes."""
    real = Path(os.path.realpath(path))  # a link to a dotfiles folder stays a link
    mode = plain_mode(real)
    if data is None:
        real.unlink()
    else:
        write_private(real, data, lasting=True, mode=0o600 if mode is None else mode)


def plain_mode(path: Path) -> int | None:
    """The mode of a file that is about to be replaced, None if there is none. OSError for a device, a
    pipe or a socket: a rename would put a file in its place, for everybody on this machine."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
        return stat.S_IMODE(mode)
    raise OSError(errno.EINVAL, "it is a device, pipe or socket", str(path))


# ---- processes, sockets, changes, time


def is_alive(process: int) -> bool:
    """Does a process of this number run? One of another user's does too."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


class SystemClock:
    """The machine's own time."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        import anyio

        await anyio.sleep(seconds)


def socket_owner(theirs: tuple[str, int], ours: tuple[str, int]) -> int | None:
    """The user at the other end of a TCP connection within this machine; None where none is told."""
    import socket

    def written(address: tuple[str, int]) -> str:
        number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
        return f"{number:08X}:{address[1]:04X}"

    ends = written(theirs), written(ours)
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                _, local, remote, *_, user = line.split(None, 8)[:8]
                if local.endswith(ends[0]) and remote.endswith(ends[1]):
                    return int(user)
    return None


_CHANGES = 0x002 | 0x040 | 0x080 | 0x100 | 0x200  # modified, moved away and here, made, deleted
_REPORT = 16  # bytes before a name: the folder's number first, the name's length last


class Inotify:
    """The kernel's reports of what changes in folders; `file` is readable when there is one."""

    def __init__(self, libc: Any, file: int) -> None:
        self._libc, self.file = libc, file

    @classmethod
    def opened(cls) -> Inotify | None:
        """None where the kernel has none, or no more of them for this user."""
        libc = _libc()
        file = -1 if libc is None else libc.inotify_init1(os.O_CLOEXEC)
        return cls(libc, file) if file >= 0 else None

    def add(self, folder: Path) -> int:
        """The number by which reports name it; negative for one that is not there."""
        return self._libc.inotify_add_watch(self.file, os.fsencode(folder), _CHANGES)

    def read(self) -> Iterator[tuple[int, str]]:
        """What was reported: the folder's number, and the file's name."""
        data = os.read(self.file, 65_536)
        while len(data) >= _REPORT:
            number = int.from_bytes(data[:4], sys.byteorder, signed=True)
            end = _REPORT + int.from_bytes(data[_REPORT - 4 : _REPORT], sys.byteorder)
            yield number, os.fsdecode(data[_REPORT:end].rstrip(b"\0"))
            data = data[end:]


def serve_until_told(server: Any, listening: socket.socket, say: Callable[[], None]) -> None:
    """Run a server of uvicorn's until a signal ends it. It `say`s where it is only once it hears
    signals: whoever reads the address may stop it at once."""
    start_up = server.startup

    async def started(sockets: Sequence[socket.socket] | None = None) -> None:
        await start_up(sockets=sockets)
        say()

    server.startup = started
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn passes on what ended it
        server.run(sockets=[listening])
