"""`lamina memory why` and `search`, and `/why`, `/remember`, `/memory` in a conversation."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.memories import directory, put
from tests.sessions import Place, run

from lamina.cache.spend import Spend
from lamina.cli.chat_commands import run_command
from lamina.errors import UsageError
from lamina.messages import Usage

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
    for wrong in ("7", "0"):
        refused = lamina("memory", "why", "--turn", wrong)
        assert (refused.code, refused.out) == (2, "")
        assert (
            f"There is no message {wrong} in session {name[:8]}: it has 1 typed message."
            in refused.err
        )
    refused = lamina("memory", "why", "--turn", "-1")
    assert (refused.code, refused.out) == (2, "")
    assert "--turn: '-1' is not a whole number" in refused.err
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


WALRUS = ("sessions", "search", "what is the mascot walrus called?", "--ask")


@pytest.fixture
def small(place: Place, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Past sessions, and a small model with these answers."""
    talk(place, asked="our mascot is a walrus called Wendell")
    talk(place, asked="the mascot walrus has its birthday in October")

    def answers(*replies: Any) -> None:
        script = place.home / "small.json"
        steps = [{"purpose": "recall", "reply": one} for one in replies]
        script.write_text(json.dumps({"name": "claude-haiku-5-5", "steps": steps}))
        monkeypatch.setenv("LAMINA_SMALL_MODEL", f"scripted:{script}")

    return answers


@pytest.mark.spec("M7", "F10", "I2")
def test_with_ask_the_small_model_says_which_turns_answer(
    small: Callable[..., None], lamina: Run
) -> None:
    found = [one["text"] for one in lamina(*WALRUS, "--json").json]
    best = next(n for n, one in enumerate(found, 1) if "Wendell" in one)
    small({"text": json.dumps({"selected": [str(best)]})})
    ran = lamina(*WALRUS)
    assert "Wendell" in ran.out
    assert "October" not in ran.out
    assert ran.err == f"Without --ask, what came near is shown too ({len(found) - 1}).\n"
    small({"text": json.dumps({"selected": [str(best)]})})
    rows = lamina(*WALRUS, "--json").json
    assert [one["text"] for one in rows] == found
    assert [one["answers"] for one in rows] == [n == best for n in range(1, len(found) + 1)]
    booked = lamina("spend", "--by", "layer", "--json").json
    assert [(one["name"], one["calls"]) for one in booked["groups"] if one["name"] == "recall"] == [
        ("recall", 2)
    ]


@pytest.mark.spec("M7", "I2")
def test_with_ask_nothing_is_shown_where_nothing_answers(
    small: Callable[..., None], lamina: Run
) -> None:
    small('{"selected": []}')
    ran = lamina(*WALRUS)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("Nothing there answers that. Without --ask, what came near is shown")
    small('{"selected": []}')
    rows = lamina(*WALRUS, "--json").json
    assert rows
    assert not any(one["answers"] for one in rows)


@pytest.mark.spec("M7", "F10", "I2")
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"reply": "no idea"}, "did not say which"),
        ({"reply": {"error": "overloaded"}}, "could not be asked"),
        ({"reply": {"hang": True}, "LAMINA_RECALL_TIMEOUT": "0.1"}, "took over 0.1 s"),
        ({"LAMINA_SMALL_MODEL": "none"}, "there is no small model"),
        ({"LAMINA_SMALL_MODEL": "scripted:nowhere.json"}, "can't be read"),
        ({"LAMINA_SPEND_DAILY_CAP": "0.01"}, "cap of $0.01 is spent"),
    ],
)
def test_where_nobody_reads_all_that_was_found_is_shown(
    small: Callable[..., None],
    lamina: Run,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, Any],
    why: str,
) -> None:
    plain = lamina(*WALRUS[:-1])
    small(given.get("reply", '{"selected": []}'))
    spent = Usage(input=1_000_000)
    spend = Spend(place.home / "spend")
    spend.book(purpose="dream", model="claude-haiku-5-5", usage=spent, session="", at=time.time())
    for name in given.keys() - {"reply"}:
        monkeypatch.setenv(name, given[name])
    ran = lamina(*WALRUS)
    assert (ran.code, ran.out) == (0, plain.out)
    assert "Wendell" in ran.out
    assert "Not read, so all are shown: " in ran.err
    assert why in ran.err
    assert all("answers" not in one for one in lamina(*WALRUS, "--json").json)
    assert lamina(*WALRUS, "--quiet").err == ""


@pytest.mark.spec("M7", "F9")
def test_a_project_can_not_say_who_reads_past_sessions(
    small: Callable[..., None], lamina: Run, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    small('{"selected": []}')
    monkeypatch.setenv("LAMINA_SMALL_MODEL", "none")
    folder = place.project / ".lamina"
    folder.mkdir(exist_ok=True)
    (folder / "settings.toml").write_text(f'small_model = "scripted:{place.home}/small.json"\n')
    ran = lamina(*WALRUS)
    assert (ran.code, ran.out) == (2, "")
    assert "is inside the project and may not set small_model" in ran.err


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
