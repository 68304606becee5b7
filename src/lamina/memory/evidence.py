"""Says whether a memory rests on the user's own words, and whose word it is if not.

Pure: the ledger's blocks come in through the callables of a `Record`. Only what was typed proves, and
each sentence of a memory must be said by one typed sentence; a plain "yes" may lend the assistant's
answer before it if nothing but the user's words was in view, else what the user had asked themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, takewhile

from lamina.memories import HEAD, LABEL, Evidence, Memory, Proposal
from lamina.memory.confirmations import confirmed
from lamina.memory.naming import (
    TOPIC,
    day_of_nobody,
    link_targets,
    only_topics,
    said_by_keys,
    title_of,
    without_links,
)
from lamina.messages import Origin
from lamina.text import about, wording
from lamina.text.about import Message, made_of, same_sentence
from lamina.text.asks import (
    classify,
    find_order,
    permits,
    speaks_for_user,
    takes_back,
    told,
    turned_round,
    withdraws,
)
from lamina.text.claims import echoes, only_restates
from lamina.text.dates import Days
from lamina.text.lists import Listed, words
from lamina.text.origins import asks_somebody, typed_parts, untyped_parts
from lamina.text.own_words import own_text

Blocks = Sequence[tuple[Origin, str]]

_FOUNDED, _HALF, _NEEDED_SHARE = 0.4, 0.5, 0.7  # of the content words
_MOST_SAID, _MOST_LINES = 1_000, 40  # characters that are kept as one memory; lines of a message

# The less a source is to be trusted, the earlier: a memory is labelled by the worst it rests on.
_LEAST_TRUSTED: tuple[Origin, ...] = (
    "teammate", "agent", "hook", "tool", "pasted", "recalled", "system", "assistant",
)  # fmt: skip

TEMPLATE_WORDS = re.compile(r"\*\*(?:Why|How to apply):?\*\*:?", re.IGNORECASE)
_WRAPPED = re.compile(r"(?m)^(.{50,}[\w,]) ?\n[ \t]*(?=[a-z])")  # a line that goes on in the next
_STORY, _MATERIAL = map(words, ("proof.stories", "proof.material"))
_SOON, _SHORT_TURN = 6, 120  # later messages that may unsay it; letters of an answer
_SOMEBODY = words("proof.user")
_AND_A = Listed("proof.and_a")
_CLAUSES = re.compile(r"[,;:，；：\n]|\b(?:because|since|weil|denn)\b|因为")
_HEAD_KEY = re.compile(rf"^{HEAD}(?:name|description):\s*")


def nothing(*_: str) -> tuple[()]:
    return ()


def never_said(_session: str, _entry: str) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Record:
    """What the ledger knows: the blocks of an entry, and all blocks before it."""

    origin_text: Callable[[str, str], Blocks]
    before: Callable[[str, str], Blocks]
    # All blocks of a session, for what the assistant's own lines may have been told.
    whole: Callable[[str], Blocks] = nothing
    # Days that follow from a quote and the time of its entry, in a row: "2026-11-19 2026-11-20".
    dates: Callable[[str, str, str], Sequence[Days]] = nothing


def why_unproven(
    proposal: Proposal, record: Record, memories: Iterable[Memory], vouched: str
) -> str:
    """ "" if what this memory says are whole sentences of the user's, else the reason why not."""
    claim = claimed_text(proposal, memories, vouched)
    standing = _standing(vouched, proposal.type)
    if wording.spaced(f"{HEAD}name: {proposal.name}") in map(wording.spaced, vouched.splitlines()):
        proposal = replace(proposal, name="")  # a description, or a first line, may be no title
    if day := day_of_nobody(proposal, record, memories):
        return f"they named no such day as “{day}”"
    if not claim.strip() and vouched:  # nothing new is said
        whole = standing[-1:] if proposal.type in ("user", "feedback") else standing
        added = _title_adds(proposal, whole)
        return f"the user did not say {_short(added)}" if added else ""
    if not proposal.evidence:
        return "it quotes nothing that the user typed"
    support = _supported(proposal, record)
    support.standing, support.fact = standing, proposal.type not in ("user", "feedback")
    heads = {proposal.description, proposal.hook, *proposal.extra.values()}
    if explains := next((one for one in heads if TEMPLATE_WORDS.match(one.strip())), ""):
        return f"its head explains, and can't bear the label: {_short(explains)}"
    if below := _read_wrongly(proposal, vouched, claim):
        return f"below {_short(below)} it would mean something else"
    return support.reason or next(_reasons_against(proposal, claim, support, record), "")


