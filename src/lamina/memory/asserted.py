"""What the user states in a quote: not what they ask or want forgotten, and not what stands in
quotation marks, which is somebody else's, unless they ask to remember it. Pure: a quote and typed text in, sentences out.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise

from lamina.memory import wording
from lamina.memory.forget_wishes import forget_wish
from lamina.memory.remember_wishes import asks_to_remember, only_asks

_ENDS = re.compile(r"((?<=[.!?])\s+|(?<=[。！？])\s*|(?<=[.!?][\"”’)])\s+|(?<!\s)\s*\n\s*)")
# A question by its first words, whatever it ends with: people leave the mark out.
_INVERTED = re.compile(
    r"(?:should|shall|may|might|is|are|was|were|does|did|has) (?:i|we|you|he|she|it|they)\b|(?:do|have) (?:i|we|you|they)\b"
    r"|(?:is|are|should|does) (?:the|this|that|there|any\w*|our|my)\b|am i\b"
    r"|(?:can|could|would) (?:i|he|she|it|they|this|that)\b"
    r"|(?:soll|sollen|sollte|sollten|darf|dürfen|muss|müssen) (?:ich|wir|man)\b"
)
# And only with the mark: "what I want is …" and "when I say ship, …" are none.
_ASKING = re.compile(
    r"(?:what|why|how|when|where|who|whom|whose|which|any|is|are|was|were|do|does|did|has|have|should)\b"
    r"|(?:was|wie|warum|wieso|weshalb|wann|wo|wer|wen|wem|welche\w*|ist|sind|hat|haben|hast|gibt|soll\w*)\b"
    r"|(?:que|quoi|qui|quand|où|comment|pourquoi|combien|est-ce|qué|quién|cuándo|dónde|cómo|por qué)\b"
)
_SUGGESTS = re.compile(
    r"(?:why (?:not|don'?t (?:we|you))|how about|what about|warum (?:nicht|nehmen wir nicht)|wie wäre"
    r"|(?:is|would) it (?:be )?(?:possible|ok(?:ay)?|fine) (?:for you |if you |to )|(?:do|would) you mind"
    r"|do you think you (?:can|could)|(?:can|could|may) i (?:ask|get|have) you to|(?:may|might) i (?:say|suggest|add|note|remind))\b"
)
_TAG = re.compile(
    r",\s*(?:ok(?:ay)?|right|yes|alright|please|deal|understood|got it|no|ja|oder|gut|verstanden|bitte"
    r"|d'accord|vale|(?:is|are|do|does|did|was|were|have|has|ca|wo|should)n'?t \w+)\s*\?+$"
)
_CHINESE = re.compile(r"(?:吗|呢|么)\W*$|是不是|要不要|能不能|可不可以|什么|怎么|为什么|哪")
_CHINESE_POLITE = re.compile(r"(?:请|麻烦|能|可以|帮)")
_LEAD = re.compile(r"^(?:(?:and|but|so|ok(?:ay)?|hey|hm+|also|btw|wait|und|aber|also)[,\s]+)*")
_JOINT = re.compile(r"[,;:，；：]\s*|\s[–—-]+\s")
_MARKS = {"“": "”", "«": "»", "„": "“", "「": "」", "『": "』"}
_MOST_PLACES = 50  # looked at: what is said this often is the same everywhere


@dataclass(frozen=True, slots=True)
class Told:
    """Where a quote stands: its sentences, and the words of them that are the user's statement."""

    sentences: tuple[str, ...]
    stated: str
    wished: bool  # every one of them asks to remember, or stands beside one that says just that
    forgets_later: bool = False  # a wish to forget comes after they begin


def told(quote: str, parts: Iterable[str]) -> Told | None:
    """The place in typed text where a quote states the most; None if it stands nowhere."""
    needle = wording.fold(quote)
    found = [place for part in parts for place in _places(needle, part)] if needle else []
    return max(found, key=lambda one: (one.wished, len(one.stated)), default=None)


