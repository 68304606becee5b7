"""Whether a claim is what somebody said: a whole sentence of theirs, or several in a row that can be
read alone; and whether it denies. Pure: text in, a yes out; the lists are in `lists/proof.txt`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from itertools import pairwise

from lamina.text import wording
from lamina.text.asks import classify, is_label, overruled, wants_work
from lamina.text.dates import find_dates
from lamina.text.lists import Listed, sections
from lamina.text.origins import asks_somebody
from lamina.text.wishes import main_clause, wish_in

# ---- negations, in sentences and in the names of files

# Words that tell nothing. No negation is among them: a name must never say the opposite.
_SMALL_WORDS = frozenset(
    """a an the to of in on at for and or but so is are was be been i im my me we our you your it
    its this that these with as by from please do does der die das den dem des ein eine einen einem
    einer und oder aber ich bin du wir ist sind im am zum zur mit bei fuer von auf dass bitte es zu
    mir dir""".split()  # noqa: SIM905 - a word list
)

NEGATION = Listed("persons.negation", flags=re.NOFLAG)

# "特别" (especially), "别人" (others), "不过" (but), "不错" (good) and the like deny nothing.
_CHINESE_NO = Listed("persons.chinese_no", flags=re.NOFLAG)

_APOSTROPHES = re.compile(r"['’‘`´]")

_INTERJECTION = re.compile(r"(?i)^(?:no|nope|nein)[,!.;:–—-]+\s*")  # "No, use pnpm" denies nothing

_TRANSLITERATED = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"}
)


def limits(text: str) -> bool:
    """Does it hold a word that may limit what stands before it, or say where that holds?"""
    words = tokens(text)
    return not (_list("joins") | _list("opens") | {"to", "with", "without"}).isdisjoint(words)


def negates(text: str) -> bool:
    """Does it say no, in English, German or Chinese? Made for sentences and for the names of files."""
    return denials(text) > 0


def denials(text: str) -> int:
    """How often it says no."""
    return sum(NEGATION.fullmatch(word) is not None for word, _ in plain_words(text))


def plain_words(text: str) -> list[tuple[str, bool]]:
    """The words in order, in plain letters, and whether each tells something."""
    plain = _CHINESE_NO.sub(" not ", _INTERJECTION.sub("", wording.fold(text)))
    plain = _APOSTROPHES.sub("", plain).translate(_TRANSLITERATED)
    plain = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    found = list(re.finditer(r"[A-Za-z0-9]+", plain))
    return [
        (one[0].lower(), one[0].lower() not in _SMALL_WORDS or _is_label(one, found))
        for one in found
    ]


def _is_label(word: re.Match[str], words: Sequence[re.Match[str]]) -> bool:
    """The A of "shop A is closed" and of "shop a" is no article."""
    if word is words[0]:
        return False
    return word[0] == "A" or (word[0] == "a" and word is words[-1])


# ---- whole sentences: what was said, with nothing cut off and nothing put in

_TYPOGRAPHY = str.maketrans(
    {"‘": "'", "’": "'", "´": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "「": '"',
     "」": '"', "『": '"', "』": '"', "–": "-", "—": "-"}
)  # fmt: skip
_MARKS = _TYPOGRAPHY | str.maketrans(
    {"*": "", "`": "", "，": ",", "、": ",", "。": ".", "！": ".", "!": ".", "？": "?", "；": ";",
     "：": ":"}
)  # fmt: skip
_TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+(?:['.,@/:+#-][^\W\u3400-\u9fff]+)*|\S")
_BULLET = re.compile(r"\s*[-*+•–]\s+")
_ITEM = re.compile(r"\s*(?:[-*+•–]|\d{1,3}[.)])\s+")
_SHORTENED = re.compile(r"('(?:m|ve|re|ll|d))$")  # "I'm" speaks of "I"
_LAST_MARKS = " .!,;。"
_DAY = "\x03"  # stands for a day that was named
_LONGEST_PASSAGE = 12  # sentences
_LONGEST_JOKE = 15  # words
_FRAGMENT = 4  # words: less is no sentence that stands by itself
_ASKED, _ORDERED, _OF_THEM, _SAID, _POLITE = range(5)
_ENDS = tuple(".!?。！？")
_ANY_DAY = date(2000, 1, 3)
_KEPT_EDGES = " .!,;:。！，\"“”„'"


@lru_cache
def _list(section: str) -> frozenset[str]:
    """The words of a section, of which a line may hold many."""
    return frozenset(" ".join(sections("proof.txt")[section]).casefold().split())


@lru_cache(maxsize=4096)
def tokens(text: str) -> tuple[str, ...]:
    """Words and marks in order, without case, emphasis and the last full stop: what a sentence is like
    is told by them, never whether two are the same."""
    plain = _ITEM.sub("", wording.fold(text)).casefold().translate(_MARKS)
    found: list[str] = []
    for piece in _TOKEN.findall(plain):
        for one in _SHORTENED.sub(r" \1", piece).replace("n't", " not").split():
            if one != "." or (found and found[-1] not in ".?"):
                found.append(one)
    while found and found[-1] in ".,;":
        found.pop()
    return tuple(found)


def same_sentence(claim: str, said: str) -> bool:
    """Whether a claim is these words, letter for letter, but for white space, the mark at the end, the
    case of the first letter, a polite beginning, and a wish to have it kept."""
    wanted = _letters(claim)
    return bool(wanted) and wanted in _ways(said)


def without_wish(said: str) -> str:
    """A sentence without what asks to remember it, if the rest can stand alone."""
    wish = wish_in(said)
    if wish is None or wish.bare:
        return said
    kept = main_clause(said[wish.start : wish.end].strip(_KEPT_EDGES), wish.asking)
    return kept if same_sentence(kept, said) else said


def _letters(text: str) -> str:
    plain = _BULLET.sub("", wording.fold(text.translate(_TYPOGRAPHY)), count=1).strip(_LAST_MARKS)
    return plain[:1].casefold() + plain[1:]


@lru_cache(maxsize=4096)
def _ways(said: str) -> frozenset[str]:
    """A sentence as it is, and without what is polite or asks to remember it."""
    found = [said, _less(said, "lead")]
    wish = wish_in(said)
    if wish is not None and not wish.bare:
        rest = {*tokens(said[: wish.start]), *tokens(said[wish.end :])}
        if rest <= {*tokens(wish.asking), *_list("courtesy"), *_list("wishing"), *',.:;?-"'}:
            kept = said[wish.start : wish.end].strip(_KEPT_EDGES)
            found += [kept, main_clause(kept, wish.asking)]
    return frozenset(filter(None, map(_letters, found)))


@lru_cache
def _opening(section: str) -> re.Pattern[str]:
    """What may stand before a sentence: a phrase of the section, or a call with a mark behind it."""
    phrases, calls = (
        "|".join(map(re.escape, sorted(sections("proof.txt")[one], key=len, reverse=True)))
        for one in (section, "calls")
    )
    return re.compile(
        rf"(?i)\s*(?:(?:{phrases})(?![^\W\u3400-\u9fff])[\s,:-]*|(?:{calls})\s*[,.:，：-]\s*)"
    )


def _less(text: str, section: str) -> str:
    """Without what it begins with that says nothing, or is in this section."""
    text = text.translate(_TYPOGRAPHY)
    while (one := _opening(section).match(text)) and any(map(str.isalnum, text[one.end() :])):
        text = text[one.end() :]
    return text


def proposed_in(answer: str) -> list[str]:
    """What "I'd use tabs." proposes: "use tabs"; and "Shall I note that you use tabs?": "I use tabs"."""
    bare = _less(answer, "proposes").rstrip(" ?？")
    if bare == answer.translate(_TYPOGRAPHY).rstrip(" ?？"):
        return []
    if answer.rstrip().endswith(("?", "？")):
        bare = re.sub(r"\byou(r?)\b", lambda one: "my" if one[1] else "I", bare)
    return [bare]


@dataclass(frozen=True, slots=True)
class _Said:
    """A sentence of a message, and what it can't be read without."""

    text: str
    start: int
    end: int
    tied: bool  # … the one before it
    heading: int  # … an earlier one, that says how the rest is meant; -1: none does
    usable: bool  # it is whole, and nothing takes it back


