"""Made-up recordings: a Claude Code session line by line, and where the real data lies."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(1_700_000_000 + seconds, UTC).isoformat().replace("+00:00", "Z")


class Session:
    """Writes a session as Claude Code would."""

    def __init__(self, model: str = "claude-opus-4-5-20251101") -> None:
        self.lines: list[Json] = []
        self.model = model
        self.clock = 0.0
        self.last: str | None = None

    def _add(self, kind: str, parent: str | None, **fields: Any) -> str:
        uuid = f"u{len(self.lines)}"
        line = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s"}
        self.lines.append({**line, "timestamp": stamp(self.clock), **fields})
        self.last = uuid
        return uuid

    def user(self, content: Any, parent: str | None = "", **fields: Any) -> str:
        self.clock += 5
        message = {"role": "user", "content": content}
        at = self.last if parent == "" else parent
        return self._add("user", at, message=message, **fields)

    def answer(
        self,
        blocks: list[Json],
        usage: tuple[int, int, int] | None = (10, 0, 0),
        parent: str | None = "",
        name: str = "",
        **fields: Any,
    ) -> list[str]:
        """One line a block, all with the same id and usage (input, written, read)."""
        self.clock += 5
        name = name or f"msg{len(self.lines)}"
        made: list[str] = []
        for block in blocks:
            message: Json = {
                "role": "assistant",
                "id": name,
                "model": self.model,
                "content": [block],
            }
            if usage is not None:
                fresh, written, read = usage
                message["usage"] = {
                    "input_tokens": fresh,
                    "cache_creation_input_tokens": written,
                    "cache_read_input_tokens": read,
                    "output_tokens": 1 + len(made),
                    "cache_creation": {"ephemeral_1h_input_tokens": written},
                }
            at = self.last if parent == "" or made else parent
            made.append(self._add("assistant", at, message=message, **fields))
        return made

    def line(self, kind: str, parent: str | None = "", **fields: Any) -> str:
        return self._add(kind, self.last if parent == "" else parent, **fields)

    def text(self) -> str:
        return "".join(json.dumps(line) + "\n" for line in self.lines)


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    def write(
        content: str | bytes | Session | list[Any] | Json, name: str = "session.jsonl"
    ) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Session):
            content = content.text()
        elif isinstance(content, list | dict):
            content = json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def real_data() -> Path:
    data = Path(os.environ.get("LAMINA_DATA") or ROOT.parent / "shared" / "data")
    if not (data / "claude-code-sessions").is_dir():
        pytest.skip("the real recordings are not on this machine (LAMINA_DATA)")
    return data
