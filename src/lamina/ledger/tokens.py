"""Estimates of tokens (F2): 4 bytes a token for text, 2 for JSON, 2,000 for an image or document.

Pure functions of blocks. The provider's own count anchors the total; these only bridge the gap
between one answer and the next request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from lamina.messages import Block, Json

MEDIA_TOKENS = 2_000

_encode = msgspec.json.Encoder().encode


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
        content = block.get("content", "")
        return of_text(content) if isinstance(content, str) else of_parts(content)
    if kind == "tool_use":
        return of_text(str(block.get("name", ""))) + of_json(block.get("input"))
    if kind == "thinking":
        return of_text(str(block.get("thinking", "")))
    return of_json(block)


def of_parts(content: Any) -> int:
    """A tool result's content that is not plain text."""
    if not isinstance(content, list):
        return of_json(content)
    parts = cast("list[Any]", content)
    return sum(
        of_block(cast("Block", part)) if isinstance(part, dict) else of_json(part) for part in parts
    )


def of_blocks(blocks: Iterable[Block]) -> int:
    return sum(of_block(block) for block in blocks)


def of_frame(system: Iterable[Block], tools: Iterable[Json]) -> int:
    return of_blocks(system) + sum(of_json(tool) for tool in tools)
