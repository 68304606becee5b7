"""Read shows a file to the model, with line numbers, in bounded parts, images as images; Write creates a
file or replaces all of it, Edit replaces a passage: atomically, and only what the agent has seen.

Read takes regular files only, and remembers in the context what it showed. The others write the named
file and make its missing parent directories; nothing else.
"""

from __future__ import annotations

import base64
import codecs
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import anyio.to_thread

from lamina.errors import ToolError
from lamina.held import Held
from lamina.messages import Json
from lamina.ports import SeenFile, ToolContext, ToolOutcome, ToolSpec
from lamina.tools import counted, files, takes
from lamina.tools.files import SNIFFED, Text, image_type, is_binary, numbered, shown, utf16

LINES = 2_000
LONGEST_LINE = 2_000  # characters
MOST_CHARACTERS = 100_000  # of one call: about 25,000 tokens
LARGEST_IMAGE = 3_750_000  # 5 MB once it is base64
_SKIP = 1 << 20


class _OnOneFile:
    def prepare(self, input: Json, context: ToolContext) -> Json:  # noqa: A002
        return files.with_real_path(input, "file_path", context)


class Read(_OnOneFile):
    spec = ToolSpec(
        name="Read",
        description=(
            "Shows a file with line numbers (number, tab, line). Shows the first "
            f"{LINES:,} lines unless offset and limit say otherwise; very long lines are cut. PNG, "
            "JPEG, GIF and WebP files are shown as images. Read a file before you edit or overwrite it."
        ),
        input_schema=takes(
            "file_path",
            file_path={"type": "string", "description": "The file; absolute is best."},
            offset=counted("First line to show."),
            limit=counted("How many lines."),
        ),
        clearable=True,
        read_only=True,
        threshold=0,
    )

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
            wide = _text(data, path).text.encode("utf-8", "replace") if utf16(data) else data
            plain = wide.removeprefix(codecs.BOM_UTF8)
            shown = _show(io.BytesIO(plain), offset, limit, count=True)
            whole = offset == 1 and shown.complete
            return _outcome(path, shown, offset), files.seen(data, status, whole=whole)
        if utf16(head):
            raise ToolError(f"{path} is UTF-16 and too large to read whole. Convert it with iconv.")
        file.seek(0)
        shown = _show(file, offset, limit, count=False)
        seen = SeenFile(status.st_mtime_ns, status.st_size, "", whole=False)
        return _outcome(path, shown, offset), seen


def _text(data: bytes, path: Path) -> Text:
    try:
        return Text.of(data)
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


# ---- Write and Edit

AROUND = 4  # lines shown before and after a change
LONGEST_SHOWN = 60  # lines of the change itself
LONGEST_LINE_SHOWN = 500  # characters


class Write(_OnOneFile):
    spec = ToolSpec(
        name="Write",
        description=(
            "Creates a file, or replaces all of its content. A file that exists must have been read "
            "whole before. To change a part of a file, use Edit instead. Missing directories are made."
        ),
        input_schema=takes(
            "file_path content",
            file_path={"type": "string", "description": "The file; absolute is best."},
            content={"type": "string", "description": "The whole new content."},
        ),
        clearable=True,
        parallel=False,
    )

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        content: str = input["content"]
        _refuse_surrogates(content)
        with files.held(input["file_path"], context) as place:
            return await anyio.to_thread.run_sync(_write, place, content, context)


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ToolError(
            "The text has lone surrogates, which can't be stored. Remove them."
        ) from None


def _write(place: Held, content: str, context: ToolContext) -> ToolOutcome:
    path = place.path
    old = before = None
    if place.status is not None:
        old, before = files.load(place)
        known = files.require_unchanged(path, old, context, "overwrite") if old else None
        if known is not None and not known.whole:
            raise ToolError(
                f"Only a part of {path} was read. Read all of it before you overwrite it, or use Edit."
            )
    path, data = files.put(place, content.encode("utf-8"), old, before, context, whole=True)
    lines = len(data.decode("utf-8", "replace").splitlines())
    meta = {"path": str(path), "lines": lines, "created": before is None}
    verb = "Created" if before is None else "Replaced"
    return ToolOutcome(f"{verb} {path} ({lines:,} lines).", meta=meta)


