"""The sessions that other coding agents recorded in a project, or in all, copied into the form of our own, so that
listing, showing, searching and extracting need to know one form only. An agent's files are only
read. A copy is derived and private to the user: it is made anew when its original has changed, and
goes when the original does. Prompts of sub-agents are a model's words; their sessions are left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from uuid import NAMESPACE_URL, uuid5

from lamina.config import Config
from lamina.errors import LaminaError, TranscriptError
from lamina.ledger import log
from lamina.ledger.places import find_project_folder, project_folder, slug
from lamina.machine import private_folder, write_private
from lamina.messages import Block, Json, as_object
from lamina.recall.transcripts import (
    began_in,
    claude_folders,
    claude_texts,
    is_aside,
    lines,
    value_of,
)
from lamina.replay.client_logs import open_opencode, read_opencode_session
from lamina.replay.files import read_whole
from lamina.replay.message_lists import ListReader
from lamina.replay.readers import is_claude_code, read_any
from lamina.replay.recording import Builder, as_blocks, moment_of
from lamina.text.origins import added_by_client

AGENTS = ("claude-code", "codex", "gemini", "opencode", "pi")
_FIRST_LINE = 1_000_000
_SAMPLE = 50  # lines that tell what a file is
_UNREAD = ".unread"  # beside an empty copy: why it is empty
_SESSION_ID = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


@dataclass(frozen=True, slots=True)
class AgentSession:
    """A session of another agent."""

    agent: str
    id: str
    source: Path
    changed: float
    project: str  # its directory; what the agent knows of it where it does not say


def copies(
    config: Config,
    agents: Sequence[str] = AGENTS,
    *,
    everywhere: bool = False,
    seconds: float = 10.0,
) -> tuple[list[Path], int, list[str]]:
    """Copies of other agents' sessions in this project (`everywhere`: in all), brought up to date newest
    first, how many there was no time for, and what can't be read, with the reason."""
    unread: list[str] = []
    sessions = _sessions(config, agents, unread, everywhere=everywhere)
    found = sorted(sessions, key=lambda one: -one.changed)
    until, late = time.monotonic() + seconds, 0
    made: list[Path] = []
    kept: set[Path] = set()
    for one in found:
        path = _path_of_copy(config, one)
        if path is None or path in kept:  # the newest of two with one name
            continue
        kept.add(path)
        if not _is_current(path, one):
            if time.monotonic() > until:
                late += 1
                continue
            _copy(config, one, path)
        if path.stat().st_size:
            made.append(path)
        elif (why := path.with_suffix(_UNREAD)).exists():
            unread.append(why.read_text("utf-8"))
    all_folders = (config.own_home / "projects").glob("*/other-agents")
    for folder in all_folders if everywhere else [_folder(config, config.project)]:
        for path in (one for agent in agents for one in folder.glob(f"{agent}/*.jsonl")):
            if path not in kept:
                path.unlink(missing_ok=True)
                path.with_suffix(_UNREAD).unlink(missing_ok=True)
    return made, late, unread


def _path_of_copy(config: Config, one: AgentSession) -> Path | None:
    """None: its file names a directory that can't be one, or any that somebody stands in."""
    if not one.project.startswith(("/", "~")):
        return None
    try:
        folder = _folder(config, _project_of(config, one))
    except (LaminaError, OSError, RuntimeError, ValueError):
        return None
    return folder / one.agent / f"{one.id}.jsonl"


def _project_of(config: Config, one: AgentSession) -> Path:
    return config.project if _is_here(config, one.project) else Path(one.project)


def _folder(config: Config, project: Path) -> Path:
    return find_project_folder(config.own_home, project) / "other-agents"


def _is_current(path: Path, one: AgentSession) -> bool:
    with suppress(OSError):
        return abs(path.stat().st_mtime - one.changed) < 0.001
    return False


