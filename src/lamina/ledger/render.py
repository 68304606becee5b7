"""Canonical bytes: what "the same prompt" means, block by block, without cache breakpoints.

Pure. The hash of a view is a chain over (role, bytes of a block), so that growth costs only what
is new and two views can be compared by position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, cast

import msgspec

from lamina.messages import Block, Json, Message, Request

_encode = msgspec.json.Encoder(order="deterministic").encode

START = b"\0" * 16


def canonical(value: Any) -> bytes:
    """The bytes that are compared: keys in order, no spaces, no `cache_control`."""
    if isinstance(value, dict) and "cache_control" in value:
        value = {key: item for key, item in cast("Json", value).items() if key != "cache_control"}
    return _encode(value)


def link(previous: bytes, role: str, block: bytes) -> bytes:
    """The chain's next hash."""
    return blake2b(block, digest_size=16, key=previous, person=role.encode()[:16]).digest()


def flat(messages: Iterable[Message]) -> Iterator[tuple[str, Block]]:
    """(role, block) in order: what a prefix is made of."""
    for message in messages:
        role = message["role"]
        for block in message["content"]:
            yield role, block


def prefix_length(old: Sequence[Message], new: Sequence[Message]) -> int:
    """How many blocks, from the first, are the same in both."""
    count = 0
    for (old_role, old_block), (new_role, new_block) in zip(flat(old), flat(new), strict=False):
        if old_role != new_role:
            break
        if old_block is not new_block and canonical(old_block) != canonical(new_block):
            break
        count += 1
    return count


def digest(request: Request) -> str:
    """A hash of all that the model is sent: system, tools, messages."""
    return blake2b(request_bytes(request), digest_size=16).hexdigest()


def request_bytes(request: Request) -> bytes:
    """The whole request as canonical bytes: one line for system, tools and each block."""
    lines = [
        canonical(list(request.system)),
        canonical(list(request.tools)),
        *(role.encode() + b" " + canonical(block) for role, block in flat(request.messages)),
    ]
    return b"\n".join(lines)
