"""Runs a command to its end: input fed, output bounded, time limited, and nothing of it left over.

Used by Bash, Grep and hooks. The command gets a session of its own; when it ends, times out or is
cancelled, everything that it started is ended too: its process group, and on Linux also what left
the group (found by a mark in its environment, and if it took that off in a sandbox, as an orphan that
this process adopts). If this process is killed, a shell that waits for that ends those with a mark.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import anyio
import anyio.to_thread

from lamina.errors import ToolError
from lamina.tools.sandbox import (
    Sandbox,
    bury_orphans,
    end_orphans,
    forget_orphans,
    orphans_of,
    start_adopting,
)

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

CHUNK = 1 << 16  # bytes read at a time
GRACE = 0.5  # seconds between asking a process to end and ending it
_POLL = 0.05  # where the kernel has no descriptor for a process
_BURY = 0.2  # seconds between two looks for dead orphans


@dataclass(frozen=True, slots=True)
class Command:
    """What to run, and within what bounds."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    timeout: float
    cap: int = 1_000_000  # bytes kept of each stream
    stdin: bytes | None = None
    join_streams: bool = True  # stderr into stdout, in the order of writing
    sandbox: Sandbox | None = None
    stop_at: float = math.inf  # bytes of output that are enough: then it is ended
    report: bool = False  # give it a descriptor, named by $LAMINA_REPORT, to tell us something


@dataclass(slots=True)
class Finished:
    """How a command ended."""

    code: int
    out: Capture
    err: Capture
    seconds: float
    timed_out: bool = False
    enough: bool = False
    left_over: int = 0  # processes that were still running and have been ended
    report: bytes = b""


async def run_command(command: Command) -> Finished:
    """Run it; cancellation ends it first and then passes through. Raises OSError or
    ToolError if it can't start."""
    listen, wake = os.pipe()
    outcome: list[Finished | BaseException] = []
    done = anyio.Event()

    async def supervise() -> None:
        # A limiter of its own: long commands must not use up the threads that file tools share.
        with anyio.CancelScope(shield=True):
            try:
                limiter = anyio.CapacityLimiter(1)
                outcome.append(
                    await anyio.to_thread.run_sync(_supervise, command, listen, limiter=limiter)
                )
            except (OSError, ToolError) as error:  # raised again below, out of the task group
                outcome.append(error)
            finally:
                done.set()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(supervise)
            try:
                await done.wait()
            finally:
                if not done.is_set():
                    os.write(wake, b"!")
    finally:
        os.close(listen)
        os.close(wake)
    result = outcome[0]
    if isinstance(result, BaseException):
        raise result
    return result


def _supervise(command: Command, wake: int) -> Finished:
    with contextlib.closing(_Running(command, wake)) as running:
        return running.watch()


