"""Word lists, an entry a line, and the patterns that are made of them when first used.

A line `[name]` opens a section; `#` begins a comment. An entry is a phrase: `(a|b)` is one of them,
`(a|b)?` may be missing, `…` stands for a few words.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files

_SECTION = re.compile(r"\[(\w+)\]")
_FEW_WORDS = r"(?:\s+[^\s,;:]+){0,5}?"
_FEW_CHARACTERS = "[^，。：；！？,;:\\s]{0,8}?"
NOTHING = "(?!)"


@lru_cache
def sections(name: str) -> dict[str, tuple[str, ...]]:
    """The entries of a list, by section."""
    found: dict[str, list[str]] = {}
    entries: list[str] = []
    for line in files(__name__).joinpath(name).read_text("utf-8").splitlines():
        bare = line.strip()
        if opened := _SECTION.fullmatch(bare):
            entries = found.setdefault(opened[1], [])
        elif bare and not bare.startswith("#"):
            entries.append(bare)
    return {section: tuple(entries) for section, entries in found.items()}


def either(entries: tuple[str, ...], *, spaced: bool) -> str:
    """A pattern for any of the phrases; `spaced`: the language puts spaces between words."""
    if not entries:
        return NOTHING
    made = (_spaced(one) if spaced else _unspaced(one) for one in entries)
    return "(?:" + "|".join(made) + ")" + (r"(?!\w)" if spaced else "")


def anywhere(entries: tuple[str, ...], *, start: str = r"(?<!\w)") -> re.Pattern[str]:
    """Any of the phrases in a text, of languages with spaces and without."""
    spaced = tuple(one for one in entries if one.isascii() or one[0].lstrip("(") < "\u3400")
    unspaced = tuple(one for one in entries if one not in spaced)
    start_unspaced = "^" if start == "^" else ""
    return re.compile(
        f"(?i){start}{either(spaced, spaced=True)}|{start_unspaced}{either(unspaced, spaced=False)}"
    )


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
    return phrase.replace("(", "(?:")
