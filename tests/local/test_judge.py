"""The learned judge: sure where people plainly say it, quiet at work talk, the same every time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.local.extractor import extract
from lamina.local.features import BUCKETS, seen
from lamina.local.judge import opinion
from lamina.local.own_words import typed_sentences

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
