"""Says whether a memory rests on the user's own words, and whose word it is if not.

Pure: the ledger's blocks come in through the two callables of a `Record`. Only what was typed
proves; a plain "yes" may lend the assistant's text before it, unless that repeats what came from a
tool, a paste or a recalled memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from lamina.memories import Evidence, Memory, Proposal
from lamina.messages import Origin
from lamina.text import wording
from lamina.text.about import speaks_of, turned_round
from lamina.text.asks import told
from lamina.text.origins import typed_parts, untyped_parts

Blocks = Sequence[tuple[Origin, str]]

_NEEDED_SHARE = 0.7  # of the content words
_REPEATED = 5  # words in a row that show where a text came from
_MOST_CONFIRMING = 12  # words; more than that says something of its own

_CONFIRMS = frozenset(
    """yes yeah yep yup ya aye ok okay k kk sure right correct exactly precisely indeed perfect great
    good fine nice cool awesome excellent lovely agreed agree absolutely definitely certainly totally
    lgtm approved confirmed confirm works true ja oui si sí да はい 是 好 对 genau stimmt d'accord
    claro vale 👍 ✅""".split()  # noqa: SIM905 - a word list
)
_FILLERS = frozenset(
    """that that's thats is it it's its this the a an do does did go ahead please thanks thank you so
    very much keep doing to me for sounds looks seems idea way choice call plan one all and i like
    love just as like we let's lets with from now on always more in future same again""".split()  # noqa: SIM905 - a word list
)

_TURNS_ROUND = frozenset(
    """not never no dont doesnt didnt isnt arent wasnt cant cannot wont shouldnt mustnt stop avoid quit
    without nor hardly nicht kein keine nie niemals ne pas jamais nunca non mai""".split()  # noqa: SIM905 - a word list
)

# The less a source is to be trusted, the earlier: a memory is labelled by the worst it rests on.
_LEAST_TRUSTED: tuple[Origin, ...] = (
    "teammate", "agent", "hook", "tool", "pasted", "recalled", "system", "assistant",
)  # fmt: skip

_LIST_NUMBER = re.compile(r"^[ \t]*\d{1,3}[.)][ \t]", re.MULTILINE)
_TEMPLATE_WORDS = re.compile(r"\*\*(?:Why|How to apply):?\*\*:?", re.IGNORECASE)
_HEAD_KEY = re.compile(r"^(?:name|description):\s*")
_LINK = re.compile(r"\[\[([^\[\]\n]{1,200})\]\]")


