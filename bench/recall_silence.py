"""Questions that nothing answers: how many can be refused, and what that costs, with the set left out
of the fit. Signs that could carry over from one kind of talk to another, a logistic fit whose weights
may not turn a sign round, and the curve of silence against recall lost.

    python -m bench.recall_silence          needs lamina[semantic]; about 10 minutes

Nothing of this is in the product: the curve says why.
"""

# pyright: basic
# ruff: noqa: SLF001 - the parts of a score before their sum are nobody else's business
from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from bench.recall import DAY, session_index
from bench.recall_data import DATA, Corpus
from bench.recall_left_out import corpora
from bench.recall_meaning import kept

from lamina.local.embedder import sentence_model
from lamina.recall.scoring import question_terms
from lamina.recall.turns import TurnIndex
from lamina.text.terms import frame_terms

NAMES = ("LoCoMo", "LongMemEval", "BEAM")
LOSSES = (1, 2, 3, 5, 10)
_AMOUNT = re.compile(
    r"\b(?:when|how (?:many|much|long|old)|what (?:date|day|time|year|number))\b", re.IGNORECASE
)
_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|week|month|year)\b", re.IGNORECASE
)
_SIGNS = (
    "covered",  # share of the question's rare words, by this store, that the best turn holds
    "rarest",  # less the rarest word that it and its neighbours lack
    "owner",  # the best words are those of the person named, not another's
    "session",  # how much of the question the whole session holds
    "likeness",  # of word vectors
    "cosine",  # of the nearest piece of any turn, by the sentence model
    "stands_out",  # of all cosines in the store, in standard deviations
    "slot",  # a number where one is asked for
    "margin",  # of the best over the next four
)
TRIED = {
    "words": ("covered", "rarest", "owner", "session", "likeness"),
    "words, meaning and slot": _SIGNS,
    "covered, rarest, owner, cosine": ("covered", "rarest", "owner", "cosine"),
}


@dataclass
class Signs:
    """Of one set: a row for each question, whether it has an answer, and the share of it found."""

    rows: Any
    answerable: Any
    found: Any

    def lost(self, chance: Any, line: float) -> float:
        own = self.answerable == 1
        return 100 * float((self.found * (chance < line))[own].mean())

    def silent(self, chance: Any, line: float) -> float:
        return 100 * float((chance < line)[self.answerable == 0].mean())

    def at(self, chance: Any, points: float) -> float:
        """The most that can be refused with the line drawn on this very set."""
        lines = [line for line in np.unique(chance) if self.lost(chance, line) <= points]
        return max((self.silent(chance, line) for line in lines), default=0.0)


def signs(index: TurnIndex, corpus: Corpus, text: str, now: float) -> tuple[list[float], list[int]]:
    asked, columns = index._ask(text, now), index._arrays()
    if asked is None or asked.meant is None:
        return [0.0] * len(_SIGNS), []
    total = asked.parts.total
    best = np.argsort(-total, kind="stable")[:5].tolist()
    place = best[0]
    content = {
        term: weight
        for term, weight in question_terms(text).items()
        if term not in asked.named and term not in frame_terms()
    }
    weighed = index._words.weigh(content) or {"": 1.0}
    keys = index._postings.keys_of(content)
    beside = {place, int(columns.before[place]), int(columns.after[place])} - {-1}
    held = index._postings.holds(place, keys)
    around = set[str]().union(*(index._postings.holds(one, keys) for one in beside))
    missing = max((weight for term, weight in weighed.items() if term not in around), default=0.0)
    people = set[int]().union(*(columns.named[term] for term in asked.named))
    theirs = np.isin(columns.speaker, list(people))
    words = asked.parts.found["text"] * asked.parts.counts
    apart = bool(people) and theirs.any() and not theirs.all()
    wants = _AMOUNT.search(text)
    found = {
        "covered": sum(weighed.get(term, 0.0) for term in held) / sum(weighed.values()),
        "rarest": -missing / max(weighed.values()),
        "owner": float(words[theirs].max() - words[~theirs].max()) if apart else 0.0,
        "session": asked.parts.at(place)["session"],
        "likeness": float(asked.likeness[place]),
        "cosine": float(asked.meant.max()),
        "stands_out": float((asked.meant.max() - asked.meant.mean()) / (asked.meant.std() + 1e-6)),
        "slot": 0.0 if not wants else 1.0 if _NUMBER.search(corpus.items[place].text) else -1.0,
        "margin": float(1 - total[best[1:]].mean() / max(total[place], 1e-9)),
    }
    return [found[name] for name in _SIGNS], best


def of(name: str) -> Signs:
    texts = {item.id: item.text for corpus, _ in corpora(name) for item in corpus.items}
    meanings, rows, answerable, shares = kept(f"turns-{name}", texts), [], [], []
    for corpus, questions in corpora(name):
        index, now = session_index(corpus.items), max(item.said for item in corpus.items) + DAY
        index.meanings = meanings
        for question in questions:
            if not question.id.endswith("_abs"):
                row, best = signs(index, corpus, question.text, question.asked or now)
                ids = {corpus.items[place].id for place in best}
                rows.append(row)
                answerable.append(1)
                shares.append(len(question.expected & ids) / len(question.expected))
        for text in corpus.unanswerable:
            rows.append(signs(index, corpus, text, now)[0])
            answerable.append(0)
            shares.append(0.0)
    return Signs(np.array(rows), np.array(answerable), np.array(shares))


def fit(sets: list[Signs], columns: list[int]) -> Any:
    """Answerable and not weigh the same in every set, and no sign may turn round."""
    rows = np.concatenate([one.rows[:, columns] for one in sets])
    wanted = np.concatenate([one.answerable for one in sets])
    weights = np.concatenate(
        [np.where(a == 1, 0.5 / a.sum(), 0.5 / (1 - a).sum()) for a in (s.answerable for s in sets)]
    ) / len(sets)
    middle, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    slopes, base = np.zeros(len(columns)), 0.0
    for _ in range(4_000):
        wrong = weights * (1 / (1 + np.exp(-((rows - middle) / spread @ slopes + base))) - wanted)
        step = ((rows - middle) / spread).T @ wrong + 0.002 * slopes
        slopes, base = np.maximum(slopes - 0.5 * step, 0), base - 0.5 * wrong.sum()
    return lambda given: 1 / (1 + np.exp(-((given[:, columns] - middle) / spread @ slopes + base)))


def main() -> int:
    if not (DATA / "beam-100k").is_dir() or sentence_model() is None:
        print("No data, or no extra lamina[semantic]. Skipped.", file=sys.stderr)
        return 0
    every = {name: of(name) for name in NAMES}
    for tried, chosen in TRIED.items():
        columns = [_SIGNS.index(name) for name in chosen]
        for left in NAMES:
            others = [every[name] for name in NAMES if name != left]
            chance_of, here = fit(others, columns), every[left]
            chance = chance_of(here.rows)
            told = [(one, chance_of(one.rows)) for one in others]
            lines = [
                line
                for line in np.linspace(0, 1, 201)
                if all(one.lost(given, line) <= 3 for one, given in told)
            ]
            curve = ", ".join(f"{at}: {here.at(chance, at):.0f}" for at in LOSSES)
            moved = f"{here.silent(chance, lines[-1]):.0f} at {here.lost(chance, lines[-1]):.1f}"
            print(f"{tried}; {left} left out: {curve}; with the others' line {moved}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
