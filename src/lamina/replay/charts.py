"""Draws a replay's figures as inline SVG: no scripts, no outside assets, colours by class so that the
page's light and dark styles apply. Pure: values in, text out, everything shown escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, pairwise
from math import floor, log10
from typing import TypeAlias

from lamina.cache.spend import money_text
from lamina.messages import Usage
from lamina.replay.results import PolicyResult, ReplayResult, RequestFigures

WIDTH = 960
LEFT, RIGHT = 62, 178
MOST_COLUMNS = 480  # beyond that neighbours are drawn together
LANE = 18
IDLE = 300.0  # seconds after which a pause is drawn
LABELLED_PAUSES = 5
MANY_MARKS = 40  # beyond that only the rows below the plot show them
LONGEST_NAME = 28
HIGHEST_LABEL = 11.0
SHORTEST = 8  # half of a line that has one point


def tokens_text(value: float) -> str:
    """12, 3.4k, 120k, 1.25M."""
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        share = value / size
        if share >= 0.9995:  # less would be rounded to 1,000 of the unit below
            digits = 0 if share >= 100 else 1 if share >= 10 else 2
            short = f"{share:.{digits}f}"
            return (short.rstrip("0").rstrip(".") if digits else short) + unit
    return f"{value:.0f}"


def span_text(seconds: float) -> str:
    """40 s, 12 min, 3 h 5 min, 2 d 4 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, hours, days = whole // 60 % 60, whole // 3600 % 24, whole // 86400
    if days:
        return f"{days} d {hours} h" if hours else f"{days} d"
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min"


@dataclass(frozen=True, slots=True)
class _Space:
    """Maps request numbers and amounts to the drawing."""

    count: int
    top: float  # the largest amount
    height: int
    head: int = 12

    @property
    def right(self) -> int:
        return WIDTH - RIGHT

    @property
    def floor(self) -> int:
        return self.head + self.height

    def x(self, number: float) -> float:
        return LEFT + (self.right - LEFT) * (number + 0.5) / max(1, self.count)

    def y(self, amount: float) -> float:
        return self.floor - self.height * amount / (self.top or 1)


def _groups(count: int) -> list[range]:
    size = max(1, -(-count // MOST_COLUMNS))
    return [range(start, min(count, start + size)) for start in range(0, count, size)]


def _ticks(top: float, wanted: int = 5) -> list[float]:
    if top <= 0:
        return [0.0]
    rough = top / wanted
    unit = 10 ** floor(log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough)
    return [step * number for number in range(int(top / step + 1e-9) + 1)]


def _tag(name: str, css: str, words: str = "", title: str = "", **given: object) -> str:
    """One element, of this class and with these attributes; `title` shows when it is pointed at."""
    told = {key: round(x, 2) if isinstance(x, float) else x for key, x in given.items()}
    attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in told.items())
    inside = escape(words) + (f"<title>{escape(title)}</title>" if title else "")
    return f'<{name} class="{css}"{attributes}>{inside}</{name}>'


def _level(space: _Space, css: str, y: float) -> str:
    """A line from the left end of the plot to its right end."""
    return _tag("line", css, x1=LEFT, x2=space.right, y1=y, y2=y)


def _axes(space: _Space, label: Callable[[float], str]) -> Iterable[str]:
    for tick in _ticks(space.top):
        y = space.y(tick)
        yield _level(space, "grid", y)
        yield _tag("text", "tick", label(tick), x=LEFT - 8, y=y + 4, text_anchor="end")


def _request_axis(space: _Space, figures: Sequence[RequestFigures], timed: bool) -> Iterable[str]:
    began, y = figures[0].time, space.floor + 16
    ticks = (min(space.count - 1, max(0, round(tick) - 1)) for tick in _ticks(space.count, 7))
    for number in dict.fromkeys(ticks):
        x = space.x(number)
        yield _tag("text", "tick", str(number + 1), x=x, y=y, text_anchor="middle")
        if timed:
            since = span_text(figures[number].time - began)
            yield _tag("text", "tick faint", since, x=x, y=y + 14, text_anchor="middle")
    for row, words in enumerate(("request", "since the first") if timed else ("request",)):
        yield _tag("text", "tick faint", words, x=space.right + 8, y=y + 14 * row)


def _pauses(space: _Space, figures: Sequence[RequestFigures]) -> Iterable[str]:
    """Where nothing was sent for longer than a short-lived cache lives."""
    times = [one.time for one in figures]
    gaps = [(b - a, n) for n, (a, b) in enumerate(pairwise(times), 1) if b - a > IDLE]
    named = {number for _, number in sorted(gaps, reverse=True)[:LABELLED_PAUSES]}
    last = -100.0
    for gap, number in gaps:
        x = (space.x(number - 1) + space.x(number)) / 2
        words = span_text(gap)
        told = f"nothing sent for {words}"
        yield _tag("line", "pause", "", told, x1=x, x2=x, y1=space.head, y2=space.floor)
        if number in named and x - last > 64 and x < space.right - 40:
            yield _tag("text", "tick faint", words, x=x + 3, y=space.head - 5)
            last = x


def _svg(height: int, parts: Iterable[str], name: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(name, quote=True)}">'
        f"{''.join(parts)}</svg>"
    )


