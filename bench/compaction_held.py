"""Tables of what texts hold of the facts that were used after real compactions (the probe of
`compaction_later`), of how well Lamina's own score foresees it, and of what it costs.

Each table is made for the half of the sessions that nothing was chosen on, and for the other one.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from bench.compaction_cuts import DATA, SHORTEST, WINDOW, Entry, feed, read
from bench.compaction_later import KINDS, Facts, Held, by_lot, half, held, names, texts, used_later
from bench.compaction_money import Bill, bills
from bench.figures import Figure, at_least, at_most

from lamina.layers import notes
from lamina.ledger import tokens
from lamina.local.probes import probes_of, score
from lamina.local.session_facts import session_facts, texts_in
from lamina.local.summariser import nine_parts
from lamina.messages import text_of
from lamina.session import Session

HALVES = {"report": "nothing was chosen on these", "choose": "everything was chosen on these"}
OURS = ("local summary", "from notes", "in full")
CONTROLS = ("names by lot", "head and tail", "last N", "the tool's summary")


@dataclass
class RealCut:
    """One compaction of a recording, and texts that could stand for its span."""

    file: str
    span: list[Entry]
    theirs: str
    facts: Facts
    views: dict[str, str] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    foreseen: dict[str, float] = field(default_factory=dict)


@dataclass
class Tables:
    cuts: dict[str, list[RealCut]]
    bills: dict[str, dict[str, Bill]]


def held_tables() -> Tables:
    found: dict[str, list[RealCut]] = {name: [] for name in HALVES}
    files: dict[str, dict[Path, None]] = {name: {} for name in HALVES}
    for path in sorted(DATA.glob("claude-code-sessions*/*.jsonl")):
        for cut in _real_cuts(path):
            anyio.run(_look, cut)
            found[half(path.name)].append(cut)
            files[half(path.name)].setdefault(path)
    return Tables(found, {name: bills(files[name]) for name in HALVES})


def _real_cuts(path: Path) -> Iterator[RealCut]:
    entries = read(path)
    at = [number for number, entry in enumerate(entries) if entry["summary"]]
    for start, number, end in zip([0, *at], at, [*at[1:], len(entries)], strict=False):
        span, later = entries[start:number], entries[number + 1 : end]
        if sum(tokens.of_text(text) for text in _raw(span)) >= SHORTEST:
            theirs = text_of(entries[number]["content"])
            yield RealCut(path.name, span, theirs, used_later(span, later))


def _raw(span: list[Entry]) -> list[str]:
    return ["\n".join(texts(entry, results=True)) for entry in span]


# ---- texts of one size


async def _look(cut: RealCut) -> None:
    what, raw = session_facts(cut.span), _raw(cut.span)
    made = {
        "local summary": nine_parts(what, budget=tokens.of_text(cut.theirs)),
        "from notes": await _compacted(cut.span, by_notes=True),
        "in full": await _compacted(cut.span, by_notes=False),
    }
    for name, text in made.items():
        size = tokens.of_text(text)
        left = size - tokens.of_text(cut.theirs)  # little, where theirs set the size
        cut.views[name] = text
        cut.views[f"{name}: head and tail"] = _head_and_tail(raw, size)
        cut.views[f"{name}: last N"] = _tail(raw, size)
        theirs = cut.theirs if left <= 0 else f"{cut.theirs}\n{_tail(raw, left)}"
        cut.views[f"{name}: the tool's summary"] = theirs
    found = probes_of(what)
    cut.held = {name: held(cut.facts, text) for name, text in cut.views.items()}
    cut.foreseen = {name: score(found, text).share for name, text in cut.views.items()}
    for name, text in made.items():
        cut.held[f"{name}: names by lot"] = _by_lot(cut, text)


def _tail(raw: list[str], room: int) -> str:
    """The last messages, the first of them cut, so that the room is full."""
    return "\n".join(raw).encode()[-room * 4 :].decode("utf-8", "ignore")


def _head_and_tail(raw: list[str], room: int) -> str:
    """The first message, cut to a tenth of the room, and the last ones."""
    head = raw[0].encode()[: room * 4 // 10].decode("utf-8", "ignore")
    return f"{head}\n{_tail(raw[1:], room - tokens.of_text(head))}"


def _by_lot(cut: RealCut, text: str) -> Held:
    """The same text, each name that only its list of names says put out for one drawn by lot: the
    mean of five draws, rounded."""
    lines = text.splitlines()
    listed = [n for n, line in enumerate(lines) if line.startswith(("  ", "- elsewhere: "))]
    listed = [n for n in listed if not line_of_code(lines[n])]
    others = names("\n".join(line for n, line in enumerate(lines) if n not in listed))
    only = names("\n".join(lines[n] for n in listed)) - others
    bare = "\n".join(line for n, line in enumerate(lines) if n not in listed)
    draws = [
        held(cut.facts, f"{bare}\n{', '.join(by_lot(cut.span, len(only), f'{cut.file} {n}'))}")
        for n in range(5)
    ]
    return Held(
        {
            kind: (
                round(statistics.mean(draw.of[kind][0] for draw in draws)),
                draws[0].of[kind][1],
            )
            for kind in KINDS
        }
    )


def line_of_code(line: str) -> bool:
    """A changed line is shown with a plus; a list of names has nothing but names."""
    words = line.removeprefix("- elsewhere: ").strip().split(", ")
    return not all(word.replace("_", "a").isalnum() for word in words)


async def _compacted(span: list[Entry], *, by_notes: bool) -> str:
    """The view after a compaction in a real session; notes are ten messages old."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        project.mkdir()
        config = {"window.tokens": WINDOW, "memory.enabled": False, "compact.from_notes": by_notes}
        async with Session.open(project, "none", home=Path(folder) / "home", config=config) as s:
            covered = len(span) - 10 if by_notes else 0
            feed(s, span[:covered])
            if by_notes:
                await notes.update(s.state)
            feed(s, span[covered:])
            await s.compact()
            return "\n".join(t for m in s.view().messages for t in texts_in(m["content"]))


