"""Finds what is worth keeping in what the user typed, with no model: the plain cases, and only those.

Asked to remember, corrections, confirmations, roles, dates that matter, places outside the
repository. It proposes; the gate decides. The same messages always give the same proposals. Pure:
no files, no clock, no network.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import groupby
from typing import Any, NamedTuple

from lamina.local import finding
from lamina.local.finders import (
    ASKS_FOR_HELP,
    MYSELF,
    POLITE_ORDER,
    correction,
    date_that_matters,
    fitting,
    role,
    rule,
    telling,
    wish,
)
from lamina.local.finders import confirmation as confirmed
from lamina.local.finding import Find
from lamina.local.judge import anchored, completed, judged, may_last, opinion, weighed
from lamina.memories import MEMORY_TYPES, Evidence, MemoryType, Proposal
from lamina.memory import file_name, free_names
from lamina.text.asks import classify, declines
from lamina.text.cue_words import LANGUAGES, SARCASM, SECRET, Cues
from lamina.text.dates import find_dates, with_absolute_dates
from lamina.text.likeness import restated
from lamina.text.lists import Listed, words
from lamina.text.origins import asks_somebody
from lamina.text.own_words import Sentence, typed_sentences, untyped_text


def extract(
    messages: Sequence[Mapping[str, Any]],
    *,
    now: datetime,
    session: str = "",
    speaker: str = "typed",
) -> list[Proposal]:
    """Memories that the user's typed words plainly ask for, oldest first.

    A message is `{role, content, origin, time?, uuid?}`; content is a string or blocks, and a block
    may carry its own `origin`. Only `typed` text is read, or that of another `speaker`, which proves
    nothing. Dates count from the message's `time`, else from `now`.
    """
    proposals: dict[str, Proposal] = {}
    foreign = untyped_text(messages)
    sentences = typed_sentences(messages, now, speaker=speaker)
    for _, group in groupby(sentences, key=lambda sentence: sentence.message):
        for find in _finds_in(list(group), foreign):
            proposal = _proposal(find, session)
            if speaker != "typed":
                proposal = replace(proposal, evidence=())
            for path in free_names(proposal.path, proposal.body):
                known = proposals.setdefault(path, replace(proposal, path=path))
                if known.body == proposal.body:
                    break
    return list(proposals.values())


# ---- what is said again and again

_SESSIONS = 3  # in which it must have been said
_SAME_MOMENT = 30.0  # seconds within which records of two kinds hold one and the same message


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
    found = next(_finds_of(one.message, one.place), None)
    if found is not None and found.because == (sentence,):
        return found
    return may_last(one.message, one.place, rules)


def _of_other_days(finds: Sequence[Find]) -> bool:
    """ "The release is tomorrow", said on three days, is said of three releases."""
    dated = [(find.text, find.because[0].said.date()) for find in finds if find.type == "project"]
    return len({tuple(hit.day for hit in find_dates(text, said)) for text, said in dated}) > 1


def _candidate(find: Find, heard: Sequence[_Heard]) -> Proposal:
    proposal = _proposal(find, heard[0].session)
    evidence = [
        Evidence(one.sentence.text.strip(), one.session, one.sentence.entry) for one in heard
    ]
    days = [f"{one.sentence.said:%Y-%m-%d}" for one in heard]
    quotes = [
        f"“{finding.shortened(' '.join(one.quote.split()), 80)}” ({day})"
        for one, day in zip(evidence[:_SHOWN], days, strict=False)
    ]
    more = f" and {len(heard) - _SHOWN} more" if len(heard) > _SHOWN else ""
    return replace(
        proposal,
        writer="dream",
        evidence=tuple(evidence),
        reason=f"You said this in {len(heard)} sessions: {', '.join(quotes)}{more}.",
    )


_SHOWN = 5  # quotes


def kind_of(fact: str) -> MemoryType:
    """The type of what the user asked to remember: the same, whoever writes it down."""
    asked = {"role": "user", "origin": "typed", "content": f"Remember that {fact}"}
    # Any day will do: dates make a fact of the project, whichever they are.
    message = typed_sentences([asked], datetime(2000, 1, 1, tzinfo=UTC))
    found = wish(message, 0, LANGUAGES[message[0].lang]) if message else None
    if found is None:
        return "user" if MYSELF.search(fact) else "project"
    if found.certain:
        return found.type
    return fitting(opinion(message, 0).type, found.text)


def kind_added(fact: str) -> MemoryType:
    """The type of what the user writes down as a memory: a fact of the project, unless it is of them."""
    return kind_of(fact) if MYSELF.search(fact) else "project"


def _finds_in(message: list[Sentence], foreign: str) -> list[Find]:
    """What one typed message holds."""
    declined = max((n for n, one in enumerate(message) if declines(one.plain)), default=-1)
    message = message[declined + 1 :]
    whole = " ".join(sentence.plain for sentence in message)
    if (
        not message
        or SARCASM.search(whole)
        or any(classify(sentence.plain).imagines for sentence in message)
    ):
        return []
    confirmation = confirmed(message, foreign)
    if confirmation and any(_wished(message, place) for place in range(len(message))):
        confirmation = None
    confirmation = confirmation and weighed(confirmation, message)
    finds = [confirmation] if confirmation else []
    told = dict.fromkeys(confirmation.because, "feedback") if confirmation else {}
    for place, sentence in enumerate(message):
        if sentence.material or sentence in told or SECRET.search(sentence.text):
            continue
        if classify(sentence.plain).forgets:  # kept, it would be said again
            continue
        for find in _finds_of(message, place):
            completes = any(set(one.because) < set(find.because) for one in finds)
            asked = find.reason == finding.ASKED and completes
            if told.get(find.because[0]) == find.type and not asked:
                continue  # "keep it that way": what it leans on was kept a moment ago
            told.update(dict.fromkeys(find.because, find.type))
            # A rule that brings along what it leans on says that, too.
            finds = [one for one in finds if not set(one.because) < set(find.because)]
            finds.append(_of_the_user(find))
    return _as_kept(finds)


def _of_the_user(find: Find) -> Find:
    """ "My goal is to …": what the speaker means to do is no fact of the project, but one of theirs."""
    own = find.type == "project" and find.reason == finding.TOLD and MYSELF.search(find.text)
    return replace(find, type="user") if own and asks_somebody(find.text) else find


def _as_kept(finds: list[Find]) -> list[Find]:
    """The user's word is kept as their whole message, so two things of one kind in it are one memory."""
    told: dict[MemoryType, Find] = {}
    kept: list[Find] = []
    for find in finds:
        first = told.get(find.type) if find.reason == finding.TOLD else None
        if first is None:
            kept.append(find)
            if find.type in ("user", "feedback") and not find.assistant:
                told[find.type] = find
            continue
        because = (*first.because, *(one for one in find.because if one not in first.because))
        both = replace(first, text=f"{first.text.rstrip()} {find.text}", because=because)
        kept[kept.index(first)] = told[find.type] = both
    return kept


