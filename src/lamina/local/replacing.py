"""Drops statements that a later memory of the same subject replaced or declared over. Pure.

The later one wins by its own date, over the user's own word and what was written by hand only if it
is the user's own word. What is only likely is reported instead.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from lamina.local.desk import Desk, stamp
from lamina.memories import Memory
from lamina.memory.claims import Statement, claim, declares_over, judge, negations, statements
from lamina.memory.wording import content_stems

_SIGNS = frozenset("alway ever pleas immer stets bitt now use".split())  # noqa: SIM905 - a word list


def drop_replaced(desk: Desk) -> bool:
    """One pass; whether anything changed."""
    changed = False
    for one, first, other, second in list(_pairs(desk)):
        older, newer = (one, other) if stamp(one) < stamp(other) else (other, one)
        old, new = (first, second) if older is one else (second, first)
        current = desk.get(older.path)
        if current is None or desk.get(newer.path) is None or old.text not in current.body:
            continue
        judgement = judge(new.text, old.text)
        if not judgement and stamp(one) == stamp(other):
            judgement = judge(old.text, new.text)
        if not judgement:
            continue
        if judgement == "sure" and desk.overrules(newer, new.text, older, old.text):
            _remove(desk, current, old.text, newer)
            changed = True
        else:
            desk.doubt(sorted((older.path, newer.path)), f"these may contradict each other: “{old.text[:60]}” and “{new.text[:60]}”")  # fmt: skip
    return changed


def _pairs(desk: Desk) -> Iterator[tuple[Memory, Statement, Memory, Statement]]:
    """Pairs of statements of two memories that speak of the same: by subject, by rule, by "no longer"."""
    groups: defaultdict[tuple[object, ...], list[tuple[Memory, Statement]]] = defaultdict(list)
    spoken: list[tuple[Memory, Statement]] = []
    for memory in desk.all():
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
    for memory, statement in spoken:
        if not re.search(r"(?i)longer|any ?more|mehr\b|不再|不", statement.text):
            continue
        for other, second in spoken:
            same = other.path != memory.path and other.type == memory.type
            if same and declares_over(statement.text, second.text):
                yield other, second, memory, statement


def _remove(desk: Desk, older: Memory, text: str, newer: Memory) -> None:
    """The memory without the statement; without a statement left, no memory."""
    reason = f"{newer.path} says otherwise since: “{text[:60]}”"
    kept = [part for part in statements(older.body) if part.text != text and not part.label]
    if not kept:
        desk.drop(older.path, reason, newer.path)
        return
    body = older.body
    for part in reversed(statements(older.body)):
        if part.text == text:
            body = body[: part.start] + body[part.end :].lstrip(" \t")
    body = re.sub(r"(?m)^[ \t]*(?:[-*+]|\d{1,3}[.)])?[ \t]*\n", "\n", body)
    body = re.sub(r"\n{3,}", "\n\n", body).strip("\n") + "\n"
    stale = content_stems(text) <= content_stems(older.description)
    description = kept[0].text[:150] if stale else older.description
    desk.rewrite(replace(older, body=body, description=description, size=0), reason)
