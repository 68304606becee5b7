"""Layer 6: the dream, which tidies memory between sessions and loses nothing. This is when it runs, and
the lock that it holds.

Its gates cost one `stat` on most turns. A dream holds a kernel lock, works out everything apart
from the files, by rules and, where there is one, by a model on a copy, and brings it in with one
journalled step that one command undoes. Whatever ends it before that leaves memory as it was.

The lock is `.consolidate-lock` in the memory directory, held by the kernel and never replaced. Its
mtime is the time of the last consolidation (no file: never); its body holds the PID of the last
holder and that time again, so that whoever holds it next can put the mtime back after a kill.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lamina.errors import MemoryStoreError
from lamina.events import LayerActed
from lamina.layers.dream.record import DreamRecord, new_logs
from lamina.ledger import edits
from lamina.machine import is_alive, open_private, private_folder
from lamina.state import State

if TYPE_CHECKING:
    from lamina.layers.dream.runner import DreamResult
    from lamina.ports import MemoryStore

LAYER = "dream"
LOCK = ".consolidate-lock"
_REST = 3600.0  # seconds after a dream that did not get to its end
_SKEW = 3600.0  # a last dream this far ahead of the clock counts as just now
_ROBBED_AFTER = 3600.0  # seconds after which another program takes a lock for abandoned
_TRIES = 5
_MOMENT = 0.005
_LONGEST_BODY = 200
_NO_PROCESS, _NO_TIME = 2**31, 2**62


def after_turn(state: State) -> None:
    """Start a dream if every gate is open, the cheapest asked first."""
    store, now = state.deps.memory, state.deps.clock.now()
    if store is None or not due(state):
        return
    last = last_dream(store.directory / LOCK)
    looked = state.looked.get(LAYER)
    if looked is not None and 0 <= now - looked < state.config.float("dream.scan_minutes") * 60:
        return
    state.looked[LAYER] = now
    if _sessions_since(state, store, last) < state.flags.value("dream.sessions"):
        return
    if not _failed_lately(store, now):
        state.background.start(LAYER, lambda: _work(state))


def due(state: State) -> bool:
    """Whether the last dream is long enough ago, where dreams are wanted at all."""
    store = state.deps.memory
    if store is None or not store.in_files or not wanted(state):
        return False
    ago = state.deps.clock.now() - last_dream(store.directory / LOCK)
    return not -_SKEW < ago < state.flags.value("dream.hours") * 3600


def at_open(state: State) -> None:
    """Put the lock's mtime back if a dreamer was killed; the store finishes a half-done step itself."""
    store = state.deps.memory
    if store is not None and store.in_files and state.purpose == "main":
        repair(store.directory / LOCK)
        if state.flags.on("daily_log") and state.deps.interactive:
            _offer(state, store)


def _offer(state: State, store: MemoryStore) -> None:
    """Once a day, in a conversation: nothing but a dream makes memories of a diary."""
    now = state.deps.clock.now()
    days = days_waiting(store.directory, now)
    today = f"{datetime.fromtimestamp(now, UTC).astimezone():%Y-%m-%d}"
    if days and not DreamRecord(store.state).offered(today):
        what = days[0] if len(days) == 1 else f"{days[0]} and {len(days) - 1} more"
        state.emit(LayerActed(LAYER, f"the log of {what} waits: /dream makes memories of it"))


def wanted(state: State) -> bool:
    """On, not in daily-log mode (the night does it there), not remote, main agent only; a program that
    opens a session does not wait and pay for one unless it asks for that."""
    return (
        state.flags.on("dream")
        and not state.flags.on("daily_log")
        and state.purpose == "main"
        and (state.deps.interactive or state.config.bool("dream.non_interactive"))
        and not state.forked
        and not state.config.bool("remote")
    )


def _sessions_since(state: State, store: MemoryStore, last: float) -> int:
    """Sessions written to since the last dream, the present one not counted."""
    here = state.deps.transcript.parent
    folders = {here, store.directory.parent, *here.glob("other-agents/*")}
    touched: set[Path] = set()
    for path in (path for folder in folders for path in folder.glob("*.jsonl")):
        with contextlib.suppress(OSError):  # it went away meanwhile
            touched |= {path} if path.stat().st_mtime > last else set()
    return len(touched - {state.deps.transcript})


def _failed_lately(store: MemoryStore, now: float) -> bool:
    """A dream that failed or was cut short is not begun again and again: each try may cost money."""
    status = DreamRecord(store.state).status()
    return (
        status.get("status") != "completed" and 0 <= now - float(status.get("started", 0)) < _REST
    )


def days_waiting(directory: Path, now: float) -> list[str]:
    """Days before today whose log no dream has worked in since it was written."""
    today = f"{datetime.fromtimestamp(now, UTC).astimezone():%Y-%m-%d}"
    logs = new_logs(directory, last_dream(directory / LOCK))
    return [path.stem for path in logs if path.stem < today]


async def _work(state: State) -> None:
    try:
        dreamt = await run(state)
    except Exception as error:  # noqa: BLE001 - the edge of a background task; it is booked
        state.layer_failed(LAYER, error)
        return
    state.ledger.append(edits.job(LAYER, dreamt.status, reason=dreamt.text, commit=dreamt.commit))


