"""What the extractor finds in the messages of writers (`bench/data/judge_*.jsonl`, which the judge is
learned from, and `unseen_*.jsonl`, which it never saw).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lamina.local.extractor import extract

DATA = Path(__file__).resolve().parent / "data"
SAID = datetime(2026, 3, 4, 10, tzinfo=UTC)


@dataclass(slots=True)
class Score:
    """A find counts where it quotes what was marked; whether its type is right counts apart."""

    right: int = 0
    typed: int = 0
    wrong: int = 0
    wanted: int = 0

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        return self.right / max(1, self.wanted)

    def __str__(self) -> str:
        return f"precision {self.precision:.3f}  recall {self.recall:.3f}  right type {self.typed / max(1, self.wanted):.3f}  ({self.right} found, {self.wrong} wrong, {self.wanted} wanted)"


def of_writer(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def unseen() -> Iterator[dict[str, Any]]:
    for path in sorted(DATA.glob("unseen_*.jsonl")):
        yield from of_writer(path)


def messages(row: dict[str, Any]) -> list[dict[str, Any]]:
    said = {"role": "user", "content": row["text"], "origin": "typed", "time": SAID.isoformat()}
    if not row.get("before"):
        return [{**said, "uuid": "0"}]
    return [{"role": "assistant", "content": row["before"], "uuid": "0"}, {**said, "uuid": "1"}]


def score(rows: Iterable[dict[str, Any]]) -> Score:
    done = Score()
    for row in rows:
        left = extract(messages(row), now=SAID)
        done.wanted += len(row["memories"])
        for memory in row["memories"]:
            hits = [p for p in left if any(_meets(e.quote, memory["span"]) for e in p.evidence)]
            done.right += bool(hits)
            done.typed += any(p.type == memory["type"] for p in hits)
            left = [p for p in left if p not in hits]
        done.wrong += len(left)
    return done


def _meets(quote: str, span: str) -> bool:
    first, second = set(quote.split()), set(span.split())
    shared = len(first & second)
    return quote in span or span in quote or shared >= 0.6 * min(len(first), len(second))
