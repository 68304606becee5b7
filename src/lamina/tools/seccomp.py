"""The seccomp filter of the sandbox: which system calls a command is refused, as a BPF program.

Landlock guards files; this closes what it leaves open: sockets, io_uring (which would go round this
filter), typing into a terminal, and in read-only commands the calls that change modes, owners,
times and attributes. Pure values: bytes for the kernel.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping

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
    that would run a command outside of the sandbox. Pairs of connected sockets are harmless.
    """
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
