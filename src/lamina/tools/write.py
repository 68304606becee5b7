"""Write creates a file or replaces all of it, Edit replaces a passage: atomically, and only what the
agent has seen. They write the named file and make its missing parent directories; nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from lamina.errors import ToolError
from lamina.held import Held
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec
from lamina.tools import files
from lamina.tools.files import Text, is_binary, numbered, shown

AROUND = 4  # lines shown before and after a change
LONGEST_SHOWN = 60  # lines of the change itself
LONGEST_LINE_SHOWN = 500  # characters

_WRITE_SPEC = ToolSpec(
    name="Write",
    description=(
        "Creates a file, or replaces all of its content. A file that exists must have been read "
        "whole before. To change a part of a file, use Edit instead. Missing directories are made."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "The file; absolute is best."},
            "content": {"type": "string", "description": "The whole new content."},
        },
        "required": ["file_path", "content"],
        "additionalProperties": False,
    },
    clearable=True,
    parallel=False,
)


class Write:
    spec = _WRITE_SPEC

    def prepare(self, input: Json, context: ToolContext) -> Json:  # noqa: A002
        return files.with_real_path(input, "file_path", context)

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
    data = content.encode("utf-8")
    status = files.put(place, data, old, before, context)
    context.files[str(path)] = files.seen(data, status, whole=True)
    lines = len(content.splitlines())
    meta = {"path": str(path), "lines": lines, "created": before is None}
    verb = "Created" if before is None else "Replaced"
    return ToolOutcome(f"{verb} {path} ({lines:,} lines).", meta=meta)


_EDIT_SPEC = ToolSpec(
    name="Edit",
    description=(
        "Replaces old_string by new_string in a file that was read before. old_string must be "
        "exactly what the file holds, spaces and indentation included, without line numbers, and "
        "must occur once; add lines around it until it does, or set replace_all."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "The file; absolute is best."},
            "old_string": {"type": "string", "description": "The passage as it is now."},
            "new_string": {"type": "string", "description": "What takes its place."},
            "replace_all": {"type": "boolean", "description": "Replace every occurrence."},
        },
        "required": ["file_path", "old_string", "new_string"],
        "additionalProperties": False,
    },
    clearable=True,
    parallel=False,
)


class Edit:
    spec = _EDIT_SPEC

    def prepare(self, input: Json, context: ToolContext) -> Json:  # noqa: A002
        return files.with_real_path(input, "file_path", context)

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        edit = _Edit(input["old_string"], input["new_string"], bool(input.get("replace_all")))
        with files.held(input["file_path"], context) as place:
            edit.check(place.path)
            return await anyio.to_thread.run_sync(_edit, place, edit, context)


@dataclass(frozen=True, slots=True)
class _Edit:
    old: str
    new: str
    everywhere: bool

    def check(self, path: Path) -> None:
        if not self.old:
            raise ToolError(f"old_string is empty. Use Write to give {path} its whole content.")
        if self.old == self.new:
            raise ToolError("old_string and new_string are the same; nothing would change.")
        _refuse_surrogates(self.old + self.new)


def _edit(place: Held, edit: _Edit, context: ToolContext) -> ToolOutcome:
    path = place.path
    data, status = files.load(place)
    known = files.require_unchanged(path, data, context, "edit")
    if is_binary(data):
        raise ToolError(f"{path} is a binary file. Use Bash on it.")
    try:
        before = Text.of(data)
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} begins like UTF-16 but is not. Use Bash on it.") from error
    spans, new = _find(before, edit)
    if not spans:
        raise ToolError(_not_found(path, before.text, edit.old))
    if len(spans) > 1 and not edit.everywhere:
        lines = ", ".join(str(before.text.count("\n", 0, start) + 1) for start, _ in spans[:10])
        raise ToolError(
            f"old_string occurs {len(spans)} times in {path} (lines {lines}). Add lines around it "
            "so that it occurs once, or set replace_all."
        )
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(before.text)]
    after = new.join(before.text[end:start] for end, start in zip(ends, starts, strict=True))
    written = before.encode(after)
    now = files.put(place, written, data, status, context)
    context.files[str(path)] = files.seen(written, now, whole=known.whole)
    first = before.text.count("\n", 0, spans[0][0])
    meta = {"path": str(path), "replaced": len(spans), "line": first + 1}
    return ToolOutcome(_report(path, after, first, new, len(spans)), meta=meta)


def _find(before: Text, edit: _Edit) -> tuple[list[tuple[int, int]], str]:
    """Where old_string stands, and the new text with the file's own line ends.

    The model sees lines without their ends, so a newline stands for either kind, unless it wrote
    carriage returns itself.
    """
    if "\r" in edit.old or "\r" in edit.new:
        exact = [found.span() for found in re.finditer(re.escape(edit.old), before.text)]
        if exact:
            return exact, edit.new
    old = edit.old.replace("\r\n", "\n")
    pattern = re.compile("\r?\n".join(re.escape(line) for line in old.split("\n")))
    spans = [found.span() for found in pattern.finditer(before.text)]
    newline = before.newline
    if spans:  # in a file of mixed ends, the passage's own
        passage = before.text[slice(*spans[0])]
        newline = "\r\n" if "\r\n" in passage else "\n" if "\n" in passage else newline
    return spans, edit.new.replace("\r\n", "\n").replace("\n", newline)


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
