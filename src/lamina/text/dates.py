"""Turns "tomorrow", "bis Freitag" or "下周三" into calendar dates, counted from the day on which it was said.

English, German and Chinese; the plain forms in French, Spanish and Japanese. What can mean two days is
left alone: a wrong date is worse than none. Pure functions; nothing here asks the clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any

from lamina.text.lists import ANY_DIGIT, Listed, entries, needs_of, sections

_DAY = 86_400.0
_END_OF_TIME = 4e9  # seconds; a day beyond 2096 is a mistake
_DATES_MONTH = (
    "January|February|March|April|May|June|July|August|September|October|November|December"
)
_DATES_MONTHS: Sequence[str] = _DATES_MONTH.lower().split("|")
_NAMED = re.compile(
    rf"\b(?:(?P<before>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? )?(?P<month>{_DATES_MONTH})\b"
    r"(?:,? (?P<after>\d{1,2})(?:st|nd|rd|th)?\b(?!\d))?"
)
_DATES_YEAR = re.compile(r"\b(19[5-9]\d|20\d\d)\b")
_ISO = re.compile(r"\b(20\d\d)-(\d\d)-(\d\d)\b|(20\d\d)年|(\d{1,2})月(?:(\d{1,2})日)?")
_COUNT = {
    **dict.fromkeys(("a", "an", "one", "last", "past"), 1.0),
    **dict.fromkeys(("two", "couple of", "a couple of"), 2.0),
    **dict.fromkeys(("three", "few", "a few"), 3.0),
    **dict.fromkeys(("four", "several"), 4.0),
    **dict(zip(("five", "six", "seven", "eight", "nine", "ten"), range(5, 11), strict=True)),
}
_UNIT = {"day": 1.0, "week": 7.0, "month": 30.4, "year": 365.0}
_DATES_NUMBER = r"(?P<n>\d{1,3}|" + "|".join(sorted(_COUNT, key=len, reverse=True)) + ")"
_AGO = re.compile(rf"\b{_DATES_NUMBER} (?P<unit>day|week|month|year)s? ago\b", re.IGNORECASE)
_WITHIN = Listed("finders.within_last")
_WEEKDAY_NAMES = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_DATES_WEEKDAYS: Sequence[str] = _WEEKDAY_NAMES.split("|")
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
    found = [f"@y{year}" for year in _DATES_YEAR.findall(query)]
    for match in _NAMED.finditer(query):
        month = _DATES_MONTHS.index(match["month"].lower()) + 1
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
        days = _dates_count(match["n"]) * unit
        slack = max(unit * 0.5, 1.0)
        return now - (days + slack) * _DAY, now - (days - slack) * _DAY
    if match := _WEEKDAY.search(query):
        today = datetime.fromtimestamp(min(max(now, 0.0), _END_OF_TIME), UTC).weekday()
        back = (today - _DATES_WEEKDAYS.index(match["day"].lower())) % 7 or 7
        return now - (back + 1) * _DAY, now - (back - 2) * _DAY
    if match := _WITHIN.search(query):
        unit = match["unit"].lower()
        days = _dates_count(match["n"] or "one") * _UNIT.get(unit, 7.0)
        return now - (days * 1.15 + 1) * _DAY, now + _DAY
    if match := _NEAR.search(query):
        return now - _NEAR_DAYS[match["word"].lower()] * _DAY, now + _DAY
    return None


def _dates_count(word: str) -> float:
    return float(word) if word.isdigit() else _COUNT[word.lower()]


@dataclass(frozen=True, slots=True)
class SaidDate:
    """A date expression in a text, where it stands, and the day that it means."""

    start: int
    end: int
    day: date
    bare: bool  # only a weekday's name, which can also mean every such day
    complete: bool = False  # it names its year, so there is nothing to write out
    recurs: bool = False  # what is always, never or daily so on a Friday is so on all of them


_Resolve = Callable[[re.Match[str], date], "date | None"]
_Rule = tuple[re.Pattern[str], _Resolve]
_SMALL_NUMBERS = {
    **dict.fromkeys(("a", "an", "one", "einem", "einer", "ein", "eine", "一"), 1),
    **dict.fromkeys(("two", "zwei", "两", "二", "a couple of"), 2),
    **dict.fromkeys(("three", "drei", "三"), 3),
    **dict.fromkeys(("four", "vier", "四"), 4),
    **dict.fromkeys(("five", "fünf", "五"), 5),
    **dict.fromkeys(("six", "sechs", "六"), 6),
    **dict.fromkeys(("seven", "sieben", "七"), 7),
    **dict.fromkeys(("eight", "acht", "八"), 8),
    **dict.fromkeys(("nine", "neun", "九"), 9),
    **dict.fromkeys(("ten", "zehn", "十"), 10),
}


def _ranked(*rows: str, first: int = 0) -> dict[str, int]:
    return {name: rank for row in rows for rank, name in enumerate(row.split(), first)}


_MONTHS = _ranked(
    "january february march april may june july august september october november december",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "januar februar märz april mai juni juli august september oktober november dezember",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    first=1,
) | {"sept": 9}
_LATIN_DAYS = (
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "lunes martes miércoles jueves viernes sábado domingo",
)
_WEEKDAYS = _ranked(
    "monday tuesday wednesday thursday friday saturday sunday",
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "一 二 三 四 五 六 日",
    "月 火 水 木 金 土",
    *_LATIN_DAYS,
) | {"sonnabend": 5, "天": 6}
_NUMBER = r"(?P<n>\d{1,3}|" + "|".join(sorted(_SMALL_NUMBERS, key=len, reverse=True)) + ")"
_MONTH = r"(?P<month>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b"
_EN_DAY = r"(?P<weekday>monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b"
_DE_DAY = r"(?P<weekday>montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag)\b"
_ZH_DAY = r"(?P<weekday>[一二三四五六日天])(?![个天月年、\d不都只才绝从总]|一律)"
_LATIN_DAY = rf"(?P<weekday>{'|'.join(' '.join(_LATIN_DAYS).split())})\b"
_NO_RANK = (
    r"(?! (?:century|line|column|row|test|commit|time|one|place|position|item|element|slot|page"
    r"|chapter|floor|step|of (?:every|each)))"
)
_YEAR = r"(?:,?\s(?P<year>20\d\d)\b)?"


def _calendar(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _nearest(month: int, day: int, match: re.Match[str], said: date) -> date | None:
    """The day without a year that lies closest: at most three months back, else ahead. What is told
    as past lies back or nowhere, what is so since then lies back, and what is due never does."""
    since, past, due = _looks_back(match)
    for year in (said.year - 1, said.year, said.year + 1):
        found = _calendar(year, month, day)
        if found is None:
            continue
        away = (found - said).days
        if (-365 < away <= 0) if since else (-90 <= away <= (90 if past else 275)):
            wrong = away < 0 if due else past and away > 0 and not since
            return None if wrong else found
    return None


_SINCE = frozenset("since seit seitdem depuis desde".split())  # noqa: SIM905 - a word list
_PAST = frozenset(" ".join(sections("finders.txt")["told_as_past"]).split())
_DUE = frozenset({"deadline", "due", "frist", "fällig"})
_FUTURE = frozenset(" ".join(sections("finders.txt")["still_ahead"]).split())


def _looks_back(match: re.Match[str]) -> tuple[bool, bool, bool]:
    """Whether something is so since the day that is named, its sentence tells the past, it is due then."""
    text, at = match.string, match.start()
    start = max(text.rfind(end, 0, at) for end in ("\n", ". ", "。", "; ")) + 1
    before = re.findall(r"\w+", text[max(start, at - 120) : at].casefold())
    near = [*before[-2:], *re.findall(r"\w+", match[0].casefold())[:1]]
    since = not _SINCE.isdisjoint(near) or text[max(at - 2, 0) : at].endswith(("自", "从"))
    past = not _PAST.isdisjoint(before) and _FUTURE.isdisjoint(before)
    return since, past, not since and not _DUE.isdisjoint(near)


def _named(match: re.Match[str], said: date) -> date | None:
    month = _MONTHS[match["month"].lower().rstrip(".")]
    if match["year"]:
        return _calendar(int(match["year"]), month, int(match["day"]))
    return _nearest(month, int(match["day"]), match, said)


def _end_of_named(match: re.Match[str], said: date) -> date | None:
    month = _MONTHS[match["month"].lower()]
    first = (
        _calendar(int(match["year"]), month, 1)
        if match["year"]
        else _nearest(month, 28, match, said)
    )
    return _add_months(first.replace(day=1), 1) - timedelta(days=1) if first else None


def _numeric(match: re.Match[str], said: date) -> date | None:
    month, day = int(match["m"]), int(match["day"])
    year = match.groupdict().get("year")
    return _calendar(int(year), month, day) if year else _nearest(month, day, match, said)


def _day_of_month(match: re.Match[str], said: date) -> date | None:
    ahead = _calendar(said.year, said.month, int(match["day"]))
    return ahead if ahead and ahead >= said else _day_of_next_month(match, said)


def _day_of_next_month(match: re.Match[str], said: date) -> date | None:
    following = _add_months(said.replace(day=1), 1)
    return _calendar(following.year, following.month, int(match["day"]))


def _add_months(day: date, months: int) -> date:
    years, month = divmod(day.month - 1 + months, 12)
    for last in (day.day, 30, 29, 28):
        found = _calendar(min(day.year + years, 9999), month + 1, min(day.day, last))
        if found:
            return found
    return day


def _month_end(months: int) -> _Resolve:
    return lambda _, said: _add_months(said.replace(day=1), months + 1) - timedelta(days=1)


def _week_end(_: re.Match[str], said: date) -> date | None:
    """Friday; at the weekend itself nobody knows which one is meant."""
    return said + timedelta(days=4 - said.weekday()) if said.weekday() <= 4 else None


def _weekday_in(weeks: int) -> _Resolve:
    def resolve(match: re.Match[str], said: date) -> date:
        monday = said - timedelta(days=said.weekday()) + timedelta(weeks=weeks)
        return monday + timedelta(days=_WEEKDAYS[match["weekday"].lower()])

    return resolve


def _coming_weekday(match: re.Match[str], said: date) -> date | None:
    """The next such day, or the last one that something is so since; on that very day it could mean
    today or in a week, so neither."""
    ahead = (_WEEKDAYS[match["weekday"].lower()] - said.weekday()) % 7
    back = 7 if _looks_back(match)[0] else 0
    return said + timedelta(days=ahead - back) if ahead else None


def _unambiguous_next(match: re.Match[str], said: date) -> date | None:
    """German "nächsten Freitag" is clear only once this week's one is over."""
    if _WEEKDAYS[match["weekday"].lower()] > said.weekday():
        return None
    return _weekday_in(1)(match, said)


