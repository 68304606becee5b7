"""What a model's summary must be to be used (L4.2): its parts found, not empty, not longer than what
it replaces, and with no wishes in it that the user never typed. Pure.
"""

from __future__ import annotations

import re

from lamina.ledger import tokens
from lamina.local.happened import Happened
from lamina.local.summariser import MODEL_PARTS

_TAGGED = re.compile(r"<summary>(.*?)(?:</summary>|\Z)", re.DOTALL | re.IGNORECASE)
_DRAFT = re.compile(r"<analysis>.*?(?:</analysis>|(?=<summary>)|\Z)", re.DOTALL | re.IGNORECASE)
_HEADING = re.compile(r"^#+\s*(?:\d+\.\s*)?(.+?)\s*:?\s*$", re.MULTILINE)
_HEADINGS = {
    "concepts": "concepts",
    "problem solving": "solving",
    "current work": "current",
    "next step": "next",
}
# A sentence that claims to know what the user wants.
_CLAIM = re.compile(
    r"[^.\n]*\b(?:the user|user)\s+(?:also\s+|then\s+|explicitly\s+)?"
    r"(?:asked|asks|wants|wanted|requested|requests|said|says|told|instructed|instructs|demanded|"
    r"insists|requires|prefers|approved|ordered)\b([^.\n]*)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]{3,}")
_THIN = frozenset(
    [
        "the",
        "and",
        "that",
        "this",
        "with",
        "from",
        "for",
        "not",
        "but",
        "you",
        "your",
        "are",
        "was",
        "were",
        "has",
        "have",
        "had",
        "will",
        "would",
        "should",
        "could",
        "can",
        "into",
        "onto",
        "than",
        "then",
        "them",
        "they",
        "their",
        "there",
        "here",
        "which",
        "what",
        "when",
        "where",
        "who",
        "how",
        "why",
        "all",
        "any",
        "each",
        "some",
        "its",
        "it's",
        "his",
        "her",
        "our",
        "out",
        "use",
        "using",
        "used",
        "make",
        "made",
        "also",
        "only",
        "just",
        "about",
        "been",
        "being",
        "does",
        "did",
        "done",
        "user",
        "agent",
        "assistant",
        "asked",
        "wants",
    ]
)


def model_parts(answer: str) -> dict[str, str]:
    """The parts by key; {} where there is no summary. The draft is thrown away."""
    found = _TAGGED.search(_DRAFT.sub("", answer))
    if not found:
        return {}
    body = found[1]
    marks = [(m.start(), m.end(), m[1].strip().casefold()) for m in _HEADING.finditer(body)]
    parts: dict[str, str] = {}
    for at, (_, end, heading) in enumerate(marks):
        key = _HEADINGS.get(heading)
        stop = marks[at + 1][0] if at + 1 < len(marks) else len(body)
        if key and (words := body[end:stop].strip()):
            parts[key] = words
    return parts


def problem_of(parts: dict[str, str], answer: str, what: Happened, replaced: int) -> str:
    """Why this can't be used, in words; "" if it can."""
    if not answer.strip():
        return "it has no text"
    if not parts:
        return "it has no <summary> with the asked headings"
    missing = [key for key in MODEL_PARTS if key not in parts]
    if len(missing) > 1:
        return f"it lacks the parts {', '.join(missing)}"
    if sum(map(tokens.of_text, parts.values())) >= replaced:
        return "it is longer than what it replaces"
    if claim := invented(parts, what):
        return f"no user said this: {claim[:120]!r}"
    return ""


def invented(parts: dict[str, str], what: Happened) -> str:
    """A claim about the user's wishes whose words the user did not type; "" if there is none."""
    typed = {_stem(word) for said in what.asked for word in _WORD.findall(said.text.casefold())}
    for text in parts.values():
        for claim in _CLAIM.finditer(text):
            words = {_stem(w) for w in _WORD.findall(claim[1].casefold()) if w not in _THIN}
            if len(words) >= 2 and len(words & typed) < 0.5 * len(words):
                return claim[0].strip()
    return ""


def _stem(word: str) -> str:
    """Rough, for comparing only: the first six letters."""
    return word[:6]
