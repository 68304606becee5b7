"""The dream without a model: from all memories and the index, a plan that tidies them and loses nothing.

It merges what says the same, drops what a later memory replaced or declared over, writes out dates,
ages out what is past, and repairs the index. What it is not sure of it reports and leaves alone.
A plan of a carried-out plan is empty. Pure: values in, values out; no files, no clock.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from lamina.local.index_order import TidyIndex, fits, long_pointers, repaired, shortened
from lamina.local.working_set import (
    Doubt,
    Drop,
    Merge,
    Overrules,
    Rewrite,
    WorkingSet,
    covered,
    dated,
    missing_statements,
    stamp,
    text_of,
    with_lines,
)
from lamina.memories import Memory
from lamina.memory import contradicting, resolver
from lamina.text.claims import (
    Statement,
    claim,
    declares_over,
    judge,
    negations,
    said_in,
    statements,
)
from lamina.text.likeness import contradictions, disagreement, tells_apart
from lamina.text.wording import content_stems, hard_tokens, likeness

# Thresholds and spans of time are set by hand; `tests/local/test_consolidator.py` holds the cases.
_ALIKE = 0.72  # of two memories' stems: the gate's own measure of a near-duplicate
_FEWEST = 3  # stems that a memory must have before it counts as part of a longer one
_PAST = timedelta(days=30)  # after its date a project fact may still be asked for …
_IN_VAIN = timedelta(days=7)  # … but not if it was shown again and again and never of use
_USED = timedelta(days=90)  # and one that was of use stays this long after the last time
_MOST_ENDED = 200  # statements that share their rarest word
_MOST_ROUNDS = 1_000  # each round but the last takes something away; this only guards the loop
_SIGNS = frozenset("alway ever pleas immer stets bitt now use".split())  # noqa: SIM905 - a word list
_UNTIL = re.compile(
    r"(?i)\b(?:due|deadline|until|by|freeze|release[sd]?|launch\w*|ships?|demo|expires?|ends?|bis|"
    r"frist|abgabe|endet)\b|截止|到期|上线|发布|之前"
)
_SINCE = re.compile(r"(?i)\b(?:since|seit)\b|自从")


@dataclass(frozen=True, slots=True)
class ConsolidationPlan:
    """What to do with the memory directory: everything at once, or nothing."""

    merges: tuple[Merge, ...]
    drops: tuple[Drop, ...]
    rewrites: tuple[Rewrite, ...]
    index: str  # MEMORY.md as it should be
    index_changed: bool
    doubtful: tuple[Doubt, ...]  # for the audit; nothing is done about these
    memories: tuple[Memory, ...]  # all memories as they will be

    @property
    def empty(self) -> bool:
        return not (self.merges or self.drops or self.rewrites or self.index_changed)


def consolidate(
    memories: Sequence[Memory],
    *,
    index: str,
    now: datetime,
    uses: Mapping[str, int] | None = None,
    pinned: Collection[str] = (),
    labels: Mapping[str, str] | None = None,
    last_used: Mapping[str, date] | None = None,
    in_vain: Collection[str] = (),
    said: Mapping[str, date | None] | None = None,
    overrules: Overrules | None = None,
    by_hand: Callable[[str], bool] = lambda _: False,
    compare: bool = True,
) -> ConsolidationPlan:
    """The plan for these memories. Team memories and pinned ones are read and never changed.

    By path, `uses` counts answers that used a memory and `last_used` says when the last one did;
    `in_vain` were shown again and again and never of use; `said` knows better than the file's time
    from which day relative dates count (None: nobody knows). `labels` holds, for memories that are
    not the user's own word, what their index line ends with; such a memory never takes in one that
    is, nor replaces it, unless `overrules` knows better by the history. `by_hand` says which ones
    somebody wrote past the store: those never age out. `compare`: look for `quarrels` too.
    """
    working = WorkingSet(
        memories,
        uses or {},
        frozenset(pinned),
        labels or {},
        now,
        last_used=last_used,
        in_vain=in_vain,
        said=said,
        overrules=overrules,
        by_hand=by_hand,
    )
    shorter = move_long_lines(working, index)
    for _ in range(_MOST_ROUNDS):
        changed = write_out_dates(working)
        changed |= drop_replaced(working)
        changed |= merge_alike(working)
        changed |= age_out(working)
        if not changed:
            break
    tidy = repaired(
        shorter,
        working.all(),
        uses=working.uses,
        labels=working.labels,
        in_vain=working.in_vain,
        removed=working.gone,
        before={memory.path: memory for memory in memories},
    )
    _doubt_what_the_index_lost(working, tidy)
    return ConsolidationPlan(
        working.merges(), working.drops(), working.rewrites(), tidy.text, tidy.text != index,
        (*working.doubts(), *(quarrels(working.all()) if compare else ())), tuple(working.all()),
    )  # fmt: skip


def _doubt_what_the_index_lost(working: WorkingSet, tidy: TidyIndex) -> None:
    for pointer in tidy.astray:
        if pointer.file not in working.gone:
            hook = f": “{pointer.hook[:80]}”" if pointer.hook else ""
            working.doubt((pointer.file,), f"the index points at a file that is not there{hook}")
    if tidy.left_out:
        working.doubt(tidy.left_out, "no room in the index: they are found by recall only")


# ---- what a later memory replaced


def drop_replaced(working: WorkingSet) -> bool:
    """One pass; whether anything changed."""
    changed = False
    for one, first, other, second in list(_pairs(working)):
        older, newer = (one, other) if stamp(one) < stamp(other) else (other, one)
        old, new = (first, second) if older is one else (second, first)
        current = working.get(older.path)
        if current is None or working.get(newer.path) is None or old.text not in current.body:
            continue
        if judge(new.text, old.text) == "sure" and working.overrules(
            newer, new.text, older, old.text
        ):
            _remove(working, current, old.text, newer)
            changed = True
    return changed


def quarrels(memories: Sequence[Memory]) -> list[Doubt]:
    """Contradictions that are for a person, by the detector that `lamina memory audit` has."""
    texts = [contradicting(one) for one in memories if not one.team]
    return [
        Doubt(tuple(sorted((path, other))), f"these may contradict each other: {reason}")
        for path, other, reason in contradictions(texts)
    ]


def _pairs(working: WorkingSet) -> Iterator[tuple[Memory, Statement, Memory, Statement]]:
    """Pairs of statements of two memories that speak of the same: by subject, by rule, by "no longer"."""
    groups: defaultdict[tuple[object, ...], list[tuple[Memory, Statement]]] = defaultdict(list)
    spoken: list[tuple[Memory, Statement]] = []
    for memory in working.all():
        for statement in statements(memory.body):
            if statement.label or memory.team:
                continue
            spoken.append((memory, statement))
            made = claim(statement.text)
            if made:
                groups["claim", memory.type, made.subject].append((memory, statement))
            rule = content_stems(statement.text) - negations(statement.text) - _SIGNS
            groups["rule", memory.type, rule].append((memory, statement))
    for members in groups.values():
        for place, (memory, statement) in enumerate(members):
            for other, second in members[place + 1 : place + 50]:
                if other.path != memory.path:
                    yield memory, statement, other, second
    yield from _endings(spoken)


def _endings(
    spoken: list[tuple[Memory, Statement]],
) -> Iterator[tuple[Memory, Statement, Memory, Statement]]:
    """What ends a statement has all of its words, its rarest too: only those are compared."""
    stems = [content_stems(statement.text) - _SIGNS for _, statement in spoken]
    often = Counter(stem for found in stems for stem in found)
    by_rarest: defaultdict[str, list[int]] = defaultdict(list)
    for number, found in enumerate(stems):
        if found:
            by_rarest[min(found, key=lambda stem: (often[stem], stem))].append(number)
    for number, (memory, statement) in enumerate(spoken):
        if not re.search(r"(?i)longer|any ?more|mehr\b|不再|不", statement.text):
            continue
        for stem in sorted(stems[number]):
            for place in by_rarest.get(stem, ())[:_MOST_ENDED]:
                other, second = spoken[place]
                same = other.path != memory.path and other.type == memory.type
                if same and declares_over(statement.text, second.text):
                    yield other, second, memory, statement


def _remove(working: WorkingSet, older: Memory, text: str, newer: Memory) -> None:
    """The memory without the statement; without a statement left, no memory."""
    reason = f"{newer.path} says otherwise since: “{text[:60]}”"
    kept = [part for part in statements(older.body) if part.text != text and not part.label]
    if not kept:
        working.drop(older.path, reason, newer.path)
        return
    body = older.body
    for part in reversed(statements(older.body)):
        if part.text == text:
            body = body[: part.start] + body[part.end :].lstrip(" \t")
    body = re.sub(r"(?m)^[ \t]*(?:[-*+]|\d{1,3}[.)])?[ \t]*\n", "\n", body)
    body = re.sub(r"\n{3,}", "\n\n", body).strip("\n") + "\n"
    stale = content_stems(text) <= content_stems(older.description)
    description = kept[0].text[:150] if stale else older.description
    working.rewrite(replace(older, body=body, description=description, size=0), reason)


# ---- dates and age


def write_out_dates(working: WorkingSet) -> bool:
    """Relative dates of facts become absolute. `user` and `feedback` stay the user's words."""
    changed = False
    for memory in working.open():
        if memory.type in {"user", "feedback"}:
            continue
        said = working.said_on(memory)
        body, description = dated(memory.body, said), dated(memory.description, said)
        if (body, description) != (memory.body, memory.description):
            absolute = replace(memory, body=body, description=description, size=0)
            working.rewrite(absolute, "dates written out")
            changed = True
    return changed


