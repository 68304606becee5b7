"""All languages by their code. Apart from the rest: compiling their patterns takes a tenth of a
second, which only what reads conversations has to wait for.
"""

from __future__ import annotations

from lamina.text.cues.any_language import Cues
from lamina.text.cues.chinese import CHINESE
from lamina.text.cues.english import ENGLISH
from lamina.text.cues.german import GERMAN

LANGUAGES: dict[str, Cues] = {"en": ENGLISH, "de": GERMAN, "zh": CHINESE}
