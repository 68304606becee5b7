"""Repairs MEMORY.md: no pointer to nothing, none missing, within what is loaded. Whatever else stands in
it is its owner's: every line that fits stays as it is, where it is.

Pure: texts and memories in, text out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from lamina.memories import MEMORY_TYPES, Memory
from lamina.memory import (
    ADVISED_LINE,
    LOADED_BYTES,
    LOADED_LINES,
    Pointer,
    files_named,
    joined_lines,
    lines_in,
    links_of,
    pointer_line,
    resolver,
    short_hook,
    unlinked,
    with_pointer,
    without_pointer,
    without_quotations,
)
from lamina.text.claims import headings, statements
from lamina.text.wording import content_stems

_LISTED = re.compile(r"\s*(?:[-*+#]+|\d+[.)])\s")
_NO_MEMORY = "readme.md"  # for whoever looks into the folder


@dataclass(frozen=True, slots=True)
class TidyIndex:
    """The new index, and what a person should know of it."""

    text: str
    astray: tuple[Pointer, ...]  # to files that are not there
    left_out: tuple[str, ...]  # memories for which there was no room


def fits(index: str) -> bool:
    """Is it loaded whole?"""
    lines = index.count("\n") + (not index.endswith("\n") and bool(index))
    return lines <= LOADED_LINES and len(_bytes(index)) <= LOADED_BYTES


def repaired(
    index: str,
    memories: Sequence[Memory],
    *,
    uses: Mapping[str, int],
    labels: Mapping[str, str],
    in_vain: Collection[str] = (),
    removed: Collection[str] = (),
    before: Mapping[str, Memory] | None = None,
    others: Collection[str] = (),
    by_hand: Callable[[str], bool] = lambda _: False,
) -> TidyIndex:
    """The index over these memories; of those `removed` just now no line stays, and a line that only
    repeated a description, as `before` had it, follows it. A line that points to one of the `others`,
    which are there and no memories, stays. Repairing a repaired index changes nothing."""
    known = {memory.path: memory for memory in memories if not memory.team}
    content = _bytes(index) if fits(index) else without_quotations(_bytes(index))
    linked = {one.file for one in links_of(content)}
    for path in sorted(removed):
        if path in linked or not path[:1].isalnum() or ":" in path:  # such may be no plain link
            content = without_pointer(content, path)
    resolve = resolver([*(memory.path for memory in memories), *others])
    astray = [one for one in links_of(content) if not resolve(one.file)]
    folders = {path.rpartition("/")[0] for path in known}
    astray = [one for one in astray if one.file.rpartition("/")[0] in folders | {"", "team"}]
    gone = {one.line for one in astray if one.alone and not content_stems(one.hook)}
    lines = _kept_lines(content, gone, {one.line for one in astray if one.alone})
    for link in links_of(joined_lines(lines)):
        if link.alone and (memory := known.get(resolve(link.file))):
            old = (before or {}).get(memory.path, memory)
            lines[link.line - 1] = _followed(lines[link.line - 1], link, old, memory, labels)
    worth = {path: uses.get(path, 0) - (path in in_vain) for path in known}
    text, left_out = _filled(joined_lines(lines), known, labels, worth, by_hand)
    return TidyIndex(text.decode("utf-8", "surrogateescape"), tuple(astray), tuple(left_out))


def _kept_lines(content: bytes, gone: Collection[int], astray: Collection[int]) -> list[str]:
    """All lines but these, and but for pointers that stand there twice word for word; what pointed at
    nothing is a plain name now."""
    doubles = {one.line for one in links_of(content) if one.alone}
    seen: set[str] = set()
    kept: list[str] = []
    for number, line in enumerate(lines_in(content), 1):
        again = number in doubles and line.rstrip() in seen
        seen.add(line.rstrip())
        if number not in gone and not again:
            kept.append(unlinked(line) if number in astray else line)
    return kept


def _followed(
    line: str, link: Pointer, old: Memory, memory: Memory, labels: Mapping[str, str]
) -> str:
    """A line with the label of its memory's source, and with its description if it repeated that."""
    label = labels.get(memory.path, "")
    bare = link.hook.removesuffix(label.strip()).rstrip() if label else link.hook
    hook = bare
    if old.description != memory.description:
        said = (old.description, short_hook(link.file, link.title, old.description, suffix=label))
        if link.hook in said or bare in said:
            hook = short_hook(link.file, link.title, memory.description, suffix=label)
            hook = hook.removesuffix(label)
    if hook == bare and link.hook.endswith(label.strip()):
        return line
    end = line[len(line.rstrip()) :]
    start = line.rstrip().removesuffix(link.hook) if link.hook else f"{line.rstrip()} —"
    return f"{start.rstrip()} {hook}{label}{end}" if hook or label else line


