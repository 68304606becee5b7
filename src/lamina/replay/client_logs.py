"""Reads the session files of Codex, Gemini CLI, opencode and pi: each is turned into a list of
messages with their times, usage and model, as `ListReader` takes them. What a client put into a
user's message by itself carries `origin: system`: only the rest was typed. Touches the lines that it
is handed or, for opencode, the database, which is opened read-only.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from lamina.cache.usage import count
from lamina.errors import TranscriptError
from lamina.messages import Block, Json, as_list, as_object, text, tool_result, tool_use
from lamina.replay.files import Lines, decode
from lamina.replay.message_lists import ListReader, role_of
from lamina.text.origins import added_by_client

CODEX, GEMINI, OPENCODE, PI = "codex", "gemini-cli", "opencode", "pi"
SQLITE = b"SQLite format 3\0"
_CODEX_KINDS = (
    *("session_meta", "turn_context", "world_state", "response_item", "event_msg", "compacted"),
    "token_usage_record",
)
_GEMINI_KINDS = ("user", "gemini", "info", "error", "warning")
_PI_KINDS = (
    *("session", "message", "model_change", "thinking_level_change", "compaction", "custom"),
    *("custom_message", "branch_summary", "label", "session_info"),
)
_HOOK_CONTEXT = re.compile(r"<hook_context>.*?</hook_context>", re.DOTALL)


def format_of_lines(values: Sequence[Json]) -> str:
    """Which of these clients wrote the lines; "" if none did."""
    for value in values:
        if value.get("type") == "session_meta" and "payload" in value:
            return CODEX
        if "projectHash" in value and "sessionId" in value:
            return GEMINI
        if value.get("type") == "session" and "version" in value and "cwd" in value:
            return PI
    return ""


def read_client_log(lines: Lines, reader: ListReader) -> None:
    """By the client whose name stands as the format of what is built."""
    {CODEX: _codex, GEMINI: _gemini, PI: _pi}[reader.builder.format](lines, reader)


def _known(lines: Lines, reader: ListReader, kinds: Collection[str]) -> Iterator[Json]:
    """Every line; of kinds that a newer version of the client may have brought it is told."""
    for where, value in reader.builder.readable(lines):
        line = as_object(value)
        kind = line.get("type")
        if kind is not None and kind not in kinds:
            reader.builder.unknown_kind(where, str(kind))
        yield line


def _added(words: str) -> Block:
    return {**text(words), "origin": "system"}


def _usage(new: object, read: object, written: object, output: object) -> Json:
    """As Anthropic names it."""
    cached = {"cache_read_input_tokens": count(read), "cache_creation_input_tokens": count(written)}
    return {"input_tokens": count(new), **cached, "output_tokens": count(output)}


def _codex(lines: Lines, reader: ListReader) -> None:
    payloads = [
        (str(one.get("type")), as_object(one.get("payload")), one)
        for one in _known(lines, reader, _CODEX_KINDS)
    ]
    typed = {text for kind, payload, _ in payloads for text in _typed_in(kind, payload)}
    exact = any(kind == "token_usage_record" for kind, _, _ in payloads)
    system, model, last = "", "", -1
    messages: list[Json] = []
    for kind, payload, entry in payloads:
        if kind == "session_meta":
            system = str(as_object(payload.get("base_instructions")).get("text") or "")
        elif kind == "turn_context":
            model = str(payload.get("model") or model)
        elif kind == "response_item":
            messages.append(_codex_item(payload, entry, typed, model))
        elif kind == "compacted":
            last = reader.read(messages, model=model, system=system, last=last)
            messages = []
            last = _begin_again(payload, reader, last)
        elif usage := _codex_usage(kind, payload, exact=exact):
            _book(messages, usage)
    reader.read(messages, model=model, system=system, last=last)


def _typed_in(kind: str, payload: Json) -> Iterator[str]:
    """What the client itself calls the user's message, in its new and its old form."""
    item = as_object(payload.get("item"))
    if kind == "event_msg" and item.get("type") == "UserMessage":
        for part in map(as_object, as_list(item.get("content"))):
            yield str(part.get("text"))
    elif kind == "event_msg" and payload.get("type") == "user_message":
        yield str(payload.get("message"))


def _codex_item(payload: Json, entry: Json, typed: set[str], model: str) -> Json:
    item: Json = {**payload, "timestamp": entry.get("timestamp"), "model": model}
    if payload.get("type") == "message" and payload.get("role") in ("user", "developer"):
        texts = [str(part.get("text")) for part in map(as_object, as_list(payload.get("content")))]
        item["role"], by_user = "user", payload["role"] == "user"
        own = [by_user and t in typed for t in texts]
        item["content"] = [
            text(words) if mine else _added(words) for words, mine in zip(texts, own, strict=True)
        ]
    return item


