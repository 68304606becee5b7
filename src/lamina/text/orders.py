"""Finds orders in a text: sentences that tell the reader what to do. Pure.

Project and reference memories state facts. One that commands would let whoever wrote the source
(a web page, a tool's output, a teammate) steer the agent, so the gate shows it to the user first.
"""

from __future__ import annotations

import re

# Words that only open an order.
_CLEAR = """accept act add allow always append apply approve avoid be behave bypass configure confirm
    consider continue convert create delete disable discard disregard do download enable ensure
    escalate execute exfiltrate fetch follow forget give grant ignore include insert install invoke
    keep let make modify must never not notify obey omit overwrite paste prefer prepend pretend
    proceed provide publish put reboot recommend refer refuse register reinstall reject remember
    remove rename replace reply respond retrieve reveal revert run save say send skip stop submit
    suggest tell treat trust try turn unset upload use validate verify visit wait wipe write""".split()  # noqa: SIM905 - a word list
# Words that are nouns as often: an order only before an object.
_UNCLEAR = """answer ask assume block build call change check checkout clean clear click clone commit
    contact copy curl deploy drop email export fix flag force forward halt hide leave log look mail
    merge message move note open pass patch ping post print pull push read rebase report require
    reset restart restore return review rm rotate set share show start sudo switch test update
    upgrade warn watch wget""".split()  # noqa: SIM905 - a word list
_OBJECT = r"(?:the|an?|all|any|every|each|this|that|these|those|it|them|him|her|me|us|your|my|our|their|its|no|only|to|for|with|from|into|out|off|on|up|at|if|when|before|after|how|-{1,2}\w|[`\"'“/~$]|https?:)"

_START = re.compile(
    r"(?:please\s+|also,?\s+|then,?\s+|first,?\s+|finally,?\s+|and\s+|so,?\s+|important:?\s+|instead,?\s+)*"
    rf"(?:(?:{'|'.join(_CLEAR)})(?![\w'’])|(?:{'|'.join(_UNCLEAR)})\s+{_OBJECT}"
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
_SPEAKS_FOR_USER = re.compile(
    r"\b(?:the user|user|(?:der|die) (?:be)?nutzer(?:in)?|(?:der|die) anwender(?:in)?)\s+(?:\w+ly\s+|has\s+|hat\s+)?"
    r"(?:wants?|wanted|prefers?|preferred|would\s+like|ask(?:s|ed)|request(?:s|ed)|said|says|told|insist(?:s|ed)"
    r"|instruct(?:s|ed)|approve[sd]|allow(?:s|ed)|permit(?:s|ted)|authori[sz]e[sd]|confirm(?:s|ed)|agree[sd]|decided"
    r"|will|möchte|wünscht|verlangt|erlaubt|bevorzugt)\b|用户(?:想|要|希望|喜欢|要求|允许|同意|说)",
    re.IGNORECASE,
)
_LEAD = re.compile(r"^(?:[\s>#*_~`\-+•–—\"'“‘(\[\]]|\d{1,3}[.)]\s|\[[ xX]\])+")
_LABEL = re.compile(r"^[\w /-]{1,40}:[*_]{0,2}\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?;:。！？])[\"'”’)*_]*\s+|(?<!\s)\s+[—–]\s+|,\s+(?=then\b)")


def find_order(text: str) -> str:
    """ "" or the first sentence that gives an order, shortened for a message."""
    for line in text.splitlines():
        for sentence in _SENTENCE_END.split(line):
            if _commands(sentence):
                bare = " ".join(sentence.split())
                return bare if len(bare) <= 80 else f"{bare[:77]}…"
    return ""


def speaks_for_user(text: str) -> str:
    """ "" or the words by which a text says what the user wants: theirs to say, not a source's."""
    found = _SPEAKS_FOR_USER.search(text)
    return " ".join(text[found.start() : found.end() + 40].split())[:80] if found else ""


def _commands(sentence: str) -> bool:
    bare = _LEAD.sub("", sentence[:2000])
    labelled = _LEAD.sub("", _LABEL.sub("", bare, count=1))
    return any(_START.match(start) for start in (bare, labelled)) or bool(
        _ADDRESSED.search(sentence)
    )
