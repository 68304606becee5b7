"""The kernel sandbox of Bash: Landlock for files, seccomp for sockets, fewer powers for root.

A profile is put on a thread of its own, which starts the command and ends: children inherit it for
good, the rest of the process never has it, and no launcher has to be started (about 0.5 ms instead
of 18). Nothing here reads settings; `available` says why a kernel can't do it.

Not covered, since the kernel has no hook for it: in `workspace` a command can change the mode,
owner and times of files outside that the user owns. In `read-only` the system calls for that are
refused altogether.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from lamina.errors import ToolError
from lamina.tools.seccomp import SYSTEM_CALLS, filter_program

Profile = Literal["full", "workspace", "read-only"]

OLDEST_ABI = 3  # before it, Landlock can't stop a file outside from being truncated

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
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
    """What a command may do: read everything, write below `writable`, reach the network or not."""

    writable: Sequence[Path] = ()
    network: bool = False
    metadata: bool = False  # may it call chmod, chown, utime, setxattr?


def sandbox_for(
    profile: Profile, *, project: Path, private_tmp: Path, network: bool
) -> Sandbox | None:
    """The sandbox of a profile; None for `full`, which has none. Of the session's folder a command
    writes its temporary files alone: results and notes beside them are the record's."""
    if profile == "full":
        return None
    if profile == "read-only":
        return Sandbox()
    return Sandbox((project, private_tmp), network=network, metadata=True)


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
        _allow(ruleset, "/", _READ)
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
    except FileNotFoundError:
        return  # a device that this container does not have
    try:
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
