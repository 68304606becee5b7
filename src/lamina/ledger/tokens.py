"""Estimates of tokens (F2): 4 bytes a token for text, 2 for JSON, 2,000 for an image or document.

Pure functions of blocks. The provider's own count anchors the total; these only bridge the gap
between one answer and the next request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec

from lamina.messages import Block, Json

MEDIA_TOKENS = 2_000

# Of blocks: how many, bytes, escapes, signs that are no letter or digit, bytes of sealed thinking.
Traits = tuple[float, ...]

_encode = msgspec.json.Encoder().encode
_LETTERS = bytes(sign for sign in range(256) if sign > 127 or chr(sign).isalnum()) + b" "
_SEALED = ("signature", "data")
_UNCOUNTED = frozenset(("cache_control", *_SEALED))
_BEGIN = (4.0, 0.25, 0.0, 0.0, 0.0)  # tokens for each trait, before a provider has counted anything
_LIKELY = (0.1, 1.0)  # tokens a byte; what was counted beside that has another cause
_skip = msgspec.json.Decoder(msgspec.Raw).decode


def of_text(value: str) -> int:
    """4 bytes a token, rounded up."""
    return (len(value) if value.isascii() else len(value.encode("utf-8", "replace"))) + 3 >> 2


def of_json(value: Any) -> int:
    """2 bytes a token of its compact form, rounded up."""
    return len(_encode(value)) + 1 >> 1


def of_block(block: Block) -> int:
    kind = block.get("type")
    if kind == "text":
        return of_text(str(block.get("text", "")))
    if kind in ("image", "document"):
        return MEDIA_TOKENS
    if kind == "tool_result":
        content: Any = block.get("content", "")
        if isinstance(content, str):
            return of_output(content)
        parts = cast("list[Any]", content) if isinstance(content, list) else None
        return of_json(content) if parts is None else sum(map(_of_part, parts))
    if kind == "tool_use":
        return of_text(str(block.get("name", ""))) + of_json(block.get("input"))
    if kind == "thinking":
        return of_text(str(block.get("thinking", "")))
    return of_json(block)


def of_output(value: str) -> int:
    """What a tool printed: JSON is as dense there as anywhere else."""
    return of_text(value) * (2 if _is_json(value) else 1)


def _is_json(value: str) -> bool:
    """One JSON value with parts, or a line each."""
    if value[:1] not in ("{", "[") or value.rstrip()[-1:] not in ("}", "]"):
        return False
    for parts in ([value], value.split("\n", 2)[:2]):
        with suppress(msgspec.DecodeError):
            return all(isinstance(_skip(part), msgspec.Raw) for part in parts if part.strip())
    return False


def _of_part(part: Any) -> int:
    if not isinstance(part, dict):
        return of_json(part)
    block = cast("Block", part)
    return of_output(str(block.get("text", ""))) if block.get("type") == "text" else of_block(block)


def of_blocks(blocks: Iterable[Block]) -> int:
    return sum(of_block(block) for block in blocks)


def of_frame(system: Iterable[Block], tools: Iterable[Json]) -> int:
    return of_blocks(system) + sum(of_json(tool) for tool in tools)


def traits(blocks: Iterable[Block]) -> Traits:
    """What a tokenizer's count goes by. Media count nothing: nobody knows what they weigh."""
    count = size = escapes = signs = sealed = 0
    for block in blocks:
        if block.get("type") not in ("image", "document"):
            said = block
            if not _UNCOUNTED.isdisjoint(block):
                said = {name: value for name, value in block.items() if name not in _UNCOUNTED}
                sealed += sum(len(str(block.get(name) or "")) for name in _SEALED)
            data = _encode(said)
            count, size = count + 1, size + len(data)
            escapes += data.count(b"\\")
            signs += len(data.translate(None, _LETTERS))
    return count, size, escapes, signs, sealed


class Counted:
    """A provider's own count of tokens, learnt from how much more each request is counted than the one
    before it: least squares, one row at a time."""

    def __init__(self) -> None:
        self._each, self.rows = list(_BEGIN), 0
        spread = (4.0, 0.1, 0.3, 0.3, 0.3)  # how far off the beginning may be
        self._doubt = [[s * s * (i == j) for j in range(5)] for i, s in enumerate(spread)]

    def of(self, traits: Traits) -> int:
        return max(0, round(sum(map(float.__mul__, self._each, map(float, traits)))))

    def learn(self, more: Sequence[float], counted: int) -> None:
        size = more[1]
        if not size or not _LIKELY[0] < counted / size < _LIKELY[1]:
            return
        self.rows += 1
        row = [one / abs(size) ** 0.5 for one in more]
        moved = [sum(map(float.__mul__, doubt, row)) for doubt in self._doubt]
        whole = 0.01 + sum(map(float.__mul__, moved, row))
        off = counted / abs(size) ** 0.5 - sum(map(float.__mul__, self._each, row))
        self._each = [one + gain / whole * off for one, gain in zip(self._each, moved, strict=True)]
        for held, gain in zip(self._doubt, moved, strict=True):
            held[:] = [one - gain * other / whole for one, other in zip(held, moved, strict=True)]
