"""Finds orders in a text: sentences that tell the reader what to do. Pure.

Project and reference memories state facts. One that commands would let whoever wrote the source
(a web page, a tool's output, a teammate) steer the agent, so the gate shows it to the user first.
"""

from __future__ import annotations

import re

_VERBS = """accept act add allow always answer append apply approve ask assume avoid be behave block
    build bypass call change check checkout clean clear click clone commit configure confirm consider
    contact continue convert copy create curl delete deploy disable discard disregard do don't download
    drop email enable ensure escalate execute exfiltrate export fetch fix flag follow force forget forward
    give grant halt hide ignore include insert install invoke keep leave let log look mail make merge
    message modify move must never not note notify obey omit open overwrite pass paste patch ping post
    prefer prepend pretend print proceed provide publish pull push put read rebase reboot recommend
    refer refuse register reinstall reject remember remove rename replace reply report require reset
    respond restart restore retrieve return reveal revert review rm rotate run save say send set share
    show skip start stop submit sudo suggest switch tell test treat trust try turn unset update upgrade
    upload use validate verify visit wait warn watch wget wipe write""".split()  # noqa: SIM905 - a word list

_START = re.compile(
    r"(?:please\s+|also,?\s+|then,?\s+|first,?\s+|finally,?\s+|and\s+|so,?\s+|important:?\s+|instead,?\s+)*"
    rf"(?:(?:{'|'.join(sorted(_VERBS, key=len, reverse=True))})(?![\w'’])"
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
_LEAD = re.compile(r"^(?:[\s>#*_~`\-+•–—\"'“‘(\[\]]|\d{1,3}[.)]\s|\[[ xX]\])+")
_LABEL = re.compile(r"^[\w /-]{1,40}:[*_]{0,2}\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?;:。！？])[\"'”’)*_]*\s+|\s+[—–]\s+|,\s+(?=then\b)")


def find_order(text: str) -> str:
    """ "" or the first sentence that gives an order, shortened for a message."""
    for line in text.splitlines():
        for sentence in _SENTENCE_END.split(line):
            if _commands(sentence):
                bare = " ".join(sentence.split())
                return bare if len(bare) <= 80 else f"{bare[:77]}…"
    return ""


def _commands(sentence: str) -> bool:
    bare = _LEAD.sub("", sentence[:2000])
    labelled = _LEAD.sub("", _LABEL.sub("", bare, count=1))
    return any(_START.match(start) for start in (bare, labelled)) or bool(
        _ADDRESSED.search(sentence)
    )
