"""How memory text is taken apart."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import GateRefused
from lamina.memory.file_store import FileStore
from lamina.testing import a_memory
from lamina.text.wording import content_stems, read_under, sentences, words


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Python 3.12 runs it. Fine.", ["Python 3.12 runs it.", "Fine."]),
        ("一。二！ 三？", ["一。", "二！", "三？"]),
        (" a\n\n - b \n", ["a", "- b"]),
        (
            "kickoff is on march 2. second, drop the app",
            ["kickoff is on march 2.", "second, drop the app"],
        ),
        ("ci uses 16. make em all 20", ["ci uses 16.", "make em all 20"]),
        ("am 24. kommt der TÜV. gut", ["am 24. kommt der TÜV.", "gut"]),
        ("spätestens 25. juli. dann", ["spätestens 25. juli.", "dann"]),
        ("1. pull it 2. delete it", ["1. pull it 2. delete it"]),
        ("two things: 1. when we call it", ["two things: 1. when we call it"]),
        ("azubi, 2. lehrjahr", ["azubi, 2. lehrjahr"]),
        ("", []),
    ],
)
def test_a_text_falls_into_its_sentences_and_lines(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts


@given(st.text())
def test_no_word_is_lost_between_sentences(text: str) -> None:
    text = text.replace("\0", " ")  # stands for what is not the speaker's, and ends a sentence
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@pytest.mark.spec("M10")
def test_each_sentence_of_a_forgotten_memory_stays_away_in_any_script(tmp_path: Path) -> None:
    both = a_memory(
        "user_home.md",
        type="user",
        description="关于用户",
        body="我每天早上喝三杯浓咖啡。我住在奥斯陆市中心的老房子里。",
    )
    with FileStore(tmp_path / "memory") as store:
        store.remember(both)
        store.forget(both.path)
        again = replace(
            both,
            path="project_trip.md",
            name="Trip",
            type="project",
            description="去年夏天的长途旅行计划和很多很多别的事情",
            body="我们坐火车去了北方的很多城市和村庄。我住在奥斯陆市中心的老房子里。",
            writer="extraction",
        )
        with pytest.raises(GateRefused, match="forgotten"):
            store.write(again)


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ("Toms alte Regeln, die ich ablehne\n\nKeine Tests am Freitag.", "Frag mich vorher."),
        ("I drink tea.\n\nWhat comes now are Tom's wishes.", "I eat nuts."),
        ("Point 2 is off.\n\n1. Emojis", "2. Ask me first."),
        ("| Forbidden |\n|---|\n| Fax |", "| Backups |"),
        ("A file as it must not look.\n\n```\nNo tests.", "Ask me first."),
    ],
)
def test_a_line_is_read_with_those_that_say_how_it_is_meant(own: str, added: str) -> None:
    lines = own.splitlines()
    assert read_under([*lines, added])[-1] != read_under([added])[0]


def test_what_was_cancelled_by_its_place_is_read_with_that() -> None:
    """A line may speak of those above it, too."""
    assert read_under(["Ask me first.", "", "Everything above is off."])[0] == (
        "Everything above is off.",
    )
    assert read_under(["Ask me first.", "", "Use tabs."])[0] == ()


@given(st.text(st.sampled_from("aBzß0_'’—… \n\u00a0é́ﬁ½İ漢字한=\u0338-.s"), max_size=24))
def test_words_are_what_the_pattern_finds_in_the_folded_text(text: str) -> None:
    folded = unicodedata.normalize("NFKC", text).casefold()
    found = re.findall(r"[^\W_]+(?:['’][^\W_]+)*", folded)
    assert words(text) == [word.replace("’", "'") for word in found]
    stems = [content_stems(word) for word in found]
    assert content_stems(text) == frozenset[str]().union(*stems)
