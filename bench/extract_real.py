"""What the local extractor takes from real talk, and what people judged of it.

Real sessions and chats are read from the shared data, never stored here: a verdict or a label names
its message by file, id and hash. `python -m bench.extract_real` prints the memories to judge, with
their references; `junk()` gives what `make bench-extract` reports.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lamina.local.extractor import extract
from lamina.memories import Proposal

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("LAMINA_DATA") or ROOT.parent / "shared" / "data")
VERDICTS = ROOT / "bench" / "data" / "extract_verdicts.jsonl"
LABELS = ROOT / "bench" / "data" / "extract_session_labels.jsonl"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOST = 100  # memories to judge: all of the coding sessions, the rest sampled by hash

Talk = list[dict[str, Any]]


def sessions() -> Iterator[tuple[str, Talk]]:
    """Coding sessions: file name and messages. What programs put into the user's mouth is no typed word."""
    for file in sorted((DATA / "claude-code-sessions").glob("*.jsonl")):
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


def chats() -> Iterator[tuple[str, Talk]]:
    """Talk that is not about code: a harder test of what must not be taken for a rule."""
    yield from assistant_chats()
    yield from _talk_of_friends()


def assistant_chats() -> Iterator[tuple[str, Talk]]:
    seen: set[str] = set()
    for item in json.loads((DATA / "longmemeval/longmemeval_evidence500.json").read_text()):
        for session in item["evidence_sessions"]:
            at = datetime.strptime(session["date"][:10], "%Y/%m/%d").replace(tzinfo=UTC)
            if (key := json.dumps(session)) not in seen:
                seen.add(key)
                yield "LongMemEval", [_turn(t["role"], t["content"], at) for t in session["turns"]]
    for part in ("oracle", "abstain"):
        for item in json.loads((DATA / f"longmemeval/longmemeval_{part}_sample.json").read_text())["data"]:  # fmt: skip
            yield "LongMemEval, whole", [_turn(t["role"], t["content"], NOW) for t in item["conversation"]]  # fmt: skip
    for run in json.loads((DATA / "tau-bench/gpt-4o-airline.json").read_text()):
        said = [m for m in run["traj"] if m["role"] in {"user", "assistant"}]
        yield "tau-bench", [_turn(m["role"], m["content"] or "", NOW) for m in said]


def _talk_of_friends() -> Iterator[tuple[str, Talk]]:
    """LoCoMo, once with each of the two in the user's place."""
    for item in json.loads((DATA / "locomo/locomo10.json").read_text()):
        talk = item["conversation"]
        for user in (talk["speaker_a"], talk["speaker_b"]):
            for key in [key for key in talk if isinstance(talk[key], list)]:
                at = datetime.strptime(talk[f"{key}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)  # fmt: skip
                yield "LoCoMo", [_turn("user" if t["speaker"] == user else "assistant", t["text"], at) for t in talk[key]]  # fmt: skip


# --- the hand check ---


def reference(source: str, proposal: Proposal) -> str:
    """Names a memory by what it is and rests on, without saying it."""
    quotes = "\n".join(evidence.quote for evidence in proposal.evidence)
    mark = hashlib.sha256(f"{proposal.type}\n{quotes}".encode()).hexdigest()[:12]
    return f"{source}:{mark}"


def to_judge() -> list[tuple[str, Proposal]]:
    """All memories of coding sessions, then those of talk with assistants in the order of their hashes.
    Friends' talk is counted, not judged: the extractor is not for it, and any memory there is one too many."""
    first: dict[str, Proposal] = {}
    rest: dict[str, Proposal] = {}
    for name, messages in sessions():
        for proposal in extract(messages, now=NOW):
            first[reference(name, proposal)] = proposal
    for name, messages in assistant_chats():
        for proposal in extract(messages, now=NOW):
            rest[reference(name, proposal)] = proposal
    sampled = sorted(rest, key=lambda ref: ref.rpartition(":")[2])
    return [*first.items(), *((ref, rest[ref]) for ref in sampled)][:MOST]


def verdicts() -> dict[str, str]:
    lines = VERDICTS.read_text(encoding="utf-8").splitlines()
    return {one["memory"]: one["verdict"] for one in map(json.loads, lines)}


def judged() -> Counter[str]:
    """Verdicts by kind of talk and of memory, "unjudged" for what nobody has looked at yet."""
    known = verdicts()
    count: Counter[str] = Counter()
    for ref, _ in to_judge():
        source = ref.rpartition(":")[0].partition(",")[0]
        kind = "coding" if source.endswith(".jsonl") else source
        verdict = known.get(ref, "unjudged")
        count.update((verdict, f"{kind}: {verdict}"))
    return count


def labels_found() -> dict[str, tuple[int, int]]:
    """Of the messages of the coding sessions that a reader marked as durable: how many gave a memory."""
    found: dict[str, set[str]] = {}
    for name, messages in sessions():
        for proposal in extract(messages, now=NOW):
            found.setdefault(name, set()).update(e.entry for e in proposal.evidence)
    score: dict[str, tuple[int, int]] = {}
    for line in LABELS.read_text(encoding="utf-8").splitlines():
        label = json.loads(line)
        hits, total = score.get(label["durable"], (0, 0))
        hit = label["message"] in found.get(label["session"], set())
        score[label["durable"]] = (hits + hit, total + 1)
    return score


def main() -> None:
    known = verdicts() if VERDICTS.exists() else {}
    for ref, proposal in to_judge():
        quotes = " | ".join(evidence.quote for evidence in proposal.evidence)
        print(f"{ref}\t{known.get(ref, '?')}\t{proposal.type}\t{' '.join(quotes.split())[:240]}")


if __name__ == "__main__":
    main()