def age_out(working: WorkingSet) -> bool:
    """A project fact whose day is past goes when it is of no use: soon if it was shown in vain,
    later if nobody asked for it, last if it was used once. What somebody wrote by hand stays."""
    changed = False
    for memory in working.open():
        due = _due(memory) if memory.type == "project" else None
        if due is None or working.by_hand(memory.path):
            continue
        if reason := _of_no_use(working, memory.path, due):
            working.drop(memory.path, f"it was due on {due.isoformat()} and {reason}")
            changed = True
    return changed


def _of_no_use(working: WorkingSet, path: str, due: date) -> str:
    """Why a memory with this day is of no use any more; "" while it may be."""
    today = working.now.date()
    last = working.last_used.get(path)
    if working.uses.get(path):
        past = last is not None and due + _PAST < today and last + _USED < today
        return f"was last used on {last.isoformat()}" if last and past else ""
    if path in working.in_vain and due + _IN_VAIN < today:
        return "was shown several times since it was saved, never to any use"
    return "was never used" if due + _PAST < today else ""


def _due(memory: Memory) -> date | None:
    """The day after which a memory is past: its `due` key, else the last date of a single dated plan."""
    try:
        return date.fromisoformat(memory.extra.get("due", ""))
    except ValueError:
        pass
    plain = [part.text for part in statements(memory.body) if not part.label]
    if len(plain) != 1 or not _UNTIL.search(plain[0]) or _SINCE.search(plain[0]):
        return None
    days = re.findall(r"\b(\d{4}-\d\d-\d\d)\b", plain[0])
    try:
        return max((date.fromisoformat(day) for day in days), default=None)
    except ValueError:
        return None


