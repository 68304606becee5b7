"""Recall with the extra `semantic`, each weight chosen with one data set left out, beside bm25s, the
same sentence model alone, and both joined by reciprocal ranks; each peer also with our weight by role.

    python -m bench.recall_meaning          needs lamina[semantic] and bm25s

Encoding takes minutes the first time; what a text means is kept in bench/out, as in a home. The
peer MiniLM is the same model over a whole turn (date, speaker, the first 126 tokens of its words).
"""

# pyright: basic, reportMissingImports=false
# ruff: noqa: SLF001 - whole turns are encoded as questions are
from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from bench.recall import DAY, HERE, Scores, directory_index, found_in, mean, p95, session_index
from bench.recall_data import (
    DATA,
    Corpus,
    Item,
    Question,
    locomo,
    memory_directories,
    memory_questions,
)
from bench.recall_left_out import (
    LEFT_OUT,
    OTHER,
    SETS,
    SHIPPED,
    Asked,
    Trial,
    corpora,
    off,
    work_out,
)
from bench.recall_left_out import kept as parts_of_words

from lamina.local.embedder import Meanings, sentence_model
from lamina.recall import chances
from lamina.recall.index_files import MeaningFile
from lamina.recall.turns import TurnIndex

TRIED = (0.0, 0.4, 0.7, 1.0, 1.4, 2.0, 3.0)
NEAR = 60  # of reciprocal ranks, as everybody has it


def kept(name: str, texts: dict[str, str]) -> Meanings:
    """What these texts mean, by the product's own file, however long that takes."""
    path = HERE / "out" / f"{name}.meanings"
    found = MeaningFile(path, texts.get).of([*texts], seconds=1e9)
    assert found is not None, "the extra lamina[semantic] is not installed"
    return found


def sets() -> list[str]:
    """The mix is made of 10,000 turns; it is asked for by name, because encoding them takes long."""
    return [name for name in SETS if name != "mix" or "mix" in sys.argv]


def worked_out(name: str) -> list[Asked]:
    items = {item.id: item.text for corpus, _ in corpora(name) for item in corpus.items}
    meanings = kept(f"turns-{name}", items)
    return [
        asked
        for corpus, questions in corpora(name)
        for asked in work_out(corpus, questions, meanings)
    ]


def left_out(asked: dict[str, list[Asked]]) -> dict[str, tuple[float, float, float]]:
    """By set: the weight of meaning that the other sets choose, after all weights of the words as
    without the extra; what that finds here, and what the words alone find."""
    trial, found = Trial(asked), dict[str, tuple[float, float, float]]()
    words_alone = Trial(parts_of_words())
    for left in LEFT_OUT:
        others = [name for name in asked if name not in left]
        words = words_alone.choose([name for name in SETS if name not in left])

        def gain(weight: float, words: Any = words, others: Any = others) -> float:
            return mean([*trial.figures({**words, "meaning": weight}, others).values()])

        best = max(TRIED, key=gain)
        here = [name for name in left if name in asked]
        with_ = trial.figures({**words, "meaning": best}, here)
        alone = trial.figures(words, here)
        found |= {name: (best, with_[name], alone[name]) for name in with_}
    return found


# ---- peers