async def run(
    state: State, *, apply: bool = True, prepared: DreamResult | None = None
) -> DreamResult:
    """Dream now, whatever the gates say; without `apply`, only find out what it would change.
    `prepared` is what such a dry run found: then just that is done, or nothing."""
    from lamina.layers.dream.runner import DreamResult, DreamRun

    store = state.deps.memory
    if store is None:
        return DreamResult("refused", "Memory is off.")
    if not store.in_files:
        return DreamResult("refused", "This memory is not in files, and a dream works on files.")
    path = store.directory / LOCK
    before = None if apply else left_at(path)
    try:
        lock = acquire(path, now=state.deps.clock.now(), claude=state.config.claude)
    except LockHeld as held:
        return DreamResult("refused", f"No dream now: {held}.")
    try:
        if apply:
            return await DreamRun(state, store, lock, apply=True, prepared=prepared).dream()
        with DreamRecord(store.state).as_it_was():
            return await DreamRun(state, store, lock, apply=False, prepared=prepared).dream()
    finally:
        if not apply:
            lock.put_back(before)
        lock.release()


# ---- the lock


class LockHeld(Exception):
    """Somebody else dreams; the words say who."""


@dataclass(slots=True)
class DreamLock:
    """Held until it is released; only success moves the mtime."""

    path: Path
    descriptor: int
    last_ns: int  # when the last dream succeeded; 0: never

    def succeeded(self, now: float) -> None:
        self.last_ns = int(now * 1e9)
        # What was dreamt is in the files, whatever is noted here.
        with contextlib.suppress(OSError):
            _write(self.descriptor, self.last_ns)

    def put_back(self, before: bytes | None) -> None:
        """Leave the file as it was before a dream that only looked, while it is still held."""
        with contextlib.suppress(OSError):
            if before is None and not self.last_ns:
                self.path.unlink()
            # Else another dreamt since.
            elif before and before.split()[1:2] == [b"%d" % self.last_ns]:
                os.pwrite(self.descriptor, before, 0)
                os.ftruncate(self.descriptor, len(before))
                os.utime(self.descriptor, ns=(self.last_ns, self.last_ns))

    def release(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def last_dream(path: Path) -> float:
    """When the last dream succeeded, by one stat; 0 if there was none."""
    try:
        return os.stat(path, follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


def left_at(path: Path) -> bytes | None:
    """What the last holder left; None if nobody ever dreamt."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def acquire(path: Path, *, now: float, claude: bool = False) -> DreamLock:
    """Take the lock or raise LockHeld at once. A dead holder never blocks, a live one is never robbed.

    `claude`: another program that knows only the PID rule may hold it, so that is respected too.
    """
    for _ in range(_TRIES):
        descriptor = _opened(path)
        try:
            lock = _locked(path, descriptor, now, claude=claude)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                raise MemoryStoreError(
                    f"Can't lock the dream by {path}: {error.strerror}."
                ) from error
            raise
        if lock is not None:
            return lock
        os.close(descriptor)  # the file was removed meanwhile: what we hold guards nothing
    raise LockHeld(f"{path} is removed again and again by another program")


def is_held(path: Path) -> bool:
    """Whether somebody dreams at this moment."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def repair(path: Path) -> None:
    """Put the mtime back if a holder was killed between writing the body and setting it."""
    with contextlib.suppress(OSError, LockHeld, MemoryStoreError):
        if not path.is_file():
            return
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            process, last = _body(descriptor)
            if last is None and not process and not os.fstat(descriptor).st_size:
                last = 0  # killed as soon as the file was there
            if last is not None and os.fstat(descriptor).st_mtime_ns != last:
                os.utime(descriptor, ns=(last, last))
        finally:
            os.close(descriptor)


def _opened(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        private_folder(path.parent)
        descriptor = open_private(path, flags)
    except OSError as error:
        odd = error.errno in (errno.EISDIR, errno.ELOOP)
        why = "it is no plain file. Remove it" if odd else error.strerror
        raise MemoryStoreError(f"Can't lock the dream by {path}: {why}.") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MemoryStoreError(f"Can't lock the dream by {path}: it is no plain file. Remove it.")
    return descriptor


def _locked(path: Path, descriptor: int, now: float, *, claude: bool) -> DreamLock | None:
    for again in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if again == _TRIES - 1:
                process, _ = _body(descriptor)
                raise LockHeld(f"process {process or '?'} dreams already") from None
            time.sleep(_MOMENT)  # somebody may only be looking
    here = os.fstat(descriptor)
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
        return None
    process, last = _body(descriptor)
    recent = 0 <= now - here.st_mtime < _ROBBED_AFTER
    another = process not in (0, os.getpid()) and is_alive(process)
    if claude and last is None and recent and another:
        raise LockHeld(f"process {process} of another program dreams")
    if last is None:  # written by that program, or brand new
        last = here.st_mtime_ns if process else 0
    _write(descriptor, last)
    return DreamLock(path, descriptor, last)


def _body(descriptor: int) -> tuple[int, int | None]:
    """The PID, and the time of the last dream where one of ours wrote it."""
    lines = os.pread(descriptor, _LONGEST_BODY, 0).decode("ascii", "replace").split()
    numbers = [int(line) if line.isdecimal() else None for line in lines[:2]]
    process, last = [*numbers, None, None][:2]
    # What is no PID and no time is somebody's garbage, and must not stop every dream from now on.
    known = process if process is not None and process < _NO_PROCESS else 0
    return known, last if last is not None and last < _NO_TIME else None


def _write(descriptor: int, last: int) -> None:
    """PID and time in one write, then the mtime: a kill in between is repaired from the body."""
    text = f"{os.getpid()}\n{last}\n".encode()
    old = os.fstat(descriptor).st_size
    try:
        os.pwrite(descriptor, text.ljust(min(old, _LONGEST_BODY), b"\n"), 0)
        os.ftruncate(descriptor, len(text))
    finally:  # on a full disk, too, a file that was only just made is no dream
        os.utime(descriptor, ns=(last, last))
