"""How old a memory is, in words, and the caveat that an old one is shown with. Pure."""

from __future__ import annotations

import math

_DAY = 86_400.0


def age_days(saved: float, now: float) -> int:
    """Whole days since then; a time in the future or no time at all counts as now."""
    age = now - saved
    return int(age // _DAY) if math.isfinite(age) and age > 0 else 0


def age_words(saved: float, now: float) -> str:
    """`today`, `yesterday` or `N days ago`: models judge those better than dates."""
    days = age_days(saved, now)
    return {0: "today", 1: "yesterday"}.get(days, f"{days:,} days ago")


def caveat(saved: float, now: float, stale_days: float = 1.0) -> str:
    """ "" for a fresh memory, else a sentence on how far to trust it."""
    if now - saved <= stale_days * _DAY or not math.isfinite(now - saved):
        return ""
    days = max(1, age_days(saved, now))
    old = "1 day" if days == 1 else f"{days:,} days"
    return (
        f"Written {old} ago, so it may be out of date. Look at the present state of things before "
        "you rely on what it says."
    )


def heading(path: str, saved: float, now: float, stale_days: float = 1.0) -> str:
    """`Memory (saved N days ago): path`, with the caveat below it where the memory is old."""
    line = f"Memory (saved {age_words(saved, now)}): {path}"
    note = caveat(saved, now, stale_days)
    return f"{line}\n{note}" if note else line
