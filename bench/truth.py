"""Truth check: what the cache on paper predicts for real Claude Code sessions against the usage that
the provider reported. Prints a table, writes `bench/out/truth.json` and `bench/results/truth.md`.

Two predictions. *From bytes*: the size of the system prompt follows from the first request's usage,
every other block from its bytes on scales fitted to the session. *Anchored* (what `lamina replay`
uses): blocks are stretched so that each prompt has its recorded size; only the split into read and
written is predicted. The first request of a conversation is left out of both: what others had put
into the cache is not in the file.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lamina.cache.spend import cost, price_of
from lamina.messages import Usage
from lamina.replay.readers import read_recording
from lamina.replay.recording import Recording
from lamina.replay.run import DEFAULT_MODEL, NonePolicy, replay
from lamina.replay.weigh import Weigher

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("LAMINA_DATA") or ROOT.parent / "shared" / "data")
SESSIONS = DATA / "claude-code-sessions"
OUTLIER = 0.03
GOAL = 3.0


@dataclass(frozen=True)
class Checked:
    """One request: predicted and recorded."""

    file: str
    number: int
    predicted: int
    read: int
    prompt: int
    grown: int  # recorded prompt less the one before
    gap: float
    ttl: float
    expected: int  # predicted prompt
    compacted: bool
    uncached_before: int  # what the request before reported behind its last breakpoint
    two_before: int  # prompt of the request before that one
    switched: bool  # thinking appears or disappears with this answer

    @property
    def error(self) -> float:
        return abs(self.predicted - self.read) / self.prompt


def thinks(recording: Recording, index: int) -> bool:
    blocks = recording.messages[index].message["content"]
    return any(block.get("type") == "thinking" for block in blocks)


def check(path: Path, recording: Recording, *, anchored: bool) -> list[Checked]:
    figures = replay(
        recording, NonePolicy(), weigher=Weigher(recording, anchored=anchored)
    ).requests
    checked: list[Checked] = []
    last: dict[str, int] = {}
    older: dict[str, int] = {}
    for step in recording.steps():
        request, usage = step.request, step.request.usage
        before = last.get(request.thread)
        last[request.thread] = step.number
        if usage is None or not usage.prompt or before is None:
            continue
        earlier = recording.requests[before]
        was = earlier.usage.prompt if earlier.usage else 0
        checked.append(
            Checked(
                path.stem,
                step.number,
                figures[step.number].usage.cache_read,
                usage.cache_read,
                usage.prompt,
                usage.prompt - was,
                request.time - earlier.time,
                request.ttl,
                figures[step.number].context,
                step.compacted,
                earlier.usage.input if earlier.usage else 0,
                older.get(request.thread, 0),
                thinks(recording, earlier.answer) != thinks(recording, request.answer),
            )
        )
        older[request.thread] = was
    return checked


def cause(case: Checked) -> str:
    """Why a request was predicted badly, as far as the recorded figures show it."""
    short = case.predicted - case.read
    near = 0.002 * case.prompt + 20
    anew = short > 0 and case.read < 0.6 * case.prompt
    reasons = (
        (
            abs(case.expected - case.prompt) > OUTLIER * case.prompt,
            "the prompt lost content that the file doesn't show; its size was predicted wrongly",
        ),
        (
            case.predicted == 0 and case.gap < case.ttl + 15,
            "the provider kept the cache up to 8 s longer than promised",
        ),
        (
            case.predicted == 0,
            "after a long pause the system prompt was still cached, presumably for other sessions",
        ),
        (
            case.compacted,
            "after a compaction more of the system prompt was read than ever before",
        ),
        (
            abs(short - case.uncached_before) < near,
            "the request before had left exactly so much behind its last breakpoint",
        ),
        (
            abs(case.read - case.two_before) < near,
            "it read what the request before the last had written, not the last one's",
        ),
        (
            anew and case.grown > 0,
            "all behind the system prompt was written anew though the file shows only growth",
        ),
        (anew, "all behind the system prompt was written anew, and the prompt shrank: rebuilt"),
    )
    return next((words for holds, words in reasons if holds), "not explained")


def baseline(recordings: Sequence[Recording], life: float) -> list[float]:
    """A predictor that knows only the recorded totals, and one life for all."""
    errors: list[float] = []
    for recording in recordings:
        last: dict[str, tuple[int, float]] = {}
        for request in recording.requests:
            if request.usage is None or not request.usage.prompt:
                continue
            total, before = request.usage.prompt, last.get(request.thread)
            last[request.thread] = (total, request.time)
            if before is not None:
                alive = request.time - before[1] <= life
                guess = min(before[0], total) if alive else 0
                errors.append(abs(guess - request.usage.cache_read) / total)
    return errors


def spread(errors: Sequence[float]) -> list[float]:
    """Median, mean, 90th and 99th percentile, and the share over 3%, in percent."""
    ordered = sorted(errors)
    return [
        100 * statistics.median(ordered),
        100 * statistics.mean(ordered),
        100 * ordered[int(0.9 * len(ordered))],
        100 * ordered[int(0.99 * len(ordered))],
        100 * sum(error > OUTLIER for error in ordered) / len(ordered),
    ]


def per_session(cases: Sequence[Checked]) -> float:
    """Median over the sessions of the error in their whole sum of reads."""
    names = {case.file for case in cases}
    errors: list[float] = []
    for name in names:
        own = [case for case in cases if case.file == name]
        off = abs(sum(c.predicted for c in own) - sum(c.read for c in own))
        errors.append(100 * off / sum(c.prompt for c in own))
    return statistics.median(errors)


def dollars(recordings: Sequence[Recording]) -> tuple[float, float, float]:
    """What the provider's own counts cost for input and what the simulator says, over all sessions;
    and the median error of a session, in percent."""
    told = simulated = 0.0
    errors: list[float] = []
    for recording in recordings:
        result = replay(recording, NonePolicy())
        pairs = list(zip(recording.requests, result.requests, strict=True))
        known = [(r, f) for r, f in pairs if r.usage is not None and r.usage.prompt]
        own = sum(_input_cost(r.usage, r.model) for r, _ in known if r.usage is not None)
        ours = sum(_input_cost(f.usage, r.model) for r, f in known)
        told, simulated = told + own, simulated + ours
        errors += [100 * abs(ours / own - 1)] if own else []
    return told, simulated, statistics.median(errors)


def _input_cost(usage: Usage, model: str) -> float:
    return cost(replace(usage, output=0), price_of(model or DEFAULT_MODEL))


def main() -> int:
    if not SESSIONS.is_dir():
        print("truth: skipped, the recorded sessions are not on this machine (LAMINA_DATA)")
        return 0
    paths = sorted(SESSIONS.glob("*.jsonl"))
    recordings = [read_recording(path) for path in paths]
    runs: list[float] = []
    anchored: list[Checked] = []
    for _ in range(5):
        started = time.perf_counter()
        anchored = [
            case
            for path, recording in zip(paths, recordings, strict=True)
            for case in check(path, recording, anchored=True)
        ]
        runs.append(time.perf_counter() - started)
    by_bytes = [
        case
        for path, recording in zip(paths, recordings, strict=True)
        for case in check(path, recording, anchored=False)
    ]
    table = {
        "anchored to recorded totals": spread([case.error for case in anchored]),
        "from bytes alone": spread([case.error for case in by_bytes]),
        "baseline: last total, 1 h": spread(baseline(recordings, 3600)),
        "baseline: last total, 5 min": spread(baseline(recordings, 300)),
    }
    causes = Counter(cause(case) for case in anchored if case.error > OUTLIER)
    text = report(table, causes, anchored, by_bytes, len(paths), statistics.median(runs))
    told, simulated, off = dollars(recordings)
    text += (
        f"\n## In dollars\n\nInput at list prices, first requests included: ${told:,.2f} by the "
        f"provider's counts, ${simulated:,.2f} by the simulator ({simulated / told - 1:+.2%}); a "
        f"session is off by {off:.2f}% on the median.\n"
    )
    print(text)
    (ROOT / "bench" / "results").mkdir(exist_ok=True)
    (ROOT / "bench" / "results" / "truth.md").write_text(text, "utf-8")
    write_figures(table, anchored, by_bytes, (100 * abs(simulated / told - 1), off))
    return 0


def report(
    table: dict[str, list[float]],
    causes: Counter[str],
    anchored: Sequence[Checked],
    by_bytes: Sequence[Checked],
    files: int,
    seconds: float,
) -> str:
    found = (
        f"{files} recorded Claude Code sessions, {len(anchored)} requests (the first of each "
        "conversation is left out: what others had put into the cache is not in the file). "
        "Error: predicted less recorded cache reads, as a share of the request's input tokens. "
        f"Replay of all sessions under policy `none`: {seconds:.2f} s."
    )
    lines = [
        "# Truth check: predicted cache reads against the provider's own figures",
        "",
        found,
        "",
        "| prediction | median | mean | p90 | p99 | requests off by more than 3% |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, values in table.items():
        cells = " | ".join(f"{value:.3f}%" for value in values)
        lines.append(f"| {name} | {cells} |")
    sums = (
        "Error of a session's whole sum of reads, median over the sessions: "
        f"{per_session(anchored):.2f}% anchored, {per_session(by_bytes):.2f}% from bytes alone."
    )
    meaning = (
        "*Anchored* is what `lamina replay` uses: blocks are stretched so that each prompt has its "
        "recorded size, and the rules (breakpoints, look-back, life by the recorded kind of write) "
        "predict what of it is read. Its median says little, as whoever knows the totals gets it; "
        "the mean and the tail show what the rules add. *From bytes alone* gets only the first request's usage and "
        "bytes per token fitted to the session; its errors are those of sizes that add up. The "
        "size of the system prompt is what the first request read or, if it read nothing, the "
        "least that a later request read after a break."
    )
    lines += [
        "",
        sums,
        "",
        meaning,
        "",
        f"## Outliers of the anchored prediction ({sum(causes.values())} over 3%)",
        "",
        "| requests | why |",
        "|---:|---|",
    ]
    lines += [f"| {count} | {why} |" for why, count in causes.most_common()]
    switched = [c for c in anchored if c.error > OUTLIER and "only growth" in cause(c)]
    hint = (
        f"Of the {len(switched)} that were written anew for no reason in the file, "
        f"{sum(c.switched for c in switched)} are requests with which thinking appears in the "
        "answers or disappears; a changed tool list, reminder or thinking setting would do this, "
        "but none of them is recorded."
    )
    lines += ["", hint]
    lines += ["", "The ten worst:", ""]
    lines += ["| session | request | predicted | recorded | prompt | seconds since the last |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for case in sorted(anchored, key=lambda case: -case.error)[:10]:
        lines.append(
            f"| {case.file} | {case.number} | {case.predicted:,} | {case.read:,} "
            f"| {case.prompt:,} | {case.gap:.0f} |"
        )
    return "\n".join(lines) + "\n"


def write_figures(
    table: dict[str, list[float]],
    anchored: Sequence[Checked],
    by_bytes: Sequence[Checked],
    money: tuple[float, float],
) -> None:
    peers = {name: round(values[0], 4) for name, values in table.items() if "baseline" in name}
    means = {name: round(values[1], 4) for name, values in table.items() if "baseline" in name}

    def figure(name: str, value: float, goal: float, others: dict[str, float]) -> dict[str, object]:
        held = {"goal": f"< {goal}", "holds": value < goal, "peers": others}
        return {"id": name, "value": round(value, 4), "unit": "% of input tokens", **held}

    figures = [
        figure("median_error", table["anchored to recorded totals"][0], GOAL, peers),
        figure("mean_error", table["anchored to recorded totals"][1], GOAL, means),
        figure("median_error_from_bytes", table["from bytes alone"][0], GOAL, peers),
        figure("session_sum_error", per_session(anchored), GOAL, {}),
        figure("session_sum_error_from_bytes", per_session(by_bytes), GOAL, {}),
        {**figure("dollars_error", money[0], GOAL, {}), "unit": "% of the bill for input"},
        {**figure("session_dollars_error", money[1], GOAL, {}), "unit": "% of the bill for input"},
    ]
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    out = ROOT / "bench" / "out"
    out.mkdir(exist_ok=True)
    value = {"name": "truth", "commit": commit, "figures": figures}
    (out / "truth.json").write_text(json.dumps(value, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
