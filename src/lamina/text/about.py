"""Whether a claim is what somebody said: a whole sentence of theirs, or several in a row that can be
read alone; and whether it denies. Pure: text in, a yes out; the lists are in `lists/proof.txt`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from lamina.text import wording
from lamina.text.asks import classify, declines, takes_back
from lamina.text.dates import Days, less_on_the
from lamina.text.lists import Listed, sections, words
from lamina.text.origins import asks_somebody
from lamina.text.own_words import ENDS, main_clause, on_one_line
from lamina.text.wishes import limited, wish_in

# ---- whole sentences: what was said, with nothing cut off and nothing put in

TYPOGRAPHY = str.maketrans(
    {"‘": "'", "’": "'", "´": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "「": '"',
     "」": '"', "『": '"', "』": '"', "–": "-", "—": "-"}
)  # fmt: skip
_MARKS = TYPOGRAPHY | str.maketrans(
    {"*": "", "`": "", "，": ",", "、": ",", "。": ".", "！": ".", "!": ".", "？": "?", "；": ";",
     "：": ":"}
)  # fmt: skip
_TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+(?:['.,@/:+#-][^\W\u3400-\u9fff]+)*|\S")
_ITEM = re.compile(r"^\s*[-*+•–]\s+(?=[^\W\d])")
_SHORTENED = re.compile(r"('(?:m|ve|re|ll|d))$")  # "I'm" speaks of "I"
_CUT = re.compile(r"\x00[\x00\s]*")
_FULL_STOPS = (".", "。")  # one says nothing; two, "!" and "…" do
_BREAK = " \x04 "  # the end of a line
_MOST_DATED = 64  # ways to write the days of one sentence
_LONGEST_JOKE, _ASKS_SOMETHING, _SHORT_ANSWER, _SHORT_TURN = 15, 3, 3, 12  # words and marks
_IN_TWO = (("ends_it", 8), ("places", 2))  # how a message goes on that was sent too early, in words
_OFTEN, _OFTEN_OF = 2, 0.1  # later messages that hold a word, and their share
_TURNS, _COURTESY = words("proof.turns"), words("proof.courtesy")
_IDLE, _GOES_BACK, _ASKS_FOR = map(Listed, ("proof.idle", "proof.goes_back", "proof.asks_for"))
_RECURS = words("proof.recurs")
_A_WHILE = Listed("proof.a_while")
_BEFORE_KEPT, _BEHIND_KEPT = " ,;:，\"“”„'", " .!,;:。！，\"“”„'"


@lru_cache
def _list(section: str) -> frozenset[str]:
    """The words of a section, of which a line may hold many."""
    return frozenset(" ".join(sections("proof.txt")[section]).casefold().split())


@lru_cache(maxsize=4096)
def tokens(text: str) -> tuple[str, ...]:
    """Words and marks in order, without case, emphasis and the last full stop: what a sentence is like
    is told by them, never whether two are the same."""
    plain = wording.LIST_ITEM.sub("", wording.fold(text)).casefold().translate(_MARKS)
    found: list[str] = []
    for piece in _TOKEN.findall(plain):
        for one in _SHORTENED.sub(r" \1", piece).replace("n't", " not").split():
            if one != "." or (found and found[-1] not in ".?"):
                found.append(one)
    while found and found[-1] in ".,;":
        found.pop()
    return tuple(found)


def same_sentence(claim: str, said: str) -> bool:
    """Whether a claim is these words, letter for letter, but for white space, a full stop and a wish to have
    it kept. It may be an item of a list; a dash that was typed may be a minus."""
    wanted = {letters(one, end=_BREAK) for one in (claim, _ITEM.sub("", claim))} - {""}
    return not wanted.isdisjoint(_ways(said))


def without_wish(said: str) -> str:
    """A sentence without what asks to remember it, if the rest can stand alone."""
    if (wish := wish_in(said)) is None or wish.bare:
        return said
    kept = main_clause(
        said[wish.start : wish.end].lstrip(_BEFORE_KEPT).rstrip(_BEHIND_KEPT), wish.asking
    )
    return kept if same_sentence(kept, said) else said


def letters(text: str, *, end: str = " / ") -> str:
    """A sentence by which it is told from others: ".5" is not "5", nor "turkey" "Turkey", nor "10⁴" "104"."""
    plain = wording.spaced(on_one_line(text, end))
    if plain.endswith(_FULL_STOPS) and not plain[:-1].endswith(_FULL_STOPS):
        plain = plain[:-1].rstrip()
    first = tokens(plain.partition(" ")[0])[:1]
    small = wording.SMALL_WORDS | _list("standing") | _list("no")
    return plain[:1].casefold() + plain[1:] if small.issuperset(first) else plain


@lru_cache(maxsize=4096)
def _ways(said: str) -> frozenset[str]:
    """A sentence as it is, and without what asks to remember it."""
    found, wish = [said], wish_in(said)
    if wish is not None and not wish.bare and not (limited(wish) or _A_WHILE.search(wish.asking)):
        around = (_COURTESY.sub(" ", one) for one in (said[: wish.start], said[wish.end :]))
        rest = {word for one in around for word in tokens(one)}
        if rest <= {*tokens(wish.asking), *_list("wishing"), *',.:;?-"'}:
            kept = said[wish.start : wish.end].lstrip(_BEFORE_KEPT).rstrip(_BEHIND_KEPT)
            found += [kept, main_clause(kept, wish.asking)]
    # Where a line ends a stroke may stand; where they typed a stroke no line ends.
    return frozenset(
        one
        for text in found
        for whole in (text, text.rstrip(" ,;"))
        for end in (" / ", _BREAK)
        if (one := letters(whole, end=end))
    )


@lru_cache
def _opening(section: str) -> re.Pattern[str]:
    """What may stand before a sentence: a phrase of the section, or a call with a mark behind it."""
    phrases, calls = (
        "|".join(map(re.escape, sorted(sections("proof.txt")[one], key=len, reverse=True)))
        for one in (section, "calls")
    )
    return re.compile(
        rf"(?i)\s*(?:(?:{phrases})(?!-?[^\W\u3400-\u9fff])(?:[\s,:]|- )*"
        rf"|(?:{calls})\s*(?:[,，]|[.-] ))"  # "OK: no tax on food" is a label
    )


def less(text: str, section: str) -> str:
    """Without what it begins with that says nothing, or is in this section."""
    text = text.translate(TYPOGRAPHY)
    while (one := _opening(section).match(text)) and any(map(str.isalnum, text[one.end() :])):
        text = text[one.end() :]
    return text


@dataclass(frozen=True, slots=True)
class _Said:
    """A sentence of a message."""

    text: str
    start: int
    end: int
    states: bool  # something that lasts, not only a question or work for now
    wished: bool  # they ask to remember it
    told: str  # without the request that it ends with, where that changes nothing of it


Dates: TypeAlias = Callable[[str], Sequence[Days]]


class Message:
    """What somebody said in one go, NUL in the place of what is not their word. Nobody can tell for sure
    what a sentence means without the others, so all of it is kept or nothing. `asked` was said
    before it, `later` are the messages that come after it; `dates` gives the days that words name."""

    fact = False  # is it read for one, and not for their word on themselves?

    def __init__(
        self, text: str, *, asked: str = "", later: Sequence[str] = (), dates: Dates | None = None
    ) -> None:
        self._dates = dates
        self.text = _less_unsaid(text)
        torn = self.text != text and leans(without_wish(self.text.strip()))
        self.later = later  # taken apart only for a claim that is all of it: there may be many
        said = _taken_apart(self.text)
        answers = len(said) == 1 and _is_answer(said[0], asked)
        torn = torn or _is_cut(self.text, said) or bool(later and _takes_up(later[0]))
        self._said = () if torn or answers else said

    def stated(self) -> list[str]:
        """The sentences that tell something and ask nothing, each for itself."""
        told = [(one.told, one.wished) for one in self._said if one.states]
        return [one for one, wished in told if wished or not one.endswith(("?", "？"))]

    def ways(self) -> list[str]:
        """How all of it may be told, the tidiest first: what it states and then what was said with it,
        or as it was typed. None if it states nothing that lasts."""
        said, found = self._said, list[str]()
        stated = [n for n, one in enumerate(said) if one.states]
        if not stated:
            return []
        first, last = stated[0], stated[-1]
        told = self._shown(first, last, told=True)
        asked = said[last].text[len(said[last].told) :].strip(" ,;，；")
        around = [self._shown(0, first - 1), asked, self._shown(last + 1, len(said) - 1)]
        rest = on_one_line(" … ".join(filter(None, around)))
        if rest and any(_stands_alone(said[n].text) for n in stated):
            if self.fact and not around[0] and first == last and said[first].wished:
                found.append(told)  # a fact that they ask to remember stands alone
            for one in dict.fromkeys((without_wish(told) if first == last else told, told)):
                end = "" if one.endswith(ENDS) else "."
                found.append(f"{one}{end} (said with: “{rest}”)")
        found.append(self._shown(0, len(said) - 1))
        return [*dict.fromkeys(map(str.strip, found))]

    def holds(self, claim: str, *, after: str = "") -> bool:
        """Whether a claim is all of it. `after`: what stands before it in the memory."""
        if after and leans(claim):
            return False
        ways = (way for one in self.ways() for way in (one, *self._dated(one, claim)))
        return any(same_sentence(claim, one) for one in ways) and not _turned(self.later, claim)

    def _dated(self, said: str, claim: str) -> Iterator[str]:
        """A sentence with days that a claim names behind, or in the place of, the words that name them."""
        if not self._dates or claim.count("-") < 2 or _RECURS.search(said):
            return
        for run in self._dates(said):
            texts = [said]
            for start, end, day in reversed(run.places):
                for text in texts[:_MOST_DATED] if day in claim else ():
                    before, bare = text[:start], less_on_the(text[:start])
                    told = (f"{one}{day}" for one in (before, bare, f"{bare}on "))
                    ways = (f"{text[:end]} ({day})", *told)
                    texts += [f"{one}{text[end:]}" for one in ways]
            yield from texts[1:]

    def _shown(self, i: int, j: int, *, told: bool = False) -> str:
        if i > j:
            return ""
        start, end = self._said[i].start, self._said[j].end
        if told:
            end -= len(self._said[j].text) - len(self._said[j].told)
        before, after = self.text[:start] if not i else "", self.text[end:]
        text = self.text[start:end]
        cut = "\x00" * ("\x00" in before), "\x00" * (j == len(self._said) - 1 and "\x00" in after)
        return _CUT.sub(" […] ", f"{cut[0]}{text}{cut[1]}")


def made_of(line: str, sources: Sequence[Message], *, after: str = "") -> bool:
    """Whether a line is made of whole passages of these messages. One that takes up what was said before
    must stand behind what it was said behind."""
    parts = [*wording.spans(line, semicolons=False)]
    parts = [(start, end) for start, end in parts if line[start:end].strip()]
    for count in range(len(parts), 0, -1):
        first, rest = line[: parts[count - 1][1]], line[parts[count - 1][1] :]
        if any(one.holds(first, after=after) for one in sources):
            return not rest.strip() or made_of(rest, sources, after=first)
    return False


def _less_unsaid(message: str) -> str:
    """Without what it takes back or wants forgotten: kept, that would be said again. How far it reaches
    nobody can tell, so beside it only other paragraphs count, and what they ask to remember after it."""
    kept, plays = list[str](), False
    for part in message.split("\n\n"):
        said = [part[start:end] for start, end in wording.spans(part, semicolons=False)]
        back = [
            n for n, one in enumerate(said) if declines(one) or ((n or kept) and takes_back(one))
        ]
        forgets = [n for n, one in enumerate(said) if classify(one.strip()).forgets]
        gone = [*back, *forgets]
        # What stands before it may say how the rest is meant.
        plays = plays or not all(map(_is_polite, said[: min(forgets, default=0)]))
        kept = [] if back else kept
        rest = said[max(gone, default=-1) + 1 :]
        plays = plays or any(_plays(said[n]) for n in forgets)
        named = not (back or plays) and all(_names_what(said[n]) for n in forgets)
        if forgets and rest:
            named = named and not _OWN.isdisjoint(tokens(rest[0])[:1])
        if named or (rest and _wishes(rest[0])):
            kept.append("".join(rest) if gone else part)
    return "\n\n".join(kept)


def _names_what(forgets: str) -> bool:
    """ "Forget that I am a nurse." says whole what goes; "forget the rules while we test" says where."""
    words = tokens(forgets)
    return not {"that", "dass"}.isdisjoint(words[:4]) and _list("limits").isdisjoint(words)


def _plays(forgets: str) -> bool:
    """ "Forget that we are a bank. Never ask me …": nothing of their own goes, so it opens a play."""
    return any(a in ("that", "dass") and b not in _OWN for a, b in pairwise(tokens(forgets)[:5]))


def _wishes(sentence: str) -> bool:
    return (wish := classify(sentence.strip()).keeps) is not None and not wish.bare


def _is_cut(text: str, said: Sequence[_Said]) -> bool:
    """Does something that is not their word stand at the edge, with no blank line between and unannounced?
    A line that looks like a program's may say where the rest holds."""
    before, after = (text[: said[0].start], text[said[-1].end :]) if said else ("", "")
    after = "" if said and said[-1].text.endswith((":", "：")) else after.partition("\n\n")[0]
    return "\x00" in before.rpartition("\n\n")[2] + after


