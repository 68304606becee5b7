"""Word lists, an entry a line, and the patterns that are made of them when first used.

A line `[name]` opens a section; `#` begins a comment. `(a|b)` is one of them, `(a|b)?` may be missing,
`{NAME}` is any entry of the section NAME. In the lists of wishes an entry is a phrase, and `…` stands
for a few words; in the others it may use the signs of a regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.resources import files
from typing import Any

_SECTION = re.compile(r"\[(\w+)\]")
_NAME = re.compile(r"\{([A-Z_]+)\}")
_GROUP = re.compile(r"(?<!\\)\((?!\?)")
_FEW_WORDS = r"(?:\s+[^\s,;:]+){0,5}?"
_FEW_CHARACTERS = "[^，。：；！？,;:\\s]{0,8}?"
NOTHING = "(?!)"


@lru_cache
def sections(name: str) -> dict[str, tuple[str, ...]]:
    """The entries of a list, by section."""
    found: dict[str, list[str]] = {}
    section: list[str] = []
    for line in entries(name):
        if opened := _SECTION.fullmatch(line):
            section = found.setdefault(opened[1], [])
        else:
            section.append(line)
    return {name: tuple(section) for name, section in found.items()}


def entries(name: str) -> list[str]:
    """The lines of a list that say something, the names of sections among them."""
    lines = map(str.strip, files(__name__).joinpath(name).read_text("utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


class Listed:
    """Any entry of a section, as a pattern that is made when it is first asked."""

    def __init__(
        self, name: str, *, whole_words: bool = False, flags: re.RegexFlag = re.IGNORECASE
    ) -> None:
        self._list, _, self._section = name.partition(".")
        self._whole_words = whole_words
        self._flags = flags

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        lists = sections(f"{self._list}.txt")
        entries = lists[self._section]
        pattern = "|".join(entries)
        if self._whole_words:
            # Chinese and its like have no edges of words.
            spaced = [one for one in entries if not _is_wide(one)]
            wide = [one for one in entries if _is_wide(one)]
            pattern = "|".join([*([rf"\b({'|'.join(spaced)})\b"] if spaced else ()), *wide])
        return re.compile(filled(_GROUP.sub("(?:", pattern), lists), self._flags)

    def search(self, text: str, *within: int) -> re.Match[str] | None:
        return self._pattern.search(text, *within)

    def match(self, text: str, *within: int) -> re.Match[str] | None:
        return self._pattern.match(text, *within)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self._pattern.fullmatch(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self._pattern.finditer(text)

    def findall(self, text: str) -> list[str]:
        return self._pattern.findall(text)

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        return self._pattern.split(text, maxsplit)

    def sub(self, instead: str | Callable[[re.Match[str]], str], text: str, count: int = 0) -> str:
        return self._pattern.sub(instead, text, count)


def words(name: str) -> Listed:
    """Any entry of the section `list.section`, as whole words."""
    return Listed(name, whole_words=True)


def filled(pattern: str, lists: dict[str, tuple[str, ...]]) -> str:
    """The pattern with the entries of a section in the place of its name."""

    def entries(name: re.Match[str]) -> str:
        return filled(f"(?:{_GROUP.sub('(?:', '|'.join(lists[name[1]]))})", lists)

    return _NAME.sub(entries, pattern)


def _is_wide(entry: str) -> bool:
    """Is it Chinese, Japanese or Korean by its first letter?"""
    return next((char >= "\u3040" for char in entry if char.isalpha()), False)


def either(lists: dict[str, tuple[str, ...]], section: str, *, spaced: bool) -> str:
    """A pattern for any phrase of a section; `spaced`: the language puts spaces between words."""
    entries = lists.get(section, ())
    if not entries:
        return NOTHING

    def named(name: re.Match[str]) -> str:
        return _NAME.sub(named, f"({'|'.join(lists[name[1]])})")

    whole = (_NAME.sub(named, one) for one in entries)
    made = (_spaced(one) if spaced else _unspaced(one) for one in whole)
    return "(?:" + "|".join(made) + ")" + (r"(?!\w)" if spaced else "")


def anywhere(entries: tuple[str, ...], *, start: str = r"(?<!\w)") -> re.Pattern[str]:
    """Any of the phrases in a text, of languages with spaces and without."""
    kinds = {
        "spaced": tuple(one for one in entries if not _is_wide(one)),
        "wide": tuple(one for one in entries if _is_wide(one)),
    }
    spaced = either(kinds, "spaced", spaced=True)
    wide = either(kinds, "wide", spaced=False)
    return re.compile(f"(?i){start}{spaced}|{'^' if start == '^' else ''}{wide}")


def _unspaced(entry: str) -> str:
    return _grouped(entry.replace(" ", "")).replace("…", _FEW_CHARACTERS)


def _spaced(entry: str) -> str:
    pattern, begun = "", False
    for word in _words(entry):
        optional = word.startswith("(") and word.endswith(")?")
        one = _grouped(word[:-1] if optional else word).replace(" ", r"\s+")
        if word == "…":
            pattern += _FEW_WORDS
        elif optional:
            pattern += rf"(?:\s+{one})?" if begun else rf"(?:{one}\s+)?"
        else:
            pattern += rf"\s+{one}" if begun else one
            begun = True
    return pattern


def _words(entry: str) -> list[str]:
    """The words of a phrase; what stands in brackets is one."""
    words, depth = [""], 0
    for char in entry:
        depth += (char == "(") - (char == ")")
        if char == " " and not depth:
            words.append("")
        else:
            words[-1] += char
    return words


def _grouped(phrase: str) -> str:
    return _GROUP.sub("(?:", phrase)


# ---- whether a pattern is worth a try

ANY_DIGIT = frozenset(("\0digit",))


def needs_of(pattern: re.Pattern[str]) -> list[frozenset[str]]:
    """Sets of words and signs in lower case, of each of which one stands in whatever matches."""
    return [*_needed(import_module("re._parser").parse(pattern.pattern, pattern.flags))]


def _needed(parsed: Iterable[tuple[Any, Any]]) -> Iterator[frozenset[str]]:
    """Of each of these sets one stands, in lower case, in whatever a parsed pattern matches."""
    run = ""
    end: tuple[Any, Any] = ("", None)
    for kind, value in (*parsed, end):
        if str(kind) == "LITERAL":
            run += chr(value).casefold()
            continue
        if run:
            yield frozenset((run,))
        run = ""
        if str(kind) == "SUBPATTERN" or (str(kind) == "MAX_REPEAT" and value[0]):
            yield from _needed(value[-1])
        elif str(kind) == "IN" and all(str(one) == "LITERAL" for one, _ in value):
            yield frozenset(chr(sign).casefold() for _, sign in value)
        elif str(kind) == "IN" and str(value) == "[(CATEGORY, CATEGORY_DIGIT)]":
            yield ANY_DIGIT
        elif str(kind) == "BRANCH":
            ways = [max(_needed(way), key=_tells, default=frozenset[str]()) for way in value[1]]
            if all(ways):
                yield frozenset().union(*ways)


def _tells(words: frozenset[str]) -> tuple[int, int]:
    return -len(words), min(map(len, words))