def _week_after(match: re.Match[str], said: date) -> date | None:
    """ "A week from Saturday", "Saturday week"; on a Saturday it could be either one."""
    day = _coming_weekday(match, said)
    return day and day + timedelta(weeks=1)


def _last_weekday(match: re.Match[str], said: date) -> date | None:
    back = (said.weekday() - _WEEKDAYS[match["weekday"].lower()]) % 7
    return said - timedelta(days=back or 7)


def _days(offset: int) -> _Resolve:
    return lambda _, said: said + timedelta(days=offset)


def _count(match: re.Match[str]) -> int:
    text = match["n"].lower()
    return int(text) if text.isdigit() else _SMALL_NUMBERS[text]


def _later(match: re.Match[str], said: date) -> date | None:
    unit = match["unit"].lower()
    if unit[0] in "dt天日":
        return said + timedelta(days=_count(match))
    if unit[0] in "w周" or unit.endswith("星期"):
        return said + timedelta(weeks=_count(match))
    return _add_months(said, _count(match)) if _count(match) <= 60 else None


def _year_end(_: re.Match[str], said: date) -> date:
    return date(said.year, 12, 31)


_RESOLVE: Mapping[str, Callable[..., Any]] = {
    "numeric": _numeric,
    "named": _named,
    "end_of_named": _end_of_named,
    "month_end": _month_end,
    "year_end": _year_end,
    "week_end": _week_end,
    "day_of_month": _day_of_month,
    "day_of_next_month": _day_of_next_month,
    "later": _later,
    "days": _days,
    "weekday_in": _weekday_in,
    "week_after": _week_after,
    "last_weekday": _last_weekday,
    "unambiguous_next": _unambiguous_next,
    "coming_weekday": _coming_weekday,
}
_PARTS = {
    "NUMBER": _NUMBER,
    "MONTH": _MONTH,
    "EN_DAY": _EN_DAY,
    "DE_DAY": _DE_DAY,
    "ZH_DAY": _ZH_DAY,
    "LATIN_DAY": _LATIN_DAY,
    "NO_RANK": _NO_RANK,
    "YEAR": _YEAR,
}