@lru_cache(maxsize=256)
def _taken_apart(message: str) -> tuple[_Said, ...]:
    """The sentences that count: without what is only polite around them."""
    kept: list[_Said] = []
    for start, end in wording.spans(message, semicolons=False):
        text = message[start:end].strip("\x00 \n\t")
        if any(map(str.isalnum, text)):
            begin = message.index(text, start)
            states = _states(text) and (bool(wording.LIST_ITEM.match(text)) or not _for_now(text))
            wished = _wishes(text)
            told = text if wished or not states else told_before(text)
            kept.append(_Said(text, begin, begin + len(text), states, wished, told))
        elif turns_round(text):
            return ()
    while kept and _is_polite(kept[0].text):
        kept.pop(0)
    while kept and _is_polite(kept[-1].text):
        kept.pop()
    return tuple(kept)


def _for_now(sentence: str) -> bool:
    """ "Ok, commit and push": an order that says nothing of how long it holds, nor how things are done."""
    bare, kind = less(sentence, "lead"), classify(sentence)
    order = less(less(bare, "request"), "lead")
    words = tokens(order)
    if _ANSWERS.match(order):
        return True
    denies = not {"not", *_list("no"), *_list("standing")}.difference(_WITHOUT).isdisjoint(words)
    general = _AS_RULE.match(order) or not _list("general").isdisjoint(words)
    if denies or kind.keeps or kind.lasts or general:
        return False
    if sentence.rstrip().endswith(("?", "？")) and _opening("request").match(bare):
        return True
    first, second = words[:1], {*words[1:2]}
    if first and first[0] in _list("manner"):
        return not second.isdisjoint(_list("one"))
    things = (_list("one") | _list("certain")).intersection(words[1:3])
    orders = bool(things) and _list("stated").isdisjoint(first) and _FINITE.isdisjoint(words)
    return orders or not _list("once").isdisjoint(first)


