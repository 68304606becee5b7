"""Searches past sessions turn by turn. What helps in a dialogue and nowhere else lives here: the
turns around, the whole session, who spoke, and when. Lives in memory; touches no files."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from lamina.local.embedder import Meanings
from lamina.recall import Match
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
    question_terms,
    rarity,
    turn_confidence,
)
from lamina.recall.term_counts import Doubles, Floats, Places
from lamina.text.dates import asked_dates, asked_span, date_terms
from lamina.text.lists import words
from lamina.text.terms import spaced, terms

_TEXT, _DATE = 0, 1
_FIELDS = 2
_SESSION = Field()
_ROLES = frozenset({"user", "assistant", "human", "system", "tool", "agent", "model"})

# What each part is worth, in shares of the question's whole weight: round numbers that every kind of
# talk shares, chosen with one data set left out (bench/results/recall.md). `span`, which no set but
# LongMemEval can show, was set by hand.
WEIGHTS: Mapping[str, float] = {
    "text": 1.0,
    "beside": 0.2,  # each of the two turns before and the two after
    "answer": 0.6,
    "session": 0.4,
    "speaker": 0.7,
    "date": 0.5,
    "span": 0.3,
    "embedding": 0.5,
    "meaning": 0.7,  # with the extra `semantic` only
}
# What stands around a turn counts whole in talk of short turns, which lean on each other; where a
# session's turns have more terms than this on average, they speak for themselves.
BRIEF = 20.0
_AROUND = ("beside", "answer", "session")
# What an assistant's turn counts for, when it answers somebody: its own words, and those it answers.
REPLY = (0.7, 0.45)
# In talk with an assistant one of the two is asked for: what a turn of the other one counts. An
# assistant repeats at length what the user said in a sentence.
OTHER_ROLE = 0.5
_SAVED_COLUMNS = ("_session_of", "_before", "_speaker_of", "_said", "_asking")
_LIKENESS_FROM = 0.3  # a likeness below this is chance
_MEANING_FROM = 0.15
_YOUR_WORD = words("recall.your_word")
_EXPLAIN = words("recall.explain")
_MANY_WORDS = 14


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing that somebody said. Turns of a session are added in the order of speaking."""

    id: str
    session: str
    text: str
    speaker: str = ""
    said: float = 0.0  # timestamp; 0 where unknown


@dataclass(frozen=True, slots=True)
class _Columns:
    """What is known of every turn whatever is asked, by place; `session_norm` is by session."""

    session: Places
    before: Places
    after: Places
    before2: Places
    after2: Places
    speaker: Places
    said: Doubles
    answering: Floats  # 1 where the turn before is a question, except for the assistant's answers
    terms: Floats  # of a turn in its session, on average
    replies_to: Places  # of an assistant's turn: what somebody else said last before it; else -1
    session_norm: Floats  # what BM25 sets against the counts of a session, by how long it is
    named: Mapping[str, set[int]]  # term of a speaker's name -> speakers


@dataclass(frozen=True, slots=True)
class WeighedParts:
    """What was found of every turn, by part and place, and what all of it is worth together."""

    found: Mapping[str, Floats]
    weights: Mapping[str, float]
    around: Floats  # what the parts of what stands around count: by how brief the talk is
    counts: Floats  # by who is asked for, and less for an answer's own words
    answered: Floats  # what an answer gets of what it answers
    total: Floats

    @classmethod
    def of(
        cls,
        found: Mapping[str, Floats],
        weights: Mapping[str, float],
        brief: float,
        terms: Floats,
        replies_to: Places,
        asked_for: Floats,
    ) -> WeighedParts:
        """An assistant's answer counts together with what it answers; `asked_for` becomes part of
        this."""
        own, asked = np.float32(REPLY[0]), np.float32(REPLY[1])
        around = np.minimum(np.float32(brief) / terms, np.float32(1))
        total = np.zeros_like(asked_for)
        for name, values in found.items():
            weight = np.float32(weights[name])
            total += values * (weight * around if name in _AROUND else weight)
        answered = np.zeros_like(total)
        replies = np.flatnonzero(replies_to >= 0)
        if len(replies):
            answers = asked_for[replies]
            answered[replies] = total[replies_to[replies]] * answers * asked
            asked_for[replies] = answers - answers * (1 - own)
        total *= asked_for
        total += answered
        return cls(found, weights, around, asked_for, answered, total)

    def at(self, slot: int) -> dict[str, float]:
        """The parts of one turn, which add up to its total."""
        parts = dict.fromkeys(self.weights, 0.0)
        for name, values in self.found.items():
            weight = np.float32(self.weights[name])
            weight = weight * self.around[slot] if name in _AROUND else weight
            value = values[slot] * weight * self.counts[slot]
            parts[name] = float(value + self.answered[slot] if name == "answer" else value)
        return parts


