"""Whether what memories said still stands, in whatever file: a dream removes nothing else. Pure.

A statement stands while one statement somewhere says all of it. A title or description stands while
its words do, in the files that hold the memory's statements: it only sums those up.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, takewhile

from lamina.memories import HEAD, Memory
from lamina.text.about import leans, letters
from lamina.text.claims import carries, fenced_blocks, headings, negations, same_words, statements
from lamina.text.wording import (
    LIST_ITEM,
    content_stems,
    missing_tokens,
    read_under,
    sentences,
    spaced,
    words,
)

THE_USERS = ("user", "feedback")
_MARKS = re.compile(
    r"[ \t]*(?:(?:#+|[-*+])[ \t]+)?(?:\*\*(?:Why|How to apply):?\*\*:?)?",
    re.IGNORECASE,
)
_EXPLAINS = re.compile(r"\s*\*\*(?:Why|How to apply)", re.IGNORECASE)
_JOINED = frozenset(("", ".", ", ", "; ", "; and ", " and ", " und "))  # whole heads in a row
_PIECES = re.compile(r"[;,.:!—–。，；]\s*|\s+(?:and|und)\s+")
_CLAUSES = re.compile(r"[;,:.!—–]")
_WRITTEN_OUT = re.compile(r" ?\([-\d]{10}\)")  # as a date is
_LIKE = 5  # letters that "allergy" and "allergic" share


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of all that a memory said."""

    lost: str = ""  # the first thing that stands nowhere
    holders: tuple[str, ...] = ()  # files that say it
    overruled: tuple[str, ...] = ()  # files whose later word took the place of a statement


class Standing:
    """All that some memories say, to be looked up statement by statement."""

    def __init__(self, memories: Iterable[Memory], texts: Iterable[str] = ()) -> None:
        """`texts` will be asked for, and are looked up in one pass."""
        self.memories = {memory.path: memory for memory in memories}
        wanted = set(map(same_words, texts))
        self._exact: defaultdict[str, list[str]] = defaultdict(list)
        for memory in self.memories.values() if wanted else ():
            for text in all_said(memory):
                # A date that was written out takes nothing away, though it stands within a sentence.
                for said in {same_words(text), same_words(_WRITTEN_OUT.sub("", text))} & wanted:
                    self._exact[said].append(memory.path)
        self._wanted = wanted
        self._nothing_lost: set[tuple[object, ...]] = (
            set()
        )  # what copies of a file need not ask again

    @cached_property
    def _by_stem(self) -> Mapping[str, list[tuple[str, str]]]:
        """What is said, by each of its words: only where something is not said word for word."""
        found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for memory in self.memories.values():
            for text in all_said(memory):
                said = (memory.path, text)
                for stem in content_stems(text):
                    found[stem].append(said)
        return found

    def fate(self, memory: Memory, overruled: Callable[[str], str], hook: str = "") -> Fate:
        """What of an earlier memory stands here, and of its index line where that goes too.
        `overruled` names the file that says otherwise of a statement and may, or nothing."""
        holders: dict[str, None] = {}
        against: dict[str, None] = {}
        past: list[str] = []
        explaining: list[str] = []
        for part in statements(memory.body):
            if not any(map(str.isalnum, part.text)):
                continue
            if holder := self.holder(part.text, memory):
                holders[holder] = None
            elif part.label:
                explaining.append(part.text)
            elif other := overruled(part.text):
                against[other] = None
                past.append(part.text)
            else:
                return Fate(part.text)
        if past and not holders:  # what explains or sums up a statement goes with it
            return Fate("", (), tuple(against))
        lost = explaining or self._lost_besides(memory, hook, holders, past)
        return Fate(lost[0] if lost else "", tuple(holders), tuple(against))

    def holder(self, text: str, of: Memory) -> str:
        """The file that says all of a statement, its own first; "" if there is none."""
        words = same_words(text)
        places = self._exact.get(words, ()) if words in self._wanted else self._places(words)
        exact = [path for path in places if self._may_hold(path, of)]
        if exact:
            return of.path if of.path in exact else exact[0]
        alike = [self._by_stem.get(stem, []) for stem in content_stems(text)]
        rare = min(alike, key=len) if alike else []
        found = [p for p, said in rare if self._may_hold(p, of) and carries(said, text)]
        return of.path if of.path in found else (found[0] if found else "")

    def _places(self, words: str) -> list[str]:
        return [
            memory.path
            for memory in self.memories.values()
            for text in all_said(memory)
            if same_words(text) == words
        ]

    def _may_hold(self, path: str, of: Memory) -> bool:
        """What the user said of themselves or corrected stands as that, and with the user."""
        kept = of.type not in THE_USERS or self.memories[path].type in THE_USERS
        return kept and self.memories[path].team == of.team

    def _lost_besides(
        self, memory: Memory, hook: str, holders: dict[str, None], past: list[str]
    ) -> list[str]:
        """Code, titles and the description: what of them the holders don't have."""
        path = memory.path.replace("_", " ")
        named = _sums_up(memory.name, path)  # most names only say what the file is called
        heads = [*headings(memory.body), memory.description, "" if named else memory.name, hook]
        key = (memory.type, memory.team, memory.body, *map(tuple, (heads, holders, past)))
        if key in self._nothing_lost:
            return []
        texts = [whole_text(self.memories[one]) for one in holders if one in self.memories]
        lost = [
            block
            for block in fenced_blocks(memory.body)
            if not self._block_stands(block, memory, holders)
        ]
        around = "\n".join([*past, *texts])
        left = [head for head in heads if not _sums_up(head, around)]
        if not (lost or left):
            self._nothing_lost.add(key)
            return []
        for head in left:
            if not _sums_up(head, f"{path}\n{around}"):
                if holder := self.holder(head, memory):
                    holders[holder] = None
                else:
                    lost.append(head)
        return lost

    def _block_stands(self, block: str, of: Memory, holders: Iterable[str]) -> bool:
        return any(
            block.strip() in self.memories[path].body
            for path in chain(holders, self.memories)
            if path in self.memories and self._may_hold(path, of)
        )


