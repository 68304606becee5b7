"""What a diary says plainly enough to become a memory with no model: dated entries in, proposals out.

The diary is the agent's own writing, so nothing here proves the user's word; the gate sees to that.
What the rules can't place stays in the diary for a model. Pure: no files, no clock.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime

from lamina.local.extractor import extract
from lamina.memories import Proposal

_DAY = re.compile(r"(\d{4}-\d\d-\d\d)\.md$")
_ENTRY = re.compile(r"^(?:[-*•]\s+)?(?:\[?\d{1,2}[:.h]\d\d(?::\d\d)?\]?\s*(?:[-–—:]\s*)?)?")
_BULLET = re.compile(r"^(?:[-*•]\s|\[?\d{1,2}[:.]\d\d)")
# An agent writes of the user; the rules know how a user speaks of themselves.
_AS_SAID = (
    (re.compile(r"(?i)^(?:the )?user (?:asked|wants|told) (?:me )?to (?:remember|note|keep in mind)(?: that)?[:,]?\s+"), "Remember that "),
    (re.compile(r"(?i)^(?:to )?remember(?: that)?[:,]?\s+"), "Remember that "),
    (re.compile(r"(?i)^(?:the )?user (?:said|mentioned|noted|told me)(?: that)?[:,]?\s+"), ""),
)  # fmt: skip


def entries(log: str) -> Iterator[str]:
    """The entries of one day, without bullet and time; indented lines belong to the one before."""
    entry = ""
    for line in [*log.splitlines(), "-"]:
        if entry and line[:1] in " \t" and line.strip():
            entry += f" {line.strip()}"
            continue
        if words := _ENTRY.sub("", entry).strip():
            yield " ".join(words.split())
        entry = line.strip() if _BULLET.match(line) else ""


def distil(
    logs: Mapping[str, str], known: Collection[str] = ()
) -> Iterator[tuple[str, list[Proposal]]]:
    """For each entry that was not worked in before: its mark, and what the rules make of it."""
    for path, log in sorted(logs.items()):
        day = _DAY.search(path)
        if day is None:
            continue
        try:
            said = datetime.fromisoformat(day[1]).replace(hour=12, tzinfo=UTC)
        except ValueError:
            continue
        for words in entries(log):
            mark = hashlib.sha256(f"{day[1]}\n{words}".encode("utf-8", "replace")).hexdigest()[:20]
            if mark in known:
                continue
            for pattern, instead in _AS_SAID:
                words = pattern.sub(instead, words, count=1)  # noqa: PLW2901 - step by step
            message = {
                "role": "user",
                "content": words,
                "origin": "typed",
                "time": said.isoformat(),
            }
            yield mark, extract([message], now=said)
