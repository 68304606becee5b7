"""Whether what memories said still stands, in whatever file: a dream removes nothing else. Pure.

A statement stands while one statement somewhere says all of it. A title or description stands while
its words do, in the files that hold the memory's statements: it only sums those up.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

from lamina.memories import Memory
from lamina.text.about import Message, made_of
from lamina.text.claims import carries, fenced_blocks, headings, negations, same_words, statements
from lamina.text.wording import content_stems, fold, missing_tokens, sentences, words

THE_USERS = ("user", "feedback")
_MARKS = re.compile(
    r"[ \t]*(?:(?:#+|[-*+]|\d{1,3}[.)]|>)[ \t]+)?(?:\*\*(?:Why|How to apply):?\*\*:?)?",
    re.IGNORECASE,
)
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


def _below(memory: Memory) -> Iterator[tuple[str, str]]:
    """Its lines, each with the heading and the line with a colon that it is read with, if there are."""
    yield from ((memory.name, ""), (memory.description, ""))
    heading = lead = before = last = ""
    for line in memory.body.splitlines():
        bare = line.lstrip()
        item = bare.startswith(("-", "*", "+", "•")) or bare[:1].isdigit()
        if bare and not before and not item and fold(last) != lead:
            lead = ""  # a paragraph that begins anew
        if line.startswith("#"):
            heading, lead = fold(line), ""
        elif bare:
            yield line, f"{heading}{lead}"
        if bare.rstrip(" *").endswith((":", "：")):
            lead = fold(line)
        before, last = bare, line if bare else last


class Moved:
    """Where the lines of a file stood before, so that nobody has to prove them again."""

    def __init__(self, memories: Iterable[Memory], hooks: Mapping[str, str]) -> None:
        self.memories = {memory.path: memory for memory in memories}
        self._stood: defaultdict[str, list[str]] = defaultdict(list)
        self._lines: defaultdict[str, list[str]] = defaultdict(list)  # whole, without their marks
        self._heads: dict[str, defaultdict[str, set[str]]] = {}  # by path: what units stand below
        for memory in self.memories.values():
            for line in f"{whole_text(memory)}\n{hooks.get(memory.path, '')}".splitlines():
                for unit in {fold(line), *_units(line)}:
                    self._stood[unit].append(memory.path)
                self._lines[" ".join(_units(line))].append(memory.path)

    def lines(self, memory: Memory, allowed: Callable[[Memory], bool]) -> dict[str, list[str]]:
        """Those lines of a memory that stood in allowed ones, and where. The user's own words stood there
        only if nothing was cut off that belongs to them."""
        found: dict[str, list[str]] = {}
        if memory.type in THE_USERS:
            heads = [(line, "") for line in memory.body.splitlines() if line.startswith("#")]
            for line, head in (*_below(memory), *heads):
                whole = self._whole(line, allowed)
                if paths := [path for path in whole if self._read_alike(path, line, head)]:
                    found[line] = paths
                elif line in found:  # it stands elsewhere under what it belongs to, but not here
                    del found[line]
            return found
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

    def _read_alike(self, path: str, line: str, head: str) -> bool:
        """Whether a line stood below the same words: "- push to main" is read with its "Don't:"."""
        if path not in self._heads:
            self._heads[path] = found = defaultdict[str, set[str]](set)
            for one, above in _below(self.memories[path]):
                for unit in _units(one):
                    found[unit].add(above)
        heads = {above for unit in _units(line) for above in self._heads[path].get(unit, ())}
        return not heads or head in heads

    def _where(self, line: str, allowed: Callable[[Memory], bool]) -> list[str]:
        whole = self._paths(fold(line), allowed)
        if whole:
            return whole
        units = [self._paths(unit, allowed) for unit in _units(line)]
        return [path for paths in units for path in paths] if units and all(units) else []

    def _whole(self, line: str, allowed: Callable[[Memory], bool]) -> list[str]:
        if paths := self._paths(fold(line), allowed):
            return paths
        units = {*_units(line)}
        for parts in (units, {*map(same_words, filter(words, _PIECES.split(line)))}):
            found = [
                [p for p in self._lines.get(one, ()) if allowed(self.memories[p])] for one in parts
            ]
            if found and all(found):
                return [path for one in found for path in one]
        paths = [path for unit in units for path in self._paths(unit, allowed)]
        stood = [
            Message(one)
            for path in dict.fromkeys(paths)
            for one in whole_text(self.memories[path]).splitlines()
            if not units.isdisjoint(_units(one))
        ]
        return paths if line.strip() and made_of(line, stood) else []

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


def _units(line: str) -> list[str]:
    """The sentences of a line, bare of list marks and labels."""
    marks = _MARKS.match(line)
    return [same_words(one) for one in sentences(line[marks.end() if marks else 0 :])]
