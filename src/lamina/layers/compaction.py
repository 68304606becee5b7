"""Layer 4: compaction. A span of the view becomes a summary that can be trusted, probed and undone.

What can be copied is copied from the ledger; a model's words are added only where they pass the
checks, and without a model the local summariser does all of it. Appends one fold, then restored
files and hook texts; runs hooks; reads files that are shown again from disk. Never changes an entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from lamina import prompts
from lamina.errors import LaminaError, RefusedError, UsageError
from lamina.events import LayerActed, Warned
from lamina.layers.summary_check import model_parts, problem_of
from lamina.ledger import edits, spans, tokens
from lamina.ledger.spans import Span
from lamina.local import summariser
from lamina.local.happened import Happened, happened
from lamina.local.probes import Score, probes, score
from lamina.messages import Json, text_of
from lamina.ports import Decision
from lamina.restoring import restore_files
from lamina.state import State

LAYER = "compaction"
SHARE_OF_WINDOW = 0.25  # the view after a compaction stays below this


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did."""

    edit: str
    source: str  # notes | model | local
    tokens_before: int
    tokens_after: int
    score: float


async def act(state: State) -> None:
    """Compact when the view is over the threshold; notes first, then in full."""
    if state.purpose != "main" or not state.flags.on("autocompact") or state.flags.on("collapse"):
        return
    if state.ledger.tokens() < state.window.autocompact:
        return
    await _guarded(state)


async def make_room(state: State) -> str:
    """The provider refused the prompt: compact whatever the flags say of thresholds."""
    if state.purpose != "main":
        return ""
    done = await _guarded(state)
    return f"compacted ({done.source})" if done else ""


async def _guarded(state: State) -> Compacted | None:
    """Auto-compaction behind its breaker (L4.7)."""
    failures = int(state.ledger.state("compaction_failures", 0))
    most = state.config.int("compact.failures")
    if failures >= most:
        return None
    try:
        done = await compact(state, trigger="auto")
    except LaminaError as error:
        state.ledger.append(edits.state("compaction_failures", failures + 1))
        state.layer_failed(LAYER, error)
        if failures + 1 >= most:
            state.emit(Warned(f"Autocompaction is off for this session after {most} failures."))
        return None
    if failures:
        state.ledger.append(edits.state("compaction_failures", 0))
    return done


async def compact(
    state: State,
    *,
    trigger: str = "manual",
    instructions: str = "",
    from_entry: str = "",
    up_to_entry: str = "",
) -> Compacted:
    """Fold all (but a short tail), what follows an entry, or what precedes one."""
    if state.ledger.open_calls:
        raise UsageError("Tool calls are open; compaction waits for their results.")
    told = {"trigger": trigger, "custom_instructions": instructions}
    hook = await state.deps.hooks.run("PreCompact", told, match=trigger)
    if hook.blocked:
        raise RefusedError(hook.reason or "A PreCompact hook refused the compaction.")
    instructions = "\n".join([instructions, *hook.context]).strip()
    partial = bool(from_entry or up_to_entry)
    span = _span(state, from_entry, up_to_entry)
    before = state.ledger.tokens()
    plan: _Plan | None = None
    if not partial and not instructions and state.flags.on("notes_compaction"):
        plan = _from_notes(state)
    if plan is None:
        plan = await _full(state, span, instructions, up_to=bool(up_to_entry))
    done = _apply(state, plan, trigger, before)
    await _afterwards(state, plan, from_entry)
    return Compacted(
        done["uuid"], plan.source, before, state.ledger.tokens(), round(plan.score.share, 3)
    )


@dataclass(slots=True)
class _Plan:
    span: Span
    text: str
    source: str
    score: Score


# ---- what is folded


def _span(state: State, from_entry: str, up_to_entry: str) -> Span:
    projection = state.ledger.projection
    if from_entry or up_to_entry:
        position = projection.position.get(from_entry or up_to_entry)
        if position is None:
            raise UsageError(f"There is no entry {from_entry or up_to_entry} in this session.")
        fits = [
            b for b in spans.borders(projection) if b > position or (up_to_entry and b == position)
        ]
        if from_entry:
            found = spans.after(projection, fits[0]) if fits else None
        else:
            border = max((b for b in spans.borders(projection) if b <= position), default=None)
            found = spans.before(projection, border) if border is not None else None
    else:
        found = _all_but_a_tail(state)
    if found is None or found.tokens < 200:
        raise UsageError("There is nothing to compact yet.")
    return found


