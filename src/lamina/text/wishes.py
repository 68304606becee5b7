"""The one place that knows a wish to have something kept in memory: "remember that …", "jot this
down: …", "…, merk dir das". Extractor, gate and the `none` model all ask here. Pure; its phrases are
in `lists/wishes.*.txt` and load when a sentence is first looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache

from lamina.text.keeping import words_of
from lamina.text.lists import Listed, either, sections
from lamina.text.origins import QUOTE, handed_over_in, without_quotations

_COMPOSED = ("en", "de", "zh")  # languages whose small words are known
_LONGEST = 2_000  # characters looked at: a wish is a sentence, not a document
_FEWEST = 2  # words of what is kept: "remember that book" names a thing
_EDGES = " \t\n.!。！?？:：,，;；–—-…"
_CJK = re.compile(r"[\u3400-\u9fff]")
_WORD = re.compile(r"[\u3400-\u9fff]{2}|[^\W\u3400-\u9fff]+")
_SOME_WORDS = r"(?:[^\s,;:.!?]+\s+){0,6}?"
_ASKING = re.compile(r"[?？]\W*$|[吗么]\W*$")
_TAG = Listed("asks.tag_of_a_wish")
_OF_THE_TASK = Listed("asks.of_the_task")
_CHORE = Listed("finders.chore_start")
_ONE_OFF = Listed("finders.one_off")
_THE = re.compile(r"(?i)(?:the|an?|der|die|das|den|dem)\s")
_VERB = re.compile(r"\w+\s+\S+\s.*?\b\w{3,}(?:s|ed)\b")
_AND = re.compile(r"(?i)\s*(?:and|then|und)\b")
_BACK = re.compile(r"(?i)\b(?:that|das)\b")
_ANCHOR = re.compile(r"(?i:\b(?:we|our|us|my)\b)|\d|[a-z]_[a-z]|https?://|`")
_YOU_MUST = Listed("asks.you_must")
_CAN_YOU_ZH = ("能", "可以", "可否")
_UNKNOWN_ZH = ("什么", "谁", "哪", "怎", "多少")


@dataclass(frozen=True, slots=True)
class Wish:
    """A wish in a sentence, and where in it stands what is to be kept."""

    start: int  # of what is to be kept; equal to `end` if another sentence says it
    end: int
    asking: str  # the words of the wish itself
    plain: bool  # nothing else can be meant: "add this to your notes"
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
    languages = ("zh", "en", "other") if _CJK.search(plain) else ("en", "de", "other")
    folded = plain.casefold()
    for lang in languages:
        phrases = _phrases(lang)
        wish = phrases.wish(plain) if phrases.hinted(folded) else None
        if wish and not _is_chore(plain, wish, lang):
            return _told_in_question(plain, wish)
    for lang in languages[:2]:
        wish = _phrases(lang).composed(plain) if lang in _COMPOSED else None
        if wish and not _is_chore(plain, wish, lang) and not _is_order(plain, wish):
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
    words = [one for lang in _COMPOSED for one in sections(f"keeping.{lang}.txt").get("spelt", ())]
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
        phrases.pattern("also").search(phrases.pattern("for").sub(" ", wish.asking))
        for phrases in map(_phrases, ("en", "de"))
    )


def meant_by(wish: Wish, place: int, count: int) -> int:
    """Which of `count` sentences says what the wish in the sentence at `place` wants kept."""
    if wish.next_says:
        return min(place + 1, count - 1)
    if wish.bare or wish.points_back:
        return place - 1 if place else min(1, count - 1) if wish.bare else 0
    return place


@cache
def _subject() -> re.Pattern[str]:
    """Who does it, as far as that shows: a pronoun, or names and nouns before a word that is none."""
    place = "|".join(sections("wishes.de.txt")["place"])
    return re.compile(
        r"(?:(?i:ich|wir|er|es|man)|(?:(?:[Dd](?:er|ie|as)|(?:[Mm]ein|[Uu]nser)e?) )?[A-ZÄÖÜ]\w+"
        rf"(?: [A-ZÄÖÜ]\w+)*(?= (?:{place}) ))(?= )"
    )


def main_clause(kept: str, asking: str) -> str:
    """ "…, dass ich in Köln wohne" says "ich wohne in Köln"; "" where more than one word would move."""
    if not asking.rstrip().endswith("dass"):
        return kept
    who = _subject().match(kept)
    apart = sections("wishes.de.txt")["apart"]
    *between, verb = kept[who.end() :].split() if who else [""]
    if not who or {"und", "oder"} & {*between} or "," in kept or verb.startswith(apart):
        return ""
    return " ".join([who[0], verb, *between])


class _Phrases:
    """The wishes of one language."""

    def __init__(self, lang: str) -> None:
        self._lang = lang
        self._lists = sections(f"wishes.{lang}.txt")
        self._spaced = lang != "zh"
        self._made: dict[str, re.Pattern[str]] = {}

    def hinted(self, folded: str) -> bool:
        """May a sentence hold a wish? Most show at a glance that they don't."""
        return any(hint in folded for hint in self._lists["hint"])

    def any_of(self, section: str) -> str:
        return either(self._lists, section, spaced=self._spaced)

    def pattern(self, section: str) -> re.Pattern[str]:
        if section not in self._made:
            edge = r"\b" if self._spaced else ""
            self._made[section] = re.compile(f"(?i){edge}{self.any_of(section)}")
        return self._made[section]

    @cached_property
    def _begins(self) -> re.Pattern[str]:
        """Where a wish can begin, up to its own words."""
        gap = r"[,!:\s]+" if self._spaced else r"[，,：:！!\s]*"
        heads = "|".join(map(self.any_of, ("told", "soft", "colon", "open", "mine", "ending")))
        edge = r"\b" if self._spaced else ""
        return re.compile(
            rf"(?i)(?:^[^\w]*|(?<=[.!?,;:–—，。；：！？、\n])\s*|(?<=\s-)\s+"
            rf"|(?<!\bto\s){edge}(?={self.any_of('anywhere')}))"
            rf"(?:(?:(?P<asks>{self.any_of('asks')})|{self.any_of('before')}){gap}){{0,6}}"
            rf"(?={heads}|{self._verb_last})"
        )

    @cached_property
    def _kinds(self) -> list[tuple[str, re.Pattern[str]]]:
        """How a wish goes on, by its kind."""
        gap = r"\s+" if self._spaced else r"\s*"
        added = rf"(?:,?{gap}{self.any_of('for')}){{0,4}}"
        also = rf"(?:\s+{self.any_of('also')}(?:\s+[^\s:,;.!?]+){{0,8}}?)?"
        thing = rf"(?P<thing>{gap}{self.any_of('object')}(?!'))?"
        end = r"(?P<end>\W*$)"
        mark = r"\s*(?P<mark>[:：,，、–—]|-\s)"
        alone = rf"(?!{self.any_of('for')}\W*$)"
        that = rf"{added}{also}\s*,?\s*{self.any_of('that')}(?P<that>{gap}{alone}(?=\S))"
        trail = rf"\s(?P<trail>{self.any_of('trail')})"
        told = rf"(?:{that}|{thing}{added}(?:{also}{mark}|{end}|{trail}))"
        at_once = rf"(?P<direct>{gap})"
        opens = (
            rf"(?:{that}|{thing}(?:{added}(?:{mark}|{end})|{also}\s*(?P<colon>[:：]))|{at_once})"
        )
        colon = rf"(?:{that}|{thing}{added}{also}\s*(?P<mark>[:：]))"
        mine = rf"{that}(?={self.any_of('own')})"
        rests = {"told": told, "soft": told, "colon": colon, "mine": mine, "open": opens}
        return [
            (kind, re.compile(f"(?i){self.any_of(kind)}{rest}")) for kind, rest in rests.items()
        ]

    @property
    def _verb_last(self) -> str:
        """ "… für später merken", "add … to your notes", "把…记下来"."""
        takes, last = self.any_of("takes"), self.any_of("last")
        if not self._spaced:
            thing = "(?:这件事情?|这一?点|这个事实|这事儿?)?"
            return rf"{takes}(?P<between>[^，。,：:；]{{2,40}}?){thing}{last}"
        if "takes" in self._lists:
            return rf"{takes}\s+(?P<between>(?:[^\s,;:.!?]+\s+){{1,12}}?){last}"
        return rf"(?P<between>{_SOME_WORDS}){last}"

    @cached_property
    def _last(self) -> re.Pattern[str]:
        """ "… für später merken, dass": the verb comes after what is added, or after the thing."""
        return re.compile(
            rf"(?i){self._verb_last}"
            rf"(?:\s*(?P<mark>[:,：，])\s*(?:{self.any_of('that')}\s)?|(?P<end>\W*$))"
        )

    @cached_property
    def _lead(self) -> re.Pattern[str]:
        gap = r"(?:[,\s]+|$)" if self._spaced else r"[，,\s]*"
        return re.compile(f"(?i)(?:{self.any_of('before')}{gap})+")

    @cached_property
    def _asides(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        clause = f"(?:{self.any_of('aside')}|{self.any_of('for')})"
        return (
            re.compile(rf"(?i)\s*{clause}\s*(?:[,;:，；：]\s*|$)"),
            re.compile(rf"(?i)[,;，；]\s*{clause}\W*$"),
        )

    @cached_property
    def _reported(self) -> re.Pattern[str]:
        return re.compile(rf"(?i){self.any_of('reported')}\s*[:：,，]\s*$")

    def wish(self, plain: str) -> Wish | None:
        asks = bool(_ASKING.search(plain)) and not _TAG.search(plain)
        for begin in self._begins.finditer(plain):
            at = begin.end()
            if self.pattern("never").match(plain, at) or (asks and not begin["asks"]):
                continue
            if self._reported.search(plain, 0, begin.start()) or _in_material(plain, at):
                continue
            wish = self._heard(plain, begin.start(), at, asks=asks)
            if wish is None and (begin["asks"] or "takes" in self._lists):
                wish = self._last_verb(plain, begin, asks=asks)
            wish = wish or self._ending(plain, begin.start(), at)
            if wish is not None:
                return wish
        return None

    def composed(self, plain: str) -> Wish | None:
        """A wish that no phrase foresees, by what it is made of."""
        asks = bool(_ASKING.search(plain)) and not _TAG.search(plain)
        clause = words_of(self._lang).clause_in(plain, asks=asks)
        if clause is None:
            return None
        if clause.mark != "that" and self.pattern("never").search(plain, clause.start):
            return None
        if self._reported.search(plain, 0, clause.start) or _in_material(plain, clause.start):
            return None
        start, end = self._inner(plain, clause.end, len(plain))
        after = Wish(start, end, plain[clause.start : start], plain=False)
        if clause.mark in ("that", "own", ":") and _says(plain, start, end):
            asked_of = asks and clause.mark == "own" and not self._is_clause(plain, start, end)
            return None if asked_of or len(_WORD.findall(plain[start:end])) < _FEWEST else after
        colon = clause.mark == ":"
        before = self._before(plain, clause.start, clause.start, sure=False, next_says=colon)
        if before is None or not (clause.points or self._is_own(plain, before.start, before.end)):
            before = None  # "run the tests, don't forget" is of the task
        if clause.mark != "," or (before and not before.bare):
            return before
        meant = self._is_own(plain, start, end) or (
            clause.points and self._is_clause(plain, start, end)
        )
        return replace(after, points_back=self._spaced) if meant else before

    def _heard(self, plain: str, begin: int, at: int, *, asks: bool) -> Wish | None:
        for kind, pattern in self._kinds:
            met = pattern.match(plain, at)
            found = met.groupdict() if met else {}
            if met is None or (found.get("direct") is not None and _goes_on(plain, begin)):
                continue
            sure = kind == "told"
            if found.get("end") is None and found.get("trail") is None:
                start, end = self._inner(plain, met.end(), len(plain))
                if start < end:
                    direct = found.get("direct") is not None
                    ability = asks and direct and not self._is_clause(plain, start, end)
                    if ability or not _says(plain, start, end) or self._in_hand(met, begin, end):
                        return None
                    comma = found.get("mark") in {",", "，"}
                    back = comma and (not self._spaced or bool(_BACK.search(plain, at, met.end())))
                    before = self._before(plain, begin, at, sure=sure) if back else None
                    if before and not before.bare:
                        return before
                    return Wish(
                        start, end, plain[at:start], sure, points_back=back and self._spaced
                    )
                colon = (found.get("mark") or found.get("colon") or "") in (":", "：")
                return self._before(plain, begin, at, sure=sure, next_says=colon)
            if kind == "open" and not found.get("thing") and self._spaced and begin:
                return None  # "… to remember" speaks of nothing
            return self._before(plain, begin, at, sure=sure)
        return None

    def _in_hand(self, met: re.Match[str], begin: int, end: int) -> bool:
        """ "Remember the carry", "Write the speech, and remember that he …", "remember, it's a demo":
        what is neither said of the user nor stated is meant for the work in hand."""
        plain, start, found = met.string, met.end(), met.groupdict()
        if not self._spaced or self._is_own(plain, start, end):
            return False
        if found.get("direct") is not None and _THE.match(plain, start):
            return not (self._is_clause(plain, start, end) or _VERB.match(plain, start, end))
        if begin and _AND.match(plain, begin) and _CHORE.match(plain):
            return True
        if found.get("mark") != "," or plain[begin : met.start()].strip(_EDGES):
            return False
        return bool(
            self.pattern("REMEMBER").fullmatch(plain[met.start() : met.start("mark")].strip())
        )

    def _ending(self, plain: str, begin: int, at: int) -> Wish | None:
        """ "We bill per seat, please note that": a wish if it closes what the user says of their own."""
        met = self.pattern("ending").match(plain, at)
        if met is None or plain[met.end() :].strip(_EDGES):
            return None
        start, end = self._inner(plain, 0, begin)
        return (
            Wish(start, end, plain[at:], plain=False) if self._is_own(plain, start, end) else None
        )

    def _is_own(self, plain: str, start: int, end: int) -> bool:
        return bool(self.pattern("own").search(plain, start, end))

    def _is_clause(self, plain: str, start: int, end: int) -> bool:
        """Is something stated? "Can you remember names?" asks what the agent can do."""
        return bool(self.pattern("CLAUSE").search(plain, start, end))

    def _last_verb(self, plain: str, begin: re.Match[str], *, asks: bool) -> Wish | None:
        met = self._last.match(plain, begin.end())
        if met is None or re.search(r"(?i)\b(?:nicht|nie|kein\w*)\b", met["between"]):
            return None
        start, end = self._inner(plain, met.end(), len(plain))
        if met["mark"] and start < end:
            return Wish(start, end, plain[begin.start() : start], plain=True)
        start, end = self._inner(plain, *met.span("between"))
        if start < end and not self.pattern("object").fullmatch(plain[start:end]):
            stated = self._is_clause(plain, start, end) or self._is_own(plain, start, end)
            if (asks or "takes" in self._lists) and not stated:
                return None
            return Wish(start, end, met[0], plain=True)
        return self._before(plain, begin.start(), begin.end(), sure=True)

    def _before(
        self, plain: str, begin: int, at: int, *, sure: bool, next_says: bool = False
    ) -> Wish | None:
        """What comes before the wish in its sentence is to be kept; else another sentence is."""
        start, end = self._inner(plain, 0, begin)
        if self.pattern("condition").match(plain, start, end):
            return None
        if len(_WORD.findall(plain[start:end])) < (3 if self._spaced else 2) or next_says:
            return Wish(at, at, plain[at:], sure, next_says)
        return Wish(start, end, plain[at:], sure)

    def _inner(self, plain: str, start: int, end: int) -> tuple[int, int]:
        """A stretch without the punctuation, the greetings and the asides at its edges."""
        first, last = self._asides
        while aside := first.match(plain, start, end):
            start = aside.end()
        if not start and (lead := self._lead.match(plain, start, end)):
            start = lead.end()
        while aside := last.search(plain, start, end):
            end = aside.start()
        while end > start and plain[end - 1] in _EDGES:
            end -= 1
        while start < end and plain[start] in _EDGES:
            start += 1
        return start, end


def _goes_on(plain: str, begin: int) -> bool:
    """ "It should ask, and remember the answer": not the agent is meant."""
    return begin > 0 and bool(_AND.match(plain, begin))


def _says(plain: str, start: int, end: int) -> bool:
    return end - start > 2 and bool(plain[start:end].strip(QUOTE + _EDGES))


def _in_material(plain: str, at: int) -> bool:
    """Does a wish stand in what is handed over ("translate: remember that …")?"""
    over = handed_over_in(plain[: at + 1])
    return over is not None and bool(plain[:at].strip())


@lru_cache(maxsize=8)
def _phrases(lang: str) -> _Phrases:
    return _Phrases(lang)


def _is_order(plain: str, wish: Wish) -> bool:
    """ "Don't make me repeat myself: fix the test" is said to have it done."""
    what = plain[wish.start : wish.end]
    return bool(_ONE_OFF.search(what) or _CHORE.search(what))


def _is_chore(plain: str, wish: Wish, lang: str) -> bool:
    """A chore of the task at hand, or what people say to cheer each other up."""
    phrases, what = _phrases(lang), plain[wish.start : wish.end]
    if phrases.pattern("pep").match(what):
        return True
    if phrases.pattern("cheer").search(what) and not _ANCHOR.search(what):
        return True
    if lang == "other" or phrases.pattern("LATER").search(plain):
        return False
    if phrases.pattern("task").search(plain) and not wish.plain:
        return True
    # Said of the task at hand as well: "keep in mind that the beam here is fixed".
    soft = _OF_THE_TASK.search(wish.asking)
    if not (soft or phrases.pattern("todo").match(what) or _YOU_MUST.search(what)):
        return False
    from lamina.text.cue_words import LANGUAGES

    return bool(LANGUAGES[lang].this_time.search(what))