@dataclass(frozen=True, slots=True)
class _ScoredTurns:
    """A question worked out against the index: arrays by place, and what it asks for."""

    parts: WeighedParts
    likeness: Floats
    named: frozenset[str]  # terms of the question that are speakers
    terms: QuestionTerms

    @property
    def meant(self) -> Floats | None:
        """Above the line."""
        return self.parts.found.get("meaning")


class TurnIndex:
    """An index of turns, grown as sessions go on."""

    def __init__(self) -> None:
        self._use(Postings(_FIELDS))
        self._ids: list[str] = []
        self._slots: dict[str, int] = {}
        self._sessions: dict[str, int] = {}  # name -> number
        self._session_of = array("I")
        self._last: dict[int, int] = {}  # number of a session -> its latest place
        self._before = array("i")  # the turn before in the same session, or -1
        self._speaker_of = array("I")
        self._speakers: dict[str, int] = {"": 0}
        self._said = array("d")
        self._asking = array("B")  # whether a turn is a question
        self._columns: _Columns | None = None
        self.meanings: Meanings | None = None  # whoever has the texts may give it what they mean

    def _use(self, postings: Postings) -> None:
        self._postings = postings
        self._words = Bm25(postings, [Field()])  # the text's; days are looked up
        self._vectors = DocumentVectors(postings, VectorWords(_FIELDS, body=_TEXT))

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def ids(self) -> Sequence[str]:
        return self._ids

    def add(self, turn: Turn) -> None:
        """Takes the next turn of its session; a turn that is known already changes nothing."""
        if turn.id in self._slots:
            return
        slot = self._postings.add([spaced(turn.text), " ".join(date_terms(turn.said)).encode()])
        session = self._sessions.setdefault(turn.session, len(self._sessions))
        self._before.append(self._last.get(session, -1))
        self._last[session] = slot
        self._session_of.append(session)
        name = turn.speaker.casefold()
        self._speaker_of.append(self._speakers.setdefault(name, len(self._speakers)))
        self._said.append(turn.said)
        self._asking.append(turn.text.rstrip().endswith(("?", "？")))
        self._ids.append(turn.id)
        self._slots[turn.id] = slot
        self._changed()

    def _changed(self) -> None:
        self._words.changed()
        self._columns = None

    def remove_sessions(self, sessions: Collection[str]) -> int:
        """Forgets all turns of some sessions; says how many there were."""
        numbers = {self._sessions.pop(session, -1) for session in sessions} - {-1}
        gone = [slot for slot, of in enumerate(self._session_of) if of in numbers]
        if numbers:
            for slot in gone:
                self._postings.remove(slot)
            self._sweep()
        return len(gone)

    def _sweep(self) -> None:
        """Closes the gaps. Sessions go as a whole, so the turn before always moves along."""
        stay = self._postings.sweep()
        self._vectors.keep(stay)
        place = {old: new for new, old in enumerate(stay)}
        self._before = array("i", [place.get(self._before[slot], -1) for slot in stay])
        numbers: dict[int, int] = {}
        for slot in stay:
            numbers.setdefault(self._session_of[slot], len(numbers))
        self._sessions = {
            name: numbers[number] for name, number in self._sessions.items() if number in numbers
        }
        self._session_of = array("I", [numbers[self._session_of[slot]] for slot in stay])
        self._last = {session: slot for slot, session in enumerate(self._session_of)}
        names, heard = list(self._speakers), dict[str, int]({"": 0})
        spoken = [names[self._speaker_of[slot]] for slot in stay]
        self._speaker_of = array("I", [heard.setdefault(name, len(heard)) for name in spoken])
        self._speakers = heard
        self._said = array("d", [self._said[slot] for slot in stay])
        self._asking = array("B", [self._asking[slot] for slot in stay])
        self._ids = [self._ids[slot] for slot in stay]
        self._slots = {id_: slot for slot, id_ in enumerate(self._ids)}
        self._changed()

    def to_state(self) -> dict[str, Any]:
        """The whole index as plain values."""
        return {
            "ids": self._ids,
            "sessions": sorted(self._sessions, key=self._sessions.__getitem__),
            "speakers": list(self._speakers),
            "columns": [getattr(self, name).tobytes() for name in _SAVED_COLUMNS],
            "postings": self._postings.to_state(),
            "vectors": self._vectors.to_state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TurnIndex:
        """The index again; ValueError or TypeError when the state contradicts itself."""
        index = cls()
        index._ids = list(state["ids"])
        index._slots = {id_: slot for slot, id_ in enumerate(index._ids)}
        index._sessions = {name: number for number, name in enumerate(state["sessions"])}
        index._speakers = {name: number for number, name in enumerate(state["speakers"])}
        for name, saved in zip(_SAVED_COLUMNS, state["columns"], strict=True):
            getattr(index, name).frombytes(saved)
            if len(getattr(index, name)) != len(index._ids):
                raise ValueError("a column does not fit the turns")
        index._last = {session: slot for slot, session in enumerate(index._session_of)}
        index._use(Postings.from_state(_FIELDS, state["postings"]))
        index._vectors.from_state(state["vectors"])
        if not len(index._slots) == index._postings.slots == len(index._vectors):
            raise ValueError("the index does not fit its turns")
        return index

    def search(
        self,
        query: str,
        k: int = 5,
        *,
        now: float,
        without: str = "",
        at_least: float = 0.0,
        since: float = -inf,
        until: float = inf,
    ) -> list[Match]:
        """The best `k` turns said within a time, best first; equal scores are ordered by id. One
        session can be left out whole."""
        asked = self._ask(query, now) if k > 0 and self._slots else None
        if asked is None:
            return []
        no_session = self._sessions.get(without, -1)
        matches: list[Match] = []
        for slot in best_first(asked.parts.total, self._ids.__getitem__):
            # A turn whose time nobody knows (nan) is left in.
            if self._said[slot] < since or self._said[slot] > until:
                continue
            if self._session_of[slot] == no_session:
                continue
            sure = self._confidence(slot, asked)
            if sure >= at_least:
                parts = asked.parts.at(slot)
                matches.append(Match(self._ids[slot], sum(parts.values()), parts, sure))
            if len(matches) == k:
                break
        return matches

    def _ask(self, query: str, now: float) -> _ScoredTurns | None:
        """A question worked out against all turns; None when it has no words to look for."""
        columns = self._arrays()
        question = question_terms(query)
        named = {term: columns.named[term] for term in question if term in columns.named}
        core = {term: weight for term, weight in question.items() if term not in named} or question
        if not core:
            return None
        weighed = self._words.weigh(core)
        mass = np.float32(sum(weighed.values()) or 1.0)
        text = self._words.score(weighed)[_TEXT] / mass
        likeness = self._vectors.near(weighed)
        near = np.maximum(likeness - np.float32(_LIKENESS_FROM), np.float32(0))
        near_by = np.append(text, np.float32(0))  # a turn that is not there is at -1
        before, after, before2, after2 = (
            near_by.take(places, mode="wrap")
            for places in (columns.before, columns.after, columns.before2, columns.after2)
        )
        session = self._by_session(weighed, columns)
        found = {  # None: nothing in the question speaks of it
            "text": text,
            "beside": before + after + before2 + after2,
            "answer": before * columns.answering,
            "session": session,
            "speaker": self._spoken(named, columns),
            "date": self._dated(query),
            "span": _within(columns.said, asked_span(query, now)),
            "embedding": near,
            "meaning": self._meant(query, named),
        }
        there = {name: values for name, values in found.items() if values is not None}
        asked_for = self._asked_for(query)[columns.speaker]
        parts = WeighedParts.of(there, WEIGHTS, BRIEF, columns.terms, columns.replies_to, asked_for)
        parts.total[text + session + near + there.get("meaning", 0) <= 0] = 0
        asked = QuestionTerms.of(query, question, self._postings, named)
        return _ScoredTurns(parts, likeness, frozenset(named), asked)

    def _arrays(self) -> _Columns:
        if self._columns is not None:
            return self._columns
        lengths, _ = self._postings.lengths(_TEXT)
        session = np.array(self._session_of, dtype=np.intp)
        before = np.array(self._before, dtype=np.intp)
        after = np.full(len(before), -1, dtype=np.intp)
        has = before >= 0
        after[before[has]] = np.flatnonzero(has)
        speaker = np.array(self._speaker_of, dtype=np.intp)
        asking = np.append(np.array(self._asking, dtype=bool), False)
        replies_to = _answered(before, speaker, self._speakers.get("assistant", -1))
        answering = asking[before] & (replies_to < 0)
        said = np.nan_to_num(np.array(self._said, dtype=np.float64))
        by_session = np.bincount(session, weights=lengths).astype(np.float32)
        mean = np.float32(max(float(by_session.mean()), 1e-9))
        of_turns = by_session / np.maximum(np.bincount(session), 1)
        named: dict[str, set[int]] = {}
        for name, number in self._speakers.items():
            for term in terms(name) if name not in _ROLES else ():
                named.setdefault(term, set()).add(number)
        self._columns = _Columns(
            session,
            before,
            after,
            np.append(before, -1)[before],  # -1, where there is nothing, stays -1
            np.append(after, -1)[after],
            speaker,
            said,
            answering.astype(np.float32),
            np.maximum(of_turns, 1).astype(np.float32)[session],
            replies_to,
            _SESSION.saturation * (1 - _SESSION.length + _SESSION.length * by_session / mean),
            named,
        )
        return self._columns

    def _spoken(self, named: Mapping[str, set[int]], columns: _Columns) -> Floats | None:
        """1 for turns that a person named in the question spoke."""
        people = set[int]().union(*named.values())
        if not people:
            return None
        among = np.zeros(len(self._speakers), dtype=np.float32)
        among[list(people)] = 1
        return among[columns.speaker]

    def _meant(self, query: str, named: Mapping[str, set[int]]) -> Floats | None:
        """How near a turn's meaning is to the question's, without the names of speakers: people say
        each other's names, hardly ever their own."""
        if self.meanings is None:
            return None
        words = [word for word in query.split() if not named or not set(terms(word)) & named.keys()]
        near = self.meanings.near(" ".join(words), self._ids)
        return np.maximum(near - np.float32(_MEANING_FROM), np.float32(0))

    def _asked_for(self, query: str) -> Floats:
        """By speaker, what a turn counts: people all the same, of user and assistant the one who
        is not asked for less. A search that speaks of neither asks both."""
        counts = np.ones(len(self._speakers), dtype=np.float32)
        explains = len(query.split()) >= _MANY_WORDS and _EXPLAIN.search(query)
        if _YOUR_WORD.search(query):
            other = "user"
        elif FIRST_PERSON.search(query) and not explains:
            other = "assistant"
        else:
            return counts
        if (number := self._speakers.get(other)) is not None:
            counts[number] = OTHER_ROLE
        return counts

    def _by_session(self, weighed: Mapping[str, float], columns: _Columns) -> Floats:
        """BM25 of each turn's whole session, in shares of the question's weight."""
        norm = columns.session_norm
        sessions = len(norm)
        total, mass = np.zeros(sessions, dtype=np.float32), 1e-9
        for term, weight in weighed.items():
            found = self._postings.find(term, _TEXT)
            holders = 0
            if found is not None:
                counts = np.bincount(columns.session.take(found[0]), found[1], sessions)
                holders = int(np.count_nonzero(counts))
                gain = _SESSION.gain(weight * rarity(holders, sessions))
                total += gain * (counts / (counts + norm)).astype(np.float32)
            mass += weight * rarity(holders, sessions)
        return (total / np.float32(mass))[columns.session]

    def _dated(self, query: str) -> Floats | None:
        """The share of the dates named in the question that a turn's day has."""
        dates = asked_dates(query)
        if not dates:
            return None
        asked = self._words.weigh(dict.fromkeys(dates, 1.0))
        total = np.zeros(self._postings.slots, dtype=np.float32)
        mass = sum(asked.values())
        for term, weight in asked.items():
            found = self._postings.find(term, _DATE)
            if found is not None:
                total[found[0]] += np.float32(weight / mass)
        return total

    def _confidence(self, slot: int, asked: _ScoredTurns) -> float:
        """The words of the turns beside it count as a turn's own."""
        columns = self._arrays()
        places = {slot, int(columns.before[slot]), int(columns.after[slot])} - {-1}
        held = asked.named.union(
            *(self._postings.holds(place, asked.terms.keys) for place in places)
        )
        sure = turn_confidence(
            coverage=asked.terms.coverage(held),
            likeness=float(asked.likeness[slot]),
            strange_names=asked.terms.strange_names,
        )
        if asked.meant is None:
            return sure
        return max(sure, meant_confidence(float(asked.meant[slot]) + _MEANING_FROM))


def _answered(before: Places, speaker: Places, number: int) -> Places:
    """For each turn of this speaker the place of what somebody else said last before it, or -1."""
    assistant = speaker == number
    found = np.where(assistant, before, -1)
    while len(again := np.flatnonzero((found >= 0) & assistant[found])):
        found[again] = found[found[again]]
    return found


def _within(said: Doubles, span: tuple[float, float] | None) -> Floats | None:
    return None if span is None else ((said >= span[0]) & (said <= span[1])).astype(np.float32)