def _codex_usage(kind: str, payload: Json, *, exact: bool) -> Json:
    """One record a request; older versions report it with other counts."""
    usage: Json = {}
    if kind == "token_usage_record":
        usage = as_object(payload.get("usage"))
    elif kind == "event_msg" and payload.get("type") == "token_count" and not exact:
        usage = as_object(as_object(payload.get("info")).get("last_token_usage"))
    if not usage:
        return {}
    used = {name: count(usage.get(name)) for name in ("input_tokens", "output_tokens")}
    read, written = map(usage.get, ("cached_input_tokens", "cache_write_input_tokens"))
    detail = {"cached_tokens": count(read), "cache_write_tokens": count(written)}
    return {**used, "input_tokens_details": detail}


def _book(messages: list[Json], usage: Json) -> None:
    """Usage belongs to the answer that has just ended, results that followed it aside."""
    at = len(messages) - 1
    while at >= 0 and role_of(messages[at]) != "assistant":
        at -= 1
    while at > 0 and role_of(messages[at - 1]) == "assistant":
        at -= 1
    if at >= 0 and "usage" not in messages[at]:
        messages[at]["usage"] = usage


def _begin_again(payload: Json, reader: ListReader, last: int) -> int:
    """After a compaction: what was kept and the summary, as one message."""
    kept = [
        str(part.get("text"))
        for item in map(as_object, as_list(payload.get("replacement_history")))
        for part in map(as_object, as_list(item.get("content")))
        if part.get("text")
    ]
    words = kept or [str(payload.get("message") or "")]
    blocks = [_added(text) for text in words if text]
    return reader.builder.add("user", blocks, -1, reader.clock, summary=True, after=last)


def _gemini(lines: Lines, reader: ListReader) -> None:
    """A log of changes: a message that comes again with the same id is the same one, grown."""
    found: dict[str, Json] = {}
    for line in _known(lines, reader, _GEMINI_KINDS):
        changed = as_object(line.get("$set"))
        listed = as_list(changed.get("messages")) if changed else [line]
        for message in map(as_object, listed):
            if message.get("type") in ("user", "gemini"):
                found[str(message.get("id"))] = message
    parts = [part for one in found.values() for part in _gemini_parts(one)]
    responses = [as_object(part.get("functionResponse")) for part in parts]
    answered = {str(response.get("id")) for response in responses if response}
    reader.read([one for message in found.values() for one in _gemini_message(message, answered)])


def _gemini_parts(message: Json) -> list[Json]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"text": content}] if content else []
    return list(map(as_object, as_list(content)))


def _gemini_message(message: Json, answered: set[str]) -> Iterator[Json]:
    around = {"timestamp": message.get("timestamp")}
    if message.get("type") == "user":
        blocks = [block for part in _gemini_parts(message) for block in _gemini_said(part)]
        if blocks:
            yield {"role": "user", "content": blocks, **around}
        return
    blocks = [{"type": "text", "text": str(part["text"])} for part in _gemini_parts(message)]
    calls = list(map(as_object, as_list(message.get("toolCalls"))))
    blocks += [
        tool_use(str(call.get("id")), str(call.get("name")), as_object(call.get("args")))
        for call in calls
    ]
    tokens = as_object(message.get("tokens"))
    usage = {
        "prompt_tokens": count(tokens.get("input")),
        "prompt_tokens_details": {"cached_tokens": count(tokens.get("cached"))},
        "completion_tokens": count(tokens.get("output")) + count(tokens.get("thoughts")),
    }
    told = {"usage": usage} if tokens else {}
    yield {"role": "assistant", "content": blocks, "model": message.get("model"), **told, **around}
    results = [
        block
        for call in calls
        if str(call.get("id")) not in answered
        for part in map(as_object, as_list(call.get("result")))
        for block in _gemini_said(part)
    ]
    if results:
        yield {"role": "user", "content": results, **around}


def _gemini_said(part: Json) -> Iterator[Block]:
    if response := as_object(part.get("functionResponse")):
        inner = as_object(response.get("response"))
        words = inner.get("output", inner.get("error", inner))
        yield tool_result(str(response.get("id")), str(words), is_error="error" in inner)
    elif isinstance(said := part.get("text"), str):
        yield from map(_added, _HOOK_CONTEXT.findall(said))
        if typed := _HOOK_CONTEXT.sub("", said).strip():
            yield _added(typed) if added_by_client(typed) else text(typed)


def _pi(lines: Lines, reader: ListReader) -> None:
    """A tree by id and parentId; the way to the last message is read, other branches are counted."""
    entries: dict[str, Json] = {}
    last = ""
    for entry in _known(lines, reader, _PI_KINDS):
        if entry.get("id") and entry.get("type") != "session":
            last = str(entry["id"])
            entries[last] = entry
    path: list[Json] = []
    while last in entries:
        entry = entries.pop(last)
        path.append(entry)
        last = str(entry.get("parentId") or "")
    if entries:
        reader.builder.skip("whole file", f"{len(entries)} entries on other branches")
    reader.read([one for entry in reversed(path) for one in _pi_message(entry)])


