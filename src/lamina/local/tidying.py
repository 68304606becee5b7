"""The quiet half of the local dream: dates written out, likes merged, past dates aged out, long hooks moved. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta

from lamina.local.desk import (
    Desk,
    covered,
    dated,
    missing_statements,
    text_of,
    with_lines,
)
from lamina.local.index_order import hook_beyond_limit
from lamina.memories import Memory
from lamina.memory.claims import negations, statements
from lamina.memory.contradictions import tells_apart
from lamina.memory.index import pointers_of
from lamina.memory.wording import content_stems, hard_tokens, likeness

_ALIKE = 0.72  # the gate's own measure of a near-duplicate
_FEWEST = 3  # stems that a memory must have before it counts as part of a longer one
_PAST = timedelta(days=30)  # after its date a project fact may still be asked for …
_IN_VAIN = timedelta(days=7)  # … but not if it was shown again and again and never of use
_USED = timedelta(days=90)  # and one that was of use stays this long after the last time


def write_out_dates(desk: Desk) -> bool:
    """Relative dates of facts become absolute. `user` and `feedback` stay the user's words."""
    changed = False
    for memory in desk.open():
        said = desk.said_on(memory)
        if memory.type in {"user", "feedback"} or said is None:
            continue
        body, description = dated(memory.body, said), dated(memory.description, said)
        if (body, description) != (memory.body, memory.description):
            absolute = replace(memory, body=body, description=description, size=0)
            desk.rewrite(absolute, "dates written out")
            changed = True
    return changed


def age_out(desk: Desk) -> bool:
    """A project fact whose day is past goes when it is of no use: soon if it was shown in vain,
    later if nobody asked for it, last if it was used once. What somebody wrote by hand stays."""
    changed = False
    for memory in desk.open():
        due = _due(memory) if memory.type == "project" else None
        if due is None or desk.by_hand(memory.path):
            continue
        if reason := _of_no_use(desk, memory.path, due):
            desk.drop(memory.path, f"it was due on {due.isoformat()} and {reason}")
            changed = True
    return changed


def _of_no_use(desk: Desk, path: str, due: date) -> str:
    """Why a memory with this day is of no use any more; "" while it may be."""
    today = desk.now.date()
    last = desk.last_used.get(path)
    if desk.uses.get(path):
        past = last is not None and due + _PAST < today and last + _USED < today
        return f"was last used on {last.isoformat()}" if last and past else ""
    if path in desk.in_vain and due + _IN_VAIN < today:
        return "was shown several times since it was saved, never to any use"
    return "was never used" if due + _PAST < today else ""


_UNTIL = re.compile(
    r"(?i)\b(?:due|deadline|until|by|freeze|release[sd]?|launch\w*|ships?|demo|expires?|ends?|bis|frist|abgabe|endet)\b|截止|到期|上线|发布|之前"
)


def _due(memory: Memory) -> date | None:
    """The day after which a memory is past: its `due` key, else the last date of a single dated plan."""
    try:
        return date.fromisoformat(memory.extra.get("due", ""))
    except ValueError:
        pass
    plain = [part.text for part in statements(memory.body) if not part.label]
    if len(plain) != 1 or not _UNTIL.search(plain[0]) or re.search(r"(?i)\b(?:since|seit)\b|自从", plain[0]):  # fmt: skip
        return None
    days = re.findall(r"\b(\d{4}-\d\d-\d\d)\b", plain[0])
    try:
        return max((date.fromisoformat(day) for day in days), default=None)
    except ValueError:
        return None


def move_long_hooks(desk: Desk, index: str) -> None:
    """Words of an over-long index line that the topic file lacks move into it."""
    for pointer in pointers_of(index.encode("utf-8", "surrogateescape")):
        memory = desk.get(pointer.file)
        if memory is None or not desk.may_change(memory) or not hook_beyond_limit(pointer):
            continue
        hook = pointer.hook.removesuffix(desk.labels.get(memory.path, ""))
        lacking = [part.text for part in statements(hook) if not covered(part.text, memory)]
        if lacking:
            grown = replace(memory, body=with_lines(memory.body, lacking), size=0)
            desk.rewrite(grown, "its long index line moved here")


# --- near-duplicates ---


def merge_alike(desk: Desk) -> bool:
    """Memories that say the same become one: one that the store wrote, whose word is known; of those
    the one that is used, else the fuller, else the first."""
    merged = False
    for one, other in _alike_pairs(desk):
        first, second = desk.get(one), desk.get(other)
        if first is None or second is None or not _says_the_same(desk, first, second):
            continue
        into, taken = sorted((first, second), key=lambda memory: _preference(desk, memory))
        desk.merge(into, taken)
        merged = True
    return merged


def _preference(desk: Desk, memory: Memory) -> tuple[bool, int, int, str]:
    return (
        desk.by_hand(memory.path),
        -desk.uses.get(memory.path, 0),
        -len(memory.body),
        memory.path,
    )


def _alike_pairs(desk: Desk) -> Iterator[tuple[str, str]]:
    """Pairs that share most of their stems, or of which one has all stems of the other."""
    stems = {memory.path: content_stems(text_of(memory)) for memory in desk.open()}
    often = Counter(stem for found in stems.values() for stem in found)
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(stems):
        for stem in stems[path]:
            holders[stem].append(path)
    for path in sorted(stems):
        own = sorted(stems[path], key=lambda stem: (often[stem], stem))
        # Two sets this alike share one of these few rarest stems: exact, and cheap to look up.
        rare = own[: len(own) - int(_ALIKE * len(own) + 0.999) + 1]
        partners = {other for stem in rare for other in holders[stem] if other != path}
        for other in sorted(partners):
            shared = len(stems[path] & stems[other])
            alike = shared >= _ALIKE * (len(stems[path]) + len(stems[other]) - shared)
            if alike or shared == len(stems[path]) >= _FEWEST:
                yield other, path


def _contains(larger: Memory, smaller: Memory) -> bool:
    return not missing_statements(larger, smaller)


def _says_the_same(desk: Desk, one: Memory, other: Memory) -> bool:
    if one.type != other.type or (one.path in desk.labels) != (other.path in desk.labels):
        return False
    first, second = text_of(one), text_of(other)
    if negations(first) != negations(second) or tells_apart(first, second):
        return False
    left, right = hard_tokens(first), hard_tokens(second)
    if likeness(first, second) >= _ALIKE and (left <= right or right <= left):
        return True
    # Numbers or names differ on both sides: two facts of one form, unless nothing would be new.
    return _contains(one, other) or _contains(other, one)
