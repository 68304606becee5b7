"""`lamina context`: what fills a session's window, what each layer has taken out of it, what broke
the prompt cache, and when the next layer would act. Reads one recorded session; changes nothing.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lamina.cache import lifetime
from lamina.cache.account import LIFE, LONG_LIFE, SHORT_LIFE, Account, keep_warm_after, rates
from lamina.cache.spend import money_text
from lamina.cli import terminal
from lamina.cli.options import config_of, flag, optional
from lamina.cli.sessions import choose, find
from lamina.cli.terminal import columns, fitted, harmless, out, plural, style, width, wrapped
from lamina.cli.transcript import Call, requests_of
from lamina.config import Config, Flags
from lamina.ledger import log, tokens
from lamina.ledger.record import Ledger
from lamina.ledger.tokens import Window, capabilities, window_of
from lamina.ledger.view import Projection, Row
from lamina.messages import Json, Usage, as_object, dicts
from lamina.ports import Capabilities

SIDE_BY_SIDE = 60  # columns from which a name and its text share a line
MOST_BREAKS = 8
EXAMPLES = """
lamina context                   the last session here
lamina context 3f2a              the one whose id starts with this
lamina context --requests        each request: what was taken out before it, cache, cost
lamina context --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    optional(parser, "session", "its id or a prefix of it (the last)", "SESSION")
    flag(parser, "--all", "look through the sessions of all projects")
    flag(parser, "--requests", "list its requests one by one")


def run(args: argparse.Namespace) -> None:
    config = config_of(args)
    file = choose(find(config, everywhere=args.all), args.session)
    entries = log.read(file).entries
    if args.requests:
        _show_requests(args, requests_of(entries, config.table("prices")))
        return
    show = terminal.out_json if args.json else _show
    show(state_of(config, file.stem, Ledger.of(entries)))


def state_of(config: Config, session: str, ledger: Ledger) -> Json:
    """What fills the window, what the layers have done, and when the next would act."""
    from lamina import flags

    model = str((ledger.projection.frame or {}).get("model") or config.str("model"))
    able, window = _limits(config, model, int(ledger.state(LIFE, 0)))
    first = replace(able, cache_ttl=SHORT_LIFE) if able.cache_choice else able
    account = None
    if able.cache != "none":
        account = Account().follow(ledger.entries, rates(model, first, config.table("prices")))
    return {
        "session": session,
        "model": model,
        "tokens": ledger.tokens(),
        "window": window.size,
        "marks": terminal.picked(window, "warning autocompact blocking effective"),
        "parts": parts_of(ledger),
        "saved": {
            layer: {"count": count, "tokens": saved}
            for layer, (count, saved) in savings_of(ledger.entries).items()
        },
        "balance": round(account.saved) if account is not None else None,
        "background": round(account.aside) if account is not None else None,
        "cache": cache_of(ledger.entries),
        "next": [
            *_next(ledger, flags.read(config), window, able),
            *living(account, ledger.tokens(), able),
            *_keeping(account, ledger.tokens(), able, config.int("cache.keep_warm")),
        ],
    }


def _limits(config: Config, model: str, life: int) -> tuple[Capabilities, Window]:
    """What the model can do, with the life that its cache was last given."""
    able = capabilities(model, override=config.int("window.tokens") or None)
    if able.cache == "anthropic":
        proven = lifetime.upgrades(config.own_home, model, config.str("anthropic.base_url"))
        able = replace(able, cache_upgrades=proven)
        if config.str("cache.ttl") == "1h":
            able = replace(able, cache_ttl=LONG_LIFE)
        elif config.str("cache.ttl") == "auto":
            able = replace(able, cache_ttl=life or SHORT_LIFE, cache_choice="all")
        elif config.str("cache.ttl") == "mixed":
            able = replace(able, cache_choice="frame")
    return able, window_of(able, config)


