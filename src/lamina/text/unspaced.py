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

from lamina.text.lists import sections

LEAST_ALIKE = 0.33  # of the pairs of characters, before two sentences are laid side by side
_LEAST_FRAME = 4  # characters that both have, as a sentence has less to say than that
_ENOUGH = 6  # with so many it is clear of what both speak
_LONGEST_NAME = 8
_HANGUL, _KANA, _HAN = "[가-힣]", "[ぁ-ヿ]", "[㐀-鿿]"
_WIDE = re.compile(r"[ぁ-ヿ㐀-鿿가-힣]")
_UNIT = re.compile(r"\d+(?:[.,:]\d+)*|[A-Za-z][\w.+#/-]*|\s+|.", re.ASCII)
_MARKUP = re.compile(r"\[\[[^\]]*\]\]|[*_`「」『』“”\"]|\]\([^)]*\)")
_BETWEEN = re.compile(r"(?<=[ぁ-ヿ㐀-鿿]) +| +(?=[ぁ-ヿ㐀-鿿])")
_POINTS = re.compile(
    r"参见|参考|参照|详见|见 |関連|相关|참고|참조|관련|下一步|次は|다음|状态|状態|상태"
)
_DATED = re.compile(r"\d{4}[-./年년]|\d{1,2} ?[月월/]")
# "Always", "please" and the like say no more than the sentence itself.
_STRESS = re.compile(r"请|一律|统一|始终|务必|必ず|常に|いつも|原則として|항상|반드시|언제나|꼭 ")
# Two that deny one another demand or allow.
_TWICE = (
    (re.compile(r"な(?:ければ|くては|いと)(?:な(?:らない|りません)|いけ(?:ない|ません))"), "る"),
    (re.compile(r"(?:構|かま)(?:わない|いません)"), "よい"),
    (re.compile(r"지 않으면 안 ?(?:된다|됩니다)"), "야 한다"),
    (re.compile(r"不得不|不能不|必不可少"), "必须"),
)
_ZH_MODAL = "要|可以|可|能够|能|应该|应当|应|得|必须|必|须|需要|需|会|有|是|再|准|许|允许|建议|曾"
_ZH_NOT = re.compile(
    rf"(?:绝|永远|从|还|并|尚|再|严)?(?:不|没|未|别|勿|无|無|非|禁止|禁)(?:{_ZH_MODAL})*"
)
_ZH_SO = re.compile(rf"(?:{_ZH_MODAL}|已经|已|既|正|一定|总是|都)*")
_JA_NOT = re.compile("ない|なく|なかった|ません|ず|ぬ|禁止|不要|不可|なし")
_JA_ENDING = re.compile("(?:[ぁ-ん]|必要|禁止|不要|不可|可能|許可)*")
_KO_NOT = re.compile(r"지 ?(?:않|못|말|마)|(?:^| )(?:안|못)(?: |$)|없|아니|금지|불가|불필요")
_KO_ENDING = frozenset("한할함해하했합된되될됐돼있이인는은을를가도야만요니습지필수것다 ")
_WEEK = ("一二三四五六日天", "月火水木金土日", "월화수목금토일")
_NUMERAL = re.compile(
    r"\d[\d.,:]*|[一二三四五六七八九十百千万两〇零]+|[한두세네]|다섯|여섯|일곱|여덟|아홉|열"
)
_MEASURE = re.compile(
    r" ?(?:毫秒|秒|分钟|分|小时|時間|时|時|点|天|日間|周|週間|个月|[ヶか]月|年間|元|円|원|块|美元|ドル|초|분|시간|시|"
    r"일간|주|개월|년간|%|[GMKT]B|ms|px|位|桁|字|文字|行|자|글자|줄|倍|배|度|도|回|次|회|번)"
)
_ORDINAL = re.compile(
    r" ?(?:月|日|年|号|章|期|阶段|段階|단계|차|월|일|년|番|호|は|が|の|も|은|는|의|가)"
)
_COUNTED = re.compile(r" ?(?:个|個|名|人|件|条|項|项|本|台|개|명|건|대|편)")
_LIMIT = re.compile(
    "必须|必須|需要|至少|最多|上限|不得|不超过|以内|以上|以下|最大|最小|必要|べき|해야|필요|최대|최소|이상|이하|넘지|초과"
)
_EVERY = re.compile("[每毎매]")
_IS = re.compile(r"(?:是|为|在|到|至|:|=|は|が|는|은) ?$")
_ZH_TAKES = re.compile(r"(?:用|由|在|为|是|叫|归|到|至|给|写|说|以).?$")
_JA_PHRASE = re.compile(r"[はをがにでともへの、][㐀-鿿ァ-ヿA-Za-z]{0,3}$")
_JA_TAKES = re.compile(
    r"[㐀-鿿ァ-ヿ]{0,3}(?:さん|様|氏)?(?:で|に|へ|から|まで|です|だ|とする|を(?:使|利用|採用|好))"
)
_KO_TAKES = re.compile(r"(?:으로|로|에서|에게|에|까지|부터)$")
_KO_CHOOSES = re.compile(r"[을를]$")
_KO_CHOSEN = re.compile(r" ?(?:선호|사용|쓴|쓰|채택|이용)")
_KO_IS = re.compile(r"(?:이다|입니다|이에요|예요|다)$")


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
    if language != _language(second):
        return "", False
    at = _laid_side_by_side(first, second)
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
    text = _BETWEEN.sub("", _STRESS.sub("", text))
    return " ".join(text.split()).strip(" .。!、-")


