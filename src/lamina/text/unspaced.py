"""Whether two sentences of Chinese, Japanese or Korean can't both be right. Words have no edges there, or endings
that carry what other languages say with a word, so the sentences are laid side by side: only such as part
at a single place are about the same thing, and what stands at that place, and before and behind it, decides. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from lamina.text.lists import Listed, sections

LEAST_ALIKE = 0.28  # of the pairs of characters, before two sentences are laid side by side
MOST_APART = 10  # pairs that one has alone
_LEAST_FRAME = 4  # characters that both have, as a sentence has less to say than that
_ENOUGH = 6  # with so many it is clear of what both speak
_LONGEST_NAME = 8
_WIDE = re.compile("[ぁ-ヿ㐀-鿿가-힣]")

_UNIT = re.compile(r"\d+(?:[.,:]\d+)*|[A-Za-z][\w.+#/-]*|\s+|.", re.ASCII)
_BETWEEN = re.compile("(?<=[ぁ-ヿ㐀-鿿]) +| +(?=[ぁ-ヿ㐀-鿿])")
_TOPIC_BEHIND = re.compile("(?<=[ぁ-ヿ㐀-鿿A-Za-z][にでとへ])は")  # "には" says what "に" says
_A_NUMBER = re.compile(r"(?<![A-Za-z\d])\d")  # "S3" is a name
_MARKUP, _STRESS = Listed("unspaced.markup"), Listed("unspaced.stress")
_POINTS, _DATED = Listed("unspaced.points"), Listed("unspaced.dated")
_IF, _THEN = Listed("unspaced.if"), Listed("unspaced.then")
_TWICE = (
    (Listed("unspaced.must_ja"), "る"),
    (Listed("unspaced.may_ja"), "よい"),
    (Listed("unspaced.must_ko"), "야 한다"),
    (Listed("unspaced.must_zh"), "必须"),
)
_ZH_NOT, _ZH_SO = Listed("unspaced.not_zh"), Listed("unspaced.so_zh")
_JA_NOT, _JA_ENDING = Listed("unspaced.not_ja"), Listed("unspaced.ending_ja")
_KO_NOT, _KO_ENDING = Listed("unspaced.not_ko"), Listed("unspaced.ending_ko")
_WEEKLY = Listed("unspaced.weekly")
_WEEK = ("一二三四五六日天", "月火水木金土日", "월화수목금토일")
_NUMERAL, _MEASURE = Listed("unspaced.numeral"), Listed("unspaced.measure")
_ORDINAL, _COUNTED = Listed("unspaced.ordinal"), Listed("unspaced.counted")
_LIMIT, _EVERY, _IS = Listed("unspaced.limit"), Listed("unspaced.every"), Listed("unspaced.is")
_TOPIC = Listed("unspaced.topic")
_ZH_TAKES, _ZH_IN = Listed("unspaced.takes_zh"), Listed("unspaced.in_zh")
_ZH_INSIDE = Listed("unspaced.inside_zh")
_JA_PHRASE, _JA_TAKES = Listed("unspaced.phrase_ja"), Listed("unspaced.takes_ja")
_KO_TAKES, _KO_OBJECT = Listed("unspaced.takes_ko"), Listed("unspaced.object_ko")
_KO_CHOSEN, _KO_COPULA = Listed("unspaced.chosen_ko"), Listed("unspaced.copula_ko")


def is_wide(sentence: str) -> bool:
    """Is it written without spaces, or in Korean?"""
    if sentence.isascii():
        return False
    wide = len(_WIDE.findall(sentence))
    return wide > 2 and 4 * wide >= len(sentence)


@lru_cache(maxsize=4096)
def pairs_of(sentence: str) -> Collection[str]:
    """Its pairs of characters, each once; all numbers are alike."""
    text = _NUMERAL.sub("0", _plain(sentence).replace(" ", ""))
    return tuple(dict.fromkeys(text[at : at + 2] for at in range(len(text) - 1)))


class _Parted(NamedTuple):
    """Two sentences of which only this is not the same."""

    head: str
    one: str
    other: str
    tail: str

    @property
    def turned(self) -> _Parted:
        return _Parted(self.head, self.other, self.one, self.tail)


def parting(one: str, other: str) -> tuple[str, bool]:
    """ "" or in what two sentences on the same thing differ, and whether the thing is clear by itself."""
    first, second = _plain(one), _plain(other)
    if _POINTS.match(first) or _DATED.search(first[:8]) or _DATED.search(second[:8]):
        return "", False
    language = _language(first)
    if language != _language(second) or _IF.match(first):
        return "", False
    at = _laid_side_by_side(first, second)
    if _THEN.match(at.tail):
        return "", False
    frame = len((at.head + at.tail).replace(" ", ""))
    if not (at.one or at.other) or frame < _LEAST_FRAME or (at.head + at.tail).endswith(":"):
        return "", False
    reason = (
        "one of them says not"
        if _denied(at, language) or _denied(at.turned, language)
        else _opposed(first, second)
    )
    if not reason and _one_value(at, language):
        reason = f"{at.one.strip()} / {at.other.strip()}"
    return reason, frame >= _ENOUGH


@lru_cache(maxsize=4096)
def _plain(sentence: str) -> str:
    text = _MARKUP.sub("", unicodedata.normalize("NFKC", sentence))
    for pattern, instead in _TWICE:
        text = pattern.sub(instead, text)
    text = _TOPIC_BEHIND.sub("", _BETWEEN.sub("", _STRESS.sub("", text)))
    return " ".join(text.split()).strip(" .。!、-")


def _language(text: str) -> str:
    if any("가" <= char <= "힣" for char in text):
        return "ko"
    return "ja" if any("ぁ" <= char <= "ヿ" for char in text) else "zh"


def _laid_side_by_side(one: str, other: str) -> _Parted:
    """Where they part, by whole numbers and Latin words and by single characters of other scripts."""
    first, second = _UNIT.findall(one), _UNIT.findall(other)
    start = _same(first, second)
    while (
        start and _numeral(first[start - 1]) and _numeral(*first[start:][:1], *second[start:][:1])
    ):
        start -= 1  # "十五" and "十六" part before the number
    ends = first[start:][::-1], second[start:][::-1]
    end = _same(*ends)
    while end and _numeral(ends[0][end - 1]) and _numeral(*ends[0][end:][:1], *ends[1][end:][:1]):
        end -= 1
    return _Parted(
        "".join(first[:start]),
        "".join(first[start : len(first) - end]),
        "".join(second[start : len(second) - end]),
        "".join(first[len(first) - end :]),
    )


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _numeral(*units: str) -> bool:
    return any(unit in "一二三四五六七八九十百千万两" for unit in units)


# ---- what may stand where they part


def _denied(at: _Parted, language: str) -> bool:
    """Is the other the one with a negation, as the language builds it?"""
    if bool(_ZH_NOT.fullmatch(at.other)) and bool(_ZH_SO.fullmatch(at.one)):
        return True
    if language == "ja":
        if not (_JA_ENDING.fullmatch(at.one) and _JA_ENDING.fullmatch(at.other)):
            return False
        kana = _kana(at.head[::-1])[::-1], _kana(at.tail)  # a negation may begin or end there
        one, other = (_JA_NOT.findall(part.join(kana)) for part in (at.one, at.other))
        return len(other) == len(one) + 1
    if language == "ko" and _KO_NOT.search(at.other) and not _KO_NOT.search(at.one):
        return _is_ending(at.one, at.other) and _is_ending(_KO_NOT.sub("", at.other), at.one)
    return False


def _kana(text: str) -> str:
    return "".join(takewhile(lambda char: "ぁ" <= char <= "ん", text))


def _is_ending(text: str, beside: str) -> bool:
    """Nothing but how a verb ends: its last syllable melts into the ending, so its first sound is enough."""
    same = bool(text and beside) and _sound(text[0]) == _sound(beside[0])
    return bool(_KO_ENDING.fullmatch(text[same:]))


def _sound(syllable: str) -> str:
    return unicodedata.normalize("NFD", syllable)[0]


@lru_cache(maxsize=1)
def _opposites() -> Sequence[tuple[str, str]]:
    pairs = [tuple(line.split()) for line in sections("unspaced.txt")["opposites"]]
    return [(one, other) for a, b in pairs for one, other in ((a, b), (b, a))]


def _opposed(one: str, other: str) -> str:
    """Are they the same but for a word and its opposite?"""
    for word, opposite in _opposites():
        place = one.find(word)
        while place >= 0:
            rest = one[place + len(word) :]
            if one[:place] + opposite + rest == other and (place or not _TOPIC.search(rest)):
                return f"{word} / {opposite}"
            place = one.find(word, place + 1)
    return ""


def _one_value(at: _Parted, language: str) -> bool:
    """Does a value stand there, of which only one can be right?"""
    if not (at.one and at.other and at.head):
        return False
    if {at.one, at.other} == {"日", "天"} or _as_number(at.one) == _as_number(at.other):
        return False
    if any(at.one in days and at.other in days for days in _WEEK):
        marked = _WEEKLY.search(at.head)
        if marked or at.tail.startswith(("曜", "요일")):  # a day of which both speak stands first
            return len(at.head[: marked.start() if marked else None].strip()) > 1
    if _NUMERAL.fullmatch(at.one) and _NUMERAL.fullmatch(at.other):
        return _measured(at)
    if _is_measure(at.one) and _is_measure(at.other):
        return True
    if max(len(at.one), len(at.other)) > _LONGEST_NAME and not (at.one + at.other).isascii():
        return False
    if _A_NUMBER.search(f"{at.one} {at.other}") and not (at.one + at.other).isascii():
        return False
    return {"zh": _named_zh, "ja": _named_ja, "ko": _named_ko}[language](at)


def _as_number(text: str) -> float | str:
    """15 and 15.0 are one number."""
    plain = text.replace(",", "")
    return float(plain) if re.fullmatch(r"\d+(?:\.\d+)?", plain) else text


def _is_measure(text: str) -> bool:
    number = _NUMERAL.match(text)
    return bool(number and _MEASURE.fullmatch(text[number.end() :]))


def _measured(at: _Parted) -> bool:
    """A number that measures: not the number of a plan or a day, nor how many there are of a thing."""
    if at.head.endswith(("第", "#")):
        return False
    if _MEASURE.match(at.tail):
        return True
    if _COUNTED.match(at.tail):
        return bool(_LIMIT.search(at.head + at.tail))
    if _ORDINAL.match(at.tail):
        return bool(_EVERY.search(at.head[-4:]))
    return bool(_IS.search(at.head) or _LIMIT.search(at.head + at.tail))


def _named_zh(at: _Parted) -> bool:
    """Behind a word that takes one thing only: with, by, in, is."""
    if not {*"的了和、,"}.isdisjoint(at.one + at.other):
        return False
    there = _ZH_IN.search(at.head) and _ZH_INSIDE.fullmatch(at.tail)
    return bool(there or _ZH_TAKES.search(at.head))


def _named_ja(at: _Parted) -> bool:
    """A phrase of its own, with the particle of a means, a place or a copula behind it."""
    phrase = _JA_PHRASE.search(at.head) and _JA_TAKES.match(at.tail)
    return bool(phrase) and not any(
        "ぁ" <= char <= "ん" or char in "、," for char in at.one + at.other
    )


def _named_ko(at: _Parted) -> bool:
    """The same by the ending of the word, not of the first, of which the sentence speaks."""
    head, gap, start = at.head.rpartition(" ")
    end, _, rest = at.tail.partition(" ")
    if not head or not gap:
        return False
    one, other = (start + part + end for part in (at.one, at.other))
    for pattern, behind in ((_KO_TAKES, True), (_KO_OBJECT, bool(_KO_CHOSEN.match(rest)))):
        if pattern.search(one) and pattern.search(other):
            return behind and max(at.one.count(" "), at.other.count(" ")) < 2
    copulas = not rest and all(
        _KO_COPULA.search(word) and not _is_verb(word) for word in (one, other)
    )
    return copulas and " " not in at.one + at.other


def _is_verb(word: str) -> bool:
    """ "간다", "했다" and "하다" against "민수다": behind a name in a vowel the copula is bare."""
    stem = word.removesuffix("다")
    if stem == word or stem.endswith("이"):
        return False
    return len(unicodedata.normalize("NFD", stem[-1:])) > 2 or stem[-1:] in "하되"