class Message:
    """What somebody said in one go, NUL in the place of what is not their word: its sentences, and
    which of them can be read alone. `asked` was said before it, `after` comes next."""

    def __init__(self, text: str, *, asked: str = "", after: str = "") -> None:
        self.text = text
        self._said = _taken_apart(text)
        last = next(iter(wording.sentences(asked)[-1:]), "")
        answers = last.endswith(("?", "？", ":", "：")) or bool(asks_somebody(last))
        self._answers = answers and bool(self._said) and not _stands_alone(self._said[0].text)
        self._goes_on = _takes_up(tokens(after))

    def runs(self) -> list[str]:
        """Every stretch of sentences that can be read alone and states something."""
        said = self._said
        found = [self._stretch(i, j) for i, j in self._places()]
        for place, one in enumerate(said):
            head = one.heading
            if head < 0 or not _ITEM.match(one.text) or not one.usable:
                continue
            above, after = said[head], said[place + 1 : place + 2]
            begun = above.tied or above.heading >= 0 or (head == 0 and self._answers)
            tied = begun or (one.tied and place > head + 1) or any(other.tied for other in after)
            if above.usable and not tied and (after or not self._goes_on):
                item = _ITEM.sub("", one.text)
                found += [f"{above.text} {item}", *([item] if is_label(above.text) else ())]
        return found

    def passages(self) -> list[str]:
        """The least that can be read alone, around each sentence."""
        places = sorted(self._places(), key=lambda one: one[1] - one[0])
        return [
            self._stretch(*found)
            for at in range(len(self._said))
            if (found := next((one for one in places if one[0] <= at <= one[1]), None))
        ]

    def holds(self, claim: str, days: Collection[str] = (), *, after: str = "") -> bool:
        """Whether a claim is one such stretch. `after`: what stands before it in the memory."""
        if after and _leans(tokens(claim)):
            return False
        runs = self.runs()
        named = [one for one in days if one in claim]
        for day in named:
            claim = claim.replace(f" ({day})", "").replace(f"on {day}", _DAY).replace(day, _DAY)
        return any(
            same_sentence(claim, one) or (named and same_sentence(claim, _with_days(one)))
            for one in runs
        )

    def _stretch(self, i: int, j: int) -> str:
        return self.text[self._said[i].start : self._said[j].end]

    def _places(self) -> Iterator[tuple[int, int]]:
        count = len(self._said)
        for i in range(count):
            for j in range(i, min(i + _LONGEST_PASSAGE, count)):
                if self._whole(i, j) and any(_states(one.text) for one in self._said[i : j + 1]):
                    yield i, j

    def _whole(self, i: int, j: int) -> bool:
        said = self._said
        within, after = said[i : j + 1], said[j + 1 : j + 2]
        if said[i].tied or (i == 0 and self._answers) or any(one.tied for one in after):
            return False
        return all(one.usable and not -1 < one.heading < i for one in within) and bool(
            after or not self._goes_on
        )


