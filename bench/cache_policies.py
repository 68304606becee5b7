"""The peers of the cache benchmark as replay policies: their environment is made when first needed, each
runs there in a process of its own, and what it sent is replayed and costed like any other policy.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figures import ROOT

from lamina.messages import Message, text
from lamina.replay.recording import Recording
from lamina.replay.run import RecordedTurn, Sent

ENVIRONMENT = ROOT / ".venv-bench"
APART = {"openhands": ("cache_openhands.py", ROOT / ".venv-bench-openhands", "openhands-sdk>=1.58")}


def peer_python() -> str | None:
    """The interpreter of the peers' environment (LAMINA_BENCH_PYTHON names another); None: it can't
    be made here.
    """
    if given := os.environ.get("LAMINA_BENCH_PYTHON"):
        return given
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extra = wanted["project"]["optional-dependencies"]["bench"]
    peers = [line for line in extra if not line.startswith("lamina")]
    return _environment(ENVIRONMENT, sys.executable, peers)


def apart_python(name: str) -> str | None:
    """The interpreter for a peer that needs a newer Python than ours (LAMINA_BENCH_OPENHANDS_PYTHON
    names another); None: there is none here."""
    if given := os.environ.get(f"LAMINA_BENCH_{name.upper()}_PYTHON"):
        return given
    _, folder, package = APART[name]
    newer = (shutil.which(f"python3.{minor}") for minor in (12, 13, 14))
    for python in filter(None, (sys.executable if sys.version_info >= (3, 12) else None, *newer)):
        if made := _environment(folder, python, [package]):
            return made
    return None


def _environment(folder: Path, base: str, packages: Sequence[str]) -> str | None:
    """An environment with these packages, made when first asked for; None: it can't be."""
    python, done = folder / "bin" / "python", folder / ".installed"
    if done.exists():
        return str(python)
    print(f"Installing {', '.join(packages)} into {folder.name} …", file=sys.stderr)
    steps = (
        [base, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages],
    )
    for step in steps:
        if subprocess.run(step, check=False).returncode:
            return None
    done.touch()
    return str(python)


class PeerPolicy:
    """Sends what a peer sent on the same conversation."""

    def __init__(self, name: str, recording: Recording, value: Any) -> None:
        self.name = name
        self._recording = recording
        self._made: dict[Any, Message] = {}
        self.seconds: list[float] = value["seconds"]
        self._sent: list[list[list[Any]]] = value["sent"]

    def send(self, turn: RecordedTurn) -> Sent:
        parts = self._sent[turn.number] if turn.number < len(self._sent) else []
        return Sent(self._messages(parts))

    def _messages(self, parts: Sequence[list[Any]]) -> list[Message]:
        """Blocks of one recorded message side by side are one message again."""
        messages: list[Message] = []
        group: list[list[Any]] = []
        for part in [*parts, ["end of all"]]:
            if group and (len(part) == 1 or part[0] != group[0][0]):
                messages.append(self._message(group))
                group = []
            if len(part) > 1:
                group.append(part)
            elif part != ["end of all"]:
                key = part[0]
                words = self._made.setdefault(key, {"role": "user", "content": [text(part[0])]})
                messages.append(words)
        return messages

    def _message(self, group: list[list[Any]]) -> Message:
        original = self._recording.messages[group[0][0]].message
        whole = group[0][1] == -1 or len(group) == len(original["content"])
        if whole and all(len(part) == 2 for part in group):
            return original
        key = json.dumps(group)
        if key not in self._made:
            content = [self._block(original, part) for part in group if part[1] >= 0]
            self._made[key] = {**original, "content": content or original["content"]}
        return self._made[key]

    @staticmethod
    def _block(original: Message, part: list[Any]) -> dict[str, Any]:
        block = original["content"][part[1]]
        if len(part) == 2:
            return block
        field = "content" if block.get("type") == "tool_result" else "text"
        return {**block, field: part[2]}


def sent_by(name: str, recordings: Sequence[Recording], python: str) -> list[Any]:
    """What the peer sent in each of the recordings: one process for all of them."""
    conversations = [_conversation(recording) for recording in recordings]
    with tempfile.TemporaryDirectory(prefix="lamina-bench-") as folder:
        source, target = Path(folder) / "in.json", Path(folder) / "out.json"
        source.write_text(json.dumps(conversations), "utf-8")
        script, *_ = APART.get(name.partition(" ")[0], ("cache_peers.py",))
        # -P: the folder of the script has an `agents` of ours, which is not the peer's package.
        script = str(Path(__file__).with_name(script))
        subprocess.run([python, "-P", script, name, str(source), str(target)], check=True)
        return json.loads(target.read_text("utf-8"))


def _conversation(recording: Recording) -> dict[str, Any]:
    requests: list[list[int]] = []
    held: dict[str, list[int]] = {}
    for step in recording.steps():
        path = held.setdefault(step.request.thread, [])
        del path[step.keep :]
        path.extend(step.new)
        requests.append(list(path))
    return {"messages": [entry.message for entry in recording.messages], "requests": requests}
