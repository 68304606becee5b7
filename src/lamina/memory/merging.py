"""Two versions of one text brought together: both changes in one, or new lines in the form of the old.
Pure.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import NamedTuple

from lamina.memories import Memory
from lamina.text.wording import fold


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
    return [
        _Edit(start, end, tuple(changed[first:last]))
        for start, end, first, last in _between(matching(base, changed))
        if start < end or first < last
    ]


# ---- what two texts have in common

_PAIRS = 200_000  # of equal lines that are held against each other …
_PAIRS_A_LINE = 16  # … and so many more for each line
_Block = tuple[
    int, int, int
]  # where it begins in the old text and in the new, and how many lines it has


def matching(old: Sequence[str], new: Sequence[str]) -> list[_Block]:
    """The blocks of lines that two texts share, as `difflib` finds them (the longest, then the longest
    before and behind it, and so on), and an empty one at the end. It looks through both texts once for
    each block; here all are found in one look, and each is cut to the room that longer ones leave it.
    Where lines stand so often that their pairs go into the millions, they only go with what they stand
    beside."""
    places, left_out = _places(old, new)
    longest = _runs(old, places)
    heapify(longest)
    taken: list[_Block] = []
    while longest:
        size, start, first = heappop(longest)
        at = bisect(taken, start, key=itemgetter(0))
        before = taken[at - 1] if at else (0, 0, 0)
        behind = taken[at] if at < len(taken) else (len(old), len(new), 0)
        late = max(0, before[0] + before[2] - start, before[1] + before[2] - first)
        room = min(-size - late, behind[0] - start - late, behind[1] - first - late)
        if room == -size:
            taken.insert(at, (start, first, room))
        elif room > 0:
            heappush(longest, (-room, start + late, first + late))
    if left_out:
        taken = [*_widened(old, new, taken)]
    return [*_joined(taken), (len(old), len(new), 0)]


def _places(old: Sequence[str], new: Sequence[str]) -> tuple[dict[str, list[int]], bool]:
    """Where lines of the old text stand in the new one, rare ones first until there are too many; and
    whether some were left out."""
    places: dict[str, list[int]] = {}
    for at, line in enumerate(new):
        places.setdefault(line, []).append(at)
    left = _PAIRS + _PAIRS_A_LINE * (len(old) + len(new))
    times = Counter(line for line in old if line in places)
    pairs = sorted((many * len(places[line]), line) for line, many in times.items())
    kept: dict[str, list[int]] = {}
    for many, line in pairs:
        left -= many
        if left < 0:
            return kept, True
        kept[line] = places[line]
    return kept, False


def _runs(old: Sequence[str], places: Mapping[str, Sequence[int]]) -> list[_Block]:
    """All runs of equal lines that end where the texts part: minus their size, and where they begin."""
    found: list[_Block] = []
    sizes: dict[int, int] = {}  # of the runs that end at the line before, by their last place
    for at in range(len(old) + 1):
        here = places.get(old[at], ()) if at < len(old) else ()
        longer = {place: sizes.pop(place - 1, 0) + 1 for place in here}
        found += ((-size, at - size, last - size + 1) for last, size in sizes.items())
        sizes = longer
    return found


def _between(blocks: Iterable[_Block]) -> Iterator[tuple[int, int, int, int]]:
    """What stands before each block: from where to where in the old text and in the new."""
    at = by = 0
    for start, first, size in blocks:
        yield at, start, by, first
        at, by = start + size, first + size


def _widened(old: Sequence[str], new: Sequence[str], blocks: Sequence[_Block]) -> Iterator[_Block]:
    """The same, with what is equal beside them."""
    ends = [*blocks, (len(old), len(new), 0)]
    for (start, end, first, last), block in zip(_between(ends), ends, strict=True):
        head, tail = _alike(old[start:end], new[first:last])
        yield start, first, head
        yield end - tail, last - tail, tail
        yield block


def _alike(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines both begin with, and how many both end with."""
    most = min(len(old), len(new))
    head = next((at for at in range(most) if old[at] != new[at]), most)
    tail = next((at for at in range(most - head) if old[-1 - at] != new[-1 - at]), most - head)
    return head, tail


def _joined(blocks: Iterable[_Block]) -> Iterator[_Block]:
    """Blocks that touch as one."""
    start = first = size = 0
    for block in blocks:
        if block[:2] == (start + size, first + size):
            size += block[2]
            continue
        if size:
            yield start, first, size
        start, first, size = block
    if size:
        yield start, first, size


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


# ---- in the form of what stands there


