"""Repairs MEMORY.md: no pointer to nothing, none missing, none long, in an order by topic, within the limits.

Pure: texts and memories in, text out. Lines that are no pointers stay word for word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from lamina.local.working_set import Said, dated, said_on
from lamina.memories import MEMORY_TYPES, Memory
from lamina.memory import (
    ADVISED_LINE,
    LOADED_BYTES,
    LOADED_LINES,
    Pointer,
    pointer_line,
    pointers_of,
    short_hook,
)
from lamina.text.claims import covered
from lamina.text.wording import content_stems

_FEWEST = 2  # content words of a line that says something


@dataclass(frozen=True, slots=True)
class TidyIndex:
    """The new index, and what a person should know of it."""

    text: str
    astray: tuple[Pointer, ...]  # to files that are not there
    left_out: tuple[str, ...]  # memories for which there was no room


def repaired(
    index: str,
    memories: Sequence[Memory],
    *,
    uses: Mapping[str, int],
    labels: Mapping[str, str],
    in_vain: Collection[str] = (),
    removed: Collection[str] = (),
    said: Said = said_on,
) -> TidyIndex:
    """The index over these memories; of those `removed` just now no line stays. Repairing a repaired
    index changes nothing."""
    known = {memory.path: memory for memory in memories}
    pointers, doubles, astray = _sorted_out(
        pointers_of(index.encode("utf-8", "surrogateescape")), known
    )
    stays = [one for one in (*doubles, *astray) if one.file not in removed]
    last = {one.line: f"- {one.title} — {one.hook}" for one in stays if _only_there(one, memories)}
    lines = {path: _line(known[path], pointer, labels, said) for path, pointer in pointers.items()}
    for memory in memories:
        if memory.path not in lines and not memory.team:
            lines[memory.path] = _line(memory, None, labels, said)
    prose = _prose(index, last)
    worth = {path: uses.get(path, 0) - (path in in_vain) for path in lines}
    kept = _within_limits(lines, prose, set(pointers), worth)
    by_line = {pointer.line: path for path, pointer in pointers.items()}
    text = (
        _grouped(index, by_line, kept, known, last)
        if _has_sections(prose)
        else _flat(prose, kept, known)
    )
    return TidyIndex(text, tuple(astray), tuple(sorted(set(lines) - set(kept))))


def _sorted_out(
    pointers: Sequence[Pointer], known: Mapping[str, Memory]
) -> tuple[dict[str, Pointer], list[Pointer], list[Pointer]]:
    """One pointer a file, others that say more of it, and those to no file. A pointer to a missing
    file finds its renamed file."""
    found: dict[str, Pointer] = {}
    doubles: list[Pointer] = []
    lost: list[Pointer] = []
    for pointer in pointers:
        if pointer.file in known:
            if found.setdefault(pointer.file, pointer).hook != pointer.hook:
                doubles.append(pointer)
        else:
            lost.append(pointer)
    astray: list[Pointer] = []
    for pointer in lost:
        target = _renamed(pointer.file, [path for path in known if path not in found])
        if target:
            found[target] = pointer
        else:
            astray.append(pointer)
    return found, doubles, astray


def _only_there(pointer: Pointer, memories: Sequence[Memory]) -> bool:
    """Does the line say what no memory says? Then it stays, as prose, though it points at nothing."""
    says = len(content_stems(pointer.hook)) >= _FEWEST
    return says and not any(covered(pointer.hook, memory) for memory in memories)


def _renamed(file: str, candidates: Sequence[str]) -> str:
    """The one file whose name differs by a slip: case, folder, hyphens."""
    key = _name_key(file)
    same = [path for path in candidates if _name_key(path) == key]
    return same[0] if len(same) == 1 else ""


def _name_key(path: str) -> str:
    return re.sub(r"[-_ ]+", "_", path.rsplit("/", 1)[-1].casefold())


def _line(memory: Memory, pointer: Pointer | None, labels: Mapping[str, str], said: Said) -> str:
    """The line for a memory: as it stands if it is short enough, else with a hook of its description."""
    label = labels.get(memory.path, "")
    title = pointer.title if pointer and pointer.title else memory.name
    day = None if memory.type in ("user", "feedback") else said(memory)
    hook = _dated(pointer.hook, day, label) if pointer else ""
    if hook and len(pointer_line(memory.path, title, hook)) <= ADVISED_LINE:
        return pointer_line(memory.path, title, hook if hook.endswith(label) else hook + label)
    text = _dated((memory.description or hook).removesuffix(label), day, "")
    room = max(ADVISED_LINE - len(pointer_line(memory.path, "", "x" * 30)), 20)
    title = _short(title, room)
    return pointer_line(memory.path, title, short_hook(memory.path, title, text, suffix=label))


def _dated(hook: str, said: date | None, label: str) -> str:
    """A line is read on another day than it was written on."""
    if said is None:
        return hook
    bare = hook.removesuffix(label)
    return dated(bare, said) + hook[len(bare) :]


def _short(title: str, room: int) -> str:
    return title if len(title) <= room else title[: room - 1].rstrip() + "…"


def hook_beyond_limit(pointer: Pointer) -> bool:
    """Whether the line is too long, so that its words belong into the topic file."""
    return len(pointer_line(pointer.file, pointer.title, pointer.hook)) > ADVISED_LINE


def _prose(index: str, last: Mapping[int, str]) -> list[str]:
    """What is not a pointer or is the last word of one, blank lines left out."""
    numbers = _pointing(index).difference(last)
    lines = re.split(r"(?<=\n)", index)
    return [
        last.get(number, line.rstrip())
        for number, line in enumerate((line for line in lines if line), 1)
        if number not in numbers and line.strip()
    ]


def _pointing(index: str) -> set[int]:
    return {pointer.line for pointer in pointers_of(index.encode("utf-8", "surrogateescape"))}


def _has_sections(prose: Sequence[str]) -> bool:
    return any(re.match(r"#{2,6}\s", line) for line in prose)


def _rank(path: str, known: Mapping[str, Memory]) -> tuple[int, str]:
    kind = known[path].type
    return (MEMORY_TYPES.index(kind) if kind in MEMORY_TYPES else len(MEMORY_TYPES), path)


def _within_limits(
    lines: Mapping[str, str], prose: Sequence[str], present: set[str], worth: Mapping[str, int]
) -> dict[str, str]:
    """As many as the loader shows: the used first, then those that are in the index already; those
    that were shown in vain come last."""
    order = sorted(lines, key=lambda path: (-worth[path], path not in present, path))
    rows = LOADED_LINES - 2 * len(prose) - 2
    room = LOADED_BYTES - sum(len(line.encode("utf-8", "replace")) + 2 for line in prose) - 2
    kept: dict[str, str] = {}
    for path in order:
        size = len(lines[path].encode("utf-8", "replace")) + 1
        if len(kept) < rows and size <= room:
            kept[path] = lines[path]
            room -= size
        elif path in present and rows <= 0:
            kept[path] = lines[path]  # prose alone overruns: taking pointers away would not help
    return kept


def _flat(prose: Sequence[str], kept: Mapping[str, str], known: Mapping[str, Memory]) -> str:
    """Title and prose first, then the pointers by type and name."""
    pointers = [kept[path] for path in sorted(kept, key=lambda path: _rank(path, known))]
    parts = ["\n".join(prose)] if prose else []
    parts += ["\n".join(pointers)] if pointers else []
    return "\n\n".join(parts) + "\n" if parts else ""


def _grouped(
    index: str,
    by_line: Mapping[int, str],
    kept: Mapping[str, str],
    known: Mapping[str, Memory],
    last: Mapping[int, str],
) -> str:
    """An index with sections of its own keeps them: lines change in place, new ones join their type's."""
    pointing = _pointing(index).difference(last)
    waiting = dict(kept)
    rows: list[str] = []
    for number, line in enumerate((line for line in re.split(r"(?<=\n)", index) if line), 1):
        if number not in pointing:
            rows.append(last.get(number, line.rstrip()))
        elif by_line.get(number) in waiting:
            rows.append(waiting.pop(by_line[number]))
    for path in sorted(waiting, key=lambda path: _rank(path, known)):
        rows.insert(_place(rows, known[path].type or ""), waiting[path])
    return re.sub(r"\n{3,}", "\n\n", "\n".join(rows).strip("\n")) + "\n"


def _place(rows: Sequence[str], kind: str) -> int:
    """Behind the last pointer of the section named for the type, else at the end."""
    inside, place = False, -1
    for number, row in enumerate(rows):
        heading = re.match(r"#{2,6}\s+(.*)", row)
        if heading:
            inside = bool(kind) and heading[1].lower().startswith(kind)
            place = number + 1 if inside else place
        elif inside and row.strip():
            place = number + 1
    return place if place >= 0 else len(rows)
