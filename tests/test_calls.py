"""The model call of a turn: when it is made again, and when not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sessions import Place, run

from lamina.models.scripted import ScriptedModel
from lamina.ports import Capabilities


@pytest.mark.spec("F11")
def test_an_answer_that_used_all_the_room_there_is_goes_on_at_once(tmp_path: Path) -> None:
    cut = {"text": "The first part, ", "stop_reason": "max_tokens", "usage": {"output": 500}}
    model = ScriptedModel([cut, "the end."], capabilities=Capabilities(max_output=500))

    async def story() -> None:
        async with Place(tmp_path).open(model) as session:
            reply = await session.ask("a long story")
            assert reply.text == "The first part, the end."
            hows = [e.how for e in reply.events if e.kind == "output_continued"]
            assert hows == ["continued"]

    run(story)
