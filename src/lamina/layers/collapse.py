"""Context collapse (L4.10), behind its flag: finished rounds, and within a long one its calls with
their results, are staged with a short summary each, as entries without effect; when the window
fills, the staged folds take effect one by one. Autocompaction is the net below it.

Appends `staged` entries and folds. Spans stay in the ledger; Expand and undo work on each.
"""

from __future__ import annotations

from itertools import pairwise
from uuid import uuid4

from lamina.events import LayerActed
from lamina.ledger import edits, spans, tokens
from lamina.local import summariser
from lamina.local.session_facts import session_facts
from lamina.messages import Json, Message, dicts
from lamina.state import State

LAYER = "collapse"
KEPT_ROUNDS = 2  # the newest rounds are never staged
LONGEST_CALL = 120  # characters of a call in a fold's summary
MARK_TOKENS = 20  # of the line that says what a fold is


def act(state: State) -> None:
    """Stage from 70% of the effective window on, commit from 90% on."""
    share = 100 * state.ledger.tokens() / state.window.effective
    if share >= state.config.float("collapse.stage_percent"):
        stage(state)
    if share >= state.config.float("collapse.commit_percent"):
        commit(state)


def stage(state: State) -> int:
    """Write down folds for finished rounds, oldest first. They have no effect yet."""
    entries = state.ledger.entries
    # What was committed and undone is not staged again: the user wanted it back.
    staged = {str(entry.get("first")) for entry in entries if entry["kind"] == "staged"}
    done = 0
    for first, last in _finished(state, staged):
        if entries[first]["uuid"] in staged:
            continue
        called = [line[:LONGEST_CALL] for line in _calls(entries[first])]
        said = summariser.short(session_facts(entries[first : last + 1]))
        text = "\n".join(filter(None, [*called, said]))
        size = sum(row.tokens for row in state.ledger.projection.rows_of(first, last))
        if tokens.of_text(text) + MARK_TOKENS >= size:
            continue
        span = {"first": entries[first]["uuid"], "last": entries[last]["uuid"]}
        state.ledger.append({"kind": "staged", **span, "text": text})
        done += 1
    return done


def pending(state: State) -> list[Json]:
    """Staged folds that were not committed."""
    entries = state.ledger.entries
    used = {
        str(e.get("staged")) for e in entries if e["kind"] == "edit" and e.get("layer") == LAYER
    }
    return [e for e in entries if e["kind"] == "staged" and e["uuid"] not in used]


def commit(state: State) -> str:
    """Let all staged folds take effect; say what was done, "" if there was nothing."""
    before, count = state.ledger.projection.tokens, 0
    for entry in pending(state):
        name = str(uuid4())
        line = f"[A finished round, folded; Expand {name[:8]} brings it back]\n{entry['text']}"
        said: list[Message] = [{"role": "user", "content": line}]
        span = str(entry["first"]), str(entry["last"])
        fold = edits.fold(*span, said, LAYER, uuid=name, staged=entry["uuid"])
        if not state.ledger.projection.why_not(fold):
            state.leave(fold)
            count += 1
    if not count:
        return ""
    saved = before - state.ledger.projection.tokens
    what = f"{count} finished rounds folded"
    state.guard.register(f"collapse: {what}")
    state.emit(LayerActed(LAYER, what, saved, count))
    return what


def _finished(state: State, staged: set[str]) -> list[tuple[int, int]]:
    """What can be folded, oldest first: a question with all that followed, while it is none of the
    newest; of what is left, calls with their results, so that one long job folds as well."""
    projection, entries = state.ledger.projection, state.ledger.entries
    borders = spans.borders(projection)
    folded = {low for low, _ in projection.folds}
    rounds = list(pairwise([b for b in borders if _typed(entries[b])]))
    whole = [
        (a, b - 1)
        for a, b in rounds[: max(0, len(rounds) - KEPT_ROUNDS + 1)]
        if a not in folded and not any(entries[n]["uuid"] in staged for n in range(a + 1, b))
    ]
    within = {n for a, b in whole for n in range(a, b + 1)}
    calls = [(a, b - 1) for a, b in pairwise(borders) if a not in within and _calls(entries[a])]
    return sorted([*whole, *calls[: max(0, len(calls) - KEPT_ROUNDS)]])


def _typed(entry: Json) -> bool:
    return entry["kind"] == "message" and "typed" in (entry.get("origins") or [])


def _calls(entry: Json) -> list[str]:
    """The calls of an answer, a line each."""
    if entry["kind"] != "message" or entry.get("role") != "assistant":
        return []
    return [
        " ".join(f"{block.get('name')} {next(iter(block.get('input', {}).values()), '')}".split())
        for block in dicts(entry["content"])
        if block.get("type") == "tool_use"
    ]
