"""Finds pairs of memories that can't both be right. Pure."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import accumulate, chain, filterfalse, islice, product, takewhile

from lamina.text import wording
from lamina.text.pairs import alike_pairs, one_apart, pairs_among
from lamina.text.statements import (
    COMPARED,
    EXCEPTS,
    OPPOSITES,
    PERSONS,
    POLES,
    SCOPES,
    TELLING,
    TIMES,
    UNREAL,
    WORN,
    Said,
    clauses_of,
    matter_of,
    measured,
    opening_apart,
    sentences_of,
    stripped,
    taken_apart,
    values_of,
)
from lamina.text.unspaced import LEAST_ALIKE, MOST_APART, is_wide, pairs_of, parting

_ALIKE = 0.5  # of the words that are left when what decides is taken out
_MOST_APART = 2  # words that one of two quarrelling sentences has alone: a name and an opposite
_ENOUGH = 4  # words in common that name a thing without a look at the files' titles
_LONGEST_NAME = 3  # words
_ARTICLES = frozenset("the a an der die das dem den le la o".split())  # noqa: SIM905 - a word list
_PLACES = SCOPES - {"test", "tests", "testing", "ci"}  # those are what a file is about
_SERIES = 2  # titles of one form need not be of a series
_MOST_SENTENCES = 60  # of one memory
_MOST_OF_ALL = 60_000  # sentences that are held against each other
_ROWS = 300  # sentences that differ in numbers alone: more are of a series
_CROWD = 24  # sentences of one form that are all held against each other
_FEW = 3  # memories: more that say something in one form are of a series
_PART = 6  # of the sentences of a text, in two of a series
_NUMBER = re.compile(r"\d+")
_TOKEN = re.compile(r"[^\s,;.!?()]+(?:\.[^\s,;.!?()]+)*")
_REFUSED = re.compile(
    r"\b(?:not|never|nicht|nie|kein\w*|jamais|pas|nunca) (?:(?:from|on|in|to|with|the) )*`?(\w+)"
)


_taken_apart = lru_cache(maxsize=4096)(taken_apart)  # few are like another, some like many


def contradictions(
    texts: Iterable[tuple[str, str, str]], many: int
) -> Iterator[tuple[str, str, str]]:
    """(path, other path, reason) of two memories that can't both be right, once a pair, from (path,
    head, text) of each of so many. Only sentences about the same thing are held against each other: nearly the
    same words, in the same scope, that differ in a sign, an opposite or a single value."""
    known: dict[int, Sequence[str]] = {}  # by hash: the texts themselves are not held on to
    told: list[tuple[str, str, Sequence[str]]] = []
    for path, head, text in texts:
        if (mark := hash(text)) not in known:
            known[mark] = told_sentences(text, many)
        told.append((path, head, known[mark]))
    yield from quarrels(told)


def told_sentences(text: str, many: int) -> Sequence[str]:
    """The sentences of a text, one of so many, that are held against others."""
    most = max(3, min(_MOST_SENTENCES, _MOST_OF_ALL // max(1, many)))
    return tuple(map(sys.intern, islice(sentences_of(text), most)))  # many stand in several texts


def quarrels(told: Iterable[tuple[str, str, Sequence[str]]]) -> Iterator[tuple[str, str, str]]:
    """The same of memories whose sentences are known."""
    heads: list[tuple[str, str]] = []
    texts: dict[Sequence[str], None] = {}
    spoken: dict[str, list[tuple[int, int]]] = {}  # the same sentence may stand in many memories
    clauses: dict[str, Sequence[str]] = {}
    place = 0
    titles: list[str] = []
    for path, head, sentences in told:
        titles.append(head.partition("\n")[0])
        if sentences in texts:  # of copies the first speaks for all
            continue
        for sentence in sentences:
            if sentence not in clauses:
                clauses[sentence] = (sentence, *clauses_of(sentence))
            for said in clauses[sentence]:
                spoken.setdefault(said, []).append((place, len(heads)))
            place += 1
        heads.append((path, head))
        texts[sentences] = None
    del clauses
    said_by = [*texts]
    members = cache(partial(_members, titles))
    found: defaultdict[tuple[int, int], dict[str, tuple[str, bool]]] = defaultdict(dict)
    for _, _, first, second, reason, quoted, sure in sorted(_quarrels(heads, spoken)):
        found[first, second].setdefault(reason, (quoted, sure))
    seen: set[tuple[str, str]] = set()
    for (first, second), reasons in found.items():
        pair = (heads[first][0], heads[second][0])
        form = _form(heads[first][1], heads[second][1])
        # They are of two things if more than one differs in them, if a sentence doesn't say by itself of
        # what it speaks, or if there are more than two of the form.
        alone = len(reasons) == 1 and all(sure for _, sure in reasons.values())
        if pair in seen or (form and not (alone and members(form) <= _SERIES)):
            continue
        if not _parallel(said_by[first], said_by[second]):
            seen.add(pair)
            reason, (quoted, _) = next(iter(reasons.items()))
            yield *pair, f"{reason} {quoted}"


def _quarrels(
    heads: Sequence[tuple[str, str]], spoken: Mapping[str, Sequence[tuple[int, int]]]
) -> Iterator[tuple[int, int, int, int, str, str, bool]]:
    """Places of two sentences, the later first, the memories that they stand in, the reason, the sentences,
    and whether it is clear from them alone of what they speak."""
    found = [*chain(_of_words(spoken), _unspaced(spoken))]
    crowded, kin = _crowds(found, spoken)
    for one, other, reason, sure in found:
        if one in crowded:
            continue
        for (place, number), (there, another) in product(spoken[one], spoken[other]):
            (a, x, left), (b, y, right) = (place, number, one), (there, another, other)
            if a > b:
                (a, x, left), (b, y, right) = (b, y, right), (a, x, left)
            (path, head), (other_path, another_head) = heads[x], heads[y]
            if path == other_path or not kin[x].isdisjoint(kin[y]):
                continue
            if not (sure or _related(head, another_head)):
                continue
            if _of_two_things(head, another_head, left, right):
                continue
            titles = map(_words_of_title, (head, another_head))
            clear = sure or _titled_by(titles, (left, right))
            if told := reason if left is one else _reason(left, right):
                yield b, a, x, y, told, f"(“{_short(left)}” / “{_short(right)}”)", clear


def _crowds(
    found: Iterable[tuple[str, str, str, bool]], spoken: Mapping[str, Sequence[tuple[int, int]]]
) -> tuple[Collection[str], Mapping[int, set[int]]]:
    """Sentences of one form that too many memories hold to quarrel: each says it of its own host, customer
    or day. And by memory the forms that it shares so: those of one form are of a series in all that they say."""
    groups: dict[str, list[str]] = {}
    for one, other, _, _ in found:
        less, more = sorted(
            (groups.setdefault(one, [one]), groups.setdefault(other, [other])), key=len
        )
        if less is not more:
            more += less
            groups |= dict.fromkeys(less, more)
    crowded: set[str] = set()
    kin: defaultdict[int, set[int]] = defaultdict(set)
    for form, group in {id(group): group for group in groups.values()}.items():
        numbers = {number for one in group for _, number in spoken[one]}
        if len(numbers) > _FEW or len(numbers) == len(group) == _FEW:
            crowded.update(group)
            for number in numbers:
                kin[number].add(form)
    return crowded, kin


def _parallel(one: Sequence[str], other: Sequence[str]) -> bool:
    """Do two texts say several things in the same form, and each otherwise? So do two of a series, each
    of its own customer, host or day."""
    mine, theirs = (
        [*map(_matter, {*text} - {*beside})] for text, beside in ((one, other), (other, one))
    )
    met: list[Collection[str]] = []
    for matter in mine:
        if any(_alike(matter, another) for another in theirs) and not any(
            _alike(matter, before) for before in met
        ):
            met.append(matter)
    return len(met) >= max(2, min(len(mine), len(theirs)) // _PART)


@lru_cache(maxsize=4096)
def _matter(sentence: str) -> frozenset[str]:
    wide = is_wide(sentence)
    return frozenset(pairs_of(sentence) if wide else matter_of(stripped(sentence)[1]))


def _alike(one: Collection[str], other: Collection[str]) -> bool:
    shared = len({*one}.intersection(other))
    return shared > 1 and 2 * shared > _ALIKE * (len(one) + len(other))


def _of_words(spoken: Iterable[str]) -> Iterator[tuple[str, str, str, bool]]:
    """Pairs of sentences that quarrel, in what, and whether it is clear from them alone of what they speak."""
    sentences = [one for one in spoken if not is_wide(one)]
    about = [(*matter_of(bare), *labels) for _, bare, labels in map(stripped, sentences)]
    poles = wording.stems_of(POLES)
    # They part at a word, at an opposite, or at both; or at a name, which may have several words.
    pairs = one_apart(about, _ALIKE, poles, crowd=_CROWD)
    for first, second in sorted({*pairs, *_beside_names(sentences, about)}):
        one, other = _taken_apart(sentences[first]), _taken_apart(sentences[second])
        if reason := _quarrel(one, other):
            yield one.text, other.text, reason, _clearly_about_the_same(one, other)


def _no_rows(sentences: Iterable[str]) -> Sequence[str]:
    """Those of which not so many differ in numbers alone: each of a table's rows is about something else, and
    all against all would take minutes."""
    forms = [(_NUMBER.sub("0", one), one) for one in sentences]
    many = Counter(form for form, _ in forms)
    return [one for form, one in forms if many[form] <= _ROWS]


def _beside_names(
    sentences: Sequence[str], about: Sequence[Collection[str]]
) -> Iterator[tuple[int, int]]:
    """Places of those that are the same but for a name (`_other_name`), as they are found without it."""
    once: dict[int, int] = {}
    more: dict[int, list[int]] = {}
    for place, sentence in enumerate(sentences):
        for frame in _frames(_TOKEN.findall(sentence)):
            first = once.setdefault(frame, place)
            if first != place:
                more.setdefault(frame, [first]).append(place)
    del once
    for places in more.values():
        for first, second in pairs_among(sorted({*places}), _CROWD):
            mine, theirs = {*about[first]}, {*about[second]}
            shared = len(mine & theirs)
            alone = max(len(mine), len(theirs)) - shared
            if alone <= _MOST_APART and shared >= _ALIKE * len(mine | theirs):
                yield first, second


def _frames(words: Sequence[str]) -> Iterator[int]:
    """What is before and behind each name that there may be (`_may_name`), as a number."""
    folded = [word.casefold() for word in words]
    if TELLING.isdisjoint(folded):
        return
    ahead = [*accumulate(folded, lambda sum_, word: hash((sum_, word)), initial=0)]
    behind = [*accumulate(reversed(folded), lambda sum_, word: hash((sum_, word)), initial=0)][::-1]
    told = tells = False
    for start, word in enumerate(folded):
        for end in range(start + 1, 1 + min(start + _LONGEST_NAME, len(words))) if told else ():
            named = _is_named(words[end - 1])
            if named or (tells and end == start + 1):
                yield hash((ahead[start], behind[end]))
            if not named:
                break
        told = told or word in TELLING
        tells = word in TELLING or (tells and word in _ARTICLES)


def _is_named(word: str) -> bool:
    return word[:1] in "`\"'" or word[:1].isupper() or not word.isalpha()


def _unspaced(spoken: Iterable[str]) -> Iterator[tuple[str, str, str, bool]]:
    """The same of Chinese, Japanese and Korean."""
    sentences = _no_rows(filter(is_wide, spoken))
    for first, second, _ in alike_pairs([*map(pairs_of, sentences)], LEAST_ALIKE, apart=MOST_APART):
        reason, sure = parting(sentences[first], sentences[second])
        if reason:
            yield sentences[first], sentences[second], reason, sure


def _reason(one: str, other: str) -> str:
    if is_wide(one) and is_wide(other):
        return parting(one, other)[0]
    return _quarrel(_taken_apart(one), _taken_apart(other))


def _of_two_things(head: str, another: str, *sentences: str) -> bool:
    """Do two files speak of two things by their titles? Of a series every part says the same of something
    else: "Sprint 11" and "Sprint 12", "dev" and "prod"."""
    titles = [_words_of_title(one) for one in (head, another)]
    for narrows in (_PLACES.__contains__, _is_number):
        mine, theirs = ([*filter(narrows, title)] for title in titles)
        if mine and theirs and mine != theirs and _of_one_form(titles, narrows):
            return not _titled_by(titles, sentences)
    return False


def _of_one_form(titles: Iterable[Sequence[str]], narrows: Callable[[str], bool]) -> bool:
    one, other = (wording.stems_of(filterfalse(narrows, title)) for title in titles)
    return not one.isdisjoint(other) or not (one and other)


def _titled_by(titles: Iterable[Sequence[str]], sentences: Iterable[str]) -> bool:
    """Is a title made of the sentence itself? Such narrows nothing."""
    told = {word for one in sentences for word in wording.words(one)}
    return any(len(told.intersection(title)) > len(title) / 2 for title in titles)


def _form(head: str, another: str) -> tuple[str, ...]:
    """What two titles that part at one word of several have in common, with nothing for that word:
    "Client Aydin", "Client Berg"."""
    one, other = _words_of_title(head), _words_of_title(another)
    form = tuple(a if a == b else "" for a, b in zip(one, other, strict=False))
    return form if 2 <= len(one) == len(other) and form.count("") == 1 else ()


def _members(titles: Iterable[str], form: tuple[str, ...]) -> int:
    """How many different titles are of a form."""
    return sum(
        len(title) == len(form) and all(a in ("", b) for a, b in zip(form, title, strict=True))
        for title in {tuple(_words_of_title(one)) for one in titles}
    )


@lru_cache(maxsize=1024)
def _words_of_title(head: str) -> Sequence[str]:
    """Of the head's first line, without words that say nothing of the matter."""
    found = wording.words(head.partition("\n")[0].replace("_", " "))
    return [word for word in found if wording.stem(word) not in WORN]


