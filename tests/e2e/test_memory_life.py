"""A memory's life without any model: asked for in one session, there in the next."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.memories import by_hand, directory, kinds, put, said
from tests.sessions import Place, run, use

from lamina.models.scripted import ScriptedModel, Step
from lamina.recall.memory_index import USES_FILE


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def lamina(place: Place, *words: str) -> str:
    """The real command, in a process of its own."""
    where = ["--home", str(place.home), "--project", str(place.project)]
    done = subprocess.run(
        [sys.executable, "-m", "lamina.cli.main", *words, *where],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.spec("M7", "M11", "L5.8")
def test_what_one_process_was_asked_to_remember_the_next_one_knows(place: Place) -> None:
    told = lamina(
        place, "chat", "-p", "Remember that I deploy from the host pelican", "--model", "none"
    )
    assert "Memory updated: " in told
    told = lamina(place, "chat", "-p", "From which host do I deploy?", "--model", "none")
    assert "pelican" in told
    shown = json.loads(lamina(place, "memory", "why", "--json"))
    [recall] = shown
    assert recall["question"] == "From which host do I deploy?"
    [candidate] = recall["candidates"]
    assert recall["picks"] == [candidate["path"]]
    assert candidate["parts"]["body"] > 0
    assert recall["uses"][candidate["path"]]["used"] is True


@pytest.mark.spec("M5", "M8", "L6.7")
def test_the_prompt_has_the_memory_section_and_the_reminder_has_instructions_and_the_date(
    place: Place,
) -> None:
    put(place, "project_staging.md", "The staging database runs on pelican")
    (directory(place) / "MEMORY.md").write_text("- [Staging](project_staging.md) — where it runs\n")
    (place.project / "AGENTS.md").write_text("Never push on Fridays.\n")
    today = f"{datetime.fromtimestamp(place.clock.at, UTC).astimezone():%Y-%m-%d}"

    async def story() -> None:
        async with place.open(["ok", "ok", "ok"]) as session:
            await session.ask("hello")
            view = session.view()
            [_, about] = [block["text"] for block in view.system]
            assert "[Staging](project_staging.md)" in about
            assert str(directory(place)) in about
            assert not any(today in block["text"] for block in view.system)
            first = view.messages[0]["content"][0]["text"]
            assert first.startswith("<system-reminder>")
            assert "Never push on Fridays." in first
            assert f"{today}." in first
            assert said(session).count("Today is") == 1
            await session.ask("thanks")
            place.clock.at += 86_400
            await session.ask("good morning")
            assert said(session).count("It is a new day") == 1
            name = session.id
            system = session.view().system
        async with place.open(["ok"], session_id=name) as session:
            await session.ask("hello")
            assert list(session.view().system) == list(system), "resume never renders it again"
            assert said(session).count("Today is") == 1

    run(story)


@pytest.mark.spec("M8", "L4.3")
def test_a_compaction_brings_the_instructions_back_with_the_date_of_today(place: Place) -> None:
    (place.project / "AGENTS.md").write_text("Never push on Fridays.\n")
    long = "I looked at many things, and here is what they were. " * 800

    async def story() -> None:
        model = ScriptedModel([long] * 4, otherwise={"*": "no"})
        async with place.open(model) as session:
            for _ in range(4):
                await session.ask("go on with it")
            await session.compact()
            assert said(session).count("Never push on Fridays.") == 1

    run(story)


@pytest.mark.spec("M11")
def test_use_is_counted_and_kept_beside_the_memories(place: Place) -> None:
    put(place, "project_staging.md", "The staging database runs on the host pelican")
    question = "which host has the staging database?"

    async def story() -> None:
        model = ScriptedModel([Step("It runs on pelican."), Step("I can't say.")])
        async with place.open(model) as session:
            await session.ask(question)
            [use] = kinds(session, "recall_use")
            assert use["uses"]["project_staging.md"]["used"] is True
            assert "pelican" in use["uses"]["project_staging.md"]["words"]
        async with place.open(model) as session:
            await session.ask(question)
            [use] = kinds(session, "recall_use")
            assert use["uses"]["project_staging.md"]["used"] is False
            index = session.state.deps.memory_index
            assert index is not None
            uses = index.store.state / USES_FILE
            counted = json.loads(uses.read_text())["project_staging.md"]
            assert (counted["count"], counted["shown"]) == (1, 2)
            uses.unlink()
            [hit] = index.search(question, 5, now=place.clock.at)
            assert hit.parts["use"] > 0

    run(story)


@pytest.mark.spec("M5", "F12")
def test_a_compaction_renders_the_section_again_and_breaks_no_cache_unannounced(
    place: Place,
) -> None:
    long = "I looked at many things, and here is what they were. " * 800

    async def story() -> None:
        model = ScriptedModel([*[long] * 4, "ok", "ok"], otherwise={"*": "no"})
        broken: list[object] = []
        async with place.open(model) as session:
            for _ in range(4):
                await session.ask("go on with it")
            by_hand(directory(place) / "MEMORY.md", "- [New](new.md) — a new line\n")
            assert "a new line" not in str(session.view().system)
            await session.compact()
            assert "a new line" in str(session.view().system)
            for words in ("and now", "once more"):
                reply = await session.ask(words)
                broken += [e for e in reply.events if e.kind == "cache_broke" and not e.registered]
        assert broken == []

    run(story)


@pytest.mark.spec("M8", "F13")
def test_a_folder_that_may_not_be_read_gives_no_instructions(place: Place) -> None:
    folder = place.project / "secret"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Handlers never log bodies.\n")
    (folder / "key").write_text("k\n")

    async def story() -> None:
        steps = [use("Read", file_path="secret/key"), "ok"]
        async with place.open(steps, config={"permissions.deny": ["Read(secret/**)"]}) as session:
            await session.ask("look at the key")
            assert "never log bodies" not in said(session)

    run(story)


@pytest.mark.spec("M8")
def test_instructions_of_a_folder_come_when_a_file_in_it_is_read_once_and_after_a_resume(
    place: Place,
) -> None:
    folder = place.project / "api"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Handlers never log bodies.\n")
    (folder / "a.py").write_text("a = 1\n")

    async def story() -> None:
        read = use("Read", file_path="api/a.py")
        async with place.open([read, read, "ok"]) as session:
            await session.ask("look at the handler")
            assert said(session).count("Handlers never log bodies.") == 1
            name = session.id
        async with place.open([read, "ok"], session_id=name) as session:
            assert any("never log bodies" in words for words in session.state.standing)
            await session.ask("look again")
            assert said(session).count("Handlers never log bodies.") == 1

    run(story)