def _line(space: _Space, values: Sequence[float], css: str) -> str:
    """One line; of many requests the largest of each group is drawn."""
    points = [
        (space.x(group[0] + (len(group) - 1) / 2), space.y(max(values[n] for n in group)))
        for group in _groups(len(values))
    ]
    if len(points) == 1:  # a line needs two ends to be seen
        [(x, y)] = points
        points = [(x - SHORTEST, y), (x + SHORTEST, y)]
    return _tag("polyline", f"curve {css}", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points))


def _end_labels(space: _Space, ends: list[tuple[float, str, str]]) -> Iterable[str]:
    """Names at the right end of each line, moved apart where they would overlap."""
    lowest = space.floor + 4.0
    placed: list[tuple[float, str, str]] = []
    for value, words, css in sorted(ends):
        y = min(space.y(value) + 4, lowest)
        lowest = y - 15
        placed.append((y, words, css))
    highest = HIGHEST_LABEL
    for y, words, css in reversed(placed):  # from the top down: none leaves the drawing there
        y = max(y, highest)  # noqa: PLW2901
        highest = y + 15
        yield _tag("text", f"end {css}", _short(words), x=space.right + 8, y=y)


def context_chart(result: ReplayResult, css: dict[str, str]) -> str:
    """Size of the prompt at each request, under each policy, with what the layers did."""
    policies = result.policies
    figures = policies[0].requests
    peak = max(policy.max_context for policy in policies)
    window = policies[0].window
    near = window <= 2.5 * peak
    space = _Space(len(figures), max(peak, window) * 1.06 if near else peak * 1.08, 260, 24)
    parts = [*_axes(space, tokens_text), *(_pauses(space, figures) if result.timed else ())]
    parts += [_level(space, "window", space.y(window))] if near else []
    for policy in policies:
        values = [float(request.context) for request in policy.requests]
        parts.append(_line(space, values, css[policy.policy]))
    ends = [(float(p.requests[-1].context), p.policy, css[p.policy]) for p in policies]
    ends += [(float(window), f"window {tokens_text(window)}", "window-name")] if near else []
    parts += [*_end_labels(space, ends), *_marks(space, policies)]
    lanes, height = _lanes(space, lanes_of(policies))
    below = (*_request_axis(space, figures, result.timed), *lanes, *_hover(space, policies))
    return _svg(height, [*parts, *below], "context size by request")


def _marks(space: _Space, policies: Sequence[PolicyResult]) -> Iterable[str]:
    """Dots on the line where a layer changed the prompt; notes, which don't, have a row below."""
    for policy in policies:
        acted = [
            (n, changed)
            for n, request in enumerate(policy.requests)
            if (changed := [a for a in request.actions if a.tokens_saved or a.layer == "recorder"])
        ]
        for number, actions in acted if len(acted) <= MANY_MARKS else ():
            x, y = space.x(number), space.y(policy.requests[number].context)
            told = [f"{layer_name(a.layer)}: {a.description}" for a in actions]
            words = "\n".join([f"request {number + 1}, {policy.policy}", *told])
            yield _tag("circle", f"mark {layer_css(actions[0].layer)}", "", words, cx=x, cy=y, r=4)


Lanes: TypeAlias = dict[tuple[str, str], list[tuple[int, str]]]


def lanes_of(policies: Sequence[PolicyResult]) -> Lanes:
    """One row for each layer that acted, and one for re-reads, by policy: its name and class, and at
    which requests what happened."""
    rows: Lanes = {}
    for policy in policies:
        of = f", {policy.policy}" if len(policies) > 2 else ""
        for number, request in enumerate(policy.requests):
            for action in request.actions:
                size = tokens_text(action.tokens_saved)
                saved = f" ({size} tokens)" if action.tokens_saved else ""
                row = (f"{layer_name(action.layer)}{of}", layer_css(action.layer))
                words = f"request {number + 1}: {action.description}{saved}"
                rows.setdefault(row, []).append((number, words))
            for reread in request.rereads:
                words = f"request {number + 1}: {reread.kind} {reread.what}"
                rows.setdefault((f"re-reads{of}", "miss"), []).append((number, words))
    return rows


