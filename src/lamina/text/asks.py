"""What a sentence does: what the user states in a quote (not what they ask or want forgotten, nor
what stands in quotation marks, unless they ask to remember it), what they want forgotten, and
whether a text orders its reader about. Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise

from lamina.text import wording
from lamina.text.lists import anywhere, sections
from lamina.text.origins import handed_over_in, without_quotations
from lamina.text.sentences import spans
from lamina.text.wishes import Wish, meant_by, wish_in
from lamina.text.wording import content_stems, sentences

_LONGEST = 2_000  # characters looked at: a wish is a sentence, not a document


@dataclass(frozen=True, slots=True)
class ForgetWish:
    words: str  # the statement, the topic or the file's name
    claim: bool = False  # a statement ("that I …"), not only a topic


_POLITE = re.compile(
    r"(?i)(?:(?:please|kindly|ok(?:ay)?|hey|now|then|and|bitte|actually|so)[,\s]+"
    r"|(?:can|could|would|will) you\s+|i(?: want|'d like| would like) you to\s+"
    r"|you (?:can|should|may|must)\s+|(?:kannst|könntest|würdest) du\s+|let'?s\s+)"
)
_FILE = r"[`'\"]?(?P<file>[\w/.-]+\.md)[`'\"]?"
_MINE = r"(?:my|our)"
_TOLD = r"(?:said|told you|wrote|mentioned|know|remember|learnt|learned|noted|saved|have)"
_ENGLISH = [
    rf"(?:the\s+)?(?:memory\s+|file\s+|note\s+)?{_FILE}",
    r"(?:the\s+fact\s+)?that\s+(?P<claim>.+)",
    (
        rf"(?:what|everything|anything|all)\s+(?:that\s+)?(?:(?:i|we|you)\s+)?(?:have\s+|ever\s+|just\s+)?"
        rf"(?:{_TOLD}\s+)?(?:about|on|regarding|concerning)\s+(?P<topic>.+)"
    ),
    r"the\s+(?:memory|memories|note|rule|fact|thing|part|bit|stuff)s?\s+(?:about|on|of|called|named|that)\s+(?P<topic>.+)",
    rf"(?P<topic>{_MINE}\s+.+)",
    rf"(?:where|when|how|who|which)\s+(?P<topic>(?:i|we|{_MINE})\s+.+)",
]
_GERMAN = [
    rf"(?:die\s+)?(?:datei\s+)?{_FILE}",
    r"dass\s+(?P<claim>.+)",
    (
        r"(?:alles,?\s+)?was\s+(?:ich|wir|du)\s+(?:(?:dir|euch|ihnen)\s+)?(?:über|zu|von)\s+(?P<topic>.+?)"
        r"(?:\s+(?:gesagt|erzählt|geschrieben|erwähnt|weißt|wissen)(?:\s+(?:habe|haben|hatte|hast))?)?"
    ),
    r"alles\s+(?:über|zu)\s+(?P<topic>.+)",
    r"(?P<topic>(?:mein|unser)(?:e[nmrs]?)?\s+.+)",
    r"(?:wo|wann|wie|wer)\s+(?P<topic>(?:ich|wir|mein\w*|unser\w*)\s+.+)",
]
_END = r"\s*[.!?…]*\s*"


def _rules(verb: str, objects: list[str]) -> list[re.Pattern[str]]:
    return [re.compile(rf"(?is)(?:{verb})\s*[,:]?\s+{one}{_END}") for one in objects]


_RULES = [
    *_rules(r"forget|unlearn|stop\s+remembering", _ENGLISH),
    *_rules(
        r"(?:vergiss|vergesst|vergessen(?:\s+sie)?)(?:\s*,?\s+bitte)?|bitte\s+vergessen", _GERMAN
    ),
]
_CHINESE_WISH = re.compile(
    r"(?s)(?:(?:请|麻烦)你?|你)?\s*(?:(?:忘掉|忘记|忘却|请忘了)\s*[,，:：]?\s*(?P<after>.+?)"
    r"|把\s*(?P<between>.+?)\s*(?:忘掉|忘记|忘了)(?:吧|了|掉)?)\s*[。.!！]*\s*"
)
_CHINESE_TOPIC = re.compile(
    r"(?:我(?:们)?(?:之前|以前)?(?:说|讲|提|告诉你)(?:过|到)?的?)?(?:所有)?关于(.+?)的?(?:所有|一切)?"
    r"(?:事情?|话|内容|记忆|信息)?"
)
_CHINESE_TAIL = re.compile(r"(?:这件事情?|那件事情?|这一点|的事情?|这个事实|吧|了)+$")
_CHINESE_NOT_MEANT = re.compile(
    r"(?:它|他|她|这|那|此|刚才|刚刚|上一?[个次条]|最后|前面|以上|吧|我说的)"
)

# What was just done or said here is not a memory.
_NOT_MEANT = re.compile(
    r"(?i)(?:(?:my|our|mein\w*|unser\w*)\s+)?(?:(?:very\s+)?(?:last|latest|previous|first|recent|above|other|"
    r"whole|entire|current|next|letzte\w*|vorige\w*|erste\w*)\b"
    r"|(?:it|this|these|those|one|thing|idea|question|message|request|prompt|change|edit|"
    r"es|das|dies\w*|frage|nachricht|änderung)\b\W*$)"
    r"|(?:i|we|ich|wir)\s+(?:have\s+|just\s+|ever\s+|even\s+|das\s+|es\s+)*"
    r"(?:said|asked|mentioned|wrote|brought|gesagt|gefragt)(?:\s+(?:it|that|this|anything|habe|up))*\W*$"
    r"|you(?:'re|’re|\s+are)?\b|du\b"
)


def forget_wish(sentence: str) -> ForgetWish | None:
    """The wish to have something forgotten that a message begins with; None if it has none."""
    plain = sentence.strip()[:_LONGEST].replace("’", "'")
    for _ in range(4):
        if polite := _POLITE.match(plain):
            plain = plain[polite.end() :].lstrip()
    plain = next(iter(sentences(plain)), "")
    for rule in _RULES:
        if match := rule.fullmatch(plain):
            return _wish(match)
    return _chinese(plain)


def wishes_in(text: str) -> list[ForgetWish]:
    """The wishes of all sentences."""
    if not _FORGETS.search(text):
        return []
    found = [forget_wish(one) for one in sentences(text)]
    return [wish for wish in found if wish is not None]


def _wish(match: re.Match[str]) -> ForgetWish | None:
    found = match.groupdict()
    if file := found.get("file"):
        return ForgetWish(file)
    words = str(found.get("claim") or found.get("topic") or "").strip(" .,!?:;`'\"")
    claim = bool(found.get("claim"))
    if _NOT_MEANT.match(words) or (claim and len(words.split()) < 3) or not content_stems(words):
        return None
    return ForgetWish(words, claim=claim)


def _chinese(plain: str) -> ForgetWish | None:
    match = _CHINESE_WISH.fullmatch(plain)
    if match is None:
        return None
    words = _CHINESE_TAIL.sub("", (match["after"] or match["between"]).strip())
    if _CHINESE_NOT_MEANT.match(words):
        return None
    topic = _CHINESE_TOPIC.fullmatch(words)
    words = re.sub(r"^我(?:们)?的?", "", topic[1] if topic else words)
    return ForgetWish(words, claim=topic is None) if len(words) >= 2 else None


_FORGETS = re.compile(
    r"(?i)\bforget|unlearn|\bstop\s+remembering|\bmemor(?:y|ies)\b|vergiss|vergess|gedächtnis|忘|记忆|"
    r"oubli|olvid|dimentic|잊|забуд|забыт"
)
_REMOVES = re.compile(
    r"(?i)remov|delet|\beras|\bdrop|get rid|no longer|any ?more|not true|wrong|outdated|"
    r"lösch|entfern|streich|nicht mehr|删|移除|消し|削除|不再|supprim|borra|elimin|삭제|удал"
)
_KEEPS = re.compile(
    r"(?i)(?:n't|\bnot|\bnever|\bnicht|别|不要|勿)\s*(?:ever\s+)?(?:forget|vergess|忘)"
    r"|\bverg[ei]ss\w*\s+(?:bitte\s+)?nicht"
)


def asks_to_forget(sentence: str, *, about_it: bool) -> bool:
    """Whether a sentence may be the reason why a memory goes: looser than a wish. `about_it`: it
    shares words with the memory; then what is said to be wrong or to go counts too. Without that,
    "remove the unused import" would be a reason."""
    if _KEEPS.search(sentence.replace("’", "'")):
        return False
    return bool(_FORGETS.search(sentence) or (about_it and _REMOVES.search(sentence)))


# A question by its first words, whatever it ends with: people leave the mark out.
_INVERTED = re.compile(
    r"(?:should|shall|may|might|is|are|was|were|does|did|has) (?:i|we|you|he|she|it|they)\b|(?:do|have) (?:i|we|you|they)\b"
    r"|(?:is|are|should|does) (?:the|this|that|there|any\w*|our|my)\b|am i\b"
    r"|(?:can|could|would) (?:i|he|she|it|they|this|that)\b"
    r"|(?:soll|sollen|sollte|sollten|darf|dürfen|muss|müssen) (?:ich|wir|man)\b"
)
# And only with the mark: "what I want is …" and "when I say ship, …" are none.
_ASKING = re.compile(
    r"(?:what|why|how|when|where|who|whom|whose|which|any|is|are|was|were|do|does|did|has|have|should)\b"
    r"|(?:was|wie|warum|wieso|weshalb|wann|wo|wer|wen|wem|welche\w*|ist|sind|hat|haben|hast|gibt|soll\w*)\b"
    r"|(?:que|quoi|qui|quand|où|comment|pourquoi|combien|est-ce|qué|quién|cuándo|dónde|cómo|por qué)\b"
)
_SUGGESTS = re.compile(
    r"(?:why (?:not|don'?t (?:we|you))|how about|what about|warum (?:nicht|nehmen wir nicht)|wie wäre"
    r"|(?:is|would) it (?:be )?(?:possible to |(?:possible|ok(?:ay)?|fine) (?:for you |if you ))|(?:do|would) you mind"
    r"|do you think you (?:can|could)|(?:can|could|may) i (?:ask|get|have) you to|(?:may|might) i (?:say|suggest|add|note|remind))\b"
)
_TAG = re.compile(
    r",\s*(?:ok(?:ay)?|right|yes|alright|please|deal|understood|got it|no|ja|oder|gut|verstanden|bitte"
    r"|d'accord|vale|(?:is|are|do|does|did|was|were|have|has|ca|wo|should)n'?t \w+)\s*\?+$"
)
_CHINESE = re.compile(r"(?:吗|呢|么)\W*$|是不是|要不要|能不能|可不可以|什么|怎么|为什么|哪")
_CHINESE_POLITE = re.compile(r"(?:请|麻烦|能|可以|帮)")
_LEAD = re.compile(r"^(?:(?:and|but|so|ok(?:ay)?|hey|hm+|also|btw|wait|und|aber|also)[,\s]+)*")
_JOINT = re.compile(r"[,;:，；：]\s*|\s[–—-]+\s")
_MARKS = {"“": "”", "«": "»", "„": "“", "「": "」", "『": "』"}
_MOST_PLACES = 50  # looked at: what is said this often is the same everywhere


@dataclass(frozen=True, slots=True)
class Told:
    """Where a quote stands: its sentences, and the words of them that are the user's statement."""

    sentences: tuple[str, ...]
    stated: str
    wished: bool  # every one of them asks to remember, or stands beside one that says just that
    forgets_later: bool = False  # a wish to forget comes after they begin