def _is_number(word: str) -> bool:
    return any(map(str.isdigit, word))


def disagreement(one: str, other: str) -> str:
    """ "" or why two sentences of one file can't both be so."""
    if is_wide(one) and is_wide(other):
        return parting(one, other)[0]
    first, second = taken_apart(one), taken_apart(other)
    reason = _quarrel(first, second)
    return (
        reason if reason and (_clearly_about_the_same(first, second) or _related(one, one)) else ""
    )


def _related(head: str, other: str) -> bool:
    """Do two files share a word of their titles that says something?"""
    return not (_title(head) & _title(other)) <= WORN


@lru_cache(maxsize=1024)
def _title(head: str) -> frozenset[str]:
    return wording.content_stems(head.replace("_", " "))


def _clearly_about_the_same(one: Said, other: Said) -> bool:
    """A few words in common are about the same thing only where the files are, too."""
    mine, theirs = _apart(one, other)
    opposites = len(mine) == len(theirs) == 1 and opening_apart(*mine, *theirs)
    alike = opposites or not (mine or theirs)
    enough = _ENOUGH - alike - (one.generic and other.generic)
    if one.keyed or other.keyed:
        return False
    named = [values_of(said.text).get("place", frozenset[str]()) for said in (one, other)]
    shared = len({*one.about} & {*other.about}) + 2 * len(one.labels & other.labels)
    return shared + len(named[0] & named[1]) + _measure_alike(one, other) >= enough


