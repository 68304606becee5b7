"""Turns any recording that Lamina knows into one common value; the format is found from the content.
Touches only the file it is given and, for a Claude Code session, its sub-agents' files beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

from lamina.errors import TranscriptError
from lamina.messages import Json
from lamina.replay import claude_code, own_sessions, trajectories
from lamina.replay.builder import Builder
from lamina.replay.entry_words import format_of, looks_like_message, messages_of
from lamina.replay.files import (
    CUT_OFF,
    FILE_LIMIT,
    Unreadable,
    as_list,
    as_object,
    open_file,
    read_lines,
    read_whole,
)
from lamina.replay.message_lists import BodyLog, ListReader, read_body
from lamina.replay.recording import Recording

FORMATS = (
    "Claude Code JSONL, SWE-agent .traj, mini-swe-agent .traj.json, tau-bench, "
    "OpenAI or Anthropic messages (JSON or JSONL), Lamina's own sessions"
)
_SAMPLE = 50  # lines that decide the format of a JSONL file

Line = tuple[int, Any]


def read_recording(path: Path | str) -> Recording:
    """Read one file. Raises TranscriptError where nothing in it can be used; everything less than
    that is in the recording's `skipped`.
    """
    path = Path(path)
    # A pipe would be waited for without end, and can't be read twice.
    if path.exists() and not path.is_file() and not path.is_dir():
        raise TranscriptError(
            f"{path} is not a plain file; write the transcript into one first, or pipe it in (-)."
        )
    with open_file(path):
        pass
    if path.stat().st_size == 0:
        raise TranscriptError(f"{path} is empty; give a transcript: {FORMATS}.")
    recording = _read_as_lines(path) or _read_as_document(path)
    if recording is None:
        raise TranscriptError(f"{path} is not a transcript that Lamina knows; it reads {FORMATS}.")
    if not recording.requests:
        found = "; ".join(f"{entry.where}: {entry.reason}" for entry in recording.skipped[:3])
        why = f" ({found})" if found else ""
        raise TranscriptError(
            f"{path} holds no answer of a model{why}; give a transcript of a finished turn."
        )
    return recording


def _read_as_lines(path: Path) -> Recording | None:
    """A file of one JSON value a line, or None if it isn't that."""
    lines = read_lines(path)
    sample = list(islice(lines, _SAMPLE))
    values = [value for value in (as_object(value) for _, value in sample) if value]
    if sample and path.stat().st_size <= FILE_LIMIT:
        first = sample[0][1]
        if isinstance(first, Unreadable):
            if first.reason == CUT_OFF and _is_document(path):
                return (
                    None  # one document over many lines, some of which may be whole by themselves
                )
        elif len(sample) == 1 and not _is_claude_code(values) and not own_sessions.is_own(values):
            return None  # one document on one line
    rest = chain(sample, lines)
    builder = Builder(str(path), "")
    if _is_claude_code(values):
        builder.format = claude_code.NAME
        return _claude_code(path, rest, builder)
    if own_sessions.is_own(values):
        builder.format = own_sessions.NAME
        own_sessions.OwnReader(builder).read(rest)
        return builder.finish()
    reader = ListReader(builder)
    if any("messages_display" in value for value in values):
        builder.format = trajectories.TAU_BENCH
        trajectories.read_tau_display(rest, reader, builder)
    elif any(messages_of(value) is not None for value in values):
        BodyLog(reader, builder).read(rest)
    elif any(looks_like_message(value) for value in values):
        _message_lines(rest, reader, builder)
    else:
        return None
    return builder.finish(timed=reader.timed)


def _is_document(path: Path) -> bool:
    return not isinstance(read_whole(path), Unreadable)


def _is_claude_code(values: Sequence[Json]) -> bool:
    marks = ("sessionId", "parentUuid", "uuid", "leafUuid", "isSidechain")
    return any("type" in value and any(mark in value for mark in marks) for value in values)


def _claude_code(path: Path, lines: Any, builder: Builder) -> Recording:
    reader = claude_code.ClaudeCodeReader(builder)
    reader.read(lines)
    for agent in sorted((path.parent / path.stem / "subagents").glob("agent-*.jsonl")):
        reader.read(read_lines(agent), prefix=f"{agent.stem}: ")
    return builder.finish(timed=reader.timed)


def _message_lines(lines: Any, reader: ListReader, builder: Builder) -> None:
    """One message a line."""
    messages: list[object] = []
    for number, value in lines:
        if isinstance(value, Unreadable):
            builder.skip(f"line {number}", value.reason)
        else:
            messages.append(value)
    builder.format = format_of(messages)
    reader.read(messages)


def _read_as_document(path: Path) -> Recording | None:
    value = read_whole(path)
    builder = Builder(str(path), "")
    reader = ListReader(builder)
    if isinstance(value, Unreadable):
        raise TranscriptError(
            f"{path} is not a transcript ({value.reason}); Lamina reads {FORMATS}."
        )
    if isinstance(value, list):
        listed = as_list(cast("object", value))
        if any(isinstance(entry, dict) and "traj" in entry for entry in listed[:_SAMPLE]):
            builder.format = trajectories.TAU_BENCH
            trajectories.read_tau_bench(listed, reader, builder)
        elif _is_claude_code([as_object(entry) for entry in listed[:_SAMPLE]]):
            builder.format = claude_code.NAME
            return _claude_code(path, enumerate(listed, 1), builder)
        elif any(looks_like_message(entry) for entry in listed[:_SAMPLE]):
            builder.format = format_of(listed)
            reader.read(listed)
        else:
            return None
    elif isinstance(value, dict):
        if not _object(as_object(cast("object", value)), reader, builder):
            return None
    else:
        return None
    return builder.finish(timed=reader.timed)


def _object(value: Json, reader: ListReader, builder: Builder) -> bool:
    if isinstance(value.get("history"), list):
        builder.format = trajectories.SWE_AGENT
        trajectories.read_swe_agent(value, reader)
    elif isinstance(value.get("traj"), list):
        builder.format = trajectories.TAU_BENCH
        trajectories.read_tau_bench([value], reader, builder)
    elif isinstance(value.get("messages"), list):
        if "trajectory_format" in value or isinstance(value.get("info"), dict):
            builder.format = trajectories.MINI_SWE_AGENT
            trajectories.read_mini_swe_agent(value, reader)
        else:
            builder.format = format_of(as_list(value["messages"]))
            read_body(value, reader, where="messages")
    elif isinstance(value.get("messages_display"), str):
        builder.format = trajectories.TAU_BENCH
        trajectories.read_tau_display([(1, value)], reader, builder)
    elif (items := messages_of(value)) is not None:
        builder.format = format_of(items)
        read_body(value, reader, where="input")
    else:
        return False
    return True
