"""What words say, and of whom: whether one sentence says a claim that was made of it, and whether it
speaks of somebody else than the user ("my colleague is a data scientist" says nothing about who
types it). Clauses are looked at one by one. Pure: text in, a word or a yes out; the lists are in
`lists/proof.txt`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from lamina.text import wording
from lamina.text.lists import Listed, anywhere, sections, words

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
        if alike and all(_opposite(clause, other) for other in alike):
            return clause
    return ""


def _clauses(text: str) -> list[tuple[str, set[str]]]:
    parts = [part.strip() for part in _POLARITY_CLAUSE.split(text)]
    found = [(part, {s for s in wording.content_stems(part) if not _HARD.fullmatch(s)}) for part in parts]  # fmt: skip
    return [(part, stems) for part, stems in found if len(stems) >= 2]


def _restates(one: set[str], other: set[str]) -> bool:
    return len(one & other) >= _RESTATES * max(len(one), len(other))


def _opposite(one: str, other: str) -> bool:
    """One says no and the other does not, in no way."""
    no_one, no_other = bool(_HARD.search(one)), bool(_HARD.search(other))
    if no_one == no_other or _cut_before_the_no(one, other):
        return False
    return not _SOFT.search(other if no_one else one)


def _cut_before_the_no(one: str, other: str) -> bool:
    """A title cut from the quote's beginning leaves out a "not" that came later, and turns nothing."""
    before, found, _ = wording.fold(other).casefold().partition(wording.fold(one).casefold())
    return bool(found) and not _HARD.search(before)


_KNOWN = Listed("persons.known", flags=re.NOFLAG)
_PRONOUN = Listed("persons.pronoun", flags=re.NOFLAG)
_NAMED = Listed("persons.named", flags=re.NOFLAG)
_CHINESE = Listed("persons.chinese_person", flags=re.NOFLAG)
_WHO = Listed("persons.who", flags=re.NOFLAG)
_NOT_SOMEBODY = frozenset(
    """i im we it this that there here what who which whose my our you your everything nothing all name
    work job role title position nickname location timezone email age experience employer city
    language me us them him her mir uns mich dir profession background focus home office stack degree major team company
    today now ich wir das es dies hier was mein meine name beruf arbeit one someone anyone never always
    and or so because""".split()  # noqa: SIM905 - a word list
)
_SELF = words("persons.self")
_CLAUSE = Listed("persons.clause")
_ABOUT_ANYBODY = words("persons.about_anybody")


def speaks_of(claim: str, sentences: Iterable[str]) -> str:
    """ "" or the one whom the words are about that a claim about the user rests on."""
    stems = wording.content_stems(claim)
    own: set[str] = set()
    others: list[tuple[str, frozenset[str]]] = []
    for sentence in sentences:
        for clause in filter(str.strip, _CLAUSE.split(wording.fold(sentence))):
            who, name, said = _subject(clause.strip())
            mine = wording.content_stems(clause[: len(clause) - len(said)] if who else clause)
            own |= mine
            if who and not _names(claim, who, name):
                others.append((f"{who} {name}".strip(), wording.content_stems(said)))
    for who, said in others:
        if 2 * len(stems & (said - own)) >= len(stems) > 0:
            return who
    return ""


def _subject(clause: str) -> tuple[str, str, str]:
    """Somebody else whom a clause speaks of, their name, and the words about them."""
    plain = clause.casefold()
    for rule in (_KNOWN, _PRONOUN, _CHINESE):
        if found := rule.match(plain):
            about = clause[found.end() :]
            name = found.groupdict().get("name") or ""
            return ("", "", "") if _SELF.search(about) else (found["who"], name.strip(), about)
    if found := _WHO.search(plain):
        who = found["who"] or found["name"]
        if who not in _NOT_SOMEBODY:
            return who, "", clause[found.end() :]
    found = _NAMED.match(plain)
    if found and found["who"] not in _NOT_SOMEBODY and not _SELF.search(clause):
        return found["who"], "", clause[found.end() :]
    return "", "", ""


def _names(claim: str, who: str, name: str) -> bool:
    """Does the claim say whom it is about?"""
    if who in ("he", "she", "they", "er", "sie", "il", "elle", "él", "ella", "他", "她"):
        return bool(_ABOUT_ANYBODY.search(claim))
    return bool(wording.content_stems(f"{who} {name}") & wording.content_stems(claim))


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


