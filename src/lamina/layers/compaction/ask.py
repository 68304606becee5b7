"""How the model is asked for its part of a summary, and about a summary that looks thin.

The asking goes through a fork. Images are shown to it as words, a prompt that is too long loses its
oldest rounds (L4.6), an answer that fails the checks is asked for once more. Returns values; books
failures as events and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from lamina import prompts
from lamina.errors import ModelError, RefusedError
from lamina.events import Warned
from lamina.ledger import edits, spans, tokens
from lamina.ledger.spans import Span
from lamina.local.probes import QUESTIONS, Probe, Score, score
from lamina.local.session_facts import SessionFacts, session_facts, texts_in
from lamina.local.summariser import MODEL_PARTS
from lamina.messages import Block, Json, Request, text
from lamina.ports import Decision, ForkResult
from lamina.state import State

LAYER = "compaction"
LEFT_OUT = "[Earlier messages are left out here: all of them would not fit.]"
UNKNOWN_GAP = 0.2  # of the rounds, when the provider does not say how much was too much
NO_ANSWER = "(no answer)"  # what the ledger says for an answer without content
_TAGGED = re.compile(r"<summary>(.*?)(?:</summary>|\Z)", re.DOTALL | re.IGNORECASE)
_DRAFT = re.compile(r"<analysis>.*?(?:</analysis>|(?=<summary>)|\Z)", re.DOTALL | re.IGNORECASE)
_HEADING = re.compile(r"^#+\s*(?:\d+\.\s*)?(.+?)\s*:?\s*$", re.MULTILINE)
_HEADINGS = {
    "concepts": "concepts",
    "problem solving": "solving",
    "current work": "current",
    "next step": "next",
}
# A sentence that claims to know what the user wants.
_CLAIM = re.compile(
    r"\b(?:the user|user)\s+(?:also\s+|then\s+|explicitly\s+)?"
    r"(?:asked|asks|wants|wanted|requested|requests|said|says|told|instructed|instructs|demanded|"
    r"insists|requires|prefers|approved|ordered)\b(.*)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]{3,}")
_SENTENCE = re.compile(r"[.\n]")
_CLAUSE = re.compile(r" [-–—] |[;(:]")
# Orders: to whoever reads the summary, or against what came before.
_ORDER = re.compile(
    r"\b(?:you must|you should|you have to|from now on|ignore (?:all|any|the|previous|earlier)|"
    r"disregard|do not tell|don't tell|important:)(.*)",
    re.IGNORECASE,
)
_THIN = frozenset(
    """
    the and that this with from for not but you your are was were has have had will would should
    could can into onto than then them they their there here which what when where who how why all any
    each some its his her our out use using used make made also only just about been being does did done
    user agent assistant asked wants next step none must never always now
    """.split()  # noqa: SIM905 - a list of words is read as one
)
# Share of a summary's words that the conversation must know; with less it is nonsense. Set by hand.
LEAST_KNOWN = 0.4


async def ask(state: State, instructions: str, span: Span) -> dict[str, str] | None:
    """The model's own parts, checked; asked again once; None if it can't be used."""
    known: Known | None = None  # all of the session is read for it: only once there is an answer
    words = f"\nThe user asks of this summary: {instructions}" if instructions.strip() else ""
    directive = prompts.load("summary", instructions=words)
    complaint = ""
    for _ in range(2):
        result = await _fitting(state, directive + complaint, span)
        if result is None:
            return None
        parts = model_parts(result.text)
        known = known or _known(state, span)
        problem = problem_of(parts, result.text, known, span.tokens)
        if not problem:
            return parts
        state.layer_failed(LAYER, RefusedError(f"the model's summary was rejected: {problem}"))
        complaint = f"\nYour last try could not be used: {problem}."
    state.emit(Warned("The model's summaries could not be used; this one is from the record."))
    return None


def _known(state: State, span: Span) -> Known:
    entries = state.ledger.entries
    return Known.of(session_facts(entries), entries[span.first : span.last + 1])


async def _fitting(state: State, directive: str, span: Span) -> ForkResult | None:
    """The fork's answer, its oldest rounds left out until the prompt fits; None if it can't be."""
    fork = state.fork
    if fork is None:
        return None
    pictures = _without_images(state)
    rounds: list[tuple[int, int]] = []  # only where the prompt is too long
    dropped = 0
    error = ""
    for _ in range(1 + state.config.int("compact.tries")):
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
        rounds = rounds or _rounds(state, span)
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
        response = await state.deps.model.complete(
            request, partial(state.hear, request, aside=True)
        )
    except ModelError as error:
        state.layer_failed(LAYER, error)
        return None
    state.book(request, response, started)
    return score(found, response.text)


# ---- checking an answer


@dataclass(frozen=True, slots=True)
class Known:
    """The words of a conversation, as far as a summary may rest on them."""

    typed: frozenset[str]  # what the user typed, in the whole session
    worked: frozenset[str]  # that, and the agent's own words, tasks, paths and commands
    spoken: frozenset[str]  # everything in the span, tool results included

    @classmethod
    def of(cls, session: SessionFacts, span: Iterable[Json]) -> Known:
        typed = stems(said.text for said in session.asked)
        worked = stems(
            [
                *(said.text for said in session.answered),
                *(task for _, task in session.tasks),
                *session.files,
                *(ran.command for ran in session.commands),
            ]
        )
        spoken = stems(
            word
            for entry in span
            if entry.get("kind") == "message"
            for word in texts_in(entry.get("content"))
        )
        return cls(typed, typed | worked, typed | worked | spoken)


def model_parts(answer: str) -> dict[str, str]:
    """The parts by key; {} where there is no summary. The draft is thrown away."""
    found = _TAGGED.search(_DRAFT.sub("", answer))
    if not found:
        return {}
    body = found[1]
    marks = [(m.start(), m.end(), m[1].strip().casefold()) for m in _HEADING.finditer(body)]
    parts: dict[str, str] = {}
    for at, (_, end, heading) in enumerate(marks):
        key = _HEADINGS.get(heading)
        stop = marks[at + 1][0] if at + 1 < len(marks) else len(body)
        if key and (words := body[end:stop].strip()):
            parts[key] = words
    return parts


def problem_of(parts: dict[str, str], answer: str, known: Known, replaced: int) -> str:
    """Why this can't be used, in words; "" if it can."""
    if not answer.strip() or answer.strip() == NO_ANSWER:
        return "it has no text"
    if not parts:
        return "it has no <summary> with the asked headings"
    missing = [key for key in MODEL_PARTS if key not in parts]
    if len(missing) > 1:
        return f"it lacks the parts {', '.join(missing)}"
    if sum(map(tokens.of_text, parts.values())) >= replaced:
        return "it is longer than what it replaces"
    if share_known(parts, known) < LEAST_KNOWN:
        return "its words are not those of the conversation"
    if claim := invented(parts, known):
        return f"no user said this: {claim[:120]!r}"
    return ""


def share_known(parts: dict[str, str], known: Known) -> float:
    """Of the words with a meaning, how many the conversation knows. Too few words prove nothing."""
    words = stems(parts.values())
    return len(words & known.spoken) / len(words) if len(words) >= 5 else 1.0


def invented(parts: dict[str, str], known: Known) -> str:
    """A wish of the user that no user typed, or an order that nobody gave; "" if there is none."""
    for key, body in parts.items():
        for sentence in _SENTENCE.split(body):
            said = _CLAIM.search(sentence) or _ORDER.search(sentence)
            # What follows a dash or a bracket tells what the agent did about it.
            if said and _strange(_CLAUSE.split(said[1])[0], known.worked):
                return sentence.strip()
        if key == "next" and _strange(body, known.worked):
            return body.strip()
    return ""


def _strange(words: str, known: frozenset[str]) -> bool:
    found = stems([words])
    return len(found) >= 2 and len(found & known) < 0.5 * len(found)


def stems(texts: Iterable[str]) -> frozenset[str]:
    """Words with a meaning, by their first six letters: rough, for comparing only."""
    return frozenset(
        word[:6] for text in texts for word in _WORD.findall(text.casefold()) if word not in _THIN
    )
