"""Finds pairs of texts that share most of their words, among thousands, without comparing all. Pure."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from lamina.text import wording
from lamina.text.pairs import alike_pairs, one_apart
from lamina.text.wording import negates, spans

_ALIKE = 0.5  # of the words that are left when what decides is taken out
_RESTATED = 0.6  # of the words of two sentences that may say the same
_ENOUGH = 4  # words in common that name a thing without a look at the files' titles
_MOST_SENTENCES = 60  # of one memory
_MOST_OF_ALL = 60_000  # sentences that are held against each other
_NOT = frozenset(
    ("not", "no", "never", "dont", "doesnt", "isnt", "arent", "cant", "cannot", "wont", "shouldnt",
     "mustnt", "didnt", "without", "nicht", "kein", "keine", "keinen", "nie", "niemals", "nunca", "não",
     "jamais", "pas", "nessun")
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
    ("over", "under"), ("up", "down"), ("manually", "automatically"), ("immer", "nie"),
)  # fmt: skip
_OPPOSITE = {a: b for pair in _OPPOSITES for a, b in (pair, pair[::-1])}
_POLES = frozenset(_OPPOSITE) - _NOT - {"always"}
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SPELT_OUT = {word: str(number) for number, word in enumerate(_NUMBERS, 1)}
_SIGNS = _NOT.union(_SPELT_OUT, "always every ever please must should now use uses using".split())  # noqa: SIM905
_TELLING = frozenset(
    """is are was runs run uses use on in at to with via from by lives moved deploys prefers prefer ist sind
    every after begins starts needs need läuft nutzt mit auf est sur utilise tourne usa é""".split()  # noqa: SIM905
)
_SCOPES = frozenset(  # two sentences that differ in one of these speak of two things
    """production prod staging dev development local test tests testing ci preview sandbox windows linux macos
    mac ios android mobile desktop web frontend backend client server old new legacy first second
    third final previous was were had used war morning evening weekend weekdays default fallback input output read write
    upload    download min max minimum maximum lower upper left right top bottom request response source target parent
    child internal external admin user guest free paid primary secondary""".split()  # noqa: SIM905 - a word list
)
_WORN = frozenset(  # words of titles that say nothing of the matter
    """project feedback refer memory note rule user plan statu update state summari detail relat see md file
    work claud workflow""".split()  # noqa: SIM905 - a word list
)
_NO_MATTER = _WORN.union(_DAYS, _MONTHS)
_TIMES = frozenset({"before", "after", "vor", "nach"})  # at the head: "Before the move …"
_RULES = frozenset("always never use avoid dont do must prefer immer nie niemals".split())  # noqa: SIM905 - a word list
_UNITS = frozenset(
    """% k ms s sec seconds second min minutes minute h hours hour days day weeks week months month years year kb
    mb gb tb px em rem eur usd am pm uhr sekunden minuten stunden tage wochen
    monate""".split()  # noqa: SIM905 - a word list
)
_LIMITS = frozenset(
    """max min limit limited most least maximum minimum every exactly threshold""".split()  # noqa: SIM905 - a word list
)
_SPELT = re.compile(rf"(?i)\b(?:{'|'.join(_SPELT_OUT)})\b")
_ASIDE = re.compile(r"\((?:was|war|previously|updated|vorher)[^()]*\)|\[\[[^\]]*\]\]|\]\([^)]*\)")
_LABELLED = re.compile(r"#\d+|\b[A-Za-z]+-\d[\w-]*|\b[A-Z]+\d+\b|\b[A-HJ-Z]\b(?!['’])")
_DEFINITE = re.compile(r"(?i)(?:the|our|my|der|die|das) [^\W\d_]+ (?:is|are|ist|sind) \S+\W*\Z")
_KEYED = re.compile(r"[^:]{0,30}:(?=[\s*])")
_COUNTED = re.compile(r"\A\W*((?:[^\W\d_]+ ){0,2}[^\W\d_]{3,} \d+[a-z]?)(?![\w.,:%]*\d)(?=\W)")
_NAMED = re.compile(  # "topic 3 is …" speaks of a topic, wherever in the sentence
    r"\b([^\W\d_]{3,} \d+[a-z]?)(?= (?:is|are|was|were|has|have|runs?|uses?|needs?|ist|sind|hat|est|é)\b)"
)
_NUMBERED = frozenset("port version limit timeout".split())  # noqa: SIM905 - a word list
_VALUE = re.compile(r"(?<![\w.~–/-])(\d[\d.,:]*)(?:[ -]?(%|[^\W\d_]+))?(?![\w~–/-])")
_PLACE = re.compile(r"https?://\S+|[~.]?/?[\w.-]+(?:/[\w.-]+)+|`[^`]+`")
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\b\d+/\d+\b")
_TOKEN = re.compile(r"[^\s,;.!?()]+(?:\.[^\s,;.!?()]+)*")
_ENTRY = re.compile(r"[-*+#|>]|\d+[.)] ")
_WRAPPED = re.compile(r"(?<=[^\s.!?:;。])\n(?=[^\W\d]|[`(\"])")
_INSTEAD = ("instead of", "rather than", "anstatt", "statt")
_POINTING = (*"[[ http related why siehe verwandt voir link status source".split(), "see ")  # noqa: SIM905
_REFUSED = re.compile(
    r"\b(?:not|never|nicht|nie|kein\w*|jamais|pas|nunca) (?:(?:from|on|in|to|with|the) )*`?(\w+)"
)
_COMPARED = re.compile(r"(\w+) (?:over|to|than|instead of|before|after|statt|als|vor|nach) (\w+)")


@dataclass(frozen=True, slots=True)
class _Said:
    """One sentence of a memory, taken apart: what it speaks of, and what of that may decide."""

    text: str
    about: tuple[str, ...]  # stems without signs and values, each once
    no: bool
    poles: frozenset[str]  # words that have an opposite
    where: frozenset[str]  # words that narrow it: an environment, a platform, a day of its own
    labels: frozenset[str]  # "plan 12", "#4711": names of things, which differ without a quarrel
    keyed: bool  # "Port: 8080" says of what
    rule: bool  # "always …", "never …", or in short what "the …" is
    tells: bool  # it has the verb or preposition that a value follows


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
    return tuple(map(sys.intern, islice(_sentences(text), most)))  # many stand in several texts


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
    sentences = [one for one in spoken if not _KEYED.match(one)]
    about = [_about(_plain_words(_stripped(one)[1])) for one in sentences]
    apart = lru_cache(maxsize=4096)(_taken_apart)  # few sentences are like another, some like many
    poles = wording.stems_of(_POLES)
    for first, second in one_apart(about, _ALIKE, poles):  # a name, and an opposite
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
    first, second = _taken_apart(one), _taken_apart(other)
    reason = _quarrel(first, second)
    return (
        reason if reason and (_clearly_about_the_same(first, second) or _related(one, one)) else ""
    )


def _related(head: str, other: str) -> bool:
    """Do two files share a word of their titles that says something?"""
    return not (_title(head) & _title(other)) <= _WORN


@lru_cache(maxsize=1024)
def _title(head: str) -> frozenset[str]:
    return wording.content_stems(head.replace("_", " "))


def _clearly_about_the_same(one: _Said, other: _Said) -> bool:
    """A few words in common are about the same thing only where the files are, too."""
    mine, theirs = _apart(one, other)
    enough = _ENOUGH if mine or theirs else _ENOUGH - 1
    named = [_values_of(said.text).get("place", frozenset[str]()) for said in (one, other)]
    return len({*one.about} & {*other.about}) + len(named[0] & named[1]) >= enough


def _apart(one: _Said, other: _Said) -> tuple[set[str], set[str]]:
    differing = one.poles ^ other.poles
    poles = wording.content_stems(" ".join(differing)) if differing else frozenset[str]()
    mine, theirs = {*one.about}, {*other.about}
    return mine - theirs - poles, theirs - mine - poles


def _quarrel(one: _Said, other: _Said) -> str:
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
        return name if name and _values_of(one.text) == _values_of(other.text) else ""
    values, others = _values_of(one.text), _values_of(other.text)
    if values == others:
        return _turned(one, other, apart, shared)
    return _other_value(values, others) if same and one.tells and other.tells else ""


def _turned(one: _Said, other: _Said, apart: int, shared: int) -> str:
    """The same said with the opposite sign or word, or the other way round."""
    if one.no != other.no:
        clear = not apart or (apart == 1 and shared >= _ENOUGH - 1)
        return "one of them says not" if clear and one.poles == other.poles else ""
    mine, theirs = one.poles - other.poles, other.poles - one.poles
    if mine or theirs:
        both = len(mine) == len(theirs) == 1 and _OPPOSITE[min(mine)] in theirs
        return f"{min(mine)} / {min(theirs)}" if both and apart <= 1 else ""
    around = {(less, more) for more, less in _COMPARED.findall(one.text.casefold())}
    turned = around.intersection(_COMPARED.findall(other.text.casefold()))
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
    (first, folded), (second, others) = _tokens(one), _tokens(other)
    if len(first) != len(second):
        return ""
    parted = [place for place in range(len(first)) if folded[place] != others[place]]
    if len(parted) != 1:
        return ""
    a, b = first[parted[0]], second[parted[0]]
    at = first.index(a)
    named = all(word[:1] in "`\"'" or word[:1].isupper() or not word.isalpha() for word in (a, b))
    told = any(word.casefold() in _TELLING for word in first[:at])
    return f"{a} / {b}" if at and told and (named or first[at - 1].casefold() in _TELLING) else ""


@lru_cache(maxsize=4096)
def _tokens(sentence: str) -> tuple[Sequence[str], Sequence[str]]:
    """As they stand, and folded."""
    found = _TOKEN.findall(sentence)
    return found, [word.casefold() for word in found]


def _stripped(sentence: str) -> tuple[str, str, set[str]]:
    """A sentence without asides, without places and names of things too, and those names."""
    plain = _ASIDE.sub(" ", sentence) if "(" in sentence or "[[" in sentence else sentence
    bare = _PLACE.sub(" ", plain) if "/" in plain or "`" in plain else plain
    labels = {found.casefold() for found in _LABELLED.findall(bare)}
    if labels:
        bare = _LABELLED.sub(" ", bare)
    counted = _COUNTED.match(bare)
    if counted and counted[1].split()[-2].casefold() not in _NUMBERED:
        labels.add(counted[1].casefold())
        bare = bare[counted.end(1) :]
    for found in _NAMED.findall(bare):
        if found.split()[0].casefold() not in _NUMBERED:
            labels.add(found.casefold())
            bare = bare.replace(found, " ", 1)
    return plain, bare, labels


def _plain_words(bare: str) -> frozenset[str]:
    found = wording.words(bare)
    if "'" in bare or not bare.isascii():
        return frozenset(word.replace("'", "") for word in found)
    return frozenset(found)


def _about(words: frozenset[str]) -> tuple[str, ...]:
    rest = [word for word in words - _SIGNS if word.isalpha() or not any(map(str.isdigit, word))]
    return tuple(wording.stems_of(rest) - _NO_MATTER)


def _taken_apart(sentence: str) -> _Said:
    _, bare, labels = _stripped(sentence)
    words = _plain_words(bare)
    return _Said(
        text=sentence,
        about=_about(words),
        no=len(words & _NOT) % 2 == 1,
        poles=_kept(words & _POLES),
        where=_kept(
            words & _SCOPES | {*_DATE.findall(sentence), *_TIMES & {*wording.words(bare[:12])[:1]}}
        ),
        labels=_kept(frozenset(labels)),
        keyed=bool(_KEYED.match(sentence)),
        rule=not words.isdisjoint(_RULES) or bool(_DEFINITE.match(sentence)),
        tells=not words.isdisjoint(_TELLING),
    )


@lru_cache(maxsize=1024)
def _kept(few: frozenset[str]) -> frozenset[str]:
    """One of those that are the same: most sentences have none of these words."""
    return few


@lru_cache(maxsize=4096)
def _values_of(sentence: str) -> Mapping[str, frozenset[str]]:
    """By kind: numbers with their unit, days, months, places."""
    plain, bare, _ = _stripped(sentence)
    words = _plain_words(bare)
    values = {
        "number": frozenset(_values(bare)),
        "day": frozenset(_DAYS).intersection(word.removesuffix("s") for word in words),
        "month": words.intersection(_MONTHS) - {"may"},
        "place": frozenset(filter(_is_place, _PLACE.findall(plain))),
    }
    return {kind: found for kind, found in values.items() if found}


def _values(text: str) -> Iterator[str]:
    """Numbers with their unit. How many of a thing there are changes and is no quarrel, unless the
    sentence sets a limit."""
    limit = not _LIMITS.isdisjoint(wording.words(text))
    if limit:
        text = _SPELT.sub(lambda found: _SPELT_OUT[found[0].casefold()], text)
    for number, unit in _VALUE.findall(text):
        word = unit.casefold()
        if word in _UNITS:
            yield f"{_number(number)} {word}"
        elif limit or ":" in number or not word or word in _TELLING:
            yield _number(number)


def _is_place(found: str) -> bool:
    """Not a pointer to a document, nor a commit: many of those may be right."""
    bare = found.strip("`").rstrip(".,;:)")
    return not (bare.endswith(".md") or re.fullmatch(r"[0-9a-f]{6,40}|[A-Z]+-\d[\d/]*", bare))


def _number(text: str) -> str:
    """15, 15.0 and 15,000 without its comma: one number has one spelling."""
    plain = wording.number_key(text).rstrip(".,:")
    return plain.rstrip("0").rstrip(".") if plain.count(".") == 1 else plain


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


def restated(sentences: Sequence[str], least: float = _RESTATED) -> Iterator[tuple[int, int, bool]]:
    """Pairs of sentences about the same thing, and whether they say the same of it: the same words in
    the same order, but for signs such as "please" or "use", and nothing that tells them apart."""
    plain = list(sentences)
    for phrase in _INSTEAD:
        plain = [one.replace(f" {phrase} ", " not ") for one in plain]
    about = [_about(_plain_words(_stripped(one)[1])) for one in plain]
    for first, second, _ in alike_pairs(about, least):
        one, other = plain[first], plain[second]
        shared = {*about[first]}.intersection(about[second])
        orders = [
            [
                *dict.fromkeys(
                    stem for word in wording.words(text) for stem in wording.stems_of([word])
                )
            ]
            for text in (one, other)
        ]
        left, right = ([stem for stem in order if stem in shared] for order in orders)
        yield first, second, left == right and not tells_apart(one, other)


def _letters(text: str) -> set[str]:  # that stand alone as names do: "shop A"
    return {letter.casefold() for letter in re.findall(r"\b[A-HJ-Z]\b(?!['’])", text)}


def _sentences(text: str) -> Iterator[str]:
    """Whole sentences: lines that were wrapped become one again, and what only heads or points is none."""
    for paragraph in text.split("\n\n"):  # one by one: most readers want the first few sentences
        joined = _WRAPPED.sub(" ", paragraph)
        dated = False  # what follows a date in its paragraph was so on that day
        for start, end in spans(joined, semicolons=True):
            sentence = joined[start:end].strip()
            if dated and not _ENTRY.match(sentence):
                continue
            dated = bool(_DATE.search(sentence[:40]))
            bare = sentence.strip(" \t-*#>|")
            if not 8 <= len(bare) <= 300 or "|" in bare or sentence.startswith("#"):
                continue
            opening = bare[:24].casefold().lstrip("*")
            if not opening.startswith(_POINTING) and not bare.rstrip("*_").endswith(":"):
                yield bare


def _plain(sentence: str) -> set[str]:
    return {word.replace("'", "") for word in wording.words(sentence)}


def _numbers(sentence: str) -> set[str]:
    return {wording.number_key(number) for number in re.findall(r"\d+(?:[.,:-]\d+)*", sentence)}


def _short(sentence: str) -> str:
    folded = wording.fold(sentence)
    return folded if len(folded) <= 60 else f"{folded[:57]}…"