def question_in(sentence: str) -> int:
    """Where a folded sentence begins to ask; its length if it does not. What stands before, clause by
    clause, is stated: "I'm new to Rust, how do I …?". Orders in the form of a question ("can you …?")
    and tags (", ok?") ask nothing."""
    plain = sentence.lower().replace("’", "'")
    if len(plain) == len(sentence) and not _TAG.search(plain):
        marked = plain.endswith("?")
        starts = [0, *(joint.end() for joint in _JOINT.finditer(plain))]
        for start, end in pairwise([*starts, len(plain)]):
            if _asks(_LEAD.sub("", plain[start:end], count=1), marked=marked):
                return start
    return len(sentence)


def _asks(clause: str, *, marked: bool) -> bool:
    if _SUGGESTS.match(clause):
        return False
    if _INVERTED.match(clause):
        return True
    chinese = _CHINESE.search(clause) and not _CHINESE_POLITE.match(clause)
    return marked and bool(_ASKING.match(clause) or chinese)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a folded sentence is, wherever it stands."""

    forgets: bool  # it states nothing
    remembers: bool
    only_remembers: bool  # it speaks of the sentences beside it
    asks_at: int


@lru_cache(maxsize=256)
def _kind(sentence: str) -> _Kind:
    forgets = forget_wish(sentence) is not None
    remembers, only = asks_to_remember(sentence), only_asks(sentence)
    return _Kind(forgets, remembers, only, question_in(sentence))


def _places(needle: str, part: str) -> Iterator[Told]:
    starts, sentences, text = _taken_apart(part)
    kinds = [_kind(one) for one in sentences] if needle in text else []
    forgets = max((n for n, kind in enumerate(kinds) if kind.forgets), default=-1)
    for at in islice(_found(needle, text), _MOST_PLACES):
        end = at + len(needle)
        touched = range(bisect_right(starts, at) - 1, bisect_right(starts, end - 1))
        met = [n for n in touched if not kinds[n].forgets]
        later = forgets >= (met[0] if met else touched.stop)
        yield _told(starts, sentences, kinds, met, (at, end), forgets_later=later)


def _found(needle: str, text: str) -> Iterator[int]:
    at = text.find(needle)
    while at >= 0:
        if wording.bounded(text, at, at + len(needle)):
            yield at
        at = text.find(needle, at + 1)


def _told(
    starts: Sequence[int],
    sentences: Sequence[str],
    kinds: Sequence[_Kind],
    met: Sequence[int],
    place: tuple[int, int],
    *,
    forgets_later: bool,
) -> Told:
    """What the sentences `met` state at a place of the text."""
    at, end = place
    beside = {n for m in met for n in (m - 1, m, m + 1) if 0 <= n < len(sentences)}
    wished = all(kinds[n].remembers for n in met) or any(kinds[n].only_remembers for n in beside)
    stated = [
        _stated(sentences[n], kinds[n].asks_at, max(at - starts[n], 0), end - starts[n])
        for n in met
        if wished or not _quoted(sentences[n], at - starts[n], end - starts[n])
    ]
    spoken = tuple(sentences[n] for n in met)
    return Told(spoken, " ".join(stated).strip(), wished and bool(spoken), forgets_later)


def _stated(sentence: str, asks: int, start: int, end: int) -> str:
    words = sentence[start : min(end, asks)]
    return words if asks == len(sentence) or wording.content_stems(words) else ""


def _taken_apart(part: str) -> tuple[list[int], list[str], str]:
    """Where each sentence of a text begins, the sentences, and the text: all folded."""
    starts: list[int] = []
    sentences: list[str] = []
    text = ""
    for number, piece in enumerate(_ENDS.split(part)):
        if number % 2:
            text += " " if piece else ""
        elif folded := wording.fold(piece):
            starts.append(len(text))
            sentences.append(folded)
            text += folded
    return starts, sentences, text


def _quoted(sentence: str, start: int, end: int) -> bool:
    """Does a stretch lie between quotation marks?"""
    before, after = sentence[: max(start, 0)], sentence[end:]
    if before.count('"') % 2 and '"' in after:
        return True
    for opens, closes in _MARKS.items():
        if before.rfind(opens) > before.rfind(closes) and closes in after:
            return True
    return False
