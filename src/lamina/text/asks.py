"""What a sentence does: what the user states in a quote (not what they ask or want forgotten, nor
what stands in quotation marks, unless they ask to remember it), what they want forgotten, and
whether a text orders its reader about. Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from lamina.text import wording
from lamina.text.lists import Listed, anywhere, filled, sections, words
from lamina.text.wishes import Wish, meant_by, wish_in
from lamina.text.wording import content_stems, sentences, spans

if TYPE_CHECKING:
    from lamina.text.cue_words import Cues

_BARE_ORDER = 4  # words
_MOST_CONFIRMING = 12  # words; more than that says something of its own
_WIDE = re.compile(r"[\u3400-\u9fff]")
_LONGEST = 2_000  # characters looked at: a wish is a sentence, not a document


@dataclass(frozen=True, slots=True)
class ForgetWish:
    words: str  # the statement, the topic or the file's name
    claim: bool = False  # a statement ("that I …"), not only a topic


_POLITE = Listed("asks.polite")


@lru_cache(maxsize=1)
def _rules() -> list[re.Pattern[str]]:
    """How somebody asks to have something forgotten: each verb of a language with each object."""
    lists = sections("asks.txt")
    return [
        re.compile(filled(rf"(?is){{{verb}}}\s*[,:]?\s+{one}\s*[.!?…]*\s*", lists))
        for verb, objects in (("FORGET", "forget_en"), ("VERGISS", "forget_de"))
        for one in lists[objects]
    ]


_CHINESE_WISH = Listed("asks.chinese_wish", flags=re.DOTALL)
_CHINESE_TOPIC = Listed("asks.chinese_topic", flags=re.NOFLAG)
_CHINESE_TAIL = Listed("asks.chinese_tail", flags=re.NOFLAG)
_CHINESE_NOT_MEANT = Listed("asks.chinese_not_meant", flags=re.NOFLAG)

# What was just done or said here is not a memory.
_NOT_MEANT = Listed("asks.not_meant")


def forget_wish(sentence: str) -> ForgetWish | None:
    """The wish to have something forgotten that a message begins with; None if it has none."""
    plain = sentence.strip()[:_LONGEST].replace("’", "'")
    for _ in range(4):
        if polite := _POLITE.match(plain):
            plain = plain[polite.end() :].lstrip()
    plain = next(iter(sentences(plain)), "")
    for rule in _rules():
        if match := rule.fullmatch(plain):
            return _wish(match)
    return _chinese(plain)


def wishes_in(text: str) -> list[ForgetWish]:
    """The wishes of all sentences."""
    if not _FORGETS.search(text):
        return []
    found = [forget_wish(one) for one in sentences(text)]
    return [wish for wish in found if wish is not None]


def _wish(match: re.Match[str]) -> ForgetWish | None:
    found = match.groupdict()
    if file := found.get("file"):
        return ForgetWish(file)
    words = str(found.get("claim") or found.get("topic") or "").strip(" .,!?:;`'\"")
    claim = bool(found.get("claim"))
    if _NOT_MEANT.match(words) or (claim and len(words.split()) < 3) or not content_stems(words):
        return None
    return ForgetWish(words, claim=claim)


def _chinese(plain: str) -> ForgetWish | None:
    match = _CHINESE_WISH.fullmatch(plain)
    if match is None:
        return None
    words = _CHINESE_TAIL.sub("", (match["after"] or match["between"]).strip())
    if _CHINESE_NOT_MEANT.match(words):
        return None
    topic = _CHINESE_TOPIC.fullmatch(words)
    words = re.sub(r"^我(?:们)?的?", "", topic["topic"] if topic else words)
    return ForgetWish(words, claim=topic is None) if len(words) >= 2 else None


_FORGETS = Listed("asks.forgets")
_REMOVES = Listed("asks.removes")
_KEEPS = Listed("asks.keeps")


def asks_to_forget(sentence: str, *, about_it: bool) -> bool:
    """Whether a sentence may be the reason why a memory goes: looser than a wish. `about_it`: it
    shares words with the memory; then what is said to be wrong or to go counts too. Without that,
    "remove the unused import" would be a reason."""
    if _KEEPS.search(sentence.replace("’", "'")):
        return False
    return bool(_FORGETS.search(sentence) or (about_it and _REMOVES.search(sentence)))


# A question by its first words, whatever it ends with: people leave the mark out.
_INVERTED = Listed("asks.inverted", flags=re.NOFLAG)
# And only with the mark: "what I want is …" and "when I say ship, …" are none.
_ASKING = Listed("asks.asking", flags=re.NOFLAG)
_SUGGESTS = Listed("asks.suggests", flags=re.NOFLAG)
_TAG = Listed("asks.tag", flags=re.NOFLAG)
_CHINESE = Listed("asks.chinese_question", flags=re.NOFLAG)
_CHINESE_POLITE = re.compile(r"(?:请|麻烦|能|可以|帮)")
_LEAD = Listed("asks.lead", flags=re.NOFLAG)
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


_LEAST_ASKED = 4  # characters: less says nothing by itself


def asked_for(sentence: str) -> list[str]:
    """What a question puts up for decision: "Should we squash or rebase?" names two things. Empty for
    what is no such question."""
    plain = sentence.strip().rstrip("?？!. 吗")
    opened = _whether().match(plain)
    if opened is None:
        return []
    choices = plain[opened.end() :].replace("还是", " or ").replace(" oder ", " or ").split(" or ")
    return [one.strip(" ,") for one in choices if len(one.strip(" ,")) >= _LEAST_ASKED]


@lru_cache(maxsize=1)
def _whether() -> re.Pattern[str]:
    return anywhere(sections("proof.txt")["whether"], start="^")


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


class Kind:
    """What one sentence does; each part is worked out when it is first asked for."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence

    @cached_property
    def forgets(self) -> ForgetWish | None:
        """The wish to have something forgotten; such a sentence states nothing."""
        return forget_wish(self._sentence)

    @cached_property
    def keeps(self) -> Wish | None:
        """The wish to have something remembered."""
        return None if self.forgets else wish_in(self._sentence)

    @cached_property
    def asks_at(self) -> int:
        """Where it begins to ask; its length if it does not."""
        return question_in(self._sentence)

    @cached_property
    def asks(self) -> bool:
        return self.asks_at < len(self._sentence)

    @cached_property
    def orders(self) -> str:
        """The order that it gives, shortened for a message; "" if none."""
        return find_order(self._sentence)

    @cached_property
    def confirms(self) -> bool:
        """Does it say yes and nothing else?"""
        said = re.findall(r"[^\s.,;:!?()\"]+", wording.fold(self._sentence))
        words = [word.casefold().replace("’", "'") for word in said]
        yes, fillers = sections("asks.txt")["confirms"], sections("asks.txt")["confirming"]
        return (
            0 < len(words) <= _MOST_CONFIRMING
            and any(word in yes for word in words)
            and all(word in yes or word in fillers for word in words)
        )

    @cached_property
    def _cues(self) -> list[Cues]:
        """Of whatever language it may be in."""
        from lamina.text.cue_words import LANGUAGES

        wide = bool(_WIDE.search(self._sentence))
        return [LANGUAGES[one] for one in (("zh",) if wide else ("en", "de"))]

    @cached_property
    def imagines(self) -> bool:
        """Does it suppose something, or play a part?"""
        return any(cues.imagined.search(self._sentence) for cues in self._cues)

    @cached_property
    def lasts(self) -> bool:
        """Does it say that it holds beyond the work at hand? A few bare words don't."""
        said = self._sentence
        bare = len(wording.words(said)) <= _BARE_ORDER or any(
            cues.this_time.search(said) for cues in self._cues
        )
        return any(
            cues.lasting.search(said)
            or cues.prefers.search(said)
            or (not bare and (cues.order.search(said) or cues.insists.search(said)))
            for cues in self._cues
        )

    @property
    def states(self) -> bool:
        return not (self.forgets or self.orders or self.imagines or self.asks_at == 0)


