"""The one place that knows a wish to have something kept in memory: "remember that …", "jot this
down: …", "…, merk dir das". Extractor, gate and the `none` model all ask here.

A wish is known by what it is made of: a clause that names keeping, is turned to the reader and beside
that has only small words ("I'd hate you to lose track of the fact that …"). What it wants kept stands
behind it, before it or in a neighbouring sentence. Pure; its words are in `lists/wishes.*.txt` and
load when a sentence is first looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from lamina.text.lists import Listed, either, sections
from lamina.text.origins import QUOTE, handed_over_in, without_quotations

_LANGUAGES = ("en", "de", "zh", "other")
_LONGEST = 2_000  # characters looked at: a wish is a sentence, not a document
_FEWEST = 2  # words of what is kept: "remember that book" names a thing
_EDGES = " \t\n.!。！?？:：,，;；–—-…"
_CJK, _SIGN, _GRADE = map(re.compile, (r"[\u3400-\u9fff]", r"[.!–—-]\w", r"\w[–—-]\Z"))  # A-
_WORD = re.compile(r"[\u3400-\u9fff]{2}|[^\W\u3400-\u9fff]+")
_ASKING = re.compile(r"[?？]\W*$|[吗么]\W*$")
_TAG = Listed("asks.tag_of_a_wish")
_OF_THE_TASK = Listed("asks.of_the_task")
_CHORE = Listed("finders.chore_start")
_ONE_OFF = Listed("finders.one_off")
_ANCHOR = re.compile(r"(?i:\b(?:we|our|us|my)\b)|\d|[a-z]_[a-z]|https?://|`")
_VERB = re.compile(r"\w+\s+\S+\s.*?\b\w{3,}(?:s|ed)\b")
_YOU_MUST = Listed("asks.you_must")
_CAN_YOU_ZH = ("能", "可以", "可否")
_UNKNOWN_ZH = ("什么", "谁", "哪", "怎", "多少")
_TOKEN = re.compile(r"[^\W\u3400-\u9fff]+(?:['-][^\W\u3400-\u9fff]+)*|[\u3400-\u9fff]|[^\s\w]|_")
_STOPS = frozenset(".!?;:：。！？；–—…\n")
_COMMAS = frozenset(",，、-")
_MARKS = frozenset("*/#•}]")  # before a wish; a quotation mark or a tag is somebody else's
_MOST = 20  # small words on each side: a wish is short
_KINDS = ("keep", "lose", "place", "label", "lasting", "weak")
_Token = tuple[int, int, str]  # begin, end, folded


@dataclass(frozen=True, slots=True)
class Wish:
    """A wish in a sentence, and where in it stands what is to be kept."""

    start: int  # of what is to be kept; equal to `end` if another sentence says it
    end: int
    asking: str  # the words of the wish itself
    next_says: bool = False  # … and that is the next one: "Remember this:"
    points_back: bool = False  # if a sentence comes before, that one is meant: "keep that, I …"

    @property
    def bare(self) -> bool:
        """Does it only point at another sentence? "Remember that." """
        return self.start == self.end


def wish_in(sentence: str) -> Wish | None:
    """The wish to remember that a sentence holds; None for questions, chores and quotations."""
    return _found(sentence[:_LONGEST])


@lru_cache(maxsize=512)
def _found(sentence: str) -> Wish | None:
    plain = _WORD.sub(_respelt, without_quotations(sentence).replace("’", "'"))
    for lang in ("zh", "en", "other") if _CJK.search(plain) else ("en", "de", "other"):
        wish = _language(lang).wish(plain)
        if wish and not _language(lang).is_chore(plain, wish):
            return _told_in_question(plain, wish)
    return None


def _told_in_question(plain: str, wish: Wish) -> Wish | None:
    """ "你能记住我用 pnpm 吗": the last word belongs to the wish; but "…我叫什么吗" tells nothing."""
    what = plain[wish.start : wish.end]
    if not what.endswith("吗") or not any(one in plain[: wish.start] for one in _CAN_YOU_ZH):
        return wish
    told = replace(wish, end=wish.start + len(what[:-1].rstrip()))
    return None if any(one in what for one in _UNKNOWN_ZH) else told


def _respelt(word: re.Match[str]) -> str:
    """ "mrek dir …": two letters changed places, so that every span stays where it is. Not
    casefolded: that makes "ß" longer."""
    return _swapped().get(word[0].lower(), word[0])


@lru_cache(maxsize=1)
def _swapped() -> dict[str, str]:
    words = [one for lang in _LANGUAGES for one in sections(f"wishes.{lang}.txt").get("spelt", ())]
    known = " ".join(words).split()
    made = {
        word[:at] + word[at + 1] + word[at] + word[at + 2 :]: word
        for word in known
        for at in range(len(word) - 1)
    }
    return {wrong: word for wrong, word in made.items() if wrong not in known}


def limited(wish: Wish) -> bool:
    """ "Remember until Friday that …": do the words of the wish say where or how long it holds?"""
    return any(
        words.pattern("also").search(words.pattern("horizon").sub(" ", wish.asking))
        for words in map(_language, ("en", "de"))
    )


def meant_by(wish: Wish, place: int, count: int) -> int:
    """Which of `count` sentences says what the wish in the sentence at `place` wants kept."""
    if wish.next_says:
        return min(place + 1, count - 1)
    if wish.bare or wish.points_back:
        return place - 1 if place else min(1, count - 1) if wish.bare else 0
    return place


@dataclass(frozen=True, slots=True)
class _Clause:
    """A clause that is nothing but a wish."""

    start: int
    end: int  # what is kept may follow from here on
    mark: str  # how it goes on: "that", ":", ",", "own" ("… I have two dogs") or "" for not at all
    points: bool  # what stands beside it is meant, though it is not said of the user
    back: bool  # it has a word for what was said before: "that"
    named: bool  # keeping is named, so that an order beside it is a rule: "remember: use port 8"


@lru_cache(maxsize=4)
def _language(lang: str) -> _Language:
    return _Language(lang)


class _Language:
    """How one language speaks of keeping."""

    def __init__(self, lang: str) -> None:
        self._lang = lang
        self._lists = sections(f"wishes.{lang}.txt")
        self._spaced = lang != "zh"
        self._made: dict[str, re.Pattern[str]] = {}

    def pattern(self, section: str) -> re.Pattern[str]:
        if section not in self._made:
            edge = r"\b" if self._spaced else ""
            any_of = either(self._lists, section, spaced=self._spaced)
            self._made[section] = re.compile(f"(?i){edge}{any_of}")
        return self._made[section]

    @cached_property
    def _sets(self) -> dict[str, frozenset[str]]:
        """The words of each section that holds single words, several on a line."""
        return {
            name: frozenset(" ".join(rows).casefold().split()) for name, rows in self._lists.items()
        }

    def _any(self, name: str) -> frozenset[str]:
        return self._sets.get(name, frozenset())

    @cached_property
    def _asides(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        clause = "|".join(
            either(self._lists, one, spaced=self._spaced) for one in ("aside", "horizon")
        )
        return (
            re.compile(rf"(?i)\s*(?:{clause})\s*(?:[,;:，；：]\s*|$)"),
            re.compile(rf"(?i)[,;，；]\s*(?:{clause})\W*$"),
        )

    @cached_property
    def _lead(self) -> re.Pattern[str]:
        gap = r"(?:[,\s]+|$)" if self._spaced else r"[，,\s]*"
        return re.compile(f"(?i)(?:{either(self._lists, 'before', spaced=self._spaced)}{gap})+")

    def wish(self, plain: str) -> Wish | None:
        """The wish of a sentence, with what it wants kept."""
        asks = bool(_ASKING.search(plain)) and not _TAG.search(plain)
        clause = self._clause_in(plain, asks=asks)
        if clause is None:
            return self._taken(plain)
        if self._is_reported(plain, clause.start) or _in_material(plain, clause.start):
            return None
        start, end = self._inner(plain, clause.end, len(plain))
        after = Wish(start, end, plain[clause.start : start])
        says = end - start > 2 and plain[start:end].strip(QUOTE + _EDGES)
        if clause.mark in ("that", "own", ":") and says:
            asked_of = asks and clause.mark == "own" and not self._is_clause(plain, start, end)
            few = len(_WORD.findall(plain[start:end])) < _FEWEST
            return None if asked_of or few or self._is_order(clause, after, plain) else after
        before = self._before(plain, clause.start, next_says=clause.mark == ":")
        if before is None or not (clause.points or self._is_own(plain, before.start, before.end)):
            before = None  # "run the tests, don't forget" is of the task
        elif self._is_order(clause, before, plain):
            return None
        if asks and self._spaced and before and before.bare and not clause.back:
            before = None  # "can you remember names?" asks what the agent can do
        if clause.mark != "," or (before and not before.bare):
            return before
        meant = self._is_own(plain, start, end) or (
            clause.points and (not self._spaced or self._is_clause(plain, start, end))
        )
        if meant and self._is_order(clause, after, plain):
            return None
        return replace(after, points_back=self._spaced and clause.back) if meant else before

    def _is_order(self, clause: _Clause, wish: Wish, plain: str) -> bool:
        """ "Don't make me repeat myself: fix the test" is said to have it done."""
        what = plain[wish.start : wish.end]
        return not clause.named and bool(_ONE_OFF.search(what) or _CHORE.search(what))

    def _taken(self, plain: str) -> Wish | None:
        """ "把我喜欢深色主题这件事记下来", "add my preference for tabs to your notes"."""
        last = "|".join(either(self._lists, one, spaced=self._spaced) for one in ("last", "place"))
        takes = self.pattern("takes").pattern
        met = re.search(rf"{takes}(?P<what>[^,;:.!?，；：。！？]{{2,80}}?)\s*(?:{last})\W*$", plain)
        if met is None or _in_material(plain, met.start()):
            return None
        start, end = self._inner(plain, *met.span("what"))
        return Wish(start, end, met[0]) if self._is_own(plain, start, end) else None

    def _is_reported(self, plain: str, at: int) -> bool:
        """Does somebody else speak from here on?"""
        said = either(self._lists, "reported", spaced=self._spaced)
        return bool(re.search(rf"(?i){said}\s*[:：,，]\s*$", plain[:at]))

    def _is_own(self, plain: str, start: int, end: int) -> bool:
        return bool(self.pattern("mine").search(plain, start, end))

    def _is_clause(self, plain: str, start: int, end: int) -> bool:
        """Is something stated?"""
        return bool(self.pattern("clause").search(plain, start, end))

    def is_chore(self, plain: str, wish: Wish) -> bool:
        """A chore of the task at hand, or what people say to cheer each other up."""
        what = plain[wish.start : wish.end]
        if self.pattern("pep").match(what):
            return True
        if self.pattern("cheer").search(what) and not _ANCHOR.search(what):
            return True
        if self._lang == "other" or self.pattern("horizon").search(plain):
            return False
        if self.pattern("task").search(plain):
            return True
        # Said of the task at hand as well: "keep in mind that the beam here is fixed".
        soft = _OF_THE_TASK.search(wish.asking)
        if not (soft or self.pattern("todo").match(what) or _YOU_MUST.search(what)):
            return False
        from lamina.text.cue_words import LANGUAGES

        return bool(LANGUAGES[self._lang].this_time.search(what))

    def _before(self, plain: str, at: int, *, next_says: bool) -> Wish | None:
        """What comes before the wish in its sentence is to be kept; else another sentence is."""
        start, end = self._inner(plain, 0, at)
        if self.pattern("condition").match(plain, start, end):
            return None
        if len(_WORD.findall(plain[start:end])) < (3 if self._spaced else 2) or next_says:
            return Wish(at, at, plain[at:], next_says)
        return Wish(start, end, plain[at:])

    def _inner(self, plain: str, start: int, end: int) -> tuple[int, int]:
        """A stretch without the punctuation, the greetings and the asides at its edges."""
        first, last = self._asides
        while aside := first.match(plain, start, end):
            start = aside.end()
        if not start and (lead := self._lead.match(plain, start, end)):
            start = lead.end()
        while aside := last.search(plain, start, end):
            end = aside.start()
        while end > start and plain[end - 1] in _EDGES and not _GRADE.search(plain, start, end):
            end -= 1
        while start < end and plain[start] in _EDGES and not _SIGN.match(plain, start, end):
            start += 1
        return start, end

    def _clause_in(self, plain: str, *, asks: bool) -> _Clause | None:
        """The first clause of a sentence that only asks to have something kept."""
        tokens: list[_Token] | None = None
        for kind in _KINDS:
            for met in self.pattern(kind).finditer(plain):
                tokens = [*self._tokens(plain)] if tokens is None else tokens
                before = [one for one in tokens if one[1] <= met.start()]
                after = [one for one in tokens if one[0] >= met.end()]
                for left in self._lefts(before, kind):
                    clause = self._clause(met, kind, left, after, asks=asks)
                    if clause is not None:
                        return clause
        return None

    @cached_property
    def _filler(self) -> str:
        """A word that may stand anywhere and means nothing else."""
        others = (words for name, words in self._sets.items() if name != "soft")
        return min(self._sets["soft"].difference(*others), default="")

    @cached_property
    def _small(self) -> frozenset[str]:
        names = ("small", "soft", "you", "me", "asking", "not", "this", "that")
        return frozenset[str]().union(*map(self._any, names))

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._small))

    def _tokens(self, plain: str) -> Iterator[_Token]:
        """The words; a script without spaces as the longest small words that it makes. Until when or
        in which case it is to be known ("next month", "下次做饭的时候") is one word that says nothing."""
        end = 0
        spans = {
            met.start(): met.end()
            for when in ("horizon", "case")
            for met in self.pattern(when).finditer(plain)
        }
        known = self._small | self._any("own")
        for met in _TOKEN.finditer(plain):
            start, stop, word = met.start(), met.end(), met[0].casefold()
            if start < end:
                continue
            if start in spans:
                end, word = spans[start], self._filler
            elif self._spaced:
                end = stop
            else:
                sizes = range(min(self._longest, len(plain) - start), 0, -1)
                size = next((n for n in sizes if plain[start : start + n] in known), 0)
                end, word = start + (size or stop - start), plain[start : start + size] or word
            yield start, end, word

    def _lefts(self, before: Sequence[_Token], kind: str) -> Iterator[Sequence[_Token]]:
        """The small words before an idea, from each place where a clause may begin, nearest first.
        Before a place to keep things any verb may open it: "lodge this in your memory"."""
        at = len(before)
        while at and len(before) - at < _MOST:
            word = before[at - 1][2]
            if word in _STOPS or word in _MARKS:
                break
            if word in _COMMAS:
                yield before[at:]
            elif word not in self._small:
                opens = at == 1 or before[at - 2][2] in _STOPS | _COMMAS | self._any("soft")
                if kind == "place" and opens:
                    yield before[at:]
                return
            at -= 1
        yield before[at:]

    def _clause(
        self,
        met: re.Match[str],
        kind: str,
        left: Sequence[_Token],
        after: Sequence[_Token],
        *,
        asks: bool,
    ) -> _Clause | None:
        said = [one[2] for one in left if one[2] not in _COMMAS]
        count, mark = self._goes_on(met.string, after)
        direct = self.pattern("direct").fullmatch(met[0]) is not None
        if mark is None and direct:
            count, mark = self._states(met.string, after, kind)
        right = [one[2] for one in after[:count]]
        asks = asks and not self._any("polite") & {*said, *right}
        start = left[0][0] if left else met.start()
        end = after[count - 1][1] if count else met.end()
        idea = re.split(r"\s+", met[0].casefold())
        denied = bool(self._any("not") & {*said, *right, *idea})
        if asks or mark is None or denied != (kind == "lose"):
            return None
        back = bool(self._any("this") & {*said, *right, *idea} or self._any("whom") & {*idea})
        points = back or self._lang in ("zh", "other") or kind == "place"
        points |= kind == "lose" and mark == "," and direct
        if kind == "keep":
            points |= bool(self._any("you") & {*right})
            points |= bool(self._any("polite") & {*said, *right, *idea[:1]})
            points |= bool(self.pattern("horizon").search(met.string, start, end))
        if kind == "weak" and self._is_bare(said):
            # "Save this: …", "note that I …", "notier dir, dass …"; a file or a form is saved, too.
            told = right[: -1 if mark == "that" else None]
            points = bool(self._any("this") & {*said, *told, *idea})
            rule = mark == "that" and (
                after[count][2] in self._any("own")
                or self.pattern("todo").match(met.string, after[count][0])
            )
            says = rule or (mark == ":" and points) or len(idea) > 1
            yours = self._any("you") & {*right, *idea} or self.pattern("horizon").search(met.string)
            if not (yours or says or (points and mark != ",")):
                return None
            points = points and bool(yours)
        elif not self._is_turned(said, met[0].casefold(), kind):
            return None
        if kind == "weak" and mark in ("", ",") and not points and not self._is_bare(said):
            return None
        if kind == "label":
            if not mark:
                return None
            points = not self._spaced or self.pattern("horizon").search(met[0]) is not None
        said_when = met.string[: None if mark == "" else end]  # what is kept has dates of its own
        if kind == "lasting" and not self.pattern("horizon").search(said_when):
            return None
        named = kind == "keep" or mark == "that" or direct
        return _Clause(start, end, mark, points, back, named)

    def _states(self, plain: str, after: Sequence[_Token], kind: str) -> tuple[int, str | None]:
        """The same where what is to be kept follows at once: "remember the shop closes at six"."""
        between = self._any("soft") | self._any("yourself") | self._any("that")
        count = next((n for n, one in enumerate(after) if one[2] not in between), 0)
        start = after[count][0]
        verb = kind == "keep" and _VERB.match(plain, start)
        stated = verb or self._is_clause(plain, start, len(plain))
        return count, "own" if stated and not self.pattern("never").match(plain, start) else None

    def _is_bare(self, said: Sequence[str]) -> bool:
        return all(word in self._any("soft") | self._any("this") for word in said)

    def _is_turned(self, said: Sequence[str], idea: str, kind: str) -> bool:
        """Is it the reader who is to keep it? "I remember", "he'd note that" and "do you remember"
        are not said to ask."""
        you, me, asking = map(self._any, ("you", "me", "asking"))
        bare = [word for word in said if word not in self._any("soft")]
        persons = [word for word in bare if word in you or word in me]
        if self._is_bare(said):
            return " " in idea or not idea.endswith(("ing", "st"))  # "merkst du dir …" asks
        if kind == "label" and not persons:
            return True
        if not persons and self._any("polite") & {*bare} and self._any("this") & {*bare}:
            return True  # "can that stay in your memory?"
        if persons and persons[-1] in you:
            return bool(asking & {*said})
        named = re.split(r"\s+", idea) if self._spaced else [w for w in you if w in idea]
        inside = bool(you & {*named})
        if persons and not (inside and kind == "lose"):
            # "I want this remembered", not "I want to remember this"
            later = {*bare[len(bare) - bare[::-1].index(persons[-1]) :]}
            return bool(self._any("wants") & later and self._any("this") & later)
        first = next(word for word in bare if word not in self._any("this"))
        return inside or first in self._any("opens")

    def _goes_on(self, plain: str, after: Sequence[_Token]) -> tuple[int, str | None]:
        """How many tokens still belong to the wish, and what follows; None: something else."""
        for at, (_, _, word) in enumerate(after[:_MOST]):
            if word in _STOPS:
                return (at + 1, ":") if word in ":：–—" else (at, "")
            rest = after[at + 1 :]
            if word in _COMMAS and not self._leads_on(rest):
                return at + 1, ","
            if word in self._any("that"):
                comma = bool(rest) and rest[0][2] in _COMMAS
                if self._goes_further(rest[comma:]) and (
                    # "save that in the file", but "note that in Berlin we use Linux"
                    rest[comma][2] not in self._any("into")
                    or self._is_clause(plain, rest[comma][0], len(plain))
                ):
                    return at + 1 + comma, "that"
            passed = {one[2] for one in after[:at]}
            if (
                word in self._any("own")
                and self._goes_further(rest)
                and passed <= self._any("soft") | self._any("loose")
            ):
                return at, "own"
            if word in self._any("trail") and self._goes_further(rest, self._any("that")):
                return self._trail(after, at)
            if word not in self._small | _COMMAS:
                return 0, None
        return len(after), ""

    def _trail(self, after: Sequence[_Token], at: int) -> tuple[int, str]:
        """ "for all my letters that …" goes on, "while you write" does not."""
        that = self._any("that") if after[at][2] in self._any("scope") else ()
        for n, (_, _, word) in enumerate(after[at : at + _MOST // 2], at):
            if word in ":：" or word in that:
                return n + 1, ":" if word in ":：" else "that"
        return at, ""

    def _leads_on(self, rest: Sequence[_Token]) -> bool:
        """Does the wish only go on after a comma? "…, auch in Zukunft: …" """
        for _, _, word in rest:
            if word in ":：" or word in self._any("that"):
                return True
            if word in self._any("own") or word not in self._small | _COMMAS:
                return False
        return False

    def _goes_further(self, rest: Sequence[_Token], end: frozenset[str] = frozenset()) -> bool:
        """Does more than small words follow in this clause?"""
        for _, _, word in rest:
            if word in _STOPS or word in _COMMAS or word in end:
                return False
            if word not in self._small:
                return True
        return False


def _in_material(plain: str, at: int) -> bool:
    """Does a wish stand in what is handed over ("translate: remember that …")?"""
    over = handed_over_in(plain[: at + 1])
    return over is not None and bool(plain[:at].strip())
