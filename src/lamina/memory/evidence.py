"""Says whether a memory rests on the user's own words, and whose word it is if not.

Pure: the ledger's blocks come in through the callables of a `Record`. Only what was typed proves, and
each sentence of a memory must be said by one typed sentence; a plain "yes" may lend the assistant's
answer before it if nothing but the user's words was in view, else what the user had asked themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from lamina.memories import LABEL, Evidence, Memory, Proposal
from lamina.memory.naming import title_of
from lamina.memory.removal import KEPT_BY_US
from lamina.messages import Origin
from lamina.text import about, wording
from lamina.text.about import Message, made_of, same_sentence
from lamina.text.asks import (
    asked_for,
    classify,
    find_order,
    permits,
    speaks_for_user,
    takes_back,
    told,
    turned_round,
)
from lamina.text.lists import words
from lamina.text.origins import asks_somebody, typed_parts, untyped_parts
from lamina.text.own_words import own_text

Blocks = Sequence[tuple[Origin, str]]

_NEEDED_SHARE = 0.7  # of the content words
_FOUNDED = 0.4  # of the content words
_HALF = 0.5  # of the content words
_MOST_SAID = 600  # characters of a passage that is kept as one memory
_RUN = 5  # words, or characters of a script without spaces, that show where a text came from

# The less a source is to be trusted, the earlier: a memory is labelled by the worst it rests on.
_LEAST_TRUSTED: tuple[Origin, ...] = (
    "teammate", "agent", "hook", "tool", "pasted", "recalled", "system", "assistant",
)  # fmt: skip

_TEMPLATE_WORDS = re.compile(r"\*\*(?:Why|How to apply):?\*\*:?", re.IGNORECASE)
_UNSPACED = re.compile(r"[\u3400-\u9fff]+")
_WRAPPED = re.compile(r"(?<=[\w,]) ?\n[ \t]*(?=[a-z])")  # a line that goes on in the next
_LASTING = words("proof.lasting")
_SOMEBODY = words("proof.user")  # who uses what they build
_TOPIC = words("proof.topics")  # what a title may call a memory, whatever it says
_HEAD_KEY = re.compile(r"^(?:name|description):\s*")
_LINK = re.compile(r"\[\[([^\[\]\n]{1,200})\]\]")


def nothing_recorded(_session: str, _entry: str) -> Blocks:
    return ()


def never_said(_session: str, _entry: str) -> float:
    return 0.0


def nothing_said(_session: str) -> Blocks:
    return ()


def no_dates(_quote: str, _session: str, _entry: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Record:
    """What the ledger knows: the blocks of an entry, and all blocks before it."""

    origin_text: Callable[[str, str], Blocks]
    before: Callable[[str, str], Blocks]
    # All blocks of a session, for what the assistant's own lines may have been told.
    whole: Callable[[str], Blocks] = nothing_said
    # Days (YYYY-MM-DD) that follow from a quote and the time of its entry: "on Friday".
    dates: Callable[[str, str, str], Sequence[str]] = no_dates


def why_unproven(
    proposal: Proposal, record: Record, memories: Iterable[Memory], vouched: str
) -> str:
    """ "" if what this memory says are whole sentences of the user's, else the reason why not."""
    claim = claimed_text(proposal, memories, vouched)
    titles = {wording.fold(_HEAD_KEY.sub("", line)) for line in vouched.splitlines()}
    if wording.fold(proposal.name) in titles:
        proposal = replace(proposal, name="")
    if not claim.strip() and vouched:  # nothing new is said
        added = _title_adds(proposal, [Message(line) for line in vouched.splitlines()])
        return f"the user did not say {_short(added)}" if added else ""
    if not proposal.evidence:
        return "it quotes nothing that the user typed"
    support = _supported(proposal, record)
    support.standing = [Message(_HEAD_KEY.sub("", line)) for line in vouched.splitlines()]
    return support.reason or next(_reasons_against(proposal, claim, support, record), "")


