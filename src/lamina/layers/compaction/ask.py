"""How the model is asked for its part of a summary, and about a summary that looks thin.

The asking goes through a fork. Images are shown to it as words, a prompt that is too long loses its
oldest rounds (L4.6), an answer that fails the checks is asked for once more. Returns values; books
failures as events and changes nothing.
"""

from __future__ import annotations

from typing import Any, cast

from lamina import prompts
from lamina.errors import ModelError, RefusedError
from lamina.events import Warned, quiet
from lamina.layers.compaction.check import Known, model_parts, problem_of
from lamina.ledger import edits, spans
from lamina.ledger.spans import Span
from lamina.local.probes import QUESTIONS, Probe, Score, score
from lamina.messages import Block, Json, Request, text
from lamina.ports import Decision, ForkResult
from lamina.state import State

LAYER = "compaction"
LEFT_OUT = "[Earlier messages are left out here: all of them would not fit.]"
UNKNOWN_GAP = 0.2  # of the rounds, when the provider does not say how much was too much


async def ask(state: State, known: Known, instructions: str, span: Span) -> dict[str, str] | None:
    """The model's own parts, checked; asked again once; None if it can't be used."""
    words = f"\nThe user asks of this summary: {instructions}" if instructions.strip() else ""
    directive = prompts.load("summary", instructions=words)
    complaint = ""
    for _ in range(2):
        result = await _fitting(state, directive + complaint, span)
        if result is None:
            return None
        parts = model_parts(result.text)
        problem = problem_of(parts, result.text, known, span.tokens)
        if not problem:
            return parts
        state.layer_failed(LAYER, RefusedError(f"the model's summary was rejected: {problem}"))
        complaint = f"\nYour last try could not be used: {problem}."
    state.emit(Warned("The model's summaries could not be used; this one is from the record."))
    return None


async def _fitting(state: State, directive: str, span: Span) -> ForkResult | None:
    """The fork's answer, its oldest rounds left out until the prompt fits; None if it can't be."""
    fork = state.fork
    if fork is None:
        return None
    pictures = _without_images(state)
    rounds = _rounds(state, span)
    dropped = 0
    error = ""
    for _ in range(state.config.int("compact.tries")):
        left_out = _left_out(state, rounds, dropped)
        result = await fork(
            directive,
            purpose="summary",
            permit=_no_tools,
            max_calls=1,
            changes=[*pictures, *left_out],
        )
        if result.too_long is None:
            if result.stop not in ("error", "refused"):
                return result
            error = result.error
            break
        error = "the conversation is too long for it, even without its oldest rounds"
        more = _to_cover(rounds, dropped, result.too_long)
        if more == dropped:
            break
        dropped = more
    state.emit(Warned(f"The summary is made from the record, without the model: {error}"))
    return None


async def _no_tools(spec: Any, input: Json, context: Any) -> Decision:  # noqa: A002, ARG001
    return Decision(allow=False, reason="a summary is text alone")


# ---- a prompt that is too long


def _rounds(state: State, span: Span) -> list[tuple[int, int]]:
    """(border after it, tokens) of each API round of the span, oldest first."""
    projection = state.ledger.projection
    starts = [b for b in spans.borders(projection) if span.first <= b <= span.last]
    ends = [*starts[1:], span.last + 1]
    return [
        (end, sum(row.tokens for row in projection.rows_of(start, end - 1)))
        for start, end in zip(starts, ends, strict=True)
    ]


def _to_cover(rounds: list[tuple[int, int]], dropped: int, gap: int) -> int:
    """How many rounds to leave out in all, so that the gap is covered. One always stays."""
    most = max(0, len(rounds) - 1)
    if not gap:
        return min(most, dropped + max(1, round(len(rounds) * UNKNOWN_GAP)))
    covered = 0
    for number in range(dropped, most):
        covered += rounds[number][1]
        if covered >= gap:
            return number + 1
    return most


def _left_out(state: State, rounds: list[tuple[int, int]], dropped: int) -> list[Json]:
    if not dropped:
        return []
    found = spans.before(state.ledger.projection, rounds[dropped - 1][0])
    if found is None:
        return []
    entries = state.ledger.entries
    first, last = entries[found.first]["uuid"], entries[found.last]["uuid"]
    return [edits.fold(first, last, [{"role": "user", "content": LEFT_OUT}], "summary")]


def _without_images(state: State) -> list[Json]:
    """An edit of the fork's view that says `[image]` where one is; none where none is."""
    entries = state.ledger.entries
    items = [
        (str(entries[row.entry]["uuid"]), row.number, in_words)
        for row in state.ledger.projection.rows
        if row.number >= 0 and (in_words := _in_words(row.block)) is not None
    ]
    return [edits.replace(items, "summary", changes_prefix=True)] if items else []


def _in_words(block: Block) -> Block | None:
    if block.get("type") in ("image", "document"):
        return text(f"[{block['type']}]")
    content: Any = block.get("content") if block.get("type") == "tool_result" else None
    if not isinstance(content, list):
        return None
    parts = [cast("Block", p) for p in cast("list[Any]", content) if isinstance(p, dict)]
    spoken = [_in_words(part) or part for part in parts]
    return {**block, "content": spoken} if spoken != parts else None


# ---- questions about a summary


async def asked_score(state: State, found: list[Probe], view: str) -> Score | None:
    """The probes as questions to the model, which sees the new view alone; None if it can't be."""
    now = state.deps.clock.now()
    kinds = list(dict.fromkeys(probe.kind for probe in found))
    if not kinds or state.deps.spend.refusal("probe", now):
        return None
    questions = "\n".join(f"- {QUESTIONS[kind]}" for kind in kinds)
    words = prompts.load("probe", view=view, questions=questions)
    request = Request(
        system=[],
        tools=[],
        messages=[{"role": "user", "content": [text(words)]}],
        model=state.deps.model.name,
        max_tokens=4_000,
        purpose="probe",
    )
    started = state.deps.clock.monotonic()
    try:
        response = await state.deps.model.complete(request, quiet)
    except ModelError as error:
        state.layer_failed(LAYER, error)
        return None
    state.book(request, response, started)
    return score(found, response.text)


__all__ = ["ask", "asked_score"]
