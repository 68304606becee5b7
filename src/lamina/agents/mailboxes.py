"""Where letters between processes wait: `ports.Post` on files; `bridge.py` has it on PostgreSQL.

A mailbox is a Maildir. A letter is written in `tmp/`, is there once it is in `new/`, and goes to `cur/`
when its reader has it in a record of its own; a reader that dies in between gets it again and knows it
by its id. Whoever reads a mailbox holds a kernel lock on it, which tells others that it lives; a pipe
in it wakes the reader. Touches `<project folder>/mail/`, and follows no link there.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from lamina.agents.types import is_name
from lamina.errors import LaminaError, PostAway, StorageError, UsageError
from lamina.ledger.log import sync
from lamina.ledger.places import private_folder
from lamina.ports import LARGEST_LETTER, Letter, Presence

_KEPT = 7 * 24 * 3600.0  # seconds for which the id of a letter that was read is known
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_BOTH = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_numbers = itertools.count()


def new_id() -> str:
    """Ids of one sender sort by time."""
    return f"{time.time_ns():020d}-{next(_numbers):06d}-{secrets.token_hex(6)}"


def name_in(address: str) -> str:
    """The mailbox of an address: without its road, and the agent behind it."""
    return address.removeprefix("bridge:").partition("#")[0]


class Maildirs:
    """The mailboxes of one project under one home."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[str, tuple[int, int]] = {}  # name → the mailbox, and `new` in it

    def send(self, name: str, letter: Letter) -> None:
        data = letter.packed()
        with self._told(name):
            base, new = self._opened(name)
            # A reader only ever moves a letter on, so looking in this order misses none.
            if _is_in(base, f"new/{letter.id}") or _is_in(base, f"cur/{letter.id}"):
                return
            temporary = f"tmp/{letter.id}.{os.getpid()}"
            _write(base, temporary, data, lasting=True)
            os.rename(temporary, f"new/{letter.id}", src_dir_fd=base, dst_dir_fd=base)
            os.fsync(new)
            with suppress(OSError):  # nobody listens; who comes later looks first
                bell = os.open("bell", _WRITE | os.O_NONBLOCK, dir_fd=base)
                try:
                    if stat.S_ISFIFO(os.fstat(bell).st_mode):
                        os.write(bell, b"!")
                finally:
                    os.close(bell)

    def _opened(self, name: str) -> tuple[int, int]:
        path = self._root / name
        found = self._open.get(name)
        if found is not None and os.path.samestat(os.fstat(found[0]), os.lstat(path)):
            return found
        self._forget(name)
        base = _open_box(self._root, name)
        self._open[name] = found = (base, os.open("new", _FOLDER, dir_fd=base))
        return found

    def _forget(self, name: str) -> None:
        for one in self._open.pop(name, ()):
            os.close(one)

    def read(self, presence: Presence, complain: Callable[[str], None]) -> _FileReader:
        if not is_name(presence.name):
            raise UsageError(f"{presence.name!r} is no name: use letters, digits, - and _.")
        with self._told(presence.name):
            private_folder(self._root)
            return _FileReader(self._root, presence, complain)

    def present(self) -> list[Presence]:
        found: list[Presence] = []
        for name in os.listdir(self._root) if self._root.is_dir() else ():
            with suppress(OSError, LaminaError):
                base = _open_box(self._root, name)
                try:
                    one = Presence.unpacked(_bytes(base, "presence.json", 20_000), _lives(base))
                finally:
                    os.close(base)
                if one is not None and one.name == name:
                    found.append(one)
        return sorted(found, key=lambda one: (not one.alive, one.name))

    def close(self) -> None:
        for name in list(self._open):
            self._forget(name)

    @contextmanager
    def _told(self, name: str) -> Generator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise UsageError(f"There is no mailbox {name!r} here.") from error
        except OSError as error:
            path = self._root / name
            raise PostAway(f"The mailbox {path} can't be used: {error.strerror}.") from error