def _lanes(space: _Space, rows: Lanes) -> tuple[list[str], int]:
    """The rows below the plot."""
    parts: list[str] = []
    y = space.floor + 46
    for (label, css), marks in rows.items():
        parts.append(_level(space, "grid", y))
        parts.append(_tag("text", f"end {css}", _short(label), label, x=space.right + 8, y=y + 4))
        for number, words in marks:
            place = {"x": space.x(number) - 1.5, "y": y - 6, "width": 3, "height": 12, "rx": 1}
            parts.append(_tag("rect", css, "", words, **place))
        y += LANE
    return parts, y


def _short(words: str) -> str:
    return words if len(words) <= LONGEST_NAME else words[: LONGEST_NAME - 1] + "…"


def _hover(space: _Space, policies: Sequence[PolicyResult]) -> Iterable[str]:
    """Invisible columns that tell a request's figures when pointed at."""
    wide = (space.right - LEFT) / max(1, space.count)
    for group in _groups(space.count):
        at = [(policy.policy, policy.requests[group[-1]]) for policy in policies]
        told = [f"{name}: {tokens_text(r.context)} tokens, {money_text(r.cost)}" for name, r in at]
        words = "\n".join([f"request {group[-1] + 1}", *told])
        place = {"x": space.x(group[0]) - wide / 2, "width": wide * len(group)}
        yield _tag("rect", "hover", "", words, **place, y=space.head, height=space.height)


def cache_parts(used: Usage) -> list[tuple[str, str, int]]:
    """Of all input: the class, the word and the tokens of each kind."""
    return [
        ("read", "read", used.cache_read),
        ("write", "written", used.cache_write),
        ("miss", "missed", used.input),
    ]


def cache_chart(policy: PolicyResult, top: float, css: str) -> str:
    """What of each prompt was read from the cache, written to it, and missed, stacked."""
    figures = policy.requests
    space = _Space(len(figures), top * 1.05, 150)
    parts = list(_axes(space, tokens_text))
    wide = (space.right - LEFT) / len(figures)
    for group in _groups(len(figures)):
        x = space.x(group[0]) - wide / 2
        width = max(0.6, wide * len(group) - (0.8 if wide > 3 else 0))
        usage = sum((figures[n].usage for n in group), Usage())
        shares = [(kind, word, size / len(group)) for kind, word, size in cache_parts(usage)]
        told = ", ".join(f"{tokens_text(share)} {word}" for _, word, share in shares)
        parts.append(f"<g><title>{escape(f'request {group[-1] + 1}: {told}')}</title>")
        base = 0.0
        for kind, _, share in shares:
            if share > 0:
                tall = space.height * share / space.top
                base += share
                parts.append(_tag("rect", kind, x=x, y=space.y(base), width=width, height=tall))
        parts.append("</g>")
    parts.extend(_request_axis(space, figures, timed=False))
    right, head = space.right + 10, space.head
    parts.append(_tag("text", f"end {css} strong", _short(policy.policy), x=right, y=head + 10))
    for row, (kind, word, amount) in enumerate(cache_parts(policy.usage)):
        y = head + 34 + row * 20
        part = f"{word} {100 * amount / max(1, policy.usage.prompt):.1f}%"
        parts.append(_tag("rect", kind, x=right, y=y - 9, width=10, height=10, rx=2))
        parts.append(_tag("text", "end", part, x=right + 16, y=y))
    return _svg(space.floor + 24, parts, f"cache use under {policy.policy}")


def money_chart(result: ReplayResult, css: dict[str, str]) -> str:
    """What each policy had cost by each request."""
    figures = result.policies[0].requests
    sums = {
        policy.policy: [*accumulate(request.cost for request in policy.requests)]
        for policy in result.policies
    }
    top = max((values[-1] for values in sums.values()), default=0.0)
    space = _Space(len(figures), top * 1.08 or 1.0, 200)
    lines = [_line(space, values, css[name]) for name, values in sums.items()]
    ends = [(own[-1], f"{name} {money_text(own[-1])}", css[name]) for name, own in sums.items()]
    parts = [*_axes(space, money_text), *lines, *_end_labels(space, ends)]
    parts += [*_request_axis(space, figures, result.timed), *_hover(space, result.policies)]
    return _svg(space.floor + 36, parts, "money by request")


LAYERS = {
    "tool_results": "L1 results on disk", "microcompact": "L2 microcompaction", "snip": "L2 snip",
    "notes": "L3 session notes", "collapse": "L4 collapse", "compaction": "L4 compaction",
    "recorder": "recorder compacted", "dropped": "oldest dropped",
}  # fmt: skip


def layer_name(layer: str) -> str:
    return LAYERS.get(layer, layer)


def layer_css(layer: str) -> str:
    return f"layer{[*LAYERS].index(layer) if layer in LAYERS else 9}"