# ---- adding up


def by_kind(rows: Iterable[Held]) -> float:
    """The mean over cuts of the mean over kinds."""
    return statistics.mean(row.by_kind for row in rows)


def together(rows: Iterable[Held]) -> float:
    """All facts of all cuts in one heap."""
    pairs = [pair for row in rows for pair in row.of.values()]
    return sum(kept for kept, _ in pairs) / max(1, sum(count for _, count in pairs))


def rank_correlation(one: list[float], other: list[float]) -> float:
    try:
        return statistics.correlation(_ranks(one), _ranks(other))
    except statistics.StatisticsError:  # all alike
        return 0.0


def _ranks(values: list[float]) -> list[float]:
    """Equal values share the middle of their ranks."""
    order = sorted(values)
    first = {value: n for n, value in reversed(list(enumerate(order)))}
    last = {value: n for n, value in enumerate(order)}
    return [(first[value] + last[value]) / 2 for value in values]


def foresight(cuts: list[RealCut], target: str) -> tuple[float, float, float]:
    """Rank correlation of Lamina's score with what was held: over all texts of all cuts, the mean
    over texts (which cut kept more?), and the mean over cuts (which text keeps more?)."""
    views = list(cuts[0].views)

    def pairs(cut: RealCut, view: str) -> tuple[float, float]:
        return cut.foreseen[view], getattr(cut.held[view], target)

    def correlated(rows: list[tuple[float, float]]) -> float:
        return rank_correlation([a for a, _ in rows], [b for _, b in rows])

    every = correlated([pairs(cut, view) for cut in cuts for view in views])
    by_text = statistics.mean(correlated([pairs(c, view) for c in cuts]) for view in views)
    by_cut = statistics.mean(correlated([pairs(cut, view) for view in views]) for cut in cuts)
    return every, by_text, by_cut


# ---- reporting