class _Running:
    """One running command, in the hands of its supervising thread."""

    def __init__(self, command: Command, wake: int) -> None:
        self._command = command
        self._mark = _guarded() + secrets.token_hex(8)
        self._began = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._unsent = memoryview(command.stdin or b"")
        self._cancelled = False
        self._told = -1
        self._process = self._start()
        self._pidfd = _descriptor_of(self._process.pid)
        self._since = started_at(self._process.pid)
        self._ended = False
        self._out, self._err = Capture(command.cap), Capture(command.cap)
        self._report = Capture(CHUNK)
        self._selector.register(wake, selectors.EVENT_READ, None)
        self._listen(self._process.stdout, self._out)
        self._listen(self._process.stderr, self._err)
        self._listen(self._told, self._report)
        if self._pidfd >= 0:
            self._selector.register(self._pidfd, selectors.EVENT_READ, None)
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
            self._selector.register(self._process.stdin, selectors.EVENT_WRITE, None)

    def _start(self) -> subprocess.Popen[bytes]:
        command = self._command
        env = {**command.env, MARK: self._mark}
        tell = -1
        if command.report:
            self._told, tell = os.pipe()
            env["LAMINA_REPORT"] = str(tell)

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                list(command.argv),
                cwd=command.cwd,
                env=env,
                stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if command.join_streams else subprocess.PIPE,
                start_new_session=True,
                pass_fds=(tell,) if command.report else (),
                bufsize=0,
            )

        try:
            return start_adopting(command.sandbox, start)
        except BaseException:
            if self._told >= 0:
                os.close(self._told)
            self._selector.close()
            raise
        finally:
            if tell >= 0:
                os.close(tell)

    def _listen(self, source: IO[bytes] | int | None, capture: Capture) -> None:
        if source is None or source == -1:
            return
        os.set_blocking(source if isinstance(source, int) else source.fileno(), False)
        self._selector.register(source, selectors.EVENT_READ, capture)

    def watch(self) -> Finished:
        """Until it exits, has run too long, has said enough or is cancelled; then clean up."""
        deadline = self._began + self._command.timeout
        timed_out = enough = False
        while not (self._exited() or self._cancelled or timed_out or enough):
            left = max(0.0, deadline - time.monotonic())
            self._serve(min(left, _BURY) if self._command.sandbox else left)
            bury_orphans()
            timed_out = time.monotonic() >= deadline
            enough = max(self._out.total, self._err.total) > self._command.stop_at
        exited = self._exited()
        alive = self._alive()
        if exited and alive:  # what only finishes its output has a moment for it
            self._drain(GRACE)
            alive = self._alive()
        left_over = self._end(alive)
        self._drain(0.0)
        return Finished(
            code=self._process.wait(),
            out=self._out,
            err=self._err,
            seconds=time.monotonic() - self._began,
            timed_out=timed_out and not exited,
            enough=enough,
            left_over=left_over if exited else 0,
            report=self._report.whole(),
        )

    def _exited(self) -> bool:
        """Without reaping where possible: until then no other process can get its number."""
        if self._pidfd < 0:
            return self._process.poll() is not None
        if self._process.returncode is not None:
            return True
        return os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _serve(self, seconds: float) -> bool:
        """Move bytes for at most so long; says whether there were any."""
        moved = False
        wait = seconds if self._pidfd >= 0 else min(seconds, _POLL)
        for key, _ in self._selector.select(wait):
            if isinstance(key.data, Capture):
                moved = self._take(key.fileobj, key.fd, key.data) or moved
            elif key.fileobj is self._process.stdin:
                self._give(key.fd)
            else:  # it exited, or we are told to stop: either is said once
                self._selector.unregister(key.fd)
                self._cancelled = self._cancelled or key.fd != self._pidfd
        return moved

    def _take(self, source: FileDescriptorLike, descriptor: int, capture: Capture) -> bool:
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._selector.unregister(source)
        capture.feed(data)
        return bool(data)

    def _give(self, descriptor: int) -> None:
        try:
            self._unsent = self._unsent[os.write(descriptor, self._unsent) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent = memoryview(b"")
        if not self._unsent and self._process.stdin is not None:
            self._selector.unregister(self._process.stdin)
            self._process.stdin.close()

    def _drain(self, seconds: float) -> None:
        """Take what is still in the pipes; wait so long for those who still hold them open."""
        deadline = time.monotonic() + seconds
        while any(isinstance(key.data, Capture) for key in self._selector.get_map().values()):
            left = deadline - time.monotonic()
            moved = self._serve(max(0.0, left))
            if left <= 0 and (seconds or not moved):
                return

    def _alive(self) -> list[int]:
        """The processes of this command that are still there, as far as the system tells."""
        if sys.platform == "linux":
            return [*{*marked(self._mark, self._since), *orphans_of(self._process.pid)}]
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, 0)
            return [self._process.pid]
        return []

    def _end(self, alive: list[int]) -> int:
        """End all that is left, politely first; says how many there were."""
        self._ended = True
        if not alive and self._exited():
            self._signal([], signal.SIGKILL)  # members of the group that lost their mark
            end_orphans(self._process.pid)
            return 0
        self._signal(alive, signal.SIGTERM)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and (self._alive() or not self._exited()):
            time.sleep(0.005)
        for _ in range(5):  # a process may fork while it is being looked for
            left = self._alive()
            self._signal(left, signal.SIGKILL)
            if not left:
                break
        end_orphans(self._process.pid)
        return len(alive)

    def _signal(self, processes: list[int], number: signal.Signals) -> None:
        # Once the leader is reaped its number may be another's; elsewhere than on Linux the group
        # is all that there is to find the rest by.
        if self._process.returncode is None or sys.platform != "linux":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
        for process in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)

    def close(self) -> None:
        if not self._ended:
            self._end(self._alive())
        self._process.wait()
        forget_orphans(self._process.pid)
        self._selector.close()
        for descriptor in (self._pidfd, self._told):
            if descriptor >= 0:
                os.close(descriptor)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _descriptor_of(process: int) -> int:
    """A descriptor that tells when the process exits; -1 where the kernel has none."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.pidfd_open(process)
    return -1


class Capture:
    """Output with its head and tail kept, the middle counted."""

    def __init__(self, cap: int) -> None:
        self._half = max(1, cap // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) > 2 * self._half + CHUNK:
                del self._tail[: -self._half]

    @property
    def omitted(self) -> int:
        return max(0, self.total - 2 * self._half)

    def parts(self) -> tuple[bytes, bytes]:
        """Head and tail; with nothing omitted they join to the whole."""
        tail = self._tail[-self._half :] if self.omitted else self._tail
        return bytes(self._head), bytes(tail)

    def whole(self) -> bytes:
        return b"".join(self.parts())


# ---- processes by their mark

MARK = "LAMINA_CALL"
_LARGEST_ENVIRONMENT = 1 << 21  # bytes; Linux takes no larger one
_ROUNDS = 5  # looks at the process table while new processes keep appearing
_TRIES, _PAUSE = 20, 0.002  # 40 ms for a process to begin another program
_KERNEL_THREAD, _EXITING = 0x00200000, 0x00000004

# Waits until this process is gone, however it went; then ends all with its mark. It looks more than
# once: one of them may be starting another.
_GUARD = """
read nothing
for round in 1 2 3; do
  for one in /proc/[0-9]*; do
    grep -qs "$1" "$one/environ" && kill -9 "${one#/proc/}"
  done