def laid_out(before: str, after: str) -> str:
    """`after`, where a line of `before` that it keeps stands as it stood, with the blank lines around it:
    who adds a line, or takes one out, leaves the form of the others alone."""
    old, new = before.split("\n"), after.split("\n")
    ours, theirs = ([at for at, one in enumerate(lines) if one.strip()] for lines in (old, new))
    keys = [fold(old[at]) for at in ours], [fold(new[at]) for at in theirs]
    edits = [*opcodes(*keys)]
    moved = _moved(old, new, ours, theirs, edits)
    laid: list[str] = []
    added = False
    for tag, start, end, first, last in edits:
        if tag == "equal":
            for count, at in enumerate(ours[start:end]):
                stays = theirs[first + count]
                blank, wanted = _blank_above(old, at), _blank_above(new, stays)
                laid += wanted if added and not count and not blank else blank
                laid.append(_margin(new[stays]) + old[at].lstrip() if stays in moved else old[at])
        elif tag == "replace":  # the new lines stand where the old ones did
            laid += _blank_above(old, ours[start]) or _blank_above(new, theirs[first])
            laid += new[theirs[first] : theirs[last - 1] + 1]
        elif tag == "insert":
            blank = _blank_above(new, theirs[first])
            laid += blank or _blank_between(old, laid, new[theirs[first]])
            laid += new[theirs[first] : theirs[last - 1] + 1]
        added = tag in ("insert", "replace")
    return "\n".join(laid)


def opcodes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """How the one becomes the other, as `difflib` tells it. What both begin and end with is the same
    without a look."""
    head, tail = _alike(old, new)
    middle = matching(old[head : len(old) - tail], new[head : len(new) - tail])
    found = ((start + head, first + head, size) for start, first, size in middle)
    ends = (len(old) - tail, len(new) - tail, tail), (len(old), len(new), 0)
    blocks = [*_joined([(0, 0, head), *found, *ends]), ends[1]]
    for (start, end, first, last), block in zip(_between(blocks), blocks, strict=True):
        if start < end or first < last:
            tag = (
                "replace"
                if start < end and first < last
                else "insert"
                if start == end
                else "delete"
            )
            yield tag, start, end, first, last
        if block[2]:
            yield "equal", end, end + block[2], last, last + block[2]


_NOTHING = -1  # what a line at the margin is indented under


def _moved(
    old: Sequence[str],
    new: Sequence[str],
    ours: Sequence[int],
    theirs: Sequence[int],
    edits: Sequence[tuple[str, int, int, int, int]],
) -> set[int]:
    """The new lines that are indented otherwise because that is what was wanted: they stand below
    another line now, or nothing else was changed. Else it is only how somebody copied them."""
    stood = {
        theirs[first + count]: ours[start + count]
        for tag, start, end, first, _ in edits
        if tag == "equal"
        for count in range(end - start)
    }
    changed = {at for at, was in stood.items() if _margin(new[at]) != _margin(old[was])}
    if all(tag == "equal" for tag, *_ in edits) or not changed:
        return changed
    above, over = _parents(old, ours), _parents(new, theirs)
    stood[_NOTHING] = _NOTHING
    return {at for at in changed if stood.get(over[at]) != above[stood[at]]}


def _parents(lines: Sequence[str], filled: Sequence[int]) -> dict[int, int]:
    """For each line the one that it is indented under."""
    found: dict[int, int] = {}
    open_: list[tuple[int, int]] = []
    for at in filled:
        width = len(_margin(lines[at]).expandtabs(4))
        while open_ and open_[-1][0] >= width:
            open_.pop()
        found[at] = open_[-1][1] if open_ else _NOTHING
        open_.append((width, at))
    return found


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _blank_above(lines: Sequence[str], at: int) -> list[str]:
    start = at
    while start and not lines[start - 1].strip():
        start -= 1
    return [*lines[start:at]]


def _blank_between(old: Sequence[str], above: Sequence[str], line: str) -> list[str]:
    """Where paragraphs stand apart, or a table or code ends, a new line is none of theirs."""
    last = next((one.strip() for one in reversed(above) if one.strip()), "")
    apart = any(not one.strip() for one in old) or last.startswith(("|", "```", "~~~"))
    items = ("- ", "* ", "+ ")
    return (
        [""] if last and apart and not (last.startswith(items) and line.startswith(items)) else []
    )


def as_they_stood(raw: str, new: str, end: str, shown: Callable[[str], str]) -> str:
    """New lines, of which those that stand in `raw` keep the bytes and the line end that they have there;
    `shown` is how their reader sees bytes that are no text."""
    old, lines = f"{raw}{end}".split("\n")[:-1], new.split("\n")
    seen = [shown(one.removesuffix("\r")) for one in old]
    put = [f"{one}{end}" for one in lines]
    for tag, start, stop, first, last in opcodes(seen, lines):
        if tag == "equal":
            put[first:last] = [f"{one}\n" for one in old[start:stop]]
    return "".join(put).removesuffix("\n").removesuffix("\r")
