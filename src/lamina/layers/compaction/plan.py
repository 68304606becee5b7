"""What a compaction would put in the place of a span: a summary from the notes, from a model within
what is copied, or from the record alone, each with the score of its probes.

Reads the ledger and the notes' file, may start forks; changes nothing. Where the model has no Expand,
what leaves its view is written to `<session>/tool-results/`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lamina.cache.account import Account
from lamina.errors import UsageError
from lamina.events import Warned
from lamina.layers.compaction.ask import ask, asked_score
from lamina.ledger import spans, tokens
from lamina.ledger.places import NOTES, RESULTS
from lamina.ledger.spans import Span
from lamina.local import summariser
from lamina.local.probes import Probe, Score, likeliest, probes_of, score
from lamina.local.session_facts import SessionFacts, texts_in
from lamina.local.summariser import empty, shortened
from lamina.machine import write_private
from lamina.messages import Json, as_object, text_of
from lamina.state import State

SHARE_OF_WINDOW = 0.25  # the view after a compaction stays below this; set by hand
_WRITTEN = 0.25  # of a summary, by a model; the rest is copied. Set by hand
LEAST_SPAN = 200  # tokens; less is not worth a summary
NOTES_WAY, SHORT_WAY = "notes", "short"  # ways to copy: see `FellShort`


@dataclass(frozen=True, slots=True)
class _Removed:
    """What happened in a span, and what a new view is asked about it."""

    facts: SessionFacts
    probes: list[Probe]
    kept: str  # what stays beside it

    @classmethod
    def of(cls, state: State, span: Span) -> _Removed:
        facts = _what(state, span)
        return cls(facts, probes_of(facts), _new_view(state, span, ""))


@dataclass(slots=True)
class FellShort:
    """Ways of copying from the record that held too little of it, each with how many entries that had
    then. The same room holds less of a record that went on, so that such a way is tried again only
    when it has become twice as long, or when it is given another room or another share to hold. A fold
    says so in its boundary: who resumes knows it too."""

    ways: dict[str, int]
    entries: int  # of the record now
    terms: list[float]  # the window, and how much of the record must be held

    @classmethod
    def of(cls, state: State, *, anew: bool = False) -> FellShort:
        projection = state.ledger.projection
        made_by = projection.rows[0].edit if projection.rows else ""
        boundary = as_object((projection.entry(made_by) or {}).get("boundary"))
        now, told = len(state.ledger.entries), as_object(boundary.get("fell_short"))
        terms = [state.window.effective, state.config.float("compact.fidelity")]
        known = () if anew or told.get("terms") != terms else told.items()
        ways = {way: at for way, at in known if isinstance(at, int) and now < 2 * at}
        return cls(ways, now, terms)

    def to_json(self) -> Json:
        return {"terms": self.terms, **self.ways}

    def add(self, way: str) -> None:
        self.ways.setdefault(way, self.entries)


@dataclass(slots=True)
class SummaryPlan:
    """A summary that was not applied yet."""

    span: Span
    text: str
    source: str
    score: Score
    asked: float | None = None  # share of the probes that a model answered from the new view


# ---- what it says of itself


def framed(state: State, plan: SummaryPlan, name: str) -> str:
    """The summary as it stands in the view, with the way back to what it stands for."""
    entries = state.ledger.entries[plan.span.first : plan.span.last + 1]
    if state.expands:
        way = (
            "References in [#…] name entries of the record: the Expand tool shows them whole, and "
            f"{summariser.ref(name)} shows everything that this summary stands for."
        )
    elif path := kept_in_file(state, name, "\n\n".join(spans.shown(entries))):
        way = (
            f"All of them are in {path}, each headed by the [#…] that it has here: read there what "
            "you need whole."
        )
    else:
        way = "They can't be opened from here; [#…] are marks of the record."
    body = plan.text.replace("</summary>", "&lt;/summary>")  # copied words don't end the frame
    return (
        "<summary>\nEarlier messages of this conversation left your view; this stands for them. "
        f"{way}\n\n{body}\n</summary>"
    )


def kept_in_file(state: State, name: str, words: str) -> str:
    """The path of a file with what leaves the view; "": the model can't read it, or it can't be."""
    if not state.names_files:
        return ""
    path = state.deps.folder / RESULTS / f"{name[:8]}.txt"
    try:
        write_private(path, words.encode("utf-8", "replace"), lasting=True)
    except OSError:  # a request that fits is worth more
        return ""
    return str(path)


# ---- from notes (L3.5): no model call


def from_notes(state: State, fell_short: FellShort, full: Span | None = None) -> SummaryPlan | None:
    """The notes and what they leave out. `full`: what a full summary would stand for, to which they
    give way where they free too little."""
    notes = as_object(state.ledger.state("notes"))
    by_rules = notes.get("by") != "model"  # a model's words may hold what no copy did
    if by_rules and NOTES_WAY in fell_short.ways:
        return None
    path = state.deps.folder / NOTES
    try:
        written = path.read_text("utf-8", "replace")
    except OSError:
        return None
    cursor = state.ledger.projection.position.get(str(notes.get("entry")))
    if cursor is None or empty(written):
        return None
    span = _before_kept(state, cursor)
    if span is None:
        return None
    room = budget(state, span)
    section: int = state.flags.value("notes.section_tokens")
    text = shortened(written, section, room, str(path) if state.names_files else "")
    if not _frees_enough(state, span.tokens - tokens.of_text(text), full):
        return None  # before anything is read for it: more words would free less
    what = _what(state, span)
    kept = _new_view(state, span, text)
    left = max(room // 4, room - tokens.of_text(text))
    copied = summariser.nine_parts(what, budget=left, kept=kept)
    body = f"{text}\n\n# From the record\n{copied}"
    if not _frees_enough(state, span.tokens - tokens.of_text(body), full):
        return None
    found, view = probes_of(what), f"{kept}\n{copied}"
    plan = SummaryPlan(span, body, "notes", score(found, view))
    if _serves(state, plan, found, tokens.of_text(view)):
        return plan
    if by_rules:
        fell_short.add(NOTES_WAY)
    return None


def _serves(state: State, plan: SummaryPlan, found: list[Probe], size: int) -> bool:
    """Do these notes hold enough, and no less than the bare beginning and end of the conversation
    would in the same room?"""
    if plan.score.count < 5:  # too few to tell
        return True
    if plan.score.share < state.config.float("compact.fidelity"):
        return False
    return plan.score.share >= score(found, _head_and_tail(state, size)).share


def _head_and_tail(state: State, room: int) -> str:
    """The first message, cut to a tenth of the room, and the last ones."""
    first, *rest = state.ledger.projection.rows
    words = "\n".join(texts_in(first.block)).encode()
    head = words[: room * 4 // 10].decode("utf-8", "ignore")
    left = room - tokens.of_text(head)
    kept: list[str] = []
    for row in reversed(rest):
        text = "\n".join(texts_in(row.block))
        left -= tokens.of_text(text)
        if left < 0:
            break
        kept.append(text)
    return "\n".join([head, *reversed(kept)])


def _frees_enough(state: State, freed: int, full: Span | None) -> bool:
    """Notes keep a longer tail. Where that leaves most of the view as it is, the next compaction
    would be due at once, and where writing that tail anew costs more than a full one's call: that
    takes more. Without a warm cache the call would read the whole prompt at its full price."""
    if full is None:
        return True
    summary, account = budget(state, full), state.balance()
    if account is None or 2 * freed < full.tokens or account.cold(state.deps.clock.now()):
        return 2 * freed >= full.tokens
    longer = state.weight * (full.tokens - summary - freed)
    return account.rates.again * longer <= call_price(state, account, summary)


def call_price(state: State, account: Account, summary: int) -> float:
    """What the model's part of a summary of this size costs."""
    rates = account.rates
    return rates.read * state.ledger.tokens() + rates.output * _WRITTEN * summary