def ranks(scores: Any) -> Any:
    places = np.empty(len(scores))
    places[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return places


def by_words(items: Sequence[Item]) -> Any:
    import bm25s
    import Stemmer

    how = {"stopwords": "en_plus", "stemmer": Stemmer.Stemmer("english"), "show_progress": False}
    index = bm25s.BM25()
    index.index(bm25s.tokenize([item.whole for item in items], **how), show_progress=False)

    def score(question: str) -> Any:
        words = bm25s.tokenize([question], return_ids=False, **how)[0]
        return index.get_scores(words) if words else np.zeros(len(items))

    return score


def whole_turns(name: str, corpus: Corpus) -> Any:
    path = HERE / "out" / f"whole-{name}-{corpus.name}.npy"
    if not path.exists():
        model = sentence_model()
        assert model is not None
        np.save(path, model._encode([[*model._tokens(i.whole)][:126] for i in corpus.items]))
    return np.load(path)


def peers(name: str, asked: Sequence[Asked]) -> dict[str, float]:
    model, found = sentence_model(), dict[str, list[float]]()
    assert model is not None
    left = iter(asked)
    for corpus, questions in corpora(name):
        words, turns = by_words(corpus.items), whole_turns(name, corpus)
        for question in questions:
            one = next(left)
            both = [words(question.text), np.maximum(turns @ model.question(question.text), 0)]
            for role in ("", ", our role"):
                if role:
                    for scores in both:
                        scores[one.others] *= SHIPPED[OTHER]
                joined = 1 / (NEAR + ranks(both[0])) + 1 / (NEAR + ranks(both[1]))
                for peer, scores in zip(("bm25s", "MiniLM", "RRF"), (*both, joined), strict=True):
                    best = set(np.argsort(-scores, kind="stable")[:5].tolist())
                    share = len(one.expected & best) / len(one.expected)
                    found.setdefault(peer + role, []).append(share)
    return {peer: round(mean(shares), 4) for peer, shares in found.items()}


# ---- memory directories, and speed


def directories() -> tuple[float, float]:
    """Nothing was chosen on them: the weight is session search's."""
    before = after = Scores([], [], [])
    for name in sorted(memory_directories()):
        questions = [q for directory, q in memory_questions() if directory == name]
        index = directory_index([name])
        before = before + found_in(index, questions)
        texts = {
            f"{name}/{file.path}": "\n".join(
                dict.fromkeys((file.name, file.description, file.body.strip()))
            )
            for file in memory_directories()[name]
        }
        index.meanings = kept(f"memories-{name}", texts)
        after = after + found_in(index, questions)
    return mean(before.at5), mean(after.at5)


def times_encoding(questions: Sequence[str]) -> float:
    """p95 of a search among 10,000 turns over p95 of encoding the question alone: CPU time of the one
    thread, the two by turns."""
    model = sentence_model()
    assert model is not None
    items = [item for corpus in locomo() for item in corpus.items]
    texts = {item.id: item.text for item in items}
    meanings = kept("turns-LoCoMo", texts)
    doubled = [*items, *(Item(f"{i.id}+", i.text, i.speaker, f"{i.session}+") for i in items)]
    index: TurnIndex = session_index(doubled[:10_000])
    state = meanings.to_state()
    state["of"] |= {f"{id_}+": place for id_, place in state["of"].items()}
    index.meanings = Meanings.from_state(state)
    index.meanings.model = model
    bare, whole = list[float](), list[float]()
    for question in questions:
        began = time.thread_time()
        model.question(question)
        middle = time.thread_time()
        index.search(question, 5, now=0.0)
        bare.append(middle - began)
        whole.append(time.thread_time() - middle)
    return p95(whole[5:]) / p95(bare[5:])


def chance_off(name: str) -> float:
    """How far the chance that people are shown is from the share that is right, as
    `recall_left_out` counts it, every fourth question; it was fitted to the words alone."""
    told: list[tuple[float, bool]] = []
    texts = {item.id: item.text for corpus, _ in corpora(name) for item in corpus.items}
    meanings = kept(f"turns-{name}", texts)
    for corpus, questions in corpora(name):
        index, now = session_index(corpus.items), max(item.said for item in corpus.items) + DAY
        index.meanings = meanings
        strange = [Question(text, frozenset()) for text in corpus.unanswerable]
        own = [question for question in questions if not question.id.endswith("_abs")]
        for question in [*own, *strange][::4]:
            hits = index.search(question.text, 5, now=question.asked or now)
            right = [hit.id in question.expected for hit in hits]
            told += zip(chances(hits), right, strict=True)
    return off(told)


def main() -> int:
    if not (DATA / "beam-100k").is_dir() or sentence_model() is None:
        print("No data, or no extra lamina[semantic]. Skipped.", file=sys.stderr)
        return 0
    asked = {name: worked_out(name) for name in sets()}
    chosen = left_out(asked)
    shipped = Trial(asked).figures(SHIPPED, asked)
    for name, (weight, with_, words) in chosen.items():
        print(f"{name}: {with_:.4f} at {weight}, words {words:.4f}, shipped {shipped[name]:.4f}")
    for name in asked:
        print(f"  the chance shown on {name} is off by {chance_off(name)}", flush=True)
    for name, questions in asked.items():
        print(f"  peers on {name}: {peers(name, questions)}", flush=True)
    print("memory directories: words {:.4f}, with meaning {:.4f}".format(*directories()))
    texts = [q.text for _, some in corpora("LoCoMo") for q in some][::8]
    ratios = sorted(times_encoding(texts) for _ in range(3))
    print(f"query p95 of 10,000 turns: {ratios[1]:.2f} x the bare encoding")
    return 0


if __name__ == "__main__":
    sys.exit(main())
