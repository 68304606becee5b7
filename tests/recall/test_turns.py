"""Search of past sessions: the turn that answers, found through its neighbours, speaker and day."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.recall import CONFIDENT
from lamina.recall.index_files import load, save
from lamina.recall.turns import Turn, TurnIndex

if TYPE_CHECKING:
    import pytest


def day(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


NOW = day("2026-06-20T12:00")

TALK = (
    Turn("a1", "a", "Hey Bruno, how was your holiday?", "Alma", day("2026-05-02")),
    Turn("a2", "a", "Wonderful! We rented a boat on the lake and caught three trout.", "Bruno", day("2026-05-02")),
    Turn("a3", "a", "Where did you stay?", "Alma", day("2026-05-02")),
    Turn("a4", "a", "In a small cabin near Bled.", "Bruno", day("2026-05-02")),
    Turn("b1", "b", "I started pottery lessons last week.", "Alma", day("2026-06-06")),
    Turn("b2", "b", "Nice. I adopted a puppy, she is called Nutmeg.", "Bruno", day("2026-06-06")),
    Turn("b3", "b", "What a lovely name for a puppy!", "Alma", day("2026-06-06")),
    Turn("c1", "c", "The plumber fixed the sink.", "Carla", day("2026-06-13")),
    Turn("c2", "c", "Great, then we can paint the kitchen.", "Dirk", day("2026-06-13")),
)  # fmt: skip


def search_of(*turns: Turn) -> TurnIndex:
    index = TurnIndex()
    for turn in turns or TALK:
        index.add(turn)
    return index


def best(question: str, index: TurnIndex | None = None) -> str:
    return (index or search_of()).search(question, now=NOW)[0].id


def test_the_turn_that_answers_comes_first() -> None:
    cases: list[tuple[str, str]] = [
        ("What fish did Bruno catch?", "a2"),
        ("When did Alma start pottery?", "b1"),
        ("What did Bruno adopt?", "b2"),
        ("Who fixed the sink?", "c1"),
    ]
    for question, expected in cases:
        assert best(question) == expected


def test_an_answer_is_found_by_the_question_before_it() -> None:
    assert best("Where did Bruno stay?") == "a4"


def test_a_named_speaker_s_own_words_go_before_words_about_the_same() -> None:
    assert best("Bruno's puppy") == "b2"
    assert best("what did Alma say about the puppy") == "b3"


ECHO = (
    "Certainly! Here is a plan for the sprint. When the sprint ends, review the sprint goals. Before "
    "the first sprint ends, test the login page. After the sprint ends, plan the next sprint."
)
WORK = (
    Turn("u1", "w", "Can you plan my work if my first sprint ends on March 29?", "user", NOW),
    Turn("v1", "w", ECHO, "assistant", NOW),
    Turn("u2", "w", "Thanks, and which colours suit a dashboard for parents?", "user", NOW),
    Turn("v2", "w", "Calm ones: a pale blue ground and one warm accent.", "assistant", NOW),
)


def test_what_a_user_says_inside_a_request_goes_before_the_assistant_s_long_echo() -> None:
    assert best("When does my first sprint end?", search_of(*WORK)) == "u1"


def test_the_assistant_s_words_come_first_where_the_question_asks_for_them() -> None:
    index = search_of(*WORK)
    assert best("Which colours did you recommend for the dashboard?", index) == "v2"
    assert best("Which colours did I ask about for the dashboard?", index) == "u2"


def test_all_that_an_assistant_says_counts_with_what_it_answers() -> None:
    index = search_of(
        Turn("u1", "a", "Which dashboard colours?", "user", NOW),
        Turn("v1", "a", "Let me look.", "assistant", NOW),
        Turn("v2", "a", "Take the pale one.", "assistant", NOW),
        Turn("u2", "a", "And the kettle?", "user", NOW),
        Turn("v3", "a", "Any.", "assistant", NOW),
    )
    hits = index.search("Which dashboard colours did you recommend?", now=NOW)
    answer = {hit.id: hit.parts["answer"] for hit in hits}
    assert answer["v2"] > 0
    assert answer["v2"] == answer["v1"] > 2 * answer["v3"]


def test_what_stands_around_a_turn_counts_less_where_turns_are_long() -> None:
    def beside(filler: str) -> float:
        index = search_of(
            Turn("u1", "a", "The kettle is broken.", "Alma", NOW),
            Turn("u2", "a", f"Yes. {filler}", "Bruno", NOW),
        )
        hits = index.search("broken kettle", now=NOW)
        return next(hit.parts["beside"] for hit in hits if hit.id == "u2")

    long = " ".join(f"word{number}" for number in range(200))
    assert beside(long) < beside("Ours too.") / 2


def test_a_search_that_speaks_of_neither_side_asks_both() -> None:
    index = search_of(*WORK)
    neither, mine = (
        {hit.id: hit.parts["text"] for hit in index.search(f"{whose} sprint", now=NOW)}
        for whose in ("the", "my")
    )
    assert mine["v1"] < neither["v1"]
    assert mine["u1"] == neither["u1"]


def test_who_asks_at_length_how_something_came_about_is_shown_both_sides() -> None:
    asked = (
        "How did I come to plan the sprint and the login page so that everything was done in time?"
    )
    parts = {hit.id: hit.parts for hit in search_of(*WORK).search(asked, now=NOW)}
    assert parts["v1"]["text"] > parts["u1"]["text"]


def test_a_named_month_and_a_span_before_now_are_understood() -> None:
    index = search_of(
        Turn("old", "x", "We had dinner downtown.", "user", day("2026-02-10")),
        Turn("new", "y", "We had dinner downtown.", "user", day("2026-06-05")),
    )
    assert best("dinner in February", index) == "old"
    assert best("dinner two weeks ago", index) == "new"
    assert best("dinner in the past month", index) == "new"


def test_strangers_are_not_recalled() -> None:
    index = search_of()
    assert index.search("Did Wilhelmina sell her accordion?", now=NOW, at_least=CONFIDENT) == []
    assert index.search("Where did Bruno stay?", now=NOW, at_least=CONFIDENT)


def test_the_parts_of_a_score_add_up_to_it() -> None:
    hits = search_of().search("Bruno caught trout in May", 9, now=NOW)
    for hit in hits:
        assert math.isclose(sum(hit.parts.values()), hit.score, rel_tol=1e-5)
    assert hits[0].parts["speaker"] > 0
    assert hits[0].parts["date"] > 0


def test_a_turn_is_taken_once() -> None:
    index = search_of()
    index.add(Turn("a2", "a", "something else", "Bruno"))
    assert len(index) == len(TALK)
    assert best("trout", index) == "a2"


def test_chinese_and_japanese_turns_are_found() -> None:
    index = search_of(
        Turn("1", "s", "我昨天在公园里丢了钥匙。", "小明"),
        Turn("2", "s", "你找到了吗？", "小红"),
        Turn("3", "t", "来週から京都で働きます。", "田中"),
    )
    assert best("钥匙在哪里丢的", index) == "1"
    assert best("京都で何をする", index) == "3"


def test_garbage_finds_nothing() -> None:
    cases: list[str] = ["", "??", "the and of", "\x00\ud800"]
    for question in cases:
        assert search_of().search(question, now=NOW) == []
        assert TurnIndex().search("trout", now=NOW) == []
        assert search_of().search("trout", 0, now=NOW) == []


def test_impossible_times_do_no_harm() -> None:
    cases: list[float] = [math.nan, math.inf, -math.inf, -5.0, 1e18]
    for said in cases:
        index = search_of(
            Turn("1", "s", "the boat sank", "Alma", said), Turn("2", "s", "a lake", "Bo")
        )
        assert best("boat last Monday", index) == "1"
        hit = index.search("boat in May", now=1e18)[0]
        assert math.isfinite(hit.score)


words = st.sampled_from(["boat", "trout", "lake", "puppies", "puppy", "湖", "May", "Alma", "Bruno"])
texts = st.lists(words, max_size=7).map(" ".join)
sessions = st.dictionaries(
    st.sampled_from("pqrs"),
    st.lists(st.tuples(texts, st.sampled_from(["Alma", "Bruno", "user", ""])), max_size=6),
    max_size=4,
)


def turns_of(talks: dict[str, list[tuple[str, str]]]) -> list[Turn]:
    return [
        Turn(f"{name}{n}", name, text, speaker, day("2026-05-01") + n)
        for name, said in talks.items()
        for n, (text, speaker) in enumerate(said)
    ]


@examples(50)
@given(talks=sessions, gone=st.sampled_from("pqrs"), question=texts, k=st.integers(1, 8))
def test_removing_a_session_is_as_if_it_had_never_been(
    tmp_path_factory: pytest.TempPathFactory,
    talks: dict[str, list[tuple[str, str]]],
    gone: str,
    question: str,
    k: int,
) -> None:
    index = TurnIndex()
    for turn in turns_of(talks):
        index.add(turn)
    assert index.remove_sessions([gone]) == len(talks.get(gone, []))
    rest = {name: said for name, said in reversed(talks.items()) if name != gone}
    clean = TurnIndex()
    for turn in turns_of(rest):
        clean.add(turn)
    file = tmp_path_factory.mktemp("index") / "turns.index"
    save(index, file)
    again = load(TurnIndex, file)
    assert again is not None
    hits = index.search(question, k, now=NOW)
    assert hits == clean.search(question, k, now=NOW) == again.search(question, k, now=NOW)
    assert len(hits) <= k
    assert len({hit.id for hit in hits}) == len(hits)
    assert not any(hit.id.startswith(gone) for hit in hits)
    index.add(Turn("new", "p", "boat", "Alma", NOW))
    again.add(Turn("new", "p", "boat", "Alma", NOW))
    assert index.search("boat", k, now=NOW) == again.search("boat", k, now=NOW)
