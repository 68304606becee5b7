"""Turns any recording that Lamina knows into one common value; the format is found from the content.
Knows the shells that SWE-agent, mini-swe-agent and tau-bench put around message lists, and
Lamina's own sessions, which are read as if no layer had been at work. Touches only the file it is
given and, for a Claude Code session, its sub-agents' files beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

from lamina.errors import TranscriptError
from lamina.messages import Json, Usage, as_list, as_object
from lamina.replay import claude_code, client_logs, files, message_lists
from lamina.replay.files import Lines, Unreadable, read_lines, read_whole
from lamina.replay.message_lists import ListReader, format_of, looks_like_message, messages_of
from lamina.replay.recording import Builder, RecordedRequest, Recording, as_blocks, moment_of

OWN = "lamina"
SWE_AGENT = "swe-agent"
MINI_SWE_AGENT = "mini-swe-agent"
TAU_BENCH = "tau-bench"
FORMATS = (
    "sessions of Claude Code, Codex, Gemini CLI, opencode (its .db) and pi, SWE-agent .traj, "
    "mini-swe-agent .traj.json, tau-bench, "
    "OpenAI or Anthropic messages (JSON or JSONL), Lamina's own sessions"
)
# Kinds of our own entries that hold nothing which the model is sent.
_SILENT_KINDS = frozenset(
    {"session", "state", "job", "event", "repair", "recall", "recall_use", "staged"}
)
_SAMPLE = 50  # lines that decide the format of a JSONL file


def read_recording(path: Path | str) -> Recording:
    """Read one file. Raises TranscriptError where nothing in it can be used; everything less than
    that is in the recording's `skipped`."""
    recording = read_any(path)
    if not recording.requests:
        found = "; ".join(f"{entry.where}: {entry.reason}" for entry in recording.skipped[:3])
        why = f" ({found})" if found else ""
        raise TranscriptError(
            f"{path} holds no answer of a model{why}; give a transcript of a finished turn."
        )
    return recording


def read_any(path: Path | str) -> Recording:
    """The same, of a session in which nothing may have been answered yet."""
    path = Path(path)
    # A pipe would be waited for without end, and can't be read twice.
    if path.exists() and not path.is_file() and not path.is_dir():
        raise TranscriptError(
            f"{path} is not a plain file; write the transcript into one first, or pipe it in (-)."
        )
    with files.open_file(path) as file:
        beginning = file.read(len(client_logs.SQLITE))
    if not beginning:
        raise TranscriptError(f"{path} is empty; give a transcript: {FORMATS}.")
    reader = ListReader(Builder(str(path), ""))
    if beginning == client_logs.SQLITE:
        reader.builder.format = client_logs.OPENCODE
        client_logs.read_opencode(path, reader)
    elif not (_read_as_lines(path, reader) or _read_as_document(path, reader)):
        raise TranscriptError(f"{path} is not a transcript that Lamina knows; it reads {FORMATS}.")
    return reader.builder.finish()


def _read_as_lines(path: Path, reader: ListReader) -> bool:
    """A file of one JSON value a line; False if it isn't that."""
    lines, builder = read_lines(path), reader.builder
    sample = list(islice(lines, _SAMPLE))
    values = [value for value in (as_object(value) for _, value in sample) if value]
    known = _written_by(values)
    if sample and path.stat().st_size <= files.FILE_LIMIT:
        first = sample[0][1]
        if isinstance(first, Unreadable):
            if first.reason == files.CUT_OFF and not isinstance(read_whole(path), Unreadable):
                return False  # one document over many lines, some of them whole by themselves
        elif len(sample) == 1 and not known:
            return False  # one document on one line
    rest = chain(sample, lines)
    builder.format = known
    if known == claude_code.NAME:
        _read_claude_code(path, rest, builder)
    elif known == OWN:
        _read_own(path, rest, builder)
    elif known:
        client_logs.read_client_log(rest, reader)
    elif any("messages_display" in value for value in values):
        read_tau_display(rest, reader)
    elif any(messages_of(value) is not None for value in values):
        message_lists.BodyLog(reader).read(rest)
    elif any(looks_like_message(value) for value in values):
        _read_list([value for _, value in builder.readable(rest)], reader)
    else:
        return False
    return True


def _written_by(values: Sequence[Json]) -> str:
    """The program whose lines these are; "" if it is none that we know."""
    if client := client_logs.format_of_lines(values):
        return client
    if is_claude_code(values):
        return claude_code.NAME
    ours = any(all(key in value for key in ("kind", "uuid", "ts")) for value in values)
    return OWN if ours else ""


