"""What a memory that a fork wrote rests on: its quotes, found in the new messages of the record.

A file ends with a fenced `evidence` list, one `label: quote` a line; it is taken off before saving.
What cites nothing and repeats nothing rests on nothing, and the gate sends it to the inbox.
Pure; see docs/decisions/evidence-of-extraction.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lamina.ledger.record import blocks_of_entry
from lamina.memories import Evidence
from lamina.memory import edit_topic, holds, read_topic
from lamina.messages import Json, text_of
from lamina.text import wording
from lamina.text.asks import wishes_in
from lamina.text.origins import split, typed_parts
from lamina.tools.memory_guard import echoed

_FENCE = re.compile(
    r"(?<!\n)\n*^(`{3,}|~{3,})[ \t]*evidence[ \t]*\n(.*?)(?:^\1[ \t]*$|\Z)\n?",
    re.MULTILINE | re.DOTALL,
)
_LINE = re.compile(r"\s*(?:[-*]\s+)?(m\d+)\s*:\s*(.+?)\s*")
_LONGEST_MESSAGE, _LONGEST = 2_000, 16_000  # characters of typed words in the prompt
_MOST_SOURCES = 20
_MOST_QUOTES = 50  # each is looked for in the record; a memory rests on a few


@dataclass(frozen=True, slots=True)
class NewWords:
    """The messages that an extraction is about."""

    entries: Sequence[Json]
    session: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])  # m1 → uuid of the entry
    shown: str = ""  # the typed words with their labels, for the prompt

    @classmethod
    def of(cls, entries: Sequence[Json], session: str) -> NewWords:
        labels: dict[str, str] = {}
        lines: list[str] = []
        room = _LONGEST
        for entry in entries:
            words = "\n".join(typed_parts(blocks_of_entry(entry))).strip()
            if not words or room <= 0:
                continue
            label = f"m{len(labels) + 1}"
            labels[label] = str(entry["uuid"])
            shown = words if len(words) <= _LONGEST_MESSAGE else words[:_LONGEST_MESSAGE] + " […]"
            room -= len(shown)
            said = said_at(entry)
            day = f"{said:%A %Y-%m-%d}" if said else "no date"
            lines.append(f"{label} ({day}): {shown}")
        return cls(entries, session, labels, "\n".join(lines))

    def evidence_for(self, content: str, *, strict: bool) -> tuple[str, list[Evidence]]:
        """The file without its evidence, and that evidence as the gate takes it.

        `strict`: the type promises the user's own word, so only its quotes speak for it.
        """
        body, quotes = take_evidence(content)
        cited = [self._found(label, quote) for label, quote in quotes]
        if strict:
            return body, cited
        return body, [*cited, *echoed(body, self.entries, self.session, most=_MOST_SOURCES)]

    def dated(
        self, path: str, content: bytes, before: bytes | None, evidence: Sequence[Evidence]
    ) -> bytes:
        """A fact with its relative dates written out, from the day of the words it rests on. What
        stood there before was said on another day, and the user's own words stay as they are."""
        from lamina.local.working_set import dated

        memory, cited = read_topic(path, content), {one.entry for one in evidence}
        days = [at.date() for one in self.entries if one["uuid"] in cited and (at := said_at(one))]
        days = days or [at.date() for one in self.entries if (at := said_at(one))]
        if memory.type in ("user", "feedback") or not days:
            return content
        known = {*(before or b"").decode("utf-8", "replace").splitlines()}
        lines = zip(memory.body.split("\n"), dated(memory.body, days[-1]).split("\n"), strict=True)
        body = "\n".join(old if old in known else new for old, new in lines)
        description = dated(memory.description, days[-1])
        if before is not None and read_topic(path, before).description == memory.description:
            description = memory.description
        if (body, description) == (memory.body, memory.description):
            return content
        # What does not change is not written anew: the gate is to see it as it was given.
        return edit_topic(
            content,
            body=body if body != memory.body else None,
            description=description if description != memory.description else None,
        )

    def _found(self, label: str, quote: str) -> Evidence:
        if label in self.labels:
            return Evidence(quote, self.session, self.labels[label])
        needle = wording.fold(quote)
        for entry in self.entries:
            if any(needle in wording.fold(text) for _, text in blocks_of_entry(entry)):
                return Evidence(quote, self.session, str(entry["uuid"]))
        return Evidence(quote, self.session, "")


def take_evidence(content: str) -> tuple[str, list[tuple[str, str]]]:
    """The text without its evidence fences, and their lines as (label, quote)."""
    quotes: list[tuple[str, str]] = []
    for fence in _FENCE.finditer(content):
        for line in fence[2].splitlines():
            if match := _LINE.fullmatch(line):
                quotes.append((match[1], match[2].strip("\"“”'‘’ ")))
            elif line.strip():
                quotes.append(("", line.strip(" -*\"“”'‘’")))
    body = _FENCE.sub("\n", content)
    return (body.rstrip("\n") + "\n" if quotes else body), quotes[:_MOST_QUOTES]


def any_typed(entries: Sequence[Json]) -> bool:
    """Did the user say anything in these?"""
    return any(
        span.origin == "typed" and span.text.strip()
        for entry in entries
        for origin, text in blocks_of_entry(entry)
        if origin == "typed"
        for span in split(text)
    )


def said_at(entry: Json) -> datetime | None:
    """When it was said, on the user's own clock: in the evening "tomorrow" is another day in UTC."""
    try:
        return datetime.fromisoformat(str(entry.get("ts"))).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


# ---- what the user wants forgotten


class Unwanted:
    """What the user asked to forget in these messages."""

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


_LONGEST_TOLD = 2_000  # characters of one message that the small model is shown


def told(entries: Sequence[Json]) -> str:
    """What was said in messages, without what tools said."""
    said = [
        (entry["role"], words.strip())
        for entry in entries
        for words in (
            [text_of(entry["content"])]
            if entry["role"] == "assistant"
            else typed_parts(blocks_of_entry(entry))
        )
    ]
    return "\n\n".join(f"{role}: {words[:_LONGEST_TOLD]}" for role, words in said if words)
