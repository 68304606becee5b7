"""Says how likely a sentence is to hold something worth keeping, and of which type: a linear judge
and one with a small hidden layer, who must agree, learned from `bench/data/judge_*.jsonl` by
`bench/train_judge.py`. Reads its one data file when first asked; the same sentence always gets the
same answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from importlib.resources import files
from math import log
from typing import TYPE_CHECKING, Any
from zlib import crc32

from lamina.local.embedder import word_vectors
from lamina.local.finders import (
    ASKED,
    CHEER,
    CHORE_START,
    CONFIRMED,
    CORRECTED,
    DATE,
    LEANS_BACK,
    LEANS_ON,
    NAMELESS,
    OF_THE_MOMENT,
    PAST,
    REPEATED,
    ROLE,
    RULE,
    SOURCE_FILE,
    TICKET,
    TOLD,
    Find,
    content_words,
    elsewhere,
    fitting,
    is_of_the_moment,
    leans,
    of_the_task,
    reason_in,
    stands,
    tells_of_the_user,
    without_opener,
)
from lamina.memories import MEMORY_TYPES, MemoryType
from lamina.text.asks import classify
from lamina.text.cue_words import EMAIL, IDENTIFIER, LANGUAGES, PATH, SARCASM, SYSTEMS, URL, Cues
from lamina.text.dates import find_dates
from lamina.text.lists import Listed, words
from lamina.text.own_words import Sentence
from lamina.text.wording import content_stems

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


BUCKETS = 1 << 16
_CUES = tuple(field.name for field in fields(Cues))
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|\d+|[\u3400-\u9fff\u3040-\u30ff]|[!?:=…]")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_NAMES = ((URL, " Url "), (EMAIL, " Email "), (PATH, " Path "), (IDENTIFIER, " Name "))


def seen(message: Sequence[Sentence], place: int) -> tuple[list[int], list[int]]:
    """The buckets of all that is seen at one sentence of a message: of words and signs, and of parts
    of words, which count less. Sorted, each once."""
    return _buckets(_signs(message, place)), _buckets(_parts(message[place]))


def _buckets(names: Iterator[str]) -> list[int]:
    return sorted({crc32(name.encode("utf-8", "replace")) % BUCKETS for name in names})


def _signs(message: Sequence[Sentence], place: int) -> Iterator[str]:
    sentence = message[place]
    words = _words(sentence)
    yield from _runs(words)
    yield from _cues(sentence)
    yield from _dates(sentence)
    yield f"length {min(len(words) // 4, 8)}"
    yield f"place {min(place, 2)} of {min(len(message), 4)}"
    if sentence.answers:
        yield "answers"
        yield from (f"answers {cue}" for cue in _cues(sentence) if cue in {"praise", "go_on"})
    for name, other in (("before", place - 1), ("after", place + 1)):
        if 0 <= other < len(message):
            yield from (f"{name} {cue}" for cue in _cues(message[other]))
            yield from (f"{name} {word}" for word in _words(message[other])[:3])


def _words(sentence: Sentence) -> list[str]:
    text = re.sub("\x01+", " Quote ", sentence.plain)
    for pattern, name in _NAMES:
        text = pattern.sub(name, text)
    return [
        "0" * min(len(word), 4) if word.isdecimal() else word.lower().replace("’", "'")
        for word in _WORD.findall(text)
    ]


def _runs(words: Sequence[str]) -> Iterator[str]:
    """Single words and their beginnings, pairs, threes, pairs with a gap; how it begins and ends."""
    padded = ["^", *words, "$"]
    for i, word in enumerate(words):
        yield word
        if len(word) > 5:
            yield f"{word[:5]}~"
        if i < 3:
            yield f"^{i} {word}"
    for i in range(len(padded) - 1):
        yield f"{padded[i]} {padded[i + 1]}"
        if i + 2 < len(padded):
            yield f"{padded[i]} {padded[i + 1]} {padded[i + 2]}"
            yield f"{padded[i]} _ {padded[i + 2]}"


def _parts(sentence: Sentence) -> Iterator[str]:
    text = " " + " ".join(sentence.text.lower().split()) + " "
    for size in (
        (1, 2, 3) if _WIDE.search(text) else (3, 4, 5)
    ):  # a wide character says as much as a syllable
        yield from (f"…{text[i : i + size]}" for i in range(len(text) - size + 1))


@lru_cache(maxsize=256)
def _cues(sentence: Sentence) -> tuple[str, ...]:
    rules = LANGUAGES[sentence.lang]
    found = [name for name in _CUES if getattr(rules, name).search(sentence.plain)]
    others = (("sarcasm", SARCASM), ("system", SYSTEMS), ("url", URL))
    if classify(sentence.text).keeps:
        found.append("remember")
    return (*found, *(name for name, pattern in others if pattern.search(sentence.text)))


def _dates(sentence: Sentence) -> Iterator[str]:
    today = sentence.said.date()
    for hit in find_dates(sentence.text, today):
        yield "date ahead" if hit.day >= today else "date past"
        if hit.bare:
            yield "date bare"


def marks(sentence: Sentence) -> list[int]:
    """The buckets of what shows that a statement lasts, beside its words: names, sums, whose it is."""
    return _buckets(_marks(sentence))


def _marks(sentence: Sentence) -> Iterator[str]:
    for name, pattern in _MARKS.items():
        yield f"{name} {min(len(pattern.findall(sentence.text)), 3)}"
    yield f"of the moment {bool(OF_THE_MOMENT.match(sentence.plain))}"
    yield f"identifier {bool(IDENTIFIER.search(sentence.plain))}"


_MARKS = {
    name: Listed(f"telling.{name}", flags=re.NOFLAG)
    for name in ("names", "sums", "numbers", "versions", "own")
}
_AMOUNTS = Listed("telling.amounts", flags=re.NOFLAG)


# How likely it must be: where nine in ten were right with writers whom the judge had not seen …
_SURE: dict[MemoryType, float] = {
    "feedback": 0.89,
    "project": 0.74,
    "reference": 0.54,
    "user": 0.74,
}
# … if something speaks against it …
_SURER: dict[MemoryType, float] = {
    "feedback": 0.96,
    "project": 0.89,
    "reference": 0.69,
    "user": 0.79,
}
# … and if a rule speaks for it.
_DOUBTED = {
    ASKED: 0.06, CONFIRMED: 0.05, RULE: 0.6, DATE: 0.25, CORRECTED: 0.0, ROLE: 0.35, TOLD: 0.0
}  # fmt: skip
_PLAIN = {RULE: 0.25, DATE: 0.0}  # … and its words leave no doubt
_MAY_LAST = 0.3  # set by hand on sentences of our own
# Sentences in German gather less weight for the same certainty.
_EASIER = {"en": 0.0, "de": 0.05, "zh": 0.0}
_TELLS = 3  # words that a sentence needs to say by itself what another one leans on
_TELLING = 5  # words of a statement that says of whom or what
_A_RULE = 0.5  # what reads like one, and is kept as none, is no statement either
# How likely a statement lasts, in log-odds; chosen with each kind of talk left out of the learning …
_LASTS = 0.3
_SURELY_LASTS = 2.0  # … and, for one that tells little, where the strangers' sets lost nothing
_OTHERS_LAST = 0.5  # … what is told of others in the middle of a talk …
_GOES_ALONG = -0.5  # … and what only has to be named: the message is kept anyway
_FOLLOWS = 0.15  # what comes after a rule and may be part of one belongs to it
_LIKE: dict[MemoryType, str] = {
    "user": "it reads like something about the user",
    "feedback": "it reads like how to work",
    "project": "it reads like a fact of the project",
    "reference": "it reads like where something is kept",
}


def judged(message: list[Sentence], place: int, rules: Cues) -> Find | None:
    """A memory that the judge is sure of; else what the user states and reads as if it lasts."""
    view = opinion(message, place)
    return _sure(message, place, view, rules) or _stated(message, place, view)


def _stated(message: list[Sentence], place: int, view: Opinion) -> Find | None:
    sentence = message[place]
    kind = view.type
    if kind not in ("user", "project"):
        if view.worth > _A_RULE:
            return None
        kind = "user"  # what the others hold for nothing is of no type of theirs
    line = _line(sentence)
    if line is None or lasts(sentence, view) < line:  # costs more than all that was asked before
        return None
    return anchored(Find(kind, without_opener(sentence.text), (sentence,), TOLD), message, place)


def _line(sentence: Sentence) -> float | None:
    """How likely it must last; None where no likelihood would do."""
    told = tells(sentence.plain)
    if is_statement(sentence):
        return _LASTS if told else _SURELY_LASTS
    code = TICKET.search(sentence.plain) or IDENTIFIER.search(sentence.plain)
    passing = told and sentence.answers and not code and _stands_alone(sentence)
    return _OTHERS_LAST if passing else None  # who opens a talk hands over work


def is_statement(sentence: Sentence) -> bool:
    """Does the speaker state something of themselves that can be read alone?"""
    return bool(_I_STATE.match(sentence.plain)) and _stands_alone(sentence)


def _stands_alone(sentence: Sentence) -> bool:
    """Learned in English only."""
    plain = sentence.plain
    if sentence.lang != "en" or len(plain.split()) < _TELLING:
        return False
    goes_on = LEANS_ON.match(plain) or sentence.text.rstrip().endswith((":", "?"))
    return not (goes_on or PATH.search(plain) or classify(plain).asks)


def goes_along(message: Sequence[Sentence], place: int) -> bool:
    """Does it last well enough to be named in a memory that says the whole message anyway?"""
    sentence = message[place]
    own = sentence.lang == "en" and not (sentence.material or sentence.document)
    return own and lasts(sentence, opinion(message, place)) >= _GOES_ALONG


def tells(plain: str) -> bool:
    """Names somebody or something, says when or how much, and not for the task at hand."""
    told = any(one.search(plain) for one in (_MARKS["names"], _MARKS["own"], _AMOUNTS))
    return told and not of_the_task(plain)


def _sure(message: list[Sentence], place: int, view: Opinion, rules: Cues) -> Find | None:
    sentence = message[place]
    if _is_short(sentence, view.type) or _misleads(sentence, view.type, rules):
        return None
    against = _speaks_against(sentence, view.type, rules)
    if view.worth < (_SURER if against else _SURE)[view.type] - _EASIER[sentence.lang]:
        return None
    kind = view.type
    if kind == "reference" and _RUNS_IN.match(sentence.plain) and not SYSTEMS.search(sentence.text):
        kind = "project"
    text = without_opener(sentence.text)
    why = reason_in(text, rules)
    return anchored(Find(kind, text, (sentence,), _LIKE[kind], why), message, place)


def may_last(message: list[Sentence], place: int, rules: Cues) -> Find | None:
    """What is worth a person's look if the user says it again and again: the judge need not be sure of
    it, only not against it. One-off orders and moods stay out, however often they come."""
    sentence = message[place]
    view = opinion(message, place)
    # "No emojis" is short, and yet all of it.
    first = next(iter(without_opener(sentence.plain).casefold().split()), "")
    short = first not in _NO_SUCH and _is_short(sentence, view.type)
    if view.worth < _MAY_LAST or short or _misleads(sentence, view.type, rules):
        return None
    if leans(text := without_opener(sentence.text)):
        return None
    return Find(view.type, text, (sentence,), REPEATED, reason_in(text, rules))


def anchored(find: Find, message: list[Sentence], place: int) -> Find | None:
    """What is told, with the sentence that says of what; None if there is none."""
    here = find.type == "user" and elsewhere(_HERE, find.text)
    if find.reason not in {TOLD, _LIKE["user"]} or not (here or leans(find.text)):
        return find
    whole = without_opener(message[place].text)
    if len(whole) > len(find.text) and not leans(whole):
        return replace(find, text=whole)
    before = message[place - 1] if place else None
    if before is None or not stands(before) or len(content_words(before.text)) <= _TELLS:
        return None
    if NAMELESS.match(before.plain) or OF_THE_MOMENT.match(before.plain) or leans(before.text):
        return None
    text = f"{without_opener(before.text)} {find.text}"
    return replace(find, text=text, because=(before, message[place]))


def weighed(find: Find, message: list[Sentence]) -> Find | None:
    """What a rule found, if it reads like one, under the type that it reads like."""
    views = [opinion(message, message.index(s)) for s in find.because if s in message]
    best = max(views, key=lambda view: view.worth, default=None)
    if best is None:
        return find
    usual = (_PLAIN if find.plain else _DOUBTED)[find.reason]
    if best.worth < (usual if find.bar is None else find.bar):
        return None
    if find.certain:
        return find
    kind = best.type
    if find.reason == ASKED:
        kind = fitting(kind, find.text)
    elif find.reason == TOLD and kind != "feedback":  # a taste is the user's, or how to work
        kind = find.type
    return replace(find, type=kind)


def completed(find: Find, message: list[Sentence], place: int, room_after: bool) -> Find:
    """A rule with the sentences that it leans on ("keep it that way"); and with the one that completes
    it ("no recaps, please. Two lines at most."), as what the user tells of themselves."""
    if find.type not in ("feedback", "user") or find.because != (message[place],):
        return find
    parts = [(find.text, message[place])]
    if find.type == "feedback" and LEANS_BACK.search(message[place].plain):
        for before in reversed(message[max(0, place - 2) : place]):
            if not stands(before):
                break
            parts.insert(0, (without_opener(before.text), before))
            if len(content_words(before.text)) >= _TELLS:
                break
    after = message[place + 1 : place + 2] if room_after else []
    if after and stands(after[0]):
        view = opinion(message, place + 1)
        if view.type == find.type and view.worth >= _FOLLOWS:
            parts.append((after[0].text, after[0]))
    text = " ".join(text for text, _ in parts)
    return replace(find, text=text, because=tuple(sentence for _, sentence in parts))


def _is_short(sentence: Sentence, kind: MemoryType) -> bool:
    return kind in {"feedback", "project"} and len(content_words(sentence.text)) < 3


def _misleads(sentence: Sentence, kind: MemoryType, rules: Cues) -> bool:
    """Hands something over, promises, doubts, or leans on what is not named: of these too many were
    wrong, however sure the judge was."""
    plain = sentence.plain
    if sentence.text.rstrip().endswith((":", "：")) or _COURTESY.search(plain):
        return True
    if kind == "feedback":
        starts = (_SAYING, CHORE_START, _ONE_OFF)
        return tells_of_the_user(plain, rules) or any(one.match(plain) for one in starts)
    if OF_THE_MOMENT.match(plain):
        return True
    if kind == "project":
        return bool(NAMELESS.match(plain) or IDENTIFIER.search(plain))
    if kind == "reference":
        return bool(_IN_REPOSITORY.search(plain))
    of_another = _ANOTHER.match(plain) and not _FIRST_PERSON.search(plain)
    return bool(of_another or LEANS_ON.match(plain))


_RUNS_IN = Listed("telling.runs_in")
_NO_SUCH = ("no", "never", "kein", "keine", "keinen")
_FIRST_PERSON = words("telling.first_person")
_I_STATE = Listed("telling.i_state")
_ONE_OFF = Listed("finders.one_off")
_ANOTHER = Listed("telling.another")
_SAYING = Listed("telling.saying")
_COURTESY = Listed("finders.courtesy")


_HERE = re.compile(r"(?i)\bhere\b(?! (?:in|at)\b)")
_IN_REPOSITORY = Listed("finders.in_repository", flags=re.NOFLAG)


def _speaks_against(sentence: Sentence, kind: MemoryType, rules: Cues) -> bool:
    """About code, a quotation, the past or the task at hand, by the look of it."""
    plain = sentence.plain
    if CHEER.search(plain) or CHORE_START.match(plain):
        return True
    if kind == "reference":
        in_code = SOURCE_FILE.search(plain) or PATH.search(plain)
        return bool(in_code and not URL.search(sentence.text)) or bool(PAST.search(plain))
    if "\x01" in plain or PATH.search(plain) or IDENTIFIER.search(plain) or TICKET.search(plain):
        return True
    if kind == "feedback":
        return is_of_the_moment(plain, rules)
    return bool((rules.not_event if kind == "project" else rules.this_time).search(plain))


TYPES = MEMORY_TYPES
PARTS_WEIGHT = 0.5
MEANING_WEIGHT = 4.0
LENGTH = 8.0  # what is seen of a sentence has this length for the hidden layer, however long it is
_TABLE = "judge.npz"


@dataclass(frozen=True, slots=True)
class Opinion:
    """How likely a sentence is worth keeping, and as what if so."""

    worth: float
    type: MemoryType
    words: Sequence[int] = ()  # the buckets of what was seen


def opinion(message: Sequence[Sentence], place: int) -> Opinion:
    """What the judge holds of one sentence of a message."""
    return _opinion((*message,), place)


@lru_cache(maxsize=64)  # each sentence is asked about several times, while its message is read
def _opinion(message: tuple[Sentence, ...], place: int) -> Opinion:
    import numpy as np

    learned = table()
    words, parts = seen(message, place)
    direction = meaning(message[place].text)
    scores = _summed(learned, "buckets", words, parts, direction) + learned["bias"]
    hidden = _summed(learned, "hidden", words, parts, direction)
    hidden *= np.float32(LENGTH / _length(words, parts, direction))
    active = np.maximum(hidden + learned["hidden_bias"], np.float32(0))
    both = _chances(scores) + _chances(active @ learned["out"] + learned["out_bias"])
    odds = np.exp(_chances(both / np.float32(2)))
    best = int(odds[1:].argmax())
    return Opinion(float(1 - odds[0]), TYPES[best], words)


def lasts(sentence: Sentence, view: Opinion) -> float:
    """The log-odds that a statement of the user's lasts, in view of what the others hold of it."""
    import numpy as np

    learned = table()
    found = learned["lasting"][[*view.words, *marks(sentence)]].sum(dtype=np.int32)
    others = learned["lasting_worth"] * log_odds(view.worth)
    return float(found * learned["lasting_step"] + others + learned["lasting_bias"])


