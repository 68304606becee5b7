"""Compaction on real sessions: what a summary still knows, what it costs, whether it lasts.

Each recorded session is cut where it really was compacted. Four texts of the same size are asked the
same probes: Lamina's local summary, the summary that the recording tool wrote, the last messages
(LangChain's `trim_messages`, run in a process of its own) and head-and-tail. Then Lamina's whole
compaction runs in a real session, from notes and in full, and twenty more turns follow it.

LangChain: set LAMINA_PEERS_PYTHON to an interpreter that has langchain-core; without it the same
rule is applied by ourselves, and the table says so.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from bench.compaction_cuts import (
    DATA,
    SHORTEST,
    WINDOW,
    Entry,
    feed,
    head_and_tail,
    last_n,
    read,
    words_of,
)
from bench.compaction_held import held_figures, held_page, held_tables
from bench.compaction_probes import KINDS, Probe, probes, score
from bench.figures import ROOT, Figure, at_least, at_most, report

from lamina.layers import compaction, notes
from lamina.ledger import tokens
from lamina.local.session_facts import session_facts
from lamina.local.summariser import nine_parts
from lamina.messages import text_of
from lamina.session import Session

RESULTS = ROOT / "bench" / "results" / "compaction.md"
TURNS = 20
CLEAR_MARGIN = 0.15
GOAL_KINDS = ("files", "commands", "user messages", "numbers")


@dataclass
class Cut:
    """One compaction that really happened."""

    name: str
    span: list[Entry]
    following: list[Entry]
    theirs: str  # "" where the session never compacted
    found: list[Probe]
    views: dict[str, str] = field(default_factory=dict)
    scores: dict[str, dict[str, float]] = field(default_factory=dict)


def cuts() -> list[Cut]:
    found: list[Cut] = []
    for path in sorted((DATA / "claude-code-sessions").glob("*.jsonl")):
        entries = read(path)
        at = [n for n, entry in enumerate(entries) if entry["summary"]]
        start = 0
        for number in at or [len(entries) * 2 // 3]:
            span = entries[start:number]
            theirs = text_of(entries[number]["content"]) if at else ""
            rest = entries[number + 1 :] if at else entries[number:]
            if sum(tokens.of_text(words_of(entry)) for entry in span) >= SHORTEST:
                found.append(Cut(path.stem, span, rest, theirs, probes(span)))
            start = number  # the next span begins with the summary
    return found


# ---- texts of one size


def trimmed(jobs: list[tuple[list[Entry], int]]) -> tuple[list[list[int]], str]:
    """LangChain's choice for each job, by its own code; else ours by the same rule."""
    python = os.environ.get("LAMINA_PEERS_PYTHON", sys.executable)
    body = [
        {"texts": [[e["role"], words_of(e)] for e in span], "tokens": room} for span, room in jobs
    ]
    done = subprocess.run(
        [python, str(Path(__file__).with_name("compaction_peers.py"))],
        input=json.dumps(body),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return json.loads(done.stdout), "LangChain trim_messages"
    print("langchain-core is not there (LAMINA_PEERS_PYTHON); its rule is applied by ourselves.")
    return [last_n([words_of(e) for e in span], room) for span, room in jobs], "last N tokens"


def join(span: list[Entry], kept: list[int]) -> str:
    return "\n".join(words_of(span[n]) for n in kept)


def summaries(real: list[Cut]) -> str:
    """Texts of the size of the tool's own summary, for every real cut."""
    jobs = [(cut.span, tokens.of_text(cut.theirs)) for cut in real]
    kept, peer = trimmed(jobs)
    for cut, chosen, (_, room) in zip(real, kept, jobs, strict=True):
        cut.views = {
            "Lamina local summary": nine_parts(session_facts(cut.span), budget=room),
            "the tool's own summary": cut.theirs,
            peer: join(cut.span, chosen),
            "head and tail": head_and_tail([words_of(e) for e in cut.span], room),
        }
        cut.scores = {name: score(cut.found, view) for name, view in cut.views.items()}
    return peer


# ---- the whole compaction in a real session


@dataclass
class Run:
    source: str
    before: int
    after: int
    seconds: float
    cpu: float  # seconds at work; on a busy machine the time on the clock says little
    calls: int
    again: int
    turns: int
    score: dict[str, float]


async def compacted(cut: Cut, *, by_notes: bool) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        project.mkdir()
        config = {"window.tokens": WINDOW, "memory.enabled": False, "compact.from_notes": by_notes}
        async with Session.open(project, "none", home=Path(folder) / "home", config=config) as s:
            state = s.state
            covered = len(cut.span) - 10 if by_notes else 0
            feed(s, cut.span[:covered])
            if by_notes:
                await notes.update(state)
            feed(s, cut.span[covered:])
            before = s.ledger.tokens()
            calls = len(list(state.deps.spend.calls()))
            times: list[float] = []
            work: list[float] = []
            for _ in range(5):
                if times:
                    s.undo_compact()
                started, at_work = time.perf_counter(), time.process_time()
                done = await s.compact()
                times.append(time.perf_counter() - started)
                work.append(time.process_time() - at_work)
            took, cpu = statistics.median(times), statistics.median(work)
            view = "\n".join(words_of({"content": m["content"]}) for m in s.view().messages)
            shares = score(cut.found, view)
            again, turns = await go_on(s, cut.following)
            calls = len(list(state.deps.spend.calls())) - calls
            after = done.tokens_after
            return Run(done.source, before, after, took, cpu, calls, again, turns, shares)


async def go_on(session: Session, following: list[Entry]) -> tuple[int, int]:
    """Twenty more turns; how often it compacted again, and how many turns there were."""
    folds = len(session.ledger.projection.folds)
    again = turns = 0
    batch: list[Entry] = []
    for entry in following:
        if entry["summary"] or turns >= TURNS:  # there the recording starts again
            break
        batch.append(entry)
        if entry["role"] == "assistant":
            turns += 1
            feed(session, batch)
            batch = []
            await compaction.act(session.state)
            now = len(session.ledger.projection.folds)
            again += now > folds
            folds = now
    return again, turns


# ---- reporting


def mean(rows: list[dict[str, float]], kind: str) -> float:
    values = [row[kind] for row in rows if kind in row]
    return statistics.mean(values) if values else 0.0


def figures(real: list[Cut], peer: str, runs: dict[str, list[Run]]) -> list[Figure]:
    rows = {name: [cut.scores[name] for cut in real] for name in real[0].scores}
    ours, theirs, last = (rows[n] for n in ("Lamina local summary", "the tool's own summary", peer))
    made = [
        at_least(
            "summary.score_over_last_n",
            mean(ours, "all") - mean(last, "all"),
            "share",
            CLEAR_MARGIN,
            **{name: round(mean(r, "all"), 3) for name, r in rows.items()},
        )
    ]
    for kind in GOAL_KINDS:
        made.append(
            at_least(
                f"summary.{kind.replace(' ', '_')}",
                mean(ours, kind),
                "share",
                round(mean(theirs, kind), 3),
                **{n: round(mean(r, kind), 3) for n, r in rows.items() if r is not ours},
            )
        )
    quick = [run.seconds * 1000 for run in runs["notes"] if run.source == "notes"]
    every = [run for several in runs.values() for run in several]
    worst = max(run.after / WINDOW for run in every)
    made += [
        at_most("notes.milliseconds", statistics.median(quick or [9e9]), "ms", 50),
        at_most("notes.cpu_milliseconds_worst", 1000 * max(r.cpu for r in runs["notes"]), "ms", 50),
        Figure("notes.milliseconds_worst", round(max(quick or [9e9]), 1), "ms"),
        at_most("notes.calls", sum(run.calls for run in runs["notes"]), "calls", 0),
        at_least("notes.served", len(quick) / len(runs["notes"]), "share", 0.9),
        at_most(
            "full.milliseconds",
            1000 * statistics.median(r.seconds for r in runs["full"]),
            "ms",
            500,
        ),
        at_most("view.worst_share_of_window", worst, "share", 0.25),
        at_most("view.compacted_again_within_20_turns", sum(r.again for r in every), "times", 0),
        Figure("view.turns_that_followed", sum(r.turns for r in every), "turns"),
    ]
    return made


def page(real: list[Cut], runs: dict[str, list[Run]], all_cuts: list[Cut]) -> str:
    """bench/results/compaction.md: tables by kind and by session."""
    names = list(real[0].scores)
    size = {n: round(statistics.mean(tokens.of_text(c.views[n]) for c in real)) for n in names}
    lines = [
        "### Compaction, by kind of fact",
        "",
        (
            f"{len(real)} compactions that {len({c.name for c in real})} real sessions went through; every "
            "text has at most the tokens of the summary that the recording tool wrote there. Probes by the "
            "rules of `bench/compaction_probes.py`, which are not the product's; `all` is the mean over kinds."
        ),
        "",
        "| text | tokens | all | " + " | ".join(KINDS) + " |",
        "|---|---|---|" + "---|" * len(KINDS),
    ]
    for name in names:
        rows = [cut.scores[name] for cut in real]
        cells = " | ".join(_share(rows, kind) for kind in KINDS)
        lines.append(f"| {name} | {size[name]:,} | {mean(rows, 'all'):.2f} | {cells} |")
    lines += [
        "",
        f"### The whole compaction, in a real session with a window of {WINDOW:,}",
        "",
        (
            f"{len(all_cuts)} cuts: the real ones, and two thirds into sessions that never compacted. "
            "No model is called. `again`: compactions within the turns that follow (at most 20). `ms` is time "
            "on the clock, the median of 5; on a busy machine it is longer than the work itself, whose worst "
            f"case was {1000 * max(run.cpu for run in runs['notes']):.0f} ms from notes."
        ),
        "",
        "| session | tokens before | from notes: after | score | ms | again | in full: after | score | ms | again | turns |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cut, by_notes, full in zip(all_cuts, runs["notes"], runs["full"], strict=True):
        cells = [
            cut.name[:13],
            f"{full.before:,}",
            *_cells(by_notes),
            *_cells(full),
            str(full.turns),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _share(rows: list[dict[str, float]], kind: str) -> str:
    return f"{mean(rows, kind):.2f}" if any(kind in row for row in rows) else "–"


def _cells(run: Run) -> list[str]:
    other = "" if run.source in ("notes", "local") else run.source
    name = "" if run.source == "notes" else f" ({run.source})" if other else ""
    return [
        f"{run.after:,}{name}",
        f"{run.score['all']:.2f}",
        f"{run.seconds * 1000:.0f}",
        str(run.again),
    ]


async def _runs(found: list[Cut]) -> dict[str, list[Run]]:
    return {
        "notes": [await compacted(cut, by_notes=True) for cut in found],
        "full": [await compacted(cut, by_notes=False) for cut in found],
    }


def main() -> int:
    found = cuts()
    if not found:
        print(f"No real sessions at {DATA} (set LAMINA_DATA): nothing was measured.")
        return 0
    real = [cut for cut in found if cut.theirs]
    peer = summaries(real)
    runs = anyio.run(_runs, found)
    tables = held_tables()
    RESULTS.write_text(f"{held_page(tables)}\n{page(real, runs, found)}")
    return report("compaction", [*figures(real, peer, runs), *held_figures(tables)])


if __name__ == "__main__":
    raise SystemExit(main())
