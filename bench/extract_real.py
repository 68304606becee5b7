"""What the local extractor takes from real talk, and what people judged of it.

Real sessions and chats are read from the shared data, never stored here: a verdict names its memory by
file and hash, a durable statement by file, message and place. `python -m bench.extract_real` prints
what is kept of the half for checking, with references and verdicts; with `--gate` how much of it is
saved, as extraction saves it (some minutes).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from lamina.local.extractor import extract
from lamina.memories import Proposal, Verdict
from lamina.memory import in_their_words
from lamina.memory.gate import GateContext, days_named, decide
from lamina.text.own_words import typed_sentences

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("LAMINA_DATA") or ROOT.parent / "shared" / "data")
VERDICTS = ROOT / "bench" / "data" / "extract_verdicts.jsonl"
LABELS = ROOT / "bench" / "data" / "extract_session_labels.jsonl"
STATEMENTS = ROOT / "bench" / "data" / "extract_statements.jsonl"
READERS = ROOT / "bench" / "data" / "extract_readers.jsonl"
NOW = datetime(2026, 1, 1, tzinfo=UTC)

Talk = list[dict[str, Any]]


def sessions(folder: str = "claude-code-sessions") -> Iterator[tuple[str, Talk]]:
    """Coding sessions: file name and messages. What programs put into the user's mouth is no typed word."""
    for file in sorted((DATA / folder).glob("*.jsonl")):
        messages: Talk = []
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            content = (entry.get("message") or {}).get("content")
            if entry.get("type") not in {"user", "assistant"} or entry.get("isSidechain") or content is None:  # fmt: skip
                continue
            own = not (entry.get("isMeta") or entry.get("isCompactSummary"))
            origin = "typed" if own else "system"
            messages.append({"role": entry["type"], "content": content, "origin": origin, "time": entry.get("timestamp"), "uuid": entry.get("uuid")})  # fmt: skip
        yield file.name, messages


def half(name: str) -> str:
    """`dev` may be learned from; `check` is for checking alone."""
    return "check" if hashlib.sha256(name.encode()).digest()[0] % 2 else "dev"


def _turn(role: str, text: str, at: datetime) -> dict[str, Any]:
    origin = "typed" if role == "user" else "assistant"
    return {"role": role, "content": text, "origin": origin, "time": at.isoformat()}


def service_calls() -> Iterator[Talk]:
    for run in json.loads((DATA / "tau-bench/gpt-4o-airline.json").read_text()):
        said = [m for m in run["traj"] if m["role"] in {"user", "assistant"}]
        yield [_turn(m["role"], m["content"] or "", NOW) for m in said]


def assistant_chats() -> Iterator[tuple[str, Talk]]:
    """LongMemEval: evidence sessions, each once, and twenty whole items."""
    seen: set[str] = set()
    for item in json.loads((DATA / "longmemeval/longmemeval_evidence500.json").read_text()):
        for session in item["evidence_sessions"]:
            at = datetime.strptime(session["date"][:10], "%Y/%m/%d").replace(tzinfo=UTC)
            name = hashlib.sha256(json.dumps(session).encode()).hexdigest()[:10]
            if name not in seen:
                seen.add(name)
                yield f"lme-{name}", [_turn(t["role"], t["content"], at) for t in session["turns"]]
    for part in ("oracle", "abstain"):
        items = json.loads((DATA / f"longmemeval/longmemeval_{part}_sample.json").read_text())
        for number, item in enumerate(items["data"]):
            turns = [_turn(t["role"], t["content"], NOW) for t in item["conversation"]]
            yield f"lme-{part}-{number}", turns


def talk() -> Iterator[tuple[str, str, Talk]]:
    """All real talk: its kind, its name, the messages."""
    for folder in ("claude-code-sessions", "claude-code-sessions-2"):
        yield from (("coding", name, messages) for name, messages in sessions(folder))
    for file in sorted((DATA / "beam-100k").glob("*.json")):
        parts: dict[str, Talk] = {}
        for turn in json.loads(file.read_text())["turns"]:
            at = _day(turn["date"])
            parts.setdefault(turn["session"], []).append(_turn(turn["role"], turn["text"], at))
        yield from (("BEAM", f"beam-{file.name}", messages) for messages in parts.values())
    yield from (("LongMemEval", name, messages) for name, messages in assistant_chats())
    yield from _talk_of_friends()


