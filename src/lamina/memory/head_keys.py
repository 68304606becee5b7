"""What the frontmatter of a memory says beside its title: the days and values of its keys, and which of them
only keep it. Pure, as `evidence` is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lamina.memories import Memory, Proposal
from lamina.memory.topics import KEPT_BY_US

if TYPE_CHECKING:
    from lamina.memory.evidence import Record

# A day, a number, an id, or one of our own words: what such a key holds, and no statement.
_ID = re.compile(r"[0-9a-fA-F-]{8,}")
_OUR_VALUES = frozenset(
    """true false memory tool page pasted assistant recalled system hook agent teammate outside
    program user t z tz""".split()  # noqa: SIM905 - a word list
)
_ISO = len("2026-11-19")
_OF_AN_ID = 3  # letters to a digit, at most
_WORD_ENDS = re.compile(r"[_.-]+|(?<=[a-z])(?=[A-Z])")


def day_of_nobody(proposal: Proposal, record: Record, memories: Iterable[Memory]) -> str:
    """ "" or what a key of ours says of when, where neither that was said nor anything said then, and no
    other memory has it. Where nobody recorded when anything was said, no day can be held against it."""
    dated = {
        one: key
        for key, one in proposal.extra.items()
        if key.casefold() in KEPT_BY_US and any(map(str.isdigit, one))
        if not _ID.fullmatch(one) or len(one) == _ISO
    }
    if not dated or proposal.type not in ("user", "feedback"):
        return ""
    said, now = (
        " ".join(
            run
            for one in proposal.evidence
            for run in record.dates(words or one.quote, one.session or proposal.session, one.entry)
        )
        for words in ("", "today")
    )
    moved = {one.extra.get(key) for one in memories for key in dated.values()}
    new = [one for one in dated if one not in moved] if said + now or not proposal.evidence else []
    # Said or saved it may be on that day; that it is due then they must have said.
    known = {one: said if dated[one].casefold() == "due" else f"{said} {now}" for one in new}
    return next((one for one in new if len(one) < _ISO or one[:_ISO] not in known[one]), "")


def said_by_keys(extra: Mapping[str, str]) -> list[str]:
    """What further frontmatter says, in keys ("obsolete:") as in values."""
    said: list[str] = []
    for key, value in extra.items():
        spelled, ours = " ".join(_WORD_ENDS.split(key)), key.casefold() in KEPT_BY_US
        if not ours:
            said.append(spelled)
        if not (ours and _keeps_only(value)):
            said.append(value)
    return said


def _keeps_only(value: str) -> bool:
    """Is it nothing, a day, a number, an id, or a word of ours? A sign ("❌") says something, and so does what
    is spelled with the letters of an id."""
    letters = "".join(filter(str.isalpha, value)).casefold()
    digits = sum(map(str.isdigit, value))
    if _ID.fullmatch(value):
        return _OF_AN_ID * digits >= len(letters)
    plain = value.isascii() and set(value) <= {*" -+:.,/_'\"", *filter(str.isalnum, value)}
    return plain and (not letters or letters in _OUR_VALUES)