def _reasons_against(
    proposal: Proposal, claim: str, support: _Support, record: Record
) -> Iterator[str]:
    """Why the words that were found don't carry the claim, the plainest reason first."""
    rule, explained = told_apart(claim)
    heads, last, place = [proposal.description, proposal.hook], "", 0
    other = proposal.type == "user" and any(_SOMEBODY.search(one.text) for one in support.messages)
    lines = [line for line in rule.splitlines() if line.strip()]
    described, told = set[str](), set[str]()  # the messages that they are
    while place < len(lines):
        line = lines[place]
        if other and _SOMEBODY.search(line):
            yield f"“the user” of whom they typed may be somebody else: {_short(line)}"
        most = 1 if line in heads else _MOST_LINES
        if taken := support.taken(lines[place : place + most], after=last):
            items = all(map(wording.LIST_ITEM.match, (line, last)))
            if last and not items:  # it would go on with another message
                yield f"two messages of theirs would read as one: {_short(line)}"
            (described if line in heads else told).add(support.held)
            last = "" if line in heads and not heads.remove(line) else line
            place += taken
            continue
        if turned := turned_round(line, [one.text for one in support.messages]):
            yield f"it says the opposite of what the user typed: {_short(turned)}"
        yield f"no message that the user typed says {_short(line)}, and nothing else"
        place += 1
    if told and not described <= told:
        yield f"its description is another message: {_short(proposal.description)}"
    proof, said = _proof(support), [*support.messages, *support.confirmed]
    if not support.fact:  # of what another message says it would be the title
        rest = told or described
        said = [one for one in said if one.text in rest] + support.standing * ("" in rest)
    if added := _title_adds(proposal, said) or _explains_too_much(explained, proof):
        yield f"the user did not say {_short(added)}"
    others = [one for one in wording.sentences(explained) if _share(one, proof) < _NEEDED_SHARE]
    foreign = untyped_parts(record.whole(proposal.session)) if others else []
    if echo := next((one for one in others if echoes(one, foreign)), ""):
        yield f"it repeats what was not typed: {_short(echo)}"


def their_words(proposal: Proposal, record: Record) -> list[str]:
    """What the user said themselves of what a memory says, each passage whole; empty if they did not,
    or if it is too long to be one memory."""
    if proposal.type not in ("user", "feedback"):
        return []
    support = _supported(proposal, record)
    rule, _ = told_apart(proposal.body)
    lines = [line for line in rule.splitlines() if line.strip()] or [proposal.description]
    told = [(wording.content_stems(one.text), one.ways()) for one in support.messages]
    found: list[str] = []
    for line in lines:
        stems = wording.content_stems(line) - {"user", "nutzer"}
        shares = [len(stems & said) / (len(stems) or 1) if ways else 0.0 for said, ways in told]
        if (best := max(shares, default=0.0)) < _HALF:
            return []
        said, ways = min(
            (one for one, share in zip(told, shares, strict=True) if share == best),
            key=lambda one: len(one[1][0]),
        )
        if any((stems - said) & other for other, _ in told):
            return []  # they said it otherwise elsewhere: "it's four spaces now"
        held = [one for one in ways if stems & said <= wording.content_stems(one)]
        found.append([*held, ways[-1]][0])
    found = [about.without_wish(one) for one in dict.fromkeys(found)]
    return found if sum(map(len, found)) <= _MOST_SAID else []


def told_apart(claim: str) -> tuple[str, str]:
    """The rule, and the lines that explain it (Why, How to apply), which may be the assistant's."""
    rule: list[str] = []
    explained: list[str] = []
    for line in claim.splitlines():
        if TEMPLATE_WORDS.match(line.strip(" -*_")) or TEMPLATE_WORDS.match(line.strip()):
            explained.append(TEMPLATE_WORDS.sub(" ", line.replace(LABEL, ""), count=1))
        else:
            rule.append(line)
    return "\n".join(rule), "\n".join(explained)