def _pi_message(entry: Json) -> Iterator[Json]:
    around = {"timestamp": entry.get("timestamp")}
    if entry.get("type") in ("custom_message", "compaction", "branch_summary"):
        said = entry.get("summary") or entry.get("content")
        parts = [{"text": said}] if isinstance(said, str) else map(as_object, as_list(said))
        texts = [part.get("text") for part in parts]
        yield {"role": "user", "content": [_added(str(text)) for text in texts if text], **around}
        return
    message = as_object(entry.get("message"))
    role, content = message.get("role"), message.get("content")
    if role == "toolResult":
        parts = [*map(as_object, as_list(content))]
        failed = message.get("isError") is True
        result = tool_result(str(message.get("toolCallId")), parts, is_error=failed)
        yield {"role": "user", "content": [result], **around}
    elif role == "user":
        yield {"role": "user", "content": content, **around}
    elif role == "assistant":
        usage = as_object(message.get("usage"))
        told = _usage(*map(usage.get, ("input", "cacheRead", "cacheWrite", "output")))
        parts = [_pi_part(part) for part in map(as_object, as_list(content))]
        around |= {"model": message.get("model"), **({"usage": told} if usage else {})}
        yield {"role": "assistant", "content": parts, **around}


def _pi_part(part: Json) -> Block:
    if part.get("type") != "toolCall":
        return part
    return tool_use(str(part.get("id")), str(part.get("name")), as_object(part.get("arguments")))


def read_opencode(path: Path, reader: ListReader) -> None:
    """Every session of the database, each a conversation of its own. It may be written meanwhile."""
    with closing(open_opencode(path)) as database:
        sessions = database.execute("SELECT id FROM session ORDER BY time_created").fetchall()
    for (session,) in sessions:
        read_opencode_session(path, str(session), reader)


def open_opencode(path: Path) -> sqlite3.Connection:
    """The database, to be read only; refused if it is another program's."""
    try:
        database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        database.execute("SELECT id FROM session LIMIT 1")
    except sqlite3.Error as error:
        raise TranscriptError(
            f"{path} is a database that Lamina can't read as opencode's ({error})."
        ) from error
    return database


def read_opencode_session(path: Path, session: str, reader: ListReader) -> None:
    try:
        with closing(open_opencode(path)) as database:
            messages = list(_opencode_messages(database, session))
    except sqlite3.Error as error:
        raise TranscriptError(f"{path}: its sessions can't be read ({error})") from error
    reader.read(messages, where=session, thread=session)


def _opencode_messages(database: sqlite3.Connection, session: str) -> Iterator[Json]:
    parts: dict[str, list[Json]] = {}
    said = "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY time_created, id"
    for message, data in database.execute(said, (session,)):
        parts.setdefault(message, []).append(as_object(decode(str(data).encode())))
    listed = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
    for name, data in database.execute(listed, (session,)):
        message = as_object(decode(str(data).encode()))
        time = as_object(message.get("time"))
        around = {"timestamp": time.get("created")}
        if message.get("role") == "user":
            texts = [
                (str(p["text"]), p.get("synthetic")) for p in parts.get(name, []) if p.get("text")
            ]
            words = [_added(words) if made else text(words) for words, made in texts]
            if words:
                yield {"role": "user", "content": words, **around}
        else:
            yield from _opencode_answers(message, parts.get(name, []), around)


def _opencode_answers(message: Json, parts: Sequence[Json], around: Json) -> Iterator[Json]:
    """Each step of a message was one request."""
    blocks: list[Block] = []
    results: list[Block] = []
    tokens = as_object(message.get("tokens"))
    for part in [*parts, {"type": "end"}]:
        kind, state = part.get("type"), as_object(part.get("state"))
        if kind == "text" and part.get("text"):
            blocks.append({"type": "text", "text": str(part["text"])})
        elif kind == "reasoning":
            blocks.append({"type": "thinking", "thinking": str(part.get("text") or "")})
        elif kind == "tool":
            name = str(part.get("callID"))
            blocks.append(tool_use(name, str(part.get("tool")), as_object(state.get("input"))))
            failed = state.get("status") == "error"
            words = str(state.get("error" if failed else "output") or "")
            results.append(tool_result(name, words, is_error=failed))
        elif kind in ("step-finish", "end") and blocks:
            used = as_object(part.get("tokens")) or tokens
            cache = as_object(used.get("cache"))
            output = count(used.get("output")) + count(used.get("reasoning"))
            usage = _usage(used.get("input"), cache.get("read"), cache.get("write"), output)
            model = message.get("modelID")
            yield {"role": "assistant", "content": blocks, "usage": usage, "model": model, **around}
            if results:
                yield {"role": "user", "content": results, **around}
            blocks, results = [], []