class Edit(_OnOneFile):
    spec = ToolSpec(
        name="Edit",
        description=(
            "Replaces old_string by new_string in a file that was read before. old_string must be "
            "exactly what the file holds, spaces and indentation included, without line numbers, and "
            "must occur once; add lines around it until it does, or set replace_all."
        ),
        input_schema=takes(
            "file_path old_string new_string",
            file_path={"type": "string", "description": "The file; absolute is best."},
            old_string={"type": "string", "description": "The passage as it is now."},
            new_string={"type": "string", "description": "What takes its place."},
            replace_all={"type": "boolean", "description": "Replace every occurrence."},
        ),
        clearable=True,
        parallel=False,
    )

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        with files.held(input["file_path"], context) as place:
            return await anyio.to_thread.run_sync(_edit, place, input, context)


def _edit(place: Held, wish: Json, context: ToolContext) -> ToolOutcome:
    path, old = place.path, wish["old_string"]
    if not old:
        raise ToolError(f"old_string is empty. Use Write to give {path} its whole content.")
    if old == wish["new_string"]:
        raise ToolError("old_string and new_string are the same; nothing would change.")
    _refuse_surrogates(old + wish["new_string"])
    data, status = files.load(place)
    known = files.require_unchanged(path, data, context, "edit")
    if is_binary(data):
        raise ToolError(f"{path} is a binary file. Use Bash on it.")
    before = _text(data, path)
    spans, new = _find(before, old, wish["new_string"])
    if not spans:
        raise ToolError(_not_found(path, before.text, old))
    if len(spans) > 1 and not wish.get("replace_all"):
        lines = ", ".join(str(before.text.count("\n", 0, start) + 1) for start, _ in spans[:10])
        raise ToolError(
            f"old_string occurs {len(spans)} times in {path} (lines {lines}). Add lines around it "
            "so that it occurs once, or set replace_all."
        )
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(before.text)]
    after = new.join(before.text[end:start] for end, start in zip(ends, starts, strict=True))
    written = before.encode(after)
    path, put = files.put(place, written, data, status, context, whole=known.whole)
    first = before.text.count("\n", 0, spans[0][0])
    if put != written:  # what is told is what stands there
        after = _text(put, path).text
        first = after.count("\n", 0, at) if (at := after.find(new)) >= 0 else first
    meta = {"path": str(path), "replaced": len(spans), "line": first + 1}
    return ToolOutcome(_report(path, after, first, new, len(spans)), meta=meta)


def _find(before: Text, old: str, new: str) -> tuple[list[tuple[int, int]], str]:
    """Where old_string stands, and the new text with the file's own line ends.

    The model sees lines without their ends, so a newline stands for either kind, unless it wrote
    carriage returns itself."""
    if "\r" in old or "\r" in new:
        exact = [found.span() for found in re.finditer(re.escape(old), before.text)]
        if exact:
            return exact, new
    lines = old.replace("\r\n", "\n").split("\n")
    pattern = re.compile("\r?\n".join(map(re.escape, lines)))
    spans = [found.span() for found in pattern.finditer(before.text)]
    newline = before.newline
    if spans:  # in a file of mixed ends, the passage's own
        passage = before.text[slice(*spans[0])]
        newline = "\r\n" if "\r\n" in passage else "\n" if "\n" in passage else newline
    return spans, new.replace("\r\n", "\n").replace("\n", newline)


def _not_found(path: Path, text: str, old: str) -> str:
    sentence = f"old_string was not found in {path}."
    unnumbered = re.sub(r"(?m)^ *\d+\t", "", old)
    if unnumbered != old and unnumbered in text:
        return f"{sentence} It is there without the line numbers: leave those out."
    words = [re.escape(word) for word in old.split()[:200]]
    if words and (near := re.search(r"\s+".join(words), text)):
        line = text.count("\n", 0, near.start()) + 1
        return f"{sentence} Line {line} has the same words with other spaces or line breaks."
    return f"{sentence} Read it again and copy the passage exactly."


def _report(path: Path, after: str, first: int, new: str, count: int) -> str:
    lines = after.split("\n")
    start = max(0, first - AROUND)
    end = min(len(lines), first + min(new.count("\n") + 1, LONGEST_SHOWN) + AROUND)
    part = [shown(line.removesuffix("\r"))[:LONGEST_LINE_SHOWN] for line in lines[start:end]]
    what = "1 passage" if count == 1 else f"{count} passages, the first of them"
    return f"Replaced {what} in {path}. It reads now:\n{numbered(part, start + 1)}"
