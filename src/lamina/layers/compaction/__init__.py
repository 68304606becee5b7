"""Layer 4: compaction. A span of the view becomes a summary that can be trusted, probed and undone.

What can be copied is copied from the ledger; a model's words are added only where they pass the
checks, and without a model the local summariser does all of it. Appends one fold with what comes
back after it, in one step; runs hooks; reads files that are shown again from disk. Never changes an
entry.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import anyio.to_thread

from lamina.cache.account import Account
from lamina.errors import RefusedError, UsageError
from lamina.events import Event, LayerActed, ModelCalled, Warned
from lamina.layers.compaction.plan import (
    LEAST_SPAN,
    SHARE_OF_WINDOW,
    FellShort,
    SummaryPlan,
    budget,
    call_price,
    faithful,
    framed,
    from_notes,
    in_full,
    kept_in_file,
)
from lamina.ledger import edits, spans, tokens
from lamina.ledger.record import text_in
from lamina.ledger.spans import Span
from lamina.ledger.view import Row
from lamina.messages import Block, Json, text
from lamina.state import State

LAYER = "compaction"
PAID = ("summary", "probe")  # what the calls of a compaction are booked as
FILE_TOOLS = frozenset({"Read", "Write", "Edit"})
SKILL_TOOLS = frozenset({"Skill"})
NET = 0.95  # of the effective window: where collapse could not make room
LEAST_ROOM = 100  # tokens; less shows nothing worth reading
# Both set by hand.
_UNSEEN_SHARE = 0.5  # of the autocompact threshold that unseen messages may take
_KEPT_OF_CUT = 0.05  # of the window that stays of one that is cut
_SURE = 9  # after n requests, n/9 more come with odds of nine in ten


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did."""

    edit: str
    source: str  # notes | model | local; cut: one message was too large, nothing else was there
    tokens_before: int
    tokens_after: int
    score: float


async def act(state: State) -> None:
    """Compact when the view is over the threshold; notes first, then in full."""
    # Collapse folds in its own way; where that does not make room, this is its net.
    collapsing = state.flags.on("collapse")
    mark = int(state.window.effective * NET) if collapsing else state.window.autocompact
    if state.ledger.tokens() >= mark:
        shrink(state)
    if state.ledger.tokens() >= mark:
        due = collapsing or _worth_it(state)
    else:
        due = not collapsing and _cheaper(state, mark)
    if due:
        await _guarded(state)


def _cheaper(state: State, mark: int) -> bool:
    """Without what the layers hold back the view would be full, and compacted, by now. They put that
    off until carrying the rest has cost what a summary would, or most likely will. After a pause all
    is written anew: a summary that will come is better made before than after that."""
    account = state.balance()
    if account is None or not (state.expands or state.names_files):  # no way back: only if it must
        return False
    over = state.whole_tokens - mark
    cold = account.cold(state.deps.clock.now())
    span = _all_but_a_tail(state) if over + cold * _grows(state, account) >= 0 else None
    if span is None:
        return False
    weighs = state.weight * span.tokens
    if cold:
        return (
            weighs >= state.window.effective // 10
            and from_notes(state, FellShort.of(state)) is not None
        )
    rates, summary = account.rates, budget(state, span)
    gone = weighs - summary
    stays = state.weight * (state.ledger.projection.tokens - span.tokens) + summary
    price = rates.again * stays + call_price(state, account, summary)
    likely = price + rates.write * account.comes_back * gone
    carried = rates.read * gone * account.requests_since(over / state.weight)
    bet = likely <= rates.read * gone * account.requests / _SURE and price <= account.saved
    return bet or price <= carried


def _worth_it(state: State) -> bool:
    """A fold that frees little would be due again at once, and one that may never be needed is not
    paid for with nothing: they wait for more of the window to fill."""
    now, window = state.ledger.tokens(), state.window
    if now >= window.blocking:
        return True
    span = _all_but_a_tail(state)
    if span is None:
        return True
    if span.tokens < window.effective // 20:
        return False
    lowered = state.config.float("compact.percent") or state.config.int("compact.window")
    most = (window.autocompact + window.blocking) // 2
    return bool(lowered) or now >= most or _affordable(state, span)


def _affordable(state: State, span: Span) -> bool:
    """What was saved so far covers writing the rest anew, or the window will be full soon, and the
    session will most likely see that."""
    account, now = state.balance(), state.ledger.tokens()
    if account is None or account.saved >= account.rates.write * (now - span.tokens):
        return True
    return _grows(state, account) >= state.window.blocking - now