def unproven_explanations(proposal: Proposal, record: Record, vouched: str) -> list[str]:
    """The lines of a proven memory that explain it and are no whole sentences of the user's: their words
    put together anew are the assistant's."""
    support = _supported(proposal, record) if proposal.evidence else _Support()
    proof = _stated(support)  # a day is no sentence
    known = {wording.spaced(line) for line in vouched.splitlines()}
    told = {
        line: line.strip()[marker.end() :].strip()
        for line in proposal.body.splitlines()
        for marker in [TEMPLATE_WORDS.match(line.strip())]
        if marker and wording.spaced(line) not in known
    }
    return [
        line
        for line, text in told.items()
        if not text.startswith(LABEL)
        and not (
            text  # alone it makes what stands below the reason for what stands above
            and all(any(same_sentence(one, by) for by in proof) for one in wording.sentences(text))
        )
    ]


def _proof(support: _Support) -> str:
    """All that they stated, a line each."""
    return "\n".join([*_stated(support), *support.days])


def _stated(support: _Support) -> list[str]:
    stated = (one.stated() for one in (*support.messages, *support.confirmed))
    return [line for text in chain.from_iterable(stated) for line in text.splitlines()]


def _share(claim: str, proof: str) -> float:
    """Of the words that tell something, how many the user said."""
    stems = wording.content_stems(claim.replace("用户的", "我").replace("用户", "我"))
    return len(stems & wording.content_stems(proof)) / len(stems) if stems else 1.0


def _title_adds(proposal: Proposal, said: Sequence[Message]) -> str:
    """ "" or a title that says more than what the memory is about. Of the user's word it must be a whole
    sentence, what we make of one, or what such a memory is called."""
    title = _spelled(proposal.name, proposal.type)
    topic, theirs = TOPIC.sub(" ", title), proposal.type in ("user", "feedback")
    tells = wording.content_stems(topic) or wording.hard_tokens(topic) or wording.denials(topic)
    if only_topics(title) or not (theirs or tells):
        return ""
    runs = [one for by in said for way in by.ways() for one in (way, about.without_wish(way))]
    # One that is cut must show it: what the rule is limited to may be gone.
    cut = (one for way in runs for one in [title_of(way)] if one[-1:] != "…" or title[-1] == "…")
    dated = any(one.holds(title) for one in said)  # with a day in the place of its words
    if dated or any(same_sentence(title, one) for one in (*runs, *cut)):
        return ""
    if not theirs:
        known = any(_share(topic, one) >= _HALF for one in runs)
        return "" if known and not find_order(title) else title
    return title  # "Penicillin" of "I'm not allergic to penicillin" is read as the opposite


def _explains_too_much(explained: str, proof: str) -> str:
    """Why and How to apply explain. What they order, allow, deny or name must be the user's as well."""
    for one in wording.sentences(explained):
        if added := not any(same_sentence(one, said) for said in proof.splitlines()):
            orders = classify(one).orders or asks_somebody(one) or speaks_for_user(one)
            added = orders or permits(one, proof) or not about.only_explains(one)
            # Words of theirs without their "not" say the opposite.
            denied = filter(wording.negates, _CLAUSES.split(proof))
            turned = not wording.negates(one) and any(_share(one, no) >= _HALF for no in denied)
            moved = not any(about.in_order(one, said) for said in proof.splitlines())
            added = added or turned or (moved and _share(one, proof) >= _NEEDED_SHARE)
        if added or wording.missing_tokens(one, proof) or turned_round(one, [proof]):
            return one
    return ""


@dataclass(slots=True)
class _Support:
    """What quotes prove."""

    reason: str = ""  # why they prove nothing
    messages: list[Message] = field(default_factory=list[Message])
    confirmed: list[Message] = field(default_factory=list[Message])
    days: list[str] = field(default_factory=list[str])
    standing: list[Message] = field(default_factory=list[Message])  # what needs no new proof
    fact: bool = False  # which may begin with a capital letter where a message does not
    held: str = ""  # the message that was last taken

    def taken(self, lines: Sequence[str], *, after: str = "") -> int:
        """How many lines from the first on are one whole message: two may say what neither did."""
        sources = [[], *([one] for one in (*self.messages, *self.confirmed))]
        for count in range(len(lines), 0, -1):
            text = "\n".join(lines[:count])
            texts = (text, text[:1].lower() + text[1:]) if self.fact else (text,)
            for one in sources:
                known = one + self.standing if self.fact else one or self.standing
                if any(made_of(text, known, after=after) for text in texts):
                    self.held = one[0].text if one else ""
                    return count
        return 0