def shortened(line: str, link: Pointer, memory: Memory, label: str) -> str:
    """The line with a hook of its memory's description; itself where that is no shorter."""
    hook = short_hook(link.file, link.title, memory.description or link.hook, suffix=label)
    short = line.rstrip().removesuffix(link.hook).rstrip() + f" {hook}{line[len(line.rstrip()) :]}"
    return short if len(short) < len(line) else line


def long_pointers(index: str) -> list[tuple[str, Pointer]]:
    """Lines about one file that are longer than advised, the longest first."""
    lines = lines_in(_bytes(index))
    found = [
        (lines[one.line - 1], one) for one in links_of(_bytes(index)) if one.alone and one.hook
    ]
    long = [(line, one) for line, one in found if len(line.rstrip()) > ADVISED_LINE]
    return sorted(long, key=lambda pair: (-len(pair[0]), pair[1].line))


# ---- room


def _filled(
    content: bytes,
    known: Mapping[str, Memory],
    labels: Mapping[str, str],
    worth: Mapping[str, int],
    by_hand: Callable[[str], bool],
) -> tuple[bytes, list[str]]:
    """With pointers that were missing, as many as the loader shows: the used first. Lines that this
    module made give way to those of more use; a line of somebody's own, or to a memory that they wrote
    `by_hand`, never does."""
    content = _without_gaps(content)
    own = {path: _own_line(known[path], labels) for path in known}
    named = files_named(content, sorted(known))
    unnamed = [path for path in known if path not in named and path.casefold() != _NO_MEMORY]
    missing = sorted(unnamed, key=lambda path: (-worth[path], path))
    there = {line.rstrip("\r\n") for line in lines_in(content)}
    lesser = sorted(
        (path for path in named if own[path] in there and not by_hand(path)),
        key=lambda path: (worth[path], path),
    )
    rows = LOADED_LINES - len(lines_in(content))
    room = LOADED_BYTES - len(content)
    added: list[str] = []
    given_up: list[str] = []

    def size(path: str) -> int:
        return len(_bytes(own[path])) + 1

    while lesser and (rows < 0 or room < 0):
        path = lesser.pop(0)
        content = without_pointer(content, path)
        rows, room = rows + 1, room + size(path)
        given_up.append(path)
    for path in missing:
        full = rows < 1 or size(path) > room
        if full and lesser and worth[lesser[0]] < worth[path] and rows >= 0 <= room:
            given_up.append(lesser.pop(0))
            content = without_pointer(content, given_up[-1])
            rows, room = rows + 1, room + size(given_up[-1])
        if rows >= 1 and size(path) <= room:
            added.append(path)
            rows, room = rows - 1, room - size(path)
    for path in sorted(added, key=lambda path: _rank(path, known)):
        memory, label = known[path], labels.get(path, "")
        title = _short_title(memory)
        hook = short_hook(path, title, _in_short(memory), suffix=label)
        content = with_pointer(content, path, title, hook, section=memory.type or "")
    return content, sorted({*unnamed, *given_up} - {*added})


def _without_gaps(content: bytes) -> bytes:
    """An index of too many lines without the empty ones between headings and items, which show nothing;
    as it is where that is not enough."""
    if len(lines := lines_in(content)) <= LOADED_LINES:
        return content
    kept: list[str] = []
    for number, line in enumerate(lines):
        near = (kept[-1:], lines[number + 1 : number + 2])
        if line.strip() or not all(one and _LISTED.match(one[0]) for one in near):
            kept.append(line)
    return joined_lines(kept) if len(kept) <= LOADED_LINES else content


def _own_line(memory: Memory, labels: Mapping[str, str]) -> str:
    title, label = _short_title(memory), labels.get(memory.path, "")
    hook = short_hook(memory.path, title, _in_short(memory), suffix=label)
    return pointer_line(memory.path, title, hook)


def _in_short(memory: Memory) -> str:
    """What a line says of it: its description, else its first heading or sentence."""
    first = next(iter(headings(memory.body)), "") or next(
        (part.text for part in statements(memory.body)), ""
    )
    return memory.description or first


def _short_title(memory: Memory) -> str:
    room = max(ADVISED_LINE - len(pointer_line(memory.path, "", "x" * 30)), 20)
    title = memory.name
    return title if len(title) <= room else title[: room - 1].rstrip() + "…"


def _rank(path: str, known: Mapping[str, Memory]) -> tuple[int, str]:
    kind = known[path].type
    return (MEMORY_TYPES.index(kind) if kind in MEMORY_TYPES else len(MEMORY_TYPES), path)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
