"""Whose words a text holds: what was typed and what was pasted, and what is only quoted or handed
over as material. Pure.

Fences, quoted lines, attached files in tags and piped input are pasted; the rest is the user's own
word. Where a text can be read both ways (a fence that never closes), it counts as pasted, because
only typed words can prove a memory.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from lamina.messages import Origin
from lamina.text.lists import words

_QUOTED = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)*>")
_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)*(`{3,}|~{3,})")
_TICKS = re.compile(r"`{3,}")
_TAG = re.compile(r"\s*<([A-Za-z][\w:.-]*)(?:\s[^<>]*)?>")
_TAG_END = re.compile(r"</([A-Za-z][\w:.-]*)>")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a user's text, `text[start:end]`, and whose word it is."""

    origin: Literal["typed", "pasted"]
    start: int
    end: int
    text: str


def split(
    text: str, *, piped: bool = False, pasted: Iterable[tuple[int, int]] = ()
) -> tuple[Span, ...]:
    """The spans of `text` in order, without gaps. `pasted` are ranges that a terminal saw pasted."""
    marks = bytearray(len(text))  # 1 = pasted
    if piped:
        marks = bytearray(b"\x01" * len(text))
    else:
        lines = _lines(text)
        _mark_tags(text, lines, marks)
        _mark_fences(text, lines, marks)
        for start, end in lines:
            if _QUOTED.match(text, start, end):
                _mark(marks, start, end)
        for start, end in pasted:
            _mark(marks, max(0, start), min(len(text), end))
    return _spans(text, marks)


def typed_parts(blocks: Sequence[tuple[Origin, str]]) -> list[str]:
    """Only what was typed in these blocks: typed blocks, without the pasted parts inside them."""
    return [
        span.text
        for origin, text in blocks
        if origin == "typed"
        for span in split(text)
        if span.origin == "typed" and span.text.strip()
    ]


def untyped_parts(blocks: Sequence[tuple[Origin, str]]) -> list[str]:
    """What neither the user typed nor the assistant said: pasted parts, tool results, hooks …"""
    parts: list[str] = []
    for origin, text in blocks:
        if origin == "typed":
            parts += [span.text for span in split(text) if span.origin == "pasted"]
        elif origin != "assistant":
            parts.append(text)
    return parts


def _lines(text: str) -> list[tuple[int, int]]:
    # splitlines knows every line end that a renderer may honour, U+2028 and form feed included.
    lines: list[tuple[int, int]] = []
    start = 0
    for line in text.splitlines(keepends=True):
        lines.append((start, start + len(line)))
        start += len(line)
    return lines


def _mark(marks: bytearray, start: int, end: int) -> None:
    if end > start:
        marks[start:end] = b"\x01" * (end - start)


def _mark_tags(text: str, lines: Sequence[tuple[int, int]], marks: bytearray) -> None:
    """A tag that opens a line, to the last tag that closes it: what is inside may fake an end."""
    last_end = {tag[1]: tag.start() for tag in _TAG_END.finditer(text)}
    done = 0
    for start, end in lines if last_end else ():
        if start < done:
            continue
        tag = _TAG.match(text, start, end)
        close = last_end.get(tag[1], -1) if tag else -1
        if close >= start:
            done = lines[bisect.bisect_right(lines, close, key=lambda line: line[0]) - 1][1]
            _mark(marks, start, done)


def _mark_fences(text: str, lines: Sequence[tuple[int, int]], marks: bytearray) -> None:
    first = -1  # where the first fence opened
    fence = ""  # the marker that closes the open one
    loose = False  # it opened in the middle of a line, so it may close there too
    for start, end in lines:
        line = text[start:end]
        if fence:
            _mark(marks, start, end)
            if _closes(line.strip(), fence, loose=loose):
                fence = ""
            continue
        opened = _FENCE.match(line)
        runs = [*_TICKS.finditer(line)]
        if opened and (opened[1][0] == "~" or len(runs) == 1):
            fence, loose, at = opened[1], False, start
        elif len(runs) % 2:
            fence, loose, at = runs[0][0], True, start + runs[0].start()
        elif runs:
            _mark(marks, start, end)  # a fence that opens and closes on one line
            continue
        else:
            continue
        first = at if first < 0 else first
        _mark(marks, at, end)
    if fence:  # never closed: pasted text may have held a marker, so no boundary can be trusted
        _mark(marks, first, len(text))


def _closes(line: str, fence: str, *, loose: bool) -> bool:
    if line and not line.strip(fence[0]) and len(line) >= len(fence):
        return True
    return loose and any(len(run[0]) >= len(fence) for run in _TICKS.finditer(line))


def _spans(text: str, marks: bytearray) -> tuple[Span, ...]:
    spans: list[Span] = []
    start = 0
    while start < len(text):
        mark = marks[start]
        end = marks.find(1 - mark, start)
        end = len(text) if end < 0 else end
        spans.append(Span("pasted" if mark else "typed", start, end, text[start:end]))
        start = end
    return tuple(spans)


QUOTE = "\x01"  # stands for each character of a quotation

_QUOTES = re.compile(
    r"`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»|»[^«\n]*«|「[^」\n]*」|『[^』\n]*』|《[^》\n]*》"
    r"|(?<![\w])'[^'\n]{2,}?(?:'\w[^'\n]*?)*'(?!\w)|(?<!\w)‘[^’\n]*’(?!\w)"
)
_MATERIAL = words("own_words.material")


def without_quotations(sentence: str) -> str:
    """Same length, with what stands in quotation marks or backticks blanked out."""
    return _QUOTES.sub(lambda match: QUOTE * len(match[0]), sentence)


def handed_over_in(plain: str) -> str | None:
    """What follows "translate:" or "he said:", which is material and not meant; None if nothing does."""
    colon = _COLON.search(plain)
    return plain[colon.end() :] if colon and _MATERIAL.search(plain, 0, colon.start()) else None


_COLON = re.compile(r":(?=\s|$|\x01)|：")