def log_odds(worth: float) -> float:
    """Of what is held for worth nothing they would have no end."""
    return log((worth + 0.001) / (1.001 - worth))


def _summed(
    learned: dict[str, Any], name: str, words: list[int], parts: list[int], direction: Floats | None
) -> Floats:
    """The weights of all that was seen, added up: parts of words count less."""
    import numpy as np

    rows = learned[name]
    found = rows[words].sum(axis=0, dtype=np.int32) + np.float32(PARTS_WEIGHT) * rows[parts].sum(
        axis=0, dtype=np.int32
    )
    found = (found * learned[f"{name}_steps"]).astype(np.float32)
    return found if direction is None else found + direction @ learned[f"{name}_meaning"]


def _length(words: list[int], parts: list[int], direction: Floats | None) -> float:
    square = len(words) + PARTS_WEIGHT**2 * len(parts)
    return max(1e-6, square + (0.0 if direction is None else float(direction @ direction))) ** 0.5


def _chances(scores: Floats) -> Floats:
    """Logarithms of how likely each type is; of two judges' sum, of what they hold together."""
    import numpy as np

    scores = scores - scores.max()
    return scores - np.log(np.exp(scores).sum())


def meaning(text: str) -> Floats | None:
    """The direction of a sentence in the space of words, as the judge weighs it."""
    import numpy as np

    vector = word_vectors().embed(dict.fromkeys(sorted(content_stems(text)), 1.0))
    if vector is None:
        return None
    return vector * np.float32(MEANING_WEIGHT / max(1.0, float(np.linalg.norm(vector))))


@cache
def table() -> dict[str, Any]:
    import numpy as np

    source = files("lamina.local").joinpath(_TABLE)
    with source.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}