def is_claude_code(values: Sequence[Json]) -> bool:
    marks = ("sessionId", "parentUuid", "uuid", "leafUuid", "isSidechain")
    return any("type" in value and any(mark in value for mark in marks) for value in values)


def _read_claude_code(path: Path, lines: Lines, builder: Builder) -> None:
    reader = claude_code.ClaudeCodeReader(builder)
    reader.read(lines)
    for agent in _agents_of(path):
        reader.read(read_lines(agent), prefix=f"{agent.stem}: ")


def _read_own(path: Path, lines: Lines, builder: Builder) -> None:
    own = OwnReader(builder)
    own.read(lines)
    agents = [(one.stem, list(read_lines(one))) for one in _agents_of(path)]
    for stem, found in sorted(agents, key=lambda one: _began(one[1])):  # whoever forked comes first
        own.read(found, prefix=f"{stem}: ")


def _agents_of(path: Path) -> list[Path]:
    return sorted((path.parent / path.stem / "subagents").glob("agent-*.jsonl"))


def _began(lines: Sequence[tuple[int, Any | Unreadable]]) -> str:
    return str(as_object(lines[0][1]).get("ts")) if lines else ""


def _read_list(messages: Sequence[object], reader: ListReader) -> None:
    reader.builder.format = format_of(messages)
    reader.read(messages)


def _read_as_document(path: Path, reader: ListReader) -> bool:
    value = read_whole(path)
    if isinstance(value, Unreadable):
        raise TranscriptError(
            f"{path} is not a transcript ({value.reason}); Lamina reads {FORMATS}."
        )
    if isinstance(value, dict):
        return _read_object(as_object(cast("object", value)), reader)
    listed = as_list(value)
    sample = [as_object(entry) for entry in listed[:_SAMPLE]]
    if any("traj" in entry for entry in sample):
        read_tau_bench(listed, reader)
    elif is_claude_code(sample):
        reader.builder.format = claude_code.NAME
        _read_claude_code(path, enumerate(listed, 1), reader.builder)
    elif any(map(looks_like_message, sample)):
        _read_list(listed, reader)
    else:
        return False
    return True


def _read_object(value: Json, reader: ListReader) -> bool:
    builder, info = reader.builder, as_object(value.get("info"))
    if "projectHash" in value:  # as older versions of Gemini CLI wrote it
        builder.format = client_logs.GEMINI
        client_logs.read_client_log([(1, {"$set": value})], reader)
    elif isinstance(value.get("history"), list):
        builder.format = SWE_AGENT
        model = _find_model(value.get("replay_config")) or _find_model(info)
        reader.read(as_list(value["history"]), where="history", model=model)
    elif isinstance(value.get("traj"), list):
        read_tau_bench([value], reader)
    elif isinstance(value.get("messages"), list) and (
        "trajectory_format" in value or isinstance(value.get("info"), dict)
    ):
        builder.format = MINI_SWE_AGENT
        reader.read(as_list(value["messages"]), where="messages", model=_find_model(info))
    elif isinstance(value.get("messages_display"), str):
        read_tau_display([(1, value)], reader)
    elif (items := messages_of(value)) is not None:
        builder.format = format_of(items)
        where = "messages" if isinstance(value.get("messages"), list) else "input"
        message_lists.read_body(value, reader, where=where)
    else:
        return False
    return True


# ---- SWE-agent and tau-bench


def read_tau_bench(runs: Sequence[object], reader: ListReader) -> None:
    """A list of runs, each with its messages under `traj`."""
    reader.builder.format = TAU_BENCH
    for number, value in enumerate(runs):
        run = as_object(value)
        if not isinstance(run.get("traj"), list):
            reader.builder.skip(f"run {number + 1}", "holds no messages")
            continue
        thread = f"task {run.get('task_id', number)} trial {run.get('trial', 0)}"
        reader.read(as_list(run["traj"]), where=f"run {number + 1}", thread=thread)


def read_tau_display(lines: Lines, reader: ListReader) -> None:
    """One run a line, shown as text: `speaker: words`. The calls' arguments are not in there."""
    reader.builder.format = TAU_BENCH
    for where, value in reader.builder.readable(lines):
        text = as_object(value).get("messages_display")
        if isinstance(text, str):
            reader.read(_spoken(text), where=where, thread=where)
        else:
            reader.builder.skip(where, "holds no conversation")


