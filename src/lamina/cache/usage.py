"""What a call used: usage as its provider reports it, from the value itself or from a copy of the answer
that passes by. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import msgspec

from lamina.messages import Json, Usage, as_list, as_object, dicts


def anthropic_usage(value: object) -> Usage | None:
    """Usage as Anthropic's API reports it."""
    usage = as_object(value)
    if not usage:
        return None
    detail = as_object(usage.get("cache_creation"))
    return Usage(
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")),
        count(usage.get("cache_read_input_tokens")),
        count(usage.get("cache_creation_input_tokens")),
        count(detail.get("ephemeral_1h_input_tokens")),
    )


def openai_usage(value: object) -> Usage | None:
    """Usage as OpenAI's two APIs report it: the prompt's count includes what was cached. Routers
    that speak for Anthropic report in the same form, what was written to the cache besides.
    """
    usage = as_object(value)
    if not usage:
        return None
    prompt = count(usage.get("prompt_tokens", usage.get("input_tokens")))
    detail = as_object(usage.get("prompt_tokens_details", usage.get("input_tokens_details")))
    written = (
        count(detail.get("cache_write_tokens"))
        or count(detail.get("cache_creation_tokens"))
        or count(usage.get("cache_creation_input_tokens"))
    )
    read = min(prompt, count(detail.get("cached_tokens")))
    write = min(prompt - read, written)
    output = count(usage.get("completion_tokens", usage.get("output_tokens")))
    return Usage(prompt - read - write, output, read, write)


def count(value: object) -> int:
    right = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12
    return value if right and isinstance(value, int) else 0


def gemini_usage(value: object) -> Usage | None:
    """Usage as Google's API reports it: the prompt's count includes what was cached, thoughts are
    counted apart from the answer."""
    usage = as_object(value)
    if not usage:
        return None
    prompt = count(usage.get("promptTokenCount"))
    read = min(prompt, count(usage.get("cachedContentTokenCount")))
    thought = count(usage.get("thoughtsTokenCount"))
    return Usage(prompt - read, count(usage.get("candidatesTokenCount")) + thought, read)


# ---- from a copy of an answer; never raises: what can't be read is not known

_TOLD = b"usage"  # `usage` and `usageMetadata`: nothing else is looked at
_LONGEST = 64 * 2**20  # bytes of a line, or of an answer in one piece


class Tee:
    """The events of a stream, or the one value of an answer, that tell of usage."""

    def __init__(self, kind: str, encoding: str) -> None:
        self.told: list[Json] = []
        self._streams = "event-stream" in kind
        self._pieces: list[bytes] = []
        self._held = 0
        packed = encoding not in ("", "identity")
        self._unpacked = _unpacker(encoding) if packed else None
        self._blind = packed and self._unpacked is None

    def take(self, data: bytes) -> None:
        if self._blind:
            return
        try:
            if self._unpacked is not None:
                data = self._unpacked(data)
            self._read(data)
        except Exception:  # noqa: BLE001 - it is only a copy
            self._blind = True

    def _read(self, data: bytes) -> None:
        if self._streams and (end := data.rfind(b"\n") + 1):
            first = data.find(b"\n")
            self._line(b"".join([*self._pieces, data[:first]]))
            if data.find(_TOLD, first, end) >= 0:  # most pieces tell nothing, and are not copied
                for line in data[first:end].split(b"\n"):
                    self._line(line)
            self._pieces, self._held = [], 0
            data = data[end:]
        self._held += len(data)
        if self._held > _LONGEST:
            self._blind = True
        else:
            self._pieces.append(bytes(data))

    def _line(self, line: bytes) -> None:
        if _TOLD in line and line.startswith(b"data:"):
            self._value(line[5:])

    def _value(self, data: bytes) -> None:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            value: object = msgspec.json.decode(data)
            # Some answers to a plain request are lists of what a stream would have said.
            self.told += dicts(as_list(value) or [value])

    def end(self) -> Iterator[Json]:
        """Nothing more comes."""
        if not self._blind:
            rest = b"".join(self._pieces)
            self._pieces = []
            if self._streams:
                self._line(rest)
            elif _TOLD in rest:
                self._value(rest)
        yield from self.told


def _unpacker(encoding: str) -> Callable[[bytes], bytes] | None:
    """Piece by piece; None for what nobody here can unpack."""
    if encoding in ("gzip", "x-gzip", "deflate"):
        import zlib

        return zlib.decompressobj(47).decompress  # either of the two
    with suppress(ImportError):
        if encoding == "zstd":
            from zstandard import ZstdDecompressor

            return ZstdDecompressor().decompressobj().decompress
        if encoding == "br":
            import brotli

            return cast("Any", brotli).Decompressor().process
    return None
