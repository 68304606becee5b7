"""Folds: text that is about to be sent for the first time says in one line what the view says already.

Pure functions over text: whoever sends (a session, a replay, a gateway) tells which blocks stand in
the view and gets shorter text for a new one, with the blocks that it leans on. Four things are folded:
lines that stand in an earlier block, lines that were said in the same text, a line many times in a
row, and the path at the beginning of each line of a search. The original is found by its id.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, repeat
from operator import eq, itemgetter
from typing import NamedTuple, TypeAlias

from lamina.messages import Block, Json, as_object, dicts, text_of

Key: TypeAlias = tuple[int, int]  # whatever names a block to the caller

TELLING = 12  # characters that a line has at least to be looked up by
PLACES = 6  # of the same line that are tried, the latest first
SHOWN = 40  # characters of a line that is quoted to find a place
_NUMBER_ENDS = ("→", "\t")
# What Read, or `cat -n`, puts before a line, and the rest of it.
_NUMBERED = re.compile(r"^(?: *([0-9]{1,7})[→\t])?(.*)", re.MULTILINE)
_SEARCHED = re.compile(r":\d+:")  # what a search puts between a path and its words
_OWN: Key = (-1, -1)


@dataclass(slots=True)
class _Lines:
    """A text line by line, without line numbers where it has them."""

    label: str
    bare: list[str]
    numbers: Sequence[str] = ()  # of each; none: no line has one

    @classmethod
    def of(cls, label: str, text: str) -> _Lines:
        if not any(end in text for end in _NUMBER_ENDS):
            return cls(label, text.split("\n"))
        found = _NUMBERED.findall(text)
        return cls(label, [*map(itemgetter(1), found)], [*map(itemgetter(0), found)])

    def named(self, first: int, count: int) -> str:
        """`lines 10-40`, where the lines have numbers; others may follow at the end."""
        numbers = [int(n or 0) for n in self.numbers[first : first + count]] or [0]
        low, counted = numbers[0], 1
        while low and counted < count and numbers[counted] == low + counted:
            counted += 1
        if not low or any(numbers[counted:]):
            return ""
        more = f" and {count - counted} more" if count > counted else ""
        return (f"lines {low}-{low + counted - 1}" if counted > 1 else f"line {low}") + more

    def quoted(self, first: int, count: int) -> str:
        """Words by which the place is found where lines have no numbers."""
        lines = [line.strip() for line in self.bare[first : first + count]]
        at = next((n for n, line in enumerate(lines) if len(line) >= TELLING), 0)
        words = lines[at] if len(lines[at]) <= SHOWN else lines[at][: SHOWN - 1] + "…"
        return f"from {words!r} on" if at == 0 else f"around {words!r}"


@dataclass(frozen=True, slots=True)
class Folded:
    text: str
    needs: tuple[Key, ...]  # blocks that must stay in the view as they are


class _Match(NamedTuple):
    key: Key
    start: int  # in the new text
    place: int  # in the other one
    lines: int


class Folding:
    """The lines of one conversation's view."""

    def __init__(self, least: int, before: Folding | None = None, end: int = 0) -> None:
        self.least = least  # characters that a fold must save
        self._before, self._end = before, end
        self._known: MutableMapping[Key, _Lines] = (
            {} if before is None else ChainMap({}, before._known)  # noqa: SLF001
        )
        self._places: dict[str, int] = {}  # of each line the last among all that were noted
        self._earlier = array("q")  # by place, that of the same line before; -1: none
        self._starts, self._keys = array("q"), list[Key]()  # of the blocks: places of their first
        # The text looked at last, which is often noted next; those of its lines that tell.
        self._split: tuple[str, _Lines, list[str]] = "", _Lines("", [""]), []

    def branch(self, end: int) -> Folding:
        """For a view that is the same as this one up to the entry `end`, and goes on alone."""
        return Folding(self.least, self, end)

    def _places_of(self, line: str) -> Iterator[tuple[Key, int]]:
        """The latest first."""
        at = self._places.get(line, -1)
        while at >= 0:
            block = bisect_right(self._starts, at) - 1
            yield self._keys[block], at - self._starts[block]
            at = self._earlier[at]
        shared = self._before._places_of(line) if self._before else ()  # noqa: SLF001
        for place in islice(shared, PLACES):
            if place[0][0] < self._end:
                yield place

    def add(self, key: Key, label: str, text: str) -> None:
        """A block of the view, as it stands there."""
        same, telling = self._lines_in(text)
        bare, places, earlier = same.bare, self._places, self._earlier
        self._known[key] = _Lines(label, bare, same.numbers)
        self._keys.append(key)
        self._starts.append(start := len(earlier))
        if len({*telling}) == len(telling):
            earlier.extend(map(places.get, bare, repeat(-1)))
            places.update(zip(bare, range(start, start + len(bare)), strict=True))
            return
        for place, line in enumerate(bare, start):
            earlier.append(places.get(line, -1))
            places[line] = place

    def _lines_in(self, text: str) -> tuple[_Lines, list[str]]:
        if self._split[0] is not text:
            lines = _Lines.of("", text)
            self._split = text, lines, [line for line in lines.bare if len(line) >= TELLING]
        return self._split[1:]

    def fold(self, text: str, name: str, in_view: Callable[[Key], bool]) -> Folded | None:
        """A shorter form of a text that was never sent; `name` is the id that brings it back, "" where
        nobody could ask by it."""
        if len(text) < self.least:
            return None
        parted, telling = self._lines_in(text)
        repeated, searched = (
            self._repeated(parted.bare, telling),
            _SEARCHED.search(text) is not None,
        )
        if not repeated and not searched:
            return None
        work = _Work(self, text, parted, in_view)
        lines = work.run(self.known_lines(telling)) if repeated else text.split("\n")
        shown = "\n".join(_grouped(lines, self.least) if searched else lines)
        if shown == text:
            return None
        back = f"; Expand {name} brings it back" if name else ""
        words = f"[Folded{back}]\n{shown}"
        if len(text) - len(words) < self.least:
            return None
        return Folded(words, tuple(dict.fromkeys(work.needs)))

    def _repeated(self, bare: list[str], telling: list[str]) -> bool:
        """Does any line that could be folded stand somewhere already? Most texts are new."""
        if len(set(telling)) < len(telling) or not self._places.keys().isdisjoint(telling):
            return True
        return bool(self._before and self.known_lines(telling)) or any(map(eq, bare, bare[1:]))

    def known_lines(self, telling: list[str]) -> set[str]:
        """Those of a text that stand somewhere in the view."""
        if self._before is None:
            return self._places.keys() & telling
        return {line for line in telling if next(self._places_of(line), None) is not None}

    def best(self, work: _Work, at: int, end: int) -> _Match | None:
        """The longest run of lines from `at` on, or a little before, that stands in a block."""
        best: _Match | None = None
        for key, place in islice(self._places_of(work.lines.bare[at]), PLACES):
            if not work.stands(key):
                continue
            found = _run(work.lines.bare, at, end, self._known[key].bare, place, key)
            if best is None or found.lines > best.lines:
                best = found
        return best

    def lines_of(self, key: Key) -> _Lines:
        return self._known[key]


