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
from dataclasses import replace
from pathlib import Path

import msgspec

from lamina.agents.types import is_name
from lamina.errors import LaminaError, PostAway, StorageError, UsageError
from lamina.ledger.log import sync
from lamina.ledger.places import private_folder
from lamina.ports import Letter, Presence

LARGEST = 1_000_000  # bytes of a letter
_KEPT = 7 * 24 * 3600.0  # seconds for which the id of a letter that was read is known
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_PARTS = ("tmp", "new", "cur")
_numbers = itertools.count()


def new_id() -> str:
    """Ids of one sender sort by time."""
    return f"{time.time_ns():020d}-{next(_numbers):06d}-{secrets.token_hex(6)}"


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Letter).decode
_decode_presence = msgspec.json.Decoder(Presence).decode


def packed(letter: Letter) -> bytes:
    """A UsageError if it is too large."""
    data = _encode(letter)
    if len(data) > LARGEST:
        raise UsageError(
            f"A letter of {len(data):,} bytes is too large: at most {LARGEST:,}. "
            "Write what matters to a file and send its path."
        )
    _check(letter, "A letter")
    return data


def unpacked(data: bytes, where: str) -> Letter:
    """A UsageError says what is wrong with it."""
    if len(data) > LARGEST:
        raise UsageError(f"{where} is larger than the {LARGEST:,} bytes that a letter may have.")
    try:
        letter = _decode(data)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{where} is damaged, or half a letter: {error}.") from error
    _check(letter, where)
    return letter


def _check(letter: Letter, where: str) -> None:
    if not is_name(letter.id):  # it becomes the name of a file
        raise UsageError(f"{where} has no proper id: {letter.id[:80]!r}.")


def shown(presence: Presence) -> bytes:
    return _encode(presence)


def seen(data: bytes | str, *, alive: bool) -> Presence | None:
    """None: nothing that can be read."""
    with suppress(msgspec.MsgspecError):
        return replace(_decode_presence(data), alive=alive)
    return None


# ---- on files


