"""What the learned judge looks at in a sentence: its words and their order, parts of words, which
cues it holds, the dates it names, and what stands around it. Pure; trainer and judge share it, so
that both see the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import lru_cache
from zlib import crc32

from lamina.local.cues.any_language import EMAIL, IDENTIFIER, PATH, SARCASM, SYSTEMS, URL, Cues
from lamina.local.cues.languages import LANGUAGES
from lamina.local.dates import find_dates
from lamina.local.own_words import Sentence

BUCKETS = 1 << 16
_CUES = tuple(field.name for field in fields(Cues))
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|\d+|[\u3400-\u9fff\u3040-\u30ff]|[!?:=…]")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_NAMES = ((URL, " Url "), (EMAIL, " Email "), (PATH, " Path "), (IDENTIFIER, " Name "))


def seen(message: Sequence[Sentence], place: int) -> tuple[list[int], list[int]]:
    """The buckets of all that is seen at one sentence of a message: of words and signs, and of parts
    of words, which count less. Sorted, each once."""
    return _buckets(_signs(message, place)), _buckets(_parts(message[place]))


def _buckets(names: Iterator[str]) -> list[int]:
    return sorted({crc32(name.encode("utf-8", "replace")) % BUCKETS for name in names})


def _signs(message: Sequence[Sentence], place: int) -> Iterator[str]:
    sentence = message[place]
    words = _words(sentence)
    yield from _runs(words)
    yield from _cues(sentence)
    yield from _dates(sentence)
    yield f"length {min(len(words) // 4, 8)}"
    yield f"place {min(place, 2)} of {min(len(message), 4)}"
    if sentence.answers:
        yield "answers"
        yield from (f"answers {cue}" for cue in _cues(sentence) if cue in {"praise", "go_on"})
    for name, other in (("before", place - 1), ("after", place + 1)):
        if 0 <= other < len(message):
            yield from (f"{name} {cue}" for cue in _cues(message[other]))
            yield from (f"{name} {word}" for word in _words(message[other])[:3])


def _words(sentence: Sentence) -> list[str]:
    text = re.sub("\x01+", " Quote ", sentence.plain)
    for pattern, name in _NAMES:
        text = pattern.sub(name, text)
    return [
        "0" * min(len(word), 4) if word.isdecimal() else word.lower().replace("’", "'")
        for word in _WORD.findall(text)
    ]


def _runs(words: Sequence[str]) -> Iterator[str]:
    """Single words and their beginnings, pairs, threes, pairs with a gap; how it begins and ends."""
    padded = ["^", *words, "$"]
    for i, word in enumerate(words):
        yield word
        if len(word) > 5:
            yield f"{word[:5]}~"
        if i < 3:
            yield f"^{i} {word}"
    for i in range(len(padded) - 1):
        yield f"{padded[i]} {padded[i + 1]}"
        if i + 2 < len(padded):
            yield f"{padded[i]} {padded[i + 1]} {padded[i + 2]}"
            yield f"{padded[i]} _ {padded[i + 2]}"


def _parts(sentence: Sentence) -> Iterator[str]:
    text = " " + " ".join(sentence.text.lower().split()) + " "
    for size in (
        (1, 2, 3) if _WIDE.search(text) else (3, 4, 5)
    ):  # a wide character says as much as a syllable
        yield from (f"…{text[i : i + size]}" for i in range(len(text) - size + 1))


@lru_cache(maxsize=256)
def _cues(sentence: Sentence) -> tuple[str, ...]:
    rules = LANGUAGES[sentence.lang]
    found = [name for name in _CUES if getattr(rules, name).search(sentence.plain)]
    others = (("sarcasm", SARCASM), ("system", SYSTEMS), ("url", URL))
    return (*found, *(name for name, pattern in others if pattern.search(sentence.text)))


def _dates(sentence: Sentence) -> Iterator[str]:
    today = sentence.said.date()
    for hit in find_dates(sentence.text, today):
        yield "date ahead" if hit.day >= today else "date past"
        if hit.bare:
            yield "date bare"
