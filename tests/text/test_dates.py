"""Relative dates in several languages, counted from the day on which they were said."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.text.dates import find_dates
from lamina.text.written_dates import with_absolute_dates

WEDNESDAY = date(2026, 3, 4)


@pytest.mark.spec("L5.8")
@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("tomorrow", "2026-03-05"), ("the day after tomorrow", "2026-03-06"), ("by Friday", "2026-03-06"),
        ("next Tuesday", "2026-03-10"), ("Monday next week", "2026-03-09"), ("in 3 weeks", "2026-03-25"),
        ("in two months", "2026-05-04"), ("on March 20", "2026-03-20"), ("2 April 2027", "2027-04-02"),
        ("by the 31st", "2026-03-31"), ("by the 4th", "2026-03-04"), ("by the 2nd", "2026-04-02"), ("end of next month", "2026-04-30"),
        ("end of the year", "2026-12-31"), ("last Friday", "2026-02-27"), ("yesterday", "2026-03-03"),
        ("morgen", "2026-03-05"), ("übermorgen", "2026-03-06"), ("am 15. April", "2026-04-15"),
        ("bis 30.6.", "2026-06-30"), ("am 30.06.2026", "2026-06-30"), ("in drei Wochen", "2026-03-25"),
        ("nächste Woche Mittwoch", "2026-03-11"), ("Ende des Monats", "2026-03-31"),
        ("明天", "2026-03-05"), ("后天", "2026-03-06"), ("大后天", "2026-03-07"), ("周五之前", "2026-03-06"),
        ("下周三", "2026-03-11"), ("3月20日", "2026-03-20"), ("下个月10号", "2026-04-10"),
        ("两周后", "2026-03-18"), ("月底", "2026-03-31"), ("2026年5月1日", "2026-05-01"),
        ("three weeks from today", "2026-03-25"), ("heute in zwei Wochen", "2026-03-18"), ("ends 11/30", "2026-11-30"),
        ("runs out 31/10", "2026-10-31"), ("goes out the 22nd", "2026-03-22"), ("the evening of the 19th.", "2026-03-19"),
        ("Am 24. kommt der Prüfer", "2026-03-24"), ("geht am 27. los", "2026-03-27"), ("15号之前交", "2026-03-15"),
        ("6 月 18 号上线", "2026-06-18"), ("下个月 8 号", "2026-04-08"), ("5/31 截止", "2026-05-31"), ("26 号消防来", "2026-03-26"),
        ("le 28 février", "2026-02-28"), ("el 15 de mayo", "2026-05-15"), ("El viernes viene", "2026-03-06"), ("来月7日に", "2026-04-07"),
        ("on the last day of this month", "2026-03-31"), ("the last day of next month", "2026-04-30"), ("am letzten des Monats", "2026-03-31"),
        ("a week from Saturday", "2026-03-14"), ("Friday week", "2026-03-13"), ("tomorrow week", "2026-03-12"), ("morgen in einer Woche", "2026-03-12"),
    ],
)  # fmt: skip
def test_it_knows_the_day_that_is_meant(text: str, day: str) -> None:
    assert [hit.day.isoformat() for hit in find_dates(text, WEDNESDAY)] == [day]


@pytest.mark.parametrize(
    "text",
    ["we never deploy on Friday", "nie ein Release am Freitag", "Releases are always on Monday",
     "wir deployen immer am Montag", "我们只在周五部署", "不要在周五发布", "上线窗口只有周一和周五",
     "Standup is at 9:30 every day except Friday", "daily, but not on Friday", "We usually ship on Monday",
     "jeden Tag außer Freitag", "Wir treffen uns normalerweise am Montag", "每天跑步，周五除外",
     "The shop is open Monday to Friday", "von Montag bis Freitag", "周一到周五上班", "Mon-Fri, Monday–Friday"],
)  # fmt: skip
def test_a_weekday_on_which_something_is_always_or_never_so_is_no_day_of_this_week(
    text: str,
) -> None:
    assert with_absolute_dates(text, WEDNESDAY) == text


@pytest.mark.parametrize(
    "text",
    ["on Fridays", "every Friday", "freitags", "jeden Montag", "每周五", "Wednesday", "guten Morgen",
     "nächsten Freitag", "February 31", "version 3.4.5", "port 8080", "我们周四不发布", "in October",
     "on the 1st of every month", "the 3rd party", "the 2nd attempt", "am 3. Tag", "zum 2. Mal", "24/7", "for 16/9 screens", "3号楼",
     "2 号机坏了", "not thursday any more", "周五绝不发布"],
)  # fmt: skip
def test_what_recurs_or_can_mean_two_days_is_left_alone(text: str) -> None:
    assert find_dates(text, WEDNESDAY) == []


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("October 5 to 9", ["2026-10-05", "2026-10-09"]), ("May 5-7", ["2026-05-05", "2026-05-07"]),
        ("vom 5. bis 9. Oktober", ["2026-10-05", "2026-10-09"]), ("从10号到20号不上线", ["2026-03-10", "2026-03-20"]),
        ("9月12、13号两天", ["2026-09-12", "2026-09-13"]), ("6月18到20号", ["2026-06-18", "2026-06-20"]),
    ],
)  # fmt: skip
def test_of_a_span_it_knows_both_ends(text: str, days: list[str]) -> None:
    assert [hit.day.isoformat() for hit in find_dates(text, WEDNESDAY)] == days


def test_a_day_at_the_turn_of_the_year_lies_ahead() -> None:
    assert find_dates("15 January", date(2026, 12, 28))[0].day == date(2027, 1, 15)


def test_a_month_has_no_31st_everywhere() -> None:
    assert find_dates("in one month", date(2026, 1, 31))[0].day == date(2026, 2, 28)


PIECES = ["tomorrow", "Friday", "20", "March", "in", "3", "weeks", "下周三", "月底", "morgen", "am", "15.", "April", "(2026-01-01)", "x,"]  # fmt: skip


@examples(300)
@given(st.lists(st.sampled_from(PIECES)).map(" ".join), st.dates())
def test_making_dates_absolute_twice_changes_nothing_and_loses_no_word(
    text: str, said: date
) -> None:
    once = with_absolute_dates(text, said)
    assert with_absolute_dates(once, said) == once
    remaining = iter(once)
    assert all(char in remaining for char in text)


NOVEMBER = date(2026, 11, 16)


@pytest.mark.spec("L6.6")
@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("unchanged since May 8", "unchanged since May 8 (2026-05-08)"),
        ("seit Freitag kaputt", "seit Freitag (2026-11-13) kaputt"),
        ("The CSVs ended at Mar 4", "The CSVs ended at Mar 4"),
        ("due by Mar 4", "due by Mar 4 (2027-03-04)"),
        ("a deadline of September 15", "a deadline of September 15"),
        ("14.03.2026, Apr 14 2026, 2026/03/14", "14.03.2026, Apr 14 2026, 2026/03/14"),
        ("Apr 2-3 2026", "Apr 2-3 2026"),
        ("Monday, 2026-11-23", "Monday, 2026-11-23"),
        ("bis heute offen, valid until today", "bis heute offen, valid until today"),
        ('She wrote "see you tomorrow"', 'She wrote "see you tomorrow"'),
        ("> tomorrow", "> tomorrow"),
        ("yesterday's close, kiga heute 4/2023", "yesterday's close, kiga heute 4/2023"),
        ("TIL - Today I Learned", "TIL - Today I Learned"),
        ("run `make tomorrow`", "run `make tomorrow`"),
        ("On 2026-11-16 (today) done", "On 2026-11-16 (today) done"),
        ("On 2026-11-12, yesterday, it broke", "On 2026-11-12, yesterday, it broke"),
        (
            "https://x.io/today notes/yesterday.md x-today",
            "https://x.io/today notes/yesterday.md x-today",
        ),
        ("gestern (15. Nov.) und <!-- today -->", "gestern (15. Nov.) und <!-- today -->"),
        ("yesterday (15 November) it broke", "yesterday (15 November) it broke"),
        ("may 8 people come? 截至今天无问题", "may 8 people come? 截至今天无问题"),
        ("kickoff is on may 8.", "kickoff is on may 8 (2027-05-08)."),
        ("16.11.2026: heute umgestellt", "16.11.2026: heute umgestellt"),
        ("16.11.2026: gestern ging es", "16.11.2026: gestern (2026-11-15) ging es"),
    ],
)
def test_only_what_is_sure_and_not_written_out_yet_gets_a_date(text: str, written: str) -> None:
    assert with_absolute_dates(text, NOVEMBER) == written


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("SINCE LAST FRIDAY", "2026-02-27"), ("IN 3 WEEKS", "2026-03-25"), ("ÜBERMORGEN", "2026-03-06"),
        ("TOMORROW", "2026-03-05"), ("ON MARCH 20", "2026-03-20"), ("bis ٣ — tomorrow", "2026-03-05"),
    ],
)  # fmt: skip
def test_a_day_is_found_in_whatever_case_and_company(text: str, day: str) -> None:
    assert [hit.day.isoformat() for hit in find_dates(text, WEDNESDAY)] == [day]


@pytest.mark.spec("L5.8")
@pytest.mark.parametrize(
    ("said", "dated"),
    [
        ("the talk is on wednesday the 22nd", "the talk is on wednesday the 22nd (2026-04-22)"),
        ("on Friday, 24 April we ship", "on Friday, 24 April (2026-04-24) we ship"),
        (
            "am Freitag, den 24. April, ist Schluss",
            "am Freitag, den 24. April (2026-04-24), ist Schluss",
        ),
        ("tomorrow, Friday, we ship", "tomorrow (2026-04-17), Friday, we ship"),
        ("Freitag, 24.4. ist Abgabe", "Freitag, 24.4. ist Abgabe"),
    ],
)
def test_a_weekday_beside_its_date_is_no_other_day(said: str, dated: str) -> None:
    told = date(2026, 4, 16)
    assert with_absolute_dates(said, told) == with_absolute_dates(dated, told) == dated