def _grows(state: State, account: Account) -> float:
    """Tokens by which the conversation will most likely grow."""
    return account.pace * state.weight * account.requests / _SURE


async def make_room(state: State) -> str:
    """The provider refused the prompt: compact whatever the flags say of thresholds."""
    if not state.served:
        return ""
    cut = shrink(state)
    done = await _guarded(state)
    return f"compacted ({done.source})" if done else "a message cut short" if cut else ""


async def _guarded(state: State) -> Compacted | None:
    """Auto-compaction behind its breaker (L4.7)."""
    failures = int(state.ledger.state("compaction_failures", 0))
    most = state.config.int("compact.failures")
    if failures >= most:
        return None
    paid: list[Event] = []
    state.listeners.append(paid.append)
    try:
        return await compact(state, trigger="auto")
    except Exception as error:  # noqa: BLE001 - whatever fails after a paid call must not be paid for again and again
        if not any(isinstance(e, ModelCalled) and e.purpose in PAID for e in paid):
            _say_once(state, error)
            return None
        state.ledger.append(edits.state("compaction_failures", failures + 1))
        state.layer_failed(LAYER, error)
        if failures + 1 >= most:
            state.emit(
                Warned(
                    f"Autocompaction is off for this session after {most} failures, the last of "
                    f"them: {error} /compact still works."
                )
            )
        return None
    finally:
        state.listeners.remove(paid.append)


def _say_once(state: State, error: Exception) -> None:
    """What cost nothing is no strike: a hook that said "not now", or nothing to compact yet."""
    if (sentence := f"{LAYER}: {error}") not in state.said:
        state.said.add(sentence)
        state.layer_failed(LAYER, error)


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
    if from_entry and up_to_entry:
        raise UsageError("Give one entry: from which, or up to which, to compact.")
    told = {"trigger": trigger, "custom_instructions": instructions}
    hook = await state.run_hooks("PreCompact", told, match=trigger)
    if hook.blocked or hook.stop:
        raise RefusedError(hook.reason or "A PreCompact hook refused the compaction.")
    instructions = "\n".join([instructions, *hook.context]).strip()
    before = state.ledger.tokens()
    cut = 0 if from_entry or up_to_entry else shrink(state)
    try:
        span = _span(state, from_entry, up_to_entry)
    except UsageError:
        if not cut:
            raise
        return Compacted("", "cut", before, state.ledger.tokens(), 1.0)
    plan: SummaryPlan | None = None
    # What follows an entry goes on from no other summary.
    fell_short = FellShort.of(state, anew=bool(from_entry))
    if not (from_entry or up_to_entry or instructions) and state.flags.on("notes_compaction"):
        plan = from_notes(state, fell_short, span if trigger == "auto" else None)
    if plan is None:
        if not state.flags.on("full_compaction"):
            raise UsageError(
                "The notes can't serve yet, and full compaction is off (compact.full)."
            )
        plan = await in_full(state, span, instructions, fell_short, up_to=bool(up_to_entry))
    name = str(uuid4())
    fold = _fold(state, plan, trigger, before, name)
    if fell_short.ways:
        fold["boundary"]["fell_short"] = fell_short.to_json()
    back = [] if from_entry else await _coming_back(state, fold)
    _apply(state, plan, before, fold, back)
    await state.run_hooks("PostCompact", {"compact_summary": plan.text[:10_000]})
    share = round(plan.score.share, 3)
    return Compacted(name, plan.source, before, state.ledger.tokens(), share)


# ---- what is folded


def _span(state: State, from_entry: str, up_to_entry: str) -> Span:
    projection = state.ledger.projection
    if name := from_entry or up_to_entry:
        position = projection.position.get(name)
        if position is None:
            raise UsageError(f"There is no entry {name} in this session.")
        borders = spans.borders(projection)
        if from_entry:
            border = next((b for b in borders if b > position), None)
            found = spans.after(projection, border) if border is not None else None
        else:
            border = max((b for b in borders if b <= position), default=None)
            found = spans.before(projection, border) if border is not None else None
    else:
        found = _all_but_a_tail(state)
    if found is None or found.tokens < LEAST_SPAN:
        raise UsageError("There is nothing to compact yet.")
    return found