def _next(ledger: Ledger, flags: Flags, window: Window, able: Capabilities) -> Iterator[Json]:
    """Each layer that is on, and what would make it act."""
    tokens = ledger.tokens()
    if flags.on("folds"):
        yield _when("folds", "new text that the view already contains is folded before it is sent")
    if flags.on("tool_results"):
        most: int = flags.value("tool_results.threshold")
        by_tool: dict[str, int] = flags.value("tool_results.thresholds")
        others = ", ".join(f"{tool} {size:,}" for tool, size in by_tool.items() if size)
        words = f"a result of more than {most:,} characters" + (f" ({others})" if others else "")
        yield _when("tool_results", words)
    if flags.on("time_clearing"):
        yield _clearing(ledger, flags, able)
    if flags.on("worn_clearing") and able.cache != "none":
        yield _when("microcompact", "old results are dropped where that saves more than it costs")
    if flags.on("notes"):
        last: Json = ledger.state("notes") or {}
        first: int = flags.value("notes.first_tokens")
        every: int = flags.value("notes.every_tokens")
        mark = int(last.get("tokens") or 0) + every if last else first
        yield _at("notes", "the notes are written", mark, tokens)
    if flags.on("collapse"):
        yield _when("collapse", "finished exchanges are folded into summaries")
    elif flags.on("autocompact"):
        yield _at("compaction", "the conversation is compacted", window.autocompact, tokens)
    yield _at("blocking", "no more input is accepted", window.blocking, tokens)


def _when(layer: str, words: str, left: int | None = None) -> Json:
    return {"layer": layer, "when": words, "in_tokens": left}


def _at(layer: str, what: str, mark: int, tokens: int) -> Json:
    left = max(0, mark - tokens)
    words = f"{what} at {mark:,} tokens, {left:,} from now" if left else f"{what} at the next call"
    return _when(layer, words, left)


def _clearing(ledger: Ledger, flags: Flags, able: Capabilities) -> Json:
    from lamina.layers.microcompact import CLEARABLE, old_results

    rows = old_results(ledger, lambda tool: tool in CLEARABLE, flags.value("microcompact.keep"))
    minutes = float(flags.value("microcompact.gap_minutes")) or able.cache_ttl / 60
    size = sum(row.tokens for row in rows)
    what = f"{plural(len(rows), 'old result')} ({size:,} tokens)" if rows else "nothing yet"
    return _when("microcompact", f"a pause of {minutes:g} min would clear {what}")


def living(account: Account | None, tokens: int, able: Capabilities) -> Iterator[Json]:
    """How long the cache lives where the session chooses, and what it would choose next."""
    if account is None or not able.cache_choice:
        return
    if able.cache_choice == "frame":
        when = (
            "since a pause outlasted that" if account.pauses else "after a pause that outlasts it"
        )
        words = f"5 min, {when} system prompt and tools 1 h"
    else:
        lives = {SHORT_LIFE: "5 min", LONG_LIFE: "1 h"}
        after = f"{account.breaks} of {plural(account.requests, 'request')}"
        words = (
            f"{lives[able.cache_ttl]}; after a pause that outlasts it, "
            f"{lives[account.best_life(tokens)]} ({after} came after such a pause of up to an hour)"
        )
    yield _when("cache_life", f"the provider's cache lives {words}")


def _keeping(account: Account | None, tokens: int, able: Capabilities, most: int) -> Iterator[Json]:
    """Whether a pause would be bridged, and by what right."""
    if account is None or able.cache != "anthropic" or able.cache_ttl > SHORT_LIFE or not most:
        return
    life = LONG_LIFE if able.cache_upgrades else able.cache_ttl
    times = "once, for an hour" if able.cache_upgrades else f"{most}× at most"
    after = keep_warm_after(able.cache_ttl) / 60
    words = f"a pause of {after:.1f} min: the provider's cache is kept, {times}"
    if not account.keeps_paying(tokens, life):
        price = account.rates.read * tokens
        words = f"no pause is bridged: that costs {price:,.0f} tokens of input each time"
        words += f", {account.saved:,.0f} are saved" if price > account.saved else ""
    yield _when("keep_warm", words)


# ---- what fills the window


# In the order of the prompt.
PARTS = (
    *("system", "tools", "instructions", "memory", "summaries", "messages", "results"),
    "attachments",
)
_MEMORY_HEADING = "# Memory"
_INSTRUCTIONS = "These instruction files hold"


