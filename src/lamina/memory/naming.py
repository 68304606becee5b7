"""The names of memories: what may be a path, the path and title made from a sentence, and the next
path where one is taken. Whoever writes a memory names it here. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator

from lamina.secrets import secrets_in
from lamina.text.about import NEGATION, limits, negates, plain_words
from lamina.text.asks import turned_round
from lamina.text.wording import fold, sentences

_PART = re.compile(r"[a-z0-9_-]{1,80}")
_MOST_PARTS = 5
# Names that some file systems give to devices, whatever their ending.
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$", "clock$"]
    + [f"{port}{number}" for port in ("com", "lpt") for number in range(10)]
)

_NAME_WORDS = 6
_NAME_LETTERS = 60
_TITLE_LETTERS = 60
_LONGEST_TITLE = 200
_NUMBERED = 50  # files of one name that get a number; the next ones get a hash


def file_name(kind: str, title: str, says: str = "") -> str:
    """`feedback_dont_mock_database.md`: readable where the script allows it, else with a short hash.

    Negations, numbers and letters that tell two things apart ("shop A") stay in. Where a title
    turns round what the memory `says`, the name is made from that.
    """
    text = says if says and turned_round(title, [says]) else title
    text = secrets_in(text).mask(text, "")  # a name is shown, listed and kept in many places
    words = _fitting(text, _NAME_LETTERS - len(kind))
    stem = "_".join((kind, *words))
    latin = sum(char.isascii() for char in text if char.isalnum())
    if not words or latin * 2 < sum(char.isalnum() for char in text):
        stem += f"_{_hash(text)}"
    return f"{stem}.md"


def title_of(text: str) -> str:
    """The first words of a text for a heading; as many as it takes to keep its negation, and what it
    is limited to."""
    first = next(iter(sentences(text)), "")
    whole = fold(first)[:_LONGEST_TITLE]
    short = whole
    if len(whole) > _TITLE_LETTERS:
        short = whole[: max(whole.rfind(" ", 0, _TITLE_LETTERS + 1), 0) or _TITLE_LETTERS]
    cut = whole[len(short) :]
    kept = whole if limits(cut) or negates(short) != negates(whole) else short
    return kept.rstrip(" .,;:!?。！？，")


def free_names(path: str, text: str = "") -> Iterator[str]:
    """The path, then the ones to try when another memory has it; the last is the text's own."""
    stem = path.removesuffix(".md")
    yield path
    yield from (f"{stem}-{number}.md" for number in range(2, _NUMBERED))
    yield f"{stem[:70]}-{_hash(text)}.md"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def _fitting(text: str, room: int) -> list[str]:
    """The words for a name in the order of the text: before all others what a reader must not miss,
    which is a negation with the word that it denies, and a number or letter with what it numbers."""
    words = [word for word, tells in plain_words(text) if tells]
    denied = [
        at + step for at, word in enumerate(words) if NEGATION.fullmatch(word) for step in (0, 1)
    ]
    marks = [
        at - step
        for at, word in enumerate(words)
        if word.isdigit() or len(word) == 1
        for step in (0, 1)
    ]
    chosen: set[int] = set()
    for at in (*denied, *marks[:_NAME_WORDS], *range(len(words))):
        essential = at in denied or at in marks[:_NAME_WORDS]
        if not 0 <= at < len(words) or at in chosen:
            continue
        if (essential or len(chosen) < _NAME_WORDS) and len(words[at]) < room:
            chosen.add(at)
            room -= len(words[at]) + 1
    return [words[at] for at in sorted(chosen)]


def why_bad_name(path: str, existing: Iterable[str] = ()) -> str:
    """ "" or why no memory may be written at this path. A file that is there already may be updated."""
    existing = list(existing)
    if path in existing:
        return ""
    *folders, file = path.split("/")
    stem = file.removesuffix(".md")
    if stem == file:
        return f"{printable(path)} does not end in .md"
    if len(folders) >= _MOST_PARTS:
        return f"{printable(path)} lies more than {_MOST_PARTS} folders deep"
    for part in (*folders, stem):
        if part.casefold() in _DEVICES:
            return f"{printable(path)} has the name of a device"
        if not _PART.fullmatch(part):
            return (
                f"{printable(path)} is not a memory name: "
                "use 1 to 80 of a-z, 0-9, _ and - before .md"
            )
    if stem == "memory":
        return f"{printable(path)} would collide with the index MEMORY.md"
    folded = path.casefold()
    for other in existing:
        if other.casefold() == folded:
            return f"{printable(path)} differs from {printable(other)} only in upper and lower case"
    return ""


def printable(path: str) -> str:
    """A path as it may be shown: what is not plain is escaped, and length is bounded."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in path[:120])
    return shown + ("…" if len(path) > 120 else "")