_OWN = frozenset(("i", "my", "ich", "mein", "meine", "我"))
_FINITE = frozenset(("i", "we", "is", "are", "was", "has", "have", "ist", "sind", "war", "hat"))
_WITHOUT = frozenset(("without", "ohne", "无", "please", "bitte", "请"))


def limits(text: str) -> bool:
    """Does it hold a word that may limit what stands before it, or say where that holds?"""
    some = _list("joins") | _list("opens") | {"to", "with", "without"}
    return not some.isdisjoint(tokens(text))


def narrowed_by(text: str) -> frozenset[str]:
    """Its words that let what it says hold only there or only so long."""
    return _NARROWS.union(_list("ends_it") - {"as"}).intersection(tokens(text))


def leans(text: str) -> bool:
    """Does it take up what was said before?"""
    words = tokens(text)
    return bool(words) and (words[0] in _list("joins") or not _list("points").isdisjoint(words))


def _takes_up(message: str) -> bool:
    """Does the next message say how the last was meant, or make fun of it?"""
    words = tokens(next(iter(wording.sentences(message)), message))
    in_two = any({*words[:1]} & _list(one) and len(words) <= n for one, n in _IN_TWO)
    mocks = len(words) < _LONGEST_JOKE and not _list("mocks").isdisjoint(words)
    said = mocks or (in_two and words[-1] != "?")
    return said or turns_round(message) or bool(_GOES_BACK.search(message))


