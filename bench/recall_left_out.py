"""Chooses the weights of session search with one data set left out, and says what they find on it.

    python -m bench.recall_left_out     tries the weights; `make bench-recall` shows the figures

What the parts of a score are for every question and turn is worked out once and kept in bench/out
until the code or the data reader changes; trying a weight then takes a fraction of a second. LoCoMo
and the mix share their questions, so they are left out together. Reads the data, writes nothing else.
"""

# pyright: reportPrivateUsage=false
# ruff: noqa: SLF001 - the parts of a score before their weights are nobody else's business
from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from bench.figures import Figure, at_least
from bench.recall import (
    DAY,
    EVERY,
    Case,
    abstention,
    ahead,
    mean,
    memory_index,
    peer_scores,
    rounded,
    score,
    session_index,
)
from bench.recall_data import (
    DATA,
    Corpus,
    Question,
    beam,
    locomo,
    longmemeval,
    mixed,
    together,
)
from numpy.typing import NDArray

from lamina.local.embedder import Meanings
from lamina.recall import chances, turns

Floats = NDArray[np.float32]

HERE = Path(__file__).resolve().parent
PARTS = tuple(turns.WEIGHTS)
OTHER, BRIEF = "other_role", "brief"
# `meaning` is 0 without its extra
SHIPPED = {**turns.WEIGHTS, OTHER: turns.OTHER_ROLE, BRIEF: turns.BRIEF}
# Every weight begins in the middle of what is tried, and moves only for a gain that is worth it.
TRIED: dict[str, tuple[float, ...]] = {
    name: (0.0, 0.1, 0.2, 0.4, 0.6, 0.8)
    for name in PARTS
    if name not in ("text", "span", "meaning")  # the last: bench/recall_meaning.py
}
TRIED[OTHER] = (1.0, 0.75, 0.5, 0.25)
TRIED[BRIEF] = (inf, 40.0, 20.0, 10.0)
BEGIN = dict.fromkeys(PARTS, 0.4) | {
    "text": 1.0,
    "span": turns.WEIGHTS["span"],
    "meaning": 0.0,
    OTHER: 0.5,
    BRIEF: 20.0,
}
WORTH = 0.002
SETS = ("LoCoMo", "mix", "LongMemEval", "BEAM")
GOALS = {"LoCoMo": 0.70, "mix": 0.0, "LongMemEval": 0.79, "BEAM": 0.50}
PLAIN = ("bm25s", "fts5")
LEFT_OUT = (("LoCoMo", "mix"), ("LongMemEval",), ("BEAM",))


@dataclass(frozen=True)
class Talk:
    """What is known of the turns of one corpus whatever is asked, by turn."""

    terms: Floats  # in a turn of its session, on average
    replies_to: NDArray[np.intp]


@dataclass(frozen=True)
class Asked:
    """One question put to one corpus: what each part of each turn's score is before any weight."""

    talk: Talk
    parts: Floats  # by part and turn
    others: NDArray[np.bool_]  # turns of the role that is not asked for
    expected: frozenset[int]
    by_assistant: frozenset[int]  # of those, the ones that the assistant spoke

    def best(self, weights: Mapping[str, float]) -> set[int]:
        rows = dict(zip(PARTS, self.parts, strict=True))
        asked_for = np.where(self.others, weights[OTHER], 1).astype(np.float32)
        about = self.talk.terms, self.talk.replies_to, asked_for
        total = turns.WeighedParts.of(rows, weights, weights[BRIEF], *about).total
        return set(np.argsort(-total, kind="stable")[:5].tolist())


def corpora(name: str) -> list[tuple[Corpus, Sequence[Question]]]:
    match name:
        case "LoCoMo":
            return [(corpus, corpus.questions) for corpus in locomo()]
        case "LongMemEval":
            return [(longmemeval(), longmemeval().questions)]
        case "BEAM":
            return [(corpus, corpus.questions) for corpus in beam()]
        case _:
            return [(mixed(), mixed().questions[::EVERY])]


def work_out(
    corpus: Corpus, questions: Sequence[Question], meanings: Meanings | None = None
) -> list[Asked]:
    """The parts as session search itself works them out, before any weight."""
    index = session_index(corpus.items)
    index.meanings = meanings
    places = {item.id: place for place, item in enumerate(corpus.items)}
    latest = max(item.said for item in corpus.items) + DAY
    found: list[Asked] = []
    columns = index._arrays()
    talk = Talk(columns.terms, columns.replies_to)
    for question in questions:
        scored = index._ask(question.text, question.asked or latest)
        parts = np.zeros((len(PARTS), len(corpus.items)), dtype=np.float32)
        if scored is not None:
            for row, name in enumerate(PARTS):
                parts[row] = scored.parts.found.get(name, 0.0) * (scored.parts.total > 0)
        others = index._asked_for(question.text)[columns.speaker] < 1
        expected = frozenset(places[id_] for id_ in question.expected)
        spoken = {p for p in expected if corpus.items[p].speaker == "assistant"}
        found.append(Asked(talk, parts, others, expected, frozenset(spoken)))
    return found


