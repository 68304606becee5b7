"""The memories of one consolidation while it works: what they are now, and why they changed.

Holds values only; nothing here touches files or the clock.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple, TypeVar

from lamina.memories import Memory
from lamina.text.claims import (
    Statement,
    carries,
    claim,
    covered,
    fenced_blocks,
    headings,
    negations,
    said_in,
    same_words,
    speaks_of_an_end,
    statements,
)
from lamina.text.wording import content_stems


@dataclass(frozen=True, slots=True)
class Merge:
    """Several memories that say the same become one; every statement of theirs is in `after`."""

    into: str
    absorbed: tuple[str, ...]
    after: Memory


@dataclass(frozen=True, slots=True)
class Drop:
    """A memory that goes, why, and the memory because of which it goes ("" for age)."""

    path: str
    reason: str
    because: str = ""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A memory that stays under its name with other text."""

    path: str
    reason: str
    after: Memory


@dataclass(frozen=True, slots=True)
class Doubt:
    """What a person should look at: nothing was done."""

    paths: tuple[str, ...]
    reason: str


# Whether a statement of a newer memory may take the place of one in an older memory.
Overrules = Callable[[Memory, str, Memory, str], bool]


class Numbers(dict[str, int]):
    """Numbers for words, given out in order."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


T = TypeVar("T")


class WorkingSet:
    """The memories of one dream, and the record of what happened to them."""

    def __init__(
        self,
        memories: Sequence[Memory],
        uses: Mapping[str, int],
        pinned: frozenset[str],
        labels: Mapping[str, str],
        now: datetime,
        *,
        last_used: Mapping[str, date] | None = None,
        in_vain: Collection[str] = (),
        said: Mapping[str, date | None] | None = None,
        overrules: Overrules | None = None,
        by_hand: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.uses = uses
        self._said = said or {}
        self._overrules = overrules
        self._by_hand = by_hand
        self.last_used = last_used or {}
        self.in_vain = frozenset(in_vain)
        self.labels = labels
        self.now = now
        self._pinned = pinned
        self._before = {memory.path: memory for memory in memories}
        self._now = dict(self._before)
        self._reasons: dict[str, list[str]] = {}
        self._absorbed: dict[str, list[str]] = {}
        self._drops: dict[str, Drop] = {}
        self._doubts: dict[Doubt, None] = {}
        self._seen: dict[tuple[str, str, str, str], Any] = {}
        self._compared: dict[str, Memory] = {}
        self.numbers = Numbers()

    def all(self) -> list[Memory]:
        return [self._now[path] for path in sorted(self._now)]

    def seen(self, memory: Memory, look: Callable[[Memory], T], what: str) -> T:
        """What a look at the text of a memory shows, once for all that say the same."""
        key = (what, memory.type or "", memory.description, memory.body)
        if key not in self._seen:
            self._seen[key] = look(memory)
        return self._seen[key]

    def fresh(self) -> set[str]:
        """Memories that say something else than when this was last asked."""
        before, self._compared = self._compared, dict(self._now)
        return {
            path
            for path, now in self._now.items()
            if (old := before.get(path)) is not now and (old is None or not _says_as_much(old, now))
        }

    def open(self) -> list[Memory]:
        """Those that may be changed, in a fixed order."""
        return [memory for memory in self.all() if self.may_change(memory)]

    def may_change(self, memory: Memory) -> bool:
        pinned = memory.extra.get("pinned", "").strip().casefold() in {"true", "yes", "1"}
        return not (memory.team or pinned or memory.path in self._pinned)

    def overrules(self, newer: Memory, new: str, older: Memory, old: str) -> bool:
        if not self.may_change(older) or stamp(newer) <= stamp(older):
            return False
        if self._overrules is not None:
            return self._overrules(newer, new, older, old)
        return newer.path not in self.labels or older.path in self.labels

    def by_hand(self, path: str) -> bool:
        """Did somebody write it, or what it took in, past the store?"""
        return any(map(self._by_hand, (path, *self._absorbed.get(path, ()))))

    def get(self, path: str) -> Memory | None:
        return self._now.get(path)

    def said_on(self, memory: Memory) -> date | None:
        """The day from which relative dates in a memory count; none if nobody knows."""
        return self._said[memory.path] if memory.path in self._said else said_on(memory)

    @property
    def gone(self) -> set[str]:
        return self._before.keys() - self._now.keys()

    # --- changes ---

    def rewrite(self, after: Memory, reason: str) -> None:
        self._now[after.path] = after
        reasons = self._reasons.setdefault(after.path, [])
        if reason not in reasons:
            reasons.append(reason)

    def drop(self, path: str, reason: str, because: str = "") -> None:
        del self._now[path]
        self._drops[path] = Drop(path, reason, because)
        for absorbed in self._absorbed.pop(path, []):
            self._drops[absorbed] = Drop(absorbed, reason, because)

    def merge(self, into: Memory, other: Memory) -> None:
        """`into` takes in every statement of `other` that it lacks."""
        lacking = missing_statements(into, other)
        body = with_lines(into.body, lacking)
        extra = {**other.extra, **into.extra}
        if "said" in into.extra and "said" in other.extra:
            extra["said"] = max(into.extra["said"], other.extra["said"])
        if dues := [one.extra["due"] for one in (into, other) if "due" in one.extra]:
            extra["due"] = max(dues)
            if len(dues) == 1:  # what had no end does not get one by what it takes in
                del extra["due"]
        self._now[into.path] = replace(
            into, body=body, extra=extra, mtime=max(into.mtime, other.mtime), size=0
        )
        del self._now[other.path]
        taken = self._absorbed.setdefault(into.path, [])
        taken += [other.path, *self._absorbed.pop(other.path, [])]

    def doubt(self, paths: Iterable[str], reason: str) -> None:
        self._doubts.setdefault(Doubt(tuple(paths), reason))

    # --- what came of it ---

    def merges(self) -> tuple[Merge, ...]:
        return tuple(
            Merge(into, tuple(sorted(taken)), self._now[into])
            for into, taken in sorted(self._absorbed.items())
        )

    def drops(self) -> tuple[Drop, ...]:
        return tuple(self._drops[path] for path in sorted(self._drops))

    def rewrites(self) -> tuple[Rewrite, ...]:
        return tuple(
            Rewrite(path, "; ".join(reasons), self._now[path])
            for path, reasons in sorted(self._reasons.items())
            if path in self._now
            and path not in self._absorbed
            and self._now[path] != self._before[path]
        )

    def doubts(self) -> tuple[Doubt, ...]:
        there = [doubt for doubt in self._doubts if not (set(doubt.paths) & self.gone)]
        return tuple(sorted(there, key=lambda doubt: (doubt.paths, doubt.reason)))


# ---- what all of them say

_SIGNS = frozenset("alway ever pleas immer stets bitt now use".split())  # noqa: SIM905 - a word list
_MAY_END = re.compile(r"(?i)longer|any ?more|mehr\b|不")


class _Spoken(NamedTuple):
    """The statements of a memory as numbers: of a large store the texts themselves are too much."""

    texts: array[int]  # a hash for each statement
    keys: array[
        int
    ]  # two for each: hashes of what it makes a claim about (0: of nothing) and rules
    stems: array[int]  # the numbers of all its words, one statement after the other …
    ends: array[int]  # … and where those of each end
    over: tuple[int, ...]  # statements that may end another


def plain_statements(memory: Memory) -> list[Statement]:
    return [one for one in statements(memory.body) if not one.label]


def _spoken(memory: Memory, numbers: Numbers) -> _Spoken:
    found = _Spoken(array("q"), array("q"), array("I"), array("I"), ())
    over: list[int] = []
    for place, statement in enumerate(plain_statements(memory)):
        text, stems = statement.text, content_stems(statement.text)
        made = claim(text)
        found.texts.append(hash(text))
        found.keys.append(hash(("claim", memory.type, made.subject)) | 1 if made else 0)
        rule = stems - negations(text) - _SIGNS
        found.keys.append(hash(("rule", memory.type, rule)) | 1 if rule else 0)
        found.stems.extend(numbers[stem] for stem in stems if stem not in _SIGNS)
        found.ends.append(len(found.stems))
        if _MAY_END.search(text) and speaks_of_an_end(text):
            over.append(place)
    return found._replace(over=tuple(over))


class SpokenStatements:
    """The statements of all memories, side by side."""

    def __init__(self, working: WorkingSet) -> None:
        self.memories = [memory for memory in working.all() if not memory.team]
        self.spoken = [
            working.seen(one, partial(_spoken, numbers=working.numbers), "spoken")
            for one in self.memories
        ]
        self._firsts = [*accumulate((len(one.texts) for one in self.spoken), initial=0)]
        self.numbers = working.numbers

    def at(self, place: int) -> tuple[Memory, Statement]:
        number = bisect_right(self._firsts, place) - 1
        memory = self.memories[number]
        return memory, plain_statements(memory)[place - self._firsts[number]]

    def together(self) -> Iterator[Sequence[int]]:
        """Places of statements with the same key, where not all say the same; by the first of each."""
        contested = self._contested()
        groups: dict[int, array[int]] = {}
        for first, one in zip(self._firsts, self.spoken, strict=False):
            for at, key in enumerate(one.keys):
                if key in contested:
                    groups.setdefault(key, array("I")).append(first + at // 2)
        yield from groups.values()

    def _contested(self) -> set[int]:
        """Keys under which not all statements say the same. Copies share what they say, so each text is
        looked at once; and only keys that come twice are remembered with what is said."""
        distinct = {id(one): one for one in self.spoken}.values()
        keys = sorted(chain.from_iterable(one.keys for one in distinct))
        again = {key for key, following in pairwise(keys) if key == following != 0}
        said: dict[int, int] = {}
        return {
            key
            for one in distinct
            for at, key in enumerate(one.keys)
            if key in again and said.setdefault(key, one.texts[at // 2]) != one.texts[at // 2]
        }

    def ending(self) -> list[int]:
        return [
            first + place
            for first, one in zip(self._firsts, self.spoken, strict=False)
            for place in one.over
        ]

    def stems(self, place: int) -> array[int]:
        number = bisect_right(self._firsts, place) - 1
        one, at = self.spoken[number], place - self._firsts[number]
        return one.stems[one.ends[at - 1] if at else 0 : one.ends[at]]

    def by_rarest(self, wanted: set[int]) -> dict[int, list[int]]:
        """Places of statements by their rarest word, where that is one of these."""
        often = Counter[int]()
        for one in self.spoken:
            often.update(one.stems)
        names = list(self.numbers)
        found: defaultdict[int, list[int]] = defaultdict(list)
        for first, one in zip(self._firsts, self.spoken, strict=False):
            if wanted.isdisjoint(one.stems):
                continue
            for at in range(len(one.ends)):
                stems = self.stems(first + at)
                if stems:
                    rarest = min(stems, key=lambda stem: (often[stem], names[stem]))
                    if rarest in wanted:
                        found[rarest].append(first + at)
        return found


# ---- what one of them says


def _says_as_much(old: Memory, now: Memory) -> bool:
    return (old.name, old.description, old.body) == (now.name, now.description, now.body)


def stamp(memory: Memory) -> float:
    """When a memory was last said to be so: its own word for it, else the file's time."""
    for key in ("modified", "metadata.modified", "updated", "last_confirmed", "said"):
        if key not in memory.extra:
            continue
        try:
            return datetime.fromisoformat(memory.extra[key]).timestamp()
        except (ValueError, OverflowError, OSError):
            continue
    return memory.mtime


