"""What a plain "yes" lends to the user's word: what the assistant proposed in answer to them, as far as that can
be told. Pure, as `evidence` is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from lamina.text import about, wording
from lamina.text.about import TYPOGRAPHY, less, same_sentence
from lamina.text.asks import asked_for, classify
from lamina.text.lists import Listed, words
from lamina.text.origins import typed_parts, untyped_parts
from lamina.text.own_words import own_text

if TYPE_CHECKING:
    from lamina.memory.evidence import Record

_NO_PROPOSAL = Listed("proof.no_proposal")
_ALL_BUT = 0.7  # of the content words
_ME, _YOU = {"i", "my", "ich", "mein", "我"}, {"you", "your", "du", "dein", "你", "您"}
_LASTING, _KEEP, _YES = (words(f"proof.{one}") for one in ("lasting", "keep", "yes"))


def is_plain_confirmation(typed: Sequence[str]) -> bool:
    """Whether all that was typed says yes, and neither asks nor says anything else."""
    said = " ".join(typed)
    said_words = [one for one in about.tokens(said) if one.isalnum()]
    yes = [one for one in said_words if _YES.fullmatch(one)]
    plain = (yes or _KEEP.search(said)) and len({*yes}) == len(yes)  # "ja ja ja" says no
    asks = {*"?？", "did", "does", "one"}.intersection((*said_words, *said))
    mocks = "yeah right" in " ".join(said_words)
    return classify(said).confirms and bool(plain) and not (asks or mocks)


def confirmed(record: Record, session: str, entry: str, kind: str | None) -> list[str]:
    """What a plain confirmation agrees to, as far as it can be told: the assistant's own answer to the
    user, if one of them speaks of a rule or of remembering; else they agree to what it does next.
    Where a file, a page or a paste was in view, nobody can tell whose idea that was, in whatever words
    or language it comes back; then only what the user had asked in their own words and the answer
    says in the same.
    """
    blocks = record.origin_text(session, entry)
    if not is_plain_confirmation(typed_parts(blocks)):
        return []
    before = record.before(session, entry)
    earlier = [block for block in before if block[0] != "system"]
    said = [text for _, text in takewhile(lambda one: one[0] == "assistant", reversed(earlier))]
    answer = [one for text in reversed(said) for one in wording.sentences(text)]
    own = [one for one in answer if not classify(one).confirms]
    if len(own) != 1:  # to which of them did they say yes?
        return []
    # "You never test" would become an order, and "I never sleep" somebody else's life.
    plain = (_YOU | _ME if kind == "user" else _YOU).isdisjoint(about.tokens(own[0]))
    proposed = [*own[:plain], *_proposed_in(own[0])]
    # "As always" says nothing of what was only reported; "keep doing that" does.
    nod, marks = " ".join(typed_parts(blocks)), _LASTING if proposed[plain:] else _KEEP
    lasts = marks.search(nod) or _LASTING.search(own[0])
    if lasts and not untyped_parts([*earlier, *blocks]):
        instructed = [text for origin, text in before if origin == "system"]
        return [] if _restates(own[0], instructed) else proposed
    asked = next((text for origin, text in reversed(earlier) if origin == "typed"), "")
    choices = [
        one
        for part in typed_parts([("typed", asked)])
        for sentence in wording.sentences(own_text(part))
        for offered in [asked_for(sentence)]
        for n, one in enumerate(offered, 1)
        if not any(map(about.limits, offered[n:]))  # what limits both stands behind the last
    ]
    return [
        one
        for one in proposed
        for ways in [(one, one[:1].lower() + one[1:])]  # amid a question it was small
        if any(same_sentence(way, choice) for way in ways for choice in choices)
    ]


def _restates(sentence: str, texts: Iterable[str]) -> bool:
    """Does one sentence of these texts hold nearly all that this one says?"""
    stems = wording.content_stems(sentence)
    return bool(stems) and any(
        len(stems & wording.content_stems(one)) >= _ALL_BUT * len(stems)
        for text in texts
        for one in wording.sentences(text)
    )


def _proposed_in(answer: str) -> list[str]:
    """What "I'd use tabs." proposes: "use tabs"; and "Shall I note that you use tabs?": "I use tabs"."""
    bare, asks = less(answer, "proposes").rstrip(" ?？"), answer.rstrip().endswith(("?", "？"))
    if bare == answer.translate(TYPOGRAPHY).rstrip(" ?？") or _NO_PROPOSAL.search(answer):
        return []
    if asks and not {"i", "me", "my", "mine", "ich", "mir", "mich", "mein"}.isdisjoint(
        about.tokens(bare)
    ):
        return []  # the assistant's, not the user's
    if asks:
        bare = re.sub(r"\byou(r?)\b", lambda one: "my" if one[1] else "I", bare)
    return [bare, bare[:1].upper() + bare[1:]]