@cache
def kept() -> dict[str, list[Asked]]:
    source = [
        *sorted((HERE.parent / "src" / "lamina" / "recall").glob("*.py")),
        HERE.parent / "src" / "lamina" / "text" / "terms.py",
        HERE / "recall_data.py",
        Path(__file__),
    ]
    key = sha256(b"".join(path.read_bytes() for path in source) + bytes(DATA)).hexdigest()[:16]
    path = HERE / "out" / f"recall-parts-{key}.pickle"
    if path.exists():
        return pickle.loads(path.read_bytes())
    parts = {
        name: [
            asked for corpus, questions in corpora(name) for asked in work_out(corpus, questions)
        ]
        for name in SETS
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(parts))
    return parts


class Trial:
    """What weights find, each combination worked out once."""

    def __init__(self, asked: Mapping[str, list[Asked]]) -> None:
        self._asked = asked
        self._known: dict[Any, dict[str, float]] = {}

    def figures(
        self, weights: Mapping[str, float], names: Iterable[str] = SETS
    ) -> dict[str, float]:
        """recall@5 by set; of BEAM also the share of the assistant's own evidence turns."""
        found: dict[str, float] = {}
        for name in names:
            key = name, tuple(sorted(weights.items()))
            if key not in self._known:
                self._known[key] = self._measure(name, weights)
            found |= self._known[key]
        return found

    def _measure(self, name: str, weights: Mapping[str, float]) -> dict[str, float]:
        shares: list[float] = []
        spoken = heard = 0
        for asked in self._asked[name]:
            best = asked.best(weights)
            shares.append(len(asked.expected & best) / len(asked.expected))
            spoken += len(asked.by_assistant)
            heard += len(asked.by_assistant & best)
        figures = {name: sum(shares) / len(shares)}
        return {**figures, "BEAM, assistant": heard / spoken} if name == "BEAM" else figures

    def choose(self, names: Sequence[str]) -> dict[str, float]:
        """Weight by weight, over and over, what lifts the mean of these sets."""
        weights = dict(BEGIN)

        def mean(tried: Mapping[str, float]) -> float:
            return float(np.mean([*self.figures(tried, names).values()]))

        for _ in range(3):
            before = dict(weights)
            for name, values in TRIED.items():
                best = max(values, key=lambda value: mean({**weights, name: value}))
                if mean({**weights, name: best}) > mean(weights) + WORTH:
                    weights[name] = best
            if weights == before:
                break
        return weights


@cache
def chosen() -> dict[tuple[str, ...], dict[str, float]]:
    """By what is left out: the weights that the other sets choose."""
    trial, found = Trial(kept()), dict[tuple[str, ...], dict[str, float]]()
    for left in LEFT_OUT:
        found[left] = trial.choose([name for name in SETS if name not in left])
        print(f"  left out {' and '.join(left)}: {found[left]}", file=sys.stderr)
    return found


@cache
def left_out() -> dict[str, float]:
    """By set: what weights find there that were chosen on the others."""
    trial, found = Trial(kept()), dict[str, float]()
    for left, weights in chosen().items():
        found |= trial.figures(weights, left)
    return found


def together_figures() -> list[Figure]:
    """One store of all kinds of talk: each question is ranked by weights in which the set that it comes
    from had no say."""
    store, index = together(), session_index(together().items)
    peers = peer_scores([(store.items, store.questions)], PLAIN)
    ours, shipped = list[float](), (turns.WEIGHTS, turns.OTHER_ROLE, turns.BRIEF)
    for left, weights in chosen().items():
        asked = [number for number, q in enumerate(store.questions) if q.kind in left]
        turns.WEIGHTS = {name: weights[name] for name in PARTS}
        turns.OTHER_ROLE, turns.BRIEF = weights[OTHER], weights[BRIEF]
        try:
            found = score(index, store, [store.questions[number] for number in asked]).at5
        finally:
            turns.WEIGHTS, turns.OTHER_ROLE, turns.BRIEF = shipped
        ours += found
        theirs = {name: mean([all_.at5[n] for n in asked]) for name, (all_, _) in peers.items()}
        print(f"  together, {left[0]} ({len(asked)}): {mean(found):.4f}, {theirs}", file=sys.stderr)
    return [
        ahead(at_least("left_out.together.recall@5", mean(ours), "", 0, **rounded(peers, "at5"))),
        Figure("together.recall@5", round(mean(score(index, store, store.questions).at5), 4), ""),
    ]


def spoken_share(
    asked: Iterable[tuple[Corpus, Sequence[Question]]], rankings: Iterable[Sequence[Sequence[str]]]
) -> float:
    """Of the expected turns that an assistant spoke, those among the first five."""
    wanted = found = 0
    for (corpus, questions), ranked in zip(asked, rankings, strict=True):
        spoken = {item.id for item in corpus.items if item.speaker == "assistant"}
        for question, ids in zip(questions, ranked, strict=True):
            wanted += len(question.expected & spoken)
            found += len(question.expected & spoken & set(ids[:5]))
    return found / wanted


