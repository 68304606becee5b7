"""What a model's summary must be to be used (L4.2): its parts found, not empty, not longer than what
it replaces, and with no wishes in it that the user never typed. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from lamina.ledger import tokens
from lamina.local.happened import Happened
from lamina.local.summariser import MODEL_PARTS
from lamina.messages import Json

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
    r"\b(?:the user|user)\s+(?:also\s+|then\s+|explicitly\s+)?"
    r"(?:asked|asks|wants|wanted|requested|requests|said|says|told|instructed|instructs|demanded|"
    r"insists|requires|prefers|approved|ordered)\b(.*)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]{3,}")
_SENTENCE = re.compile(r"[.\n]")
_CLAUSE = re.compile(r" [-–—] |[;(:]")
# Orders: to whoever reads the summary, or against what came before.
_ORDER = re.compile(
    r"\b(?:you must|you should|you have to|from now on|ignore (?:all|any|the|previous|earlier)|"
    r"disregard|do not tell|don't tell|important:)(.*)",
    re.IGNORECASE,
)
_THIN = frozenset(
    """
    the and that this with from for not but you your are was were has have had will would should
    could can into onto than then them they their there here which what when where who how why all any
    each some its his her our out use using used make made also only just about been being does did done
    user agent assistant asked wants next step none must never always now
    """.split()  # noqa: SIM905 - a list of words is read as one
)
LEAST_KNOWN = 0.4  # of a summary's words that the conversation must know; else it is nonsense


@dataclass(frozen=True, slots=True)
class Known:
    """The words of a conversation, as far as a summary may rest on them."""

    typed: frozenset[str]  # what the user typed, in the whole session
    worked: frozenset[str]  # that, and the agent's own words, tasks, paths and commands
    spoken: frozenset[str]  # everything in the span, tool results included

    @classmethod
    def of(cls, session: Happened, span: Iterable[Json]) -> Known:
        typed = stems(said.text for said in session.asked)
        worked = stems(
            [
                *(said.text for said in session.answered),
                *(task for _, task in session.tasks),
                *session.files,
                *(ran.command for ran in session.commands),
            ]
        )
        spoken = stems(
            word
            for entry in span
            if entry.get("kind") == "message"
            for word in _strings(entry.get("content"))
        )
        return cls(typed, typed | worked, typed | worked | spoken)


NO_ANSWER = "(no answer)"  # what the ledger says for an answer without content


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


def problem_of(parts: dict[str, str], answer: str, known: Known, replaced: int) -> str:
    """Why this can't be used, in words; "" if it can."""
    if not answer.strip() or answer.strip() == NO_ANSWER:
        return "it has no text"
    if not parts:
        return "it has no <summary> with the asked headings"
    missing = [key for key in MODEL_PARTS if key not in parts]
    if len(missing) > 1:
        return f"it lacks the parts {', '.join(missing)}"
    if sum(map(tokens.of_text, parts.values())) >= replaced:
        return "it is longer than what it replaces"
    if share_known(parts, known) < LEAST_KNOWN:
        return "its words are not those of the conversation"
    if claim := invented(parts, known):
        return f"no user said this: {claim[:120]!r}"
    return ""


def share_known(parts: dict[str, str], known: Known) -> float:
    """Of the words with a meaning, how many the conversation knows. Too few words prove nothing."""
    words = stems(parts.values())
    return len(words & known.spoken) / len(words) if len(words) >= 5 else 1.0


def invented(parts: dict[str, str], known: Known) -> str:
    """A wish of the user that no user typed, or an order that nobody gave; "" if there is none."""
    for key, body in parts.items():
        for sentence in _SENTENCE.split(body):
            said = _CLAIM.search(sentence) or _ORDER.search(sentence)
            # What follows a dash or a bracket tells what the agent did about it.
            if said and _strange(_CLAUSE.split(said[1])[0], known.worked):
                return sentence.strip()
        if key == "next" and _strange(body, known.worked):
            return body.strip()
    return ""


def _strange(words: str, known: frozenset[str]) -> bool:
    found = stems([words])
    return len(found) >= 2 and len(found & known) < 0.5 * len(found)


def stems(texts: Iterable[str]) -> frozenset[str]:
    """Words with a meaning, by their first six letters: rough, for comparing only."""
    return frozenset(
        word[:6] for text in texts for word in _WORD.findall(text.casefold()) if word not in _THIN
    )


def _strings(value: Any) -> Iterator[str]:
    """All texts in a message's content."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in cast("Json", value).items():
            if key not in ("type", "id", "tool_use_id", "signature", "data"):
                yield from _strings(item)