def _before_kept(state: State, cursor: int) -> Span | None:
    """What the notes cover, less what is kept; None if the tail can't reach back to them."""
    projection, flags = state.ledger.projection, state.flags
    # A setting beyond this would leave too little room for the work that follows.
    room = state.window.effective // 4
    most: int = min(flags.value("notes.keep_most_tokens"), room)
    _say_if_less(state, "notes.keep_tokens", most)
    uncovered = next((row.entry for row in projection.rows_of(cursor + 1)), None)
    border = spans.tail_border(
        projection,
        least=min(flags.value("notes.keep_tokens"), most),
        most=most,
        texts=flags.value("notes.keep_messages"),
        not_after=uncovered,
        answers=state.whole_rounds,
    )
    if border is None or (uncovered is not None and border > uncovered):
        return None
    span = spans.before(projection, border)
    return None if span is None or span.tokens < LEAST_SPAN else span


def _say_if_less(state: State, name: str, most: int) -> None:
    """A user's own figure that this window can't hold is not lowered in silence."""
    wanted: int = state.flags.value(name)
    told = f"{name} is {wanted:,}, but this model's window leaves room for {most:,} tokens."
    if wanted > most and state.flags.sources.get(name) != "default" and told not in state.said:
        state.said.add(told)
        state.emit(Warned(told))