def _supported(proposal: Proposal, record: Record) -> _Support:
    """Every quote must be found; one that only asks adds nothing, and alone proves nothing."""
    found = _Support()
    for item in proposal.evidence:
        session = item.session or proposal.session
        typed = typed_parts(record.origin_text(session, item.entry))
        if not _found(item.quote, typed):
            return _Support(
                f"a quote is not among the words that the user typed: {_short(item.quote)}"
            )
        for said in _messages(
            item, record, session, fact=proposal.type not in ("user", "feedback")
        ):
            lent = confirmed(record, session, item.entry, proposal.type)
            found.messages.append(said)
            found.confirmed += [Message(one, later=said.later) for one in lent]
        found.days.extend(record.dates(item.quote, session, item.entry))
    if proposal.evidence and not (found.confirmed or any(one.ways() for one in found.messages)):
        only = _short(proposal.evidence[0].quote)
        found.reason = f"a quote is a question, work for now, a wish to forget, taken back, or somebody else's: {only}"
    return found


def _messages(item: Evidence, record: Record, session: str, *, fact: bool) -> Iterator[Message]:
    """What was typed in one go around a quote. What answers a question, goes on with a story, or is
    gone into by the next message, can't be read alone. Text to work on that was announced comes at once."""
    own, known = record.origin_text(session, item.entry), record.before(session, item.entry)
    earlier = [block for block in known if block[0] != "system"]
    told, later = (
        [_WRAPPED.sub(r"\1 ", own_text(text)) for origin, text in blocks if origin == "typed"]
        for blocks in (earlier[::-1], record.whole(session)[len(known) + len(own) :])
    )
    spoken = [origin == "typed" for origin, _ in own]
    said = [  # what stood between their words leaves a gap
        _WRAPPED.sub(r"\1 ", own_text(text)) if origin == "typed" else "\x00"
        for n, (origin, text) in enumerate(own)
        if origin == "typed" or (origin != "system" and any(spoken[:n]) and any(spoken[n:]))
    ]
    unsaid = any(map(takes_back, wording.sentences("".join(later[:1]))))
    answers = any(text.startswith((">", "＞")) for origin, text in own if origin == "typed")
    if unsaid or answers or any(map(withdraws, later[:_SOON])):
        return
    asked = earlier[-1][1] if earlier and earlier[-1][0] == "assistant" else ""
    origins = [origin for origin, _ in reversed(earlier)]
    at_once = len(asked) <= _SHORT_TURN and "tool" not in takewhile("typed".__ne__, origins)
    framed = [*told[:1], *([asked] if at_once else ())]
    tale = any(_STORY.search(one) or classify(one).imagines for one in framed)
    announced = at_once and any(one.rstrip().endswith((":", "：")) for one in told[:1])
    if tale or announced or (at_once and any(map(_MATERIAL.search, (*told[:1], asked)))):
        return

    def dates(text: str) -> Sequence[Days]:
        runs = record.dates(text, session, item.entry)
        return runs if fact else [run.sure(text) for run in runs]

    message = Message("\n\n".join(said), asked=asked, later=later, dates=dates)
    message.fact = fact
    yield message


def is_wish(item: Evidence, session: str, record: Record, *, instead: bool) -> bool:
    """Does a quote stand in typed words that ask to remember it? `instead`: after all that the same
    message wants forgotten."""
    typed = typed_parts(record.origin_text(item.session or session, item.entry))
    where = told(item.quote, typed)
    return where is not None and where.wished and not (instead and where.forgets_later)


def weakest_origin(proposal: Proposal, record: Record) -> str:
    """The least trusted place where a quote of this unproven memory is found, else its writer."""
    seen: set[str] = set()
    for item in proposal.evidence:
        blocks = record.origin_text(item.session or proposal.session, item.entry)
        pasted = untyped_parts([block for block in blocks if block[0] == "typed"])
        seen.update("pasted" for _ in pasted if _found(item.quote, pasted))
        seen.update(
            origin for origin, text in blocks if origin != "typed" and _found(item.quote, [text])
        )
    for origin in _LEAST_TRUSTED:
        if origin in seen:
            return origin
    writers = {"team": "teammate", "outside": "outside", "program": "program"}
    return writers.get(proposal.writer, "assistant")


def weaker(one: str, other: str) -> str:
    """The less trusted of two origins."""
    return next((known for known in _LEAST_TRUSTED if known in (one, other)), one)


def why_unfounded(proposal: Proposal, claim: str, record: Record) -> str:
    """ "" or why nothing that was said or read here stands behind a fact of the assistant's."""
    quoted = "\n".join(
        item.quote
        for item in proposal.evidence
        for blocks in [record.origin_text(item.session or proposal.session, item.entry)]
        if _found(item.quote, [text for origin, text in blocks if origin != "system"])
    )
    rule, _ = told_apart(claim)
    if not rule.strip() or (quoted and _share(rule, quoted) >= _FOUNDED):
        return ""
    return "nothing that was said or read in this session says so"