def _spoken(text: str) -> list[Json]:
    entries: list[Json] = []
    calls = 0
    for line in text.split("\n"):
        speaker, colon, words = line.partition(": ")
        if colon and speaker in ("user", "assistant", "tool", "system"):
            entries.append({"role": speaker, "content": words})
        elif entries:
            entries[-1]["content"] += "\n" + line
    for entry, following in zip(entries, [*entries[1:], {}], strict=True):
        if entry["role"] == "assistant" and following.get("role") == "tool":
            calls += 1
            entry["content"] = None if entry["content"] == "None" else entry["content"]
            function = {"name": "tool", "arguments": "{}"}
            entry["tool_calls"] = [{"id": f"call_{calls}", "function": function}]
            following["tool_call_id"] = f"call_{calls}"
    return entries


def _find_model(value: object, depth: int = 4) -> str:
    """The first `model_name` or model `name` in a configuration, wherever it is kept."""
    config = as_object(value)
    if depth == 0 or not config:
        return ""
    model = as_object(config.get("model"))
    named = config.get("model_name") or model.get("name") or model.get("model_name")
    if isinstance(named, str):
        return named
    return next(filter(None, (_find_model(inner, depth - 1) for inner in config.values())), "")


# ---- Lamina's own sessions


class OwnReader:
    """Turns the entries of a ledger, and of its agents', into the tree of a recording."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        builder.timed = True
        self._frame, self._model = 0, ""
        self._last = -1
        self._asked_at = 0.0  # when the request was sent whose answer comes next
        self._edited = False  # what the provider reported from now on tells of shorter prompts
        self._ttl = 0.0
        self._thread = ""
        # By entry, what holds from there on: for a fork, which goes on from one of them.
        self._places: dict[str, tuple[int, int, str, bool]] = {}

    def read(self, lines: Lines, prefix: str = "") -> None:
        for where, value in self._builder.readable(lines, prefix):
            entry = as_object(value)
            kind = str(entry.get("kind"))
            if kind == "state" and entry.get("name") == "agent":
                card = as_object(entry.get("value"))
                if card.get("type") == "remote":
                    return  # a teammate did it, in a session of its own
                thread = f"agent {card.get('name')}"
                if thread != self._thread:  # its card is there twice, at its beginning and its end
                    self._thread, self._asked_at = thread, 0.0
                    start = self._places.get(str(card.get("base")), (-1, 0, "", False))
                    self._last, self._frame, self._model, self._edited = start
            elif kind == "message":
                self._message(where, entry)
            elif kind == "frame":
                system = as_blocks(entry.get("system")) or []
                self._frame = self._builder.frame(
                    system, message_lists.tools_of(entry.get("tools"))
                )
                self._model = str(entry.get("model") or "")
            elif kind == "request" and entry.get("purpose") in ("main", "agent"):
                self._asked_at = moment_of(entry.get("ts"))
            elif kind == "edit":
                self._edited = True
            elif kind != "request" and kind not in _SILENT_KINDS:
                self._builder.unknown_kind(where, kind)
            here = (self._last, self._frame, self._model, self._edited)
            self._places[str(entry.get("uuid"))] = here

    def _message(self, where: str, entry: Json) -> None:
        role, blocks = entry.get("role"), as_blocks(entry.get("content"))
        if role not in ("user", "assistant") or blocks is None:
            self._builder.skip(where, "a message without role or content")
            return
        if entry.get("compaction"):
            return  # a compaction said it once more; without one it stands further up
        time = moment_of(entry.get("ts"))
        parent, self._last = self._last, self._builder.add(role, list(blocks), self._last, time)
        if role == "assistant":
            self._request(where, entry, parent, self._asked_at or time)

    def _request(self, where: str, entry: Json, parent: int, sent: float) -> None:
        usage = Usage.from_json(as_object(entry.get("usage")))
        if usage.prompt:
            self._builder.reported = (self._builder.reported or Usage()) + usage
        if usage.cache_write:
            self._ttl = 3600.0 if usage.cache_write_1h else 300.0
        told = usage if usage.prompt and not self._edited else None
        model = entry.get("model")
        model = model if isinstance(model, str) and model else self._model
        about = (told, model, self._thread, self._frame, self._ttl)
        self._builder.request(where, RecordedRequest(sent, parent, self._last, *about))
        self._asked_at = 0.0