def negates(text: str) -> bool:
    """Does it say no, in English, German or Chinese? Made for sentences and for the names of files."""
    return any(NEGATION.fullmatch(word) for word, _ in plain_words(text))


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


# ---- what one sentence says

_BREAKS = frozenset(",;:.!?()[]…–—，。；：！？、（）\x01")
_EDGES = "".join(_BREAKS) + "*_`\"'“”„‘«»<>#-"
_STRUCK = ("~~", "<!--", "<del", "<s>", "<details")
_NO = "no"  # stands for every word that denies
_SELVES = ("i", "i'm", "im", "we", "ich", "wir", "我", "我们")
_DAY_WORDS = 4  # that a date may stand for
_WIDENING = frozenset(("always", "ever", "even", "immer", "总", "都"))
_YOU = ("you", "du", "ihr", "你", "您")
_WILLING = frozenset(("will", "wollen", "möchte", "möchten"))
_ALL = frozenset(
    ("everything", "anything", "everyone", "anyone", "all", "nothing", "alles", "alle")
)
_THIRD = ("it", "he", "she", "they", "this", "that", "es", "er", "sie", "它", "他", "她")
_PARTICLES = frozenset(("an", "ab", "aus", "ein", "auf", "zu"))  # "schalte es ab" and "… an"
_PROMISES = words("proof.promises")
_LONGEST_CLAIM, _LONGEST_SAID = 300, 3_000  # words; more is no sentence, and would take for ever
_LEAST_CUT = 6  # words of a description that may be cut where its line ends


@dataclass(frozen=True, slots=True)
class _Item:
    """A word that carries something, as it is compared."""

    key: str
    word: str
    clause: int


@dataclass(slots=True)
class _Clause:
    first: str = ""  # its first word, as it stands
    words: set[str] = field(default_factory=set[str])
    mark: str = ""  # what ends it: a mark, "and" or another word that joins, "" at the end


@lru_cache
def _list(section: str) -> frozenset[str]:
    return frozenset(one.casefold() for one in sections("proof.txt")[section])


@lru_cache(maxsize=1)
def framing_stems() -> frozenset[str]:
    """Stems of words that a memory may put around the user's own, and of those that say nothing or
    deny: which way a sentence goes is looked at word by word, not counted."""
    return wording.content_stems(" ".join(_list("light") | _list("frame") | _list("no")))


def same_verb(said: str, told: str) -> bool:
    """ "Ich wohne" is told of somebody as "wohnt"."""
    stem = said.removesuffix("e")
    return len(stem) > 2 and told in (f"{stem}t", f"{stem}et")


@lru_cache
def _phrases() -> tuple[str, ...]:
    """Entries in a script without spaces, the longest first."""
    found = {one for part in sections("proof.txt").values() for one in part if one[0] >= "\u3400"}
    return tuple(sorted(found, key=len, reverse=True))


def _pieces(text: str) -> Iterator[str]:
    """Words and marks in order; a script without spaces gives its listed words and characters."""
    for raw in wording.fold(text).casefold().replace("’", "'").replace("\x01", " \x01 ").split():
        opened = raw.lstrip(_EDGES)
        core = opened.rstrip(_EDGES)
        yield from (one for one in raw[: len(raw) - len(opened)] if one in _BREAKS)
        yield from ("-",) if not core else ()
        yield from _unspaced(core) if any(char >= "\u3400" for char in core) else (core,)
        yield from (one for one in opened[len(core) :] if one in _BREAKS)


def _unspaced(run: str) -> Iterator[str]:
    at, latin = 0, ""
    while at < len(run):
        if run[at] < "\u3000":
            latin += run[at]
            at += 1
            continue
        yield from (one for one in (latin,) if one)
        latin = ""
        word = next((one for one in _phrases() if run.startswith(one, at)), run[at])
        yield word
        at += len(word)
    yield from (one for one in (latin,) if one)


def _words_of(piece: str) -> Iterator[str]:
    """ "don't" denies; "I've" and "that's" are what stands before the apostrophe."""
    base, _, rest = piece.partition("'")
    if rest == "t":
        yield "not"
    elif base:
        yield base