@lru_cache(maxsize=1024)
def classify(sentence: str) -> Kind:
    """What a sentence does: extractor, gate and the engine without a model all ask here."""
    return Kind(sentence)


def _places(needle: str, part: str) -> Iterator[Told]:
    starts, sentences, text = _taken_apart(part)
    kinds = [classify(one) for one in sentences] if needle in text else []
    back = overruled(sentences) if kinds else set[int]()
    forgets = max((n for n, kind in enumerate(kinds) if kind.forgets), default=-1)
    for at in islice(_found(needle, text), _MOST_PLACES):
        end = at + len(needle)
        touched = range(bisect_right(starts, at) - 1, bisect_right(starts, end - 1))
        met = [n for n in touched if not kinds[n].forgets and n not in back]
        later = forgets >= (met[0] if met else touched.stop)
        yield _told(starts, sentences, kinds, met, (at, end), forgets_later=later)


_TAKES_BACK = Listed("asks.takes_back")
_DECLINED, _VOIDS = Listed("asks.declined"), Listed("proof.voids")
_JUDGES = Listed("asks.judges")


def takes_back(sentence: str) -> bool:
    """ "Scratch that", "ach nein, doch nicht", "算了": it unsays what was said just before."""
    plain = wording.fold(sentence).replace("’", "'")
    if _TAKES_BACK.match(plain) or _JUDGES.search(plain):
        return True
    said, says = wording.words(plain), sections("asks.txt")["says_nothing"]
    denials = [one for one in said if _denials().fullmatch(one)]
    # "Stop!" ends what the assistant is doing.
    return not {*denials} <= {"stop", "quit"} and all(one in denials or one in says for one in said)


