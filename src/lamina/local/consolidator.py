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
from itertools import chain

from lamina.local.index_order import TidyIndex, fits, long_pointers, repaired, shortened
from lamina.local.working_set import (
    Doubt,
    Drop,
    Merge,
    Overrules,
    Rewrite,
    SpokenStatements,
    WorkingSet,
    covered,
    missing_statements,
    plain_statements,
    stamp,
    text_of,
    with_lines,
)
from lamina.memories import Memory
from lamina.memory import INDEX, contradicting, resolver
from lamina.text.claims import (
    Statement,
    declares_over,
    judge,
    negations,
    said_in,
    statements,
)
from lamina.text.contradictions import contradictions, disagreement
from lamina.text.likeness import tells_apart
from lamina.text.lists import Listed
from lamina.text.wording import content_stems, hard_tokens, likeness, words
from lamina.text.written_dates import dated

# Thresholds and spans of time are set by hand; `tests/local/test_consolidator.py` holds the cases.
_ALIKE = 0.72  # of two memories' stems: the gate's own measure of a near-duplicate
_FEWEST = 3  # stems that a memory must have before it counts as part of a longer one
_PAST = timedelta(days=30)  # after its date a project fact may still be asked for …
_IN_VAIN = timedelta(days=7)  # … but not if it was shown again and again and never of use
_USED = timedelta(days=90)  # and one that was of use stays this long after the last time
_SHARED = 6  # rare stems that two memories have in common before they are compared
_MOST_ENDED = 200  # statements that share their rarest word
_MOST_ROUNDS = 1_000  # each round but the last takes something away; this only guards the loop
_STILL_LONG = "it is still longer than what is loaded: shorten it by hand"
_UNTIL = re.compile(
    r"(?i)\b(?:due|deadline|until|by|freeze|release[sd]?|launch\w*|ships?|demo|expires?|ends?|bis|"
    r"frist|abgabe|endet)\b|截止|到期|上线|发布|之前"
)
_DAY = re.compile(r"\b(\d{4}-\d\d-\d\d)\b")
_STILL_OPEN, _OVER = Listed("audit.still_open"), Listed("audit.over")
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
    others: Collection[str] = (),
    compare: bool = True,
) -> ConsolidationPlan:
    """The plan for these memories. Team memories and pinned ones are read and never changed.

    By path, `uses` counts answers that used a memory and `last_used` says when the last one did;
    `in_vain` were shown again and again and never of use; `said` knows better than the file's time
    from which day relative dates count (None: nobody knows). `labels` holds, for memories that are
    not the user's own word, what their index line ends with; such a memory never takes in one that
    is, nor replaces it, unless `overrules` knows better by the history. `by_hand` says which ones
    somebody wrote past the store: those never age out. `others` are files, but no memories.
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
        others=others,
        by_hand=working.by_hand,
    )
    return ConsolidationPlan(
        working.merges(), working.drops(), working.rewrites(), tidy.text, tidy.text != index,
        tuple(_doubts(working, tidy, compare=compare)), tuple(working.all()),
    )  # fmt: skip


def _doubts(working: WorkingSet, tidy: TidyIndex, *, compare: bool) -> Iterator[Doubt]:
    for pointer in tidy.astray:
        if pointer.file not in working.gone:
            hook = f": “{pointer.hook[:80]}”" if pointer.hook else ""
            working.doubt((pointer.file,), f"the index points at a file that is not there{hook}")
    if tidy.left_out:
        working.doubt(tidy.left_out, "no room in the index: they are found by recall only")
    yield from working.doubts()
    if not fits(tidy.text):
        yield Doubt((INDEX,), _STILL_LONG)
    if compare:
        yield from quarrels(working.all())


# ---- what a later memory replaced


def drop_replaced(working: WorkingSet) -> bool:
    """One pass; whether anything changed."""
    changed = False
    for one, first, other, second in _pairs(working):  # as they were, whatever changes meanwhile
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
    own = [one for one in memories if not one.team]
    return [
        Doubt(tuple(sorted((path, other))), f"these may contradict each other: {reason}")
        for path, other, reason in contradictions(map(contradicting, own), len(own))
    ]


def _pairs(working: WorkingSet) -> Iterator[tuple[Memory, Statement, Memory, Statement]]:
    """Pairs of statements of two memories that speak of the same: by subject, by rule, by "no longer"."""
    spoken = SpokenStatements(working)
    for places in spoken.together():
        members = [spoken.at(place) for place in places]
        for place, (memory, statement) in enumerate(members):
            for other, second in members[place + 1 : place + 50]:
                if other.path != memory.path and second.text != statement.text:
                    yield memory, statement, other, second
    yield from _endings(spoken)


def _endings(
    spoken: SpokenStatements,
) -> Iterator[tuple[Memory, Statement, Memory, Statement]]:
    """What ends a statement has all of its words, its rarest too: only those are compared."""
    ending = spoken.ending()
    wanted = {stem for place in ending for stem in spoken.stems(place)}
    by_rarest = spoken.by_rarest(wanted) if wanted else {}
    names = list(spoken.numbers)
    for number in ending:
        memory, statement = spoken.at(number)
        for stem in sorted(spoken.stems(number), key=names.__getitem__):
            for place in by_rarest.get(stem, ())[:_MOST_ENDED]:
                other, second = spoken.at(place)
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
    if not _DAY.search(memory.body):
        return None
    plain = [part.text for part in plain_statements(memory)]
    if len(plain) != 1 or not _UNTIL.search(plain[0]) or _SINCE.search(plain[0]):
        return None
    days = _DAY.findall(plain[0])
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
    file = f"{memory.description}\n{memory.body}"
    for text in lacking:
        for still, over in ((text, file), (file, text)):
            if (ahead := _STILL_OPEN.search(still)) and (done := _OVER.search(over)):
                return f"“{ahead[0]}” and “{done[0]}”"
    clauses = [one.strip() for text in lacking for one in (text, *re.split("[,;]", text))]
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
    """Pairs that share most of their stems, or of which one has all stems of the other; none that was
    looked at before, nor one of which a part is gone meanwhile."""
    fresh = working.fresh()
    if not fresh:
        return
    stems = {memory.path: working.seen(memory, _stems_of, "stems") for memory in working.open()}
    paths = sorted(stems)
    copies: defaultdict[int, list[int]] = defaultdict(list)  # `seen` gives those the same tuple
    for number, path in enumerate(paths):
        copies[id(stems[path])].append(number)
    often: Counter[str] = Counter()
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for text, numbers in copies.items():
        for stem in stems[paths[numbers[0]]]:
            often[stem] += len(numbers)
            holders[stem].append(text)
    for number, path in enumerate(paths):
        if working.get(path) is None:
            continue
        own = sorted(stems[path], key=lambda stem: (often[stem], stem))
        mine = set(own)
        # Two sets this alike share so many of these rarest stems: exact, and cheap to look up.
        least = int(_ALIKE * len(own) + 0.999)
        shared = min(_SHARED, least)
        rare = own[: len(own) - least + shared]
        hits = Counter(chain.from_iterable(map(holders.__getitem__, rare)))
        near = (copies[text] for text, count in hits.items() if count >= shared)
        partners = sorted(one for one in chain.from_iterable(near) if one != number)
        for other in map(paths.__getitem__, partners):
            gone = working.get(path) is None or working.get(other) is None
            if gone or not (path in fresh or other in fresh):
                continue
            both = len(mine.intersection(stems[other]))
            alike = both >= _ALIKE * (len(own) + len(stems[other]) - both)
            if alike or both == len(own) >= _FEWEST:
                yield other, path


def _stems_of(memory: Memory) -> tuple[str, ...]:
    return tuple(content_stems(text_of(memory)))


def _kept_apart(one: Memory, other: Memory) -> bool:
    """Did somebody give them names of two things ("Release iOS" and "… Android", "rules" and "rules v2"),
    or put them into two folders?"""
    if one.path.rpartition("/")[0] != other.path.rpartition("/")[0]:
        return True
    first, second = (set(words(memory.name.replace("_", " "))) for memory in (one, other))
    numbered = any(any(map(str.isdigit, word)) for word in first ^ second)
    return numbered or bool(first - second and second - first)


def _says_the_same(working: WorkingSet, one: Memory, other: Memory) -> bool:
    if one.type != other.type or (one.path in working.labels) != (other.path in working.labels):
        return False
    first, second = text_of(one), text_of(other)
    apart = working.by_hand(one.path) and working.by_hand(other.path) and _kept_apart(one, other)
    if first == second:  # the same twice, however it is called, unless it was put into two folders
        return not apart or one.path.rpartition("/")[0] == other.path.rpartition("/")[0]
    if apart or negations(first) != negations(second) or tells_apart(first, second):
        return False
    if min(len(working.seen(memory, _stems_of, "stems")) for memory in (one, other)) <= _FEWEST:
        few, more = set(words(first)), set(words(second))
        if not (few <= more or more <= few):  # so little says the same only in the same words
            return False
    left, right = hard_tokens(first), hard_tokens(second)
    if likeness(first, second) >= _ALIKE and (left <= right or right <= left):
        return True
    # Numbers or names differ on both sides: two facts of one form, unless nothing would be new.
    return not missing_statements(one, other) or not missing_statements(other, one)