def turns_round(text: str) -> bool:
    """Is it marks alone, and not only friendly ones? "❌", "🙄" and ";)" unsay what stands beside them."""
    return not any(map(str.isalnum, text)) and any(map(str.strip, _IDLE.sub("", text)))


def _turned(later: Sequence[str], claim: str) -> bool:
    """Do they want it otherwise by now? A word that they say all the time does not show that a message
    is about it: in a session on tests "actually, that test …" ends no rule on tests."""
    claimed = wording.content_stems(claim)
    said = Counter(stem for one in later for stem in wording.content_stems(one) & claimed)
    common = {stem for stem, count in said.items() if count > max(_OFTEN, _OFTEN_OF * len(later))}
    return bool(said) and any(
        _turns(one, claim, common) for part in later for one in wording.sentences(part)
    )


def _turns(later: str, claim: str, common: Collection[str]) -> bool:
    """Does a sentence take it back? A long one must share half of its words: "…, or is bcrypt better?" is
    about something else. Another order on the same thing is enough, but of two that say they last
    ("always run the tests before a release", "… the linter …") both hold."""
    claimed = wording.content_stems(claim)
    shared = wording.content_stems(later) & claimed
    half = 2 * len(shared) >= len(claimed)
    short = len(tokens(later)) <= _SHORT_TURN and bool(shared.difference(common))
    ours, theirs = classify(claim), classify(later)
    if not shared or not (half or short) or not theirs.asks_at:
        return False
    if half and not theirs.asks and _unsays(later, claim):
        return True
    both = short and ours.orders and theirs.orders and not (ours.lasts and theirs.lasts)
    return bool(_TURNS.search(later) or (both and half and len(shared) < len(claimed)))