def _reasons_against(
    proposal: Proposal, claim: str, support: _Support, record: Record
) -> Iterator[str]:
    """Why the words that were found don't carry the claim, the plainest reason first."""
    rule, explained = told_apart(claim)
    heads, last = (proposal.description, proposal.hook), ""
    other = proposal.type == "user" and any(_SOMEBODY.search(one.text) for one in support.messages)
    for line in filter(str.strip, rule.splitlines()):
        if other and _SOMEBODY.search(line):
            yield f"“the user” of whom they typed may be somebody else: {_short(line)}"
        if support.says(line, after=last):
            last = "" if line in heads else line
            continue
        if turned := turned_round(line, [one.text for one in support.messages]):
            yield f"it says the opposite of what the user typed: {_short(turned)}"
        yield f"no sentence that the user typed says {_short(line)}"
    said = [*support.messages, *(Message(one) for one in support.confirmed)]
    proof = "\n".join([*(one.text for one in said), *support.days])
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
    found: list[str] = []
    for line in lines:
        stems = wording.content_stems(line) - {"user", "nutzer"}
        passages = [one for message in support.messages for one in message.passages()]
        shares = [len(stems & wording.content_stems(one)) / (len(stems) or 1) for one in passages]
        best = max(shares, default=0.0)
        if best < _HALF:
            return []
        one = min((p for p, s in zip(passages, shares, strict=True) if s == best), key=len)
        rest = stems - wording.content_stems(one)
        if any(
            one not in message.text and rest & wording.content_stems(message.text)
            for message in support.messages
        ):
            return []  # they said it otherwise elsewhere: "it's four spaces now"
        found.append(one)
    found = [about.without_wish(" ".join(one.split())) for one in dict.fromkeys(found)]
    return found if sum(map(len, found)) <= _MOST_SAID else []


def told_apart(claim: str) -> tuple[str, str]:
    """The rule, and the lines that explain it (Why, How to apply), which may be the assistant's."""
    rule: list[str] = []
    explained: list[str] = []
    for line in claim.splitlines():
        explains = _TEMPLATE_WORDS.match(line.strip(" -*_")) or _TEMPLATE_WORDS.match(line.strip())
        lines = explained if explains else rule
        lines.append(_TEMPLATE_WORDS.sub(" ", line.replace(LABEL, "")))
    return "\n".join(rule), "\n".join(explained)


def unproven_explanations(proposal: Proposal, record: Record, vouched: str) -> list[str]:
    """The lines of a proven memory that explain it and that the user did not say themselves."""
    support = _supported(proposal, record) if proposal.evidence else _Support()
    proof = "\n".join([*(one.text for one in support.messages), *support.confirmed, *support.days])
    known = {wording.fold(line) for line in vouched.splitlines()}
    return [
        line
        for line in proposal.body.splitlines()
        if _TEMPLATE_WORDS.match(line.strip())
        and LABEL not in line
        and wording.fold(line) not in known
        and _share(_TEMPLATE_WORDS.sub(" ", line), proof) < _NEEDED_SHARE
    ]


def labelled(content: bytes, lines: Collection[str]) -> bytes:
    """A file with these lines marked as the assistant's, where a person sees it and may take it off."""
    text = content.decode("utf-8", "surrogateescape")
    for line in lines:
        bare = line.strip()
        found = _TEMPLATE_WORDS.match(bare)
        if found is not None:
            text = text.replace(bare, f"{found[0]} {LABEL}{bare[found.end() :]}", 1)
    return text.encode("utf-8", "surrogateescape")


def _share(claim: str, proof: str) -> float:
    """Of the words that tell something, how many the user said."""
    stems = wording.content_stems(claim.replace("用户的", "我").replace("用户", "我"))
    return len(stems & wording.content_stems(proof)) / len(stems) if stems else 1.0


def _title_adds(proposal: Proposal, said: Sequence[Message]) -> str:
    """ "" or a title that says more than what the memory is about. Of the user's word it must be a whole
    sentence, what we make of one, or one word of it and what such a memory is called."""
    title = _spelled(proposal.name, proposal.type)
    topic = _TOPIC.sub(" ", title)
    stems = wording.content_stems(topic)
    if not stems and not wording.hard_tokens(topic) and not about.denials(topic):
        return ""
    runs = [wording.fold(run) for message in said for run in message.runs()]
    if any(same_sentence(title, way) for one in runs for way in (one, title_of(one))):
        return ""
    if proposal.type not in ("user", "feedback"):
        known = any(_share(topic, one) >= _HALF for one in runs)
        return "" if known and not find_order(title) else title
    one_word = len(stems) == 1 and any(stems <= wording.content_stems(one) for one in runs)
    says = about.denials(title) or find_order(title) or permits(title, "")
    return "" if one_word and not says else title