def _all_but_a_tail(state: State) -> Span | None:
    """Everything but the last few messages; what the model has not seen is never folded."""
    projection = state.ledger.projection
    keep = min(10_000, state.window.effective // 20)
    unseen = [row for row in projection.rows if row.entry > state.ledger.seen]
    border = spans.tail_border(
        projection,
        least=keep // 2,
        most=keep + sum(row.tokens for row in unseen),
        texts=1,
        not_after=unseen[0].entry if unseen else None,
    )
    if border is not None and (not unseen or border <= unseen[0].entry):
        return spans.before(projection, border)
    return None if unseen else spans.whole(projection)


# ---- from notes (L3.5): no model call


def _from_notes(state: State) -> _Plan | None:
    notes = state.ledger.state("notes")
    path = state.deps.folder / "session-memory" / "summary.md"
    if not isinstance(notes, dict) or not path.is_file():
        return None
    projection = state.ledger.projection
    cursor = projection.position.get(str(notes.get("entry")))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    try:
        written = path.read_text("utf-8", "replace")
    except OSError:
        return None
    from lamina.local.notes_file import empty, shortened

    if cursor is None or empty(written):
        return None
    flags = state.flags
    quarter = int(state.window.size * SHARE_OF_WINDOW)
    border = spans.tail_border(
        projection,
        least=min(flags.value("notes.keep_tokens"), quarter // 3),
        most=min(flags.value("notes.keep_most_tokens"), quarter // 2),
        texts=flags.value("notes.keep_messages"),
        not_after=cursor + 1,
    )
    span = spans.before(projection, border) if border is not None else None
    if span is None or span.tokens < 200:
        return None
    if border is not None and border > cursor + 1:
        return None  # the tail can't reach back to what the notes cover: in full, then
    room = quarter // 3
    text = shortened(written, flags.value("notes.section_tokens"), room, str(path))
    what = _what(state, span)
    copied = summariser.nine_parts(what, budget=min(2_000, room // 4))
    body = f"{text}\n\n# From the record\n{copied}"
    plan = _Plan(span, body, "notes", _probe(state, span, body))
    low = plan.score.share < state.config.float("compact.fidelity")
    return None if low and plan.score.count >= 5 else plan


# ---- in full


async def _full(state: State, span: Span, instructions: str, *, up_to: bool) -> _Plan:
    """A summary by the model within what is copied; else by the local summariser alone."""
    what = _what(state, span)
    budget = max(1_200, min(8_000, state.window.size // 25, span.tokens // 3))
    plans: list[_Plan] = []
    if state.fork is not None and state.deps.model.name != "none":
        extra = ""
        for _ in range(2):
            parts = await _ask(state, what, instructions + extra, span)
            if parts is None:
                break
            plan = _made(state, span, what, budget, parts, up_to=up_to)
            plans.append(plan)
            if plan.score.share >= state.config.float("compact.fidelity"):
                return plan
            extra = "\nMention these if the conversation knows them: " + "; ".join(
                plan.score.missed
            )
    for room in (budget, budget * 2):
        plans.append(_made(state, span, what, room, None, up_to=up_to))
        if plans[-1].score.share >= state.config.float("compact.fidelity"):
            break
    return max(plans, key=lambda plan: plan.score.share)


def _made(
    state: State,
    span: Span,
    what: Happened,
    budget: int,
    parts: dict[str, str] | None,
    *,
    up_to: bool,
) -> _Plan:
    text = summariser.nine_parts(what, budget=budget, model=parts, up_to=up_to)
    source = "model" if parts else "local"
    return _Plan(span, text, source, _probe(state, span, text))


async def _ask(
    state: State, what: Happened, instructions: str, span: Span
) -> dict[str, str] | None:
    """The model's own parts, checked; asked again once; None if it can't be used."""
    fork = state.fork
    if fork is None:
        return None
    words = f"\nThe user asks of this summary: {instructions}" if instructions.strip() else ""
    directive = prompts.load("summary", instructions=words)
    complaint = ""
    for _ in range(2):
        result = await fork(directive + complaint, purpose="summary", permit=_no_tools, max_calls=1)
        if result.stop in ("error", "refused"):
            state.emit(Warned(f"The summary is made without the model: {result.error}"))
            return None
        parts = model_parts(result.text)
        problem = problem_of(parts, result.text, what, span.tokens)
        if not problem:
            return parts
        state.layer_failed(LAYER, RefusedError(f"the model's summary was rejected: {problem}"))
        complaint = f"\nYour last try could not be used: {problem}."
    return None


async def _no_tools(spec: Any, input: Json, context: Any) -> Decision:  # noqa: A002, ARG001
    return Decision(allow=False, reason="a summary is text alone")


def _what(state: State, span: Span) -> Happened:
    what = happened(state.ledger.entries[span.first : span.last + 1])
    todos: list[Json] = state.ledger.state("todos", [])
    if todos:
        what.tasks = [(str(t.get("status", "pending")), str(t.get("content", ""))) for t in todos]
    return what


def _probe(state: State, span: Span, text: str) -> Score:
    """What the new view still answers: the summary and the messages that stay."""
    entries = state.ledger.entries
    kept = [
        text_of([row.block]) or str(row.block)
        for row in state.ledger.projection.rows
        if not span.first <= row.entry <= span.last
    ]
    return score(probes(entries[span.first : span.last + 1]), "\n".join([text, *kept]))


# ---- applying it


def _apply(state: State, plan: _Plan, trigger: str, before: int) -> Json:
    entries, span = state.ledger.entries, plan.span
    first, last = entries[span.first]["uuid"], entries[span.last]["uuid"]
    kept = [row.entry for row in state.ledger.projection.rows if row.entry > span.last]
    boundary: Json = {
        "trigger": trigger,
        "source": plan.source,
        "tokens_before": before,
        "last_message": last,
        "tools": [tool.get("name") for tool in state.ledger.view().tools],
        "preserved": {
            "head": entries[kept[0]]["uuid"] if kept else None,
            "anchor": last,
            "tail": entries[kept[-1]]["uuid"] if kept else None,
        },
        "fidelity": {
            "score": round(plan.score.share, 3),
            "probes": plan.score.count,
            "by_kind": {k: round(v, 3) for k, v in plan.score.by_kind.items()},
        },
    }
    name = str(uuid4())
    new = [{"role": "user", "content": _framed(plan.text, name)}]
    state.guard.register("compaction")
    [edit] = state.leave(edits.fold(first, last, new, LAYER, uuid=name, boundary=boundary))
    saved = before - state.ledger.tokens()
    state.emit(LayerActed(LAYER, f"compacted ({plan.source}), {plan.score.share:.0%} kept", saved))
    if plan.score.share < state.config.float("compact.fidelity"):
        state.emit(
            Warned(
                f"The summary answers only {plan.score.share:.0%} of the probes; "
                "`lamina sessions undo-compact` brings the messages back."
            )
        )
    return edit


def _framed(text: str, name: str) -> str:
    return (
        "<summary>\nEarlier messages of this conversation left your view; this stands for them. "
        "References in [#…] name entries of the record: the Expand tool shows them whole, and "
        f"{summariser.ref(name)} shows everything that this summary stands for.\n\n"
        f"{text}\n</summary>"
    )


async def _afterwards(state: State, plan: _Plan, from_entry: str) -> None:
    """What comes back: standing reminders, files read last, hook texts; the view stays small."""
    room = int(state.window.size * SHARE_OF_WINDOW) - state.ledger.tokens()
    for words in state.standing:
        if not from_entry:
            state.say(words, "system", standing=True)
            room -= tokens.of_text(words)
    if not from_entry:
        for words in await restore_files(state, room):
            state.say(words, "system", restored=True)
    result = await state.deps.hooks.run("SessionStart", {"source": "compact"}, match="compact")
    for words in result.context:
        state.say(words, "hook")
    await state.deps.hooks.run("PostCompact", {"compact_summary": plan.text[:10_000]})


def undo(state: State) -> Json:
    """Bring back what the last compaction in force folded."""
    for edit in reversed(list(state.ledger.projection.active_edits())):
        if edit.get("op") == "fold" and edit.get("layer") == LAYER:
            state.guard.register("a compaction was undone")
            [entry] = state.ledger.append(edits.revoke(edit["uuid"], "user"))
            return entry
    raise UsageError("There is no compaction to undo in this session.")
