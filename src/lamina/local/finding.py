"""A memory in the making: what the finders hand to the extractor. Nothing here touches anything."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lamina.local.own_words import Sentence
from lamina.memories import MemoryType

# Why something was proposed, as the log tells it.
ASKED = "the user asked to remember it"
CONFIRMED = "the user confirmed how it was done"
RULE = "the user said how to work"
DATE = "the user named a date"
DECISION = "the user named a decision"
CORRECTED = "the user corrected what the assistant took for true"
PLACE = "the user said where it is kept"
ROLE = "the user said who they are"
HABIT = "the user said what they usually do"


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