done
"""
_guards: dict[int, str] = {}  # by process, since a fork is another one


def _guarded() -> str:
    """How the marks of this process's commands begin; from the first on it has a guard."""
    if os.getpid() in _guards:
        return _guards[os.getpid()]
    token = _guards[os.getpid()] = secrets.token_hex(8)
    if sys.platform == "linux":
        listen, _kept = os.pipe()  # the other end closes with this process, and no child has it
        nowhere = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
        wiring = [(os.POSIX_SPAWN_DUP2, listen, 0), nowhere, (os.POSIX_SPAWN_DUP2, 1, 2)]
        words = ["sh", "-c", _GUARD, "lamina-guard", f"{MARK}={token}"]
        path = {"PATH": os.environ.get("PATH", os.defpath)}
        with contextlib.suppress(OSError):  # no shell, no guard
            os.posix_spawn("/bin/sh", words, path, file_actions=wiring, setsid=True)
        os.close(listen)
    return token


def marked(mark: str, since: int = 0) -> list[int]:
    """The processes with this mark. `since`: when the command started, in the kernel's ticks."""
    wanted = f"{MARK}={mark}".encode()
    found: list[int] = []
    for _ in range(_ROUNDS):
        newest = _newest()
        names = [name for name in os.listdir("/proc") if name.isdigit()]
        found = [int(name) for name in names if wanted in _environment(name, since)]
        if found or _newest() == newest:  # else one may have been born behind our back
            return found
    return found


def started_at(process: int) -> int:
    """When a process started, in ticks since the machine did; 0 if that can't be known."""
    fields = _status(str(process))
    return int(fields[19]) if len(fields) > 19 else 0


def _environment(process: str, since: int) -> bytes:
    """It reads as empty for a moment while a process begins another program: wait that out."""
    for _ in range(_TRIES):
        with contextlib.suppress(OSError), open(f"/proc/{process}/environ", "rb") as file:
            if content := file.read(_LARGEST_ENVIRONMENT):
                return content
        if not _may_be_starting(process, since):
            break
        time.sleep(_PAUSE)
    return b""


def _may_be_starting(process: str, since: int) -> bool:
    fields = _status(process)
    if len(fields) <= 19 or fields[0] in "ZX" or int(fields[19]) < since:
        return False
    return not int(fields[6]) & (_KERNEL_THREAD | _EXITING)


def _status(process: str) -> list[str]:
    """The fields of a process's status from the state on, which follows the name in brackets."""
    place = f"/proc/{process}/stat"
    with contextlib.suppress(OSError), open(place, encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()
    return []


def _newest() -> str:
    """The number of the newest process of the system."""
    with contextlib.suppress(OSError), open("/proc/loadavg", encoding="ascii") as file:
        return file.read().split()[-1]
    return ""
