"""Finds pairs of memories that can't both be right. Pure."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

from lamina.text import wording
from lamina.text.likeness import alike_pairs
from lamina.text.statements import (
    COMPARED,
    KEYED,
    OPPOSITE,
    POLES,
    TELLING,
    WORN,
    Said,
    about_of,
    plain_words,
    sentences_of,
    stripped,
    taken_apart,
    values_of,
)

_ALIKE = 0.5  # of the words that are left when what decides is taken out
_MOST_APART = 2  # words that one of two quarrelling sentences has alone: a name and an opposite
_ENOUGH = 4  # words in common that name a thing without a look at the files' titles
_MOST_SENTENCES = 60  # of one memory
_MOST_OF_ALL = 60_000  # sentences that are held against each other
_TOKEN = re.compile(r"[^\s,;.!?()]+(?:\.[^\s,;.!?()]+)*")
_REFUSED = re.compile(
    r"\b(?:not|never|nicht|nie|kein\w*|jamais|pas|nunca) (?:(?:from|on|in|to|with|the) )*`?(\w+)"
)


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
    spoken: dict[str, list[tuple[int, int]]] = {}  # the same sentence may stand in many memories
    place = 0
    for number, (path, head, sentences) in enumerate(told):
        heads.append((path, head))
        for sentence in sentences:
            spoken.setdefault(sentence, []).append((place, number))
            place += 1
    seen: set[tuple[str, str]] = set()
    for _, _, first, second, reason in sorted(_quarrels(heads, spoken)):
        pair = (heads[first][0], heads[second][0])
        if pair not in seen:
            seen.add(pair)
            yield *pair, reason


def _quarrels(
    heads: Sequence[tuple[str, str]], spoken: Mapping[str, list[tuple[int, int]]]
) -> Iterator[tuple[int, int, int, int, str]]:
    """Places of two sentences, the later first, the memories that they stand in, and the reason."""
    sentences = [one for one in spoken if not KEYED.match(one)]
    about = [about_of(plain_words(stripped(one)[1])) for one in sentences]
    apart = lru_cache(maxsize=4096)(taken_apart)  # few sentences are like another, some like many
    poles = wording.stems_of(POLES)
    for first, second, _ in alike_pairs(about, _ALIKE, apart=_MOST_APART):
        mine, theirs = {*about[first]} - poles, {*about[second]} - poles
        if max(len(mine - theirs), len(theirs - mine)) > 1:
            continue  # `_quarrel` would say the same, later
        one, other = apart(sentences[first]), apart(sentences[second])
        if not _quarrel(one, other):
            continue
        sure = _clearly_about_the_same(one, other)
        for place, number in spoken[one.text]:
            for there, another in spoken[other.text]:
                (a, x, left), (b, y, right) = (place, number, one), (there, another, other)
                if a > b:
                    (a, x, left), (b, y, right) = (b, y, right), (a, x, left)
                same = heads[x][0] == heads[y][0]
                if same or not (sure or _related(heads[x][1], heads[y][1])):
                    continue
                if reason := _quarrel(left, right):
                    said = f"(“{_short(left.text)}” / “{_short(right.text)}”)"
                    yield b, a, x, y, f"{reason} {said}"


def disagreement(one: str, other: str) -> str:
    """ "" or why two sentences of one file can't both be so."""
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
    enough = _ENOUGH if mine or theirs else _ENOUGH - 1
    named = [values_of(said.text).get("place", frozenset[str]()) for said in (one, other)]
    return len({*one.about} & {*other.about}) + len(named[0] & named[1]) >= enough


def _apart(one: Said, other: Said) -> tuple[set[str], set[str]]:
    poles = wording.content_stems(" ".join(one.poles ^ other.poles))
    mine, theirs = {*one.about}, {*other.about}
    return mine - theirs - poles, theirs - mine - poles


def _quarrel(one: Said, other: Said) -> str:
    """ "" or in what two sentences differ, if they are about the same thing."""
    if one.where != other.where or one.labels != other.labels or one.keyed or other.keyed:
        return ""
    mine, theirs = _apart(one, other)
    shared, apart = len({*one.about}.intersection(other.about)), len(mine) + len(theirs)
    rules = one.rule and other.rule and not apart
    if shared < (1 if rules else 2) or max(len(mine), len(theirs)) > 1:
        return ""
    same = one.no == other.no and one.poles == other.poles
    if same and apart:  # before the values, which take long to find
        name = _other_name(one.text, other.text) if apart == 2 else ""
        return name if name and values_of(one.text) == values_of(other.text) else ""
    values, others = values_of(one.text), values_of(other.text)
    if values == others:
        return _turned(one, other, apart, shared)
    return _other_value(values, others) if same and one.tells and other.tells else ""


def _turned(one: Said, other: Said, apart: int, shared: int) -> str:
    """The same said with the opposite sign or word, or the other way round."""
    if one.no != other.no:
        clear = not apart or (apart == 1 and shared >= _ENOUGH - 1)
        return "one of them says not" if clear and one.poles == other.poles else ""
    mine, theirs = one.poles - other.poles, other.poles - one.poles
    if mine or theirs:
        both = len(mine) == len(theirs) == 1 and OPPOSITE[min(mine)] in theirs
        return f"{min(mine)} / {min(theirs)}" if both and apart <= 1 else ""
    around = {(less, more) for more, less in COMPARED.findall(one.text.casefold())}
    turned = around.intersection(COMPARED.findall(other.text.casefold()))
    if not turned and not apart:
        mine, theirs = ({*_REFUSED.findall(said.text.casefold())} for said in (one, other))
        turned = mine and theirs and not mine & theirs
    return "the other way round" if turned else ""


def _other_value(one: Mapping[str, frozenset[str]], other: Mapping[str, frozenset[str]]) -> str:
    differing = [kind for kind in one if one[kind] != other.get(kind)]
    if len(differing) != 1 or one.keys() != other.keys():
        return ""
    left, right = one[differing[0]] - other[differing[0]], other[differing[0]] - one[differing[0]]
    alone = len(left) == len(right) == 1
    units = {value.partition(" ")[2] for value in (*left, *right)}
    if not alone or (differing[0] == "number" and len(units) > 1):
        return ""
    return f"{min(left)} / {min(right)}"


def _other_name(one: str, other: str) -> str:
    """ "The owner is Marta" / "The owner is Pavel": sentences that part at one name or value alone."""
    first, second = _TOKEN.findall(one), _TOKEN.findall(other)
    if len(first) != len(second):
        return ""
    parted = [(a, b) for a, b in zip(first, second, strict=True) if a.casefold() != b.casefold()]
    if len(parted) != 1:
        return ""
    (a, b), at = parted[0], next(i for i, word in enumerate(first) if word == parted[0][0])
    named = all(word[:1] in "`\"'" or word[:1].isupper() or not word.isalpha() for word in (a, b))
    told = any(word.casefold() in TELLING for word in first[:at])
    return f"{a} / {b}" if at and told and (named or first[at - 1].casefold() in TELLING) else ""


def _short(sentence: str) -> str:
    folded = wording.fold(sentence)
    return folded if len(folded) <= 60 else f"{folded[:57]}…"
