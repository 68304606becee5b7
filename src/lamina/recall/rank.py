"""Ranks memories against a question with no model and no network, and says why: words first (BM25
over name, description and body), related words second (vectors that the package carries), then
small shares for what is fresh, used, and of the fitting type. Lives in memory; `recall/postings.py`
keeps it on disk.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple, cast

import numpy as np

from lamina.local.embedder import Meanings
from lamina.memories import Memory
from lamina.recall import IndexTorn, Match
from lamina.recall.kept import Apart, Column, Names
from lamina.recall.postings import Postings
from lamina.recall.scoring import (
    FIRST_PERSON,
    Bm25,
    DocumentVectors,
    Field,
    QuestionTerms,
    VectorWords,
    best_first,
    meant_confidence,
    memory_confidence,
    promising,
    question_terms,
)
from lamina.recall.term_counts import Doubles, Floats
from lamina.text.lists import words
from lamina.text.terms import folded, spaced, terms

FIELDS = ("name", "description", "body")
# What makes a vector: the words that a body opens with; one of name or description counts for nine.
_VECTOR_WORDS = VectorWords(len(FIELDS), body=2, first=120, headings=(0, 1), heading=9.0)
# Chosen on LoCoMo 1-5, kept by every choice with a set left out (bench/results/recall.md).
_EMBEDDING = 0.5  # share of the question's whole weight that a perfect likeness is worth
_RELATED = 0.4  # what a word of like meaning is worth where the question's own is missing
_LIKENESS_FROM = 0.3  # a likeness below this is chance
_MEANING = 1.0  # as `_EMBEDDING`, by the model of the extra `semantic`
_MEANING_FROM = 0.15
# Set by hand, as shares of the relevance, so that none of them lifts a memory that does not fit.
_RECENCY = 0.06  # what a memory of today gets on top of its relevance …
_HALF_LIFE = 30 * 86_400.0  # … and half of it after this many seconds
_USE = 0.02  # what each doubling of uses adds …
_USE_MOST = 0.1  # … up to this
_OWN = 0.15  # what a memory of type `user` gets when the question says "my"


class Document(NamedTuple):
    """What the ranker is told of one memory. Any text may be empty."""

    id: str
    name: str = ""
    description: str = ""
    body: str = ""
    type: str | None = None
    mtime: float = 0.0
    uses: int = 0

    @classmethod
    def of(cls, memory: Memory, uses: int = 0) -> Document:
        about = memory.name, memory.description, memory.body, memory.type
        return cls(memory.path, *about, memory.mtime, uses)


_LAST_WORD = re.compile(r"\w\w+$")
_NEAR = 30  # words that begin alike and are looked at


class _Headers(NamedTuple):
    """What is known of each document but its words, by place and column by column: a process that
    asks once looks at a few of thousands. A dead place has no id."""

    ids: list[str] | Names
    names: list[str] | Names
    descriptions: list[str] | Names
    types: list[str | None]
    mtimes: array[float]
    uses: array[int]

    @classmethod
    def none(cls) -> _Headers:
        return cls([], [], [], [], array("d"), array("q"))

    def append(self, document: Document) -> None:
        """Only to what `read` gave, or `none`."""
        for column, value in zip(self, (*document[:3], *document[4:]), strict=True):
            cast("list[object]", column).append(value)

    def read(self) -> _Headers:
        """The same, of which nothing lies in a file any more."""
        ids, names, descriptions = ([*column] for column in self[:3])
        return _Headers(ids, names, descriptions, *self[3:])

    def at(self, places: Sequence[int]) -> _Headers:
        ids, names, descriptions = ([column[place] for place in places] for column in self[:3])
        types = [self.types[place] for place in places]
        mtimes = array("d", [self.mtimes[place] for place in places])
        uses = array("q", [self.uses[place] for place in places])
        return _Headers(ids, names, descriptions, types, mtimes, uses)

    def to_state(self) -> dict[str, Any]:
        kinds = sorted({*self.types}, key=str)
        number = {kind: place for place, kind in enumerate(kinds)}
        return {
            "ids": Names.state_of([*self.ids], sought=True),
            "names": Names.state_of([*self.names]),
            "descriptions": Names.state_of([*self.descriptions]),
            "kinds": kinds,
            "types": Apart(array("I", [number[kind] for kind in self.types])),
            "mtimes": Apart(self.mtimes),
            "uses": Apart(self.uses),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> _Headers:
        ids, names, descriptions = (Names(state[name]) for name in cls._fields[:3])
        kinds, types = state["kinds"], Column(state["types"], "u4")[:].tolist()
        mtimes, uses = array("d"), array("q")
        mtimes.frombytes(state["mtimes"].read())
        uses.frombytes(state["uses"].read())
        kinds_of = [kinds[number] for number in types]
        return cls(ids, names, descriptions, kinds_of, mtimes, uses)


@dataclass(frozen=True, slots=True)
class _ScoredMemories:
    """A question worked out against the places worth a closer look: arrays in their order."""

    places: Sequence[int]
    parts: Mapping[str, Floats]
    likeness: Floats
    total: Floats
    mass: float  # what all words of the question weigh here
    terms: QuestionTerms


@dataclass(frozen=True, slots=True)
class _Shares:
    """By place: 1 where a document is, what its uses and type add, and when it was written."""

    alive: Floats
    use: Floats
    own: Floats
    mtime: Doubles


class Ranker:
    """An index of memories, changed one by one, searched as a whole. For one thread at a time: it
    counts words when it is first asked or saved; `recall/memory_index.py` keeps threads apart."""

    def __init__(self) -> None:
        self._use(Postings(len(FIELDS)))
        self._headers = _Headers.none()
        self._slots: dict[str, int] | None = {}  # None: as headers that lie in a file have it
        self._shares: _Shares | None = None
        self._listed: list[str] | None = None  # all ids by place, where meanings go by them
        self._ordered: list[str] = []  # all words, once somebody types
        self.meanings: Meanings | None = None  # whoever has the texts may give it what they mean

    def _use(self, postings: Postings) -> None:
        self._postings = postings
        self._words = Bm25(postings, [Field()] * len(FIELDS))
        self._vectors = DocumentVectors(postings, _VECTOR_WORDS)

    def add(self, document: Document) -> None:
        """Takes a document; one with the same id is replaced."""
        self.remove(document.id)
        file = document.id.rsplit("/", 1)[-1].removesuffix(".md")
        texts = (f"{file} {document.name}", document.description, document.body)
        self._places()[document.id] = self._postings.add([spaced(text) for text in texts])
        self._headers.append(document)
        self._changed()

    def remove(self, id_: str) -> bool:
        """Forgets a document; says whether there was one."""
        slot = self._places().pop(id_, None)
        if slot is None:
            return False
        self._postings.remove(slot)
        cast("list[str]", self._headers.ids)[slot] = ""
        if self._postings.wants_sweep:
            self._sweep()
        self._changed()
        return True

    def _sweep(self) -> None:
        stay = self._postings.sweep()
        self._vectors.keep(stay)
        if len(stay) < len(self._headers.ids):
            self._headers = self._headers.at(stay)
            self._slots = dict(zip(self._headers.ids, count()))
            self._changed()

    def _places(self) -> dict[str, int]:
        """By id; from here on documents may come and go."""
        if self._slots is None:
            self._headers = self._headers.read()
            self._slots = dict(zip(self._headers.ids, count()))
            if len(self._slots) < len(self._headers.ids):
                raise IndexTorn
        return self._slots

    @property
    def ids(self) -> Collection[str]:
        return self._headers.ids if self._slots is None else self._slots.keys()

    def used(self, id_: str, uses: int) -> None:
        """A document's new count of uses, without reading the document again."""
        ids = self._headers.ids
        slot = ids.place(id_) if isinstance(ids, Names) else self._places().get(id_)
        if slot is not None:
            self._headers.uses[slot] = uses
            self._shares = None

    def to_state(self) -> dict[str, Any]:
        """The whole index as plain values."""
        self._sweep()
        return {
            "headers": self._headers.to_state(),
            "postings": self._postings.to_state(),
            "vectors": self._vectors.to_state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Ranker:
        """The index again; ValueError or TypeError when the state contradicts itself."""
        index = cls()
        index._headers, index._slots = _Headers.from_state(state["headers"]), None
        index._use(Postings.from_state(len(FIELDS), state["postings"]))
        index._vectors.from_state(state["vectors"])
        sizes = {len(column) for column in (*index._headers, index._vectors)}
        if sizes != {index._postings.slots}:
            raise ValueError("the index does not fit its documents")
        return index

    def _changed(self) -> None:
        self._words.changed()
        self._shares = self._listed = None
        self._ordered = []

    def finished(self, query: str) -> str:
        """A question whose last word may be half typed, with that word as memories have it: what begins
        with it and most of them hold, or its stem. A word that they hold stays as it is."""
        typed, words = _LAST_WORD.search(query), self._postings.words
        known = terms(typed[0]) if typed else []
        if not typed or not words.isdisjoint(known) or (typed.start() and not known):
            return query
        if not self._ordered:
            self._ordered = sorted(words)
        start = folded(typed[0]).lower()
        first = bisect_left(self._ordered, start)
        near = [word for word in self._ordered[first : first + _NEAR] if word.startswith(start)]
        stems = (start[:end] for end in range(len(start) - 1, max(3, len(start) - 4), -1))
        best = max(near, key=self._postings.holders, default="")
        best = best or next((one for one in stems if one in words), "")
        # A stem that is read as a word may be cut once more: "databas" stands for "database".
        whole = next((best + end for end in ("", "e", "s") if terms(best + end) == [best]), "")
        return f"{query[: typed.start()]}{whole}" if whole else query

    def search(
        self,
        query: str,
        k: int = 5,
        *,
        now: float,
        tools_in_use: Collection[str] = (),
        exclude: Collection[str] = (),
        at_least: float = 0.0,
    ) -> list[Match]:
        """The best `k` memories, best first, none that shares nothing with the question.

        `at_least` cuts by confidence (`CONFIDENT` is the fitted line). Manuals of `tools_in_use`
        and what is in `exclude` are left out. Equal scores are ordered by id.
        """
        question = question_terms(query)
        if not question or k < 1 or not self.ids:
            return []
        asked = self._ask(query, question, now)
        tools = tool_terms(tools_in_use)
        left_out = frozenset(exclude)
        ids, names, descriptions, types, *_ = self._headers
        places = asked.places
        matches: list[Match] = []
        for number in best_first(asked.total, lambda number: ids[places[number]]):
            place = places[number]
            if ids[place] in left_out:
                continue
            if tools and is_manual(names[place], descriptions[place], types[place], tools):
                continue
            match = self._match(ids[place], number, asked)
            if match.confidence >= at_least:
                matches.append(match)
            if len(matches) == k:
                break
        return matches

    def _ask(self, query: str, question: Mapping[str, float], now: float) -> _ScoredMemories:
        weighed = self._words.weigh(question)
        fields = self._words.score(weighed, related=_RELATED)
        words = fields[0] + fields[1] + fields[2]
        mass = sum(weighed.values())
        meaning = self._meant(query, mass)
        places = promising(words if meaning is None else words + meaning)
        likeness = self._vectors.near(weighed, places)
        above = np.maximum(likeness - np.float32(_LIKENESS_FROM), np.float32(0))
        embedding = above * np.float32(_EMBEDDING * mass)
        shares = self._shares_by_place()
        meant = np.zeros_like(embedding) if meaning is None else meaning[places]
        relevance = (words[places] + embedding + meant) * shares.alive[places]
        age = np.maximum(now - shares.mtime[places], 0.0)
        recency = relevance * (_RECENCY * np.exp2(-age / _HALF_LIFE)).astype(np.float32)
        use = relevance * shares.use[places]
        own = relevance * shares.own[places] * np.float32(bool(FIRST_PERSON.search(query)))
        total = (relevance + recency + use + own).astype(np.float32, copy=False)
        parts = dict(zip(FIELDS, (field[places] for field in fields), strict=True))
        parts |= {"embedding": embedding, "recency": recency, "use": use, "type": own}
        parts |= {} if meaning is None else {"meaning": meant}
        terms = QuestionTerms.of(query, question, self._postings)
        return _ScoredMemories(places.tolist(), parts, likeness, total, mass, terms)

    def _meant(self, query: str, mass: float) -> Floats | None:
        """By place, what nearness to the question's meaning is worth."""
        if self.meanings is None:
            return None
        if self._listed is None:
            self._listed = [*self._headers.ids]
        near = self.meanings.near(query, self._listed)
        return np.maximum(near - np.float32(_MEANING_FROM), np.float32(0)) * np.float32(
            _MEANING * mass
        )

    def _shares_by_place(self) -> _Shares:
        if self._shares is None:
            headers = self._headers
            alive = np.ones(len(headers.ids), dtype=np.float32)
            alive[list(self._postings.dead)] = 0
            uses = np.array(headers.uses, dtype=np.float32)
            use = np.minimum(_USE * np.log2(1 + np.maximum(uses, 0)), _USE_MOST)
            own = [_OWN if type_ == "user" else 0.0 for type_ in headers.types]
            self._shares = _Shares(
                alive,
                use.astype(np.float32),
                np.array(own, dtype=np.float32),
                np.nan_to_num(np.array(headers.mtimes, dtype=np.float64)),
            )
        return self._shares

    def _match(self, id_: str, number: int, asked: _ScoredMemories) -> Match:
        parts = {name: float(values[number]) for name, values in asked.parts.items()}
        held = self._postings.holds(asked.places[number], asked.terms.keys)
        sure = memory_confidence(
            coverage=asked.terms.coverage(held),
            likeness=float(asked.likeness[number]),
            words=sum(parts[field] for field in FIELDS) / max(asked.mass, 1e-9),
            strange_names=asked.terms.strange_names,
        )
        if parts.get("meaning"):
            near = parts["meaning"] / (_MEANING * asked.mass) + _MEANING_FROM
            sure = max(sure, meant_confidence(near))
        return Match(id_, sum(parts.values()), parts, sure)


# ---- manuals: who uses a tool knows how to call it, but not what went wrong with it last time

_WARNING = words("recall.warning")
_MANUAL = words("recall.manual")


def tool_terms(tools: Iterable[str]) -> list[frozenset[str]]:
    """The terms that name each tool. Servers prefix theirs: mcp__github__create_issue counts as a
    whole, as "create issue" and as "github"."""
    names: set[str] = set()
    for tool in tools:
        bare = tool.removeprefix("mcp__")
        names.update((bare, *(bare.split("__") if bare != tool else ())))
    return sorted({frozenset(found) for name in names if (found := terms(name))}, key=sorted)


def is_manual(
    name: str, description: str, type_: str | None, tools: Iterable[frozenset[str]]
) -> bool:
    """Whether the memory only says how to use one of these tools. A warning always stays."""
    heading = f"{name} {description}"
    if type_ in ("user", "feedback") or _WARNING.search(heading) or not _MANUAL.search(heading):
        return False
    about = frozenset(terms(heading))
    return any(tool <= about for tool in tools)
