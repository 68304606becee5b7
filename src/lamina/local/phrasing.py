"""Words a memory with what the user said: title, file name, body. Adds structure, never a claim.

The gate compares every word of a `user` or `feedback` memory with the quotes that it rests on, so
titles and bodies are cut from the quote. Pure functions; nothing here touches anything.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import TYPE_CHECKING

from lamina.memory.wording import content_stems
from lamina.secrets import secrets_in

if TYPE_CHECKING:
    from lamina.local.cues.any_language import Cues

_OPENERS = re.compile(
    r"^(?:(?:no|nope|yes|yep|yeah|ok|okay|oh|ah|ach|hm+|ugh|well|hi|hello|hey|perfect|great|nice|nein|ja|boah|genau|super|passt"
    r"|sehr gut|by the way|btw|fyi|übrigens|quick heads-up)(?:[,!.:;–—-]\s*|\s+(?=don'?t\b|please\b))"
    r"|(?:so|and|but|also|oh|please|pls|kindly|bitte|und|fyi|btw)\b[,\s]+"
    r"|(?:不对|唉|嗯|好的?|对|没错|很好|另外|还有|哦|我说过好?多?次?了)[，,！!。]\s*)+",
    re.IGNORECASE,
)
_TRANSLITERATED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
_SMALL_WORDS = frozenset(
    """a an the to of in on at for and or but so is are was be been i im i'm my me we our you
    your it its this that these with as by from please not do does don't dont der die das den
    dem des ein eine einen einem einer und oder aber ich bin du wir ist sind im am zum zur
    mit bei für von auf dass bitte nicht es zu mir dir""".split()  # noqa: SIM905 - a word list
)


def without_opener(text: str) -> str:
    """ "No, please don't …" without its first breath; never leaves nothing."""
    rest = _OPENERS.sub("", text, count=1).strip()
    return rest or text


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters, cut between words or clauses, so that no identifier is torn."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text.rstrip(" ,;:，；：")
    cut = max(text.rfind(mark, 0, limit + 1) for mark in (" ", "，", "。", "、", "；", "：", ","))
    return text[: cut if cut > 0 else limit].rstrip(" ,;:，；：、(（–—-")


_CLAUSES = re.compile(r"(?<=[^\d\s])[,;!](?:\s|$)|[，；。！]|(?<=[^\W\d])\.\s|\s[–—-]\s")


def title(text: str, cues: Cues) -> str:
    """The first clause that says something, without the reason."""
    text = without_opener(text)
    because = cues.because.search(text)
    if because and because.start() > 12:
        text = text[: because.start()]
    text = text.strip(" .!。！,，")
    for clause in _CLAUSES.finditer(text):
        if len(content_stems(text[: clause.start()])) > 2:
            return shortened(text[: clause.start()], 60)
    return shortened(text, 60)


def file_name(kind: str, text: str) -> str:
    """`feedback_no_mocks.md`: readable where the script allows it, else with a short hash."""
    text = secrets_in(text).mask(text, "")  # a name is shown, listed and kept in many places
    folded = unicodedata.normalize("NFKD", text.lower().translate(_TRANSLITERATED))
    folded = re.sub(r"['’]", "", folded)
    words = re.findall(r"[a-z0-9]+", folded.encode("ascii", "ignore").decode())
    telling = [word for word in words if word not in _SMALL_WORDS and len(word) > 1][:6]
    stem = "_".join((kind, *telling))[:60].rstrip("_")
    latin = sum(char.isascii() for char in text if char.isalnum())
    if not telling or latin * 2 < sum(char.isalnum() for char in text):
        stem += "_" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return stem + ".md"


def sentence_case(text: str) -> str:
    """A capital at the start, unless the first word is a name with its own spelling (`pnpm`, a path)."""
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() or "'" in first else text


def reason_in(text: str, cues: Cues) -> str:
    """What the user gave as the reason, in their words; "" if none."""
    found = cues.because.search(text)
    if not found:
        return ""
    return (found["why"] or found["why2"] or "").strip(" .!。！")


def scope_of(text: str, cues: Cues) -> str:
    """When or where the rule holds, if the sentence ends with it."""
    without_reason = text
    because = cues.because.search(text)
    if because and because.start() > 12:
        without_reason = text[: because.start()].rstrip(" ,，")
    without_reason = SECOND_STATEMENT.split(without_reason, maxsplit=1)[0]
    found = cues.scope.search(without_reason)
    if not found or _EXCLUDED.search(without_reason[: found.start("scope")]):
        return ""  # "not in a separate folder" says where it does not hold
    return found["scope"].strip()


SECOND_STATEMENT = re.compile(
    r"(?i)[,;]\s(?=(?:the|it|they|nobody|we|that|this|der|die|das|es|wir)\s)|，(?=我|它|这样)"
)
_EXCLUDED = re.compile(r"(?i)\b(?:not|never|nicht|nie|kein\w*|statt)\s$|[不别]$")


def rule_body(rule: str, why: str, how: str) -> str:
    """The rule, why it is one, and how to apply it: the shape of feedback and project memories."""
    parts = [sentence_case(rule)]
    if why:
        parts.append(f"**Why:** {why}")
    parts.append(f"**How to apply:** {how}")
    return "\n\n".join(parts) + "\n"
