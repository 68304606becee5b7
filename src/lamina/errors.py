"""The errors that Lamina raises. Each carries one sentence for the user: what, where, what to do.

LaminaError
├── UsageError             wrong arguments, unknown names (exit code 2)
│   ├── SettingsError      a settings file or variable that can't be taken, named
│   └── PackageMissing     an adapter's package is not there, or not in a version that it knows
├── RefusedError           a rule said no (exit code 3)
│   ├── GateRefused        the memory gate
│   │   ├── InboxFull      too much waits for a person already
│   │   └── SaidAlready    a memory says exactly this
│   └── PermissionRefused  a permission rule or the sandbox
├── StorageError           disk full, read-only, unreadable, vanished
│   ├── LedgerError        a session's record
│   │   ├── SessionBusy    another process writes this session
│   │   └── EditRefused    an edit or entry that would break the view
│   ├── PostAway           mailboxes that can't be used now; later they may
│   └── MemoryStoreError   the memory directory
│       └── Conflict       somebody else changed the file first
│           └── NameTaken  another memory has that name
├── ModelError             a model call failed for good
│   ├── ModelConfigError   no key, wrong key, unknown model, missing package
│   ├── ModelUnreachable   no connection, time-out, overloaded after all retries
│   ├── PromptTooLong      the request exceeds the window (`gap` in tokens if known)
│   └── BadResponse        the answer broke the wire format
├── ToolError              a tool failed; the text goes to the model as its result
├── HookError              a hook blocked, failed or hung
└── TranscriptError        a file that is not a transcript we can read
"""

from __future__ import annotations


class LaminaError(Exception):
    """Anything that Lamina reports; `str(error)` is the sentence for the user."""

    exit_code = 1


def alone(error: BaseException) -> BaseException:
    """The error inside groups of one: what went wrong, not that a task group saw it."""
    inside: list[BaseException] = [error]
    while len(inside) == 1 and isinstance(error := inside[0], BaseExceptionGroup):
        inside = [*error.exceptions]  # pyright: ignore[reportUnknownMemberType]
    return error  # pyright: ignore[reportUnknownVariableType]


class UsageError(LaminaError):
    exit_code = 2


class SettingsError(UsageError):
    pass


class PackageMissing(UsageError, ImportError):
    pass


class RefusedError(LaminaError):
    exit_code = 3


class GateRefused(RefusedError):
    pass


class InboxFull(GateRefused):
    pass


class SaidAlready(GateRefused):
    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


class PermissionRefused(RefusedError):
    pass


class StorageError(LaminaError):
    pass


class LedgerError(StorageError):
    pass


class SessionBusy(LedgerError):
    pass


class EditRefused(LedgerError):
    pass


class PostAway(StorageError):
    pass


class MemoryStoreError(StorageError):
    pass


class Conflict(MemoryStoreError):
    pass


class NameTaken(Conflict):
    pass


class ModelError(LaminaError):
    pass


class ModelConfigError(ModelError):
    exit_code = 2


class ModelUnreachable(ModelError):
    pass


class PromptTooLong(ModelError):
    def __init__(self, message: str, gap: int | None = None, limit: int | None = None) -> None:
        super().__init__(message)
        self.gap = gap
        self.limit = limit  # the window, where the provider names it


class BadResponse(ModelError):
    pass


class ToolError(LaminaError):
    pass


class HookError(LaminaError):
    pass


class TranscriptError(LaminaError):
    pass


def installing(extra: str) -> str:
    """The command that adds an extra to this Lamina, be it installed or a checkout."""
    import sys
    from pathlib import Path

    checkout = Path(__file__).parents[2]
    if not (checkout / "pyproject.toml").is_file():
        return f"pip install 'lamina[{extra}]'"
    return f"{sys.executable} -m pip install -e '{checkout}[{extra}]'"