def _run(new: Sequence[str], at: int, end: int, old: Sequence[str], place: int, key: Key) -> _Match:
    start, count = at, 0
    while start > end and place > 0 and new[start - 1] == old[place - 1]:
        start, place = start - 1, place - 1
    most = min(len(new) - start, len(old) - place)
    while count < most and new[start + count] == old[place + count]:
        count += 1
    return _Match(key, start, place, count)


class _Work:
    """One text on its way: what of it is shown so far."""

    def __init__(
        self, folding: Folding, text: str, lines: _Lines, in_view: Callable[[Key], bool]
    ) -> None:
        self._folding, self._raw, self.lines = folding, text.split("\n"), lines
        self._asked: dict[Key, bool] = {}
        self._in_view = in_view
        self.needs: list[Key] = []
        self._out: list[str] = []
        self._own: dict[str, int] = {}  # lines that come again, by the place where they are shown

    def stands(self, key: Key) -> bool:
        if key not in self._asked:
            self._asked[key] = self._in_view(key)
        return self._asked[key]

    def run(self, elsewhere: set[str]) -> list[str]:
        """`elsewhere`: lines that stand in the view."""
        at = shown_from = 0  # lines before `shown_from` are done
        bare, raw, own, out = self.lines.bare, self._raw, self._own, self._out
        known = {*elsewhere, *(line for line, count in Counter(bare).items() if count > 1)}
        for place in [place for place, line in enumerate(bare) if line in known]:
            if place < at:
                continue
            out += raw[at:place]  # nobody says these again
            at, words = place, bare[place]
            telling = len(words) >= TELLING and len(words.strip()) >= TELLING
            match = None
            if telling and (words in elsewhere or words in own):
                match = self._match(at, shown_from)
            line = self._line_for(match) if match else ""
            if match and self._size(match) - len(line) >= self._folding.least:
                del out[len(out) - (at - match.start) :]
                out.append(line)
                if match.key != _OWN:
                    self.needs.append(match.key)
                at = shown_from = match.start + match.lines
                continue
            same = self._repeats(at) if at + 1 < len(raw) and raw[at] == raw[at + 1] else 0
            said = f"[the line above {same:,} times more]" if same else ""
            if same and (len(raw[at]) + 1) * same - len(said) >= self._folding.least:
                out += [raw[at], said]
                at = shown_from = at + same + 1
                continue
            if telling:
                own.setdefault(words, at)
            out.append(raw[at])
            at += 1
        return out + raw[at:]

    def _match(self, at: int, shown_from: int) -> _Match | None:
        match = self._folding.best(self, at, shown_from)
        place = self._own.get(self.lines.bare[at])
        if place is None:
            return match
        bare, count = self.lines.bare, 0
        # What is pointed at must itself be shown, so that it ends where these lines begin.
        while at + count < len(bare) and place + count < at:
            here = bare[place + count]
            if here != bare[at + count] or (
                len(here.strip()) >= TELLING and self._own.get(here) != place + count
            ):
                break
            count += 1
        if match is None or count > match.lines:
            return _Match(_OWN, at, place, count)
        return match

    def _size(self, match: _Match) -> int:
        return match.lines + sum(map(len, self._raw[match.start : match.start + match.lines]))

    def _line_for(self, match: _Match) -> str:
        own = match.key == _OWN
        other = self.lines if own else self._folding.lines_of(match.key)
        label = "this text" if own else other.label
        new = self.lines.named(match.start, match.lines)
        old = other.named(match.place, match.lines)
        what = new or f"{match.lines} line{'s' * (match.lines > 1)}"
        if not old:
            return f"[{what} as in {label} above, {other.quoted(match.place, match.lines)}]"
        if old == new:
            return f"[{what} as in {label} above]"
        return f"[{what} as {old} of {label} above]"

    def _repeats(self, at: int) -> int:
        """How many lines after this one are the same."""
        end = at + 1
        while end < len(self._raw) and self._raw[end] == self._raw[at]:
            end += 1
        return end - at - 1


