"""The kernel sandbox of Bash: Landlock for files, seccomp for sockets, fewer powers for root.

A profile is put on a thread of its own, which starts the command and ends: children inherit it for
good, the rest of the process never has it, and no launcher has to be started (about 0.5 ms instead
of 18). Nothing here reads settings; `available` says why a kernel can't do it.

Not covered, since the kernel has no hook for it: in `workspace` a command can change the mode,
owner and times of files outside that the user owns. In `read-only` the system calls for that are
refused altogether.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import re
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from lamina.errors import ToolError

# Numbers from each architecture's own table of system calls.
SYSTEM_CALLS: Mapping[str, Mapping[str, int]] = {
    "x86_64": {
        "ioctl": 16, "socket": 41, "socketpair": 53, "chmod": 90, "fchmod": 91, "chown": 92,
        "fchown": 93, "lchown": 94, "utime": 132, "setxattr": 188, "lsetxattr": 189,
        "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199,
        "utimes": 235, "fchownat": 260, "futimesat": 261, "fchmodat": 268, "utimensat": 280,
        "io_uring_setup": 425, "fchmodat2": 452, "setxattrat": 463, "removexattrat": 466,
        "file_setattr": 469,
    },
    "aarch64": {
        "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15,
        "fremovexattr": 16, "ioctl": 29, "fchmod": 52, "fchmodat": 53, "fchownat": 54,
        "fchown": 55, "utimensat": 88, "socket": 198, "socketpair": 199, "io_uring_setup": 425,
        "fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469,
    },
}  # fmt: skip

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_METADATA = frozenset({
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime",
    "utimes", "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat",
    "removexattr", "lremovexattr", "fremovexattr", "removexattrat", "file_setattr",
})  # fmt: skip
_INTERNET_FAMILIES = (2, 10, 16)  # IPv4, IPv6, netlink (to list the interfaces)
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing for the user

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000


def filter_program(machine: str, *, network: bool, metadata: bool) -> bytes:
    """The program. `network`: Internet sockets are allowed; `metadata`: chmod and its kin are.

    Unix sockets are refused either way: behind one sits a service manager or a container daemon
    that would run a command outside of the sandbox. Pairs of connected sockets are harmless."""
    calls = SYSTEM_CALLS[machine]
    refuse, absent = _REFUSE | errno.EPERM, _REFUSE | errno.ENOSYS
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, _ARCHITECTURES[machine], 1, 0),
        _step(_RETURN, refuse),  # a foreign call table would go round the numbers below
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        program += [_step(_AT_LEAST, _X32_BIT, 0, 1), _step(_RETURN, refuse)]
    program += _when(calls["io_uring_setup"], [_step(_RETURN, absent)])
    program += _when(calls["ioctl"], _argument(_SECOND, _TERMINAL_INPUT, refuse, _ALLOW))
    families = _INTERNET_FAMILIES if network else ()
    program += _when(calls["socket"], _argument(_FIRST, families, _ALLOW, refuse))
    if not metadata:
        for name in sorted(_METADATA & calls.keys()):
            program += _when(calls[name], [_step(_RETURN, refuse)])
    program.append(_step(_RETURN, _ALLOW))
    return b"".join(program)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _when(number: int, then: list[bytes]) -> list[bytes]:
    """Steps for one system call; they must all return."""
    return [_step(_EQUAL, number, 0, len(then)), *then]


def _argument(offset: int, values: tuple[int, ...], match: int, otherwise: int) -> list[bytes]:
    """Return by the low half of an argument, which is all that the kernel reads of these."""
    steps = [_step(_LOAD, offset)]
    for value in values:
        steps += [_step(_EQUAL, value, 0, 1), _step(_RETURN, match)]
    return [*steps, _step(_RETURN, otherwise)]


Profile = Literal["full", "workspace", "read-only"]

OLDEST_ABI = 3  # before it, Landlock can't stop a file outside from being truncated

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_RIGHTS_ON_FILES = (
    0b1100_0000_0000_0111  # execute, write, read; truncate, ioctl: the kernel takes no other
)
_NO_NEW_PRIVILEGES, _SECCOMP_MODE, _FILTER_MODE, _DROP_CAPABILITY = 38, 22, 2, 24

# Landlock's rights over files, by bit: 0 execute, 1 write, 2 read, 3 list, 4-12 remove and make,
# 13 link or rename across directories, 14 truncate, 15 ioctl on devices.
_READ = 1 << 0 | 1 << 2 | 1 << 3
_FILE_WRITE = 1 << 1 | 1 << 14
_RIGHTS_OF_ABI = {3: (1 << 15) - 1, 4: (1 << 15) - 1}
_RIGHTS_NEWER = (1 << 16) - 1
_DEVICE_IOCTL = 1 << 15
_SCOPES = 1 << 0 | 1 << 1  # abstract Unix sockets and signals stay inside (ABI 6)

# What root keeps: the powers over files that it needs to work in other users' projects.
_KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 10})  # chown … setuid, bind below 1024
_LAST_CAPABILITY = 40

_HARMLESS_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a command may do: read everything or below `readable` and in the system, write below
    `writable`, reach the network or not."""

    writable: Sequence[Path] = ()
    readable: Sequence[Path] | None = None
    network: bool = False
    metadata: bool = False  # may it call chmod, chown, utime, setxattr?