# ---- in full


async def in_full(
    state: State, span: Span, instructions: str, fell_short: FellShort, *, up_to: bool
) -> SummaryPlan:
    """A summary by the model within what is copied; else by the local summariser alone."""
    what = _Removed.of(state, span)
    room = budget(state, span)
    plans: list[SummaryPlan] = []
    if state.fork is not None and state.deps.model.name != "none":
        plans = await _by_model(state, span, what, room, instructions, up_to=up_to)
        if plans and faithful(state, plans[-1]):
            return plans[-1]
    for size in (room, room * 2):
        if size == room and SHORT_WAY in fell_short.ways and 3 * size <= span.tokens:
            continue
        plans.append(_made(state, span, what, size, None, up_to=up_to))
        if faithful(state, plans[-1]):
            break
        if size == room:
            fell_short.add(SHORT_WAY)
    plans = [plan for plan in plans if tokens.of_text(plan.text) < span.tokens]
    if not plans:
        raise UsageError("There is too little to compact: a summary would be longer.")
    return max(plans, key=lambda plan: plan.score.share)


def budget(state: State, span: Span) -> int:
    """Tokens of a summary of this span."""
    return max(400, min(8_000, int(state.window.size * SHARE_OF_WINDOW) // 3, span.tokens // 3))


async def _by_model(
    state: State, span: Span, what: _Removed, budget: int, instructions: str, *, up_to: bool
) -> list[SummaryPlan]:
    """Up to two tries; the second is told what the first one missed."""
    found = likeliest(what.probes)
    plans: list[SummaryPlan] = []
    extra = ""
    for _ in range(2):
        parts = await ask(state, instructions + extra, span)
        if parts is None:
            break
        plan = _made(state, span, what, budget, parts, up_to=up_to)
        plans.append(plan)
        if faithful(state, plan):
            break
        asked = await asked_score(state, found, _new_view(state, span, plan.text))
        plan.asked = asked.share if asked else None
        if faithful(state, plan):
            break
        missed = "; ".join(plan.score.missed)
        extra = f"\nMention these if the conversation knows them: {missed}"
    return plans


def faithful(state: State, plan: SummaryPlan) -> bool:
    return max(plan.score.share, plan.asked or 0.0) >= state.config.float("compact.fidelity")


def _made(
    state: State,
    span: Span,
    what: _Removed,
    budget: int,
    parts: dict[str, str] | None,
    *,
    up_to: bool,
) -> SummaryPlan:
    text = summariser.nine_parts(
        what.facts, budget=budget, model=parts, up_to=up_to, kept=what.kept
    )
    # The lines that stand for what was snipped go on standing for it.
    lines = [text_of(m["content"]) for _, _, e in _snips(state, span) for m in e["messages"]]
    if lines:
        text += "\n\n" + "\n".join(lines)
    source = "model" if parts else "local"
    # What the new view still answers: the summary and the messages that stay.
    found = score(what.probes, f"{text}\n{what.kept}")
    return SummaryPlan(span, text, source, found)


def _what(state: State, span: Span) -> SessionFacts:
    """What happened in the span, earlier summaries' originals included; not what was snipped."""
    gone = {n for low, high, _ in _snips(state, span) for n in range(low, high + 1)}
    places = [n for n in range(span.first, span.last + 1) if n not in gone]
    what = state.facts.at(state.ledger.entries, places)
    todos: list[Json] = state.ledger.state("todos", [])
    if todos:
        what.tasks = [(str(t.get("status", "pending")), str(t.get("content", ""))) for t in todos]
    return what


def _snips(state: State, span: Span) -> list[tuple[int, int, Json]]:
    """(first, last, edit) of the snips in force within a span."""
    projection = state.ledger.projection
    if "snip" not in projection.folding:  # all of the record is looked through for them
        return []
    found = [
        (projection.position[str(edit["first"])], projection.position[str(edit["last"])], edit)
        for edit in projection.active_edits()
        if edit.get("op") == "fold"
        and edit.get("layer") == "snip"
        and edit["uuid"] not in projection.inert
    ]
    return [(a, b, edit) for a, b, edit in found if span.first <= a and b <= span.last]


def _new_view(state: State, span: Span, text: str) -> str:
    kept = [
        "\n".join(texts_in(row.block))
        for row in state.ledger.projection.rows
        if not span.first <= row.entry <= span.last
    ]
    return "\n".join([text, *kept])
