"""Reads when a question is about: months, years and days that it names, and spans such as "two
weeks ago" counted from now. Pure functions of text and time; nothing here asks the clock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

_DAY = 86_400.0
_END_OF_TIME = 4e9  # seconds; a day beyond 2096 is a mistake
_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_MONTHS: Sequence[str] = _MONTH.lower().split("|")
_NAMED = re.compile(
    rf"\b(?:(?P<before>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? )?(?P<month>{_MONTH})\b"
    r"(?:,? (?P<after>\d{1,2})(?:st|nd|rd|th)?\b(?!\d))?"
)
_YEAR = re.compile(r"\b(19[5-9]\d|20\d\d)\b")
_ISO = re.compile(r"\b(20\d\d)-(\d\d)-(\d\d)\b|(20\d\d)年|(\d{1,2})月(?:(\d{1,2})日)?")
_COUNT = {
    **dict.fromkeys(("a", "an", "one", "last", "past"), 1.0),
    **dict.fromkeys(("two", "couple of", "a couple of"), 2.0),
    **dict.fromkeys(("three", "few", "a few"), 3.0),
    **dict.fromkeys(("four", "several"), 4.0),
    **dict(zip(("five", "six", "seven", "eight", "nine", "ten"), range(5, 11), strict=True)),
}
_UNIT = {"day": 1.0, "week": 7.0, "month": 30.4, "year": 365.0}
_NUMBER = r"(?P<n>\d{1,3}|" + "|".join(sorted(_COUNT, key=len, reverse=True)) + ")"
_AGO = re.compile(rf"\b{_NUMBER} (?P<unit>day|week|month|year)s? ago\b", re.IGNORECASE)
_WITHIN = re.compile(
    r"\b(?:last|past) (?:(?P<n>\d{1,3}|two|three|four|five|six|few|couple of|several) )?"
    r"(?P<unit>day|week|weekend|month|year)s?\b",
    re.IGNORECASE,
)
_WEEKDAY_NAMES = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_WEEKDAYS: Sequence[str] = _WEEKDAY_NAMES.split("|")
_WEEKDAY = re.compile(rf"\blast (?P<day>{_WEEKDAY_NAMES})\b", re.IGNORECASE)
_NEAR = re.compile(r"\b(?P<word>today|yesterday|this (?:morning|week|month))\b", re.IGNORECASE)
_NEAR_DAYS = {"today": 1, "this morning": 1, "yesterday": 2, "this week": 7, "this month": 31}


def date_terms(said: float) -> list[str]:
    """The day as terms of its own, which no word of a text can equal."""
    if not 0 < said < _END_OF_TIME:
        return []
    day = datetime.fromtimestamp(said, UTC)
    return [f"@y{day.year}", f"@m{day.month}", f"@m{day.month}d{day.day}"]


def asked_dates(query: str) -> list[str]:
    """Terms for the months, days and years that a question names, as `date_terms` writes them."""
    found = [f"@y{year}" for year in _YEAR.findall(query)]
    for match in _NAMED.finditer(query):
        month = _MONTHS.index(match["month"].lower()) + 1
        found.append(f"@m{month}")
        if day := match["before"] or match["after"]:
            found.append(f"@m{month}d{int(day)}")
    for year, month, day, year_zh, month_zh, day_zh in _ISO.findall(query):
        found += [f"@y{year or year_zh}"] if year or year_zh else []
        if number := month or month_zh:
            found.append(f"@m{int(number)}")
            found += [f"@m{int(number)}d{int(day or day_zh)}"] if day or day_zh else []
    return found


def asked_span(query: str, now: float) -> tuple[float, float] | None:
    """The time that a question speaks of relative to now, wide enough for careless counting."""
    if match := _AGO.search(query):
        unit = _UNIT[match["unit"].lower()]
        days = _count(match["n"]) * unit
        slack = max(unit * 0.5, 1.0)
        return now - (days + slack) * _DAY, now - (days - slack) * _DAY
    if match := _WEEKDAY.search(query):
        today = datetime.fromtimestamp(min(max(now, 0.0), _END_OF_TIME), UTC).weekday()
        back = (today - _WEEKDAYS.index(match["day"].lower())) % 7 or 7
        return now - (back + 1) * _DAY, now - (back - 2) * _DAY
    if match := _WITHIN.search(query):
        unit = match["unit"].lower()
        days = _count(match["n"] or "one") * _UNIT.get(unit, 7.0)
        return now - (days * 1.15 + 1) * _DAY, now + _DAY
    if match := _NEAR.search(query):
        return now - _NEAR_DAYS[match["word"].lower()] * _DAY, now + _DAY
    return None


def _count(word: str) -> float:
    return float(word) if word.isdigit() else _COUNT[word.lower()]
