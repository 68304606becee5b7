"""Lines broken between words, as a terminal itself does not: for text that comes in pieces and for
whole lines. Code, tables and what is indented like code stay as they are. Pure.
"""

from __future__ import annotations

import re

from lamina.cli.terminal import columns

_BULLET = re.compile(r"(?:[-*+•?]|\d{1,3}[.)])")
_FENCES = ("```", "~~~")
_CODE_INDENT = 4
_NARROWEST = 10  # columns; below that, breaking between words helps nobody


class WordWrap:
    """Takes pieces of text and gives back what can be shown; a word stands once it is whole."""

    def __init__(self, width: int, indent: int | None = None) -> None:
        self._width = width
        self._indent = indent  # of continued lines; None: like the line that is continued
        self._fenced = False
        self._begin_line()

    def _begin_line(self) -> None:
        self._column = 0
        self._margin = self._indent or 0
        self._gap = ""  # white space before the word
        self._word = ""
        self._first = True  # no word of this line stands yet
        self._as_is = self._fenced or self._width < _NARROWEST

    @property
    def at_start(self) -> bool:
        """Whether nothing stands on the line."""
        return self._first and not self._word

    def feed(self, text: str) -> str:
        return "".join(map(self._take, text))

    def end(self) -> str:
        """What was held back; the next text begins anew."""
        shown = self._place() + self._gap
        self._fenced = False
        self._begin_line()
        return shown

    def _take(self, character: str) -> str:
        if character == "\n":
            shown = self._place() + self._gap
            self._begin_line()
            return shown + "\n"
        if character in " \t":
            shown = self._place()
            self._gap += character
            return shown
        if columns(character) > 1:  # scripts without spaces break anywhere
            shown = self._place()
            self._word = character
            return shown + self._place()
        self._word += character
        return self._place() if self._as_is and not self._first else ""

    def _place(self) -> str:
        """The word that is whole now, on this line or on the next."""
        word, gap = self._word, self._gap
        if not word:
            return ""
        self._word = self._gap = ""
        if self._first:
            self._begin_with(gap, word)
        wide = columns(gap) + columns(word)
        starts = self._column <= self._margin
        if self._as_is or starts or self._column + wide <= self._width:
            self._column += wide
            return gap + word
        self._column = self._margin + columns(word)
        return "\n" + " " * self._margin + word

    def _begin_with(self, gap: str, word: str) -> None:
        """The first word says what kind of line this is."""
        self._first = False
        if self._indent is not None:  # our own lines
            return
        if word.startswith(_FENCES):
            self._fenced = not self._fenced
        code = "\t" in gap or len(gap) >= _CODE_INDENT or word.startswith(("|", *_FENCES))
        self._as_is = self._as_is or code
        margin = len(gap) + (len(word) + 1 if _BULLET.fullmatch(word) else 0)
        self._margin = margin if margin <= self._width // 2 else 0


def wrapped(text: str, width: int, indent: int | None = None) -> str:
    """The whole text, with lines of at most `width` columns where its words allow it."""
    wrap = WordWrap(width, indent)
    return wrap.feed(text) + wrap.end()
