"""Where a project's files live under the home: the slug of a path, the project folder, `project.json`.

It touches only `<home>/projects/<slug>/` and the `project.json` in it, which records whose folder
it is, so that two projects whose paths give the same slug never share a memory or a ledger.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

from lamina.errors import LaminaError, StorageError

T = TypeVar("T")
LONGEST_SLUG = 200
RECORD = "project.json"
RESULTS = "tool-results"  # folder of a session to which layer 1 moves results
NOTES = "session-memory/summary.md"  # of a session, by layer 3
_OUTSIDE = re.compile(r"[^A-Za-z0-9]")


def slug(path: str | os.PathLike[str]) -> str:
    """The project's path as a folder name; the path is taken as it is, not resolved."""
    name = _OUTSIDE.sub("-", os.fspath(path))
    if len(name) <= LONGEST_SLUG:
        return name
    return f"{name[:LONGEST_SLUG]}-{path_hash(path)}"


def path_hash(path: str | os.PathLike[str]) -> str:
    """A short hash that tells paths with the same slug apart."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]


def real_path(project: str | os.PathLike[str]) -> str:
    """The project's one true path: absolute, `~` expanded, links resolved."""
    return os.path.realpath(Path(project).expanduser())


def find_project_folder(home: Path, project: str | os.PathLike[str]) -> Path:
    """The folder that is, or would be, this project's. Nothing is created."""
    path = real_path(project)
    folder = home / "projects" / slug(path)
    if _owner(folder) in (None, path):
        return folder
    other = folder.with_name(f"{folder.name}-{path_hash(path)}")
    if _owner(other) in (None, path):
        return other
    raise StorageError(
        f"{other / RECORD} names another project than {path}. "
        "Correct the path in it, or move that folder away."
    )


def project_folder(home: Path, project: str | os.PathLike[str]) -> Path:
    """This project's folder, made (mode 0700) and marked with `project.json` if it was not yet."""
    path = real_path(project)
    for _ in range(3):  # a second round only if another project took the folder meanwhile
        folder = find_project_folder(home, path)
        make_private(folder)
        if _owner(folder) == path or _claim(folder, path):
            return folder
    raise StorageError(f"The folder of {path} under {home} keeps changing its owner. Try again.")


def known_projects(home: Path) -> list[str]:
    """The projects that have a folder in this home, by their paths."""
    found: set[str] = set()
    for folder in (home / "projects").glob("*"):
        with contextlib.suppress(StorageError):
            found.update(filter(None, [_owner(folder)]))
    return sorted(found)


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
        real.parent.mkdir(parents=True, exist_ok=True)
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


def _owner(folder: Path) -> str | None:
    """The path that the folder's record names; None where there is no record yet."""
    record = folder / RECORD
    try:
        content = record.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"Can't read {record}: {error.strerror}.") from error
    if not content.strip():
        return None
    try:
        value = json.loads(content)["path"]
    except (ValueError, TypeError, KeyError) as error:
        raise StorageError(
            f"{record} is damaged, so nobody knows whose folder this is. "
            "If it is this project's, delete that one file."
        ) from error
    return str(value)


def _claim(folder: Path, path: str) -> bool:
    """Write the record unless somebody else did first; say whether the folder is ours now.

    It is written in place under a lock: a kill leaves it empty, which is nobody's, and no other file.
    """
    record = folder / RECORD
    # ASCII on purpose: a path that is not UTF-8 survives as escaped surrogates.
    content = json.dumps({"path": path}).encode() + b"\n"
    telling = failing_as(StorageError, f"Can't write {record}")
    with telling, open(record, "ab", buffering=0, opener=open_private) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if _owner(folder) is None:
            _write_whole(file.fileno(), content)
    return _owner(folder) == path


def _write_whole(record: int, content: bytes) -> None:
    try:
        os.ftruncate(record, 0)
        if os.write(record, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(record)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(record, 0)
        raise
