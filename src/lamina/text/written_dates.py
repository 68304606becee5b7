"""Writes out the days that a text names: `(YYYY-MM-DD)` behind "tomorrow", from the day on which that
part of the text says that it was written. Where it does not say so, nothing. Pure.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

from lamina.text.dates import SaidDate, find_dates
from lamina.text.lists import Listed

# "March 5 miles", "May 8 people": how many, not which day.
_MANY = re.compile(r" (?:people|men|women|children|(?!(?:is|was|has|as|us|this|its)\b)[a-z]+s)\b")
_ON = ("on", "by", "until", "till", "before", "since", "from")  # before a month, not before a verb
_UNTIL = Listed("finders.until")
_ANNOTATED = re.compile(
    r"(?:,? [a-z ]{0,4}\d\d?(?:[a-z]{2}|\.))?\s?[(（][^()（）]{0,12}\d{4}-\d\d-\d\d|,? (?:den )?\d\d?\.\d\d?\."
)
_QUOTED = re.compile(  # in bounds, where the closing mark may never come
    r"(?m)^[ \t]*>.*$|<!--[^<\n]*-->|(?<!`)(`{1,3})(?!`)[^\n]*?(?<!`)\1(?!`)|[\"“”„][^\"“”„\n]*[\"“”]"
    r"|«[^»\n]{0,999}»|[「『][^」』\n]{0,999}[」』]|‘[^’\n]{0,999}’|(?<!\w)'[^'\n]+'(?!\w)"
)
_YEAR_BESIDE = re.compile(r"20\d\d\W{1,3}$")
_YEAR_BEHIND = re.compile(r"[-–~/. ,(]{0,3}(?:\d{1,2}(?:st|nd|rd|th)?,? )?20\d\d\b")
_JOINED = tuple("/\\_.-=@#&?~")  # within an address, a path or a name of code
_ARTICLE = re.compile(r"\b(?:the|den)\b")
_TO_THIS_DAY = frozenset("until till to through bis like as than".split())  # noqa: SIM905 - a word list


def with_absolute_dates(
    text: str, said: date, *, bare: bool = True, start: int = 0, most_days: int = 10_000
) -> str:
    """The text with `(YYYY-MM-DD)` behind each date expression from `start` on that lacks it; doing it
    twice changes nothing. Code is left alone, and what stands in quotation marks is of another day.
    Without `bare`, a weekday's name is left alone unless "by", "until" or the like stands before it.
    `most_days`: what would lie further from `said` is not sure.
    """
    parts, done = list[str](), 0
    hits = find_dates(text, said)
    quoted = [found.span() for found in _QUOTED.finditer(text)]
    for number, hit in enumerate(hits):
        habit = hit.bare and not bare and not _UNTIL.search(text, max(0, hit.start - 12), hit.start)
        if (
            hit.complete
            or hit.recurs
            or habit
            or hit.start < start
            or abs((hit.day - said).days) > most_days
            or _ANNOTATED.match(text, hit.end)
            or any(first <= hit.start < last for first, last in quoted)
            or any(_touch(text, hit, one) for one in hits[max(0, number - 2) : number + 3])
            or _no_day(text, hit)
        ):
            continue
        parts += [text[done : hit.end], f" ({hit.day.isoformat()})"]
        done = hit.end
    return "".join((*parts, text[done:]))


def _touch(text: str, hit: SaidDate, other: SaidDate) -> bool:
    """Do they name one day together: "Friday, 2026-03-06", "Apr 2-3 2026", "2026-03-06 (today)",
    "yesterday (5 May)"? A weekday then says no day of its own: "Friday, the 24th" need not be the next."""
    ahead = hit.end <= other.start
    between = text[hit.end : other.start] if ahead else text[other.end : hit.start]
    if other is hit or len(between) > 6 or any(map(str.isalpha, _ARTICLE.sub("", between))):
        return False
    if hit.bare != other.bare and not other.complete:
        return hit.bare
    beside = hit.day == other.day or between.lstrip()[:1] in tuple("(,（，")
    one = ahead or hit.bare or beside or not text[hit.start : hit.end].isalpha()
    return one and (other.complete or other.day == hit.day)


def _no_day(text: str, hit: SaidDate) -> bool:
    """ "Until today", "today's", "2026, Mar 4", a name, part of an address: it looks like a day."""
    word, after = text[hit.start : hit.end], text[hit.end : hit.end + 12]
    before = text[max(0, hit.start - 12) : hit.start]
    today = word.casefold() in ("today", "heute", "今天")
    *_, last = ("", *before.casefold().split())
    named = word[:1].isupper() and before[-1:] == " " and before.rstrip()[-1:].isalpha()
    return (
        after.startswith(("'s", "’s", " I Learn", *"/\\_=@&"))
        or before.endswith(_JOINED)
        or (after[:1] in tuple(".-") and after[1:2].isalnum())
        or (today and (last in _TO_THIS_DAY or after[:2].strip()[:1].isdigit()))
        or (word.startswith(("may ", "march ")) and last not in _ON)  # "may 8 people come?"
        or (word[:4] in ("May ", "Marc") and last not in _ON and bool(_MANY.match(after)))
        or (today and (named or before.endswith(("至", "到"))))
        or (not word.isalpha() and bool(_YEAR_BESIDE.search(before) or _YEAR_BEHIND.match(after)))
    )


@lru_cache(maxsize=1024)
def dated(text: str, said: date | None) -> str:
    """A text with its relative dates written out, but for those in code: each from the day that its
    paragraph, its item or what stands above it begins with, else from `said`, else not at all."""
    section: date | None = None
    item: tuple[int, date | None] = (0, None)  # how far the last dated item is set in, and its day
    parts: list[str] = []
    for paragraph in _PARAGRAPH.findall(text):
        inset = len(paragraph) - len(paragraph.lstrip())
        own, end = _own_day(paragraph)
        if paragraph.startswith(("#", "```", "~~~")):
            if paragraph.startswith("#"):
                section, item = own, (0, None)
            parts.append(paragraph)
            continue
        if own is not None or inset <= item[0]:
            item = (inset, own)
        if _is_code(paragraph, parts[-1] if parts else ""):
            parts.append(paragraph)
            continue
        day = own or _entry_day(paragraph, item[1] or section)
        if day is not None:
            absolute = with_absolute_dates(paragraph, day, bare=False, start=end, most_days=_FAR)
        else:
            absolute = with_absolute_dates(paragraph, said, bare=False) if said else paragraph
        parts.append(absolute)
    return text if text == (whole := "".join(parts)) else whole


def _is_code(paragraph: str, above: str) -> bool:
    """Is it set in like code, under an empty line or none?"""
    deep = paragraph.startswith(("    ", "\t"))
    return deep and (not above or above.endswith("\n\n")) and not _ITEM.match(paragraph)


def _entry_day(paragraph: str, day: date | None) -> date | None:
    """The day from which a paragraph counts below one of this day: another, if it begins with a date
    without a year; none, if it begins with one that nobody can be sure of."""
    begins = _SOME_DAY.match(paragraph)
    if day is None or begins is None:
        return day
    first = [hit for hit in find_dates(paragraph, day) if hit.start < begins.end()]
    sure = first and not first[0].bare and abs((first[0].day - day).days) <= _FAR
    return first[0].day if sure else None


_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
_SOME_DAY = Listed("audit.some_day")
_PARAGRAPH = re.compile(
    r"(?:```|~~~)[^\0]*?(?:\n(?:```|~~~)[^\n]*|\Z)\n*|#[^\n]*\n*"
    r"|[^\n]+(?:\n(?![ \t]*(?:[-*+#>|]|\d+[.)]|```|~~~|\n))[^\n]+)*\n*|\n+"
)
_HEAD = frozenset(
    """on as of am vom stand status update updated note noted notes session log entry aktualisiert
    notiz""".split()  # noqa: SIM905 - a word list
)
_TOLD = frozenset(
    """said told met wrote asked agreed decided reported noted announced sagte schrieb meldete
    beschlossen""".split()  # noqa: SIM905 - a word list
)
_AND = ("to", "and", "bis", "und", "至", "到")  # between two days
_FAR = 90  # days from its anchor within which a day without a year is sure


def _own_day(paragraph: str) -> tuple[date | None, int]:
    """The day on which a paragraph says that it was written, and where that ends: a complete date at
    its head, behind nothing but such words as "update", or the only one, on which somebody spoke."""
    if "20" not in paragraph:
        return None, 0
    found = find_dates(paragraph, date(2000, 1, 1), complete=True)
    days = [hit for hit in found if hit.complete]
    if not days:
        return None, 0
    first = days[0]
    before = re.findall(r"[^\W\d_]+", paragraph[: first.start].casefold())
    behind = paragraph[first.end : first.end + 12].lstrip()
    others = [behind.lstrip("-–—/&, "), *(behind.removeprefix(word).lstrip() for word in _AND)]
    if any(other != behind and other[:1].isdigit() for other in others):
        return None, 0  # more than one day
    told = before[-1:] in (["on"], ["am"]) and not _TOLD.isdisjoint(before) and len(days) == 1
    return (first.day, first.end) if told or _HEAD.issuperset(before) else (None, 0)
