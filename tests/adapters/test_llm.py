"""The plugin of the `llm` program (I1), with the real program in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.wire.server import Answer, WireServer

pytest.importorskip("llm", reason="needs llm: pip install 'lamina[llm]'")

from click.testing import CliRunner
from llm.cli import cli
from llm.plugins import load_plugins, pm

from lamina.adapters import llm_plugin

pytestmark = pytest.mark.spec("I1")
MODELS = "- model_id: wire\n  model_name: wire\n  api_base: {}\n  supports_tools: true\n"
QUESTION = "When do deploys happen?"
FACT = "Deploys never happen on Fridays."
ASK = ("-m", "wire", "--no-stream", "--no-log")


@pytest.fixture
def llm(wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program, with the plugin as its entry point loads it where Lamina is installed."""
    load_plugins()
    if not pm.is_registered(llm_plugin):
        pm.register(llm_plugin)
    if "lamina" not in cli.commands:
        llm_plugin.register_commands(cli)
    (tmp_path / "llm").mkdir()
    (tmp_path / "llm" / "extra-openai-models.yaml").write_text(MODELS.format(wire.openai_url))
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path / "llm"))
    monkeypatch.setenv("LAMINA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Any:
        return CliRunner().invoke(cli, words)

    assert run("lamina", "memory", "add", FACT).exit_code == 0
    return run


def test_memories_come_with_a_question_and_as_a_fragment(llm: Any, wire: WireServer) -> None:
    assert llm("lamina", "ask", *ASK, QUESTION).output == "ok\n"
    prompt = str(wire.received[-1].body["messages"])
    assert FACT in prompt
    assert QUESTION in prompt
    llm(*ASK, "-f", "lamina:What about tea?", "Tea?")
    assert "No memory says anything about that." in str(wire.received[-1].body["messages"])


def test_a_model_may_ask_for_memories_itself(llm: Any, wire: WireServer) -> None:
    call = {
        "type": "tool_use",
        "id": "c1",
        "name": "lamina_recall",
        "input": {"question": QUESTION},
    }
    wire.will(Answer([call]))
    assert llm(*ASK, "-T", "lamina_recall", "Deploys?").exit_code == 0
    assert FACT in wire.received[-1].body["messages"][-1]["content"]


def test_laminas_own_commands_are_there_with_their_exit_codes(llm: Any) -> None:
    assert FACT in llm("lamina", "memory", "list").output
    wrong = llm("lamina", "memory", "show", "nothing")
    assert (wrong.exit_code, wrong.output.count("\n")) == (1, 1)