def _rules() -> Iterator[_Rule]:
    resolve: _Resolve = _numeric
    for line in entries("dates.txt"):
        if line.startswith("[") and line.endswith("]"):
            name, _, number = line[1:-1].partition(" ")
            resolve = _RESOLVE[name](int(number)) if number else _RESOLVE[name]
            continue
        for name, part in _PARTS.items():
            line = line.replace(f"{{{name}}}", part)  # noqa: PLW2901
        yield re.compile(line, re.IGNORECASE), resolve


_COMPILED = tuple(_rules())
_WITH_YEAR = [rule for rule in _COMPILED if "year" in rule[0].groupindex]


@lru_cache(maxsize=4)
def _by_need(
    complete: bool, plain: bool
) -> tuple[list[frozenset[str]], list[tuple[_Rule, list[int]]]]:
    """The rules, each with the numbers of the sets of which a text must hold one word to be worth a
    look; for `plain` (ASCII) texts without those that need other letters."""
    sets: dict[frozenset[str], int] = {}
    rules: list[tuple[_Rule, list[int]]] = []
    for rule in _WITH_YEAR if complete else _COMPILED:
        needs = needs_of(rule[0])
        if plain:
            needs = [frozenset(filter(str.isascii, words)) for words in needs]
        if all(needs):
            telling = [words for words in needs if words == ANY_DIGIT or not _common(words)]
            telling.sort(key=len)  # what is soon looked up first
            rules.append((rule, [sets.setdefault(words, len(sets)) for words in telling]))
    return list(sets), rules