def _measure_alike(one: Said, other: Said) -> bool:
    """Do both give one measure of something? That says of it as much as a word does."""
    units = [
        [measured(value)[0] for value in values_of(said.text).get("number", ())]
        for said in (one, other)
    ]
    return len(units[0]) == 1 and units[0][0] != "" and units[0] == units[1]


def _apart(one: Said, other: Said) -> tuple[set[str], set[str]]:
    poles = wording.content_stems(" ".join(one.poles ^ other.poles))
    mine, theirs = {*one.about}, {*other.about}
    return mine - theirs - poles, theirs - mine - poles


def _quarrel(one: Said, other: Said) -> str:
    """ "" or in what two sentences differ, if they are about the same thing."""
    if one.labels != other.labels or one.where & UNREAL or _elsewhere(one, other):
        return ""
    mine, theirs = _apart(one, other)
    shared, apart = len({*one.about}.intersection(other.about)), len(mine) + len(theirs)
    if (one.keyed or other.keyed) and shared + _measure_alike(one, other) < _ENOUGH - 1:
        return ""  # "Port: 8080"
    rules = one.rule and other.rule and not apart
    if shared < (1 if rules else 2):
        return ""
    same = one.no == other.no and one.poles == other.poles
    if same and len(mine) == len(theirs) == 1 and opening_apart(*mine, *theirs):
        return (
            f"{min(mine)} / {min(theirs)}" if values_of(one.text) == values_of(other.text) else ""
        )
    if same and apart:  # before the values, which take long to find
        name = _other_name(one.text, other.text)
        return name if name and values_of(one.text) == values_of(other.text) else ""
    if max(len(mine), len(theirs)) > 1:
        return ""
    values, others = values_of(one.text), values_of(other.text)
    if values == others:
        return _turned(one, other, apart, shared)
    return _other_value(one, other, values, others) if same else ""