def _copy(config: Config, one: AgentSession, path: Path) -> None:
    """An empty copy stands for a session in which nothing was said, or that can't be read: then the
    reason stands beside it."""
    why = path.with_suffix(_UNREAD)
    why.unlink(missing_ok=True)
    project_folder(config.own_home, _project_of(config, one))
    for folder in (path.parent.parent, path.parent):
        private_folder(folder)
    try:
        messages = _MESSAGES.get(one.agent, _recorded)(one)
        entries = [_entry(one.id, number, *said) for number, said in enumerate(messages)]
    except (LaminaError, OSError) as error:
        entries = []
        write_private(why, str(error).encode("utf-8", "replace"))
    write_private(path, b"".join(log.encode(entry) + b"\n" for entry in entries))
    os.utime(path, (one.changed, one.changed))


def _entry(session: str, number: int, role: str, said: Sequence[Block], when: float) -> Json:
    """With an id that is the same in every copy: memories name the words that they come from."""
    return {
        "kind": "message",
        "role": role,
        "uuid": str(uuid5(NAMESPACE_URL, f"{session}/{number}")),
        "ts": datetime.fromtimestamp(when, UTC).isoformat(),
        "content": list(said),
        "origins": [_origin(role, block) for block in said],
    }


def _origin(role: str, block: Block) -> str:
    if block.get("type") == "tool_result":
        return "tool"
    if role == "assistant":
        return "assistant"
    return "system" if block.get("origin") == "system" else "typed"


# ---- what was said in one


_Said = Iterator[tuple[str, "Sequence[Block]", float]]


def _recorded(one: AgentSession) -> _Said:
    recording = read_any(one.source)
    if not recording.messages and recording.skipped:
        raise TranscriptError(f"{one.source}: {recording.skipped[0].reason}")
    for said in recording.messages:
        content = [as_object(block) for block in said.message["content"]]
        if said.summary:
            content = [{**block, "origin": "system"} for block in content]
        yield said.message["role"], content, said.time


def _opencode(one: AgentSession) -> _Said:
    builder = Builder(str(one.source), "opencode")
    read_opencode_session(one.source, one.id, ListReader(builder))
    for said in builder.messages:
        yield said.message["role"], list(map(as_object, said.message["content"])), said.time


def _claude(one: AgentSession) -> _Said:
    first = [value_of(line) for _, line in islice(lines(one.source), _SAMPLE)]
    if first and not is_claude_code(first):
        raise TranscriptError(f"{one.source}: its lines are not those of a session")
    for _, line in lines(one.source):
        value = value_of(line)
        message = as_object(value.get("message"))
        content = as_blocks(message.get("content"))
        spoken = value.get("type") in ("user", "assistant") and not value.get("isSidechain")
        if not spoken or not content:
            continue
        # What a program hands over is asked, but is nobody's word.
        ways = (str(value.get(one)) for one in ("entrypoint", "promptSource"))
        aside = is_aside(value) or any(one.startswith("sdk") for one in ways)
        whole = (text for who, text in claude_texts(value) if who == "result")
        said: list[Block] = []
        for block in content:
            more: Json = {}
            if block.get("type") == "tool_result":
                more = {"content": next(whole, "")}
            elif aside or added_by_client(str(block.get("text") or "")):
                more = {"origin": "system"}
            said.append({**block, **more})
        yield str(value["type"]), said, moment_of(value.get("timestamp"))


_MESSAGES = {"claude-code": _claude, "opencode": _opencode}


# ---- where they are


def _sessions(
    config: Config, agents: Sequence[str], unread: list[str], *, everywhere: bool
) -> Iterator[AgentSession]:
    """`unread` takes what can't be told to be a session, or of which project."""
    for agent in agents:
        try:
            for one in _PLACES[agent](config, everywhere):
                if not one.id:
                    unread.append(f"{one.source}: its first line is not one that Lamina knows")
                elif not set(one.id) <= _SESSION_ID or len(one.id) > 100:
                    continue
                elif everywhere or _is_here(config, one.project):
                    yield one
        except (OSError, TranscriptError) as error:
            unread.append(str(error))


def _place(variable: str, otherwise: str) -> Path:
    return Path(os.environ.get(variable) or otherwise).expanduser()


def _is_here(config: Config, directory: object) -> bool:
    return str(directory) in (str(config.project), str(config.project.resolve()))


def _files(folder: Path, pattern: str) -> Iterator[tuple[Path, float]]:
    for path in folder.glob(pattern):
        with suppress(OSError):
            stat = path.stat()
            if S_ISREG(stat.st_mode):  # a pipe would never end
                yield path, stat.st_mtime