def _wished(message: list[Sentence], place: int) -> bool:
    return wish(message, place, LANGUAGES[message[place].lang]) is not None


def _finds_of(message: list[Sentence], place: int) -> Iterator[Find]:
    """What one sentence holds: mostly one thing; a date, a rule and a role may share it clause by clause."""
    sentence, rules = message[place], LANGUAGES[message[place].lang]
    if end := _THEN_ASKS.search(sentence.plain):
        told = replace(
            sentence, text=sentence.text[: end.start()], plain=sentence.plain[: end.start()]
        )
        message = [*message[:place], told, *message[place + 1 :]]
        sentence = told
    wished = wish(message, place, rules)
    asked = rules.question.search(sentence.plain) and not POLITE_ORDER.match(sentence.plain)
    if wished or sentence.document or asked:
        if wished and (kept := weighed(wished, message)):
            yield kept
        return
    if ASKS_FOR_HELP.match(sentence.plain) and not POLITE_ORDER.match(sentence.plain):
        first = telling(sentence, rules)
        if first is None:
            return
    else:
        first = _first_find(message, place, rules)
    found, first = first, first and weighed(first, message)
    if found and not first and found.reason in {finding.DATE, finding.RULE}:
        # A date or a rule that is doubted may stand in a statement that is not.
        told = telling(sentence, rules)
        first = told and weighed(told, message)
    first = first and anchored(first, message, place)
    if first is None:
        if learned := judged(message, place, rules):
            yield completed(learned, message, place, _room_after(message, place))
        return
    clauses = [] if first.type == "reference" else _clauses(sentence)
    found = [find for clause in clauses if (find := _first_find([clause], 0, rules))]
    kinds = {find.type for find in found}
    whole = not any(_HALF.match(find.text) for find in found)
    if (
        whole
        and len(kinds) > 1
        and len(kinds) == len(found)
        and kinds <= {"project", "feedback", "user"}
    ):
        yield from found
    else:
        yield completed(first, message, place, _room_after(message, place))


