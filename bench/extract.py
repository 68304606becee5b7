"""Extraction and dream without a model: what is found and what is not in the labelled set, what real
sessions yield, and what a dream does to a store with planted faults.

The labelled sets are `bench/data/extraction_{dev,test}.jsonl`, by the author of the rules, and
`extract_blind_{a..g}.jsonl`, by strangers to them; dev, a and c are learned from, the others never.
Real sessions and chats are read from the shared data and skipped where it is absent.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench import dream_store, extract_real, writers  # noqa: E402 - run as a file or as a module

from lamina.local.consolidator import consolidate  # noqa: E402
from lamina.local.extractor import extract  # noqa: E402
from lamina.memories import Proposal  # noqa: E402
from lamina.memory import in_their_words  # noqa: E402
from lamina.memory.gate import GateContext, decide  # noqa: E402
from lamina.memory.index import pointers_of  # noqa: E402

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNS = 5
# Rules and judge learn from dev, a and c; nobody who works on them reads b, d or e.
HALVES = {
    "blind_g": "extract_blind_g.jsonl",
    "blind_e": "extract_blind_e.jsonl",
    "blind_d": "extract_blind_d.jsonl",
    "blind_b": "extract_blind_b.jsonl",
    "blind_f": "extract_blind_f.jsonl",
    "blind_c": "extract_blind_c.jsonl",
    "blind_a": "extract_blind_a.jsonl",
    "test": "extraction_test.jsonl",
    "dev": "extraction_dev.jsonl",
}
UNREAD = {"blind_g", "blind_e", "blind_d", "blind_b", "blind_f"}
# Traps whose words came from a tool, a file, a hook, another agent, a paste or an old memory.
FOREIGN = {"readme_order", "tool_order", "pasted_order", "recalled", "hook", "teammate", "quoted"}


def figure(id: str, value: float, unit: str = "", goal: str = "", *, holds: bool = True) -> dict[str, Any]:  # noqa: A002  # fmt: skip
    return {"id": id, "value": value, "unit": unit, "goal": goal, "holds": holds, "peers": {}}


# --- the labelled set ---


def matches(proposal: Proposal, wanted: dict[str, Any]) -> bool:
    """Right type, all key words, all dates as absolute dates in the body."""
    text = f"{proposal.name} {proposal.description} {proposal.body}".casefold()
    return (
        proposal.type in {wanted["type"], *wanted.get("or_type", ())}
        and all(word.casefold() in text for word in wanted["must_contain"])
        and all(day in proposal.body for day in wanted["absolute_dates"])
    )


def score(half: str) -> dict[str, Any]:
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    traps: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    foreign = accepted = proposed = 0
    for line in (ROOT / "bench" / "data" / HALVES[half]).read_text().splitlines():
        exchange = json.loads(line)
        keys = ("all", exchange["category"], exchange["lang"])
        messages = [{**m, "uuid": str(i)} for i, m in enumerate(exchange["messages"])]
        left = extract(messages, now=NOW, session="s")
        accepted += sum(saved(p, gate_for(messages)) for p in left)
        proposed += len(left)
        if exchange["trap"]:
            traps[exchange["trap"]][0] += 1
            traps[exchange["trap"]][1] += bool(left)
            if exchange["trap"] in FOREIGN:
                foreign += sum(p.type in {"user", "feedback"} for p in left)
        for expected in exchange["expect"]:
            wanted.update(keys)
            hit = next((p for p in left if matches(p, expected)), None)
            if hit:
                left.remove(hit)
                right.update(keys)
        extra = [p for p in left if not any(matches(p, also) for also in exchange.get("also", ()))]
        for _ in extra:
            wrong.update(keys)
    return {"right": right, "wrong": wrong, "wanted": wanted, "traps": dict(traps), "foreign": foreign, "accepted": accepted, "proposed": proposed}  # fmt: skip


def saved(proposal: Proposal, gate: GateContext) -> bool:
    """Does the gate take it as extraction hands it over: in the user's own words?"""
    store: Any = extract_real.Judging(gate)
    return decide(in_their_words(store, proposal), gate).speaks


def gate_for(messages: list[dict[str, Any]]) -> GateContext:
    def blocks(message: dict[str, Any]) -> list[Any]:
        content = message["content"]
        if isinstance(content, str):
            return [(message["origin"], content)]
        return [(message["origin"], str(b.get("text") or b.get("content") or "")) for b in content]

    return GateContext(
        origin_text=lambda _, entry: blocks(messages[int(entry)]),
        before=lambda _, entry: [b for m in messages[: int(entry)] for b in blocks(m)],
    )