def parts_of(ledger: Ledger) -> dict[str, int]:
    """Part → its tokens, in the order of the prompt; they add up to the ledger's own count."""
    sizes: dict[str, int] = dict.fromkeys(PARTS, 0)
    frame: Json = ledger.projection.frame or {}
    for block in dicts(frame.get("system")):
        words = str(block.get("text", ""))
        name = "memory" if words.lstrip().startswith(_MEMORY_HEADING) else "system"
        sizes[name] += tokens.of_block(block)
    sizes["tools"] = sum(tokens.of_json(tool) for tool in dicts(frame.get("tools")))
    for row in ledger.projection.rows:
        sizes[_part(row, ledger.entries[row.entry])] += row.tokens
    return _scaled(sizes, ledger.tokens())


def _part(row: Row, entry: Json) -> str:
    kind = row.block.get("type")
    if row.number < 0:
        return "summaries"
    if kind == "tool_result":
        return "results"
    if row.role == "assistant":
        return "messages"
    origins: list[Any] = entry.get("origins") or []
    origin = origins[row.number] if row.number < len(origins) else "typed"
    if origin in ("typed", "pasted"):
        return "attachments" if kind in ("image", "document") else "messages"
    if origin == "recalled":
        return "memory"
    beginning = str(row.block.get("text", ""))[:200]
    return "instructions" if _INSTRUCTIONS in beginning else "attachments"


def _scaled(sizes: dict[str, int], total: int) -> dict[str, int]:
    """Estimates stretched to the provider's own count; the largest part takes the rounding."""
    estimate = sum(sizes.values())
    if not estimate or total == estimate:
        return sizes
    scaled = {name: round(size * total / estimate) for name, size in sizes.items()}
    largest = max(scaled, key=lambda name: scaled[name])
    scaled[largest] += total - sum(scaled.values())
    return scaled


def savings_of(entries: Iterable[Json]) -> dict[str, tuple[int, int]]:
    """Layer → how often its edits changed the view, and by how many tokens it shrank."""
    projection = Projection()
    sums: dict[str, tuple[int, int]] = {}
    for entry in entries:
        before = projection.tokens
        projection.add(entry)
        if entry["kind"] != "edit":
            continue
        layer, times = str(entry.get("layer") or "?"), 1
        if entry.get("op") == "revoke":
            undone = projection.entry(str(entry.get("edit"))) or {}
            layer, times = str(undone.get("layer") or "?"), -1
        count, saved = sums.get(layer, (0, 0))
        sums[layer] = (count + times, saved + before - projection.tokens)
    return sums


def _show_requests(args: argparse.Namespace, calls: Sequence[Call]) -> None:
    if args.json:
        terminal.out_json([_call_json(call) for call in calls])
        return
    rows = [
        [
            str(call.number),
            f"{call.usage.prompt or call.tokens:,}",
            f"{call.usage.cache_read:,}",
            money_text(call.cost),
            ", ".join(f"{edit.get('layer')} −{saved:,}" for edit, saved in call.edits)
            or call.typed
            or call.answer,
        ]
        for call in calls
    ]
    heading = ["request", "tokens", "cached", "cost", "before it"]
    out(fitted(rows, heading, gives_way=(2,), cut=4, right=(0, 1, 2, 3)))


def _call_json(call: Call) -> Json:
    edits = [
        {"id": edit["uuid"], "layer": edit.get("layer"), "op": edit.get("op"), "tokens": saved}
        for edit, saved in call.edits
    ]
    about = terminal.picked(call, "number at tokens cost typed answer tools breaks")
    return {**about, **call.usage.to_json(), "edits": edits}


def cache_of(entries: Iterable[Json]) -> Json:
    """How much of all input came from the provider's cache, and each cause that broke it: how often, and
    how many tokens were not read from the cache that should have been."""
    used = Usage()
    breaks: dict[tuple[str, bool], tuple[int, int]] = {}
    for entry in entries:
        if entry["kind"] == "message" and entry.get("role") == "assistant":
            used += Usage.from_json(entry.get("usage"))
        event = as_object(entry.get("event")) if entry["kind"] == "event" else {}
        if event.get("kind") != "cache_broke":
            continue
        cause = _SIZES.sub("", str(event.get("cause") or "?"))
        name = (cause, bool(event.get("registered")))
        count, lost = breaks.get(name, (0, 0))
        sizes = (event.get("expected"), event.get("read"))
        expected, read = (size if isinstance(size, int) else 0 for size in sizes)
        breaks[name] = (count + 1, lost + max(0, expected - read))
    return {
        "input": used.prompt,
        "read": used.cache_read,
        "breaks": [
            {"cause": cause, "expected": registered, "count": count, "tokens": lost}
            for (cause, registered), (count, lost) in breaks.items()
        ],
    }