def claimed_text(proposal: Proposal, memories: Iterable[Memory], vouched: str) -> str:
    """What the memory says beside its title, without links to memories there are and proven lines."""
    heads = "\n".join([proposal.description, proposal.hook, *said_by_keys(proposal.extra), ""])
    linked = "[[" in heads or "[[" in proposal.body
    theirs = proposal.type in ("user", "feedback")
    among = (one for one in memories if not theirs or one.type in ("user", "feedback"))
    targets = link_targets(among) if linked else set[str]()
    sources = _standing(vouched, proposal.type, targets)
    proven = {
        wording.spaced(one)
        for source in sources
        if "\n" not in source.text.strip()
        for one in (source.text, _spelled(source.text, proposal.type))
    }
    unlinked = partial(without_links, targets=targets, alone=theirs)
    said, body = (unlinked(one).splitlines() for one in (heads, proposal.body))
    if theirs:
        stands = wording.in_place(body, unlinked(vouched).splitlines())
        body = [line for line, there in zip(body, stands, strict=True) if not there]
    else:
        said, body = [*said, *body], []
    new = (
        line
        for line in said
        if wording.spaced(line) not in proven and not (line.strip() and made_of(line, sources))
    )
    return "\n".join([*new, *body])


def _standing(vouched: str, kind: str | None, targets: set[str] | None = None) -> list[Message]:
    """What needs no new proof, to be told again: each line, but of the user's word only title and
    description, and the text as a whole."""
    theirs = kind in ("user", "feedback")
    lines = without_links(vouched, targets or set(), alone=theirs).splitlines()
    if not theirs:
        return [Message(_HEAD_KEY.sub("", line)) for line in lines]
    heads = [line for line in lines if _HEAD_KEY.match(line)]
    body = "\n".join(line for line in lines if not line.startswith(HEAD))
    return [*(Message(_HEAD_KEY.sub("", line)) for line in heads), Message(body)]


def _read_wrongly(proposal: Proposal, vouched: str, claim: str) -> str:
    """ "" or the line with a colon, or the heading that denies, which stood there and below which
    something new of the user's would stand."""
    lines = [line for line in proposal.body.splitlines() if line.strip()]
    new = {*map(wording.spaced, claim.splitlines())}
    known = {*map(wording.spaced, vouched.splitlines())} if new else set[str]()
    for line, under in zip(lines, wording.read_under(lines), strict=True):
        if wording.spaced(line) in new and not TEMPLATE_WORDS.match(line.strip(" -*_")):
            for head in under:
                if head in known and (not head.startswith(("#", "**")) or wording.negates(head)):
                    return head
    return ""


def _spelled(name: str, kind: str | None) -> str:
    """A name as words: `feedback_no_mocks` says "no mocks"."""
    if " " in name:
        return name
    words = re.sub(r"[_-]+", " ", name)
    return re.sub(rf"^{kind}\b", "", words, flags=re.IGNORECASE) if kind else words


def _found(quote: str, parts: Iterable[str]) -> bool:
    needle = wording.fold(quote).translate(about.TYPOGRAPHY)
    if not any(map(str.isalnum, needle)):
        return False
    for part in parts:
        folded = wording.fold(part).translate(about.TYPOGRAPHY)
        at = folded.find(needle)
        while at >= 0:
            if wording.bounded(folded, at, at + len(needle)):
                return True
            at = folded.find(needle, at + 1)
    return False


def restates(proposal: Proposal, text: str, record: Record) -> bool:
    """Does a text that nobody typed say only what the user did, sentence by sentence?"""
    support, title = _supported(proposal, record), _spelled(proposal.name, proposal.type)
    each = [message.stated() for message in support.messages]
    typed = [one for said in each for text in said for one in (*_AND_A.split(text), " ".join(said))]
    told = _WRAPPED.sub(r"\1 ", "\n".join(told_apart(text)))
    if any(title == title_of(one) for one in wording.sentences(told)):
        title = ""  # it says no more than the sentence that it begins
    return only_restates(told, title, typed, support.days)


def _short(text: str) -> str:
    folded = wording.fold(text)
    return f"“{folded if len(folded) <= 60 else folded[:57] + '…'}”"