@lru_cache(maxsize=2048)
def _taken_apart(text: str) -> tuple[tuple[_Item, ...], tuple[_Clause, ...]]:
    clauses, items = [_Clause()], list[_Item]()
    for piece in _pieces(text):
        if piece in _BREAKS or piece == "-" or piece in _list("joins"):
            if clauses[-1].first or not clauses[-1].mark:
                clauses[-1].mark = clauses[-1].mark or piece
                clauses.append(_Clause())
            continue
        for word in _words_of(piece):
            clauses[-1].first = clauses[-1].first or word
            clauses[-1].words.add(word)
            if word in _list("no"):
                items.append(_Item(_NO, word, len(clauses) - 1))
            elif word not in _list("light"):
                items.append(_Item(_key(word), word, len(clauses) - 1))
    return tuple(items), tuple(clauses)


def _key(word: str) -> str:
    if any(map(str.isdigit, word)) or not word.isalpha():
        return wording.number_key(word)
    return wording.stem(word)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a claim may be read: a rule or a fact about the user, a line that sums up, days that follow
    from what was said, and all the other claims made of the same words."""

    rule: bool = True
    head: bool = False
    days: frozenset[str] = frozenset()


def said_in_one(claim: str, sentence: str, how: Reading) -> bool:
    """Whether one sentence says the claim: its words in a row and in their order, nothing put in that
    tells something, and nothing left out that turns, limits or attributes it."""
    wanted, told = _taken_apart(claim)
    said, clauses = _taken_apart(sentence)
    if any(mark in claim for mark in _STRUCK if mark not in sentence):
        return False
    if _scorned(claim, sentence) or _other_particle(claim, sentence):
        return False
    if len(wanted) > _LONGEST_CLAIM or len(said) > _LONGEST_SAID:
        return False
    if not wanted:
        return bool(clauses)
    head = told[wanted[0].clause]
    return any(
        (found := _match(wanted, said, start, how)) is not None
        and _fairly_cut(said, clauses, found, how)
        and not _owns_the_next(said[found[1] - 1].word, claim, sentence)
        and not (how.rule and _tells(clauses[said[found[0]].clause], head, sentence))
        and not (how.rule and _bent(wanted[0], said[found[0]], head))
        for start in range(len(said))
    )


def _scorned(claim: str, sentence: str) -> bool:
    """ "Push to main, over my dead body": all of it but what the claim says of it itself."""
    found = _scorns().search(sentence)
    return found is not None and found[0].casefold() not in claim.casefold()


@lru_cache(maxsize=1)
def _scorns() -> re.Pattern[str]:
    return anywhere(sections("proof.txt")["scorns"])


def _other_particle(claim: str, sentence: str) -> bool:
    last = next(iter(wording.words(claim)[-1:]), "")
    return last in _PARTICLES and last not in wording.words(sentence)


def _tells(said: _Clause, told: _Clause, sentence: str) -> bool:
    """ "You always push to main", "it skips the tests" and "I'll merge it" order nothing, though they
    might read so without their first word."""
    if said.first in _SELVES:
        of_them = told.first in _SELVES or not told.words.isdisjoint(_list("frame"))
        return not of_them and bool(_PROMISES.search(sentence))
    others = _YOU if said.first in _YOU else _THIRD
    return said.first in others and told.first not in others and not said.words & _list("ought")


def _owns_the_next(word: str, claim: str, sentence: str) -> bool:
    """ "A doctor" out of "a doctor's assistant"."""
    told, said = (text.casefold().replace("’", "'") for text in (claim, sentence))
    return f"{word}'s " in said and f"{word}'s " not in told


def _bent(wanted: _Item, said: _Item, told: _Clause) -> bool:
    """ "Delete the backups" out of "(I) deleted the backups": what somebody did is no order."""
    ordered = wanted.word == told.first != said.word and said.key == wanted.key
    return ordered and said.word.endswith(("ed", "s")) and not wanted.word.endswith(("ed", "s"))


def _match(
    wanted: Sequence[_Item], said: Sequence[_Item], start: int, how: Reading
) -> tuple[int, int] | None:
    """Where the claim stands if it begins with this word: first item, and the one after its last."""
    frame = _list("frame") | (_list("soft") - _WIDENING) | _list("wants" if how.rule else "mine")
    at, first, slack = start, -1, 0
    for item in wanted:
        ahead = _next(item, said, at, how, slack if first >= 0 else -1)
        if ahead is not None and (first >= 0 or ahead == start):
            first, at, slack = (ahead if first < 0 else first), ahead + 1, 0
        elif item.word in how.days:
            slack = _DAY_WORDS  # "on Friday" became its date
        elif item.word not in frame:
            return None
    return (first, at) if first >= 0 else None


def _next(item: _Item, said: Sequence[_Item], at: int, how: Reading, slack: int) -> int | None:
    """Where a word comes next; only what tells nothing may stand between. Of a fact about the user one
    more word may be missing, unless it turns it."""
    spare = slack + (not how.rule)
    for ahead in range(at, len(said)):
        one = said[ahead]
        if one.key == item.key or (not how.rule and same_verb(one.word, item.word)):
            return ahead
        if slack < 0:
            return None
        if one.word in _list("soft") or (not how.rule and one.word in _list("mine")):
            continue
        turns = one.key == _NO or one.word in _list("limits")
        if turns or spare <= 0 or (slack == 0 and one.clause != said[at - 1].clause):
            return None
        spare -= 1
    return None


def _fairly_cut(
    said: Sequence[_Item], clauses: Sequence[_Clause], place: tuple[int, int], how: Reading
) -> bool:
    """Whether what was left out before and after changes nothing."""
    start, end = place
    first, last = said[start].clause, said[end - 1].clause
    before = [item for item in said[:start] if item.clause == first]
    after = [item for item in said[end:] if item.clause == last]
    opens = _list("opens") if how.rule else _list("opens") | _list("mine")
    if any(item.word not in opens for item in before):
        return False
    if any(item.key == _NO and clauses[item.clause].words - _list("opens") for item in before):
        return False
    kept = end - start + (clauses[first].first in _SELVES)  # "I'm a nurse" says enough
    power = not clauses[last].words.isdisjoint(_list("powers"))
    if after and not _may_be_cut(after, kept, how, cut_short=power):
        return False
    for number, clause in enumerate(clauses):
        inside = first <= number <= last
        if not inside and clause.words and not _beside(clauses, number, first, how):
            return False
        if how.rule and number > last and _objects(clause, clauses[number - 1].mark):
            return False
    return True


def _objects(clause: _Clause, joined: str) -> bool:
    """ "…, das geht gar nicht" speaks of what was said before; "…, not spaces" and "because npm does not
    work" do not."""
    if joined in _list("reasons") or clause.first in _SELVES or clause.first in _list("no"):
        return False
    return clause.first in _list("comments") or bool(clause.words & _list("no"))