def made_of(
    line: str, sources: Sequence[Message], days: Collection[str] = (), *, after: str = ""
) -> bool:
    """Whether a line is made of whole passages of these messages. One that takes up what was said before
    must stand behind what it was said behind."""
    parts = [*wording.spans(line, semicolons=False)]
    parts = [(start, end) for start, end in parts if line[start:end].strip()]
    for count in range(len(parts), 0, -1):
        first, rest = line[: parts[count - 1][1]], line[parts[count - 1][1] :]
        if any(one.holds(first, days, after=after) for one in sources):
            return not rest.strip() or made_of(rest, sources, days, after=first)
    return False


@lru_cache(maxsize=256)
def _taken_apart(message: str) -> tuple[_Said, ...]:
    found: list[_Said] = []
    heading = -1
    for start, end in wording.spans(message, semicolons=False):
        text = message[start:end].strip("\x00 \n\t")
        if not any(map(str.isalnum, text)):
            continue
        begin = message.index(text, start)
        stop = begin + len(text)
        between = message[found[-1].end : begin] if found else message[:begin]
        cut = "\x00" in between.rpartition("\n")[2] or message[stop : stop + 1] == "\x00"
        apart = "\n\n" in between.replace(" ", "")
        last = found[-1].text if found else ""
        if apart and heading < len(found) - 1 and not _ITEM.match(text):
            heading = -1
        if _ITEM.match(text) and last and not _ITEM.match(last):  # read with what is above it
            heading = heading if heading >= 0 else len(found) - 1
        tied = bool(found) and _tied(last, text, between, apart=apart)
        found.append(_Said(text, begin, stop, tied, heading, not cut))
        if heading < 0 and (text.endswith((":", "：")) or _is_told(tokens(text))):
            heading = len(found) - 1
    back = overruled([one.text for one in found])
    return tuple(replace(one, usable=one.usable and n not in back) for n, one in enumerate(found))


_MILESTONE = frozenset(("live", "launches", "ships", "opens", "eröffnet"))
_FURTHER = frozenset(("and", "und", "also", "außerdem"))
_THIS = frozenset(("this", "these", "das", "diese", "dieser", "dieses"))