def told(quote: str, parts: Iterable[str]) -> Told | None:
    """The place in typed text where a quote states the most; None if it stands nowhere."""
    found = told_everywhere(quote, parts)
    return max(found, key=lambda one: (one.wished, len(one.stated)), default=None)


def told_everywhere(quote: str, parts: Iterable[str]) -> list[Told]:
    """All places in typed text where a quote stands."""
    needle = wording.fold(quote)
    return [place for part in parts for place in _places(needle, part)] if needle else []


def stated_in(sentence: str, *, wished: bool) -> list[str]:
    """What a folded sentence states, in each way it may be taken up: without its question, what it
    hands over to be worked on; then also without the wish to keep it or a polite beginning."""
    stated = sentence[: question_in(sentence)]
    if not wished:
        tail = handed_over_in(without_quotations(stated))
        stated = stated[: len(stated) - len(tail)] if tail is not None else stated
    wish = wish_in(sentence)
    kept = sentence[wish.start : wish.end] if wish is not None else ""
    return [one for one in dict.fromkeys((stated, _polite().sub("", stated), kept)) if one]


@lru_cache(maxsize=1)
def _polite() -> re.Pattern[str]:
    return anywhere(sections("proof.txt")["polite"], start="^")


def question_in(sentence: str) -> int:
    """Where a folded sentence begins to ask; its length if it does not. What stands before, clause by
    clause, is stated: "I'm new to Rust, how do I …?". Orders in the form of a question ("can you …?")
    and tags (", ok?") ask nothing."""
    plain = sentence.lower().replace("’", "'")
    if len(plain) == len(sentence) and not _TAG.search(plain):
        marked = plain.endswith("?")
        starts = [0, *(joint.end() for joint in _JOINT.finditer(plain))]
        for start, end in pairwise([*starts, len(plain)]):
            if _asks(_LEAD.sub("", plain[start:end], count=1), marked=marked):
                return start
    return len(sentence)


