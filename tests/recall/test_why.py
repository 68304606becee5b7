"""Why: what was weighed, picked, shown and used, in words that people and programs can read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.messages import Json
from lamina.recall import Match, why
from lamina.recall.prefetch import Candidate, Selection

QUESTION = "which host has the staging database?"
MEMORY = (
    "staging\nWhere staging runs\nThe staging database runs on pelican.\nAsk Wendell for access."
)


@pytest.mark.spec("M11")
def test_an_answer_used_a_memory_if_it_says_what_stands_there_and_not_in_the_question() -> None:
    cases: list[tuple[str, bool]] = [
        ("It runs on pelican.", True),
        ("Ask Wendell for access first.", True),
        ("{'command': 'ssh pelican'}", True),
        ("The staging database? I don't know which host it has.", False),
        ("Let me look at the files.", False),
        ("", False),
    ]
    for answer, expected in cases:
        assert why.used(MEMORY, QUESTION, answer).used is expected


@pytest.mark.spec("M11")
def test_one_common_word_in_a_long_answer_is_no_use() -> None:
    memory = "The user wants short commit messages in the imperative, with the issue's number."
    answer = "I changed three files, ran the tests, and the user interface looks right to me now."
    assert not why.used(memory, "please fix the button", answer).used


@pytest.mark.spec("M11")
def test_an_answer_that_is_the_memory_used_it_whatever_the_question_said() -> None:
    memory = "deploys\nWe deploy on Tuesday."
    assert why.used(memory, "when do we deploy?", "From memory: We deploy on Tuesday.").used
    assert not why.used(memory, "when do we deploy?", "On Tuesday I was ill.").used


def typed(uuid: str, text: str) -> Json:
    content = [{"type": "text", "text": text}]
    return {
        "kind": "message",
        "uuid": uuid,
        "role": "user",
        "content": content,
        "origins": ["typed"],
    }


@pytest.mark.spec("M11")
def test_a_recall_is_read_back_with_its_turn_its_scores_and_its_use() -> None:
    hits = [
        Candidate(Match("a.md", 3.25, {"body": 3.0, "recency": 0.25, "use": 0.0}, 0.9)),
        Candidate(Match("b.md", 1.0, {"body": 1.0}, 0.1)),
    ]
    shown = [{"path": "a.md", "bytes": 120, "cut": True}]
    entry = why.recall_entry(
        "q2", hits, Selection(("a.md",), "ranker", why="no model"), attached="m1", shown=shown
    )
    use = why.use_entry("r1", {"a.md": why.MemoryUse(used=True, share=0.5, words=("pelican",))})
    entries = [
        typed("q1", "hello there"),
        typed("q2", QUESTION),
        {**entry, "uuid": "r1"},
        {**use, "uuid": "u1"},
    ]
    [recalled] = why.recalls_of(entries)
    assert (recalled.turn, recalled.question) == (2, QUESTION)
    text = "\n".join(why.lines(recalled))
    assert f"turn 2: {QUESTION}" in text
    assert "* a.md  score 3.25, sure 0.9 (body 3, recency 0.25)" in text
    assert "  b.md  score 1.0" in text
    assert "ranker picked a.md (no model)" in text
    assert "a.md went into message m1 (120 bytes, cut); the answer used it: pelican" in text
    assert recalled.to_json()["uses"]["a.md"]["used"] is True


@pytest.mark.spec("M11")
def test_entries_that_are_damaged_are_told_as_far_as_they_can_be() -> None:
    broken: list[Json] = [
        {"kind": "recall", "uuid": "r", "candidates": "x", "shown": [1], "picks": None},
        {"kind": "recall_use", "uuid": "u", "recall": "nobody", "uses": 3},
    ]
    [recalled] = why.recalls_of(broken)
    assert list(why.lines(recalled)) == ["turn 0: ", "  nobody picked none of them"]


keys = st.sampled_from(
    [
        "kind",
        "uuid",
        "role",
        "content",
        "origins",
        "recall",
        "query",
        "candidates",
        "picks",
        "shown",
        "uses",
        "by",
        "parts",
        "path",
        "score",
        "attached",
        "said",
        "left",
        "why",
        "type",
        "text",
        "input",
    ]
)
values = st.sampled_from(["message", "recall", "recall_use", "assistant", "typed", "text", 5, None])
rubbish = st.recursive(
    values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5)
)


@pytest.mark.spec("M11")
@given(
    st.sampled_from(["message", "recall", "recall_use"]), st.dictionaries(keys, rubbish, max_size=8)
)
def test_no_entry_is_so_damaged_that_it_can_t_be_told(kind: str, more: Json) -> None:
    entries = [{"kind": "message", "uuid": "m"}, {"uuid": "r", **more, "kind": kind}]
    for recalled in why.recalls_of(entries):
        assert list(why.lines(recalled))
    assert isinstance(why.answer_after(entries, "m"), str)


@pytest.mark.spec("M11")
def test_a_name_with_a_line_end_stays_on_its_line() -> None:
    odd: Json = {"path": "two\nlines.md", "score": 1.0, "confidence": 0.5, "parts": {"body": 1.0}}
    entry: Json = {
        "kind": "recall",
        "candidates": [odd],
        "picks": ["two\nlines.md"],
        "shown": [odd],
    }
    told = list(why.lines(why.RecallRecord(1, "where?", entry)))
    assert told[1] == "  * two lines.md  score 1.0, sure 0.5 (body 1)"
    assert all("\n" not in line for line in told)