def move_long_lines(working: WorkingSet, index: str) -> str:
    """An index that is not loaded whole, with its longest lines cut, one after the other, until it is:
    what only the line says moves into the file. Where the file says otherwise, the line stays."""
    resolve = resolver(memory.path for memory in working.all())
    for line, pointer in long_pointers(index):
        if fits(index):
            break
        memory = working.get(resolve(pointer.file))
        if memory is None or not working.may_change(memory):
            continue
        label = working.labels.get(memory.path, "")
        short = shortened(line, pointer, memory, label)
        lacking = [
            part.text
            for part in statements(pointer.hook.removesuffix(label.strip()))
            if not covered(part.text, memory)
        ]
        if against := _conflict(lacking, memory):
            working.doubt(
                (memory.path,), f"its line in the index says otherwise than it: {against}"
            )
        elif short != line:
            if lacking:
                grown = replace(memory, body=with_lines(memory.body, lacking), size=0)
                working.rewrite(grown, "its long index line moved here")
            index = index.replace(line, short, 1)
    return index


def _conflict(lacking: Sequence[str], memory: Memory) -> str:
    """ "" or what a file says against words of its index line."""
    clauses = [clause.strip() for text in lacking for clause in (text, *text.split(","))]
    for text in clauses:
        for other in said_in(memory):
            if reason := disagreement(text, other):
                return f"“{text[:60]}” and “{other[:60]}” ({reason})"
    return ""


# ---- near-duplicates


def merge_alike(working: WorkingSet) -> bool:
    """Memories that say the same become one: one that the store wrote, whose word is known; of those
    the one that is used, else the fuller, else the first."""
    merged = False
    for one, other in _alike_pairs(working):
        first, second = working.get(one), working.get(other)
        if first is None or second is None or not _says_the_same(working, first, second):
            continue
        into, taken = sorted(
            (first, second),
            key=lambda one: (
                working.by_hand(one.path),
                -working.uses.get(one.path, 0),
                -len(one.body),
                one.path,
            ),
        )
        working.merge(into, taken)
        merged = True
    return merged


def _alike_pairs(working: WorkingSet) -> Iterator[tuple[str, str]]:
    """Pairs that share most of their stems, or of which one has all stems of the other."""
    stems = {memory.path: content_stems(text_of(memory)) for memory in working.open()}
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


def _says_the_same(working: WorkingSet, one: Memory, other: Memory) -> bool:
    if one.type != other.type or (one.path in working.labels) != (other.path in working.labels):
        return False
    first, second = text_of(one), text_of(other)
    if negations(first) != negations(second) or tells_apart(first, second):
        return False
    left, right = hard_tokens(first), hard_tokens(second)
    if likeness(first, second) >= _ALIKE and (left <= right or right <= left):
        return True
    # Numbers or names differ on both sides: two facts of one form, unless nothing would be new.
    return not missing_statements(one, other) or not missing_statements(other, one)