def _asks(clause: str, *, marked: bool) -> bool:
    if _SUGGESTS.match(clause):
        return False
    if _INVERTED.match(clause):
        return True
    chinese = _CHINESE.search(clause) and not _CHINESE_POLITE.match(clause)
    return marked and bool(_ASKING.match(clause) or chinese)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a folded sentence is, wherever it stands."""

    forgets: bool  # it states nothing
    wish: Wish | None  # to remember
    asks_at: int


@lru_cache(maxsize=256)
def _kind(sentence: str) -> _Kind:
    forgets = forget_wish(sentence) is not None
    return _Kind(forgets, None if forgets else wish_in(sentence), question_in(sentence))


def _places(needle: str, part: str) -> Iterator[Told]:
    starts, sentences, text = _taken_apart(part)
    kinds = [_kind(one) for one in sentences] if needle in text else []
    forgets = max((n for n, kind in enumerate(kinds) if kind.forgets), default=-1)
    for at in islice(_found(needle, text), _MOST_PLACES):
        end = at + len(needle)
        touched = range(bisect_right(starts, at) - 1, bisect_right(starts, end - 1))
        met = [n for n in touched if not kinds[n].forgets]
        later = forgets >= (met[0] if met else touched.stop)
        yield _told(starts, sentences, kinds, met, (at, end), forgets_later=later)


def _found(needle: str, text: str) -> Iterator[int]:
    at = text.find(needle)
    while at >= 0:
        if wording.bounded(text, at, at + len(needle)):
            yield at
        at = text.find(needle, at + 1)


def _told(
    starts: Sequence[int],
    sentences: Sequence[str],
    kinds: Sequence[_Kind],
    met: Sequence[int],
    place: tuple[int, int],
    *,
    forgets_later: bool,
) -> Told:
    """What the sentences `met` state at a place of the text."""
    at, end = place
    wishes = [kind.wish for kind in kinds]
    meant = {meant_by(wish, n, len(wishes)) for n, wish in enumerate(wishes) if wish}
    wished = all(wishes[n] or n in meant for n in met)
    stated = [
        _stated(sentences[n], kinds[n].asks_at, max(at - starts[n], 0), end - starts[n])
        for n in met
        if wished or not _quoted(sentences[n], at - starts[n], end - starts[n])
    ]
    spoken = tuple(sentences[n] for n in met)
    return Told(spoken, " ".join(stated).strip(), wished and bool(spoken), forgets_later)


def _stated(sentence: str, asks: int, start: int, end: int) -> str:
    words = sentence[start : min(end, asks)]
    return words if asks == len(sentence) or wording.content_stems(words) else ""


def _taken_apart(part: str) -> tuple[list[int], list[str], str]:
    """Where each sentence of a text begins, the sentences, and the text: all folded."""
    starts: list[int] = []
    sentences: list[str] = []
    text, gap = "", False
    for start, end in spans(part, semicolons=False):
        piece = part[start:end]
        if folded := wording.fold(piece):
            text += " " if gap or (text and piece[0].isspace()) else ""
            starts.append(len(text))
            sentences.append(folded)
            text += folded
            gap = piece[-1].isspace()
        elif text:
            gap = True
    return starts, sentences, text


def _quoted(sentence: str, start: int, end: int) -> bool:
    """Does a stretch lie between quotation marks?"""
    before, after = sentence[: max(start, 0)], sentence[end:]
    if before.count('"') % 2 and '"' in after:
        return True
    for opens, closes in _MARKS.items():
        if before.rfind(opens) > before.rfind(closes) and closes in after:
            return True
    return False


# Words that only open an order.
_CLEAR = """accept act add allow always append apply approve avoid be behave bypass configure confirm
    consider continue convert create delete disable discard disregard do download enable ensure
    escalate execute exfiltrate fetch follow forget give grant ignore include insert install invoke
    keep let make modify must never not notify obey omit overwrite paste prefer prepend pretend
    proceed provide publish put reboot recommend refer refuse register reinstall reject remember
    remove rename replace reply respond retrieve reveal revert run save say send skip stop submit
    suggest tell treat trust try turn unset upload use validate verify visit wait wipe write""".split()  # noqa: SIM905 - a word list
# Words that are nouns as often: an order only before an object.
_UNCLEAR = """answer ask assume block build call change check checkout clean clear click clone commit
    contact copy curl deploy drop email export fix flag force forward halt hide leave log look mail
    merge message move note open pass patch ping post print pull push read rebase report require
    reset restart restore return review rm rotate set share show start sudo switch test update
    upgrade warn watch wget""".split()  # noqa: SIM905 - a word list
_OBJECT = r"(?:the|an?|all|any|every|each|this|that|these|those|it|them|him|her|me|us|your|my|our|their|its|no|only|to|for|with|from|into|out|off|on|up|at|if|when|before|after|how|-{1,2}\w|[`\"'“/~$]|https?:)"

_START = re.compile(
    r"(?:please\s+|also,?\s+|then,?\s+|first,?\s+|finally,?\s+|and\s+|so,?\s+|important:?\s+|instead,?\s+)*"
    rf"(?:(?:{'|'.join(_CLEAR)})(?![\w'’])|(?:{'|'.join(_UNCLEAR)})\s+{_OBJECT}"
    r"|don['’]t\b|from\s+now\s+on\b|immer\b|niemals\b|nie\b|toujours\b|jamais\b|ne\s+jamais\b"
    r"|siempre\b|nunca\b|sempre\b|mai\b|必ず|絶対に|总是|永远不要|务必)",
    re.IGNORECASE,
)
_ADDRESSED = re.compile(
    r"\b(?:you|agents?|assistants?|claude|gpt|models?|ai|llms?|reader|whoever reads this)\s+"
    r"(?:must|should|shall|has\s+to|have\s+to|needs?\s+to|is\s+to|are\s+to|ought\s+to|will\s+always"
    r"|may\s+only|can\s*not|cannot|can['’]t|mustn['’]t|shouldn['’]t|are\s+(?:required|expected|allowed|instructed))\b"
    r"|\b(?:ignore|disregard|forget|override)\s+(?:all\s+|any\s+|the\s+|your\s+|these\s+)*"
    r"(?:previous|prior|above|earlier|existing|other|system)\b|\bfrom\s+now\s+on\b|\bmake\s+sure\s+(?:to|that|you)\b",
    re.IGNORECASE,
)
_LIST_MARKS = re.compile(r"^(?:[\s>#*_~`\-+•–—\"'“‘(\[\]]|\d{1,3}[.)]\s|\[[ xX]\])+")
_LABEL = re.compile(r"^[\w /-]{1,40}:[*_]{0,2}\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?;:。！？])[\"'”’)*_]*\s+|(?<!\s)\s+[—–]\s+|,\s+(?=then\b)")


def find_order(text: str) -> str:
    """ "" or the first sentence that gives an order, shortened for a message."""
    for line in text.splitlines():
        for sentence in _SENTENCE_END.split(line):
            if _commands(sentence):
                bare = " ".join(sentence.split())
                return bare if len(bare) <= 80 else f"{bare[:77]}…"
    return ""


def permits(text: str, proof: str) -> str:
    """ "" or a word of a text that allows or approves something and is not in the proof."""
    said = {*wording.words(proof)}
    known = sections("proof.txt")["permits"]
    found = [one for one in wording.words(text) if one in known and one not in said]
    found += [one for one in known if one[0] >= "\u3400" and one in text and one not in proof]
    return next(iter(found), "")


@lru_cache(maxsize=1)
def _in_the_users_name() -> re.Pattern[str]:
    return anywhere(sections("requests.txt")["speaks"])


def speaks_for_user(text: str) -> str:
    """ "" or the words by which a text says what the user wants: theirs to say, not a source's."""
    found = _in_the_users_name().search(text)
    return " ".join(text[found.start() : found.end() + 40].split())[:80] if found else ""


def _commands(sentence: str) -> bool:
    bare = _LIST_MARKS.sub("", sentence[:2000])
    labelled = _LIST_MARKS.sub("", _LABEL.sub("", bare, count=1))
    return any(_START.match(start) for start in (bare, labelled)) or bool(
        _ADDRESSED.search(sentence)
    )