def _headed(folder: Path, pattern: str) -> Iterator[tuple[Path, float, Json]]:
    """Files with the object on their first line; of a file that is one document, that."""
    for path, changed in _files(folder, pattern):
        with suppress(OSError, TranscriptError), path.open("rb") as file:
            if path.suffix == ".json":
                yield path, changed, as_object(read_whole(path))
            elif (line := file.readline(_FIRST_LINE)).endswith(b"\n"):  # else it is being written
                yield path, changed, value_of(line)


def _claude_sessions(config: Config, everywhere: bool) -> Iterator[AgentSession]:
    home = config.home if config.claude else _place("CLAUDE_CONFIG_DIR", "~/.claude")
    here = [*claude_folders(home, config.project)]
    others = (home / "projects").glob("*") if everywhere else ()
    for folder in dict.fromkeys([*here, *others]):
        for path, changed in _files(folder, "*.jsonl"):
            project = began_in(path)
            if folder in here and slug(project) != folder.name:  # it says nothing that fits better
                project = str(config.project)
            yield AgentSession("claude-code", path.stem, path, changed, project)


def _codex_sessions(config: Config, everywhere: bool) -> Iterator[AgentSession]:  # noqa: ARG001
    folder = _place("CODEX_HOME", "~/.codex")
    kept = ("sessions/*/*/*", "archived_sessions")
    for path, changed, head in (r for at in kept for r in _headed(folder, f"{at}/rollout-*.jsonl")):
        about = as_object(head.get("payload"))
        by_person = about.get("thread_source", "user") == "user"
        if by_person and "subagent" not in json.dumps(about.get("source")):
            named = str(about.get("id") or "") if about.get("cwd") else ""
            yield AgentSession("codex", named, path, changed, str(about.get("cwd")))


def _gemini_sessions(config: Config, everywhere: bool) -> Iterator[AgentSession]:
    """Of the project Gemini CLI keeps a hash only: the directories that others name are tried, too."""
    places = {str(config.project), str(config.project.resolve())}
    if everywhere:
        rest = [agent for agent in AGENTS if agent != "gemini"]
        places |= {one.project for one in _sessions(config, rest, [], everywhere=True)}
    # A folder's name may be no UTF-8.
    named = {place: place.encode("utf-8", "surrogatepass") for place in places}
    hashes = {hashlib.sha256(name).hexdigest(): place for place, name in named.items()}
    for path, changed, head in _headed(Path("~/.gemini/tmp").expanduser(), "*/chats/*.json*"):
        if head.get("kind", "main") == "main":
            project = hashes.get(str(head.get("projectHash")), str(path.parent.parent))
            id_ = str(head.get("sessionId") or "") if "projectHash" in head else ""
            yield AgentSession("gemini", id_, path, changed, project)


def _opencode_sessions(config: Config, everywhere: bool) -> Iterator[AgentSession]:  # noqa: ARG001
    path = _place("XDG_DATA_HOME", "~/.local/share") / "opencode" / "opencode.db"
    if not path.is_file():
        return
    asked = "SELECT id, directory, time_updated FROM session WHERE parent_id IS NULL"
    with closing(open_opencode(path)) as database:
        try:
            found = database.execute(asked).fetchall()
        except sqlite3.Error as error:
            raise TranscriptError(f"{path}: {error}") from error
    for name, directory, changed in found:
        yield AgentSession("opencode", str(name), path, moment_of(changed), str(directory))


def _pi_sessions(config: Config, everywhere: bool) -> Iterator[AgentSession]:  # noqa: ARG001
    folder = _place("PI_CODING_AGENT_DIR", "~/.pi/agent") / "sessions"
    for path, changed, head in _headed(folder, "*/*.jsonl"):
        named = str(head.get("id") or "") if head.get("cwd") else ""
        yield AgentSession("pi", named, path, changed, str(head.get("cwd")))


_PLACES: dict[str, Callable[[Config, bool], Iterator[AgentSession]]] = {
    "claude-code": _claude_sessions, "codex": _codex_sessions, "gemini": _gemini_sessions,
    "opencode": _opencode_sessions, "pi": _pi_sessions,
}  # fmt: skip