def _language(text: str) -> str:
    return "ko" if re.search(_HANGUL, text) else "ja" if re.search(_KANA, text) else "zh"


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
        endings = _JA_ENDING.fullmatch(at.one) and _JA_ENDING.fullmatch(at.other)
        return bool(endings and _JA_NOT.search(at.other)) and not _JA_NOT.search(at.one)
    if language == "ko" and _KO_NOT.search(at.other) and not _KO_NOT.search(at.one):
        return _is_ending(at.one, at.other) and _is_ending(_KO_NOT.sub("", at.other), at.one)
    return False


def _is_ending(text: str, beside: str) -> bool:
    """Nothing but how a verb ends: its last syllable melts into the ending, so its first sound is enough."""
    same = bool(text and beside) and _sound(text[0]) == _sound(beside[0])
    return {*text[same:]} <= _KO_ENDING


def _sound(syllable: str) -> str:
    return unicodedata.normalize("NFD", syllable)[0]


@lru_cache(maxsize=1)
def _opposites() -> Sequence[tuple[str, str]]:
    pairs = [tuple(line.split()) for line in sections("opposites.txt")["wide"]]
    return [(one, other) for a, b in pairs for one, other in ((a, b), (b, a))]


def _opposed(one: str, other: str) -> str:
    """Are they the same but for a word and its opposite?"""
    for word, opposite in _opposites():
        place = one.find(word)
        while place >= 0:
            if one[:place] + opposite + one[place + len(word) :] == other:
                return f"{word} / {opposite}"
            place = one.find(word, place + 1)
    return ""


def _one_value(at: _Parted, language: str) -> bool:
    """Does a value stand there, of which only one can be right?"""
    if not (at.one and at.other and at.head):
        return False
    week = any(at.one in days and at.other in days for days in _WEEK)
    if week and (at.tail.startswith(("曜", "요일")) or at.head.endswith(("星期", "周", "礼拜"))):
        return len(at.head) > 3  # else it is the day of which both speak
    if _NUMERAL.fullmatch(at.one) and _NUMERAL.fullmatch(at.other):
        return _measured(at)
    if max(len(at.one), len(at.other)) > _LONGEST_NAME and not (at.one + at.other).isascii():
        return False
    if any(map(str.isdigit, at.one + at.other)) and not (at.one + at.other).isascii():
        return False
    return {"zh": _named_zh, "ja": _named_ja, "ko": _named_ko}[language](at)


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
    return bool(_ZH_TAKES.search(at.head)) and not re.search("[的了和、,]", at.one + at.other)


def _named_ja(at: _Parted) -> bool:
    """A phrase of its own, with the particle of a means, a place or a copula behind it."""
    phrase = len(at.head) > 2 and _JA_PHRASE.search(at.head)
    kana = re.search("[ぁ-ん、,]", at.one + at.other)
    return bool(phrase and _JA_TAKES.match(at.tail) and not kana)


def _named_ko(at: _Parted) -> bool:
    """The same by the ending of the word, not of the first, of which the sentence speaks."""
    head, gap, start = at.head.rpartition(" ")
    end, _, rest = at.tail.partition(" ")
    if not head or not gap:
        return False
    one, other = (start + part + end for part in (at.one, at.other))
    for pattern, behind in ((_KO_TAKES, True), (_KO_CHOOSES, bool(_KO_CHOSEN.match(rest)))):
        if pattern.search(one) and pattern.search(other):
            return behind and " " not in at.one + at.other
    copulas = not rest and all(_KO_IS.search(word) and not _is_verb(word) for word in (one, other))
    return copulas and " " not in at.one + at.other


def _is_verb(word: str) -> bool:
    """ "간다", "했다" and "하다" against "민수다": behind a name in a vowel the copula is bare."""
    stem = word.removesuffix("다")
    if stem == word or stem.endswith("이"):
        return False
    return len(unicodedata.normalize("NFD", stem[-1:])) > 2 or stem[-1:] in "하되"
