"""Read: shows a file to the model, with line numbers, in bounded parts; images as images.

It reads regular files only and remembers in the context what it showed, so that Edit and Write
know what the agent has seen.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import anyio.to_thread

from lamina.errors import ToolError
from lamina.held import Held
from lamina.messages import Json
from lamina.ports import SeenFile, ToolContext, ToolOutcome, ToolSpec
from lamina.tools import files
from lamina.tools.files import SNIFFED, image_type, is_binary, numbered, utf16

LINES = 2_000
LONGEST_LINE = 2_000  # characters
MOST_CHARACTERS = 100_000  # of one call: about 25,000 tokens
LARGEST_IMAGE = 3_750_000  # 5 MB once it is base64
_SKIP = 1 << 20

_SPEC = ToolSpec(
    name="Read",
    description=(
        "Shows a file with line numbers (number, tab, line). Shows the first "
        f"{LINES:,} lines unless offset and limit say otherwise; very long lines are cut. PNG, "
        "JPEG, GIF and WebP files are shown as images. Read a file before you edit or overwrite it."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "The file; absolute is best."},
            "offset": {"type": "integer", "minimum": 1, "description": "First line to show."},
            "limit": {"type": "integer", "minimum": 1, "description": "How many lines."},
        },
        "required": ["file_path"],
        "additionalProperties": False,
    },
    clearable=True,
    read_only=True,
    threshold=0,
)


class Read:
    spec = _SPEC

    def prepare(self, input: Json, context: ToolContext) -> Json:  # noqa: A002
        return files.with_real_path(input, "file_path", context)

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        offset, limit = int(input.get("offset") or 1), int(input.get("limit") or LINES)
        with files.held(input["file_path"], context) as place:
            outcome, known = await anyio.to_thread.run_sync(_read, place, offset, limit)
        if known is not None:
            path = str(place.path)
            earlier = context.files.get(path)
            if earlier is not None and earlier.whole and earlier.digest == known.digest:
                known = earlier  # a second look at a part does not unsee the rest
            context.files[path] = known
        return outcome


def _read(place: Held, offset: int, limit: int) -> tuple[ToolOutcome, SeenFile | None]:
    path = place.path
    with files.open_regular(place) as (file, status):
        head = file.read(SNIFFED)
        if media_type := image_type(head):
            return _image(path, head + file.read(LARGEST_IMAGE), media_type), None
        if head.startswith(b"%PDF-"):
            raise ToolError(f"{path} is a PDF. Turn it into text first, for instance by pdftotext.")
        if is_binary(head):
            raise ToolError(f"{path} is a binary file of {status.st_size:,} bytes. Use Bash on it.")
        rest = file.read(files.LARGEST_WHOLE + 1 - len(head))
        data = head + rest
        if len(data) <= files.LARGEST_WHOLE:
            shown = _show(io.BytesIO(_as_utf8(data, path)), offset, limit, count=True)
            whole = offset == 1 and shown.complete
            return _outcome(path, shown, offset), files.seen(data, status, whole=whole)
        if utf16(head):
            raise ToolError(f"{path} is UTF-16 and too large to read whole. Convert it with iconv.")
        file.seek(0)
        shown = _show(file, offset, limit, count=False)
        seen = SeenFile(status.st_mtime_ns, status.st_size, "", whole=False)
        return _outcome(path, shown, offset), seen


def _as_utf8(data: bytes, path: Path) -> bytes:
    encoding = utf16(data)
    if encoding is None:
        return data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data[2:].decode(encoding).encode("utf-8", "replace")
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} begins like UTF-16 but is not. Use Bash on it.") from error


def _image(path: Path, data: bytes, media_type: str) -> ToolOutcome:
    if len(data) > LARGEST_IMAGE:
        raise ToolError(
            f"{path} is an image of more than {LARGEST_IMAGE:,} bytes, which models don't take. "
            "Make it smaller first."
        )
    source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}
    meta = {"path": str(path), "media_type": media_type, "bytes": len(data)}
    return ToolOutcome([{"type": "image", "source": source}], meta=meta)


@dataclass(slots=True)
class _Shown:
    """The lines of one part of a file, and how it went on."""

    lines: list[str]
    total: int | None = None  # None: not counted
    complete: bool = True  # up to the file's end, no line cut
    lossy: bool = False
    cut_lines: int = 0


def _show(file: BinaryIO, offset: int, limit: int, *, count: bool) -> _Shown:
    """The wanted lines. `count` reads on to the end to say how many there are."""
    shown = _Shown([])
    number = characters = 0
    full = False
    while raw := file.readline(LONGEST_LINE * 4 + 2):
        number += 1
        dropped = 0 if raw.endswith(b"\n") else _skip_rest(file)
        if number < offset:
            continue
        full = full or len(shown.lines) == limit or characters >= MOST_CHARACTERS
        if full:
            shown.complete = False
            if count:
                continue
            return shown
        line = _decode(raw, dropped, shown)
        characters += len(line) + 8
        shown.lines.append(line)
    shown.total = number
    return shown


def _skip_rest(file: BinaryIO) -> int:
    """Pass over what is left of an over-long line; says how many bytes that was."""
    dropped = 0
    while part := file.readline(_SKIP):
        dropped += len(part)
        if part.endswith(b"\n"):
            return dropped - 1
    return dropped


def _decode(raw: bytes, dropped: int, shown: _Shown) -> str:
    line = raw.removesuffix(b"\n").removesuffix(b"\r")
    try:
        decoded = line.decode("utf-8")
    except UnicodeDecodeError:
        decoded = line.decode("utf-8", "replace")
        # The cut of an over-long line may split a character: that alone is no bad encoding.
        shown.lossy = shown.lossy or dropped == 0 or "\ufffd" in decoded[:-4]
    over = len(decoded) - LONGEST_LINE
    if over <= 0 and dropped == 0:
        return decoded
    shown.cut_lines += 1
    shown.complete = False
    return decoded[:LONGEST_LINE] + "…"


def _outcome(path: Path, shown: _Shown, offset: int) -> ToolOutcome:
    last = offset + len(shown.lines) - 1
    meta = {"path": str(path), "first": offset, "lines": len(shown.lines), "total": shown.total}
    if not shown.lines:
        if shown.total == 0:
            return ToolOutcome(f"{path} is empty.", meta=meta)
        raise ToolError(f"{path} has only {shown.total:,} lines; line {offset:,} is past its end.")
    notes: list[str] = []
    if shown.total is None or last < shown.total:
        of = f" of {shown.total:,}" if shown.total is not None else ""
        notes.append(f"Lines {offset:,} to {last:,}{of}; continue with offset {last + 1}.")
    if shown.cut_lines:
        notes.append(f"{shown.cut_lines} long lines were cut, marked by … at their end.")
    if shown.lossy:
        notes.append("The file is not valid UTF-8; bytes that are not text are shown as \ufffd.")
    body = numbered(shown.lines, offset)
    return ToolOutcome(body + f"\n\n[{' '.join(notes)}]" if notes else body, meta=meta)
