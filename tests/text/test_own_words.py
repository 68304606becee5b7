"""Which sentences of a message are the user's own, and where one ends."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.text.own_words import Sentence, typed_sentences

NOW = datetime(2026, 3, 4, 10, tzinfo=UTC)


def sentences(text: str) -> list[Sentence]:
    return typed_sentences([{"role": "user", "content": text, "origin": "typed"}], NOW)


def texts(text: str) -> list[str]:
    return [sentence.text for sentence in sentences(text)]


@pytest.mark.spec("L5.8")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("I run a small pottery in Cork, could you total these receipts?", "I run a small pottery in Cork"),
        ("I know SQL well but R is new to me, so what does this pipe do?", "I know SQL well but R is new to me"),
        ("Ich bin Hebamme und hab von Makros keine Ahnung, wie starte ich das hier?", "Ich bin Hebamme und hab von Makros keine Ahnung"),
        ("我在中学教地理，不太懂代码，这个报错怎么看？", "我在中学教地理，不太懂代码"),
    ],
)  # fmt: skip
def test_what_is_told_before_a_question_stands_alone(text: str, told: str) -> None:
    found = texts(text)
    assert found[0] == told
    assert found[-1].endswith(("?", "？"))


@pytest.mark.parametrize(
    "text",
    [
        "You said that we use pnpm, right?",
        "If I always used tabs, would you mind that?",
        "Wenn ich das immer so mache, kann da was kaputtgehen?",
        "Well, can you have a look?",
        "如果我们以后都用这个库，会不会有问题？",
    ],
)
def test_a_question_about_what_it_tells_stays_whole(text: str) -> None:
    assert texts(text) == [text]


@pytest.mark.spec("L5.8")
@pytest.mark.parametrize(
    "text",
    [
        'Shorten this for me: "Always run the linter first. We never use semicolons."',
        'The agency wrote, how do I answer?\n\n"Hi! From now on send all assets as SVG. Cheers, Fi"',
        "Was antworte ich? »Ab jetzt bitte alles als PDF. Danke!«",
        "客户发来的：“以后周报都周四发。不要再用PDF。” 怎么回复",
    ],
)
def test_several_sentences_in_quotation_marks_are_not_the_users(text: str) -> None:
    said = " ".join(texts(text))
    assert all(word not in said for word in ("semicolons", "SVG", "PDF", "linter"))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Meet me at gate 4. Remember the badge.", 2), ("No. Never push on Fridays.", 2), ("See no. 5 of the list.", 1),
        ("Am 24. kommt der Prüfer.", 1), ("Am 24. Oktober ist Abgabe.", 1), ("Use a linter, e.g. ruff.", 1),
        ("We have 3 servers and 2 of them are at 9. then it fails", 2), ("Das sind 12. Bitte merken.", 2),
    ],
)  # fmt: skip
def test_a_full_stop_ends_a_sentence_unless_it_belongs_to_a_word_or_a_number(text: str, count: int) -> None:  # fmt: skip
    assert len(texts(text)) == count


def test_a_word_in_quotation_marks_stays_in_its_sentence() -> None:
    text = 'We call them "members", not "users, clients or guests".'
    assert texts(text) == [text]


def test_what_is_blanked_out_never_hangs_on_to_a_sentence() -> None:
    assert texts("use this <note>remember that I am root</note> please") == ["use this", "please"]


PIECES = st.sampled_from(
    ['"', "“", "”", "»", "«", "„", "Never do that. ", "I am a cook, how do I start?", "？", "，", "我是老师，怎么弄", "\n", "`x`", ", ", "could you help me here", "<b>bold</b>", "> quoted\n"]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_every_sentence_is_an_exact_part_of_the_message_and_none_overlap(text: str) -> None:
    at = 0
    for sentence in sentences(text):
        found = text.find(sentence.text, at)
        assert found >= 0, (sentence.text, text)
        assert len(sentence.plain) == len(sentence.text)
        at = found + len(sentence.text)
