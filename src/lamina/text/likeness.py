"""Finds pairs of texts that share most of their words, among thousands, without comparing all. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from lamina.text import wording
from lamina.text.about import negates
from lamina.text.sentences import sentences

_ALIKE = 0.6  # of the words that are left when what decides is taken out
_FEWEST = 3  # words that a sentence must share to speak of the same thing
_MOST_SENTENCES = 60  # of one memory
_NOT = frozenset(
    ("not", "no", "never", "dont", "doesnt", "isnt", "arent", "cant", "cannot", "wont", "shouldnt",
     "mustnt", "without")
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
)  # fmt: skip
_OPPOSITES = (
    ("always", "never"), ("enabled", "disabled"), ("enable", "disable"), ("before", "after"),
    ("allowed", "forbidden"), ("on", "off"), ("true", "false"), ("tabs", "spaces"),
    ("required", "optional"), ("sync", "async"), ("public", "private"), ("prefers", "dislikes"),
    ("yes", "no"), ("accepted", "rejected"), ("uses", "avoids"), ("first", "last"),
    ("over", "under"), ("up", "down"),
)  # fmt: skip
_OPPOSITE = {a: b for pair in _OPPOSITES for a, b in (pair, pair[::-1])}
_COMPARED = re.compile(r"(\w+) (?:over|to|than|instead of|before|after|statt|als|vor|nach) (\w+)")
_DECIDES = {*_NOT, *_DAYS, *_MONTHS, *_OPPOSITE}


def contradictions(texts: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """(path, other path, reason) for each suspicion; two memories once."""
    said = [
        (path, sentence)
        for path, text in texts
        for sentence in [*_sentences(text)][:_MOST_SENTENCES]
    ]
    topics = [_topic(sentence) for _, sentence in said]
    seen: set[tuple[str, str]] = set()
    for one, other, _ in alike_pairs(topics, _ALIKE):
        (path, sentence), (rival, claim) = said[one], said[other]
        if path == rival or (path, rival) in seen or len(topics[one] & topics[other]) < _FEWEST:
            continue
        reason = difference(sentence, claim)
        if reason:
            seen.add((path, rival))
            yield path, rival, f"{reason} (“{_short(sentence)}” / “{_short(claim)}”)"


def difference(one: str, other: str) -> str:
    """ "" or in what two sentences on the same thing differ."""
    first, second = _plain(one), _plain(other)
    for word in sorted(first - second):
        if _OPPOSITE.get(word) in second - first:
            return f"{word} / {_OPPOSITE[word]}"
    if bool(first & _NOT) != bool(second & _NOT):
        return "one of them says not"
    for names in (_DAYS, _MONTHS):
        mine, theirs = first.intersection(names), second.intersection(names)
        if mine and theirs and not mine & theirs:
            return f"{min(mine)} / {min(theirs)}"
    mine, theirs = _numbers(one), _numbers(other)
    if mine and theirs and len(mine) == len(theirs) and not mine & theirs:
        return f"{min(mine)} / {min(theirs)}"
    return ""


def tells_apart(one: str, other: str) -> bool:
    """Of two texts with nearly the same words: do they name different things, or say different things
    of the same? A number, a letter, a day, a negation or the order of a comparison decides."""
    for marks in (_numbers, _letters):
        mine, theirs = marks(one), marks(other)
        if mine - theirs and theirs - mine:
            return True
    if negates(one) != negates(other) or difference(one, other):
        return True
    turned = {(less, more) for more, less in _COMPARED.findall(one.casefold())}
    return not turned.isdisjoint(_COMPARED.findall(other.casefold()))


def _letters(text: str) -> set[str]:
    """Letters that stand alone as names do: "shop A"."""
    return {letter.casefold() for letter in re.findall(r"\b[A-HJ-Z]\b(?!['’])", text)}


def _sentences(text: str) -> Iterator[str]:
    for sentence in sentences(text, semicolons=True):
        bare = sentence.strip(" \t-*#>|")
        if 12 <= len(bare) <= 400:
            yield bare


def _plain(sentence: str) -> set[str]:
    return {word.replace("'", "") for word in wording.words(sentence)}


def _topic(sentence: str) -> frozenset[str]:
    left = [
        word
        for word in wording.words(sentence)
        if word.replace("'", "") not in _DECIDES and not any(map(str.isdigit, word))
    ]
    return wording.content_stems(" ".join(left))


def _numbers(sentence: str) -> set[str]:
    return {wording.number_key(number) for number in re.findall(r"\d+(?:[.,:-]\d+)*", sentence)}


def _short(sentence: str) -> str:
    folded = wording.fold(sentence)
    return folded if len(folded) <= 60 else f"{folded[:57]}…"


def alike_pairs(sets: Sequence[frozenset[str]], least: float) -> Iterator[tuple[int, int, float]]:
    """Every pair (i < j) whose Jaccard likeness is at least `least`, with the likeness.

    Two sets that alike must share one of their rarest words, so only sets that do are compared.
    """
    spread = Counter(word for words in sets for word in words)
    by_word: dict[str, list[int]] = defaultdict(list)
    for number, words in enumerate(sets):
        if not words:
            continue
        rare = sorted(words, key=lambda word: (spread[word], word))
        needed = len(rare) - math.ceil(least * len(rare) - 1e-9) + 1
        rivals = {other for word in rare[:needed] for other in by_word[word]}
        for other in sorted(rivals):
            small, large = sorted((len(words), len(sets[other])))
            if small < least * large:
                continue
            shared = len(words & sets[other])
            if shared >= least * (small + large - shared):
                yield other, number, shared / (small + large - shared)
        for word in rare[:needed]:
            by_word[word].append(number)