def _tied(one: str, other: str, between: str, *, apart: bool) -> bool:
    """Whether two sentences in a row may mean something else if they are read alone."""
    a, b = tokens(one), tokens(other)
    kinds = {_kind(one), _kind(other)}
    if one.endswith((":", "：", ",", "-", "…")):
        return True
    if _POLITE in kinds:
        return False
    wish = classify(other).keeps
    if classify(one).keeps and wants_work(other) and b[0] in _FURTHER:  # "and fix the login"
        b = b[1 + (b[1:2] in (("then",), ("dann",), (",",))) :]
    of_them = (_kind(one), _kind(other)) == (_OF_THEM, _ASKED)
    if of_them:  # "why does this join fail?" is of work
        b = tuple(
            word
            for word, thing in pairwise((*b, ""))
            if word not in _THIS or not wording.content_stems(thing)
        )
    if _leans(b if wish is None else tokens(other[wish.start : wish.end])) or _is_told(b):
        return True
    # "Tabs or spaces? Use tabs." answers; "What time is it? Remember that I use tabs." does not.
    apart_by_wish = wish is not None and _kind(one) == _ASKED and not _is_short(tokens(other))
    if apart_by_wish or (_ITEM.match(one) and _ITEM.match(other)) or classify(one).forgets:
        return False
    if _is_short(tokens(other)) or ("\n" in between and not one.endswith(_ENDS)):
        return True
    if apart or (_is_short(a) and not of_them):
        return not apart
    answered = (_kind(one), _kind(other)) == (_ASKED, _ORDERED)
    # "Don't round prices. The shop goes live on Monday.": the day of something else, and no end
    day = not _MILESTONE.isdisjoint(b) and _list("joins").isdisjoint(b) and negates(one)
    if (
        day
        and find_dates(other, _ANY_DAY)
        and wording.content_stems(one).isdisjoint(wording.content_stems(other))
    ):
        return False
    return answered or not (kinds <= {_ASKED, _ORDERED} or kinds <= {_OF_THEM, _ASKED})


def _leans(words: Sequence[str]) -> bool:
    """Does it take up what was said before?"""
    return words[0] in _list("joins") or not _list("points").isdisjoint(words)


def _takes_up(words: Sequence[str]) -> bool:
    """Does the next message go into what was said, or make fun of it?"""
    mocks = len(words) < _LONGEST_JOKE and not _list("mocks").isdisjoint(words)
    return mocks or not _list("joins").isdisjoint(words[:1])


def _is_short(words: Sequence[str]) -> bool:
    return sum(word.isalnum() for word in words) < _FRAGMENT


def _is_told(words: Sequence[str]) -> bool:
    """Does it let somebody else speak, tell a story, or say that something is not meant?"""
    asks = words[-1:] == ("?",)  # "Can you tell me why …?" wants to be told
    pairs = pairwise((*words, ""))
    return any(one in _list("frames") and not (asks and to in ("me", "mir")) for one, to in pairs)


def _kind(sentence: str) -> int:
    words = tokens(sentence)
    kept = classify(sentence).keeps
    if {*words} <= {*_list("courtesy"), *",.?"} or (kept is not None and kept.bare):
        return _POLITE
    if classify(sentence).asks_at == 0 or words[-1] == "?":
        return _ASKED
    if words[0] in _list("self") and words[:2] != ("我", "的"):
        return _OF_THEM
    ordered = classify(sentence).orders or not _list("standing").isdisjoint(words)
    return _ORDERED if ordered else _SAID


def _states(sentence: str) -> bool:
    kind, words = classify(sentence), tokens(sentence)
    asks = kind.asks_at == 0 or (words[-1] == "?" and not kind.asks)
    asked = _opening("request").match(_less(sentence, "lead"))
    polite = asked or not _list("tail").isdisjoint(words[-2:-1])
    return not (
        (asks and not polite) or kind.forgets or kind.imagines or _kind(sentence) == _POLITE
    )


def _stands_alone(sentence: str) -> bool:
    """Does it say by itself what it is, whatever was asked?"""
    words = tokens(sentence)
    standing = bool(classify(sentence).keeps) or not _list("standing").isdisjoint(words)
    praise = words[0] in ("super", "great", "perfect", "nice", "prima")
    return standing or praise or not {"i", "we", "ich", "wir", "我"}.isdisjoint(words)


def _with_days(sentence: str) -> str:
    """A sentence without the days that it names."""
    for found in sorted(find_dates(sentence, _ANY_DAY), key=lambda one: -one.start):
        sentence = f"{sentence[: found.start]}{_DAY}{sentence[found.end :]}"
    return sentence.replace(f"the {_DAY}", _DAY).replace(f"on {_DAY}", _DAY)


_IS = frozenset(("is", "are", "be", "ist", "sind"))
_JOINED = frozenset((*",;:每所", "and", "then", "und", "dann", "every", "each", "all", "any"))
_MOST_REASON = 12  # words


def only_explains(sentence: str) -> bool:
    """Is it a situation ("every merge into main"), or a reason in one plain clause?"""
    words = tokens(sentence)
    if words[:1] and words[0] in _list("opens"):
        return _list("rules").isdisjoint(words)
    return len(words) <= _MOST_REASON and (_JOINED | (_list("rules") - _IS)).isdisjoint(words)
