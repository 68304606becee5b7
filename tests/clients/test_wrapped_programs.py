"""Real coding agents behind the gateway (I7): `lamina wrap` starts them as they come from npm, with a dummy
key and our own model server as the address that they have already. `make test-clients` runs this.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.clients.model_server import LAST_CALL, ModelServer
from tests.clients.test_real_programs import LAMINA, PROGRAMS, write_settings

from lamina.replay.readers import read_recording

pytestmark = [
    pytest.mark.clients,
    pytest.mark.spec("I7"),
    pytest.mark.skipif(not PROGRAMS.is_dir(), reason="run `make test-clients`; it needs npm"),
]
LONG = "".join(f"{number:09}\n" for number in range(20_000))  # 200,000 bytes

PROMPT = "Read the notes."
COMMANDS = {
    "claude": ("--model", "claude-sonnet-4-6", "--allowedTools", "Read", "-p", PROMPT),
    "codex": (
        *("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT),
    ),
    "gemini": ("--skip-trust", "-m", "gemini-2.5-pro", "-y", "-p", PROMPT),
    "opencode": ("run", PROMPT),
}
READS = {
    "claude": ("Read", "file_path", ""),
    "codex": ("exec_command", "cmd", "cat "),
    "gemini": ("read_file", "file_path", ""),
    "opencode": ("read", "filePath", ""),
}

# How a program calls our tool that brings back what was left out; the others read a file.
EXPANDS = {
    "claude": "mcp__lamina_results__expand",
    "codex": "mcp__lamina_results__expand",
    "opencode": "lamina_results_expand",
}


class Machine:
    """One person's, with the agents' settings on it."""

    def __init__(self, place: Path, server: ModelServer, url: str = "") -> None:
        self.home, self.project, self.server = place / "home", place / "shop", server
        url = url or server.url
        self.home.mkdir()
        self.project.mkdir()
        (self.project / "notes.txt").write_text("The pelican lands at noon.\n")
        write_settings(self.home, self.project, url)
        self.environment = {
            "HOME": str(self.home),
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "LAMINA_HOME": str(place / "lamina"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "dummy-key",
            "DUMMY_KEY": "dummy-key",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_API_KEY": "dummy-key",
            **dict.fromkeys(
                (
                    "OPENCODE_DISABLE_MODELS_FETCH",
                    "OPENCODE_DISABLE_AUTOUPDATE",
                    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
                ),
                "1",
            ),
        }

    def settings(self) -> dict[str, bytes]:
        names = (".claude/settings.json", ".codex/config.toml", ".gemini/settings.json")
        files = [self.project / "opencode.json", *(self.home / name for name in names)]
        return {str(one): one.read_bytes() for one in files}

    def run(self, *command: str) -> tuple[str, str]:
        """What it printed: into files, since some programs don't wait for a pipe to take it all."""
        place = self.home.parent
        with (place / "out").open("w+") as out, (place / "err").open("w+") as err:
            done = subprocess.run(
                command,
                cwd=self.project,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=240,
                check=False,
            )
        printed = (place / "out").read_text("utf-8"), (place / "err").read_text("utf-8")
        assert done.returncode == 0, f"{printed[0][-2_000:]} {printed[1][-2_000:]}"
        return printed


@pytest.mark.parametrize("name", COMMANDS)
def test_a_program_works_behind_the_gateway_as_without_it(name: str, tmp_path: Path) -> None:
    with ModelServer() as server:
        machine = Machine(tmp_path, server)
        server.words = LONG
        tool, argument, prefix = READS[name]
        reads = (tool, {argument: f"{prefix}{machine.project / 'notes.txt'}"})

        server.plan[:] = [reads]
        direct, _ = machine.run(name, *COMMANDS[name])
        count = len(server.requests)
        before = machine.settings()  # a program itself may have written to them
        server.plan[:] = [reads]
        if name in EXPANDS:
            server.plan.append((EXPANDS[name], {"id": LAST_CALL}))
        wrapped, told = machine.run(LAMINA, "wrap", name, "--act", "--", *COMMANDS[name])

        assert not server.plan
        assert json.dumps(server.requests[-1]).count("pelican") == 1 + (name in EXPANDS)
        assert len(server.requests) == 2 * count + (name in EXPANDS)
        assert "billed" in told
        said = [hashlib.sha256(done.encode()).hexdigest() for done in (direct, wrapped)]
        assert said[0] == said[1]
        assert len(wrapped) >= len(LONG) - 1
        assert machine.settings() == before
        files = [one for one in (tmp_path / "lamina").rglob("*") if one.is_file()]
        assert not [one for one in files if b"dummy-key" in one.read_bytes()]
        (ledger,) = (tmp_path / "lamina").glob("projects/*/conversations/*.jsonl")
        assert read_recording(ledger).requests


@pytest.mark.parametrize("name", COMMANDS)
def test_a_program_shows_the_gateway_s_token_in_its_base_url(name: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    with ModelServer() as server:
        words = ["--host", "0.0.0.0", "--port", "0", "--token-file", str(token)]
        command = [LAMINA, "gateway", "--act", *words, "--upstream", server.url]
        own = {**os.environ, "LAMINA_HOME": str(tmp_path / "lamina")}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own) as gateway:
            assert gateway.stdout is not None
            port = gateway.stdout.readline().strip().rpartition(":")[2]
            tool, argument, prefix = READS[name]
            url = f"http://127.0.0.1:{port}/t/{token.read_text()}"
            machine = Machine(tmp_path, server, url)
            server.plan[:] = [(tool, {argument: f"{prefix}{machine.project / 'notes.txt'}"})]
            said, _ = machine.run(name, *COMMANDS[name])
            gateway.terminate()
    assert "Done." in said
    assert "pelican" in json.dumps(server.requests[-1])
    files = [one for one in (tmp_path / "lamina").rglob("*") if one.is_file()]
    assert list((tmp_path / "lamina").glob("projects/*/conversations/*.jsonl"))
    assert not [one for one in files if token.read_bytes() in one.read_bytes()]