def _unsays(later: str, claim: str) -> bool:
    """Does a clause say no to just this ("…, not in Lyon"), or does the opposite hold for good?"""
    for clause in re.split(r"[,;，；]\s*", later):
        denies = wording.negates(clause)
        if denies != wording.negates(claim) and _told_in(clause) and in_order(clause, claim):
            return denies or classify(clause).lasts
    return False


def in_order(one: str, other: str) -> bool:
    """Does the other tell all that this one tells, in its order?"""
    known = iter(_told_in(other))
    return all(stem in known for stem in _told_in(one))


def _told_in(text: str) -> list[str]:
    """What it tells, in its order, without the words that deny it or say how long it holds."""
    words = tokens(re.sub("not [要是用]", "not ", wording.CHINESE_NO.sub(" not ", text)))
    small = {"not", *_list("no"), *_list("standing")}
    return [stem for one in words if one not in small for stem in wording.content_stems(one)]


def _is_polite(sentence: str) -> bool:
    kept = classify(sentence).keeps
    polite = not any(map(str.isalnum, _COURTESY.sub("", sentence)))
    return polite or (kept is not None and kept.bare)


def _states(sentence: str) -> bool:
    kind, words, bare = classify(sentence), tokens(sentence), less(sentence, "lead")
    asks = classify(bare).asks_at == 0 or (words[-1] == "?" and not kind.asks)
    polite = _opening("request").match(bare) or not _list("tail").isdisjoint(words[-2:-1])
    polite = polite or _then_asks(sentence) or told_before(sentence) != sentence
    unsaid = kind.forgets or kind.imagines or _DOUBTS.search(sentence)
    return not ((asks and not polite) or unsaid or _is_polite(sentence))


