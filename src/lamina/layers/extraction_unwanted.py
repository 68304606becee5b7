"""What the user asked to have forgotten within the messages that an extraction is about: it was never
saved, so no tombstone knows it, and it is not saved now. What they say again afterwards is. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamina.ledger.quotes import blocks_of_entry
from lamina.memories import Evidence
from lamina.memory import wording
from lamina.memory.forget_wishes import wishes_in
from lamina.memory.forgetting import holds
from lamina.memory.origins import typed_parts
from lamina.messages import Json

WHY = "the user asked to forget this"


class Unwanted:
    def __init__(self, entries: Sequence[Json]) -> None:
        self._at = {str(entry.get("uuid")): place for place, entry in enumerate(entries)}
        self._wishes = [
            (place, wish.words)
            for place, entry in enumerate(entries)
            for part in typed_parts(blocks_of_entry(entry))
            for wish in wishes_in(part)
        ]

    def __call__(self, said: str, evidence: Sequence[Evidence]) -> bool:
        """Does a memory rest on a wish itself, or only on words from before a wish about it?"""
        if not self._wishes:
            return False
        if any(wishes_in(one.quote) and not _says_beside(one.quote, said) for one in evidence):
            return True
        last = max((self._at.get(one.entry, -1) for one in evidence), default=-1)
        return any(last < place and holds(words, said) for place, words in self._wishes)


def _says_beside(quote: str, said: str) -> bool:
    """Does a quote with a wish in it also say, in other sentences, what the memory says?"""
    others = [one for one in wording.sentences(quote) if not wishes_in(one)]
    return holds(said, "\n".join(others))