def held_figures(tables: Tables) -> list[Figure]:
    cuts = tables.cuts["report"]
    made: list[Figure] = []
    for name in OURS:
        key = name.replace(" ", "_")
        for what, add in (("by_kind", by_kind), ("together", together)):
            controls = {c: add(cut.held[f"{name}: {c}"] for cut in cuts) for c in CONTROLS}
            best = max(value for c, value in controls.items() if c != "names by lot")
            mine = add(cut.held[name] for cut in cuts)
            peers = {c: round(value, 3) for c, value in controls.items()}
            made.append(at_least(f"later.{key}.{what}", mine, "share", round(best, 3), **peers))
    for target in ("by_kind", "together"):
        every, by_text, by_cut = foresight(cuts, target)
        shown = {"within a text": round(by_text, 2), "within a cut": round(by_cut, 2)}
        made.append(at_least(f"later.score_foresees.{target}", every, "rho", 0.5, **shown))
    money = {name: bill.money for name, bill in tables.bills["report"].items()}
    recorded = money.pop("the recording tool")
    cost = {name: round(value / recorded - 1, 4) for name, value in money.items()}
    made.append(
        at_most("later.money_against_recorded", cost["notes first"], "share", -0.03, **cost)
    )
    return made


def held_page(tables: Tables) -> str:
    lines = [
        "### What was used after the cut, and which texts hold it",
        "",
        (
            "Facts of the removed span that the recorded work used after the compaction, up to the next one, "
            "in the agent's words and calls or the user's words (`bench/compaction_later.py`), and the share "
            "that a text holds. Controls have the size of the text above them; `names by lot`: the same text "
            "with its list of names drawn by lot from the span, as many; `the tool's summary` is filled up "
            "with the last messages. The recorded work ran on the tool's summary, which favours that one. "
            "Sessions are split by a hash of the file's name."
        ),
    ]
    for name, about in HALVES.items():
        lines += _half(tables.cuts[name], tables.bills[name], about)
    return "\n".join([*lines, ""])


def _half(cuts: list[RealCut], money: dict[str, Bill], about: str) -> list[str]:
    count = sum(len(facts) for cut in cuts for facts in cut.facts.values())
    lines = [
        "",
        f"#### {len(cuts)} compactions, {count:,} facts; {about}",
        "",
        "| text | tokens | mean of kinds | all together | " + " | ".join(KINDS) + " |",
        "|---|---|---|---|" + "---|" * len(KINDS),
    ]
    for name in OURS:
        for view in (name, *(f"{name}: {control}" for control in CONTROLS)):
            rows = [cut.held[view] for cut in cuts]
            shares = " | ".join(
                f"{together([Held({k: r.of[k]}) for r in rows]):.2f}" for k in KINDS
            )
            seen = [tokens.of_text(c.views.get(view, c.views[name])) for c in cuts]
            label = f"**{name}**" if view == name else f"– {view.partition(': ')[2]}"
            sums = f"{by_kind(rows):.3f} | {together(rows):.3f}"
            lines.append(f"| {label} | {statistics.mean(seen):,.0f} | {sums} | {shares} |")
    lines += [
        "",
        (
            "Rank correlation of Lamina's fidelity score, which does not know what comes, with the share "
            "held, over the twelve texts above (not those by lot):"
        ),
        "",
        "| share held | all texts of all cuts | mean within a text | mean within a cut |",
        "|---|---|---|---|",
    ]
    for target, label in (("by_kind", "mean of kinds"), ("together", "all together")):
        cells = " | ".join(f"{value:.2f}" for value in foresight(cuts, target))
        lines.append(f"| {label} | {cells} |")
    return [*lines, "", *_money(money)]


def _money(money: dict[str, Bill]) -> list[str]:
    recorded = money["the recording tool"].money
    lines = [
        (
            "Whole histories of these sessions, replayed; calls of ours as replay charges them, the "
            "recording tool's summaries with one call that reads the view from the cache and writes "
            "2,000 tokens:"
        ),
        "",
        "| setting | bill | against the tool | summaries' calls | compactions | re-reads | tokens sent |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, bill in money.items():
        lines.append(
            f"| {name} | ${bill.money:.2f} | {bill.money / recorded - 1:+.1%} | ${bill.calls:.2f} | "
            f"{bill.compactions} | {bill.rereads} | {bill.context / 1e6:.1f} M |"
        )
    return lines
