"""The summary without a model: nine parts, within its budget, every word from the record."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.local.test_session_facts import call, said

from lamina.ledger import tokens
from lamina.local.session_facts import session_facts
from lamina.local.summariser import MODEL_PARTS, PARTS, nine_parts, sections, short
from lamina.messages import text

HEADINGS = [f"## {n}. {heading}" for n, (_, heading) in enumerate(PARTS, 1)]


@pytest.mark.spec("L4.1", "L4.5")
def test_the_nine_parts_stand_in_order_and_two_change_their_names_up_to_an_entry() -> None:
    what = session_facts([said("user", text("Build it."), n=1)])
    whole = nine_parts(what, budget=1_000)
    assert re.findall(r"(?m)^## .+$", whole) == HEADINGS
    before = re.findall(r"(?m)^## .+$", nine_parts(what, budget=1_000, up_to=True))
    assert before[:7] == HEADINGS[:7]
    assert before[7:] == ["## 8. Work completed", "## 9. Context for continuing"]


@pytest.mark.spec("L4.2")
def test_a_model_s_words_are_added_to_its_own_parts_and_replace_nothing_that_is_copied() -> None:
    what = session_facts(
        [
            said("user", text("Build the tower."), n=1),
            *call("a", "Write", "ok", n=2, file_path="tower.py", content="class Tower: ..."),
            said("assistant", text("The tower has 42 floors."), n=4),
        ]
    )
    model = {key: f"MODEL {key}" for key, _ in PARTS}
    made = nine_parts(what, budget=2_000, model=model)
    assert [key for key, _ in PARTS if f"MODEL {key}" in made] == list(MODEL_PARTS)
    for words in ("Build the tower.", "tower.py: created", "Tower", "42 floors"):
        assert words in made


@pytest.mark.spec("L4.2")
def test_beyond_the_budget_an_excerpt_and_a_reference_stand_for_a_long_message() -> None:
    long = "It begins here. " + "middle " * 5_000 + "It ends here."
    made = nine_parts(session_facts([said("user", text(long), n=1234)]), budget=1_000)
    assert "It begins here." in made
    assert "[…]" in made
    assert "It ends here. [#entry-12]" in made
    assert tokens.of_text(made) < 1_300


def _entries(shape: list[tuple[str, int, int]]) -> list[Any]:
    entries: list[Any] = []
    for n, (kind, size, seed) in enumerate(shape):
        words = " ".join(f"w{seed}x{i}" for i in range(size))
        if kind == "ask":
            entries.append(said("user", text(f"please {words}"), n=n))
        elif kind == "answer":
            entries.append(said("assistant", text(f"so {words}"), n=n))
        elif kind == "run":
            entries += call(f"c{n}", "Bash", words, n=n, command=f"run {seed} {words[:80]}")
        else:
            entries += call(
                f"c{n}", "Edit", "ok", n=n, file_path=f"f{seed}.py", new_string=f"def g{seed}(): 1"
            )
    return entries


shapes = st.lists(
    st.tuples(
        st.sampled_from(["ask", "answer", "run", "edit"]), st.integers(0, 400), st.integers(0, 30)
    ),
    max_size=40,
)


@pytest.mark.spec("L4.2")
@given(shapes, st.integers(400, 8_000))
def test_it_fits_its_budget_and_every_line_comes_from_the_record(
    shape: list[tuple[str, int, int]], budget: int
) -> None:
    entries = _entries(shape)
    made = nine_parts(session_facts(entries), budget=budget)
    frame = 9 * 30  # headings, and a shortest excerpt for each part
    assert tokens.of_text(made) <= budget * 1.25 + frame
    known = str(entries)
    for word in re.findall(r"w\d+x\d+\b", made):
        assert word in known or word + "…" in made  # the last word of an excerpt may be cut
    names = {str(entry["uuid"])[:8] for entry in entries}
    assert set(re.findall(r"\[#([^\]]+)\]", made)) <= names


@pytest.mark.spec("L4.2")
def test_a_line_that_is_cut_keeps_its_reference_whole() -> None:
    shape = [("ask", 400, 1), ("answer", 170, 0)]
    made = nine_parts(session_facts(_entries(shape)), budget=400)
    assert "… [#entry-1]" in made
    assert set(re.findall(r"\[#([^\]]+)\]", made)) == {"entry-0", "entry-1"}


@pytest.mark.spec("L4.2")
@given(shapes)
def test_short_user_messages_are_all_there_word_for_word(shape: list[tuple[str, int, int]]) -> None:
    entries = _entries([(kind, min(size, 12), seed) for kind, size, seed in shape])
    what = session_facts(entries)
    made = nine_parts(what, budget=8_000)
    for said_ in what.asked:
        assert said_.text in made


@pytest.mark.spec("L3.1", "L4.10")
@given(shapes)
def test_notes_sections_and_fold_lines_are_bounded(shape: list[tuple[str, int, int]]) -> None:
    what = session_facts(_entries(shape))
    assert sum(map(tokens.of_text, sections(what).values())) <= 12_000
    assert tokens.of_text(short(what)) <= 450


def _reads(count: int) -> list[Any]:
    """Files whose names nobody speaks of, but for the last one's."""
    entries: list[Any] = []
    for n in range(count):
        seen = "\n".join(f"field_{n}_{k} = {k}" for k in range(40))
        entries += call(f"r{n}", "Read", seen, n=2 * n, file_path=f"/srv/project/src/f{n}.py")
    entries.append(said("assistant", text("Now let me look at field_0_39."), n=2 * count))
    return entries


@pytest.mark.spec("L4.2")
def test_names_likely_to_be_needed_are_listed_with_their_file_as_far_as_there_is_room() -> None:
    made = nine_parts(session_facts(_reads(30)), budget=1_500)
    assert "field_0_39" in made
    listed = re.search(r"(?m)^- .*f29\.py: read 1× .*\n  (.*)$", made)
    assert listed
    assert "field_29_0" in listed[1]  # what was read last
    assert "field_1_0," not in made
    assert tokens.of_text(made) <= 1_500


@pytest.mark.spec("L4.2")
def test_names_that_stand_beside_the_summary_make_room_for_others() -> None:
    what = session_facts(_reads(30))
    kept = "\n".join(f"field_29_{k}" for k in range(40))
    made = nine_parts(what, budget=1_500, kept=kept)
    assert "field_29_0" not in made
    assert len(set(re.findall(r"field_\w+", made))) > 50


@pytest.mark.spec("L4.2")
@given(st.integers(600, 8_000))
def test_where_enough_was_said_the_budget_is_used(budget: int) -> None:
    talk = [(kind, 60, n) for n in range(120) for kind in ("ask", "answer")]
    made = nine_parts(session_facts(_entries(talk)), budget=budget)
    assert 0.85 * budget <= tokens.of_text(made) <= budget * 1.05 + 30
