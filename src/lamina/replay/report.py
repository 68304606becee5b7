"""One self-contained HTML page about one or more replays: who reads it needs no network and no
program. Reads only its own style sheet; everything that came from a recording is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import PurePath

from lamina.cache.prices import checked_on, money_text
from lamina.replay.charts import (
    cache_chart,
    context_chart,
    lanes_of,
    layer_name,
    money_chart,
    span_text,
    tokens_text,
)
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


def requests_text(count: int) -> str:
    return "1 request" if count == 1 else f"{count:,} requests"


def _colours(results: Sequence[ReplayResult]) -> dict[str, str]:
    """Each policy keeps its colour over the whole page; sending everything is grey."""
    names = dict.fromkeys(policy.policy for result in results for policy in result.policies)
    others = [name for name in names if name != "none"]
    css = {name: f"p{1 + number % (_COLOURS - 1)}" for number, name in enumerate(others)}
    return {**css, "none": "p0"}


def _intro(results: Sequence[ReplayResult]) -> str:
    requests = sum(result.requests for result in results)
    recordings = "1 recording" if len(results) == 1 else f"{len(results)} recordings"
    named = dict.fromkeys(policy.policy for result in results for policy in result.policies)
    policies = [f"{name} ({NAMES[name]})" if name in NAMES else name for name in named]
    return (
        f'<p class="sub">{recordings}, {requests_text(requests)}, put through '
        f"{escape(', '.join(policies))}; costed on paper at list prices.</p>"
    )


def _overview(results: Sequence[ReplayResult], css: dict[str, str]) -> str:
    """All recordings together, one row each."""
    together = merged(results)
    names = [policy.policy for policy in together]
    rows: list[str] = []
    for number, result in enumerate(results):
        by_name = {policy.policy: policy for policy in result.policies}
        cells = "".join(_overview_cells(by_name.get(name)) for name in names)
        link = f'<a href="#file{number}">{escape(PurePath(result.file).name)}</a>'
        rows.append(f"<tr><td>{link}</td><td>{result.requests}</td>{cells}</tr>")
    heads = "".join(f"<th>{escape(name)}</th><th>from cache</th><th>peak</th>" for name in names)
    return (
        f"<h2>All together</h2>{_cards(together, css)}"
        f'<div class="scroll"><table><tr><th>recording</th><th>requests</th>{heads}</tr>'
        f"{''.join(rows)}</table></div>"
    )


def _overview_cells(policy: PolicyResult | None) -> str:
    if policy is None:
        return "<td>–</td><td>–</td><td>–</td>"
    peak = tokens_text(policy.max_context)
    return f"<td>{money_text(policy.cost)}</td><td>{_from_cache(policy)}</td><td>{peak}</td>"


def _section(result: ReplayResult, css: dict[str, str], number: int) -> str:
    head = f"<h2>{escape(PurePath(result.file).name)}</h2>"
    parts = [head, f'<p class="sub">{escape(_facts(result))}</p>']
    if result.policies and result.policies[0].requests:
        top = max(f.usage.prompt for p in result.policies for f in p.requests) or 1
        parts.append(_cards(result.policies, css))
        legend = _legend(result.policies, css)
        context = legend + context_chart(result, css) + _lane_legend(result.policies)
        parts.append(_plot("Context size", "tokens in each prompt", context))
        cache = "".join(
            _cache_legend(p, css) + cache_chart(p, top, css[p.policy]) for p in result.policies
        )
        parts.append(_plot("Cache", CACHE_WORDS, cache))
        parts.append(_plot("Money", "sum up to each request", legend + money_chart(result, css)))
        parts.append(_layers(result.policies))
        parts.append(_actions(result.policies))
    parts.append(_skipped(result))
    return f'<section id="file{number}">{"".join(parts)}</section>'


def _facts(result: ReplayResult) -> str:
    facts = [result.format, requests_text(result.requests)]
    figures = result.policies[0].requests if result.policies else ()
    if result.timed and figures:
        day = datetime.fromtimestamp(max(0.0, min(result.began, 4e9)), UTC)
        facts.append(f"began {day:%Y-%m-%d %H:%M} UTC")
        facts.append(f"lasted {span_text(figures[-1].time - figures[0].time)}")
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
        many = "call" if calls == 1 else "calls"
        yield escape(f"{layer_name(purpose)}: {calls} {many}, {money_text(dollars)} of the sum")
    rereads = policy.rereads
    if rereads:
        tokens = tokens_text(sum(reread.tokens for reread in rereads))
        many = "re-read" if len(rereads) == 1 else "re-reads"
        yield f"{len(rereads)} {many} charged ({tokens} tokens)"
    if policy.prices:
        guess = ", guessed" if policy.guessed_price else ""
        yield escape(f"prices of {', '.join(policy.prices)}{guess}")


def _from_cache(policy: PolicyResult) -> str:
    usage = policy.usage
    return f"{100 * usage.cache_read / max(1, usage.prompt):.1f}%"


def _plot(name: str, words: str, svg: str) -> str:
    return f'<h3>{name} <small>{escape(words)}</small></h3><div class="plot">{svg}</div>'


def _legend(policies: Sequence[PolicyResult], css: dict[str, str]) -> str:
    """Names of the lines; on a wide screen they stand at the lines' ends."""
    names = "".join(
        f'<span><i class="{css[policy.policy]}"></i>{escape(policy.policy)}</span>'
        for policy in policies
    )
    return f'<p class="legend">{names}</p>'


