"""Takes memories apart into statements and says whether two of them can both be true. Pure.

It is sure only where the form leaves no room: the same subject with another number, day, place or
name, the same rule with the opposite sign, or a statement that something is over. The rest is doubt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from lamina.memories import Memory
from lamina.text import wording
from lamina.text.asks import classify, find_order, speaks_for_user
from lamina.text.lists import Listed, anywhere, sections, words
from lamina.text.origins import asks_somebody
from lamina.text.own_words import speaks_of
from lamina.text.wording import content_stems, hard_tokens, spans

Judgement = Literal["sure", "doubtful", ""]


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence or list item of a body, and where it stands."""

    start: int
    end: int
    text: str  # without list marker and trailing space
    label: bool  # "**Why:** …", "**How to apply:** …": explains another statement


_FENCE = re.compile(r"^(```|~~~).*?(?:^\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"[^\n]+")
_MARKER = re.compile(r"[ \t]*(?:[-*+][ \t]+|\d{1,3}[.)][ \t]+|>[ \t]?)?")
_LABEL = re.compile(r"\*\*(?:why|how to apply)\b", re.IGNORECASE)


@lru_cache(maxsize=4096)
def statements(body: str) -> tuple[Statement, ...]:
    """All statements of a body in order; headings and fenced code are none."""
    code = bytearray(len(body))
    for fence in _FENCE.finditer(body):
        code[fence.start() : fence.end()] = b"\x01" * len(fence[0])
    found: list[Statement] = []
    for line in _LINE.finditer(body):
        if code[line.start()] or line[0].startswith("#"):
            continue
        marker = _MARKER.match(line[0])
        offset = marker.end() if marker else 0
        label = bool(_LABEL.match(line[0], offset))
        for start, end in spans(line[0][offset:], semicolons=False):
            text = line[0][offset + start : offset + end].strip()
            if text:
                at = line.start() + offset
                found.append(Statement(at + start, at + end, text, label))
    return tuple(found)


def headings(body: str) -> list[str]:
    """The headings outside code, without their marks."""
    bare = _FENCE.sub("", body)
    found = (line.lstrip("#").strip() for line in bare.splitlines() if line.startswith("#"))
    return [text for text in found if text]


def fenced_blocks(body: str) -> list[str]:
    """Code in a body: taken along whole."""
    return [match[0] for match in _FENCE.finditer(body)]


# --- still said ---

# Words that turn, narrow or soften what stands beside them; most are too common to be content words.
_TURNING = words("claims.turning")
# Marks and words, anywhere in a sentence, with which it repeats something to call it in question.
_UNSAYING = Listed("claims.unsaying")
_ENDING = words("claims.ending")
_CLAUSE = re.compile(
    r"[.;,!?:\n。；，！？：]+\s*|\s[–—-]\s|\b(?:but|because|and|und|aber|weil|sondern)\b"
)
_COMPARES = re.compile(r"(?i)\b(?:over|than|before|after|instead|rather|statt|als|vor|nach)\b")
_NAMED = re.compile(r"(?<!^)(?<![.!?] )\b[A-Z][\w]*|^[A-Z][a-z]+(?= (?:[a-z]+s|and|is|has)\b)")


def same_words(text: str) -> str:
    """A statement for comparing word by word: spacing, case and the full stop don't count."""
    return wording.fold(text).casefold().rstrip(" .。")


def covered(statement: str, memory: Memory) -> bool:
    """Whether one single statement of the memory says all of this one."""
    return not any(map(str.isalnum, statement)) or any(
        carries(other, statement) for other in said_in(memory)
    )


def said_in(memory: Memory) -> list[str]:
    lines = (one.text for one in statements(memory.body))
    return [memory.name, memory.description, *headings(memory.body), *lines]


@lru_cache(maxsize=8192)
def carries(text: str, statement: str) -> bool:
    """Whether a text says all of a statement: its words in their order, its numbers and names, with
    the same sign, and of the same person."""
    stems = content_stems(statement)
    if not stems <= content_stems(text):
        return False
    tokens = hard_tokens(statement)
    if same_words(text) == same_words(statement):
        return True
    if not stems and not tokens:
        return not any(map(str.isalnum, statement))
    return (
        tokens <= hard_tokens(text)
        and set(_UNSAYING.findall(text)) <= set(_UNSAYING.findall(statement))
        and _turns(_about(text, stems)) == _turns(statement)
        and in_order(statement, text)
        and not speaks_of(statement, (text,))
    )


def overturns(later: str, earlier: str) -> bool:
    """Whether one repeats all words of the other to say that it is not so, or the other way round."""
    old = content_stems(earlier) - _NEGATIONS - _WEIGHTLESS
    about = _about(later, old)
    if not old or not old <= content_stems(about) or hard_tokens(earlier) - hard_tokens(later):
        return False
    if speaks_of(earlier, (later,)):
        return False
    ends, ended = _ENDING.search(about), _ENDING.search(earlier)
    return bool(ends) != bool(ended) or not in_order(earlier, later)


def _turns(text: str) -> set[str]:
    return {found.casefold() for found in _TURNING.findall(text)}


def _about(text: str, stems: frozenset[str]) -> str:
    """The clauses that share words with a statement."""
    return ", ".join(clause for clause in _CLAUSE.split(text) if content_stems(clause) & stems)


def in_order(statement: str, text: str) -> bool:
    """Alice reviews for Bob; Bob does not review for Alice. Tabs over spaces is not spaces over tabs."""
    compared = _COMPARES.search(statement)
    named = {one.casefold() for one in _NAMED.findall(statement)}
    wanted = [one for one in _ordered(statement) if compared or one[0] in named]
    rest = iter([stem for _, stem in _ordered(text)])
    return all(stem in rest for _, stem in wanted)


def _ordered(text: str) -> list[tuple[str, str]]:
    """Words and their stems; runs of a script without spaces hold their order themselves."""
    found = [(word, content_stems(word)) for word in wording.words(text)]
    return [(word, next(iter(stems))) for word, stems in found if len(stems) == 1]


# --- polarity ---

_NEGATIONS = frozenset(
    """not no never dont doesnt isnt arent cant wont avoid stop without nicht nie niemals kein keine
    keinen""".split()  # noqa: SIM905 - a word list
)
_WEIGHTLESS = frozenset("alway ever pleas immer stets bitt now again anymor use".split())  # noqa: SIM905 - a word list
_OVER = words("claims.over")
_OVER_STEMS = frozenset("longer anymor more nicht mehr not no".split())  # noqa: SIM905 - a word list


def negations(text: str) -> frozenset[str]:
    return content_stems(text) & _NEGATIONS


def speaks_of_an_end(text: str) -> bool:
    return bool(_OVER.search(text))


def declares_over(later: str, earlier: str) -> bool:
    """ "We no longer deploy on Fridays" ends "We deploy on Fridays"."""
    if not speaks_of_an_end(later) or speaks_of_an_end(earlier):
        return False
    old, new = content_stems(earlier), content_stems(later) - _OVER_STEMS
    return len(old) >= 2 and old - _WEIGHTLESS <= new and len(new) <= 3 * len(old)


def _opposite(one: str, other: str) -> bool:
    first, second = content_stems(one), content_stems(other)
    bare_first = first - _NEGATIONS - _WEIGHTLESS
    if len(bare_first) < 1 or bare_first != second - _NEGATIONS - _WEIGHTLESS:
        return False
    return bool(first & _NEGATIONS) != bool(second & _NEGATIONS)


# --- subject and value ---

_CLAIM = Listed("claims.claim", flags=re.NOFLAG)
_MANY_VALUED = frozenset("use uses prefer prefers nutzt verwendet 用 在".split())  # noqa: SIM905 - a word list
_MOVED = re.compile(r"now\b|moved to|changed to|改")
_DEFINITE = Listed("claims.definite")
_LEAD = Listed("claims.lead")
_DAY = Listed("claims.day")
_PLACE = re.compile(r"(?i)https?://\S+|\S+@\S+\.\S+|[~.]?/?[\w.-]+/[\w./-]+|`[^`]+`|#[\w-]+")
_NUMERIC = re.compile(
    r"v?\d[\w.,:/-]*(?:\s?(?:%|am|pm|uhr|(?:day|week|hour|minute|second|year)s?|[kmgt]b|ms|s))?",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Z][\w.+#-]*(?:\s[A-Z][\w.+#-]*){0,3}")


@dataclass(frozen=True, slots=True)
class Claim:
    """ "The staging port is 8080" as subject, verb and value."""

    subject: frozenset[str]
    definite: bool
    verb: str
    value: str
    kind: str  # number · day · place · name · other


@lru_cache(maxsize=8192)
def claim(text: str) -> Claim | None:
    """The claim that a short statement makes, if it has that form."""
    found = _CLAIM.fullmatch(text.strip().rstrip(".!。！"))
    if not found:
        return None
    subject = content_stems(found["subject"])
    value = found["value"].strip()
    while lead := _LEAD.match(value):
        value = value[lead.end() :]
    if not subject or not value:
        return None
    verb = found["verb"] or found["sign"] or found["zh"]
    definite = bool(_DEFINITE.match(found["subject"])) or found["sign"] is not None
    return Claim(subject, definite, verb, value, _kind(value))


def _kind(value: str) -> str:
    for kind, pattern in (("day", _DAY), ("place", _PLACE), ("number", _NUMERIC), ("name", _NAME)):
        if pattern.fullmatch(value):
            return kind
    return "other"


def judge(later: str, earlier: str) -> Judgement:
    """Whether the later statement takes the earlier one's place."""
    if later == earlier:
        return ""
    if declares_over(later, earlier) or _opposite(later, earlier):
        return "sure"
    new, old = claim(later), claim(earlier)
    if not new or not old or new.subject != old.subject:
        return ""
    as_before = content_stems(new.value) == content_stems(old.value)
    if as_before and hard_tokens(new.value) == hard_tokens(old.value):
        return ""
    moved = bool(_MOVED.search(new.verb)) or new.verb in {"改为", "改成", "改到"}
    same_verb = moved or _base(new.verb) == _base(old.verb)
    if not same_verb:
        return ""
    single = moved or (new.verb not in _MANY_VALUED and (new.definite or new.kind != "name"))
    if new.kind == old.kind != "other" and single:
        return "sure"
    short = max(len(new.value.split()), len(old.value.split())) <= 4
    return "doubtful" if short and (new.kind == old.kind) else ""


def _base(verb: str) -> str:
    same = {"are": "is", "are now": "is", "is now": "is", "use": "uses", "prefer": "prefers"}
    return same.get(verb, verb.rstrip("s") if verb.isascii() and len(verb) > 3 else verb)


# ---- what is plainly a fact

_FORMS = ("unit", "token", "literal", "marks", "aims", "signs", "dotted", "quoted")
_UNIT, _TOKEN, _LITERAL, _MARKS, _AIMS, _SIGNS, _DOTTED, _QUOTED = (
    Listed(f"statement.{one}") for one in _FORMS
)
_CHINESE_PART, _CHINESE_WORD = (Listed(f"statement.chinese_{one}") for one in ("part", "words"))
_CASED = ("wrapped", "past", "before_name")
_WRAPPED, _PAST, _BEFORE_NAME = (Listed(f"statement.{o}", flags=re.NOFLAG) for o in _CASED)
_LONGEST_STATEMENT, _SHORT_CHINESE = 400, 8  # characters
_LONGEST_NOUN, _LONGEST_PHRASE = 8, 12  # words without a verb; … that a number or a place opens
_LONGEST_SUBJECT, _LONGEST_TOPIC, _SHORT_TITLE = 10, 20, 3  # words


@lru_cache
def _listed(*names: str) -> frozenset[str]:
    lines = (one for name in names for one in sections("statement.txt")[name])
    return frozenset(" ".join(lines).casefold().split())


@lru_cache
def _forms(kind: str) -> frozenset[str]:
    """What a thing does (`verbs`), or what is done to it (`made`), the regular forms made by rule: wrong
    ones among them are no words, and do no harm."""
    does = kind == "verbs"
    bases, ends = _listed("acts", "does" if does else "undergone"), ("", "s", "es")
    found = {f"{one}{end}" for one in bases for end in (ends if does else ("d", "ed"))}
    found |= {f"{one[:-1]}{'ies' if does else 'ied'}" for one in bases if one[-1] == "y"}
    return _listed(kind).union(found, () if does else (f"{one}{one[-1]}ed" for one in bases))


@lru_cache(maxsize=1)
def _guiding() -> re.Pattern[str]:
    return anywhere(sections("statement.txt")["phrases"])


def no_statement(text: str, name: str = "") -> str:
    """ "" or what in a text is no statement of fact: it asks, orders, hides, or speaks for the user."""
    said = f"{name}\n{text}" if " " in name else text  # `check_the_log` is a name and says nothing
    found = {
        "gives an order: “{}”": find_order(text),
        "speaks for the user: “{}”": speaks_for_user(text),
        "hides words in a comment": "<!--" in text and "<!--",
        "asks for something: “{}”": asks_somebody(said)[:80],
    }
    return next((what.format(words) for what, words in found.items() if words), "")


def order_heard(text: str, heard: Callable[[], Iterable[str]]) -> str:
    """ "" or the order in a text that stands in what was heard."""
    orders = (classify(one).orders for one in wording.sentences(text))
    given = [wording.fold(order) for order in orders if order]
    told = [wording.fold(words) for words in heard()] if given else []
    return next((order for order in given if any(order in words for words in told)), "")


def no_plain_fact(text: str, title: str = "", told: Callable[[str], bool] | None = None) -> str:
    """ "" or the first sentence that does not plainly state a fact about a thing, in English, German or
    Chinese, and was not `told` by the user. What only names what the others state is none."""
    said = _WRAPPED.sub(" ", f"{text}\n{title}" if " " in title else text)
    units = [one for one in map(str.strip, _UNIT.split(said)) if any(map(str.isalnum, one))]
    plain = [one for one in units if states_fact(one) or (told and told(one))]
    known = {stem for one in plain for stem in content_stems(one)}
    return next((one for one in units if one not in plain and not _only_names(one, known)), "")


def _only_names(topic: str, known: set[str]) -> bool:
    """ "Build time", or words that stand in the statements: it says nothing of its own."""
    words, stems = _TOKEN.findall(topic.casefold()), content_stems(topic)
    short = len(words) <= _SHORT_TITLE and topic.isascii() and _is_name(topic, known)
    new = len(stems - known)  # a description says it in words of its own, too
    fits = short or (len(words) <= _LONGEST_TOPIC and bool(known) and 3 * new <= len(stems))
    return fits and not _guides(topic, words) and not _aims(topic)


def _is_name(topic: str, known: set[str]) -> bool:
    """ "Build time", but not "Whitelist box7 traffic" nor "Sicherungen verwerfen": what a new word that
    opens or ends it as a verb would asks for something."""
    first, last = topic.split(maxsplit=1)[0], topic.rsplit(maxsplit=1)[-1]
    counted = last.isdigit() and not _bids((first.casefold(),))  # "Fact 3"
    noun = counted or first.endswith((*_listed("nouns"),)) or content_stems(first) <= known
    acts = last.islower() and last.endswith("en") and not content_stems(last) <= known
    return ":" not in topic and (first == last or (noun and not acts))


def guides(name: str) -> bool:
    """Does a name of more than a few words guide whoever reads it?"""
    words = _TOKEN.findall(name.casefold())
    wide = [one for one in _listed("chinese_guides") if one in name]
    known = not _listed("guides", "german_guides").isdisjoint(words)
    return (known and len(words) > _SHORT_TITLE) or len(wide) > 1


def states_fact(sentence: str) -> bool:
    """Is it a thing and what it is, has or does, with nothing in it that guides a reader?"""
    bare = _MARKS.sub("", sentence).strip().replace("’", "'")
    plain = _LITERAL.sub("`", bare).rstrip(".;。； ").replace("here's ", "here is ")
    plain = _BEFORE_NAME.sub(r"\g<0>the ", plain)
    words = _TOKEN.findall(plain.casefold())
    if len(sentence) > _LONGEST_STATEMENT or _aims(bare) or _guides(plain, words):
        return False
    if any("\u3400" <= char <= "\u9fff" for char in plain):
        parts = [one for one in _CHINESE_PART.split(plain) if one.strip()]
        said = _states_in_chinese(parts[1 if plain[0] == "`" and len(parts) > 1 else 0])
        rest = (one.strip() for one in parts if not _states_in_chinese(one))
        return said and all(len(one) <= _SHORT_CHINESE for one in rest)
    clauses: list[tuple[str, list[str]]] = [("", [])]
    for word in words:
        if word in _listed("parts"):
            clauses.append((word, []))
        else:
            clauses[-1][1].append(word)
    filled = [(joint, part) for joint, part in clauses if part]
    mains = (_is_clause(part) or (at in {")", "]"} and _tells(part)) for at, part in filled)
    first = next((n for n, is_main in enumerate(mains) if is_main), len(filled))
    opens = _listed("determiners", "opens")
    named = len(filled) > 1 and (filled[1][1][0] in opens or filled[1][1][0][0].isdigit())
    labelled = named and (plain[0] == "`" or "**" in sentence[:5])
    return (
        (first < len(filled) or labelled or plain[:1].isdigit())  # "`f()` — a reader", "8 of 9"
        and all(_is_phrase(part) and _is_thing(part) for _, part in filled[:first])
        and all(_goes_on(joint, part) for joint, part in filled[first + 1 :])
    )


def _aims(bare: str) -> bool:
    """Does it hold a call, a host, an address, an account, a question, a quotation or markup?"""
    plain = _LITERAL.sub("`", bare)
    for code in _LITERAL.findall(bare):
        hosts = any(_is_host(one, code=True) for one in _DOTTED.findall(code))
        if hosts or _QUOTED.search(code) or _AIMS.search(code):
            return True
    hosts = any(_is_host(one) for one in _DOTTED.findall(plain))
    return hosts or bool(_SIGNS.search(plain) or _AIMS.search(plain))


def _is_host(dotted: str, *, code: bool = False) -> bool:
    """A dotted name, if it is neither a file's nor, in code, likely one of a program's."""
    *names, end = dotted.casefold().split(".")
    deep, known = len(names) > 1, end in _listed("hosts")
    is_file = end in _listed("endings") and not (deep and known)
    of_program = not known and dotted.rpartition(".")[2] not in (end, end.upper(), end.title())
    if is_file or of_program or len(end) < 2 or not end.isalpha():  # `pool.DrainAll`
        return False
    return not code or (deep and (len(end) == 2 or known)) or end in _listed("sure_hosts")


def _guides(sentence: str, words: Sequence[str]) -> bool:
    bare = _CHINESE_WORD.sub(" ", sentence)
    wide = not bare.isascii() and any(map(bare.__contains__, _listed("chinese_guides")))
    known = not _listed("guides", "german_guides").isdisjoint(words)
    return wide or known or bool(_guiding().search(sentence))


def _is_clause(words: Sequence[str]) -> bool:
    """A thing, then a verb that says what it is, has or does."""
    does = words[0].endswith("s") and words[0] in _forms("verbs")
    did = _PAST.match(words[0]) and words[1:] and words[1] in {"`", *_listed("places")}
    places = range(0 if does or did else 1, min(len(words), _LONGEST_SUBJECT + 1))
    return any(
        _is_thing(words[:at]) and _tells(words[at:]) and not _hides_verb(words, at) for at in places
    )


def _hides_verb(words: Sequence[str], at: int) -> bool:
    """ "Whitelist traffic box7 generates": a verb that lacks its object belongs to what stands before."""
    rest = [one for one in words[at + 1 :] if not one.endswith("ly")]
    lacks = words[at] in _forms("verbs") and (not rest or rest[0] in _listed("opens"))
    bare = at >= _SHORT_TITLE and words[0] not in _listed("determiners")
    alone = words[at] in _listed("intransitive") or words[at - 1].endswith("s")
    whatever = not {"whatever", "whichever", "what", "whoever"}.isdisjoint(words[:at])
    return whatever or (lacks and bare and not alone)


def _is_thing(subject: Sequence[str]) -> bool:
    """ "The user table", but neither "the user", "owners of …" nor "installing …"."""
    behind = (*subject[1:], "")
    acts = any(
        word.removesuffix("'s") in _listed("people")
        and (word.endswith("'s") or after in {"", *_listed("places")} or _tells((after,)))
        for word, after in zip(subject, behind, strict=False)
    )
    return not acts and not (subject and subject[0].endswith("ing"))


def _tells(rest: Sequence[str]) -> bool:
    """A verb of the list, and behind a form of "to be" a state, a noun or a place."""
    verb, last = rest[0], rest[-1]
    if verb in _listed("copula"):
        behind = [one for one in rest[1:] if one not in _listed("between")] or [""]
        state = behind[1] if len(behind) > 1 and behind[0].endswith("ly") else behind[0]
        ends = _listed("adjectives", "happened") if verb[0] == "w" else _listed("adjectives")
        listed = state in _forms("made") or state in _listed("states", "places")
        known = listed or state.endswith((*ends,))
        return known or not state.isalpha()
    if verb in _listed("german_verbs"):
        is_made = verb in _listed("german_copula") and last.islower()
        ended = last.startswith("ge") or last.endswith(("iert", "en"))
        done = is_made or (ended and verb.startswith("ha"))  # else its last word is a noun
        return len(rest) > 1 and (not done or last in _listed("german_made"))
    return verb in _forms("verbs") or verb in _listed("having") or bool(_PAST.match(verb))


def _is_phrase(words: Sequence[str]) -> bool:
    """A noun, a place, a number; no verb fits into so few words unseen."""
    opens = words[0] in _listed("opens") or words[0].endswith("ing") or words[0][0].isdigit()
    longest = _LONGEST_PHRASE if opens else _LONGEST_NOUN
    fits = len(words) <= longest and {"to", "zu", *_listed("copula")}.isdisjoint(words)
    return fits and not (len(words) > 2 and _bids(words))


def _bids(words: Sequence[str]) -> bool:
    return f"{words[0]}s" in _forms("verbs") | _listed("orders")  # "scan all sites"


def _goes_on(joint: str, words: Sequence[str]) -> bool:
    alone = joint not in _listed("relative") and _is_phrase(words)
    return alone or _is_clause(words) or (_tells(words) and (joint.isalpha() or not _bids(words)))


def _states_in_chinese(clause: str) -> bool:
    opens = clause.startswith(("共有", "由")) and len(clause) > 2  # "there are", "made by"
    verbs = _listed("chinese_verbs")
    return opens or any(clause.find(one) > 0 and not clause.endswith(one) for one in verbs)