def _all_but_a_tail(state: State) -> Span | None:
    """Everything but the last few messages; what waits for an answer is never folded."""
    projection = state.ledger.projection
    keep = min(10_000, state.window.effective // 20)
    last = (row.entry for row in reversed(projection.rows) if row.role == "assistant")
    answered = next(last, -1)
    waiting = projection.rows_of(answered + 1)
    border = spans.tail_border(
        projection,
        least=keep // 2,
        most=keep + sum(row.tokens for row in waiting),
        texts=1,
        not_after=waiting[0].entry if waiting else None,
        answers=state.whole_rounds,
    )
    if border is None and not waiting and not state.whole_rounds:
        return spans.whole(projection)
    latest = waiting[0].entry if waiting else answered
    if border is None or border > latest:  # the last call alone is larger than a tail
        cuts = spans.borders(projection, answers=state.whole_rounds)
        border = max((b for b in cuts if b <= latest), default=None)
    return spans.before(projection, border) if border is not None else None


# ---- applying it


def _fold(state: State, plan: SummaryPlan, trigger: str, before: int, name: str) -> Json:
    entries, span = state.ledger.entries, plan.span
    first, last = entries[span.first]["uuid"], entries[span.last]["uuid"]
    kept = [row.entry for row in state.ledger.projection.rows_of(span.last + 1)]
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
            "missed": list(plan.score.missed),
            **({"asked": round(plan.asked, 3)} if plan.asked is not None else {}),
        },
    }
    new = [{"role": "user", "content": framed(state, plan, name)}]
    return edits.fold(first, last, new, LAYER, uuid=name, boundary=boundary)


async def _coming_back(state: State, fold: Json) -> list[Json]:
    """What follows the kept messages: reminders, files read last, skills, hook texts, within the
    room that is left. It is made before anything is written, so that a cancel changes nothing."""
    after = state.ledger.branch()
    after.append(fold)
    room = int(state.window.size * SHARE_OF_WINDOW) - after.tokens()
    back = {"compaction": fold["uuid"]}
    stays = [*state.standing, *filter(None, [state.plan])]
    made = [edits.message("user", words, "system", standing=True, **back) for words in stays]
    room -= sum(map(tokens.of_text, stays))
    hook = await state.run_hooks("SessionStart", {"source": "compact"}, match="compact")
    texts = [words for words in hook.context if words.strip()]
    room -= sum(map(tokens.of_text, texts))
    files = await restore_files(state, room)
    room -= sum(map(tokens.of_text, files))
    skills = await restore_skills(state, room)
    made += [edits.message("user", w, "system", restored=True, **back) for w in [*files, *skills]]
    return made + [edits.message("user", words, "hook", **back) for words in texts]


def _apply(state: State, plan: SummaryPlan, before: int, fold: Json, back: list[Json]) -> None:
    """The fold and what comes back, in one step: a crash leaves all of it or none."""
    state.guard.register("compaction")
    from_the_start = plan.span.first <= state.ledger.projection.rows[0].entry
    state.leave(fold, *back)
    if from_the_start and state.render_again is not None:
        state.render_again()  # no cached prefix is left: the index of memories may be a new one
    if state.ledger.state("compaction_failures", 0):
        state.ledger.append(edits.state("compaction_failures", 0))
    saved = before - state.ledger.tokens()
    state.emit(LayerActed(LAYER, f"compacted ({plan.source}), {plan.score.share:.0%} kept", saved))
    if not faithful(state, plan):
        what = f"The summary answers only {plan.score.share:.0%} of the probes"
        how = "; `/undo` or `lamina sessions undo-compact` brings the messages back."
        state.emit(Warned(what + ("." if state.whole_rounds else how)))


# ---- files and skills shown again


async def restore_files(state: State, room: int) -> list[str]:
    """Reminders with the content of the last files, newest first, within all limits."""
    config = state.config
    total = min(config.int("compact.restore_files_tokens"), room)
    each = config.int("compact.restore_file_tokens")
    most = config.int("compact.restore_files")
    if not most or total <= LEAST_ROOM:
        return []
    wanted: list[tuple[str, str]] = []
    for path in _last_paths(state, FILE_TOOLS):
        if len(wanted) < most and await _allowed(state, path):
            wanted.append((f"The file {path}", path))
    return await anyio.to_thread.run_sync(_read_all, wanted, each, total) if wanted else []


