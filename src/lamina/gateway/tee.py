"""Reads from a copy of an answer what it used. Never raises: what can't be read is not known."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import msgspec

from lamina.messages import Json, as_list, dicts

_TOLD = b"usage"  # `usage` and `usageMetadata`: nothing else is looked at
_MOST = 64 * 2**20  # bytes of a line, or of an answer in one piece


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
        if self._held > _MOST:
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
        return zlib.decompressobj(47).decompress  # either of the two
    with suppress(ImportError):
        if encoding == "zstd":
            from zstandard import ZstdDecompressor

            return ZstdDecompressor().decompressobj().decompress
        if encoding == "br":
            import brotli

            return cast("Any", brotli).Decompressor().process
    return None