def _day(text: str | None) -> datetime:
    try:
        return datetime.strptime(text or "", "%B %d %Y").replace(tzinfo=UTC)
    except ValueError:
        return NOW


def _talk_of_friends() -> Iterator[tuple[str, str, Talk]]:
    """LoCoMo, once with each of the two in the user's place."""
    for number, item in enumerate(json.loads((DATA / "locomo/locomo10.json").read_text())):
        said = item["conversation"]
        for user in (said["speaker_a"], said["speaker_b"]):
            for key in [key for key in said if isinstance(said[key], list)]:
                at = datetime.strptime(said[f"{key}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)  # fmt: skip
                yield "LoCoMo", f"locomo-{number}-{key}", [_turn("user" if t["speaker"] == user else "assistant", t["text"], at) for t in said[key]]  # fmt: skip


# --- what readers said ---


@dataclass(slots=True)
class Checked:
    """What the half for checking yields, by kind of talk and "all"."""

    kept: Counter[str]
    verdicts: dict[str, Counter[str]]
    found: Counter[str]
    statements: Counter[str]


def reference(name: str, proposal: Proposal) -> str:
    """Names a memory by what it is and rests on, without saying it."""
    quotes = "\n".join(evidence.quote for evidence in proposal.evidence)
    mark = hashlib.sha256(f"{proposal.type}\n{quotes}".encode()).hexdigest()[:12]
    return f"{name}:{mark}"


def mark(sentence: str) -> str:
    return hashlib.sha256(" ".join(sentence.split()).encode()).hexdigest()[:12]


def kept(wanted: str) -> Iterator[tuple[str, str, Talk, Proposal]]:
    for kind, name, messages in talk():
        if half(name) == wanted:
            for proposal in extract(messages, now=NOW):
                yield kind, name, messages, proposal


def verdicts() -> dict[str, str]:
    lines = VERDICTS.read_text(encoding="utf-8").splitlines()
    return {one["memory"]: one["verdict"] for one in map(json.loads, lines)}


def checked() -> Checked:
    """Verdicts on the memories that readers saw, and how many of the statements that they marked as
    durable are quoted."""
    known = verdicts()
    done = Checked(Counter(), {}, Counter(), Counter())
    lines = STATEMENTS.read_text(encoding="utf-8").splitlines()
    statements = {one["statement"]: one["kind"] for one in map(json.loads, lines) if one["half"] == "check"}  # fmt: skip
    seen: set[str] = set()
    quotes: dict[str, set[str]] = {}
    for kind, name, _, proposal in kept("check"):
        ref = reference(name, proposal)
        if ref in seen:
            continue
        seen.add(ref)
        quotes.setdefault(kind, set()).update(" ".join(e.quote.split()) for e in proposal.evidence)
        for key in (kind, "all"):
            done.kept[key] += 1
            if ref in known:
                done.verdicts.setdefault(key, Counter())[known[ref]] += 1
    for text, kind in _typed(statements):
        hit = holds(quotes.get(kind, ()), text)
        for key in (kind, "all"):
            done.statements[key] += 1
            done.found[key] += hit
    return done


SHORT = 15  # characters of a quote that says nothing alone


def _typed(statements: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The marked statements, as they were typed."""
    left = dict(statements)
    for kind, name, messages in talk():
        if half(name) != "check":
            continue
        for sentence in typed_sentences(messages, NOW):
            if left.get(mark(sentence.text)) == kind:
                yield " ".join(sentence.text.split()), left.pop(mark(sentence.text))


# --- as extraction saves it ---


@dataclass(frozen=True, slots=True)
class Saved:
    """What was proposed of one talk, and what the gate takes of it, in the user's own words."""

    kind: str
    name: str
    messages: Talk
    memories: list[tuple[Proposal, Proposal | None]]

    def quotes(self, *, taken: bool) -> list[str]:
        found = [one for one, kept in self.memories if kept or not taken]
        return [" ".join(e.quote.split()) for one in found for e in one.evidence]


def saved(wanted: str) -> Iterator[Saved]:
    """Every talk of a half, each message with its whole session before and after it."""
    for kind, name, talked in talk():
        if half(name) == wanted:
            messages = [{**one, "uuid": str(place)} for place, one in enumerate(talked)]
            gate = _gate_for(messages)
            store: Any = Judging(gate)
            proposed = extract(messages, now=NOW, session="s")
            worded = [(one, in_their_words(store, one)) for one in proposed]
            memories = [(one, kept if decide(kept, gate).speaks else None) for one, kept in worded]
            yield Saved(kind, name, messages, memories)


class Judging(NamedTuple):
    """A store that judges, and does nothing else."""

    gate: GateContext

    def judge_among(self, proposal: Proposal, _memories: object, _vouched: str) -> Verdict:
        return decide(proposal, self.gate)


def _gate_for(messages: Talk) -> GateContext:
    said = [_blocks(one) for one in messages]
    times = [one.get("time") or NOW.isoformat() for one in messages]
    return GateContext(
        origin_text=lambda _, entry: said[int(entry)],
        before=lambda _, entry: [block for one in said[: int(entry)] for block in one],
        whole=lambda _: [block for one in said for block in one],
        dates=partial(days_named, lambda _, entry: times[int(entry)].replace("Z", "+00:00")),
    )


def _blocks(message: dict[str, Any]) -> list[Any]:
    content, origin = message["content"], message["origin"]
    if isinstance(content, str):
        return [(origin, content)]
    return [
        (
            origin if block.get("type", "text") == "text" else "tool",
            str(block.get("text") or block.get("content") or ""),
        )
        for block in content
    ]


def through_gate(talks: Iterable[Saved]) -> dict[str, Counter[str]]:
    """How many of the statements that readers marked as durable are proposed, saved, or stand in what is
    saved; and the readers' verdicts on what is saved."""
    read = [json.loads(line) for line in READERS.read_text(encoding="utf-8").splitlines()]
    one = [json.loads(line) for line in STATEMENTS.read_text(encoding="utf-8").splitlines()]
    pairs = {"A and B": "AB", "N and O": "NO", "P and Q": "PQ", "W and X": "WX"}
    left = {
        **{
            name: {
                row["statement"]: row["kind"] for row in read if {*pair} & {*row.get("readers", "")}
            }
            for name, pair in pairs.items()
        },
        "one reader": {row["statement"]: row["kind"] for row in one if row["half"] == "check"},
    }
    said = {row["memory"]: row for row in read if "memory" in row}
    found: dict[str, Counter[str]] = {name: Counter() for name in (*left, "memories")}
    for at in talks:
        for proposal, kept in at.memories:
            found["memories"].update(["proposed", *(["saved"] if kept else ())])
            verdict = said.pop(reference(at.name, proposal), {}) if kept else {}
            found["memories"].update(v for name, v in verdict.items() if name != "memory")
        bodies = [" ".join(kept.body.split()) for _, kept in at.memories if kept]
        for sentence in typed_sentences(at.messages, NOW):
            text, name = " ".join(sentence.text.split()), mark(sentence.text)
            for readers, wanted in left.items():
                if wanted.get(name) == at.kind:
                    del wanted[name]
                    proposed, taken = (holds(at.quotes(taken=one), text) for one in (False, True))
                    stands = taken or any(text.rstrip(".!,; ") in body for body in bodies)
                    hits = {"proposed": proposed, "found": taken, "in a saved body": stands}
                    hits |= {"marked": True, f"{at.kind} found": taken, f"{at.kind} marked": True}
                    found[readers].update(key for key, hit in hits.items() if hit)
    return found


def holds(quotes: Iterable[str], text: str) -> bool:
    return any(quote in text or text in quote for quote in quotes if len(quote) > SHORT)


def main() -> None:
    if "--gate" in sys.argv[1:]:
        for name, counts in through_gate(saved("check")).items():
            print(name, dict(sorted(counts.items())))
        return
    known = verdicts()
    for _, name, _, proposal in kept("check"):
        quotes = " | ".join(evidence.quote for evidence in proposal.evidence)
        ref = reference(name, proposal)
        print(f"{ref}\t{known.get(ref, '?')}\t{proposal.type}\t{' '.join(quotes.split())[:240]}")


if __name__ == "__main__":
    main()