# Where programs and what they need lie; not /home, /root, /tmp, /run, /var or /mnt.
LIBRARIES = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/etc/ld.so.cache")
_SYSTEM = (*LIBRARIES, "/sbin", "/etc", "/opt", "/snap", "/proc", "/sys", "/dev")
_BESIDE_PROGRAMS = (
    "lib", "lib64", "libexec", "include", "share", "versions", "toolchains", "Cellar", "pyvenv.cfg",
)  # fmt: skip
# Of `share` in a person's home, where keyrings, mail and histories lie too.
_TOOLS_OWN = (
    "uv", "pipx", "pypoetry", "hatch", "virtualenvs", "mise", "rtx", "asdf", "fnm", "nvm", "pnpm",
    "gem", "coursier", "man",
)  # fmt: skip


def sandbox_for(
    profile: Profile,
    *,
    project: Path,
    private_tmp: Path,
    network: bool,
    writes: Sequence[Path] = (),
    reads: Sequence[Path] | None = None,
    path: str = "",
) -> Sandbox | None:
    """The sandbox of a profile; None for `full`, which has none. Of the session's folder a command
    writes its temporary files alone: results and notes beside them are the record's. With `reads`
    it reads these, the project, the system and the programs on `path`, and nothing else."""
    if profile == "full":
        return None
    readable = None
    if reads is not None:
        readable = [private_tmp, *readable_alone(project, reads, path)]
        network = False
    if profile == "read-only":
        return Sandbox(readable=readable)
    return Sandbox((project, private_tmp, *writes), readable, network=network, metadata=True)


def readable_alone(project: Path, reads: Sequence[Path], path: str) -> list[Path]:
    """All that is read with nobody there to ask, by a command as by the tools that read."""
    return [project, *reads, *programs(path), *map(Path, _SYSTEM)]


def programs(path: str) -> list[Path]:
    """Folders of programs, wherever a person installed them, with their libraries."""
    home = Path(os.path.realpath(os.path.expanduser("~")))
    folders = [Path(os.path.realpath(one)) for one in path.split(os.pathsep) if one]
    folders += [Path(sys.prefix) / "bin", Path(sys.base_prefix) / "bin"]
    found = [*folders]
    for folder in folders:
        for name in _BESIDE_PROGRAMS:
            whole = name != "share" or not folder.is_relative_to(home)
            beside = folder.parent / name
            found += [beside] if whole else [beside / one for one in _TOOLS_OWN]
    return [one for one in found if one not in (Path(one.anchor), home)]