def no_dates(_quote: str, _session: str, _entry: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Record:
    """What the ledger knows: the blocks of an entry, and all blocks before it."""

    origin_text: Callable[[str, str], Blocks]
    before: Callable[[str, str], Blocks]
    # Days (YYYY-MM-DD) that follow from a quote and the time of its entry: "on Friday".
    dates: Callable[[str, str, str], Sequence[str]] = no_dates


def why_unproven(
    proposal: Proposal, record: Record, memories: Iterable[Memory], vouched: str
) -> str:
    """ "" if the user's own words carry this memory, else the reason why not."""
    claim = claimed_text(proposal, memories, vouched)
    if not claim.strip() and vouched:
        return ""  # nothing new is said
    if not proposal.evidence:
        return "it quotes nothing that the user typed"
    support = _supported(proposal, record)
    if support.reason:
        return support.reason
    proof = "\n".join([*support.stated, *support.besides])
    missing = wording.missing_tokens(claim, proof)
    if missing:
        return f"the user's words do not contain {_short(min(missing))}"
    stems = wording.content_stems(claim)
    share = len(stems & wording.content_stems(proof)) / len(stems) if stems else 1.0
    if share < _NEEDED_SHARE:
        return f"only {share:.0%} of its words are the user's own"
    if turned := turned_round(claim, support.stated):
        return f"it says the opposite of what the user typed: {_short(turned)}"
    if proposal.type == "user" and (other := speaks_of(claim, support.sentences)):
        return f"those words are about somebody else: {_short(other)}"
    return ""


@dataclass(slots=True)
class _Support:
    """What quotes prove."""

    reason: str = ""  # why they prove nothing
    stated: list[str] = field(default_factory=list[str])
    besides: list[str] = field(
        default_factory=list[str]
    )  # what was confirmed, and days that follow
    sentences: list[str] = field(default_factory=list[str])


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
        if not _found(item.quote, typed, unless_negated=True):
            return _Support(f"a quote leaves out the “not” before it: {_short(item.quote)}")
        where = told(item.quote, typed)
        if where is not None and not where.stated:
            continue
        found.sentences += where.sentences if where else ()
        found.stated.append(where.stated if where else item.quote)
        found.besides.append(_confirmed_text(record, session, item.entry))
        found.besides.extend(record.dates(item.quote, session, item.entry))
    if not found.stated:
        only = _short(proposal.evidence[0].quote)
        found.reason = f"a quote is a question, a wish to forget, or somebody else's words: {only}"
    return found


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
    return {"team": "teammate", "outside": "outside"}.get(proposal.writer, "assistant")


def claimed_text(proposal: Proposal, memories: Iterable[Memory], vouched: str) -> str:
    """What the memory says, without template words, links to memories there are, and proven lines."""
    head = f"{_spelled(proposal.name, proposal.type)}\n{proposal.description}\n{proposal.hook}"
    text = f"{head}\n{proposal.body}"
    targets = _link_targets(memories) if "[[" in text else set[str]()
    proven: set[str] = set()
    for line in _bare(vouched, targets).splitlines():
        value = _HEAD_KEY.sub("", line)
        proven.update(map(wording.fold, (line, value, _spelled(value, proposal.type))))
    lines = [line for line in _bare(text, targets).splitlines() if wording.fold(line) not in proven]
    return "\n".join(
        " ".join(one for one in wording.sentences(line) if wording.fold(one) not in proven)
        for line in lines
    )


def _spelled(name: str, kind: str | None) -> str:
    """A name as words: `feedback_no_mocks` says "no mocks"."""
    words = re.sub(r"[_-]+", " ", name)
    return re.sub(rf"^{kind}\b", "", words, flags=re.IGNORECASE) if kind else words


def _bare(text: str, targets: set[str]) -> str:
    text = _LINK.sub(lambda link: " " if _link_key(link[1]) in targets else link[0], text)
    return _TEMPLATE_WORDS.sub(" ", _LIST_NUMBER.sub("", text))


def _link_targets(memories: Iterable[Memory]) -> set[str]:
    targets: set[str] = set()
    for memory in memories:
        targets.update((_link_key(memory.name), _link_key(memory.path)))
    return targets


def _link_key(target: str) -> str:
    return target.partition("|")[0].removesuffix(".md").strip().casefold().replace("_", "-")


def _found(quote: str, parts: Iterable[str], *, unless_negated: bool = False) -> bool:
    needle = wording.fold(quote)
    if not any(map(str.isalnum, needle)):
        return False
    for part in parts:
        folded = wording.fold(part)
        at = folded.find(needle)
        while at >= 0:
            whole = wording.bounded(folded, at, at + len(needle))
            if whole and not (unless_negated and _negated(folded[max(0, at - 60) : at])):
                return True
            at = folded.find(needle, at + 1)
    return False


def _negated(before: str) -> bool:
    """Whether the clause in which a quote stands turns it round: "never" + "use tabs"."""
    clause = re.split(r"[.,;:!?()—–]", before)[-1]
    return any(word.replace("'", "") in _TURNS_ROUND for word in wording.words(clause)[-5:])


def is_plain_confirmation(typed: Sequence[str]) -> bool:
    """Whether all that was typed says yes and nothing else."""
    said = [word for part in typed for word in re.findall(r"[^\s.,;:!?()\"]+", wording.fold(part))]
    said = [word.casefold().replace("’", "'") for word in said]
    return (
        0 < len(said) <= _MOST_CONFIRMING
        and any(word in _CONFIRMS for word in said)
        and all(word in _CONFIRMS or word in _FILLERS for word in said)
    )


def _confirmed_text(record: Record, session: str, entry: str) -> str:
    """The assistant's text that a plain confirmation answers, or "" if it can't be taken for it."""
    blocks = record.origin_text(session, entry)
    if not is_plain_confirmation(typed_parts(blocks)):
        return ""
    earlier = record.before(session, entry)
    said: list[str] = []
    for origin, text in reversed(earlier):
        if origin == "assistant":
            said.append(text)
        elif origin not in ("hook", "system", "recalled"):  # those are attached in between
            break
    answer = "\n".join(reversed(said))
    return "" if _repeats(answer, untyped_parts([*earlier, *blocks])) else answer


def _repeats(text: str, sources: Iterable[str]) -> bool:
    """Whether five words in a row of `text` stand in one of the sources."""
    said = wording.words(text)
    runs = {tuple(said[i : i + _REPEATED]) for i in range(len(said) - _REPEATED + 1)}
    if not runs:
        return False
    for source in sources:
        heard = wording.words(source)
        if any(tuple(heard[i : i + _REPEATED]) in runs for i in range(len(heard) - _REPEATED + 1)):
            return True
    return False


def _short(text: str) -> str:
    folded = wording.fold(text)
    return f"“{folded if len(folded) <= 60 else folded[:57] + '…'}”"