def _may_be_cut(after: Sequence[_Item], kept: int, how: Reading, *, cut_short: bool) -> bool:
    """The end of a clause: of a fact about the user more may go than of a rule, of a line that sums
    up what is too long for it; never what limits it, nor (`cut_short`) over what they have a say."""
    if any(one.key == _NO or one.word in _list("limits") for one in after):
        return False
    if all(one.word in _list("soft") or one.word in _list("opens") for one in after):
        return True
    if how.rule:
        return kept >= _LEAST_CUT and how.head
    return kept >= 2 and not cut_short


def _wanted_by_others(clauses: Sequence[_Clause], number: int) -> bool:
    """ "Mein Chef will, dass wir …"; and "everything but tests" speaks of all others."""
    clause = clauses[number]
    goes_on = clauses[number + 1].first if number + 1 < len(clauses) else ""
    wanted = goes_on == "dass" and bool(clause.words & _WILLING)
    return wanted or (clause.mark == "but" and clause.words <= _ALL)


def _beside(clauses: Sequence[_Clause], number: int, first: int, how: Reading) -> bool:
    """Whether a clause that was left out leaves the kept ones as they were."""
    clause = clauses[number]
    denied = bool(clause.words & _list("no"))
    if clause.words <= _list("opens") | _list("light") | _list("no"):
        # "no, …" opens a sentence; "…, but let's not" ends one.
        return not denied or (number < first and clause.words <= _list("opens") | _list("light"))
    own = clause.first in _SELVES
    if clause.words & _list("limits") and (number < first or not own):
        return False
    if not own and (clause.words & _list("reports") or _wanted_by_others(clauses, number)):
        return False
    if clause.first in _list("bounds") and (how.rule or number < first):
        return False
    if number > first:
        return True
    if clause.mark in ":：" and clause.mark:
        return (
            own
            or bool(clause.words & _list("no"))
            or clause.words <= (_list("labels") | _list("opens") | _list("light"))
        )
    return not denied or clause.mark in ";；" or clauses[first].first in _list("starts")