@cache
def available() -> str | None:
    """None if this kernel can sandbox a command, else the reason why not."""
    if sys.platform != "linux":
        return f"Landlock is a part of Linux, and this is {platform.system()}"
    if platform.machine() not in SYSTEM_CALLS:
        return f"the sandbox does not know the system calls of {platform.machine()}"
    abi = _abi()
    if abi < 0:
        return "this kernel has no Landlock, or it is switched off"
    if abi < OLDEST_ABI:
        return f"this kernel's Landlock is version {abi}; {OLDEST_ABI} (Linux 6.2) is needed"
    return None


def spawn(sandbox: Sandbox | None, start: Callable[[], subprocess.Popen[bytes]]) -> Any:
    """Start a process inside the sandbox. Raises ToolError where it can't be enforced."""
    if sandbox is None:
        return start()
    if reason := available():
        raise ToolError(f"Commands can't be sandboxed here: {reason}.")
    outcome: list[subprocess.Popen[bytes] | BaseException] = []

    def work() -> None:
        try:
            _restrict_thread(sandbox)
            outcome.append(start())
        except BaseException as error:  # noqa: BLE001 - handed to the caller below
            outcome.append(error)

    # The thread ends here; its restrictions go with it, the child keeps its copy.
    thread = threading.Thread(target=work, name="lamina-sandbox", daemon=True)
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _abi() -> int:
    return _syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG, check=False)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _syscall(number: int, *arguments: int | bytes | None, check: bool = True) -> int:
    passed = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(_libc().syscall(ctypes.c_long(number), *passed))
    if result < 0 and check:
        code = ctypes.get_errno()
        raise ToolError(f"The sandbox could not be set up: {os.strerror(code)}.")
    return result


def _prctl(option: int, *arguments: int | bytes) -> int:
    passed = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    passed += [ctypes.c_ulong(0)] * (4 - len(passed))
    return int(_libc().prctl(ctypes.c_int(option), *passed))


def _restrict_thread(sandbox: Sandbox) -> None:
    """Take powers from the calling thread, for good. The order matters: seccomp comes last."""
    _drop_capabilities()
    if _prctl(_NO_NEW_PRIVILEGES, 1) != 0:
        raise ToolError("The sandbox could not be set up: privileges can't be fixed.")
    _apply_landlock(sandbox)
    _apply_seccomp(sandbox)


def _drop_capabilities() -> None:
    if os.geteuid() != 0:
        return
    dropped = [cap for cap in range(_LAST_CAPABILITY + 1) if cap not in _KEPT_CAPABILITIES]
    for capability in sorted(dropped, key=lambda cap: cap == 8):  # 8 is the right to drop
        if _prctl(_DROP_CAPABILITY, capability) != 0 and ctypes.get_errno() == errno.EPERM:
            return  # root without that right has no powers worth dropping


def _apply_landlock(sandbox: Sandbox) -> None:
    abi = _abi()
    rights = _RIGHTS_OF_ABI.get(abi, _RIGHTS_NEWER)
    attributes = struct.pack("QQQ", rights, 0, _SCOPES if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _syscall(_CREATE_RULESET, attributes, size, 0)
    try:
        for place in ["/"] if sandbox.readable is None else map(str, sandbox.readable):
            _allow(ruleset, place, _READ)
        for device in _HARMLESS_DEVICES:
            _allow(ruleset, device, (_FILE_WRITE | 1 << 2) & rights)
        for directory in sandbox.writable:
            _allow(ruleset, str(directory), rights & ~_DEVICE_IOCTL)
        _syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # a device or a folder that this machine does not have
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _RIGHTS_ON_FILES
        rule = struct.pack("=Qi", rights, descriptor)
        _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)


