"""Ways into a store that `trust_whole` tries beside its writes: records of other clients, the gateway's wire, a
client's hook with the MCP server, the server alone, and an import. Each says whether the words got in as typed."""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from lamina.cli.main import main as lamina
from lamina.conversation.entries import entries_of
from lamina.integrations.hook_events import Events
from lamina.integrations.mcp_calls import Calls
from lamina.ledger.record import Ledger, blocks_of_entry
from lamina.messages import Json
from lamina.replay.agent_sessions import AgentSession, _claude, _opencode, _origin, _recorded
from lamina.text.origins import typed_parts

_AT = "2026-11-19T12:00:00Z"


def recorded(said: str, says: str, client: str, flags: Json, event: str) -> bool:
    """Does the copy of a client's record call it typed?"""
    write, read = _CLIENTS[client]
    with tempfile.TemporaryDirectory() as folder:
        source = write(Path(folder), said, flags, event)
        found = [*read(AgentSession(client, "s", source, 0.0, "/x"))]
    typed = [
        ("typed", str(block.get("text")))
        for role, content, _ in found
        for block in content
        if _origin(role, block) == "typed"
    ]
    return any(says in part for part in typed_parts(typed))  # pyright: ignore[reportArgumentType]


def _lines(file: Path, lines: Sequence[Json]) -> Path:
    file.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return file


def _claude_file(folder: Path, said: str, flags: Json, _event: str) -> Path:
    around = {"type": "user", "uuid": "u", "sessionId": "s", "version": "2.1.0", "cwd": "/x", "timestamp": _AT}  # fmt: skip
    message = {"role": "user", "content": said}
    return _lines(folder / "s.jsonl", [{**around, **flags, "message": message}])


def _codex_file(folder: Path, said: str, _flags: Json, event: str) -> Path:
    content = [{"type": "input_text", "text": said}]
    rows: list[tuple[str, Json]] = [("session_meta", {"id": "s", "cwd": "/x"})]
    if event == "other":
        rows.append(("event_msg", {"type": "user_message", "message": "hello"}))
    rows.append(("response_item", {"type": "message", "role": "user", "content": content}))
    lines = [{"timestamp": _AT, "type": kind, "payload": payload} for kind, payload in rows]
    return _lines(folder / "rollout-x-s.jsonl", lines)


def _gemini_file(folder: Path, said: str, _flags: Json, _event: str) -> Path:
    head = {"sessionId": "s", "kind": "main", "projectHash": "0" * 64}
    user = {"id": "1", "timestamp": _AT, "type": "user", "content": [{"text": said}]}
    return _lines(folder / "session-1.jsonl", [head, user])


def _pi_file(folder: Path, said: str, flags: Json, _event: str) -> Path:
    head = {"type": "session", "version": 3, "id": "s", "cwd": "/x", "timestamp": _AT}
    message = {"role": "user", "content": [{"type": "text", "text": said}]}
    about = {"type": "message", "id": "a", "parentId": None, "timestamp": _AT}
    return _lines(folder / "s.jsonl", [head, {**about, "message": message, "summary": said, **flags}])  # fmt: skip


def _opencode_file(folder: Path, said: str, flags: Json, _event: str) -> Path:
    path = folder / "opencode.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            "CREATE TABLE session (id, directory, parent_id, time_created, time_updated);"
            "CREATE TABLE message (id, session_id, time_created, data);"
            "CREATE TABLE part (id, message_id, session_id, time_created, data);"
        )
        database.execute("INSERT INTO session VALUES ('s', '/x', NULL, 1, 1)")
        about = json.dumps({"role": "user", "time": {"created": 1}})
        database.execute("INSERT INTO message VALUES ('m', 's', 1, ?)", (about,))
        part = json.dumps({"type": "text", "text": said, **flags})
        database.execute("INSERT INTO part VALUES ('p', 'm', 's', 1, ?)", (part,))
    return path


_CLIENTS: dict[str, tuple[Callable[..., Path], Callable[..., Any]]] = {
    "claude": (_claude_file, _claude),
    "codex": (_codex_file, _recorded),
    "gemini": (_gemini_file, _recorded),
    "pi": (_pi_file, _recorded),
    "opencode": (_opencode_file, _opencode),
}


def on_the_wire(said: str, says: str) -> bool:
    """Does the gateway call it typed?"""
    asked: Json = {"role": "user", "content": [{"type": "text", "text": said}]}
    blocks = [one for entry, _ in entries_of([asked], Ledger.of()) for one in blocks_of_entry(entry)]  # pyright: ignore[reportArgumentType]  # fmt: skip
    return any(says in part for part in typed_parts(blocks))


class OnDisk:
    """A memory directory, to be looked at."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def content(self, path: str) -> bytes | None:
        file = self.directory / path
        return file.read_bytes() if file.is_file() else None


def by_mcp(folder: Path, prompt: str, wanted: Json) -> list[OnDisk]:
    """`remember` of the MCP server, after a hook saw a prompt ("": no hook is set up)."""
    home, project = folder / "home", folder / "shop"
    project.mkdir()
    if prompt:
        event = {"hook_event_name": "UserPromptSubmit", "prompt": prompt, "session_id": "s", "cwd": str(project)}  # fmt: skip
        events = Events()
        events.answer({"client": "claude-code", "home": str(home), "claude": False, "event": event})
        events.due.append(
            {"client": "claude-code", "home": str(home), "claude": False, "event": event}
        )
        events.afterwards()
    calls = Calls(str(project), str(home))
    calls.call("remember", wanted)
    calls.close()
    return _memories(home)


def imported(folder: Path, form: str, kind: str, body: str) -> list[OnDisk]:
    """`lamina memory import` without --mine."""
    home, project, source = folder / "home", folder / "shop", folder / "there"
    project.mkdir()
    head = {"name": body, "description": body, "type": kind}
    match form:
        case "folder":
            source.mkdir()
            front = "".join(f"{key}: {value}\n" for key, value in head.items())
            (source / f"{kind}_topic.md").write_text(f"---\n{front}---\n\n{body}\n", "utf-8")
        case "mem0":
            source.write_text(json.dumps([{"memory": body, "metadata": head}]), "utf-8")
        case "json":
            row = {**head, "body": body, "path": f"{kind}_topic.md"}
            source.write_text(json.dumps({"memories": [row]}), "utf-8")
        case _:
            source = folder / "AGENTS.md"
            source.write_text(f"# Rules\n\n- {body}\n", "utf-8")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        lamina(["--home", str(home), "--project", str(project), "memory", "import", str(source)])
    return _memories(home)


def _memories(home: Path) -> list[OnDisk]:
    return [OnDisk(one) for one in home.rglob("memory") if one.is_dir()]