def left_out_figures() -> list[Figure]:
    """The left-out figures beside the two plain engines on the same texts and questions."""
    figures: list[Figure] = []
    for name, goal in GOALS.items():
        asked = corpora(name)
        peers = peer_scores([(corpus.items, questions) for corpus, questions in asked], PLAIN)
        id_ = f"left_out.{name.lower()}"
        found = left_out()[name]
        figures.append(ahead(at_least(f"{id_}.recall@5", found, "", goal, **rounded(peers, "at5"))))
        if name == "BEAM":
            spoken = {peer: spoken_share(asked, a["rankings"]) for peer, (_, a) in peers.items()}
            figures += beam_figures({peer: round(share, 4) for peer, share in spoken.items()})
    return [*figures, *together_figures()]


def beam_figures(spoken: dict[str, float]) -> list[Figure]:
    """What the assistant said itself, and what the weights find that are shipped."""
    least = max(spoken.values(), default=0.0)
    memories = [score(memory_index(c.items), c, c.questions).at5 for c in beam()]
    shipped = Trial(kept()).figures(SHIPPED, ["BEAM"])
    return [
        at_least("left_out.beam.assistant", left_out()["BEAM, assistant"], "", least, **spoken),
        Figure("beam.recall@5", round(shipped["BEAM"], 4), ""),
        Figure("beam.assistant", round(shipped["BEAM, assistant"], 4), "", peers=spoken),
        Figure("beam.recall@5.memory_ranker", round(mean([s for m in memories for s in m]), 4), ""),
    ]


def silence_figures() -> list[Figure]:
    """Questions that nothing answers, though they speak of the same people and things: how many find
    nothing, and what that costs the others."""
    figures: list[Figure] = []
    for name in ("LoCoMo", "LongMemEval", "BEAM"):
        for label, build in (("turns", session_index), ("memories", memory_index)):
            cases = [
                Case(
                    _search(build(corpus.items), corpus), _answered(questions), corpus.unanswerable
                )
                for corpus, questions in corpora(name)
            ]
            figures += abstention(f"unanswerable.{name.lower()}.{label}", cases)
    return figures


def reliability_figures() -> list[Figure]:
    """How far the chance that people are shown is from the share that is right, in tenths of it."""
    figures: list[Figure] = []
    for label, build in (("turns", session_index), ("memories", memory_index)):
        for name in ("LoCoMo", "LongMemEval", "BEAM"):
            told: list[tuple[float, bool]] = []
            for corpus, questions in corpora(name):
                index, now = build(corpus.items), max(item.said for item in corpus.items) + DAY
                strange = [Question(text, frozenset()) for text in corpus.unanswerable]
                for question in [*_answered(questions), *strange]:
                    hits = index.search(question.text, 5, now=question.asked or now)
                    right = [hit.id in question.expected for hit in hits]
                    told += zip(chances(hits), right, strict=True)
            figures.append(Figure(f"chance_off.{name.lower()}.{label}", off(told), ""))
    return figures


def off(told: Sequence[tuple[float, bool]]) -> float:
    """The mean distance, each tenth counted by how often it is shown; the curve goes to stderr."""
    tenths: dict[int, list[tuple[float, bool]]] = {}
    for chance, right in told:
        tenths.setdefault(min(int(10 * chance), 9), []).append((chance, right))
    off, curve = 0.0, list[str]()
    for _, shown in sorted(tenths.items()):
        is_, said = mean([right for _, right in shown]), mean([chance for chance, _ in shown])
        off += abs(is_ - said) * len(shown) / len(told)
        curve.append(f"{said:.2f}: {is_:.2f} ({len(shown)})")
    print("  shown, right:", ", ".join(curve), file=sys.stderr)
    return round(off, 4)


def _answered(questions: Sequence[Question]) -> list[Question]:
    return [question for question in questions if not question.id.endswith("_abs")]


def _search(index: Any, corpus: Corpus) -> Callable[[str, float], list[str]]:
    now = max(item.said for item in corpus.items) + DAY
    return lambda text, sure: [hit.id for hit in index.search(text, 5, now=now, at_least=sure)]


def main() -> int:
    if not (DATA / "beam-100k").is_dir():
        print(f"No data at {DATA}: set LAMINA_DATA. Skipped.", file=sys.stderr)
        return 0
    print("left out:", left_out())
    trial = Trial(kept())
    print("shipped:", trial.figures(SHIPPED))
    for name in TRIED:
        without = {**SHIPPED, name: {OTHER: 1.0, BRIEF: inf}.get(name, 0.0)}
        print(f"  without {name}:", {k: round(v, 4) for k, v in trial.figures(without).items()})
    return 0


if __name__ == "__main__":
    from bench.recall_left_out import main as run  # what is pickled belongs to the module, not here

    sys.exit(run())
