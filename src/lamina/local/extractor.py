"""Finds what is worth keeping in what the user typed, with no model: the plain cases, and only those.

Asked to remember, corrections, confirmations, roles, dates that matter, places outside the
repository. It proposes; the gate decides. The same messages always give the same proposals. Pure:
no files, no clock, no network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import groupby
from typing import Any

from lamina.local.finders import (
    ASKED,
    ASKS_FOR_HELP,
    DATE,
    MYSELF,
    POLITE_ORDER,
    RULE,
    SECOND_STATEMENT,
    TOLD,
    Find,
    correction,
    date_that_matters,
    fitting,
    role,
    rule,
    telling,
    wish,
    without_opener,
)
from lamina.local.finders import confirmation as confirmed
from lamina.local.judge import anchored, completed, goes_along, judged, opinion, weighed
from lamina.memories import Evidence, MemoryType, Proposal
from lamina.memory import file_name, free_names
from lamina.text.asks import classify, declines
from lamina.text.cue_words import LANGUAGES, SARCASM, SECRET, Cues
from lamina.text.dates import find_dates
from lamina.text.lists import Listed, words
from lamina.text.origins import asks_somebody
from lamina.text.own_words import Sentence, typed_sentences, untyped_text
from lamina.text.wording import content_stems
from lamina.text.written_dates import with_absolute_dates

_STRAIGHT = str.maketrans("‘’", "''")


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
    # Telephones write "I’m"; what is kept is in the user's own letters again (`in_their_words`).
    sentences = [
        replace(one, text=one.text.translate(_STRAIGHT), plain=one.plain.translate(_STRAIGHT))
        for one in typed_sentences(messages, now, speaker=speaker)
    ]
    for _, group in groupby(sentences, key=lambda sentence: sentence.message):
        for find in _finds_in(list(group), foreign):
            proposal = proposal_of(find, session)
            if speaker != "typed":
                proposal = replace(proposal, evidence=())
            for path in free_names(proposal.path, proposal.body):
                known = proposals.setdefault(path, replace(proposal, path=path))
                if known.body == proposal.body:
                    break
    return list(proposals.values())


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
        for find in finds_of(message, place):
            completes = any(set(one.because) < set(find.because) for one in finds)
            asked = find.reason == ASKED and completes
            if told.get(find.because[0]) == find.type and not asked:
                continue  # "keep it that way": what it leans on was kept a moment ago
            told.update(dict.fromkeys(find.because, find.type))
            # A rule that brings along what it leans on says that, too.
            finds = [one for one in finds if not set(one.because) < set(find.because)]
            finds.append(_of_the_user(find))
    return _with_the_rest(_as_kept(finds), message)


def _of_the_user(find: Find) -> Find:
    """ "My goal is to …": what the speaker means to do is no fact of the project, but one of theirs."""
    own = find.type == "project" and find.reason == TOLD and MYSELF.search(find.text)
    return replace(find, type="user") if own and asks_somebody(find.text) else find


def _as_kept(finds: list[Find]) -> list[Find]:
    """The user's word is kept as their whole message, so two things of one kind in it are one memory."""
    told: dict[MemoryType, Find] = {}
    kept: list[Find] = []
    for find in finds:
        first = told.get(find.type) if find.reason == TOLD else None
        if first is None:
            kept.append(find)
            if find.type in ("user", "feedback") and not find.assistant:
                told[find.type] = find
            continue
        because = (*first.because, *(one for one in find.because if one not in first.because))
        both = replace(first, text=f"{first.text.rstrip()} {find.text}", because=because)
        kept[kept.index(first)] = told[find.type] = both
    return kept


def _with_the_rest(finds: list[Find], message: list[Sentence]) -> list[Find]:
    """A message that is kept for one thing is kept whole: what else lasts in it is named, too."""
    kept = (one for one in finds if one.type in ("user", "project") and one.reason != ASKED)
    first = next(kept, None)
    if first is None:
        return finds
    named = [one.text for find in finds for one in find.because]
    rest = [
        one
        for place, one in enumerate(message)
        if not any(part in one.text for part in named)
        and not (SECRET.search(one.text) or classify(one.plain).forgets)
        and goes_along(message, place)
    ]
    also = " ".join(one.text for one in rest)
    whole = replace(first, because=(*first.because, *rest), also=also)
    return [whole if find is first else find for find in finds]


