"""A memory in the making: what the finders hand to the extractor. Nothing here touches anything."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lamina.memories import MemoryType
from lamina.text.lists import Listed
from lamina.text.own_words import Sentence
from lamina.text.wording import content_stems

if TYPE_CHECKING:
    from lamina.text.cue_words import Cues


_OPENERS = Listed("finders.openers")


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
    scope = found["scope"].strip()
    return "" if _ONE_PLACE.fullmatch(scope) else scope


# "Answer in German" is the rule itself; "in integration tests" is where it holds.
_ONE_PLACE = Listed("finders.one_place")
SECOND_STATEMENT = Listed("finders.second_statement")
_EXCLUDED = re.compile(r"(?i)\b(?:not|never|nicht|nie|kein\w*|statt)\s$|[不别]$")


def rule_body(rule: str, why: str, how: str) -> str:
    """The rule, why it is one, and how to apply it, as far as the words say so."""
    parts = [sentence_case(rule)]
    if why:
        parts.append(f"**Why:** {why}")
    if how:
        parts.append(f"**How to apply:** {how}")
    return "\n\n".join(parts) + "\n"


# Why something was proposed, as the log tells it.
ASKED = "the user asked to remember it"
CONFIRMED = "the user confirmed how it was done"
RULE = "the user said how to work"
DATE = "the user named a date"
CORRECTED = "the user corrected what the assistant took for true"
ROLE = "the user said who they are"
TOLD = "the user told what lasts"
REPEATED = "the user said it in several sessions"


@dataclass(frozen=True, slots=True)
class Find:
    """A memory in the making: what to keep, of which type, and the sentences that it rests on."""

    type: MemoryType
    text: str
    because: tuple[Sentence, ...]
    reason: str  # why it was proposed, for the log
    why: str = ""
    assistant: str = ""  # the assistant's own words that the user confirmed
    certain: bool = True  # is the type, too
    plain: bool = False  # the words alone say that it lasts: "from now on"
    bar: float | None = None  # how likely it must be, if not as all finds of its reason


def content_words(text: str) -> list[str]:
    """Words long enough to carry meaning; two Chinese characters count as one."""
    words = re.findall(r"[^\W_]{3,}", text)
    return [*words, *re.findall(r"[\u3400-\u9fff]{2}", text)]