def _explains_too_much(explained: str, proof: str) -> str:
    """Why and How to apply explain. What they order, allow, deny or name must be the user's as well."""
    for one in wording.sentences(explained):
        if wording.missing_tokens(one, proof) or turned_round(one, [proof]):
            return one
        if _share(one, proof) < _NEEDED_SHARE and not about.only_explains(one):
            return one
        orders = (
            classify(one).orders
            or asks_somebody(one)
            or speaks_for_user(one)
            or permits(one, proof)
        )
        if orders and _share(one, proof) < _NEEDED_SHARE:
            return one
    return ""


@dataclass(slots=True)
class _Support:
    """What quotes prove."""

    reason: str = ""  # why they prove nothing
    messages: list[Message] = field(default_factory=list[Message])
    confirmed: list[str] = field(default_factory=list[str])
    days: list[str] = field(default_factory=list[str])
    standing: list[Message] = field(default_factory=list[Message])  # what needs no new proof

    def says(self, line: str, *, after: str = "") -> bool:
        """Whether a line is made of whole passages."""
        sources = [*self.messages, *(Message(one) for one in self.confirmed), *self.standing]
        return made_of(line, sources, self.days, after=after)


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
        found.messages += _messages(item, typed, record, session)
        found.confirmed += _confirmed(record, session, item.entry)
        found.days.extend(record.dates(item.quote, session, item.entry))
    if proposal.evidence and not (found.confirmed or any(one.runs() for one in found.messages)):
        only = _short(proposal.evidence[0].quote)
        found.reason = (
            f"a quote is a question, a wish to forget, taken back, or somebody else's words: {only}"
        )
    return found


def _messages(
    item: Evidence, typed: Sequence[str], record: Record, session: str
) -> Iterator[Message]:
    """The typed parts with a quote in them. What answers a question, or is gone into by the next
    message, can't be read alone."""
    known = record.before(session, item.entry)
    later = record.whole(session)[len(known) + len(record.origin_text(session, item.entry)) :]
    after = next((part for block in later for part in typed_parts([block])), "")
    first = next(iter(wording.sentences(after)), "")
    if any(map(takes_back, wording.sentences(after))):
        return
    earlier = [block for block in known if block[0] != "system"]
    asked = earlier[-1][1] if earlier and earlier[-1][0] == "assistant" else ""
    for part in typed:
        if _found(item.quote, [part]):
            yield Message(_WRAPPED.sub(" ", own_text(part)), asked=asked, after=first)


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
    keys = [
        value
        for key, value in proposal.extra.items()
        if key.casefold() not in KEPT_BY_US or (" " in value and any(map(str.isalpha, value)))
    ]
    text = "\n".join([proposal.description, proposal.hook, *keys, "", proposal.body])
    targets = _link_targets(memories) if "[[" in text else set[str]()
    proven: set[str] = set()
    sources: list[Message] = []
    for line in _bare(vouched, targets).splitlines():
        value = _HEAD_KEY.sub("", line)
        proven.update(map(wording.fold, (line, value, _spelled(value, proposal.type))))
        sources.append(Message(value))
    return "\n".join(
        line
        for line in _bare(text, targets).splitlines()
        if wording.fold(line) not in proven and not (line.strip() and made_of(line, sources))
    )


def _spelled(name: str, kind: str | None) -> str:
    """A name as words: `feedback_no_mocks` says "no mocks"."""
    words = name if " " in name else re.sub(r"[_-]+", " ", name)
    return re.sub(rf"^{kind}\b", "", words, flags=re.IGNORECASE) if kind else words


def _bare(text: str, targets: set[str]) -> str:
    """Without links to memories there are; the words that a link shows are a claim like others."""

    def shown(link: re.Match[str]) -> str:
        target, _, words = link[1].partition("|")
        title = " " in target.strip() or not target.isascii()  # a file's name says nothing
        named = target if title else ""
        return f" {named} {words} " if _link_key(target) in targets else link[0]

    return _LINK.sub(shown, text)


def _link_targets(memories: Iterable[Memory]) -> set[str]:
    targets: set[str] = set()
    for memory in memories:
        targets.update((_link_key(memory.name), _link_key(memory.path)))
    return targets