def _lane_legend(policies: Sequence[PolicyResult]) -> str:
    """Names of the rows of marks, in their order."""
    names = "".join(
        f'<span><i class="{css}"></i>{escape(label)}</span>' for label, css in lanes_of(policies)
    )
    return f'<p class="legend rows">{names}</p>' if names else ""


def _cache_legend(policy: PolicyResult, css: dict[str, str]) -> str:
    used = policy.usage
    kinds = (("read", used.cache_read), ("write", used.cache_write), ("miss", used.input))
    words = {"read": "read", "write": "written", "miss": "missed"}
    parts = "".join(
        f'<span><i class="{kind}"></i>{words[kind]} {100 * amount / max(1, used.prompt):.1f}%</span>'
        for kind, amount in kinds
    )
    name = f'<b class="{css[policy.policy]}">{escape(policy.policy)}</b>'
    return f'<p class="legend">{name}{parts}</p>'


def _layers(policies: Sequence[PolicyResult]) -> str:
    rows = [
        f"<tr><td>{escape(layer_name(layer))}</td><td class=words>{escape(policy.policy)}</td>"
        f"<td>{times}</td><td>{tokens_text(saved) if saved else '–'}</td></tr>"
        for policy in policies
        for layer, (times, saved) in policy.layers.items()
        if layer != "recorder"
    ]
    if not rows:
        return ""
    head = "<tr><th>layer</th><th class=words>policy</th><th>acted</th><th>tokens saved</th></tr>"
    return f'<h3>What each layer did</h3><div class="scroll"><table>{head}{"".join(rows)}</table></div>'


def _actions(policies: Sequence[PolicyResult]) -> str:
    rows: list[str] = []
    for policy in policies:
        for number, request in enumerate(policy.requests, 1):
            told = [(layer_name(a.layer), a.description, a.tokens_saved) for a in request.actions]
            told += [("re-read", f"{r.kind}: {r.what}", -r.tokens) for r in request.rereads]
            told += [("own call", call.purpose, -call.usage.total) for call in request.calls]
            for layer, words, saved in told:
                sign = "−" if saved < 0 else ""
                amount = f"{sign}{tokens_text(abs(saved))}" if saved else "–"
                rows.append(
                    f"<tr><td>{number}</td><td class=words>{escape(policy.policy)}</td>"
                    f"<td class=words>{escape(layer)}</td><td class=words>{escape(words[:300])}</td>"
                    f"<td>{amount}</td></tr>"
                )
    if not rows:
        return ""
    more = f"<p class=sub>{len(rows) - MOST_ACTIONS} more</p>" if len(rows) > MOST_ACTIONS else ""
    head = (
        "<tr><th>request</th><th class=words>policy</th><th class=words>what</th>"
        "<th class=words>how</th><th>tokens saved</th></tr>"
    )
    return (
        f"<details><summary>{len(rows)} actions, one by one</summary>"
        f'<div class="scroll"><table>{head}{"".join(rows[:MOST_ACTIONS])}</table></div>{more}</details>'
    )


def _skipped(result: ReplayResult) -> str:
    if not result.skipped:
        return ""
    rows = "".join(
        f"<tr><td>{escape(entry.where)}</td><td class=words>{escape(entry.reason)}</td></tr>"
        for entry in result.skipped
    )
    many = "place" if len(result.skipped) == 1 else "places"
    return (
        f"<details><summary>{len(result.skipped)} {many} in the file not used as recorded</summary>"
        '<div class="scroll"><table><tr><th>where</th><th class=words>why</th></tr>'
        f"{rows}</table></div></details>"
    )


def _footer(results: Sequence[ReplayResult]) -> str:
    guessed = any(policy.guessed_price for result in results for policy in result.policies)
    guess = " Guessed prices: the recording names no model, or one in no list." if guessed else ""
    return (
        f"<footer>Made by Lamina. List prices as of {escape(checked_on())}."
        f"{guess} A re-read is charged, with a call of its own, wherever a later turn leans on "
        "content that a policy had removed. Dotted lines mark pauses of more than five minutes. "
        "Point at a plot for the figures of a request.</footer>"
    )
