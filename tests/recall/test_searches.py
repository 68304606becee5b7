"""Searching on request: memories and past sessions, Lamina's own and Claude Code's."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.memories import put
from tests.sessions import Place, run, use

from lamina.ledger.places import slug
from lamina.memory.file_store import FileStore
from lamina.models.scripted import Step
from lamina.recall.searches import fitting
from lamina.recall.shelf import Shelf
from lamina.tools.recall import Recall, Remembered


@pytest.mark.spec("M7")
def test_in_claude_mode_the_tool_recall_also_knows_claude_codes_sessions(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.home = tmp_path / ".claude"
    theirs = place.home / "projects" / slug(place.project)
    theirs.mkdir(parents=True)
    rows = [("user", "our mascot is a walrus called Wendell"), ("assistant", "A fine name.")]
    (theirs / "abc.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "type": who,
                    "uuid": who,
                    "timestamp": "2026-02-06T09:24:39.425Z",
                    "message": {"role": who, "content": said},
                }
            )
            + "\n"
            for who, said in rows
        )
    )

    async def story() -> None:
        call = use("Recall", query="what is our mascot called?", where="sessions")
        steps = [Step(call), Step("Wendell.", {"contains": "walrus called Wendell"})]
        async with place.open(steps) as session:
            assert session.config.claude
            reply = await session.ask("who is our mascot?")
            assert reply.text == "Wendell."

    run(story)
    assert [file.name for file in theirs.iterdir() if file.suffix != ""] == ["abc.jsonl"]


@pytest.mark.spec("M7")
def test_a_memory_that_went_since_the_index_knew_it_is_left_out(tmp_path: Path) -> None:
    place = Place(tmp_path)
    file = put(place, "walrus.md", "our mascot is a walrus")
    put(place, "walrus_food.md", "the walrus eats clams")
    shelf = Shelf(FileStore(file.parent))
    assert len(fitting(shelf, "walrus", 5, 0.0)) == 2
    found = shelf.search

    def goes_meanwhile(*args: object, **more: object):
        hits = found(*args, **more)  # type: ignore[arg-type]
        file.unlink()
        return hits

    shelf.search = goes_meanwhile
    assert [memory.path for _, memory in fitting(shelf, "walrus", 5, 0.0)] == ["walrus_food.md"]


@pytest.mark.spec("M7")
def test_a_cancelled_turn_does_not_wait_for_a_search_of_the_tool() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow(query: str, limit: int) -> list[Remembered]:
        begun.set()
        may_end.wait(60)
        return []

    async def story() -> None:
        tool = Recall(slow, slow)
        async with anyio.create_task_group() as group:
            group.start_soon(tool.run, {"query": "walrus"}, None)
            await anyio.to_thread.run_sync(begun.wait)
            group.cancel_scope.cancel()
        assert not may_end.is_set()
        may_end.set()

    run(story)
