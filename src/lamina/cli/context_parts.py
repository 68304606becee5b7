"""What a request is made of, in estimated tokens by part. Pure."""

from __future__ import annotations

from lamina.ledger import tokens
from lamina.messages import Request

_NAMES = {
    "text": "text",
    "tool_use": "tool calls",
    "tool_result": "tool results",
    "thinking": "thinking",
    "redacted_thinking": "thinking",
    "image": "images",
    "document": "documents",
}


def parts_of(request: Request) -> dict[str, int]:
    """Name of the part → its tokens, largest first; parts that are empty are left out."""
    parts = {
        "system prompt": tokens.of_blocks(request.system),
        "tool descriptions": tokens.of_json(list(request.tools)) if request.tools else 0,
    }
    for message in request.messages:
        who = "your" if message["role"] == "user" else "the agent's"
        for block in message["content"]:
            kind = _NAMES.get(str(block.get("type")), "other")
            name = f"{who} {kind}" if kind == "text" else kind
            parts[name] = parts.get(name, 0) + tokens.of_block(block)
    shown = sorted(parts.items(), key=lambda item: -item[1])
    return {name: size for name, size in shown if size}
