"""Where Anthropic's prompt cache may begin and end: copies of tools, system and messages with at most
four breakpoints, which move with the conversation (F4). Pure; the view itself holds none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from lamina.messages import Block, Json, Message, Request, blocks_of

Ttl = Literal["5m", "1h"]

_NEVER_MARKED = frozenset({"thinking", "redacted_thinking", "connector_text"})


def with_breakpoints(
    request: Request, ttl: Ttl = "5m"
) -> tuple[list[Json], list[Block], list[Message]]:
    """Tools, system and messages to send: end of tools, end of system, where the last request's
    final breakpoint stood, and the last block now.
    """
    mark: Json = {"type": "ephemeral", "ttl": ttl}
    tools, system, messages = without_breakpoints(request)
    # A tool that is loaded later isn't a part of the cached prefix.
    _mark_last([tool for tool in tools if not tool.get("defer_loading")], mark)
    _mark_last([block for block in system if markable(block)], mark)
    flat = [block for message in messages for block in message["content"]]
    for length in {request.cached_blocks, len(flat)}:
        if 0 < length <= len(flat):
            _mark_last([block for block in flat[:length] if markable(block)], mark)
    return tools, system, messages


def without_breakpoints(request: Request) -> tuple[list[Json], list[Block], list[Message]]:
    """Copies in which only ours can be: whoever wrote the blocks, their breakpoints are dropped."""
    tools = [_stripped(tool) for tool in request.tools]
    system = [_stripped(block) for block in request.system]
    messages: list[Message] = [
        {**message, "content": [_stripped(block) for block in blocks_of(message["content"])]}
        for message in request.messages
    ]
    return tools, system, messages


def markable(block: Block) -> bool:
    """May this block carry a breakpoint? Thinking and empty text may not."""
    kind = block.get("type")
    return kind not in _NEVER_MARKED and not (kind == "text" and not block.get("text"))


def _mark_last(blocks: Sequence[Json], mark: Json) -> None:
    if blocks:
        blocks[-1]["cache_control"] = dict(mark)


def _stripped(block: Json) -> Json:
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    content: Any = bare.get("content")
    if isinstance(content, list):
        bare["content"] = [
            _stripped(cast("Json", item)) if isinstance(item, dict) else item
            for item in cast("list[Any]", content)
        ]
    return bare