def _link_key(target: str) -> str:
    return target.partition("|")[0].removesuffix(".md").strip().casefold().replace("_", "-")


def _found(quote: str, parts: Iterable[str]) -> bool:
    needle = wording.fold(quote)
    if not any(map(str.isalnum, needle)):
        return False
    for part in parts:
        folded = wording.fold(part)
        at = folded.find(needle)
        while at >= 0:
            if wording.bounded(folded, at, at + len(needle)):
                return True
            at = folded.find(needle, at + 1)
    return False


def is_plain_confirmation(typed: Sequence[str]) -> bool:
    """Whether all that was typed says yes and nothing else."""
    return classify(" ".join(typed)).confirms


def _confirmed(record: Record, session: str, entry: str) -> list[str]:
    """What a plain confirmation agrees to, as far as it can be told: the assistant's own answer to the
    user, if one of them speaks of a rule or of remembering; else they agree to what it does next.
    Where a file, a page or a paste was in view, nobody can tell whose idea that was, in whatever words
    or language it comes back; then only what the user had asked in their own words and the answer
    says in the same.
    """
    blocks = record.origin_text(session, entry)
    if not is_plain_confirmation(typed_parts(blocks)):
        return []
    before = record.before(session, entry)
    earlier = [block for block in before if block[0] != "system"]
    said = [text for _, text in takewhile(lambda one: one[0] == "assistant", reversed(earlier))]
    answer = [one for text in reversed(said) for one in wording.sentences(text)]
    own = [one for one in answer if not classify(one).confirms]
    if len(own) != 1:  # to which of them did they say yes?
        return []
    proposed = [own[0], *about.proposed_in(own[0])]
    lasts = any(map(_LASTING.search, (own[0], *typed_parts(blocks))))
    if lasts and not untyped_parts([*earlier, *blocks]):
        instructed = [text for origin, text in before if origin == "system"]
        return [] if _restates(own[0], instructed) else proposed
    asked = next((text for origin, text in reversed(earlier) if origin == "typed"), "")
    return [
        one
        for part in typed_parts([("typed", asked)])
        for sentence in wording.sentences(own_text(part))
        for one in asked_for(sentence)
        if any(same_sentence(one, other) for other in proposed)
    ]


def _restates(sentence: str, texts: Iterable[str]) -> bool:
    """Does one sentence of these texts hold nearly all that this one says?"""
    stems = wording.content_stems(sentence)
    return bool(stems) and any(
        len(stems & wording.content_stems(one)) >= _NEEDED_SHARE * len(stems)
        for text in texts
        for one in wording.sentences(text)
    )


def echoes(text: str, sources: Iterable[str]) -> bool:
    """Whether some words in a row of a text stand in one of the sources."""
    said = " ".join(wording.words(text)).split()
    runs = [f" {' '.join(said[n : n + _RUN])} " for n in range(len(said) - _RUN + 1)]
    runs += [
        run[n : n + _RUN] for run in _UNSPACED.findall(text) for n in range(len(run) - _RUN + 1)
    ]
    if not runs:
        return False
    heard = (f" {' '.join(wording.words(source))} " for source in sources)
    return any(run in words for words in heard for run in runs)


def no_statement(text: str, name: str = "") -> str:
    """ "" or what in a text is no statement of fact: it asks, orders, hides, or speaks for the user."""
    said = f"{name}\n{text}" if " " in name else text  # `check_the_log` is a name and says nothing
    found = {
        "gives an order: “{}”": find_order(text),
        "speaks for the user: “{}”": speaks_for_user(text),
        "hides words in a comment": "<!--" in text and "<!--",
        "asks for something: “{}”": asks_somebody(said)[:80],
    }
    return next((what.format(words) for what, words in found.items() if words), "")


def order_heard(text: str, heard: Callable[[], Iterable[str]]) -> str:
    """ "" or the order in a text that stands in what was heard."""
    orders = [classify(one).orders for one in wording.sentences(text)]
    given = [wording.fold(order) for order in orders if order]
    told = [wording.fold(words) for words in heard()] if given else []
    return next((order for order in given if any(order in words for words in told)), "")


def _short(text: str) -> str:
    folded = wording.fold(text)
    return f"“{folded if len(folded) <= 60 else folded[:57] + '…'}”"
