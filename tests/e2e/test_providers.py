"""A whole session through the official packages against a server that speaks their wire formats."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.sessions import run
from tests.wire.server import Answer, WireServer, fails, says

from lamina.cli.main import main
from lamina.events import Warned
from lamina.ledger import joining
from lamina.session import Session


def _place(tmp_path: Path) -> tuple[Path, Path]:
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text("the answer is 42\n")
    return project, tmp_path / "home"


def _calls(name: str, input_: dict[str, Any]) -> Answer:
    return Answer(content=[{"type": "tool_use", "id": "call_1", "name": name, "input": input_}])


@pytest.mark.spec("F6", "F11", "I1")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_session_uses_a_tool_and_is_resumed_byte_for_byte(
    wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    project, home = _place(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.anthropic_url)
    monkeypatch.setenv("OPENAI_BASE_URL", wire.openai_url)
    wire.will(_calls("Read", {"file_path": "notes.txt"}), says("It is 42."), says("Still 42."))
    model = {"anthropic": "anthropic:claude-sonnet-4-6", "openai": "openai:gpt-5.4-mini"}[provider]
    options: dict[str, Any] = {"home": home, "config": {"memory.enabled": False}}

    async def story() -> None:
        async with Session.open(project, model, **options) as session:
            reply = await session.ask("What is the answer in notes.txt?")
            assert reply.text == "It is 42."
            before = joining.request_bytes(session.view())
        async with Session.open(project, model, resume=True, **options) as again:
            assert joining.request_bytes(again.view()) == before
            assert (await again.ask("And now?")).text == "Still 42."

    run(story)
    bodies = [received.body for received in wire.received]
    assert len(bodies) == 3
    assert "the answer is 42" in str(bodies[1]["messages"])
    if provider == "anthropic":
        marks = [str(body).count("cache_control") for body in bodies]
        assert all(1 <= count <= 4 for count in marks)
        assert bodies[2]["tools"] == bodies[0]["tools"]
        assert bodies[2]["system"] == bodies[0]["system"]


@pytest.mark.spec("F6", "I2")
@pytest.mark.parametrize(
    ("answer", "word", "code"),
    [
        (fails(401, "authentication_error", "invalid x-api-key"), "key", 2),
        (fails(404, "not_found_error", "model: nope"), "model", 2),
        (
            fails(
                400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"
            ),
            "longer than the model",
            1,
        ),
    ],
)
def test_the_command_line_tells_what_went_wrong_in_one_sentence(
    wire: WireServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    answer: Answer,
    word: str,
    code: int,
) -> None:
    project, home = _place(tmp_path)
    wire.will(answer, answer, answer)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.anthropic_url)
    monkeypatch.chdir(project)
    model = "anthropic:claude-sonnet-4-6"
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert main(["chat", "-p", "hi", "--model", model, "--home", str(home)]) == code
    said = capfd.readouterr().err
    assert "Traceback" not in said
    lines = [line for line in said.splitlines() if line.strip()]
    assert lines[-1].startswith("lamina: ")
    assert word in lines[-1]


SHOP = '''
from mcp.server import MCPServer
server = MCPServer("shop", instructions="Prices are in euros.")
@server.tool()
def price(item: str) -> int:
    """The price of an item."""
    return 12
server.run("stdio")
'''


@pytest.mark.spec("F7")
def test_an_mcp_server_of_the_settings_gives_its_tools_to_the_session(tmp_path: Path) -> None:
    from tests.sessions import Place, use

    from lamina.models.scripted import Step

    (tmp_path / "shop.py").write_text(SHOP)
    place = Place(tmp_path)
    config = {
        "mcp.servers": {"shop": {"command": sys.executable, "args": [str(tmp_path / "shop.py")]}},
        "mcp.wait_seconds": 60,
        "permissions.allow": ["mcp__shop__*"],
    }
    steps = [
        Step(
            use("mcp__shop__price", item="tea"),
            {"tools": ["mcp__shop__price"], "system": "Prices are in euros."},
        ),
        Step("twelve", {"last_result": "12"}),
    ]

    async def story() -> None:
        async with place.open(steps, config=config) as session:
            assert (await session.ask("what is tea?")).text == "twelve"

    run(story)


@pytest.mark.spec("F7")
def test_a_silent_mcp_server_holds_no_session_up_and_its_tools_join_once_it_answers(
    tmp_path: Path,
) -> None:
    from tests.sessions import Place
    from tests.tools.test_mcp_client import PLAIN

    from lamina.models.scripted import Step

    script, place = tmp_path / "shop.py", Place(tmp_path)
    servers = {"shop": {"command": sys.executable, "args": [str(script)]}}

    async def story() -> None:
        script.write_text("import sys; sys.stdin.read()")
        config = {"mcp.servers": servers, "mcp.wait_seconds": 0}
        async with place.open(["without"], config=config) as session:
            reply = await session.ask("what is tea?")
            assert reply.text == "without"
            said = [event.message for event in reply.events if isinstance(event, Warned)]
            assert any("shop has not answered yet" in words for words in said)
            assert not any("mcp__" in tool["name"] for tool in session.view().tools)
        script.write_text(PLAIN)
        steps = [Step("with", {"tools": ["mcp__shop__add"]})]
        config = {"mcp.servers": servers, "mcp.wait_seconds": 60}
        async with place.open(steps, config=config, session_id=session.id, resume=True) as session:
            assert (await session.ask("and now?")).text == "with"

    run(story)
