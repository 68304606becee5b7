"""Trains the judge of local extraction and writes `src/lamina/local/judge.npz`.

Learns from `bench/data/judge_*.jsonl` (messages in our own words, a file a writer, who knew neither
rules nor test sets), `extraction_dev.jsonl` and the strangers' sets `a` and `c`. Prints what the
whole extractor finds in a writer's messages when trained on all others. `--write` stores the table.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from bench import extract_real
from bench.writers import DATA, SAID, messages, of_writer, score
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from lamina.local import judge
from lamina.local.embedder import DIMENSIONS
from lamina.local.judge import BUCKETS, seen
from lamina.text.own_words import Sentence, typed_sentences

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src" / "lamina" / "local" / "judge.npz"
STRENGTH = 0.2  # inverse of the ridge penalty
LEAST = 2  # sentences that a bucket must occur in …
LEAST_HIDDEN = 3  # … and for the hidden layer
HIDDEN = 32
ROUNDS = 5
LABELS = ("none", *judge.TYPES)
LASTING = DATA / "extract_lasting.tsv"
WRITERS = 0.15  # what the label of a made-up sentence counts beside one of real talk
LINES = (1.0, 0.5, 0.0, -0.3, -0.5, -1.0)
LABELLED = ("extraction_dev", "extract_blind_a", "extract_blind_c")


@dataclass(slots=True)
class Example:
    words: list[int]
    parts: list[int]
    meaning: Any
    label: int


def real_talk() -> list[Example]:
    """Sentences of real users at work that nobody marked as durable: half of the coding sessions and
    half of the service calls, the others are kept for checking. Both are under the MIT licence."""
    marked = {json.loads(line)["message"] for line in extract_real.LABELS.read_text().splitlines()}
    found: list[Example] = []
    for name, talk in [*extract_real.sessions(), *_service_calls()]:
        if extract_real.half(name) != "dev":
            continue
        sentences = [s for s in typed_sentences(talk, SAID) if s.entry not in marked]
        for _, group in groupby(sentences, key=lambda s: s.message):
            message = list(group)
            found += [
                _example(message, place, "none")
                for place, sentence in enumerate(message)
                if not (sentence.material or sentence.document)
            ]
    return found


def _service_calls() -> Iterator[tuple[str, extract_real.Talk]]:
    calls = enumerate(extract_real.service_calls())
    yield from ((f"tau-bench {number}", talk) for number, talk in calls)


def examples(row: dict[str, Any]) -> Iterator[Example]:
    yield from (_example(*one) for one in sentences_of(row))


def sentences_of(row: dict[str, Any]) -> Iterator[tuple[list[Sentence], int, str]]:
    """Every sentence of a message, labelled by the span that it lies in."""
    if "messages" in row:  # the bench's own format: a sentence with a word to be found is the one
        given = [{**m, "uuid": str(i)} for i, m in enumerate(row["messages"])]
        wanted = [(w["type"], w["must_contain"]) for w in [*row["expect"], *row.get("also", ())]]
    else:
        given, wanted = messages(row), []
    for _, group in groupby(typed_sentences(given, SAID), key=lambda s: s.message):
        message = list(group)
        for place, sentence in enumerate(message):
            if sentence.material or sentence.document:
                continue
            label = _by_words(sentence, wanted) if "messages" in row else _by_span(sentence, row)
            yield message, place, label


def _by_words(sentence: Sentence, wanted: Sequence[tuple[str, list[str]]]) -> str:
    text = sentence.text.casefold()
    found = [kind for kind, words in wanted if any(word.casefold() in text for word in words)]
    return found[0] if found else "none"


def _by_span(sentence: Sentence, row: dict[str, Any]) -> str:
    start = row["text"].find(sentence.text)
    for memory in row["memories"]:
        begin = row["text"].find(memory["span"])
        end = begin + len(memory["span"])
        common = min(end, start + len(sentence.text)) - max(begin, start)
        if common > 0.5 * min(len(sentence.text), len(memory["span"])):
            return memory["type"]
    return "none"


def _example(message: list[Sentence], place: int, label: str) -> Example:
    words, parts = seen(message, place)
    return Example(words, parts, judge.meaning(message[place].text), LABELS.index(label))


# --- which statements last ---


@dataclass(slots=True)
class Statement:
    """A sentence, and how likely whoever read it holds it for durable."""

    kind: str
    seen: list[int]
    worth: float  # log-odds, by the other judges
    lasts: float
    weight: float


def statements() -> Iterator[Statement]:
    """Of the half for learning: what readers held of each sentence (1 durable, ½ torn, 0 not, or the
    mean of two readers)."""
    rows = (line.split("\t") for line in LASTING.read_text().splitlines())
    labels = {(kind, mark): float(lasts) for kind, mark, lasts in rows}
    for kind, name, talk in extract_real.talk():
        if extract_real.half(name) != "dev":
            continue
        for _, group in groupby(typed_sentences(talk, SAID), key=lambda s: s.message):
            message = list(group)
            for place, sentence in enumerate(message):
                lasts = labels.pop((kind, extract_real.mark(sentence.text)), None)
                if lasts is not None and sentence.lang == "en":
                    yield _statement(kind, message, place, lasts)


def written(rows: Sequence[dict[str, Any]]) -> Iterator[Statement]:
    """Statements that the writers made up, most of them at work: what looks durable there and is not."""
    for row in rows:
        for message, place, label in sentences_of(row):
            if judge.is_statement(message[place]) and judge.tells(message[place].plain):
                yield _statement("written", message, place, float(label != "none"), WRITERS)


def _statement(
    kind: str, message: list[Sentence], place: int, lasts: float, weight: float = 1.0
) -> Statement:
    view = judge.opinion(message, place)
    seen = {*view.words, *judge.marks(message[place])}
    return Statement(kind, sorted(seen), judge.log_odds(view.worth), lasts, weight)


def lasting(found: Sequence[Statement]) -> dict[str, Any]:
    """A weight a bucket, learned from both sides of what is hard to say."""
    both = [(one, side) for one in found for side in (True, False) if one.lasts != (not side)]
    at = np.cumsum([0, *(len(one.seen) for one, _ in both)])
    columns = [bucket for one, _ in both for bucket in one.seen]
    buckets = sparse.csr_matrix((np.ones(len(columns)), columns, at), shape=(len(both), BUCKETS))
    rows = sparse.hstack([buckets, np.array([[one.worth] for one, _ in both])]).tocsr()
    weights = [one.weight * (one.lasts if side else 1 - one.lasts) for one, side in both]
    model = LogisticRegression(C=0.1, max_iter=500)
    model.fit(rows, [side for _, side in both], sample_weight=weights)
    *weights_of_buckets, worth = model.coef_[0]
    step = np.abs(weights_of_buckets).max() / 127
    return {
        "lasting": np.rint(np.array(weights_of_buckets) / step).astype(np.int8),
        "lasting_worth": np.float32(worth),
        "lasting_step": np.float32(step),
        "lasting_bias": np.float32(model.intercept_[0]),
    }


def lasting_by_kind(found: Sequence[Statement]) -> None:
    """What each kind of talk gets from the others: of what the author labelled there, how many of the
    durable ones are above a line, and how many of those above it are not durable at all."""
    for left in sorted({one.kind for one in found} - {"written"}):
        table = lasting([one for one in found if one.kind != left])
        labelled = [one for one in found if one.kind == left]
        durable = sum(one.lasts == 1 for one in labelled)
        for line in LINES:
            above = [
                one.lasts
                for one in labelled
                if table["lasting"][one.seen].sum(dtype=np.int32) * table["lasting_step"]
                + table["lasting_worth"] * one.worth
                + table["lasting_bias"]
                >= line
            ]
            sums = f"{above.count(1)} of {durable} durable, {above.count(0.5)} hard to say"
            print(f"{left} left out, from {line:+}: {sums}, {above.count(0)} not")


def learn(found: Sequence[Example]) -> dict[str, Any]:
    """The table of weights of both judges, over all types and none."""
    rows, labels = _matrix(found), np.array([example.label for example in found])
    counts = np.asarray((rows != 0).sum(axis=0)).ravel()
    counts[BUCKETS:] = len(found)
    return {**_linear(rows, labels, counts), **_layered(rows, labels, counts)}


def _linear(rows: Any, labels: Any, counts: Any) -> dict[str, Any]:
    often = counts >= LEAST
    model = LogisticRegression(C=STRENGTH, max_iter=400)
    model.fit(rows @ sparse.diags(often.astype(float)), labels)
    weights = np.where(often[:, None], model.coef_.T, 0.0)
    return {**_packed("buckets", weights), "bias": model.intercept_.astype(np.float32)}


def _layered(rows: Any, labels: Any, counts: Any) -> dict[str, Any]:
    kept = np.flatnonzero(counts >= LEAST_HIDDEN)
    rows = rows[:, kept].astype(np.float32)
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    rows = sparse.diags((judge.LENGTH / np.maximum(lengths, 1e-6)).astype(np.float32)) @ rows
    model = MLPClassifier((HIDDEN,), alpha=1e-3, max_iter=ROUNDS, batch_size=256, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # stopping early is what keeps it general
        model.fit(rows, labels)
    weights = np.zeros((BUCKETS + DIMENSIONS, HIDDEN))
    weights[kept] = model.coefs_[0]
    small = {
        "hidden_bias": model.intercepts_[0], "out": model.coefs_[1], "out_bias": model.intercepts_[1]
    }  # fmt: skip
    return {**_packed("hidden", weights), **{n: v.astype(np.float32) for n, v in small.items()}}


def _packed(name: str, weights: Any) -> dict[str, Any]:
    """A byte a weight."""
    steps = np.abs(weights[:BUCKETS]).max(axis=0) / 127
    return {
        name: np.rint(weights[:BUCKETS] / steps).astype(np.int8),
        f"{name}_steps": steps.astype(np.float32),
        f"{name}_meaning": weights[BUCKETS:].astype(np.float32),
    }


def _matrix(found: Sequence[Example]) -> Any:
    at, columns, values = [0], [], []
    for example in found:
        columns += [*example.words, *example.parts]
        values += [1.0] * len(example.words) + [judge.PARTS_WEIGHT] * len(example.parts)
        if example.meaning is not None:
            columns += range(BUCKETS, BUCKETS + len(example.meaning))
            values += example.meaning.tolist()
        at.append(len(columns))
    shape = (len(found), BUCKETS + DIMENSIONS)
    return sparse.csr_matrix((values, columns, at), shape=shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="store the table that was learned from all"
    )
    parser.add_argument("--no-check", action="store_true", help="skip the check by writer")
    parser.add_argument("--lasting", action="store_true", help="learn only which statements last")
    options = parser.parse_args()
    writers = {path.stem: of_writer(path) for path in sorted(DATA.glob("judge_*.jsonl"))}
    more = [row for name in LABELLED for row in of_writer(DATA / f"{name}.jsonl")]
    made_up = [row for rows in writers.values() for row in rows] + more
    told = [*statements(), *written(made_up)]
    lasting_by_kind(told)
    if options.lasting:
        if options.write:
            np.savez_compressed(TABLE, **{**judge.table(), **lasting(told)})
        return
    learned = {name: [e for row in rows for e in examples(row)] for name, rows in writers.items()}
    base = [e for row in more for e in examples(row)] + real_talk()
    if not options.no_check:
        for name, rows in writers.items():
            rest = [e for other, found in learned.items() if other != name for e in found]
            table = learn([*base, *rest])
            with patch.object(judge, "table", lambda table=table: table):
                print(f"{name}: {score(rows)}", flush=True)
    if options.write:
        table = learn([*base, *(e for found in learned.values() for e in found)])
        np.savez_compressed(TABLE, **table, **lasting(told))
        print(f"{TABLE.name}: {TABLE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
