"""What a dream finds by rules, with no model: what the user said again and again in several sessions, and
what the entries of a diary become. Pure: no files, no clock, no network.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple

from lamina.local.extractor import extract, finds_of, proposal_of, shortened, title
from lamina.local.finders import POLITE_ORDER, Find
from lamina.local.judge import may_last
from lamina.memories import MEMORY_TYPES, Evidence, MemoryType, Proposal
from lamina.memory import file_name
from lamina.text.asks import classify, declines
from lamina.text.cue_words import LANGUAGES, SARCASM, SECRET
from lamina.text.dates import find_dates
from lamina.text.likeness import restated
from lamina.text.lists import Listed
from lamina.text.own_words import Sentence, typed_sentences

_SESSIONS = 3  # in which it must have been said
_SAME_MOMENT = 30.0  # seconds within which records of two kinds hold one and the same message
_SHOWN = 5  # quotes
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)\.md$")
_ENTRY = re.compile(r"^(?:[-*•]\s+)?(?:\[?\d{1,2}[:.h]\d\d(?::\d\d)?\]?\s*(?:[-–—:]\s*)?)?")
_BULLET = re.compile(r"^(?:[-*•]\s|\[?\d{1,2}[:.]\d\d)")
# An agent writes of the user; the rules know how a user speaks of themselves.
_AS_SAID = (
    (Listed("finders.reported_wish"), "Remember that "),
    (Listed("finders.reported"), ""),
)


class _Heard(NamedTuple):
    session: str
    message: list[Sentence]
    place: int

    @property
    def sentence(self) -> Sentence:
        return self.message[self.place]


def said_again(
    sessions: Mapping[str, Sequence[Mapping[str, Any]]], *, now: datetime
) -> list[Proposal]:
    """What the user typed in three or more sessions, in whatever words, and did not say otherwise since;
    the evidence is the last time in each session, newest first. Messages are those of `extract`."""
    heard = _heard(sessions, now)
    same: list[set[int]] = [{number} for number in range(len(heard))]
    against: defaultdict[int, list[int]] = defaultdict(list)
    for one, other, alike in restated([one.sentence.text for one in heard]):
        for first, second in ((one, other), (other, one)):
            if alike:
                same[first].add(second)
            else:
                against[first].append(second)
    proposals: list[Proposal] = []
    told: set[int] = set()
    for centre in sorted(range(len(heard)), key=lambda number: (-len(same[number]), number)):
        members = sorted(same[centre] - told, key=lambda number: heard[number].sentence.said)
        if centre in told or len({heard[one].session for one in members}) < _SESSIONS:
            continue
        told.update(members)
        finds = [find for one in members if (find := _lasting(heard[one]))]
        since = heard[members[-1]].sentence.said
        turned = any(
            heard[other].sentence.said > since for one in members for other in against[one]
        )
        if 2 * len(finds) < len(members) or turned or _of_other_days(finds):
            continue
        last = {heard[one].session: heard[one] for one in members}
        newest = sorted(last.values(), key=lambda one: one.sentence.said, reverse=True)
        proposals.append(_candidate(finds[-1], newest))
    return proposals


def _heard(sessions: Mapping[str, Sequence[Mapping[str, Any]]], now: datetime) -> list[_Heard]:
    """Typed sentences of all sessions. A message that records of two kinds hold (sessions in different
    folders), or that a resumed session repeats with its time, was typed once."""
    found: list[_Heard] = []
    times: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
    for session, messages in sessions.items():
        sentences = typed_sentences(messages, now)
        for _, group in groupby(sentences, key=lambda sentence: sentence.message):
            message = list(group)
            for place, sentence in enumerate(message):
                at, known = sentence.said.timestamp(), times[sentence.text]
                kind = session.rpartition("/")[0]
                if any(
                    at == other if kind == one else abs(at - other) < _SAME_MOMENT
                    for one, other in known
                ):
                    continue
                known.append((kind, at))
                if not (sentence.material or sentence.document or _asks(sentence)):
                    found.append(_Heard(session, message, place))
    return found


def _asks(sentence: Sentence) -> bool:
    asked = LANGUAGES[sentence.lang].question.search(sentence.plain)
    return bool(asked or classify(sentence.plain).asks) and not POLITE_ORDER.match(sentence.plain)


def _lasting(one: _Heard) -> Find | None:
    """What one of them says, if it may be worth keeping."""
    sentence, rules = one.sentence, LANGUAGES[one.sentence.lang]
    kind = classify(sentence.plain)
    if kind.imagines or kind.confirms or kind.forgets or declines(sentence.plain):
        return None
    if SARCASM.search(sentence.plain) or SECRET.search(sentence.text):
        return None
    found = next(finds_of(one.message, one.place), None)
    if found is not None and found.because == (sentence,):
        return found
    return may_last(one.message, one.place, rules)


def _of_other_days(finds: Sequence[Find]) -> bool:
    """ "The release is tomorrow", said on three days, is said of three releases."""
    dated = [(find.text, find.because[0].said.date()) for find in finds if find.type == "project"]
    return len({tuple(hit.day for hit in find_dates(text, said)) for text, said in dated}) > 1


def _candidate(find: Find, heard: Sequence[_Heard]) -> Proposal:
    proposal = proposal_of(find, heard[0].session)
    evidence = [
        Evidence(one.sentence.text.strip(), one.session, one.sentence.entry) for one in heard
    ]
    days = [f"{one.sentence.said:%Y-%m-%d}" for one in heard]
    quotes = [
        f"“{shortened(' '.join(one.quote.split()), 80)}” ({day})"
        for one, day in zip(evidence[:_SHOWN], days, strict=False)
    ]
    more = f" and {len(heard) - _SHOWN} more" if len(heard) > _SHOWN else ""
    return replace(
        proposal,
        writer="dream",
        evidence=tuple(evidence),
        reason=f"You said this in {len(heard)} sessions: {', '.join(quotes)}{more}.",
    )


# ---- the diary


def entries(log: str) -> Iterator[str]:
    """The entries of one day, without bullet and time; indented lines belong to the one before."""
    entry = ""
    for line in [*log.splitlines(), "-"]:
        if entry and line[:1] in " \t" and line.strip():
            entry += f" {line.strip()}"
            continue
        if words := _ENTRY.sub("", entry).strip():
            yield " ".join(words.split())
        entry = line.strip() if _BULLET.match(line) else ""


def distil(
    logs: Mapping[str, str], known: Collection[str] = ()
) -> Iterator[tuple[str, list[Proposal]]]:
    """For each entry that was not worked in before: its mark, and what the rules make of it."""
    for path, log in sorted(logs.items()):
        day = _DAY.search(path)
        if day is None:
            continue
        try:
            said = datetime.fromisoformat(day[1]).replace(hour=12, tzinfo=UTC)
        except ValueError:
            continue
        for entry in entries(log):
            mark = hashlib.sha256(f"{day[1]}\n{entry}".encode("utf-8", "replace")).hexdigest()[:20]
            if mark in known:
                continue
            yield mark, _made_of(entry, said)


def _as_logged(kind: MemoryType, text: str, said: datetime) -> Proposal:
    """What was saved as a memory, in a project that keeps a diary."""
    name = title(text, LANGUAGES["en"])
    body = text
    for label in ("**Why:**", "**How to apply:**"):  # an entry is one line
        body = body.replace(f" {label}", f"\n{label}")
    return Proposal(
        path=file_name(kind, name, text),
        name=name,
        description=shortened(text.partition("**Why:**")[0].strip(), 150),
        type=kind,
        body=f"{body.strip()}\n",
        writer="extraction",
        reason="logged as a memory",
        extra={"said": said.date().isoformat()},
    )


def _made_of(entry: str, said: datetime) -> list[Proposal]:
    """What one entry of the agent's becomes. It is the agent's own word, whatever it reports."""
    kind, bracket, text = entry[1:].partition("] ")
    if entry[:1] == "[" and bracket and kind in MEMORY_TYPES:
        return [_as_logged(kind, text, said)]
    for pattern, instead in _AS_SAID:
        entry = pattern.sub(instead, entry, count=1)
    when = said.isoformat()
    message = {"role": "user", "content": entry, "origin": "assistant", "time": when}
    return extract([message], now=said, speaker="assistant")
