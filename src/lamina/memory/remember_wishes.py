"""Whether a sentence plainly asks to have something remembered: the one way, beside the user's own
commands, in which words bring back what was forgotten. "Do you remember …?" and "remember when …" ask
for nothing. Pure text rules; nothing here touches files, clocks or the network.
"""

from __future__ import annotations

import re
import unicodedata

_LONGEST = 2_000  # characters looked at: a wish is a sentence, not a document

_POLITE = re.compile(
    r"(?:please|kindly|ok(?:ay)?|hey|hi|now|then|and|also|so|well|actually|but|bitte|und|nun)[,!\s]+"
    r"|i(?: want|'d like| would like| need) you to\s+|you (?:should|must)\s+|du sollst (?:dir )?"
)
_ASKS_YOU = re.compile(
    r"(?:can|could|would|will) you\s+|(?:kannst|könntest|würdest) du (?:dir )?(?:bitte )?"
)
_WISH = re.compile(
    r"remember\b(?!\s+(?:when|how|what|who|whether|if|the time|last)\b)"
    r"|(?:don'?t|do not|never)\s+forget\b(?!\s+to\b)|(?:keep|bear) in mind\b|make a note\b"
    r"|merke? (?:dir|euch)\b|vergiss (?:bitte )?nicht\b"
    r"|retiens\b|souviens-toi\b|rappelle-toi\b|n'oublie pas\b|recuerda\b|acu[ée]rdate\b|no olvides\b"
    r"|ricorda(?:ti)?\b|lembra-te\b|lembre-se\b|onthoud\b|zapamiętaj\b"
    r"|(?:请|麻烦|帮我|你)*(?:记住|记得|牢记|别忘了?|不要忘记)|覚えておいて"
)
_MERKEN = re.compile(r".*\bmerken[\s.!?]*")  # "Kannst du dir merken …": the verb comes last
_BARE = re.compile(
    r"\W*(?:that|this|it|das|dies|ça|esto|这个|这一?点)?\W*(?:please|bitte|too|again|auch|wieder)?\W*"
)


def asks_to_remember(sentence: str) -> bool:
    """Is this a wish to have something remembered, not a question about it?"""
    return _after_the_wish(sentence) is not None


def only_asks(sentence: str) -> bool:
    """ "Remember that." speaks of the sentences beside it."""
    rest = _after_the_wish(sentence)
    return rest is not None and bool(_BARE.fullmatch(rest))


def _after_the_wish(sentence: str) -> str | None:
    plain = unicodedata.normalize("NFKC", sentence).strip()[:_LONGEST].replace("’", "'").casefold()
    you = False
    while met := _POLITE.match(plain) or _ASKS_YOU.match(plain):
        you = you or bool(_ASKS_YOU.match(plain))
        plain = plain[met.end() :].lstrip()
    if plain.endswith("?") and not you:
        return None  # "Remember the old parser?"
    if you and _MERKEN.fullmatch(plain):
        return plain
    wish = _WISH.match(plain)
    return plain[wish.end() :] if wish else None