def _common(words: frozenset[str]) -> bool:
    return any(len(word) == 1 and word.isascii() for word in words)


def _possible(text: str, *, complete: bool) -> Iterator[_Rule]:
    """The rules that may find something in a text: most texts hold the words of few."""
    sets, rules = _by_need(complete, text.isascii())
    folded = text.casefold().replace("ı", "i")  # one letter where case is ignored
    if re.search(r"\d", text):
        folded += min(ANY_DIGIT)
    held: list[bool | None] = [None] * len(sets)
    for rule, needs in rules:
        for one in needs:
            found = held[one]
            if found is None:
                found = held[one] = any(word in folded for word in sets[one])
            if not found:
                break
        else:
            yield rule


_UNTIL, _ALWAYS = Listed("finders.until"), Listed("finders.always")
_TO = re.compile(r"\s?(?:to|through|thru|till|until|bis|[-–—~～]|至|到)\s?", re.IGNORECASE)


def find_dates(text: str, said: date, *, complete: bool = False) -> list[SaidDate]:
    """All date expressions that mean one day, in order, none overlapping; or those with a year."""
    found: list[SaidDate] = []
    taken = bytearray(len(text))
    for hit in _hits(text, said, complete=complete):
        if taken.find(1, hit.start, hit.end) < 0:
            taken[hit.start : hit.end] = b"\x01" * (hit.end - hit.start)
            found.append(hit)
    found.sort(key=lambda hit: hit.start)
    for place, (first, last) in enumerate(pairwise(found)):
        # "Open Monday to Friday": this week's as well as any.
        if first.bare and last.bare and _TO.fullmatch(text, first.end, last.start):
            found[place : place + 2] = (replace(first, recurs=True), replace(last, recurs=True))
    return found


def _hits(text: str, said: date, *, complete: bool) -> Iterator[SaidDate]:
    for pattern, resolve in _possible(text, complete=complete):
        for match in pattern.finditer(text):
            try:
                day = resolve(match, said)
            except (OverflowError, ValueError):  # the calendar ends in the year 9999
                continue
            if day is not None:
                at = "hit" if "hit" in pattern.groupindex else 0
                start, end = match.span(at)
                named = bool(match.groupdict().get("year"))
                bare = resolve is _coming_weekday
                yield SaidDate(start, end, day, bare, named, bare and _recurs(match))


def _recurs(match: re.Match[str]) -> bool:
    text, at = match.string, match.start()
    return bool(
        _ALWAYS.search(text, max(0, at - 120), at) and not _UNTIL.search(text, max(0, at - 12), at)
    )


_SURE = Listed("finders.sure_day")


class Days(str):
    """The days that a text names, in a row, and where in it the words stand that name each. `sure`: only
    those that are no name of a day ("tomorrow"): what is so on a Friday, or on May 5, is often so on all."""

    __slots__ = ("places",)
    places: tuple[tuple[int, int, str], ...]

    @classmethod
    def of(cls, text: str, said: date) -> Days:
        found = [one for one in find_dates(text, said) if not one.recurs]
        days = cls(" ".join(one.day.isoformat() for one in found))
        days.places = tuple((one.start, one.end, one.day.isoformat()) for one in found)
        return days

    def sure(self, text: str) -> Days:
        days = Days(self)
        days.places = tuple(one for one in self.places if _SURE.match(text, one[0], one[1]))
        return days


def less_on_the(before: str) -> str:
    """What stands before a day, without what only words for a day need."""
    for word in (" the ", " on "):
        before = before[: 1 - len(word)] if f" {before}".endswith(word) else before
    return before
