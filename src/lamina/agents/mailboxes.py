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

from lamina.agents.types import NAMED, is_name
from lamina.errors import LaminaError, PostAway, StorageError, UsageError
from lamina.ledger.log import sync
from lamina.machine import failing_as, private_folder
from lamina.ports import LARGEST_LETTER, Letter, Presence

_KEPT = 7 * 24 * 3600.0  # seconds for which the id of a letter that was read is known
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
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

    def send(self, name: str, letter: Letter) -> None:
        data = letter.packed()
        with self._told(name):
            box = _checked(self._root, name)
            new, temporary = box / "new" / letter.id, box / "tmp" / f"{letter.id}.{os.getpid()}"
            # A reader only ever moves a letter on, so looking in this order misses none.
            if os.path.lexists(new) or os.path.lexists(box / "cur" / letter.id):
                return
            with open(temporary, "wb", opener=_opener) as file:
                file.write(data)
                file.flush()
                sync(file.fileno())
            temporary.rename(new)
            folder = _opener(new.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
            # Where nobody listens: who comes later looks first.
            with suppress(OSError), open(box / "bell", "wb", 0, opener=_opener) as bell:
                if stat.S_ISFIFO(os.fstat(bell.fileno()).st_mode):
                    bell.write(b"!")

    def read(self, presence: Presence, complain: Callable[[str], None]) -> _FileReader:
        if not is_name(presence.name):
            raise UsageError(f"{presence.name!r} is no name: {NAMED}.")
        with self._told(presence.name):
            private_folder(self._root)
            return _FileReader(_checked(self._root, presence.name, make=True), presence, complain)

    def present(self) -> list[Presence]:
        found: list[Presence] = []
        for name in os.listdir(self._root) if self._root.is_dir() else ():
            with suppress(OSError, LaminaError):
                box = _checked(self._root, name)
                one = Presence.unpacked(_bytes(box / "presence.json", 20_000), _lives(box))
                if one is not None and one.name == name:
                    found.append(one)
        return sorted(found, key=lambda one: (not one.alive, one.name))

    def close(self) -> None:
        """Nothing is held open."""

    @contextmanager
    def _told(self, name: str) -> Generator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise UsageError(f"There is no mailbox {name!r} here.") from error
        except OSError as error:
            where = f"The mailbox {self._root / name}"
            raise PostAway(f"{where} can't be used: {error.strerror}.") from error


class _FileReader:
    def __init__(self, box: Path, presence: Presence, complain: Callable[[str], None]) -> None:
        self._box, self._complain, self.bell = box, complain, -1
        self._lock = _opener(box / "lock", os.O_RDWR | os.O_CREAT)
        try:
            self._claim()
            with suppress(FileExistsError):
                os.mkfifo(box / "bell", 0o600)
            # For writing too: else it could be read for ever once the last sender closed it.
            self.bell = _opener(box / "bell", os.O_RDWR)
            self.show(presence)
            # What was read long ago, or never came to be a letter.
            for one in [*(box / "tmp").iterdir(), *(box / "cur").iterdir()]:
                with suppress(OSError):
                    if time.time() - one.lstat().st_mtime > _KEPT:
                        one.unlink()
        except BaseException as error:
            self.close()
            if isinstance(error, BlockingIOError):
                words = (
                    f"{presence.name} is already running. Stop it first, or choose another name."
                )
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
        taken, box = 0, self._own()
        for path in sorted((box / "new").iterdir()):
            try:
                letter = _letter(path)
            except UsageError as error:
                to = box / "bad"
                to.mkdir(0o700, exist_ok=True)
                self._complain(f"{error} It was set aside in {to}.")
            else:
                hand_over(letter)
                to, taken = box / "cur", taken + 1
            path.rename(to / path.name)
        return taken

    def _own(self) -> Path:
        """The mailbox, if it is still the one that was claimed."""
        box = _checked(self._box.parent, self._box.name)
        if os.path.samestat(os.fstat(self._lock), os.lstat(box / "lock")):
            return box
        raise PostAway(f"Somebody replaced the mailbox {box}.")

    def show(self, presence: Presence) -> None:
        temporary = self._box / "tmp" / f"presence.{os.getpid()}"
        with open(temporary, "wb", opener=_opener) as file:
            file.write(presence.packed())
        temporary.rename(self._box / "presence.json")

    def close(self, *, keep: bool = True) -> None:
        with suppress(OSError, LaminaError):  # somebody took it away
            if not keep and self._lock >= 0 and not os.listdir(self._own() / "new"):
                shutil.rmtree(self._box, ignore_errors=True)
        for one in (self.bell, self._lock):
            if one >= 0:
                os.close(one)
        self.bell = self._lock = -1


def _checked(root: Path, name: str, *, make: bool = False) -> Path:
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
    return root / name


def _lives(box: Path) -> bool:
    """Does somebody hold its lock?"""
    with open(box / "lock", "rb", opener=_opener) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _letter(path: Path) -> Letter:
    where = f"The letter {path}"
    with failing_as(UsageError, f"{where} is a link, or can't be read"):
        letter = Letter.unpacked(_bytes(path, LARGEST_LETTER), where)
    if letter.id != path.name:
        raise UsageError(f"{where} says that it is {letter.id!r}.")
    return letter


def _bytes(path: Path, most: int) -> bytes:
    """All of a file, or a byte more than there may be; nothing of what is no file."""
    with open(path, "rb", buffering=0, opener=_opener) as file:
        return file.read(most + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""


def _opener(path: str | Path, flags: int) -> int:
    return os.open(path, flags | _SAFE, 0o600)
