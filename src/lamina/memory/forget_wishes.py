"""What somebody wants to have forgotten, read from a plain sentence in English, German or Chinese.

"Forget it", "forget about the last change" and "don't forget" are no such wishes. Pure text rules;
nothing here touches files, clocks or the network.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lamina.memory.wording import content_stems, sentences

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
_CHINESE = re.compile(
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
    match = _CHINESE.fullmatch(plain)
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