def all_said(memory: Memory) -> Iterator[str]:
    yield memory.name
    yield memory.description
    yield from headings(memory.body)
    for part in statements(memory.body):
        yield part.text


def whole_text(memory: Memory) -> str:
    return f"{memory.name}\n{memory.description}\n{memory.body}"


def _sums_up(head: str, around: str) -> bool:
    """Do all words of a title stand in a text, or words that begin like them?"""
    known, begun, lines = _held(around)
    if "_" not in head and head.strip() in lines:
        return True  # as it was: the usual case, and soon told
    plain = head.replace("_", " ")
    alike = all(
        stem in known or (len(stem) >= _LIKE and stem[:_LIKE] in begun)
        for stem in content_stems(plain)
    )
    return alike and not missing_tokens(plain, around)


@lru_cache(maxsize=4)
def _held(around: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The stems of a text, how they begin, and its lines."""
    known = content_stems(around)
    lines = frozenset(line.lstrip("#").strip() for line in around.split("\n"))
    return known, frozenset(stem[:_LIKE] for stem in known), lines


# ---- moved word for word


class Moved:
    """Where the lines of a file stood before, so that nobody has to prove them again."""

    def __init__(self, memories: Iterable[Memory], hooks: Mapping[str, str]) -> None:
        self.memories = {memory.path: memory for memory in memories}
        self._stood: defaultdict[str, list[str]] = defaultdict(list)
        for memory in self.memories.values():
            for line in f"{whole_text(memory)}\n{hooks.get(memory.path, '')}".splitlines():
                for unit in {spaced(line), *_units(line)}:
                    self._stood[unit].append(memory.path)

    def lines(self, memory: Memory, allowed: Callable[[Memory], bool]) -> dict[str, list[str]]:
        """Those lines of a memory that stood in allowed ones, and where."""
        if memory.type in THE_USERS:
            return self._moved_whole(memory, [*filter(allowed, self.memories.values())])
        found: dict[str, list[str]] = {}
        for line in memory.body.splitlines():
            if paths := self._where(line, allowed):
                found[line] = paths
        said = {unit for line in memory.body.splitlines() for unit in _units(line)}
        for head in (memory.name, memory.description):
            # A title cut out of a sentence ("he told me to …") does not vouch for a body that says it.
            pieced = [] if said & {*_units(head)} else self._pieced(head, allowed)
            if paths := self._where(head, allowed) or pieced:
                found[head] = paths
        return found

    def _moved_whole(self, memory: Memory, sources: Sequence[Memory]) -> dict[str, list[str]]:
        """The user's own words may mean something else without those beside them, so only whole files
        move, one after the other, and titles and descriptions with them. What two of them begin
        with stands once."""
        said, place = _read(memory), 0
        bodies = sorted(((_read(one), one) for one in sources), key=lambda one: -len(one[0]))
        group = set[
            tuple[str, tuple[str, ...]]
        ]()  # what stands above, up to where a file begins anew
        came: dict[int, str] = {}  # by the place of what is said
        taken: list[Memory] = []
        while place < len(said):
            for body, one in bodies:
                shared = len([*takewhile(group.__contains__, (unit[1:] for unit in body))])
                rest = [unit[1:] for unit in body[shared:]]
                here = [unit[1:] for unit in said[place : place + len(rest)]]
                goes_on = bool(place) and not shared  # with another file
                joined = any(map(_goes_on, taken)) and not _stands_apart(memory, said[place])
                if goes_on and (leans(body[0][1]) or joined):
                    continue
                if rest and rest == here:
                    group = {*(group if shared else ()), *here}
                    came.update(dict.fromkeys(range(place, place + len(rest)), one.path))
                    place += len(rest)
                    taken.append(one)
                    break
            else:
                place += 1
                group.clear()
        lost = {unit[0] for n, unit in enumerate(said) if n not in came}
        found = {unit[0]: [came[n]] for n, unit in enumerate(said) if unit[0] not in lost}
        reasons = {
            (unit, rules[-1:]): one.path
            for one in taken
            for _, units, rules in _reasons(one)
            for unit in units
        }
        for line, units, rules in _reasons(memory):
            # One line may tell the reasons of several rules, the last above it among them.
            own = [reasons[unit, rules[-1:]] for unit in units if (unit, rules[-1:]) in reasons]
            near = [[reasons.get((unit, (rule,)), "") for rule in rules] for unit in units]
            several = own and "*why" in line.casefold() and all(map(any, near))
            if units and (several or len(own) == len(units)):
                found[line] = [*filter(None, chain(own, *near))]
        for key in ("name", "description"):
            heads = {spaced(getattr(one, key)).rstrip("."): one.path for one in taken}
            left = head = spaced(getattr(memory, key))
            for one in sorted(filter(None, heads), key=len, reverse=True):
                left = left.replace(one, "\n")
            if head and _JOINED.issuperset(left.split("\n")) and "\n" in left:
                found[f"{HEAD}{key}: {getattr(memory, key)}"] = [
                    heads[one] for one in heads if one in head
                ]
        return found

    def _where(self, line: str, allowed: Callable[[Memory], bool]) -> list[str]:
        whole = self._paths(spaced(line), allowed)
        if whole:
            return whole
        units = [self._paths(unit, allowed) for unit in _units(line)]
        return [path for paths in units for path in paths] if units and all(units) else []

    def _paths(self, unit: str, allowed: Callable[[Memory], bool]) -> list[str]:
        return [path for path in self._stood.get(unit, ()) if allowed(self.memories[path])]

    def _pieced(self, head: str, allowed: Callable[[Memory], bool]) -> list[str]:
        """A title or description put together from pieces of what stood there, none turned round."""
        found: list[str] = []
        for piece in filter(words, _PIECES.split(head)):
            paths = [p for p, one in self.memories.items() if allowed(one) and _holds(one, piece)]
            if not paths:
                return []
            found += paths
        return found


def _holds(memory: Memory, piece: str) -> bool:
    run = f" {' '.join(words(piece))} "
    return any(
        run in f" {' '.join(words(clause))} " and negations(clause) == negations(piece)
        for text in all_said(memory)
        for clause in (text, *_CLAUSES.split(text))
    )


def _read(memory: Memory) -> list[tuple[str, str, tuple[str, ...]]]:
    """All that a body says but for what explains it: the line, a sentence of it, and what that is read
    under."""
    lines = [line.rstrip() for line in memory.body.splitlines() if line.strip()]
    return [
        # A heading is another thing than its words.
        (line, f"{line[: len(line) - len(line.lstrip('#'))]}{unit}", under)
        for line, under in zip(lines, read_under(lines), strict=True)
        if not _EXPLAINS.match(line)
        for unit in _units(line) or [line]
    ]


def _goes_on(memory: Memory) -> bool:
    """Has it plain lines, of which the first may say how the others are meant?"""
    return len({line for line, _, _ in _read(memory) if not LIST_ITEM.match(line)}) > 1


def _stands_apart(memory: Memory, unit: tuple[str, str, tuple[str, ...]]) -> bool:
    """Does it begin a paragraph, or an item of a list? Else what stands above may speak of it."""
    line, text, _ = unit
    begins = (_units(line) or [line])[0] == text
    return begins and bool(LIST_ITEM.match(line) or f"\n\n{line}" in memory.body)


def _reasons(memory: Memory) -> Iterator[tuple[str, list[str], tuple[str, ...]]]:
    """Each line that explains something, its sentences, and the lines that they may explain."""
    above, explained = tuple[str, ...](), False
    for line in filter(str.strip, map(str.rstrip, memory.body.splitlines())):
        explains = _EXPLAINS.match(line)
        if explains:
            yield line, _units(line), above
        else:
            above = (*(() if explained else above), letters(_unmarked(line)))
        explained = bool(explains)


def _units(line: str) -> list[str]:
    """The sentences of a line, bare of list marks and labels."""
    return [*map(letters, sentences(_unmarked(line)))]


def _unmarked(line: str) -> str:
    marks = _MARKS.match(line)
    return line[marks.end() :] if marks else line
