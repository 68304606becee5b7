"""The gate: one function that says of every write to memory, by anyone, accept, inbox or refuse.

It touches nothing: what it must know (the memories there are, tombstones, pins, what the ledger
says of a quote) comes in as plain data and callables in a `GateContext`.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from lamina.memories import HEAD, Memory, Proposal, Verdict, Writer, as_quoted, quoted_from
from lamina.memory import evidence
from lamina.memory.drafts import Leak, leaks_of, new_leaks, secrets_of
from lamina.memory.known_memories import Familiar, Listed, stems_said
from lamina.memory.naming import why_bad_name, why_misnamed
from lamina.memory.removal import Saying, clauses, still_said, taken_back
from lamina.messages import Origin
from lamina.text import wording
from lamina.text.claims import no_statement, order_heard
from lamina.text.dates import Days
from lamina.text.likeness import tells_apart
from lamina.text.origins import hidden_character, speaks_as_system, tells_of_code, typed_parts
from lamina.text.own_words import on_one_line

if TYPE_CHECKING:
    from lamina.secrets import Rules

Scope = Literal["personal", "team"]

# Blocks of one ledger entry, or of all entries before one: (origin, text), oldest first.
OriginTexts: TypeAlias = Sequence[tuple[Origin, str]]

_SAME = 1.0
_FRONTMATTER_BYTES = 3_500  # readers look at the first 4 KB only
_ADVISED_HOOK = 150
MASKED = "it held a secret, which is masked here"
_NO_TEAM = (
    "this project has no team memory: `lamina team join URL` begins one; else save it outside team/"
)
_KEY = re.compile(r"[A-Za-z_][\w.-]{0,79}")


def _never_forgotten(_proposal: Proposal) -> str:
    return ""


def _always_forgotten(_proposal: Proposal) -> tuple[float, str]:
    return math.inf, ""


def nothing_vouched(_path: str) -> str:
    return ""


def _says_nothing(_line: str) -> bool:
    return False


def days_named(when: Callable[[str, str], str], quote: str, session: str, entry: str) -> list[Days]:
    """The days that a quote names, in a row, from the day on which its entry was said by `when`."""
    try:
        said = datetime.fromisoformat(when(session, entry))
    except ValueError:
        return []
    days = {said.date(), said.astimezone().date()}  # as recorded, and as the user's clock showed
    return [run for day in days if (run := Days.of(quote, day))]


@dataclass(frozen=True, slots=True)
class GateContext:
    """What the gate needs to know. Every default is the strict one: nothing known, nothing proven."""

    memories: Sequence[Memory] = ()  # all that exist, the file to be overwritten among them
    familiar: Familiar | None = None  # the same for thousands; then `memories` is not looked at
    pinned: Collection[str] = ()  # paths that only the user may change
    # "" or, if the proposal says what was forgotten, a few words on the tombstone ("on 2026-01-02").
    forgotten: Callable[[Proposal], str] = _never_forgotten
    # When that was, the last time, and the ledger entry that asked for it ("" if nobody knows).
    forgotten_at: Callable[[Proposal], tuple[float, str]] = _always_forgotten
    # When a ledger entry was written; 0.0 if nobody knows.
    said_at: Callable[[str, str], float] = evidence.never_said
    # The blocks of one ledger entry with their origins. A typed block may hold pasted parts: the
    # gate splits it again. An unknown entry gives ().
    origin_text: Callable[[str, str], OriginTexts] = evidence.nothing
    # Everything recorded in that session before the entry, oldest first: for confirmations.
    before: Callable[[str, str], OriginTexts] = evidence.nothing
    # Everything recorded in a session.
    whole: Callable[[str], OriginTexts] = evidence.nothing
    # Days that follow from a quote and the time of its entry, so that a date made absolute counts
    # as said.
    dates: Callable[[str, str, str], Sequence[Days]] = evidence.nothing
    # Text at a path that, by the history, already rests on the user's word: an update need not
    # prove those lines again. What only `outside` wrote is not among it.
    vouched: Callable[[str], str] = nothing_vouched
    # Does a memory that is shown unasked say this line? Then it is only moved.
    says: Callable[[str], bool] = _says_nothing
    # Whose word a memory is by the history; "" if nobody recorded it.
    origin_of: Callable[[str], str] = nothing_vouched
    # What a person said in this file that the write drops and no other memory says.
    leaving: Sequence[Saying] = ()
    # Gives a question to somebody who reads and hands back the answer, "" if there is none; see
    # `memory.reading`. None: nobody reads, and the words decide alone.
    reader: Callable[[str], str] | None = None
    scope: Scope = "personal"
    team: bool = True  # False: this project has not joined a team, so nothing is written to team/
    inbox_all: bool = False  # a setting: nothing but the user's own writes goes straight in
    max_bytes: int = 250_000
    secret_rules: Rules | None = None  # None: the rules that come with Lamina
    # Whose memory it is, where it is not the user's: that agent's own learnings need no proof.
    owner: str = ""
    heard: Callable[[], Iterable[str]] = tuple  # what others told it: no order among it is its own

    @property
    def record(self) -> evidence.Record:
        return evidence.Record(self.origin_text, self.before, self.whole, self.dates)

    @property
    def known(self) -> Familiar:
        return Listed(self.memories) if self.familiar is None else self.familiar


def decide(proposal: Proposal, context: GateContext) -> Verdict:
    """Accept, inbox or refuse, with one sentence why. Pure; never raises for a bad proposal.

    `Verdict.origin` is whose word the memory is (`typed` for the user's own): the store records it
    and shows it in the index line where it is not `typed`. `Verdict.update_of` names the memory that
    an inbox entry should update instead of doubling it. No sentence repeats a secret.
    """
    hide = secrets_of(proposal, context.secret_rules)
    if not hide:
        return _decided(proposal, context)
    named = context.known.get(proposal.path) is None and hide.named_by(proposal.path)
    leaks = leaks_of(proposal, context.secret_rules, hide)
    verdict = _decided(proposal, context, leaks, named=named)
    warnings = [hide.mask(one) for one in verdict.warnings]
    return dataclasses.replace(verdict, reason=hide.mask(verdict.reason), warnings=warnings)


def _decided(
    proposal: Proposal, context: GateContext, leaks: Sequence[Leak] = (), *, named: bool = False
) -> Verdict:
    """`named`: a new file's name would give a secret away."""
    twin, alike = _nearest(proposal, context.known)
    other = context.known.get(twin) if twin else None
    apart = other is not None and tells_apart(_said(proposal), _said(other))
    forgotten = context.forgotten(proposal)
    revives = bool(forgotten) and _asked_again(proposal, context)
    new = new_leaks(leaks, context.known.get(proposal.path))
    forgotten_still = "" if revives else forgotten
    refusal = _why_refused(proposal, context, forgotten_still, leaks)
    refusal = refusal or _why_secret(proposal, new, named=named)
    same = alike >= _SAME and not apart
    whose = _whose(proposal, context, forgotten_still) if not refusal else ("", "")
    if (
        other is not None and other.quoted
    ):  # what speaks doubles no quotation, nor two of them each other
        same = bool(quoted_from(whose[1])) and not apart
        twin = twin if same else ""
    if not refusal and same and proposal.writer not in ("user", "team"):
        refusal = f"{twin} says the same already"
    if refusal:
        return Verdict("refuse", sentence_of(refusal), update_of=twin if same else "")
    warnings = [*(leak.sentence for leak in leaks), *_form_warnings(proposal)]
    if proposal.writer == "user":
        if twin:
            warnings.append(_twin_warning(twin, apart=apart))
        if forgotten:
            warnings.append(f"This was forgotten {forgotten} and now comes back.")
        return Verdict("accept", "", warnings, update_of=twin, origin="typed")
    reason, origin = whose
    reason = reason or proposal.doubt
    if new or named:
        reason = MASKED
    if twin and not reason and proposal.writer != "team":
        if apart and origin == "typed":  # the user's word is kept beside the older one
            warnings.append(_twin_warning(twin, apart=apart))
        else:
            reason = f"{twin} says nearly the same, so this should update it"
    reason = reason or why_kept(proposal, context)
    if reason:
        # Nobody looks into an agent's inbox: what a person should see first is refused.
        decision = "refuse" if context.owner else "inbox"
        theirs = [] if new or origin == "typed" else evidence.their_words(proposal, context.record)
        reason += f"; their whole words are “{on_one_line(' '.join(theirs))}”" if theirs else ""
        return Verdict(decision, sentence_of(reason), warnings, twin, origin, theirs=theirs)
    if revives:
        warnings.append(f"This was forgotten {forgotten}; asked for again, it comes back.")
    return Verdict("accept", "", warnings, origin=origin, revives=revives)


def _whose(proposal: Proposal, context: GateContext, forgotten: str) -> tuple[str, str]:
    """Why a person should look first ("" if not), and whose word the memory is."""
    if proposal.writer == "user":
        return "", "typed"
    why = _why_ask if proposal.writer == "team" else _why_inbox
    return (_why_not_its_own if context.owner else why)(proposal, context, forgotten)


def _twin_warning(twin: str, *, apart: bool) -> str:
    same = "says nearly the same: update it instead?"
    return f"{twin} {'differs from this in little: both are kept.' if apart else same}"


def why_kept(proposal: Proposal, context: GateContext) -> str:
    """Which of the statements that would leave the user did not take back; "" if they did."""
    if not context.leaving or proposal.writer == "user":
        return ""
    typed = [
        (context.said_at(session, item.entry), part)
        for item in proposal.takes_back
        for session in [item.session or proposal.session]
        for part in typed_parts(context.origin_text(session, item.entry))
    ]
    gone = taken_back(context.leaving, typed, proposal.path)
    kept = [one.text for one in context.leaving if one not in gone]
    if not kept:
        return ""
    more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
    return (
        f"{proposal.path} would lose “{wording.fold(kept[0])[:80]}”{more}, which nobody took back"
    )


def decide_removal(proposal: Proposal, context: GateContext) -> Verdict:
    """The same for a file that is to go: only what it says is looked at."""
    reason = why_kept(proposal, context)
    return Verdict("inbox" if reason else "accept", sentence_of(reason) if reason else "")


def _asked_again(proposal: Proposal, context: GateContext) -> bool:
    """Did the user, after they had it forgotten, ask in words they typed to remember just this?

    Everything new that the memory says must stand in such wishes: what they said otherwise, or said
    before, brings nothing back.
    """
    if proposal.writer not in ("agent", "extraction"):
        return False
    since, by = context.forgotten_at(proposal)
    record = context.record
    wishes = [
        item
        for item in proposal.evidence
        if evidence.is_wish(item, proposal.session, record, instead=item.entry == by)
        and (
            item.entry == by
            or context.said_at(item.session or proposal.session, item.entry) > since
        )
    ]
    vouched = context.vouched(proposal.path)
    new = evidence.claimed_text(proposal, context.known, vouched).strip()
    asked = dataclasses.replace(proposal, evidence=wishes)
    return bool(wishes and new) and not evidence.why_unproven(asked, record, context.known, vouched)


def sentence_of(reason: str) -> str:
    from lamina.secrets import redact

    reason = redact(reason)
    if reason.partition(" ")[0].isalpha():  # a file's name keeps its own letters
        reason = reason[:1].upper() + reason[1:]
    return reason if reason.endswith((".", "?")) else f"{reason}."


def _all_text(proposal: Proposal) -> str:
    extra = "\n".join(f"{key}: {value}" for key, value in proposal.extra.items())
    return f"{proposal.name}\n{proposal.description}\n{proposal.hook}\n{extra}\n{proposal.body}"


def _said(memory: Memory | Proposal) -> str:
    return f"{memory.description}\n{memory.body}"


def _is_team(proposal: Proposal, context: GateContext) -> bool:
    return context.scope == "team" or proposal.path.startswith("team/")


def _why_refused(
    proposal: Proposal, context: GateContext, forgotten: str, leaks: Sequence[Leak]
) -> str:
    """The rules without appeal, cheapest first. Only pins and tombstones yield to the user."""
    taken = context.known.spellings(proposal.path)
    if bad := why_bad_name(proposal.path, taken) or _why_bad_form(proposal, context.max_bytes):
        return bad
    if hidden := hidden_character(_all_text(proposal)):
        return f"{proposal.path} would hold {hidden}: remove it"
    if _is_team(proposal, context):
        if not context.team:
            return _NO_TEAM
        if private := _why_not_for_team(proposal, leaks):
            return private
    if proposal.writer == "user":
        return ""
    if proposal.path in context.pinned:
        return f"{proposal.path} is pinned: only the user may change it"
    if forgotten and proposal.writer in ("extraction", "dream", "team"):
        return f"the user had this forgotten {forgotten}"
    return ""


def _why_secret(proposal: Proposal, new: Sequence[Leak], *, named: bool) -> str:
    """Who can be told saves no secret unawares; what works in the background waits without it."""
    if proposal.writer not in ("user", "agent", "program"):
        return ""
    if new and not proposal.allow_secret:
        return leave_out(new[0], proposal.writer)
    return "the file's name would give a secret away: choose another" if named else ""


def leave_out(leak: Leak, writer: Writer) -> str:
    or_insist = ", or insist with `lamina memory add --allow-secret`" if writer == "user" else ""
    return f"{leak.sentence.removesuffix('.')}: leave it out{or_insist}."


def _why_not_for_team(proposal: Proposal, leaks: Sequence[Leak]) -> str:
    if proposal.type == "user":
        return "memories about the user stay personal: write it outside team/"
    if leaks:
        return f"team memory never holds secrets: {leaks[0].sentence}"
    return ""


def _why_bad_form(proposal: Proposal, max_bytes: int) -> str:
    head = {"name": proposal.name, "description": proposal.description, "hook": proposal.hook}
    for key, value in (*head.items(), *proposal.extra.items()):
        if len(value.splitlines()) > 1 or value.endswith(("\n", "\r")):
            return f"the {key} of {proposal.path} spans lines: put it on one"
    for key in proposal.extra:
        if not _KEY.fullmatch(key) or key in ("name", "description", "type"):
            return f"{proposal.path} would get a frontmatter key that is no plain word"
    if _bytes(head) + _bytes(proposal.extra) > _FRONTMATTER_BYTES:
        return f"name and description of {proposal.path} are too long: move detail into the body"
    if not (proposal.description.strip() or proposal.body.strip()):
        return f"{proposal.path} would say nothing"
    size = len(_all_text(proposal).encode("utf-8", "replace"))
    if size > max_bytes:
        return (
            f"{proposal.path} would take {size:,} bytes of at most {max_bytes:,}: split it by topic"
        )
    return ""


def _bytes(pairs: Mapping[str, str]) -> int:
    return sum(len(f"{key}{value}".encode("utf-8", "replace")) for key, value in pairs.items())


def _form_warnings(proposal: Proposal) -> list[str]:
    warnings: list[str] = []
    if not proposal.description.strip():
        warnings.append(f"{proposal.path} has no description, so recall will seldom find it.")
    if len(proposal.hook or proposal.description) > _ADVISED_HOOK:
        warnings.append(f"The index line of {proposal.path} exceeds {_ADVISED_HOOK} characters.")
    if proposal.writer in ("agent", "extraction") and tells_of_code(_said(proposal)):
        warnings.append(
            f"{proposal.path} says what the project itself tells (its code, its history): keep only "
            "what can't be read there."
        )
    return warnings


def _why_inbox(proposal: Proposal, context: GateContext, forgotten: str) -> tuple[str, str]:
    """Why a person should look first ("" if not), and whose word the memory is."""
    record = context.record
    old, theirs = context.known.get(proposal.path), ("user", "feedback")
    # What was kept as a fact, whoever said so, is no word of the user's on themselves yet.
    anew = old is not None and proposal.type in theirs and old.type not in theirs
    vouched = "" if anew else context.vouched(proposal.path)
    unproven = evidence.why_unproven(proposal, record, context.known, vouched)
    new, known = _what_is_new(proposal, context, vouched)
    others_stand = False
    if unproven and known != vouched:
        unproven = evidence.why_unproven(new, record, context.known, known)
        others_stand = not unproven
    origin = evidence.weakest_origin(proposal, record) if unproven else "typed"
    if others_stand:  # the label of what stands there stays
        origin = context.origin_of(proposal.path) or origin
    if marker := speaks_as_system(_all_text(proposal)):
        return f"it speaks as the system or another turn: {marker}", origin
    if forgotten:
        return f"the user had this forgotten {forgotten}", origin
    if unproven and proposal.type in ("user", "feedback"):
        return f"a {proposal.type} memory needs the user's own word, and {unproven}", origin
    there = context.known.get
    named = why_misnamed(proposal, there) if there(proposal.path) is None else ""
    if why := _why_unlabelled(proposal, record, f"{vouched}\n{known}") or named:
        return why, origin
    if unproven or others_stand:
        text = evidence.claimed_text(new, context.known, known)
        why = _why_no_fact(new, text, origin, record) if unproven else ""
        if not why:
            why, origin = _as_quotation(new, text, origin, context, told=not unproven)
        if why:
            return why, origin
    if context.inbox_all:
        return "everything goes to the inbox by your settings", origin
    return "", origin


def _why_unlabelled(proposal: Proposal, record: evidence.Record, stood: str) -> str:
    """A dream's file is not worked over when it is written: it brings the label itself."""
    if proposal.writer != "dream" or proposal.type not in ("user", "feedback"):
        return ""
    told = evidence.unproven_explanations(proposal, record, stood)
    return f"nobody said “{told[0].strip()[:80]}”, and it lacks its label" if told else ""


def _why_no_fact(new: Proposal, text: str, origin: str, record: evidence.Record) -> str:
    """ "" or why what nobody typed is not even kept as a quotation."""
    if what := no_statement(text, new.name):
        return f"a {new.type or 'memory'} states facts, and this {what}"
    # With no session at all (an agent whose prompts nobody records) there is nowhere to look.
    said_by_us = origin == "assistant" and new.writer in ("agent", "extraction")
    if said_by_us and (new.session or new.evidence):
        return evidence.why_unfounded(new, text, record)
    return ""


def _as_quotation(
    new: Proposal, text: str, origin: str, context: GateContext, *, told: bool
) -> tuple[str, str]:
    """What nobody typed is a quotation, unless it only restates what the user did: a file of its own, for
    what speaks takes none in, and what the user `told` must not be hidden in one."""
    # A program and a teammate answer for what they say; what a dream tidies passed here before.
    dreamt = new.writer == "dream"
    if new.writer not in ("agent", "extraction") and not (dreamt and new.evidence):
        return "", origin
    old = context.known.get(new.path)
    text = "\n".join(line for line in text.splitlines() if not context.says(line))
    new = dataclasses.replace(new, name="" if context.says(new.name) else new.name)
    told = told or evidence.restates(new, text, context.record)
    if old is not None and old.quoted:
        if told and text.strip():
            return f"{new.path} is a quotation, and what the user says is not hidden in one", origin
        return "", as_quoted(evidence.weaker(old.quoted, origin))
    if told:
        return "", origin
    if old is not None:
        return f"nobody typed it, and {new.path} is shown unasked", origin
    return ("nobody typed it", origin) if dreamt else ("", as_quoted(origin))


def _why_ask(proposal: Proposal, context: GateContext, _forgotten: str) -> tuple[str, str]:
    """The same for what a teammate wrote: what they state is taken as theirs. What tells the agent what
    to do, or speaks for the user, is asked about; what the user accepted of it is not asked again."""
    new, known = _what_is_new(proposal, context, context.vouched(proposal.path))
    marker = speaks_as_system(_all_text(proposal))
    what = no_statement(evidence.claimed_text(new, context.known, known), new.name)
    what = f"speaks as the system or another turn: {marker}" if marker else what
    reason = f"what {proposal.teammate or 'a teammate'} wrote {what}" if what else ""
    return reason, f"teammate {proposal.teammate}".strip()


def _why_not_its_own(proposal: Proposal, context: GateContext, forgotten: str) -> tuple[str, str]:
    """The same for an agent's own memory: it may hold rules, but not those that it was told by a file,
    a page or another agent."""
    text = _all_text(proposal)
    if marker := speaks_as_system(text):
        why = f"it speaks as the system or another turn: {marker}"
    elif forgotten:
        why = f"it was forgotten {forgotten}"
    elif "<!--" in proposal.body:
        why = "it hides words in a comment"
    else:
        order = order_heard(text, context.heard)
        why = f"it gives an order that the agent was told: “{order[:80]}”" if order else ""
    return why, context.owner


def _what_is_new(proposal: Proposal, context: GateContext, vouched: str) -> tuple[Proposal, str]:
    """An update without what the file says already, and all lines that need no proof: what stands
    there is not said anew. Of a file that becomes the user's word only now, all is."""
    old = context.known.get(proposal.path)
    if old is None or (proposal.type in ("user", "feedback") and old.type != proposal.type):
        return proposal, vouched
    extra = {key: one for key, one in proposal.extra.items() if old.extra.get(key) != one}
    new = proposal.name if proposal.name != old.name else ""
    proposal = dataclasses.replace(proposal, extra=extra, name=new)
    standing = f"{HEAD}name: {old.name}\n{HEAD}description: {old.description}\n{old.body}"
    if proposal.type in ("user", "feedback"):
        return proposal, standing
    standing = f"{vouched}\n{standing}"
    fresh = [part for part in clauses(proposal.description) if not still_said(part, [old])]
    return dataclasses.replace(proposal, description=", ".join(fresh)), standing


def _nearest(proposal: Proposal, known: Familiar) -> tuple[str, float]:
    """The memory that says nearly the same at another path, and how alike they are."""
    if proposal.path in known.spellings(proposal.path):
        return "", 0.0  # an update of its own file doubles nothing
    return known.nearest(stems_said(proposal.description, proposal.body))