def _then_asks(sentence: str) -> bool:
    """ "I prefer short answers, can you help me with …?": what stands before the request is stated."""
    for joint in _JOINT.finditer(sentence):
        told, rest = sentence[: joint.start()].strip(), sentence[joint.end() :]
        if _opening("request").match(less(rest, "lead")) or _WONDERS.match(rest):
            return bool(tokens(told)) and _stands_alone(told) and _states(told)
    return False


def told_before(sentence: str) -> str:
    """ "I prefer tabs, can you help me with …?" without the request, where a whole clause stands before
    it and nothing in it may doubt that, limit it or take it back; else as it is."""
    if (joint := _ASKED_AFTER.search(sentence)) is None:
        return sentence
    told, rest = sentence[: joint.start()].rstrip(), sentence[joint.end() :]
    # "I never pay, can you make the villain's line rhyme?": who asks no help for themselves hands it over.
    theirs = _SPEAKER.search(rest) or not _ASKS_YOU.search(joint[0])
    on_it = not _HELPS.search(rest) and (_ON_THAT.search(rest) or not theirs)
    turns = on_it or _MAY_TURN.search(rest) or len(tokens(rest)) < _ASKS_SOMETHING
    whole = _SPEAKER.search(told) and not (_NO_CLAUSE.search(told) or classify(told).asks)
    return told if whole and not turns and _states(told) else sentence


_ASKED_AFTER, _NO_CLAUSE, _DOUBTS = (
    Listed(f"proof.{one}") for one in ("asked_after", "no_clause", "doubts")
)
_ASKS_YOU, _HELPS, _MAY_TURN, _ON_THAT, _SPEAKER = (
    words(f"proof.{one}") for one in ("asks_you", "helps", "may_turn", "on_it", "speaker")
)
_JOINT, _ANSWERS, _AS_RULE = (Listed(f"proof.{one}") for one in ("joint", "answers", "rules_zh"))
_WONDERS = Listed("own_words.WONDERS")


def _stands_alone(sentence: str) -> bool:
    """Does it say by itself what it is, whatever was asked?"""
    words, kind = tokens(sentence), classify(sentence)
    standing = kind.keeps or kind.orders or not _list("standing").isdisjoint(words)
    praise = words[0] in ("super", "great", "perfect", "nice", "prima")
    return bool(standing or praise or _SPEAKER.search(sentence))


def _is_answer(said: _Said, asked: str) -> bool:
    """Does it mean something only as the answer to what was asked?"""
    last = next(iter(wording.sentences(asked)[-1:]), "")
    if not (last.endswith(("?", "？", ":", "：")) or asks_somebody(last)):
        return False
    on_it = wording.content_stems(said.text) & wording.content_stems(last)
    little = on_it or len(tokens(said.text)) <= _SHORT_ANSWER or leans(said.text)
    named = _ASKS_FOR.search(last) and not said.wished
    return bool(named or (little and not _stands_alone(said.text)))


_NARROWS = frozenset(("only", "until", "except", "unless", "nur", "bis", "außer", *"仅只除"))
_JOINED = frozenset((*",;:每所", "and", "then", "und", "dann", "every", "each", "all", "any"))


def only_explains(sentence: str) -> bool:
    """Is it a situation ("every merge into main"), or a reason in one plain clause?"""
    if not _NARROWS.isdisjoint(words := tokens(sentence)):
        return False
    if words[:1] and words[0] in _list("opens"):
        return _list("rules").isdisjoint(words)
    goes_on = _JOINED | (_list("rules") - {"is", "are", "be", "ist", "sind"})
    return len(words) <= _SHORT_TURN and goes_on.isdisjoint(words)
