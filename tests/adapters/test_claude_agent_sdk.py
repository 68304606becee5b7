"""The Claude Agent SDK (I1): its real client and the program it brings, against a server of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from tests.adapters.conftest import FACT, QUESTION

import lamina

if TYPE_CHECKING:
    from tests.wire.server import WireServer

sdk: Any = pytest.importorskip(
    "claude_agent_sdk", reason="needs claude-agent-sdk: make test-adapters"
)

lamina_hooks: Any = pytest.importorskip("lamina.adapters.claude_agent_sdk").lamina_hooks
pytestmark = pytest.mark.spec("I1")


async def _ask(wire: WireServer, folder: Path, hooks: Any, *prompts: str) -> list[str]:
    """The requests that prompts of one session lead to."""
    env = {
        "ANTHROPIC_BASE_URL": wire.anthropic_url,
        "ANTHROPIC_API_KEY": "k",
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(folder / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    options = sdk.ClaudeAgentOptions(
        hooks=hooks, cwd=folder, env=env, model="claude-sonnet-4-6", tools=[], system_prompt="Hi."
    )
    before = len(wire.received)
    async with sdk.ClaudeSDKClient(options=options) as client:
        for words in prompts:
            await client.query(words)
            async for _ in client.receive_response():
                pass
    return [json.dumps(one.body["messages"]) for one in wire.received[before:]]


def test_the_real_program_is_told_what_fits_and_the_next_one_what_was_typed(
    wire: WireServer, home: Path, tmp_path: Path
) -> None:
    alice = lamina_hooks(user="alice", home=home, remember=True)
    first, second = anyio.run(
        _ask, wire, tmp_path, alice, "Please remember that I am allergic to peanuts.", QUESTION
    )
    assert "What you remember" in first
    assert second.count("What you remember") == 1, "the index comes once a session"
    assert f"\\n\\n{FACT}\\n" in second
    (third,) = anyio.run(_ask, wire, tmp_path, alice, "Any allergies? Peanuts?")
    assert "I am allergic to peanuts" in third
    bob = lamina_hooks(user="bob", home=home)
    (other,) = anyio.run(_ask, wire, tmp_path, bob, "Any allergies? Peanuts?")
    assert "I am allergic" not in other


def test_what_a_program_writes_is_nobodys_word(home: Path, tmp_path: Path) -> None:
    words = "Please remember that I am allergic to peanuts."
    event = {"session_id": "s", "cwd": str(tmp_path), "prompt": words}
    for remember, known in ((False, 1), (True, 2)):
        hooks = lamina_hooks(user="alice", home=home, remember=remember)
        anyio.run(hooks["UserPromptSubmit"][0].hooks[0], event, None, {})
        anyio.run(hooks["Stop"][0].hooks[0], event, None, {})
        anyio.run(hooks["UserPromptSubmit"][0].hooks[0], event, None, {})  # waits for the look
        with lamina.Memory(user="alice", home=home) as memory:
            assert len(memory.all()) == known


def test_after_a_compaction_what_was_shown_is_shown_again(home: Path, tmp_path: Path) -> None:
    hooks = lamina_hooks(user="alice", home=home)
    event = {"session_id": "s", "cwd": str(tmp_path), "prompt": QUESTION}

    def said() -> str:
        answer = anyio.run(hooks["UserPromptSubmit"][0].hooks[0], event, None, {})
        return answer.get("hookSpecificOutput", {}).get("additionalContext", "")

    first, again = said(), said()
    anyio.run(hooks["PreCompact"][0].hooks[0], event, None, {})
    assert (FACT in first, again, said()) == (True, "", first)


@pytest.mark.parametrize("event", [{}, {"session_id": 7, "cwd": "\0", "prompt": ["no"]}])
def test_an_event_of_another_shape_stops_nobody(event: Any, home: Path) -> None:
    hooks = lamina_hooks(home=home, remember=True)
    for moment in ("UserPromptSubmit", "Stop", "PreCompact"):
        assert anyio.run(hooks[moment][0].hooks[0], event, None, {}) == {}


def test_switched_off_there_are_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_DISABLED", "1")
    assert lamina_hooks(home=home) == {}