def _wished(message: list[Sentence], place: int) -> bool:
    return wish(message, place, LANGUAGES[message[place].lang]) is not None


def finds_of(message: list[Sentence], place: int) -> Iterator[Find]:
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
    if found and not first and found.reason in {DATE, RULE}:
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


def proposal_of(find: Find, session: str) -> Proposal:
    first = find.because[0]
    rules = LANGUAGES[first.lang]
    text = " ".join(find.text.split())
    said = first.said.date()
    whole = " ".join([text, *find.also.split()])
    body, extra = _body(find, whole, rules), {"said": said.isoformat()}
    if find.type == "project" and (due := _due(find, text, said)):
        extra["due"] = due
    subject, all_of_it = find.assistant or text, find.assistant or whole
    # The index is read on another day: "tomorrow" must not stand there alone either.
    if find.type == "project":
        subject, all_of_it = (with_absolute_dates(one, said) for one in (subject, all_of_it))
    return Proposal(
        path=file_name(find.type, title(find.assistant or text, rules)),
        name=title(subject, rules),
        description=shortened(all_of_it, 150),
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
        return _sentence_case(text) + "\n"
    said = find.because[0].said.date()
    if find.type == "project":
        text = with_absolute_dates(text, said)
    if find.assistant:
        return _rule_body(find.assistant, "", text)
    if find.type == "project":  # in their words alone: with any of ours it would not speak
        return _rule_body(text, "" if find.why in text else find.why, "")
    return _rule_body(text, find.why, _scope_of(text, rules))


def _due(find: Find, text: str, said: date) -> str:
    """The last day that a statement speaks of, if it lies ahead; what was settled may only begin then."""
    if find.reason == TOLD and not _ENDS.search(text):
        return ""
    ahead = [hit.day for hit in find_dates(text, said) if hit.day >= said and not hit.recurs]
    return max(ahead).isoformat() if ahead else ""


_ENDS = words("telling.ends")


# ---- how a memory is worded

_CLAUSES = re.compile(r"(?<=[^\d\s])[,;!](?:\s|$)|[，；。！]|(?<=[^\W\d])\.\s|\s[–—-]\s")
# "Answer in German" is the rule itself; "in integration tests" is where it holds.
_ONE_PLACE = Listed("finders.one_place")
_EXCLUDED = re.compile(r"(?i)\b(?:not|never|nicht|nie|kein\w*|statt)\s$|[不别]$")


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters, cut between words or clauses, so that no identifier is torn."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text.rstrip(" ,;:，；：")
    cut = max(text.rfind(mark, 0, limit + 1) for mark in (" ", "，", "。", "、", "；", "：", ","))
    return text[: cut if cut > 0 else limit].rstrip(" ,;:，；：、(（–—-")


def title(text: str, cues: Cues) -> str:
    """The first clause that says something, without the reason."""
    text = without_opener(text)
    because = cues.because.search(text)
    if because and because.start() > 12:
        text = text[: because.start()]
    text = text.strip(" .!。！,，")
    for clause in _CLAUSES.finditer(text):
        if len(content_stems(text[: clause.start()])) > 2:
            return shortened(text[: clause.start()], 60)
    return shortened(text, 60)


def _sentence_case(text: str) -> str:
    """A capital at the start, unless the first word is a name with its own spelling (`pnpm`, a path)."""
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() or "'" in first else text


def _scope_of(text: str, cues: Cues) -> str:
    """When or where the rule holds, if the sentence ends with it."""
    without_reason = text
    because = cues.because.search(text)
    if because and because.start() > 12:
        without_reason = text[: because.start()].rstrip(" ,，")
    without_reason = SECOND_STATEMENT.split(without_reason, maxsplit=1)[0]
    found = cues.scope.search(without_reason)
    if not found or _EXCLUDED.search(without_reason[: found.start("scope")]):
        return ""  # "not in a separate folder" says where it does not hold
    scope = found["scope"].strip()
    return "" if _ONE_PLACE.fullmatch(scope) else scope


def _rule_body(rule: str, why: str, how: str) -> str:
    """The rule, why it is one, and how to apply it, as far as the words say so."""
    parts = [_sentence_case(rule)]
    if why:
        parts.append(f"**Why:** {why}")
    if how:
        parts.append(f"**How to apply:** {how}")
    return "\n\n".join(parts) + "\n"
