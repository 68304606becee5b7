"""The programs of docs/adapters.md run as printed, each against a model that knows what it is sent (I1)."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.wire.knowing import KnowingModel

import lamina

if TYPE_CHECKING:
    from tests.wire.server import WireServer

PAGE = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text("utf-8")
PROGRAMS = re.findall(r"<!-- run: (\w+) -->\n```(\w+)\n(.*?)```", PAGE, re.DOTALL)
PACKAGES = {"langchain": "langchain_openai", "openai_agents": "agents"}
LLM = """
import json, sys
from llm.plugins import load_plugins, pm
from llm.cli import cli
from lamina.adapters import llm_plugin
load_plugins()
pm.is_registered(llm_plugin) or pm.register(llm_plugin)
"lamina" in cli.commands or llm_plugin.register_commands(cli)
for words in json.loads(sys.argv[1]):
    try:
        cli.main(words[1:])
    except SystemExit as end:
        assert not end.code, words
"""
pytestmark = pytest.mark.spec("I1")


@pytest.mark.parametrize(("name", "kind", "program"), PROGRAMS, ids=[one[0] for one in PROGRAMS])
def test_a_program_of_an_adapter_runs_as_printed(
    name: str, kind: str, program: str, tmp_path: Path, wire: WireServer
) -> None:
    package = PACKAGES.get(name, name)
    pytest.importorskip(package, reason=f"needs {package}: make test-adapters")
    assert program.count("\n") <= 15
    with lamina.Memory(user="alice", home=tmp_path / "home") as memory:
        memory.remember("Deploys never happen on Fridays.")
    wire.rule = KnowingModel()
    if name == "llm":
        (tmp_path / "llm").mkdir()
        models = f"- model_id: wire\n  model_name: wire\n  api_base: {wire.openai_url}\n"
        (tmp_path / "llm" / "extra-openai-models.yaml").write_text(
            f"{models}  supports_tools: true\n"
        )
        (tmp_path / "llm" / "default_model.txt").write_text("wire")
    lines = [shlex.split(line) for line in program.splitlines()] if kind == "sh" else []
    done = subprocess.run(
        [sys.executable, "-c", LLM, json.dumps(lines)]
        if lines
        else [sys.executable, "-c", program],
        cwd=tmp_path,
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "LAMINA_HOME": str(tmp_path / "home"),
            "ANTHROPIC_BASE_URL": wire.anthropic_url,
            "ANTHROPIC_API_KEY": "none",
            "OPENAI_BASE_URL": wire.openai_url,
            "OPENAI_API_KEY": "none",
            "LLM_USER_PATH": str(tmp_path / "llm"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if name == "llm":
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("on Fridays") == 3, "two answers and the list"
    else:
        assert (done.returncode, done.stderr) == (0, "")


def test_every_adapter_has_a_program() -> None:
    modules = {path.stem for path in Path(lamina.__path__[0], "adapters").glob("*.py")}
    told = {"llm_plugin" if name == "llm" else name for name, _, _ in PROGRAMS}
    assert told == modules - {"__init__", "core"}