def _room_after(message: list[Sentence], place: int) -> bool:
    """Is there a sentence behind this one that is no rule of its own?"""
    after = place + 1
    if after == len(message):
        return False
    return _first_find(message, after, LANGUAGES[message[after].lang]) is None


def _first_find(message: list[Sentence], place: int, rules: Cues) -> Find | None:
    sentence = message[place]
    return (
        date_that_matters(sentence, rules)
        or rule(message, place, rules)
        or role(sentence, rules)
        or correction(message, place, rules)
        or telling(sentence, rules)
    )


_THEN_ASKS = Listed("telling.then_asks")
_HALF = Listed("finders.half")
_JOINT = Listed("finders.clause_joint", flags=re.NOFLAG)


def _clauses(sentence: Sentence) -> list[Sentence]:
    """The clauses of a sentence, each an exact part of it."""
    parts: list[Sentence] = []
    start = 0
    for joint in [*_JOINT.finditer(sentence.plain), None]:
        end = joint.start() if joint else len(sentence.plain)
        text = sentence.text[start:end]
        if text.strip():
            parts.append(replace(sentence, text=text, plain=sentence.plain[start:end]))
        start = joint.end() if joint else end
    return parts if len(parts) > 1 else []


def _proposal(find: Find, session: str) -> Proposal:
    first = find.because[0]
    rules = LANGUAGES[first.lang]
    text = " ".join(find.text.split())
    said = first.said.date()
    body, extra = _body(find, text, rules), {"said": said.isoformat()}
    if find.type == "project" and (due := _due(find, text, said)):
        extra["due"] = due
    subject = find.assistant or text
    # The index is read on another day: "tomorrow" must not stand there alone either.
    dated = with_absolute_dates(subject, said) if find.type == "project" else subject
    return Proposal(
        path=file_name(find.type, finding.title(subject, rules)),
        name=finding.title(dated, rules),
        description=finding.shortened(dated, 150),
        type=find.type,
        body=body,
        writer="extraction",
        evidence=tuple(Evidence(s.text, session, s.entry) for s in find.because),
        session=session,
        reason=find.reason,
        extra=extra,
    )


def _body(find: Find, text: str, rules: Cues) -> str:
    if find.type in {"user", "reference"}:
        return finding.sentence_case(text) + "\n"
    said = find.because[0].said.date()
    if find.type == "project":
        text = with_absolute_dates(text, said)
    if find.assistant:
        return finding.rule_body(find.assistant, "", text)
    if find.type == "project":  # in their words alone: with any of ours it would not speak
        return finding.rule_body(text, "" if find.why in text else find.why, "")
    return finding.rule_body(text, find.why, finding.scope_of(text, rules))


def _due(find: Find, text: str, said: date) -> str:
    """The last day that a statement speaks of, if it lies ahead; what was settled may only begin then."""
    if find.reason == finding.TOLD and not _ENDS.search(text):
        return ""
    ahead = [hit.day for hit in find_dates(text, said) if hit.day >= said and not hit.recurs]
    return max(ahead).isoformat() if ahead else ""


_ENDS = words("telling.ends")
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)\.md$")
_ENTRY = re.compile(r"^(?:[-*•]\s+)?(?:\[?\d{1,2}[:.h]\d\d(?::\d\d)?\]?\s*(?:[-–—:]\s*)?)?")
_BULLET = re.compile(r"^(?:[-*•]\s|\[?\d{1,2}[:.]\d\d)")
# An agent writes of the user; the rules know how a user speaks of themselves.
_AS_SAID = (
    (Listed("finders.reported_wish"), "Remember that "),
    (Listed("finders.reported"), ""),
)


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
    name = finding.title(text, LANGUAGES["en"])
    body = text
    for label in ("**Why:**", "**How to apply:**"):  # an entry is one line
        body = body.replace(f" {label}", f"\n{label}")
    return Proposal(
        path=file_name(kind, name, text),
        name=name,
        description=finding.shortened(text.partition("**Why:**")[0].strip(), 150),
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