def _elsewhere(one: Said, other: Said) -> bool:
    """Is one so of somebody else, somewhere else, or some other time? A time that stands first may stand
    last in the other."""
    openings = {one.opening, other.opening}
    if len(openings) == 2 and openings <= PERSONS:  # "He prefers …", "She prefers …"
        return True
    if (EXCEPTS.search(one.text) is None) != (EXCEPTS.search(other.text) is None):
        return True
    where = one.where ^ other.where
    return bool(where) and not where <= TIMES.intersection(
        wording.words(one.text), wording.words(other.text)
    )


def _turned(one: Said, other: Said, apart: int, shared: int) -> str:
    """The same said with the opposite sign or word, or the other way round."""
    if one.no != other.no:
        clear = not apart or (apart == 1 and shared >= _ENOUGH - 1)
        return "one of them says not" if clear and one.poles == other.poles else ""
    mine, theirs = one.poles - other.poles, other.poles - one.poles
    if mine or theirs:
        both = len(mine) == len(theirs) == 1 and theirs <= OPPOSITES[min(mine)]
        return f"{min(mine)} / {min(theirs)}" if both and apart <= 1 else ""
    around = {(less, more) for more, less in COMPARED.findall(one.text.casefold())}
    turned = around.intersection(COMPARED.findall(other.text.casefold()))
    if not turned and not apart:
        mine, theirs = ({*_REFUSED.findall(said.text.casefold())} for said in (one, other))
        turned = mine and theirs and not mine & theirs
    return "the other way round" if turned else ""


