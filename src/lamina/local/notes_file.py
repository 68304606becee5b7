"""The notes' Markdown: a template of fixed sections, their bodies read, filled, checked and cut.

Pure: text in, text out. Headings and the italic line under each never change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lamina.ledger import tokens

_HEADING = re.compile(r"^# (.+?)\s*$", re.MULTILINE)

# Headings of the built-in template by the key that the local summariser fills.
KEYS = {
    "Session title": "title",
    "Current state": "state",
    "Task specification": "task",
    "Files and functions": "files",
    "Workflow": "workflow",
    "Errors and corrections": "errors",
    "Codebase and system documentation": "docs",
    "Learnings": "learnings",
    "Key results": "results",
    "Worklog": "worklog",
}


@dataclass(frozen=True, slots=True)
class Section:
    heading: str
    italic: str  # the line that says what belongs here
    body: str


def parse(text: str) -> list[Section]:
    """Sections in order; text before the first heading belongs to none."""
    marks = list(_HEADING.finditer(text))
    found: list[Section] = []
    for at, mark in enumerate(marks):
        end = marks[at + 1].start() if at + 1 < len(marks) else len(text)
        lines = text[mark.end() : end].strip("\n").split("\n")
        italic = lines[0].strip() if lines and _is_italic(lines[0].strip()) else ""
        body = "\n".join(lines[1:] if italic else lines).strip()
        found.append(Section(mark[1], italic, body))
    return found


def render(sections: list[Section]) -> str:
    parts = [
        f"# {s.heading}\n"
        + (f"{s.italic}\n" if s.italic else "")
        + (f"\n{s.body}\n" if s.body else "")
        for s in sections
    ]
    return "\n".join(parts)


def _is_italic(line: str) -> bool:
    return len(line) > 2 and line[0] == line[-1] and line[0] in "_*" and line[1] != line[0]


def same_frame(template: str, text: str) -> bool:
    """Are headings and italic lines, in order, those of the template?"""
    frame = [(s.heading, s.italic) for s in parse(template)]
    return frame == [(s.heading, s.italic) for s in parse(text)]


def empty(text: str) -> bool:
    """Nothing was noted yet."""
    return not any(section.body for section in parse(text))


def filled(template: str, bodies: Mapping[str, str]) -> str:
    """The template with bodies by key; sections without one keep what they have."""
    return render(
        [
            Section(s.heading, s.italic, (bodies.get(KEYS.get(s.heading, "")) or s.body).strip())
            for s in parse(template)
        ]
    )


def too_long(text: str, section_tokens: int, total_tokens: int) -> list[str]:
    """Sentences for the next update: what to shorten."""
    found = [
        f"The section '{s.heading}' has about {tokens.of_text(s.body):,} tokens; "
        f"shorten it below {section_tokens:,}."
        for s in parse(text)
        if tokens.of_text(s.body) > section_tokens
    ]
    total = tokens.of_text(text)
    if total > total_tokens:
        found.append(
            f"The whole file has about {total:,} tokens; shorten it below {total_tokens:,}."
        )
    return found


def shortened(text: str, section_tokens: int, total_tokens: int, path: str) -> str:
    """For a compaction: over-long sections cut, with a pointer to the file."""
    sections = parse(text)
    each = min(section_tokens, max(100, total_tokens // max(1, len(sections))))
    spare = sum(max(0, each - tokens.of_text(s.body)) for s in sections)
    result: list[Section] = []
    for section in sections:
        size = tokens.of_text(section.body)
        room = min(section_tokens, each + spare)
        if size > each:
            spare = max(0, spare - (min(size, room) - each))
        if size > room:
            body = section.body[: room * 4].rsplit("\n", 1)[0]
            section = Section(  # noqa: PLW2901
                section.heading, section.italic, f"{body}\n(cut; all of it is in {path})"
            )
        result.append(section)
    return render([s for s in result if s.body])
