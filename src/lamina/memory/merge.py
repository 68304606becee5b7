"""Three-way merging of text and of memories: two people's changes to one file become one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import NamedTuple

from lamina.memories import Memory


class _Edit(NamedTuple):
    """Lines start to end of the base become these."""

    start: int
    end: int
    lines: tuple[str, ...]


def merge_text(base: str, ours: str, theirs: str, *, both_insert: bool = False) -> str | None:
    """Both changes in one text, None where they touch the same lines.

    With `both_insert`, different lines put in at the same place are both kept, ours first: right for
    a list of pointers, wrong for prose.
    """
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    lines = base.splitlines(keepends=True)
    edits = _together(_edits(lines, ours), _edits(lines, theirs), both_insert=both_insert)
    if edits is None:
        return None
    merged: list[str] = []
    at = 0
    for edit in edits:
        merged += lines[at : edit.start]
        if merged and edit.lines and not merged[-1].endswith("\n"):
            merged[-1] += "\n"  # a last line without an end must not swallow what follows
        merged += edit.lines
        at = edit.end
    return "".join(merged + lines[at:])


def _edits(base: list[str], text: str) -> list[_Edit]:
    changed = text.splitlines(keepends=True)
    matcher = SequenceMatcher(None, base, changed, autojunk=False)
    return [
        _Edit(start, end, tuple(changed[first:last]))
        for tag, start, end, first, last in matcher.get_opcodes()
        if tag != "equal"
    ]


def _together(ours: list[_Edit], theirs: list[_Edit], *, both_insert: bool) -> list[_Edit] | None:
    """One list of edits in the base's order, None if two of them overlap and differ."""
    merged: list[_Edit] = []
    for edit in sorted({*ours, *theirs}, key=lambda edit: (edit.start, edit.end)):
        if merged:
            last = merged[-1]
            insertions = last.start == last.end == edit.start == edit.end
            if insertions and both_insert:
                first, second = (last, edit) if last in ours else (edit, last)
                merged[-1] = _Edit(edit.start, edit.end, _ended(first.lines) + second.lines)
                continue
            if insertions or edit.start < last.end:
                return None
        merged.append(edit)
    return merged


def _ended(lines: tuple[str, ...]) -> tuple[str, ...]:
    if lines and not lines[-1].endswith("\n"):
        return (*lines[:-1], lines[-1] + "\n")
    return lines


def merge_memory(base: Memory, ours: Memory, theirs: Memory) -> Memory | None:
    """Field by field; bodies line by line. None where both changed one thing differently."""
    name = _one(base.name, ours.name, theirs.name)
    description = _one(base.description, ours.description, theirs.description)
    kind = _one(base.type or "", ours.type or "", theirs.type or "")
    body = merge_text(_block(base.body), _block(ours.body), _block(theirs.body))
    extra = _merge_extra(base.extra, ours.extra, theirs.extra)
    if name is None or description is None or kind is None or body is None or extra is None:
        return None
    chosen = theirs.type if kind == (theirs.type or "") else ours.type
    return replace(
        ours, name=name, description=description, type=chosen, body=body.strip("\n"), extra=extra
    )


def _block(body: str) -> str:
    return f"{body}\n" if body else ""


def _one(base: str, ours: str, theirs: str) -> str | None:
    if theirs in (ours, base):
        return ours
    return theirs if ours == base else None


def _merge_extra(
    base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str]
) -> dict[str, str] | None:
    merged: dict[str, str] = {}
    keys: Sequence[str] = [*ours, *(key for key in theirs if key not in ours)]
    for key in keys:
        # "\0" stands for an absent key: no value can hold it.
        values = (side.get(key, "\x00") for side in (base, ours, theirs))
        value = _one(*values)
        if value is None:
            return None
        if value != "\x00":
            merged[key] = value
    return merged