async def restore_skills(state: State, room: int) -> list[str]:
    """Reminders with the skills that were invoked, newest first, within their limits."""
    total = min(state.config.int("compact.restore_skills_tokens"), room)
    each = state.config.int("compact.restore_skill_tokens")
    paths = _last_paths(state, SKILL_TOOLS)
    wanted = [(f"The skill {Path(path).parent.name}", path) for path in paths]
    return await anyio.to_thread.run_sync(_read_all, wanted, each, total) if wanted else []


def _last_paths(state: State, tools: frozenset[str]) -> list[str]:
    """Paths that these tools opened with success, newest first; the session's own files left out.

    They come from the record, so that a session that was resumed knows them too.
    """
    own = str(state.deps.folder)
    found: dict[str, None] = {}
    for entry in reversed(state.ledger.entries):
        if entry.get("tool") not in tools or entry["kind"] != "message":
            continue
        meta: Json = entry.get("meta") or {}
        path = str(meta.get("path") or "")
        failed = any(block.get("is_error") for block in entry["content"])
        if path and not failed and not path.startswith(own):
            found.setdefault(path)
    return list(found)


async def _allowed(state: State, path: str) -> bool:
    """May this be read now, by rules that may have changed since? Nobody is asked."""
    permit, spec = state.deps.unattended, state.spec_of("Read")
    if permit is None or spec is None:
        return True
    return (await permit(spec, {"file_path": path}, state.tools)).allow


def _read_all(wanted: list[tuple[str, str]], each: int, total: int) -> list[str]:
    """Reminders with these files' text; each comes with the words that announce it."""
    shown: list[str] = []
    for announced, path in wanted:
        if total <= LEAST_ROOM:
            break
        if words := _read(announced, path, min(each, total)):
            shown.append(words)
            total -= tokens.of_text(words)
    return shown


def _read(announced: str, path: str, room: int) -> str:
    most = max(0, room * 4 - 300 - 2 * len(os.fsencode(path)))
    try:
        # A pipe that nobody writes to must not hang us; a device must not be read at all.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode) or most <= 0:
            return ""
        data = b""
        while len(data) <= most and (piece := os.read(fd, most + 1 - len(data))):
            data += piece
    except OSError:
        return ""
    finally:
        os.close(fd)
    if b"\0" in data:
        return ""
    words = data[:most].decode("utf-8", "ignore")
    cut = f"\n… (cut; Read {Path(path).name} for the rest)" if len(data) > most else ""
    return (
        f"<system-reminder>\n{announced}, read again after the compaction:\n\n"
        f"{words}{cut}\n</system-reminder>"
    )


# ---- a message that is too large by itself


def shrink(state: State) -> int:
    """Cut what can't fit; returns how many blocks were cut."""
    unseen = state.ledger.projection.rows_of(state.ledger.seen + 1)
    over = sum(row.tokens for row in unseen) - int(state.window.autocompact * _UNSEEN_SHARE)
    keep = int(state.window.size * _KEPT_OF_CUT)
    chosen: list[Row] = []
    for row in sorted(unseen, key=lambda row: -row.tokens):
        if over <= 0 or row.tokens <= 2 * keep:
            break
        if row.role == "user" and row.number >= 0 and text_in(row.block):
            chosen.append(row)
            over -= row.tokens - keep
    if not chosen:
        return 0
    names = [str(state.ledger.entries[row.entry]["uuid"]) for row in chosen]
    items = [
        (name, row.number, _cut(state, row.block, keep, name))
        for name, row in zip(names, chosen, strict=True)
    ]
    state.leave(edits.replace(items, "oversized"))
    size = sum(row.tokens for row in chosen)
    state.emit(
        Warned(
            f"A message of about {size:,} tokens is too large for this model's window of "
            f"{state.window.size:,}: its beginning and end are shown, the record has all of it."
        )
    )
    return len(chosen)


def _cut(state: State, block: Block, keep: int, entry: str) -> Block:
    words = text_in(block).encode("utf-8", "replace")
    head, tail = keep * 8 // 3, keep * 4 // 3  # bytes: two thirds and one third of the room
    left_out = tokens.of_text(text_in(block)) - keep
    way = f"; Expand shows them: #{entry[:8]}" if state.expands else ""
    if not way and (path := kept_in_file(state, entry, text_in(block))):
        way = f"; all of it is in {path}"
    shown = (
        words[:head].decode("utf-8", "ignore")
        + f"\n[… about {left_out:,} tokens left out{way} …]\n"
        + words[-tail:].decode("utf-8", "ignore")
    )
    return text(shown) if block.get("type") == "text" else {**block, "content": shown}