def withdraws(message: str) -> bool:
    """ "Wrong window, sorry", "meine letzte Nachricht bitte streichen": what was typed before is off.
    "The last line is empty" says nothing of a message, so a whole sentence must."""
    said = (wording.fold(one).replace("’", "'") for one in sentences(message))
    return any(map(_VOIDS.fullmatch, said))


def declines(sentence: str) -> bool:
    """ "Don't remember that", "off the record": nothing that is said up to here is to be kept."""
    return _DECLINED.search(wording.fold(sentence).replace("’", "'")) is not None


@lru_cache(maxsize=1)
def _denials() -> re.Pattern[str]:
    return anywhere(sections("proof.txt")["no"])


def overruled(sentences: Sequence[str]) -> set[int]:
    """Sentences that a message itself takes back later, or does not want kept."""
    found: set[int] = set()
    for n, sentence in enumerate(sentences):
        if n and takes_back(sentence):
            found.update(range(n))
        if declines(sentence):
            found.update(range(n + 1))
    return found


def _found(needle: str, text: str) -> Iterator[int]:
    at = text.find(needle)
    while at >= 0:
        if wording.bounded(text, at, at + len(needle)):
            yield at
        at = text.find(needle, at + 1)


def _told(
    starts: Sequence[int],
    sentences: Sequence[str],
    kinds: Sequence[Kind],
    met: Sequence[int],
    place: tuple[int, int],
    *,
    forgets_later: bool,
) -> Told:
    """What the sentences `met` state at a place of the text."""
    at, end = place
    wishes = [kind.keeps for kind in kinds]
    meant = {meant_by(wish, n, len(wishes)) for n, wish in enumerate(wishes) if wish}
    wished = all(wishes[n] or n in meant for n in met)
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
    text, gap = "", False
    for start, end in spans(part, semicolons=False):
        piece = part[start:end]
        if folded := wording.fold(piece):
            text += " " if gap or (text and piece[0].isspace()) else ""
            starts.append(len(text))
            sentences.append(folded)
            text += folded
            gap = piece[-1].isspace()
        elif text:
            gap = True
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


