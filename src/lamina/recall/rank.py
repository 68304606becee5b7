"""Ranks memories against a question with no model and no network, and says why.

Words come first (BM25 over name, description and body), related words second (vectors that the
package carries), then small shares for what is fresh, used, and of the fitting type. Lives in
memory; `recall/saved.py` keeps it on disk.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lamina.recall.confidence import Evidence, confidence, coverage, rarities
from lamina.recall.lexical import Field, Lexical, question_terms
from lamina.recall.manuals import is_manual, tool_terms
from lamina.recall.order import best_first, promising
from lamina.recall.postings import Postings
from lamina.recall.pull import Pull
from lamina.recall.vectors import Vectors
from lamina.recall.words import asked_runs, proper_names, runs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lamina.memories import Memory
    from lamina.recall.rows import Floats

FIELDS = ("name", "description", "body")
_FIELD_WEIGHTS = (Field(1.0), Field(1.0), Field(1.0))
# What makes a vector: the words that a body opens with; one of name or description counts for nine.
_PULL = Pull(len(FIELDS), body=2, first=120, headings=(0, 1), heading=9.0)
_EMBEDDING = 0.5  # share of the question's whole weight that a perfect likeness is worth
_RELATED = 0.4  # what a word of like meaning is worth where the question's own is missing
_LIKENESS_FROM = 0.3  # a likeness below this is chance
_RECENCY = 0.06  # what a memory of today gets on top of its relevance …
_HALF_LIFE = 30 * 86_400.0  # … and half of it after this many seconds
_USE = 0.02  # what each doubling of uses adds …
_USE_MOST = 0.1  # … up to this
_OWN = 0.15  # what a memory of type `user` gets when the question says "my"
_FIRST_PERSON = re.compile(
    r"\b(?:i|me|my|mine|je|moi|mon|ma|mes|ich|mein\w*|mich|mir|yo|mi|mis)\b|[我俺私僕]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Document:
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
        return cls(
            id=memory.path,
            name=memory.name,
            description=memory.description,
            body=memory.body,
            type=memory.type,
            mtime=memory.mtime,
            uses=uses,
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory that answers the question, with what speaks for it."""

    id: str
    score: float  # the sum of the parts
    parts: Mapping[str, float]  # name, description, body, embedding, recency, use, type
    confidence: float  # 0 to 1: how likely it belongs to the question at all


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question worked out against the places worth a closer look: arrays in their order."""

    places: Sequence[int]
    parts: Mapping[str, Floats]
    likeness: Floats
    total: Floats
    mass: float  # what all words of the question weigh here
    rarities: Mapping[str, float]  # of its words in English at large
    keys: Mapping[int, str]  # their keys in the postings
    strange_names: float


@dataclass(frozen=True, slots=True)
class _Shares:
    """By place: 1 where a document is, what its uses and type add, and when it was written."""

    alive: Floats
    use: Floats
    own: Floats
    mtime: NDArray[np.float64]


class Ranker:
    """An index of memories, changed one by one, searched as a whole. For one thread at a time: it
    counts words when it is first asked or saved; `recall/shelf.py` keeps threads apart."""

    def __init__(self) -> None:
        self._postings = Postings(len(FIELDS))
        self._lexical = Lexical(self._postings, _FIELD_WEIGHTS)
        self._vectors = Vectors(self._postings, _PULL)
        self._documents: list[Document | None] = []  # by place, without their bodies
        self._slots: dict[str, int] = {}
        self._shares: _Shares | None = None

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._slots

    @property
    def ids(self) -> Collection[str]:
        return self._slots.keys()

    def add(self, document: Document) -> None:
        """Takes a document; one with the same id is replaced."""
        self.remove(document.id)
        file = document.id.rsplit("/", 1)[-1].removesuffix(".md")
        texts = (f"{file} {document.name}", document.description, document.body)
        self._slots[document.id] = self._postings.add(
            [(runs(text), asked_runs(text)) for text in texts]
        )
        self._documents.append(replace(document, body=""))
        self._changed()

    def remove(self, id_: str) -> bool:
        """Forgets a document; says whether there was one."""
        slot = self._slots.pop(id_, None)
        if slot is None:
            return False
        self._postings.remove(slot)
        self._documents[slot] = None
        if self._postings.wants_sweep:
            self._sweep()
        self._changed()
        return True

    def _sweep(self) -> None:
        self._vectors.rows()
        stay = self._postings.sweep()
        self._vectors.keep(stay)
        self._documents = [self._documents[place] for place in stay]
        self._slots = {doc.id: place for place, doc in enumerate(self._documents) if doc}

    def used(self, id_: str, uses: int) -> None:
        """A document's new count of uses, without reading the document again."""
        slot = self._slots.get(id_)
        if slot is not None and (document := self._documents[slot]):
            self._documents[slot] = replace(document, uses=uses)
            self._shares = None

    def to_state(self) -> dict[str, Any]:
        """The whole index as plain values, for `recall/saved.py`."""
        self._sweep()
        return {
            "documents": [_as_row(document) for document in self._documents if document],
            "postings": self._postings.to_state(),
            "vectors": self._vectors.to_bytes(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Ranker:
        """The index again; ValueError or TypeError when the state contradicts itself."""
        index = cls()
        index._documents = [Document(*row) for row in state["documents"]]
        index._slots = {doc.id: place for place, doc in enumerate(index._documents) if doc}
        index._postings = Postings.from_state(len(FIELDS), state["postings"])
        index._lexical = Lexical(index._postings, _FIELD_WEIGHTS)
        index._vectors = Vectors(index._postings, _PULL)
        index._vectors.from_bytes(state["vectors"])
        if not len(index._slots) == index._postings.slots == len(index._vectors):
            raise ValueError("the index does not fit its documents")
        return index

    def _changed(self) -> None:
        self._lexical.changed()
        self._shares = None

    def search(
        self,
        query: str,
        k: int = 5,
        *,
        now: float,
        tools_in_use: Collection[str] = (),
        exclude: Collection[str] = (),
        at_least: float = 0.0,
    ) -> list[Hit]:
        """The best `k` memories, best first, none that shares nothing with the question.

        `at_least` cuts by confidence (`CONFIDENT` is the fitted line). Manuals of `tools_in_use`
        and what is in `exclude` are left out. Equal scores are ordered by id.
        """
        question = question_terms(query)
        if not question or k < 1 or not self._slots:
            return []
        asked = self._ask(query, question, now)
        tools = tool_terms(tools_in_use)
        left_out = frozenset(exclude)
        hits: list[Hit] = []
        for number in best_first(asked.total, lambda number: self._id(asked.places[number])):
            document = self._documents[asked.places[number]]
            if document is None or document.id in left_out:
                continue
            if tools and is_manual(document.name, document.description, document.type, tools):
                continue
            hit = self._hit(document.id, number, asked)
            if hit.confidence >= at_least:
                hits.append(hit)
            if len(hits) == k:
                break
        return hits

    def _id(self, slot: int) -> str:
        document = self._documents[slot]
        return document.id if document else ""

    def _ask(self, query: str, question: Mapping[str, float], now: float) -> _Asked:
        import numpy as np

        weighed = self._lexical.weigh(question)
        fields = self._lexical.score(weighed, related=_RELATED)
        words = fields[0] + fields[1] + fields[2]
        places = promising(words)
        if places is None:
            places = np.arange(len(words), dtype=np.uint32)
        likeness = self._vectors.near(weighed, places)
        above = np.maximum(likeness - np.float32(_LIKENESS_FROM), np.float32(0))
        embedding = above * np.float32(_EMBEDDING * sum(weighed.values()))
        shares = self._shares_by_place()
        relevance = (words[places] + embedding) * shares.alive[places]
        age = np.maximum(now - shares.mtime[places], 0.0)
        recency = relevance * (_RECENCY * np.exp2(-age / _HALF_LIFE)).astype(np.float32)
        use = relevance * shares.use[places]
        own = relevance * shares.own[places] * np.float32(bool(_FIRST_PERSON.search(query)))
        total = (relevance + recency + use + own).astype(np.float32, copy=False)
        parts = dict(zip(FIELDS, (field[places] for field in fields), strict=True))
        parts |= {"embedding": embedding, "recency": recency, "use": use, "type": own}
        names = proper_names(query)
        strange = [name for name in names if not self._postings.holders(name)]
        weights = rarities(question)
        return _Asked(
            places.tolist(),
            parts,
            likeness,
            total,
            sum(weighed.values()),
            weights,
            self._postings.keys_of(weights),
            len(strange) / max(len(names), 1),
        )

    def _shares_by_place(self) -> _Shares:
        import numpy as np

        if self._shares is None:
            documents = self._documents
            uses = np.array([doc.uses if doc else 0 for doc in documents], dtype=np.float32)
            use = np.minimum(_USE * np.log2(1 + np.maximum(uses, 0)), _USE_MOST)
            self._shares = _Shares(
                np.array([doc is not None for doc in documents], dtype=np.float32),
                use.astype(np.float32),
                np.array([_own(doc) for doc in documents], dtype=np.float32),
                np.nan_to_num(
                    np.array([doc.mtime if doc else 0.0 for doc in documents], dtype=np.float64)
                ),
            )
        return self._shares

    def _hit(self, id_: str, number: int, asked: _Asked) -> Hit:
        parts = {name: float(values[number]) for name, values in asked.parts.items()}
        held = self._postings.holds(asked.places[number], asked.keys)
        evidence = Evidence(
            coverage=coverage(asked.rarities, held),
            strange_names=asked.strange_names,
            likeness=float(asked.likeness[number]),
            words=sum(parts[field] for field in FIELDS) / max(asked.mass, 1e-9),
        )
        return Hit(id_, sum(parts.values()), parts, confidence(evidence))


def _as_row(document: Document) -> tuple[Any, ...]:
    """Its values in the order of `Document`."""
    return tuple(getattr(document, name) for name in Document.__slots__)


def _own(document: Document | None) -> float:
    return _OWN if document is not None and document.type == "user" else 0.0