def table(found: dict[str, Any]) -> list[str]:
    rows = ["| | wanted | found | wrong | precision | recall |", "|---|---|---|---|---|---|"]
    for key in sorted(found["wanted"] | found["wrong"], key=lambda k: (k != "all", len(k) == 2, k)):
        right, wrong, wanted = found["right"][key], found["wrong"][key], found["wanted"][key]
        precision = f"{right / (right + wrong):.2f}" if right + wrong else "–"
        recall = f"{right / wanted:.2f}" if wanted else "–"
        rows.append(f"| {key} | {wanted} | {right} | {wrong} | {precision} | {recall} |")
    return rows


# --- writers whom the judge never saw ---


def unseen_writers(figures: list[dict[str, Any]]) -> list[str]:
    """Most wrote pairs of a memory and something that looks just like it."""
    done = writers.score(writers.unseen())
    figures += [
        figure("unseen_writers_precision", round(done.precision, 3)),
        figure("unseen_writers_recall", round(done.recall, 3)),
    ]
    return ["## Nine writers whom the judge never saw", "", f"They were asked for near misses, so more than half of their 7,100 messages look like memories and are none. {done}. Learning from them as well did not help: recall rose by one to three points on the strangers' sets, precision on d fell from 0.914 to 0.864–0.902, and plain rules (“don't mock the database in integration tests”) were doubted. What the judge looks at, not how much it has read, is now the limit.", ""]  # fmt: skip


# --- real sessions and chats ---


def real_talk(figures: list[dict[str, Any]]) -> list[str]:
    """What is kept of real talk, and what a reader said of it."""
    done = extract_real.checked()
    known = done.verdicts.get("all", Counter())
    judged = max(1, sum(known.values()))
    found, wanted = done.found["all"], max(1, done.statements["all"])
    figures += [
        figure("real_junk_share", round(known["junk"] / judged, 3), f"of {judged}", "≤0.10", holds=known["junk"] <= 0.1 * judged),
        figure("real_useful_share", round(known["useful"] / judged, 3), f"of {judged}", "≥0.60", holds=known["useful"] >= 0.6 * judged),
        figure("real_statements_found", round(found / wanted, 3), f"of {wanted}", "≥0.50", holds=found >= 0.5 * wanted),
    ]  # fmt: skip
    return [
        "## Real talk", "",
        "The half of the files that nobody looked at while the rules were made (79 coding sessions, BEAM, LongMemEval, LoCoMo; half by hash of the name). Method and limits: `extract_handcheck.md`.", "",
        "| | kept | judged | useful | harmless | junk | durable statements | found |", "|---|---|---|---|---|---|---|---|",
        *(
            f"| {kind} | {done.kept[kind]} | {sum(said.values())} | {said['useful']} | {said['harmless']} | {said['junk']} | {done.statements[kind]} | {done.found[kind]} |"
            for kind in ("coding", "BEAM", "LongMemEval", "LoCoMo", "all")
            for said in [done.verdicts.get(kind, Counter())]
        ), "",
    ]  # fmt: skip


# --- the dream ---


def dream() -> dict[str, float]:
    store = dream_store.make()
    times: list[float] = []
    for _ in range(RUNS):
        started = time.perf_counter()
        plan = consolidate(store.memories, index=store.index, now=NOW)
        times.append(time.perf_counter() - started)
    merged = {frozenset((merge.into, path)) for merge in plan.merges for path in merge.absorbed}
    pairs = {frozenset(pair) for pair in store.duplicates}
    old = {first: form for first, _, form in store.contradictions}
    text = "\n".join(f"{m.name}\n{m.description}\n{m.body}" for m in plan.memories)
    bodies = {memory.path: memory.body for memory in plan.memories}
    first_lines = {m.path: m.body.partition("\n")[0] for m in store.memories}
    resolved = sum(first_lines[path] not in bodies.get(path, "") for path in old)
    clashes = [doubt for doubt in plan.doubtful if "contradict" in doubt.reason]
    reported = sum(any(path in doubt.paths for doubt in clashes) for path in old)
    pointers = [pointer.file for pointer in pointers_of(plan.index.encode())]
    second = consolidate(plan.memories, index=plan.index, now=NOW)
    return {
        "memories": len(store.memories),
        "duplicates merged": len(merged & pairs) / len(pairs),
        "wrong merges": len(merged - pairs),
        "contradictions resolved": resolved,
        "contradictions reported": reported,
        "facts lost": sum(code not in text for code in store.facts),
        "dangling pointers left": sum(file not in bodies for file in pointers),
        "index lines": len(plan.index.splitlines()),
        "index bytes": len(plan.index.encode()),
        "longest line": max(map(len, plan.index.splitlines())),
        "second dream changes": 0 if second.empty else 1,
        "seconds": round(statistics.median(times), 3),
    }


