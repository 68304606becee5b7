"""Terms and dates: what the ranker makes of a text before it looks anything up."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from lamina.text.dates import asked_dates, asked_span, date_terms
from lamina.text.terms import LONGEST_WORD, proper_names, terms

DAY = 86_400.0
# A Wednesday.
NOW = datetime(2026, 6, 17, 12, tzinfo=UTC).timestamp()


def test_spellings_of_one_word_give_one_term() -> None:
    cases: list[tuple[str, str]] = [
        ("buying", "bought"),
        ("Databases", "database"),
        ("children", "kid"),
        ("café", "CAFE"),
        ("ﬁle", "file"),
        ("が", "\u304b\u3099"),
        ("wrote", "writes"),
    ]
    for one, other in cases:
        assert terms(one) == terms(other) != []


def test_identifiers_give_their_whole_and_their_parts() -> None:
    assert set(terms("resetKeyCache")) == {"resetkeycach", "reset", "key", "cach"}
    assert terms("user_login-events") == ["user", "login", "event"]
    assert terms("HTTPServer")[0] == "httpserver"
    assert "server" in terms("HTTPServer")


def test_scripts_without_spaces_give_pairs() -> None:
    assert terms("数据库") == ["数据", "据库", "数", "据", "库"]
    assert "テス" in terms("テストはpytestで")
    assert "pytest" in terms("テストはpytestで")
    assert terms("库") == ["库"]


def test_words_that_say_nothing_are_left_out() -> None:
    assert terms("What is the … of it?") == []
    assert terms("don't I'm we'll") == []
    assert terms("x" * (LONGEST_WORD + 1)) == []


def test_names_are_capitalised_words_that_open_no_sentence() -> None:
    assert proper_names("What did Caroline tell Bob? Maybe nothing.") == ["carolin", "bob"]
    assert proper_names("what did caroline say") == []


@given(st.text(max_size=200))
def test_any_text_gives_terms_that_are_stable(text: str) -> None:
    found = terms(text)
    assert found == terms(text)
    assert all(found)
    proper_names(text)
    asked_dates(text)
    asked_span(text, NOW)


def test_named_dates_are_read() -> None:
    cases: list[tuple[str, set[str]]] = [
        ("in May 2023", {"@y2023", "@m5"}),
        ("on 8 May", {"@m5", "@m5d8"}),
        ("on July 4th, 2022", {"@y2022", "@m7", "@m7d4"}),
        ("on 2023-01-31", {"@y2023", "@m1", "@m1d31"}),
        ("2023年5月8日", {"@y2023", "@m5", "@m5d8"}),
        ("may I march on", set[str]()),
    ]
    for question, expected in cases:
        assert set(asked_dates(question)) == expected
        assert set(date_terms(datetime(2023, 5, 8, tzinfo=UTC).timestamp())) == {
            "@y2023",
            "@m5",
            "@m5d8",
        }
        assert date_terms(0) == []


def test_spans_before_now_are_read() -> None:
    cases: list[tuple[str, float, bool]] = [
        ("what did I cook two weeks ago", 14, True),
        ("what did I cook two weeks ago", 2, False),
        ("10 days ago", 10, True),
        ("a couple of days ago", 2, True),
        ("last Saturday", 4, True),
        ("last Saturday", 12, False),
        ("in the past three months", 80, True),
        ("in the past three months", 130, False),
        ("last weekend", 3, True),
        ("yesterday", 1, True),
        ("this week", 30, False),
    ]
    for question, days_back, inside in cases:
        span = asked_span(question, NOW)
        assert span is not None
        assert (span[0] <= NOW - days_back * DAY <= span[1]) == inside


def test_a_question_without_a_span_has_none() -> None:
    assert asked_span("where is the dog", NOW) is None
    assert asked_span("many days ago", NOW) is None