def _apply_seccomp(sandbox: Sandbox) -> None:
    program = filter_program(platform.machine(), network=sandbox.network, metadata=sandbox.metadata)
    code = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions, padding, a pointer to them.
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    if _prctl(_SECCOMP_MODE, _FILTER_MODE, header) != 0:
        raise ToolError(f"The sandbox could not be set up: {os.strerror(ctypes.get_errno())}.")


# ---- orphans: while a sandboxed command runs, this process adopts what is orphaned below it. A process
# can clear its environment and leave its group, but its parents end here all the same. Adopted ones are
# told by the sandbox's filters of system calls, which they can't take off. While two commands run nobody
# knows whose an orphan is: the last one ends those that began while it ran.

_SET, _GET = 36, 37  # PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER
_LOOKS, _SECONDS = 5, 2.0
_running: set[int] = set()  # commands in a sandbox
_turn = threading.Lock()
_adopted_before = False  # by whoever this process belongs to: left as it was

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)


def start_adopting(
    sandbox: Sandbox | None, popen: Callable[[], subprocess.Popen[bytes]]
) -> subprocess.Popen[bytes]:
    """Start it as `spawn` does, and adopt its orphans until it is forgotten."""
    global _adopted_before  # noqa: PLW0603 - a property of the process
    if sandbox is None or sys.platform != "linux":
        return spawn(sandbox, popen)
    with _turn:
        if not _running:
            _adopted_before = _adopts()
        _adopt(on=True)
        try:
            process = spawn(sandbox, popen)
            _running.add(process.pid)
            return process
        finally:
            _adopt(on=_adopted_before or bool(_running))


def forget_orphans(process: int) -> None:
    with _turn:
        if process in _running:
            _running.discard(process)
            _adopt(on=_adopted_before or bool(_running))


def bury_orphans() -> None:
    """Take leave of adopted ones that are dead, while commands run: who waits for one to be gone would
    see its number for ever."""
    with _turn:
        for child in _children():
            if child not in _running and any(_is_orphan(child, one) for one in _running):
                with contextlib.suppress(ChildProcessError):
                    os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG)


def orphans_of(process: int) -> list[int]:
    """Adopted ones that are alive, if they can only be this command's; the dead are buried."""
    found: list[int] = []
    with _turn:
        for child in _children() if _running == {process} else ():
            if child != process and _is_orphan(child, process):
                with contextlib.suppress(ChildProcessError):
                    if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG) is None:
                        found.append(child)
    return found


def end_orphans(process: int) -> None:
    """End them until none is seen: one that forks and exits all the time is somewhere else in every
    look, so it is ended as soon as it is found, and looked for again."""
    deadline, unseen = time.monotonic() + _SECONDS, 0
    while unseen < _LOOKS and time.monotonic() < deadline:
        found = orphans_of(process)
        for one in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        unseen = 0 if found else unseen + 1


def _children() -> list[int]:
    found: list[int] = []
    for one in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, one.read_text("ascii").split())
    return found


def _is_orphan(child: int, process: int) -> bool:
    """Not what the program that we are a part of has started itself: that is older, in its own session
    or without a sandbox. No process gets back into a session that it was started out of."""
    session, began = _begun(child)
    younger = (began, child) > (_begun(process)[1], process)  # of one tick, by their numbers
    return session != os.getsid(0) and younger and _filters(child) > _filters("self")


def _begun(process: int) -> tuple[int, int]:
    """Its session, and when it started, in ticks."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
        fields = text.rpartition(")")[2].split()
        return int(fields[3]), int(fields[19])
    return 0, 0


def _filters(process: int | str) -> int:
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{process}/status").read_text("utf-8", "replace")
        found = re.search(r"^Seccomp_filters:\s*(\d+)", status, re.MULTILINE)
        return int(found[1]) if found else 0
    return 0


def _adopts() -> bool:
    found = ctypes.c_int(0)
    _prctl(_GET, ctypes.addressof(found))
    return bool(found.value)


def _adopt(*, on: bool) -> None:
    _prctl(_SET, int(on))
