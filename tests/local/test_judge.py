"""The learned judge: sure where people plainly say it, quiet at work talk, the same every time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.local.extractor import extract
from lamina.local.judge import BUCKETS, opinion, seen
from lamina.text.own_words import typed_sentences

NOW = datetime(2026, 3, 4, tzinfo=UTC)


def said(text: str, before: str = "") -> list[dict[str, str]]:
    talk = [{"role": "user", "content": text, "origin": "typed", "uuid": "u"}]
    if before:
        talk.insert(0, {"role": "assistant", "content": before, "uuid": "a"})
    return talk


# None of these matches a rule's pattern; each is worded for this test.
@pytest.mark.spec("L5.8")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("past invoices sit in the bookkeeping folder on the team drive", "reference"),
        ("shorter commit titles, you always write novels", "feedback"),
        ("我平时主要写嵌入式，网页这块是新手", "user"),
    ],
)
def test_it_finds_what_no_rule_has_a_pattern_for(text: str, kind: str) -> None:
    assert [proposal.type for proposal in extract(said(text), now=NOW)] == [kind]


@pytest.mark.spec("L5.8")
@pytest.mark.parametrize(
    "text",
    [
        "rerun the migration and tell me which rows it skipped",
        "the retry loop never gives up when the socket is half open",
        "call it resolve_ref instead, lookup sounds like a dict",
        "jetzt noch die zweite spalte rechtsbündig",
        "把这个函数拆成两个",
        "keep pushing, you are nearly there",
    ],
)
def test_work_talk_gives_nothing(text: str) -> None:
    assert extract(said(text), now=NOW) == []


def quotes(text: str, before: str = "") -> list[list[str]]:
    return [
        [e.quote for e in proposal.evidence] for proposal in extract(said(text, before), now=NOW)
    ]


@pytest.mark.spec("L5.8")
@pytest.mark.parametrize(
    "text",
    [
        "remember the milk joke and put it into the toast",
        "don't forget to close the file handle at the end of the loop",
        "never call the callback twice, wrap it in a once guard",
        "you're the innkeeper, I'm a wandering monk who always tells the truth",
        "my brother is a nurse and wants everything in large print",
        "oh great, the linter deleted my tests again, please always do that",
        "If anything changes on your side, please let me know.",
    ],
)
def test_what_only_has_the_form_of_a_wish_or_a_rule_is_left_out(text: str) -> None:
    assert extract(said(text), now=NOW) == []


@pytest.mark.spec("L5.8")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("remember that our fiscal year starts in July", "project"),
        ("merk dir: Rechnungen bitte immer auf Englisch", "feedback"),
        ("remember that I can't see red and green apart", "user"),
        ("remember the on-call list is at https://oncall.acme.example", "reference"),
    ],
)
def test_a_wish_is_kept_under_the_type_that_it_reads_like(text: str, kind: str) -> None:
    assert [proposal.type for proposal in extract(said(text), now=NOW)] == [kind]


@pytest.mark.spec("L5.8")
def test_what_is_told_in_one_breath_with_a_question_is_found() -> None:
    text = "I keep bees and sell the honey, could you sort these orders by town?"
    assert quotes(text) == [["I keep bees and sell the honey"]]


@pytest.mark.spec("L5.8")
def test_a_rule_takes_along_the_sentence_that_it_leans_on() -> None:
    text = "That order is exactly right. Please keep it that way in every task."
    first, second = text.split(". ")
    assert quotes(text, "I wrote the failing test before the fix.") == [[first + ".", second]]


@pytest.mark.spec("L5.8")
def test_two_plain_rules_stay_two_and_what_leans_on_one_adds_none() -> None:
    first, second, third = (
        "From now on use tabs in every file.", "Never mock the database in tests.", "Keep it like that in all repos."
    )  # fmt: skip
    assert quotes(f"{first} {second}") == [[first], [second]]
    assert [found[0] for found in quotes(f"{first} {third}")] == [first]


@pytest.mark.spec("L5.8")
def test_a_fact_about_the_user_that_leans_on_nothing_is_left_out() -> None:
    alone = "I've been using it to carry my work laptop to the office every day."
    assert quotes(alone) == []
    named = "I bought a canvas backpack from a small maker in Leeds."
    assert all(alone not in found or named in found for found in quotes(f"{named} {alone}"))


@given(st.text(max_size=300), st.text(max_size=60))
def test_any_text_gets_an_opinion_and_the_same_one_each_time(text: str, before: str) -> None:
    message = typed_sentences(said(text, before), NOW)
    for place in range(len(message)):
        words, parts = seen(message, place)
        assert all(0 <= bucket < BUCKETS for bucket in [*words, *parts])
        view = opinion(message, place)
        assert 0.0 <= view.worth <= 1.0
        assert view == opinion(message, place)


@pytest.mark.spec("L5.8")
def test_a_find_quotes_the_user_and_says_why() -> None:
    text = "shorter commit titles, you always write novels"
    (proposal,) = extract(said(text), now=NOW, session="s")
    assert [evidence.quote for evidence in proposal.evidence] == [text]
    assert proposal.reason == "it reads like how to work"
