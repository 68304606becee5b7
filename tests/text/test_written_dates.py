"""Which words of a memory get their day written behind them, and which never do."""

from __future__ import annotations

import time
from datetime import date

import pytest

from lamina.text.written_dates import dated


@pytest.mark.spec("L6.6")
@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Switched; tomorrow we ship.", "tomorrow (2026-07-15)"),
        ("- July 20: tomorrow we ship.", "tomorrow (2026-07-21)"),
        ("| 7/17/2026 | green, tomorrow freeze |", "tomorrow (2026-07-18)"),
        ("| 17/7/2026 | green, tomorrow freeze |", "tomorrow (2026-07-18)"),
        ("We meet on March 5 at noon.", ""),
    ],
)
def test_a_word_counts_from_the_day_of_its_own_entry(text: str, written: str) -> None:
    after = dated(f"## 2026-07-14\n{text}\n", None)
    assert written in after
    assert dated(after, None) == after


@pytest.mark.spec("L6.6")
@pytest.mark.parametrize(
    "text",
    [
        "March 5 miles in the demo data.",
        "May 8 people on the call.",
        "\n    tomorrow = today + 1",
        "\n\tprint(tomorrow)",
        "- 07/08: tomorrow we ship.",
        "- Monday: tomorrow we ship.",
        "- 3/4/2026: tomorrow we ship.",
        "- 7월 20일: tomorrow we ship.",
    ],
)
def test_counts_code_and_entries_of_an_unsure_day_get_no_date(text: str) -> None:
    whole = f"## 2026-07-14\n{text}\n"
    assert dated(whole, None) == whole


@pytest.mark.spec("L6.6")
@pytest.mark.parametrize("mark", ["`", "«a", "‘a", "「a"])
def test_marks_that_nothing_closes_take_no_time(mark: str) -> None:
    text = "tomorrow " + mark * 25_000
    start = time.process_time()
    assert "2026-07-15" in dated(text, date(2026, 7, 14))
    assert time.process_time() - start < 2