# How long a pause was, how much a layer took: such breaks are of one kind, whatever the figures.
_SIZES = re.compile(r" \(\d+ min\)| of \d+ min$|: [\d,]+ tokens[^;]*")


# ---- for a person


def _show(value: Json) -> None:
    tokens, window, room = value["tokens"], value["window"], width()
    share = tokens / window if window else 0
    head = f"{tokens:,} of {window:,} tokens ({share:.0%})"
    of = f"{harmless(value['model'])}, session {value['session'][:8]}"
    one = columns(head) + 2 + columns(of) <= room
    out(f"{style(head, 'bold')}  {of}" if one else f"{style(head, 'bold')}\n{wrapped(of, room, 2)}")
    out(gauge(tokens, window, value["marks"], max(10, min(72, room - 2))))
    out()
    out(_parts(value["parts"], tokens, room))
    if value["saved"] or value["balance"]:
        out()
        out(style("Taken out of the context", "bold"))
        for layer, row in value["saved"].items():
            if row["count"] or row["tokens"]:
                _line(harmless(layer), f"{row['count']}×, {row['tokens']:,} tokens")
    if value["balance"]:
        earned = "saved" if value["balance"] > 0 else "lost"
        beside = f" and background work ({value['background']:,})" if value["background"] else ""
        tokens_of = f"{abs(value['balance']):,} tokens of input {earned}"
        out(wrapped(f"  After cache breaks, re-reads{beside}, {tokens_of}", room, 4))
    _show_cache(value["cache"])
    out()
    out(style("What comes next", "bold"))
    for row in value["next"]:
        _line(row["layer"], harmless(row["when"]))


def _parts(parts: dict[str, int], tokens: int, room: int) -> str:
    shown = {name: size for name, size in parts.items() if size}
    if not shown:
        return "  The session is empty."
    rows = [
        [name, f"{size:,}", f"{size / tokens:.0%}" if tokens else ""]
        for name, size in shown.items()
    ]
    heading, bars, most = ["part", "tokens", "share"], list(shown.values()), min(60, room - 2)
    lines = fitted(rows, heading, most, gives_way=(2,), right=(1, 2), bars=bars, bar_after=2)
    return "\n".join(f"  {line}" for line in lines.splitlines())


def _show_cache(cache: Json) -> None:
    """What the provider read from its cache, and what broke it."""
    if not cache["read"] and not cache["breaks"]:
        return
    out()
    out(style("The prompt cache", "bold"))
    share = f"{cache['read'] / max(1, cache['input']):.0%} of {cache['input']:,}"
    out(wrapped(f"  {share} tokens of input were read from it", width(), 4))
    breaks = sorted(cache["breaks"], key=lambda row: (row["expected"], -row["tokens"]))
    for row in breaks[:MOST_BREAKS]:
        kind = "expected" if row["expected"] else "broken"
        times = f"{row['count']}×, " if row["count"] > 1 else ""
        cause = f"{terminal.one_line(row['cause'], 200)} ({times}{row['tokens']:,} tokens)"
        _line(kind, cause, None if row["expected"] else "yellow")
    if more := len(breaks[MOST_BREAKS:]):
        _line("", f"and {plural(more, 'other cause')}")


def _line(name: str, words: str, colour: str | None = None) -> None:
    """A name and what is said about it; continued lines are indented."""
    room = width()
    beside = room >= SIDE_BY_SIDE
    said = f"  {name:<12}  {words}" if beside else f"  {name}: {words}" if name else f"  {words}"
    said = wrapped(said, room, 16 if beside else 4)
    out(style(said, colour) if colour else said)


def gauge(tokens: int, window: int, marks: dict[str, int], room: int) -> str:
    """A bar over the window; `|` marks autocompaction and the end of input."""
    filled = min(room, round(room * tokens / window)) if window else 0
    cells = ["█"] * filled + ["░"] * (room - filled)
    for name in ("autocompact", "blocking"):
        at = min(room - 1, int(room * marks[name] / window)) if window else 0
        cells[at] = "|"
    colour = "red" if tokens >= marks["autocompact"] else "yellow"
    colour = "green" if tokens < marks["warning"] else colour
    return style("".join(cells), colour)
