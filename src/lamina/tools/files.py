"""How the tools reach files: a path is resolved once and held open while its permission is decided;
what is then read or replaced is what was held, or the call fails. And what kind of file it is: text
with its encoding and line ends, an image, or bytes.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from lamina import machine
from lamina.errors import ToolError
from lamina.held import Held, Swapped, hold
from lamina.machine import open_private, private_folder
from lamina.messages import Json
from lamina.ports import SeenFile, ToolContext

LARGEST_WHOLE = 32 << 20  # bytes; up to here a file is loaded and its digest taken
_KERNEL_FILES = ("/proc/", "/sys/")
_NOTE = ".writing-"
_BEGINNING = 60.0  # seconds in which a note without a word may still get its own


def resolve(path: str, context: ToolContext) -> Path:
    """The one true path: absolute, `~` and links resolved; relative ones start at the cwd."""
    if not path or "\0" in path:
        raise ToolError("A path must not be empty or contain NUL.")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ToolError("The path has characters that no file name can have.") from error
    return Path(os.path.realpath(context.cwd / Path(path).expanduser()))


def with_real_path(input: Json, field: str, context: ToolContext) -> Json:  # noqa: A002
    """The input with one path field resolved; the context holds what is there."""
    if context.held is not None:
        context.held.close()
    context.held = hold(resolve(str(input[field]), context))
    return {**input, field: str(context.held.path)}


@contextlib.contextmanager
def held(path: str, context: ToolContext) -> Generator[Held]:
    """What the permission was about; for a call that needed none, what is there now."""
    if context.held is not None and str(context.held.path) == path:
        yield context.held
        return
    with hold(resolve(path, context)) as place:
        yield place


@contextlib.contextmanager
def complaints(path: Path, doing: str) -> Generator[None]:
    """The system's errors, and a path that leads elsewhere now, as one sentence about this file."""
    try:
        yield
    except Swapped as error:
        raise ToolError(
            f"Can't {doing} {path}: since it was looked at for its permission, it or a folder above "
            "it was moved or replaced. Nothing was done; look again, then try again."
        ) from error
    except FileNotFoundError as error:
        raise ToolError(f"{path} does not exist.") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            reason = "a link is in its way. Use the real path"
        else:
            reason = error.strerror or str(error)
        raise ToolError(f"Can't {doing} {path}: {reason}.") from error


@contextlib.contextmanager
def open_regular(place: Held) -> Generator[tuple[BinaryIO, os.stat_result]]:
    """A regular file for reading; anything else is refused before it is opened."""
    require_stored(place.path)
    with complaints(place.path, "read"):
        place.check()
        mode = place.status.st_mode if place.status is not None else stat.S_IFREG
        if stat.S_ISDIR(mode):
            raise ToolError(f"{place.path} is a directory. Use Glob to list its files.")
        if not stat.S_ISREG(mode):
            raise ToolError(f"{place.path} is a device, pipe or socket, not a file.")
        with open(place.open(os.O_RDONLY), "rb") as file:
            yield file, os.fstat(file.fileno())


def require_stored(path: Path) -> None:
    """What a process holds, its environment too, is no file: what looks at it is confined in Bash."""
    if f"{path}/".startswith(_KERNEL_FILES):
        raise ToolError(f"{path} is not a stored file but a window into the system. Use Bash.")


def load(place: Held) -> tuple[bytes, os.stat_result]:
    """A whole file that is about to be changed."""
    with open_regular(place) as (file, status):
        data = file.read(LARGEST_WHOLE + 1)
    if len(data) > LARGEST_WHOLE:
        raise ToolError(
            f"{place.path} is larger than {LARGEST_WHOLE >> 20} MB. Change it by a command in Bash."
        )
    return data, status


def seen(data: bytes, status: os.stat_result, *, whole: bool) -> SeenFile:
    digest = hashlib.sha256(data).hexdigest()
    return SeenFile(status.st_mtime_ns, status.st_size, digest, whole)


def require_unchanged(path: Path, data: bytes, context: ToolContext, doing: str) -> SeenFile:
    """What the agent saw of the file, if that still is what the file holds."""
    known = context.files.get(str(path))
    if known is None:
        raise ToolError(f"{path} was not read yet. Read it before you {doing} it.")
    if known.digest != hashlib.sha256(data).hexdigest():
        raise ToolError(f"{path} changed since it was read. Read it again, then {doing} it.")
    return known


def put(
    place: Held,
    data: bytes,
    old: bytes | None,
    before: os.stat_result | None,
    context: ToolContext,
    *,
    whole: bool,
) -> tuple[Path, bytes]:
    """Replace a file that held `old`; one that belongs to the memory goes through its gate. The agent has
    seen what stands there then, which is handed back with its place, as far as it had seen it before."""
    with complaints(place.path, "write"):
        place.check()
        kept = context.session.keep(place.path, data, old)
        if kept is not None:  # the store may say it in the user's words, under a name of theirs too
            data, status = kept.read_bytes(), kept.stat()
        else:
            status = replace(place, data, before, context.notes or context.scratch.parent)
    path = kept or place.path
    context.files[str(path)] = seen(data, status, whole=whole)
    return path, data


