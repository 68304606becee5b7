"""What an MCP server answers, as a tool's outcome: text and images, everything else in words."""

from __future__ import annotations

import json
from typing import Any

from lamina.messages import Block, text
from lamina.ports import ToolOutcome

MOST_CHARACTERS = 1_000_000
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def outcome_of(result: Any) -> ToolOutcome:
    """A CallToolResult of the package, bounded."""
    items: list[Any] = result.content or []
    blocks = [_block(item) for item in items]
    if not blocks and result.structured_content is not None:
        blocks = [text(json.dumps(result.structured_content, ensure_ascii=False))]
    is_error = bool(result.is_error)
    if any(block["type"] != "text" for block in blocks):
        return ToolOutcome(blocks, is_error=is_error)
    whole = "\n".join(block["text"] for block in blocks)
    return ToolOutcome(_bounded(whole) or "(no output)", is_error=is_error)


def _block(item: Any) -> Block:
    if item.type == "text":
        return text(_bounded(item.text))
    if item.type == "image" and item.mime_type in IMAGES:
        source = {"type": "base64", "media_type": item.mime_type, "data": item.data}
        return {"type": "image", "source": source}
    if item.type == "resource":
        resource = item.resource
        inside = getattr(resource, "text", None)
        if inside is not None:
            return text(_bounded(f"{resource.uri}:\n{inside}"))
        return text(f"[{resource.uri}: {resource.mime_type or 'binary'} data, not shown]")
    if item.type == "resource_link":
        return text(f"[{item.name}: {item.uri}]")
    return text(f"[{item.type} content, not shown]")


def _bounded(words: str) -> str:
    if len(words) <= MOST_CHARACTERS:
        return words
    half = MOST_CHARACTERS // 2
    left_out = len(words) - 2 * half
    return f"{words[:half]}\n\n[… {left_out:,} characters left out …]\n\n{words[-half:]}"