class _FileReader:
    def __init__(self, root: Path, presence: Presence, complain: Callable[[str], None]) -> None:
        self._path, self._complain = root / presence.name, complain
        self._base = _open_box(root, presence.name, make=True)
        self._lock = os.open("lock", _BOTH | os.O_CREAT, 0o600, dir_fd=self._base)
        self.bell = -1
        try:
            self._claim()
            with suppress(FileExistsError):
                os.mkfifo("bell", 0o600, dir_fd=self._base)
            # For writing too: else it could be read for ever once the last sender closed it.
            self.bell = os.open("bell", _BOTH, dir_fd=self._base)
            self.show(presence)
            self._tidy()
        except BaseException as error:
            self._let_go()
            if isinstance(error, BlockingIOError):
                words = f"{presence.name} runs already. Stop it first, or take another name."
                raise UsageError(words) from error
            raise

    def _claim(self) -> None:
        for _ in range(20):  # whoever looks at it holds it for a moment
            with suppress(BlockingIOError):
                return fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            time.sleep(0.005)
        raise BlockingIOError

    def hush(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self.bell, 4096):
                pass

    def take(self, hand_over: Callable[[Letter], None]) -> int:
        taken = 0
        for name in sorted(os.listdir(self._path / "new")):
            try:
                letter = self._letter(name)
            except UsageError as error:
                with suppress(FileExistsError):
                    os.mkdir("bad", 0o700, dir_fd=self._base)
                self._move(name, "bad")
                self._complain(f"{error} It was set aside in {self._path / 'bad'}.")
                continue
            hand_over(letter)
            self._move(name, "cur")
            taken += 1
        return taken

    def _move(self, name: str, to: str) -> None:
        base = self._base
        os.rename(f"new/{name}", f"{to}/{name}", src_dir_fd=base, dst_dir_fd=base)

    def _letter(self, name: str) -> Letter:
        where = f"The letter {self._path / 'new' / name}"
        try:
            data = _bytes(self._base, f"new/{name}", LARGEST_LETTER)
        except OSError as error:
            raise UsageError(f"{where} is a link, or can't be read: {error.strerror}.") from error
        letter = Letter.unpacked(data, where)
        if letter.id != name:
            raise UsageError(f"{where} says that it is {letter.id!r}.")
        return letter

    def show(self, presence: Presence) -> None:
        temporary = f"tmp/presence.{os.getpid()}"
        _write(self._base, temporary, presence.packed())
        os.rename(temporary, "presence.json", src_dir_fd=self._base, dst_dir_fd=self._base)

    def _tidy(self) -> None:
        """What was read long ago, or never came to be a letter."""
        for folder in ("tmp", "cur"):
            for one in (self._path / folder).iterdir():
                with suppress(OSError):
                    if time.time() - one.lstat().st_mtime > _KEPT:
                        one.unlink()

    def close(self, *, keep: bool = True) -> None:
        if self._lock < 0:
            return
        with suppress(OSError):  # somebody took it away
            if not keep and not os.listdir(self._path / "new"):
                shutil.rmtree(self._path, ignore_errors=True)
        self._let_go()

    def _let_go(self) -> None:
        for one in (self.bell, self._lock, self._base):
            if one >= 0:
                os.close(one)
        self.bell = self._lock = self._base = -1


def _open_box(root: Path, name: str, *, make: bool = False) -> int:
    """A mailbox whose folders are no links."""
    if not is_name(name):
        raise FileNotFoundError
    for part in ("", "tmp", "new", "cur"):
        path = root / name / part
        if make:
            with suppress(FileExistsError):
                path.mkdir(0o700)
        if not stat.S_ISDIR(path.lstat().st_mode):
            what = "a link" if path.is_symlink() else "no folder"
            raise StorageError(f"The mailbox {path} is {what}, so it is not used. Move it away.")
    return os.open(root / name, _FOLDER)


def _lives(base: int) -> bool:
    """Does somebody hold its lock?"""
    lock = os.open("lock", _READ, dir_fd=base)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _bytes(base: int, name: str, most: int) -> bytes:
    """All of a file, or a byte more than there may be; nothing of what is no file."""
    file = os.open(name, _READ, dir_fd=base)
    try:
        return os.read(file, most + 1) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    finally:
        os.close(file)


def _write(base: int, name: str, data: bytes, *, lasting: bool = False) -> None:
    file = os.open(name, _WRITE | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=base)
    try:
        os.write(file, data)
        if lasting:
            sync(file)
    finally:
        os.close(file)


def _is_in(base: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=base, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