def replace(place: Held, data: bytes, before: os.stat_result | None, notes: Path) -> os.stat_result:
    """Put the data there, whole or not at all; mode and owner of an old file stay.

    `before` is the old file's status, None for a file that must not exist yet. `notes` is a folder of
    ours that tells `sweep` what is being written."""
    with complaints(place.path, "write"), place.parent() as parent:
        if before is not None and not os.access(place.name, os.W_OK, dir_fd=parent):
            raise ToolError(f"{place.path} is write-protected.")
        with _temporary(parent, place.path, notes) as name:
            return _replace_in(parent, place.path, name, data, before)


@contextlib.contextmanager
def _temporary(parent: int, path: Path, notes: Path) -> Generator[str]:
    """A name beside the file for its new content. While it may be in use, a note in our own folder
    says where it is, so that a process that is killed leaves nothing in the user's project for good."""
    name = f".{path.name[:100]}.{secrets.token_hex(6)}.tmp"
    private_folder(notes)
    note = notes / f"{_NOTE}{secrets.token_hex(8)}"
    with open(note, "xb", buffering=0, opener=open_private) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            file.write(os.fsencode(path.with_name(name)))
            yield name
        finally:
            with contextlib.suppress(OSError):  # else the note stays with it
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=parent)
                note.unlink()


def sweep(notes: Path) -> None:
    """Remove what killed processes left beside the files that they wrote; a note that is locked
    belongs to one that is still at work, and one without a word may be about to be."""
    for note in notes.glob(f"{_NOTE}*"):
        with contextlib.suppress(OSError), open(note, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left = Path(os.fsdecode(file.read()))
            if _is_ours(left.name):
                left.unlink(missing_ok=True)
            elif time.time() - note.stat().st_mtime < _BEGINNING:
                continue
            note.unlink()


def _is_ours(name: str) -> bool:
    """Is it a name that we make? A note that was cut short may be that of another file."""
    bare, _, mark = name.removesuffix(".tmp").rpartition(".")
    made = len(mark) == 12 and not mark.strip("0123456789abcdef")
    return made and bare.startswith(".") and name.endswith(".tmp")


def _replace_in(
    parent: int, path: Path, temporary: str, data: bytes, before: os.stat_result | None
) -> os.stat_result:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(temporary, flags, 0o666, dir_fd=parent), "wb") as file:
        if before is not None:
            with contextlib.suppress(PermissionError):
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
        file.write(data)
        file.flush()
        machine.flush(file.fileno())
        status = os.fstat(file.fileno())
    if before is None:
        try:
            machine.put_new(parent, temporary, path.name)
        except FileExistsError as error:
            raise ToolError(f"{path} has appeared meanwhile. Read it first.") from error
    else:
        _require_same(parent, path, before)
        os.replace(temporary, path.name, src_dir_fd=parent, dst_dir_fd=parent)
    _sync_directory(parent)
    return status


def _require_same(parent: int, path: Path, before: os.stat_result) -> None:
    """The last look before the rename: nobody else wrote the file while we did."""
    try:
        now = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        raise Swapped from None
    key = (before.st_ino, before.st_mtime_ns, before.st_size)
    if (now.st_ino, now.st_mtime_ns, now.st_size) != key:
        raise ToolError(f"{path} changed meanwhile. Read it again.")


def _sync_directory(parent: int) -> None:
    # A directory that may be entered but not listed can't be opened for this; the file is whole
    # either way, only its new name might be lost with the power.
    with contextlib.suppress(PermissionError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
        try:
            machine.flush(descriptor)
        finally:
            os.close(descriptor)


def shown_path(path: str, project: Path) -> str:
    """A path in the answer: relative inside the project, else absolute."""
    inside = path.startswith(f"{project}/")
    return os.fsencode(path[len(str(project)) + 1 :] if inside else path).decode("utf-8", "replace")


# ---- what is in a file

SNIFFED = 8_192  # bytes that tell what kind of file it is
NUMBER_WIDTH = 6  # digits of a line number, as `cat -n` has them

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def image_type(head: bytes) -> str | None:
    """The media type, for the kinds of image that models take."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGES if head.startswith(magic)), None)


def utf16(head: bytes) -> str | None:
    """The encoding that a UTF-16 byte order mark names."""
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    return "utf-16-be" if head.startswith(codecs.BOM_UTF16_BE) else None


def is_binary(head: bytes) -> bool:
    return b"\0" in head and utf16(head) is None


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text and what is needed to turn it into the same bytes again."""

    text: str
    encoding: str
    mark: bytes = b""

    @classmethod
    def of(cls, data: bytes) -> Text:
        """Raises UnicodeDecodeError for broken UTF-16 only."""
        if encoding := utf16(data):
            return cls(data[2:].decode(encoding), encoding, data[:2])
        mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        return cls(data[len(mark) :].decode("utf-8", "surrogateescape"), "utf-8", mark)

    def encode(self, text: str) -> bytes:
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        return self.mark + text.encode(self.encoding, errors)

    @property
    def newline(self) -> str:
        """The line end that most lines have."""
        pairs = self.text.count("\r\n")
        return "\r\n" if pairs * 2 > self.text.count("\n") else "\n"


def numbered(lines: list[str], first: int) -> str:
    """Lines with their numbers before them, a tab between."""
    return "\n".join(f"{first + index:>{NUMBER_WIDTH}}\t{line}" for index, line in enumerate(lines))


def shown(text: str) -> str:
    """Text that can be shown and stored: lone surrogates become U+FFFD."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text
