"""What every hit of a regular expression must hold as plain bytes, so that a search looks closely only
where those are. Reads and writes nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_ASCII = re.compile(r"[A-Za-z0-9_.-]")
_ESCAPED_PLAIN = ("\\.", "\\-", "\\_")
_CODE = re.compile(r"\\[xuUN0-9]")  # a character by its number, or a group again
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?|[()|]|\{[\d,]*\}|[*+?]|[^\\]", re.DOTALL)
# Letters that i, s and k also fit when case is ignored: İ ı ſ and the Kelvin sign; the beginning that
# each shares with others is looked for first, which is faster.
_OTHER_CASES = (
    (b"\xc4", (b"\xc4\xb0", b"\xc4\xb1")),
    (b"\xc5", (b"\xc5\xbf",)),
    (b"\xe2\x84", (b"\xe2\x84\xaa",)),
    (b"\\u01", (b"\\u0130", b"\\u0131", b"\\u017f")),
    (b"\\u21", (b"\\u212a",)),
)


@dataclass(frozen=True, slots=True)
class Way:
    """Parts that a hit holds all of."""

    parts: tuple[bytes, ...]  # the longest first
    lowered: bool  # they are to be found in the text in lower case


@dataclass(frozen=True, slots=True)
class Plain:
    """A hit goes one of these ways; where there are none, nothing is sure."""

    ways: tuple[Way, ...]
    ignores_case: bool

    def may_be_in(self, piece: bytes) -> bool:
        """Whether a hit can be in a piece of JSON."""
        if not self.ways:
            return True
        lowered = piece.lower() if any(way.lowered for way in self.ways) else b""
        return any(
            all(part in (lowered if way.lowered else piece) for part in way.parts)
            for way in self.ways
        ) or (self.ignores_case and has_other_cases(lowered))


def has_other_cases(lowered: bytes) -> bool:
    """Whether a letter is in it that fits an ASCII one without being its upper or lower case."""
    return any(
        beginning in lowered and any(letter in lowered for letter in letters)
        for beginning, letters in _OTHER_CASES
    )


def plain_of(pattern: re.Pattern[str]) -> Plain:
    """What to look for first. Letters, digits and `_.-` count: JSON holds ASCII ones as they are, others
    as they are or by their number. Nothing else does: of two words in a call, say, nobody knows how
    the file writes what is between them."""
    folds = bool(pattern.flags & re.IGNORECASE)
    ways: list[Way] = []
    for parts in _alternatives(pattern, folds=folds):
        found = sorted({part for part in parts if part}, key=lambda part: (-len(part), part))
        if not found:
            return Plain((), folds)
        raw = [part.lower() if folds else part for part in found]
        ways.append(Way(tuple(part.encode() for part in raw), folds))
        if not all(map(str.isascii, raw)):
            by_number = tuple(json.dumps(part)[1:-1].lower().encode() for part in raw)
            ways.append(Way(by_number, lowered=True))
    return Plain(tuple(ways), folds)


def _alternatives(pattern: re.Pattern[str], *, folds: bool) -> list[list[str]]:
    """For each branch outside of groups its plain stretches; one empty list where none is sure."""
    if pattern.flags & re.VERBOSE or "(?#" in pattern.pattern:
        return [[]]
    branches, depth = [[""]], 0
    for sign in _TOKEN.findall(pattern.pattern):
        stretches = branches[-1]
        if _CODE.fullmatch(sign):
            return [[]]
        if sign in ("(", "(?"):
            depth += 1
        elif sign == "|" and depth == 0:
            branches.append([""])
            continue
        elif sign in ("*", "?") or (sign[0] == "{" and len(sign) > 1):
            stretches[-1] = stretches[-1][:-1]  # what stands before may be missing
        letter = sign[1:] if sign in _ESCAPED_PLAIN else sign
        if depth == 0 and sign != "." and _is_plain(letter, folds=folds):
            stretches[-1] += letter
        else:
            stretches.append("")
        if sign == ")":
            depth -= 1
    return branches


def _is_plain(sign: str, *, folds: bool) -> bool:
    if len(sign) != 1 or sign.isascii():
        return _ASCII.fullmatch(sign) is not None
    return sign.isalnum() and not (folds and not sign.lower() == sign == sign.upper())