_START = Listed("asks.order")
_ADDRESSED = Listed("asks.addressed")
_LIST_MARKS = re.compile(r"^(?:[\s>#*_~`\-+•–—\"'“‘(\[\]]|\d{1,3}[.)]\s|\[[ xX]\])+")
_LABEL = re.compile(r"^[\w /-]{1,40}:[*_]{0,2}\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?;:。！？])[\"'”’)*_]*\s+|(?<!\s)\s+[—–]\s+|,\s+(?=then\b)")


def find_order(text: str) -> str:
    """ "" or the first sentence that gives an order, shortened for a message."""
    for line in text.splitlines():
        for sentence in _SENTENCE_END.split(line):
            if _commands(sentence):
                bare = " ".join(sentence.split())
                return bare if len(bare) <= 80 else f"{bare[:77]}…"
    return ""


def permits(text: str, proof: str) -> str:
    """ "" or a word of a text that allows or approves something and is not in the proof."""
    said = {*wording.words(proof)}
    known = sections("proof.txt")["permits"]
    found = [one for one in wording.words(text) if one in known and one not in said]
    found += [one for one in known if one[0] >= "\u3400" and one in text and one not in proof]
    return next(iter(found), "")


@lru_cache(maxsize=1)
def _in_the_users_name() -> re.Pattern[str]:
    return anywhere(sections("urging.txt")["speaks"])


def speaks_for_user(text: str) -> str:
    """ "" or the words by which a text says what the user wants: theirs to say, not a source's."""
    found = _in_the_users_name().search(text)
    return " ".join(text[found.start() : found.end() + 40].split())[:80] if found else ""


def _commands(sentence: str) -> bool:
    bare = _LIST_MARKS.sub("", sentence[:2000])
    labelled = _LIST_MARKS.sub("", _LABEL.sub("", bare, count=1))
    return any(_START.match(start) for start in (bare, labelled)) or bool(
        _ADDRESSED.search(sentence)
    )


# ---- one thing and its opposite

_HARD = words("persons.hard")
# Ways to say no without a "not".
_SOFT = words("persons.soft")
_POLARITY_CLAUSE = Listed("persons.clause_end", flags=re.NOFLAG)
_RESTATES = 0.7


def turned_round(claim: str, quotes: Iterable[str]) -> str:
    """The clause of the claim that says the opposite of a quote; "" if none does."""
    said = [(clause, stems) for quote in quotes for clause, stems in _clauses(quote)]
    for clause, stems in _clauses(claim):
        alike = [other for other, known in said if _restates(stems, known)]
        if alike and all(_denies(clause, other) for other in alike):
            return clause
    return ""


def _clauses(text: str) -> list[tuple[str, set[str]]]:
    parts = [part.strip() for part in _POLARITY_CLAUSE.split(text)]
    found = [(part, {s for s in wording.content_stems(part) if not _HARD.fullmatch(s)}) for part in parts]  # fmt: skip
    return [(part, stems) for part, stems in found if len(stems) >= 2]


def _restates(one: set[str], other: set[str]) -> bool:
    return len(one & other) >= _RESTATES * max(len(one), len(other))


def _denies(one: str, other: str) -> bool:
    """One says no and the other does not, in no way."""
    no_one, no_other = bool(_HARD.search(one)), bool(_HARD.search(other))
    if no_one == no_other or _cut_before_the_no(one, other):
        return False
    return not _SOFT.search(other if no_one else one)


def _cut_before_the_no(one: str, other: str) -> bool:
    """A title cut from the quote's beginning leaves out a "not" that came later, and turns nothing."""
    before, found, _ = wording.fold(other).casefold().partition(wording.fold(one).casefold())
    return bool(found) and not _HARD.search(before)
