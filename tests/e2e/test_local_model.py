"""A whole session with a real local model: it chats, uses a tool under a JSON grammar, is resumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sessions import run

from lamina.events import Emit, Event, TextDelta
from lamina.ledger import joining
from lamina.messages import Request, Response
from lamina.models import open_model
from lamina.ports import Capabilities
from lamina.session import Session

MODEL = "gguf:smollm2"
PLAIN = {"memory.enabled": False, "turn.continuations": 0}
SHORT = {**PLAIN, "turn.max_calls": 1, "max_output": 16}


class Insisting:
    """The real model; the first call must use the named tool. Left alone, one this small would rather
    talk, and which tool it took would say nothing about the session.
    """

    def __init__(self, tool: str, **options: Any) -> None:
        self._model = open_model(MODEL, options=options)
        self._choices: Iterator[dict[str, Any]] = iter([{"type": "tool", "name": tool}])
        self.requests: list[Request] = []

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def capabilities(self) -> Capabilities:
        return self._model.capabilities

    async def complete(self, request: Request, emit: Emit) -> Response:
        self.requests.append(request)
        choice = next(self._choices, {"type": "none"})
        params = {**request.params, "tool_choice": choice}
        return await self._model.complete(replace(request, params=params), emit)

    async def close(self) -> None:
        await self._model.close()


@pytest.mark.model
@pytest.mark.spec("F6", "F11", "F4", "I1")
def test_a_session_chats_uses_a_tool_and_is_resumed(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text("the answer is 42\n")
    home = tmp_path / "home"

    async def story() -> None:
        heard: list[Event] = []
        model = Insisting("Read", max_output=160)
        async with Session.open(
            project, model, home=home, config=PLAIN, on_event=heard.append
        ) as session:
            reply = await session.ask("Read the file notes.txt")
            done = [event for event in reply.events if event.kind == "tool_finished"]
            assert [event.name for event in done] == ["Read"]
            assert reply.text
            streamed = "".join(e.text for e in heard if isinstance(e, TextDelta))
            assert streamed == reply.text
            assert reply.usage.input > 1_000
            assert not joining.calls_are_paired(session.view().messages)
            before = joining.request_bytes(session.view())
            name = session.id
            first, second = model.requests
            assert list(second.messages[: len(first.messages)]) == list(first.messages)

        async with Session.open(
            project, MODEL, home=home, session_id=name, resume=True, config=SHORT
        ) as again:
            assert joining.request_bytes(again.view()) == before
            said = await again.ask("Say hello.")
            assert said.stop in ("end_turn", "max_tokens", "max_calls")
            assert said.usage.output > 0
            assert joining.request_bytes(again.view()) != before
            assert not joining.calls_are_paired(again.view().messages)

    run(story)


@pytest.mark.model
@pytest.mark.spec("F3", "F6")
def test_a_local_model_answers_with_default_settings(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()

    async def story() -> None:
        async with Session.open(project, MODEL, home=tmp_path / "home") as session:
            frame = session.ledger.projection.frame
            assert frame is not None
            reply = await session.ask("Say hello.")
            assert reply.stop in ("end_turn", "max_tokens")
            assert reply.text
            # Counted by the model's own tokeniser: what the answer says of the prompt is a little
            # more, for the question, the date and the template.
            assert 0 <= reply.usage.input - frame["tokens"] < 500

    run(story)
