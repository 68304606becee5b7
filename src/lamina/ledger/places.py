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
from pathlib import Path

from lamina.errors import StorageError
from lamina.machine import failing_as, make_private, open_private

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