def said_on(memory: Memory) -> date | None:
    """The day that a memory itself names. Never that of its file, which moves with every copy."""
    try:
        return date.fromisoformat(memory.extra.get("said", "")[:10])
    except ValueError:
        return None


def text_of(memory: Memory) -> str:
    return f"{memory.description}\n{memory.body}"


def missing_statements(into: Memory, other: Memory) -> list[str]:
    """What `other` says and `into` does not, as lines."""
    if _says_as_much(into, other):
        return []
    said = said_in(into)
    exact = set(map(same_words, said))
    lines = [
        line.text
        for line in statements(other.body)
        if any(map(str.isalnum, line.text))
        and same_words(line.text) not in exact
        and not any(carries(one, line.text) for one in said)
    ]
    grown = replace(into, body=with_lines(into.body, lines)) if lines else into
    if other.description.strip() and not covered(other.description, grown):
        lines.append(other.description.strip())
        grown = replace(into, body=with_lines(into.body, lines))
    everything = content_stems(f"{grown.name}\n{grown.description}\n{grown.body}")
    titles = [*headings(other.body), *([] if _is_file_name(other) else [other.name.strip()])]
    lines += [title for title in titles if not content_stems(title) <= everything]
    blocks = [block for block in fenced_blocks(other.body) if block not in into.body]
    return [*lines, *blocks]


def _is_file_name(memory: Memory) -> bool:
    """A name that only repeats the path says nothing of its own."""
    stem = memory.path.rsplit("/", 1)[-1].removesuffix(".md")
    return content_stems(memory.name.replace("_", " ")) <= content_stems(stem.replace("_", " "))


def with_lines(body: str, lines: Sequence[str]) -> str:
    """The body with more paragraphs before its Why and How to apply, which stay last, and before its
    first heading, which they don't belong to."""
    if not lines:
        return body
    first = next((part.start for part in statements(body) if part.label), len(body))
    heading = body.find("\n#")
    first = min(first, heading + 1) if heading >= 0 else first
    head, tail = body[:first].rstrip("\n "), body[first:]
    added = "\n\n".join(lines)
    parts = [part for part in (head, added, tail.strip("\n")) if part.strip()]
    return "\n\n".join(parts) + "\n"