class Maildirs:
    """The mailboxes of one project under one home."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[str, _Box] = {}

    def send(self, name: str, letter: Letter) -> None:
        data = packed(letter)
        with self._told(name):
            if not is_name(name):
                raise FileNotFoundError
            box = self._open.get(name)
            if box is None or not box.same():
                box = self._open[name] = _Box.at(self._root, name)
            box.put(letter.id, data)

    def read(self, presence: Presence, complain: Callable[[str], None]) -> _FileReader:
        with self._told(presence.name):
            private_folder(self._root)
            if not is_name(presence.name):
                raise UsageError(f"{presence.name!r} is no name: use letters, digits, - and _.")
            with suppress(FileExistsError):
                (self._root / presence.name).mkdir(0o700)
            return _FileReader(_Box.at(self._root, presence.name, make=True), presence, complain)

    def present(self) -> list[Presence]:
        found: list[Presence] = []
        with suppress(FileNotFoundError), os.scandir(self._root) as entries:
            for entry in entries:
                with suppress(OSError, LaminaError):
                    box = _Box.at(self._root, entry.name)
                    one = box.presence()
                    box.close()
                    if one is not None and one.name == entry.name:
                        found.append(one)
        return sorted(found, key=lambda one: (not one.alive, one.name))

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    @contextmanager
    def _told(self, name: str) -> Generator[None]:
        path = self._root / name
        try:
            yield
        except FileNotFoundError as error:
            raise UsageError(f"There is no mailbox {name!r} here.") from error
        except OSError as error:
            raise PostAway(f"The mailbox {path} can't be used: {error.strerror}.") from error


class _Box:
    """The open folders of one mailbox: names in them are looked up nowhere else."""

    def __init__(self, path: Path, base: int, parts: tuple[int, int, int]) -> None:
        self.path, self.base = path, base
        self.tmp, self.new, self.cur = parts

    @classmethod
    def at(cls, root: Path, name: str, *, make: bool = False) -> _Box:
        path = root / name
        opened: list[int] = []
        try:
            opened.append(_opened(path, None))
            for part in _PARTS:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=opened[0])
                opened.append(_opened(path / part, opened[0]))
        except BaseException:
            for one in opened:
                os.close(one)
            raise
        return cls(path, opened[0], (opened[1], opened[2], opened[3]))

    def same(self) -> bool:
        """Is it still what its path names?"""
        with suppress(OSError):
            return os.path.samestat(os.fstat(self.base), os.lstat(self.path))
        return False

    def put(self, id_: str, data: bytes) -> None:
        # A reader only ever moves a letter on, so looking in this order misses none.
        if _is_in(self.new, id_) or _is_in(self.cur, id_):
            return
        name = f"{id_}.{os.getpid()}"
        file = os.open(name, _WRITE | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=self.tmp)
        try:
            os.write(file, data)
            sync(file)
        finally:
            os.close(file)
        os.rename(name, id_, src_dir_fd=self.tmp, dst_dir_fd=self.new)
        os.fsync(self.new)
        with suppress(OSError):  # nobody listens; who comes later looks first
            bell = os.open("bell", _WRITE | os.O_NONBLOCK, dir_fd=self.base)
            try:
                if stat.S_ISFIFO(os.fstat(bell).st_mode):
                    os.write(bell, b"!")
            finally:
                os.close(bell)

    def presence(self) -> Presence | None:
        """What its reader wrote of itself, and whether that one lives."""
        file = os.open("presence.json", _READ, dir_fd=self.base)
        try:
            data = os.read(file, 20_000)
        finally:
            os.close(file)
        lock = os.open("lock", _READ, dir_fd=self.base)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return seen(data, alive=True)
        finally:
            os.close(lock)
        return seen(data, alive=False)

    def close(self) -> None:
        for one in (self.tmp, self.new, self.cur, self.base):
            os.close(one)


class _FileReader:
    def __init__(self, box: _Box, presence: Presence, complain: Callable[[str], None]) -> None:
        self._box, self._complain = box, complain
        self._lock = os.open(
            "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=box.base
        )
        self.bell = -1
        try:
            self._claim(presence.name)
            with suppress(FileExistsError):
                os.mkfifo("bell", 0o600, dir_fd=box.base)
            # For writing too: else it could be read for ever once the last sender closed it.
            flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            self.bell = os.open("bell", flags, dir_fd=box.base)
            self.show(presence)
            self._tidy()
        except BaseException:
            self._let_go()
            raise

    def _claim(self, name: str) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"{name} runs already. Stop it first, or take another name."
            ) from error

    def hush(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self.bell, 4096):
                pass

    def take(self, hand_over: Callable[[Letter], None]) -> int:
        box, taken = self._box, 0
        for name in sorted(os.listdir(box.new)):
            try:
                letter = self._letter(name)
            except UsageError as error:
                self._set_aside(name, error)
                continue
            hand_over(letter)
            os.rename(name, name, src_dir_fd=box.new, dst_dir_fd=box.cur)
            taken += 1
        return taken

    def _letter(self, name: str) -> Letter:
        where = f"The letter {self._box.path / 'new' / name}"
        try:
            file = os.open(name, _READ, dir_fd=self._box.new)
        except OSError as error:
            raise UsageError(f"{where} is a link, or can't be read: {error.strerror}.") from error
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{where} is no file.")
            if status.st_size > LARGEST:
                raise UsageError(
                    f"{where} has {status.st_size:,} bytes; at most {LARGEST:,} count."
                )
            letter = unpacked(os.read(file, LARGEST + 1), where)
        finally:
            os.close(file)
        if letter.id != name:
            raise UsageError(f"{where} says that it is {letter.id!r}.")
        return letter

    def _set_aside(self, name: str, error: UsageError) -> None:
        with suppress(FileExistsError):
            os.mkdir("bad", 0o700, dir_fd=self._box.base)
        bad = _opened(self._box.path / "bad", self._box.base)
        try:
            os.rename(name, name, src_dir_fd=self._box.new, dst_dir_fd=bad)
        finally:
            os.close(bad)
        self._complain(f"{error} It was set aside in {self._box.path / 'bad'}.")

    def show(self, presence: Presence) -> None:
        base, name = self._box.base, f".presence.{os.getpid()}"
        file = os.open(name, _WRITE | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=base)
        try:
            os.write(file, shown(presence))
        finally:
            os.close(file)
        os.rename(name, "presence.json", src_dir_fd=base, dst_dir_fd=base)

    def _tidy(self) -> None:
        """What was read long ago, or never came to be a letter."""
        for folder in (self._box.tmp, self._box.cur):
            for name in os.listdir(folder):
                with suppress(OSError):
                    age = time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
                    if age > _KEPT:
                        os.unlink(name, dir_fd=folder)

    def close(self, *, keep: bool = True) -> None:
        if self._lock < 0:
            return
        if not keep and not any(os.listdir(one) for one in (self._box.new, self._box.tmp)):
            shutil.rmtree(self._box.path, ignore_errors=True)
        self._let_go()

    def _let_go(self) -> None:
        for one in (self.bell, self._lock):
            if one >= 0:
                os.close(one)
        self.bell = self._lock = -1
        self._box.close()


def _opened(path: Path, base: int | None) -> int:
    """A folder that is no link."""
    try:
        return os.open(path if base is None else path.name, _FOLDER, dir_fd=base)
    except OSError as error:
        if not path.is_symlink() and not isinstance(error, NotADirectoryError):
            raise
        what = "a link" if path.is_symlink() else "no folder"
        raise StorageError(
            f"The mailbox {path} is {what}, so it is not used. Move it away."
        ) from error


def _is_in(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