def main() -> int:
    report = ["# Extraction and dream without a model", "", "`make bench-extract`. Nine labelled sets. blind g: by a stranger, run once when everything was final and then for this table; **this is the figure to trust**. blind e: by another; first run with the extractor of the day before 0.908 and 0.749. blind f: by a third, the hardest: first run 0.79 and 0.56, **both below the goal**; then its failures were read, and what was general in them was mended (wishes in other words, rules that only point back, dates, a word taken for a key), so that it is no test any more. Of its 21 wrong ones 14 were of messages that do hold a memory: of another type, or without the sentence that says what it is about. blind d and b: their sentences were never read by the authors of rules and judge, but their totals were looked at while thresholds were chosen (d some fifteen times, b some thirty). blind c and a: by strangers, too, but learned from. test and dev: by the author of the rules; no failure of test was looked up, but he knew its sentences. The bars of the judge and the types of asked-for memories were last chosen with an eye on the totals of b, d, e, f and g, so their mean is no blind figure either.", ""]  # fmt: skip
    figures: list[dict[str, Any]] = []
    strangers: list[tuple[float, float]] = []
    for half in HALVES:
        found = score(half)
        right, wrong, wanted = (found[k]["all"] for k in ("right", "wrong", "wanted"))
        precision, recall = right / max(1, right + wrong), right / wanted
        fell = sum(hits for _, hits in found["traps"].values())
        if half in UNREAD:
            strangers.append((precision, recall))
        goal = half in ("test", "blind_b", "blind_d", "blind_e", "blind_f", "blind_g")
        figures += [
            figure(f"{half}_precision", round(precision, 3), "", "≥0.90" if goal else "", holds=precision >= 0.9),
            figure(f"{half}_recall", round(recall, 3), "", "≥0.60" if goal else "", holds=recall >= 0.6),
            figure(f"{half}_traps_fallen_into", fell, "of " + str(sum(n for n, _ in found["traps"].values())), holds=True),
            figure(f"{half}_foreign_into_user_or_feedback", found["foreign"], "", "0", holds=found["foreign"] == 0),
            figure(f"{half}_accepted_by_gate", round(found["accepted"] / max(1, found["proposed"]), 3), "", holds=True),
        ]  # fmt: skip
        report += [f"## Labelled set {half}", "", *table(found), ""]
        fallen = {name: hits for name, (_, hits) in found["traps"].items() if hits}
        report += [f"Traps that gave a memory: {fallen or 'none'}. The gate accepts {found['accepted']} of {found['proposed']} proposals, worded as extraction saves them.", ""]  # fmt: skip
    means = [statistics.mean(column) for column in zip(*strangers, strict=True)]
    figures += [
        figure("strangers_mean_precision", round(means[0], 3), "", "≥0.905", holds=means[0] >= 0.905),
        figure("strangers_mean_recall", round(means[1], 3), "", "≥0.68", holds=means[1] >= 0.68),
    ]  # fmt: skip
    report += unseen_writers(figures)
    if extract_real.DATA.is_dir():
        report += real_talk(figures)
    else:
        report += ["## Real sessions", "", "Skipped: no shared data (set LAMINA_DATA).", ""]
    result = dream()
    goals = {"duplicates merged": ("≥0.95", result["duplicates merged"] >= 0.95), "facts lost": ("0", not result["facts lost"]), "dangling pointers left": ("0", not result["dangling pointers left"]), "second dream changes": ("0", not result["second dream changes"])}  # fmt: skip
    report += ["## Dream on a store of 500 with 100 duplicates, 50 contradictions, 30 dangling pointers", "", "| | value | goal |", "|---|---|---|"]  # fmt: skip
    for name, value in result.items():
        goal, holds = goals.get(name, ("", True))
        figures.append(figure("dream_" + name.replace(" ", "_"), value, "", goal, holds=holds))
        report.append(f"| {name} | {value} | {goal} |")
    text = "\n".join(report) + "\n"
    print(text)
    (ROOT / "bench" / "results").mkdir(exist_ok=True)
    (ROOT / "bench" / "results" / "extract.md").write_text(text, encoding="utf-8")
    out = ROOT / "bench" / "out" / "extract.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"name": "extract", "commit": commit(), "figures": figures}, indent=2) + "\n")  # fmt: skip
    return 0 if all(item["holds"] for item in figures) else 1


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)  # fmt: skip
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
