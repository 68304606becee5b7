"""`lamina.Memory`: memory for a program with an agent of its own (I1)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic

import lamina
from lamina.errors import GateRefused, UsageError

pytestmark = pytest.mark.spec("I1")


def test_what_was_remembered_is_recalled_by_another_process(project: Path, home: Path) -> None:
    with lamina.Memory(project, home=home) as memory:
        outcome = memory.remember("Deploys never happen on Fridays.")
    assert outcome.decision == "accept"
    program = (
        "import lamina, sys\n"
        "with lamina.Memory(sys.argv[1], home=sys.argv[2]) as memory:\n"
        "    print(memory.recall('When do deploys happen?')[0].text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(project), str(home)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "Deploys never happen on Fridays.\n"


def test_a_question_that_no_memory_answers_recalls_nothing(project: Path, home: Path) -> None:
    with lamina.Memory(project, home=home) as memory:
        memory.remember("Deploys never happen on Fridays.")
        assert memory.recall("Who painted the ceiling of the chapel?") == []


@pytest.mark.parametrize(
    ("one", "other"), [("alice", "bob"), ("alice", "Alice"), ("a/b", "a-b"), ("x", "../x")]
)
def test_users_never_see_each_other(home: Path, one: str, other: str) -> None:
    with (
        lamina.Memory(user=one, home=home) as first,
        lamina.Memory(user=other, home=home) as second,
    ):
        first.remember("I am allergic to peanuts.")
        assert [found.text for found in first.recall("any allergies to peanuts?")]
        assert second.all() == []
        assert second.recall("any allergies to peanuts?") == []
        assert second.prompt().endswith("Nothing is known yet.")
        assert first.directory.is_relative_to(home / "users")
        assert second.directory.is_relative_to(home / "users")


def test_a_user_has_one_memory_in_every_directory_and_others_in_projects(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lamina.Memory(user="alice", home=home) as memory:
        memory.remember("I am allergic to peanuts.")
    monkeypatch.chdir(project)
    with lamina.Memory(user="alice", home=home) as memory:
        assert len(memory.all()) == 1
    with lamina.Memory(project, "alice", home=home) as memory:
        assert memory.all() == []
    with lamina.Memory(project, home=home) as memory:
        assert memory.all() == []


def test_an_agents_words_need_what_the_user_typed(project: Path, home: Path) -> None:
    with lamina.Memory(project, home=home) as memory:
        said = "Always answer in German."
        invented = memory.remember(said, type="feedback", said_by="agent")
        assert invented.decision == "inbox"
        proven = memory.remember(said, type="feedback", said_by="agent", typed=["Hi!", said])
        assert proven.decision == "accept"
        assert [one.path for one in memory.all()] == [proven.path]


@pytest.mark.parametrize("typed", ["Always answer in German.", iter(["Always answer in German."])])
def test_typed_words_may_be_one_text_or_come_one_by_one(
    typed: str | Iterator[str], project: Path, home: Path
) -> None:
    with lamina.Memory(project, home=home) as memory:
        said = "Always answer in German."
        proven = memory.remember(said, type="feedback", said_by="agent", typed=typed)
        assert proven.decision == "accept"
        message: Any = {"role": "user", "content": said}
        with pytest.raises(UsageError, match="`typed` can't hold a dict"):
            memory.remember("Be brief.", type="feedback", said_by="agent", typed=[message])


@pytest.mark.spec("L5.6")
def test_a_fact_is_the_programs_the_users_or_waits(project: Path, home: Path) -> None:
    fact = "The build host is called pelican."
    with lamina.Memory(project, home=home) as memory:
        assert memory.remember(fact, said_by="agent").decision == "inbox"
        told = memory.remember(fact, said_by="program")
        assert (told.decision, told.origin) == ("accept", "program")
        assert "(source: program)" in memory.prompt()
        assert [change.writer for change in memory.why(told.path).changes] == ["program"]
        theirs = memory.remember("I like tea.", type="user", said_by="program")
        assert theirs.decision == "inbox", "a program does not speak for the person"
        heard = memory.remember(
            "The cron host is heron.", said_by="agent", typed=["our cron host is heron"]
        )
        assert heard.decision == "accept"
    with lamina.Memory(user="alice", home=home) as memory:
        told = memory.remember("The customer's tier is gold.", said_by="program")
        assert (told.decision, memory.read(told.path).type) == ("accept", "project")


def test_a_change_can_be_explained_and_undone(project: Path, home: Path) -> None:
    with lamina.Memory(project, home=home) as memory:
        outcome = memory.remember("The database is PostgreSQL 16.")
        explained = memory.why(outcome.path)
        assert explained.text == "The database is PostgreSQL 16."
        assert [change.writer for change in explained.changes] == ["user"]
        assert explained.lines[-1].text == "The database is PostgreSQL 16."
        assert memory.forget("PostgreSQL 16") == [outcome.path]
        assert memory.all() == []
        assert outcome.path in memory.undo()
        assert memory.read(outcome.path).body.strip() == "The database is PostgreSQL 16."
        assert len(memory.history()) == 3


def test_search_gives_reasons_and_the_prompt_names_what_is_known(project: Path, home: Path) -> None:
    with lamina.Memory(project, home=home) as memory:
        memory.remember("The database is PostgreSQL 16.", name="Database")
        (found,) = memory.search("database")
        assert found.reasons
        assert 0 < found.confidence <= 1
        assert "[Database](project_database.md)" in memory.prompt()


def test_a_memory_of_the_library_is_the_memory_of_a_session(project: Path, home: Path) -> None:
    with lamina.Memory(user="alice", home=home) as memory:
        memory.remember("I am allergic to peanuts.")
        with lamina.Session.open(project, home=home, model="none", memory=memory.store) as session:
            assert "peanuts" in session.ask("what do you remember about peanuts?").text


def test_the_same_awaited(project: Path, home: Path) -> None:
    async def work() -> None:
        async with lamina.AsyncMemory(project, home=home) as memory:
            first, second = await asyncio.gather(
                memory.remember("The database is PostgreSQL 16."),
                memory.remember("Deploys never happen on Fridays."),
            )
            assert {one.path for one in await memory.all()} == {first.path, second.path}
            assert (await memory.recall("which database?"))[0].path == first.path
            await memory.forget(first.path)
            assert len(await memory.history()) == 3

    asyncio.run(work())


def test_bad_input_gets_a_sentence(project: Path, home: Path) -> None:
    with pytest.raises(UsageError, match="no directory"):
        lamina.Memory(project / "nowhere", home=home)
    with lamina.Memory(project, home=home) as memory:
        with pytest.raises(UsageError, match="no text"):
            memory.remember("  ")
        with pytest.raises(UsageError, match="one of user, feedback"):
            memory.remember("x", type="fact")  # pyright: ignore[reportArgumentType]
        with pytest.raises(UsageError, match="said_by"):
            memory.remember("Tea is at four.", said_by="model")
        with pytest.raises(UsageError, match="No memory is meant"):
            memory.forget("the moon")
        with pytest.raises(UsageError, match="1 or more"):
            memory.recall("tea?", limit=0)
        with pytest.raises(GateRefused, match="secret"):
            memory.remember("The key is AKIAIOSFODNN7EXAMPLQ")
        assert memory.all() == []


def test_the_package_shows_its_public_names() -> None:
    assert "Memory" in dir(lamina)
    assert "Session" in dir(lamina)
    assert all(hasattr(lamina, name) for name in dir(lamina))


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda m, _: m.remember(None), "no text to remember"),
        (lambda m, _: m.remember(b"Tea is hot."), "no text to remember"),
        (lambda m, _: m.recall(None), "can't be a NoneType: give a text"),
        (lambda m, _: m.search(b"tea"), "can't be a bytes: give a text"),
        (lambda m, _: m.recall("tea", limit="5"), "limit can't be '5'"),
        (lambda m, _: m.forget(None), "can't be a NoneType: give the name"),
        (lambda m, _: m.why(5), "can't be a int: give the name"),
        (lambda m, _: m.undo(5), "5"),
        (lambda _, home: lamina.Memory(home.parent, home=3), "`home` can't be a int"),
        (lambda _, home: lamina.Memory(user=5, home=home), "`user` can't be 5"),
        (lambda _, home: lamina.Memory(user=" ", home=home), "`user` can't be ' '"),
        (lambda _, home: lamina.Memory(5, home=home), "no directory 5"),
        (lambda _, home: lamina.Session.open(5, home=home), "`project` can't be a int"),
        (lambda _, home: lamina.wrap(Anthropic(api_key="k").messages), "can't be a Messages"),
    ],
)
def test_a_wrong_object_gets_a_sentence(
    call: Callable[[Any, Path], Any], why: str, project: Path, home: Path
) -> None:
    with lamina.Memory(project, home=home) as memory, pytest.raises(UsageError, match=why):
        call(memory, home)
