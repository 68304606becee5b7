"""The words by which the local extractor knows a wish, a rule, a role, a date that matters or a place.

One module a language. They are narrow on purpose: what is missed can be said again, what is wrong
stays in memory.
"""

from __future__ import annotations

from lamina.local.cues.chinese import CHINESE
from lamina.local.cues.common import Cues
from lamina.local.cues.english import ENGLISH
from lamina.local.cues.german import GERMAN

LANGUAGES: dict[str, Cues] = {"en": ENGLISH, "de": GERMAN, "zh": CHINESE}
