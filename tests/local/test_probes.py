"""Probes: what a removed span knew, asked of any text, favouring no form of summary."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.local.test_session_facts import call, said
from tests.local.test_summariser import _entries, shapes

from lamina.local.probes import KINDS, QUESTIONS, Probe, likeliest, probes, score
from lamina.messages import text


def span() -> list[Any]:
    return [
        said("user", text("Never touch setup.py. Make the tower taller."), n=1),
        *call("a", "Write", "ok", n=2, file_path="src/tower.py", content="class Tower: ..."),
        *call(
            "b", "Bash", "TypeError: floor is not a number", error=True, n=4, command="make floors"
        ),
        *call("c", "TodoWrite", "ok", n=6, todos=[{"content": "paint it", "status": "pending"}]),
        said("assistant", text("It has 42 floors and took 1,250 ms."), n=8),
    ]


@pytest.mark.spec("L4.8")
def test_every_kind_is_drawn_from_the_span_and_found_word_for_word() -> None:
    found = probes(span())
    assert {probe.kind for probe in found} == set(KINDS)
    assert set(QUESTIONS) == set(KINDS)
    for probe in found:
        assert any(answer in str(span()) for answer in probe.answers)
    kept = (
        "Never touch setup.py.  MAKE the tower taller. src/tower.py Tower `make floors` "
        "TypeError: floor is not a number; paint it; 42 floors; 1,250 ms"
    )
    whole = score(found, kept)
    assert whole.share == 1.0
    nothing = score(found, "All is well.")
    assert nothing.share == 0.0
    assert nothing.by_kind == dict.fromkeys(KINDS, 0.0)
    assert nothing.missed


@pytest.mark.spec("L4.8")
def test_a_number_inside_another_number_answers_nothing() -> None:
    found = [p for p in probes([said("assistant", text("It has 42."))]) if p.kind == "numbers"]
    assert score(found, "It has 1423.").share == 0.0
    assert score(found, "It has 142, then 42.").share == 1.0


@pytest.mark.spec("L4.8")
def test_probes_are_spread_over_the_span_not_taken_from_its_end() -> None:
    entries = [said("user", text(f"Please do thing number {n} now."), n=n) for n in range(100)]
    asked = [p for p in probes(entries, each=10) if p.kind == "asked"]
    where = [int(p.entry.split("-")[1]) for p in asked]
    assert where == list(range(0, 100, 10))


@pytest.mark.spec("L4.8")
@given(shapes)
def test_a_span_answers_its_own_probes_and_an_empty_text_none(shape: list[Any]) -> None:
    entries = _entries(shape)
    found = probes(entries)
    whole = "\n".join(
        str(
            b.get("text") or b.get("content") or " ".join(map(str, (b.get("input") or {}).values()))
        )
        for e in entries
        for b in e["content"]
    )
    assert score(found, whole).share == 1.0
    assert score(found, "").share == (0.0 if found else 1.0)


@pytest.mark.spec("L4.8")
@given(shapes, st.text(max_size=200), st.text(max_size=200))
def test_more_text_never_answers_less(shape: list[Any], view: str, more: str) -> None:
    found = [p for p in probes(_entries(shape)) if p.kind != "numbers"]
    assert score(found, f"{view}\n{more}").share >= score(found, view).share


@pytest.mark.spec("L4.8")
def test_what_is_likelier_to_be_needed_counts_more() -> None:
    seen = "\n".join(f"rare_name_{n} = 1" for n in range(20))
    entries = [
        *call("a", "Read", seen, n=1, file_path="src/a.py"),
        *(said("assistant", text(f"Round {n}: busy_name again."), n=2 + n) for n in range(9)),
    ]
    found = [p for p in probes(entries) if p.kind == "names"]
    assert score(found, "busy_name").share > score(found, seen).share
    assert score(found, "busy_name_two").share == 0.0  # a name inside another is not it
    assert score(found, "").missed[0].endswith("busy_name?")
    assert [p.answers[0] for p in likeliest(found, each=1)] == ["busy_name"]


@pytest.mark.spec("L4.8")
def test_names_of_which_a_summary_says_nothing_lower_the_score() -> None:
    seen = " ".join(f"useName{n}" for n in range(200))
    entries = [
        said("user", text("Read it please."), n=1),
        *call("a", "Read", seen, n=2, file_path="src/hooks.ts"),
    ]
    told = "Read it please. src/hooks.ts"
    assert score(probes(entries), told).share < 0.5
    assert score(probes(entries), f"{told} {seen}").share == 1.0


@given(st.text("ab 1.", max_size=12), st.text("ab 1.", min_size=1, max_size=5))
def test_what_is_known_by_its_words_is_what_stands_in_the_text(view: str, answer: str) -> None:
    probe = Probe("commands", "?", [answer], "")
    stands = " ".join(answer.split()) in " ".join(view.split())
    assert score([probe], view).share == float(stands)
