"""`lamina memory why` and `search`, and `/why`, `/remember`, `/memory` in a conversation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.memories import directory, put
from tests.sessions import Place, run

from lamina.cli.chat_commands import run_command
from lamina.errors import UsageError

Run = Callable[..., Any]


@pytest.fixture
def place(world: Path) -> Place:
    place = Place(world)
    put(place, "project_staging.md", "The staging database runs on the host pelican")
    put(place, "user_cooking.md", "The user bakes sourdough bread at weekends", type="user")
    return place


def talk(place: Place, *commands: str, asked: str = "") -> str:
    async def story() -> str:
        async with place.open(["It runs on pelican."]) as session:
            if asked:
                await session.ask(asked)
            for command in commands:
                await run_command(session, command)
            return session.id

    return run(story)


@pytest.mark.spec("M11", "I2")
def test_why_says_what_was_weighed_picked_shown_and_used(place: Place, lamina: Run) -> None:
    name = talk(place, asked="which host has the staging database?")
    told = lamina("memory", "why").out
    assert "turn 1: which host has the staging database?" in told
    assert "* project_staging.md  score" in told
    assert "ranker picked project_staging.md (there is no small model)" in told
    assert "the answer used it: pelican" in told
    assert lamina("memory", "why", name[:8], "--turn", "1").out == told
    for wrong in ("7", "0", "-1"):
        refused = lamina("memory", "why", "--turn", wrong)
        assert (refused.code, refused.out) == (2, "")
        assert (
            f"There is no message {wrong} in session {name[:8]}: it has 1 typed message."
            in refused.err
        )
    assert lamina("memory", "why", "nobody").code == 2


@pytest.mark.spec("M11", "I2")
def test_why_says_so_where_nothing_was_recalled(place: Place, lamina: Run) -> None:
    name = talk(place, asked="thanks")
    nothing = lamina("memory", "why", "--turn", "1")
    assert (nothing.code, nothing.out) == (0, "")
    assert f"Nothing was recalled for message 1 in session {name[:8]}." in nothing.err
    assert lamina("memory", "why", name, "--json").json == []


@pytest.mark.spec("M7", "I2")
def test_search_finds_by_meaning_with_scores_by_part(place: Place, lamina: Run) -> None:
    assert "project_staging.md" in lamina("memory", "search", "staging", "host").out
    [first, *_] = lamina("memory", "search", "who bakes bread", "--json").json
    assert first["path"] == "user_cooking.md"
    assert first["parts"]["description"] > 0
    everything = lamina("memory", "search", "-n", "0", "staging", "host", "--json").json
    assert everything[0]["path"] == "project_staging.md"
    assert "Give a word" in lamina("memory", "search", "  ").err
    assert lamina("memory", "search", "").code == 2


@pytest.mark.spec("M7", "I2")
def test_a_sign_that_is_no_word_is_looked_for_as_it_is(place: Place, lamina: Run) -> None:
    put(place, "mascot.md", "our mascot 🦩 is called Flo")
    [found] = lamina("memory", "search", "🦩", "--json").json
    assert found["path"] == "mascot.md"
    assert lamina("memory", "search", "🦭", "--json").json == []
    assert lamina("memory", "search", "is the", "--json").json == []


@pytest.mark.spec("M7", "I2")
def test_a_question_of_any_size_and_script_is_answered(place: Place, lamina: Run) -> None:
    put(place, "zh.md", "部署服务器在上海的数据中心")
    assert lamina("memory", "search", "staging " * 12_500, "--json").json
    assert lamina("memory", "search", "服务器在哪里", "--json").json[0]["path"] == "zh.md"
    assert lamina("memory", "search", "\x00\udcff ) (", "--json").json == []
    assert "Nothing found" in lamina("memory", "search", "xyzzy").err


@pytest.mark.spec("M11", "F7")
def test_the_same_in_a_conversation(
    place: Place, lamina: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    talk(place, "/why", "/memory", "/memory sourdough bread", asked="which host has staging?")
    told = capfd.readouterr().out
    assert "turn 1: which host has staging?" in told
    assert "2 memories in " in told
    assert "user_cooking.md" in told
    talk(place, "/remember I deploy from the host albatross", "/why")
    assert "Nothing was recalled yet" in capfd.readouterr().err
    shown = json.loads(lamina("memory", "list", "--json").out)
    [new] = [one for one in shown if "albatross" in one["description"]]
    assert new["type"] == "user"
    for wrong in ("/remember", "/why x", "/why 0", "/why 9", "/why ²"):
        with pytest.raises(UsageError):
            talk(place, wrong)


@pytest.mark.spec("M7", "I2")
def test_past_sessions_are_searched_by_an_index_that_grows(place: Place, lamina: Run) -> None:
    name = talk(place, asked="our mascot is a walrus called Wendell")
    [first, *_] = lamina("sessions", "search", "what is the mascot called?", "--json").json
    assert 0 < first["chance"] <= 1
    assert (first["session"], first["who"]) == (name, "user")
    assert "Wendell" in first["text"]
    talk(place, asked="the mascot's birthday is in October")
    told = lamina("sessions", "search", "when is the mascot's birthday?")
    assert "October" in told.out.splitlines()[0]
    indexes = list((place.home / "projects").rglob("sessions.index"))
    assert len(indexes) == 1
    indexes[0].write_bytes(b"torn")
    assert "Wendell" in lamina("sessions", "search", "mascot walrus").out
    nothing = lamina("sessions", "search", "xyzzy")
    assert (nothing.code, nothing.out) == (0, ""), "as `memory search`; `grep` has grep's 1"
    assert "Nothing found." in nothing.err


@pytest.mark.spec("M7", "I2")
def test_what_only_stood_beside_the_words_that_were_asked_for_is_not_listed(
    place: Place, lamina: Run
) -> None:
    talk(place, asked="our mascot is a walrus called Wendell")
    talk(place, asked="the release train leaves on Tuesdays")
    found = lamina("sessions", "search", "walrus mascot", "--json").json
    assert found
    assert not [one for one in found if "train" in one["text"]]
    assert all(one["confidence"] >= 0.15 for one in found)
    assert "message 9" in lamina("memory", "why", "--turn", "9").err


@pytest.mark.spec("M7", "I2")
def test_a_search_of_sessions_keeps_to_the_time_that_is_asked_for(
    place: Place, lamina: Run
) -> None:
    talk(place, asked="our mascot is a walrus called Wendell")
    asked = ("sessions", "search", "mascot walrus", "--json")  # the clock stands in September 2026
    within = lamina(*asked, "--since", "2026-09-01", "--until", "2026-09-30").json
    assert "Wendell" in within[0]["text"]
    assert lamina(*asked, "--since", "2026-10-01").json == []
    assert lamina(*asked, "--until", "2026-09-01").json == []
    assert lamina("sessions", "search", "mascot walrus", "--since", "soon").code == 2
    assert "no word in that to search for" in lamina("sessions", "search", "?!").err
    assert len(lamina("sessions", "search", "mascot walrus", "-n", "0", "--json").json) >= 1


@pytest.mark.spec("M7")
def test_a_purged_memory_leaves_no_trace_in_what_recall_derived(place: Place, lamina: Run) -> None:
    talk(place, asked="which host has the staging database?")
    assert lamina("memory", "search", "pelican").code == 0
    state = directory(place).with_name("memory.lamina")
    derived = [state / "recall.index", state / "recall-uses.json"]
    assert all(b"staging" in file.read_bytes() for file in derived)
    assert lamina("memory", "forget", "project_staging", "--purge").code == 0
    for file in derived:
        held = file.read_bytes()
        assert b"staging" not in held
        assert b"pelican" not in held
    assert "sourdough" in lamina("memory", "search", "bread").out
