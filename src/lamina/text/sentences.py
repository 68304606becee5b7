"""Where sentences begin and end. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_END = re.compile(r"[。！？]+[”」』]?|[.!?…]+[)\"'’”“]?(?=\s|$)|\n+|\x00+")
_END_OR_SEMICOLON = re.compile(r"[。！？；]+[”」』]?|[.!?;…]+[)\"'’”“]?(?=\s|$)|\n+|\x00+")
_SHORTENED = re.compile(
    r"\b(?:e\.g|i\.e|etc|vs|approx|z\. ?B|d\. ?h|u\. ?a|bzw|ca|Nr|Dr|Mr|Ms|St)\.$", re.IGNORECASE
)
_NUMBER_FOLLOWS = re.compile(r"\b(?:no|nr|art|fig|abs)\.$", re.IGNORECASE)
_COUNTED = re.compile(r"(?<![\d.])\d{1,2}\.$")
_GERMAN_ORDINAL = re.compile(
    r"\b(?:am|den|dem|der|die|das|des|zum|vom|bis|ab|im|und|seit|beim)\s\d{1,2}\.$", re.IGNORECASE
)


def _goes_on(own: str, start: int, stop: re.Match[str]) -> bool:
    """A full stop that ends no sentence: "e.g. this", "no. 5", "am 24. kommt"."""
    if stop[0] != ".":
        return False
    before, after = (
        own[max(start, stop.start() - 14) : stop.end()],
        own[stop.end() : stop.end() + 2],
    )
    if _SHORTENED.search(before):
        return bool(re.match(r"\s\w", after))
    if _NUMBER_FOLLOWS.search(before):
        return bool(re.match(r"\s\d", after))
    if not _COUNTED.search(before):
        return False
    letter = r"\s[^\W\d]" if _GERMAN_ORDINAL.search(before) else r"\s[a-zäöü]"
    return bool(re.match(letter, after))


def spans(text: str, *, semicolons: bool = True) -> Iterator[tuple[int, int]]:
    """Begin and end of each sentence, in order; lines are sentences of their own. NUL stands for what
    is not the user's word, and ends one. `semicolons`: they end one too, as what is kept should be
    short; what a quote proves may reach across."""
    start = 0
    for match in (_END_OR_SEMICOLON if semicolons else _END).finditer(text):
        if _goes_on(text, start, match):
            continue
        yield start, match.start() if match[0].startswith("\x00") else match.end()
        start = match.end()
    yield start, len(text)


def sentences(text: str, *, semicolons: bool = False) -> list[str]:
    """The sentences and lines of a text, bare of the space around them."""
    pieces = (text[start:end].strip() for start, end in spans(text, semicolons=semicolons))
    return [piece for piece in pieces if piece]
