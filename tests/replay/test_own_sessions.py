"""Lamina's own sessions are replayed as if no layer had been at work in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.layers.test_tool_results import saying
from tests.sessions import StillClock, run, use
from tests.test_turn import Probe

from lamina.agents.runner import Order
from lamina.ledger import edits
from lamina.messages import Usage, text_of
from lamina.models.scripted import ScriptedModel, Step
from lamina.replay.readers import read_recording
from lamina.session import Session

pytestmark = pytest.mark.spec("I4")

LONG = "a line of output\n" * 5_000


def recorded(folder: Path) -> Path:
    """A session in which layer 1 moved a result to disk."""

    async def story() -> Path:
        model = ScriptedModel([use("Probe", "t1", n=1), "Done."])
        home, project = folder / "home", folder / "project"
        project.mkdir()
        async with Session.open(
            project, model, home=home, tools=[Probe(saying(LONG))], clock=StillClock()
        ) as session:
            await session.ask("Do it, please.")
            [path] = home.rglob(f"{session.id}.jsonl")
            return path

    return run(story)


def test_a_session_is_read_whole_with_its_system_prompt_and_tools(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    assert "persisted-output" in path.read_text()
    recording = read_recording(path)
    assert (recording.format, len(recording.requests)) == ("lamina", 2)
    assert not recording.skipped
    frame = recording.frames[recording.requests[0].frame]
    assert frame.system
    assert "Read" in {tool["name"] for tool in frame.tools}
    told = recording.context(recording.requests[1])[-1]["content"][0]
    assert text_of(told["content"]) == LONG
    assert {request.model for request in recording.requests} == {"scripted"}


@pytest.mark.spec("L7.2")
def test_its_agents_are_threads_of_their_own_and_a_fork_goes_on_from_its_parent(
    tmp_path: Path,
) -> None:
    async def story() -> Path:
        model = ScriptedModel(
            ["Hello.", Step("It is 8080.", purpose="agent"), Step("A part.", purpose="agent")]
        )
        project = tmp_path / "project"
        project.mkdir()
        config = {"agents.enabled": True}
        async with Session.open(project, model, home=tmp_path / "home", config=config) as session:
            await session.ask("hi")
            await session.agents.start(Order("Which port?", type="explore", name="eye"))
            await session.agents.start(Order("Look.", type="fork", name="twin"))
            [path] = session.folder.parent.glob(f"{session.id}.jsonl")
            return path

    recording = read_recording(run(story))
    main, eye, twin = recording.requests
    assert [one.thread for one in recording.requests] == ["", "agent eye", "agent twin"]
    assert not recording.skipped
    assert "Hello." not in str(recording.context(eye))
    assert "Which port?" in str(recording.context(eye))
    assert [*recording.context(twin)][: len([*recording.context(main)])] == [
        *recording.context(main)
    ]
    assert "Hello." in str(recording.context(twin))
    assert twin.frame == main.frame != eye.frame


def lines(*entries: dict[str, Any]) -> str:
    made = [
        {"uuid": f"u{n}", "ts": f"2026-01-01T00:00:{n:02}Z", **e} for n, e in enumerate(entries)
    ]
    return "".join(json.dumps(entry) + "\n" for entry in made)


def test_usage_counts_until_a_layer_changed_the_prompt(save: Callable[..., Path]) -> None:
    used = Usage(5, 7, 0, 900, 900)
    first = edits.answer([{"type": "text", "text": "one"}], used, model="claude-opus-4-6")
    path = save(
        lines(
            {"kind": "session", "session": "s"},
            edits.frame([{"type": "text", "text": "Be brief."}], [], "claude-sonnet-4-6", {}),
            edits.message("user", "go", "typed"),
            edits.request(None, "", "main", 1, 1),
            edits.request(None, "", "notes", 1, 1),
            first,
            edits.message("user", "again", "typed", compaction="u9"),
            edits.message("user", "on", "typed"),
            edits.replace([("u2", 0, {"type": "text", "text": "g"})], "l"),
            edits.answer([{"type": "text", "text": "two"}], used),
            {"kind": "dance"},
        )
    )
    recording = read_recording(path)
    one, two = recording.requests
    assert (one.usage, two.usage) == (used, None)
    assert recording.usage() == used + used  # what was billed is told all the same
    assert (one.model, two.model) == ("claude-opus-4-6", "claude-sonnet-4-6")
    assert (
        one.time + 6 == two.time
    )  # when it was sent; where that is not told, when it was answered
    assert (one.ttl, two.ttl) == (3600, 3600)
    said = [text_of(message["content"]) for message in recording.context(two)]
    assert said == ["go", "one", "on"]
    assert [(entry.where, entry.reason) for entry in recording.skipped] == [
        ("line 11", "unknown kind 'dance'")
    ]
