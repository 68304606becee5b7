"""Finds what a person can't see in a text but a model reads: hidden, bidi and control characters.

Pure functions over text. What people do write is let through: emoji sequences, joiners between
letters of scripts that need them, direction marks in lines with right-to-left letters.
"""

from __future__ import annotations

import re
import unicodedata

# Everything that can be invisible, redirects reading, or drives a terminal. One regular expression
# keeps clean text cheap; the rare hit is then looked at in its place.
_SUSPECT = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    "\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
# Tags and markers by which a text could speak as the system or as another turn.
_SPEAKS_AS_SYSTEM = re.compile(
    r"</?\s*(?:system-reminder|persisted-output|system|assistant|human|function_calls|tool_result)\s*>"
    r"|<\|[a-z_]{2,24}\|>|\[/?INST\]|<</?SYS>>|^(?:Human|Assistant|System):\s",
    re.IGNORECASE | re.MULTILINE,
)
# Scripts whose letters change form by joiners.
_JOINING = (
    "ARABIC", "SYRIAC", "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU",
    "KANNADA", "MALAYALAM", "SINHALA", "KHMER", "MYANMAR", "MONGOLIAN", "TIBETAN", "THAANA", "NKO",
)  # fmt: skip
_SUBDIVISION_FLAG = re.compile(
    "\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)"
    "\U000e007f"
)


def hidden_character(text: str) -> str:
    """ "" or what the first hidden character is and where: `U+202E RIGHT-TO-LEFT OVERRIDE in line 3`."""
    text = _SUBDIVISION_FLAG.sub(lambda flag: "f" * len(flag[0]), text)
    for found in _SUSPECT.finditer(text):
        at = found.start()
        if not _belongs(text, at):
            return f"{_describe(text[at])} in line {text.count(chr(10), 0, at) + 1}"
    return ""


def speaks_as_system(text: str) -> str:
    """ "" or the first marker by which the text poses as the system or as another speaker."""
    found = _SPEAKS_AS_SYSTEM.search(text)
    return found[0].strip() if found else ""


def _describe(char: str) -> str:
    name = unicodedata.name(char, "")
    if not name:
        name = {"Cc": "a control character", "Cs": "a lone surrogate"}.get(
            unicodedata.category(char), "an invisible character"
        )
    return f"U+{ord(char):04X} {name}"


def _belongs(text: str, at: int) -> bool:
    char = text[at]
    before = text[at - 1] if at else ""
    after = text[at + 1 : at + 2]
    if char in "\u200c\u200d":
        letters = _joins(before) and _joins(after)
        return letters or (char == "\u200d" and _pictures(before) and _pictures(after))
    if char in "\ufe0e\ufe0f":
        return _pictures(before) or (before in "0123456789#*" and before != "")
    if char in "\u200e\u200f\u061c":
        return _has_right_to_left(_line_around(text, at))
    if char in "\ufffd\ufffc":
        return True  # the visible signs for "could not be read" and "an object was here"
    return char == "\u180b" and before.isalpha()


def _joins(char: str) -> bool:
    return char != "" and unicodedata.name(char, "").startswith(_JOINING)


def _pictures(char: str) -> bool:
    return char != "" and (
        unicodedata.category(char) in ("So", "Sk", "Sm", "Po") or char == "\ufe0f"
    )


def _line_around(text: str, at: int) -> str:
    start = max(text.rfind("\n", 0, at) + 1, at - 500)
    end = text.find("\n", at)
    return text[start : min(len(text) if end < 0 else end, at + 500)]


def _has_right_to_left(line: str) -> bool:
    return any(
        unicodedata.bidirectional(char) in ("R", "AL")
        for char in line
        if char > "\u0590" and char not in "\u200f\u061c"
    )
