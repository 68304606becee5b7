"""`lamina wrap` (I7): the agent's command line and environment are changed, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamina.cli.main import main

pytestmark = pytest.mark.spec("I7")
Started = dict[str, Any]  # how a program was started: args, env
PROGRAM = """#!{python}
import json, os, sys
json.dump(dict(args=sys.argv[1:], env=dict(os.environ)), open({out!r}, "w"))
sys.exit(7)
"""


@pytest.fixture
def wrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Started]:
    """Starts an agent that only writes down how it was started."""
    out = tmp_path / "started.json"
    for name in ("bin", "work", "home"):
        (tmp_path / name).mkdir()
    for name in ("claude", "codex", "gemini", "opencode"):
        program = tmp_path / "bin" / name
        program.write_text(PROGRAM.format(python=sys.executable, out=str(out)))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "CODEX_HOME", "OPENCODE_CONFIG_CONTENT"):
        monkeypatch.delenv(name, raising=False)

    def run(client: str, *words: str) -> Started:
        where = ["--project", str(tmp_path / "work"), "--home", str(tmp_path / "lamina")]
        assert main(["wrap", client, *where, *words]) == 7, "the agent's own"
        assert not list((tmp_path / "home").iterdir()), "nothing of the user's is touched"
        assert not list((tmp_path / "work").iterdir())
        return json.loads(out.read_text())

    return run


def served(started: Started) -> list[str]:
    """The command of the MCP server that an agent was given; []: none."""
    args, env = started["args"], started["env"]
    inline = json.loads(env.get("OPENCODE_CONFIG_CONTENT", "{}")).get("mcp", {})
    for word in args:
        if word.startswith("--mcp-config="):
            inline = json.loads(word.partition("=")[2])["mcpServers"]
        if word.startswith("mcp_servers."):
            inline = tomllib.loads(word)["mcp_servers"]
    if not inline:
        return []
    (one,) = inline.values()
    assert list(inline) == ["lamina_results"]
    command = one["command"]
    return command if isinstance(command, list) else [command, *one["args"]]


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ("claude", ["-p", "Go on."]),
        ("codex", ["exec", "Go on."]),
        ("opencode", ["run", "--model", "openai/gpt-5.2"]),
    ],
)
def test_an_agent_gets_the_gateway_and_with_act_a_tool_for_what_is_left_out(
    wrap: Callable[..., Started], client: str, words: list[str]
) -> None:
    plain = wrap(client, "--", *words)
    assert plain["args"][-len(words) :] == words
    assert "http://127.0.0.1:" in json.dumps(plain)
    assert served(plain) == []
    acting = wrap(client, "--act", "--", *words)
    assert acting["args"][-len(words) :] == words
    command = served(acting)
    assert command[:4] == [sys.executable, "-P", "-m", "lamina.cli.main"]
    assert command[4:7] == ["mcp", "--only", "expand"]
    if client == "claude":
        assert "--allowedTools=mcp__lamina_results__expand" in acting["args"]


def test_an_agent_that_takes_no_server_on_its_command_line_may_read_the_folder(
    wrap: Callable[..., Started],
) -> None:
    assert served(started := wrap("gemini", "--act", "--", "-p", "Go on.")) == []
    assert "/conversations" in "".join(started["args"])


def test_a_command_of_the_agent_s_own_that_is_no_session_gets_no_options(
    wrap: Callable[..., Started],
) -> None:
    assert wrap("claude", "--act", "--", "mcp", "list")["args"] == ["mcp", "list"]


def test_claude_code_keeps_tool_search_and_the_large_window_before_its_own_provider_only(
    wrap: Callable[..., Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("ENABLE_TOOL_SEARCH", "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL")
    for name in names:
        monkeypatch.delenv(name, raising=False)

    def given(*words: str) -> list[str | None]:
        env = wrap("claude", *words)["env"]
        return [env.get(name) for name in names]

    assert given() == ["true", "1"]
    assert given("--upstream", "http://127.0.0.1:9") == [None, None], "it may know neither"
    monkeypatch.setenv("ANTHROPIC_MODEL", "opus[1m]")
    monkeypatch.setenv(names[0], "auto:5")
    monkeypatch.setenv(names[1], "0")
    assert given() == ["auto:5", "0"], "the user's own"
    assert wrap("claude")["env"]["ANTHROPIC_MODEL"] == "opus[1m]"


def test_requests_of_our_own_are_announced_before_the_agent_has_the_screen(
    wrap: Callable[..., Started], capsys: pytest.CaptureFixture[str]
) -> None:
    for words, told in ((["--act"], False), (["--act", "--lifetime"], True)):
        wrap("claude", *words)
        assert ("may send requests of its own" in capsys.readouterr().err) == told


def test_the_server_that_an_agent_starts_runs_no_code_of_the_project(
    wrap: Callable[..., Started], tmp_path: Path
) -> None:
    command = served(wrap("claude", "--act"))
    for name in ("lamina", "json"):
        (tmp_path / "work" / name).mkdir()
        (tmp_path / "work" / name / "__init__.py").write_text("raise SystemExit('not ours')")
    asked = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    cwd = tmp_path / "work"
    done = subprocess.run(command, input=asked, cwd=cwd, capture_output=True, check=False)
    assert json.loads(done.stdout)["result"] == {}, done.stderr


@pytest.mark.parametrize("client", ["claude", "codex", "opencode"])
def test_a_project_may_have_any_name(
    wrap: Callable[..., Started], tmp_path: Path, client: str
) -> None:
    project = tmp_path / 'it\'s a "good" one \\ é 🙂'
    project.mkdir()
    words = ["--", "run", "--model", "openai/gpt-5.2"] if client == "opencode" else []
    assert str(project) in served(wrap(client, "--act", "--project", str(project), *words))


def test_a_word_on_all_permissions_of_opencode_stays_the_users(
    wrap: Callable[..., Started], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "own.json"
    settings.write_text('{"model": "openai/gpt-5.2", "permission": "ask"}')
    monkeypatch.setenv("OPENCODE_CONFIG", str(settings))
    monkeypatch.setenv("OPENCODE_CONFIG_CONTENT", '{"mcp": {"own": {"type": "local"}}}')
    made = json.loads(wrap("opencode", "--act")["env"]["OPENCODE_CONFIG_CONTENT"])
    assert "permission" not in made, "ours, merged with it, would take its place"
    assert list(made["mcp"]) == ["own", "lamina_results"]