# ---- the lines of a search, by file


def _grouped(lines: list[str], least: int) -> list[str]:
    """`path:12:words` many times over becomes the path once and `12:words` below it."""
    out: list[str] = []
    saved = 0
    for head, found in groupby(lines, key=_searched):
        run = list(found)
        if head and len(run) > 1:
            out.append(f"{head}:")
            out += [f"  {line[len(head) + 1 :]}" for line in run]
            saved += (len(run) - 1) * (len(head) - 1) - 4
        else:
            out += run
    return out if saved >= least else lines


def _searched(line: str) -> str:
    """The path of a line that a search printed with path and number; "" if it is none."""
    path, _, rest = line.partition(":")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    if not digits or rest[digits : digits + 1] != ":" or path != path.strip() or len(path) < 3:
        return ""
    return path if "." in path or "/" in path else ""


# ---- blocks


def foldable_text(block: Block) -> str:
    """The text of a result, or of a text block; "" if there is more in it than text."""
    if block.get("type") == "text":
        return str(block.get("text") or "")
    if block.get("type") != "tool_result" or block.get("is_error"):
        return ""
    content = block.get("content")
    if isinstance(content, str):
        return content
    parts = dicts(content)
    return text_of(parts) if len(parts) == 1 and parts[0].get("type") == "text" else ""


def with_text(block: Block, words: str) -> Block:
    """The same block with other words."""
    if block.get("type") == "text":
        return {**block, "text": words}
    parts = dicts(block.get("content"))
    return {**block, "content": [{**parts[0], "text": words}] if parts else words}


def said_in(call: Block) -> Iterator[str]:
    """The texts of several lines that a call holds: what it writes into a file."""
    for value in as_object(call.get("input")).values():
        if isinstance(value, str) and "\n" in value:
            yield value


def label_of(call: Json, what: str = "the result") -> str:
    """What a model calls a result: the tool and what it was asked for, else `what` it is of."""
    given = as_object(call.get("input"))
    for name in ("file_path", "notebook_path", "path", "command", "pattern", "url", "query"):
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            words = " ".join(value.split())
            if name.endswith("path"):
                words = "/".join(words.rsplit("/", 2)[-2:])
            words = words if len(words) <= SHOWN else words[: SHOWN - 1] + "…"
            return f"{call.get('name')} of {words}"
    return f"{what} of {call.get('name')}"
