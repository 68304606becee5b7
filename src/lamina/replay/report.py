"""One self-contained HTML page about one or more replays: who reads it needs no network and no
program. Reads only its own style sheet; everything that came from a recording is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import PurePath

from lamina.cache.spend import checked_on, money_text
from lamina.replay import charts
from lamina.replay.charts import layer_name, tokens_text
from lamina.replay.policies import NAMES
from lamina.replay.results import PolicyResult, ReplayResult, compared_with, merged

MOST_ACTIONS = 200
CACHE_WORDS = "tokens that each request read, wrote and missed; a re-read's call adds to it"
_COLOURS = 6
# Take effect instead of being shown, on a terminal or by turning the line round.
_UNSEEN = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")

# Nothing but the page's own styles may load or run.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render_report(results: Sequence[ReplayResult], *, title: str = "Lamina replay") -> str:
    """The whole page."""
    style = files("lamina.replay").joinpath("report.css").read_text("utf-8")
    css = _colours(results)
    sections = "".join(_section(result, css, number) for number, result in enumerate(results))
    overview = _overview(results, css) if len(results) > 1 else ""
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f"<h1>{escape(title)}</h1>{_intro(results)}{overview}{sections}{_footer(results)}"
        "</body></html>\n"
    )
    # A recording may hold half a surrogate pair, which no file can.
    return _UNSEEN.sub("\ufffd", page.encode("utf-8", "replace").decode("utf-8"))


def _many(count: int, one: str) -> str:
    return f"1 {one}" if count == 1 else f"{count:,} {one}s"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[int] = ()) -> str:
    """Cells that are HTML already; columns of words are flush left, as the first one is."""

    def row(cells: Sequence[str], tag: str) -> str:
        marks = [" class=words" if at in words else "" for at in range(len(cells))]
        shown = (f"<{tag}{m}>{cell}</{tag}>" for m, cell in zip(marks, cells, strict=True))
        return f"<tr>{''.join(shown)}</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return f'<div class="scroll"><table>{row(heads, "th")}{body}</table></div>'


def _colours(results: Sequence[ReplayResult]) -> dict[str, str]:
    """Each policy keeps its colour over the whole page; sending everything is grey."""
    names = dict.fromkeys(policy.policy for result in results for policy in result.policies)
    others = [name for name in names if name != "none"]
    css = {name: f"p{1 + number % (_COLOURS - 1)}" for number, name in enumerate(others)}
    return {**css, "none": "p0"}


def _intro(results: Sequence[ReplayResult]) -> str:
    requests = sum(result.requests for result in results)
    named = dict.fromkeys(policy.policy for result in results for policy in result.policies)
    policies = [f"{name} ({NAMES[name]})" if name in NAMES else name for name in named]
    return (
        f'<p class="sub">{_many(len(results), "recording")}, {_many(requests, "request")}, put through '
        f"{escape(', '.join(policies))}; costed on paper at list prices.</p>"
    )


def _overview(results: Sequence[ReplayResult], css: dict[str, str]) -> str:
    """All recordings together, one row each."""
    together = merged(results)
    names = [policy.policy for policy in together]
    rows: list[list[str]] = []
    for number, result in enumerate(results):
        by_name = {policy.policy: policy for policy in result.policies}
        link = f'<a href="#file{number}">{escape(PurePath(result.file).name)}</a>'
        cells = [cell for name in names for cell in _overview_cells(by_name.get(name))]
        rows.append([link, str(result.requests), *cells])
    heads = [head for name in names for head in (escape(name), "from cache", "peak")]
    table = _table(["recording", "requests", *heads], rows)
    return f"<h2>All together</h2>{_cards(together, css)}{table}"


def _overview_cells(policy: PolicyResult | None) -> Sequence[str]:
    if policy is None:
        return "–––"
    return money_text(policy.cost), _from_cache(policy), tokens_text(policy.max_context)


def _section(result: ReplayResult, css: dict[str, str], number: int) -> str:
    head = f"<h2>{escape(PurePath(result.file).name)}</h2>"
    parts = [head, f'<p class="sub">{escape(_facts(result))}</p>']
    if result.policies and result.policies[0].requests:
        top = max(f.usage.prompt for p in result.policies for f in p.requests) or 1
        parts.append(_cards(result.policies, css))
        legend = _legend((css[p.policy], p.policy) for p in result.policies)
        lanes = [(kind, label) for label, kind in charts.lanes_of(result.policies)]
        context = legend + charts.context_chart(result, css) + _legend(lanes, css="legend rows")
        parts.append(_plot("Context size", "tokens in each prompt", context))
        cache = "".join(
            _cache_legend(p, css) + charts.cache_chart(p, top, css[p.policy])
            for p in result.policies
        )
        parts.append(_plot("Cache", CACHE_WORDS, cache))
        parts.append(
            _plot("Money", "sum up to each request", legend + charts.money_chart(result, css))
        )
        parts.append(_layers(result.policies))
        parts.append(_actions(result.policies))
    parts.append(_skipped(result))
    return f'<section id="file{number}">{"".join(parts)}</section>'


def _facts(result: ReplayResult) -> str:
    facts = [result.format, _many(result.requests, "request")]
    figures = result.policies[0].requests if result.policies else ()
    if result.timed and figures:
        day = datetime.fromtimestamp(max(0.0, min(result.began, 4e9)), UTC)
        facts.append(f"began {day:%Y-%m-%d %H:%M} UTC")
        facts.append(f"lasted {charts.span_text(figures[-1].time - figures[0].time)}")
    elif figures:
        facts.append("the recording has no times: requests are taken to be 10 s apart")
    threads = {request.thread for request in figures}
    if len(threads) > 1:
        facts.append(f"{len(threads)} conversations")
    if result.recorded is not None:
        read = 100 * result.recorded.cache_read / max(1, result.recorded.prompt)
        facts.append(f"the provider reported {read:.1f}% of the input as read from its cache")
    return " · ".join(facts)


def _cards(policies: Sequence[PolicyResult], css: dict[str, str]) -> str:
    plain = compared_with(policies)
    cards: list[str] = []
    for policy in policies:
        change = ""
        if plain is not None and policy is not plain and plain.cost > 0:
            percent = 100 * (policy.cost / plain.cost - 1)
            sense = "same" if abs(percent) < 0.05 else "less" if percent < 0 else "more"
            told = "±0.0%" if sense == "same" else f"{percent:+.1f}%"
            change = f'<small class="{sense}">{told}</small>'
        rows = "".join(f"<li>{words}</li>" for words in _card_lines(policy))
        cards.append(
            f'<div class="card {css[policy.policy]}"><b>{escape(policy.policy)}</b>'
            f'<span class="big">{money_text(policy.cost)}{change}</span><ul>{rows}</ul></div>'
        )
    return f'<div class="cards">{"".join(cards)}</div>'


def _card_lines(policy: PolicyResult) -> Iterable[str]:
    yield f"{_from_cache(policy)} of input read from cache"
    yield f"{tokens_text(policy.usage.prompt)} tokens in, {tokens_text(policy.usage.output)} out"
    yield f"largest prompt {tokens_text(policy.max_context)}"
    if policy.overflows:
        refused = " and refused there" if policy.policy == "none" else ""
        yield f'<span class="more">over the window {policy.overflows} times{refused}</span>'
    for purpose, (calls, dollars) in policy.background.items():
        many = _many(calls, "call")
        yield escape(f"{layer_name(purpose)}: {many}, {money_text(dollars)} of the sum")
    rereads = policy.rereads
    if rereads:
        tokens = tokens_text(sum(reread.tokens for reread in rereads))
        yield f"{_many(len(rereads), 're-read')} charged ({tokens} tokens)"
    if policy.prices:
        guess = ", guessed" if policy.guessed_price else ""
        yield escape(f"prices of {', '.join(policy.prices)}{guess}")


def _from_cache(policy: PolicyResult) -> str:
    usage = policy.usage
    return f"{100 * usage.cache_read / max(1, usage.prompt):.1f}%"


def _plot(name: str, words: str, svg: str) -> str:
    return f'<h3>{name} <small>{escape(words)}</small></h3><div class="plot">{svg}</div>'


def _legend(names: Iterable[tuple[str, str]], head: str = "", css: str = "legend") -> str:
    """What the colours mean, by class and words; on a wide screen a plot says so itself."""
    told = "".join(f'<span><i class="{kind}"></i>{escape(words)}</span>' for kind, words in names)
    return f'<p class="{css}">{head}{told}</p>' if told else ""


def _cache_legend(policy: PolicyResult, css: dict[str, str]) -> str:
    parts = [
        (kind, f"{word} {100 * amount / max(1, policy.usage.prompt):.1f}%")
        for kind, word, amount in charts.cache_parts(policy.usage)
    ]
    return _legend(parts, f'<b class="{css[policy.policy]}">{escape(policy.policy)}</b>')


def _layers(policies: Sequence[PolicyResult]) -> str:
    rows = [
        (escape(layer_name(layer)), escape(policy.policy), str(times), _saved(saved))
        for policy in policies
        for layer, (times, saved) in policy.layers.items()
        if layer != "recorder"
    ]
    table = _table(("layer", "policy", "acted", "tokens saved"), rows, words=(1,))
    return f"<h3>What each layer did</h3>{table}" if rows else ""


def _saved(tokens: int) -> str:
    return f"{'−' if tokens < 0 else ''}{tokens_text(abs(tokens))}" if tokens else "–"


def _actions(policies: Sequence[PolicyResult]) -> str:
    rows: list[tuple[str, ...]] = []
    for policy in policies:
        for number, request in enumerate(policy.requests, 1):
            told = [(layer_name(a.layer), a.description, a.tokens_saved) for a in request.actions]
            told += [("re-read", f"{r.kind}: {r.what}", -r.tokens) for r in request.rereads]
            told += [("own call", call.purpose, -call.usage.total) for call in request.calls]
            for layer, words, saved in told:
                shown = map(escape, (policy.policy, layer, words[:300]))
                rows.append((str(number), *shown, _saved(saved)))
    if not rows:
        return ""
    heads = ("request", "policy", "what", "how", "tokens saved")
    more = f"<p class=sub>{len(rows) - MOST_ACTIONS} more</p>" if len(rows) > MOST_ACTIONS else ""
    table = _table(heads, rows[:MOST_ACTIONS], words=(1, 2, 3))
    return _folded(f"{len(rows)} actions, one by one", table + more)


def _folded(summary: str, details: str) -> str:
    return f"<details><summary>{summary}</summary>{details}</details>"


def _skipped(result: ReplayResult) -> str:
    rows = [(escape(entry.where), escape(entry.reason)) for entry in result.skipped]
    many = f"{_many(len(rows), 'place')} in the file not used as recorded"
    return _folded(many, _table(("where", "why"), rows, words=(1,))) if rows else ""


def _footer(results: Sequence[ReplayResult]) -> str:
    guessed = any(policy.guessed_price for result in results for policy in result.policies)
    guess = " Guessed prices: the recording names no model, or one in no list." if guessed else ""
    return (
        f"<footer>Made by Lamina. List prices as of {escape(checked_on())}."
        f"{guess} A re-read is charged, with a call of its own, wherever a later turn leans on "
        "content that a policy had removed. Dotted lines mark pauses of more than five minutes. "
        "Point at a plot for the figures of a request.</footer>"
    )