def _other_value(
    one: Said,
    other: Said,
    values: Mapping[str, frozenset[str]],
    others: Mapping[str, frozenset[str]],
) -> str:
    """The single value in which they differ; where no verb or preposition tells of what, a measure only."""
    differing = [kind for kind in values if values[kind] != others.get(kind)]
    if len(differing) != 1 or values.keys() != others.keys():
        return ""
    kind = differing[0]
    left, right = values[kind] - others[kind], others[kind] - values[kind]
    if len(left) != 1 or len(right) != 1:
        return ""
    mine, theirs = min(left), min(right)
    if kind == "number":
        (unit, much), (another, many) = measured(mine), measured(theirs)
        told = unit == another and much != many and (unit != "" or (one.tells and other.tells))
    elif kind == "place":  # "Queue `mail` …" speaks of that queue
        told = _tells_of(one.text, mine) and _tells_of(other.text, theirs)
    else:
        told = one.tells and other.tells
    return f"{mine} / {theirs}" if told else ""


def _tells_of(text: str, place: str) -> bool:
    return not TELLING.isdisjoint(wording.words(text.partition(place)[0]))


def _other_name(one: str, other: str) -> str:
    """ "The owner is Marta" / "The owner is Pavel": sentences that part at one name or value alone."""
    first, second = _TOKEN.findall(one), _TOKEN.findall(other)
    start = _same(first, second)
    end = _same(first[start:][::-1], second[start:][::-1])
    mine, theirs = first[start : len(first) - end], second[start : len(second) - end]
    if not (start and mine and theirs) or max(len(mine), len(theirs)) > _LONGEST_NAME:
        return ""
    ahead = [word.casefold() for word in first[:start]]
    name = _may_name([*mine, *theirs], ahead, alone=len(mine) == len(theirs) == 1)
    return f"{' '.join(mine)} / {' '.join(theirs)}" if name else ""


def _may_name(words: Sequence[str], ahead: Sequence[str], *, alone: bool) -> bool:
    """May these be names, as what stands ahead of them tells something of them? One word alone directly
    behind what tells may be any."""
    if TELLING.isdisjoint(ahead):
        return False
    behind = next((word for word in reversed(ahead) if word not in _ARTICLES), "")
    return (alone and behind in TELLING) or all(map(_is_named, words))


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words they begin with are the same."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0].casefold() == pair[1].casefold(), pairs))


def _short(sentence: str) -> str:
    folded = wording.fold(sentence)
    return folded if len(folded) <= 60 else f"{folded[:57]}…"
